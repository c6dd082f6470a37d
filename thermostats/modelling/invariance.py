"""Does tuning move the gain, and across 1? Paired prompts of base and tuned models, pairs of one population."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling import checks, sampling
from thermostats.modelling.draws import LEVEL, PASSED, Array, Draws, Settings
from thermostats.modelling.estimates import at_position
from thermostats.modelling.fitted import Fitted, Part, sampled_part
from thermostats.modelling.interface import NO_SOURCE
from thermostats.modelling.linear import SURE
from thermostats.modelling.pairs import Pairs, pairs_of, without
from thermostats.modelling.sensitivity import FACTORS, NORMAL, others_of, refitted, rescaled, weighted

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; a mean and its spread over pairs share it, 0.5/√2 each."""
SHARE = SCALE / 2**0.5
PROMPTS = SCALE / 2
"""Prior scale of the spread over prompts within a model: half of that over models."""
RESIDUAL = PROMPTS / 2
"""Of what tuning adds prompt by prompt, which is the part that the base does not tell, PROMPTS/√2: t_4 has SD √2 r."""
SLOPE = 0.5
"""Prior scale of how far changes follow the base's prompts."""
NU = 4.0
SAME_SD = (NU / (NU - 2)) ** 0.5
"""Standard deviation of t_4 over its scale."""
LONGER = Settings(draws=2000)
"""The level of a base and its change go together where tuning undoes the base's differences between prompts."""
MARGIN = 1.1
"""Changes by less than this factor count as none."""
HYPER = ("centre", "level_sd", "shift", "shift_sd")
FEW = 10
ASKED = (0.1, 0.25, 0.5)
"""Shares of pairs that change sides, for which it is said how likely these pairs were to show one."""
EQUATIONS = (
    "log g_jp(base) ~ N(μ_j, s_j²)",
    "log g_jp(tuned) − log g_jp(base) ~ t₄(δ_j + γ_j (log g_jp(base) − μ_j), r_j)",
    "μ_j ~ N(m, s_μ²),  δ_j ~ N(Δ, s_δ²);  j a pair, p a prompt that both answered",
)
PRIORS = (
    ("m, Δ", f"N(0, {SHARE:.2f}²)", "mean level and mean change over pairs: half the variance of log gains each way"),
    ("s_μ, s_δ", f"half-normal({SHARE:.2f})", "spread of levels and of changes over pairs: the other half"),
    ("γ_j", "N(0, 0.5²)", "−1 were tuning that forgets the base's prompts, 0 that keeps their differences"),
    ("s_j", f"half-normal({PROMPTS:g})", "spread over prompts: half of what models differ by"),
    (
        "r_j",
        f"half-normal({RESIDUAL:g})",
        "changes prompt by prompt: SD √2 r_j, half the variance of prompts",
    ),
)


def pairs_model(pm: Any, data: Mapping[str, Any]) -> None:
    """base_jp ~ N(μ_j, s_j²), change_jp | base_jp ~ t_4(δ_j + γ_j (base_jp − μ_j), r_j); and
    μ_j ~ N(m, s_μ²), δ_j ~ N(Δ, s_δ²).

    Pairs stand apart in level and spread; m, Δ and the two spreads over pairs speak of pairs not seen. m and Δ are
    summed out, (μ_1 … μ_n) ~ N(0, s_μ² I + SHARE² 11ᵀ), and drawn given the rest: sampled beside their spreads they
    leave divergences with one pair. Q turns pairs so that this covariance is diagonal. δ_j is sampled by way of the
    change at the mean of the prompts, δ_j + γ_j (b̄_j − μ_j), which the data tell apart from the level.
    `factor` times all prior scales and `normal` errors of the same variance are alternatives.
    """
    n, pair, Q, factor = data["n_pairs"], data["pair"], data["rotation"], data.get("factor", 1.0)
    share = SHARE * factor
    level_sd = pm.HalfNormal("level_sd", share)
    shift_sd = pm.HalfNormal("shift_sd", share)
    level_at = pm.Normal("level_at", 0.0, pm.math.sqrt(level_sd**2 + share**2 * data["common"]), shape=n)
    level = pm.Deterministic("level", pm.math.dot(Q, level_at))
    slope = pm.Normal("slope", 0.0, SLOPE * factor, shape=n)
    offset = slope * (data["base_mean"] - level)
    scale = pm.math.sqrt(shift_sd**2 + share**2 * data["common"])
    at_mean = pm.math.dot(Q, pm.Normal("change_at", pm.math.dot(offset, Q), scale, shape=n))
    change = pm.Deterministic("change", at_mean - offset)
    for name, values, sd in (("centre", level, level_sd), ("shift", change, shift_sd)):
        total = sd**2 + n * share**2
        rest = pm.Normal(f"{name}_z", 0.0, 1.0) * share * sd / pm.math.sqrt(total)
        pm.Deterministic(name, share**2 * pm.math.sum(values) / total + rest)
    spread = pm.HalfNormal("spread", PROMPTS * factor, shape=n)
    residual = pm.HalfNormal("residual", RESIDUAL * factor, shape=n)
    pm.Normal("bases", level[pair], spread[pair], observed=data["base"])
    expected = at_mean[pair] + slope[pair] * (data["base"] - data["base_mean"][pair])
    if data.get("normal"):
        pm.Normal("changes", expected, SAME_SD * residual[pair], observed=data["change_observed"])
    else:
        pm.StudentT("changes", nu=NU, mu=expected, sigma=residual[pair], observed=data["change_observed"])


