"""The page of sources: sets of evidence counted, whose measurements there are, and how far sources
differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from thermostats.claims.evidence import POOLED, Evidence, describe_coincidence
from thermostats.claims.study import list_study_models
from thermostats.formatting import format_percent
from thermostats.modelling.fit import Fit
from thermostats.modelling.measurements import fit_sources
from thermostats.reporting.render import Files
from thermostats.reporting.state import describe_machine
from thermostats.tables.model_rows import (
    LEVELS,
    combine_measurements,
    count_models,
    estimate_variances,
    list_gain_pairs,
    list_measurements,
    prepare_pooling,
    profile_pairs,
    summarise_profiles,
)
from thermostats.tables.schemas import EXTERNAL, NURSERY

FITTED = ("last_gain", "penultimate_gain")
"""Gains whose sources are fitted as levels."""


def build_files(tables: Evidence) -> dict[str, bytes]:
    """`sources.md`, and its tables as CSV."""
    made = Files()
    pooled = tables.named(POOLED)
    published = set(tables.table("sources")["file"])
    runs = pooled.table("runs")
    features = pooled.table("features")
    layers = pooled.table("layers")
    gains = list_gain_pairs(features, published)
    lines = profile_pairs(summarise_profiles(layers, runs, published))
    measured = list_measurements(features, published)
    fits = fit_levels(measured)
    comparable = measured[measured["comparable"].astype(bool)]
    pools = {}
    for gain in fits:
        pools[gain] = prepare_pooling(comparable, pooled, gain)
    external = tables.external_sources()
    left_out = external[external["left_out"] != ""]
    largest = gains.loc[gains["log_ratio"].abs().idxmax()] if len(gains) else None
    moved = []
    for gain, shift in measure_shifts(fits, pools).items():
        moved.append(f"{format_percent(shift, 2)} ({gain.replace('_', ' ')})")
    sets = made.add_table(count_evidence(tables), "Sets of evidence", "sets.csv")
    instruments = list_instruments(runs, layers)
    others = made.add_table(instruments, "Other people's measurements", "instruments.csv")
    gains_table = made.add_table(
        gains, "Gains at the last token by two sources", "gains-by-two-sources.csv"
    )
    spreads = made.add_table(
        summarise_spreads(fits, pools), "Standard deviations of log gains", "spreads-of-sources.csv"
    )
    levels = made.add_table(
        list_levels(fits), "Factors of sources, prompt sets and precisions", "levels-of-sources.csv"
    )
    lines_table = made.add_table(
        lines, "Gains block by block by two measurements", "profiles-by-two-sources.csv"
    )
    coincidence = describe_coincidence(pooled, set(features["model_id"]))
    made.add_page(
        "sources.md",
        sets=sets,
        apart=list_study_models(),
        coincidence=coincidence,
        others=others,
        left_out=left_out.to_dict("records"),
        gains=gains_table,
        n_models=gains["model_id"].nunique(),
        largest=largest,
        fits=fits,
        moved=moved,
        spreads=spreads,
        levels=levels,
        lines=lines_table,
        machine=describe_machine(),
    )
    return made.contents


def fit_levels(rows: pd.DataFrame) -> dict[str, Fit]:
    """Fits of the levels of sources by gain, of gains that two sources measured of one model."""
    fits = {}
    for gain in FITTED:
        is_comparable = rows["comparable"].astype(bool)
        with_gain = rows[rows[gain].notna() & is_comparable]
        if (with_gain.groupby("model_id")["source"].nunique() > 1).any():
            fits[gain] = fit_sources(with_gain, gain, sources=sorted(set(with_gain["source"])))
    return fits


def summarise_spreads(fits: Mapping[str, Fit], pools: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Standard deviation of every kind of level in the log of a gain, with its interval, and the
    one by moments."""
    rows = []
    for gain, fit in fits.items():
        moments = {}
        for name, variance in estimate_variances(pools[gain]).items():
            moments[f"sd_{name}"] = variance**0.5
        summary = fit.summary().reset_index().assign(gain=gain, status=fit.status)
        rows.append(summary.assign(by_moments=summary["quantity"].map(moments)))
    columns = ["gain", "quantity", "median", "lower", "upper", "by_moments", "status"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def measure_shifts(fits: Mapping[str, Fit], pools: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """By how much a model's gain moves at most, as a share of it, where fitted spreads weigh in
    place of moments."""
    shares = {}
    for gain, fit in fits.items():
        medians = fit.summary()["median"]
        components = {}
        for name in ("run", *LEVELS):
            components[name] = float(medians.get(f"sd_{name}", 0.0)) ** 2
        weighed = combine_measurements(pools[gain], components)["y"]
        unweighed = combine_measurements(pools[gain])["y"]
        moved = weighed - unweighed
        shares[gain] = float(np.expm1(moved.abs().max()))
    return shares


def list_levels(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """By how much a source, prompt set or precision multiplies a gain."""
    rows = []
    for gain, fit in fits.items():
        rows.append(fit.table("levels").assign(gain=gain))
    columns = ["gain", "kind", "level", "models", "factor", "lower", "upper"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def count_evidence(tables: Evidence) -> pd.DataFrame:
    """Sets of evidence with their models and labs: see `count_models`."""
    both = {}
    for name in ("features", "runs"):
        parts = [tables.named(POOLED).table(name), tables.table(name, source=NURSERY)]
        both[name] = pd.concat(parts, ignore_index=True)
    return count_models(both["features"], both["runs"], set(tables.table("sources")["file"]))


def list_instruments(runs: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """One row per external source, instrument and precision: models, positions of their gains,
    licence."""
    positions = layers.groupby("run_id")["position"].agg(
        lambda external: ", ".join(sorted(set(external)))
    )
    external = runs[runs["measure_version"] == EXTERNAL]
    external = external.assign(
        position=external["run_id"].map(positions).fillna("weights or summaries")
    )
    rows = external.groupby(["source", "instrument", "dtype", "position", "licence"])[
        "model_id"
    ].nunique()
    return rows.rename("models").reset_index()
