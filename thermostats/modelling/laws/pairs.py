"""log(tuned/base)_jp ~ t₄(δ_j + γ_j (log base_jp − μ_j), r_j), δ_j ~ N(Δ, s_δ²): does tuning move the gain past 1?

Pairs j of a base model and the model tuned from it, one population of pairs, with the prompts p that both answered.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.choices import options
from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import at_position, columns_of, is_constant, labels, named, numbers
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator
from thermostats.modelling.inference.draws import GIBBS, SEED, Array, Draws, Settings, equal_tailed
from thermostats.modelling.inference.fitted import NO_SOURCE, Fitted, chances
from thermostats.modelling.inference.parts import CHECKED, Part, direct_part, names_of, spaced
from thermostats.modelling.inference.sensitivity import FACTORS, NORMAL, NU, SAME_SD, rescaled
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.modelling.laws.crossed_table import one_row_a_prompt, sources_of
from thermostats.modelling.laws.pairs_draws import PROMPTS, RESIDUAL, SHARE, SLOPE, Prompted, from_prior, sweeps

HYPER = ("centre", "level_sd", "shift", "shift_sd")
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
    ("r_j", f"half-normal({RESIDUAL:g})", "changes prompt by prompt: SD √2 r_j, half the variance of prompts"),
)
SETTINGS = Settings(draws=2000, tune=200, sampler=GIBBS)
REFIT = Settings(draws=500, tune=150, sampler=GIBBS)
"""Of refits, which are asked for probabilities alone."""
MARGIN = 1.1
"""Changes by less than this factor count as none."""
OF_PRIOR = 20_000
"""Draws from the prior of pairs not seen."""
FEW = 10
ASKED = (0.1, 0.25, 0.5)
"""Shares of pairs that change sides, for which it is said how likely these pairs were to show one."""
MANY = 100
ROUNDING = 1e-12


def fit_invariance(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    only_related: bool = True,
    margin: float = MARGIN,
    seed: int = SEED,
    settings: Settings = SETTINGS,
    cache: bool = True,
) -> Fitted:
    """Multiplicative change exp(δ) of the gain by tuning, by pair and over pairs, and P(the gain changes sides of 1).

    `table`: one row per model and prompt, as `pairs_of` takes it; `estimand` names the gain in `value`. Quantities:
    ratio (by pair), ratio_of_all (exp Δ), shift_sd, level_sd. Tables: `pairs` (levels, ratio with interval, P(sign
    changes), P(ratio within 1/margin to margin), share of prompts that change sides), `new_pair` (P(sign changes) of a
    pair not seen: of any pair, with a base that dampens, that expands, that is near 1; from the prior alone with
    it), `shown` (what so many pairs can show: the chance of one that changes sides, were a share of them to do so, and
    the bound on that share had none).

    Raises UsageError as `pairs_of`, and for a margin not above 1.
    """
    if not (math.isfinite(margin) and margin > 1):
        raise UsageError("an equivalence margin is a ratio", where="margin", got=margin, allowed="above 1, such as 1.1")
    pairs = pairs_of(table, only_related=only_related)
    names, model = tuple(pairs.pairs["pair"]), prompted(pairs)
    draws = sampling.by_gibbs(sweeps, model, seed=seed, settings=settings, cache=cache)
    level, change = (draws.flat(name) for name in ("level", "change"))
    shown, more = _quantities(draws.values), {name: draws[name] for name in ("level", "change")}
    asked: dict[str, Statement] = {
        "any of these pairs changes sides": lambda q: changes_sides(q).any(axis=-1),
        "every pair within the margin": lambda q: (np.abs(q["change"]) < math.log(margin)).all(axis=-1),
        "mean change within the margin": lambda q: np.abs(np.log(q["ratio_of_all"])) < math.log(margin),
        "mean change below 1": lambda q: q["ratio_of_all"] < 1,
    }
    rng = np.random.default_rng(seed)
    new = _new_pairs({name: draws.flat(name) for name in HYPER}, rng, margin)
    prior = _new_pairs(from_prior(0, rng, OF_PRIOR), rng, margin)
    models = set(pairs.pairs["base"]) | set(pairs.pairs["tuned"])
    sources = sources_of(table[table["model_id"].isin(list(models))])
    return Fitted(
        family="invariance",
        estimand=at_position(estimand, table),
        sources=sources,
        n_models=len(models),
        n_heritages=pairs.pairs["heritage"].nunique(),
        parts=_parts(model, draws, names_of(pairs.prompts)),
        quantities=shown,
        more=more,
        statements=asked,
        probabilities=chances(asked, {**shown, **more})
        | {"new pair changes sides": new["any pair"], "new pair within the margin": new.pop("within")},
        numbers={"margin": margin, "n_pairs": float(len(names))},
        tables={
            "pairs": _by_pair(pairs, level, change, margin),
            "new_pair": pd.DataFrame(
                [{"pair": name, "p_sign_changes": p, "from_prior_alone": prior[name]} for name, p in new.items()]
            ),
            "shown": _shown(len(names)),
        },
        warnings=(*pairs.warnings, *_warnings(len(names), level), *(() if sources else (NO_SOURCE,))),
        figure=_figure,
        left_out=partial(_left_out, pairs) if len(names) > 1 else None,
        seed=seed,
        equations=EQUATIONS,
        priors=PRIORS,
        labels=dict.fromkeys(("ratio", "level", "change", "spread", "residual"), names),
    )


def _warnings(n: int, level: Array) -> list[str]:
    said = []
    if n < FEW:
        said.append(
            f"{n} pairs: even if none of them had crossed 1, up to {_most_unseen(n):.0%} of pairs still could (exact "
            f"{options.level:.0%} bound); statements about a new pair rest on the priors of the spreads over pairs"
        )
    if (level.mean(axis=0) >= 0).all():
        said.append("no base model dampens, so whether tuning can turn a dampener into an expander was not observed")
    return said


def _quantities(drawn: Mapping[str, Array]) -> dict[str, Array]:
    found = {"ratio": np.exp(drawn["change"]), "ratio_of_all": np.exp(drawn["shift"])}
    return found | {name: drawn[name] for name in ("shift_sd", "level_sd")}


def changes_sides(drawn: Quantities) -> NDArray[np.bool_]:
    """Whether the tuned model of a pair stands on the other side of 1 than its base, chain × draw × pair."""
    return np.asarray((drawn["level"] > 0) != (drawn["level"] + drawn["change"] > 0))


def log_ratios(model: Prompted, draws: Draws) -> dict[str, Array]:
    """Other prior scales, and normal changes of the same variance: log(other/this joint density) of every draw."""
    scales = dict.fromkeys(HYPER, SHARE) | {"slope": SLOPE, "spread": PROMPTS, "residual": RESIDUAL}
    ratios = {
        name: np.asarray(sum(rescaled(draws[part], scale, f) for part, scale in scales.items()))
        for name, f in FACTORS.items()
    }
    middle, scale = expected(model, draws.values)
    e = (model.change - middle) / scale
    ratios[NORMAL] = (stats.norm.logpdf(e, scale=SAME_SD) - stats.t.logpdf(e, NU)).sum(axis=-1)
    return ratios


def _most_unseen(n: Any) -> Any:
    """Exact bound on the share of pairs that change sides, had none of n done so."""
    return 1 - (1 - options.level) ** (1 / n)


def _shown(n: int) -> pd.DataFrame:
    """What n pairs can show, and 3, 10, 30 and 100."""
    sizes = np.unique([n, 3, 10, 30, 100])
    table = pd.DataFrame({"n_pairs": sizes, "here": sizes == n, "bound_had_none": _most_unseen(sizes)})
    return table.assign(**{f"p_seen_at_{share:.0%}": 1 - (1 - share) ** sizes for share in ASKED})


def _left_out(pairs: Pairs, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits without each pair, and without all pairs of a lab that has several."""
    ways = {name: [name] for name in pairs.pairs["pair"]}
    by_lab = pairs.pairs.groupby("heritage", sort=False)["pair"]
    ways |= {f"all pairs of {lab}": own.tolist() for lab, own in by_lab if 1 < len(own) < len(ways)}
    for number, (name, out) in enumerate(ways.items()):
        drawn = sweeps(prompted(pairs.without(out)), seed=seed + number, settings=REFIT)
        yield name, _quantities(drawn) | {of: drawn[of] for of in ("level", "change")}


