"""Questions of our own about the study's figures: what a measurement of the same models finds."""

from thermostats.claims.study import InReport, Study

STUDY = Study(
    name="replication",
    title="Published figures, measured again",
    letter="R",
    report=InReport(
        heading="Published figures, measured again",
        fixed="written before any of the study’s models was measured here",
        about="Published figures are held against measurements of the same models, by anyone who joins theirs.",
    ),
)
