"""The same checks for every fitted model, each a frozen record with its table; all together a gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Array, Draws

PASSED, WARNED, FAILED, UNDECIDED = "passed", "warned", "failed", "undecided"
Statistic = Callable[[Array], float]
"""One number from one data set; for replicated data it is asked once per draw."""
Rows = TypeVar("Rows")
"""What is fitted, whole or in part."""

EXTREME, DOUBTFUL = 0.005, 0.025
"""A tail probability of a predictive check: below the first it fails, below the second it is undecided."""
PARETO_LIMIT = 0.7
"""Importance ratios with a larger Pareto k cannot be trusted; Vehtari et al. 2024, JMLR 25(72)."""
MOST_UNSTABLE = 0.05
"""Share of points with untrusted importance weights above which leave-one-out says nothing."""
LARGE_SHIFT = 0.5
"""Shift of a mean, in posterior standard deviations, that counts as sensitivity."""
SURE = 0.95
"""Probability from which on a sign counts as settled."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """What one check found."""

    name: str
    outcome: str
    """`passed`, `warned`, `undecided` or `failed`; only the last closes the gate."""
    reason: str
    table: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Whether a fit may be used: nothing failed, and the sampler passed."""

    checks: tuple[Check, ...]

    @property
    def passes(self) -> bool:
        """No check failed."""
        return all(check.outcome != FAILED for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every check that did not pass, in words."""
        return tuple(f"{c.name} {c.outcome}: {c.reason}" for c in self.checks if c.outcome != PASSED)

    def table(self) -> pd.DataFrame:
        """One row per check."""
        return pd.DataFrame([{"check": c.name, "outcome": c.outcome, "reason": c.reason} for c in self.checks])


def diagnostics(draws: Draws) -> Check:
    """The sampler's gate: R-hat, effective sample sizes, divergences, energy."""
    failures = draws.diagnostics.failures()
    table = draws.diagnostics.table().drop(columns=["passes", "failure"])
    return _check("sampler", FAILED if failures else PASSED, "; ".join(failures) or "all within limits", table)


def prior_predictive(replicates: Array, observed: Array, statistics: Mapping[str, Statistic]) -> Check:
    """The prior can give data like these: every statistic within the central 99 % of its prior predictive."""
    table = _predictive(replicates, observed, statistics)
    outside = table.loc[table["tail"] < EXTREME, "statistic"]
    reason = f"outside what the prior gives: {', '.join(outside)}" if len(outside) else "all statistics are covered"
    return _check("prior predictive", FAILED if len(outside) else PASSED, reason, table)


def posterior_predictive(replicates: Array, observed: Array, statistics: Mapping[str, Statistic]) -> Check:
    """Replicated data (draws × n) resemble the observed in every named statistic; Gelman, Meng and Stern 1996.

    p = P(T(replicated) ≥ T(observed)), ties halved; the check fails where its tail is below 0.005.
    """
    table = _predictive(replicates, observed, statistics)
    named = table.loc[table["tail"] < DOUBTFUL, "statistic"]
    reason = f"not reproduced: {', '.join(named)}" if len(named) else "all statistics are reproduced"
    return _check("posterior predictive", _by_tail(table["tail"].min()), reason, table)


def loo_pit(log_likelihood: Array, replicates: Array, observed: Array, *, seed: int) -> Check:
    """Leave-one-out probability integral transforms are uniform (Kolmogorov–Smirnov), by smoothed importance weights.

    `log_likelihood` and `replicates` are draws × n for the same draws. Undecided where more than `MOST_UNSTABLE` of
    the points have a Pareto k above 0.7. The transforms of one data set are not quite independent: approximate.
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
        outcome=UNDECIDED if unstable > MOST_UNSTABLE else found.outcome,
        reason=f"{found.reason}, {unstable:.1%} of points with Pareto k above {PARETO_LIMIT}",
        table=found.table.assign(pareto_k=k),
    )


def exact_pit(pit: Array) -> Check:
    """Transforms of every outcome predicted from all others are uniform (Kolmogorov–Smirnov), from exact refits."""
    table, missing = pd.DataFrame({"pit": pit}), int((~np.isfinite(pit)).sum())
    if missing:
        return _check("LOO-PIT", UNDECIDED, f"{missing} of {pit.size} outcomes have no transform", table)
    p = float(stats.kstest(pit, "uniform").pvalue)
    return _check("LOO-PIT", _by_tail(p), f"Kolmogorov–Smirnov p = {p:.3g}", table)


def prior_sensitivity(log_ratios: Mapping[str, Array], quantities: Mapping[str, Array | NDArray[np.bool_]]) -> Check:
    """What other priors would give, by importance weights: `log_ratios` are log(other/this) of every draw.

    `quantities` are draws of what the verdict rests on; the mean of an indicator (0 or 1) is a probability. Undecided
    where a mean moves by more than half a posterior standard deviation, or where weights cannot be trusted.
    """
    rows = []
    for alternative, ratio in log_ratios.items():
        log_weights, k = sampling.pareto_smooth(ratio.ravel())
        for name, values in quantities.items():
            flat = values.ravel().astype(np.float64)
            rows.append(
                {
                    "alternative": alternative,
                    "quantity": name,
                    "mean": flat.mean(),
                    "mean_under_alternative": float(np.exp(log_weights) @ flat),
                    "sd": flat.std(),
                    "pareto_k": float(k),
                }
            )
    table = pd.DataFrame(rows)
    moved = (table["mean_under_alternative"] - table["mean"]).abs() / table["sd"].where(table["sd"] > 0, 1.0)
    table["shift_in_sd"] = moved
    untrusted = ~(table["pareto_k"] <= PARETO_LIMIT) | moved.isna()
    shifted = table[(moved > LARGE_SHIFT) & ~untrusted]
    reasons = [
        f"{row.quantity} moves by {row.shift_in_sd:.2f} SD under {row.alternative}" for row in shifted.itertuples()
    ]
    reasons += [f"weights of {name} cannot be trusted" for name in sorted(set(table.loc[untrusted, "alternative"]))]
    outcome = UNDECIDED if reasons else PASSED
    return _check("prior sensitivity", outcome, "; ".join(reasons) or "nothing moves by much", table)


def powers(log_prior: Array, exponents: Sequence[float], prior: str = "prior") -> dict[str, Array]:
    """Log ratios of a prior raised to powers, by name; Kallioinen et al. 2024, doi:10.1007/s11222-023-10366-5."""
    return {f"{prior} to the power {p:g}": (p - 1) * log_prior for p in exponents}


def influence(verdict: str, refits: Mapping[str, str], figures: Mapping[str, Mapping[str, float]]) -> Check:
    """Verdicts with each lab or model left out, by exact refit; `figures` are shown with them."""
    rows = [{"left_out": name, "verdict": other, **figures[name]} for name, other in refits.items()]
    changed = [name for name, other in refits.items() if other != verdict]
    reason = f"the verdict changes without {', '.join(changed)}" if changed else "the verdict is the same in all refits"
    return _check("influence", UNDECIDED if changed else PASSED, reason, pd.DataFrame(rows))


def influence_of_refits(
    of: Callable[[Rows], tuple[str, Mapping[str, float]]], whole: Rows, others: Mapping[str, Rows]
) -> Check:
    """The same with `of`, rows to their verdict and figures, asked of the whole and of every rest."""
    found = {name: of(rest) for name, rest in others.items()}
    return influence(of(whole)[0], {k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()})


def settled(p: float, words: tuple[str, str, str] = ("above", "below", "open")) -> str:
    """What a probability settles: the first word from `SURE` on, the second up to 1 − `SURE`, else the third."""
    return words[0] if p >= SURE else words[1] if p <= 1 - SURE else words[2]


def nothing_left_out(reason: str) -> Check:
    """The check of influence where nothing is left out: undecided, so that every gate holds it and says why."""
    return _check("influence", UNDECIDED, reason, pd.DataFrame(columns=["left_out", "verdict"]))


def joined(checks: Sequence[Check | None]) -> Check:
    """Checks of one kind as one, under the first one's name: the worst outcome, every reason that one did not pass.

    Raises UsageError for none.
    """
    parts = [one for one in checks if one is not None]
    if not parts:
        raise UsageError("nothing to join", got="no checks", allowed="one or more")
    worst = max((part.outcome for part in parts), key=(PASSED, WARNED, UNDECIDED, FAILED).index)
    reasons = [part.reason for part in parts if part.outcome != PASSED] or [parts[0].reason]
    table = pd.concat([part.table for part in parts], ignore_index=True)
    return _check(parts[0].name, worst, "; ".join(reasons), table)


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


def _by_tail(p: float) -> str:
    return FAILED if p < EXTREME else UNDECIDED if p < DOUBTFUL else PASSED


def _check(name: str, outcome: str, reason: str, table: pd.DataFrame) -> Check:
    return Check(name=name, outcome=outcome, reason=reason, table=table)
