"""One list of checks over any fit, exact or sampled, each a frozen record with its table; together
they are the gate.

The gate closes where a sampler failed, and where the model does not reproduce what the claim is
about. Everything else warns: it is shown and closes nothing.
"""

from __future__ import annotations

from collections import Counter, UserDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.formatting import format_number
from thermostats.modelling import regressors
from thermostats.modelling.draws import (
    ESS_LIMIT,
    LOCATION,
    PARETO_LIMIT,
    RHAT_LIMIT,
    Array,
    Quantities,
    Statement,
    Statistic,
    evaluate_statement,
    find_equal_tailed,
    measure_convergence,
    normalise_pareto_weights,
)
from thermostats.modelling.fitted_law import (
    INFLUENCE,
    FittedLaw,
    evaluate_refits,
    measure_unit_influence,
)
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.leave_out import LeftOut

PASSED = "passed"
WARNED = "warned"
FAILED = "failed"
REPLICATES, OF_PRIOR = 4000, 1000
"""Replicated data sets of the posterior and of the prior; a draw of the posterior gives one at
most."""
CENTRAL = 0.94
"""Share of replicated values that the table of a predictive check encloses."""
SURPRISING, ODD = 0.02, 0.05
"""Probability that a right model fails by its statistics or warns by its prior or LOO-PIT, and that
it warns by its shape; statistics of one check together, whatever their number."""
POWERS = (0.8, 1.25)
"""Powers of the prior; Kallioinen et al. 2024, doi:10.1007/s11222-023-10366-5."""
SURE, NEAR = 0.95, 0.20
"""Probability from which on a statement is decided, and of its contrary up to which it is still
near that."""
AS_FITTED = "as fitted"


def measure_skewness(y: Array) -> Array:
    """Third standardised moment along the last axis; 0 where nothing varies."""
    off = y - y.mean(axis=-1, keepdims=True)
    scale = np.maximum(off.std(axis=-1) ** 3, 1e-300)
    return np.asarray((off**3).mean(axis=-1) / scale)


