"""Columns of `features` in words; they are computed from the tables and so are never joined."""

from __future__ import annotations

from thermostats.tables.schemas import (
    FLAG,
    FLOAT,
    FUNCTION,
    INTEGER,
    MODELS,
    RUNS,
    STORED,
    TEXT,
    Column,
    column,
    number,
)
from thermostats.tables.vocabulary import GAINS, MODEL, READ_GAINS, RUN

MEANING = "computed from the tables: one row per model, revision and source, prompt set and precision"
OF_GAINS = {
    "": ("{1}; mean over prompts", FLOAT, "ratio"),
    "_geometric": ("exp of the mean over prompts of log {0}; empty where only averages are known", FLOAT, "ratio"),
    "_sd": ("standard deviation over prompts of {0}", FLOAT, "ratio"),
    "_n": ("prompts that {0} rests on; 0: an average was published", INTEGER, "count"),
}
TRANSITION = "L_star_{definition}_{trace variant}"
"""Stands for as many columns as the table transitions has definitions and curves."""
FEATURES: dict[str, Column] = {
    **{label: RUNS.columns[label] for label in RUN},
    "token_position": column(TEXT, "that of the gains, as `position` of the table layers"),
    "n_prompts": column(INTEGER, "most prompts that one of its gains rests on", "count"),
    **{label: declared for label, declared in MODELS.columns.items() if label not in MODEL},
    "rho": number("head density, H/d_h", "ratio"),
    "aspect": number("d/L", "ratio"),
    "kv_ratio": number("K/H", "ratio"),
    "ff_ratio": number("d_ff/d", "ratio"),
    "log10_n_params": number("log10 of n_params", "log10"),
    "log10_n_params_nonembedding": number("log10 of n_params_nonembedding", "log10"),
    "comparable": column(FLAG, "false where the norm comes after the residual sum: gains are near 1 by construction"),
    **{
        f"{gain}{ending}": column(
            dtype,
            words.format(gain, formula),
            unit,
            of="" if ending == "_n" else FUNCTION if gain in READ_GAINS else STORED,
        )
        for gain, formula in (GAINS | READ_GAINS).items()
        for ending, (words, dtype, unit) in OF_GAINS.items()
    },
    TRANSITION: number("transition layer L*, mean over prompts; see transitions", "1-based layer", of=STORED),
    f"{TRANSITION}_sd": number("its standard deviation over prompts", "layers", of=STORED),
    "wv_norm": number("mean over layers of the spectral norm of W_V", "norm", of=STORED),
    "wo_norm": number("the same of W_O", "norm", of=STORED),
    "wv_wo_ratio": number("wv_norm/wo_norm", "ratio", of=STORED),
}
"""Every column in its order, with type, unit and meaning."""
