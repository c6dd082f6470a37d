"""C04: heritage counts for more than geometry, geometry for more than scale, and scale for almost
nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    Case,
    Claim,
    Evidence,
    Finding,
    Inference,
    Result,
    Trial,
    Views,
)
from thermostats.claims.rule import Above, Decide, Each, Posterior, Some, V
from thermostats.claims.shared import (
    build_covariance,
    collect_tables,
    draw_panels,
    find_lab_rivals,
    read_inherited,
)
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritability import estimate_shares
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.variance_shares import (
    compute_block_f,
    measure_dominance,
    run_freedman_lane,
)
from thermostats.modelling.specification import build_share_estimator, permute_across_labs
from thermostats.plots.general import draw_forest, prepare_drawing
from thermostats.studies.delia2026 import cause_worlds, curves
from thermostats.studies.delia2026.fitted_hierarchy import (
    Fits,
    FittedHierarchy,
    draw_hierarchy,
    print_hierarchies,
    summarise_hierarchy,
)
from thermostats.studies.delia2026.hierarchy import (
    AGAINST_ARCHITECTURE,
    ALPHA,
    BLOCKS,
    BY_ARCHITECTURE,
    BY_GEOMETRY,
    BY_LINEAGE,
    BY_SIZE,
    CODINGS,
    GEOMETRY_MINUS_SCALE,
    HERITAGE,
    HERITAGE_MINUS_ARCHITECTURE,
    LINEAGE,
    LINEAGE_MINUS_ARCHITECTURE,
    MARGIN,
    SEED,
    SHARE_OF_SCALE,
    SPAN,
    TABLE_OF_CODINGS,
    TABLE_OF_COUNTS,
    TABLE_OF_SHARES,
    WEIGHT_COUNTS,
    WHOLE_SHAPE,
    Coding,
    Division,
    declare_shares,
)
from thermostats.studies.delia2026.published_gains import (
    HUNT,
    NAMED_GAINS,
    PYTHIA,
    load_gains,
    select_heritage_rows,
)
from thermostats.tables.frames import take_logs
from thermostats.tables.labels import drop_unlabelled

LOG_COLUMNS = {
    "log_L": "n_layers",
    "log_H": "n_heads",
    "log_d_h": "d_head",
    "log_d": "d_model",
    "log_n": "n_params_nonembedding",
    "log_n_all": "n_params",
}
ENDS = ("estimate", "lower", "upper")
XLABEL = "corrected share of the variance of the log gain"
FITTED = (*LOG_COLUMNS, "log_shape", "log_rho")
"""Columns of which a model states all to be in the fitted model."""
BOTH_SETS = {PUBLISHED: "own files", POOLED: "all evidence"}
"""Sets of evidence whose fits stand on the first screen."""
GAIN = NAMED_GAINS[0]
"""The gain that the study means; the others are universes of the curve."""

CLAIM = Claim.read(__file__)


@CLAIM.shared
def list_all_models(evidence: Evidence) -> pd.DataFrame:
    """Models with logs of shape and size; missing where a number is 0, as the heads of a
    state-space model are."""
    rows = load_gains(evidence)
    logs = rows.assign(**{name: take_logs(rows[column]) for name, column in LOG_COLUMNS.items()})
    return logs.assign(
        log_shape=logs["log_L"] - logs["log_d"], log_rho=np.log(rows["rho"].astype(float))
    )


def select_models(
    evidence: Evidence, gain: Case, groups: tuple[str, ...] = HERITAGE
) -> pd.DataFrame:
    """Comparable models with the log of a gain, of labs (or other groups) of two models or more.

    What a group's only model has of its group and what it has of its own cannot be separated: with
    such models errors of one model pass for heritage, and a rule says "supported" falsely in every
    fifth study where they are noisy.
    """
    rows = list_all_models(evidence)
    rows = rows[rows["comparable"]].assign(outcome=lambda rows: np.log(rows[gain.column]))
    rows = rows.dropna(
        subset=["outcome", *SPAN, *WEIGHT_COUNTS.values()]
    )  # models joined need not state all facts
    return (rows[rows.duplicated([*groups], keep=False)] if groups else rows).reset_index(drop=True)


def select_lab_models(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Comparable models of all labs, those of one model too."""
    return select_models(evidence, gain, ())


