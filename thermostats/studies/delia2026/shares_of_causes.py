"""Heritage, geometry and scale as blocks of columns, and the tests of C04: from rows of models to shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import pandas as pd

from thermostats.claims.result import Estimate, Result
from thermostats.modelling.heritage.designs import Blocks
from thermostats.modelling.heritage.variance_shares import share_table
from thermostats.studies.delia2026.gains import LEVEL

SEED = 4
ALPHA, MARGIN = 0.05, 0.05
"""Level of a block's own test, and the share of the variance below which size counts for almost nothing."""
WEIGHT_COUNTS = {"without embeddings": "log_n", "all": "log_n_all"}
"""Ways to count weights, each with its column."""
HERITAGE, LINEAGE = ("heritage",), ("heritage", "family")


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
"""Ways to divide one span of columns. The first is declared: shape at a given size, which is log N."""
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


def compared(rows: pd.DataFrame, blocks: Blocks, pair: tuple[str, str], level: float = LEVEL) -> Result:
    """Corrected shares of the blocks and the difference of two."""
    table = share_table(rows, "outcome", blocks, (pair,), seed=SEED, level=level)
    interval = f"{level:.0%} t interval, parametric bootstrap with the design fixed"
    by_name = {row["what"]: row for row in table.to_dict("records")}
    shares = {what: Estimate(row["estimate"], row["lower"], row["upper"], interval) for what, row in by_name.items()}
    return Result.of(rows, shares, estimate=" − ".join(pair), rows={TABLE_OF_SHARES: table}, table=table)


def by_architecture(rows: pd.DataFrame) -> Result:
    """Lab against shape and size together."""
    return compared(rows, AGAINST_ARCHITECTURE, ("heritage", "architecture"))


def by_lineage(rows: pd.DataFrame) -> Result:
    """Lab and family against shape and size together."""
    return compared(rows, LINEAGE_AGAINST_ARCHITECTURE, ("lineage", "architecture"))


def by_geometry(rows: pd.DataFrame) -> Result:
    """Shape against size, by the declared coding and by the others."""
    tried = {coding.id: compared(rows, coding.blocks, ("geometry", "scale")) for coding in CODINGS}
    table = pd.DataFrame([{"coding": name, **_of_coding(result)} for name, result in tried.items()])
    return replace(tried[CODINGS[0].id], rows={TABLE_OF_CODINGS: table}, table=table)


def _of_coding(result: Result) -> dict[str, float | None]:
    """Difference with its interval, shares, and p of each block when it enters last."""
    difference, by_name = result.quantities[GEOMETRY_MINUS_SCALE], result.rows[TABLE_OF_SHARES].set_index("what")
    ends = {
        GEOMETRY_MINUS_SCALE: difference.value,
        f"{GEOMETRY_MINUS_SCALE}_lower": difference.lower,
        f"{GEOMETRY_MINUS_SCALE}_upper": difference.upper,
    }
    shares = {name: by_name.loc[name, "estimate"] for name in BLOCKS}
    return {**ends, **shares, **{f"{name}_p": by_name.loc[name, "p"] for name in ("geometry", "scale")}}


def by_size(rows: pd.DataFrame) -> Result:
    """Corrected share of size, for each way to count weights."""
    counted = {
        name: compared(rows, BLOCKS | {"scale": (column,)}, ("geometry", "scale")).quantities["scale"]
        for name, column in WEIGHT_COUNTS.items()
    }
    table = pd.DataFrame(
        [
            {
                "weights": name,
                SHARE_OF_SCALE: share.value,
                f"{SHARE_OF_SCALE}_lower": share.lower,
                f"{SHARE_OF_SCALE}_upper": share.upper,
            }
            for name, share in counted.items()
        ]
    )
    return Result.of(rows, {SHARE_OF_SCALE: next(iter(counted.values()))}, rows={TABLE_OF_COUNTS: table}, table=table)
