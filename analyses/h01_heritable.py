"""H01: what a model's descent fixes of its gain, beyond shape and size."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    Case,
    Claim,
    Evidence,
    Inference,
    Result,
    Test,
    TooFew,
    Trial,
    Views,
)
from thermostats.claims.rule import AtLeast, Decide, Posterior, V
from thermostats.claims.shared import build_tree
from thermostats.claims.worlds import build_descent_worlds
from thermostats.modelling.classical.many import Many
from thermostats.modelling.fit import Fit
from thermostats.modelling.fit_lineage import fit_lineage
from thermostats.modelling.heritability import (
    SMALLS,
    estimate_heritabilities,
    has_enough_models,
    profile_heritability,
)
from thermostats.modelling.tree_likelihood import estimate_ancestors
from thermostats.plots.general import draw_curve
from thermostats.plots.posterior import draw_tree
from thermostats.tables.frames import take_logs
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import model_rows
from thermostats.tables.tree import Tree

ALPHA, LITTLE = 0.05, 0.5
"""Level of the test of no descent, and the λ below which the whole interval must lie for “not
heritable”."""
CLAIMED = 0.6
HEIGHT = 0.075
"""Inches of the figure for each node of the tree."""
COLUMNS = ("log_L", "log_H", "log_d_h", "log_n")
LAMBDA = V("λ")
HERITABLE = Decide((LAMBDA > 0) & (LAMBDA.p <= ALPHA), (LAMBDA.upper < LITTLE) & (LAMBDA.p > ALPHA))
MOSTLY = Posterior(f"λ > {LITTLE:g}", draws=V("lambda") > LITTLE)
SEED = 1
INTERVAL = "likelihood ratio interval, 95%"
LEAST = AtLeast(models=10)
CLAIM = Claim.read(__file__)
GAINS = (
    Case("penultimate_gain", "penultimate gain", "penultimate_gain"),
    Case("geometric_gain", "mean gain per block", "geometric_gain_to_penultimate"),
    Case("last_gain", "gain of the last block", "last_gain"),
    Case("penultimate_read_gain", "penultimate gain as blocks read it", "penultimate_read_gain"),
)


@CLAIM.shared
def select_models(evidence: Evidence, gain: str) -> pd.DataFrame:
    """One row per model with its log gain and the logarithms of its shape and size.

    Models without one of these numbers are left out, as state-space models without heads are.
    """
    rows = drop_unlabelled(model_rows(evidence, gain), "heritage")
    facts = rows[["n_layers", "n_heads", "d_head", "n_params"]].astype("float64")
    logs = {name: take_logs(facts[column]) for name, column in zip(COLUMNS, facts, strict=True)}
    kept = [
        *facts,
        "model_id",
        "heritage",
        "family",
        "source",
        "gain",
        "log_gain",
        "lower",
        "upper",
    ]
    complete = rows[kept].assign(**facts, **logs, source=evidence.origin(rows["source"]))
    return complete[np.isfinite(complete[list(COLUMNS)]).all(axis=1)].reset_index(drop=True)


def select_rows(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """The rows that the rule reads."""
    return select_models(evidence, gain.column)


def estimate_descent(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """λ beyond shape, size and source, with p of none, errors of small labs as large as they are;
    raises TooFew where models hardly outnumber labs or columns.

    Power at the declared λ on 43 models: 0.30, and 0.04 with errors of all labs alike.
    """
    if not has_enough_models(rows, COLUMNS):
        raise TooFew(Result.build(rows))
    found = estimate_heritabilities(rows, outcomes["log_gain"], COLUMNS, smalls=SMALLS)
    return {LAMBDA.name: found}


DESCENT = Test(estimate_descent, ("log_gain",), INTERVAL, "p-value")
VIEWS = Views(models=10, groups=2, sets=(PUBLISHED, EXTERNAL, MEASURED))
"""The controlled study is of one lab; N01 asks what its recipes do."""


def build_trial(gain: Case) -> Trial:
    """The test of a gain in worlds whose errors go as far as its residuals allow."""
    worlds = build_descent_worlds(
        "log_gain", CLAIMED, "log_n", LAMBDA.name, group="source", measured=gain.column
    )
    return Trial(select_rows, DESCENT, "heritage", worlds, version=4)


def fit_descent(evidence: Evidence, rows: pd.DataFrame) -> Fit:
    """Shares of descent, of shape and size, and of the model in the log gain, along the tree."""
    blocks = {"shape and size": list(COLUMNS)}
    tree = build_tree(evidence, rows)
    return fit_lineage(rows[["model_id", "gain", *COLUMNS]], tree, blocks, seed=SEED)


def prepare_tree_figure(evidence: Evidence, rows: pd.DataFrame) -> Callable[[Axes], object]:
    """How well each λ fits, above the whole tree: models as measured, ancestors as expected given
    them."""
    whole = build_tree(evidence, rows)
    x = np.column_stack([np.ones(len(rows)), rows[list(COLUMNS)]])
    at = [whole.place(name) for name in rows["model_id"]]
    values = estimate_ancestors(
        rows["log_gain"].to_numpy(np.float64), x, whole.covariance(whole.names), at
    )
    return partial(
        draw,
        profile_heritability(rows, "log_gain", COLUMNS, smalls=SMALLS),
        whole,
        dict(zip(whole.names, values, strict=True)),
    )


def draw(fits: pd.DataFrame, tree: Tree, values: Mapping[str, float], axes: Axes) -> None:
    """The likelihood of λ with its interval, and the tree below it."""
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101
    axes.remove()
    figure.set_figheight(2.2 + HEIGHT * len(values))
    above, below = figure.subplots(2, 1, height_ratios=[1.3, 6])
    draw_curve(above, fits["share"], fits["log_likelihood"], fits["inside"])
    above.set(
        xlabel="λ, the share of what shape and size leave that goes with descent",
        ylabel="log likelihood",
    )
    draw_tree(tree, values, below)


@CLAIM.finding(
    "beyond_shape",
    primary=HERITABLE,
    robustness=MOSTLY,
    over=GAINS[:1],
    trial=build_trial,
    evidence=POOLED,
    needs=LEAST,
    views=VIEWS,
)
def judge_penultimate(evidence: Evidence, gain: Case) -> Result:
    """The study's gain, by the test of no descent, and on the tree."""
    rows = LEAST.check_rows(select_rows(evidence, gain))
    words = {"labs": rows["heritage"].nunique()}
    return DESCENT(rows).adding(
        table=rows.drop(columns=list(COLUMNS)),
        draw=prepare_tree_figure(evidence, rows),
        inference=Inference(fit_descent(evidence, rows), tables=("slopes", "sides")),
        words=words,
    )


@CLAIM.finding(
    "beyond_shape",
    primary=HERITABLE,
    over=GAINS[1:],
    trial=build_trial,
    evidence=POOLED,
    needs=LEAST,
    views=VIEWS,
)
def judge_other(evidence: Evidence, gain: Case) -> Result:
    """Another gain."""
    rows = LEAST.check_rows(select_rows(evidence, gain))
    return DESCENT(rows).adding(words={"labs": rows["heritage"].nunique()})


if __name__ == "__main__":
    CLAIM.main()
