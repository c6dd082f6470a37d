"""What a planned study could show: how often its posterior would find the order, if the shares were these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import Progress
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.checks import SURE
from thermostats.modelling.draws import Array, Settings
from thermostats.modelling.heritage.law import OWN, STANDARD, in_order, orders_of, quantities
from thermostats.modelling.heritage.planned import check_size

HEAD_WIDTHS = (64, 80, 128, 256)
CATEGORY_SD = 0.01
VOCABULARIES = (32_000, 50_304, 128_256, 256_000)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A table as `fit_heritage` takes it, with what it was made from."""

    table: pd.DataFrame
    contributions: Mapping[str, Array]
    """Per block, one value per model, models in order of their names."""
    means: Array
    """True log gain of every model."""
    sds: Mapping[str, float]
    """Finite-population standard deviations of the contributions."""


def model_facts(n_models: int, n_labs: int, rng: np.random.Generator, *, geometry: str = "met") -> pd.DataFrame:
    """Models of labs with geometry as it is met: labs keep to a head width, depth and heads vary.

    Embeddings are tied or not. Labs take turns, so that their sizes differ by one at most. log parameters then have
    R² ≈ 0.96 on log L, log H, log d_h (0.98 in the tables that ship), and the lab explains two thirds of log ρ.
    Raises UsageError for fewer than 2 labs or 4 models, for as many labs as models, for another `geometry`.
    """
    check_size(n_models, n_labs, geometry)
    lab = np.arange(n_models) % n_labs
    favourite = rng.choice(HEAD_WIDTHS, size=n_labs)
    d_head = np.where(rng.random(n_models) < 0.8, favourite[lab], rng.choice(HEAD_WIDTHS, size=n_models))
    n_layers = np.clip(np.round(np.exp(rng.normal(np.log(24), 0.4, size=n_models))), 4, 96).astype(int)
    width = 64 * n_layers * np.exp(rng.normal(0.3, 0.3, size=n_models))
    n_heads = np.maximum(np.round(width / d_head), 2).astype(int)
    width = n_heads * d_head
    vocabulary = rng.choice(VOCABULARIES, size=n_labs)[lab] * rng.integers(1, 3, size=n_models)
    n_params = 12 * n_layers * width**2 + vocabulary * width
    if geometry != "met":
        lab = rng.permutation(lab)
    if geometry == "unrelated":
        n_params = rng.permutation(n_params)
    return pd.DataFrame(
        {
            "model_id": [f"lab{j:03d}/model{i:04d}" for i, j in enumerate(lab)],
            "heritage": [f"lab{j:03d}" for j in lab],
            "n_layers": n_layers,
            "n_heads": n_heads,
            "d_head": d_head,
            "n_params": n_params,
        }
    )


def simulate_heritage(
    facts: pd.DataFrame,
    *,
    shares: Mapping[str, float],
    total: float = 0.2,
    n_prompts: int = 25,
    prompt_sd: float = 0.05,
    nu: float = 5.0,
    n_categories: int = 5,
    seed: int,
) -> Simulated:
    """A table of gains per prompt from the heritage model with given shares (the model's own is what is left of 1).

    Models differ in their prompt scale by a factor of about 1.6 either way; prompts are Student-t with `nu` degrees of
    freedom about model and category.
    """
    rng = np.random.default_rng(seed)
    models = facts.sort_values("model_id")
    parts = contributions(STANDARD.of(models).bases, shares, total, rng)
    order = {name: i for i, name in enumerate(models["model_id"])}
    means = np.asarray(sum(parts.values()))
    index = np.repeat([order[name] for name in facts["model_id"]], n_prompts)
    category = np.tile(np.arange(n_prompts) % n_categories, len(facts))
    effect = rng.normal(scale=CATEGORY_SD, size=n_categories)
    scale = prompt_sd * np.exp(rng.normal(scale=0.5, size=len(facts)))
    noise = rng.standard_t(nu, size=index.size) * scale[index]
    table = facts.loc[facts.index.repeat(n_prompts)].assign(
        prompt_id=np.tile([f"p{i:03d}" for i in range(n_prompts)], len(facts)),
        category=[f"category {c}" for c in category],
        gain=np.exp(means[index] + (effect - effect.mean())[category] + noise),
    )
    return Simulated(
        table=table.reset_index(drop=True),
        contributions=parts,
        means=means,
        sds={name: float(part.std()) for name, part in parts.items()},
    )


