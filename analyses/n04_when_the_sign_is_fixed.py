"""N04: when in training the sign of the gain is fixed, and whether tuning on another corpus can change it.

Claims: a model's side of gain 1 is there early in training, or before it, and fine-tuning changes the size of the gain
and never its sign (C11). Estimand: share of models whose mean log gain of the last block has, at a share s of training
and at every checkpoint after it, the sign that it has at the end; over pairs of a model and the same model trained on,
on the other corpus, for 30 % of its steps: the share whose last gain changes sides of 1, and the ratio of the gains,
tuned over base, over the same prompts. Unit: the trained model; the pair. Models normed after the sum are left out.
Rule, when: asked at EARLY of training and at initialisation. Supported where the 95 % interval of the share (models of
a recipe alike) lies above MOSTLY, not supported where it lies below, else inconclusive; beside it P(share > MOSTLY) of
a model with recipes as groups, by 0.95 and 0.05.
Rule, pairs: as in C11. A pair flips where both 95 % t intervals of the mean log gain over prompts exclude 1 on opposite
sides; one flip is enough against "cannot"; supported needs the exact 95 % interval of the share of flips to end below
MOST_FLIPS; else inconclusive. Magnitude: supported where the paired 95 % interval of the ratio, Bonferroni over pairs,
excludes 1 in at least one pair, against where in every pair it lies within ±NEGLIGIBLE of 1, else inconclusive. Beside
them the posterior of paired prompts by C11's rules. A verdict is what both come to, and inconclusive where they differ
or a check of the fit fails. Fewer models than in N01, or fewer pairs than LEAST_PAIRS: needs measurement.
Source: the controlled study; section 5.5 of the preprint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, SURE, UNMEASURED, if_above
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.pairs import fit_invariance
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import MUTED, legend_above, paired, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.by_prompt import TWIN, gain_by_prompt
from thermostats.studies.nursery.factors import CHECKPOINTS, RECIPE
from thermostats.studies.nursery.recipe_fit import LEAST_MODELS, LEAST_RECIPES, LIMITS, too_few, unmeasured
from thermostats.studies.nursery.rows import checkpoints
from thermostats.studies.nursery.signs import development, fixed_from, gains_of_pairs, log_gains, pair_table
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import MINUS, number, plural, range_text

SEED = 104
GAIN = "last_gain"
EARLY, INITIAL = 0.1, 0.0
MOSTLY = 0.9
MOST_FLIPS, NEGLIGIBLE = 0.10, 0.05
"""As in C11."""
LEAST_PAIRS = 8
COLOURED = ("init", "optimiser")
"""Recipe factors by which the two figures of training are coloured."""

CLAIM = Claim(
    id="N04",
    title="The sign of the gain is fixed early in training, and tuning cannot change it",
    said="On which side of 1 a model’s gain lies is settled early in its training, or before it; fine-tuning changes "
    "the size of the gain and not its sign.",
    estimand="share of models whose sign of the log last gain is final from a share of training on; share of pairs, "
    "model and tuned model, whose last gain changes sides of 1",
    rule=f"When: supported where the 95 % interval of the share of models lies above {MOSTLY:.0%}, not supported where "
    "below. Tuning: as in C11, one clear flip is enough against “cannot”, supported where the exact interval of the "
    f"share of flips ends below {MOST_FLIPS:g}. Beside each the posterior of the same statement; the verdict is what "
    f"both come to. Fewer than {LEAST_MODELS} models of {LEAST_RECIPES} recipes, or {LEAST_PAIRS} pairs: needs "
    "measurement.",
    source="The controlled study; section 5.5",
    rows="nursery",
)


def when(logs: pd.DataFrame, facts: pd.DataFrame, share: float, table: pd.DataFrame) -> Finding:
    """The finding on one share of training; `facts`: a row a model, in the order of `logs`, with its recipe."""
    row = table.set_index("share").loc[share]
    decided = if_above(float(row["lower"]), float(row["upper"]), MOSTLY)
    place = f"at {share:.0%} of training" if share else "at initialisation"
    finding = Finding(
        claim="N04",
        estimand=f"share of models whose sign is final from {place.removeprefix('at ')} on",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: {place} {int(row['fixed'])} of {len(logs)} models have the sign of the log gain "
        f"that they keep to the end, {row['estimate']:.0%} (95 % interval {row['lower']:.0%} to {row['upper']:.0%}, "
        f"models of a recipe alike). Signs as frequent as these and independent would agree with the end in "
        f"{row['by_chance']:.0%}.",
        estimate=float(row["estimate"]),
        lower=float(row["lower"]),
        upper=float(row["upper"]),
        interval="95 % Korn–Graubard interval, recipes as groups",
        n_models=len(logs),
        n_heritages=facts["recipe"].nunique(),
    )
    holds = facts.assign(heritage=facts["recipe"], sign_is_final=fixed_from(logs)[share].to_numpy())
    fit = fit_share(holds, "sign_is_final", against=MOSTLY, group="recipe", sources=[NURSERY], seed=SEED)
    told = posterior_of(
        fit,
        model=f"Share of models whose sign {place} is final, recipes as groups.",
        statement=f"share > {MOSTLY:g}",
        classical=decided,
        tables=["groups"],
    )
    return beside(finding, fit, told)


def draw_training(logs: pd.DataFrame, facts: pd.DataFrame, factor: str) -> Callable[[Axes], None]:
    """Gain of every model by share of training, coloured by a factor of the recipe."""

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        at = np.arange(len(CHECKPOINTS))
        for number_of, level in enumerate(RECIPE[factor]):
            own = np.exp(logs[(facts[factor] == level).to_numpy()])
            for position, values in enumerate(own.to_numpy()):
                label = f"{factor} {level}".replace("_", " ") if position == 0 else None
                axes.plot(at, values, color=f"C{number_of}", linewidth=0.8, alpha=0.7, label=label)
        log_axis(axes, "y")
        axes.set_xticks(at, [f"{share:.0%}" for share in CHECKPOINTS])
        axes.set_xlabel("share of training")
        axes.set_ylabel("gain of the last block")
        legend_above(axes)

    return draw


def draw_pairs(table: pd.DataFrame) -> Callable[[Axes], None]:
    """Gains before and after tuning with their intervals, a row a pair."""

    def draw(axes: Axes) -> None:
        shown = table.assign(pair=table["model_id"].str.removeprefix(f"{NURSERY}/")).drop(columns="heritage")
        for position, row in enumerate(shown.itertuples()):
            axes.hlines(position - 0.22, row.base_lower, row.base_upper, color=MUTED, linewidth=1.2)
            axes.hlines(position + 0.22, row.tuned_lower, row.tuned_upper, color=MUTED, linewidth=1.2)
        paired(shown, axes, before="base_gain", after="tuned_gain", label="pair", names=("trained", "tuned"))
        log_axis(axes, "x")
        axes.set_xlabel("gain of the last block, geometric mean over prompts with 95 % interval")

    return draw


def sign(table: pd.DataFrame) -> Finding:
    """Does any tuned model stand on the other side of 1 than the model it was tuned from?"""
    flips, other = int(table["flips"].sum()), int(table["other_side"].sum())
    share = proportion(flips, len(table))
    decided = AGAINST if flips else SUPPORTED if share.upper < MOST_FLIPS else OPEN
    dampeners, expanders = int((table["base_upper"] < 1).sum()), int((table["base_lower"] > 1).sum())
    needed = int(np.ceil(np.log(0.025) / np.log(1 - MOST_FLIPS)))
    return Finding(
        claim="N04",
        estimand="share of pairs whose last gain changes sides of 1 by tuning on the other corpus",
        verdict=decided,
        plain=f"{flips} of {len(table)} tuned models stand clearly on the other side of 1 than the model they were "
        f"tuned from. {SENTENCES[decided]}: the share of tunings that change the sign lies between {share.lower:.0%} "
        f"and {share.upper:.0%}; by their means alone {plural(other, 'pair')} would. Of the models {dampeners} clearly "
        f"dampened and {expanders} clearly expanded before.",
        estimate=share.estimate,
        lower=share.lower,
        upper=share.upper,
        interval="Clopper–Pearson exact interval, 95 %",
        n_models=2 * len(table),
        n_heritages=table["heritage"].nunique(),
        draw=draw_pairs(table),
        caption=f"Gain of the last block before (open) and after (filled) tuning on the other corpus, {len(table)} "
        f"pairs, one a recipe; grey bars, trained above and tuned below, 95 % t intervals over prompts. {flips} pairs "
        "change sides clearly.",
        notes=(
            f"Without a flip {needed} pairs would be needed for the interval to end below {MOST_FLIPS:g}; with the "
            f"{len(table)} there are “cannot” cannot come out as supported.",
        )
        if len(table) < needed
        else (),
    )


def magnitude(table: pd.DataFrame) -> Finding:
    """By how much does tuning change the gain?"""
    moved = (table["ratio_lower"] > 1) | (table["ratio_upper"] < 1)
    still = (table["ratio_lower"] > 1 - NEGLIGIBLE) & (table["ratio_upper"] < 1 + NEGLIGIBLE)
    decided = SUPPORTED if moved.any() else AGAINST if still.all() else OPEN
    most = table.loc[np.log(table["ratio"]).abs().idxmax()]
    percent = f"{most['ratio'] - 1:+.0%}".replace("-", MINUS)
    return Finding(
        claim="N04",
        estimand="ratio of last gains, tuned over trained, same prompts",
        verdict=decided,
        plain=f"Tuning on the other corpus changes the gain of the last block clearly in {int(moved.sum())} of "
        f"{len(table)} pairs. {SENTENCES[decided]}: the largest change is {percent} in {most['model_id']} (ratio "
        f"{number(most['ratio'])}, interval {range_text(most['ratio_lower'], most['ratio_upper'])}).",
        estimate=most["ratio"],
        lower=most["ratio_lower"],
        upper=most["ratio_upper"],
        interval=f"paired t interval of the log ratio over prompts, {100 * (1 - 0.05 / len(table)):.1f} %",
        probability=most["p"],
        probability_kind="p-value",
        n_models=2 * len(table),
        n_heritages=table["heritage"].nunique(),
    )


def with_posterior(gains: pd.DataFrame, first: Finding, second: Finding) -> list[Finding]:
    """Both findings on pairs with what one fit says of them, by C11's rules."""
    fit = fit_invariance(gains, margin=1 + NEGLIGIBLE, seed=SEED)
    drawn = fit.sampled["changes"]
    level, change = drawn["level"], drawn["change"]
    flips, moved = (level > 0) != (level + change > 0), np.abs(np.expm1(change)) > NEGLIGIBLE
    model = "Log gains of trained models and log ratios of tuned to trained, prompt by prompt; pairs of one population."
    of_sign = posterior_of(
        fit,
        model=model,
        statement="no pair changes the sign of its mean log gain",
        truth=np.asarray(~flips.any(axis=-1)),
        rule="Against, whatever the posterior, where the two intervals of a pair exclude 1 on opposite sides; else "
        f"supported where the probability is at least {SURE:g}, not supported where it is at most {1 - SURE:.2g}.",
        verdict=AGAINST if first.verdict == AGAINST else None,
        classical=first.verdict,
        tables=["pairs", "new_pair", "shown"],
    )
    of_magnitude = posterior_of(
        fit,
        model=model,
        statement=f"some pair changes by more than {NEGLIGIBLE:.0%}",
        truth=np.asarray(moved.any(axis=-1)),
        classical=second.verdict,
        tables=["pairs"],
    )
    return [beside(first, fit, of_sign), beside(second, fit, of_magnitude)]


