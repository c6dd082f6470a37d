"""N04: the sign of the gain is fixed early in training, and tuning cannot change it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import PUBLISHED, Claim, Evidence, Inference, Result, TooFew, Trial
from thermostats.claims.rule import Posterior
from thermostats.modelling.fit import Fit
from thermostats.modelling.pair_means import fit_pair_means
from thermostats.modelling.pairs import changes_sides
from thermostats.plots.general import slopes
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.by_prompt import TWIN
from thermostats.studies.nursery import glance, second, third
from thermostats.studies.nursery.early import (
    MOMENTS,
    ON_A_LINE,
    PREDICTS,
    SETTLES,
    WORLDS,
    Moment,
    along_training,
    at,
    at_the_bar,
    early_and_end,
    of_corpus,
    ranked,
    with_models,
)
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, SHALLOW, checkpoints
from thermostats.studies.nursery.second import CHOSEN, HALF_WITH_CHOSEN, early_and_late
from thermostats.studies.nursery.shipped import SHARES
from thermostats.studies.nursery.signs import (
    by_ranks,
    development,
    draw_training,
    gains_of_pairs,
    log_gains,
    log_ratios,
    pair_table,
    standard_errors,
)
from thermostats.studies.nursery.tuning import (
    ACROSS,
    ACROSS_AT_WORST,
    CAN_CROSS,
    CANNOT,
    CHANGES,
    FLIPS,
    MOVED,
    NEGLIGIBLE,
    NONE_ACROSS,
    NONE_AT_WORST,
    PAIRS,
    TUNED,
    WITHOUT_A_FLIP,
    by_bases,
    by_flips,
    by_prompts,
    crossings,
)
from thermostats.tables.prompt_rows import gain_by_prompt
from thermostats.tables.vocabulary import NURSERY

SEED = 104
GAIN = "last_gain"
SETTLED = "the gain at a tenth of training goes with that at the end"
CLAIM = Claim.read(__file__)


@CLAIM.shared
def trained(evidence: Evidence) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Log gains by share of training, and the models that they are of."""
    rows = checkpoints(evidence)
    logs, models = with_models(rows[rows["comparable"]], GAIN)
    return logs, ENOUGH.of(models)


def at_moment(evidence: Evidence, moment: Moment) -> pd.DataFrame:
    """Last gains of the first study at a moment and at the end."""
    return ranked(early_and_end(*trained(evidence), moment.share))


def of_both(evidence: Evidence) -> pd.DataFrame:
    """Penultimate gains at a tenth of training and at the end, models of both studies; cells of a study and corpus."""
    later = HALF_WITH_CHOSEN.of(early_and_late(evidence)).assign(study="second")
    rows = checkpoints(evidence)
    deep = rows[rows["comparable"] & (rows["n_layers"] > SHALLOW)]
    logs, models = with_models(deep, "penultimate_gain")
    cell = "first " + models["cell"] + " " + models["corpus"].astype(str)
    first = early_and_end(logs, models.assign(cell=cell, study="first"), 0.1)
    return ranked(pd.concat([first, later[list(first)]], ignore_index=True))


def crossed(evidence: Evidence) -> pd.DataFrame:
    """Log gains of the third study at a tenth of training and at the end."""
    return third.HALF.of(third.early_and_late(evidence))


@CLAIM.finding(
    "third",
    primary=SETTLES,
    trial=Trial(crossed, by_ranks, "recipe", ON_A_LINE, searches=at_the_bar(32, 640), version=2),
    **third.STUDY,
)
def of_third_study(evidence: Evidence) -> Result:
    """Does a tenth of training go with the end, among models of one shape and corpus, in four corpora?"""
    rows = crossed(evidence)
    table = along_training(partial(third.early_and_late, evidence), third.SHARES)
    words = {
        "settled": table.to_dict("records"),
        "agree": int(((rows["early"] > 0) == (rows["end"] > 0)).sum()),
        "by": {third.IN_WORDS[str(name)]: of_corpus(own) for name, own in rows.groupby("trained_on")},
        "on": {words: of_corpus(third.early_and_late(evidence, on=name)) for name, words in third.IN_WORDS.items()},
        "flips": third.pairs(evidence)["flips"],
    }
    return replace(by_ranks(rows), table=table, words=words, draw=partial(glance.settling, table))


