"""Cells of models and prompts, levels and contrasts of their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from thermostats.errors import UsageError
from thermostats.modelling.columns import check_columns, read_labels, read_numbers
from thermostats.modelling.draws import Array

Codes = NDArray[np.int64]
"""Number of every row's group."""
Labels: TypeAlias = Sequence[object] | pd.Series
Mask = NDArray[np.bool_]


def build_sum_zero(n: int) -> Array:
    """Orthonormal columns that sum to zero, n × (n − 1)."""
    centring = np.eye(n) - np.ones((n, n)) / n
    basis, size, _ = np.linalg.svd(centring)
    return np.asarray(basis[:, size > 0.5], dtype=np.float64)


def indicate_groups(codes: Codes) -> Array:
    """1 where a row is of a group, row × group."""
    groups = np.arange(int(codes.max(initial=-1)) + 1)
    return np.asarray(codes[:, None] == groups, dtype=np.float64)


def number_groups(groups: Labels | None, size: int) -> Codes:
    """Number of every row's group, in the order in which they are met; 0 where there are none."""
    if groups is None:
        return np.zeros(size, dtype=np.int64)
    codes: Codes = pd.factorize(np.asarray(groups))[0]
    return codes


def weigh_group_means(codes: Codes) -> Array:
    """Weights of rows in the means of groups, row × group."""
    return indicate_groups(codes) / np.bincount(codes)


LARGEST = 1_000_000
"""Entries of a design: about 85 models with 25 prompts in 5 categories."""


def read_cells(table: pd.DataFrame, what: str) -> tuple[pd.DataFrame, list[str]]:
    """One row per model and prompt, sorted; and what such a table cannot tell about `what`.

    Columns: model_id, prompt_id, category, value (the gain). Raises UsageError for gains not above
    0, a cell twice, a prompt in two categories, fewer than 2 models or 4 prompts, missing
    labels.
    """
    check_columns(table, "model_id", "prompt_id", "category", "value")
    table = table.reset_index(drop=True)
    lab = ["heritage"] if "heritage" in table else []
    for name in ("model_id", "prompt_id", "category", *lab):
        read_labels(table[name], name)
    rows = table.sort_values(["model_id", "prompt_id"], kind="stable", ignore_index=True)
    rows["value"] = read_numbers(rows["value"], "value", positive=True, varied=True)
    check_repeated_prompts(rows)
    if (rows.groupby("prompt_id")["category"].nunique() > 1).any():
        raise UsageError(
            "a prompt is in two categories", where="category", allowed="one category per prompt"
        )
    models = rows["model_id"].nunique()
    prompts = rows["prompt_id"].nunique()
    if models < 2 or prompts < 4:
        raise UsageError(
            "too small a table",
            got=f"{models} models × {prompts} prompts",
            allowed="2 models × 4 prompts or more",
        )
    return rows, _collect_warnings(rows, what)


def _collect_warnings(rows: pd.DataFrame, what: str) -> list[str]:
    models = rows["model_id"].nunique()
    prompts = rows["prompt_id"].nunique()
    categories = rows["category"].nunique()
    labs = rows.groupby("model_id")["heritage"].first().nunique() if "heritage" in rows else 0
    cells = models * prompts
    missing = cells - len(rows)
    words = {
        f"{missing} of {cells} cells are missing": missing > 0,
        "one category: no variance between categories": categories == 1,
        "one prompt per category: prompt and category coincide, and models by category are part of "
        "the residual": (1 < categories == prompts),
        "2 models: differences between models rest on the priors of the spreads": models == 2,
        f"one lab: {what} says nothing about labs": labs == 1,
        f"one model per lab: {what} is not yet one of labs": 1 < labs == models,
    }
    lines = [line for line, holds in words.items() if holds]
    return lines + _warn_disjoint(rows)


def _warn_disjoint(rows: pd.DataFrame) -> list[str]:
    """A warning where models fall into sets that share no prompt."""
    model, models = pd.factorize(rows["model_id"])
    prompt, prompts = pd.factorize(rows["prompt_id"])
    n = len(models)
    nodes = n + len(prompts)
    edges = (model, n + prompt)
    links = coo_array((np.ones(model.size), edges), shape=(nodes, nodes))
    _, part = connected_components(links, directed=False)
    sets = []
    for k in pd.unique(part[:n]):
        members = models[part[:n] == k]
        sets.append(", ".join(map(str, members)))
    if len(sets) < 2:
        return []
    return [f"no shared prompts, compared through the priors only: {' | '.join(sets)}"]


def check_repeated_prompts(table: pd.DataFrame) -> None:
    """Raise UsageError where a model answered a prompt twice."""
    if table.duplicated(["model_id", "prompt_id"]).any():
        raise UsageError(
            "a prompt occurs twice for one model",
            where="prompt_id",
            allowed="one row per model and prompt",
            next_step="choose one source",
        )


def list_sources(table: pd.DataFrame) -> tuple[str, ...]:
    """Files or measurements of the rows; none where the table does not say which."""
    return tuple(sorted(set(table["source"]))) if "source" in table else ()


def refuse_large(rows: pd.DataFrame, columns: int) -> None:
    """Raise UsageError for a design of more than `LARGEST` entries."""
    if len(rows) * columns > LARGEST:
        models = rows["model_id"].nunique()
        prompts = rows["prompt_id"].nunique()
        raise UsageError(
            "too many models and prompts to compare one by one",
            got=f"{models} models × {prompts} prompts",
            allowed=f"a design of at most {LARGEST} entries, here {len(rows)} × {columns}",
            next_step="choose models, such as those of one claim",
        )


def index_levels(values: pd.Series, before: Sequence[str] = ()) -> tuple[tuple[str, ...], Codes]:
    """Names of levels, those of a fit before those that it has not seen, and the number of every
    row's level."""
    labels = values.astype(str)
    names = (*before, *sorted(set(labels) - set(before)))
    number = {name: i for i, name in enumerate(names)}
    codes = [number[label] for label in labels]
    return names, np.array(codes, dtype=np.int64)


def build_contrasts(level: Codes, seen: int) -> Array:
    """Design of effects that sum to zero over the first `seen` levels; later levels have a column
    of their own each."""
    new = max(0, int(level.max(initial=-1)) + 1 - seen)
    return np.asarray(block_diag(build_sum_zero(seen), np.eye(new))[level])
