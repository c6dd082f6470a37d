"""Does tuning move the gain, and across 1? Paired prompts of base and tuned models, pairs of one population."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling import sampling
from thermostats.modelling.draws import LEVEL, Array, Draws, Settings
from thermostats.modelling.estimates import columns_of, numbers
from thermostats.modelling.fitted import Fitted, Part, sampled_part

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; a mean and its spread over pairs share it, 0.5/√2 each."""
SHARE = SCALE / 2**0.5
PROMPTS = SCALE / 2
"""Prior scale of the spread over prompts within a model: half of that over models."""
LONGER = Settings(draws=2000)
"""The level of a base and its change go together where tuning undoes the base's differences between prompts."""
MARGIN = 1.1
"""Changes by less than this factor count as none."""
FEW = 10


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Prompts answered by both models of a pair: log gain of the base and log(tuned/base)."""

    names: tuple[str, ...]
    heritages: tuple[str, ...]
    related: tuple[bool, ...]
    """Whether the tuned model was tuned from this base."""
    pair: NDArray[np.int64]
    base: Array
    change: Array
    warnings: tuple[str, ...]


def pairs_of(table: pd.DataFrame, *, only_related: bool = True) -> Pairs:
    """Pairs of base and tuned model with their shared prompts, from one row a model and prompt.

    Columns: model_id, heritage, family, variant, parent, prompt_id, value (the gain). A tuned model goes with its
    parent; without one in the table it goes with the only base of its family, and is left out with a warning where
    `only_related`. Raises UsageError for gains not above 0, a prompt twice, no pair, or fewer than 3 prompts
    of a pair.
    """
    columns_of(table, "model_id", "heritage", "family", "variant", "parent", "prompt_id", "value")
    gains = table.assign(value=numbers(table["value"].astype("float64"), "value", positive=True))
    if gains.duplicated(["model_id", "prompt_id"]).any():
        raise UsageError("a prompt stands twice for one model", where="prompt_id", allowed="one row a model and prompt",
                         next_step="choose one source")  # fmt: skip
    models = gains.drop_duplicates("model_id").set_index("model_id")
    bases = models[models["variant"] == "base"]
    wide = np.log(gains.pivot(index="prompt_id", columns="model_id", values="value"))
    names, labs, related, parts, said = [], [], [], [], []
    for child, row in models[models["variant"] != "base"].sort_index().iterrows():
        family = bases.index[bases["family"] == row["family"]]
        true = row["parent"] in bases.index
        if not true and (only_related or len(family) != 1):
            said.append(f"{child} left out: its parent is not in the table")
            continue
        base = row["parent"] if true else family[0]
        if not true:
            said.append(f"{child} was not tuned from {base}")
        both = wide[[base, child]].dropna()
        if len(both) < 3:
            raise UsageError("too few shared prompts", where=f"{base}, {child}", got=len(both), allowed="at least 3")
        names.append(f"{base} → {child}")
        labs.append(str(row["heritage"]))
        related.append(bool(true))
        parts.append(both.set_axis(["base", "tuned"], axis=1))
    if not parts:
        raise UsageError("no pair of base and tuned model", got="; ".join(said) or "no tuned model",
                         allowed="a tuned model whose parent is in the table")  # fmt: skip
    rows = pd.concat(parts, ignore_index=True)
    return Pairs(
        names=tuple(names),
        heritages=tuple(labs),
        related=tuple(related),
        pair=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        base=rows["base"].to_numpy(),
        change=(rows["tuned"] - rows["base"]).to_numpy(),
        warnings=tuple(said),
    )


def pairs_model(pm: Any, data: Mapping[str, Any]) -> None:
    """base_jp ~ N(μ_j, s_j²), change_jp | base_jp ~ t_4(δ_j + γ_j (base_jp − μ_j), r_j); and
    μ_j ~ N(m, s_μ²), δ_j ~ N(Δ, s_δ²).

    Pairs stand apart in level and spread; m, Δ and the two spreads over pairs speak of pairs not seen. μ_j and δ_j are
    sampled as they are (centred): every pair has its prompts.
    """
    n, pair = data["n_pairs"], data["pair"]
    centre = pm.Normal("centre", 0.0, SHARE)
    shift = pm.Normal("shift", 0.0, SHARE)
    level_sd = pm.HalfNormal("level_sd", SHARE)
    shift_sd = pm.HalfNormal("shift_sd", SHARE)
    level = pm.Normal("level", centre, level_sd, shape=n)
    change = pm.Normal("change", shift, shift_sd, shape=n)
    slope = pm.Normal("slope", 0.0, 0.5, shape=n)
    spread = pm.HalfNormal("spread", PROMPTS, shape=n)
    residual = pm.HalfNormal("residual", PROMPTS, shape=n)
    pm.Normal("bases", level[pair], spread[pair], observed=data["base"])
    expected = change[pair] + slope[pair] * (data["base"] - level[pair])
    pm.StudentT("changes", nu=4.0, mu=expected, sigma=residual[pair], observed=data["change_observed"])


def fit_invariance(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    only_related: bool = True,
    margin: float = MARGIN,
    seed: int,
    cache: bool = True,
) -> Fitted:
    """Multiplicative change exp(δ) of the gain by tuning, by pair and over pairs, and P(the gain changes sides of 1).

    `table`: one row a model and prompt, as `pairs_of` takes it; `estimand` names the gain in `value`. Quantities:
    ratio (by pair), ratio_of_all (exp Δ), shift_sd, level_sd. Tables: `pairs` (levels, ratio with interval, P(sign
    changes), P(ratio within 1/margin to margin), share of prompts that change sides), `new_pair` (P(sign changes) of a
    pair not seen: of any pair, with a base like these, with a base that dampens; from the prior alone beside it).

    Raises UsageError as `pairs_of`, and for a margin not above 1.
    """
    if not (math.isfinite(margin) and margin > 1):
        raise UsageError("an equivalence margin is a ratio", where="margin", got=margin, allowed="above 1, such as 1.1")
    pairs = pairs_of(table, only_related=only_related)
    n = len(pairs.names)
    data = {"pair": pairs.pair, "base": pairs.base, "change_observed": pairs.change, "n_pairs": n}
    draws = sampling.fit(pairs_model, data, seed=seed, settings=LONGER, cache=cache)
    level, change = draws.flat("level"), draws.flat("change")
    flips = (level > 0) != (level + change > 0)
    within = np.abs(change) < math.log(margin)
    rng = np.random.default_rng(seed)
    names = ("centre", "level_sd", "shift", "shift_sd")
    new = _new_pairs({name: draws.flat(name) for name in names}, rng)
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
    by_pair = _by_pair(pairs, level, change, flips, within)
    return Fitted(
        family="invariance",
        estimand=estimand,
        sources=tuple(sorted(set(table["source"]))) if "source" in table else (),
        n_models=2 * n,
        n_heritages=len(set(pairs.heritages)),
        parts={"pairs": _part(pairs, data, draws)},
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
        tables={"pairs": by_pair, "new_pair": _new_table(new, prior)},
        warnings=tuple(said),
        figure=_figure,
        seed=seed,
        labels={"ratio": pairs.names},
    )


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


def _part(pairs: Pairs, data: Mapping[str, Any], draws: Draws) -> Part:
    n = len(pairs.names)

    def means(y: Array) -> Array:
        return np.stack([y[..., pairs.pair == j].mean(axis=-1) for j in range(n)])

    return sampled_part(
        pairs_model,
        data,
        draws,
        "changes",
        observed=pairs.change,
        top=("centre", "shift", "level_sd", "shift_sd"),
        decisive={"shift": draws["shift"], "shift_sd": draws["shift_sd"]},
        statistics={
            "largest mean change": lambda y: np.abs(means(y)).max(axis=0),
            "spread": lambda y: y.std(axis=-1),
            "skew": lambda y: stats.skew(y, axis=-1),
            "largest": lambda y: np.abs(y).max(axis=-1),
        },
    )


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
