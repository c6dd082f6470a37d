"""Questions of our own about descent: what models have of lab, family and the models that they come from."""

from thermostats.claims.study import InReport, Study

STUDY = Study(
    name="descent",
    title="Descent: what models have of the models that they come from",
    letter="H",
    report=InReport(
        heading="Descent: what is inherited of the gain",
        fixed="written before it was put to the tree of descent{% if changed %}, and changed since{% endif %}; the "
        "gains of the models were known",
        about="Labs, families and parents of models make a tree of descent, drawn with what is stated of them. "
        "These claims ask of all evidence what of the gain follows the tree. Models descend from few labs, "
        "and no lab was drawn at random, so what is found need not hold for others.",
    ),
)