def select_family_models(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Comparable models of families of two models or more; without those of no stated family."""
    return drop_unlabelled(select_models(evidence, gain, LINEAGE), "family")


DIFFERENCE = V(GEOMETRY_MINUS_SCALE)
IN_EVERY_CODING = Decide(
    Each(TABLE_OF_CODINGS, (DIFFERENCE.interval > 0) & (V("geometry").p <= ALPHA)),
    Each(TABLE_OF_CODINGS, (DIFFERENCE.interval < 0) & (V("scale").p <= ALPHA)),
    divided=Some(TABLE_OF_CODINGS, DIFFERENCE > 0) & Some(TABLE_OF_CODINGS, DIFFERENCE < 0),
)
"""The larger block's own effect must be there: a share, averaged over orders, has part of what it
shares with labs."""
NEGLIGIBLE = Decide(
    Each(TABLE_OF_COUNTS, V(SHARE_OF_SCALE).upper < MARGIN),
    Each(TABLE_OF_COUNTS, V(SHARE_OF_SCALE).lower > MARGIN),
)
VIEWS = Views(models=12, groups=3, sets=(EXTERNAL, MEASURED, POOLED))
"""In the controlled study width is H·d_h and scale follows from shape: N01 asks this of it by its
own columns."""
TRIALS = {
    "architecture": Trial(select_models, BY_ARCHITECTURE, worlds=cause_worlds.ARCHITECTURE_WORLDS),
    "lineage": Trial(select_family_models, BY_LINEAGE, worlds=cause_worlds.LINEAGE_WORLDS),
    "geometry": Trial(select_models, BY_GEOMETRY, worlds=cause_worlds.GEOMETRY_WORLDS),
    "size": Trial(select_models, BY_SIZE, worlds=cause_worlds.SIZE_WORLDS),
}


@CLAIM.shared
def select_fitted_rows(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Rows of comparable models, those of labs of one model too: prompt by prompt in the study's
    files, of other sets the means that the test reads."""
    models = list_all_models(evidence)
    if evidence.name == PUBLISHED:
        rows = select_heritage_rows(evidence, gain.column, PYTHIA, HUNT)
        return rows.merge(models[["model_id", *FITTED]], on="model_id")
    return models[models["comparable"]].dropna(subset=[gain.column, *FITTED])


@CLAIM.shared
def fit_division(evidence: Evidence, gain: Case, coding: Coding) -> Fit:
    """The heritage model with one division of shape and size."""
    return fit_blocks(select_fitted_rows(evidence, gain), gain, coding.blocks)


def fit_blocks(rows: pd.DataFrame, gain: Case, blocks: Mapping[str, Sequence[str]]) -> Fit:
    """The heritage model of the models' means."""
    outcome = gain.column if gain.column in rows else "gain"
    return fit_heritage(rows, outcome=outcome, estimand=gain.column, blocks=blocks, seed=SEED)


@CLAIM.shared
def fit_heritage_means(evidence: Evidence, gain: Case, division: Division) -> Fit:
    """The heritage model with shape and size as one block, or in the declared division."""
    if division is Division.DIVIDED:
        return fit_division(evidence, gain, CODINGS[0])
    return fit_blocks(select_fitted_rows(evidence, gain), gain, division.blocks)


@CLAIM.shared
def describe_hierarchies(evidence: Evidence) -> tuple[FittedHierarchy, ...]:
    """What the fitted model says of the order, on the study's own files and on all evidence."""
    return tuple(
        describe_hierarchy(evidence.named(name), words) for name, words in BOTH_SETS.items()
    )


@CLAIM.keep
def describe_hierarchy(evidence: Evidence, words: str) -> FittedHierarchy:
    """The same on one set of evidence."""
    rows = select_fitted_rows(evidence, GAIN)
    shapes = {name: columns for name, columns in BLOCKS.items() if name not in HERITAGE}
    fits = Fits(
        divisions={each.id: fit_division(evidence, GAIN, each) for each in (*CODINGS, WHOLE_SHAPE)},
        without_families=fit_blocks(rows.drop(columns="family"), GAIN, BLOCKS),
        without_labs=fit_blocks(rows, GAIN, shapes),
    )
    return summarise_hierarchy(words, fits)


DESCENT = "shares under descent, next to those of the rule"


@CLAIM.shared
def fit_descent_shares(evidence: Evidence, gain: Case, division: Division) -> pd.DataFrame | None:
    """Shares of architecture, or of its two parts, next to descent along the tree in place of the
    lab."""
    rows = select_models(evidence, gain)
    blocks = {name: columns for name, columns in division.blocks.items() if name != "heritage"}
    designs = {name: rows[[*columns]].to_numpy(np.float64) for name, columns in blocks.items()}
    k = build_covariance(evidence, rows)
    return estimate_shares(
        rows["outcome"].to_numpy(np.float64), designs, k, (division.pair,), seed=SEED
    )


def add_descent(
    evidence: Evidence, gain: Case, division: Division, tables: Mapping[str, pd.DataFrame]
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Tables of the fit with the one under descent, and its rows by name for the words."""
    table = fit_descent_shares(evidence, gain, division)
    if table is None:
        return dict(tables), {"descent": None}
    return {**tables, DESCENT: table}, {"descent": {row.what: row for row in table.itertuples()}}


def compare_halves(parts: Mapping[str, Finding]) -> pd.DataFrame | None:
    """What the claim compares, a row each with its interval: lab against architecture, shape
    against size, and size."""
    shares, codings, counts = (parts[name].table for name in ("architecture", "geometry", "size"))
    if shares is None or codings is None or counts is None:
        return None
    named = {
        "heritage": "lab",
        "architecture": "shape and size",
        HERITAGE_MINUS_ARCHITECTURE: "lab − shape and size",
    }
    rows = [
        row | {"what": named[row["what"]]} for row in shares[["what", *ENDS]].to_dict("records")
    ]
    for table, quantity, label, words in (
        (codings, GEOMETRY_MINUS_SCALE, "coding", "shape − size: {}"),
        (counts, SHARE_OF_SCALE, "weights", "size ({})"),
    ):
        columns = [label, quantity, f"{quantity}_lower", f"{quantity}_upper"]
        for name, *values in table[columns].itertuples(index=False, name=None):
            rows.append({"what": words.format(name), **dict(zip(ENDS, values, strict=True))})
    return pd.DataFrame(rows)


@CLAIM.overall(all_of=tuple(f"{name}.{GAIN.id}" for name in ("architecture", "geometry", "size")))
def judge_whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The order and the one on size, by the gain that the study means."""
    parts = {name: found[f"{name}.{GAIN.id}"] for name in TRIALS}
    first = parts["architecture"]
    counted = Result(n_models=first.sample.n_models, n_groups=first.sample.n_groups)
    words = {"parts": parts, "gain": GAIN.words}
    table = compare_halves(parts)
    if table is None:
        return counted.adding(words={**words, "hierarchies": ()})
    hierarchies = describe_hierarchies(evidence)
    return counted.adding(
        table=table,
        draw=partial(draw_hierarchy, hierarchies, table, XLABEL),
        screen=print_hierarchies(hierarchies),
        words={**words, "hierarchies": hierarchies},
    )


def infer_undivided(evidence: Evidence, gain: Case) -> Inference:
    """The fit with shape and size as one block, next to the test on all evidence."""
    return Inference(fit_heritage_means(evidence, gain, Division.UNDIVIDED))


def infer_divided(evidence: Evidence, gain: Case) -> Inference:
    """The fit in the declared division, next to the test on all evidence."""
    return Inference(fit_heritage_means(evidence, gain, Division.DIVIDED))


TABLES_OF_FIT = ("orders", "labs", "models", "classical", "dominance", "commonality", "left out")


@CLAIM.finding(
    "architecture",
    primary=Above(HERITAGE_MINUS_ARCHITECTURE, 0),
    robustness=Posterior("heritage > architecture"),
    over=(GAIN,),
    trial=TRIALS["architecture"],
    views=replace(VIEWS, fit=infer_undivided),
)
def judge_architecture(evidence: Evidence, gain: Case) -> Result:
    """Does the lab explain more than shape and size together?"""
    rows = select_models(evidence, gain)
    fit = fit_heritage_means(evidence, gain, Division.UNDIVIDED)
    found = BY_ARCHITECTURE(rows)
    tables, descent = add_descent(
        evidence, gain, Division.UNDIVIDED, collect_tables(fit, TABLES_OF_FIT)
    )
    return replace(
        found,
        draw=prepare_drawing(
            draw_forest, found.rows[TABLE_OF_SHARES], label="what", null=0.0, xlabel=XLABEL
        ),
        inference=Inference(fit, tables=tables, panels=draw_panels(fit)),
        words={
            **descent,
            "uncorrected": measure_dominance(rows, "outcome", AGAINST_ARCHITECTURE, seed=SEED),
            "tests": compute_block_f(rows, "outcome", AGAINST_ARCHITECTURE),
            "with_labs_of_one": BY_ARCHITECTURE(select_lab_models(evidence, gain)).headline,
            "rivals": find_lab_rivals(rows.join(read_inherited(evidence, rows["model_id"]))),
        },
    )


ANY_CODING = {"heritage": HERITAGE, "architecture": curves.SHAPE_AND_SIZE}
"""Architecture in the curve, whose universes divide it in several ways."""
CLAIM.curve(
    f"architecture.{GAIN.id}",
    rows=curves.select_study_rows,
    choices=curves.CAUSES,
    estimate=build_share_estimator("heritage", "architecture", ANY_CODING),
    null=replace(
        permute_across_labs(*curves.SHAPE_AND_SIZE),
        words="residuals given shape and size, as coded, among the models of all labs",
    ),
    test=declare_shares(ANY_CODING, ("heritage", "architecture")),
)


@CLAIM.finding(
    "geometry",
    primary=IN_EVERY_CODING,
    robustness=Posterior("geometry > scale"),
    over=(GAIN,),
    trial=TRIALS["geometry"],
    views=replace(VIEWS, fit=infer_divided),
)
def judge_geometry(evidence: Evidence, gain: Case) -> Result:
    """Does shape at a given size explain more than size, whatever is called shape?"""
    rows = select_models(evidence, gain)
    fit = fit_heritage_means(evidence, gain, Division.DIVIDED)
    found = BY_GEOMETRY(rows)
    tables, descent = add_descent(
        evidence, gain, Division.DIVIDED, collect_tables(fit, ("orders", "commonality"))
    )
    shown = found.rows[TABLE_OF_CODINGS].rename(
        columns={
            GEOMETRY_MINUS_SCALE: "estimate",
            f"{GEOMETRY_MINUS_SCALE}_lower": "lower",
            f"{GEOMETRY_MINUS_SCALE}_upper": "upper",
        }
    )
    return replace(
        found,
        draw=prepare_drawing(
            draw_forest,
            shown,
            label="coding",
            null=0.0,
            xlabel="corrected share of geometry minus that of scale",
        ),
        inference=Inference(fit, tables=tables),
        words=descent
        | {
            "codings": found.rows[TABLE_OF_CODINGS].set_index("coding"),
            "tests": compute_block_f(rows, "outcome", BLOCKS),
        },
    )


@CLAIM.finding(
    "size",
    primary=NEGLIGIBLE,
    robustness=Posterior(f"share of scale < {MARGIN:g}", draws=V("share_scale") < MARGIN),
    over=(GAIN,),
    trial=TRIALS["size"],
    views=replace(VIEWS, fit=infer_divided),
)
def judge_size(evidence: Evidence, gain: Case) -> Result:
    """Has size almost nothing to do with it, however it is counted?"""
    rows = select_models(evidence, gain)
    found = BY_SIZE(rows)
    blocks = [BLOCKS | {"scale": (column,)} for column in WEIGHT_COUNTS.values()]
    tables, descent = add_descent(evidence, gain, Division.DIVIDED, {})
    return replace(
        found,
        inference=Inference(fit_heritage_means(evidence, gain, Division.DIVIDED), tables=tables),
        words={
            **descent,
            "counted": found.rows[TABLE_OF_COUNTS].set_index("weights"),
            "p": [compute_block_f(rows, "outcome", each)["scale"].p_value for each in blocks],
            "r": float(np.corrcoef(rows["log_n"], rows["outcome"])[0, 1]),
        },
    )


@CLAIM.finding(
    "lineage",
    primary=Above(LINEAGE_MINUS_ARCHITECTURE, 0),
    robustness=Posterior("lineage > architecture"),
    over=(GAIN,),
    trial=TRIALS["lineage"],
    views=VIEWS,
)
def judge_lineage(evidence: Evidence, gain: Case) -> Result:
    """Exploratory: do lab and family together explain more than shape and size together?"""
    rows = select_family_models(evidence, gain)
    fit = fit_heritage_means(evidence, gain, Division.UNDIVIDED)
    found = BY_LINEAGE(rows)
    nested = {"lab": HERITAGE, "family": ("family",), "architecture": SPAN}
    families = rows.groupby("heritage")["family"].nunique()
    return replace(
        found,
        draw=prepare_drawing(
            draw_forest, found.rows[TABLE_OF_SHARES], label="what", null=0.0, xlabel=XLABEL
        ),
        inference=Inference(fit, tables=collect_tables(fit, ("orders",))),
        words={
            "within": run_freedman_lane(rows, "outcome", nested, "family", seed=SEED),
            "several": int((families > 1).sum()),
        },
    )


if __name__ == "__main__":
    CLAIM.main()
