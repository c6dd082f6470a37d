"""Models × prompts, prompts within categories: log gains and standardised entropies, and designs of their effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import at_position, columns_of, labels, named, numbers
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.fitted import NO_SOURCE

ALL_OF = "all models of "
LARGEST = 1_000_000
"""Entries of a design: about 85 models with 25 prompts in 5 categories."""


@dataclass(frozen=True, kw_only=True)
class Crossed:
    """Cells of the table models × prompts; prompts lie within categories."""

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    categories: tuple[str, ...]
    model: NDArray[np.int64]
    prompt: NDArray[np.int64]
    category: NDArray[np.int64]
    y: Array
    x: Array
    """Log gain, standardised within models, of the cells that hold an entropy."""
    z: Array
    """Their entropy, standardised within models."""
    xz_model: NDArray[np.int64]
    xz_prompt: NDArray[np.int64]
    warnings: tuple[str, ...]

    def names(self, model: NDArray[np.int64], prompt: NDArray[np.int64]) -> dict[str, list[str]]:
        """Names of the models and prompts of cells."""
        return {"model_id": [self.models[i] for i in model], "prompt_id": [self.prompts[i] for i in prompt]}


def crossed(table: pd.DataFrame) -> Crossed:
    """Log gains from one row per model and prompt: model_id, prompt_id, category, value; and entropy if there is one.

    Raises UsageError for gains not above 0, a cell twice, a prompt in two categories, fewer than 2 models or 4 prompts.
    """
    columns_of(table, "model_id", "prompt_id", "category", "value")
    for name in ("model_id", "prompt_id", "category"):
        labels(table[name], name)
    rows = table.sort_values(["model_id", "prompt_id"], kind="stable", ignore_index=True)
    y = np.log(numbers(rows["value"].astype("float64"), "value", positive=True, varied=True))
    one_row_a_prompt(rows)
    if (rows.groupby("prompt_id")["category"].nunique() > 1).any():
        raise UsageError("a prompt is in two categories", where="category", allowed="one category per prompt")
    model, models = pd.factorize(rows["model_id"])
    prompt, prompts = pd.factorize(rows["prompt_id"])
    category, categories = pd.factorize(rows["category"])
    if len(models) < 2 or len(prompts) < 4:
        raise UsageError(
            "too small a table",
            got=f"{len(models)} models × {len(prompts)} prompts",
            allowed="2 models × 4 prompts or more",
        )
    said = []
    if len(rows) < len(models) * len(prompts):
        said.append(f"{len(models) * len(prompts) - len(rows)} of {len(models) * len(prompts)} cells are missing")
    if len(categories) == 1:
        said.append("one category: no variance between categories")
    elif len(categories) == len(prompts):
        said.append(
            "one prompt per category: prompt and category coincide, and models by category are part of the residual"
        )
    if len(models) == 2:
        said.append("2 models: differences between models rest on the priors of the spreads")
    said += _apart(model, prompt, models, len(prompts))
    known = rows["entropy"].notna().to_numpy() if "entropy" in rows else np.zeros(len(rows), dtype=bool)
    if "entropy" in rows and not known.all():
        said.append(f"{int((~known).sum())} of {len(rows)} cells have no entropy and carry no information on slopes")
    cells = pd.DataFrame({"m": model[known], "p": prompt[known], "x": y[known]})
    cells["z"] = numbers(rows.loc[known, "entropy"].astype("float64"), "entropy") if known.any() else []
    by_model = cells.groupby("m")[["x", "z"]]
    flat = (by_model.transform("std", ddof=0) == 0).any(axis=1) | (by_model.transform("size") < 4)
    if flat.any():
        steady = named(models[m] for m in set(cells.loc[flat, "m"]))
        said.append("gain or entropy constant, or fewer than 4 prompts: no slope of " + steady)
    cells = cells[~flat]
    kept = cells.groupby("m")[["x", "z"]]
    scaled = (cells[["x", "z"]] - kept.transform("mean")) / kept.transform("std", ddof=0)
    return Crossed(
        models=tuple(map(str, models)),
        prompts=tuple(map(str, prompts)),
        categories=tuple(map(str, categories)),
        model=model,
        prompt=prompt,
        category=pd.Series(category).groupby(prompt).first().to_numpy(),
        y=y,
        x=scaled["x"].to_numpy(),
        z=scaled["z"].to_numpy(),
        xz_model=cells["m"].to_numpy(),
        xz_prompt=cells["p"].to_numpy(),
        warnings=tuple(said),
    )


def said_labs(table: pd.DataFrame, what: str) -> Iterator[str]:
    """Warnings that `what` is of models and not of labs; raises UsageError for missing labs."""
    if "heritage" not in table:
        return
    labels(table["heritage"], "heritage")
    labs = table.groupby("model_id")["heritage"].first()
    if labs.nunique() == 1:
        yield f"one lab: {what} says nothing about labs"
    elif labs.nunique() == len(labs):
        yield f"one model per lab: {what} is not yet one of labs"


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


def about(table: pd.DataFrame, cells: Crossed, estimand: str) -> dict[str, Any]:
    """What a fit's record says of its rows."""
    return {
        "estimand": at_position(estimand, table),
        "sources": sources_of(table),
        "n_models": len(cells.models),
        "n_heritages": table["heritage"].nunique() if "heritage" in table else 0,
    }


