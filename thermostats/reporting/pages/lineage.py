"""The page of the tree of descent: every model with its gain as colour, what was checked, and what
is not known."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.shared import build_tree
from thermostats.errors import ThermostatsError
from thermostats.modelling.planned import WANTED
from thermostats.modelling.tree_likelihood import TOLD, estimate_ancestors, simulate_power_by_size
from thermostats.plots.posterior import draw_tree
from thermostats.plots.svg import render_svg
from thermostats.reporting.render import Files
from thermostats.reporting.state import describe_machine
from thermostats.tables.model_rows import model_rows
from thermostats.tables.store import check_lineage
from thermostats.tables.tree import Tree
from thermostats.tables.tree_of_models import FAMILY, LAB

GAIN = "penultimate_gain"
WORDS = "penultimate gain"
LEAST = 4
"""Models from which on ancestors have an expected gain."""
WIDE = 11.0
"""Inches, so that names of ancestors fit on their branches."""
FACTS = ("parent", "tokens", "tokenizer", "corpus")
SHOWN = [
    "model_id",
    "lab",
    "family",
    "parent",
    "kind",
    "tokens",
    "tokenizer",
    "corpus",
    "gain",
    "source",
]


def build_files(tables: Evidence) -> dict[str, bytes]:
    """`lineage.md`, its figure, and its tables as CSV; of rows that are no tree the page says
    why."""
    pooled = tables.named(POOLED)
    made = Files()
    gains = model_rows(pooled, GAIN, incomparable=True)
    try:
        check_lineage(tables.table("models"), tables.table("lineage"))
        tree = build_tree(pooled, gains)
    except ThermostatsError as refusal:
        made.add_page("lineage.md", refusal=str(refusal), machine=describe_machine())
        return made.contents
    rows = collect_facts(pooled, gains)
    caption = (
        f"Tree of descent of {len(gains)} models with a {WORDS}: root, labs, families, models, "
        f"models tuned from them. "
        "Models in the colour of their gain as measured, ancestors in that expected of them, "
        "orange below 1 and violet "
        "above."
    )
    figure = ""
    if len(gains):
        picture = render_svg(lambda axes: draw_lineage(tree, gains, axes))
        figure = made.add_figure(picture, "lineage.svg", caption)
    kinds = made.add_table(count_kinds(tree), "Branches by kind", "branches.csv")
    checks = list_checks(tree, rows)
    power = describe_power(tree, gains)
    stated = made.add_table(count_stated(rows), "What is stated of these models", "stated.csv")
    models = made.add_table(rows[SHOWN], "Models and what they come from", "lineage.csv")
    made.add_page(
        "lineage.md",
        refusal="",
        figure=figure,
        kinds=kinds,
        checks=checks,
        power=power,
        stated=stated,
        models=models,
        machine=describe_machine(),
    )
    return made.contents


def draw_lineage(tree: Tree, gains: pd.DataFrame, axes: Axes) -> Axes:
    """The tree with the gain of models as measured and of ancestors as descent lets one expect
    it."""
    y = gains["log_gain"].to_numpy(np.float64)
    values = dict(zip(gains["model_id"], y, strict=True))
    if len(gains) >= LEAST:
        at = [tree.place(name) for name in gains["model_id"]]
        constant = np.ones((len(y), 1))
        covariance = tree.covariance(tree.names)
        expected = estimate_ancestors(y, constant, covariance, at)
        values = dict(zip(tree.names, expected, strict=True))
    canvas = axes.get_figure(root=True)
    if canvas is not None:
        canvas.set_figwidth(max(canvas.get_figwidth(), WIDE))
    return draw_tree(tree, values, axes)


def describe_power(tree: Tree, gains: pd.DataFrame) -> str:
    """How often studies of this tree tell a share of descent from none, and the size that would be
    enough."""
    models = list(gains["model_id"])
    if len(models) < LEAST:
        return ""
    labs = gains["heritage"].nunique()
    table = simulate_power_by_size(tree.covariance(models), 1, labs)
    now = table.iloc[0]
    most = table.iloc[-1]
    size = f"{most['models']:.0f} models of {most['clades']:.0f} labs"
    enough = size if most["power"] >= WANTED else "more than 1,000 models"
    return (
        f"With this tree of {len(models)} models of {labs} labs a share of descent of {TOLD:g} is "
        f"separated from none "
        f"in {now['power']:.0%} of simulated studies (test at 5%, before shape and size are taken "
        f"off); on trees of "
        f"this shape it takes {enough} to separate it in {WANTED:.0%}."
    )


def collect_facts(evidence: Evidence, gains: pd.DataFrame) -> pd.DataFrame:
    """One row per model with a gain and per parent of it, with what the table `lineage` states."""
    stated = evidence.table("lineage").drop(columns=["heritage", "family"])
    models = gains[["model_id", "heritage", "family", "gain"]].rename(columns={"heritage": "lab"})
    years = evidence.table("models").drop_duplicates("model_id").set_index("model_id")["year"]
    rows = models.merge(stated, on="model_id", how="left").sort_values(
        ["lab", "family", "model_id"], ignore_index=True
    )
    texts = ["parent", "kind", "tokenizer", "corpus", "source"]
    rows = rows.assign(**{name: rows[name].fillna("") for name in texts})
    year = rows["model_id"].map(years)
    return rows.assign(year=year, year_of_parent=rows["parent"].map(years))


def count_kinds(tree: Tree) -> pd.DataFrame:
    """How many branches of each kind the tree has."""
    kinds = pd.Series([kind or "not stated" for kind in tree.kinds[1:]])
    counts = kinds.value_counts(sort=False).sort_index()
    return counts.rename_axis("kind").reset_index(name="branches")


def count_stated(rows: pd.DataFrame) -> pd.DataFrame:
    """Of every fact, for how many models it is stated, and how many values there are."""
    models = rows.drop_duplicates("model_id")
    scratch = models["kind"] == "scratch"
    table = []
    for name in FACTS:
        there = models[name].notna() & (models[name].astype(str) != "")
        if name == "parent":
            there |= scratch
        values = models.loc[there, name].replace("", np.nan).dropna()
        n_stated = int(there.sum())
        table.append((name, n_stated, len(models), values.nunique()))
    return pd.DataFrame(table, columns=["fact", "stated", "models", "different values"])


def list_checks(tree: Tree, rows: pd.DataFrame) -> list[str]:
    """What was looked for, each with what was found; what is refused never reaches a page."""
    years = rows.dropna(subset=["year", "year_of_parent"])
    by_weights = int((rows["parent"] != "").sum())
    below_root = zip(tree.names[1:], tree.lengths[1:], strict=True)
    flat = [name for name, length in below_root if length == 0]
    single = []
    for i, kind in enumerate(tree.kinds):
        if _count_children(tree, i) == 1:
            single.append(kind)
    lone = single.count(LAB)
    alone = single.count(FAMILY)
    return [
        "one root, no circle, no orphan, shares of merged parents add up to 1: a table in which "
        "this fails is refused",
        f"no child older than its parent: years of both are known for {len(years)} of {by_weights} "
        f"parents by weights",
        f"models with several parents: {', '.join(tree.merges) or 'none'}",
        f"branches of length 0: {', '.join(flat) or 'none'}",
        f"labs with a single branch: {lone}; families with a single branch: {alone}. What such a "
        f"model has of its lab "
        "or family and what it has of its own cannot be separated",
    ]


def _count_children(tree: Tree, place: int) -> int:
    return sum(place in parents for parents in tree.parents)
