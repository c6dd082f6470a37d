"""entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp, x = log g, β_m ~ N(b, s_β²): does entropy
go with gain?

Both are standardised within models m; γ_p are effects of prompts p that sum to zero. The exact
engine draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import estimate_within_correlation
from thermostats.modelling.columns import list_names, name_estimand, read_numbers, require_columns
from thermostats.modelling.draws import (
    SEED,
    Array,
    Quantities,
    Settings,
    Statement,
    Statistic,
    find_equal_tailed,
)
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.laws import Law, OutcomeScale
from thermostats.modelling.mixed_model import (
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    Rest,
    declare_law,
    name_draws,
)
from thermostats.modelling.populations import list_sources, read_cells, refuse_large
from thermostats.plots.general import draw_forest

SLOPE_SD = 0.5
"""Prior scale of slopes of entropy on log gain, both in SDs within a model: a correlation,
roughly."""
ENTROPY_SD = 1.0
"""Prior scale of effects of prompts and of the rest, in SDs of the entropy within a model."""
LEAST = 4
"""Prompts of a model that has a slope."""


@record_call
def fit_slopes(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    without: str = "",
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """Fit the slope of the next token's entropy on the log gain, model by model.

        entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp

    The slopes β_m are a population of models; x is the log gain.

    Parameters
    ----------
    table : DataFrame
        One row per model and prompt with `model_id`, `prompt_id`, `category`, `entropy` and
        `value`, the gain.
    estimand : str
        The gain that is in `value`.
    without : str
        A category that one alternative leaves out.
    seed : int
        Of the draws.
    settings : Settings
        How to draw.

    Returns
    -------
    Fit
        Quantities: slopes by model, slope (their mean, inside prompts), slope_sd and between (over
        prompts: whether those of high gain in every model have high entropy in every model).
        Tables: `slopes`, and `correlation` (mean over models, prompts permuted: the classical
        counterpart).

    Raises
    ------
    UsageError
        For gains not above 0, a cell twice, a prompt in two categories, fewer than 2 models or 4
        prompts, missing labels, for too large a table, for a category that is not there, and where
        fewer than two models have entropies that vary.

    Examples
    --------
    >>> import thermostats
    >>> from thermostats.studies.delia2026 import fit_slopes
    >>> fit = fit_slopes(thermostats.prompt_rows("last_gain", "measured"))
    >>> sorted(fit.reported)
    ['between', 'slope', 'slope_sd', 'slopes']
    """
    rows, warnings = read_cells(table, "a slope over models")
    usable, left = _keep_usable(rows)
    units = usable["model_id"].nunique() + usable["prompt_id"].nunique()
    refuse_large(usable, units + 1)
    others = {
        "one slope for all models": SLOPES.drop_kinds("slope"),
        "no effects of prompts": SLOPES.drop_kinds("prompt"),
    }
    if without:
        categories = set(usable["category"])
        if without not in categories:
            allowed = ", ".join(sorted(categories))
            raise UsageError("no such category", got=without, allowed=allowed)
        _keep_usable(usable[usable["category"] != without])
        tabulate = partial(tabulate_cells, without=without)
        others[f"without the category {without}"] = replace(SLOPES, tabulate=tabulate)
    law = declare_law(state_slopes(), SLOPES, others)
    return build_fit(
        law,
        usable,
        seed=seed,
        settings=settings,
        estimand=name_estimand(estimand, table),
        sources=list_sources(table),
        warnings=[*warnings, *left],
        reads=require_columns("model_id", "prompt_id", "value"),
    )


STANDARDISED = OutcomeScale(outcome="standardised_log_gain")


def tabulate_cells(rows: pd.DataFrame, fit: pd.DataFrame | None, without: str = "") -> pd.DataFrame:
    """Cells standardised within models, the gain split into what prompts share and the rest.

    `fit`: rows whose models and prompts are as they are there; `without`: a category that is left
    out.
    """
    fitted = rows if fit is None else fit
    if without:
        fitted, _ = _keep_usable(fitted[fitted["category"] != without])
        rows = fitted if fit is None else rows
    scales = _measure_scales(fitted).combine_first(_measure_scales(rows))
    x, z = _standardise_cells(rows, scales)
    x_fitted, _ = _standardise_cells(fitted, scales)
    of_fitted = x_fitted.groupby(fitted["prompt_id"]).mean()
    of_rows = x.groupby(rows["prompt_id"]).mean()
    means = of_fitted.combine_first(of_rows)
    shared = means.loc[rows["prompt_id"]].to_numpy()
    cells = rows[["model_id", "prompt_id"]]
    table = cells.assign(x=x, z=z.fillna(0.0), within=x - shared, shared=shared)
    models = table["model_id"].astype(str)
    return table.set_axis(models + ", " + table["prompt_id"].astype(str))


CORRELATION = "slopes of standardised columns, near correlations"
MODELS = "models may differ as much as the mean slope is uncertain"
UNIT = "the standardised entropy has spread 1"
SLOPES = Mixed(
    outcome="z",
    left="entropy_mp",
    fixed=(
        Fixed(
            column="within",
            sd=SLOPE_SD,
            symbol="b",
            why=CORRELATION,
            term="(x_mp − x̄_p)",
            quantity="slope",
        ),
        Fixed(
            column="shared",
            sd=SLOPE_SD,
            symbol="B",
            why=CORRELATION,
            term="x̄_p",
            quantity="between",
        ),
    ),
    kinds=(
        Levels(
            column="model_id",
            scale=SLOPE_SD,
            symbol="s_β",
            why=MODELS,
            effect="β_m (x_mp − x̄_p)",
            quantity="slope_sd",
            name="slope",
            covariate="within",
        ),
        Levels(
            column="prompt_id",
            scale=ENTROPY_SD,
            symbol="s_γ",
            why=UNIT,
            effect="γ_p",
            name="prompt",
            sum_zero=True,
        ),
    ),
    rest=Rest(scale=ENTROPY_SD, symbol="r", why=UNIT, effect="e_mp"),
    scale=STANDARDISED,
    tabulate=tabulate_cells,
    labels={"slopes": "slope"},
)


def _list_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    """Slopes of the models and over them."""
    drawn = name_draws(values, design)
    if "slope" not in design.effects:
        return drawn
    models = len(design.effects["slope"].names)
    own = values["slope"][..., :models]
    return {"slopes": drawn["slope"][..., None] + own, **drawn}


def state_slopes() -> Law:
    """What is asked of slopes."""
    statements: dict[str, Statement] = {
        "slope > 0": lambda q: q["slope"] > 0,
        "between > 0": lambda q: q["between"] > 0,
        "slopes of one sign": _has_one_sign,
    }
    return Law(
        name="slopes",
        of=SLOPES.design_rows,
        quantities=_list_quantities,
        reported=("slopes", "slope", "slope_sd", "between"),
        statements=statements,
        statistics=_build_statistics,
        equations=("x = log g, entropy and x standardised within models;  γ sums to zero",),
        tables={"slopes": _list_slopes, "correlation": _estimate_correlation},
        figures={"fit": _draw_figure},
    )


def _has_one_sign(quantities: Quantities) -> Array:
    positive = quantities["slopes"] > 0
    negative = ~positive.any(axis=-1)
    return np.asarray(positive.all(axis=-1) | negative)


def _keep_usable(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Cells with an entropy, of models whose gain and entropy vary over enough prompts; and what is
    left out."""
    stated = np.zeros(len(rows), dtype=bool)
    if "entropy" in rows:
        stated = rows["entropy"].notna().to_numpy()
    some = rows[stated]
    varying = ["value"]
    if len(some):
        some = some.assign(entropy=read_numbers(some["entropy"], "entropy"))
        varying.append("entropy")
    by = some.groupby("model_id")[varying]
    constant = (by.transform("nunique") < 2).any(axis=1)
    flat = constant | (by.transform("size") < LEAST)
    usable = some[~flat].reset_index(drop=True)
    lacking = int((~stated).sum())
    warnings = []
    if lacking > 0:
        warnings.append(
            f"{lacking} of {len(rows)} cells have no entropy and carry no information on slopes"
        )
    if flat.any():
        steady = list_names(set(some.loc[flat, "model_id"].astype(str)))
        warnings.append(
            f"gain or entropy constant, or fewer than {LEAST} prompts: no slope of {steady}"
        )
    models = usable["model_id"].nunique()
    if models < 2:
        raise UsageError(
            "slopes of entropy need two models",
            where="entropy",
            got=f"{models} with gains and entropies of {LEAST} prompts or more that vary",
            next_step="; ".join(warnings) or "add entropies of more models",
        )
    return usable, warnings