SHAPES: Mapping[str, Statistic] = {
    "largest": lambda y: y.max(axis=-1),
    "smallest": lambda y: y.min(axis=-1),
    "skew": measure_skewness,
}
"""What calls for a model with heavier tails or skew, where there are no residuals of a linear model
to look at."""
LARGE_IS_ODD = ("spread", *regressors.LARGE_IS_ODD)
"""A spread below what a prior expects is what a weak prior is for."""
UNITS = (
    "are the outcomes in the unit that the prior is stated for (gains and their logs, not per "
    "cent)?"
)


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
    """Whether a fit may be used: nothing failed. At a prompt and in a notebook it is a table with
    one row per check."""

    checks: tuple[Check, ...]

    @property
    def passes(self) -> bool:
        """No check failed."""
        return all(check.outcome != FAILED for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every check that did not pass, in words."""
        reasons = []
        for c in self.checks:
            if c.outcome != PASSED:
                reasons.append(f"{c.name} {c.outcome}: {c.reason}")
        return tuple(reasons)

    @property
    def headline(self) -> str:
        """Whether the gate is open, in words."""
        outcomes = Counter(check.outcome for check in self.checks)
        counts = []
        for word in (PASSED, WARNED, FAILED):
            counts.append(f"{outcomes[word]} {word}")
        return f"gate {'open' if self.passes else 'closed'}: {', '.join(counts)}"

    def table(self) -> pd.DataFrame:
        """Write the checks as a table.

        Returns
        -------
        DataFrame
            A row each check: check, outcome, reason.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> list(fit.check(refits=False).table().columns)
        ['check', 'outcome', 'reason']
        """
        rows = [(check.name, check.outcome, check.reason) for check in self.checks]
        return pd.DataFrame(rows, columns=["check", "outcome", "reason"])

    def __repr__(self) -> str:
        width = max((len(c.name) for c in self.checks), default=0)
        lines = []
        for c in self.checks:
            name = f"{c.name:<{width}}"
            lines.append(f"  {name}  {c.outcome:<6}  {c.reason}")
        return "\n".join([self.headline, *lines])

    def _repr_html_(self) -> str:
        return f"<p><b>{self.headline}</b></p>{self.table().to_html(index=False, border=0)}"


def run_checks(
    fit: FittedLaw, statements: Mapping[str, Statement], *, refits: bool, seed: int
) -> Gate:
    """All checks of a fit, and what becomes of some statements under other priors and without each
    unit.

    `refits`: also under the law's alternatives and without units, by exact refits. Where the draws
    themselves failed, nothing is refitted and no outcome is left out.
    """
    for statement in statements.values():
        fit.truth(statement)  # refused before anything is fitted again
    rng = np.random.default_rng(seed)
    observed = fit.model.observed
    statistics = fit.law.statistics(fit.design)
    placed = {}
    for name, T in {**LOCATION, **statistics}.items():
        if name not in regressors.LARGE_IS_ODD:
            placed[name] = T
    of_prior = fit.model.draw_prior(OF_PRIOR, rng)
    prior = fit.model.replicate(of_prior, rng)
    replicates = fit.model.replicate(fit.draws.few(REPLICATES), rng)
    drawn = check_sampler(fit, statements)
    refits &= drawn.outcome != FAILED
    left_out = _run_leave_one_out(fit, drawn, refits)
    before = check_replicates("prior predictive", prior, observed, placed, outcome=WARNED)
    after = check_replicates(
        "posterior predictive", replicates, observed, statistics, outcome=FAILED
    )
    shape = check_shape(fit, replicates, rng)
    uniform = check_loo_pit(*left_out)
    sensitivity = measure_sensitivity(fit, statements, refits=refits)
    checks = [drawn, before, after, shape, uniform, check_prior_sensitivity(sensitivity)]
    if refits:
        checks.append(check_influence(measure_unit_influence(fit, statements)))
    return Gate(checks=tuple(checks))


def check_sampler(fit: FittedLaw, statements: Mapping[str, Statement]) -> Check:
    """Diagnostics of the draws, and of sampled ones R-hat and effective number of every quantity
    that statements read.

    Fails where one of those is beyond its limit, where more than 0.1% of transitions diverged, or
    where importance weights cannot be trusted; warns of all else, of nuisance parameters too.
    """
    draws = fit.draws
    unsound = []
    if draws.exact:
        unsound = list(draws.failures())
    else:
        unsound = [words for words in draws.failures() if words.endswith("divergent transitions")]
        for name in list_quantities_read(statements, fit.quantities):
            values = fit.quantities[name]
            elements = values.reshape(*values.shape[:2], -1)
            measures = measure_convergence(elements.astype(np.float64))
            rhat = np.nanmax([1.0, *measures["rhat"]])
            ess = np.nanmin([np.inf, *measures["ess_bulk"], *measures["ess_tail"]])
            if rhat > RHAT_LIMIT:
                unsound.append(f"R-hat {rhat:.3f} of {name}")
            if ess < ESS_LIMIT:
                unsound.append(f"ESS {ess:.0f} of {name}")
    exceeded = draws.list_exceeded_limits()
    outcome = FAILED if unsound else WARNED if exceeded else PASSED
    distinct = dict.fromkeys([*unsound, *exceeded])
    reason = "; ".join(distinct) or "all within limits"
    name = "importance weights" if draws.exact else "sampler"
    return Check(name=name, outcome=outcome, reason=reason, table=draws.diagnostics)


def check_replicates(
    name: str,
    replicates: Array,
    observed: Array,
    statistics: Mapping[str, Statistic],
    *,
    outcome: str,
    level: float = SURPRISING,
) -> Check:
    """Replicated data (draws × n) resemble the observed in every statistic; Gelman, Meng and Stern
    1996.

    p = P(T(replicated) ≥ T(observed)), ties halved; odd is a small p and, unless only large values
    are, a large one. joint = P(the oddest statistic of replicated data is as odd as this): a
    statistic is not reproduced where that is below `level`, so that a right model is blamed with
    that probability, whatever the number of statistics and however they depend on one another
    (Westfall and Young 1993). `outcome`: what such a statistic makes of the check.
    """
    columns = ["statistic", "observed", "lower", "upper", "p", "joint"]
    if not statistics:
        return Check(
            name=name,
            outcome=PASSED,
            reason="nothing to look at",
            table=pd.DataFrame(columns=columns),
        )
    of_statistics = []
    for T in statistics.values():
        of_replicates = T(replicates)
        of_statistics.append(np.append(of_replicates, T(observed[None])))
    values = np.column_stack(of_statistics)
    ranks = stats.rankdata(values, axis=0)
    p = 1 - (ranks - 0.5) / len(values)
    large = [label in LARGE_IS_ODD for label in statistics]
    either_side = 2 * np.minimum(p, 1 - p)
    odd = np.where(large, p, either_side)
    oddest = odd.min(axis=1)
    joint = (oddest[:, None] <= odd[-1]).mean(axis=0)
    lower, upper = find_equal_tailed(values[:-1], CENTRAL)
    cells = zip(statistics, values[-1], lower, upper, p[-1], joint, strict=True)
    missed = []
    for label, below in zip(statistics, joint < level, strict=True):
        if below:
            missed.append(label)
    reason = f"not reproduced: {', '.join(missed)}" if missed else "all statistics are reproduced"
    if missed and name.startswith("prior"):
        reason = f"the prior hardly gives such {', '.join(missed)}"
        if {*missed} & {*LOCATION}:
            reason += f"; {UNITS}"
    table = pd.DataFrame(cells, columns=columns)
    return Check(name=name, outcome=outcome if missed else PASSED, reason=reason, table=table)


def check_shape(fit: FittedLaw, replicates: Array, rng: np.random.Generator) -> Check:
    """Residuals of a linear model as `residuals` looks at them, of other models the shape of the
    outcomes; warns.

    Residuals are compared with those of new groups, whose effects are drawn from their population
    (Marshall and Spiegelhalter 2007, doi:10.1214/07-BA228): else a group that is far from the
    others is reproduced as it is.
    """
    statistics = SHAPES
    if fit.design.regressors is not None:
        asked = {**regressors.CLOSING, **regressors.WARNING}
        statistics = regressors.build_statistics(fit.design.regressors, asked)
        if isinstance(fit.model, Gaussian):
            anew = fit.model.new_levels(fit.draws.few(REPLICATES))
            replicates = fit.model.replicate(anew, rng)
    return check_replicates(
        "shape", replicates, fit.model.observed, statistics, outcome=WARNED, level=ODD
    )


def _run_leave_one_out(fit: FittedLaw, drawn: Check, refits: bool) -> tuple[LeftOut | None, str]:
    """Every outcome predicted from all others, or why it is not."""
    if drawn.outcome == FAILED:
        return None, "the draws failed"
    if fit.model.observed.size < 2:
        return None, "there is one outcome"
    if isinstance(fit.model, Gaussian) and not fit.model.LEAVES_OUT:
        return None, "so many models along a tree are not left out"
    return fit.loo(refit=refits), ""


def check_loo_pit(left_out: LeftOut | None, why: str = "") -> Check:
    """P(prediction from all others < outcome) is uniform (Kolmogorov–Smirnov); None: not asked, and
    why.

    Warns: it asks about the whole distribution of the outcomes, of which a claim is about a part.
    """
    if left_out is None:
        nothing = pd.DataFrame({"pit": np.empty(0)})
        return Check(
            name="LOO-PIT", outcome=WARNED, reason=f"not asked, since {why}", table=nothing
        )
    p = float(stats.kstest(left_out.pit, "uniform").pvalue)
    outcome = WARNED if p < SURPRISING else PASSED
    reason = f"Kolmogorov–Smirnov p = {p:.3g}"
    if left_out.untrusted:
        reason += (
            f"; weights of {left_out.untrusted} of {left_out.pit.size} outcomes cannot be trusted"
        )
    table = pd.DataFrame({"pit": left_out.pit})
    return Check(name="LOO-PIT", outcome=outcome, reason=reason, table=table)


def check_prior_sensitivity(table: pd.DataFrame) -> Check:
    """Whether a decided statement is no longer near under another prior; `table`: as
    `measure_sensitivity` has it."""
    unknown = table.loc[table["probability"].isna(), "alternative"].drop_duplicates()
    reasons = [reason for _, reason in _list_moved(table, "with")]
    reasons += [f"weights of {name} cannot be trusted" for name in unknown]
    outcome = WARNED if reasons else PASSED
    reason = "; ".join(reasons) or "nothing moves by much"
    return Check(name="prior sensitivity", outcome=outcome, reason=reason, table=table)


def check_influence(table: pd.DataFrame) -> Check:
    """Whether a decided statement hangs on one unit, and what the first statement is without the
    unit that moves it most; `table`: as `measure_unit_influence` has it."""
    moved = _list_moved(table, "without")
    reasons = [reason for _, reason in moved]
    units = {unit for unit, _ in moved}
    hangs = "hangs on one unit" if len(units) == 1 else "hangs on each of these units"
    reason = f"{hangs}: {'; '.join(reasons)}" if reasons else "no unit carries it alone"
    outcome = WARNED if reasons else PASSED
    said = "; ".join([reason, *_describe_most_moved(table)])
    return Check(name=INFLUENCE, outcome=outcome, reason=said, table=table)


def _describe_most_moved(table: pd.DataFrame) -> list[str]:
    """What the first statement is, and what it is without the unit that moves it most; nothing
    where no unit is left out, or where the statement is said to hang on that one."""
    rows = table[table["statement"].isin(table["statement"].head(1))]
    without = rows.iloc[1:]
    if without.empty:
        return []
    as_fitted = rows["probability"].iloc[0]
    most = without.loc[(without["probability"] - as_fitted).abs().idxmax()]
    if is_no_longer_near(as_fitted, most["probability"]):
        return []
    now, then = map(format_number, (as_fitted, most["probability"]))
    return [f"P({most['statement']}) is {now}, and {then} without “{most['left_out']}”"]


def measure_sensitivity(
    fit: FittedLaw, statements: Mapping[str, Statement], *, refits: bool
) -> pd.DataFrame:
    """Probabilities of statements as fitted, with the prior raised to powers, and under the law's
    alternatives.

    Columns: statement, alternative, probability (missing where weights cannot be trusted), pareto_k
    (of importance weights; without it an exact refit).
    """
    log_prior = fit.log_prior
    rows = []
    others = fit.alternative_quantities if refits else {}
    for name, statement in statements.items():
        truth = fit.truth(statement).ravel()
        rows.append((name, AS_FITTED, float(truth.mean()), np.nan))
        for power in POWERS:
            log_weight, k = normalise_pareto_weights((power - 1) * log_prior[None])
            trusted = k[0] <= PARETO_LIMIT
            p = float(np.exp(log_weight[0]) @ truth) if trusted else np.nan
            power_in_words = f"prior to the power {power:g}"
            rows.append((name, power_in_words, p, float(k[0])))
        for other, p in evaluate_refits(statement, others.items()):
            rows.append((name, other, p, np.nan))
    return pd.DataFrame(rows, columns=["statement", "alternative", "probability", "pareto_k"])


def list_quantities_read(statements: Mapping[str, Statement], quantities: Quantities) -> list[str]:
    """Names of the quantities that statements read."""
    reader = _Reader(quantities)
    for statement in statements.values():
        evaluate_statement(statement, reader)
    return list(reader.names)


def is_no_longer_near(probability: float, other: Array) -> NDArray[np.bool_]:
    """Whether a decided probability falls below 0.80, or rises above 0.20 where it was decided
    against."""
    fallen = (probability >= SURE) & (other < 1 - NEAR)
    risen = (probability <= 1 - SURE) & (other > NEAR)
    return fallen | risen


class _Reader(UserDict[str, Array]):
    """Quantities that remember which of them were read."""

    def __init__(self, quantities: Quantities) -> None:
        self.data, self.names = quantities, dict[str, None]()  # type: ignore[assignment] # read alone

    def __getitem__(self, name: str) -> Array:
        self.names[name] = None
        return self.data[name]


def _list_moved(table: pd.DataFrame, word: str) -> list[tuple[str, str]]:
    """Rows whose probability is no longer near that of their statement as fitted: what the second
    column calls them, and the reason in words."""
    moved = []
    for statement, rows in table.groupby("statement", sort=False):
        at_all = float(rows["probability"].iloc[0])
        p = rows["probability"].to_numpy()
        units = rows.iloc[:, 1].to_numpy()
        as_fitted = f"P({statement}) = {at_all:.2f}"
        for at in np.flatnonzero(is_no_longer_near(at_all, p)):
            moved.append((str(units[at]), f"{as_fitted}, {p[at]:.2f} {word} “{units[at]}”"))
    return moved
