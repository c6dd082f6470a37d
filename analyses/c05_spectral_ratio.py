"""C05: the ratio of ‖W_V‖₂ to ‖W_O‖₂ tells dampening from expansion, and ‖W_V‖₂ differs tenfold between labs.

Claim: models with a large ‖W_V‖₂/‖W_O‖₂ dampen, others expand; EleutherAI's ‖W_V‖₂ is ten times Meta's.
Estimand: Spearman correlation of the ratio with the penultimate gain, unit: the model; primary: models whose published
matrix is W_V and whose gain was measured and depends on the weights; beside it the norms as published, right matrix or
not. Apart from it the ratio of ‖W_V‖₂ between EleutherAI and Meta, model by model.
Rule: supported where the correlation is negative with exact two-sided permutation p of at most ALPHA; not supported
where it is positive with such a p, or where the 95 % interval lies above WEAK; it needs measurement where the models
are too few for any order of them to have such a p; everything else is inconclusive. The tenfold difference: with two
models or more of each lab whose published matrix is W_V, supported where every pair of them lies between LEAST and
MOST, not supported where one does not; with fewer it needs measurement.
Beside the findings on ratio and gain the spectral model (a slope on the log ratio, labs with levels of their own, labs
left out in turn): supported where P(slope < 0) is at least 0.95, not supported where it is at most 0.05. A finding has
the verdict that both come to, and is inconclusive where they differ or where a check of the fit fails.
Models trained here, apart: the same rule over the trained models of the nursery whose gain depends on the weights, the
recipe in the place of the lab, first with the right W_V, then with the rows that the study's slicing takes for it.
Models of two blocks are left out, since their last block but one is the first, which lifts the embedding; with fewer
than LEAST_TRAINED models or LEAST_RECIPES recipes these need measurement. The claim's verdict stays that of the models
it was made about; what small models show of large ones is a hypothesis.
Source: section 4.3, figure 3; restriction_map_summary.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, UNMEASURED
from thermostats.modelling.classical.association import correlation
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.spectra import fit_spectral
from thermostats.plots.general import reference, scatter_labelled
from thermostats.plots.labels import place_labels
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.gains import HUNT, PYTHIA, features_of, finite, gains, prompt_counts
from thermostats.studies.delia2026.stated import H4_V2, known_gains, stated
from thermostats.studies.nursery.norms import trained_norms
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import number, relation, short_name

ALPHA = 0.05
FEWEST = 5
"""Models without which no order has a two-sided p of at most ALPHA: 2/4! is above it, 2/5! below."""
ENUMERATED = 7
WEAK = -0.3
LEAST, MOST = 5.0, 20.0
LEAST_TRAINED, LEAST_RECIPES, LEAST_BLOCKS = 24, 8, 3
SEED = 5
SUMMARY = "restriction_map_summary_20260105_202448.csv"
W_V, CUT, W_O = "W_V_spectral_norm_mean", "W_V_spectral_norm_mean_published_thirds", "W_O_spectral_norm_mean"
STATED = {"ratio of W_V norms, EleutherAI to Meta": "section 4.3"}
LABS = ("EleutherAI", "Meta")

CLAIM = Claim(
    id="C05",
    title="The ratio of the norms of W_V and W_O predicts the sign; W_V differs tenfold between labs",
    said="Models with a large ‖W_V‖₂/‖W_O‖₂ dampen and models with a small one expand; between EleutherAI and Meta "
    "‖W_V‖₂ differs tenfold.",
    estimand="Spearman correlation of ‖W_V‖₂/‖W_O‖₂ with the penultimate gain over models with the right W_V, unit: "
    "the model",
    rule=f"Supported where the correlation is negative with exact two-sided permutation p of at most {ALPHA:g}; not "
    f"supported where it is positive with such a p or its interval lies above {number(WEAK, 1)}; needs measurement "
    "where the models are too few for such a p. Tenfold: two models of each lab with the right matrix are needed, and "
    f"every pair between {LEAST:g} and {MOST:g}. Beside ratio and gain stands a Bayesian slope; the verdict is what "
    "both come to. Models trained here are judged by the same rule, apart, with the right matrix and with the "
    "published slicing.",
    source="Section 4.3, figure 3; restriction_map_summary",
    rows="study",
)


def norms(tables: Evidence) -> pd.DataFrame:
    """One row a model: mean norms of W_V and W_O over layers, whether the published matrix is W_V, and its gain."""
    rows = tables.table("summaries", source=SUMMARY, estimand=[W_V, CUT, W_O])
    wide = rows.pivot(index="model_id", columns="estimand", values="value").reindex(columns=[W_V, CUT, W_O])
    table = pd.DataFrame({"W_V": wide[W_V].fillna(wide[CUT]), "W_O": wide[W_O], "right_matrix": wide[W_V].notna()})
    table["ratio"] = table["W_V"] / table["W_O"]
    known = gains(tables).set_index("model_id")
    labs = tables.table("models").set_index("model_id")[["heritage", "family"]]
    return table.join(labs).join(known[["gain", "lower", "upper", "comparable"]]).reset_index()


def weakest_that_decides(n: int) -> float:
    """Smallest |Spearman correlation| of n models whose exact two-sided p is at most ALPHA; infinite where none is."""
    ranks = np.arange(n)
    null = np.abs([np.corrcoef(ranks, order)[0, 1] for order in permutations(ranks)]).round(9)
    decides = [value for value in np.unique(null) if (null >= value).mean() <= ALPHA]
    return float(min(decides, default=np.inf))


def right_only(rows: pd.DataFrame) -> Finding:
    """The primary finding: models with the right matrix and a gain of their own."""
    words = "models with the right W_V and a measured gain"
    if len(rows) >= FEWEST:
        return prediction(rows, words)
    listed = " and ".join(
        f"{short_name(row.model_id)} (ratio {number(row.ratio)}, gain {number(row.gain)})" for row in rows.itertuples()
    )
    return Finding(
        claim="C05",
        estimand=f"ratio against gain, {words}",
        verdict=UNMEASURED,
        plain=f"{SENTENCES[UNMEASURED]}: the published norms are those of W_V, and stand beside a measured gain that "
        f"depends on the weights, in {len(rows)} {'model' if len(rows) == 1 else 'models'} only{', ' * bool(listed)}"
        f"{listed}. Fewer than {FEWEST} models cannot have a two-sided p of at most {ALPHA:g}, whatever their order.",
        n_models=len(rows),
        n_heritages=rows["heritage"].nunique(),
    )


def prediction(rows: pd.DataFrame, words: str) -> Finding:
    """The finding on ratio and gain over some models."""
    r = correlation(np.log(rows["ratio"]), rows["gain"], method="spearman", seed=SEED)
    decided = OPEN
    if r.p_permutation <= ALPHA:
        decided = SUPPORTED if r.estimate < 0 else AGAINST
    elif r.lower > WEAK:
        decided = AGAINST
    below, above = (rows.loc[mask, "ratio"] for mask in (rows["gain"] < 1, rows["gain"] >= 1))
    ends = [
        f"Models {side} gain 1 have ratios from {number(own.min())} to {number(own.max())}"
        if len(own)
        else f"No model has a gain {side} 1"
        for side, own in (("below", below), ("above", above))
    ]
    needed = ""
    if r.n <= ENUMERATED:
        weakest = weakest_that_decides(r.n)
        order = "a perfect order" if weakest > 1 - 1e-9 else f"a correlation of at least {number(weakest)} in size"
        needed = f" With {r.n} models a p of at most {ALPHA:g} needs {order}."
    return Finding(
        claim="C05",
        estimand=f"ratio against gain, {words}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: over {r.n} models the rank correlation of the ratio with the gain is "
        f"{number(r.estimate)} (95 % interval {number(r.lower)} to {number(r.upper)}, "
        f"two-sided p {relation(r.p_permutation)}); the claim needs it negative.{needed} {'. '.join(ends)}.",
        estimate=r.estimate,
        lower=finite(r.lower),
        upper=finite(r.upper),
        interval=f"95 % {r.interval}",
        probability=r.p_permutation,
        probability_kind="p-value",
        n_models=r.n,
        n_heritages=rows["heritage"].nunique(),
    )


def with_slope(tables: Evidence, rows: pd.DataFrame, finding: Finding) -> Finding:
    """The finding on ratio and gain with the posterior of the slope, where there are models enough."""
    if len(rows) < FEWEST:
        return finding
    features = features_of(tables, PYTHIA, HUNT)
    sliced = np.where(rows["right_matrix"], "right", "published_thirds")
    fit = fit_spectral(
        features,
        rows[["model_id", "ratio"]].assign(sliced=sliced),
        source=[PYTHIA, HUNT],
        prompt_counts=prompt_counts(tables, features),
        seed=SEED,
    )
    return with_fit(finding, fit, "labs")


def with_fit(finding: Finding, fit: Fitted, levels: str) -> Finding:
    """The finding with the posterior of the slope beside it."""
    told = posterior_of(
        fit,
        model=f"Slope of the log penultimate gain on log(‖W_V‖₂/‖W_O‖₂), {levels} with levels of their own.",
        statement="slope < 0",
        truth=fit.quantities["slope"] < 0,
        classical=finding.verdict,
        tables=["left_out", "rivals"],
    )
    return beside(finding, fit, told)


def trained(tables: Evidence) -> list[Finding]:
    """The findings on models trained here: the right W_V, then the study's slicing, of the same models."""
    every = trained_norms(tables)
    rows = every[every["comparable"] & (every["n_layers"] >= LEAST_BLOCKS)].dropna(subset=["gain", "ratio"])
    rows = rows.reset_index(drop=True)
    slicings = {"ratio": "right W_V", "ratio_cut": "W_V by the published slicing"}
    if len(rows) < LEAST_TRAINED or rows["heritage"].nunique() < LEAST_RECIPES:
        return [
            Finding(
                claim="C05",
                estimand=f"ratio against gain, models trained here, {words}",
                verdict=UNMEASURED,
                plain=f"{SENTENCES[UNMEASURED]}: the tables hold {len(rows)} models trained here whose gain can be "
                f"compared, and the rule asks for {LEAST_TRAINED} models of {LEAST_RECIPES} recipes at least.",
                n_models=len(rows),
                n_heritages=rows["heritage"].nunique(),
                group="recipe",
            )
            for words in slicings.values()
        ]
    return [judged(every, rows, column, words) for column, words in slicings.items()]