def _new_pairs(hyper: Mapping[str, Array], rng: np.random.Generator, margin: float) -> dict[str, float]:
    """Predictive probabilities for a pair of the same population, one pair a draw of the hyperparameters.

    That it changes sides, by its base, and that its change lies `within` the margin.
    """
    level = rng.normal(hyper["centre"], hyper["level_sd"])
    change = rng.normal(hyper["shift"], hyper["shift_sd"])
    flips = (level > 0) != (level + change > 0)
    kinds = {
        "any pair": np.ones(level.size, dtype=bool),
        "base that dampens": level < 0,
        "base that expands": level >= 0,
        "base within 1.2 of 1": np.abs(level) < math.log(1.2),
    }
    found = {name: float(flips[kind].mean()) if kind.any() else math.nan for name, kind in kinds.items()}
    return found | {"within": float((np.abs(change) < math.log(margin)).mean())}


def _by_pair(pairs: Pairs, level: Array, change: Array, margin: float) -> pd.DataFrame:
    """`level` and `change`: draws × pairs."""
    low, high = equal_tailed(change)
    rows = []
    for j, (name, own) in enumerate(pairs.prompts.groupby("pair", sort=False)):
        base, tuned = own["base"], own["base"] + own["change"]
        mu, delta = level[:, j], change[:, j]
        rows.append(
            {
                "pair": name,
                "n_prompts": len(own),
                "base": math.exp(mu.mean()),
                "tuned": math.exp((mu + delta).mean()),
                "ratio": math.exp(np.median(delta)),
                "ratio_lower": math.exp(low[j]),
                "ratio_upper": math.exp(high[j]),
                "p_sign_changes": float(((mu > 0) != (mu + delta > 0)).mean()),
                "p_within_margin": float((np.abs(delta) < math.log(margin)).mean()),
                "p_base_dampens": float((mu < 0).mean()),
                "prompts_that_change_sides": float(((base > 0) != (tuned > 0)).mean()),
                "t_test_p": float(stats.ttest_1samp(own["change"], 0.0).pvalue),
            }
        )
    return pairs.pairs[["pair", "heritage", "related"]].merge(pd.DataFrame(rows), on="pair")


