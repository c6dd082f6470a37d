"""A controlled study: small language models trained by designed recipes, and measured like any other."""

from thermostats.claims.study import InReport, Study
from thermostats.studies.nursery.shipped import READ, of_third

COMPOSITION = (
    "{models} models, of {recipes} recipes drawn at random, each trained on {corpora} corpora at {shapes} shapes, "
    "{repeats} of them again with another seed, and {tuned} tuned from them"
).format(**of_third())

STUDY = Study(
    name="nursery",
    title="A controlled study of small language models trained by designed recipes",
    letter="N",
    report=InReport(
        heading="The nursery: a controlled study",
        fixed="written before a trained model was analysed{% if changed %}, and changed since{% endif %}",
        about="The models are small and were trained briefly. N01 to N05 ask the third of three studies: "
        f"{COMPOSITION}. Recipes are therefore known causes here, but whether the results carry over to large models "
        "is a hypothesis.",
    ),
    tables={"nursery_design": "design", "nursery_training": "training", "third_models": "third/models"}
    | {f"third_{name}": f"third/read/{name}" for name in READ},
    apart="The table of models and the set nursery hold the first controlled study. The third, which N01 to N05 ask, "
    f"is in tables of its own: {COMPOSITION}.",
    read_table="thermostats.studies.nursery.shipped:shipped_table",
)
