"""Questions of our own beyond decoders: encoders and vision models."""

from thermostats.claims.study import Study

STUDY = Study(
    name="beyond",
    title="Encoders and vision models, measured by the same instrument",
    letter="X",
    claims="Beyond decoders: encoders and vision models",
    fixed="written before the shipped rows were analysed; that the lineage of X01 crosses 1 on random inputs was known",
    about="The study asks whether its patterns appear outside decoders. The trained encoders and the vision model at "
    "hand come with packages and are few, so that these pages say what was seen in them, not what holds of their kind.",
)