def judged(every: pd.DataFrame, rows: pd.DataFrame, column: str, words: str) -> Finding:
    """The finding on the trained models with W_V taken one way."""
    own = rows.assign(ratio=rows[column])
    found = prediction(own, f"models trained here, {words}")
    fit = fit_spectral(own, own[["model_id", "ratio"]], source=NURSERY, seed=SEED)
    by_recipe = own.groupby("heritage").agg(ratio=("ratio", "mean"), gain=("gain", "mean"))
    means = correlation(np.log(by_recipe["ratio"]), by_recipe["gain"], method="spearman", seed=SEED)
    learned = own[own["learned"].eq(True)]
    sure = correlation(np.log(learned["ratio"]), learned["gain"], method="spearman", seed=SEED)
    fused = rows[rows["fused"]]
    off = fused["ratio_cut"] / fused["ratio"]
    said = fit.numbers
    shown = own.assign(name=own["model_id"].map(short_name))
    notes = (
        f"{len(fused)} of {len(rows)} models keep queries, keys and values in one matrix; in these the slicing changes "
        f"the ratio by factors from {number(off.min())} to {number(off.max())}, median {number(off.median())}, and in "
        "the others it is the right W_V.",
        f"Each recipe predicted from the others: R² {number(said['r_squared_across_labs'])} against a constant, the "
        f"side of 1 right in {said['sign_right_across_labs']:.0%} of models, 95 % intervals that hold the gain in "
        f"{said['coverage_across_labs']:.0%}.",
        f"Means of the {means.n} recipes, which share their training within and not between: rank correlation "
        f"{number(means.estimate)} (two-sided p {relation(means.p_permutation)}). Models that learned, {sure.n}: "
        f"{number(sure.estimate)} ({relation(sure.p_permutation)}).",
        f"Left out: {int((~every['comparable']).sum())} models that norm the stream itself, whose gain is near 1 by "
        f"construction, and {int((every['comparable'] & (every['n_layers'] < LEAST_BLOCKS)).sum())} of two blocks.",
        "Recipes were assigned by design, the ratio was not: it is an outcome of training as the gain is, so that the "
        "slope is one of association. Small models, short training, two corpora.",
    )

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        scatter_labelled(shown, axes, x="ratio", y="gain", label="name", lower="lower", upper="upper", labels=False)
        axes.set(xlabel=f"mean ‖W_V‖₂ / mean ‖W_O‖₂, {words}", ylabel="gain of the last block but one")
        log_axis(axes, "x")

    found = replace(
        found,
        group="recipe",
        notes=notes,
        table=rows[["model_id", "heritage", "fused", "ratio", "ratio_cut", "gain", "lower", "upper", "learned"]],
        draw=draw,
        caption=f"Penultimate gain of {len(own)} models trained here over the ratio of mean norms ({words}), with 95 % "
        "t intervals over prompts; colours are recipes.",
    )
    return with_fit(found, fit, "recipes")