def contributions(
    bases: Mapping[str, Array], shares: Mapping[str, float], total: float, rng: np.random.Generator
) -> dict[str, Array]:
    """One draw of every block's contribution for given shares and total standard deviation, the model's own last."""
    remainder = 1 - sum(shares.get(name, 0.0) for name in bases)
    unknown = set(shares) - {*bases, OWN}
    if unknown or remainder < -1e-9 or min(shares.values(), default=0.0) < 0:
        raise UsageError("not shares of one whole", got=dict(shares), allowed=f"{', '.join(bases)}, together ≤ 1")
    parts = {name: np.sqrt(shares.get(name, 0.0)) * (x @ rng.normal(size=x.shape[1])) for name, x in bases.items()}
    rest = np.sqrt(max(remainder, 0.0)) * rng.normal(size=len(next(iter(bases.values()))))
    return {name: total * part for name, part in {**parts, OWN: rest}.items()}


PER_DESIGN = 10
"""Simulated outcomes per drawn geometry."""
DRAWN = Settings(draws=250)
TOTAL, ERROR = 0.2, 0.01
"""SD of log gain between models; standard error of a model's mean over prompts."""
LEVEL = 0.95
"""Level of the intervals for the rates."""


@dataclass(frozen=True, kw_only=True)
class Power:
    """How often a study of this size gives posterior probabilities above `threshold`."""

    n_models: int
    n_labs: int
    shares: Mapping[str, float]
    geometry: str
    seed: int
    simulations: int
    rates: Mapping[str, float]
    """Per statement, share of simulated studies in which its posterior probability is above the threshold."""
    errors: Mapping[str, float]
    """Standard errors of the rates, over drawn geometries."""
    threshold: float = SURE

    def rows(self) -> list[dict[str, Any]]:
        """One row per statement: percent of simulated studies with P above the threshold.

        `error`: its standard error over drawn geometries; lower, upper: limits of Clopper and Pearson 1934.
        """
        rows = []
        for statement, rate in self.rates.items():
            limits = stats.binomtest(round(rate * self.simulations), self.simulations).proportion_ci(LEVEL)
            rows.append(
                {
                    "statement": statement,
                    "P above": self.threshold,
                    "percent": 100 * rate,
                    "error": 100 * self.errors[statement],
                    "lower": 100 * float(limits.low),
                    "upper": 100 * float(limits.high),
                    "simulations": self.simulations,
                }
            )
        return rows

    def sentence(self) -> str:
        """The rates in plain words."""
        shares = ", ".join(f"{name} {share:g}" for name, share in self.shares.items())
        order = self.rates["heritage > geometry > scale"]
        first = self.rates["heritage > geometry"]
        return (
            f"If the shares of variance were {shares}, a study of {self.n_models} models in {self.n_labs} labs "
            f"would show heritage above geometry in {100 * first:.0f}% of cases and the whole order in "
            f"{100 * order:.0f}% (posterior probability above {self.threshold:g}; {self.simulations} simulations)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers and words."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("rates", "errors")}
        return {**fields, "level": LEVEL, "rates": self.rows(), "sentence": self.sentence()}


