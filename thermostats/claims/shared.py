"""The tree of descent of a set of evidence and what models have from their ancestors, rows
remembered as all are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Panel
from thermostats.formatting import format_number
from thermostats.modelling.causal_graph import (
    CausalGraph,
    count_shared_pairs,
    count_varied_groups,
    measure_variance_left,
)
from thermostats.modelling.draws import Array
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import leave_one_out
from thermostats.plots.posterior import draw_left_out_errors
from thermostats.tables.frames import take_logs
from thermostats.tables.store import join_lineage
from thermostats.tables.tree import Tree
from thermostats.tables.tree_of_models import build_descent_tree

CARRIED = ("tokenizer", "corpus")
"""What a tuned model has from the one it was tuned from."""


def build_tree(evidence: Evidence, rows: pd.DataFrame) -> Tree:
    """Root, labs, families, parents and the models of rows with model_id, heritage and family.

    Parents are those of the tables; a model that the tables lack hangs on the lab and family of its
    row.
    """
    lineage = join_lineage(evidence.table("models"), evidence.table("lineage"))
    lacking = rows.loc[
        ~rows["model_id"].isin(lineage["model_id"]), ["model_id", "heritage", "family"]
    ]
    if len(lacking):
        lineage = pd.concat([lineage, lacking.assign(parent="", kind="")], ignore_index=True)
    return build_descent_tree(lineage).keep(rows["model_id"])


def build_covariance(evidence: Evidence, rows: pd.DataFrame) -> Array:
    """K of the models of rows, in their order: the path from the root that two share, the highest
    model at 1."""
    return build_tree(evidence, rows).covariance(list(rows["model_id"]))


def read_inherited(evidence: Evidence, models: Iterable[str]) -> pd.DataFrame:
    """What models have from their ancestors by weights: tokenizer, corpus, a row a model.

    tokenizer, corpus: of the nearest that states it, as tuning keeps the tokenizer and most of what
    training has left, empty where none does.
    """
    table = evidence.table("lineage").drop_duplicates("model_id").set_index("model_id")
    facts = {}
    for name in ("parent", *CARRIED):
        facts[name] = table[name].fillna("").to_dict()
    rows = []
    for model in models:
        line = [model]
        while (parent := facts["parent"].get(line[-1], "")) and parent not in line:
            line.append(parent)
        nearest = []
        for name in CARRIED:
            stated = filter(None, map(facts[name].get, line))
            nearest.append(next(stated, ""))
        rows.append(nearest)
    return pd.DataFrame(rows, columns=list(CARRIED), dtype=object)


GAIN = "gain"
LAB = "lab"
FILE = Path(__file__).with_name("causes.toml")
HARDLY = 0.5
"""Share of its variance left given the lab below which a cause is named as the lab's rival."""
LOGS = ("n_params", "n_layers", "rho", "vocab_size", "d_embed")
"""Columns that enter by their logarithms."""


@dataclass(frozen=True)
class Causes:
    """The graph, and of every node its words, its place in the drawing and the columns that measure
    it."""

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

    @cached_property
    def adjusting(self) -> dict[str, list[frozenset[str]]]:
        """Of every cause of the gain its smallest back-door sets of measured causes."""
        adjusting: dict[str, list[frozenset[str]]] = {}
        for name in self.nodes:
            if name != GAIN:
                adjusting[name] = self.graph.find_back_door(name, GAIN, self.measured)
        return adjusting


@cache
def read_causes() -> Causes:
    """The graph of the file."""
    file = tomllib.loads(FILE.read_text(encoding="utf-8"))
    why: dict[tuple[str, str], str] = {}
    for effect, reasons in file["arrows"].items():
        why |= {(cause, effect): reason for cause, reason in reasons.items()}
    return Causes(graph=CausalGraph.build(why), nodes=file["nodes"], why=why)


def list_adjustments(causes: Causes) -> pd.DataFrame:
    """Of every cause of the gain its smallest back-door sets of measured causes: what has to be
    held fixed."""
    rows = []
    for name, sets in causes.adjusting.items():
        what = (
            "; or ".join(causes.words(each) or "nothing" for each in sets)
            or "not all of it is measured"
        )
        rows.append((causes.nodes[name]["words"], what, name in causes.measured))
    return pd.DataFrame(rows, columns=["cause of the gain", "hold fixed", "measured"])


def measure_separation(causes: Causes, rows: pd.DataFrame) -> pd.DataFrame:
    """Of every measured cause what is left of it once its smallest back-door set is held fixed, in
    rows of models.

    left: share of its variance, by least squares with the degrees of freedom counted; 0 where the
    set determines it. labs_where_it_varies, models_there: labs with two values or more, which alone
    separate it from the lab.
    """
    parts = []
    for name in causes.measured:
        if name in {GAIN, LAB} or not (sets := causes.adjusting[name]):
            continue
        cause = _build_columns(causes, rows, [name])
        fixed = _build_columns(causes, rows, [other for other in causes.nodes if other in sets[0]])
        labs, models = count_varied_groups(rows, causes.nodes[name]["columns"], "heritage")
        share, n = measure_variance_left(cause, fixed)
        words = causes.nodes[name]["words"]
        parts.append((words, causes.words(sets[0]), n, share, labs, models))
    columns = [
        "cause of the gain",
        "held fixed",
        "models",
        "left",
        "labs where it varies",
        "models there",
    ]
    return pd.DataFrame(parts, columns=columns)