def published_pairs(tables: Evidence) -> pd.DataFrame:
    """C11's pairs of base and child by the same computation."""
    models = tables.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    return pair_table(gain_by_prompt(tables, GAIN, TWIN).merge(models, on="model_id"), seed=SEED)


def of_pairs(tables: Evidence) -> list[Finding]:
    """Sign and magnitude over pairs."""
    gains = gains_of_pairs(tables, GAIN)
    gains = gains[gains["norm_place"] != "post"].reset_index(drop=True)
    children = gains[gains["variant"] == "instruct"].drop_duplicates("model_id")
    n = int(children["parent"].isin(gains["model_id"]).sum())
    if n < LEAST_PAIRS:
        estimand = "share of pairs whose last gain changes sides of 1 by tuning on the other corpus"
        said = f"{SENTENCES[UNMEASURED]}: {n} pairs are in the tables, and the rule asks for {LEAST_PAIRS}."
        return [Finding(claim="N04", estimand=estimand, verdict=UNMEASURED, plain=said, n_models=2 * n)]
    table, before = pair_table(gains, seed=SEED), published_pairs(tables)
    both = pd.concat([table.assign(study="here, by design"), before.assign(study="published, C11")], ignore_index=True)
    first, second = with_posterior(gains, sign(table), magnitude(table))
    largest = float(np.expm1(np.log(before["ratio"]).abs().max()))
    beside_it = (
        f"C11 has {len(before)} published pairs of base and child, of which {int(before['flips'].sum())} change sides "
        f"by the same rule; the largest change there is by a factor of {number(1 + largest)}, here of "
        f"{number(float(np.exp(np.log(table['ratio']).abs().max())))}. There the tuning data differ from lab to lab; "
        "here a model is trained on for 30 % of its steps by its own recipe, on the corpus it was not trained on.",
        LIMITS,
    )
    return [replace(first, table=both, notes=(*first.notes, *beside_it)), second]


