"""`fit_lineage` by shape of tree: how often it tells λ from 0, whether its intervals hold what they
state, large trees.

Power of the exact test of λ = 0 at 5%, 2,000 simulations a line: `results/lineage-power.csv`.
`--fits N`: N data sets a shape and size drawn from the prior, each fitted,
`results/lineage-calibration.csv`, resumable by line. `--speed`: CPU-seconds of large trees, of
`fit_lineage` too, `results/lineage-speed.csv`.
"""

from __future__ import annotations

import argparse
from os import getloadavg
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time

import numpy as np
import pandas as pd
from scipy import stats

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.heritage.law import TOTAL_SD
from thermostats.modelling.tree_likelihood import Restricted, fit_pagel, fit_pagel_by_pruning
from thermostats.tables.tree import Tree

RESULTS = Path(__file__).parent / "results"
SIZES = ((22, 5), (60, 20), (120, 40))
SHARES = (0.3, 0.6, 0.9)
LEVELS = (0.5, 0.94)
SPEEDS = (
    (1_000, "pruning"),
    (10_000, "pruning"),
    (1_000, "whole covariance"),
    (5_000, "pruning"),
    (1_000, "fit_lineage"),
    (2_000, "fit_lineage"),
    (5_000, "fit_lineage"),
)
"""Tips and the way of every line of `--speed`."""
Edge = tuple[str, str, float]


def star(clade: str, models: list[str]) -> list[Edge]:
    """Models of a clade side by side."""
    return [(model, clade, 1.0) for model in models]


