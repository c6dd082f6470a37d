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
from thermostats.modelling.classical.many import measure_margin
from thermostats.modelling.draws import Array
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
SIDES_OF_INTERVAL = np.array([0, -1, 1])
"""Of an estimate, the lower and the upper end of its interval."""


def load_checkpoints(tables: Evidence) -> pd.DataFrame:
    """One row per trained model and checkpoint, fine-tuned ones too.

    Columns: `model` (that of the design), `heritage` (its recipe), `tuned`, `step`, `share` (of the
    training's steps), all columns of the design, `learned`, `loss` and `loss_unigram` of the
    training (held out, nat per token), and the gains and features of the table `features` (those of
    the runs with and without eager attention in one row), without the columns that the design
    has.
    """
    features = tables.table("features", source=NURSERY)
    measured = features.groupby(["model_id", "revision"], as_index=False).first()
    training = tables.table("nursery_training")
    names = measured["model_id"].str.removeprefix(f"{NURSERY}/")
    steps = measured["revision"].str.removeprefix("step")
    designed = [name for name in DESIGN if name in measured]
    measured = measured.drop(columns=designed)
    measured["trained"] = names
    measured["tuned"] = names.str.endswith("-tuned")
    measured["model"] = names.str.removesuffix("-tuned")
    measured["step"] = steps.astype(int)
    columns = ["trained", "steps", "learned", "loss", "loss_unigram"]
    records = training.rename(columns={"model": "trained"})[columns]
    rows = measured.merge(records, on="trained", how="left")
    design = tables.table("nursery_design")
    rows = rows.merge(design[DESIGN], on="model")
    share = rows["step"] / rows["steps"]
    rows = rows.assign(heritage=rows["recipe"], share=share)
    return rows.sort_values(["trained", "step"], ignore_index=True)


def select_final(tables: Evidence) -> pd.DataFrame:
    """Rows of `load_checkpoints` at the end of training, one a model of the design, with logs of
    geometry and scale.

    Further columns: log_L, log_H, log_d_h, log_rho, log_d, log_n (non-embedding weights).
    """
    rows = load_checkpoints(tables)
    finished = rows["step"] == rows["steps"]
    at_end = ~rows["tuned"] & finished
    rows = rows[at_end].reset_index(drop=True)
    return add_logs(rows)


