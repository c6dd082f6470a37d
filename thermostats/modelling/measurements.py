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
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.columns import (
    columns_of,
    comparable_only,
    drop_computed,
    labels,
    named,
    needing,
    numbers,
    units_once,
)
from thermostats.modelling.draws import SEED, Array, Statement, Statistic, equal_tailed
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian, HalfNormals
from thermostats.modelling.laws import LOG, WIDER, Design, Law, Prior, fits
from thermostats.modelling.populations import numbered
from thermostats.plots.general import forest

OF_MEASUREMENT = ("source", "prompt_set", "dtype")
KINDS = ("heritage", "model_id", *OF_MEASUREMENT)
"""Columns whose values have a level of their own."""
OF_MODELS, OF_LEVELS, MEAN = 0.5, 0.25, 1.0
"""Prior scales: models may differ by a factor e^0.5 = 1.6, two measurements of one by e^0.25 =
1.3."""
LARGE = 0.1
"""The statement: a standard deviation of sources of ten per cent."""


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Kinds of levels, and prior scales of the mean, of each kind and of the residual."""

    kinds: tuple[str, ...]
    factor: float = 1.0
    errors: bool = True

    @property
    def mean_sd(self) -> float:
        """Standard deviation of the normal prior of α."""
        return self.factor * MEAN

    @property
    def scales(self) -> tuple[float, ...]:
        """Scales of the half-normal priors: of the SD of every kind of levels, then of σ."""
        each = (OF_LEVELS if kind in OF_MEASUREMENT else OF_MODELS for kind in self.kinds)
        return tuple(self.factor * scale for scale in (*each, OF_LEVELS))

    def of(self, rows: pd.DataFrame) -> SourcesDesign:
        """One row per measurement."""
        return self.after(rows, dict.fromkeys(self.kinds, ()))

    def after(self, rows: pd.DataFrame, levels: Mapping[str, tuple[str, ...]]) -> SourcesDesign:
        """One row per measurement; these levels come first."""
        names = dict[str, tuple[str, ...]]()
        blocks = dict[str, Array]()
        for kind in self.kinds:
            names[kind], codes = numbered(rows[kind].astype(str), levels[kind])
            blocks[kind] = np.eye(len(names[kind]))[codes]
        missing = np.zeros(len(rows))
        model = Gaussian(
            y=rows["log_gain"].to_numpy(dtype=np.float64) if "log_gain" in rows else missing,
            X=np.ones((len(rows), 1)),
            sd=np.array([self.mean_sd]),
            blocks=blocks,
            prior=HalfNormals(self.scales),
            error=rows["error"].to_numpy(dtype=np.float64)
            if self.errors and "error" in rows
            else missing,
        )
        models = pd.factorize(rows["model_id"])[0]
        return SourcesDesign(
            model=model,
            labels=names,
            scale=LOG,
            groups=self.kinds,
            measurements=self,
            models=models,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SourcesDesign(Design):
    """Measurements with their levels, which `labels` names."""

    measurements: Measurements
    models: NDArray[np.int64]
    """Model of every measurement."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of levels."""
        return self.measurements.kinds

    def of_new(self, rows: pd.DataFrame) -> SourcesDesign:
        """Other measurements by the levels of these."""
        return self.measurements.after(drop_computed(rows), self.labels)


@fits
def fit_sources(
    table: pd.DataFrame,
    gain: str = "penultimate_gain",
    *,
    seed: int = SEED,
    sources: Sequence[str] = (),
) -> Fit:
    """y_r = α + lab + model + source + prompt set + precision + ε_r, ε_r ~ N(0, σ² + error_r²), y
    the log of a gain.

    `table`: rows of `features`, one per model and measurement: model_id, heritage, source,
    prompt_set, dtype, `gain` and, where known, `<gain>_sd` over `<gain>_n` prompts, whose error is
    taken as known. A measurement that states no error has none beyond σ. α ~ N(0, 1); scales
    half-normal, 0.5 of labs and models, 0.25 of all others. Quantities: sd_<kind> of heritage,
    model_id, source, prompt_set, dtype and run (σ), and the level of every value of each.
    Statement: "sd of sources > 0.1". Table: `levels`, factors by which a source, prompt set or
    precision multiplies a gain. Kinds with one value are left out, with a warning; kinds that
    coincide are named.

    Raises UsageError for missing columns or names, gains that are no finite numbers above 0 or all
    the same, a measurement twice, and where no model was measured by two sources.
    """
    columns_of(table, *KINDS, gain)
    rows, messages = comparable_only(table[table[gain].notna()].reset_index(drop=True))
    rows = rows.reset_index(drop=True)
    for kind in ("model_id", "heritage", "source"):
        labels(rows[kind], kind)
    y = np.log(numbers(rows[gain], gain, least=4, positive=True, varied=True))
    rows = rows.assign(log_gain=y, error=_errors(rows, gain))
    run = ["run_id"] if "run_id" in rows else ["model_id", *OF_MEASUREMENT]
    units_once(rows, run)
    if (rows.groupby("model_id")["source"].nunique() < 2).all():
        raise UsageError(
            "no model was measured by two sources",
            where=gain,
            got=named(rows["source"]),
            allowed="one model or more",
        )
    kinds = tuple(kind for kind in KINDS if rows[kind].nunique() > 1)
    law = _law(Measurements(kinds=kinds))
    return law_fitted(
        law,
        rows,
        seed=seed,
        estimand=gain,
        sources=sources,
        warnings=[*messages, *_warnings(rows, kinds)],
        reads=needing(*dict.fromkeys(["model_id", *kinds])),
    )