def _parts(model: Prompted, draws: Draws, of: Mapping[str, Sequence[str]]) -> dict[str, Part]:
    """Both outcomes of one model, with the same draws and priors."""
    own, chosen = model.member.astype(bool).T, spaced(draws)
    few = {name: draws.flat(name)[chosen] for name in draws.values}

    def means(y: Array) -> Array:
        return np.array([y[rows].mean() for rows in own])

    def bases(drawn: Mapping[str, Array], seed: int) -> Array:
        at, scale = (drawn[name][:, model.pair] for name in ("level", "spread"))
        return np.asarray(np.random.default_rng(seed).normal(at, scale))

    def changes(drawn: Mapping[str, Array], seed: int) -> Array:
        middle, scale = expected(model, drawn)
        return np.asarray(middle + scale * np.random.default_rng([seed, 1]).standard_t(NU, middle.shape))

    def prior(seed: int) -> dict[str, Array]:
        return from_prior(len(own), np.random.default_rng(seed), CHECKED)

    part = partial(
        direct_part,
        draws,
        of=of,
        priors=dict.fromkeys(HYPER, (0.0, SHARE)),
        simulator=simulator(model),
        alternatives=partial(log_ratios, model, draws),
    )
    of_changes = part(
        observed=model.change,
        statistics={
            "largest mean change": lambda y: float(np.abs(means(y)).max()),
            "spread": lambda y: float(y.std()),
            "share that change sides": lambda y: float(((model.base > 0) != (model.base + y > 0)).mean()),
        },
        replicate=partial(changes, few),
        density=lambda: stats.t.logpdf(model.change, NU, *expected(model, few)),
    )
    of_bases = part(
        observed=model.base,
        statistics={
            "share that dampen": lambda y: float((y < 0).mean()),
            "spread of means": lambda y: float(means(y).std()),
        },
        replicate=partial(bases, few),
        density=lambda: stats.norm.logpdf(model.base, few["level"][:, model.pair], few["spread"][:, model.pair]),
    )
    return {
        "changes": replace(of_changes, prior=lambda seed: changes(prior(seed), seed)),
        "bases": replace(of_bases, prior=lambda seed: bases(prior(seed), seed)),
    }


def expected(model: Prompted, drawn: Mapping[str, Array]) -> tuple[Array, Array]:
    """Expected change and its scale, … × rows, given the bases."""
    pair, slope = model.pair, drawn["slope"]
    middle = (drawn["change"] - slope * drawn["level"])[..., pair] + slope[..., pair] * model.base
    return middle, drawn["residual"][..., pair]


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


def prompted(pairs: Pairs) -> Prompted:
    """What `sweeps` takes."""
    rows = pairs.prompts
    return Prompted(base=rows["base"].to_numpy(), change=rows["change"].to_numpy(), pair=pd.factorize(rows["pair"])[0])


