"""entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp, x = log g, β_m ~ N(b, s_β²): does entropy
go with gain?

Both are standardised within models m; γ_p are effects of prompts p that sum to zero. The exact
engine draws it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import within_correlation
from thermostats.modelling.columns import at_position, named, needing, numbers
from thermostats.modelling.draws import SEED, Array, Quantities, Settings, Statistic, equal_tailed
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian, HalfNormals
from thermostats.modelling.laws import WIDER, Design, Law, OutcomeScale, fits
from thermostats.modelling.populations import cells, contrasts, numbered, refuse_large, sources_of
from thermostats.plots.general import forest

SLOPE_SD = 0.5
"""Prior scale of slopes of entropy on log gain, both in SDs within a model: a correlation,
roughly."""
ENTROPY_SD = 1.0
"""Prior scale of effects of prompts and of the rest, in SDs of the entropy within a model."""
LEAST = 4
"""Prompts of a model that has a slope."""
PRIORS = (
    ("b, B", f"N(0, {SLOPE_SD:g}²)", "slopes of standardised columns, near correlations"),
    (
        "s_β",
        f"half-normal({SLOPE_SD:g})",
        "models may differ as much as the mean slope is uncertain",
    ),
    ("s_γ, r", f"half-normal({ENTROPY_SD:g})", "the standardised entropy has spread 1"),
)


@fits
def fit_slopes(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    without: str = "",
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp: slopes of entropy on log gain, a
    population of models.

    `table`: one row per model and prompt with `model_id`, `prompt_id`, `category`, `entropy` and
    `value`, the gain that `estimand` names. `without`: a category that one alternative leaves out.
    Quantities: slopes by model, slope (their mean, inside prompts), slope_sd and between (over
    prompts: whether those of high gain in every model have high entropy in every model). Tables:
    `slopes`, and `correlation` (mean over models, prompts permuted: the classical counterpart).

    Raises UsageError as `crossed_table.cells`, for too large a table, for a category that is not
    there, and where fewer than two models have entropies that vary.
    """
    rows, warnings = cells(table, "a slope over models")
    usable, left = _usable(rows)
    refuse_large(usable, usable["model_id"].nunique() + usable["prompt_id"].nunique() + 1)
    slopes = Slopes()
    others = {
        **{name: replace(slopes, factor=factor) for name, factor in WIDER.items()},
        "one slope for all models": replace(slopes, blocks=("prompt",)),
        "no effects of prompts": replace(slopes, blocks=("slope",)),
    }
    if without:
        if without not in set(usable["category"]):
            raise UsageError(
                "no such category", got=without, allowed=", ".join(sorted(set(usable["category"])))
            )
        _usable(usable[usable["category"] != without])
        others[f"without the category {without}"] = replace(slopes, without=without)
    alternatives = {name: _law(other) for name, other in others.items()}
    return law_fitted(
        replace(_law(slopes), alternatives=alternatives),
        usable,
        seed=seed,
        settings=settings,
        estimand=at_position(estimand, table),
        sources=sources_of(table),
        warnings=[*warnings, *left],
        reads=needing("model_id", "prompt_id", "value"),
    )


