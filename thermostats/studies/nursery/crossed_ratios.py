"""The third study's ratios as findings of N01: over corpora that have language, and by other choices.

Shuffled English is a control: there is nothing to learn in it but frequencies, its gains spread four times as far as
those of the others, and squares averaged with it are its own to nine parts in ten. It is shown alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, Each, Gate, V
from thermostats.modelling.draws import Array
from thermostats.studies.nursery import third
from thermostats.studies.nursery.crossed import mean_ratios, ratios, spreads, table
from thermostats.studies.nursery.crossed_worlds import ALIKE, RECIPE, SHAPE, THRESHOLDS

OVER_ARCHITECTURE, OVER_SIZE = "SD of recipe / SD of architecture", "SD of shape / SD of size"
SHARED = "share of what recipes do that all corpora have"
NAMES = {RECIPE: OVER_ARCHITECTURE, SHAPE: OVER_SIZE, ALIKE: SHARED}
"""The frozen rules' names, and those of their quantities."""
LEFT, CONTROL = "other choices", "shuffled"
SQUARES = "squares averaged over all four corpora, the frozen estimate"
INTERVAL = "95% jackknife t interval over recipes"


def rule(name: str) -> Decide:
    """The frozen rule, and that no corpus and no set of prompts is needed for what it says."""
    quantity, bar = V(NAMES[name]), THRESHOLDS[name]
    return Decide(
        (quantity.interval > bar) & Gate(Each(LEFT, quantity > bar)),
        (quantity.interval < bar) & Gate(Each(LEFT, quantity < bar)),
    )


def with_language(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of corpora that have language."""
    return rows[rows["trained_on"] != CONTROL]


def by_ratios(rows: pd.DataFrame, name: str) -> Result:
    """All three, headed by one; the same without each corpus in turn."""
    y, x, corpora = table(with_language(rows))
    left = without_corpora(y, x, corpora)
    return Result.of(rows, estimates(y, x), estimate=NAMES[name], table=None, rows={LEFT: left})


def estimates(y: Array, x: Array) -> dict[str, Estimate]:
    """The ratios as means over corpora, and what recipes share in all, with intervals, by the names that pages use."""
    by_block = {**mean_ratios(y, x)[0], ALIKE: ratios(y, x)[ALIKE]}
    return {
        NAMES[name]: Estimate(float(at.estimate), float(at.lower), float(at.upper), INTERVAL)
        for name, at in by_block.items()
    }


def without_corpora(y: Array, x: Array, corpora: list[str]) -> pd.DataFrame:
    """The estimates without each corpus in turn."""
    rest = [np.arange(len(corpora)) != place for place in range(len(corpora))]
    values = [{name: at.value for name, at in estimates(y[remaining], x).items()} for remaining in rest]
    names = [f"without {third.IN_WORDS.get(corpus, corpus)}" for corpus in corpora]
    return pd.DataFrame([{"choice": name, **value} for name, value in zip(names, values, strict=True)])


def on_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """The estimates with all models on the prompts of one corpus, each in turn."""
    parts = []
    for corpus, column in third.ON.items():
        y, x, _ = table(with_language(rows), column)
        values = {name: at.value for name, at in estimates(y, x).items()}
        parts.append({"choice": f"all on prompts of {third.IN_WORDS[corpus]}", **values})
    return pd.DataFrame(parts)


def by_other_choices(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """The estimates with their intervals for other gains, models and means, on which nothing rests.

    The penultimate gain of the mean over tokens, the last gain, recipes all of whose models learned, shuffled English
    among the corpora, and squares averaged over all four, as the frozen rule had them.
    """
    means = tables.table("third_means").set_index("model")
    others = {"gain of the mean over tokens": "penultimate_gain_of_mean", "gain of the last block": "last_gain"}
    frames = {"recipes whose models all learned": rows[~third.of_unlearned(rows)]}
    frames |= {words: rows.assign(log_gain=rows["model"].map(means[gain])) for words, gain in others.items()}
    parts = []
    for words, chosen in frames.items():
        y, x, _ = table(with_language(chosen))
        parts.append({"choice": words, "recipes": y.shape[1], **_flat(estimates(y, x))})
    y, x, _ = table(rows)
    squares = {NAMES[name]: Estimate(at.estimate, at.lower, at.upper) for name, at in ratios(y, x).items()}
    for words, made in (("shuffled English among the corpora", estimates(y, x)), (SQUARES, squares)):
        parts.append({"choice": words, "recipes": y.shape[1], **_flat(made)})
    return pd.DataFrame(parts)


def _flat(estimates_of: Mapping[str, Estimate]) -> dict[str, float | None]:
    return {
        f"{name}{end}": value
        for name, at in estimates_of.items()
        for end, value in (("", at.value), ("_lower", at.lower), ("_upper", at.upper))
    }


def with_choices(name: str, rows: pd.DataFrame) -> Result:
    """The ratios by the rule, on each set of prompts too; each corpus alone, the control among them."""
    result = by_ratios(rows, name)
    choices = pd.concat([result.rows[LEFT], on_prompts(rows)], ignore_index=True)
    y, x, corpora = table(rows)
    alone = {third.IN_WORDS[corpus]: estimates(y[[i]], x)[NAMES[name]] for i, corpus in enumerate(corpora)}
    return replace(result, rows={LEFT: choices}).adding(words={"choices": choices.to_dict("records"), "alone": alone})


def weights_of(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """How much each corpus that has language counts in the mean of either ratio."""
    y, x, corpora = table(with_language(rows))
    by_ratio = mean_ratios(y, x)[1].T
    names = [third.IN_WORDS.get(corpus, corpus) for corpus in corpora]
    return {
        name: dict(zip(names, weights, strict=True)) for name, weights in zip((RECIPE, SHAPE), by_ratio, strict=True)
    }


def spreads_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Standard deviations with 95% intervals, of all corpora and of each: of, block, estimate, lower, upper."""
    y, x, corpora = table(rows)
    every = {"all corpora": spreads(y, x)}
    every |= {third.IN_WORDS.get(name, name): spreads(y[[place]], x) for place, name in enumerate(corpora)}
    return pd.DataFrame(
        [{"of": of, "block": block} | vars(at) for of, spread in every.items() for block, at in spread.items()]
    )
