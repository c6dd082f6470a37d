"""Simulation-based calibration: truths from a model's prior, outcomes from them, their ranks in the posteriors.

    Where model and sampler are right, the rank of a truth among L independent posterior draws is uniform on 0, …, L
(Talts et al. 2018, arXiv:1804.06788). Uniformity is tested by the empirical distribution function against its
simultaneous band (Säilynoja, Bürkner, Vehtari 2022, doi:10.1007/s11222-022-10090-6). Probabilities of orders are
tested by the frequency with which the order is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.draws import (
    Array,
    Draws,
    Settings,
    cache_key,
    element_names,
    source_of,
    write_whole,
)
from thermostats.tables.caching import cache_folder

SHORT = Settings(chains=2, draws=250, tune=300, target_accept=0.9)
RANKED = 30
"""Posterior draws that a truth is ranked among; simulations with fewer effective draws are counted by the check."""
LEVEL = 0.01
"""Family-wise: the smallest p-value over all quantities, times their number, fails below this."""
FEW_DRAWS = 0.05
"""Share of simulations with too few effective draws above which ranks that look uniform show nothing."""
REPLICATES = 4000
COLUMNS = ("simulation", "quantity", "truth", "mean", "rank", "rhat_max", "ess_min", "divergences")


@dataclass(frozen=True, kw_only=True)
class Refit:
    """Draws of one simulation's posterior."""

    values: Mapping[str, Array]
    """chain × draw × …, at least the quantities of the truths."""
    divergences: int = 0
    effective: float = math.inf
    """Bound on the effective draws of any quantity, for draws by weights."""


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """A model as calibration needs it: tables from its prior, and the posterior of each."""

    joint: Callable[[int, int], tuple[Mapping[str, Array], Array]]
    """Seed and number n to true quantities (n × …) and outcomes (n × rows) drawn with them from the prior."""
    posterior: Callable[[Array, int], Refit]
    """An outcome and a seed to draws of the same quantities."""
    key: Callable[[], str] | None = None
    """Tells this model and its data from all others; finished simulations are kept under it, without one none are."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Ranks of truths in their posteriors."""

    ranks: pd.DataFrame
    """One row per simulation and quantity: truth, posterior mean, rank (0 to `ranked`), and R-hat, effective draws and
    divergences of that simulation (missing where draws are independent by construction). Orders have truth 0 or 1."""
    ranked: int

    def summary(self) -> pd.DataFrame:
        """One row per quantity: simulations, mean rank as a share of `ranked` (0.5 where right), test, p_value.

        Orders have mean of truth, mean probability, and the p-value of their difference.
        """
        rows = []
        for quantity, own in self.ranks.groupby("quantity", sort=False):
            order = ">" in str(quantity)
            p = reliability(own["truth"], own["mean"]) if order else uniformity(own["rank"].to_numpy(), self.ranked)
            rows.append(
                {
                    "quantity": quantity,
                    "simulations": len(own),
                    "mean_rank": float(own["rank"].mean()) / self.ranked,
                    "truth": float(own["truth"].mean()),
                    "posterior_mean": float(own["mean"].mean()),
                    "test": "probability against frequency" if order else "uniform ranks",
                    "p_value": p,
                }
            )
        return pd.DataFrame(rows)

    def check(self) -> checks.Check:
        """Failed where a quantity is off at the family-wise level of 1% (Bonferroni).

        Warns where above `FEW_DRAWS` of the simulations have fewer effective draws than truths are ranked among.
        """
        table = self.summary()
        adjusted = np.minimum(table["p_value"] * len(table), 1.0)
        worst = int(adjusted.argmin())
        reason = f"smallest adjusted p = {adjusted[worst]:.3g}, of {table['quantity'][worst]}"
        each = self.ranks.groupby("simulation")[["ess_min", "divergences"]].first()
        few, diverged = (each["ess_min"] < self.ranked).mean(), (each["divergences"] > 0).mean()
        if few > 0:
            reason += f"; {few:.0%} of simulations with fewer than {self.ranked} effective draws"
        if diverged > 0:
            reason += f"; {diverged:.0%} of simulations with divergent transitions"
        off = adjusted[worst] < LEVEL
        return checks.Check(
            name="simulation-based calibration",
            outcome=checks.FAILED if off else checks.WARNED if few > FEW_DRAWS else checks.PASSED,
            reason=reason,
            table=table.assign(p_adjusted=adjusted),
        )

    def plot(self, axes: Any) -> Any:
        """Empirical minus uniform distribution of ranks, one line per quantity, with the 95% simultaneous band."""
        n = self.ranks["simulation"].nunique()
        points = np.arange(1, n) / n
        gamma = float(np.quantile(_smallest_tails(n), 0.05))
        lower, upper = (stats.binom.ppf(q, n, points) / n - points for q in (gamma / 2, 1 - gamma / 2))
        axes.fill_between(points, lower, upper, color="0.85", lw=0, label="95% band")
        for quantity, own in self.ranks.groupby("quantity", sort=False):
            if ">" not in str(quantity):
                u = np.sort(_spread(own["rank"].to_numpy(), self.ranked))
                axes.plot(points, np.searchsorted(u, points, side="right") / n - points, lw=0.8, label=quantity)
        axes.set_xlabel("rank of the truth, as a share")
        axes.set_ylabel("empirical less uniform distribution")
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Summary and outcome."""
        check = self.check()
        return {"outcome": check.outcome, "reason": check.reason, "summary": self.summary().to_dict("records")}


def calibrate(
    simulator: Simulator,
    simulations: int = 200,
    *,
    seed: int,
    cache: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Ranks of true quantities in the posteriors of outcomes that were drawn with them from the prior.

    Every finished simulation of a simulator with a key is kept in the cache folder, and an interrupted call resumes
    where it stopped. `progress` is called with the number of finished simulations and the total.

    Raises UsageError for fewer than 2 simulations.
    """
    if simulations < 2:
        raise UsageError(
            "too few simulations or draws to calibrate", got=f"{simulations} simulations", allowed="2 or more"
        )
    folder = cache_folder() if cache and simulator.key else None
    path = folder / "calibration" / f"{simulator.key()}-{simulations}-{seed}.csv" if folder and simulator.key else None
    rows = _read(path)
    if missing := [s for s in range(simulations) if s not in set(rows["simulation"])]:
        truths, outcomes = simulator.joint(seed, simulations)
        for done, number in enumerate(missing, simulations - len(missing) + 1):
            refit = simulator.posterior(outcomes[number], seed + 1 + number)
            posterior = _elements({name: refit.values[name] for name in truths}, 2)
            truth = _elements({name: values[number] for name, values in truths.items()}, 0)
            found = sampling.summary(posterior)
            own = _ranked(truth, posterior, np.random.default_rng([seed, number])).assign(
                simulation=number,
                rhat_max=found["rhat"].max(),
                ess_min=min(found[["ess_bulk", "ess_tail"]].min(axis=None), refit.effective),
                divergences=refit.divergences,
            )
            rows = pd.concat([rows, own[list(COLUMNS)]], ignore_index=True) if len(rows) else own[list(COLUMNS)]
            if path is not None:
                write_whole(path, partial(rows.to_csv, index=False))
            if progress is not None:
                progress(done, simulations)
    return Calibration(ranks=rows, ranked=RANKED)