def simulator(model: Prompted) -> Simulator:
    """These pairs with other gains: an outcome is the bases and then the changes of all prompts."""

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        rng, pair = np.random.default_rng(seed), model.pair
        drawn = from_prior(pair.max() + 1, rng, size)
        bases, slope = rng.normal(drawn["level"][:, pair], drawn["spread"][:, pair]), drawn["slope"][:, pair]
        middle = drawn["change"][:, pair] + slope * (bases - drawn["level"][:, pair])
        noise = rng.standard_t(NU, bases.shape) * drawn["residual"][:, pair]
        return drawn, np.concatenate([bases, middle + noise], axis=1)

    def again(outcome: Array, seed: int) -> Refit:
        base, change = np.split(outcome, 2)
        return Refit(values=sweeps(replace(model, base=base, change=change), seed=seed, settings=SHORT))

    return Simulator(joint=joint, posterior=again)


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Prompts answered by both models of a pair."""

    pairs: pd.DataFrame
    """One row per pair: pair (its name), base, tuned, heritage, and related: whether it was tuned from this base."""
    prompts: pd.DataFrame
    """One row per pair and prompt: pair, prompt_id, base (log gain of the base) and change, log(tuned/base)."""
    warnings: tuple[str, ...]

    def without(self, names: Collection[str]) -> Pairs:
        """The other pairs."""
        kept = {
            name: frame[~frame["pair"].isin(list(names))] for name, frame in vars(self).items() if name != "warnings"
        }
        return replace(self, **kept)


def pairs_of(table: pd.DataFrame, *, only_related: bool = True) -> Pairs:
    """Pairs of base and tuned model with their shared prompts, from one row per model and prompt.

    Columns: model_id, heritage, family, variant, parent, prompt_id, value (the gain). A tuned model goes with its
    parent; without one in the table it goes with the only base of its family, and is left out with a warning where
    `only_related`; so are bases that nothing was tuned from, and prompts that one model of a pair did not answer.
    Raises UsageError for gains that are missing, infinite or not above 0, a prompt twice, a missing lab, no pair, fewer
    than 3 prompts of a pair, and a pair in which one gain is constant or follows from the other exactly.
    """
    columns_of(table, "model_id", "heritage", "family", "variant", "parent", "prompt_id", "value")
    gains = table.assign(value=numbers(table["value"].astype("float64"), "value", positive=True))
    one_row_a_prompt(gains)
    labels(gains["heritage"], "heritage")
    models = gains.drop_duplicates("model_id").set_index("model_id")
    bases = models[models["variant"] == "base"]
    wide = np.log(gains.pivot(index="prompt_id", columns="model_id", values="value"))
    rows: list[dict[str, object]] = []
    parts, said, unshared = [], [], []
    for child, row in models[models["variant"] != "base"].sort_index().iterrows():
        family = bases.index[bases["family"] == row["family"]]
        related = row["parent"] in bases.index
        if not related and (only_related or len(family) != 1):
            said.append(f"{child} left out: its parent is not in the table")
            continue
        base = row["parent"] if related else family[0]
        if not related:
            said.append(f"{child} was not tuned from {base}")
        either = wide[[base, child]].dropna(how="all")
        both = either.dropna()
        if len(both) < 3:
            raise UsageError("too few shared prompts", where=f"{base}, {child}", got=len(both), allowed="at least 3")
        _varies(both.to_numpy(), f"{base}, {child}")
        pair = f"{base} → {child}"
        if len(both) < len(either):
            unshared.append(f"{len(either) - len(both)} of {len(either)} in {pair}")
        lab = str(row["heritage"])
        rows.append({"pair": pair, "base": str(base), "tuned": str(child), "heritage": lab, "related": bool(related)})
        own = {"pair": pair, "prompt_id": both.index, "base": both[base], "change": both[child] - both[base]}
        parts.append(pd.DataFrame(own))
    if not parts:
        raise UsageError(
            "no pair of base and tuned model",
            got="; ".join(said) or "no tuned model",
            allowed="a tuned model whose parent is in the table",
        )
    pairs = pd.DataFrame(rows)
    if unshared:
        said.append("prompts that one model of a pair did not answer, left out: " + named(unshared))
    if alone := set(bases.index) - set(pairs["base"]):
        said.append("left out, since no model tuned from it is in the table: " + named(alone))
    if shared := set(pairs.loc[pairs["base"].duplicated(), "base"]):
        said.append("base of several pairs, which are counted as independent: " + named(shared))
    if len(pairs) > 1 and pairs["heritage"].nunique() == 1:
        said.append(f"all pairs are of {pairs['heritage'][0]}: what tuning does in other labs is not observed")
    if len(pairs) > MANY:
        said.append(f"{len(pairs)} pairs: sampling takes minutes")
    return Pairs(pairs=pairs, prompts=pd.concat(parts, ignore_index=True), warnings=tuple(said))


def _varies(both: Array, where: str) -> None:
    """Raise UsageError where the change has no spread beyond what the base tells: its scale would be zero."""
    base, change = both[:, 0], both[:, 1] - both[:, 0]
    X = np.column_stack([np.ones(base.size), base])
    rest = change - X @ np.linalg.lstsq(X, change, rcond=None)[0]
    if is_constant(base) or np.abs(rest).max() <= ROUNDING * max(np.abs(both).max(), 1e-300):
        raise UsageError(
            "one gain of a pair is constant, or follows from the other exactly",
            where=where,
            allowed="gains that were measured prompt by prompt",
            next_step="look for a file that holds one model twice",
        )
