"""Questions of our own beyond decoders: encoders and vision models."""

from thermostats.claims.study import InReport, Study

STUDY = Study(
    name="beyond",
    title="Encoders and vision models, measured by the same instrument",
    letter="X",
    report=InReport(
        heading="Beyond decoders: encoders and vision models",
        fixed="written before the shipped rows were analysed; that the lineage of X01 crosses 1 on random inputs "
        "was known",
        about="The study asks whether its patterns appear outside decoders. The trained encoders and the vision "
        "model available here come with packages and are few, so these pages describe what was seen in them, "
        "not what holds for such models in general.",
    ),
)
