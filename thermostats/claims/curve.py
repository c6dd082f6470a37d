"""A claim's specification curve: its own test and rule in every universe, and one joint test of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Result, TooFew
from thermostats.claims.rule import Rule
from thermostats.errors import DataError, UsageError
from thermostats.modelling.specification.curve import SpecificationCurve, specification_curve
from thermostats.modelling.specification.estimators import Estimator
from thermostats.modelling.specification.null import Null
from thermostats.modelling.specification.universes import OUTCOME, Choices

SEED = 35


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The universes of one finding, declared as data; its test and its rule are those of the finding."""

    rows: Callable[[Evidence], pd.DataFrame]
    """All rows that some universe reads, under the columns that options name."""
    choices: Choices
    estimate: Estimator
    """The closed form of the test's headline."""
    null: Null | None = None
    """What is rearranged for the joint p; None where the statement has no null, such as a universal one."""
    above: bool = True
    """Whether the statement is that the estimate is large."""
    test: Callable[[pd.DataFrame], Result] | None = None
    """Where a universe's rows are not those of the finding's trial: the same test on them."""


def curve_of(
    curve: Curve, rule: Rule, test: Callable[[pd.DataFrame], Result], evidence: Evidence
) -> SpecificationCurve:
    """Estimate and verdict of every universe; the verdict is the rule's alone, with no unit left out.

    Raises DataError where the closed form is not the headline of the test, where that has a value.
    """

    def judge(rows: pd.DataFrame) -> Mapping[str, Any]:
        try:
            result = (curve.test or test)(rows)
        except TooFew as few:
            raise UsageError("too few models", got=few.result.n_models) from few
        head = result.headline
        closed = float(curve.estimate(rows)(rows[OUTCOME].to_numpy(np.float64)[None])[0])
        if head.value is not None and not np.isclose(head.value, closed, rtol=1e-6, atol=1e-9):
            raise DataError("the closed form of a curve is not its test", got=closed, allowed=str(head.value))
        ends = {"lower": head.lower, "upper": head.upper}
        return {**ends, "n_models": result.n_models, "verdict": str(rule.verdict(result))}

    return specification_curve(
        curve.rows(evidence), curve.choices, curve.estimate, null=curve.null, above=curve.above, judge=judge, seed=SEED
    )