@CLAIM.finding(
    "together",
    primary=SETTLES,
    trial=Trial(of_both, by_ranks, "recipe", ON_A_LINE, searches=at_the_bar(51, 480), version=2),
    statement=SETTLED,
    evidence=NURSERY,
    needs=HALF_WITH_CHOSEN,
)
def of_both_studies(evidence: Evidence) -> Result:
    """Does a tenth of training go with the end, among models of one shape and study?"""
    rows = of_both(evidence)
    return replace(by_ranks(rows), draw=partial(glance.early_and_late, rows))


def moments(evidence: Evidence) -> pd.DataFrame:
    """Log gains at a tenth of training and at the end."""
    return HALF_WITH_CHOSEN.of(early_and_late(evidence))


@CLAIM.finding(
    "second",
    primary=SETTLES,
    trial=Trial(moments, by_ranks, "heritage", ON_A_LINE, searches=at_the_bar(24, 432), version=2),
    statement=SETTLED,
    evidence=NURSERY,
    needs=HALF_WITH_CHOSEN,
)
def of_second_study(evidence: Evidence) -> Result:
    """Does the gain at a tenth of training go with that at the end, among models of one shape?"""
    rows = moments(evidence)
    found, table = by_ranks(rows), along_training(partial(early_and_late, evidence), SHARES[:-1])
    words = {
        "settled": table.to_dict("records"),
        "agree": int(((rows["early"] > 0) == (rows["end"] > 0)).sum()),
        "chosen": int(((rows["end"] < 0) & rows["recipe"].str.startswith(CHOSEN)).sum()),
    }
    return replace(found, table=table, words=words, draw=partial(glance.settling, table))


@CLAIM.finding(
    "sign",
    primary=PREDICTS,
    over=MOMENTS,
    trial=Trial(at_moment, by_ranks, "recipe", WORLDS, searches=at_the_bar(23, 64)),
    **CONTROLLED,
)
def sign(evidence: Evidence, moment: Moment) -> Result:
    """Does the log gain go with that at the end, among models of one shape?"""
    logs, models = trained(evidence)
    deep = checkpoints(evidence)[lambda rows: rows["comparable"] & (rows["n_layers"] > SHALLOW)]
    table = development(logs, models["recipe"])
    clear = (np.abs(np.log(models[f"{GAIN}_geometric"])) > 2 * standard_errors(models, GAIN)).to_numpy()
    found = by_ranks(at_moment(evidence, moment))
    return replace(
        found,
        table=table if moment.share else None,
        draw=partial(draw_training, logs, models, moment.factor),
        words={
            "row": table.set_index("share").loc[moment.share],
            "learned": at(logs[models["learned"].astype(bool).to_numpy()]),
            "clear": at(logs[clear]),
            "penultimate": at(log_gains(deep, "penultimate_gain")),
            "dampen": int((logs.iloc[:, -1] < 0).sum()),
        },
    )


@CLAIM.shared
def gains(evidence: Evidence) -> pd.DataFrame:
    """Gains by prompt of trained models and of the same trained on, on the other corpus."""
    rows = gains_of_pairs(evidence, GAIN)
    return rows[rows["norm_place"] != "post"].reset_index(drop=True)


@CLAIM.shared
def pairs(evidence: Evidence) -> pd.DataFrame:
    """One row per pair."""
    table = pair_table(gains(evidence), seed=SEED)
    if 2 * len(table) < PAIRS.models:
        raise TooFew(Result(n_models=2 * len(table)))
    return table


@CLAIM.shared
def fit_pairs(evidence: Evidence) -> Fit:
    """The model of all pairs."""
    return fit_pair_means(gains(evidence), margin=1 + NEGLIGIBLE, seed=SEED)


NO_FLIP = Posterior("no pair changes the sign of its mean log gain", refuted=FLIPS > 0)
NO_NUISANCE = "Ratios by prompt of one pair have errors alone, and every kind of them is a world."
SOME_MOVES = Posterior(f"some pair changes by more than {NEGLIGIBLE:.0%}")


