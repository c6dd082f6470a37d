"""Tests that many claims make, declared by names of columns: a correlation, and a share of rows.

Trial(models, correlate_columns("r", "n_layers", "log_gain"), worlds=build_line_worlds(…))
Trial(models, count_share("share of models", "grows"), worlds=build_share_worlds(…))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal
from warnings import warn

import numpy as np
import pandas as pd

from thermostats.claims.question import Test
from thermostats.claims.result import Result
from thermostats.errors import UsageError
from thermostats.modelling.classical.association import FISHER, NOT_FISHER
from thermostats.modelling.classical.boxed import BoxedDesign, Grid, compute_p
from thermostats.modelling.classical.many import (
    Many,
    describe_rearrangements,
    estimate_correlations,
    estimate_grouped_shares,
    estimate_shares,
    wrap_counts,
)
from thermostats.modelling.columns import read_labels

FISHER_95 = f"95% {FISHER}"
EXACT_95 = "Clopper–Pearson exact interval, 95%"
BOXED = "likelihoods with the nuisances in them, by χ² of one degree of freedom"
IN_GROUPS_95 = "95% Korn–Graubard interval, units in groups"


def correlate_columns(
    quantity: str,
    predictor: str,
    outcome: str,
    *,
    groups: str = "",
    method: Literal["pearson", "spearman"] = "pearson",
    box: Grid | None = None,
    seed: int | None = None,
) -> Test:
    """Correlation of two columns, within groups where a column names some, with its interval and
    its p, which has no floor.

    p is that over all pairings of up to eight models, of more that of t; the word `permutation`
    says which. With a `box` it is that of a ratio of likelihoods of the slope over which nuisances
    are profiled along the predictor and between labs (`modelling/classical/boxed.py`), 1 where the
    slope has another sign than the correlation: it orders studies, and α* makes it a test. seed: of
    no effect, as nothing is drawn; it goes in 0.6.0.
    """
    if seed is not None:
        warn("correlate_columns draws nothing: leave out seed", DeprecationWarning, stacklevel=2)

    def correlate(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
        within = rows[groups] if groups else None
        made = estimate_correlations(
            rows[predictor], outcomes[outcome], groups=within, method=method, exact=box is None
        )
        if box is None:
            return {quantity: made}
        design = BoxedDesign.read(rows[predictor], rows["heritage"], within)
        p = compute_p(design, box, outcomes[outcome], made.estimate)
        return {quantity: replace(made, p=p)}

    def describe(rows: pd.DataFrame, result: Result) -> Result:
        words = describe_rearrangements(len(rows), rows[groups].nunique() if groups else 1)
        words = words if box is None else BOXED
        return name_correlation(quantity, result).adding(words={"permutation": words})

    return Test(correlate, (outcome,), FISHER_95, "p-value", describe)


def name_correlation(quantity: str, result: Result) -> Result:
    """The result with what its correlation's interval is, or why there is none."""
    r = result.quantities[quantity]
    return result if r.lower is not None else result.name_intervals({quantity: f"95% {NOT_FISHER}"})


def count_share(
    quantity: str,
    column: str,
    *,
    true: str = "",
    false: str = "",
    n: str = "",
    interval: str = EXACT_95,
    p_kind: str = "",
) -> Test:
    """Share of rows where a column is true with its exact interval, and the counts that are named.

    Raises UsageError where there are no rows.
    """

    def count(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
        if rows.empty:
            raise UsageError("no rows")
        return count_rows(outcomes[column], quantity, true=true, false=false, n=n)

    return Test(count, (column,), interval, p_kind)


def count_rows(
    holds: Any, quantity: str, *, true: str = "", false: str = "", n: str = ""
) -> dict[str, Many]:
    """Share of true values of every study (study × row), and the counts that are named; of no rows
    there is no share."""
    holds = holds.astype(bool)
    size = np.full(len(holds), holds.shape[1])
    counts = {true: holds.sum(axis=1), false: (~holds).sum(axis=1), n: size}
    quantities: dict[str, Many] = {quantity: estimate_shares(holds)}
    for name, each in counts.items():
        if name:
            quantities[name] = wrap_counts(each)
    return quantities


def count_share_in_groups(quantity: str, column: str, group: str) -> Test:
    """Share of rows where a column is true, rows in groups, with the interval of their effective
    number."""
    return Test(partial(count_in_groups, quantity, column, group), (column,), IN_GROUPS_95)


def count_in_groups(
    quantity: str, column: str, group: str, rows: pd.DataFrame, outcomes: Mapping[str, Any]
) -> dict[str, Many]:
    """The same of many studies; raises UsageError where groups are missing, or there is one."""
    return {quantity: estimate_grouped_shares(outcomes[column], read_labels(rows[group], group))}
