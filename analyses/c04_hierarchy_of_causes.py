"""C04: heritage counts for more than geometry, and geometry for more than scale.

Claim: the gain is a matter of who trained the model, then of its shape, and almost not of its size.
Estimand: shares of the variance of the log gain that heritage (lab), geometry (log L, log H, log d_h) and scale (log of
the non-embedding weights) explain, each averaged over all orders of entry and less what noise would give a block of
that many columns; the verdict rests on the two differences. Unit: the model; primary: penultimate gain.
Rule: supported where the jackknife intervals (95 %, models left out one by one) of heritage − geometry and of
geometry − scale both lie above 0; not supported where one of them lies below 0; everything else is inconclusive. For
"size has almost nothing to do with it", judged for the same three gains: not supported where the two-sided permutation
p of scale, given the rest, is at most ALPHA both with and without embeddings counted; supported where the interval of
its share lies below SMALL. Beside the order the heritage model, whose prior favours no block: supported where
P(heritage > geometry > scale), by finite-population standard deviations, is at least 0.95, not supported where at most
0.05;
beside size P(share of scale < SMALL) by the same limits. Every finding has the verdict that both come to, and is
inconclusive where they differ or where a check of the fit fails.
Source: abstract, section 7 (hierarchy); files of the hunt and of the Pythia family.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, if_above, if_all
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import HeritageFit, fit_heritage
from thermostats.modelling.heritage.model import CLOSED
from thermostats.modelling.heritage.power import power
from thermostats.modelling.heritage.shares import block_f, dominance, freedman_lane, jackknifed_shares, with_differences
from thermostats.plots.general import forest
from thermostats.studies.delia2026.gains import GAIN_WORDS, HUNT, LEVEL, PYTHIA, gains, heritage_rows
from thermostats.words import number, relation

ALPHA = 0.05
SMALL = 0.05
POWER = 0.8
SEED = 4
BLOCKS = {"heritage": ["heritage"], "geometry": ["log_L", "log_H", "log_d_h"], "scale": ["log_n"]}
AT_BEST = {"heritage": 0.60, "geometry": 0.15, "scale": 0.05}
"""Shares under which the claim would be plainly true, for what so many models could show at best."""
SIMULATIONS = 200
SIZES = ("log_n", "log_n_all")
DIFFERENCES = (("heritage", "geometry"), ("geometry", "scale"))

CLAIM = Claim(
    id="C04",
    title="Heritage > geometry > scale",
    said="Who trained a model matters more for its gain than its shape, its shape more than its size, and size has "
    "almost nothing to do with it.",
    estimand="shares of the variance of the log gain, corrected for the number of columns of each block; unit: the "
    "model",
    rule="Supported where the 95 % jackknife intervals of heritage − geometry and of geometry − scale lie above 0; "
    "not supported where one lies below 0. Size: not supported where its two-sided permutation p given the rest is "
    f"at most {ALPHA:g} with and without embeddings, supported where the interval of its share lies below {SMALL:g}. "
    "Beside both the heritage model's posterior; a verdict is what both come to.",
    source="Abstract, section 7; high_rho_hunt, pythia_family",
    rows="study",
)


def order(rows: pd.DataFrame, gain: str) -> Finding:
    """The finding on the order of the three, for one named gain."""
    rows = rows.assign(outcome=np.log(rows[gain]))
    whole = dominance(rows, "outcome", BLOCKS, seed=SEED)
    table = jackknifed_shares(rows, "outcome", BLOCKS, DIFFERENCES, seed=SEED, whole=whole, level=LEVEL)
    first, second = (table.iloc[len(BLOCKS) + i] for i in range(2))
    decided = if_all(if_above(float(row["lower"]), float(row["upper"]), 0.0) for row in (first, second))
    raw = ", ".join(f"{name} {whole.shares[name]:.2f}" for name in whole.order)
    parts = " and ".join(
        f"{row['what']} is {number(row['estimate'])} ({number(row['lower'])} to {number(row['upper'])})"
        for row in (first, second)
    )
    tests = block_f(rows, "outcome", BLOCKS)
    partial = "; ".join(
        f"{name} F({test.df_block}, {test.df_residual}) = {number(test.f)}, p {relation(test.p_holm)} after Holm"
        for name, test in tests.items()
    )
    words = GAIN_WORDS["penultimate_gain" if gain == "gain" else gain]
    return Finding(
        claim="C04",
        estimand=f"share of variance of heritage less that of geometry, {words}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: over {len(rows)} models and corrected for the number of columns, the share of "
        f"{parts}. The uncorrected shares, {raw}, stand in the claimed order in "
        f"{whole.asked_order_null_probability:.0%} of data sets with the gains shuffled, so that the claimed order "
        "alone is no evidence.",
        estimate=float(first["estimate"]),
        lower=float(first["lower"]),
        upper=float(first["upper"]),
        interval="95 % jackknife t interval over models of heritage − geometry",
        n_models=len(rows),
        n_heritages=rows["heritage"].nunique(),
        notes=(f"Partial tests, each block given the others: {partial}.",),
        table=table,
        draw=lambda axes: draw(axes, table),
        caption=f"Shares of the variance of the log gain ({words}), corrected for the number of columns, with 95 % "
        f"jackknife intervals over {len(rows)} models, and the two differences that the claim is about.",
    )


def draw(axes: Axes, table: pd.DataFrame) -> None:
    """Shares and differences with their intervals."""
    forest(table, axes, label="what", null=0.0)
    axes.set_xlabel("share of the variance of the log gain, corrected for columns")


def least_told(difference: pd.Series, n: int) -> float:
    """Least true difference that a two-sided 5 % test with the jackknife's error tells from 0 at POWER."""
    error = (difference["upper"] - difference["estimate"]) / stats.t.ppf((1 + LEVEL) / 2, n - 1)
    return float(error * (stats.t.ppf((1 + LEVEL) / 2, n - 1) + stats.t.ppf(POWER, n - 1)))


