"""The published order of four models and of their families by last gain."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit, Result, TooFew
from thermostats.formatting import strip_owner
from thermostats.studies.delia2026.prompt_gains import (
    BENCHMARK,
    build_prompt_matrix,
    select_single_runs,
)
from thermostats.studies.delia2026.stated_facts import load_stated, load_stated_models

ORDER = (
    "EleutherAI/pythia-6.9b",
    "mistralai/Mistral-7B-v0.1",
    "meta-llama/Llama-3.1-8B",
    "google/gemma-7b",
)
NAMES = ("Pythia", "Mistral", "LLaMA", "Gemma")
MEASUREMENTS = "measurements"
IN_THE_FILE = "mean of {}"

OVER_CATEGORIES = "ratio over categories"


def select_four(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the four models, one run each: of the published files that of the benchmark."""
    rows = select_single_runs(rows)
    return rows[rows["model_id"].isin(ORDER)].reset_index(drop=True)


def select_members(last: pd.DataFrame) -> pd.DataFrame:
    """One run of every measured model of the families in the order."""
    rows = select_single_runs(last)
    return rows[rows["family"].isin(rows.loc[rows["model_id"].isin(ORDER), "family"])].reset_index(
        drop=True
    )


def add_places(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `select_members` with `place`, that of the model's family in the published order from
    0, and `log_gain`.

    Raises TooFew where one of the four models was not measured.
    """
    if not set(ORDER) <= set(rows["model_id"]):
        raise TooFew(
            Result(n_models=rows["model_id"].nunique(), n_groups=rows["heritage"].nunique())
        )
    families = rows.drop_duplicates("model_id").set_index("model_id")["family"]
    place = {}
    for k, family in enumerate(families[list(ORDER)]):
        place[family] = k
    return rows.assign(place=rows["family"].map(place), log_gain=np.log(rows["value"]))


def list_neighbours(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Every model with every one of the next place: (lower, higher) as published."""
    models = rows.drop_duplicates("model_id").sort_values("model_id")
    groups = []
    for _, of_place in models.groupby("place")["model_id"]:
        groups.append(list(of_place))
    neighbours: list[tuple[str, str]] = []
    for low, high in pairwise(groups):
        neighbours.extend(product(low, high))
    return neighbours


def check_means(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Means as the preprint and its file name them, and the number of measurements; `rows`: last
    gains by prompt."""
    four = build_prompt_matrix(select_four(rows))[list(ORDER)]
    published = load_stated(
        tables, {name: f"abstract (6) {name}" for name in (*NAMES, MEASUREMENTS)}
    )
    published |= load_stated_models(tables, BENCHMARK, {IN_THE_FILE: r"/base_levels/[^/]+"})
    means = four.mean()
    figures = dict(zip(NAMES, map(float, means), strict=True)) | {
        MEASUREMENTS: float(four.count().sum())
    }
    figures |= {
        IN_THE_FILE.format(strip_owner(model)): float(mean) for model, mean in means.items()
    }
    return Audit(published, figures)


def count_replicated(order: pd.DataFrame, rows: pd.DataFrame) -> int:
    """The most clear reversals among steps that share no model: what one model turns round
    counts once.

    Pairs join places that follow one another, so that models of even and of odd places are the
    sides of a graph.
    """
    against = order[order["ratio_upper"] < 1]
    if against.empty:
        return 0
    places = rows.drop_duplicates("model_id").set_index("model_id")["place"]
    even = against["lower"].map(places) % 2 == 0
    first = against["lower"].where(even, against["higher"])
    second = against["higher"].where(even, against["lower"])
    rows = pd.factorize(first)[0]
    columns = pd.factorize(second)[0]
    graph = csr_array((np.ones(len(against), dtype=bool), (rows, columns)))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())
