"""C04: heritage counts for more than geometry, geometry for more than scale, and scale for almost nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    REPLICATED,
    Case,
    Claim,
    Estimate,
    Evidence,
    Finding,
    Result,
    Trial,
    Views,
)
from thermostats.claims.descent import covariance_of
from thermostats.claims.heritage import panels_of, tables_of
from thermostats.claims.noise import ERRORS
from thermostats.claims.rule import Above, Decide, Each, Posterior, Some, V
from thermostats.claims.worlds import QUICK, World, worlds_of_shares
from thermostats.claims.worlds.boundary import Boundary, searches_at, worlds_at
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.designs import Blocks
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.modelling.heritage.partial_f import block_f, freedman_lane
from thermostats.modelling.heritage.shares import dominance, share_table
from thermostats.modelling.specification.estimators import difference_of_shares
from thermostats.modelling.specification.null import across_labs
from thermostats.modelling.under_descent import shares
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026 import curves
from thermostats.studies.delia2026.gains import HUNT, LEVEL, NAMED_GAINS, PYTHIA, gains, heritage_rows

SEED = 4
ALPHA, MARGIN = 0.05, 0.05
"""Level of a block's own test, and the share of the variance below which size counts for almost nothing."""
KINDS = tuple(kind for kind in ERRORS if kind != "one outlying lab")
"""Errors that rules are tried with. Labs have two models or more here, and one that lies off is a lab's effect."""
LOGS = {"log_L": "n_layers", "log_d": "d_model", "log_n": "n_params_nonembedding", "log_n_all": "n_params"}
COUNTS = {"without embeddings": "log_n", "all": "log_n_all"}
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
OF_LINEAGE = {"lineage": LINEAGE, "architecture": SPAN}
UNDER = {"architecture": {"architecture": SPAN}, "parts": {name: BLOCKS[name] for name in ("geometry", "scale")}}
"""Blocks next to descent, which takes the place of the lab."""
FIRST, LINE, SECOND = "heritage − architecture", "lineage − architecture", "geometry − scale"
SHARE, SHARES, CODED, COUNTED = "share of scale", "shares", "codings", "ways to count weights"
GAINS = tuple(gain for gain in NAMED_GAINS if gain.column != "normed_gain")
PRIMARY = GAINS[0]

CLAIM = Claim.read(__file__)


@CLAIM.shared
def every_model(evidence: Evidence) -> pd.DataFrame:
    """Models with logs of shape and size."""
    rows = gains(evidence)
    logs = rows.assign(**{name: np.log(rows[column].astype(float)) for name, column in LOGS.items()})
    return logs.assign(log_shape=logs["log_L"] - logs["log_d"], log_rho=np.log(rows["rho"].astype(float)))


def models(evidence: Evidence, gain: Case, groups: tuple[str, ...] = HERITAGE) -> pd.DataFrame:
    """Comparable models with the log of a gain, of labs (or other groups) of two models or more.

    What a group's only model has of its group and what it has of its own cannot be separated: with such models errors
    of one model pass for heritage, and a rule says "supported" falsely in every fifth study where they are noisy.
    """
    rows = every_model(evidence)
    rows = rows[rows["comparable"]].assign(outcome=lambda rows: np.log(rows[gain.column]))
    rows = rows.dropna(subset=["outcome", *SPAN, *COUNTS.values()])  # models joined need not state all facts
    return (rows[rows.duplicated([*groups], keep=False)] if groups else rows).reset_index(drop=True)