def balanced(clade: str, models: list[str]) -> list[Edge]:
    """A clade in two halves, each in two, down to single models; all models as high."""
    deepest = int(np.ceil(np.log2(max(len(models), 2))))

    def split(above: str, own: list[str], left: int) -> list[Edge]:
        if len(own) == 1:
            return [(own[0], above, float(left))]
        halves, edges = (own[: len(own) // 2], own[len(own) // 2 :]), list[Edge]()
        for i, half in enumerate(halves):
            if len(half) == 1:
                edges.append((half[0], above, float(left)))
            else:
                edges += [(f"{above}.{i}", above, 1.0), *split(f"{above}.{i}", half, left - 1)]
        return edges

    return split(clade, models, deepest)


def ladder(clade: str, models: list[str]) -> list[Edge]:
    """A chain: every model is tuned from the one before."""
    return [(model, above, 1.0) for model, above in zip(models, [clade, *models], strict=False)]


SHAPES = {"star": star, "balanced": balanced, "ladder": ladder}


def grown(shape: str, n: int, clades: int) -> tuple[Tree, list[str]]:
    """A tree of n models in clades as equal as can be, and the models."""
    models = [f"m{i}" for i in range(n)]
    edges: list[Edge] = [("root", "", 0.0)]
    for number, own in enumerate(np.array_split(models, clades)):
        edges += [
            (f"clade {number}", "root", 1.0),
            *SHAPES[shape](f"clade {number}", [str(model) for model in own]),
        ]
    return Tree.build(pd.DataFrame(edges, columns=["name", "parent", "length"])), models


def power(shape: str, n: int, clades: int) -> dict[str, object]:
    """How often λ is told from 0."""
    tree, models = grown(shape, n, clades)
    test = Restricted.build(np.zeros(n), np.ones((n, 1)), tree.covariance(models))
    told = {f"power at λ = {share:g}": test.power(share, 1, size=2_000) for share in SHARES}
    return {"shape": shape, "models": n, "clades": clades, **told}


def calibration(shape: str, n: int, clades: int, fits: int) -> dict[str, object]:
    """Data sets from the prior, fitted: how often intervals of λ hold it, its rank, how often λ is
    not estimated."""
    tree, models = grown(shape, n, clades)
    roots = tree.roots()[[tree.place(model) for model in models]]
    roots /= np.sqrt(np.square(roots).sum(axis=1).max())
    centred = roots - roots.mean(axis=0)
    unit = np.sqrt(np.square(centred).sum(axis=1).mean())
    rng, ranks, held, warned = np.random.default_rng(len(models)), [], dict.fromkeys(LEVELS, 0), 0
    for seed in range(fits):
        share, total = rng.beta(1, 1), TOTAL_SD * abs(rng.standard_normal())
        drift, own = total * share**0.5 / unit, total * (1 - share) ** 0.5
        mean = 2 * TOTAL_SD * rng.standard_normal()
        y = (
            mean
            + drift * centred @ rng.standard_normal(roots.shape[1])
            + own * rng.standard_normal(n)
        )
        rows = pd.DataFrame({"model_id": models, "log_gain": y})
        fit = thermostats.fit_lineage(rows, tree, {}, seed=seed)
        drawn, truth = fit.quantities["lambda"].ravel(), drift**2 / (drift**2 + own**2)
        rank = float((drawn < truth).mean())
        ranks.append(rank)
        warned += any("λ cannot be estimated" in warning for warning in fit.warnings)
        for level in LEVELS:
            held[level] += abs(rank - 0.5) <= level / 2
    shares = {f"held at {level:.0%}": count / fits for level, count in held.items()}
    uniform = stats.kstest(ranks, "uniform").pvalue
    line = {"shape": shape, "models": n, "clades": clades, "fits": fits, **shares}
    return {**line, "p of uniform ranks": uniform, "said that λ is not estimated": warned / fits}


def speed() -> pd.DataFrame:
    """CPU-seconds of a tree of many tips, of Pagel's λ by restricted likelihood with a slope, and
    of the whole `fit_lineage`; the highest memory until then."""
    lines = []
    for n, way in SPEEDS:
        rng, start = np.random.default_rng(n), process_time()
        tree, models = grown("balanced", n, n // 10)
        made, start = process_time() - start, process_time()
        y, x = rng.standard_normal(n), np.column_stack([np.ones(n), rng.standard_normal(n)])
        refused = ""
        if way == "fit_lineage":
            found, refused = fit_whole(pd.DataFrame({"model_id": models, "log_gain": y}), tree)
        elif way == "pruning":
            found = fit_pagel_by_pruning(y, x, tree, models).parameter
        else:
            found = fit_pagel(y, x, tree.covariance(models)).parameter
        took, peak = process_time() - start, getrusage(RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        lines.append((n, len(tree), way, made, took, found, peak, getloadavg()[0], refused))
    columns = ["tips", "nodes", "by", "CPU-s of the tree", "CPU-s of λ", "λ", "GB", "load"]
    return pd.DataFrame(lines, columns=[*columns, "refused"])


def fit_whole(rows: pd.DataFrame, tree: Tree) -> tuple[float, str]:
    """λ by `fit_lineage`, or what it says where it refuses."""
    try:
        return float(thermostats.fit_lineage(rows, tree, {}).quantities["lambda"].mean()), ""
    except UsageError as error:
        return float("nan"), str(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=0)
    parser.add_argument("--speed", action="store_true")
    arguments = parser.parse_args()
    fits = arguments.fits
    if arguments.speed:
        table = speed()
        table.to_csv(
            RESULTS / "lineage-speed.csv", index=False, float_format="%.3g", lineterminator="\n"
        )
        print(table.to_string())
        return
    table = pd.DataFrame([power(shape, *size) for shape in SHAPES for size in SIZES])
    table.to_csv(
        RESULTS / "lineage-power.csv", index=False, float_format="%.3g", lineterminator="\n"
    )
    print(table.to_string())
    place = RESULTS / "lineage-calibration.csv"
    lines = pd.read_csv(place).to_dict("records") if place.is_file() else []
    for shape in SHAPES if fits else ():
        for n, clades in SIZES[:2]:
            if any((line["shape"], line["models"]) == (shape, n) for line in lines):
                continue
            lines.append(calibration(shape, n, clades, fits))
            pd.DataFrame(lines).to_csv(place, index=False, float_format="%.3g", lineterminator="\n")
            print(lines[-1])


if __name__ == "__main__":
    main()
