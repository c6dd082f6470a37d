"""log(tuned/base)_jp ~ t₄(δ_j + γ_j (log base_jp − μ_j), r_j), δ_j ~ N(Δ, s_δ²): does tuning move
the gain past 1?

Pairs j of a base model and the model tuned from it, one population of pairs, with the prompts p
that both answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import t as student

from thermostats.errors import UsageError
from thermostats.formatting import short_name
from thermostats.modelling.columns import (
    at_position,
    columns_of,
    is_constant,
    labels,
    named,
    needing,
    numbers,
)
from thermostats.modelling.draws import (
    SEED,
    Array,
    Quantities,
    Settings,
    Statement,
    Statistic,
    equal_tailed,
)
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.laws import LOG, WIDER, Design, Law, fits
from thermostats.modelling.populations import (
    informed_share,
    members,
    numbered,
    one_row_a_prompt,
    population,
    sources_of,
)
from thermostats.modelling.sampling import Sampled, padded
from thermostats.next_steps import command
from thermostats.plots.general import log_axis
from thermostats.settings import coverage, options
from thermostats.settings import options as session
from thermostats.tables.features import LAST
from thermostats.tables.reading import values_of

LEAST = 3
"""Prompts of a pair."""
ROUNDING = 1e-12


def pairs_of(table: pd.DataFrame, *, only_related: bool = True) -> tuple[pd.DataFrame, list[str]]:
    """One row per pair and shared prompt, from one row per model and prompt; and what was left out.

    Columns taken: model_id, heritage, family, variant, parent, prompt_id, value (the gain). Given:
    pair (its name), base_id, tuned_id, related (tuned from this base), heritage, prompt_id, base
    (log gain of the base), change (log(tuned/base)). A tuned model goes with its parent; without
    one in the table it goes with the only base of its family, and is left out with a warning where
    `only_related`; so are bases that nothing was tuned from, and prompts that one model of a pair
    did not answer.

    Raises UsageError for gains that are missing, infinite or not above 0, a prompt twice, a missing
    lab, no pair, fewer than 3 prompts of a pair, and a pair in which one gain is constant or
    follows from the other exactly.
    """
    columns_of(table, "model_id", "heritage", "family", "variant", "parent", "prompt_id", "value")
    gains = table.reset_index(drop=True).assign(
        value=numbers(table["value"], "value", positive=True)
    )
    one_row_a_prompt(gains)
    labels(gains["heritage"], "heritage")
    models = gains.drop_duplicates("model_id").set_index("model_id")
    bases = models[models["variant"] == "base"]
    wide = np.log(gains.pivot(index="prompt_id", columns="model_id", values="value"))
    pairs = []
    warnings = list[str]()
    unshared = list[str]()
    for tuned, row in models[models["variant"] != "base"].sort_index().iterrows():
        family = bases.index[bases["family"] == row["family"]]
        related = row["parent"] in bases.index
        if not related and (only_related or len(family) != 1):
            warnings.append(f"{tuned} left out: its parent is not in the table")
            continue
        base = row["parent"] if related else family[0]
        if not related:
            warnings.append(f"{tuned} was not tuned from {base}")
        both = wide[[base, tuned]].dropna(how="all")
        shared = _shared(both, f"{base}, {tuned}")
        name = f"{base} → {tuned}"
        if len(shared) < len(both):
            unshared.append(f"{len(both) - len(shared)} of {len(both)} in {name}")
        facts = {
            "pair": name,
            "base_id": base,
            "tuned_id": tuned,
            "related": related,
            "heritage": row["heritage"],
        }
        gain = {
            "prompt_id": shared.index,
            "base": shared[base],
            "change": shared[tuned] - shared[base],
        }
        pairs.append(pd.DataFrame({**facts, **gain}).reset_index(drop=True))
    if not pairs:
        raise UsageError(
            "no pair of base and tuned model",
            got="; ".join(warnings) or "no tuned model",
            allowed="a tuned model whose parent is in the table",
        )
    rows = pd.concat(pairs, ignore_index=True)
    return rows, [*warnings, *_warnings(rows, set(bases.index), unshared)]


def _shared(both: pd.DataFrame, where: str) -> pd.DataFrame:
    """Prompts that both models answered, their changes with spread beyond what the base tells: else
    no scale exists."""
    shared = both.dropna()
    if len(shared) < LEAST:
        raise UsageError(
            "too few shared prompts", where=where, got=len(shared), allowed=f"at least {LEAST}"
        )
    base, tuned = shared.to_numpy(dtype=np.float64).T
    X = np.column_stack([np.ones(base.size), base])
    rest: Array = tuned - base - X @ np.linalg.lstsq(X, tuned - base, rcond=None)[0]
    if is_constant(base) or np.abs(rest).max() <= ROUNDING * max(
        np.abs(shared.to_numpy()).max(), 1e-300
    ):
        raise UsageError(
            "one gain of a pair is constant, or follows from the other exactly",
            where=where,
            allowed="gains that were measured prompt by prompt",
            next_step="look for a file that holds one model twice",
        )
    return shared


def _warnings(rows: pd.DataFrame, bases: set[str], unshared: list[str]) -> list[str]:
    pairs = rows.drop_duplicates("pair")
    alone = bases - set(pairs["base_id"])
    several = set(pairs.loc[pairs["base_id"].duplicated(), "base_id"])
    words = {
        "prompts that one model of a pair did not answer, left out: " + named(unshared): bool(
            unshared
        ),
        "left out, since no model tuned from it is in the table: " + named(alone): bool(alone),
        "base of several pairs, which are counted as independent: " + named(several): bool(several),
        f"all pairs are of {pairs['heritage'].iloc[0]}: what tuning does in other labs is not "
        f"observed": (len(pairs) > 1 and pairs["heritage"].nunique() == 1),
    }
    return [line for line, holds in words.items() if holds]


SCALE = 0.5
SHARE = SCALE / 2**0.5
PROMPTS = SCALE / 2
SLOPE = 0.5
RESIDUAL = SCALE / 4
NU, NORMAL = 4.0, 1e6
"""Degrees of freedom: of changes, and with which a t distribution is normal to six digits."""
MARGIN = 1.1
"""Changes by less than this factor count as none."""
OF_PRIOR = 20_000
"""Draws from the prior of pairs not seen."""
FEW = 10
SIDES = (0.1, 0.25, 0.5)
"""Shares of pairs that change sides, for which it is said how likely these pairs were to show
one."""
OF_PAIRS = (
    (
        "m, Δ",
        f"N(0, {SHARE:.3g}²)",
        "mean level and mean change over pairs: half the variance of log gains each way",
    ),
    (
        "s_μ, s_δ",
        f"half-normal({SHARE:.3g})",
        "spread of levels and of changes over pairs: the other half",
    ),
)
"""Priors over pairs, whatever is known of each."""
PRIORS = (
    *OF_PAIRS,
    (
        "γ_j",
        f"N(0, {SLOPE:.3g}²)",
        "−1 were tuning that forgets the base's prompts, 0 that keeps their differences",
    ),
    ("s_j", f"half-normal({PROMPTS:g})", "spread over prompts: half of what models differ by"),
    (
        "r_j",
        f"half-normal({RESIDUAL:g})",
        "changes prompt by prompt: SD √2 r_j, half the variance of prompts",
    ),
)


@fits
def fit_invariance(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    only_related: bool = True,
    margin: float = MARGIN,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """log(tuned/base)_jp ~ t₄(δ_j + γ_j (log base_jp − μ_j), r_j): change exp(δ) of the gain by
    tuning, over pairs.

    `table`: one row per model and prompt, as `pairs_of` takes it; `estimand` names the gain in
    `value`. Quantities: ratio (by pair), ratio_of_all (exp Δ), shift_sd, level_sd; statements may
    read level (μ) and change (δ) too. Tables: `pairs` (levels, ratio with interval, P(sign
    changes), P(ratio within 1/margin to margin), share of prompts that change sides), `new_pair`
    (P(sign changes) of a pair not seen: of any pair, with a base that dampens, that expands, that
    is near 1; from the prior alone with it), `shown` (what so many pairs can show: the chance of
    one that changes sides, were a share of them to do so, and the bound on that share had none).

    Raises UsageError as `pairs_of`, and for a margin not above 1.
    """
    others = {
        **{name: _law(margin, factor=factor) for name, factor in WIDER.items()},
        "normal errors of the same variance": _law(margin, nu=NORMAL, wider=(NU / (NU - 2)) ** 0.5),
    }
    return fitted_to_pairs(
        replace(_law(margin), alternatives=others),
        table,
        estimand,
        margin=margin,
        only_related=only_related,
        seed=seed,
        settings=settings,
        reads=needing("pair", "prompt_id", "base"),
    )


def fitted_to_pairs(
    law: Law,
    table: pd.DataFrame,
    estimand: str,
    *,
    margin: float,
    only_related: bool,
    seed: int,
    settings: Settings,
    reads: Callable[[pd.DataFrame], pd.DataFrame],
) -> Fit:
    """A law of pairs fitted to a table of models and prompts; raises as `fit_invariance`."""
    rows, warnings = checked_pairs(table, margin, only_related=only_related)
    return law_fitted(
        law,
        rows,
        seed=seed,
        settings=settings,
        estimand=at_position(estimand, table),
        sources=sources_of(table[table["model_id"].isin({*rows["base_id"], *rows["tuned_id"]})]),
        warnings=warnings,
        reads=reads,
    )


def checked_pairs(
    table: pd.DataFrame, margin: float, *, only_related: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Rows of `pairs_of` and warnings about them; raises as `fit_invariance`."""
    if not (math.isfinite(margin) and margin > 1):
        raise UsageError(
            "an equivalence margin is a ratio",
            where="margin",
            got=margin,
            allowed="above 1, such as 1.1",
        )
    rows, warnings = pairs_of(table, only_related=only_related)
    return rows, [*warnings, *_warnings_of_pairs(rows)]


