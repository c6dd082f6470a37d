"""Which tuned model goes with which base, and the prompts that both answered."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, is_constant, labels, named, numbers
from thermostats.modelling.crossed_table import one_row_a_prompt
from thermostats.modelling.draws import Array

LEAST = 3
"""Prompts of a pair."""
ROUNDING = 1e-12


def pairs_of(table: pd.DataFrame, *, only_related: bool = True) -> tuple[pd.DataFrame, list[str]]:
    """One row per pair and shared prompt, from one row per model and prompt; and what was left out.

    Columns taken: model_id, heritage, family, variant, parent, prompt_id, value (the gain). Given: pair (its name),
    base_id, tuned_id, related (tuned from this base), heritage, prompt_id, base (log gain of the base), change
    (log(tuned/base)). A tuned model goes with its parent; without one in the table it goes with the only base of its
    family, and is left out with a warning where `only_related`; so are bases that nothing was tuned from, and prompts
    that one model of a pair did not answer.

    Raises UsageError for gains that are missing, infinite or not above 0, a prompt twice, a missing lab, no pair, fewer
    than 3 prompts of a pair, and a pair in which one gain is constant or follows from the other exactly.
    """
    columns_of(table, "model_id", "heritage", "family", "variant", "parent", "prompt_id", "value")
    gains = table.reset_index(drop=True).assign(value=numbers(table["value"], "value", positive=True))
    one_row_a_prompt(gains)
    labels(gains["heritage"], "heritage")
    models = gains.drop_duplicates("model_id").set_index("model_id")
    bases = models[models["variant"] == "base"]
    wide = np.log(gains.pivot(index="prompt_id", columns="model_id", values="value"))
    pairs, warnings, unshared = [], list[str](), list[str]()
    for tuned, row in models[models["variant"] != "base"].sort_index().iterrows():
        family = bases.index[bases["family"] == row["family"]]
        related = row["parent"] in bases.index
        if not related and (only_related or len(family) != 1):
            warnings.append(f"{tuned} left out: its parent is not in the table")
            continue
        base = row["parent"] if related else family[0]
        if not related:
            warnings.append(f"{tuned} was not tuned from {base}")
        both = wide[[base, tuned]].dropna(how="all")
        shared = _shared(both, f"{base}, {tuned}")
        name = f"{base} → {tuned}"
        if len(shared) < len(both):
            unshared.append(f"{len(both) - len(shared)} of {len(both)} in {name}")
        facts = {"pair": name, "base_id": base, "tuned_id": tuned, "related": related, "heritage": row["heritage"]}
        gain = {"prompt_id": shared.index, "base": shared[base], "change": shared[tuned] - shared[base]}
        pairs.append(pd.DataFrame({**facts, **gain}).reset_index(drop=True))
    if not pairs:
        raise UsageError(
            "no pair of base and tuned model",
            got="; ".join(warnings) or "no tuned model",
            allowed="a tuned model whose parent is in the table",
        )
    rows = pd.concat(pairs, ignore_index=True)
    return rows, [*warnings, *_warnings(rows, set(bases.index), unshared)]


def _shared(both: pd.DataFrame, where: str) -> pd.DataFrame:
    """Prompts that both models answered, their changes with spread beyond what the base tells: else no scale exists."""
    shared = both.dropna()
    if len(shared) < LEAST:
        raise UsageError("too few shared prompts", where=where, got=len(shared), allowed=f"at least {LEAST}")
    base, tuned = shared.to_numpy(dtype=np.float64).T
    X = np.column_stack([np.ones(base.size), base])
    rest: Array = tuned - base - X @ np.linalg.lstsq(X, tuned - base, rcond=None)[0]
    if is_constant(base) or np.abs(rest).max() <= ROUNDING * max(np.abs(shared.to_numpy()).max(), 1e-300):
        raise UsageError(
            "one gain of a pair is constant, or follows from the other exactly",
            where=where,
            allowed="gains that were measured prompt by prompt",
            next_step="look for a file that holds one model twice",
        )
    return shared


def _warnings(rows: pd.DataFrame, bases: set[str], unshared: list[str]) -> list[str]:
    pairs = rows.drop_duplicates("pair")
    alone, several = bases - set(pairs["base_id"]), set(pairs.loc[pairs["base_id"].duplicated(), "base_id"])
    words = {
        "prompts that one model of a pair did not answer, left out: " + named(unshared): bool(unshared),
        "left out, since no model tuned from it is in the table: " + named(alone): bool(alone),
        "base of several pairs, which are counted as independent: " + named(several): bool(several),
        f"all pairs are of {pairs['heritage'].iloc[0]}: what tuning does in other labs is not observed": (
            len(pairs) > 1 and pairs["heritage"].nunique() == 1
        ),
    }
    return [line for line, holds in words.items() if holds]
