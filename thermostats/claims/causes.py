"""The declared causal graph of the gain (`causes.toml`), and how far the rows separate it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.descent import CARRIED
from thermostats.modelling.causal_graph import CausalGraph
from thermostats.modelling.confounded import shared_pairs, variance_left, varies

GAIN, LAB = "gain", "lab"
FILE = Path(__file__).with_suffix(".toml")
HARDLY = 0.5
"""Share of its variance left given the lab below which a cause is named as the lab's rival."""
LOGS = ("n_params", "n_layers", "rho", "vocab_size", "d_embed")
"""Columns that enter by their logarithms."""


@dataclass(frozen=True)
class Causes:
    """The graph, and of every node its words, its place in the drawing and the columns that measure it."""

    graph: CausalGraph
    nodes: dict[str, dict[str, Any]]
    why: dict[tuple[str, str], str]
    """By cause and effect."""

    def words(self, names: Sequence[str] | frozenset[str]) -> str:
        """Nodes in words, in the order of the file."""
        return ", ".join(self.nodes[name]["words"] for name in self.nodes if name in names)

    @property
    def measured(self) -> list[str]:
        """Nodes that some column states."""
        return [name for name, node in self.nodes.items() if node["columns"]]


@cache
def declared() -> Causes:
    """The graph of the file."""
    file = tomllib.loads(FILE.read_text(encoding="utf-8"))
    why = {(cause, effect): reason for effect, reasons in file["arrows"].items() for cause, reason in reasons.items()}
    return Causes(graph=CausalGraph.of(why), nodes=file["nodes"], why=why)


def adjustments(causes: Causes) -> pd.DataFrame:
    """Of every cause of the gain its smallest back-door sets of measured causes: what has to be held fixed."""
    rows = []
    for name in causes.nodes:
        if name != GAIN:
            sets = causes.graph.back_door(name, GAIN, causes.measured)
            what = "; or ".join(causes.words(each) or "nothing" for each in sets) or "not all of it is measured"
            rows.append((causes.nodes[name]["words"], what, name in causes.measured))
    return pd.DataFrame(rows, columns=["cause of the gain", "hold fixed", "measured"])


def separation(causes: Causes, rows: pd.DataFrame) -> pd.DataFrame:
    """Of every measured cause what is left of it once its smallest back-door set is held fixed, in rows of models.

    left: share of its variance, by least squares with the degrees of freedom counted; 0 where the set determines it.
    labs_where_it_varies, models_there: labs with two values or more, which alone separate it from the lab.
    """
    parts = []
    for name in causes.measured:
        if name in {GAIN, LAB}:
            continue
        sets = causes.graph.back_door(name, GAIN, causes.measured)
        if not sets:
            continue
        cause = _columns(causes, rows, [name])
        fixed = _columns(causes, rows, [other for other in causes.nodes if other in sets[0]])
        labs, models = varies(rows, causes.nodes[name]["columns"], "heritage")
        share, n = variance_left(cause, fixed)
        parts.append((causes.nodes[name]["words"], causes.words(sets[0]), n, share, labs, models))
    columns = ["cause of the gain", "held fixed", "models", "left", "labs where it varies", "models there"]
    return pd.DataFrame(parts, columns=columns)


def go_together(rows: pd.DataFrame) -> pd.DataFrame:
    """Of what models may inherit the gain with, two by two, how nearly it is one thing: rows of `shared_pairs`.

    rows: of models, with heritage, family, tokenizer, corpus. A family is one of its lab.
    """
    lab, family = rows["heritage"].astype("str"), rows["family"].astype("str").where(rows["family"].notna(), "")
    facts = {"lab": lab, "family": (lab + " / " + family).mask(family == "")}
    return shared_pairs(pd.DataFrame(facts | {name: rows[name] for name in CARRIED}))


def rivals_of_lab(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Causes that these models can hardly separate from the lab: rows of `separation`, cause, held_fixed, left, labs.

    They have the lab in their back-door set, vary within one lab at most, and less than half of them is left.
    """
    columns = {"cause of the gain": "cause", "held fixed": "held_fixed", "labs where it varies": "labs"}
    table = separation(declared(), rows).rename(columns=columns)
    with_lab = table["held_fixed"].str.split(", ").map(lambda words: declared().nodes[LAB]["words"] in words)
    table = table[with_lab & (table["labs"] <= 1) & (table["left"] < HARDLY)]
    rivals: list[dict[str, Any]] = table[["cause", "held_fixed", "left", "labs"]].to_dict("records")
    return rivals


def _columns(causes: Causes, rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Columns of some nodes: numbers, some as logarithms, and texts; a text that is empty is not stated."""
    columns = [column for name in names for column in causes.nodes[name]["columns"]]
    by_cause = {}
    for column in columns:
        values = rows[column]
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            numbers = values.astype("float64")
            by_cause[column] = np.log(numbers.where(numbers > 0)) if column in LOGS else numbers
        else:
            text = values.astype("str").where(values.notna(), "")
            by_cause[column] = text if column == "quantised" else text.mask(text == "")
    return pd.DataFrame(by_cause, index=rows.index)
