"""C01: in the Pythia family the gain falls with depth.

Claim (the study calls it Kleiber's law for transformers): over eight Pythia sizes the gain correlates with the number
of layers at r = -0.81 (p = 0.014); a later note gives r = -0.878 (p = 0.004).
Estimand: Pearson correlation of the number of layers with the model's gain, once for each gain that can be meant;
the primary one is the gain of the last block but one, mean over 25 prompts. Unit of analysis: the model (8 of one
family and one lab; the prompts are not independent observations of depth).
Rule: supported where r < 0, its exact two-sided permutation p is at most ALPHA, and r stays negative whichever model
is left out. Not supported where p is at most ALPHA with r > 0, or where the whole 95 % interval lies above WEAK.
Everything else is inconclusive. Beside it a line through the log gains, errors over prompts known: supported where
P(slope < 0) is at least 0.95, not supported where it is at most 0.05. The claim has the verdict that both come to, and
is inconclusive where they differ or where a check of the fit fails.
Source: section 4.1, figure 1; the file of the Pythia family.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED
from thermostats.modelling.classical.association import Correlation, correlation, slope
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import gain_by_depth
from thermostats.studies.delia2026.gains import GAIN_WORDS, PYTHIA, gains
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import number, relation, short_name

ALPHA = 0.05
WEAK = -0.3
SEED = 1
SCALE = 0.25
"""Models of one family whose gains differ by a factor e^0.25 = 1.3 would be no surprise."""
STATED = {
    "r of the text": "abstract (1) r",
    "p of the text": "abstract (1) p",
    "r of the later note": "Kleiber r",
    "p of the later note": "Kleiber p",
}
IN_THE_FILE = {
    "r with ρ in place of depth": "/analysis/rho_gain_correlation",
    "p with ρ in place of depth": "/analysis/correlation_p_value",
}
POINTS = {"mean gain of {}": r"/models/\d+/residual_gain_mean", "SD of {}": r"/models/\d+/residual_gain_std"}

CLAIM = Claim(
    id="C01",
    title="Gain falls with depth in the Pythia family (“Kleiber's law”)",
    said="In the Pythia family the gain falls with the number of layers, r = −0.81 (p = 0.014), a “Kleiber's law” of "
    "transformers; a later note says r = −0.878 (p = 0.004).",
    estimand="Pearson correlation of the number of layers with the gain, unit: the model",
    rule=f"Supported where r < 0 with an exact two-sided permutation p of at most {ALPHA:g} and r negative whichever "
    f"model is left out; not supported where r > 0 with such a p, or where the whole interval lies above "
    f"{number(WEAK, 1)}. Beside it a Bayesian line through the log gains; the verdict is what both come to.",
    source="Section 4.1, figure 1; pythia_family",
    rows="study",
)


def verdict(r: Correlation, without_one: list[float]) -> str:
    """The rule."""
    if r.p_permutation <= ALPHA:
        return AGAINST if r.estimate > 0 else SUPPORTED if max(without_one) < 0 else OPEN
    return AGAINST if r.lower > WEAK else OPEN


def one_gain(rows: pd.DataFrame, gain: str) -> Finding:
    """The finding on one named gain."""
    r = correlation(rows["n_layers"], rows[gain], seed=SEED)
    without = [float(np.corrcoef(part["n_layers"], part[gain])[0, 1]) for part in (rows.drop(i) for i in rows.index)]
    decided = verdict(r, without)
    return Finding(
        claim="C01",
        estimand=f"correlation of depth with the {GAIN_WORDS[gain]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}, in one family of one lab, which is no law of transformers: over {r.n} Pythia "
        f"models the {GAIN_WORDS[gain]} correlates with the number of layers at r = {number(r.estimate)} (95 % "
        f"interval {number(r.lower)} to {number(r.upper)}; {r.permutation}: two-sided p {relation(r.p_permutation)}), "
        f"and at {number(min(without))} to {number(max(without))} with any one model left out.",
        estimate=r.estimate,
        lower=r.lower,
        upper=r.upper,
        interval=f"95 % {r.interval}",
        probability=r.p_permutation,
        probability_kind="p-value",
        n_models=r.n,
        n_heritages=rows["heritage"].nunique(),
    )


def line(rows: pd.DataFrame, finding: Finding) -> Finding:
    """The finding with the fitted line of the log penultimate gain over depth beside its test."""
    error = rows["penultimate_gain_sd"] / rows["gain"] / np.sqrt(rows["n_prompts"])
    fit = fit_line(
        rows.assign(error=error),
        "log_gain",
        ["n_layers"],
        scale=SCALE,
        group=None,
        error="error",
        sources=[PYTHIA],
        seed=SEED,
    )
    told = posterior_of(
        fit,
        model="Line of the log gain of the last block but one over the number of layers, Pythia models.",
        statement="n_layers < 0",
        truth=fit.quantities["n_layers"] < 0,
        classical=finding.verdict,
        tables=["rows"],
    )
    return beside(finding, fit, told)


def points(rows: pd.DataFrame) -> dict[str, float]:
    """Means and standard deviations (divisor n, as in the file) of figure 1, by the names of `POINTS`."""
    sd = rows["penultimate_gain_sd"] * np.sqrt(1 - 1 / rows["n_prompts"])
    names = rows["model_id"].map(short_name)
    return {f"mean gain of {name}": float(gain) for name, gain in zip(names, rows["gain"], strict=True)} | {
        f"SD of {name}": float(value) for name, value in zip(names, sd, strict=True)
    }


def analyse(tables: Evidence) -> list[Finding]:
    """One finding for each named gain, the penultimate one first."""
    everything = gains(tables)
    rows = everything[everything["source"] == PYTHIA].sort_values("n_layers", ignore_index=True)
    primary, *others = [one_gain(rows, gain) for gain in GAIN_WORDS]
    depth = correlation(rows["n_layers"], rows["gain"], seed=SEED)
    density = correlation(rows["rho"], rows["gain"], seed=SEED)
    together = correlation(rows["n_layers"], rows["rho"], seed=SEED)
    growth = correlation(rows["n_layers"], np.log(rows["total_to_penultimate"]), seed=SEED)
    own = {
        term: slope(rows, "log_gain ~ n_layers + rho", term=term, errors="classical") for term in ("n_layers", "rho")
    }
    figures = {
        "r of the text": depth.estimate,
        "p of the text": depth.p_value,
        "r of the later note": depth.estimate,
        "p of the later note": depth.p_value,
        "r with ρ in place of depth": density.estimate,
        "p with ρ in place of depth": density.p_value,
    } | points(rows)
    notes = (
        f"Depth gives r = {number(depth.estimate)} (p {relation(depth.p_value)}); head density ρ = H/d_h in place of "
        f"depth gives r = {number(density.estimate)} (p {relation(density.p_value)}), which is the pair of figures "
        "that the file of the Pythia family itself calls the correlation with ρ.",
        f"Depth and ρ go together in this family (r = {number(together.estimate)}). With both in one model of the "
        f"log gain (classical errors, {own['rho'].df:g} degrees of freedom), depth has p "
        f"{relation(own['n_layers'].p_value)} and ρ has p {relation(own['rho'].p_value)}. C10 judges ρ on these same "
        f"{len(rows)} models: a fall with depth and a fall with ρ are here one observation and not two.",
        "A straight line in L is tested and no law: Kleiber's law is a power law with an exponent, and the study "
        "gives none.",
        "Less gain a block is not less gain in all: the product of the gains of blocks 2 to L − 1 goes with depth "
        f"at r = {number(growth.estimate)} on the log scale (p {relation(growth.p_permutation)}).",
    )
    shown = rows[["model_id", "heritage", "n_layers", "gain", "lower", "upper", *list(GAIN_WORDS)[1:]]]
    slopes = slope(rows, "gain ~ n_layers")

    def draw(axes: Axes) -> None:
        line = {"straight line": lambda L: slopes.intercept + slopes.estimate * L}
        gain_by_depth(rows, axes, y="gain", lower="lower", upper="upper", curves=line)
        axes.set_ylabel(GAIN_WORDS["penultimate_gain"])

    caption = (
        f"Gain of the last block but one over the number of layers in {len(rows)} Pythia models; bars are 95 % t "
        f"intervals over {rows['n_prompts'].min():g} prompts, the line is least squares. r = "
        f"{number(depth.estimate)}, 95 % interval {number(depth.lower)} to {number(depth.upper)}."
    )
    primary = replace(
        line(rows, primary),
        published=stated(tables, STATED)
        | stated(tables, IN_THE_FILE, PYTHIA)
        | stated_by_model(tables, PYTHIA, POINTS),
        reproduced=figures,
        notes=notes,
        table=shown,
        draw=draw,
        caption=caption,
    )
    return [primary, *others]


if __name__ == "__main__":
    run(CLAIM, analyse)
