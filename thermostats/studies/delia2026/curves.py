"""The universes of questions about the study's models: rows that some universe reads, and options as data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import EXTERNAL, Evidence
from thermostats.modelling.specification.estimators import normal_scores
from thermostats.modelling.specification.universes import Choices, Option
from thermostats.studies.delia2026.audit import FOCAL
from thermostats.studies.delia2026.gains import LEVEL, NAMED_GAINS, gains
from thermostats.tables.model_rows import model_rows

FACTS = ["model_id", "heritage", "family", "comparable", "n_prompts", "lower", "upper", "gain", "log_gain", "rho"]
SHAPE = ["n_layers", "n_heads", "d_head", "d_model", "n_params", "n_params_nonembedding"]
COLUMNS = tuple(gain.column for gain in NAMED_GAINS)

PROMPTS: Mapping[str, Option] = {
    "arithmetic mean": "prompts == 'arithmetic'",
    "geometric mean": "prompts == 'geometric'",
}
"""Aggregation over prompts; where mean and SD alone are published the geometric mean is m·exp(−(SD/m)²/2)."""
SETS: Mapping[str, Option] = {"the study's": "set == 'study'", "with other people's": ""}
ERRORS: Mapping[str, Option] = {"log gain": "", "normal scores": normal_scores}


def outcomes(*left_out: str) -> dict[str, Option]:
    """Named gains, their log the outcome."""
    chosen = [gain for gain in NAMED_GAINS if gain.column not in left_out]
    return {SHORT[gain.column]: {"outcome": f"log({gain.column})"} for gain in chosen}


SHORT = {
    "penultimate_gain": "penultimate block",
    "normed_gain": "last, final norm in it",
    "geometric_gain_to_penultimate": "mean per block",
    "max_gain_to_penultimate": "largest block",
}


def every_universe(evidence: Evidence) -> pd.DataFrame:
    """Models of the study and of other people, each with gains averaged over prompts in both ways.

    Columns besides those of `gains`: `set` (study, or external for models that the study lacks), `prompts`, `focal`,
    and `lab` and `clade`, heritage and family that no option changes.
    """
    study, others = gains(evidence), model_rows(evidence.named(EXTERNAL), incomparable=True)
    others = others[~others["model_id"].isin(study["model_id"])]
    frames = []
    for name, rows in (("study", study), ("external", others)):
        facts = rows[[*FACTS, *SHAPE, *COLUMNS]].assign(set=name, lab=rows["heritage"], clade=rows["family"])
        facts["focal"] = facts["heritage"] == FOCAL
        frames.append(facts.assign(prompts="arithmetic"))
        frames.append(facts.assign(prompts="geometric", **{c: rows[c] * geometric(rows, c) for c in COLUMNS}))
    return pd.concat(frames, ignore_index=True).astype(dict.fromkeys((*COLUMNS, *SHAPE), float))


def of_means(evidence: Evidence) -> pd.DataFrame:
    """The same of arithmetic means over prompts alone, where the other mean moves nothing."""
    return every_universe(evidence).query("prompts == 'arithmetic'").reset_index(drop=True)


def of_the_study(evidence: Evidence) -> pd.DataFrame:
    """The same without other people's models."""
    return every_universe(evidence).query("set == 'study'").reset_index(drop=True)


