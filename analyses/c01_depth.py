"""C01: in the Pythia family the gain falls with depth."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.bounds import read_bounds
from thermostats.claims.claim import Case, Claim, Evidence, Inference, Result, Test, Trial, Views
from thermostats.claims.common_tests import correlate_columns
from thermostats.claims.noise import IN_ONE_LAB
from thermostats.claims.rule import Decide, Posterior, V
from thermostats.claims.worlds import build_line_worlds, name_size
from thermostats.modelling.classical.association import Slope, estimate_correlation, estimate_slope
from thermostats.modelling.classical.boxed import Grid
from thermostats.modelling.columns import apply_holm
from thermostats.modelling.left_out import describe_left_out
from thermostats.modelling.lines import fit_line
from thermostats.modelling.specification import build_correlation, permute_within_labs
from thermostats.plots.general import draw_gain_by_depth, prepare_drawing
from thermostats.studies.delia2026 import curves
from thermostats.studies.delia2026 import stated_audits as audit
from thermostats.studies.delia2026.largest_gains import (
    INNER,
    SPANS,
    exchange_blocks,
    find_largest,
    read_block_gains,
)
from thermostats.studies.delia2026.published_gains import NAMED_GAINS, PYTHIA, load_family_gains
from thermostats.tables.schemas import INTERVENED

ALPHA = 0.05
WEAK, STATED = -0.3, -0.81
"""A correlation above the first is weak; the second is the published one."""
DEEP = 24
"""Layers from which a model counts as deep."""
SEED = 1
SCALE = 0.25
"""Models of one family whose gains differ by a factor e^0.25 = 1.3 would be no surprise."""
R = V("r")
FALLS = Decide(
    (R < 0) & (R.p <= ALPHA), ((R > 0) & (R.p <= ALPHA)) | ((R.p > ALPHA) & (R.lower > WEAK))
)
LINE = Posterior("slope on depth < 0", draws=V("slope on depth") < 0)
SIZES = {"all weights": "n_params", "non-embedding weights": "n_params_nonembedding"}

BY_NAME = {gain.id: gain for gain in NAMED_GAINS}
PENULTIMATE = BY_NAME["penultimate_gain"]
LARGEST = BY_NAME["max_gain"]
ASKED = (PENULTIMATE, LARGEST, BY_NAME["geometric_gain"])
"""The gains whose fall is asked for: three, over which p is adjusted too."""

CLAIM = Claim.read(__file__)


select_models = CLAIM.shared(load_family_gains)


def select_outcomes(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """The models with one named gain as the outcome."""
    return (
        select_models(evidence)
        .assign(outcome=lambda rows: rows[gain.column])
        .dropna(subset="outcome")
    )


correlate_depth = partial(correlate_columns, R.name, "n_layers", "outcome", groups="family")
BY_ORDERS = correlate_depth()
"""Correlation of depth with the outcome, within families, with p over all orders of the models."""


def name_measured(gain: Case) -> str:
    """The outcome whose residuals say how far errors of a gain may go: the logarithm, of gains near
    1; of the largest gain none does."""
    return "" if gain == LARGEST else gain.column


def build_test(gain: Case) -> Test:
    """The same correlation with p of a slope with the nuisances of the gain in the test: power
    0.51, 0.16 and 0.10 for the three gains on 8 models, where p over all orders has 0.48, 0.11 and
    0.08."""
    bounds = read_bounds(name_measured(gain), "n_layers", "heritage").plausible
    return correlate_depth(box=Grid.span_bounds(bounds, groups=False))


def fit_depth_and_size(rows: pd.DataFrame) -> dict[str, dict[str, Slope]]:
    """Depth and the log of size in one model of the log gain, for each way to count weights."""
    found = {}
    for words, column in SIZES.items():
        logs = rows.assign(size=np.log(rows[column].astype(float)))
        fit = partial(estimate_slope, logs, "log_gain ~ n_layers + size", errors="classical")
        found[words] = {"depth": fit(term="n_layers"), "size": fit(term="size")}
    return found


def infer_line(evidence: Evidence, gain: Case) -> Inference:
    """The same line on other evidence, families with levels of their own."""
    rows = select_outcomes(evidence, gain)
    logs = rows.assign(depth=rows["n_layers"], log_outcome=np.log(rows["outcome"]))
    return Inference(
        fit_line(logs, "log_outcome", ["depth"], scale=SCALE, group="family", seed=SEED)
    )


VIEWS = Views(models=5, fit=infer_line, covariate="n_layers")


def build_trial(gain: Case) -> Trial:
    """The test of a gain in worlds whose errors go as far as its residuals allow."""
    worlds = build_line_worlds(
        "outcome",
        "n_layers",
        STATED,
        kinds=IN_ONE_LAB,
        group="",
        large=partial(name_size, R.name),
        measured=name_measured(gain),
    )
    return Trial(select_outcomes, build_test(gain), "model_id", worlds, version=2, within="family")


@CLAIM.finding(
    "depth", primary=FALLS, robustness=LINE, over=ASKED[:1], trial=build_trial, views=VIEWS
)
def judge_penultimate(evidence: Evidence, gain: Case) -> Result:
    """The gain that the study means, by a test and by a line through the log gains; other gains are
    in the curve."""
    rows = select_models(evidence)
    error = rows["penultimate_gain_sd"] / rows["gain"] / np.sqrt(rows["n_prompts"])
    known = rows.assign(error=error, depth=rows["n_layers"])
    fit = fit_line(
        known,
        "log_gain",
        ["depth"],
        scale=SCALE,
        group=None,
        se="error",
        sources=[PYTHIA],
        seed=SEED,
    )
    slopes = estimate_slope(rows, "gain ~ n_layers")
    columns = [
        "model_id",
        "heritage",
        "n_layers",
        "gain",
        "lower",
        "upper",
        *[one.column for one in NAMED_GAINS[1:]],
    ]
    line = {"straight line": lambda L: slopes.intercept + slopes.estimate * L}
    deep = rows[rows["n_layers"] >= DEEP]
    judged = select_outcomes(evidence, gain)
    parts = (judged.drop(place) for place in judged.index)
    without = [float(np.corrcoef(part["n_layers"], part["outcome"])[0, 1]) for part in parts]
    return build_test(gain)(judged).adding(
        table=rows[columns],
        draw=prepare_drawing(
            draw_gain_by_depth,
            rows,
            y="gain",
            lower="lower",
            upper="upper",
            curves=line,
            ylabel=gain.words,
        ),
        inference=Inference(fit, tables=("rows",)),
        audit=audit.check_depth(evidence, rows, seed=SEED),
        words={
            "without": [min(without), max(without)],
            "exact": BY_ORDERS(judged).headline.p,
            "depth": estimate_correlation(rows["n_layers"], rows["gain"], seed=SEED),
            "density": estimate_correlation(rows["rho"], rows["gain"], seed=SEED),
            "together": estimate_correlation(rows["n_layers"], rows["rho"], seed=SEED),
            "growth": estimate_correlation(
                rows["n_layers"], np.log(rows["total_to_penultimate"]), seed=SEED
            ),
            "own": {
                term: estimate_slope(
                    rows, "log_gain ~ n_layers + rho", term=term, errors="classical"
                )
                for term in ("n_layers", "rho")
            },
            "prompts": int(rows["n_prompts"].min()),
            "sizes": fit_depth_and_size(rows),
            "deep": deep,
            "among_deep": estimate_correlation(deep["n_layers"], deep["gain"], seed=SEED),
            "left_out": describe_left_out(evidence.named(INTERVENED).table("interventions")),
        },
    )


@CLAIM.finding(
    "depth", primary=FALLS, over=ASKED[1:], trial=build_trial, views=VIEWS, section="other_gains"
)
def judge_block_gain(evidence: Evidence, gain: Case) -> Result:
    """The largest gain of the inner blocks, and their mean, by the same test."""
    rows = select_models(evidence)
    found = {one.id: BY_ORDERS(select_outcomes(evidence, one)) for one in ASKED}
    p_of = {name: one.headline.p for name, one in found.items() if one.headline.p is not None}
    words: dict[str, Any] = {"holm": apply_holm(p_of)[gain.id], "asked": len(ASKED)}
    words |= {"exact": p_of[gain.id]}
    if gain == LARGEST:
        words |= describe_blocks(rows, read_block_gains(evidence, rows))
    return build_test(gain)(select_outcomes(evidence, gain)).adding(words=words)


def describe_blocks(rows: pd.DataFrame, gains: pd.DataFrame) -> dict[str, Any]:
    """What the choice of blocks does to the correlation of depth with the largest gain."""
    depth = rows["n_layers"].astype(float)
    r_of = {}
    for span in SPANS:
        largest = rows["run_id"].map(find_largest(gains, span))
        r_of[span.words] = float(np.corrcoef(depth, largest)[0, 1])
    first = gains[gains["layer"] == 1].groupby("run_id")["gain"].mean()
    return {
        "inner": INNER.words,
        "r_of": r_of,
        "first": [float(first.min()), float(first.max())],
        "exchanged": exchange_blocks(gains, INNER, seed=SEED),
    }


CLAIM.curve(
    f"depth.{PENULTIMATE.id}",
    rows=curves.collect_universe_rows,
    choices=curves.DEPTH,
    estimate=build_correlation("n_layers", groups="family"),
    null=permute_within_labs(lab="family"),
    above=False,
)


if __name__ == "__main__":
    CLAIM.main()
