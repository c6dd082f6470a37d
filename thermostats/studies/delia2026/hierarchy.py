"""Heritage, geometry and scale: which columns are which, and the tests that the rules read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import pandas as pd

from thermostats.claims.question import Test
from thermostats.claims.result import OF_LAW, Result
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import Many
from thermostats.modelling.columns import read_numbers
from thermostats.modelling.heritage.variance_shares import (
    Blocks,
    count_free,
    estimate_share_table,
    estimate_share_tables,
    name_shares,
)
from thermostats.studies.delia2026.published_gains import LEVEL

SEED = 4
ALPHA, MARGIN = 0.05, 0.05
"""Level of a block's own test, and the share of the variance below which size counts for almost
nothing."""
WEIGHT_COUNTS = {"without embeddings": "log_n", "all": "log_n_all"}
"""Ways to count weights, each with its column."""
HERITAGE = ("heritage",)
LINEAGE = ("heritage", "family")


@dataclass(frozen=True)
class Coding:
    """Which columns are called geometry and which scale."""

    id: str
    geometry: tuple[str, ...]
    scale: tuple[str, ...]

    @property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """The blocks that are compared."""
        return {"heritage": HERITAGE, "geometry": self.geometry, "scale": self.scale}


CODINGS = (
    Coding("log L/d, log ρ | log N", ("log_shape", "log_rho"), ("log_n",)),
    Coding("log L, log ρ | log d", ("log_L", "log_rho"), ("log_d",)),
    Coding("log ρ | log L, log d", ("log_rho",), ("log_L", "log_d")),
)
"""Ways to divide one span of columns. The first is declared: shape at a given size, which is log
N."""
WHOLE_SHAPE = Coding(
    "log L, log H, log d_h | log N of all", ("log_L", "log_H", "log_d_h"), ("log_n_all",)
)
"""The division that `fit_heritage` takes where nothing is said. These columns of shape hold size as
well, so the rules do not read it; the fitted model is asked in it too."""
BLOCKS = CODINGS[0].blocks
SPAN = (*BLOCKS["geometry"], *BLOCKS["scale"])
"""Architecture, shape and size together, whatever is called which."""
AGAINST_ARCHITECTURE = {"heritage": HERITAGE, "architecture": SPAN}
LINEAGE_AGAINST_ARCHITECTURE = {"lineage": LINEAGE, "architecture": SPAN}


class Division(Enum):
    """How architecture enters next to the lab: as one block, or as geometry and scale."""

    UNDIVIDED = "undivided"
    DIVIDED = "divided"

    @property
    def blocks(self) -> Blocks:
        """All blocks by name, the lab among them."""
        return AGAINST_ARCHITECTURE if self is Division.UNDIVIDED else BLOCKS

    @property
    def pair(self) -> tuple[str, str]:
        """The two blocks that are compared where descent takes the place of the lab."""
        return ("descent", "architecture") if self is Division.UNDIVIDED else ("geometry", "scale")


HERITAGE_MINUS_ARCHITECTURE = "heritage − architecture"
LINEAGE_MINUS_ARCHITECTURE = "lineage − architecture"
GEOMETRY_MINUS_SCALE, SHARE_OF_SCALE = "geometry − scale", "share of scale"
"""Quantities that the rules read, by the names that they state."""
TABLE_OF_SHARES, TABLE_OF_CODINGS, TABLE_OF_COUNTS = "shares", "codings", "ways to count weights"
"""Tables of rows in the results."""
PARTS = ("estimate", "lower", "upper", "p")


def compare_shares(
    blocks: Blocks, pair: tuple[str, str], rows: pd.DataFrame, outcomes: Mapping[str, Any]
) -> dict[str, Many]:
    """Corrected shares of the blocks and the difference of two, of many studies."""
    read_numbers(outcomes["outcome"][0], "outcome")
    y = outcomes["outcome"]
    made = estimate_share_tables(rows, y, blocks, (pair,), seed=SEED)
    law = StudentLaw(count_free(rows, blocks))
    compared = {}
    for k, name in enumerate(name_shares(blocks, (pair,))):
        parts = {part: made[part][:, k] for part in PARTS}
        compared[name] = Many(**parts, law=law)
    return compared


def compare_codings(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Shape against size, by the declared coding and by the others."""
    codings = [
        compare_shares(coding.blocks, ("geometry", "scale"), rows, outcomes) for coding in CODINGS
    ]
    return {**codings[0], TABLE_OF_CODINGS: codings}


def compare_counts(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Corrected share of size, for each way to count weights."""
    counts = []
    for column in WEIGHT_COUNTS.values():
        blocks = BLOCKS | {"scale": (column,)}
        made = compare_shares(blocks, ("geometry", "scale"), rows, outcomes)
        counts.append({SHARE_OF_SCALE: made["scale"]})
    return {**counts[0], TABLE_OF_COUNTS: counts}


def describe_shares(
    blocks: Blocks, pair: tuple[str, str], rows: pd.DataFrame, result: Result
) -> Result:
    """The result headed by the difference, with a table of the shares and of what each block
    explains after others."""
    table = estimate_share_table(rows, "outcome", blocks, (pair,), seed=SEED)
    difference = " − ".join(pair)
    return replace(result, estimate=difference, rows={TABLE_OF_SHARES: table}, table=table)


def describe_codings(_: pd.DataFrame, result: Result) -> Result:
    """The result headed by the difference of the declared coding; codings by name."""
    difference = [f"{GEOMETRY_MINUS_SCALE}{end}" for end in ("", "_lower", "_upper")]
    law = f"{GEOMETRY_MINUS_SCALE}{OF_LAW}"
    columns = [*difference, *BLOCKS, "geometry_p", "scale_p", law]
    table = result.rows[TABLE_OF_CODINGS].reindex(columns=columns)
    table.insert(0, "coding", [coding.id for coding in CODINGS])
    return replace(
        result, estimate=GEOMETRY_MINUS_SCALE, rows={TABLE_OF_CODINGS: table}, table=table
    )


def describe_counts(_: pd.DataFrame, result: Result) -> Result:
    """Ways to count weights by name."""
    ends = [f"{SHARE_OF_SCALE}{end}" for end in ("", "_lower", "_upper", OF_LAW)]
    table = result.rows[TABLE_OF_COUNTS].reindex(columns=ends)
    table.insert(0, "weights", list(WEIGHT_COUNTS))
    return replace(result, rows={TABLE_OF_COUNTS: table}, table=table)


def declare_shares(blocks: Blocks, pair: tuple[str, str]) -> Test:
    """The test of one block against another."""
    describe = partial(describe_shares, blocks, pair)
    compare = partial(compare_shares, blocks, pair)
    return Test(compare, ("outcome",), INTERVAL, describe=describe)


INTERVAL = f"{LEVEL:.0%} t interval, parametric bootstrap with the design fixed"
BY_ARCHITECTURE = declare_shares(AGAINST_ARCHITECTURE, ("heritage", "architecture"))
BY_LINEAGE = declare_shares(LINEAGE_AGAINST_ARCHITECTURE, ("lineage", "architecture"))
BY_GEOMETRY = Test(compare_codings, ("outcome",), INTERVAL, describe=describe_codings)
BY_SIZE = Test(compare_counts, ("outcome",), INTERVAL, describe=describe_counts)
"""Lab against shape and size together, lab and family against them, shape against size, and
size."""