def fit_invariance(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    only_related: bool = True,
    margin: float = MARGIN,
    seed: int,
    settings: Settings = LONGER,
    cache: bool = True,
) -> Fitted:
    """Multiplicative change exp(δ) of the gain by tuning, by pair and over pairs, and P(the gain changes sides of 1).

    `table`: one row a model and prompt, as `pairs_of` takes it; `estimand` names the gain in `value`. Quantities:
    ratio (by pair), ratio_of_all (exp Δ), shift_sd, level_sd. Tables: `pairs` (levels, ratio with interval, P(sign
    changes), P(ratio within 1/margin to margin), share of prompts that change sides), `new_pair` (P(sign changes) of a
    pair not seen: of any pair, with a base that dampens, that expands, that is near 1; from the prior alone beside
    it), `shown` (what so many pairs can show: the chance of one that changes sides, were a share of them to do so, and
    the bound on that share had none), `sensitivity` (importance weights; sampled anew by `Fitted.sensitivity`).

    Raises UsageError as `pairs_of`, and for a margin not above 1.
    """
    if not (math.isfinite(margin) and margin > 1):
        raise UsageError("an equivalence margin is a ratio", where="margin", got=margin, allowed="above 1, such as 1.1")
    pairs = pairs_of(table, only_related=only_related)
    n, data = len(pairs.names), _arrays(pairs)
    draws = sampling.fit(pairs_model, data, seed=seed, settings=settings, cache=cache)
    level, change = draws.flat("level"), draws.flat("change")
    flips = (level > 0) != (level + change > 0)
    within = np.abs(change) < math.log(margin)
    rng = np.random.default_rng(seed)
    new = _new_pairs({name: draws.flat(name) for name in HYPER}, rng)
    prior = _new_pairs(_hyperprior(rng), rng)
    said = list(pairs.warnings)
    base_dampens = (level.mean(axis=0) < 0).sum()
    if n < FEW:
        none = 1 - (1 - LEVEL) ** (1 / n)
        said.append(
            f"{n} pairs: had none of them changed sides, up to {none:.0%} of pairs still might (exact {LEVEL:.0%} "
            "bound); what is said of a new pair rests on the priors of the spreads over pairs"
        )
    if base_dampens == 0:
        said.append("no base model dampens: whether a dampener can be tuned into an expander was not seen")
    if not (sources := _sources(table, pairs)):
        said.append(NO_SOURCE)
    by_pair = _by_pair(pairs, level, change, flips, within)
    return Fitted(
        family="invariance",
        estimand=at_position(estimand, table),
        sources=sources,
        n_models=len({model for pair in pairs.models for model in pair}),
        n_heritages=len(set(pairs.heritages)),
        parts=_parts(pairs, data, draws),
        quantities={
            "ratio": np.exp(draws["change"]),
            "ratio_of_all": np.exp(draws["shift"]),
            "shift_sd": draws["shift_sd"],
            "level_sd": draws["level_sd"],
        },
        probabilities={
            "any of these pairs changes sides": float(flips.any(axis=1).mean()),
            "every pair within the margin": float(within.all(axis=1).mean()),
            "mean change within the margin": float((np.abs(draws.flat("shift")) < math.log(margin)).mean()),
            "mean change below 1": float((draws.flat("shift") < 0).mean()),
            "new pair changes sides": new["any pair"],
            "new pair within the margin": new["within"](margin),
        },
        numbers={
            "margin": margin,
            "n_pairs": float(n),
            "upper_bound_of_flips_had_none_flipped": 1 - (1 - LEVEL) ** (1 / n),
            "pairs_needed_for_10_percent": math.ceil(math.log(1 - LEVEL) / math.log(0.9)),
        },
        tables={"pairs": by_pair, "new_pair": _new_table(new, prior), "shown": _shown(n),
                "sensitivity": _sensitivity(data, draws)},
        warnings=tuple(said),
        figure=_figure,
        refits=lambda s: refitted(pairs_model, others_of(data), _asked, data["base"].size, seed=s, settings=settings,
                                  cache=cache),
        influence=partial(_influence, pairs, draws, settings, cache) if n > 1 else None,
        seed=seed,
        equations=EQUATIONS,
        priors=PRIORS,
        labels={"ratio": pairs.names},
    )  # fmt: skip