def tenfold(rows: pd.DataFrame) -> Finding:
    """The finding on ‖W_V‖₂ between two labs."""
    right = rows[rows["right_matrix"]]
    first, second = (right.loc[right["heritage"] == lab, "W_V"].to_numpy() for lab in LABS)
    pairs = (first[:, None] / second[None, :]).ravel()
    enough = min(len(first), len(second)) >= 2
    inside = all(LEAST <= pair <= MOST for pair in pairs)
    decided = (SUPPORTED if inside else AGAINST) if enough else UNMEASURED
    every = {lab: rows.loc[rows["heritage"] == lab, "W_V"] for lab in LABS}
    wrong = ", ".join(short_name(name) for name in rows.loc[~rows["right_matrix"], "model_id"])
    seen = f" Where it is, the ratios run from {number(pairs.min())} to {number(pairs.max())}." if len(pairs) else ""
    return Finding(
        claim="C05",
        estimand="ratio of the norms of W_V between EleutherAI and Meta",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: the published means differ "
        f"{number(every[LABS[0]].mean() / every[LABS[1]].mean())}-fold, but for {wrong or 'no model'} the matrix "
        f"that was cut out of the fused weights is not W_V.{seen}",
        n_models=len(first) + len(second),
        n_heritages=len(LABS),
    )


