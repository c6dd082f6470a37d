"""The nursery's second study before its training: candidates compared, rules tried in simulated
worlds, predictions.

Writes `candidates.csv`, `rules.csv` and `predictions.csv` into `data/nursery/second`, beside
`design.toml`.
"""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy import stats

from nursery import designs
from nursery.component_worlds import (
    AS_FOUND,
    CLAIMED,
    FOUND,
    ComponentWorld,
    logs,
    operating,
    rates,
)
from nursery.components import Array, over_reference, root
from nursery.recipes import drawn
from nursery.tables import write
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, Below, Decide, V
from thermostats.modelling.classical.counts import estimate_proportion
from thermostats.studies.nursery.study_rows import build_t_estimate, fit_inner_slope, select_final
from thermostats.studies.nursery.third import COLUMNS
from thermostats.studies.nursery.training_choices import measure_cell_correlation
from thermostats.tables.schemas import NURSERY

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "data" / "nursery" / "second"
SIMULATIONS = 400
SHALLOW = 2
"""Depth at which the penultimate block is the first block, which adds to bare embeddings: no
penultimate gain."""
CHOSEN = "s"
"""First letter of recipes that were chosen, not drawn."""
DEEP = "L=4,8,16 rho=0.125,2 d="
CANDIDATES = [
    (16, DEEP + "32,80"),
    (32, "L=4,16 rho=0.125,2 d=32,80"),
    (32, DEEP + "32,80"),
    (32, DEEP + "32,128"),
    (48, "L=4,16 rho=0.125,2 d=32,80"),
    (48, DEEP + "32,80"),
    (64, "L=4,16 rho=0.125,2 d=32"),
]
"""Recipes and shapes."""