def without_a_lab(rows: pd.DataFrame) -> str:
    """Differences of corrected shares of the log gain with each lab left out, in words."""
    found = {
        str(lab): with_differences(
            dominance(rows[rows["heritage"] != lab], "log_gain", BLOCKS, seed=SEED), DIFFERENCES
        )[-2:]
        for lab in sorted(set(rows["heritage"]))
    }
    return "; ".join(f"{lab} {number(first)} and {number(second)}" for lab, (first, second) in found.items())


def size_p(rows: pd.DataFrame, gain: str) -> list[float]:
    """Permutation p of size given lab and shape, for each way to count weights."""
    rows = rows.assign(outcome=np.log(rows[gain]))
    return [
        freedman_lane(rows, "outcome", BLOCKS | {"scale": [column]}, "scale", seed=SEED).p_value for column in SIZES
    ]


def size(rows: pd.DataFrame, every: pd.DataFrame, gain: str, table: pd.DataFrame) -> Finding:
    """The finding on size alone; `every` has the models that cannot be compared too, `table` the shares."""
    share = table.iloc[list(BLOCKS).index("scale")]
    partial, with_all = size_p(rows, gain), size_p(every, gain)
    p = max(partial)
    plain_r = float(np.corrcoef(rows["log_n"], np.log(rows[gain]))[0, 1])
    decided = AGAINST if p <= ALPHA else SUPPORTED if float(share["upper"]) < SMALL else OPEN
    return Finding(
        claim="C04",
        estimand=f"size has almost nothing to do with it, {GAIN_WORDS['penultimate_gain' if gain == 'gain' else gain]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: given lab and shape, size has a two-sided permutation p of "
        f"{number(partial[0], 2)} counted without embeddings and {number(partial[1], 2)} with them, and its corrected "
        f"share is {number(share['estimate'])} ({number(share['lower'])} to {number(share['upper'])}). Alone it "
        f"correlates with the log gain at r = {number(plain_r)}. Size and shape are so nearly the same "
        "thing in these models that what belongs to which is uncertain.",
        estimate=float(share["estimate"]),
        lower=float(share["lower"]),
        upper=float(share["upper"]),
        interval="95 % jackknife t interval over models",
        probability=p,
        probability_kind="p-value",
        n_models=len(rows),
        n_heritages=rows["heritage"].nunique(),
        notes=(
            f"The p that is shown is the larger of the two. With the {len(every) - len(rows)} model that norms after "
            f"the residual sum the two p are {number(with_all[0], 2)} and {number(with_all[1], 2)}.",
        ),
    )


def heritage_fit(tables: Evidence, gain: str) -> HeritageFit:
    """The heritage model: sampled prompt by prompt for the primary gain, in closed form for the others."""
    estimand, method = ("penultimate_gain", "auto") if gain == "gain" else (gain, CLOSED)
    return fit_heritage(heritage_rows(tables, estimand, PYTHIA, HUNT), estimand=estimand, method=method, seed=SEED)


