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
from thermostats.modelling.classical.estimates import at_position
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.draws import LEVEL, PASSED, Array, Draws, Settings
from thermostats.modelling.inference.fitted import NO_SOURCE, Fitted, Part, sampled_part
from thermostats.modelling.inference.sensitivity import (
    FACTORS,
    NORMAL,
    NU,
    SAME_SD,
    others_of,
    refitted,
    rescaled,
    weighted,
)
from thermostats.modelling.laws.invariance_model import (
    EQUATIONS,
    HYPER,
    PRIORS,
    PROMPTS,
    RESIDUAL,
    SHARE,
    SLOPE,
    arrays,
    pairs_model,
    simulator,
)
from thermostats.modelling.laws.linear import SURE
from thermostats.modelling.laws.pairs import Pairs, pairs_of, without

LONGER = Settings(draws=2000)
"""The level of a base and its change go together where tuning undoes the base's differences between prompts."""
MARGIN = 1.1
"""Changes by less than this factor count as none."""
FEW = 10
ASKED = (0.1, 0.25, 0.5)
"""Shares of pairs that change sides, for which it is said how likely these pairs were to show one."""


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
    n, data = len(pairs.names), arrays(pairs)
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
        tables={
            "pairs": by_pair,
            "new_pair": _new_table(new, prior),
            "shown": _shown(n),
            "sensitivity": _sensitivity(data, draws),
        },
        warnings=tuple(said),
        figure=_figure,
        refits=lambda s: refitted(
            pairs_model,
            others_of(data),
            _asked,
            data["base"].size,
            seed=s,
            settings=settings,
            cache=cache,
            stated=draws,
        ),
        influence=partial(_influence, pairs, draws, settings, cache) if n > 1 else None,
        seed=seed,
        equations=EQUATIONS,
        priors=PRIORS,
        labels={"ratio": pairs.names},
    )


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
        name: say(sampling.fit(pairs_model, arrays(without(pairs, out)), seed=seed + j, settings=settings, cache=cache))
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
                "pair": name,
                "heritage": pairs.heritages[j],
                "related": pairs.related[j],
                "n_prompts": int(own.sum()),
                "base": math.exp(level[:, j].mean()),
                "tuned": math.exp((level + change)[:, j].mean()),
                "ratio": math.exp(np.median(change[:, j])),
                "ratio_lower": math.exp(low[j]),
                "ratio_upper": math.exp(high[j]),
                "p_sign_changes": float(flips[:, j].mean()),
                "p_within_margin": float(within[:, j].mean()),
                "p_base_dampens": float((level[:, j] < 0).mean()),
                "prompts_that_change_sides": float(((base > 0) != (tuned > 0)).mean()),
                "t_test_p": float(stats.ttest_1samp(pairs.change[own], 0.0).pvalue),
            }
        )
    return pd.DataFrame(rows)


def _parts(pairs: Pairs, data: Mapping[str, Any], draws: Draws) -> dict[str, Part]:
    n, of_pairs = len(pairs.names), simulator(data, draws.settings.target_accept)

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
        simulator=of_pairs,
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
        simulator=of_pairs,
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