def _errors(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Standard error over prompts of the log of a gain; 0 where it is not stated."""
    if not {f"{gain}_sd", f"{gain}_n"} <= set(rows):
        return pd.Series(0.0, index=rows.index)
    n = rows[f"{gain}_n"].astype("float64").clip(lower=1)
    return (rows[f"{gain}_sd"].astype("float64") / rows[gain] / np.sqrt(n)).fillna(0.0)


def _warnings(rows: pd.DataFrame, kinds: Sequence[str]) -> list[str]:
    """What cannot be separated."""
    messages = [f"one {kind}: no level of it is fitted" for kind in KINDS if kind not in kinds]
    both = rows.groupby("model_id")["source"].nunique()
    messages.append(
        f"{int((both > 1).sum())} of {len(both)} models have two sources or more: they tell "
        f"sources apart"
    )
    for first, second in (
        ("source", "prompt_set"),
        ("source", "heritage"),
        ("source", "dtype"),
        ("prompt_set", "dtype"),
    ):
        if {first, second} <= set(kinds) and rows.groupby(second)[first].nunique().max() == 1:
            messages.append(
                f"every {second} is of one {first}: their priors decide between their levels"
            )
    if unstated := int((rows["error"] == 0).sum()):
        messages.append(
            f"{unstated} of {len(rows)} measurements state no error over prompts: it is part of σ"
        )
    return messages


def _priors(measurements: Measurements) -> tuple[Prior, ...]:
    """Of the mean, of every kind of levels and of the residual, as drawn."""
    mean = (
        "α",
        f"N(0, {measurements.mean_sd:.3g}²)",
        "gains between a seventh and seven times are no surprise",
    )
    spreads = []
    for kind, scale in zip((*measurements.kinds, "run"), measurements.scales, strict=True):
        symbol = "σ" if kind == "run" else f"s_{kind}"
        of_models = kind in ("heritage", "model_id")
        what = (
            "models that differ by a factor 1.6"
            if of_models
            else "measurements of one model that differ by 1.3"
        )
        spreads.append((symbol, f"half-normal({scale:.3g})", f"{what} are none"))
    return (mean, *spreads)


def _law(measurements: Measurements) -> Law:
    kinds = measurements.kinds
    others = {name: replace(measurements, factor=factor) for name, factor in WIDER.items()}
    if "heritage" in kinds:
        others["no effects of labs"] = replace(
            measurements, kinds=tuple(k for k in kinds if k != "heritage")
        )
    others["measurements taken as exact"] = replace(measurements, errors=False)
    names = [*kinds, "run"]
    large: Statement = lambda q: q["sd_source"] > LARGE  # noqa: E731
    law = Law(
        name="sources",
        of=measurements.of,
        quantities=_quantities,
        reported=tuple(f"sd_{name}" for name in names),
        statements={f"sd of sources > {LARGE:g}": large},
        statistics=_statistics,
        equations=(
            f"log G_r = α + {' + '.join(f'u_{kind}(r)' for kind in kinds)} + ε_r   (measurement r)",
            "u_k ~ N(0, s_k²),  ε_r ~ N(0, σ² + error_r²)",
        ),
        priors=_priors(measurements),
        tables={"levels": _levels},
        figures={"levels": _figure},
        units=("source", "model_id"),
    )
    return replace(
        law, alternatives={name: replace(law, of=each.of) for name, each in others.items()}
    )


def _quantities(values: Mapping[str, Array], design: SourcesDesign) -> dict[str, Array]:
    """Standard deviation of every kind, and levels as far as the fit has them."""
    drawn = {f"sd_{kind}": values["scale"][..., k] for k, kind in enumerate((*design.kinds, "run"))}
    return drawn | {kind: values[kind] for kind in design.kinds}


def _statistics(design: SourcesDesign) -> dict[str, Statistic]:
    member = np.eye(design.models.max() + 1)[design.models]
    mean = member / member.sum(axis=0)

    def apart(y: Array) -> Array:
        return np.asarray(y - (y @ mean) @ member.T)

    return {
        "spread of models": lambda y: (y @ mean).std(axis=-1),
        "spread of measurements within models": lambda y: np.sqrt(
            np.square(apart(y)).mean(axis=-1)
        ),
        "largest difference within a model": lambda y: np.abs(apart(y)).max(axis=-1),
    }


def _levels(fit: Fit) -> pd.DataFrame:
    """Factor e^u of every source, prompt set and precision against the mean of its kind, with
    interval and models."""
    rows = []
    for kind in OF_MEASUREMENT:
        if kind not in fit.designed(SourcesDesign).kinds:
            continue
        names = fit.designed(SourcesDesign).labels[kind]
        drawn = fit.quantities[kind].reshape(-1, len(names))
        lower, upper = (np.exp(end) for end in equal_tailed(drawn, fit.level))
        for k, name in enumerate(names):
            models = fit.rows.loc[fit.rows[kind].astype(str) == name, "model_id"]
            factor = math.exp(float(np.median(drawn[:, k])))
            rows.append((kind, name, models.nunique(), factor, float(lower[k]), float(upper[k])))
    return pd.DataFrame(rows, columns=["kind", "level", "models", "factor", "lower", "upper"])


def _figure(fit: Fit, axes: Axes) -> Axes:
    """Factors of all levels with their intervals."""
    table = fit.table("levels")
    names = table["kind"].str.replace("_", " ") + ": " + table["level"]
    return forest(table.assign(name=names), axes, label="name", estimate="factor", null=1.0)