def warnings_of(table: pd.DataFrame, cells: Crossed, what: str) -> tuple[str, ...]:
    """Warnings about the rows, about labs as for `what`, and about a table without sources."""
    return (*cells.warnings, *said_labs(table, what), *(() if "source" in table else (NO_SOURCE,)))


def without_each(table: pd.DataFrame, models: Sequence[str]) -> Iterator[tuple[str, Crossed | None]]:
    """Every model's name, and every lab's of several, with the cells without it; None where too few are left."""
    names = table["model_id"].astype(str)
    ways = {name: names == name for name in models}
    if "heritage" in table:
        sizes = names.groupby(table["heritage"]).nunique()
        ways |= {f"{ALL_OF}{lab}": table["heritage"] == lab for lab in sizes.index[sizes > 1]}
    for name, out in ways.items():
        try:
            yield name, crossed(table[~out])
        except UsageError:
            yield name, None


def _apart(model: NDArray[np.int64], prompt: NDArray[np.int64], models: pd.Index, n_prompts: int) -> list[str]:
    """A warning where models fall into sets that share no prompt."""
    n = len(models)
    links = coo_array((np.ones(model.size), (model, n + prompt)), shape=(n + n_prompts, n + n_prompts))
    _, part = connected_components(links, directed=False)
    sets = [", ".join(map(str, models[part[:n] == k])) for k in pd.unique(part[:n])]
    return [f"no shared prompts, compared through the priors only: {' | '.join(sets)}"] if len(sets) > 1 else []


def refuse_large(cells: Crossed, rows: int, columns: int) -> None:
    """Raise UsageError for a design of more than `LARGEST` entries."""
    if rows * columns > LARGEST:
        raise UsageError(
            "too many models and prompts to compare one by one",
            got=f"{len(cells.models)} models × {len(cells.prompts)} prompts",
            allowed=f"a design of at most {LARGEST} entries, here {rows} × {columns}",
            next_step="choose models, such as those of one claim",
        )


def sum_zero(n: int, within: NDArray[np.int64] | None = None) -> Array:
    """Orthonormal columns that sum to zero, over all n or within each group: n × (n − groups)."""
    group = np.zeros(n, dtype=np.int64) if within is None else within
    same = (group[:, None] == group).astype(np.float64)
    basis, size, _ = np.linalg.svd(np.eye(n) - same / same.sum(axis=1))
    return np.asarray(basis[:, size > 0.5], dtype=np.float64)


def stack(parts: Sequence[Array]) -> tuple[Array, Array]:
    """Blocks side by side, and which block every column is of, columns × blocks."""
    kind = np.repeat(np.arange(len(parts)), [block.shape[1] for block in parts])
    return np.concatenate(parts, axis=1), (kind[:, None] == np.arange(len(parts))).astype(np.float64)
