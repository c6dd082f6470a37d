"""The first study's design, which ships: 16 recipes in an orthogonal array, five models each chosen
D-optimally, one of them with a second seed.

Recipes: the 16 points of GF(2)^4; optimiser and initialisation take four levels each from two pairs of coordinates, the
two-level factors are products of coordinates (Addelman 1962, doi 10.1080/00401706.1962.10490038). Main effects of the
recipe are orthogonal to each other, but for decay, which Adam lacks, and initialisation (r = 0.2 with two of its
levels); each two-level factor is aliased with part of the interaction optimiser × init.

Geometry: distinct models are numbered 0 … 79 through the recipes; model s has the depth s mod 4 and the head density
s mod 3, so that depths and densities are crossed evenly and every recipe has all of both.

The rest (architecture, norm, position, tying, width): X maximises det(X'X) for main effects of recipe, architecture,
geometry (every level of L and of rho free) and scale, and for recipe × geometry interactions in log L and log rho, by
Fedorov's exchange (1972; Cook and Nachtsheim 1980, doi 10.1080/00401706.1980.10486162). Interactions recipe ×
architecture and architecture × geometry are not separated from these.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from numpy.polynomial.legendre import legval

from thermostats.studies.nursery.shipped import shipped_table

RECIPE: dict[str, tuple[str, ...]] = {
    "optimiser": ("adamw", "adam", "sgd", "muon"),
    "init": ("normal", "depth_scaled", "small_wang", "fan_in"),
    "decay": ("low", "high"),
    "schedule": ("cosine", "constant"),
    "peak": ("low", "high"),
    "dropout": ("none", "tenth"),
    "corpus": ("english", "synthetic"),
}
"""Factors of the recipe and their levels. `adam` has no weight decay: there `decay` does not exist, and is none."""
ARCHITECTURES = ("gpt2", "opt", "gpt_neox", "llama")
N_LAYERS = (2, 4, 9, 20)
"""L, about equal steps of its logarithm; 20 is the smallest depth at which five phases can be distinguished (C15)."""
SHAPES = ((32, 4), (32, 8), (32, 16), (72, 6), (72, 12), (72, 24))
"""(width d, head width d_h); H = d/d_h, so that head density rho = H/d_h is 2, 1/2 and 1/8 at either width."""
CHECKPOINTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares of training after which a checkpoint was kept."""
GEOMETRY = ("log_L", "log_rho")
CURVATURE = (("log_L", 2), ("log_L", 3), ("log_rho", 2))
"""Legendre polynomials that, with the linear terms, leave each of the four depths and three densities its own level."""
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


def model_matrix(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of the design's linear model for rows of a design, effect-coded, logarithms centred and scaled to ±1.

    A nested factor is 0 where it does not exist (decay under Adam). Unknown levels raise KeyError.
    """
    columns = {"mean": np.ones(len(frame))} | _recipe(frame) | _architecture(frame)
    geometry = {"log_L": _unit(frame["n_layers"], N_LAYERS), "log_rho": _log_rho(frame)}
    columns |= geometry
    columns |= {f"P{k}({g})": legval(geometry[g], np.eye(k + 1)[k]) for g, k in CURVATURE}
    columns["log_d"] = _unit(frame["d_model"], [d for d, _ in SHAPES])
    for name, values in _recipe(frame).items():
        columns |= {f"{name} x {g}": values * geometry[g] for g in GEOMETRY}
    return pd.DataFrame(columns, index=frame.index)


@cache
def blocks() -> dict[str, list[str]]:
    """Columns of the model matrix by block: recipe, architecture, geometry, scale, recipe x geometry."""
    sample = shipped_table().head(1)
    names = list(model_matrix(sample))
    recipe, architecture = list(_recipe(sample)), list(_architecture(sample))
    crossed = [name for name in names if name.endswith(tuple(f" x {g}" for g in GEOMETRY))]
    geometry = [*GEOMETRY, *(f"P{k}({g})" for g, k in CURVATURE)]
    main = {"recipe": recipe, "architecture": architecture, "geometry": geometry, "scale": ["log_d"]}
    return main | {"recipe x geometry": crossed}


def _recipe(frame: pd.DataFrame) -> dict[str, Vector]:
    columns: dict[str, Vector] = {}
    for name in ("optimiser", "init"):
        columns |= {f"{name}={level}": v for level, v in _effects(frame[name], RECIPE[name]).items()}
    columns["decay"] = frame["decay"].map({"low": -1.0, "none": 0.0, "high": 1.0}).to_numpy()
    for name in ("schedule", "peak", "dropout", "corpus"):
        columns[name] = frame[name].map(dict(zip(RECIPE[name], (-1.0, 1.0), strict=True))).to_numpy()
    return columns


def _architecture(frame: pd.DataFrame) -> dict[str, Vector]:
    levels = _effects(frame["architecture"], ARCHITECTURES)
    columns = {f"architecture={kind}": v for kind, v in levels.items()}
    norm = np.where(frame["norm"] == "pre", -1.0, 1.0)
    position = np.where(frame["position"] == "none", -1.0, 1.0)
    tied = np.where(frame["tied"], 1.0, -1.0)
    return columns | {"norm": norm, "position": position, "norm x position": norm * position, "tied": tied}


def _effects(values: pd.Series, levels: tuple[str, ...]) -> dict[str, Vector]:
    last = (values == levels[-1]).to_numpy(float)
    return {level: (values == level).to_numpy(float) - last for level in levels[:-1]}


def _log_rho(frame: pd.DataFrame) -> Vector:
    densities = [d / d_head**2 for d, d_head in SHAPES]
    return _unit(frame["n_heads"] / frame["d_head"], densities)


def _unit(values: pd.Series, levels: tuple[int, ...] | list[int] | list[float]) -> Vector:
    low, high = np.log(min(levels)), np.log(max(levels))
    scaled: Vector = 2 * (np.log(values.to_numpy(float)) - low) / (high - low) - 1
    return scaled
