"""Pairs of a base model and the model tuned from it, with the prompts that both answered."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, is_constant, labels, named, numbers
from thermostats.modelling.inference.draws import Array

MANY = 100
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Prompts answered by both models of a pair: log gain of the base and log(tuned/base)."""

    names: tuple[str, ...]
    models: tuple[tuple[str, str], ...]
    """Base and tuned model of every pair."""
    heritages: tuple[str, ...]
    related: tuple[bool, ...]
    """Whether the tuned model was tuned from this base."""
    pair: NDArray[np.int64]
    base: Array
    change: Array
    warnings: tuple[str, ...]


def pairs_of(table: pd.DataFrame, *, only_related: bool = True) -> Pairs:
    """Pairs of base and tuned model with their shared prompts, from one row a model and prompt.

    Columns: model_id, heritage, family, variant, parent, prompt_id, value (the gain). A tuned model goes with its
    parent; without one in the table it goes with the only base of its family, and is left out with a warning where
    `only_related`; so are bases that nothing was tuned from, and prompts that one model of a pair did not answer.
    Raises UsageError for gains that are missing, infinite or not above 0, a prompt twice, a missing lab, no pair, fewer
    than 3 prompts of a pair, and a pair in which one gain is constant or follows from the other exactly.
    """
    columns_of(table, "model_id", "heritage", "family", "variant", "parent", "prompt_id", "value")
    gains = table.assign(value=numbers(table["value"].astype("float64"), "value", positive=True))
    if gains.duplicated(["model_id", "prompt_id"]).any():
        raise UsageError(
            "a prompt stands twice for one model",
            where="prompt_id",
            allowed="one row a model and prompt",
            next_step="choose one source",
        )
    labels(gains["heritage"], "heritage")
    models = gains.drop_duplicates("model_id").set_index("model_id")
    bases = models[models["variant"] == "base"]
    wide = np.log(gains.pivot(index="prompt_id", columns="model_id", values="value"))
    names, models_of, labs, related, parts, said = [], [], [], [], [], []
    taken, unshared = set(), []
    for child, row in models[models["variant"] != "base"].sort_index().iterrows():
        family = bases.index[bases["family"] == row["family"]]
        true = row["parent"] in bases.index
        if not true and (only_related or len(family) != 1):
            said.append(f"{child} left out: its parent is not in the table")
            continue
        base = row["parent"] if true else family[0]
        if not true:
            said.append(f"{child} was not tuned from {base}")
        taken.add(base)
        either = wide[[base, child]].dropna(how="all")
        both = either.dropna()
        if len(both) < 3:
            raise UsageError("too few shared prompts", where=f"{base}, {child}", got=len(both), allowed="at least 3")
        _varies(both.to_numpy(), f"{base}, {child}")
        names.append(f"{base} → {child}")
        models_of.append((str(base), str(child)))
        if len(both) < len(either):
            unshared.append(f"{len(either) - len(both)} of {len(either)} in {names[-1]}")
        labs.append(str(row["heritage"]))
        related.append(bool(true))
        parts.append(both.set_axis(["base", "tuned"], axis=1))
    if not parts:
        raise UsageError(
            "no pair of base and tuned model",
            got="; ".join(said) or "no tuned model",
            allowed="a tuned model whose parent is in the table",
        )
    if unshared:
        said.append("prompts that one model of a pair did not answer, left out: " + named(unshared))
    if alone := set(bases.index) - taken:
        said.append("no model tuned from it in the table, left out: " + named(alone))
    bases_taken = [base for base, _ in models_of]
    if shared := {base for base in taken if bases_taken.count(base) > 1}:
        said.append("base of several pairs, which count as independent of each other: " + named(shared))
    if len(names) > 1 and len(set(labs)) == 1:
        said.append(f"all pairs are of {labs[0]}: what tuning does in other labs is not seen")
    if len(names) > MANY:
        said.append(f"{len(names)} pairs: sampling takes minutes")
    rows = pd.concat(parts, ignore_index=True)
    return Pairs(
        names=tuple(names),
        models=tuple(models_of),
        heritages=tuple(labs),
        related=tuple(related),
        pair=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        base=rows["base"].to_numpy(),
        change=(rows["tuned"] - rows["base"]).to_numpy(),
        warnings=tuple(said),
    )


def without(pairs: Pairs, left_out: NDArray[np.bool_]) -> Pairs:
    """The other pairs; `left_out`: true or false for every pair."""
    kept, others = ~left_out[pairs.pair], np.flatnonzero(~left_out)
    number = np.cumsum(~left_out) - 1
    return replace(
        pairs,
        names=tuple(pairs.names[j] for j in others),
        models=tuple(pairs.models[j] for j in others),
        heritages=tuple(pairs.heritages[j] for j in others),
        related=tuple(pairs.related[j] for j in others),
        pair=number[pairs.pair[kept]],
        base=pairs.base[kept],
        change=pairs.change[kept],
    )


def _varies(both: Array, where: str) -> None:
    """Raise UsageError where the change has no spread beyond what the base tells: its scale would be zero."""
    base, change = both[:, 0], both[:, 1] - both[:, 0]
    X = np.column_stack([np.ones(base.size), base])
    rest = change - X @ np.linalg.lstsq(X, change, rcond=None)[0]
    if is_constant(base) or np.abs(rest).max() <= ROUNDING * max(np.abs(both).max(), 1e-300):
        raise UsageError(
            "one gain of a pair is constant, or follows from the other exactly",
            where=where,
            allowed="gains that were measured prompt by prompt",
            next_step="look for a file that holds one model twice",
        )