def every_lab(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """The same with labs of one model."""
    return models(evidence, gain, ())


def lines(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """The same of families of two models or more."""
    return models(evidence, gain, LINEAGE)


def compared(rows: pd.DataFrame, blocks: Blocks, pair: tuple[str, str], level: float = LEVEL) -> Result:
    """Corrected shares of the blocks and the difference of two."""
    table = share_table(rows, "outcome", blocks, (pair,), seed=SEED, level=level)
    interval = f"{level:.0%} t interval, parametric bootstrap with the design fixed"
    known = {row["what"]: row for row in table.to_dict("records")}
    found = {what: Estimate(row["estimate"], row["lower"], row["upper"], interval) for what, row in known.items()}
    return Result.of(rows, found, estimate=" − ".join(pair), rows={SHARES: table}, table=table)


def by_architecture(rows: pd.DataFrame) -> Result:
    """Lab against shape and size together."""
    return compared(rows, AGAINST_ARCHITECTURE, ("heritage", "architecture"))


def by_lineage(rows: pd.DataFrame) -> Result:
    """Lab and family against shape and size together."""
    return compared(rows, OF_LINEAGE, ("lineage", "architecture"))


def by_geometry(rows: pd.DataFrame) -> Result:
    """Shape against size, by the declared coding and by the others."""
    tried = {coding.id: compared(rows, coding.blocks, ("geometry", "scale")) for coding in CODINGS}
    table = pd.DataFrame([{"coding": name, **_of_coding(result)} for name, result in tried.items()])
    return replace(tried[CODINGS[0].id], rows={CODED: table}, table=table)


def _of_coding(result: Result) -> dict[str, float | None]:
    """Difference with its interval, shares, and p of each block when it enters last."""
    difference, known = result.quantities[SECOND], result.rows[SHARES].set_index("what")
    ends = {SECOND: difference.value, f"{SECOND}_lower": difference.lower, f"{SECOND}_upper": difference.upper}
    shares = {name: known.loc[name, "estimate"] for name in BLOCKS}
    return {**ends, **shares, **{f"{name}_p": known.loc[name, "p"] for name in ("geometry", "scale")}}


def by_size(rows: pd.DataFrame) -> Result:
    """Corrected share of size, for each way to count weights."""
    counted = {
        name: compared(rows, BLOCKS | {"scale": (column,)}, ("geometry", "scale")).quantities["scale"]
        for name, column in COUNTS.items()
    }
    table = pd.DataFrame(
        [
            {"weights": name, SHARE: share.value, f"{SHARE}_lower": share.lower, f"{SHARE}_upper": share.upper}
            for name, share in counted.items()
        ]
    )
    return Result.of(rows, {SHARE: next(iter(counted.values()))}, rows={COUNTED: table}, table=table)


DIFFERENCE = V(SECOND)
OF_CODINGS = Decide(
    Each(CODED, (DIFFERENCE.interval > 0) & (V("geometry").p <= ALPHA)),
    Each(CODED, (DIFFERENCE.interval < 0) & (V("scale").p <= ALPHA)),
    divided=Some(CODED, DIFFERENCE > 0) & Some(CODED, DIFFERENCE < 0),
)
"""The larger block's own effect must be there: a share, averaged over orders, has part of what it shares with labs."""
NEGLIGIBLE = Decide(Each(COUNTED, V(SHARE).upper < MARGIN), Each(COUNTED, V(SHARE).lower > MARGIN))
VIEWS = Views(models=12, groups=3, sets=(EXTERNAL, REPLICATED, MEASURED, POOLED))
"""In the controlled study width is H·d_h and scale follows from shape: N01 asks this of it by its own columns."""
COLUMNS = {
    "geometry": BLOCKS["geometry"],
    "density": ("log_rho",),
    "scale": BLOCKS["scale"],
    "architecture": SPAN,
    "curve": ("log_L",),
}
EVEN = Boundary(
    "outcome", (AGAINST_ARCHITECTURE,), ("heritage", "architecture"), HERITAGE, SPAN, "lab and architecture alike"
)
OF_ONE_LINE = Boundary(
    "outcome", (OF_LINEAGE,), ("lineage", "architecture"), LINEAGE, SPAN, "lineage and architecture alike"
)
DIVIDED = Boundary(
    "outcome",
    tuple(coding.blocks for coding in CODINGS),
    ("geometry", "scale"),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    "geometry and scale alike in the coding where geometry is least",
    beside=0.4,
)
ALMOST = Boundary(
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


OF_GEOMETRY = worlds_of_shares(
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
OF_SIZE = worlds_of_shares(
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
TRIALS = {
    "architecture": Trial(
        models, by_architecture, worlds=of_heritage(EVEN, families=False), searches=searches_at(EVEN, KINDS, ALONG)
    ),
    "lineage": Trial(
        lines,
        by_lineage,
        worlds=of_heritage(OF_ONE_LINE, families=True),
        searches=searches_at(OF_ONE_LINE, KINDS, ALONG, families=(0.0, 0.0)),
    ),
    "geometry": Trial(
        models,
        by_geometry,
        worlds=(*OF_GEOMETRY, *worlds_at(DIVIDED, KINDS, 1.0)),
        searches=searches_at(DIVIDED, KINDS, ALONG, effort=QUICK, tilt=(1.0, 1.0), beside=(0.0, 0.8)),
    ),
    "size": Trial(
        models,
        by_size,
        worlds=(*OF_SIZE, *worlds_at(ALMOST, KINDS, 1.0)),
        searches=searches_at(ALMOST, KINDS, ALONG, tilt=(1.0, 1.0), beside=(0.0, 0.8)),
    ),
}


@CLAIM.shared
def heritage_fit(evidence: Evidence, gain: Case, parts: str) -> Fit:
    """The heritage model of the models' means, with architecture whole or in its two parts."""
    rows = heritage_rows(evidence, gain.column, PYTHIA, HUNT)
    columns = ["model_id", *SPAN]
    blocks: Mapping[str, tuple[str, ...]] = AGAINST_ARCHITECTURE if parts == "architecture" else BLOCKS
    return fit_heritage(
        rows.merge(every_model(evidence)[columns], on="model_id"), estimand=gain.column, blocks=blocks, seed=SEED
    )


DESCENT = "shares under descent, next to those of the rule"


@CLAIM.shared
def under_descent(evidence: Evidence, gain: Case, blocks: str) -> pd.DataFrame | None:
    """Shares of architecture, or of its two parts, next to descent along the tree in place of the lab."""
    rows = models(evidence, gain)
    named = {name: rows[list(own)].to_numpy(np.float64) for name, own in UNDER[blocks].items()}
    k = covariance_of(evidence, rows)
    pair = ("descent", "architecture") if blocks == "architecture" else ("geometry", "scale")
    return shares(rows["outcome"].to_numpy(np.float64), named, k, (pair,), seed=SEED)


def with_descent(
    evidence: Evidence, gain: Case, blocks: str, tables: Mapping[str, pd.DataFrame]
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Tables of the fit with the one under descent, and its rows by name for the words; the study's gain alone."""
    found = under_descent(evidence, gain, blocks) if gain is PRIMARY else None
    if found is None:
        return dict(tables), {"descent": None}
    return {**tables, DESCENT: found}, {"descent": {row.what: row for row in found.itertuples()}}


@CLAIM.overall(all_of=tuple(f"{name}.{PRIMARY.id}" for name in ("architecture", "geometry", "size")))
def whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The order and the one on size, by the gain that the study means."""
    parts = {name: found[f"{name}.{PRIMARY.id}"] for name in TRIALS}
    first = parts["architecture"]
    return Result(
        table=first.table,
        draw=first.draw,
        n_models=first.n_models,
        n_groups=first.n_heritages,
        words={"parts": parts, "gain": PRIMARY.words},
    )


SHOWN = ("orders", "labs", "models", "classical", "dominance", "commonality", "left out")
XLABEL = "corrected share of the variance of the log gain"


@CLAIM.finding(
    "architecture",
    primary=Above(FIRST, 0),
    robustness=Posterior("heritage > architecture"),
    over=GAINS,
    trial=TRIALS["architecture"],
    views=VIEWS,
)
def architecture(evidence: Evidence, gain: Case) -> Result:
    """Does the lab explain more than shape and size together?"""
    rows, fit = models(evidence, gain), heritage_fit(evidence, gain, "architecture")
    found = by_architecture(rows)
    tables, descent = with_descent(
        evidence, gain, "architecture", tables_of(fit, SHOWN if gain is PRIMARY else ("orders",))
    )
    return replace(
        found,
        draw=drawing(forest, found.rows[SHARES], label="what", null=0.0, xlabel=XLABEL),
        fit=fit,
        fit_tables=tables,
        panels=panels_of(fit) if gain is PRIMARY else (),
        words={
            **descent,
            "whole": dominance(rows, "outcome", AGAINST_ARCHITECTURE, seed=SEED),
            "tests": block_f(rows, "outcome", AGAINST_ARCHITECTURE),
            "every": by_architecture(every_lab(evidence, gain)).quantities[FIRST],
        },
    )


ANY_CODING = {"heritage": HERITAGE, "architecture": curves.CODED}
"""Architecture in the curve, whose universes divide it in several ways."""
CLAIM.curve(
    f"architecture.{PRIMARY.id}",
    rows=curves.of_the_study,
    choices=curves.CAUSES,
    estimate=difference_of_shares("heritage", "architecture", ANY_CODING),
    null=replace(
        across_labs(*curves.CODED), words="residuals given shape and size, as coded, among the models of all labs"
    ),
    test=partial(compared, blocks=ANY_CODING, pair=("heritage", "architecture")),
)


@CLAIM.finding(
    "geometry",
    primary=OF_CODINGS,
    robustness=Posterior("geometry > scale"),
    over=GAINS,
    trial=TRIALS["geometry"],
    views=VIEWS,
)
def geometry(evidence: Evidence, gain: Case) -> Result:
    """Does shape at a given size explain more than size, whatever is called shape?"""
    rows, fit = models(evidence, gain), heritage_fit(evidence, gain, "geometry and scale")
    found = by_geometry(rows)
    tables, descent = with_descent(evidence, gain, "parts", tables_of(fit, ("orders", "commonality")))
    shown = found.rows[CODED].rename(
        columns={SECOND: "estimate", f"{SECOND}_lower": "lower", f"{SECOND}_upper": "upper"}
    )
    return replace(
        found,
        draw=drawing(forest, shown, label="coding", null=0.0, xlabel="corrected share of geometry minus that of scale"),
        fit=fit,
        fit_tables=tables,
        words=descent | {"codings": found.rows[CODED].set_index("coding"), "tests": block_f(rows, "outcome", BLOCKS)},
    )


@CLAIM.finding(
    "size",
    primary=NEGLIGIBLE,
    robustness=Posterior(f"share of scale < {MARGIN:g}", draws=V("share_scale") < MARGIN),
    over=GAINS,
    trial=TRIALS["size"],
    views=VIEWS,
)
def size(evidence: Evidence, gain: Case) -> Result:
    """Has size almost nothing to do with it, however it is counted?"""
    rows = models(evidence, gain)
    found = by_size(rows)
    blocks = [BLOCKS | {"scale": (column,)} for column in COUNTS.values()]
    tables, descent = with_descent(evidence, gain, "parts", {})
    return replace(
        found,
        fit=heritage_fit(evidence, gain, "geometry and scale"),
        fit_tables=tables,
        words={
            **descent,
            "counted": found.rows[COUNTED].set_index("weights"),
            "p": [block_f(rows, "outcome", each)["scale"].p_value for each in blocks],
            "r": float(np.corrcoef(rows["log_n"], rows["outcome"])[0, 1]),
        },
    )


@CLAIM.finding(
    "lineage",
    primary=Above(LINE, 0),
    robustness=Posterior("lineage > architecture"),
    over=GAINS,
    trial=TRIALS["lineage"],
    views=VIEWS,
)
def lineage(evidence: Evidence, gain: Case) -> Result:
    """Exploratory: do lab and family together explain more than shape and size together?"""
    rows, fit = lines(evidence, gain), heritage_fit(evidence, gain, "architecture")
    found = by_lineage(rows)
    nested = {"lab": HERITAGE, "family": ("family",), "architecture": SPAN}
    families = rows.groupby("heritage")["family"].nunique()
    return replace(
        found,
        draw=drawing(forest, found.rows[SHARES], label="what", null=0.0, xlabel=XLABEL),
        fit=fit,
        fit_tables=tables_of(fit, ("orders",)),
        words={
            "within": freedman_lane(rows, "outcome", nested, "family", seed=SEED),
            "several": int((families > 1).sum()),
        },
    )


if __name__ == "__main__":
    CLAIM.main()
