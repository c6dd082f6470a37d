"""entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp, x = log g, β_m ~ N(b, s_β²): does entropy go with gain?

Both are standardised within models m; γ_p are effects of prompts p that sum to zero. The draws are exact.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import within_correlation
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, weighed
from thermostats.modelling.inference.draws import SEED, Array, Draws, Settings, Weights, equal_tailed
from thermostats.modelling.inference.fitted import Fitted, chances
from thermostats.modelling.inference.parts import CHECKED, Part, direct_part, spaced
from thermostats.modelling.inference.quadrature import Components, draw_components, left_out_components
from thermostats.modelling.inference.sensitivity import FACTORS
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.modelling.laws.crossed_table import (
    Crossed,
    about,
    crossed,
    refuse_large,
    stack,
    sum_zero,
    warnings_of,
    without_each,
)
from thermostats.plots.general import forest

SLOPE_SD = 0.5
"""Prior scale of slopes of entropy on log gain, both in SDs within a model: a correlation, roughly."""
DRAWS, REFIT = Settings(draws=3000), Settings(draws=1500)
ASKED: dict[str, Statement] = {"slope > 0": lambda q: q["slope"] > 0, "between > 0": lambda q: q["between"] > 0}
EQUATIONS = (
    "entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp,  x = log g, both standardised within models",
    "β_m ~ N(b, s_β²),  γ_p ~ N(0, s_γ²),  γ sums to zero,  e_mp ~ N(0, r²)",
)
PRIORS = (
    ("b, B", f"N(0, {SLOPE_SD:g}²)", "slopes of standardised columns, near correlations"),
    ("s_β", f"half-normal({SLOPE_SD:g})", "models may differ as much as the mean slope is uncertain"),
    ("s_γ, r", "half-normal(1)", "the standardised entropy has spread 1"),
)


def components(cells: Crossed) -> Components | None:
    """The model of the cells that hold an entropy; None for fewer than two models of them.

    b is the slope inside prompts, B that between prompts: whether prompts with high gain in every model have high
    entropy in every model. Columns of U: b, B, deviations of the models' slopes, prompts as sums to zero. Raises
    UsageError as `refuse_large`.
    """
    if len(set(cells.xz_model.tolist())) < 2:
        return None
    refuse_large(cells, cells.x.size, len(cells.models) + len(cells.prompts) + 1)
    mean = pd.Series(cells.x).groupby(cells.xz_prompt).transform("mean").to_numpy()
    within = cells.x - mean
    by_model = within[:, None] * (cells.xz_model[:, None] == np.arange(len(cells.models)))
    own, kind = stack([by_model, sum_zero(len(cells.prompts))[cells.xz_prompt]])
    return Components(
        z=cells.z,
        U=np.column_stack([within, mean, own]),
        sd=np.full(2, SLOPE_SD),
        kind=kind,
        scales=np.array([SLOPE_SD, 2 * SLOPE_SD, 1.0]),
    )


def part(model: Components, draws: Draws, cells: Crossed) -> Part:
    """What the checks need."""
    x = cells.x
    chosen = spaced(draws)
    effects = np.column_stack([draws.flat("fixed")[chosen], draws.flat("own")[chosen]])
    mean, rest = effects @ model.U.T, draws.flat("rest")[chosen][:, None]

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        first, rng = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        scales = np.abs(first.normal(0, model.scales, (size, model.scales.size)))
        slopes = first.normal(0, SLOPE_SD, (size, 2))
        own = rng.normal(0, scales[:, :-1] @ model.kind.T)
        outcomes = np.asarray(rng.normal(np.column_stack([slopes, own]) @ model.U.T, scales[:, -1:]))
        return {"fixed": slopes, "own_spreads": scales[:, :-1], "rest": scales[:, -1]}, outcomes

    def again(outcome: Array, seed: int) -> Refit:
        return weighed(sample(replace(model, z=outcome), seed=seed, settings=SHORT))

    def pit(seed: int) -> checks.Check:
        """Every entropy given all others with its effects summed out; importance weights for the three scales only."""
        scales = np.column_stack([draws.flat("own_spreads"), draws.flat("rest")])
        taken = np.random.default_rng(seed).choice(len(scales), min(CHECKED, len(scales)), replace=False)
        found = left_out_components(model, scales[taken])
        return checks.weighted_pit(stats.norm.logpdf(model.z, *found), stats.norm.cdf(model.z, *found))

    return direct_part(
        draws,
        observed=model.z,
        of=cells.names(cells.xz_model, cells.xz_prompt),
        statistics={"correlation with gain": lambda z: (z * x).mean(axis=-1), "spread": lambda z: z.std(axis=-1)},
        priors={"fixed": (0.0, SLOPE_SD), "own_spreads": (0.0, model.scales[:-1]), "rest": (0.0, model.scales[-1])},
        simulator=Simulator(joint=joint, posterior=again),
        replicate=lambda seed: np.asarray(np.random.default_rng(seed).normal(mean, rest)),
        density=lambda: np.asarray(stats.norm.logpdf(model.z, mean, rest)),
        loo=pit,
    )


def fit_slopes(
    table: pd.DataFrame, estimand: str = "last_gain", *, seed: int = SEED, settings: Settings = DRAWS
) -> Fitted:
    """Slopes of entropy on log gain, a population of models: P(slope > 0) inside prompts, P(between > 0) over them.

    `table`: one row per model and prompt, as `crossed` takes it, with `entropy`; `estimand` names the gain in `value`.
    Quantities: slopes by model, slope (their mean), slope_sd and between. Tables: `slopes`, and `correlation` (mean
    over models, prompts permuted: the classical counterpart). Number: `effective`, of the weights of the draws.

    Raises UsageError as `crossed`, and where fewer than two models have entropies that vary.
    """
    cells = crossed(table)
    model = components(cells)
    if model is None:
        raise UsageError(
            "slopes of entropy need two models",
            where="entropy",
            got=f"{len(set(cells.xz_model.tolist()))} with gains and entropies of 4 prompts or more that vary",
            next_step="; ".join(cells.warnings) or "add entropies of more models",
        )
    draws = sample(model, seed=seed, settings=settings)
    shown = _quantities(draws, len(cells.models))
    positive = shown["slopes"] > 0
    return Fitted(
        family="slopes",
        **about(table, cells, estimand),
        parts={"entropies": part(model, draws, cells)},
        quantities=shown,
        statements=ASKED,
        probabilities=chances(ASKED, shown)
        | {"slopes of one sign": float(max(positive.all(axis=-1).mean(), (~positive).all(axis=-1).mean()))},
        numbers={"n_prompts": float(len(cells.prompts)), "effective": draws.diagnostics.effective},  # type: ignore[union-attr]
        tables={"slopes": _slopes(cells, shown["slopes"]), "correlation": _correlation(table, cells, seed)},
        warnings=warnings_of(table, cells, "a slope over models"),
        figure=_figure,
        alternatives=partial(_alternatives, model, len(cells.models)),
        left_out=partial(_left_out, table, cells) if len(set(cells.xz_model.tolist())) > 2 else None,
        seed=seed,
        equations=EQUATIONS,
        priors=PRIORS,
        labels={"slopes": cells.models},
    )


def sample(model: Components, *, seed: int, settings: Settings) -> Draws:
    """Independent draws, as many as `settings` ask for: fixed (b, B), own, own_spreads (s_β, s_γ) and rest (r)."""
    start = time.perf_counter()
    found = draw_components(model, seed=seed, draws=settings.chains * settings.draws)
    flat = {
        "fixed": found.effects[:, :2],
        "own": found.effects[:, 2:],
        "own_spreads": found.scales[:, :-1],
        "rest": found.scales[:, -1],
    }
    weights = Weights(effective=found.effective)
    return sampling.exact_draws(flat, seed=seed, settings=settings, start=start, weights=weights)


def _slopes(cells: Crossed, slopes: Array) -> pd.DataFrame:
    slopes = slopes.reshape(-1, len(cells.models))
    lower, upper = equal_tailed(slopes)
    by_model = pd.Series(cells.x * cells.z).groupby(cells.xz_model)
    models = range(len(cells.models))
    return pd.DataFrame(
        {
            "model_id": cells.models,
            "slope": slopes.mean(axis=0),
            "lower": lower,
            "upper": upper,
            "p_positive": (slopes > 0).mean(axis=0),
            "correlation_alone": by_model.mean().reindex(models),
            "n_prompts": by_model.size().reindex(models, fill_value=0),
        }
    )


def _correlation(table: pd.DataFrame, cells: Crossed, seed: int) -> pd.DataFrame:
    """The classical counterpart over the prompts that every model answered: mean correlation, prompts permuted."""
    known = table[table["entropy"].notna() & table["model_id"].isin([cells.models[m] for m in set(cells.xz_model)])]
    wide = known.pivot(index="prompt_id", columns="model_id", values=["value", "entropy"]).dropna()
    if len(wide) < 4:
        return pd.DataFrame(columns=["estimate", "lower", "upper", "p_value"])
    found = within_correlation(np.log(wide["value"]), wide["entropy"], method="pearson", seed=seed)
    fields = ("estimate", "lower", "upper", "level", "interval", "p_value", "n", "n_models")
    return pd.DataFrame([{name: getattr(found, name) for name in fields}])


def _quantities(draws: Draws, n_models: int) -> dict[str, Array]:
    slope, between = draws["fixed"][..., 0], draws["fixed"][..., 1]
    slopes = slope[..., None] + draws["own"][..., :n_models]
    return {"slopes": slopes, "slope": slope, "slope_sd": draws["own_spreads"][..., 0], "between": between}


def _alternatives(model: Components, n_models: int, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits under other priors, with one slope for all models, and without effects of prompts."""
    others = {n: replace(model, sd=model.sd * f, scales=model.scales * f) for n, f in FACTORS.items()}
    others |= {"one slope for all models": _without_kind(model, 0), "no effects of prompts": _without_kind(model, 1)}
    for name, other in others.items():
        drawn = _quantities(sample(other, seed=seed, settings=REFIT), n_models)
        yield name, {of: drawn[of] for of in ("slope", "between")}


def _without_kind(model: Components, out: int) -> Components:
    """The same without the effects of one kind."""
    kept, kinds, known = model.kind[:, out] == 0, np.arange(model.kind.shape[1]) != out, model.sd.size
    columns = np.concatenate([np.ones(known, dtype=bool), kept])
    scales = model.scales[np.append(kinds, True)]
    return replace(model, U=model.U[:, columns], kind=model.kind[kept][:, kinds], scales=scales)


def _left_out(table: pd.DataFrame, cells: Crossed, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits without each model and each lab of several."""
    for number, (name, rest) in enumerate(without_each(table, cells.models)):
        if rest is not None and (model := components(rest)) is not None:
            yield name, _quantities(sample(model, seed=seed + number, settings=REFIT), len(rest.models))


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    """Slopes of the models with their intervals."""
    forest(fitted.table("slopes"), axes, label="model_id", estimate="slope")
    axes.set_xlabel("slope of entropy on log gain, both standardised")
    return axes
