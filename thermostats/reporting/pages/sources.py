"""The page of sources: sets of evidence counted, whose measurements there are, and how far sources differ."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.sources import coincidence
from thermostats.reporting.digest import machine
from thermostats.reporting.text import Files, text
from thermostats.tables.between_sources import counts, gain_pairs, profile_pairs, profiles
from thermostats.tables.vocabulary import EXTERNAL, NURSERY


def files(tables: Evidence) -> dict[str, bytes]:
    """`sources.md`, and its tables as CSV."""
    found, pooled = Files(), tables.named(POOLED)
    published, runs = set(tables.table("sources")["file"]), pooled.table("runs")
    features, layers = pooled.table("features"), pooled.table("layers")
    gains = gain_pairs(features, published)
    lines = profile_pairs(profiles(layers, runs, published))
    page = text(
        "sources.md",
        sets=found.table(counted(tables), "Sets of evidence", "sets.csv"),
        coincidence=coincidence(pooled, set(features["model_id"])),
        others=found.table(instruments(runs, layers), "Other people's measurements", "instruments.csv"),
        gains=found.table(gains, "Gains at the last token by two sources", "gains-by-two-sources.csv"),
        n_models=gains["model_id"].nunique(),
        largest=gains.loc[gains["log_ratio"].abs().idxmax()] if len(gains) else None,
        lines=found.table(lines, "Gains block by block by two measurements", "profiles-by-two-sources.csv"),
        machine=machine(),
    )
    found.add("sources.md", page.encode())
    return found.found


def counted(tables: Evidence) -> pd.DataFrame:
    """Sets of evidence with their models and labs: see `tables.between_sources.counts`."""
    both = {
        name: pd.concat([tables.named(POOLED).table(name), tables.table(name, source=NURSERY)], ignore_index=True)
        for name in ("features", "runs")
    }
    return counts(both["features"], both["runs"], set(tables.table("sources")["file"]))


def instruments(runs: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """One row per external source, instrument and precision: models, positions of their gains, licence."""
    positions = layers.groupby("run_id")["position"].agg(lambda own: ", ".join(sorted(set(own))))
    own = runs[runs["measure_version"] == EXTERNAL]
    own = own.assign(position=own["run_id"].map(positions).fillna("weights or summaries"))
    rows = own.groupby(["source", "instrument", "dtype", "position", "licence"])["model_id"].nunique()
    return rows.rename("models").reset_index()
