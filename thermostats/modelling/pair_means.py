"""b̄_j ~ N(μ_j, e_j²), d̄_j ~ N(δ_j + γ_j (b̄_j − μ_j), f_j²), δ_j ~ N(Δ, s_δ²): pairs by their means, drawn exactly.

Pairs j of a base model and the model tuned from it: b̄ is the mean log gain of the base over the prompts that both
answered, d̄ that of the changes. γ_j, how changes go with the base from prompt to prompt, is estimated within the
pair, so that both errors are independent; each is an estimate itself (`Gaussian.freedom`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling.calls import fits
from thermostats.modelling.classical.estimates import at_position
from thermostats.modelling.columns import needing
from thermostats.modelling.crossed_table import numbered, sources_of
from thermostats.modelling.draws import SEED, Array, Settings
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.laws import WIDER, Design, Law
from thermostats.modelling.pairs import (
    MARGIN,
    SHARE,
    checked_pairs,
    figure_of_pairs,
    new_pair,
    pairs_table,
    statements_of_pairs,
    table_of_power,
)
from thermostats.modelling.predictions import LOG
from thermostats.modelling.scales import HalfNormals
from thermostats.modelling.standard_errors import moderated
from thermostats.modelling.statements import Statistic
from thermostats.modelling.unit_means import freedom_of

REST = 0.01
"""Prior scale of what a mean of log gains leaves out besides its prompts: 1% of the gain."""
PRIORS = (
    ("m, Δ", f"N(0, {SHARE:.2f}²)", "mean level and mean change over pairs: half the variance of log gains each way"),
    ("s_μ, s_δ", f"half-normal({SHARE:.2f})", "spread of levels and of changes over pairs: the other half"),
    ("s_0", f"half-normal({REST:g})", "what prompts do not show of a mean"),
)


@fits
def fit_pair_means(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    only_related: bool = True,
    margin: float = MARGIN,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> Fit:
    """b̄_j ~ N(μ_j, s_0² + e_j²), d̄_j − γ_j b̄_j ~ N(δ_j − γ_j μ_j, s_0² + f_j²): pairs of means.

    `table`, `estimand`, `only_related`, `margin`, quantities, statements and tables as in `fit_invariance`, the sampled
    law of the single prompts. Here the outcomes of a pair are two, its base's mean log gain and its mean change less
    what the base's prompts tell of it, with standard errors over prompts that are uncertain themselves.

    Raises UsageError as `fit_invariance`.
    """
    rows, warnings = checked_pairs(table, margin, only_related=only_related)
    others = {name: _law(margin, factor) for name, factor in WIDER.items()}
    return law_fitted(
        replace(_law(margin), alternatives=others),
        rows,
        seed=seed,
        settings=settings,
        estimand=at_position(estimand, table),
        sources=sources_of(table[table["model_id"].isin({*rows["base_id"], *rows["tuned_id"]})]),
        warnings=warnings,
        reads=needing("pair"),
    )


def _law(margin: float, factor: float = 1.0) -> Law:
    """`factor`: of all prior scales."""
    return Law(
        name="pair means",
        of=partial(_of, factor),
        quantities=_quantities,
        reported=("ratio", "ratio_of_all", "shift_sd", "level_sd"),
        statements=statements_of_pairs(margin),
        statistics=_statistics,
        equations=(
            "mean log gain of the base ~ N(μ_j, s_0² + e_j²),  e_j and f_j standard errors over prompts, estimated",
            "mean change less γ_j times the base's mean ~ N(δ_j − γ_j μ_j, s_0² + f_j²),  γ_j by least squares",
            "μ_j ~ N(m, s_μ²),  δ_j ~ N(Δ, s_δ²);  j a pair",
        ),
        priors=PRIORS,
        tables={"pairs": partial(pairs_table, margin), "new_pair": new_pair, "shown": table_of_power},
        figures={"fit": partial(figure_of_pairs, margin)},
        units=("heritage", "pair"),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairMeansDesign(Design):
    """Two outcomes a pair, bases first; names of pairs are the label of `ratio`."""

    factor: float
    slope: Array
    """Of change on base, by pair."""

    def of_new(self, rows: pd.DataFrame) -> PairMeansDesign:
        """Pairs that a fit has not seen come after its own."""
        names, pair = numbered(rows["pair"], self.labels["ratio"])
        there = np.unique(pair)
        nothing = np.zeros(2 * there.size)
        return _made(self.factor, names, there, nothing, nothing, np.zeros(there.size), None)


def _of(factor: float, rows: pd.DataFrame) -> PairMeansDesign:
    names, pair = numbered(rows["pair"])
    y, error, slope, degrees = _outcomes(rows, pair)
    return _made(factor, names, np.unique(pair), y, error, slope, freedom_of(degrees))


def _made(
    factor: float,
    names: tuple[str, ...],
    there: NDArray[np.int64],
    y: Array,
    error: Array,
    slope: Array,
    freedom: Array | None,
) -> PairMeansDesign:
    """The model of pairs that are `there` among those named."""
    unit, nothing, one = np.eye(len(names))[there], np.zeros((there.size, len(names))), np.ones(there.size)
    gaussian = Gaussian(
        y=y,
        X=np.block([[one[:, None], 0 * one[:, None]], [-slope[:, None], one[:, None]]]),
        sd=np.full(2, factor * SHARE),
        blocks={"level": np.concatenate([unit, -slope[:, None] * unit]), "change": np.concatenate([nothing, unit])},
        prior=HalfNormals((factor * SHARE, factor * SHARE, factor * REST)),
        error=error,
        freedom=freedom,
    )
    outcomes = tuple(f"{names[k]}: {what}" for what in ("base", "change") for k in there)
    labels = {"ratio": names}
    return PairMeansDesign(
        model=gaussian, outcomes=outcomes, labels=labels, by_row=False, scale=LOG, factor=factor, slope=slope
    )


def _outcomes(rows: pd.DataFrame, pair: NDArray[np.int64]) -> tuple[Array, Array, Array, Array]:
    """Means of bases, then of changes less what the base tells; errors; slopes; degrees of freedom of the errors."""
    by = rows[["base", "change"]].astype("float64").groupby(pair)
    n, mean = by.size().to_numpy(np.float64), by.mean()
    off = rows[["base", "change"]].astype("float64") - mean.loc[pair].to_numpy()
    squares, products = (off["base"] ** 2).groupby(pair).sum(), (off["base"] * off["change"]).groupby(pair).sum()
    slope = (products / squares).to_numpy()
    rest = np.square(off["change"] - slope[pair] * off["base"]).groupby(pair).sum().to_numpy()
    of_base, base_freedom = moderated(np.sqrt(squares.to_numpy() / (n - 1)), n)
    of_change, change_freedom = moderated(np.sqrt(rest / (n - 2)), n - 1)
    return (
        np.concatenate([mean["base"], mean["change"] - slope * mean["base"]]),
        np.concatenate([of_base, of_change * np.sqrt((n - 1) / n)]),
        slope,
        np.concatenate([base_freedom, change_freedom]),
    )


def _quantities(values: Mapping[str, Array], design: PairMeansDesign) -> dict[str, Array]:
    n, (level, change) = len(design.labels["ratio"]), np.moveaxis(values["beta"], -1, 0)
    by_pair = {
        "level": level[..., None] + values["level"][..., :n],
        "change": change[..., None] + values["change"][..., :n],
    }
    over_pairs = {"level_sd": values["scale"][..., 0], "shift_sd": values["scale"][..., 1]}
    return {
        "ratio": np.exp(by_pair["change"]),
        "ratio_of_all": np.exp(change),
        **over_pairs,
        "level_mean": level,
        "change_mean": change,
        **by_pair,
    }


def _statistics(design: PairMeansDesign) -> dict[str, Statistic]:
    slope = design.slope
    n = slope.size

    def change(y: Array) -> Array:
        return np.asarray(y[..., n:] + slope * y[..., :n])

    return {
        "largest mean change": lambda y: np.abs(change(y)).max(axis=-1),
        "pairs that change sides": lambda y: ((y[..., :n] > 0) != (y[..., :n] + change(y) > 0)).mean(axis=-1),
        "bases that dampen": lambda y: (y[..., :n] < 0).mean(axis=-1),
        "spread of bases": lambda y: y[..., :n].std(axis=-1),
    }
