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
from thermostats.studies.delia2026.stated_facts import (
    check_figures,
    join_audits,
    load_stated_models,
)

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
    of_order = rows["model_id"].isin(ORDER)
    return rows[of_order].reset_index(drop=True)


def select_members(last: pd.DataFrame) -> pd.DataFrame:
    """One run of every measured model of the families in the order."""
    rows = select_single_runs(last)
    of_order = rows["model_id"].isin(ORDER)
    families = rows.loc[of_order, "family"]
    return rows[rows["family"].isin(families)].reset_index(drop=True)


def add_places(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `select_members` with `place`, that of the model's family in the published order from
    0, and `log_gain`.

    Raises TooFew where one of the four models was not measured.
    """
    if not set(ORDER) <= set(rows["model_id"]):
        n_labs = rows["heritage"].nunique()
        raise TooFew(Result(n_models=rows["model_id"].nunique(), n_groups=n_labs))
    families = rows.drop_duplicates("model_id").set_index("model_id")["family"]
    place = {}
    for k, family in enumerate(families[list(ORDER)]):
        place[family] = k
    log_gain = np.log(rows["value"])
    return rows.assign(place=rows["family"].map(place), log_gain=log_gain)


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
    names = {name: f"abstract (6) {name}" for name in (*NAMES, MEASUREMENTS)}
    means = four.mean()
    n_measurements = four.count().sum()
    stated = check_figures(tables, names, (*means, n_measurements))
    in_the_file = load_stated_models(tables, BENCHMARK, {IN_THE_FILE: r"/base_levels/[^/]+"})
    figures = {}
    for model, mean in means.items():
        name = IN_THE_FILE.format(strip_owner(model))
        figures[name] = float(mean)
    return join_audits(stated, Audit(in_the_file, figures))


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
    place = against["lower"].map(places)
    even = place % 2 == 0
    first = against["lower"].where(even, against["higher"])
    second = against["higher"].where(even, against["lower"])
    rows = pd.factorize(first)[0]
    columns = pd.factorize(second)[0]
    edges = np.ones(len(against), dtype=bool)
    graph = csr_array((edges, (rows, columns)))
    matched = maximum_bipartite_matching(graph, perm_type="column")
    return int((matched >= 0).sum())
