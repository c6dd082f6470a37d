"""The heritage model in words and numbers: equations, priors with reasons, tables and the figure of its fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.modelling.draws import summary
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.blocks import FAMILY, LINEAGE, OWN, bayes_factor, in_order, orders_of
from thermostats.modelling.heritage.law import LAB, RESIDUALS, Heritage, HeritageDesign, groups_of
from thermostats.modelling.heritage.quantities import log_gains, quantities
from thermostats.modelling.laws import Prior
from thermostats.plots.general import forest

PRIOR_DRAWS, PRIOR_NUMBERS = 20_000, 2_000_000
"""Draws for prior probabilities, and draws times models at most: of very many models fewer draws."""


def equations(heritage: Heritage) -> tuple[str, ...]:
    """The model in lines."""
    parts = " + ".join(f"f_i,{name}" for name in (*heritage.blocks, OWN))
    orders = orders_of(tuple(heritage.blocks))
    lines = []
    for name, columns in heritage.blocks.items():
        if name in heritage.groups:
            group = columns[-1] if columns != (LAB,) else "lab"
            lines.append(f"{name}: X u = c·(u_{group}(i) − mean over models)")
        else:
            lines.append(f"{name}: {', '.join(f'log {column}' if heritage.logs else column for column in columns)}")
    of_errors = (
        "as stated, by the delta method" if heritage.stated else "standard error from n_i prompts, spreads moderated"
    )
    return (
        f"ȳ_i = m_i + e_i, e_i ~ N(0, se_i²), se_i²: {of_errors}   (model i)",
        f"m_i = α + {parts}",
        "f_b = τ √φ_b X_b u_b,   X_b scaled so that E Σ_i f_b,i²/M = τ² φ_b",
        "; ".join(lines),
        f"f_i,{OWN} ~ {RESIDUALS[heritage.residuals]}",
        "estimands: S_b = SD over the M models of f_b (finite population)"
        + (f"; order: {orders[-1]}" if orders else ""),
        *((f"{LINEAGE}: f_{heritage.lab} + f_{FAMILY}",) if FAMILY in heritage.blocks else ()),
    )


def priors(heritage: Heritage) -> tuple[Prior, ...]:
    """Every prior of the model with its reason."""
    shares = ", ".join([f"{heritage.concentration:g}"] * (len(heritage.blocks) + 1))
    groups = [name for name in heritage.groups if name != FAMILY]
    effect = f"t_{heritage.lab_df:g}, scaled to unit variance" if heritage.lab_df else "N(0, 1)"
    columns = ", ".join(f"u_{name}" for name in heritage.blocks if name not in heritage.groups)
    return (
        ("α", f"N(0, {2 * heritage.total_sd:g}²)", "gains between a seventh and seven times are no surprise"),
        ("τ", f"half-normal({heritage.total_sd:g})", "models that differ by that many e-folds are no surprise"),
        ("φ", f"Dirichlet({shares})", "no block has a head start"),
        *((f"u_{name}", effect, f"groups of {name} are exchangeable; their scale is τ√φ") for name in groups),
        *((("u_family", "N(0, 1)", "families are exchangeable within and across labs"),) * (FAMILY in heritage.blocks)),
        *(((columns, "N(0, 1)", "orthonormal columns of equal expected weight"),) * bool(columns)),
        ("se_i", "known", "the table states them")
        if heritage.stated
        else (
            "se_i²",
            "inverse χ² with n_i − 1 + d_0 degrees of freedom",
            "spreads over prompts differ between models, by a factor of about 1.6; Smyth 2004",
        ),
    )


def orders_table(fit: Fit) -> pd.DataFrame:
    """Per order of blocks: posterior and prior probability (by simulation), and the Bayes factor of the restriction."""
    size = min(PRIOR_DRAWS, PRIOR_NUMBERS // len(fit.rows))
    before = fit.model.from_prior(size, np.random.default_rng(fit.seed))
    prior = quantities({name: values[None] for name, values in before.items()}, fit.designed(HeritageDesign))
    rows = []
    for order, probability in fit.probabilities.items():
        expected = float(in_order(order, prior).mean())
        rows.append((order, probability, expected, bayes_factor(probability, expected)))
    return pd.DataFrame(rows, columns=["statement", "probability", "prior", "bayes_factor"])


def models_table(fit: Fit) -> pd.DataFrame:
    """Per model: log gain over prompts, and P(model dampens) = P(log gain < 0)."""
    m = log_gains(fit.draws.values, fit.designed(HeritageDesign))
    table = summary({"m": m}, level=fit.level, exact=["m"] if fit.draws.exact else []).drop(columns="quantity")
    table.insert(0, "model_id", list(fit.designed(HeritageDesign).outcomes))
    if lab := fit.designed(HeritageDesign).lab:
        table.insert(1, "heritage", list(groups_of(fit.rows, fit.designed(HeritageDesign).heritage.blocks[lab])))
    return table.assign(probability_dampens=(m < 0).mean(axis=(0, 1)))


def blocks_figure(fit: Fit, axes: Axes) -> Axes:
    """Finite-population standard deviations of the blocks with their intervals."""
    blocks = [*fit.designed(HeritageDesign).heritage.blocks, OWN]
    rows = fit.summary().loc[[f"sd_{name}" for name in blocks]].reset_index()
    rows["quantity"] = ["residual between models" if name == OWN else name for name in blocks]
    forest(rows, axes, label="quantity", estimate="median", null=0.0)
    axes.set_xlabel(f"standard deviation over models, log {fit.estimand.replace('_', ' ')}")
    return axes