def invariance(data: Mapping[str, Any]) -> None:
    """The model; outcomes are log gains of bases and then changes."""
    import pymc as pm  # noqa: PLC0415

    n, share, pair, base = (data[name] for name in ("size", "share", "pair", "base"))
    _, level = population("level", 0.0, share, pm.HalfNormal("level_sd", share), data)
    _, change = population("change", 0.0, share, pm.HalfNormal("shift_sd", share), data)
    slope = pm.Normal("slope", 0.0, data["slope_sd"], shape=n)
    spread = pm.HalfNormal("spread", data["prompts"], shape=n)
    residual = pm.HalfNormal("residual", data["rest"], shape=n) * data["wider"]
    of_change = change[pair] + slope[pair] * (base - level[pair])
    pm.StudentT(
        "y",
        nu=pm.math.switch(data["is_change"], data["nu"], NORMAL),
        mu=pm.math.switch(data["is_change"], of_change, level[pair]),
        sigma=pm.math.switch(data["is_change"], residual[pair], spread[pair]),
        observed=data["y_observed"],
    )


def _law(margin: float, factor: float = 1.0, nu: float = NU, wider: float = 1.0) -> Law:
    """`factor`: of all prior scales; `wider`: of the residual scales."""
    scales = {"share": SHARE, "slope_sd": SLOPE, "prompts": PROMPTS, "rest": RESIDUAL}
    priors = {name: scale * factor for name, scale in scales.items()} | {"nu": nu, "wider": wider}
    return Law(
        name="invariance",
        of=partial(_of, {name: np.asarray(value) for name, value in priors.items()}),
        quantities=_quantities,
        statistics=_statistics,
        equations=(
            "log g_jp(base) ~ N(μ_j, s_j²)",
            "log g_jp(tuned) − log g_jp(base) ~ t₄(δ_j + γ_j (log g_jp(base) − μ_j), r_j)",
            "μ_j ~ N(m, s_μ²),  δ_j ~ N(Δ, s_δ²);  j a pair, p a prompt that both answered",
        ),
        priors=PRIORS,
        **questions_of_pairs(margin),
    )


