"""Simulation-based calibration: truths from a model's prior, outcomes from them, their ranks in the posteriors.

Where model and sampler are right, the rank of a truth among L independent posterior draws is uniform on 0, …, L
(Talts et al. 2018, arXiv:1804.06788). Uniformity is tested by the empirical distribution function against its
simultaneous band (Säilynoja, Bürkner, Vehtari 2022, doi:10.1007/s11222-022-10090-6). Probabilities of orders are
tested by the frequency with which the order is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling import cache as files
from thermostats.modelling import checks, sampling
from thermostats.modelling.draws import Array, Settings, element_names
from thermostats.tables.caching import cache_folder

SHORT = Settings(chains=2, draws=250, tune=300, target_accept=0.9)
RANKED = 30
"""Posterior draws that a truth is ranked among: fewer than are effectively independent."""
LEVEL = 0.01
"""Family-wise: the smallest p-value over all quantities, times their number, fails below this."""
REPLICATES = 4000
COLUMNS = ("simulation", "quantity", "truth", "mean", "rank", "rhat_max", "ess_min", "divergences")


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """A model as calibration needs it: tables from its prior, and the posterior of each."""

    joint: Callable[[int, int], tuple[Mapping[str, Array], Array]]
    """Seed and number n to true quantities (n × …) and outcomes (n × rows) drawn with them from the prior."""
    posterior: Callable[[Array, int], tuple[Mapping[str, Array], int]]
    """An outcome and a seed to draws of the same quantities, chain × draw × …, and how many diverged."""
    key: str = ""
    """Tells this model and its data from all others; finished simulations are kept under it, without one none are."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Ranks of truths in their posteriors."""

    ranks: pd.DataFrame
    """One row per simulation and quantity: truth, posterior mean, rank (0 to `ranked`), and the sampler's R-hat,
    effective draws and divergences of that simulation (missing for the closed form). Orders have truth 0 or 1."""
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
        """Passed where no quantity is off at the family-wise level of 1 % (Bonferroni)."""
        table = self.summary()
        adjusted = np.minimum(table["p_value"] * len(table), 1.0)
        worst = int(adjusted.argmin())
        return checks.Check(
            name="simulation-based calibration",
            outcome=checks.FAILED if adjusted[worst] < LEVEL else checks.PASSED,
            reason=f"smallest adjusted p = {adjusted[worst]:.3g}, of {table['quantity'][worst]}",
            table=table.assign(p_adjusted=adjusted),
        )

    def plot(self, axes: Any) -> Any:
        """Empirical distribution of ranks less the uniform one, a line a quantity, with the 95 % simultaneous band."""
        n = self.ranks["simulation"].nunique()
        points = np.arange(1, n) / n
        gamma = float(np.quantile(_smallest_tails(n), 0.05))
        lower, upper = (stats.binom.ppf(q, n, points) / n - points for q in (gamma / 2, 1 - gamma / 2))
        axes.fill_between(points, lower, upper, color="0.85", lw=0, label="95 % band")
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

    Every finished simulation of a simulator with a key is kept in the cache folder, and a call that was interrupted
    goes on where it stopped. `progress` is told how many are done and of how many. Raises UsageError for fewer than 2
    simulations.
    """
    if simulations < 2:
        raise UsageError("too little to calibrate", got=f"{simulations} simulations", allowed="2 or more")
    path = _path(simulator.key, simulations, seed) if cache and simulator.key else None
    rows = _read(path)
    if missing := [s for s in range(simulations) if s not in set(rows["simulation"])]:
        truths, outcomes = simulator.joint(seed, simulations)
        for number in missing:
            drawn, divergences = simulator.posterior(outcomes[number], seed + 1 + number)
            posterior = _elements({name: drawn[name] for name in truths}, 2)
            truth = _elements({name: values[number] for name, values in truths.items()}, 0)
            flat = {name: values.ravel() for name, values in posterior.items()}
            found = sampling.summary(posterior)
            own = ranked(number, truth, flat, np.random.default_rng([seed, number])).assign(
                rhat_max=found["rhat"].max(),
                ess_min=found[["ess_bulk", "ess_tail"]].min(axis=None),
                divergences=divergences,
            )
            rows = pd.concat([rows, own], ignore_index=True) if len(rows) else own
            _write(path, rows)
            if progress is not None:
                progress(number + 1, simulations)
    return Calibration(ranks=rows, ranked=RANKED)


def by_sampling(
    model: sampling.Model,
    data: Mapping[str, Any],
    joint: Callable[[int, int], tuple[Mapping[str, Array], Array]],
    told: Callable[[Array], Mapping[str, Array]],
    *,
    settings: Settings = SHORT,
    quantities: Callable[[Mapping[str, Array]], Mapping[str, Array]] = dict,
) -> Simulator:
    """A simulator whose posteriors are sampled, all of one compilation.

    `told`: an outcome to the arrays of the data that hold it; `quantities`: all draws to what is ranked. Raises
    UsageError for settings that give too few draws to rank among.
    """
    if settings.chains * settings.draws < 2 * RANKED:
        raise UsageError(
            "too little to calibrate",
            got=f"{settings.chains} × {settings.draws} draws",
            allowed=f"{2 * RANKED} draws or more",
        )

    def posterior(outcome: Array, seed: int) -> tuple[Mapping[str, Array], int]:
        values, divergences = sampling.sample_only(model, {**data, **told(outcome)}, seed=seed, settings=settings)
        return quantities(values), divergences

    same = {"settings": asdict(settings), "versions": sampling.versions(), "ranked": RANKED}
    return Simulator(joint=joint, posterior=posterior, key=files.key(model, data, **same))


def exactly(values: Mapping[str, Array]) -> tuple[dict[str, Array], int]:
    """Independent draws (draws × …) as a simulator gives them; none diverges."""
    return {name: v.reshape(SHORT.chains, -1, *v.shape[1:]) for name, v in values.items()}, 0


def uniformity(ranks: Array, ranked: int) -> float:
    """p-value of ranks 0, …, L being uniform.

    γ = min_i 2 min(P(B ≤ R_i), P(B ≥ R_i)), B ~ Binomial(N, z_i), R_i the number of u = (rank + U)/(L + 1) that are at
    most z_i = i/N; its distribution by simulation. Säilynoja et al. 2022, doi:10.1007/s11222-022-10090-6.
    """
    u = _spread(np.asarray(ranks), ranked)
    return float((1 + (_smallest_tails(u.size) <= _smallest_tail(u[None])[0]).sum()) / (1 + REPLICATES))


def reliability(truth: Any, probability: Any) -> float:
    """Two-sided p-value of Σ(t − p) = 0 for events t of stated probabilities p, normal with variance Σ p(1 − p)."""
    t, p = np.asarray(truth, dtype=np.float64), np.asarray(probability, dtype=np.float64)
    spread = np.sqrt((p * (1 - p)).sum())
    return float(2 * stats.norm.sf(abs((t - p).sum()) / spread)) if spread > 0 else float((t == p).all())


def ranked(
    number: int, truth: Mapping[str, Array], posterior: Mapping[str, Array], rng: np.random.Generator
) -> pd.DataFrame:
    """Rows of one simulation: the rank of every truth among draws at even spacing, ties broken by chance."""
    rows = []
    for name, draws in posterior.items():
        true = float(truth[name])
        thinned = draws[np.linspace(0, draws.size - 1, RANKED).astype(int)]
        ties = int((thinned == true).sum())
        rank = int((thinned < true).sum()) + int(rng.integers(ties + 1))
        rows.append((number, name, true, float(draws.mean()), rank, np.nan, np.nan, np.nan))
    return pd.DataFrame(rows, columns=list(COLUMNS))


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
    table_below, table_above = _tails(n)
    columns = np.arange(n - 1)
    smaller = np.minimum(table_below[reached, columns], table_above[reached, columns])
    return np.asarray(2 * smaller.min(axis=1))


@lru_cache(maxsize=8)
def _tails(n: int) -> tuple[Array, Array]:
    counts, points = np.arange(n + 1)[:, None], np.arange(1, n) / n
    return stats.binom.cdf(counts, n, points), stats.binom.sf(counts - 1, n, points)


def _path(key: str, simulations: int, seed: int) -> Path | None:
    folder = cache_folder()
    return folder / "calibration" / f"{key}-{simulations}-{seed}.csv" if folder is not None else None


def _read(path: Path | None) -> pd.DataFrame:
    if path is None or not path.is_file():
        return pd.DataFrame({name: pd.Series(dtype=object if name == "quantity" else np.float64) for name in COLUMNS})
    return pd.read_csv(path)


def _write(path: Path | None, rows: pd.DataFrame) -> None:
    """All simulations so far, whole or not at all."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        rows.to_csv(partial, index=False)
        partial.replace(path)
