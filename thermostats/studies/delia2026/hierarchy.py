"""The published order of four models, and of the families that they stand for, by last gain."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pandas as pd
from scipy import stats
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit, Result, TooFew
from thermostats.formatting import short_name
from thermostats.studies.delia2026.by_prompt import BENCHMARK, one_run_each, wide
from thermostats.studies.delia2026.stated import stated, stated_by_model

ORDER = ("EleutherAI/pythia-6.9b", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.1-8B", "google/gemma-7b")
NAMES, MEASUREMENTS, IN_THE_FILE = ("Pythia", "Mistral", "LLaMA", "Gemma"), "measurements", "mean of {}"

OVER_CATEGORIES = "ratio over categories"


def the_four(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the four models, one run each: of the published files that of the benchmark."""
    rows = one_run_each(rows)
    return rows[rows["model_id"].isin(ORDER)].reset_index(drop=True)


def members(last: pd.DataFrame) -> pd.DataFrame:
    """One run of every measured model of the families in the order."""
    rows = one_run_each(last)
    return rows[rows["family"].isin(rows.loc[rows["model_id"].isin(ORDER), "family"])].reset_index(drop=True)


def placed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `members` with `place`, that of the model's family in the published order from 0, and `log_gain`.

    Raises TooFew where one of the four models was not measured.
    """
    if not set(ORDER) <= set(rows["model_id"]):
        raise TooFew(Result(n_models=rows["model_id"].nunique(), n_groups=rows["heritage"].nunique()))
    families = rows.drop_duplicates("model_id").set_index("model_id")["family"]
    place = {family: k for k, family in enumerate(families[list(ORDER)])}
    return rows.assign(place=rows["family"].map(place), log_gain=np.log(rows["value"]))


def neighbours(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Every model with every one of the next place: (lower, higher) as published."""
    models = rows.drop_duplicates("model_id").sort_values("model_id")
    groups = [list(of_place) for _, of_place in models.groupby("place")["model_id"]]
    return [pair for low, high in pairwise(groups) for pair in product(low, high)]


def means_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Means as the preprint and its file name them, and the number of measurements; `rows`: last gains by prompt."""
    four = wide(the_four(rows))[list(ORDER)]
    published = stated(tables, {name: f"abstract (6) {name}" for name in (*NAMES, MEASUREMENTS)})
    published |= stated_by_model(tables, BENCHMARK, {IN_THE_FILE: r"/base_levels/[^/]+"})
    means = four.mean()
    figures = dict(zip(NAMES, map(float, means), strict=True)) | {MEASUREMENTS: float(four.count().sum())}
    figures |= {IN_THE_FILE.format(short_name(model)): float(mean) for model, mean in means.items()}
    return Audit(published, figures)


def replicated(order: pd.DataFrame, rows: pd.DataFrame) -> int:
    """The most clear reversals of `steps` that share no model: what one model turns round counts once.

    Pairs join places that follow one another, so that models of even and of odd places are the sides of a graph.
    """
    against = order[order["ratio_upper"] < 1]
    if against.empty:
        return 0
    places = rows.drop_duplicates("model_id").set_index("model_id")["place"]
    even = against["lower"].map(places) % 2 == 0
    first, second = against["lower"].where(even, against["higher"]), against["higher"].where(even, against["lower"])
    rows, columns = pd.factorize(first)[0], pd.factorize(second)[0]
    graph = csr_array((np.ones(len(against), dtype=bool), (rows, columns)))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


def steps(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per pair (lower, higher) of `neighbours`: ratio of the higher to the lower over the prompts of both.

    rows: model_id, place, prompt_id, category, log_gain. `ratio` has t intervals over prompts, Bonferroni over pairs,
    as one pair is enough against an order; `OVER_CATEGORIES` those over categories at 95%, as an order needs every
    pair. `p` is one-sided, for "the higher one is not higher"; the largest is the p-value of the whole order.
    """
    pairs = neighbours(rows)
    table = rows.pivot(index=["prompt_id", "category"], columns="model_id", values="log_gain").astype("float64")
    low, high = (table[[pair[k] for pair in pairs]].to_numpy() for k in (0, 1))
    apart = pd.DataFrame(high - low, index=table.index)
    ratios = pd.DataFrame(pairs, columns=["lower", "higher"]).assign(n_prompts=apart.count())
    means = {"ratio": (apart, 0.05 / len(pairs)), OVER_CATEGORIES: (apart.groupby(level="category").mean(), 0.05)}
    for name, (values, alpha) in means.items():
        df, error = values.count() - 1, values.sem()
        half = stats.t.isf(alpha / 2, df) * error
        for end, at in (("", 0), ("_lower", -half), ("_upper", half)):
            ratios[f"{name}{end}"] = np.exp(values.mean() + at)
        if name == "ratio":
            ratios["p"] = stats.t.sf(values.mean() / error, df)
    return ratios.assign(prompts_in_order=(apart > 0).sum())
