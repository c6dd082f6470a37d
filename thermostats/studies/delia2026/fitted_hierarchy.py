"""What the fitted heritage model says of the order of lab, shape and size on a set of evidence: a
table of every order, and the figure of the three standard deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from thermostats.formatting import format_number
from thermostats.modelling.checks import PASSED, Gate
from thermostats.modelling.draws import Array
from thermostats.modelling.fit import Fit, compare_fits
from thermostats.modelling.heritage.law import ORDER, TOGETHER
from thermostats.plots.general import draw_forest
from thermostats.plots.posterior import draw_half_eyes

BLOCKS: Mapping[str, str] = {"heritage": "lab", "geometry": "shape", "scale": "size"}
"""The blocks that are put in order, in words."""
ABOVE_BOTH = f"heritage > {TOGETHER}"
FIRST = "lab first"
"""Of the three, whatever the order of the other two."""
NAMED = {ABOVE_BOTH: "lab > sum of shape and size", FIRST: "lab most of three"}
WITH, WITHOUT = "with the lab", "without"


@dataclass(frozen=True, kw_only=True)
class Fits:
    """The fits of one set of evidence."""

    divisions: Mapping[str, Fit]
    """By what is called shape and size; the first is the declared one."""
    without_families: Fit
    """The declared division, with no share for families."""
    without_labs: Fit
    """The declared division, with no lab and no family."""


@dataclass(frozen=True, kw_only=True)
class FittedHierarchy:
    """How probable every order of lab, shape and size is, and that the lab predicts."""

    words: str
    """The set of evidence."""
    n_models: int
    n_labs: int
    orders: pd.DataFrame
    """By statement: prior and posterior `probability` in the declared division; `lowest` and
    `highest` over all divisions; `without_families`."""
    spreads: Mapping[str, Array]
    """Draws of the standard deviation of each block, by its name in words."""
    divisions: int
    """Ways to say what shape and size are."""
    gate: Gate
    """The checks of the declared division."""
    gained: float
    """Log predictive density of models left out, with lab and family minus without."""
    gained_error: float
    """Its standard error over models."""

    @property
    def passed(self) -> int:
        """Checks that passed."""
        return sum(check.outcome == PASSED for check in self.gate.checks)

    def probability(self, statement: str) -> float:
        """In the declared division."""
        return float(self.orders.loc[statement, "probability"])


def summarise_hierarchy(words: str, fits: Fits) -> FittedHierarchy:
    """Orders, checks and predictive gain of the fits of one set of evidence."""
    declared = next(iter(fits.divisions.values()))
    orders = tabulate_orders(declared)
    found = {}
    for name, fit in fits.divisions.items():
        found[name] = tabulate_orders(fit)["probability"]
    each = pd.DataFrame(found)
    without = tabulate_orders(fits.without_families)["probability"]
    orders["lowest"] = each.min(axis=1)
    orders["highest"] = each.max(axis=1)
    orders["without_families"] = without
    spreads = {}
    for b, name in BLOCKS.items():
        draws = declared.quantities[f"sd_{b}"]
        spreads[name] = draws.ravel()
    compared = compare_fits({WITH: declared, WITHOUT: fits.without_labs})
    densities = compared["elpd"]
    gained = densities[WITH] - densities[WITHOUT]
    rows = declared.rows
    return FittedHierarchy(
        words=words,
        n_models=rows["model_id"].nunique(),
        n_labs=rows["heritage"].nunique(),
        orders=orders,
        spreads=spreads,
        divisions=len(fits.divisions),
        gate=declared.check(),
        gained=float(gained),
        gained_error=float(compared["dse"].max()),
    )


def tabulate_orders(fit: Fit) -> pd.DataFrame:
    """By statement its probability and its prior: lab above both together, lab first, every
    order, the study's first."""
    orders = fit.table("orders").set_index("statement")
    asked = orders.loc[[ABOVE_BOTH], ["probability", "prior"]]
    every = fit.table("every order").set_index("statement")
    lab, *_ = BLOCKS
    with_lab_first = every.index.str.startswith(f"{lab} >")
    first = every[with_lab_first].sum().rename(FIRST)
    others = [order for order in every.index if order != ORDER]
    every = every.loc[[ORDER, *others]]
    first_row = first.to_frame().T
    return pd.concat([asked, first_row, every])


def name_statement(statement: str) -> str:
    """A statement about blocks in the words of the claim."""
    if statement in NAMED:
        return NAMED[statement]
    return " > ".join(BLOCKS[block] for block in statement.split(" > "))


def print_hierarchies(hierarchies: Sequence[FittedHierarchy]) -> pd.DataFrame:
    """A row a statement; of each set its prior probability, and the posterior one with its range
    over divisions. Then what lab and family add to predictions, and the checks."""
    statements = list(hierarchies[0].orders.index)
    labels = [name_statement(statement) for statement in statements]
    labels.insert(1, "without families")
    columns = {"statement": [*labels, "elpd from lab and family (SE)", "checks passed"]}
    for each in hierarchies:
        rows = each.orders.to_dict("index")
        prior = [f"{rows[statement]['prior']:.2f}" for statement in statements]
        after = []
        for row in rows.values():
            reach = f"{row['lowest']:.2f}–{row['highest']:.2f}"
            after.append(f"{row['probability']:.2f} ({reach})")
        prior.insert(1, "")
        without_families = rows[ABOVE_BOTH]["without_families"]
        after.insert(1, f"{without_families:.2f}")
        error = format_number(each.gained_error, 2)
        gained = f"{format_number(each.gained)} ({error})"
        n_checks = len(each.gate.checks)
        checks = f"{each.passed} of {n_checks}"
        columns[f"{each.words}: prior"] = [*prior, "", ""]
        columns[f"{each.words}: posterior (range)"] = [*after, gained, checks]
    return pd.DataFrame(columns)


def draw_hierarchy(
    hierarchies: Sequence[FittedHierarchy], shares: pd.DataFrame, xlabel: str, axes: Axes
) -> None:
    """Above the posterior: draws of the three standard deviations, a panel a set of evidence with
    the probabilities of the study's order and of the lab above both. Below the test: `shares`."""
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101
    axes.remove()
    rows = figure.add_gridspec(2, 1, height_ratios=[1.0, 1.35])
    grid = rows[0].subgridspec(1, len(hierarchies), wspace=0.12)
    panels = []
    for place in range(len(hierarchies)):
        panels.append(figure.add_subplot(grid[place]))
    for panel, each in zip(panels, hierarchies, strict=True):
        draw_half_eyes(each.spreads, panel)
        asked = {name_statement(ORDER): ORDER, "lab > shape and size": ABOVE_BOTH}
        chances = []
        for words, statement in asked.items():
            chance = format_number(each.probability(statement), 2)
            chances.append(f"P({words}) = {chance}")
        heading = f"{each.words}, {each.n_models} models"
        title = "\n".join([heading, *chances])
        panel.set_title(title, fontsize=TITLE, fontweight="normal", loc="left")
        panel.set_xlabel("posterior: SD over models")
    reach = max(panel.get_xlim()[1] for panel in panels)
    for panel in panels:
        panel.set_xlim(0, reach)
    for panel in panels[1:]:
        panel.set_yticklabels([])
    below = figure.add_subplot(rows[1])
    test = draw_forest(shares, below, label="what", null=0.0)
    test.set_xlabel(f"test: {xlabel}")
    figure.set_figheight(HEIGHT)


HEIGHT, TITLE = 6.4, 8.0
"""Inches of the figure, and points of the titles."""
