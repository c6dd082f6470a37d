"""A controlled study: small language models trained by designed recipes, and measured like any other."""

from thermostats.claims.study import Study

STUDY = Study(
    name="nursery",
    title="A controlled study of small language models trained by designed recipes",
    verbs="thermostats.studies.nursery.cli:app",
)
