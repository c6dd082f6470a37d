"""Beside the heritage posterior: partial F, Freedman–Lane, dominance and its null, a mixed model, common R²."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import holm
from thermostats.modelling.classical.mixed import mixed_model
from thermostats.modelling.heritage.blocks import Design
from thermostats.modelling.heritage.shares import Dominance, block_f, dominance, freedman_lane
from thermostats.modelling.inference.draws import Array

PERMUTATIONS = 4999
Blocks = dict[str, list[str]]


def model_frame(laid_out: Design) -> tuple[pd.DataFrame, Blocks]:
    """One row a model: log_gain (mean over prompts), heritage, columns of geometry and scale; and the blocks."""
    mean, _ = laid_out.means()
    frame = pd.DataFrame({"log_gain": mean, "heritage": [laid_out.labs[j] for j in laid_out.lab]})
    blocks: Blocks = {"heritage": ["heritage"]}
    for name, basis in (("geometry", laid_out.geometry), ("scale", laid_out.scale)):
        blocks[name] = [f"{name}_{i + 1}" for i in range(basis.shape[1])]
        frame[blocks[name]] = basis
    return frame, blocks


def classical(laid_out: Design, *, seed: int, permutations: int = PERMUTATIONS) -> pd.DataFrame:
    """Block tests on the models' means: method, block, statistic, df, df_residual, p_value, p_holm, sd, note.

    Partial F and Freedman–Lane of every block given the others; a mixed model with a random intercept a lab, its
    standard deviations by REML and likelihood-ratio tests (χ²) of geometry and scale by maximum likelihood. Holm is
    across the blocks of one method. What cannot be computed is a row whose note says why.
    """
    frame, blocks = model_frame(laid_out)
    wanted: list[tuple[str, str, Callable[[], dict[str, object]]]] = [
        *(("partial F", block, partial(_partial, frame, blocks, block)) for block in blocks),
        *(("Freedman–Lane", block, partial(_shuffled, frame, blocks, block, seed, permutations)) for block in blocks),
        ("mixed model", "heritage", partial(_random_intercept, frame, blocks)),
        *(("mixed model", block, partial(_likelihood_ratio, frame, blocks, block)) for block in ("geometry", "scale")),
    ]
    rows = [_tried(method, block, compute) for method, block, compute in wanted]
    table = pd.DataFrame(
        rows, columns=["method", "block", "statistic", "df", "df_residual", "p_value", "sd", "residual_sd", "note"]
    )
    adjusted = pd.Series(np.nan, index=table.index)
    for _, group in table[table["p_value"].notna()].groupby("method"):
        of_blocks = holm({str(i): float(p) for i, p in group["p_value"].items()})
        adjusted[group.index] = [of_blocks[str(i)] for i in group.index]
    table.insert(6, "p_holm", adjusted)
    return table


def dominance_table(found: Dominance) -> pd.DataFrame:
    """Shares of R² per block beside their permutation null, raw and adjusted."""
    names = list(found.shares)
    return pd.DataFrame(
        {
            "block": names,
            "df": [found.degrees_of_freedom[name] for name in names],
            "share": [found.shares[name] for name in names],
            "null_mean": [found.null_mean[name] for name in names],
            "null_upper": [found.null_upper[name] for name in names],
            "adjusted": [found.adjusted[name] for name in names],
            "p_value": [found.p_values[name] for name in names],
            "rank": [found.order.index(name) + 1 for name in names],
            "adjusted_rank": [found.adjusted_order.index(name) + 1 for name in names],
            "null_order_probability": found.null_order_probability,
            "claimed_order_null_probability": found.asked_order_null_probability,
        }
    )


def block_dominance(laid_out: Design, *, seed: int) -> Dominance:
    """Dominance analysis of heritage, geometry and scale on the models' means; raises UsageError as `dominance`."""
    frame, blocks = model_frame(laid_out)
    return dominance(frame, "log_gain", blocks, seed=seed)