def geometric(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Geometric over arithmetic mean over prompts; 1 where neither prompts nor their SD are known."""
    exact = rows[f"{gain}_geometric"] / rows[gain]
    return exact.fillna(np.exp(-((rows[f"{gain}_sd"] / rows[gain]) ** 2) / 2)).fillna(1.0).astype(float)


def labs_of_two(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of labs that have two or more."""
    return rows[rows.groupby("heritage")["model_id"].transform("size") > 1].reset_index(drop=True)


MODELS: Mapping[str, Option] = {
    "comparable": "comparable",
    "pinned by a norm too": "",
    "labs of two or more": ("comparable", labs_of_two),
}
LABS: Mapping[str, Option] = {"lab": "", "family in its place": {"heritage": "family"}}
CATEGORIES = ("Factual", "Syntactic", "Cliche", "Novel", "Nonsense")
"""Categories of the study's prompts."""
NONE = "0 * n_layers"
"""A column that is the same in all rows explains nothing and has no degree of freedom."""
SHAPED = {"log_L": "log(n_layers / d_model)", "log_H": "log(rho)", "log_d_h": NONE, "log_m": NONE}
PLAIN = {"log_L": "log(n_layers)", "log_H": "log(n_heads)", "log_d_h": "log(d_head)", "log_m": NONE}
WEIGHTS, EVERY_WEIGHT = {"log_n": "log(n_params_nonembedding)"}, {"log_n": "log(n_params)"}
CODING_OPTIONS: Mapping[str, Option] = {
    "L, H, d_h | weights": PLAIN | WEIGHTS,
    "L, H, d_h | all weights": PLAIN | EVERY_WEIGHT,
    "L/d, ρ | weights": SHAPED | WEIGHTS,
    "L/d, ρ | all weights": SHAPED | EVERY_WEIGHT,
    "L, ρ | d": SHAPED | {"log_L": "log(n_layers)", "log_n": "log(d_model)"},
    "ρ | L, d": SHAPED | {"log_L": NONE, "log_n": "log(n_layers)", "log_m": "log(d_model)"},
}
"""What counts as shape | as size."""
CODED_BLOCKS = {"heritage": ["heritage"], "geometry": ["log_L", "log_H", "log_d_h"], "scale": ["log_n", "log_m"]}
SHAPE_AND_SIZE = tuple(column for block in ("geometry", "scale") for column in CODED_BLOCKS[block])

CAUSES: Choices = {
    "gain": outcomes("normed_gain"),
    "prompts": PROMPTS,
    "models": MODELS,
    "lab": LABS,
    "shape | size": CODING_OPTIONS,
    "outcome": ERRORS,
}
"""Without other people's models: a lab that one source alone measured cannot be separated from the source."""


def deep_families(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of families with three depths or more."""
    return rows[rows.groupby("family")["n_layers"].transform("nunique") > 2].reset_index(drop=True)


def given_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Depth less what a line over log size, with a level for each family, says of it."""
    levels = pd.get_dummies(rows["family"], dtype=float)
    x = np.column_stack([levels, np.log(rows["n_params_nonembedding"])])
    depth = rows["n_layers"].to_numpy(float)
    return rows.assign(n_layers=depth - x @ np.linalg.lstsq(x, depth, rcond=None)[0])


PYTHIA = "set == 'study' and family == 'pythia'"
DEPTH: Choices = {
    "gain": outcomes(),
    "prompts": PROMPTS,
    "models": {
        "Pythia": PYTHIA,
        "Pythia, smallest left out": f"{PYTHIA} and n_layers > 6",
        "the study's families": ("set == 'study' and comparable", deep_families),
        "other people's too": ("comparable", deep_families),
    },
    "depth": {"L": "", "log L": {"n_layers": "log(n_layers)"}, "L given size": given_size},
    "outcome": {"gain": lambda rows: rows.assign(outcome=np.exp(rows["outcome"])), **ERRORS},
}
SIGNS: Choices = {
    "gain": outcomes(),
    "prompts": PROMPTS,
    "models": MODELS,
    "rows": SETS,
    "unit": {"family": "", "lab": {"family": "lab"}, "model": {"family": "model_id"}},
}
DENSITY: Choices = {
    "gain": outcomes(),
    "models": {
        "not Pythia": "comparable and family != 'pythia'",
        "not EleutherAI": "comparable and lab != 'EleutherAI'",
        "every family": "comparable",
        "labs of two or more": ("comparable and family != 'pythia'", labs_of_two),
    },
    "rows": SETS,
    "level of the lab": {"stays": {"within": NONE}, "removed": {"within": "lab"}},
}


def over_the_bound(rows: pd.DataFrame) -> pd.DataFrame:
    """The log of gain over bound as the outcome, instead of that of the gain."""
    return rows.assign(outcome=rows["outcome"] - np.log(10) / rows["blocks"])


def above_the_bound(rows: pd.DataFrame) -> pd.DataFrame:
    """Gain, bound and relative error as the test of the bound reads them, of rows of `over_the_bound`.

    The error over prompts is that of the penultimate gain, the one that was published.
    """
    bound = 10 ** (1 / rows["blocks"])
    half = (rows["upper"] - rows["gain"]) / rows["gain"]
    error = half / stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"].fillna(1) - 1)
    return rows.assign(outcome=np.exp(rows["outcome"]) * bound, bound=bound, error=error)


BOUND: Choices = {
    "gain": outcomes("normed_gain"),
    "prompts": PROMPTS,
    "models": {"comparable": "comparable", "pinned by a norm too": ""},
    "rows": SETS,
    "bound": {
        "10^(1/L)": ({"blocks": "n_layers"}, over_the_bound),
        "10^(1/(L − 2))": ({"blocks": "n_layers - 2"}, over_the_bound),
    },
}
"""The second bound shares 10 out over the blocks that such a gain is of, 2 to L − 1."""


def sided(rows: pd.DataFrame) -> pd.DataFrame:
    """Which models dampen, and clearly so, as the test of signs reads them."""
    value, low, high = np.exp(rows["outcome"]), rows["lower"] / rows["gain"], rows["upper"] / rows["gain"]
    clear = (value * high < 1) | (value * low > 1)
    return rows.assign(value=value, dampens=value < 1, clear=clear)


HIERARCHY: Choices = {
    "gain and models": {
        "last gain, four models": "of == 'last' and four",
        "last gain, base and tuned": "of == 'last'",
        "last gain, tuned for base": "of == 'last' and (tuned or family == 'pythia')",
        "total amplification": "of == 'total'",
    },
    "prompts": {"all": "", **{f"not {name}": f"category != '{name}'" for name in CATEGORIES}},
}
