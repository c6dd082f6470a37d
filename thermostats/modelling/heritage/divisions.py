"""Where geometry gives the size, or size the geometry, their order hangs on which column is called
which: how nearly, and the order over all divisions of the columns that can be named."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from thermostats.modelling.draws import evaluate_statement
from thermostats.modelling.heritage.law import (
    TOGETHER,
    NumberBlock,
    is_exact,
    is_logged,
    list_numbers,
    list_questions,
    read_logs,
    standardise,
)
from thermostats.modelling.mixed_model import Mixed, MixedDesign

if TYPE_CHECKING:
    from thermostats.modelling.fit import Fit
GEOMETRY, SCALE = "geometry", "scale"
TOGETHER_FROM, DIVIDED_FROM = 0.9, 0.99
"""R² of a column on the columns of the other block: from the first the two can hardly be separated,
from the second their order is given as a range."""
LEAST_LEFT = (1 - DIVIDED_FROM) ** 0.5
"""Of a direction of columns, the part that others must leave for it to count."""


def measure_determined(rows: pd.DataFrame, mixed: Mixed) -> dict[tuple[str, ...], pd.Series]:
    """R² of every column of one block on the columns of the other, by these: of scale on geometry,
    and the reverse. Empty where a block is missing; 0 of a column that does not vary."""
    kinds = list_numbers(mixed)
    if not {GEOMETRY, SCALE} <= set(kinds):
        return {}
    found = {}
    for giver, given in ((GEOMETRY, SCALE), (SCALE, GEOMETRY)):
        causes = kinds[giver].covariates
        columns = kinds[given].covariates
        logs = is_logged(mixed)
        x = standardise(read_logs(rows, causes, logs=logs))
        y = standardise(read_logs(rows, columns, logs=logs))
        slopes, *_ = np.linalg.lstsq(x, y)
        off = y - x @ slopes
        left = np.square(off).sum(axis=0)
        whole = np.square(y).sum(axis=0)
        kept = 1 - left / np.maximum(whole, 1e-300)
        share = np.where(whole > 0, kept, 0.0)
        found[causes] = pd.Series(share, index=list(columns))
    return found


def warn_determined(rows: pd.DataFrame, mixed: Mixed) -> list[str]:
    """That one block gives a column of the other, in words, with the largest R²."""
    found = measure_determined(rows, mixed)
    if not found:
        return []
    causes, shares = max(found.items(), key=lambda each: each[1].max())
    share = float(shares.max())
    if share < TOGETHER_FROM:
        return []
    left = max(1 - share, 1e-9)
    decimals = max(2, math.ceil(-math.log10(left)))
    names = [kind.name for kind in mixed.kinds]
    asked, *_ = list_questions(names)
    rest = f"; {asked} asks of both together" * (TOGETHER in asked)
    ranged = '; the order is given as a range: fit.table("divisions")' * is_divided(rows, mixed)
    given = f"{', '.join(causes)} give {shares.idxmax()} to R² = {share:.{decimals}f}"
    return [
        f"{given}: whether geometry lies above scale hangs on which column is called "
        f"which{rest}{ranged}"
    ]


def is_divided(rows: pd.DataFrame, mixed: Mixed) -> bool:
    """Whether the order of geometry and scale is given as a range, of exact fits."""
    found = measure_determined(rows, mixed)
    if not is_exact(mixed):
        return False
    return any(shares.max() >= DIVIDED_FROM for shares in found.values())


def list_divisions(mixed: Mixed) -> Iterator[tuple[str, Mixed]]:
    """Every column as scale with the other columns given it as geometry, and the reverse: the same
    whatever of the columns was called which. What others leave of a direction counts from R² =
    0.99 down."""
    kinds = list_numbers(mixed)
    columns = sorted({*kinds[GEOMETRY].covariates, *kinds[SCALE].covariates})
    for column in columns:
        rest = [each for each in columns if each != column]
        for alone, others in ((SCALE, GEOMETRY), (GEOMETRY, SCALE)):
            of_one = _take_columns(kinds[alone], [column], columns)
            of_rest = _take_columns(kinds[others], rest, columns, (column,))
            given = ", ".join(rest)
            words = f"{column} as {alone}, {given} given it as {others}"
            yield words, mixed.replace_kind(of_one).replace_kind(of_rest)


def _take_columns(
    kind: NumberBlock, columns: list[str], every: list[str], beyond: tuple[str, ...] = ()
) -> NumberBlock:
    least_left = LEAST_LEFT if beyond else 0.0
    return replace(
        kind, columns=tuple(columns), every=tuple(every), beyond=beyond, least_left=least_left
    )


def tabulate_divisions(fit: Fit) -> pd.DataFrame:
    """Per division and statement about the order of geometry and scale: its probability, from a
    refit."""
    asked = {}
    for name in list_divided(fit.law.statements):
        asked[name] = fit.law.statements[name]
    rows = []
    for words, mixed in list_divisions(fit.designed(MixedDesign).mixed):
        law = replace(fit.law, of=mixed.design_rows)
        drawn = fit.refit_law(law).quantities
        for name, statement in asked.items():
            probability = float(evaluate_statement(statement, drawn).mean())
            rows.append((words, name, probability))
    return pd.DataFrame(rows, columns=["division", "statement", "probability"])


def list_divided(statements: Mapping[str, object]) -> list[str]:
    """Statements in which geometry and scale come apart from one another."""
    divided = []
    for name in statements:
        if {GEOMETRY, SCALE} <= set(name.split(" > ")):
            divided.append(name)
    return divided