def add_logs(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the columns of `LOGS`."""
    logs = {name: np.log(rows[column].astype("float64")) for name, column in LOGS.items()}
    return rows.assign(**logs)


def build_t_estimate(value: float, error: float, df: float, interval: str) -> Estimate:
    """A value with its 95% t interval and the two-sided p that it is 0."""
    half = measure_margin(error, df)
    t = abs(value) / error
    p = 2 * stats.t.sf(t, df)
    ends = (float(value - half), float(value + half))
    return Estimate(float(value), *ends, interval, float(p))


def record_ends(name: str, at: Estimate) -> dict[str, float | None]:
    """An estimate and the ends of its interval, by a name."""
    return {name: at.value, f"{name}_lower": at.lower, f"{name}_upper": at.upper}


def encode_levels(rows: pd.DataFrame, group: str, others: Sequence[str] = ()) -> Array:
    """A column for each group, and other columns of numbers."""
    levels = pd.get_dummies(rows[group])
    columns = np.column_stack([levels, rows[list(others)]])
    return columns.astype(float)


def fit_inner_slope(
    rows: pd.DataFrame, outcome: str, term: str, group: str, others: Sequence[str] = ()
) -> tuple[float, float, int]:
    """Least squares given other columns, every group with a level of its own: slope, its error,
    degrees of freedom."""
    given = encode_levels(rows, group, others)
    both = rows[[outcome, term]].to_numpy(float)
    y, x = remove_columns(both, given).T
    squared = x @ x
    value = float(x @ y / squared)
    rank = int(np.linalg.matrix_rank(given))
    df = len(rows) - rank - 1
    left = y - value * x
    variance = np.square(left).sum() / df
    error = float(np.sqrt(variance / squared))
    return value, error, df


def remove_columns(values: Array, columns: Array) -> Array:
    """Values less what least squares on the columns says of them."""
    slopes, *_ = np.linalg.lstsq(columns, values, rcond=None)
    return np.asarray(values - columns @ slopes)


def run_jackknife(
    units: pd.Series, figures: Callable[[npt.NDArray[np.bool_]], npt.ArrayLike]
) -> tuple[Array, Array, Array]:
    """Figures of all rows, of all without each unit in turn, and half widths of their 95% t
    intervals.

    figures: of the rows that a mask keeps.
    """
    codes, names = pd.factorize(units, sort=True)
    every = np.ones(len(units), dtype=bool)
    of_all = np.asarray(figures(every), dtype=float)
    estimate = np.atleast_1d(of_all)
    left = []
    for code in range(len(names)):
        left.append(np.atleast_1d(figures(codes != code)))
    without = np.array(left)
    return estimate, without, measure_half_width(without)


def measure_half_width(left: Array) -> Array:
    """Half the width of the jackknife's 95% t interval, from the figures without each unit in
    turn."""
    n = len(left)
    off = left - left.mean(axis=0)
    squares = np.square(off).sum(axis=0)
    error = np.sqrt((n - 1) / n * squares)
    return measure_margin(error, n - 1)


LATE = 0.75
"""Late layers are those beyond this share of the depth."""


def select_end_rows(tables: Evidence, name: str, **equals: str | list[str]) -> pd.DataFrame:
    """Rows of a run-keyed table of the trained models at the end of training, `heritage` being the
    recipe.

    The columns `learned`, `comparable` and `n_layers` come from the models.
    """
    columns = ["model_id", "revision", "recipe", "learned", "comparable", "n_layers"]
    models = select_final(tables)[columns].rename(columns={"recipe": "heritage"})
    rows = tables.table(name, source=NURSERY, **equals)
    rows = rows.drop(columns="heritage")
    return rows.merge(models, on=["model_id", "revision"])


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
    matrices = ["W_V", "W_O", thirds]
    weights = select_end_rows(tables, "weights", head="", matrix=matrices)
    layers = weights.pivot_table(
        index=["model_id", "n_layers", "layer"], columns="matrix", values="spectral_norm"
    )
    layers = layers.reindex(columns=matrices).astype(float)
    layers = layers.reset_index()
    layers["cut"] = layers[thirds].fillna(layers["W_V"])
    means = layers.groupby("model_id")[matrices].mean()
    means = means.dropna(subset=["W_V", "W_O"])
    first_late = LATE * layers["n_layers"]
    late = layers[layers["layer"] > first_late]
    squares = late[["W_V", "cut"]].pow(2)
    squared = squares.groupby(late["model_id"]).mean()
    cut = means[thirds].fillna(means["W_V"])
    gain = rows["penultimate_gain"]
    prompts = rows["penultimate_gain_n"].astype(float)
    reach = measure_margin(rows["penultimate_gain_sd"], prompts - 1)
    half = reach / np.sqrt(prompts)
    names = rows["model_id"]
    norms = {
        "ratio": names.map(means["W_V"] / means["W_O"]),
        "ratio_cut": names.map(cut / means["W_O"]),
        "fused": names.map(means[thirds].notna()).eq(True),
        "late": names.map(squared["W_V"]),
        "late_cut": names.map(squared["cut"]),
    }
    return rows.assign(**norms, gain=gain, lower=gain - half, upper=gain + half)


def load_trained_unembeddings(tables: Evidence) -> pd.DataFrame:
    """One row per comparable trained model: columns of `select_final`, `heritage` (recipe),
    spectral norm, logs of both."""
    weights = select_end_rows(tables, "weights", head="", matrix="unembedding")
    norms = weights.groupby("model_id")["spectral_norm"].first()
    models = select_final(tables)
    table = models[models["comparable"].astype(bool)]
    norm = table["model_id"].map(norms)
    table = table.assign(spectral_norm=norm.astype(float))
    table = table.dropna(subset=["spectral_norm", "last_gain"])
    gains = table["last_gain"].astype(float)
    return table.assign(log_norm=np.log(table["spectral_norm"]), log_gain=np.log(gains))