def questions_of_pairs(margin: float) -> dict[str, Any]:
    """What a law of pairs reports, is asked and shows, by argument of `Law`."""
    return {
        "reported": ("ratio", "ratio_of_all", "shift_sd", "level_sd"),
        "statements": _statements(margin),
        "tables": {
            "pairs": partial(pairs_table, margin),
            "new_pair": new_pair,
            "shown": table_of_power,
        },
        "figures": {"fit": partial(figure_of_pairs, margin)},
        "units": ("heritage", "pair"),
    }


def _statements(margin: float) -> dict[str, Statement]:
    near = math.log(margin)
    return {
        "any of these pairs changes sides": lambda q: changes_sides(q).any(axis=-1),
        "every pair within the margin": lambda q: (np.abs(q["change"]) < near).all(axis=-1),
        "mean change within the margin": lambda q: np.abs(np.log(q["ratio_of_all"])) < near,
        "mean change below 1": lambda q: q["ratio_of_all"] < 1,
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class PairsDesign(Design):
    """Bases and changes of pairs, whose names are the label of `ratio`."""

    priors: Mapping[str, Array]
    informed: Mapping[str, Array]
    """How far the prompts of the fit tell how pairs differ."""
    number: int
    """Pairs of the fit."""
    base: Array
    pair: NDArray[np.int64]
    """Of every shared prompt."""

    def of_new(self, rows: pd.DataFrame) -> PairsDesign:
        """Other prompts; pairs that the fit has not seen come after its own."""
        names, pair = numbered(rows["pair"], self.labels["ratio"])
        return _made(self.priors, rows, names, pair, self.informed, self.number)


def _of(priors: Mapping[str, Array], rows: pd.DataFrame) -> PairsDesign:
    names, pair = numbered(rows["pair"])
    base, change = (rows[name].to_numpy(dtype=np.float64) for name in ("base", "change"))
    informed = {"level_told": _told(base, pair), "change_told": _told(change, pair)}
    return _made(priors, rows, names, pair, informed, len(names))


def _made(
    priors: Mapping[str, Array],
    rows: pd.DataFrame,
    names: tuple[str, ...],
    pair: NDArray[np.int64],
    informed: Mapping[str, Array],
    number: int,
) -> PairsDesign:
    """Both outcomes in one array."""
    base = rows["base"].to_numpy(dtype=np.float64)
    change = rows["change"].to_numpy(dtype=np.float64) if "change" in rows else np.zeros(len(rows))
    data = {
        **priors,
        **informed,
        **members(number, padded(len(names))),
        "pair": np.tile(pair, 2),
        "base": np.tile(base, 2),
        "is_change": np.repeat([False, True], base.size),
        "y_observed": np.concatenate([base, change]),
    }
    cells = [f"{p}, {q}" for p, q in zip(rows["pair"], rows["prompt_id"], strict=True)]
    return PairsDesign(
        model=Sampled(
            declare=invariance, data=data, per_row=("pair", "base", "is_change", "y_observed")
        ),
        outcomes=(*(f"{cell}: base" for cell in cells), *(f"{cell}: change" for cell in cells)),
        labels={"ratio": names},
        by_row=False,
        scale=LOG,
        priors=priors,
        informed=informed,
        number=number,
        base=base,
        pair=pair,
    )


def _told(y: Array, pair: NDArray[np.int64]) -> Array:
    """How far the prompts tell how pairs differ."""
    by = pd.Series(y).groupby(pair)
    means = by.mean().to_numpy()
    return np.asarray(informed_share(means - means.mean(), float(by.sem().mean())))


def _quantities(values: Mapping[str, Array], design: PairsDesign) -> dict[str, Array]:
    n = len(design.labels["ratio"])
    by_pair = {name: values[name][..., :n] for name in ("level", "change")}
    over_pairs = {
        name: values[name] for name in ("shift_sd", "level_sd", "level_mean", "change_mean")
    }
    return {
        "ratio": np.exp(by_pair["change"]),
        "ratio_of_all": np.exp(values["change_mean"]),
        **over_pairs,
        **by_pair,
    }


def changes_sides(quantities: Quantities) -> NDArray[np.bool_]:
    """Whether the tuned model of a pair stands on the other side of 1 than its base, chain × draw ×
    pair."""
    return np.asarray((quantities["level"] > 0) != (quantities["level"] + quantities["change"] > 0))


def _statistics(design: PairsDesign) -> dict[str, Statistic]:
    base = design.base
    which = np.eye(design.pair.max() + 1)[design.pair]
    n = base.size
    by_pair = which / which.sum(axis=0)
    return {
        "largest mean change": lambda y: np.abs(y[..., n:] @ by_pair).max(axis=-1),
        "spread of changes": lambda y: y[..., n:].std(axis=-1),
        "share that change sides": lambda y: ((base > 0) != (base + y[..., n:] > 0)).mean(axis=-1),
        "share of bases that dampen": lambda y: (y[..., :n] < 0).mean(axis=-1),
        "spread of bases' means": lambda y: (y[..., :n] @ by_pair).std(axis=-1),
    }


def _warnings_of_pairs(rows: pd.DataFrame) -> list[str]:
    means = rows.groupby("pair")["base"].mean()
    words = {
        f"{len(means)} pairs: even if none of them had crossed 1, up to "
        f"{_most_unseen(len(means)):.0%} of pairs still "
        f"could (exact {options.level:.0%} bound); statements about a new pair rest on the priors "
        f"of the spreads over "
        "pairs": len(means) < FEW,
        "no base model dampens, so whether tuning can turn a dampener into an expander was not "
        "observed": bool((means >= 0).all()),
    }
    return [line for line, holds in words.items() if holds]


def _most_unseen(n: Any) -> Any:
    """Exact bound on the share of pairs that change sides, had none of n done so."""
    return 1 - (1 - options.level) ** (1 / n)


def table_of_power(fit: Fit) -> pd.DataFrame:
    """What these pairs can show, and 3, 10, 30 and 100."""
    n = len(fit.design.labels["ratio"])
    sizes = np.unique([n, 3, 10, 30, 100])
    table = pd.DataFrame(
        {"n_pairs": sizes, "here": sizes == n, "bound_had_none": _most_unseen(sizes)}
    )
    return table.assign(**{f"p_seen_at_{share:.0%}": 1 - (1 - share) ** sizes for share in SIDES})


def new_pair(fit: Fit) -> pd.DataFrame:
    """P(sign changes) of a pair of the same population, by its base; from the posterior and from
    the prior alone."""
    rng = np.random.default_rng(fit.seed)
    means = rng.normal(0, SHARE, (2, OF_PRIOR))
    spreads = np.abs(rng.normal(0, SHARE, (2, OF_PRIOR)))
    prior = {
        "level_mean": means[0],
        "change_mean": means[1],
        "level_sd": spreads[0],
        "shift_sd": spreads[1],
    }
    stages = {
        "p_sign_changes": {name: fit.quantities[name].ravel() for name in prior},
        "from_prior_alone": prior,
    }
    columns = {}
    for stage, draws in stages.items():
        level, change = (
            rng.normal(draws[f"{name}_mean"], draws[sd])
            for name, sd in (("level", "level_sd"), ("change", "shift_sd"))
        )
        crosses = pd.Series((level > 0) != (level + change > 0))
        kinds = {
            "any pair": np.ones(level.size, dtype=bool),
            "base that dampens": level < 0,
            "base that expands": level >= 0,
            "base within 1.2 of 1": np.abs(level) < math.log(1.2),
        }
        columns[stage] = {name: crosses[kind].mean() for name, kind in kinds.items()}
    return pd.DataFrame(columns).rename_axis("pair").reset_index()


def pairs_table(margin: float, fit: Fit) -> pd.DataFrame:
    """One row per pair: what was seen, its ratio with interval, and whether it changes sides."""
    names = fit.design.labels["ratio"]
    level, change = (fit.quantities[name].reshape(-1, len(names)) for name in ("level", "change"))
    lower, upper = equal_tailed(change, fit.level)
    estimates = pd.DataFrame(
        {
            "pair": names,
            "base": np.exp(level.mean(axis=0)),
            "tuned": np.exp((level + change).mean(axis=0)),
            "ratio": np.exp(np.median(change, axis=0)),
            "ratio_lower": np.exp(lower),
            "ratio_upper": np.exp(upper),
            "p_sign_changes": changes_sides({"level": level, "change": change}).mean(axis=0),
            "p_within_margin": (np.abs(change) < math.log(margin)).mean(axis=0),
            "p_base_dampens": (level < 0).mean(axis=0),
        }
    )
    sides = fit.rows.assign(
        crosses=(fit.rows["base"] > 0) != (fit.rows["base"] + fit.rows["change"] > 0)
    )
    by = sides.groupby("pair")
    observed = by.agg(
        heritage=("heritage", "first"),
        related=("related", "first"),
        n_prompts=("change", "size"),
        prompts_that_change_sides=("crosses", "mean"),
        t_test_p=("change", lambda d: float(stats.ttest_1samp(d, 0.0).pvalue)),
    )
    return observed.reset_index().merge(estimates, on="pair")


def _tuned(pair: str) -> str:
    """A pair by the short name of its tuned model, and of its base where that one's does not begin
    it."""
    base, _, tuned = (short_name(name) for name in pair.partition(" → "))
    return tuned if tuned.startswith(base) or not tuned else f"{base} → {tuned}"


def figure_of_pairs(margin: float, fit: Fit, axes: Axes) -> Axes:
    """Ratios of the pairs with their intervals; the band counts as no change."""
    table = fit.table("pairs")
    at = np.arange(len(table))
    axes.hlines(at, table["ratio_lower"], table["ratio_upper"], linewidth=3, alpha=0.5)
    axes.plot(table["ratio"], at, "o")
    axes.axvspan(1 / margin, margin, alpha=0.12)
    axes.axvline(1, linewidth=0.8)
    axes.set_xlabel("gain of the tuned model over that of its base; band: counts as no change")
    log_axis(axes, "x")
    axes.set_yticks(at, [_tuned(str(name)) for name in table["pair"]])
    return axes


LEAST_PROMPTS = 2
"""Prompts that a standard deviation needs."""


def paired(
    first: str | Path,
    second: str | Path,
    *,
    quantity: str = "gain",
    position: str = LAST,
    data: str | Path | None = None,
    level: float | None = None,
) -> pd.DataFrame:
    """d̄_l ± t_(n−1) s_l / √n of the differences d_lp = G_l^second(p) − G_l^first(p) over the n
    prompts p of both.

    One row a block: layer, n_prompts, first and second (means over those prompts), difference, sd,
    lower and upper (the interval of Student's t, Biometrika 6, 1908, for the mean difference over
    prompts like these). Its attributes (`attrs`) say of what it is; `thermostats.profile` draws it.
    Prompts are the same where their texts are, whatever set they are of. first, second, quantity,
    position: as in `profile`. level: by default that of `options`.

    Raises UsageError for models without such rows, of different depths, or measured on other
    prompts.
    """
    inside = session.level if level is None else coverage(level)
    a, b = (values_of(model, quantity, position, data) for model in (first, second))
    together = _shared_prompts(a, b, str(first), str(second), data)
    depths = [int(side["layer"].max()) for side in (a, b)]
    if depths[0] != depths[1]:
        what = "the models have different numbers of blocks"
        allowed = "models of one depth, as a base and a tuned one"
        step = (
            f"thermostats.profile([{str(first)!r}, {str(second)!r}]) draws both over relative depth"
        )
        raise UsageError(what, got=f"{depths[0]} and {depths[1]}", allowed=allowed, next_step=step)
    together["difference"] = together["second"] - together["first"]
    groups = together.groupby("layer")
    table = groups[["first", "second", "difference"]].mean()
    n = groups.size()
    sd = groups["difference"].std(ddof=1)
    half = student.ppf((1 + inside) / 2, n - 1) * sd / np.sqrt(n)
    table = table.assign(sd=sd, lower=table["difference"] - half, upper=table["difference"] + half)
    table.insert(0, "n_prompts", n)
    table = table.reset_index()
    table.attrs = {
        "first": str(first),
        "second": str(second),
        "quantity": quantity,
        "position": position,
        "level": inside,
    }
    return table


def _shared_prompts(
    first: pd.DataFrame, second: pd.DataFrame, here: str, there: str, data: str | Path | None
) -> pd.DataFrame:
    """layer, prompt, first and second of the first two runs that share prompts."""
    key = ["layer", "prompt"]
    for _, a in first[first["prompt"].ne("")].groupby("run_id", sort=False):
        for _, b in second[second["prompt"].ne("")].groupby("run_id", sort=False):
            values_a, values_b = (
                side.drop_duplicates(key).set_index(key)["value"] for side in (a, b)
            )
            both = pd.concat(
                {"first": values_a, "second": values_b}, axis=1, join="inner"
            ).reset_index()
            if both["prompt"].nunique() >= LEAST_PROMPTS:
                return both
    sets = [", ".join(dict.fromkeys(side["prompt_set"])) for side in (first, second)]
    step = command(
        "measure", there, prompts=first["prompt_set"].iloc[0], what="gains", data=data or "mine"
    )
    raise UsageError(
        "the two models were measured on other prompts, so nothing can be paired",
        where=f"{here}, {there}",
        got=f"prompt sets {sets[0]} and {sets[1]}",
        allowed=f"{LEAST_PROMPTS} prompts or more of the same text",
        next_step=step,
    )
