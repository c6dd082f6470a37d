"""A controlled study: small language models trained by designed recipes, and measured like any
other.

Its tables that are read ship with the package, the others are in the repository.
"""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING, Any

from thermostats.claims.study import InReport, Study
from thermostats.errors import DataError
from thermostats.tables.folders import INSTALLED, find_shipped

if TYPE_CHECKING:
    import pandas as pd

MODELS = (
    *("model", "recipe", "kind", "parent", "replicate_of"),
    *("n_layers", "d_model", "n_heads", "d_head", "rho", "seed"),
    *("optimiser", "rate", "decay", "schedule", "warmup", "batch"),
    *("init", "depth_power", "embed", "dropout", "clip"),
    *("corpus", "steps", "tokens", "loss", "loss_unigram", "loss_bigram", "learned"),
)
GAINS = ("model", "step", "layer", "log_gain", "log_gain_sd", "wv_norm", "wo_norm")
PROMPTS = ("model", "prompts", "prompt", "position", "last_gain", "penultimate_gain")
SECOND: dict[str, tuple[str, ...]] = {"models": MODELS, "gains": GAINS, "prompts": PROMPTS}
THIRD: dict[str, tuple[str, ...]] = {**SECOND, "gains": (*GAINS, "prompts")}
FOURTH: dict[str, tuple[str, ...]] = {name: THIRD[name] for name in ("models", "gains")}
"""Tables of the later studies: a row a model; a row a model, checkpoint and layer, means over
prompts (in the third and fourth study over each set of them); a row a model, prompt and position at
the end of training, log gains.
"""
READ: dict[str, tuple[str, ...]] = {
    "gains": ("model", "step", "prompts", "log_gain", "log_gain_sd"),
    "spectra": ("model", "layer", "wv_norm", "wo_norm"),
    "means": ("model", "last_gain", "penultimate_gain_of_mean"),
}
"""What is read of the third study's, as `scripts/nursery_tables.py` makes it: gains of block L − 1;
spectra at the end; means over prompts of the model's own corpus at the end, of the last gain and of
block L − 1's of the mean over tokens.
"""
CSV: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
"""How empty cells of the later studies' tables are read: a level may be called none."""


def load_shipped_table(name: str = "design") -> pd.DataFrame:
    """A table of the nursery: `design`, `training` (records), `losses`; `second/models`,
    `third/read/gains`, ….

    Raises DataError where it cannot be read, as those that no finding reads where the package is
    installed.
    """
    import pandas as pd  # noqa: PLC0415

    is_csv = "/" not in name or name.endswith(("models", "predictions"))
    suffix = "csv" if is_csv else "parquet"
    path = find_shipped("data") / "nursery" / f"{name}.{suffix}"
    if not path.is_file() and path.is_relative_to(INSTALLED):
        step = "git clone the repository, and read the table in the checkout"
        raise DataError(
            "this table of the nursery is no part of the installed package",
            got=name,
            next_step=step,
        )
    try:
        if suffix == "parquet":
            return pd.read_parquet(path)
        ways = CSV if "/" in name else {}
        if name == "design":
            ways = {"keep_default_na": False}
        return pd.read_csv(path, **ways)
    except (OSError, ValueError) as error:
        raise DataError(
            "a table of the nursery cannot be read", where=path, got=str(error)
        ) from error


@cache
def count_third_study() -> dict[str, int]:
    """How many the third study has: models and recipes of its design, corpora, seeds repeated, and
    tuned models."""
    with (find_shipped("data") / "nursery" / "third" / "models.csv").open(
        encoding="utf-8", newline=""
    ) as lines:
        rows = list(csv.DictReader(lines))
    design = [row for row in rows if not row["kind"]]
    recipes = {row["recipe"].partition("-")[0] for row in design}
    corpora = {row["corpus"] for row in design}
    shapes = {(row["n_layers"], row["rho"], row["d_model"]) for row in design}
    repeats = [row for row in design if row["replicate_of"]]
    return {
        "models": len(design),
        "recipes": len(recipes),
        "corpora": len(corpora),
        "shapes": len(shapes),
        "repeats": len(repeats),
        "tuned": len(rows) - len(design),
    }


COMPOSITION = (
    "{models} models, of {recipes} recipes drawn at random, each trained on {corpora} corpora at "
    "{shapes} shapes, "
    "{repeats} of them again with another seed, and {tuned} tuned from them"
).format(**count_third_study())

STUDY = Study(
    name="nursery",
    title="A controlled study of small language models trained by designed recipes",
    letter="N",
    report=InReport(
        heading="The nursery: a controlled study",
        fixed="written before a trained model was analysed{% if changed %}, and changed since{% "
        "endif %}",
        about="Small models were trained for this, briefly, by recipes drawn at random, so that "
        "what may cause the gain is set by design. N01 to N05 ask the third of three studies: "
        f"{COMPOSITION}. Recipes are therefore known causes here, but whether the results carry "
        f"over to large models "
        "is a hypothesis.",
    ),
    tables={
        "nursery_design": "design",
        "nursery_training": "training",
        "third_models": "third/models",
        "fourth_models": "fourth/models",
    }
    | {"third_predictions": "third/predictions"}
    | {f"third_{name}": f"third/read/{name}" for name in READ},
    apart="The table of models and the set nursery hold the first controlled study. The third, "
    "which N01 to N05 ask, "
    f"is in tables of its own: {COMPOSITION}.",
    read_table="thermostats.studies.nursery:load_shipped_table",
)