def along(models: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """One row per model and checkpoint of the tables: columns of `models`, `step`, `share` of the
    training.

    Of block L − 1 `log_gain` and `log_gain_sd`; `log_wv` and `log_wo`, means over layers of log
    σ_max.
    """
    models = models.fillna(dict.fromkeys(("kind", "parent", "replicate_of"), ""))
    models = models.assign(**{name: np.log(models[column]) for name, column in COLUMNS.items()})
    spectra = gains.assign(log_wv=np.log(gains["wv_norm"]), log_wo=np.log(gains["wo_norm"]))
    spectra = spectra.groupby(["model", "step"], as_index=False)[["log_wv", "log_wo"]].mean()
    block = gains.merge(models[["model", "n_layers"]], on="model")
    block = block.loc[
        block["layer"] == block["n_layers"] - 1, ["model", "step", "log_gain", "log_gain_sd"]
    ]
    rows = models.merge(block, on="model").merge(spectra, on=["model", "step"])
    return rows.assign(share=rows["step"] / rows["steps"])


def ends(models: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Rows of `along` at the end: models of drawn recipes with their first seeds."""
    rows = along(models, gains)
    chosen = (rows["kind"] == "") & (rows["replicate_of"] == "") & (rows["step"] == rows["steps"])
    chosen &= ~rows["recipe"].str.startswith(CHOSEN)
    return rows[chosen & np.isfinite(rows["log_gain"])].reset_index(drop=True)


def at_every_shape(rows: pd.DataFrame) -> tuple[Array, Array]:
    """Log gains (recipes, shapes) of the recipes that have a gain at every shape, and the logs of
    the shapes."""
    wide = rows.pivot(index="recipe", columns=list(COLUMNS), values="log_gain").dropna()
    return wide.to_numpy(np.float64), np.array(list(wide.columns), dtype=np.float64)


def candidates() -> pd.DataFrame:
    """Rates of the rules on the components for every candidate, with what it costs."""
    rows = []
    for recipes, text in CANDIDATES:
        grid = designs.parse_grid([text])
        design = designs.Design("candidate", 1, 64, np.inf, 8, grid, tuple(drawn(recipes, 23, 64)))
        facts = {
            "recipes": recipes,
            "shapes": text,
            "models": recipes * len(design.shapes),
            "core_hours": design.hours,
        }
        rows += [
            facts | row
            for row in operating(
                (recipes // 2, recipes - recipes // 2), logs(grid), simulations=SIMULATIONS
            )
        ]
        print(facts, flush=True)
    return pd.DataFrame(rows).round(3)


def verdict(rule: Decide, estimate: Estimate) -> str:
    """What a rule says of an estimate, which it calls x."""
    return rule.verdict(Result(quantities={"x": estimate}))


def mean_slope(rng: np.random.Generator, slope: float) -> str:
    """N03: slope on log L by recipe, 32 of them, t interval of the mean."""
    slopes = rng.normal(slope, np.hypot(0.058, 0.05 / np.sqrt(12) / 0.566), 32)
    return verdict(
        Below("x", 0), build_t_estimate(slopes.mean(), stats.sem(slopes), len(slopes) - 1, "")
    )


def factor(rng: np.random.Generator, difference: float) -> str:
    """N02: two corpora, 32 recipes whose other differences have SD 0.053; Holm over nine
    factors."""
    corpus = rng.random(32) < 0.5
    y = rng.normal(0, 0.053, 32) + difference * corpus
    p = [stats.ttest_ind(y[corpus], y[~corpus]).pvalue]
    p += [stats.pearsonr(rng.normal(size=32), y - difference * corpus).pvalue for _ in range(8)]
    return "supported" if min(p) * len(p) <= 0.05 else "inconclusive"


def spectra(rng: np.random.Generator, slope: float) -> str:
    """N05: log σ_max of 18 recipes of three optimisers on log √(rate/decay), SD 1.2, other
    differences of SD 0.3."""
    x = rng.normal(0, 1.2, 18)
    rows = pd.DataFrame(
        {"optimiser": list("alm") * 6, "x": x, "y": slope * x + rng.normal(0, 0.3, 18)}
    )
    rule = Decide((V("x").lower > 0.5) & (V("x").upper < 1.5), V("x").upper < 0.5)
    return verdict(rule, build_t_estimate(*fit_inner_slope(rows, "y", "x", "optimiser"), ""))


def ranks(rng: np.random.Generator, r: float) -> str:
    """N06, sign: a tenth of training against the end inside the cells of 12 shapes, 36 models
    each."""
    end = rng.normal(size=432)
    early = r * end + np.sqrt(1 - r * r) * rng.normal(size=432)
    cells = pd.Series(np.repeat(np.arange(12), 36))
    correlation = measure_cell_correlation(
        pd.Series(early), pd.Series(end), cells, pd.Series(np.tile(np.arange(36), 12))
    )
    return verdict(Above("x", 0.71), correlation)


def crossings(rng: np.random.Generator, share: float) -> str:
    """N06, tuning: 42 pairs, of which so many cross 1 clearly."""
    crossed = Estimate.build(estimate_proportion(int(rng.binomial(42, share)), 42))
    return verdict(Decide(V("x").lower > 0.01, V("x").upper < 0.10), crossed)


RULES: list[tuple[str, Callable[[np.random.Generator, Any], str], dict[str, float]]] = [
    (
        "N02 a factor moves the gain",
        factor,
        {"corpus 0.08": 0.08, "corpus 0.05": 0.05, "none": 0.0},
    ),
    (
        "N03 the gain falls with depth",
        mean_slope,
        {"slope −0.06": -0.06, "slope −0.03": -0.03, "none": 0.0},
    ),
    ("N05 σ_max follows √(rate/decay)", spectra, {"slope 1": 1.0, "slope 0.5": 0.5, "none": 0.0}),
    (
        "N06 a tenth of training predicts the end",
        ranks,
        {"r 0.9": 0.9, "r 0.71": 0.71, "none": 0.0},
    ),
    ("N06 tuning crosses 1", crossings, {"20%": 0.2, "5%": 0.05, "none": 0.0}),
]


def rules() -> pd.DataFrame:
    """How often every rule decides what, by world."""
    rows = []
    for rule, tried, worlds in RULES:
        for world, size in worlds.items():
            verdicts = [
                tried(np.random.default_rng([7, number]), size) for number in range(SIMULATIONS)
            ]
            rates = {
                name.replace(" ", "_"): verdicts.count(name) / SIMULATIONS
                for name in ("supported", "not supported")
            }
            rows.append({"rule": rule, "world": world, "simulations": SIMULATIONS} | rates)
    return pd.DataFrame(rows)


def predictions() -> pd.DataFrame:
    """What the first study's fit (recipes as random levels) says of the second, with 95%
    intervals."""
    rows = select_final(Evidence(ROOT / "data").named(NURSERY))
    rows = rows[
        rows["comparable"] & (rows["n_layers"] > SHALLOW) & rows["penultimate_gain"].notna()
    ]
    rows = rows.assign(log_gain=np.log(rows["penultimate_gain_geometric"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("log_gain ~ log_L + log_rho + log_d", rows, groups=rows["recipe"]).fit()
    names = ["log_L", "log_rho", "log_d"]
    slopes = fit.params[names].to_numpy()
    covariance = fit.cov_params().loc[names, names].to_numpy()
    draws = np.random.default_rng(1).multivariate_normal(slopes, covariance, 20_000)
    geometry, scale = map(root, over_reference(draws))
    quantities: dict[str, Array] = {f"slope on {name}": draws[:, i] for i, name in enumerate(names)}
    quantities |= {
        "SD of geometry over the reference": geometry,
        "SD of scale over the reference": scale,
    }
    quantities["geometry over scale"] = geometry / scale
    table = [{"quantity": what, **_ends(values)} for what, values in quantities.items()]
    recipe = float(np.sqrt(fit.cov_re.to_numpy()[0, 0]))
    table.append({"quantity": "SD of recipe", "predicted": recipe})
    return pd.DataFrame(table).round(4)


SIZES = (
    replace(CLAIMED, name="as claimed"),
    replace(CLAIMED, name="as claimed, with the corpora as found", **AS_FOUND),
    replace(FOUND, name="as found"),
    ComponentWorld("as found in English alone", 0.032, 0.011, 0.017, residual=0.036),
    ComponentWorld(
        "as found in the synthetic language alone", 0.061, 0.081, 0.0098, residual=0.125
    ),
)
"""True components by which a larger study is sized: those declared, and medians of what the second
study found."""
TIMES = (1, 2, 3, 4, 6, 8, 12, 18, 27)
EACH = 200
WANTED = 0.8


def sizes() -> pd.DataFrame:
    """How often N01's rule finds the order in studies so many times as large, up to the first that
    does in 80%."""
    x = logs({"L": [4, 8, 16], "rho": [0.125, 2], "d": [32, 80]})
    rows = []
    for place, world in enumerate(SIZES):
        for times in TIMES if world.holds else (1, 4, TIMES[-1]):
            recipes = [21 * times, 11 * times] if "alone" not in world.name else [32 * times]
            decided = rates(world, recipes, x, simulations=EACH, seed=100 + place)
            facts = {
                "sizes": world.name,
                "holds": world.holds,
                "recipes": sum(recipes),
                "models": sum(recipes) * len(x),
            }
            rows.append(
                facts
                | {name: decided[name] for name in ("simulations", "supported", "not_supported")}
            )
            print(rows[-1], flush=True)
            if float(decided["supported"]) >= WANTED:
                break
    return pd.DataFrame(rows)


def _ends(values: Array) -> dict[str, float]:
    low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
    return {"predicted": float(middle), "lower": float(low), "upper": float(high)}


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--trained", type=Path, help="write the tables of this folder's trainings instead"
    )
    parser.add_argument(
        "--sizes", action="store_true", help="write how large a study would have to be instead"
    )
    arguments = parser.parse_args()
    trained = arguments.trained
    if arguments.sizes:
        sizes().to_csv(OUT / "sizes.csv", index=False, lineterminator="\n")
        sys.exit()
    if trained is not None:
        write(OUT / "design.toml", trained, OUT)
        sys.exit()
    for name, made in (("predictions", predictions), ("rules", rules), ("candidates", candidates)):
        made().to_csv(OUT / f"{name}.csv", index=False)
        print(name, flush=True)