@CLAIM.finding(
    "tuning.sign",
    primary=CANNOT,
    robustness=NO_FLIP,
    trial=Trial(pairs, by_flips, "", NONE_ACROSS, "pair", NONE_AT_WORST),
    evidence=NURSERY,
    needs=PAIRS,
)
def tuning_sign(evidence: Evidence) -> Result:
    """Does any tuned model stand on the other side of 1 than the model it was tuned from?"""
    table, fit = pairs(evidence), fit_pairs(evidence)
    published = evidence.named(PUBLISHED)
    models = published.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    before = pair_table(gain_by_prompt(published, GAIN, TWIN).merge(models, on="model_id"), seed=SEED)
    flips, shown = int(table["flips"].sum()), table.assign(pair=table["model_id"].str.removeprefix(f"{NURSERY}/"))

    def draw(axes: Axes) -> None:
        own = shown.drop(columns="heritage")
        before, after = ([f"{when}_{part}" for part in ("gain", "lower", "upper")] for when in ("base", "tuned"))
        slopes(own, axes, before=before, after=after, label="pair", names=("trained", "tuned"))
        log_axis(axes, "y")
        axes.set_ylabel("last gain, geometric mean over prompts")

    both = [table.assign(study="here, by design"), before.assign(study="published, C11")]
    return replace(
        by_flips(table),
        table=pd.concat(both, ignore_index=True),
        draw=draw,
        inference=Inference(
            fit,
            tables=("pairs", "new_pair", "shown"),
            statements={NO_FLIP.statement: lambda q: ~changes_sides(q).any(axis=-1)},
        ),
        words={
            "flips": flips,
            "pairs": len(table),
            "by_means": int(table["other_side"].sum()),
            "dampened": int((table["base_upper"] < 1).sum()),
            "expanded": int((table["base_lower"] > 1).sum()),
            "published": len(before),
            "published_flips": int(before["flips"].sum()),
            "published_change": float(np.exp(np.log(before["ratio"]).abs().max())),
            "change": float(np.exp(np.log(table["ratio"]).abs().max())),
            "needed": WITHOUT_A_FLIP,
        },
    )


def ratios(evidence: Evidence) -> pd.DataFrame:
    """Log ratios by pair and prompt, of pairs that are enough."""
    return log_ratios(gains(evidence)) if len(pairs(evidence)) else pd.DataFrame()


@CLAIM.finding(
    "tuning.magnitude",
    primary=MOVED,
    robustness=SOME_MOVES,
    trial=Trial(ratios, by_prompts, "pair", CHANGES, "pair", unsearched=NO_NUISANCE),
    evidence=NURSERY,
    needs=PAIRS,
)
def tuning_magnitude(evidence: Evidence) -> Result:
    """By how much does tuning change the gain?"""
    found, fit = by_prompts(ratios(evidence)), fit_pairs(evidence)
    statements = {SOME_MOVES.statement: lambda q: (np.abs(q["ratio"] - 1) > NEGLIGIBLE).any(axis=-1)}
    return replace(found, inference=Inference(fit, tables=("pairs",), statements=statements))


def tuned(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a tuned model of the second study."""
    return TUNED.of(second.pairs(evidence))


def tuned_of_third(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a tuned model of the third study."""
    return TUNED.of(third.pairs(evidence))


@CLAIM.finding(
    "third_tuning",
    primary=CAN_CROSS,
    trial=Trial(tuned_of_third, by_bases, "", ACROSS, "pair", ACROSS_AT_WORST),
    evidence=NURSERY,
    needs=TUNED,
)
def tuning_of_third(evidence: Evidence) -> Result:
    """Can tuning cross 1, and from how far?"""
    rows = tuned_of_third(evidence)
    words = crossings(rows) | {"on_new": int(rows["flips_on_new"].sum())}
    return by_bases(rows).adding(words=words, draw=partial(glance.tuned, rows))


@CLAIM.finding(
    "tuning.share",
    primary=CAN_CROSS,
    trial=Trial(tuned, by_bases, "", ACROSS, "pair", ACROSS_AT_WORST),
    evidence=NURSERY,
    needs=TUNED,
)
def tuning_share(evidence: Evidence) -> Result:
    """Can tuning cross 1?"""
    rows = tuned(evidence)
    return by_bases(rows).adding(words=crossings(rows))


if __name__ == "__main__":
    CLAIM.main()
