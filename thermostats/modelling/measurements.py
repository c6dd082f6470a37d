"""y_r = α + lab_r + model_r + source_r + prompt set_r + precision_r + ε_r: measurements of several
sources together.

y_r is the log of a gain that one source measured of one model, on its prompts and in its precision.
Every kind of effect is normal with a scale of its own, ε_r ~ N(0, σ² + error_r²) is what differs
from run to run. The exact engine draws it. Models that several sources measured tell a source from
its models; of all others only how alike models are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.columns import (
    check_columns,
    check_distinct_units,
    keep_comparable,
    list_names,
    read_labels,
    read_numbers,
    require_columns,
)
from thermostats.modelling.draws import SEED, Array, Statement, Statistic, find_equal_tailed
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.laws import LOG, Law
from thermostats.modelling.mixed_model import (
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    Rest,
    declare_law,
    name_draws,
)
from thermostats.plots.general import draw_forest

OF_MEASUREMENT = ("source", "prompt_set", "dtype")
KINDS = ("heritage", "model_id", *OF_MEASUREMENT)
"""Columns whose values have a level of their own."""
OF_MODELS, OF_LEVELS, MEAN = 0.5, 0.25, 1.0
"""Prior scales: models may differ by a factor e^0.5 = 1.6, two measurements of one by e^0.25 =
1.3."""
LARGE = 0.1
"""The statement: a standard deviation of sources of ten per cent."""


def declare_measurements(kinds: Sequence[str]) -> Mixed:
    """Levels of every kind, with prior scales of each and of what is left."""
    reasons = {
        OF_MODELS: "models that differ by a factor 1.6 are none",
        OF_LEVELS: "measurements of one model that differ by 1.3 are none",
    }
    levels = []
    for kind in kinds:
        scale = OF_LEVELS if kind in OF_MEASUREMENT else OF_MODELS
        levels.append(
            Levels(
                column=kind,
                scale=scale,
                symbol=f"s_{kind}",
                why=reasons[scale],
                effect=f"u_{kind}(r)",
                quantity=f"sd_{kind}",
            )
        )
    mean = Fixed(sd=MEAN, symbol="α", why="gains between a seventh and seven times are no surprise")
    rest = Rest(
        scale=OF_LEVELS,
        why=reasons[OF_LEVELS],
        effect="ε_r",
        quantity="sd_run",
        error="error",
        error_symbol="error_r",
    )
    return Mixed(
        outcome="log_gain",
        left="log G_r",
        fixed=(mean,),
        kinds=tuple(levels),
        rest=rest,
        scale=LOG,
        labels={kind: kind for kind in kinds},
    )


@record_call
def fit_sources(
    table: pd.DataFrame,
    gain: str = "penultimate_gain",
    *,
    seed: int = SEED,
    sources: Sequence[str] = (),
) -> Fit:
    """Ask how much measurements of one gain differ by source, prompt set and precision.

        y_r = α + lab + model + source + prompt set + precision + ε_r, ε_r ~ N(0, σ² + error_r²),
        y the log of a gain

    α ~ N(0, 1); scales are half-normal, 0.5 of labs and models, 0.25 of all others. A measurement
    that states no error has none beyond σ. Kinds with one value are left out, with a warning; kinds
    that coincide are named.

    Parameters
    ----------
    table : DataFrame
        Rows of `features`, one per model and measurement: model_id, heritage, source, prompt_set,
        dtype, `gain` and, where known, `<gain>_sd` over `<gain>_n` prompts, whose error is taken as
        known.
    gain : str
        Column of the gain.
    seed : int
        Of the draws.
    sources : sequence of str
        Where the rows come from.

    Returns
    -------
    Fit
        Quantities: `sd_<kind>` of heritage, model_id, source, prompt_set, dtype and run (σ), and
        the level of every value of each. Statement: "sd of sources > 0.1". Table: `levels`, factors
        by which a source, prompt set or precision multiplies a gain.

    Raises
    ------
    UsageError
        For missing columns or names, gains that are no finite numbers above 0 or all the same, a
        measurement twice, and where no model was measured by two sources.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.features(evidence="pooled").dropna(subset="penultimate_gain")
    >>> fit = thermostats.fit_sources(rows, "penultimate_gain")
    >>> fit.params[["sd_model_id", "sd_source"]].round(2)
    quantity
    sd_model_id    0.09
    sd_source      0.04
    Name: mean, dtype: float64
    """
    check_columns(table, *KINDS, gain)
    measured = table[table[gain].notna()]
    rows, messages = keep_comparable(measured.reset_index(drop=True))
    rows = rows.reset_index(drop=True)
    for kind in ("model_id", "heritage", "source"):
        read_labels(rows[kind], kind)
    y = np.log(read_numbers(rows[gain], gain, least=4, positive=True, varied=True))
    rows = rows.assign(log_gain=y, error=_estimate_errors(rows, gain))
    run = ["run_id"] if "run_id" in rows else ["model_id", *OF_MEASUREMENT]
    check_distinct_units(rows, run)
    if (rows.groupby("model_id")["source"].nunique() < 2).all():
        raise UsageError(
            "no model was measured by two sources",
            where=gain,
            got=list_names(rows["source"]),
            allowed="one model or more",
        )
    kinds = tuple(kind for kind in KINDS if rows[kind].nunique() > 1)
    measurements = declare_measurements(kinds)
    others = {}
    if "heritage" in kinds:
        others["no effects of labs"] = measurements.drop_kinds("heritage")
    others["measurements taken as exact"] = measurements.drop_errors()
    stated = state_measurements(measurements)
    law = declare_law(stated, measurements, others)
    read_columns = dict.fromkeys(["model_id", *kinds])
    return build_fit(
        law,
        rows,
        seed=seed,
        estimand=gain,
        sources=sources,
        warnings=[*messages, *_collect_warnings(rows, kinds)],
        reads=require_columns(*read_columns),
    )


def _estimate_errors(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Standard error over prompts of the log of a gain; 0 where it is not stated."""
    if not {f"{gain}_sd", f"{gain}_n"} <= set(rows):
        return pd.Series(0.0, index=rows.index)
    n = rows[f"{gain}_n"].astype("float64").clip(lower=1)
    relative = rows[f"{gain}_sd"].astype("float64") / rows[gain]
    errors = relative / np.sqrt(n)
    return errors.fillna(0.0)