def training(rows: pd.DataFrame) -> list[Finding]:
    """The findings on when, early first."""
    kept = rows[rows["comparable"]]
    logs = log_gains(kept, GAIN)
    whole = kept[~kept["tuned"]].drop_duplicates("model", keep="last").set_index("model").loc[logs.index].reset_index()
    if too_few(whole):
        return [unmeasured("N04", f"share of models whose sign is final from {EARLY:.0%} of training on", whole)]
    table = development(logs, whole["recipe"])
    early, initial = (when(logs, whole, share, table) for share in (EARLY, INITIAL))
    learned = whole["learned"].astype(bool).to_numpy()
    clear = (np.abs(np.log(whole[f"{GAIN}_geometric"])) > spread_over_prompts(whole)).to_numpy()
    others = {
        "models that learned": logs[learned],
        "models whose final sign is clear (|mean log gain| above two standard errors over prompts)": logs[clear],
    }
    said = "; ".join(
        f"{words}, {len(part)}: {fixed_from(part)[EARLY].mean():.0%} fixed at {EARLY:.0%} of training and "
        f"{fixed_from(part)[INITIAL].mean():.0%} at initialisation"
        for words, part in others.items()
        if len(part)
    )
    other = log_gains(kept[kept["n_layers"] > 2], "penultimate_gain")
    notes = (
        LIMITS,
        "A sign that is final at one checkpoint and was not at the one before was fixed somewhere between the two; "
        "what happens between checkpoints and turns back is not seen. At the end every sign is final by definition.",
        f"Other choices: {said}. By the gain of the last block but one ({len(other)} models of four blocks or more) "
        f"{fixed_from(other)[EARLY].mean():.0%} and {fixed_from(other)[INITIAL].mean():.0%}.",
        f"{int((logs.iloc[:, -1] < 0).sum())} of {len(logs)} models dampen at the end.",
    )
    captions = [
        f"Gain of the last block over the share of training in {len(logs)} models, coloured by {factor}; the dashed "
        f"line is gain 1. {found.estimate:.0%} have their final sign from {share:.0%} of training on."
        for factor, found, share in zip(COLOURED, (early, initial), (EARLY, INITIAL), strict=True)
    ]
    return [
        replace(early, table=table, notes=notes, draw=draw_training(logs, whole, COLOURED[0]), caption=captions[0]),
        replace(initial, draw=draw_training(logs, whole, COLOURED[1]), caption=captions[1]),
    ]


def spread_over_prompts(rows: pd.DataFrame) -> pd.Series:
    """Two standard errors of the mean log gain over prompts."""
    return 2 * rows[f"{GAIN}_sd"] / rows[GAIN] / np.sqrt(rows[f"{GAIN}_n"].astype("float64"))


def analyse(tables: Evidence) -> list[Finding]:
    """When the sign is fixed, early first; then pairs, sign first."""
    own = (*training(checkpoints(tables)), *of_pairs(tables))
    return [replace(finding, group="recipe") for finding in own]


if __name__ == "__main__":
    run(CLAIM, analyse)
