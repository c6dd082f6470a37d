"""Laws that other papers state of the residual stream, put to the same rows."""

from thermostats.claims.study import InReport, Study

STUDY = Study(
    name="literature",
    title="What other papers say of the stream",
    letter="L",
    report=InReport(
        heading="Laws of other papers",
        fixed="written when a first comparison of the two laws on the same rows was known{% if "
        "changed %}, and changed "
        "since{% endif %}",
        about="Other people’s laws of the residual stream, on the rows that the study’s claims "
        "read. Their papers "
        "measured other models, on other prompts and at other positions.",
    ),
)
