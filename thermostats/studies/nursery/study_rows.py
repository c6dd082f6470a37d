"""Rows of the first study's trained models, which claims of the study read, and estimates over
units left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate
from thermostats.modelling.draws import Array
from thermostats.studies.delia2026.published_gains import LEVEL
from thermostats.tables.schemas import NURSERY

DESIGN = [
    *("model", "recipe", "optimiser", "init", "decay", "schedule", "peak", "dropout", "corpus"),
    *("architecture", "norm", "position", "tied"),
    *("n_layers", "d_model", "n_heads", "d_head", "rho", "seed", "replicate_of"),
]
LOGS = {
    "log_L": "n_layers",
    "log_H": "n_heads",
    "log_d_h": "d_head",
    "log_rho": "rho",
    "log_d": "d_model",
    "log_n": "n_params_nonembedding",
}
"""Logs of geometry and scale, and the columns that they are of."""


def load_checkpoints(tables: Evidence) -> pd.DataFrame:
    """One row per trained model and checkpoint, fine-tuned ones too.

    Columns: `model` (that of the design), `heritage` (its recipe), `tuned`, `step`, `share` (of the
    training's steps), all columns of the design, `learned`, `loss` and `loss_unigram` of the
    training (held out, nat per token), and the gains and features of the table `features` (those of
    the runs with and without eager attention in one row), without the columns that the design
    has.
    """
    measured = (
        tables.table("features", source=NURSERY)
        .groupby(["model_id", "revision"], as_index=False)
        .first()
    )
    training = tables.table("nursery_training")
    names = measured["model_id"].str.removeprefix(f"{NURSERY}/")
    steps = measured["revision"].str.removeprefix("step")
    designed = [name for name in DESIGN if name in measured]
    measured = measured.drop(columns=designed).assign(
        trained=names,
        tuned=names.str.endswith("-tuned"),
        model=names.str.removesuffix("-tuned"),
        step=steps.astype(int),
    )
    records = training.rename(columns={"model": "trained"})[
        ["trained", "steps", "learned", "loss", "loss_unigram"]
    ]
    rows = measured.merge(records, on="trained", how="left").merge(
        tables.table("nursery_design")[DESIGN], on="model"
    )
    rows = rows.assign(heritage=rows["recipe"], share=rows["step"] / rows["steps"])
    return rows.sort_values(["trained", "step"], ignore_index=True)


def select_final(tables: Evidence) -> pd.DataFrame:
    """Rows of `load_checkpoints` at the end of training, one a model of the design, with logs of
    geometry and scale.

    Further columns: log_L, log_H, log_d_h, log_rho, log_d, log_n (non-embedding weights).
    """
    rows = load_checkpoints(tables)
    rows = rows[~rows["tuned"] & (rows["step"] == rows["steps"])].reset_index(drop=True)
    return add_logs(rows)


def add_logs(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the columns of `LOGS`."""
    return rows.assign(
        **{name: np.log(rows[column].astype("float64")) for name, column in LOGS.items()}
    )


def build_t_estimate(value: float, error: float, df: float, interval: str) -> Estimate:
    """A value with its 95% t interval and the two-sided p that it is 0."""
    half = stats.t.ppf((1 + LEVEL) / 2, df) * error
    p = 2 * stats.t.sf(abs(value) / error, df)
    return Estimate(float(value), float(value - half), float(value + half), interval, float(p))


def fit_inner_slope(
    rows: pd.DataFrame, outcome: str, term: str, group: str, others: Sequence[str] = ()
) -> tuple[float, float, int]:
    """Least squares given other columns, every group with a level of its own: slope, its error,
    degrees of freedom."""
    others_of = np.column_stack([pd.get_dummies(rows[group]), rows[list(others)]]).astype(
        np.float64
    )
    both = rows[[outcome, term]].to_numpy(np.float64)
    y, x = (both - others_of @ np.linalg.lstsq(others_of, both, rcond=None)[0]).T
    value = float(x @ y / (x @ x))
    df = len(rows) - int(np.linalg.matrix_rank(others_of)) - 1
    return value, float(np.sqrt(np.square(y - value * x).sum() / df / (x @ x))), df


def run_jackknife(
    units: pd.Series, figures: Callable[[npt.NDArray[np.bool_]], npt.ArrayLike]
) -> tuple[Array, Array, Array]:
    """Figures of all rows, of all without each unit in turn, and half widths of their 95% t
    intervals.

    figures: of the rows that a mask keeps.
    """
    codes, names = pd.factorize(units, sort=True)
    estimate = np.atleast_1d(np.asarray(figures(np.ones(len(units), dtype=bool)), dtype=np.float64))
    left = np.array([np.atleast_1d(figures(codes != code)) for code in range(len(names))])
    return estimate, left, measure_half_width(left)


def measure_half_width(left: Array) -> Array:
    """Half the width of the jackknife's 95% t interval, from the figures without each unit in
    turn."""
    n = len(left)
    error = np.sqrt((n - 1) / n * np.square(left - left.mean(axis=0)).sum(axis=0))
    return np.asarray(stats.t.ppf((1 + LEVEL) / 2, n - 1) * error)


LATE = 0.75
"""Late layers are those beyond this share of the depth."""


def select_end_rows(tables: Evidence, name: str, **equals: str | list[str]) -> pd.DataFrame:
    """Rows of a run-keyed table of the trained models at the end of training, `heritage` being the
    recipe.

    The columns `learned`, `comparable` and `n_layers` come from the models.
    """
    models = select_final(tables)[
        ["model_id", "revision", "recipe", "learned", "comparable", "n_layers"]
    ]
    rows = tables.table(name, source=NURSERY, **equals).drop(columns="heritage")
    return rows.merge(models.rename(columns={"recipe": "heritage"}), on=["model_id", "revision"])


def load_trained_norms(tables: Evidence) -> pd.DataFrame:
    """One row per trained model: columns of `select_final`, with its recipe as `heritage`.

    `ratio` and `ratio_cut`: ‖W_V‖₂/‖W_O‖₂, means over layers, with the right W_V and with the rows
    that the study took for it; `late` and `late_cut`: mean ‖W_V‖₂² over the last quarter of the
    layers, in the same two ways. `fused`: whether the two are cut from a fused matrix; where it is
    not they are the same thing. `gain`, `lower`, `upper`: penultimate gain with its 95% t interval
    over prompts.
    """
    rows = select_final(tables)
    thirds = "W_V_published_thirds"
    weights = select_end_rows(tables, "weights", head="", matrix=["W_V", "W_O", thirds])
    layers = weights.pivot_table(
        index=["model_id", "n_layers", "layer"], columns="matrix", values="spectral_norm"
    )
    layers = layers.reindex(columns=["W_V", "W_O", thirds]).astype(float).reset_index()
    layers["cut"] = layers[thirds].fillna(layers["W_V"])
    means = layers.groupby("model_id")[["W_V", "W_O", thirds]].mean().dropna(subset=["W_V", "W_O"])
    late = layers[layers["layer"] > LATE * layers["n_layers"]]
    squared = late[["W_V", "cut"]].pow(2).groupby(late["model_id"]).mean()
    cut = means[thirds].fillna(means["W_V"])
    gain = rows["penultimate_gain"]
    prompts = rows["penultimate_gain_n"].astype(float)
    half = stats.t.ppf(0.975, prompts - 1) * rows["penultimate_gain_sd"] / np.sqrt(prompts)
    names = rows["model_id"]
    return rows.assign(
        ratio=names.map(means["W_V"] / means["W_O"]),
        ratio_cut=names.map(cut / means["W_O"]),
        fused=names.map(means[thirds].notna()).eq(True),
        late=names.map(squared["W_V"]),
        late_cut=names.map(squared["cut"]),
        gain=gain,
        lower=gain - half,
        upper=gain + half,
    )


def load_trained_unembeddings(tables: Evidence) -> pd.DataFrame:
    """One row per comparable trained model: columns of `select_final`, `heritage` (recipe),
    spectral norm, logs of both."""
    norms = (
        select_end_rows(tables, "weights", head="", matrix="unembedding")
        .groupby("model_id")["spectral_norm"]
        .first()
    )
    models = select_final(tables)
    table = models[models["comparable"].astype(bool)]
    table = table.assign(spectral_norm=table["model_id"].map(norms).astype(float))
    table = table.dropna(subset=["spectral_norm", "last_gain"])
    return table.assign(
        log_norm=np.log(table["spectral_norm"]), log_gain=np.log(table["last_gain"].astype(float))
    )
