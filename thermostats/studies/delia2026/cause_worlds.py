"""Worlds in which the rules of C04 are tried: one cause alone, the claimed shares, the boundary of each comparison."""

from __future__ import annotations

from thermostats.claims.noise import ERRORS
from thermostats.claims.worlds import QUICK, World, worlds_of_shares
from thermostats.claims.worlds.boundary import Boundary, searches_at, worlds_at
from thermostats.studies.delia2026.shares_of_causes import (
    AGAINST_ARCHITECTURE,
    BLOCKS,
    CODINGS,
    HERITAGE,
    LINEAGE,
    LINEAGE_AGAINST_ARCHITECTURE,
    MARGIN,
    SPAN,
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
LAB_EQUALS_ARCHITECTURE = Boundary(
    "outcome", (AGAINST_ARCHITECTURE,), ("heritage", "architecture"), HERITAGE, SPAN, "lab and architecture alike"
)
LINEAGE_EQUALS_ARCHITECTURE = Boundary(
    "outcome",
    (LINEAGE_AGAINST_ARCHITECTURE,),
    ("lineage", "architecture"),
    LINEAGE,
    SPAN,
    "lineage and architecture alike",
)
GEOMETRY_EQUALS_SCALE = Boundary(
    "outcome",
    tuple(coding.blocks for coding in CODINGS),
    ("geometry", "scale"),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    "geometry and scale alike in the coding where geometry is least",
    beside=0.4,
)
SCALE_AT_MARGIN = Boundary(
    "outcome",
    (BLOCKS,),
    ("scale",),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    f"scale has a share of {MARGIN:.0%}",
    MARGIN,
    0.5,
)


def of_heritage(boundary: Boundary, *, families: bool) -> tuple[World, ...]:
    """Worlds of lab, or lineage, against architecture: one cause alone, the claimed shares, the boundary."""
    shares = {
        "as claimed": ({"heritage": 0.6, "architecture": 0.25}, True),
        "strong heritage": ({"heritage": 0.85, "architecture": 0.1}, True),
        "lab alone": ({"heritage": 0.9}, True),
        "families only": ({"family": 0.6}, families),
        "geometry only": ({"geometry": 0.6}, False),
        "curved depth": ({"curve": 0.6}, False),
        "scale only": ({"scale": 0.6}, False),
        "architecture above heritage": ({"heritage": 0.25, "architecture": 0.6}, False),
    }
    return (
        *worlds_of_shares("outcome", COLUMNS, shares, declared="as claimed", kinds=KINDS),
        *worlds_at(boundary, KINDS),
    )


GEOMETRY_SIGNALS = worlds_of_shares(
    "outcome",
    COLUMNS,
    {
        "as claimed": ({"heritage": 0.6, "density": 0.2, "scale": 0.05}, True),
        "density alone": ({"density": 0.6}, True),
        "lab alone": ({"heritage": 0.9}, False),
        "scale only": ({"scale": 0.6}, False),
        "strong lab, scale above geometry": ({"heritage": 0.7, "geometry": 0.05, "scale": 0.2}, False),
        "scale above geometry": ({"heritage": 0.5, "scale": 0.3}, False),
    },
    declared="as claimed",
    kinds=KINDS,
)
SIZE_SIGNALS = worlds_of_shares(
    "outcome",
    COLUMNS,
    {
        "as claimed": ({"heritage": 0.6, "density": 0.2}, True),
        "size matters": ({"heritage": 0.5, "geometry": 0.1, "scale": 0.3}, False),
        "scale only": ({"scale": 0.6}, False),
    },
    declared="as claimed",
    kinds=KINDS,
    nothing=True,
)
ALONG = "log_n"

ARCHITECTURE_WORLDS = (
    of_heritage(LAB_EQUALS_ARCHITECTURE, families=False),
    searches_at(LAB_EQUALS_ARCHITECTURE, KINDS, ALONG),
)
LINEAGE_WORLDS = (
    of_heritage(LINEAGE_EQUALS_ARCHITECTURE, families=True),
    searches_at(LINEAGE_EQUALS_ARCHITECTURE, KINDS, ALONG, families=(0.0, 0.0)),
)
GEOMETRY_WORLDS = (
    (*GEOMETRY_SIGNALS, *worlds_at(GEOMETRY_EQUALS_SCALE, KINDS, 1.0)),
    searches_at(GEOMETRY_EQUALS_SCALE, KINDS, ALONG, effort=QUICK, tilt=(1.0, 1.0), beside=(0.0, 0.8)),
)
SIZE_WORLDS = (
    (*SIZE_SIGNALS, *worlds_at(SCALE_AT_MARGIN, KINDS, 1.0)),
    searches_at(SCALE_AT_MARGIN, KINDS, ALONG, tilt=(1.0, 1.0), beside=(0.0, 0.8)),
)
"""Of each comparison: the worlds in which its rule is tried, and where worse ones are searched for."""
