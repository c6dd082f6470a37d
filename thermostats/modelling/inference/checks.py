"""The same checks for every fitted model, each a frozen record with its table; together they form the gate.

The gate protects against a failed sampler, and against a model that does not reproduce what the claim is about.
Everything else warns: it is shown and closes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import ESS_LIMIT, PARETO_LIMIT, RHAT_LIMIT, Array, Draws

PASSED, WARNED, FAILED = "passed", "warned", "failed"
Statistic = Callable[[Array], float]
"""One number from one data set; for replicated data it is asked once per draw."""

MOST_STATISTICS = 5
"""Test quantities that a model may declare: with more, one of them fails by chance too often."""
SURPRISING = 0.01
"""Tail probability of a declared test quantity, or of the LOO-PIT, below which it is not reproduced."""
MOST_UNSTABLE = 0.05
"""Share of points with untrusted importance weights above which leave-one-out says nothing."""
SURE, NEAR = 0.95, 0.20
"""Probability from which on a statement is decided, and of its contrary up to which it is still near that."""
SHAPES: Mapping[str, Statistic] = {
    "largest": lambda y: y.max(axis=-1),
    "smallest": lambda y: y.min(axis=-1),
    "skew": lambda y: float(((y - y.mean()) ** 3).mean() / max(y.std() ** 3, 1e-300)),
}
"""What calls for a model with heavier tails or skew, where it is not what the claim is about."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check."""

    name: str
    outcome: str
    """`passed`, `warned` or `failed`; only the last closes the gate."""
    reason: str
    table: pd.DataFrame


