"""C04's first screen: what it says of the fitted model is what `fit_heritage` says when called
directly, and what it says of the prior is what the prior gives when simulated apart."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from altered import analysis, shipped
from matplotlib.figure import Figure

import thermostats
from thermostats.modelling.heritage.law import ORDER, list_bases
from thermostats.modelling.mixed_model import MixedDesign
from thermostats.plots.posterior import draw_half_eyes
from thermostats.studies.delia2026 import fitted_hierarchy as fitted
from thermostats.studies.delia2026.hierarchy import CODINGS, WHOLE_SHAPE

GAIN = "penultimate_gain"


@pytest.fixture(scope="module")
def pooled() -> fitted.FittedHierarchy:
    """On all evidence."""
    found = analysis("c04").describe_hierarchies(shipped().fork())
    return next(each for each in found if each.words == "all evidence")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """The models of all evidence as a user reads them, with the declared division's columns."""
    table = thermostats.model_rows("pooled", GAIN)
    shape = np.log(table["n_layers"].astype(float)) - np.log(table["d_model"].astype(float))
    size = np.log(table["n_params_nonembedding"].astype(float))
    named = {"log_shape": shape, "log_rho": np.log(table["rho"].astype(float)), "log_n": size}
    return table.assign(**named).dropna(subset=[*named, "n_heads", "d_head"])


def test_the_page_says_what_a_user_finds(
    pooled: fitted.FittedHierarchy, rows: pd.DataFrame
) -> None:
    blocks = CODINGS[0].blocks
    fit = thermostats.fit_heritage(rows, outcome=GAIN, estimand=GAIN, blocks=blocks, seed=4)
    assert pooled.n_models == len(fit.rows)
    for order in (ORDER, fitted.ABOVE_BOTH):
        assert pooled.probability(order) == pytest.approx(fit.probability(order), abs=1e-12)
    spreads = [fit.quantities[f"sd_{block}"].ravel() for block in fitted.BLOCKS]
    for order in permutations(range(3)):
        first, second, third = (spreads[place] for place in order)
        direct = float(((first > second) & (second > third)).mean())
        named = " > ".join(list(fitted.BLOCKS)[place] for place in order)
        assert pooled.probability(named) == pytest.approx(direct, abs=1e-12)
    shapes = {name: columns for name, columns in blocks.items() if name != "heritage"}
    without = thermostats.fit_heritage(rows, outcome=GAIN, estimand=GAIN, blocks=shapes, seed=4)
    table = thermostats.compare({"with": fit, "without": without})
    assert pooled.gained == pytest.approx(table.loc["with", "elpd"] - table.loc["without", "elpd"])
    assert pooled.gained_error == pytest.approx(table.loc["without", "dse"])


def test_the_default_division_is_among_those_over_which_it_ranges(
    pooled: fitted.FittedHierarchy, rows: pd.DataFrame
) -> None:
    """Of `fit_heritage(rows)` with nothing said of shape and size."""
    fit = thermostats.fit_heritage(rows, outcome=GAIN, estimand=GAIN, seed=4)
    row = pooled.orders.loc[ORDER]
    assert row["lowest"] - 0.02 <= fit.probability(ORDER) <= row["highest"] + 0.02
    assert row["lowest"] <= row["probability"] <= row["highest"]
    c04 = analysis("c04")
    ranged = c04.fit_division(shipped().fork().named("pooled"), c04.GAIN, WHOLE_SHAPE)
    assert pooled.divisions == len({*CODINGS, WHOLE_SHAPE})
    assert ranged.probability(ORDER) == pytest.approx(fit.probability(ORDER), abs=1e-12)


def test_the_prior_is_that_of_an_independent_simulation(
    pooled: fitted.FittedHierarchy, rows: pd.DataFrame
) -> None:
    """τ half-normal, Dirichlet shares, normal effects, by hand; errors of two simulations."""
    fit = thermostats.fit_heritage(
        rows, outcome=GAIN, estimand=GAIN, blocks=CODINGS[0].blocks, seed=4
    )
    bases = list_bases(fit.designed(MixedDesign))
    rng = np.random.default_rng(99)
    n = 20_000
    shares = rng.dirichlet(np.ones(len(bases) + 1), size=n)
    total = np.abs(rng.normal(0.0, 0.5, size=n))
    sd = {}
    for place, (name, columns) in enumerate(bases.items()):
        effects = rng.normal(size=(n, columns.shape[1])) @ columns.T
        sd[name] = (total * np.sqrt(shares[:, place]))[:, None] * effects
    spread = {name: values.std(axis=1) for name, values in sd.items()}
    both = (sd["geometry"] + sd["scale"]).std(axis=1)
    held = {
        ORDER: (spread["heritage"] > spread["geometry"]) & (spread["geometry"] > spread["scale"]),
        fitted.ABOVE_BOTH: spread["heritage"] > both,
        fitted.FIRST: spread["heritage"] > np.maximum(spread["geometry"], spread["scale"]),
    }
    for statement, truth in held.items():
        p = float(truth.mean())
        error = np.sqrt(2 * p * (1 - p) / n)
        assert abs(p - pooled.orders.loc[statement, "prior"]) < 4.5 * error, statement


def test_every_order_adds_up_and_the_table_prints_them(pooled: fitted.FittedHierarchy) -> None:
    orders = pooled.orders[pooled.orders.index.str.count(">") == 2]
    assert len(orders) == 6 and orders.index[0] == ORDER
    assert orders["probability"].sum() == pytest.approx(1.0)
    assert orders["prior"].sum() == pytest.approx(1.0)
    printed = fitted.print_hierarchies([pooled]).set_index("statement")
    row = pooled.orders.loc[ORDER]
    text = f"{row['probability']:.2f} ({row['lowest']:.2f}–{row['highest']:.2f})"
    assert tuple(printed.loc["lab > shape > size"]) == (f"{row['prior']:.2f}", text)
    without = pooled.orders.loc[fitted.ABOVE_BOTH, "without_families"]
    assert printed.iloc[1].tolist() == ["", f"{without:.2f}"] and without > 0.9
    assert printed.loc["checks passed"].iloc[1] == "7 of 7"


def test_half_eyes_hold_the_draws() -> None:
    normal = np.abs(np.random.default_rng(1).normal(0.1, 0.02, 2000))
    even = np.linspace(0.0, 0.1, 200)
    axes = draw_half_eyes({"lab": normal, "size": even}, Figure().add_subplot())
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lab", "size"]
    middles = [float(np.median(values)) for values in (normal, even)]
    points = [part.get_offsets()[0][0] for part in axes.collections if len(part.get_offsets()) == 1]
    assert [x for x in points if x] == pytest.approx(middles)
    assert axes.get_xlim()[0] == 0.0


def test_no_page_says_that_a_posterior_decides_nothing() -> None:
    root = Path(__file__).parents[2]
    folders = {"analyses": "*.md", "docs": "**/*.md", "thermostats/reporting/templates": "*.md"}
    pages = [path for name, names in folders.items() for path in (root / name).glob(names)]
    said = [p.name for p in pages if re.search("decides? nothing", p.read_text("utf-8"), re.I)]
    assert len(pages) > 60 and said == []
