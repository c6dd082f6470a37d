"""The design: 16 recipes in an orthogonal array, five models each chosen D-optimally, one of them with a second seed.

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

from dataclasses import asdict
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from numpy.polynomial.legendre import legval

from thermostats.studies.nursery.factors import BUILDS, N_LAYERS, RECIPE, SHAPES, TIED

SEED = 20
"""Seed of the design that ships."""
DISTINCT = 5
"""Distinct models per recipe; a sixth repeats one of them with another seed."""
STARTS = 8
"""Random starts of the exchange, of which the best is kept."""
TWO_LEVEL = {"decay": (0, 2), "schedule": (1, 3), "peak": (0, 1, 3), "dropout": (0, 2, 3), "corpus": (0, 1, 2, 3)}
"""Two-level factor → coordinates whose sum (mod 2) is its level; all different, none inside one pair."""
GEOMETRY = ("log_L", "log_rho")
CURVATURE = (("log_L", 2), ("log_L", 3), ("log_rho", 2))
"""Legendre polynomials that, with the linear terms, leave each of the four depths and three densities its own level."""
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


def recipes() -> pd.DataFrame:
    """The 16 recipes: columns `recipe` (r01 … r16) and the factors of RECIPE."""
    rows = []
    for i, point in enumerate(product((0, 1), repeat=4)):
        level = {"optimiser": 2 * point[0] + point[1], "init": 2 * point[2] + point[3]}
        level |= {name: sum(point[c] for c in coordinates) % 2 for name, coordinates in TWO_LEVEL.items()}
        row = {"recipe": f"r{i + 1:02d}"} | {name: RECIPE[name][level[name]] for name in RECIPE}
        rows.append(row | ({"decay": "none"} if row["optimiser"] == "adam" else {}))
    return pd.DataFrame(rows)


def candidates() -> pd.DataFrame:
    """Every model that could be built within a recipe: architecture, norm, position, tying, L, d, H, d_h."""
    rows = [
        asdict(build) | {"tied": tied, "n_layers": depth, "d_model": d, "n_heads": d // d_head, "d_head": d_head}
        for build, tied, depth, (d, d_head) in product(BUILDS, TIED, N_LAYERS, SHAPES)
    ]
    return pd.DataFrame(rows)


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
    sample = candidates().iloc[:1].merge(recipes().iloc[:1], how="cross")
    names = list(model_matrix(sample))
    recipe, architecture = list(_recipe(sample)), list(_architecture(sample))
    crossed = [name for name in names if name.endswith(tuple(f" x {g}" for g in GEOMETRY))]
    geometry = [*GEOMETRY, *(f"P{k}({g})" for g, k in CURVATURE)]
    main = {"recipe": recipe, "architecture": architecture, "geometry": geometry, "scale": ["log_d"]}
    return main | {"recipe x geometry": crossed}


def design(seed: int = SEED) -> pd.DataFrame:
    """The whole design, 96 rows, in the random order in which it is trained.

    Columns: model (r01-1 … r16-6), recipe and its factors, what candidates() has, rho, seed, replicate_of.
    """
    rng = np.random.default_rng(seed)
    starts = (_exchange(np.random.default_rng([seed, start])) for start in range(STARTS))
    _, frame = max(starts, key=lambda found: found[0])
    frame["replicate_of"] = ""
    repeated = []
    for _, rows in frame.groupby("recipe", sort=True):
        again = rows.iloc[[int(rng.integers(len(rows)))]].copy()
        again["replicate_of"] = again["model"]
        again["model"] = again["recipe"] + f"-{DISTINCT + 1}"
        repeated.append(again)
    frame = pd.concat([frame, *repeated], ignore_index=True)
    frame["seed"] = rng.choice(10**6, size=len(frame), replace=False)
    frame["rho"] = frame["n_heads"] / frame["d_head"]
    frame = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    first = ["model", *recipes().columns, *candidates().columns, "rho", "seed", "replicate_of"]
    return frame[first]


def _exchange(rng: np.random.Generator) -> tuple[float, pd.DataFrame]:
    pool, menu = recipes(), candidates()
    everything = [model_matrix(menu.assign(**recipe)).to_numpy() for recipe in pool.to_dict("records")]
    allowed = _allowed(menu)
    slots = [(s // DISTINCT, allowed[s % len(allowed)]) for s in range(len(pool) * DISTINCT)]
    picks = np.array([rng.choice(options) for _, options in slots])
    rows = np.array([everything[r][pick] for (r, _), pick in zip(slots, picks, strict=True)])
    inverse = np.linalg.inv(rows.T @ rows + 1e-6 * np.eye(rows.shape[1]))
    gained = True
    while gained:
        gained = False
        for s, (r, options) in enumerate(slots):
            best, factor = _best_swap(everything[r][options], rows[s], inverse)
            if factor > 1 + 1e-6:
                gained, picks[s], rows[s] = True, options[best], everything[r][options[best]]
                inverse = np.linalg.inv(rows.T @ rows + 1e-6 * np.eye(rows.shape[1]))
    frame = pd.concat([menu.iloc[[pick]].assign(**pool.iloc[r]) for (r, _), pick in zip(slots, picks, strict=True)])
    frame["model"] = [f"{recipe}-{k + 1}" for recipe in pool["recipe"] for k in range(DISTINCT)]
    return float(np.linalg.slogdet(rows.T @ rows)[1]), frame.reset_index(drop=True)


def _allowed(menu: pd.DataFrame) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Places in the menu with depth s mod 4 and density s mod 3, for s = 0 … 11."""
    density = menu["n_heads"] / menu["d_head"]
    densities = sorted(density.unique())
    return [
        np.flatnonzero((menu["n_layers"] == N_LAYERS[s % len(N_LAYERS)]) & (density == densities[s % len(densities)]))
        for s in range(len(N_LAYERS) * len(densities))
    ]


def _best_swap(options: Matrix, old: Matrix, inverse: Matrix) -> tuple[int, float]:
    """The option that raises det(X'X) most when it takes the old row's place, and by what factor (Fedorov's delta)."""
    inside = options @ inverse
    spread, with_old = np.einsum("ij,ij->i", inside, options), inside @ old
    own = float(old @ inverse @ old)
    factor = (1 + spread) * (1 - own) + with_old**2
    best = int(np.argmax(factor))
    return best, float(factor[best])


def _recipe(frame: pd.DataFrame) -> dict[str, Vector]:
    columns: dict[str, Vector] = {}
    for name in ("optimiser", "init"):
        columns |= {f"{name}={level}": v for level, v in _effects(frame[name], RECIPE[name]).items()}
    columns["decay"] = frame["decay"].map({"low": -1.0, "none": 0.0, "high": 1.0}).to_numpy()
    for name in ("schedule", "peak", "dropout", "corpus"):
        columns[name] = frame[name].map(dict(zip(RECIPE[name], (-1.0, 1.0), strict=True))).to_numpy()
    return columns


def _architecture(frame: pd.DataFrame) -> dict[str, Vector]:
    kinds = tuple(dict.fromkeys(build.architecture for build in BUILDS))
    columns = {f"architecture={kind}": v for kind, v in _effects(frame["architecture"], kinds).items()}
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