STANDARDISED = OutcomeScale(outcome="standardised_log_gain")


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """What rows become, in which variant."""

    factor: float = 1.0
    """Factor by which all prior scales are multiplied."""
    blocks: tuple[str, ...] = ("slope", "prompt")
    """Kinds of effects: slopes of models about their mean, and levels of prompts."""
    without: str = ""
    """Category that is left out."""

    def of(self, rows: pd.DataFrame) -> SlopesDesign:
        """Log gain and entropy standardised within models."""
        if self.without:
            rows = _usable(rows[rows["category"] != self.without])[0]
        scales = _scales(rows)
        x, z = _standardised(rows, scales)
        of_prompt = x.groupby(rows["prompt_id"]).mean()
        models, prompts = (numbered(rows[name])[0] for name in ("model_id", "prompt_id"))
        return self._made(
            rows,
            x,
            z,
            Standards(models=models, prompts=prompts, of_prompt=of_prompt, scales=scales),
            len(prompts),
        )

    def in_units(self, rows: pd.DataFrame, standards: Standards) -> SlopesDesign:
        """Other cells, standardised as models of the fit are; those of other models by
        themselves."""
        scales = standards.scales.combine_first(_scales(rows))
        x, z = _standardised(rows, scales)
        of_prompt = standards.of_prompt.combine_first(x.groupby(rows["prompt_id"]).mean())
        models, _ = numbered(rows["model_id"], standards.models)
        prompts, _ = numbered(rows["prompt_id"], standards.prompts)
        every = Standards(models=models, prompts=prompts, of_prompt=of_prompt, scales=scales)
        return self._made(rows, x, z.fillna(0.0), every, len(standards.prompts))

    def _made(
        self, rows: pd.DataFrame, x: pd.Series, z: pd.Series, standards: Standards, seen: int
    ) -> SlopesDesign:
        """The gain split into what prompts share and the rest; `seen`: prompts of the fit."""
        shared = standards.of_prompt.loc[rows["prompt_id"]].to_numpy()
        model, prompt = (
            numbered(rows[name], of)[1]
            for name, of in (("model_id", standards.models), ("prompt_id", standards.prompts))
        )
        within = x.to_numpy() - shared
        designs = {
            "slope": within[:, None] * np.eye(len(standards.models))[model],
            "prompt": contrasts(prompt, seen),
        }
        spreads = {"slope": SLOPE_SD, "prompt": ENTROPY_SD, "rest": ENTROPY_SD}
        gaussian = Gaussian(
            y=z.to_numpy(),
            X=np.column_stack([within, shared]),
            sd=np.full(2, self.factor * SLOPE_SD),
            blocks={name: designs[name] for name in self.blocks},
            prior=HalfNormals(
                tuple(self.factor * spreads[name] for name in (*self.blocks, "rest"))
            ),
            error=np.zeros(len(rows)),
        )
        return SlopesDesign(
            model=gaussian,
            outcomes=tuple(
                f"{m}, {p}" for m, p in zip(rows["model_id"], rows["prompt_id"], strict=True)
            ),
            labels={"slopes": standards.models},
            scale=STANDARDISED,
            groups=("model_id", "prompt_id"),
            slopes=self,
            standards=standards,
            x=x.to_numpy(),
            model_of=model,
        )

    def quantities(self, values: Mapping[str, Array], design: SlopesDesign) -> dict[str, Array]:
        """Slopes of the models and over them."""
        slope = values["beta"][..., 0]
        between = values["beta"][..., 1]
        over = {"slope": slope, "between": between}
        if "slope" not in self.blocks:
            return over
        slopes = slope[..., None] + values["slope"][..., : len(design.labels["slopes"])]
        return {
            "slopes": slopes,
            "slope": slope,
            "slope_sd": values["scale"][..., 0],
            "between": between,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Standards:
    """Models and prompts that there are, mean standardised gains of prompts, and means and SDs of
    models."""

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    of_prompt: pd.Series
    scales: pd.DataFrame


@dataclass(frozen=True, kw_only=True, eq=False)
class SlopesDesign(Design):
    """Standardised cells."""

    slopes: Slopes
    standards: Standards
    x: Array
    """Standardised log gains."""
    model_of: NDArray[np.int64]
    """Model of every cell."""

    def of_new(self, rows: pd.DataFrame) -> SlopesDesign:
        """Other cells in the units of these."""
        return self.slopes.in_units(rows, self.standards)


def _law(slopes: Slopes) -> Law:
    return Law(
        name="slopes",
        of=slopes.of,
        quantities=slopes.quantities,
        statements={
            "slope > 0": lambda q: q["slope"] > 0,
            "between > 0": lambda q: q["between"] > 0,
            "slopes of one sign": _of_one_sign,
        },
        statistics=_statistics,
        equations=(
            "entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp,  x = log g, both standardised "
            "within models",
            "β_m ~ N(b, s_β²),  γ_p ~ N(0, s_γ²),  γ sums to zero,  e_mp ~ N(0, r²)",
        ),
        priors=PRIORS,
        tables={"slopes": _slopes, "correlation": _correlation},
        figures={"fit": _figure},
    )


def _of_one_sign(quantities: Quantities) -> Array:
    positive = quantities["slopes"] > 0
    return np.asarray(positive.all(axis=-1) | ~positive.any(axis=-1))


def _usable(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Cells with an entropy, of models whose gain and entropy vary over enough prompts; and what is
    left out."""
    stated = (
        rows["entropy"].notna().to_numpy() if "entropy" in rows else np.zeros(len(rows), dtype=bool)
    )
    some = rows[stated]
    if len(some):
        numbers(some["entropy"], "entropy")
    by = some.groupby("model_id")[["value", *(["entropy"] if len(some) else [])]]
    flat = (by.transform("nunique") < 2).any(axis=1) | (by.transform("size") < LEAST)
    usable = some[~flat].reset_index(drop=True)
    lacking = int((~stated).sum())
    steady = named(set(some.loc[flat, "model_id"].astype(str)))
    words = {
        f"{lacking} of {len(rows)} cells have no entropy and carry no information on "
        f"slopes": lacking > 0,
        f"gain or entropy constant, or fewer than {LEAST} prompts: no slope of {steady}": bool(
            flat.any()
        ),
    }
    warnings = [line for line, holds in words.items() if holds]
    if usable["model_id"].nunique() < 2:
        raise UsageError(
            "slopes of entropy need two models",
            where="entropy",
            got=f"{usable['model_id'].nunique()} with gains and entropies of {LEAST} prompts or "
            f"more that vary",
            next_step="; ".join(warnings) or "add entropies of more models",
        )
    return usable, warnings


def _scales(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean and SD of log gain and entropy by model."""
    by = _logs(rows).groupby(rows["model_id"])
    return pd.concat([by.mean(), by.std(ddof=0).add_suffix("_sd")], axis=1)


def _logs(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {"x": np.log(rows["value"].astype("float64")), "z": rows.get("entropy", np.nan)}
    )


def _standardised(rows: pd.DataFrame, scales: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Log gain and entropy in SDs of their model about its mean."""
    columns = _logs(rows)
    scale = scales.loc[rows["model_id"]].set_index(rows.index)
    if (scale["x_sd"] == 0).any():
        raise UsageError(
            "gains of a model that the fit has not seen do not vary",
            where="value",
            allowed="two or more",
        )
    return (columns["x"] - scale["x"]) / scale["x_sd"], (columns["z"] - scale["z"]) / scale["z_sd"]


def _statistics(design: SlopesDesign) -> dict[str, Statistic]:
    x = design.x
    return {
        "correlation with gain": lambda z: (z * x).mean(axis=-1),
        "spread": lambda z: z.std(axis=-1),
    }


def _slopes(fit: Fit) -> pd.DataFrame:
    """One row per model: its slope, and the correlation inside it alone."""
    design = fit.designed(SlopesDesign)
    models = design.labels["slopes"]
    model = design.model_of
    slopes = fit.quantities["slopes"].reshape(-1, len(models))
    lower, upper = equal_tailed(slopes, fit.level)
    alone = pd.Series(design.x * fit.model.observed).groupby(model)
    estimates = {
        "slope": slopes.mean(axis=0),
        "lower": lower,
        "upper": upper,
        "p_positive": (slopes > 0).mean(axis=0),
    }
    return pd.DataFrame(
        {
            "model_id": models,
            **estimates,
            "correlation_alone": alone.mean(),
            "n_prompts": alone.size(),
        }
    )


def _correlation(fit: Fit) -> pd.DataFrame:
    """The classical counterpart over the prompts that every model answered: mean correlation,
    prompts permuted."""
    wide = (
        fit.rows.pivot(index="prompt_id", columns="model_id", values=["value", "entropy"])
        .dropna()
        .astype("float64")
    )
    if len(wide) < LEAST:
        return pd.DataFrame(columns=["estimate", "lower", "upper", "p_value"])
    within = within_correlation(
        np.log(wide["value"]), wide["entropy"], method="pearson", seed=fit.seed
    )
    fields = ("estimate", "lower", "upper", "level", "interval", "p_value", "n", "n_models")
    return pd.DataFrame([{name: getattr(within, name) for name in fields}])


def _figure(fit: Fit, axes: Axes) -> Axes:
    """Slopes of the models with their intervals."""
    forest(fit.table("slopes"), axes, label="model_id", estimate="slope")
    axes.set_xlabel("slope of entropy on log gain, both standardised")
    return axes
