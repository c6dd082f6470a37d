"""A controlled study: small language models trained by designed recipes, and measured like any other."""

from thermostats.claims.study import InReport, Study

STUDY = Study(
    name="nursery",
    title="A controlled study of small language models trained by designed recipes",
    letter="N",
    report=InReport(
        heading="The nursery: a controlled study",
        fixed="written before a trained model was analysed{% if changed %}, and changed since{% endif %}",
        about="The models are small and were trained briefly on two corpora, or four. Three studies: 96 models of "
        "16 recipes from a balanced design; 440 models of 32 recipes drawn at random and four chosen ones; "
        "and 656 models of 20 recipes drawn at random, each trained on every corpus. Recipes are therefore "
        "known causes here, but whether the results carry over to large models is a hypothesis.",
    ),
    tables={"nursery_design": "design", "nursery_training": "training", "nursery_losses": "losses"}
    | {f"{of}_{name}": f"{of}/{name}" for of in ("second", "third") for name in ("models", "gains", "prompts")},
    read_table="thermostats.studies.nursery.shipped:shipped_table",
)