def power(
    n_models: int,
    n_labs: int,
    shares: Mapping[str, float],
    *,
    simulations: int = 400,
    geometry: str = "met",
    seed: int,
    progress: bool = False,
) -> Power:
    """What a study of N models in M labs could show if these were the shares, by the exact engine.

    Shares are those of the population that the models are drawn from. Geometry is drawn anew for every 10 outcomes;
    `progress`: a bar on standard error where that is a terminal. Raises UsageError for fewer than 2 × 10 simulations
    and as `model_facts` does.

    How geometry goes with labs decides much of the answer. Percent of 400 simulated studies with shares 0.60, 0.15,
    0.05 in which P(H > G), and P(H > G > S), were above 0.95 (standard errors up to 2.6; of 120 studies, and up to 4.6,
    for the last two):

    | models, labs | met    | free   | unrelated |
    | ------------ | ------ | ------ | --------- |
    | 24, 8        | 43, 1  | 48, 1  | 59, 9     |
    | 48, 16       | 62, 2  | 70, 5  | 81, 30    |
    | 96, 32       | 76, 12 | 84, 13 | 94, 51    |
    """
    if simulations < 2 * PER_DESIGN:
        raise UsageError("too few simulations", got=simulations, allowed=f"{2 * PER_DESIGN} or more")
    rng, console = np.random.default_rng(seed), Console(stderr=True)
    designs = -(-simulations // PER_DESIGN)
    results: dict[str, list[list[float]]] = {}
    with Progress(console=console, transient=True, disable=not (progress and console.is_terminal)) as bar:
        for _ in bar.track(range(designs), description="simulating studies"):
            facts = model_facts(n_models, n_labs, rng, geometry=geometry)
            drawn = [_orders(facts, shares, rng) for _ in range(PER_DESIGN)]
            for statement in drawn[0]:
                results.setdefault(statement, []).append([outcome[statement] for outcome in drawn])
    hits = {statement: (np.array(values) > SURE).mean(axis=1) for statement, values in results.items()}
    return Power(
        n_models=n_models,
        n_labs=n_labs,
        shares=dict(shares),
        geometry=geometry,
        seed=seed,
        simulations=designs * PER_DESIGN,
        rates={statement: float(values_of.mean()) for statement, values_of in hits.items()},
        errors={statement: float(values_of.std(ddof=1) / designs**0.5) for statement, values_of in hits.items()},
    )


def _orders(facts: pd.DataFrame, shares: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
    """Posterior probabilities of the orders in one simulated study."""
    bases = STANDARD.of(facts).bases
    y = np.sum(list(contributions(bases, shares, TOTAL, rng).values()), axis=0)
    y = y + ERROR * rng.normal(size=len(facts))
    laid = STANDARD.of(facts.assign(log_gain=y, error=ERROR))
    draws = laid.model.sample(seed=int(rng.integers(2**31)), settings=DRAWN)
    drawn = quantities(draws.values, laid)
    return {order: float(in_order(order, drawn).mean()) for order in orders_of(tuple(bases))}


WORLDS, ALPHA, WANTED = 200, 0.05, 0.8
"""Simulated studies, the level of the tests, and the power that a study should have."""
TIMES = (1, 2, 3, 4, 6, 8, 12)
"""How many times as many labs are tried."""
SPARE = 4
"""Residual degrees of freedom that a test needs."""
NUMBERS = ("n_layers", "n_heads", "d_head", "n_params")


@dataclass(frozen=True, kw_only=True)
class Tested:
    """One question: the test of labs next to what else is in the model, and what it says in simulated worlds."""

    question: str
    f: float
    p: float
    df: tuple[int, int]
    false: float
    """Share of worlds without effects of labs in which p ≤ 0.05."""
    power: float
    """Share of worlds in which p ≤ 0.05 where labs differ as much as models of one lab."""
    wanted: float
    """Times as many labs for a power of 0.8; NaN where none tried suffices."""

    @property
    def error(self) -> float:
        """Largest Monte-Carlo standard error of the two rates, as standard deviations of a binomial share."""
        return float(max(np.sqrt(rate * (1 - rate) / WORLDS) for rate in (self.false, self.power)))


def first_answer(models: pd.DataFrame, *, seed: int = 1) -> tuple[Tested, ...]:
    """Both questions of a table of models: log_gain, heritage, and of `NUMBERS` the columns that all of them have.

    Raises UsageError for fewer than two labs, or where fewer than four degrees of freedom remain for the residual.
    """
    labs = models["heritage"].astype(str).to_numpy()
    if len(set(labs)) < 2:
        raise UsageError("one lab: nothing to compare it with", got=f"{len(models)} models", allowed="2 labs or more")
    y = models["log_gain"].to_numpy(dtype=np.float64)
    shape = _logs(models)
    questions = {"Does the lab matter at all?": shape[:, :1], "Does it beyond shape and size?": shape}
    return tuple(_tested(words, y, reduced, labs, seed) for words, reduced in questions.items())


def _tested(question: str, y: Array, reduced: Array, labs: Sequence[str] | Array, seed: int) -> Tested:
    ratios, ps, df = _f(y[None], reduced, labs)
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(np.column_stack([reduced, _indicators(labs)]))[0]
    sigma = float(np.sqrt(np.square(y - basis @ (basis.T @ y)).sum() / df[1]))
    size = len(y)
    false = float((_f(sigma * rng.standard_normal((WORLDS, size)), reduced, labs)[1] <= ALPHA).mean())
    powers = []
    for times in TIMES:
        powers.append(_power(times, reduced, labs, rng))
        if powers[-1] >= WANTED:
            break
    wanted = float(TIMES[len(powers) - 1]) if powers[-1] >= WANTED else np.nan
    f, p = float(ratios[0]), float(ps[0])
    return Tested(question=question, f=f, p=p, df=df, false=false, power=powers[0], wanted=wanted)


def _power(times: int, reduced: Array, labs: Sequence[str] | Array, rng: np.random.Generator) -> float:
    """Share of worlds with p ≤ 0.05 where labs differ as much as models of one lab, of so many times as many labs."""
    names = np.concatenate([[f"{lab} {i}" for lab in labs] for i in range(times)])
    codes = np.unique(names, return_inverse=True)[1]
    effects = rng.standard_normal((WORLDS, codes.max() + 1))[:, codes]
    outcomes = effects + rng.standard_normal((WORLDS, names.size))
    return float((_f(outcomes, np.tile(reduced, (times, 1)), names)[1] <= ALPHA).mean())


def _f(outcomes: Array, reduced: Array, labs: Sequence[str] | Array) -> tuple[Array, Array, tuple[int, int]]:
    """F and p of labs for every row of outcomes, and the degrees of freedom."""
    small, full = (_basis(each) for each in (reduced, np.column_stack([reduced, _indicators(labs)])))
    k, rest = full.shape[1] - small.shape[1], outcomes.shape[1] - full.shape[1]
    if k < 1 or rest < SPARE:
        raise UsageError(
            "too few models for a test of labs",
            got=f"{outcomes.shape[1]} models of {len(set(labs))} labs",
            allowed=f"{full.shape[1] + SPARE} models or more for so many labs and columns",
        )
    total = np.square(outcomes).sum(axis=1)
    rss_0, rss_1 = (total - np.square(outcomes @ q).sum(axis=1) for q in (small, full))
    f = (rss_0 - rss_1) / k / (rss_1 / rest)
    return f, stats.f.sf(f, k, rest), (k, rest)


def _basis(columns: Array) -> Array:
    """An orthonormal basis of columns, some of which may follow from others."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(u[:, s > 1e-10 * s[0]])


def _indicators(labs: Sequence[str] | Array) -> Array:
    codes = np.unique(np.asarray(labs, dtype=str), return_inverse=True)[1]
    return np.eye(codes.max() + 1)[codes]


def _logs(models: pd.DataFrame) -> Array:
    """An intercept, and the logs of the numbers that every model has and that vary."""
    columns = [np.ones(len(models))]
    for name in NUMBERS:
        if name in models and models[name].notna().all() and models[name].nunique() > 1:
            x = np.log(models[name].to_numpy(dtype=np.float64))
            columns.append((x - x.mean()) / x.std())
    return np.column_stack(columns)
