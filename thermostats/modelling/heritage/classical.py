"""Next to the heritage posterior: partial F, Freedman–Lane, dominance and its null, a mixed model, common R²."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import holm
from thermostats.modelling.classical.mixed import mixed_model
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.blocks import FAMILY
from thermostats.modelling.heritage.law import HeritageDesign, groups_of
from thermostats.modelling.heritage.partial_f import block_f, freedman_lane
from thermostats.modelling.heritage.variance_shares import corrected_shares, dominance, r_squared_of_sets

PERMUTATIONS = 4999
Blocks = dict[str, list[str]]


def model_frame(fit: Fit) -> tuple[pd.DataFrame, Blocks]:
    """One row per model: log_gain (mean over prompts), groups, columns of the other blocks; and the blocks.

    Families, which lie within labs, are not among them.
    """
    design, frame, blocks = fit.designed(HeritageDesign), pd.DataFrame({"log_gain": fit.model.observed}), Blocks()
    heritage = design.heritage
    for name, basis in design.bases.items():
        if name == FAMILY:
            continue
        if name in heritage.groups:
            blocks[name] = [name]
            frame[name] = groups_of(fit.rows, heritage.blocks[name]).to_numpy()
        else:
            blocks[name] = [f"{name}_{i + 1}" for i in range(basis.shape[1])]
            frame[blocks[name]] = basis
    return frame, blocks


def classical(fit: Fit, permutations: int = PERMUTATIONS) -> pd.DataFrame:
    """Block tests on the models' means: method, block, statistic, df, df_residual, p_value, p_holm, sd, note.

    Partial F and Freedman–Lane of every block given the others; a mixed model with a random intercept a lab, its
    standard deviations by REML and likelihood-ratio tests (χ²) of geometry and scale by maximum likelihood. Holm is
    across the blocks of one method. What cannot be computed is a row whose note says why.
    """
    frame, blocks = model_frame(fit)
    ways: list[tuple[str, Callable[[str], dict[str, object]]]] = [
        ("partial F", partial(_partial, frame, blocks)),
        ("Freedman–Lane", partial(_shuffled, frame, blocks, fit.seed, permutations)),
        ("mixed model", partial(_mixed, frame, blocks, fit.designed(HeritageDesign).lab)),
    ]
    rows: list[dict[str, object]] = []
    for method, compute in ways:
        for block in blocks:
            row: dict[str, object] = {"method": method, "block": block, "note": ""}
            try:
                rows.append(row | compute(block))
            except UsageError as error:
                rows.append(row | {"note": f"not possible: {error}"})
    columns = ["method", "block", "statistic", "df", "df_residual", "p_value", "sd", "residual_sd", "note"]
    table = pd.DataFrame(rows, columns=columns)
    adjusted = pd.Series(np.nan, index=table.index)
    for _, p in table["p_value"].dropna().groupby(table["method"]):
        adjusted[p.index] = list(holm(p.to_dict()).values())
    table.insert(6, "p_holm", adjusted)
    return table


def dominance_table(fit: Fit) -> pd.DataFrame:
    """Raw shares of R² per block with their permutation null, and corrected; a note where that is not possible."""
    frame, blocks = model_frame(fit)
    try:
        shares, corrected = (
            dominance(frame, "log_gain", blocks, seed=fit.seed),
            corrected_shares(frame, "log_gain", blocks),
        )
    except UsageError as error:
        return pd.DataFrame({"note": [f"not possible: {error}"]})
    return (
        shares.table.assign(corrected=pd.Series(corrected))
        .reset_index()
        .assign(
            null_order_probability=shares.null_order_probability,
            claimed_order_null_probability=shares.asked_order_null_probability,
        )
    )


def commonality(fit: Fit) -> pd.DataFrame:
    """R² of geometry and scale each alone and in common, without and given the lab: given, part, r_squared.

    unique_g = R²(g, s, ·) − R²(s, ·); common = R²(g, ·) + R²(s, ·) − R²(g, s, ·) − R²(·), which may be negative.
    """
    (frame, blocks), rows = model_frame(fit), []
    if not {"geometry", "scale"} <= set(blocks):
        return pd.DataFrame({"note": ["not possible: there is no block of geometry, or none of scale"]})
    r_squared = r_squared_of_sets(frame, blocks)
    for fixed in dict.fromkeys(["", fit.designed(HeritageDesign).lab]):
        base, g, s, both = (
            r_squared[frozenset({fixed, *names} - {""})]
            for names in ((), ("geometry",), ("scale",), ("geometry", "scale"))
        )
        parts = {"geometry alone": both - s, "scale alone": both - g, "in common": g + s - both - base}
        rows += [{"given": fixed or "nothing", "part": part, "r_squared": v} for part, v in parts.items()]
    return pd.DataFrame(rows)


def _partial(frame: pd.DataFrame, blocks: Blocks, block: str) -> dict[str, object]:
    f = block_f(frame, "log_gain", blocks)[block]
    return {"statistic": f.f, "df": f.df_block, "df_residual": f.df_residual, "p_value": f.p_value}


def _shuffled(frame: pd.DataFrame, blocks: Blocks, seed: int, permutations: int, block: str) -> dict[str, object]:
    test = freedman_lane(frame, "log_gain", blocks, block, seed=seed, permutations=permutations)
    return {"statistic": test.f, "p_value": test.p_value}


def _mixed(frame: pd.DataFrame, blocks: Blocks, lab: str, block: str) -> dict[str, object]:
    """Standard deviations of the model with all other blocks for labs, the likelihood-ratio test of another block."""
    if not lab:
        raise UsageError("there are no labs")
    others = [column for name, columns in blocks.items() if name != lab for column in columns]
    full = mixed_model(frame, f"log_gain ~ {' + '.join(others) or '1'}", lab, reml=block == lab)
    if block == lab:
        note = full.note if full.converged else f"did not converge; {full.note}"
        return {"sd": full.group_sd, "residual_sd": full.residual_sd, "note": note}
    rest = " + ".join(column for column in others if column not in blocks[block]) or "1"
    reduced, df = mixed_model(frame, f"log_gain ~ {rest}", lab, reml=False), len(blocks[block])
    if not (full.converged and reduced.converged):
        return {"df": df, "note": "; ".join(filter(None, ["did not converge", full.note]))}
    statistic = max(2 * (full.log_likelihood - reduced.log_likelihood), 0.0)
    p = float(stats.chi2.sf(statistic, df))
    return {"statistic": statistic, "df": df, "p_value": p, "note": full.note}


TABLES = {"classical": classical, "dominance": dominance_table, "commonality": commonality}
"""Counterparts of the posterior, by name."""