def commonality(laid_out: Design) -> pd.DataFrame:
    """R² of geometry and scale each alone and in common, without and given heritage: given, part, r_squared.

    unique_g = R²(g, s, ·) − R²(s, ·); common = R²(g, ·) + R²(s, ·) − R²(g, s, ·) − R²(·), which may be negative.
    """
    frame, blocks = model_frame(laid_out)
    y = frame["log_gain"].to_numpy()
    designs = {name: frame[columns].to_numpy(np.float64) for name, columns in blocks.items() if name != "heritage"}
    designs["heritage"] = np.eye(len(laid_out.labs))[laid_out.lab]

    def r_squared(names: Sequence[str]) -> float:
        x = np.column_stack([np.ones(y.size), *(designs[name] for name in names)])
        residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        return float(1 - np.square(residual).sum() / np.square(y - y.mean()).sum())

    rows = []
    for given in ((), ("heritage",)):
        both, g, s = (r_squared((*given, *names)) for names in (("geometry", "scale"), ("geometry",), ("scale",)))
        base = r_squared(given)
        parts = {"geometry alone": both - s, "scale alone": both - g, "in common": g + s - both - base}
        rows += [{"given": ", ".join(given) or "nothing", "part": part, "r_squared": v} for part, v in parts.items()]
    return pd.DataFrame(rows)


def shape_parts(geometry: Array, scale: Array, laid_out: Design) -> dict[str, Array]:
    """Draws of the SD of geometry and scale together, and of what each has beyond the other's columns.

    Of the joint contribution f_g + f_s: what regression on scale leaves is geometry's alone, and the reverse.
    """
    together = geometry + scale
    centred = together - together.mean(axis=-1, keepdims=True)

    def beyond(basis: Array) -> Array:
        q, _ = np.linalg.qr(basis)
        return np.asarray((centred - (centred @ q) @ q.T).std(axis=-1))

    return {
        "sd_geometry_and_scale": centred.std(axis=-1),
        "sd_geometry_alone": beyond(laid_out.scale),
        "sd_scale_alone": beyond(laid_out.geometry),
    }


def _tried(method: str, block: str, compute: Callable[[], dict[str, object]]) -> dict[str, object]:
    try:
        found = compute()
    except UsageError as error:
        found = {"note": f"not possible: {error}"}
    return {"method": method, "block": block, "note": "", **found}


def _partial(frame: pd.DataFrame, blocks: Blocks, block: str) -> dict[str, object]:
    found = block_f(frame, "log_gain", blocks)[block]
    return {"statistic": found.f, "df": found.df_block, "df_residual": found.df_residual, "p_value": found.p_value}


def _shuffled(frame: pd.DataFrame, blocks: Blocks, block: str, seed: int, permutations: int) -> dict[str, object]:
    found = freedman_lane(frame, "log_gain", blocks, block, seed=seed, permutations=permutations)
    return {"statistic": found.estimate, "p_value": found.p_value}


def _formula(blocks: Blocks, names: Sequence[str]) -> str:
    return "log_gain ~ " + (" + ".join(itertools.chain(*(blocks[name] for name in names))) or "1")


def _random_intercept(frame: pd.DataFrame, blocks: Blocks) -> dict[str, object]:
    found = mixed_model(frame, _formula(blocks, ("geometry", "scale")), "heritage")
    note = found.note if found.converged else f"did not converge; {found.note}"
    return {"sd": found.group_sd, "residual_sd": found.residual_sd, "note": note}


def _likelihood_ratio(frame: pd.DataFrame, blocks: Blocks, block: str) -> dict[str, object]:
    others = [name for name in ("geometry", "scale") if name != block]
    full = mixed_model(frame, _formula(blocks, ("geometry", "scale")), "heritage", reml=False)
    reduced = mixed_model(frame, _formula(blocks, others), "heritage", reml=False)
    df = len(blocks[block])
    statistic = max(2 * (full.log_likelihood - reduced.log_likelihood), 0.0)
    converged = full.converged and reduced.converged
    return {
        "statistic": statistic if converged else math.nan,
        "df": df,
        "p_value": float(stats.chi2.sf(statistic, df)) if converged else math.nan,
        "note": "; ".join(filter(None, ["" if converged else "did not converge", full.note])),
    }
