"""A controlled study: small language models trained by designed recipes, and measured like any other."""

from thermostats.claims.study import InReport, Study
from thermostats.studies.nursery.shipped import READ, of_third

THIRD = of_third()

STUDY = Study(
    name="nursery",
    title="A controlled study of small language models trained by designed recipes",
    letter="N",
    report=InReport(
        heading="The nursery: a controlled study",
        fixed="written before a trained model was analysed{% if changed %}, and changed since{% endif %}",
        about="The models are small and were trained briefly. N01 to N05 ask the third of three studies: "
        f"{THIRD['models']} models, {THIRD['recipes']} recipes drawn at random, each trained on {THIRD['corpora']} "
        f"corpora at {THIRD['shapes']} shapes, {THIRD['repeats']} of them again with another seed; "
        f"{THIRD['tuned']} more were tuned from them. Recipes are therefore known causes here, but whether the results "
        "carry over to large models is a hypothesis.",
    ),
    tables={"nursery_design": "design", "nursery_training": "training", "third_models": "third/models"}
    | {f"third_{name}": f"third/read/{name}" for name in READ},
    read_table="thermostats.studies.nursery.shipped:shipped_table",
)