def by_sampling(
    model: sampling.Model,
    data: Mapping[str, Any],
    joint: Callable[[int, int], tuple[Mapping[str, Array], Array]],
    told: Callable[[Array], Mapping[str, Array]],
    quantities: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    *,
    settings: Settings = SHORT,
) -> Simulator:
    """A simulator whose posteriors are sampled, all of one compilation.

    `told`: an outcome to the arrays of the data that hold it; `quantities`: all draws to what is ranked. Where a truth
    would be ranked among fewer effective draws than `RANKED` there is a second attempt with smaller steps and twice the
    draws. Raises UsageError for settings that give too few draws to rank among.
    """
    if settings.chains * settings.draws < 2 * RANKED:
        raise UsageError(
            "too few simulations or draws to calibrate",
            got=f"{settings.chains} × {settings.draws} draws",
            allowed=f"{2 * RANKED} draws or more",
        )

    def sampled(outcome: Array, seed: int, how: Settings) -> Refit:
        values, divergences = sampling.sample_only(model, {**data, **told(outcome)}, seed=seed, settings=how)
        return Refit(values=quantities(values), divergences=divergences)

    def posterior(outcome: Array, seed: int) -> Refit:
        refit = sampled(outcome, seed, settings)
        worst = sampling.summary(_elements(refit.values, 2))[["ess_bulk", "ess_tail"]].min(axis=None)
        return refit if worst >= RANKED else sampled(outcome, seed, settings.retried())

    def key() -> str:
        sources = [source_of(function) for function in (joint, told, quantities, calibrate)]
        same = {"settings": asdict(settings), "versions": sampling.versions(), "ranked": RANKED, "sources": sources}
        return cache_key(model, data, **same)

    return Simulator(joint=joint, posterior=posterior, key=key)