def with_order(fit: HeritageFit, finding: Finding, *, whole: bool) -> Finding:
    """The finding on the order with the posterior beside it; `whole`: with cross-validation and all figures."""
    shown = ("orders", "labs", "models", "classical", "dominance", "commonality", "left out")
    told = posterior_of(
        fit,
        model=f"Heritage model of the log {fit.estimand.replace('_', ' ')}: models in labs, geometry and scale, with a "
        "prior that favours no block.",
        statement=ORDER,
        truth=fit.holds(ORDER),
        classical=finding.verdict,
        tables=shown if whole else ("orders",),
        sensitivity=fit.sensitivity() if whole else None,
        panels=tuple(fit.panels.values()) if whole else (),
    )
    return beside(finding, fit, told)


def with_share(fit: HeritageFit, finding: Finding) -> Finding:
    """The finding on size with the posterior of the share of scale beside it."""
    told = posterior_of(
        fit,
        model=f"Heritage model of the log {fit.estimand.replace('_', ' ')}, the same fit as above.",
        statement=f"share of scale < {SMALL:g}",
        truth=fit.quantities["share_scale"] < SMALL,
        classical=finding.verdict,
    )
    return beside(finding, fit, told)


def could_show(rows: pd.DataFrame) -> str:
    """What so many models in so many labs could show if the claim were plainly true, in words."""
    found = power(len(rows), rows["heritage"].nunique(), AT_BEST, simulations=SIMULATIONS, seed=SEED)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in AT_BEST.items())
    return (
        f"Were the shares of the variance {shares}, {len(rows)} models in {rows['heritage'].nunique()} labs would give "
        f"P({ORDER}) above {found.threshold:g} in {found.rates[ORDER]:.0%} of {found.simulations} simulated studies, "
        f"and P(heritage > geometry) in {found.rates['heritage > geometry']:.0%}."
    )


def analyse(tables: Evidence) -> list[Finding]:
    """Order by the penultimate gain, by the mean gain a block, by the largest gain; then size alone by the same."""
    every = gains(tables)
    logs = {"log_L": "n_layers", "log_H": "n_heads", "log_d_h": "d_head", "log_n": "n_params_nonembedding"}
    logs["log_n_all"] = "n_params"
    every = every.assign(**{name: np.log(every[column].astype(float)) for name, column in logs.items()})
    rows = every[every["comparable"]].reset_index(drop=True)
    named = ("gain", *list(GAIN_WORDS)[2:])
    primary, *others = orders = [order(rows, gain) for gain in named]
    tables_of = [found.table for found in orders if found.table is not None]
    fits = [heritage_fit(tables, gain) for gain in named]
    sizes = [
        with_share(fit, size(rows, every, gain, table)) for fit, gain, table in zip(fits, named, tables_of, strict=True)
    ]
    primary = with_order(fits[0], primary, whole=True)
    others = [with_order(fit, found, whole=False) for fit, found in zip(fits[1:], others, strict=True)]
    told = least_told(tables_of[0].iloc[len(BLOCKS)], len(rows))
    verdicts = ", ".join(f"{found.estimand.split(', ', 1)[1]}: {found.verdict}" for found in sizes)
    shape = np.column_stack([np.ones(len(rows)), *(rows[name] for name in BLOCKS["geometry"])])
    fitted = shape @ np.linalg.lstsq(shape, rows["log_n"], rcond=None)[0]
    known = float(np.corrcoef(fitted, rows["log_n"])[0, 1] ** 2)
    labs = rows.groupby("heritage").size()
    notes = (
        "The study gives no figure for the hierarchy, so there is none to recompute.",
        *primary.notes,
        "A corrected share below 0 belongs to a block that explains less, averaged over all orders of entry, than "
        "noise with as many columns would. Its F test can be significant all the same: F asks what the block adds "
        "when it enters last, after blocks whose noise it takes away, and the share averages that with what it "
        "explains when it enters first.",
        f"That size has almost nothing to do with it is judged for every gain ({verdicts}), after a review found it "
        "judged for the first alone"
        + (", and the answer depends on which gain is meant." if len({found.verdict for found in sizes}) > 1 else "."),
        f"Heritage − geometry and geometry − scale without one lab, labs left out in turn: {without_a_lab(rows)}.",
        "With the error that the jackknife finds, a true heritage − geometry would have to be "
        f"{number(told)} to be told from 0 in {POWER:.0%} of such data sets"
        + (", more than the whole variance: these data can hardly show the order, were it true." if told > 1 else "."),
        could_show(rows),
        f"Shape all but determines size (R² = {number(known, 4)}), and {int((labs == 1).sum())} of {len(labs)} labs "
        "have one model, which its own dummy fits exactly: what is heritage and what is shape rests on few models.",
        "Families are not independent draws of a lab, and the jackknife leaves out models, not families; with so "
        "few families there is no honest interval over them.",
    )
    return [replace(primary, notes=notes), *others, *sizes]


if __name__ == "__main__":
    run(CLAIM, analyse)