def compare_causes(rows: pd.DataFrame) -> pd.DataFrame:
    """Of what models may inherit the gain with, two by two, how nearly it is one thing: rows of
    `count_shared_pairs`.

    rows: of models, with heritage, family, tokenizer, corpus. A family is one of its lab.
    """
    lab = rows["heritage"].astype("str")
    family = rows["family"].astype("str").where(rows["family"].notna(), "")
    facts = {"lab": lab, "family": (lab + " / " + family).mask(family == "")}
    return count_shared_pairs(pd.DataFrame(facts | {name: rows[name] for name in CARRIED}))


def find_lab_rivals(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Causes that these models can hardly separate from the lab: rows of `measure_separation`,
    cause, held_fixed, left, labs.

    They have the lab in their back-door set, vary within one lab at most, and less than half of
    them is left.
    """
    columns = {
        "cause of the gain": "cause",
        "held fixed": "held_fixed",
        "labs where it varies": "labs",
    }
    table = measure_separation(read_causes(), rows).rename(columns=columns)
    lab = read_causes().nodes[LAB]["words"]
    with_lab = table["held_fixed"].str.split(", ").map(lambda words: lab in words)
    table = table[with_lab & (table["labs"] <= 1) & (table["left"] < HARDLY)]
    rivals: list[dict[str, Any]] = table[["cause", "held_fixed", "left", "labs"]].to_dict("records")
    return rivals


def _build_columns(causes: Causes, rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Columns of some nodes: numbers, some as logarithms, and texts; a text that is empty is not
    stated."""
    columns = chain.from_iterable(causes.nodes[name]["columns"] for name in names)
    by_cause = {}
    for column in columns:
        values = rows[column]
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            numbers = values.astype("float64")
            by_cause[column] = take_logs(numbers) if column in LOGS else numbers
        else:
            text = values.astype("str").where(values.notna(), "")
            by_cause[column] = text if column == "quantised" else text.mask(text == "")
    return pd.DataFrame(by_cause, index=rows.index)


TITLES = {
    "orders": "orders of the blocks",
    "labs": "labs: P(dampens) of the mean of these models, of the lab's population of models, and "
    "of its next model",
    "superpopulation": "standard deviation over all labs there could be, which no rule reads",
    "classical": "classical counterparts",
    "dominance": "dominance and its permutation null",
    "commonality": "unique and common parts",
}


def collect_tables(fit: Fit, names: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Tables of a fit by their titles."""
    return {TITLES.get(name, name): fit.table(name) for name in names}


def draw_variance_shares(fit: Fit) -> Panel:
    """Shares of the blocks."""
    caption = "Posterior share of every block in the variance over models, with its prior mean."
    return Panel(
        name="variance-shares", draw=lambda axes: fit.plot("shares", axes), caption=caption
    )


def draw_orders(fit: Fit) -> Panel:
    """Orders of the blocks, of which the longest without families is the one that is named."""
    table = fit.table("orders")
    row = table.loc[table["statement"].str.count(">").idxmax()]
    probability, prior = map(format_number, (row["probability"], row["prior"]))
    factor = format_number(row["bayes_factor"])
    caption = (
        f"Posterior and prior probability of every order. P({row['statement']}) = "
        f"{probability} against {prior} before the data, a Bayes factor of {factor}."
    )
    return Panel(name="orders", draw=lambda axes: fit.plot("orders", axes), caption=caption)


def draw_labs(fit: Fit) -> Panel:
    """Effects of labs."""
    caption = (
        "Effect of every lab on the log gain, partially pooled, with P(the mean of these models "
        "dampens)."
    )
    return Panel(name="labs", draw=lambda axes: fit.plot("labs", axes), caption=caption)


def draw_left_out(fit: Fit, by: str) -> Panel:
    """Predictions without every model, or without every lab (`by` as in `leave_one_out`)."""
    held = leave_one_out(fit, by=by)
    what, helped = ("model", "its lab") if by == "model" else ("lab", "geometry and scale")
    gained = (
        f"{format_number(held.elpd_difference)} ± {format_number(held.elpd_difference_error, 2)}"
    )
    error = format_number(held.rmse)
    error_of_mean = format_number(held.rmse_baseline)
    caption = (
        f"Every model predicted without its {what}: root mean squared error "
        f"{error}, the mean of the others {error_of_mean}; "
        f"{held.coverage:.0%} lie in their intervals. Knowing {helped} changes the log predictive "
        f"density by {gained}."
    )
    draw = partial(draw_left_out_errors, held.predictions)
    return Panel(name=f"left-out-{what}", draw=draw, caption=caption)


def draw_panels(fit: Fit) -> tuple[Panel, ...]:
    """Every panel of a heritage fit: shares, orders, labs, predictions without a model and without
    a lab."""
    return (
        draw_variance_shares(fit),
        draw_orders(fit),
        draw_labs(fit),
        draw_left_out(fit, "model"),
        draw_left_out(fit, "heritage"),
    )
