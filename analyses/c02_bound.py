"""C02: the maximum gain is bounded by 10^(1/L), so that no network amplifies more than tenfold."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    Audit,
    Case,
    Claim,
    Evidence,
    Inference,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.noise import IN_ONE_LAB
from thermostats.claims.rule import Always, Decide, Posterior, V
from thermostats.claims.worlds import Worlds, build_bound_worlds, build_exponent_worlds
from thermostats.formatting import format_number
from thermostats.modelling.classical.association import (
    estimate_correlation,
    estimate_slope,
    fit_power_law,
)
from thermostats.modelling.classical.counts import measure_exceedance
from thermostats.modelling.classical.many import Many, estimate_shares, wrap_counts
from thermostats.modelling.columns import read_numbers
from thermostats.modelling.kleiber import fit_envelope, fit_kleiber
from thermostats.modelling.specification import build_fraction_above, permute_within_labs
from thermostats.plots.general import draw_gain_by_depth, prepare_drawing
from thermostats.studies.delia2026 import curves
from thermostats.studies.delia2026.largest_gains import (
    EXPONENT,
    STATED,
    add_exponent_columns,
    build_family_exponent,
    collect_span_rows,
    fit_family_exponents,
    fit_model_exponents,
    list_family_exponents,
    list_undefined,
)
from thermostats.studies.delia2026.published_gains import (
    FOUR,
    PYTHIA_FAMILY,
    build_penultimate_features,
    load_family_gains,
    load_gains,
)
from thermostats.studies.delia2026.stated_facts import load_stated, load_stated_models

TOTAL = 10.0
TOLERATED = 0.05
MOST = 0.25
"""Share of models above at which a bound is none: the null of the simulated worlds."""
LEVEL = 0.95
SEED = 2
SHARE = "share of models above"
CLEAR = "models clearly above"
WITHIN_BOUND = Always("models above", V(SHARE).upper < MOST, CLEAR)
ENVELOPE = Posterior(
    "envelope at most 10^(1/L) at the middle depth", draws=V("frontier_over_bound") <= 1
)
ALPHA = 0.05
ALIKE = 0.0
"""Exponent where the largest gain is the same at every depth: the rival of the stated one."""
HALF = (ALIKE - STATED) / 2
"""How far from the stated exponent one is another: half of the way to the rival."""
SCATTER_IN_FAMILIES = 0.1
"""SD of log log G about the line, such that eight Pythia models have the slope's known error of
0.06."""
SCATTER = 0.5
"""The same over all models, such that 42 of them have the slope's known error of 0.15."""
OF_EXPONENTS = "largest_gain_exponent"
"""Outcome whose residuals say how far nuisances of log log G go. Errors about a bound are distances
from it, of which residuals say nothing."""
BETA = V(EXPONENT)
AS_STATED = Decide(
    (BETA.lower > STATED - HALF) & (BETA.upper < STATED + HALF) & (BETA.p > ALPHA), BETA.p <= ALPHA
)
SLOWER = Posterior("the curve falls more slowly than L^(−1)", draws=V("beta") < -STATED)

CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Bound(Case):
    """One thing that the bound can be about."""

    per_block: bool = True
    """Whether the bound is 10^(1/L), else 10 whatever the depth."""

    def find_bounds(self, rows: pd.DataFrame) -> pd.Series:
        """The bound of every model."""
        return (
            TOTAL ** (1 / rows["n_layers"])
            if self.per_block
            else pd.Series(TOTAL, index=rows.index)
        )


GAINS = (
    Bound("max_gain", "the largest gain of blocks 2 to L − 1", "max_gain_to_penultimate"),
    Bound("penultimate_gain", "the penultimate gain (block L − 1)", "gain"),
    Bound(
        "geometric_gain",
        "the mean gain per block of blocks 2 to L − 1",
        "geometric_gain_to_penultimate",
    ),
)
LARGEST = GAINS[0].column
"""The gain whose exponent is asked for."""
PRODUCTS = (
    Bound(
        "from_block_1",
        "the product of gains of blocks 2 to L − 1",
        "total_to_penultimate",
        per_block=False,
    ),
    Bound(
        "from_input",
        "the product of gains of blocks 1 to L − 1",
        "total_from_input",
        per_block=False,
    ),
)


models = CLAIM.shared(load_gains)


def select_comparable(evidence: Evidence) -> pd.DataFrame:
    """Models whose gains depend on their weights."""
    every = models(evidence)
    return every[every["comparable"]].reset_index(drop=True)


def add_bound(evidence: Evidence, what: Bound) -> pd.DataFrame:
    """Comparable models with the outcome, its bound and its relative error of measurement.

    The error of a block is that of the penultimate gain over prompts, the one that was published;
    errors of the blocks of a product are taken to go together, which is the most that they can add
    up to.
    """
    rows = select_comparable(evidence).dropna(subset=what.column)
    half = (rows["upper"] - rows["gain"]) / rows["gain"]
    error = half / stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"] - 1)
    blocks = 1 if what.per_block else rows["n_layers"] - 2
    return rows.assign(
        outcome=rows[what.column], bound=what.find_bounds(rows), error=error * blocks
    ).reset_index(drop=True)