def _collect_warnings(rows: pd.DataFrame, kinds: Sequence[str]) -> list[str]:
    """What cannot be separated."""
    messages = [f"one {kind}: no level of it is fitted" for kind in KINDS if kind not in kinds]
    models = rows.groupby("model_id")
    sources = models["source"].nunique()
    several = int((sources > 1).sum())
    messages.append(
        f"{several} of {len(sources)} models have two sources or more: they tell sources apart"
    )
    for first, second in (
        ("source", "prompt_set"),
        ("source", "heritage"),
        ("source", "dtype"),
        ("prompt_set", "dtype"),
    ):
        if {first, second} <= set(kinds) and rows.groupby(second)[first].nunique().max() == 1:
            confounded = f"every {second} is of one {first}"
            messages.append(f"{confounded}: their priors decide between their levels")
    if unstated := int((rows["error"] == 0).sum()):
        messages.append(
            f"{unstated} of {len(rows)} measurements state no error over prompts: it is part of σ"
        )
    return messages


def state_measurements(measurements: Mixed) -> Law:
    """What is asked of measurements."""
    spreads = [kind.quantity for kind in measurements.kinds]
    large: Statement = lambda q: q["sd_source"] > LARGE  # noqa: E731
    return Law(
        name="sources",
        of=measurements.design_rows,
        quantities=_compute_quantities,
        reported=(*spreads, "sd_run"),
        statements={f"sd of sources > {LARGE:g}": large},
        statistics=_build_statistics,
        equations=("r a measurement",),
        tables={"levels": _list_levels},
        figures={"levels": _draw_figure},
        units=("source", "model_id"),
    )


def _compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    """Standard deviation of every kind, and levels as far as the fit has them."""
    return name_draws(values, design) | {kind: values[kind] for kind in design.effects}


def _build_statistics(design: MixedDesign) -> dict[str, Statistic]:
    models = pd.factorize(design.table["model_id"])[0]
    member = np.eye(models.max() + 1)[models]
    mean = member / member.sum(axis=0)

    def centre(y: Array) -> Array:
        return np.asarray(y - (y @ mean) @ member.T)

    def measure_spread_within(y: Array) -> Array:
        squares = np.square(centre(y)).mean(axis=-1)
        return np.asarray(np.sqrt(squares))

    return {
        "spread of models": lambda y: (y @ mean).std(axis=-1),
        "spread of measurements within models": measure_spread_within,
        "largest difference within a model": lambda y: np.abs(centre(y)).max(axis=-1),
    }


def _list_levels(fit: Fit) -> pd.DataFrame:
    """Factor e^u of every source, prompt set and precision against the mean of its kind, with
    interval and models."""
    rows = []
    effects = fit.designed(MixedDesign).effects
    for kind in OF_MEASUREMENT:
        if kind not in effects:
            continue
        names = effects[kind].names
        drawn = fit.quantities[kind].reshape(-1, len(names))
        lower, upper = map(np.exp, find_equal_tailed(drawn, fit.level))
        levels = fit.rows[kind].astype(str)
        for k, name in enumerate(names):
            models = fit.rows.loc[levels == name, "model_id"].nunique()
            factor = math.exp(float(np.median(drawn[:, k])))
            interval = (float(lower[k]), float(upper[k]))
            rows.append((kind, name, models, factor, *interval))
    columns = ["kind", "level", "models", "factor", "lower", "upper"]
    return pd.DataFrame(rows, columns=columns)


def _draw_figure(fit: Fit, axes: Axes) -> Axes:
    """Factors of all levels with their intervals."""
    table = fit.table("levels")
    names = table["kind"].str.replace("_", " ") + ": " + table["level"]
    return draw_forest(table.assign(name=names), axes, label="name", estimate="factor", null=1.0)