def analyse(tables: Evidence) -> list[Finding]:
    """Ratio against gain with the right W_V, then as published for measured and for all gains; difference of labs;
    then the models trained here.
    """
    rows = norms(tables)
    labels = known_gains(tables, H4_V2).set_index("model_id")
    wrong = labels[(labels["known_gain"] < 1) != (labels["behaviour"] == "DAMPEN")]
    disagree = ", ".join(short_name(name) for name in wrong.index)
    copied = labels["known_gain"]
    every = rows.assign(gain=rows["gain"].fillna(rows["model_id"].map(copied))).dropna(subset="gain")
    measured = rows[rows["gain"].notna() & rows["comparable"].eq(True)]
    means = rows.groupby("heritage")["W_V"].mean()
    reproduced = {"ratio of W_V norms, EleutherAI to Meta": float(means[LABS[0]] / means[LABS[1]])}
    smallest, largest = rows.loc[rows["ratio"].idxmin()], rows.loc[rows["ratio"].idxmax()]
    by_norm = correlation(np.log(every["W_V"]), every["gain"], method="spearman", seed=SEED)
    fewest = min(int((measured["gain"] < 1).sum()), int((measured["gain"] >= 1).sum()))
    notes = (
        f"The smallest ratio is that of {short_name(smallest['model_id'])} ({number(smallest['ratio'])}, gain "
        f"{number(smallest['gain'])}) and the largest that of {short_name(largest['model_id'])} "
        f"({number(largest['ratio'])}, gain {number(largest['gain'])}).",
        f"‖W_V‖₂ alone has a rank correlation with the gain of {number(by_norm.estimate)} over {by_norm.n} models "
        f"(two-sided p {relation(by_norm.p_permutation)}).",
        "The norms are rows of a file as they stand; figure 3 itself is not in the files and was not read off, and "
        "nothing beneath the norms is published, so that they cannot be recomputed.",
        "The rule was corrected after a review, because C06 and the tenfold difference need the right matrix and this "
        "did not; under the earlier rule, which is now that of the norms as published, the verdict was inconclusive.",
        f"With {fewest} models on the smaller side of gain 1 no classifier can be judged; norms of the right W_V are "
        "needed for more models.",
        f"The study's own labels of behaviour are not used; they disagree with the gain for {disagree or 'no model'}.",
    )
    cut = rows.assign(name=rows["model_id"].map(short_name) + np.where(rows["right_matrix"], "", "*"))

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        shown = cut[cut["gain"].notna()]
        scatter_labelled(shown, axes, x="ratio", y="gain", label="name", lower="lower", upper="upper", labels=False)
        log_axis(axes, "x")
        axes.set(xlabel="mean ‖W_V‖₂ / mean ‖W_O‖₂", ylabel="gain of the last block but one")
        place_labels(axes, shown["ratio"], shown["gain"], list(shown["name"]))

    primary = replace(
        right_only(measured[measured["right_matrix"]].reset_index(drop=True)),
        notes=notes,
        table=cut[["model_id", "heritage", "W_V", "W_O", "ratio", "right_matrix", "gain", "lower", "upper"]],
        draw=draw,
        caption="Penultimate gain over the ratio of the published mean norms, with 95 % t intervals over prompts. * "
        "The published matrix is not W_V: the fused weights were cut in thirds where the architecture interleaves "
        "heads.",
    )
    labs = replace(tenfold(rows), published=stated(tables, STATED), reproduced=reproduced)
    return [
        primary,
        with_slope(tables, measured, prediction(measured, "norms as published, measured gains of comparable models")),
        prediction(every, "norms as published, all models, one gain copied by hand"),
        labs,
        *trained(tables),
    ]


if __name__ == "__main__":
    run(CLAIM, analyse)