def _asked(draws: Draws) -> dict[str, Array]:
    """What the table of alternatives tells."""
    level, change = draws["level"], draws["change"]
    flips = ((level > 0) != (level + change > 0)).sum(axis=-1).astype(np.float64)
    return {"mean change of log gain": draws["shift"], "pairs that change sides": flips}


def _sensitivity(data: Mapping[str, Any], draws: Draws) -> pd.DataFrame:
    """Other prior scales, and normal changes of the same variance, by importance weights."""
    scales = dict.fromkeys(HYPER, SHARE) | {"slope": SLOPE, "spread": PROMPTS, "residual": RESIDUAL}
    ratios = {
        name: np.asarray(sum(rescaled(draws[part], scale, f) for part, scale in scales.items()))
        for name, f in FACTORS.items()
    }
    pair, r = data["pair"], draws["residual"]
    expected = (draws["change"] - draws["slope"] * draws["level"])[..., pair] + draws["slope"][..., pair] * data["base"]
    e = (data["change_observed"] - expected) / r[..., pair]
    ratios[NORMAL] = (stats.norm.logpdf(e, scale=SAME_SD) - stats.t.logpdf(e, NU)).sum(axis=-1)
    return weighted(ratios, _asked(draws), data["base"].size)


def _sources(table: pd.DataFrame, pairs: Pairs) -> tuple[str, ...]:
    """Files or measurements of the models that are in a pair."""
    taken = table["model_id"].isin([model for pair in pairs.models for model in pair])
    return tuple(sorted(set(table.loc[taken, "source"]))) if "source" in table else ()


def _arrays(pairs: Pairs) -> dict[str, Any]:
    n, means = len(pairs.names), np.bincount(pairs.pair, pairs.base) / np.bincount(pairs.pair)
    first = np.eye(n)[0]
    turned = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0]
    observed = {"base": pairs.base, "base_mean": means, "change_observed": pairs.change}
    return observed | {"pair": pairs.pair, "rotation": turned, "common": n * first, "n_pairs": n}


def _shown(n: int) -> pd.DataFrame:
    """What n pairs can show, and 3, 10, 30 and 100."""
    sizes = np.unique([n, 3, 10, 30, 100])
    table = pd.DataFrame({"n_pairs": sizes, "here": sizes == n, "bound_had_none": 1 - (1 - LEVEL) ** (1 / sizes)})
    return table.assign(**{f"p_seen_at_{share:.0%}": 1 - (1 - share) ** sizes for share in ASKED})


def _influence(pairs: Pairs, draws: Draws, settings: Settings, cache: bool, seed: int) -> checks.Check:
    """Exact refits without each pair, and without all pairs of a lab that has several.

    Is the mean change below 1, above, or open; P(a new pair changes sides).
    """

    def say(found: Draws) -> tuple[str, dict[str, float]]:
        below = float((found.flat("shift") < 0).mean())
        hyper = {name: found.flat(name) for name in HYPER}
        new = _new_pairs(hyper, np.random.default_rng(seed))["any pair"]
        verdict = "below" if below >= SURE else "above" if below <= 1 - SURE else "open"
        figures = {"P(mean change below 1)": below, "P(new pair changes sides)": new}
        return verdict if found.status == PASSED else found.status, figures

    codes, labs = pd.factorize(np.array(pairs.heritages))
    ways = {name: np.arange(len(pairs.names)) == j for j, name in enumerate(pairs.names)}
    ways |= {f"all pairs of {lab}": codes == k for k, lab in enumerate(labs) if 1 < (codes == k).sum() < codes.size}
    found = {
        name: say(
            sampling.fit(pairs_model, _arrays(without(pairs, out)), seed=seed + j, settings=settings, cache=cache)
        )
        for j, (name, out) in enumerate(ways.items())
    }
    return checks.influence(say(draws)[0], {k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()})