@dataclass(frozen=True, kw_only=True, repr=False)
class Gate:
    """Whether a fit may be used: nothing failed. At a prompt and in a notebook it is a table with one row per check."""

    checks: tuple[Check, ...]

    @property
    def passes(self) -> bool:
        """No check failed."""
        return all(check.outcome != FAILED for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every check that did not pass, in words."""
        return tuple(f"{c.name} {c.outcome}: {c.reason}" for c in self.checks if c.outcome != PASSED)

    @property
    def headline(self) -> str:
        """Whether the gate is open, in words."""
        counts = [f"{sum(c.outcome == word for c in self.checks)} {word}" for word in (PASSED, WARNED, FAILED)]
        return f"gate {'open' if self.passes else 'closed'}: {', '.join(counts)}"

    def __repr__(self) -> str:  # noqa: D105
        width = max((len(c.name) for c in self.checks), default=0)
        rows = [f"  {c.name:<{width}}  {c.outcome:<6}  {c.reason}" for c in self.checks]
        return "\n".join([self.headline, *rows])

    def _repr_html_(self) -> str:
        return f"<p><b>{self.headline}</b></p>{self.table().to_html(index=False, border=0)}"

    def table(self) -> pd.DataFrame:
        """One row per check."""
        return pd.DataFrame([{"check": c.name, "outcome": c.outcome, "reason": c.reason} for c in self.checks])


def sampler(parts: Mapping[str, Draws], read: Mapping[str, Array]) -> Check | None:
    """R-hat and effective sample size of what is `read` (chain × draw × …), and the diagnostics of every part.

    Fails where one of those is beyond its limit, where more than 0.1% of transitions diverged, or where importance
    weights cannot be trusted; warns of all else. None where every draw is by quadrature: there was no sampler.
    """
    rows = [draws.diagnostics.table().assign(part=name) for name, draws in parts.items()]
    table = pd.concat(rows, ignore_index=True)
    if table.empty:
        return None
    unsound = [
        words
        for draws in parts.values()
        for words in draws.failures()
        if draws.exact or words.endswith("divergent transitions")
    ]
    for name, values in {} if all(draws.exact for draws in parts.values()) else read.items():
        found = sampling.convergence(values.reshape(*values.shape[:2], -1).astype(np.float64))
        rhat, ess = np.nanmax([1.0, *found["rhat"]]), np.nanmin([np.inf, *found["ess_bulk"], *found["ess_tail"]])
        unsound += [f"R-hat {rhat:.3f} of {name}"] * bool(rhat > RHAT_LIMIT)
        unsound += [f"ESS {ess:.0f} of {name}"] * bool(ess < ESS_LIMIT)
    beyond = [words for draws in parts.values() for words in draws.beyond_limits()]
    outcome = FAILED if unsound else WARNED if beyond else PASSED
    name = "importance weights" if all(draws.exact for draws in parts.values()) else "sampler"
    return _check(name, outcome, "; ".join(dict.fromkeys(unsound + beyond)) or "all within limits", table)


def prior_predictive(replicates: Array, observed: Array, statistics: Mapping[str, Statistic]) -> Check:
    """The prior can give data like these: every statistic within its central 98%. A conflict warns, whatever it is."""
    table = _predictive(replicates, observed, statistics)
    outside = table.loc[table["tail"] < SURPRISING, "statistic"]
    reason = f"the prior hardly gives such {', '.join(outside)}" if len(outside) else "all statistics are covered"
    return _check("prior predictive", WARNED if len(outside) else PASSED, reason, table)


def posterior_predictive(
    replicates: Array, observed: Array, statistics: Mapping[str, Statistic], shapes: Mapping[str, Statistic] = SHAPES
) -> Check:
    """Replicated data (draws × n) resemble the observed in every named statistic; Gelman, Meng and Stern 1996.

    p = P(T(replicated) ≥ T(observed)), ties halved. Fails where p is below 0.01 or above 0.99 for one of the
    `statistics`, which bear on the claim; warns where it is for one of the `shapes`.
    """
    table = _predictive(
        replicates, observed, {**statistics, **{n: t for n, t in shapes.items() if n not in statistics}}
    )
    named = table.loc[table["tail"] < SURPRISING, "statistic"]
    reason = f"not reproduced: {', '.join(named)}" if len(named) else "all statistics are reproduced"
    outcome = FAILED if set(named) & set(statistics) else WARNED if len(named) else PASSED
    return _check("posterior predictive", outcome, reason, table.assign(declared=table["statistic"].isin(statistics)))


def loo_pit(log_likelihood: Array, replicates: Array, observed: Array, *, seed: int) -> Check:
    """Leave-one-out probability integral transforms are uniform (Kolmogorov–Smirnov), by smoothed importance weights.

    `log_likelihood` and `replicates` are draws × n for the same draws. Warns: it asks about the whole distribution of
    the outcomes, of which a claim is about a part, and that part stands among the declared test quantities. Warns too
    where more than `MOST_UNSTABLE` of the points have a Pareto k above 0.7.
    """
    rng = np.random.default_rng(seed)
    return weighted_pit(log_likelihood, (replicates < observed) + rng.random(observed.size) * (replicates == observed))


def weighted_pit(log_likelihood: Array, below: Array) -> Check:
    """LOO-PIT from P(outcome < observed) of every draw (draws × n, 0 or 1 for a replicate), by importance weights."""
    log_weights, k = sampling.pareto_smooth(-log_likelihood.T)
    found = exact_pit(np.clip((np.exp(log_weights) * below.T).sum(axis=1), 0, 1))
    unstable = float((~(k <= PARETO_LIMIT)).mean())
    return replace(
        found,
        outcome=WARNED if unstable > MOST_UNSTABLE else found.outcome,
        reason=f"{found.reason}, {unstable:.1%} of points with Pareto k above {PARETO_LIMIT}",
        table=found.table.assign(pareto_k=k),
    )


def exact_pit(pit: Array) -> Check:
    """Transforms of every outcome predicted from all others are uniform (Kolmogorov–Smirnov), from exact refits."""
    table, missing = pd.DataFrame({"pit": pit}), int((~np.isfinite(pit)).sum())
    if missing:
        return _check("LOO-PIT", WARNED, f"{missing} of {pit.size} outcomes have no transform", table)
    p = float(stats.kstest(pit, "uniform").pvalue)
    return _check("LOO-PIT", WARNED if p < 2 * SURPRISING else PASSED, f"Kolmogorov–Smirnov p = {p:.3g}", table)


def prior_sensitivity(table: pd.DataFrame) -> Check:
    """Whether a decided statement is not near under another prior; `table`: as `statements.sensitivity` has it."""
    moved = _moved(table, "with")
    unknown = table.loc[table["probability"].isna(), "alternative"].drop_duplicates()
    reasons = [*moved, *(f"weights of {name} cannot be trusted" for name in unknown)]
    reason = "; ".join(reasons) or "nothing moves by much"
    return _check("prior sensitivity", WARNED if reasons else PASSED, reason, table)


def influence(table: pd.DataFrame) -> Check:
    """Whether a decided statement hangs on one unit; `table`: as `statements.influence` has it.

    Warns too of a statement that no refit could be asked: nothing is known of it.
    """
    moved, asked = _moved(table, "without"), table.groupby("statement", sort=False).size()
    reasons = [f"hangs on one unit: {'; '.join(moved)}"] * bool(moved)
    reasons += [f"not refitted without some units: {name}" for name in asked.index[asked == 1]]
    return _check("influence", WARNED if reasons else PASSED, "; ".join(reasons) or "no unit carries it alone", table)


def nothing_left_out(reason: str) -> Check:
    """The check of influence where nothing is left out: every gate holds it and says why."""
    return _check("influence", WARNED, reason, pd.DataFrame(columns=["statement", "left_out", "probability"]))


def powers(log_prior: Array, exponents: Sequence[float]) -> dict[str, Array]:
    """Log ratios of the prior raised to powers, by name; Kallioinen et al. 2024, doi:10.1007/s11222-023-10366-5."""
    return {f"prior to the power {p:g}": (p - 1) * log_prior for p in exponents}


def no_longer_near(whole: float, other: Array | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a decided probability falls below 0.80, or rises above 0.20 where it was decided against."""
    fallen = (whole >= SURE) & (other < 1 - NEAR)
    return np.asarray(fallen | ((whole <= 1 - SURE) & (other > NEAR)))


def _moved(table: pd.DataFrame, word: str) -> list[str]:
    """Rows whose probability is no longer near that of their statement as fitted; the second column names them."""
    found = []
    for statement, own in table.groupby("statement", sort=False):
        whole, p = float(own["probability"].iloc[0]), own["probability"].to_numpy()
        for at in np.flatnonzero(no_longer_near(whole, p)):
            found.append(f"P({statement}) = {whole:.2f}, {p[at]:.2f} {word} “{own.iloc[at, 1]}”")
    return found


def _predictive(replicates: Array, observed: Array, statistics: Mapping[str, Statistic]) -> pd.DataFrame:
    if replicates.ndim != 2 or replicates.shape[1] != observed.size:
        raise UsageError("replicates do not match the data", got=replicates.shape, allowed=f"draws × {observed.size}")
    rows = []
    for name, statistic in statistics.items():
        simulated = np.array([statistic(row) for row in replicates])
        value = statistic(observed)
        p = float((simulated > value).mean() + 0.5 * (simulated == value).mean())
        lower, upper = np.quantile(simulated, [0.03, 0.97])
        rows.append((name, value, lower, upper, p, min(p, 1 - p)))
    return pd.DataFrame(rows, columns=["statistic", "observed", "lower", "upper", "p", "tail"])


def _check(name: str, outcome: str, reason: str, table: pd.DataFrame) -> Check:
    return Check(name=name, outcome=outcome, reason=reason, table=table)
