"""The published order of four models, and of the families that they stand for, by last gain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.modelling.classical.means import paired_difference
from thermostats.studies.delia2026.by_prompt import (
    BENCHMARK,
    LAST_GAIN_FILES,
    gain_by_prompt,
    one_run_each,
    wide,
    with_category,
)
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import short_name

ORDER = ("EleutherAI/pythia-6.9b", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.1-8B", "google/gemma-7b")
LABS = dict(zip(ORDER, ("EleutherAI", "Mistral AI", "Meta", "Google"), strict=True))
NAMES, MEASUREMENTS, IN_THE_FILE = ("Pythia", "Mistral", "LLaMA", "Gemma"), "measurements", "mean of {}"


def last_gains(tables: Evidence) -> pd.DataFrame:
    """Last gains by prompt of every file, every run, with categories."""
    return with_category(tables, gain_by_prompt(tables, "last_gain", *LAST_GAIN_FILES))


def of_the_four(rows: pd.DataFrame) -> pd.DataFrame:
    """Prompts of the benchmark by the four models in the published order."""
    return wide(rows[rows["source"] == BENCHMARK])[list(ORDER)]


def members(last: pd.DataFrame) -> pd.DataFrame:
    """One run of every measured model of the families in the order."""
    rows = one_run_each(last, LAST_GAIN_FILES)
    return rows[rows["family"].isin(rows.loc[rows["model_id"].isin(ORDER), "family"])].reset_index(drop=True)


def by_family(rows: pd.DataFrame) -> list[list[str]]:
    """Models of each family, families in the published order."""
    models = rows.drop_duplicates("model_id").set_index("model_id")["family"].sort_index()
    return [[str(model) for model in models.index[models == models[first]]] for first in ORDER]


def neighbours(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Every model with every one of the next family: (lower, higher) as published."""
    return [pair for low, high in pairwise(by_family(rows)) for pair in product(low, high)]


def means_audit(tables: Evidence, four: pd.DataFrame) -> Audit:
    """Means as the preprint and its file name them, and the number of measurements; `four` from `of_the_four`."""
    published = stated(tables, {name: f"abstract (6) {name}" for name in (*NAMES, MEASUREMENTS)})
    published |= stated_by_model(tables, BENCHMARK, {IN_THE_FILE: r"/base_levels/[^/]+"})
    means = four.mean()
    found = dict(zip(NAMES, map(float, means), strict=True)) | {MEASUREMENTS: float(four.count().sum())}
    found |= {IN_THE_FILE.format(short_name(model)): float(mean) for model, mean in means.items()}
    return Audit(published, found)


def steps(table: pd.DataFrame, pairs: Sequence[tuple[str, str]], *, seed: int) -> pd.DataFrame:
    """One row a pair (lower, higher): ratio of the higher to the lower with its interval, Bonferroni over pairs.

    `p` is one-sided, for "the higher one is not higher"; the largest is the p-value of the whole order.
    """
    rows = []
    for low, high in pairs:
        both = table[[low, high]].dropna()
        d = paired_difference(both[high], both[low], level=1 - 0.05 / len(pairs), seed=seed)
        p, in_order = float(stats.t.sf(d.statistic, d.df)), int((both[high] > both[low]).sum())
        rows.append((low, high, d.n, d.ratio, d.ratio_lower, d.ratio_upper, p, in_order))
    columns = ["lower", "higher", "n_prompts", "ratio", "ratio_lower", "ratio_upper", "p"]
    return pd.DataFrame(rows, columns=[*columns, "prompts_in_order"])