def _new_pairs(hyper: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Any]:
    """Predictive probabilities for a pair of the same population, one pair a draw of the hyperparameters."""
    level = rng.normal(hyper["centre"], hyper["level_sd"])
    change = rng.normal(hyper["shift"], hyper["shift_sd"])
    flips = (level > 0) != (level + change > 0)
    small = np.abs(level) < math.log(1.2)
    damp = level < 0

    def mean_where(chosen: NDArray[np.bool_]) -> float:
        return float(flips[chosen].mean()) if chosen.any() else math.nan

    return {
        "any pair": float(flips.mean()),
        "base that dampens": mean_where(damp),
        "base that expands": mean_where(~damp),
        "base within 1.2 of 1": mean_where(small),
        "within": lambda margin: float((np.abs(change) < math.log(margin)).mean()),
    }


def _hyperprior(rng: np.random.Generator, draws: int = 20_000) -> dict[str, Array]:
    level_sd, shift_sd = np.abs(rng.normal(0, SHARE, (2, draws)))
    centre, shift = rng.normal(0, SHARE, (2, draws))
    return {"centre": centre, "level_sd": level_sd, "shift": shift, "shift_sd": shift_sd}


def _new_table(new: Mapping[str, Any], prior: Mapping[str, Any]) -> pd.DataFrame:
    names = [name for name in new if name != "within"]
    return pd.DataFrame(
        {"pair": names, "p_sign_changes": [new[n] for n in names], "from_prior_alone": [prior[n] for n in names]}
    )


def _by_pair(
    pairs: Pairs, level: Array, change: Array, flips: NDArray[np.bool_], within: NDArray[np.bool_]
) -> pd.DataFrame:
    low, high = np.quantile(change, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    rows = []
    for j, name in enumerate(pairs.names):
        own = pairs.pair == j
        base, tuned = pairs.base[own], pairs.base[own] + pairs.change[own]
        rows.append(
            {
                "pair": name, "heritage": pairs.heritages[j], "related": pairs.related[j], "n_prompts": int(own.sum()),
                "base": math.exp(level[:, j].mean()), "tuned": math.exp((level + change)[:, j].mean()),
                "ratio": math.exp(np.median(change[:, j])), "ratio_lower": math.exp(low[j]),
                "ratio_upper": math.exp(high[j]), "p_sign_changes": float(flips[:, j].mean()),
                "p_within_margin": float(within[:, j].mean()), "p_base_dampens": float((level[:, j] < 0).mean()),
                "prompts_that_change_sides": float(((base > 0) != (tuned > 0)).mean()),
                "t_test_p": float(stats.ttest_1samp(pairs.change[own], 0.0).pvalue),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _parts(pairs: Pairs, data: Mapping[str, Any], draws: Draws) -> dict[str, Part]:
    n = len(pairs.names)

    def means(y: Array) -> Array:
        return np.array([y[pairs.pair == j].mean() for j in range(n)])

    def largest_skew(y: Array) -> float:
        return max((float(stats.skew(y[pairs.pair == j])) for j in range(n)), key=abs)

    changes = sampled_part(
        pairs_model,
        data,
        draws,
        "changes",
        observed=pairs.change,
        top=HYPER,
        decisive={"shift": draws["shift"], "shift_sd": draws["shift_sd"]},
        statistics={
            "largest mean change": lambda y: float(np.abs(means(y)).max()),
            "spread": lambda y: float(y.std()),
            "largest skew of a pair": largest_skew,
            "largest": lambda y: float(np.abs(y).max()),
            "share that change sides": lambda y: float(((pairs.base > 0) != (pairs.base + y > 0)).mean()),
        },
    )
    bases = sampled_part(
        pairs_model,
        data,
        draws,
        "bases",
        observed=pairs.base,
        top=HYPER,
        decisive={"level_sd": draws["level_sd"]},
        statistics={
            "share that dampen": lambda y: float((y < 0).mean()),
            "spread of means": lambda y: float(means(y).std()),
            "largest": lambda y: float(y.max()),
            "smallest": lambda y: float(y.min()),
        },
    )
    scaled = sum(np.square(draws[name] / SHARE) for name in HYPER)
    parts = {"changes": changes, "bases": bases}
    return {name: replace(part, log_prior=lambda: np.asarray(-0.5 * scaled)) for name, part in parts.items()}


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    shown = fitted.table("pairs")
    rows = np.arange(len(shown))
    axes.hlines(rows, shown["ratio_lower"], shown["ratio_upper"], linewidth=3, alpha=0.5)
    axes.plot(shown["ratio"], rows, "o")
    margin = fitted.numbers["margin"]
    axes.axvspan(1 / margin, margin, alpha=0.12)
    axes.axvline(1, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(rows, [str(name).replace(" → ", "\n→ ") for name in shown["pair"]])
    axes.set_xlabel("gain of the tuned model over that of its base; band: counts as no change")
    return axes