def exactly(values: Mapping[str, Array]) -> Refit:
    """Independent draws (draws × …) as a simulator gives them."""
    return Refit(values={name: v.reshape(SHORT.chains, -1, *v.shape[1:]) for name, v in values.items()})


def weighed(draws: Draws) -> Refit:
    """Draws by weights, with what their own gate says of their number."""
    return Refit(values=draws.values, effective=draws.effective)


def uniformity(ranks: Array, ranked: int) -> float:
    """p-value of ranks 0, …, L being uniform.

    γ = min_i 2 min(P(B ≤ R_i), P(B ≥ R_i)), B ~ Binomial(N, z_i), R_i the number of u = (rank + U)/(L + 1) that are at
    most z_i = i/N; its distribution by simulation, and (N − 1) γ where that is less, which it never exceeds: no
    simulation tells how far below its own number a p-value lies. Säilynoja et al. 2022,
    doi:10.1007/s11222-022-10090-6.
    """
    u = _spread(np.asarray(ranks), ranked)
    gamma = float(_smallest_tail(u[None])[0])
    simulated = (1 + (_smallest_tails(u.size) <= gamma).sum()) / (1 + REPLICATES)
    return float(min(simulated, (u.size - 1) * gamma))


def reliability(truth: Any, probability: Any) -> float:
    """Two-sided exact p-value of the number of events Σ t where their stated probabilities p are right.

    Σ t is Poisson-binomial: the convolution of all (1 − p, p).
    """
    held, distribution = int(np.sum(np.asarray(truth))), np.ones(1)
    for p in np.asarray(probability, dtype=np.float64):
        distribution = np.convolve(distribution, [1 - p, p])
    return float(min(1.0, 2 * min(distribution[: held + 1].sum(), distribution[held:].sum())))


def _ranked(truth: Mapping[str, Array], posterior: Mapping[str, Array], rng: np.random.Generator) -> pd.DataFrame:
    """The rank of every truth among draws at even spacing, ties broken by chance: quantity, truth, mean, rank.

    The probability of an order is (draws + 1)/(all + 2): so many draws show none nearer to 0 or 1.
    """
    rows = []
    for name, drawn in posterior.items():
        draws, true = drawn.ravel(), float(truth[name])
        thinned = draws[np.linspace(0, draws.size - 1, RANKED).astype(int)]
        rank = int((thinned < true).sum()) + int(rng.integers(int((thinned == true).sum()) + 1))
        mean = float((draws.sum() + 1) / (draws.size + 2)) if ">" in name else float(draws.mean())
        rows.append((name, true, mean, rank))
    return pd.DataFrame(rows, columns=["quantity", "truth", "mean", "rank"])


def _elements(values: Mapping[str, Array], leading: int) -> dict[str, Array]:
    """Every element of arrays by its own name; `leading`: axes that all have in common."""
    found = {}
    for name, array in values.items():
        flat = np.reshape(array, (*np.shape(array)[:leading], -1))
        for i, element in enumerate(element_names(name, np.shape(array)[leading:])):
            found[element] = flat[..., i]
    return found


def _spread(ranks: Array, ranked: int) -> Array:
    rng = np.random.default_rng(0)
    return np.asarray((ranks + rng.random(len(ranks))) / (ranked + 1))


@lru_cache(maxsize=8)
def _smallest_tails(size: int) -> Array:
    rng = np.random.default_rng(0)
    return np.concatenate([_smallest_tail(rng.random((REPLICATES // 20, size))) for _ in range(20)])


def _smallest_tail(u: Array) -> Array:
    """γ of every row of u."""
    n = u.shape[1]
    points = np.arange(1, n) / n
    reached = np.stack([np.searchsorted(np.sort(row), points, side="right") for row in u])
    return np.asarray(2 * _tails(n)[reached, np.arange(n - 1)].min(axis=1))


@lru_cache(maxsize=8)
def _tails(n: int) -> Array:
    """The smaller tail of every count, counts × points."""
    counts, points = np.arange(n + 1)[:, None], np.arange(1, n) / n
    return np.asarray(np.minimum(stats.binom.cdf(counts, n, points), stats.binom.sf(counts - 1, n, points)))


def _read(path: Path | None) -> pd.DataFrame:
    """Simulations that are kept; a file that is damaged is as good as none."""
    none = pd.DataFrame(columns=list(COLUMNS))
    if path is None or not path.is_file():
        return none
    try:
        found = pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        return none
    return found if list(found.columns) == list(COLUMNS) else none
