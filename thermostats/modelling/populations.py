"""Effects and levels of a population inside a PyMC model, so that NUTS mixes whatever outcomes tell
of them.

Padded elements, which no outcome tells, are levels that were never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from thermostats.errors import UsageError
from thermostats.modelling.columns import columns_of, labels, numbers
from thermostats.modelling.draws import Array


def effects(name: str, scale: Any, informed: Any, size: int) -> Any:
    """Effects ~ N(0, scale²) of the model that is open, as its variable `name`.

    Sampled is raw = effect / scale^(1 − informed): where `informed` is 1 the effects as they are,
    which mixes where outcomes tell them well; where it is 0 standard normal numbers, which mixes
    where none do; Papaspiliopoulos et al. 2007, doi:10.1214/088342307000000014.
    """
    import pymc as pm  # noqa: PLC0415

    raw = pm.Normal(f"{name}_raw", 0.0, scale**informed, shape=size)
    return pm.Deterministic(name, scale ** (1 - informed) * raw)


def population(
    name: str, mean: float, mean_sd: Any, scale: Any, data: Mapping[str, Any]
) -> tuple[Any, Any]:
    """m ~ N(mean, mean_sd²), as `<name>_mean`, and levels ~ N(m, scale²), as the variable `name`.

    `data` has the entries of `members`, and `<name>_told` as `informed_share` has it. Outcomes tell
    the average of n levels better than m: sampled is the average ~ N(mean, mean_sd² + scale²/n),
    then m given it, and contrasts between levels.
    """
    import pymc as pm  # noqa: PLC0415

    average, middle = _averaged(name, mean, mean_sd, scale / data["number"] ** 0.5)
    informed = data["contrast"] * data[f"{name}_told"]
    off = pm.math.dot(data["basis"], effects(f"{name}_contrasts", scale, informed, data["size"]))
    return middle, pm.Deterministic(
        name, data["seen"] * average + (1 - data["seen"]) * middle + off
    )


def populations(name: str, mean_sd: Any, scales: Any, data: Mapping[str, Any]) -> tuple[Any, Any]:
    """m_k ~ N(0, mean_sd²), as `<name>_mean`, and levels g of each ~ N(m_k(g), scale_k(g)²), for
    several k at once.

    Sampled as `population` is, contrasts as standard normal numbers. `data` has the entries of
    `several_members`.
    """
    import pymc as pm  # noqa: PLC0415

    of = data["of"]
    seen = data["seen"]
    average, middle = _averaged(
        name, 0.0, mean_sd, scales / data["number"] ** 0.5, data["populations"]
    )
    off = pm.math.dot(data["basis"], pm.Normal(f"{name}_contrasts", shape=data["size"]))
    return middle, seen * average[of] + (1 - seen) * middle[of] + scales[of] * off


def _averaged(
    name: str, mean: float, mean_sd: Any, error: Any, shape: int | None = None
) -> tuple[Any, Any]:
    """Averages of levels about m ~ N(mean, mean_sd²), with errors of such standard deviation, and m
    given them."""
    import pymc as pm  # noqa: PLC0415

    total = (mean_sd**2 + error**2) ** 0.5
    average = pm.Normal(f"{name}_average", mean, total, shape=shape)
    rest = pm.Normal(f"{name}_rest", shape=shape or 1)
    rest = (rest if shape else rest[0]) * mean_sd * error / total
    return average, pm.Deterministic(
        f"{name}_mean", mean + (mean_sd / total) ** 2 * (average - mean) + rest
    )


def members(number: int, size: int) -> dict[str, Any]:
    """Data of a population of so many levels that outcomes tell, padded to a size with others that
    none does.

    number; basis, columns of contrasts between the former and one for each of the latter; seen,
    which levels the former are, and contrast, which columns are contrasts.
    """
    basis = np.eye(size)
    level = np.arange(size)
    basis[:number, :number] = 0.0
    basis[:number, : number - 1] = sum_zero(number)
    return {
        "size": size,
        "number": np.asarray(float(number)),
        "basis": basis,
        "seen": (level < number).astype(np.float64),
        "contrast": (level < number - 1).astype(np.float64),
    }


def several_members(
    of: NDArray[np.int64], seen: int, populations: int, size: int
) -> dict[str, Any]:
    """The same of several populations, of which every level's is numbered; levels from `seen` on no
    outcome tells."""
    basis = np.eye(size)
    number = np.ones(populations)
    basis[:seen, :seen] = 0.0
    for k in np.unique(of[:seen]):
        levels = np.flatnonzero(of[:seen] == k)
        number[k] = levels.size
        basis[np.ix_(levels, levels[:-1])] = sum_zero(levels.size)
    return {
        "populations": populations,
        "size": size,
        "number": number,
        "basis": basis,
        "seen": (np.arange(size) < seen).astype(np.float64),
        "of": np.pad(of, (0, size - of.size)),
    }


def informed_share(values: Array, error: float) -> float:
    """How far outcomes tell levels or effects: B/(B + E), B the root mean square of estimates, E
    the error of one."""
    size = float(np.sqrt(np.square(values).mean())) if values.size else 0.0
    return size / (size + error)


def sum_zero(n: int, within: NDArray[np.int64] | None = None) -> Array:
    """Orthonormal columns that sum to zero, over all n or within each group: n × (n − groups)."""
    group = np.zeros(n, dtype=np.int64) if within is None else within
    same = (group[:, None] == group).astype(np.float64)
    basis, size, _ = np.linalg.svd(np.eye(n) - same / same.sum(axis=1))
    return np.asarray(basis[:, size > 0.5], dtype=np.float64)


LARGEST = 1_000_000
"""Entries of a design: about 85 models with 25 prompts in 5 categories."""


def cells(table: pd.DataFrame, what: str) -> tuple[pd.DataFrame, list[str]]:
    """One row per model and prompt, sorted; and what such a table cannot tell about `what`.

    Columns: model_id, prompt_id, category, value (the gain). Raises UsageError for gains not above
    0, a cell twice, a prompt in two categories, fewer than 2 models or 4 prompts, missing
    labels.
    """
    columns_of(table, "model_id", "prompt_id", "category", "value")
    table = table.reset_index(drop=True)
    for name in (
        "model_id",
        "prompt_id",
        "category",
        *(["heritage"] if "heritage" in table else []),
    ):
        labels(table[name], name)
    rows = table.sort_values(["model_id", "prompt_id"], kind="stable", ignore_index=True)
    numbers(rows["value"], "value", positive=True, varied=True)
    one_row_a_prompt(rows)
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
    return rows, _warnings(rows, what)


def _warnings(rows: pd.DataFrame, what: str) -> list[str]:
    models, prompts, categories = (
        rows[name].nunique() for name in ("model_id", "prompt_id", "category")
    )
    labs = rows.groupby("model_id")["heritage"].first().nunique() if "heritage" in rows else 0
    missing = models * prompts - len(rows)
    words = {
        f"{missing} of {models * prompts} cells are missing": missing > 0,
        "one category: no variance between categories": categories == 1,
        "one prompt per category: prompt and category coincide, and models by category are part of "
        "the residual": (1 < categories == prompts),
        "2 models: differences between models rest on the priors of the spreads": models == 2,
        f"one lab: {what} says nothing about labs": labs == 1,
        f"one model per lab: {what} is not yet one of labs": 1 < labs == models,
    }
    return [*(line for line, holds in words.items() if holds), *_apart(rows)]


def _apart(rows: pd.DataFrame) -> list[str]:
    """A warning where models fall into sets that share no prompt."""
    (model, models), (prompt, prompts) = (
        pd.factorize(rows[name]) for name in ("model_id", "prompt_id")
    )
    n = len(models)
    links = coo_array(
        (np.ones(model.size), (model, n + prompt)), shape=(n + len(prompts), n + len(prompts))
    )
    _, part = connected_components(links, directed=False)
    sets = [", ".join(map(str, models[part[:n] == k])) for k in pd.unique(part[:n])]
    return (
        [f"no shared prompts, compared through the priors only: {' | '.join(sets)}"]
        if len(sets) > 1
        else []
    )


def one_row_a_prompt(table: pd.DataFrame) -> None:
    """Raise UsageError where a model answered a prompt twice."""
    if table.duplicated(["model_id", "prompt_id"]).any():
        raise UsageError(
            "a prompt occurs twice for one model",
            where="prompt_id",
            allowed="one row per model and prompt",
            next_step="choose one source",
        )


def sources_of(table: pd.DataFrame) -> tuple[str, ...]:
    """Files or measurements of the rows; none where the table does not say which."""
    return tuple(sorted(set(table["source"]))) if "source" in table else ()


def refuse_large(rows: pd.DataFrame, columns: int) -> None:
    """Raise UsageError for a design of more than `LARGEST` entries."""
    if len(rows) * columns > LARGEST:
        raise UsageError(
            "too many models and prompts to compare one by one",
            got=f"{rows['model_id'].nunique()} models × {rows['prompt_id'].nunique()} prompts",
            allowed=f"a design of at most {LARGEST} entries, here {len(rows)} × {columns}",
            next_step="choose models, such as those of one claim",
        )


def numbered(
    values: pd.Series, before: Sequence[str] = ()
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names of levels, those of a fit before those that it has not seen, and the number of every
    row's level."""
    names = (*before, *sorted(set(values.astype(str)) - set(before)))
    number = {name: i for i, name in enumerate(names)}
    return names, np.array([number[name] for name in values.astype(str)], dtype=np.int64)


def contrasts(
    level: NDArray[np.int64], seen: int, within: NDArray[np.int64] | None = None
) -> Array:
    """Design of effects that sum to zero over the first `seen` levels; later levels have a column
    of their own each.

    `within`: the group of every level seen; effects sum to zero in each.
    """
    new = max(0, int(level.max(initial=-1)) + 1 - seen)
    return np.asarray(block_diag(sum_zero(seen, within), np.eye(new))[level])


def interplay(
    model: NDArray[np.int64], category: NDArray[np.int64], models: int, categories: int
) -> Array:
    """Design of models by categories, which sum to zero over both; a pair that was not seen has its
    own column."""
    m = contrasts(model, models)[:, : models - 1]
    c = contrasts(category, categories)[:, : categories - 1]
    both = (m[:, :, None] * c[:, None, :]).reshape(model.size, -1)
    new = (model >= models) | (category >= categories)
    _, number = np.unique(np.column_stack([model, category])[new], axis=0, return_inverse=True)
    effects = np.zeros((model.size, int(number.max(initial=-1)) + 1))
    effects[new, number.ravel()] = 1.0
    return np.concatenate([np.where(new[:, None], 0.0, both), effects], axis=1)
