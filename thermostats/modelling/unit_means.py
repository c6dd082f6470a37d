"""ȳ_u ~ N(θ_u, s_0² + e_u²), θ_u ~ N(c, s²), e_u² estimated: means of units, one population, drawn exactly.

A unit's mean is over its groups, such as categories of prompts, which are alike inside. Every error rests on few
groups, so it is drawn with the rest (`Gaussian.freedom`), by what all units together tell of it (`moderated`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling.calls import fits
from thermostats.modelling.columns import needing
from thermostats.modelling.crossed_table import numbered
from thermostats.modelling.draws import SEED, Array, Settings
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.laws import WIDER, Design, Law
from thermostats.modelling.means import checked_means, figure_of_means, outcome_rows, table_of_means
from thermostats.modelling.scales import HalfNormals
from thermostats.modelling.standard_errors import moderated

REST = 0.05
"""Prior scale of what a mean leaves out besides the spread of its values, in units of that between units."""


@fits
def fit_unit_means(
    table: pd.DataFrame,
    outcome: str,
    *,
    scale: float,
    group: str = "category",
    sources: Sequence[str] = (),
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> Fit:
    """ȳ_m ~ N(θ_m, s_0² + e_m²), θ_m ~ N(c, s²): the mean of every model over groups of outcomes.

    `table`: rows with `model_id`, `outcome` (a column of numbers) and `group` (a column of labels). `scale`: a
    difference of the outcome that would be no surprise; c ~ N(0, (2 scale)²), s half-normal of that scale, s_0 of a
    twentieth of it. e_m is the standard error over the groups' means, over outcomes where no model has two groups; it
    is itself uncertain. Quantities: mean (θ, by model), population (c), unit_sd (s). Statements: "every mean < 0",
    "every mean > 0". Tables: `means`, `rows`. `fit_means` is the sampled law of the outcomes themselves, in which
    models share nothing.

    Raises UsageError as `fit_means`.
    """
    rows = checked_means(table, outcome, group=group, scale=scale)
    law = partial(_law, outcome, group)
    return law_fitted(
        replace(law(scale), alternatives={name: law(factor * scale) for name, factor in WIDER.items()}),
        rows,
        seed=seed,
        settings=settings,
        estimand=outcome,
        sources=sources,
        reads=needing("model_id"),
    )


def estimated(values: pd.Series, unit: Sequence[pd.Series]) -> pd.DataFrame:
    """One row per unit: mean of its values, standard error and the error's degrees of freedom, and how many it has."""
    by = values.groupby([each.to_numpy() for each in unit], sort=False)
    table = by.agg(["mean", "std", "size"]).fillna(0.0)
    error, freedom = moderated(table["std"].to_numpy(), table["size"].to_numpy(np.float64))
    return table.assign(error=error, freedom=freedom)


def freedom_of(freedom: Array) -> Array | None:
    """Degrees of freedom as the engine takes them: none where every error is exact."""
    return freedom if np.isfinite(freedom).any() else None


def _law(outcome: str, group: str, scale: float) -> Law:
    why = f"a difference of {scale:g} would be no surprise"
    return Law(
        name="unit means",
        of=partial(_of, outcome, group, scale),
        quantities=_quantities,
        statements={
            "every mean < 0": lambda q: (q["mean"] < 0).all(axis=-1),
            "every mean > 0": lambda q: (q["mean"] > 0).all(axis=-1),
        },
        equations=(
            f"mean of {outcome}_m over {group} ~ N(θ_m, s_0² + e_m²),  e_m² ~ inverse χ² about its estimate",
            "θ_m ~ N(c, s²)",
        ),
        priors=(
            ("c", f"N(0, {2 * scale:g}²)", f"twice the scale: {why}"),
            ("s", f"half-normal({scale:g})", why),
            ("s_0", f"half-normal({REST * scale:g})", "a twentieth of it: what the values of a mean do not show"),
        ),
        tables={"means": table_of_means, "rows": partial(outcome_rows, outcome)},
        figures={"fit": figure_of_means},
        units=("model_id", group),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitMeansDesign(Design):
    """Models with their means; names of models are the label of `mean`."""

    size: float
    """A difference of the outcome that would be no surprise."""

    def of_new(self, rows: pd.DataFrame) -> UnitMeansDesign:
        """Models that a fit has not seen come last."""
        models, model = numbered(rows["model_id"], self.labels["mean"])
        there = np.unique(model)
        nothing = np.zeros(there.size)
        return _made(self.size, models, there, nothing, nothing, np.full(there.size, np.inf))


def _of(outcome: str, group: str, scale: float, rows: pd.DataFrame) -> UnitMeansDesign:
    models, model = numbered(rows["model_id"])
    units = estimated(*_alike(rows, outcome, group)).loc[list(models)]
    y, error, freedom = (units[name].to_numpy(np.float64) for name in ("mean", "error", "freedom"))
    return _made(scale, models, np.unique(model), y, error, freedom)


def _made(
    scale: float, models: tuple[str, ...], there: NDArray[np.int64], y: Array, error: Array, freedom: Array
) -> UnitMeansDesign:
    """The model of the means of models that are `there` among those named."""
    gaussian = Gaussian(
        y=y,
        X=np.ones((there.size, 1)),
        sd=np.array([2 * scale]),
        blocks={"unit": np.eye(len(models))[there]},
        prior=HalfNormals((scale, REST * scale)),
        error=error,
        freedom=freedom_of(freedom),
    )
    outcomes, labels = tuple(models[k] for k in there), {"mean": models}
    return UnitMeansDesign(model=gaussian, outcomes=outcomes, labels=labels, by_row=False, size=scale)


def _alike(rows: pd.DataFrame, outcome: str, group: str) -> tuple[pd.Series, list[pd.Series]]:
    """The values that a mean is over and their models: means of groups, outcomes where no model has two groups."""
    model = rows["model_id"].astype(str)
    if (rows[group].groupby(model).nunique() < 2).all():
        return rows[outcome].astype("float64"), [model]
    groups = rows[outcome].astype("float64").groupby([model, rows[group].astype(str)]).mean().reset_index()
    return groups[outcome], [groups["model_id"]]


def _quantities(values: Mapping[str, Array], design: UnitMeansDesign) -> dict[str, Array]:
    units = values["unit"][..., : len(design.labels["mean"])]
    return {"mean": values["beta"] + units, "population": values["beta"][..., 0], "unit_sd": values["scale"][..., 0]}
