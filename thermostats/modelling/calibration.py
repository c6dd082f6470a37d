"""Simulation-based calibration of the heritage model: truths from its prior, data from them, their posterior ranks.

Where model and sampler are right, the rank of a truth among L independent posterior draws is uniform on 0, …, L
(Talts et al. 2018, arXiv:1804.06788). Uniformity is tested by the empirical distribution function against its
simultaneous band (Säilynoja, Bürkner, Vehtari 2022, doi:10.1007/s11222-022-10090-6). Probabilities of orders are
tested by the frequency with which the order is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling import cache as files
from thermostats.modelling import checks, sampling
from thermostats.modelling import heritage_gaussian as gaussian
from thermostats.modelling.draws import Array, Draws, Settings
from thermostats.modelling.heritage_design import BLOCKS, Design, design
from thermostats.modelling.heritage_model import arrays, block_contributions, heritage_model
from thermostats.modelling.simulate import TOTAL_SD, contributions, model_facts, simulate_heritage
from thermostats.tables.caching import cache_folder

SHORT = Settings(chains=2, draws=250, tune=300, target_accept=0.9)
RANKED = 30
"""Posterior draws that a truth is ranked among: fewer than are effectively independent."""
LEVEL = 0.01
"""Family-wise: the smallest p-value over all quantities, times their number, fails below this."""
REPLICATES = 4000
COLUMNS = ("simulation", "quantity", "truth", "mean", "rank", "rhat_max", "ess_min", "divergences")


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
    simulations: int = 200,
    *,
    n_models: int = 24,
    n_labs: int = 8,
    n_prompts: int = 25,
    seed: int,
    settings: Settings = SHORT,
    cache: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Calibrate the sampled heritage model on a design of N models in M labs, all of one compilation.

    Every finished simulation is kept in the cache folder, and a call that was interrupted goes on where it stopped.
    `progress` is told how many are done and of how many. Raises UsageError for fewer than 2 simulations or more
    ranked draws than `settings` give.
    """
    if simulations < 2 or settings.chains * settings.draws < 2 * RANKED:
        raise UsageError(
            "too little to calibrate", got=f"{simulations} simulations of {settings.chains} × {settings.draws} draws",
            allowed=f"2 simulations or more, {2 * RANKED} draws or more",
        )  # fmt: skip
    facts = model_facts(n_models, n_labs, np.random.default_rng(seed))
    laid_out = design(simulate_heritage(facts, shares={}, n_prompts=n_prompts, seed=seed).table, "simulated")
    data = arrays(laid_out)
    path = _path(data, simulations, seed, settings) if cache else None
    rows = _read(path)
    if missing := [s for s in range(simulations) if s not in set(rows["simulation"])]:
        truths = sampling.prior_predictive(heritage_model, data, seed=seed, draws=simulations)
        for number in missing:
            truth = {name: values[number] for name, values in truths.items()}
            refit = {**data, "y": truth["log_gain"]}
            values, divergences = sampling.sample_only(heritage_model, refit, seed=seed + 1 + number, settings=settings)
            posterior = quantities(laid_out, values)
            flat = {name: draws.ravel() for name, draws in posterior.items()}
            own = _ranked(number, quantities(laid_out, truth), flat, np.random.default_rng([seed, number]))
            found = sampling.summary(posterior)
            own = own.assign(
                rhat_max=found["rhat"].max(),
                ess_min=found[["ess_bulk", "ess_tail"]].min(axis=None),
                divergences=divergences,
            )
            rows = pd.concat([rows, own], ignore_index=True) if len(rows) else own
            _write(path, rows)
            if progress is not None:
                progress(number + 1, simulations)
    return Calibration(ranks=rows, ranked=RANKED)


def calibrate_closed_form(
    simulations: int = 400, *, n_models: int = 24, n_labs: int = 8, error: float = 0.01, told: float | None = None,
    seed: int, draws: int = 500,
) -> Calibration:  # fmt: skip
    """The same for the closed form: seconds.

    `error`: standard error of a model's mean log gain; `told`: what the model takes it to be, to see that a wrong model
    fails. Raises UsageError for fewer than 2 simulations.
    """
    if simulations < 2:
        raise UsageError("too little to calibrate", got=f"{simulations} simulations", allowed="2 or more")
    rng = np.random.default_rng(seed)
    laid_out = design(model_facts(n_models, n_labs, rng).assign(gain=1.0), "simulated")
    taken = np.full(n_models, error if told is None else told)
    prepared = gaussian.prepare(laid_out.covariances(), taken, total_sd=TOTAL_SD, seed=seed)
    rows = []
    for number in range(simulations):
        share, total = rng.dirichlet(np.ones(len(BLOCKS))), abs(rng.normal(scale=TOTAL_SD))
        parts = contributions(laid_out, dict(zip(BLOCKS, share, strict=True)), total, rng)
        y = np.sum(list(parts.values()), axis=0) + rng.normal(scale=error, size=n_models)
        drawn = gaussian.posterior(prepared, y, seed=int(rng.integers(2**31)), draws=draws)
        sd = np.array([gaussian.block_sds(part) for part in parts.values()])
        posterior = _named(drawn["total"], drawn["share"], drawn["sd"])
        rows.append(_ranked(number, _named(np.array(total), share, sd), posterior, rng))
    return Calibration(ranks=pd.concat(rows, ignore_index=True), ranked=RANKED)


def quantities(laid_out: Design, values: Mapping[str, Array]) -> dict[str, Array]:
    """What is ranked, from draws (… per quantity): τ, shares, finite-population SDs, and indicators of the orders."""
    parts = block_contributions(laid_out, cast(Draws, values)).values()  # it reads by name alone
    return _named(values["tau"], values["share"], np.stack([gaussian.block_sds(part) for part in parts], axis=-1))


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


def _named(total: Array, share: Array, sd: Array) -> dict[str, Array]:
    by_block = {
        f"{kind}_{name}": values[..., b] for kind, values in (("share", share), ("sd", sd))
        for b, name in enumerate(BLOCKS)
    }  # fmt: skip
    h, g, s = (sd[..., b] for b in range(3))
    orders = {"heritage > geometry": h > g, "geometry > scale": g > s, "heritage > geometry > scale": (h > g) & (g > s)}
    return {"total_sd": total, **by_block, **{name: values.astype(np.float64) for name, values in orders.items()}}


def _ranked(
    number: int, truth: Mapping[str, Array], posterior: Mapping[str, Array], rng: np.random.Generator
) -> pd.DataFrame:
    rows = []
    for name, draws in posterior.items():
        true = float(truth[name])
        thinned = draws[np.linspace(0, draws.size - 1, RANKED).astype(int)]
        ties = int((thinned == true).sum())
        rank = int((thinned < true).sum()) + int(rng.integers(ties + 1))
        rows.append((number, name, true, float(draws.mean()), rank, np.nan, np.nan, np.nan))
    return pd.DataFrame(rows, columns=list(COLUMNS))


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


def _path(data: Mapping[str, Any], simulations: int, seed: int, settings: Settings) -> Path | None:
    folder = cache_folder()
    if folder is None:
        return None
    same = {"simulations": simulations, "settings": settings, "versions": sampling.versions(), "ranked": RANKED}
    return folder / "calibration" / f"{files.key(heritage_model, data, seed=seed, **same)}.csv"


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
