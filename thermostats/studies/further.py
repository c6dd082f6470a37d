"""Questions beyond the study's: its figures measured again, encoders and vision models, descent."""

from thermostats.claims.study import InReport, Study

REPLICATION = Study(
    name="replication",
    title="Published figures, measured again",
    letter="R",
    report=InReport(
        heading="Published figures, measured again",
        fixed="written before any of the study’s models was measured here",
        about="Published figures are held against measurements of the same models, by anyone who "
        "joins theirs.",
        further=("R01",),
    ),
)
BEYOND = Study(
    name="beyond",
    title="Encoders and vision models, measured by the same instrument",
    letter="X",
    report=InReport(
        heading="Beyond decoders: encoders and vision models",
        fixed="written before the shipped rows were analysed; that the lineage of X01 crosses 1 on "
        "random inputs "
        "was known",
        about="The study asks whether its patterns appear outside decoders. The trained encoders "
        "and the vision "
        "model available here come with packages and are few, so these pages describe what was "
        "seen in them, "
        "not what holds for such models in general.",
        further=("X02",),
    ),
)
DESCENT = Study(
    name="descent",
    title="Descent: what models have of the models that they come from",
    letter="H",
    report=InReport(
        heading="Descent: what is inherited of the gain",
        fixed="written before it was put to the tree of descent{% if changed %}, and changed "
        "since{% endif %}; the "
        "gains of the models were known",
        about="Labs, families and parents of models make a tree of descent, drawn with what is "
        "stated of them. "
        "These claims ask of all evidence what of the gain follows the tree. Models descend from "
        "few labs, "
        "and no lab was drawn at random, so what is found need not hold for others.",
    ),
)
