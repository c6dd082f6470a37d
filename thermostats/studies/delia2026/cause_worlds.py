"""Worlds in which the rules of C04 are tried: one cause alone, the claimed shares, the boundary of each comparison."""

from __future__ import annotations

from functools import partial

import pandas as pd

from thermostats.claims.noise import ERRORS
from thermostats.claims.result import Estimate, Result
from thermostats.claims.worlds import Boundary, worlds_at, worlds_of_shares
from thermostats.studies.delia2026.shares_of_causes import (
    AGAINST_ARCHITECTURE,
    BLOCKS,
    CODINGS,
    GEOMETRY_MINUS_SCALE,
    HERITAGE,
    HERITAGE_MINUS_ARCHITECTURE,
    LINEAGE,
    LINEAGE_AGAINST_ARCHITECTURE,
    LINEAGE_MINUS_ARCHITECTURE,
    MARGIN,
    SHARE_OF_SCALE,
    SPAN,
    TABLE_OF_CODINGS,
    TABLE_OF_COUNTS,
)

KINDS = tuple(kind for kind in ERRORS if kind != "one outlying lab")
"""Errors that rules are tried with. Labs have two models or more here, and one that lies off is a lab's effect."""
COLUMNS = {
    "geometry": BLOCKS["geometry"],
    "density": ("log_rho",),
    "scale": BLOCKS["scale"],
    "architecture": SPAN,
    "curve": ("log_L",),
}


def at_zero(name: str, value: float = 0.0) -> Result:
    """The numbers of a rule in a sample without end where a quantity lies at its bar."""
    return Result(quantities={name: Estimate(value)})


LAB_EQUALS_ARCHITECTURE = Boundary(
    "outcome",
    (AGAINST_ARCHITECTURE,),
    ("heritage", "architecture"),
    HERITAGE,
    SPAN,
    "lab and architecture alike",
    at_zero(HERITAGE_MINUS_ARCHITECTURE),
)
LINEAGE_EQUALS_ARCHITECTURE = Boundary(
    "outcome",
    (LINEAGE_AGAINST_ARCHITECTURE,),
    ("lineage", "architecture"),
    LINEAGE,
    SPAN,
    "lineage and architecture alike",
    at_zero(LINEAGE_MINUS_ARCHITECTURE),
)
GEOMETRY_EQUALS_SCALE = Boundary(
    "outcome",
    tuple(coding.blocks for coding in CODINGS),
    ("geometry", "scale"),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    "geometry and scale alike in the coding where geometry is least",
    Result(rows={TABLE_OF_CODINGS: pd.DataFrame({GEOMETRY_MINUS_SCALE: [0.0]})}),
    beside=0.4,
)
SCALE_AT_MARGIN = Boundary(
    "outcome",
    (BLOCKS,),
    ("scale",),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    f"scale has a share of {MARGIN:.0%}",
    Result(rows={TABLE_OF_COUNTS: pd.DataFrame({SHARE_OF_SCALE: [MARGIN]})}),
    MARGIN,
    0.5,
)
OTHERS = {
    "strong heritage": {"heritage": 0.85, "architecture": 0.1},
    "lab alone": {"heritage": 0.9},
    "families only": {"family": 0.6},
    "geometry only": {"geometry": 0.6},
    "curved depth": {"curve": 0.6},
    "scale only": {"scale": 0.6},
    "architecture above heritage": {"heritage": 0.25, "architecture": 0.6},
}
"""One cause alone, and the claimed shares turned round."""
SHARES = partial(worlds_of_shares, "outcome", COLUMNS, column="log_n", ordered=False, kinds=KINDS)
HERITAGE_WORLDS = SHARES({"heritage": 0.6, "architecture": 0.25}, OTHERS)
BY_GEOMETRY = SHARES(
    {"heritage": 0.6, "density": 0.2, "scale": 0.05},
    {
        "density alone": {"density": 0.6},
        "lab alone": {"heritage": 0.9},
        "scale only": {"scale": 0.6},
        "strong lab, scale above geometry": {"heritage": 0.7, "geometry": 0.05, "scale": 0.2},
        "scale above geometry": {"heritage": 0.5, "scale": 0.3},
    },
)
BY_SIZE = SHARES(
    {"heritage": 0.6, "density": 0.2},
    {"size matters": {"heritage": 0.5, "geometry": 0.1, "scale": 0.3}, "scale only": {"scale": 0.6}},
)
ALONG = "log_n"
ONE_WAY, ANY_LAB = (1.0, 1.0), (0.4, 0.8, 0.0)
"""Nuisances at rest and at their bounds: columns go one way; a share of lab effects in the signal."""

ARCHITECTURE_WORLDS = worlds_at(LAB_EQUALS_ARCHITECTURE, HERITAGE_WORLDS, ALONG, KINDS)
LINEAGE_WORLDS = worlds_at(LINEAGE_EQUALS_ARCHITECTURE, HERITAGE_WORLDS, ALONG, KINDS, families=(0.0, 0.0))
GEOMETRY_WORLDS = worlds_at(GEOMETRY_EQUALS_SCALE, BY_GEOMETRY, ALONG, KINDS, tilt=ONE_WAY, beside=ANY_LAB)
SIZE_WORLDS = worlds_at(SCALE_AT_MARGIN, BY_SIZE, ALONG, KINDS, tilt=ONE_WAY, beside=ANY_LAB)
"""Of each comparison: the worlds in which its rule is tried, the boundary among them."""