def count_above(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """How many models lie above the bound, with and without their errors of measurement."""
    values = outcomes["outcome"]
    bound = rows["bound"].to_numpy(np.float64)
    read_numbers(values[0], "values", positive=True)
    reach = rows["error"].to_numpy(np.float64) * stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"] - 1)
    above = values > bound
    clear = values * np.exp(-reach) > bound
    counts = {"models above": wrap_counts(above.sum(axis=1)), CLEAR: wrap_counts(clear.sum(axis=1))}
    return {SHARE: estimate_shares(above), **counts}


def describe_above(rows: pd.DataFrame, result: Result) -> Result:
    """By how much models lie above, and which clearly do."""
    found = measure_exceedance(rows["outcome"], rows["bound"], tolerated=TOLERATED)
    lower = rows["outcome"] * np.exp(
        -rows["error"] * stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"] - 1)
    )
    return result.adding(
        words={"found": found, "clear": list(rows.loc[lower > rows["bound"], "model_id"])}
    )


ABOVE = Test(
    count_above, ("outcome",), "95% Clopper–Pearson exact interval", describe=describe_above
)


def fit_laws(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Least squares of log log G on log L, G = exp(e^level L^exponent), in Pythia and over all
    models; of one depth there is no law."""
    growing = add_exponent_columns(rows, LARGEST)
    groups = {"Pythia": growing[growing["family"] == PYTHIA_FAMILY], "all models": growing}
    laws = {}
    for name, own in groups.items():
        if own["n_layers"].nunique() > 1:
            logs = np.log(np.log(own[LARGEST].astype(float)))
            exponent, level = np.polyfit(own["log_L"], logs, 1)
            laws[name] = {"exponent": float(exponent), "level": float(level)}
    return laws


def compute_law(law: Mapping[str, float], L: Any) -> Any:
    """Gains of a fitted law at some depths."""
    return np.exp(np.exp(law["level"]) * L ** law["exponent"])


def draw_laws(rows: pd.DataFrame, laws: Mapping[str, Mapping[str, float]], log: str = "") -> Any:
    """The largest gain against depth with the stated law and fitted ones, families as lines.

    log: axes that are made logarithmic.
    """
    drawn: dict[str, Any] = {"10^(1/L)": lambda L: TOTAL ** (1 / L)}
    for name, law in laws.items():
        drawn[f"{name}, β {format_number(law['exponent'], 2)}"] = partial(compute_law, law)
    ylabel = "largest gain, blocks 2 to L − 1"
    kind = partial(draw_gain_by_depth, curves=drawn, families="family")
    return prepare_drawing(kind, rows, y=LARGEST, ylabel=ylabel, log=log)


def infer_envelope(evidence: Evidence, what: Bound) -> Inference:
    """The same envelope on other evidence."""
    rows = select_comparable(evidence).dropna(subset=what.column)
    return Inference(later=partial(fit_envelope, rows, what.column, seed=SEED))


VIEWS = Views(models=5)
ENVELOPE_VIEWS = replace(VIEWS, fit=infer_envelope)
TRIAL = Trial(
    add_bound, ABOVE, "", build_bound_worlds("outcome", "bound", "error", MOST, "n_layers", SHARE)
)


@CLAIM.finding(
    "bound",
    primary=WITHIN_BOUND,
    robustness=ENVELOPE,
    over=GAINS[:1],
    trial=TRIAL,
    views=ENVELOPE_VIEWS,
)
def judge_largest(evidence: Evidence, what: Bound) -> Result:
    """The largest gain, by counting and by a power law with free constants."""
    rows, (features, known) = select_comparable(evidence), build_penultimate_features(evidence)
    law = fit_power_law(rows["n_layers"], np.log10(rows[what.column]), against=-1.0)
    logs = pd.DataFrame(
        {"log_L": np.log10(rows["n_layers"]), "log_G": np.log10(np.log10(rows[what.column]))}
    )
    columns = ["model_id", "heritage", "n_layers", *[one.column for one in (*GAINS, *PRODUCTS)]]
    products = load_stated_models(evidence, FOUR, {"{}": r"/results/[^/]+/final_cumulative"})
    laws = fit_laws(rows)
    return judge_bound(evidence, what).adding(
        table=rows[columns].assign(bound=what.find_bounds(rows)),
        draw=draw_laws(rows, laws),
        inference=Inference(
            later=partial(fit_envelope, features, what.column, **known, seed=SEED),
            tables=("models", "quantiles", "rivals"),
        ),
        audit=Audit(
            load_stated(evidence, {"total gain ≤": "section 4.1, eq. 3"}),
            {"total gain ≤": float(rows["total_to_penultimate"].max())},
        ),
        words={
            "law": law,
            "laws": laws,
            "classical": estimate_slope(logs, "log_G ~ log_L", errors="classical"),
            "growth": [
                estimate_correlation(rows["n_layers"], np.log(rows[one.column]), seed=SEED)
                for one in PRODUCTS
            ],
            "products": list(products.values()),
            "tenfold": sum(value > TOTAL for value in products.values()),
            "left_out": models(evidence)
            .loc[lambda every: ~every["comparable"], "model_id"]
            .tolist(),
        },
    )


@CLAIM.finding("total", primary=WITHIN_BOUND, over=PRODUCTS, trial=TRIAL, views=VIEWS)
@CLAIM.finding("bound", primary=WITHIN_BOUND, over=GAINS[1:], trial=TRIAL, views=VIEWS)
def judge_bound(evidence: Evidence, what: Bound) -> Result:
    """Models above the bound, and their families."""
    rows = add_bound(evidence, what)
    above = rows.loc[rows["outcome"] > rows["bound"], "family"].nunique()
    words = {"families_above": above, "families": rows["family"].nunique(), "tolerated": TOLERATED}
    return ABOVE(rows).adding(words=words)


CLAIM.curve(
    f"bound.{GAINS[0].id}",
    rows=curves.collect_universe_rows,
    choices=curves.BOUND,
    estimate=build_fraction_above,
    test=lambda rows: ABOVE(curves.prepare_bound_rows(rows)),
    above=False,
)


families = CLAIM.shared(load_family_gains)


def select_families(evidence: Evidence) -> pd.DataFrame:
    """Models of families of several depths whose largest gain is above 1."""
    return add_exponent_columns(families(evidence), LARGEST)


def select_growing(evidence: Evidence) -> pd.DataFrame:
    """All comparable models whose largest gain is above 1."""
    return add_exponent_columns(select_comparable(evidence), LARGEST)


def build_worlds(scatter: float) -> Worlds:
    """Worlds in which the exponent is the stated one, that of gains alike at every depth, or as far
    off on the other side."""
    rival = ALIKE - STATED
    made = build_exponent_worlds("outcome", "log_L", 0.0, rival, scatter, measured=OF_EXPONENTS)
    return replace(made, null=rival, others={"steeper": -rival})


def place_in_one_lab(worlds: Worlds) -> Worlds:
    """The same for models of one lab, whose errors have no share between labs."""
    box = {name: ends for name, ends in worlds.box.items() if name != "between"}
    return replace(worlds, box=box, kinds=worlds.limits.choose_kinds(IN_ONE_LAB, ""))


EXPONENT_INTERVAL = "95% t interval"
IN_FAMILIES = Test(
    fit_family_exponents, ("outcome",), f"{EXPONENT_INTERVAL} within families", "p-value of −1"
)
OVER_MODELS = Test(
    fit_model_exponents, ("outcome",), f"{EXPONENT_INTERVAL}, labs as clusters", "p-value of −1"
)
FAMILY_TRIAL = Trial(
    select_families,
    IN_FAMILIES,
    "model_id",
    place_in_one_lab(build_worlds(SCATTER_IN_FAMILIES)),
    within="family",
)
MODEL_TRIAL = Trial(select_growing, OVER_MODELS, "heritage", build_worlds(SCATTER))


@CLAIM.finding("family_exponent", primary=AS_STATED, trial=FAMILY_TRIAL, views=VIEWS)
def judge_family_exponent(evidence: Evidence) -> Result:
    """The exponent within families, of the study's own files within Pythia."""
    rows = select_families(evidence)
    shallow = rows["n_layers"].isin(sorted(rows["n_layers"].unique())[:2])
    words = {
        "stated": STATED,
        "left_out": list_undefined(families(evidence), LARGEST),
        "smallest": rows.loc[shallow, "model_id"].tolist(),
        "without": IN_FAMILIES(rows[~shallow]).headline,
    }
    columns = ["model_id", "family", "n_layers", LARGEST]
    return IN_FAMILIES(rows).adding(
        table=rows[columns].assign(bound=TOTAL ** (1 / rows["n_layers"].astype(float))), words=words
    )


@CLAIM.finding(
    "model_exponent",
    primary=AS_STATED,
    robustness=SLOWER,
    trial=MODEL_TRIAL,
    evidence=POOLED,
    views=Views(models=8, groups=3, sets=(PUBLISHED, EXTERNAL, MEASURED)),
)
def judge_model_exponent(evidence: Evidence) -> Result:
    """The exponent over all models of all evidence, and in each family of several depths."""
    rows = select_growing(evidence)
    by_family = list_family_exponents(rows, LARGEST)
    every = select_comparable(evidence)
    laws = fit_laws(every)
    others = rows[rows["family"] != PYTHIA_FAMILY].reset_index(drop=True)
    return OVER_MODELS(rows).adding(
        table=by_family,
        draw=draw_laws(every, laws, log="y"),
        inference=Inference(
            later=partial(fit_kleiber, every, LARGEST, seed=SEED), tables=("rivals",)
        ),
        words={
            "stated": STATED,
            "left_out": list_undefined(every, LARGEST),
            "laws": laws,
            "by_family": by_family.to_dict("records"),
            "other_models": OVER_MODELS(others).headline,
            "n_others": len(others),
        },
    )


CLAIM.curve(
    "family_exponent",
    rows=collect_span_rows,
    choices=curves.EXPONENTS,
    estimate=build_family_exponent,
    null=permute_within_labs(lab="family"),
)


if __name__ == "__main__":
    CLAIM.main()