def _measure_scales(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and SD of log gain and entropy by model."""
    by = _take_logs(rows).groupby(rows["model_id"])
    spread = by.std(ddof=0).add_suffix("_sd")
    return pd.concat([by.mean(), spread], axis=1)


def _take_logs(rows: pd.DataFrame) -> pd.DataFrame:
    x = np.log(rows["value"].astype("float64"))
    return pd.DataFrame({"x": x, "z": rows.get("entropy", np.nan)})


def _standardise_cells(rows: pd.DataFrame, scales: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Log gain and entropy in SDs of their model about its mean."""
    columns = _take_logs(rows)
    scale = scales.loc[rows["model_id"]].set_index(rows.index)
    if (scale["x_sd"] == 0).any():
        raise UsageError(
            "gains of a model that the fit has not seen do not vary",
            where="value",
            allowed="two or more",
        )
    x = (columns["x"] - scale["x"]) / scale["x_sd"]
    z = (columns["z"] - scale["z"]) / scale["z_sd"]
    return x, z


def _build_statistics(design: MixedDesign) -> dict[str, Statistic]:
    x = design.table["x"].to_numpy()
    return {
        "correlation with gain": lambda z: (z * x).mean(axis=-1),
        "spread": lambda z: z.std(axis=-1),
    }


def _list_slopes(fit: Fit) -> pd.DataFrame:
    """One row per model: its slope, and the correlation inside it alone."""
    design = fit.designed(MixedDesign)
    models = design.effects["slope"]
    x = design.table["x"].to_numpy()
    slopes = fit.quantities["slopes"].reshape(-1, len(models.names))
    lower, upper = find_equal_tailed(slopes, fit.level)
    alone = pd.Series(x * fit.model.observed).groupby(models.codes)
    return pd.DataFrame(
        {
            "model_id": models.names,
            "slope": slopes.mean(axis=0),
            "lower": lower,
            "upper": upper,
            "p_positive": (slopes > 0).mean(axis=0),
            "correlation_alone": alone.mean(),
            "n_prompts": alone.size(),
        }
    )


def _estimate_correlation(fit: Fit) -> pd.DataFrame:
    """The classical counterpart over the prompts that every model answered: mean correlation,
    prompts permuted."""
    cells = fit.rows.pivot(index="prompt_id", columns="model_id", values=["value", "entropy"])
    wide = cells.dropna().astype("float64")
    if len(wide) < LEAST:
        return pd.DataFrame(columns=["estimate", "lower", "upper", "p_value"])
    log_gains = np.log(wide["value"])
    within = estimate_within_correlation(
        log_gains, wide["entropy"], method="pearson", seed=fit.seed
    )
    fields = ("estimate", "lower", "upper", "level", "interval", "p_value", "n", "n_models")
    return pd.DataFrame([{name: getattr(within, name) for name in fields}])


def _draw_figure(fit: Fit, axes: Axes) -> Axes:
    """Slopes of the models with their intervals."""
    draw_forest(fit.table("slopes"), axes, label="model_id", estimate="slope")
    axes.set_xlabel("slope of entropy on log gain, both standardised")
    return axes
