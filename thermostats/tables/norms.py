"""Gains from norms of the stream as other tools list them, one row per state."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import DataError, UsageError, unknown
from thermostats.tables.cells import NUMBER, numbers_of
from thermostats.tables.remedies import Remedy

NEEDED = {"state": "column of states, by number or hook name", "norm": "column of norms", "last": "stream or normed"}
"""What `[norms]` of a mapping file says."""
INPUTS, OUTPUTS = "inputs", "outputs"
STATES = {INPUTS: "they are what enters the blocks", OUTPUTS: "they are what leaves the blocks"}
"""What `states` of `[norms]` may be."""
STREAM, NORMED, UNKNOWN = "stream", "normed", "unknown"
LAST = (STREAM, NORMED, UNKNOWN)
ENTRIES = {**NEEDED, "states": " or ".join(STATES), "counted_from": "0 or 1, number of the first block's state"}
EARLIER = {"first": 'states = "outputs" and counted_from = 0 say that state 0 leaves block 1'}
"""Entries of earlier versions, and what says the same now."""
HOOK = re.compile(r"(?:blocks\.)?(\d+)(?:\.hook_resid)?_(pre|post)")
"""A state by name: a hook of TransformerLens, or a label of its stacks of the accumulated stream (`3_pre`)."""
FINAL = "final_post"
"""What such a stack calls x_L."""
AGREE = 1e-4
"""Relative difference of two norms for one state."""


def gains_from_norms(
    frame: pd.DataFrame, norms: Mapping[str, Any], where: object, models: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """G_l = n_l / n_(l−1): `layer` l, `norm_in` n_(l−1) and `gain_block` G_l in the place of states and norms.

    Where the last state is `normed`, also the ratio of its norm to n_(L−1), in a second frame, as `normed_gain`.

    States are names of TransformerLens, of which `blocks.3.hook_resid_post` is x_4, `blocks.3.hook_resid_pre` and
    `3_pre` are x_3 and `final_post` is x_L, or numbers. Of L + 1 states, numbered 0 to L, state l is x_l. Fewer may be
    what enters the blocks or what leaves them, so `states` says which: state 0 (or 1, where they count from 1) is x_0
    for `inputs`, x_1 for `outputs`. All other columns say whose norms they are. last: whether x_L is the stream, or
    `normed` as the last of the hidden states of transformers is, or `unknown`; then the gain of block L is not known.

    models: `n_layers` and `norm_place` of the model of each row, missing where it is not known.

    Raises UsageError where an entry or a column is missing or it is not said what the states are; DataError for states
    that are no states, norms that are not above 0, two norms for one state, and normed states of a model without a
    final norm.
    """
    check_entries(norms, where)
    for name in ("state", "norm"):
        if norms[name] not in frame:
            raise unknown(f"the column of {name}s is missing", norms[name], map(str, frame), where=where)
    others = [name for name in frame if name not in (norms["state"], norms["norm"])]
    facts = pd.DataFrame(index=frame.index) if models is None else models
    facts = facts.reindex(columns=["n_layers", "norm_place"])
    rows = frame[others].assign(norm=numbers_of(frame[norms["norm"]])[0], depth=facts["n_layers"].astype("float64"))
    if wrong := frame.loc[~(rows["norm"] > 0), norms["norm"]].tolist():
        raise DataError("a norm is a number above 0", where=where, got=repr(wrong[0]))
    states = _states(frame[norms["state"]], rows, others, norms, where)
    rows = ratios(rows.assign(state=states, post=facts["norm_place"].eq("post")), [*others, "depth", "post"], where)
    last = rows["layer"] == rows["depth"].fillna(rows["last"])
    if norms["last"] == NORMED and (last & rows["post"]).any():
        raise DataError(
            "no final norm is known of this model, which norms after every sum: its last state is the stream",
            where=where,
            got="last = normed",
            remedy=Remedy(when="read it so", mapping={"norms": {"last": STREAM}}),
        )
    gains = rows if norms["last"] == STREAM else rows[~last]
    normed = rows[last].rename(columns={"gain_block": "normed_gain"}) if norms["last"] == NORMED else rows[:0]
    of_gains = [*others, "layer", "norm_in", "gain_block"]
    return (
        gains[of_gains].reset_index(drop=True),
        normed.reindex(columns=[*others, "normed_gain"]).reset_index(drop=True),
    )


def check_entries(norms: Mapping[str, Any], where: object) -> None:
    """Raise UsageError where an entry of `[norms]` is missing, or is none or has a value that it may not have."""
    for name, what in NEEDED.items():
        if name not in norms:
            raise UsageError(f"[norms] lacks {name}", where=where, allowed=what)
    for name in norms:
        if name in EARLIER:
            raise UsageError(f"[norms] has no {name} any more", where=where, next_step=EARLIER[name])
        if name not in ENTRIES:
            raise unknown("[norms] has no such entry", name, ENTRIES, where=where)
    for name, what, values in (("last", "kind of last state", LAST), ("states", "kind of states", STATES)):
        if name in norms and norms[name] not in values:
            raise unknown(f"no such {what}", norms[name], values, where=where)
    if norms.get("counted_from", 0) not in (0, 1):
        raise UsageError("states count from 0 or from 1", where=where, got=f"counted_from = {norms['counted_from']!r}")


def ratios(rows: pd.DataFrame, others: Sequence[str], where: object) -> pd.DataFrame:
    """Of rows with `state` l and `norm` n_l those with n_(l−1): `layer`, `norm_in`, `gain_block`; `last`: largest l.

    others: columns that say whose norms they are. Raises DataError for two norms for one state.
    """
    by = [*others, "state"]
    spread = rows.groupby(by, dropna=False)["norm"].agg(["min", "max"])
    if (spread["max"] > spread["min"] * (1 + AGREE)).any():
        raise DataError("two norms for one state", where=where, got=str(spread.idxmax()["max"]))
    rows = rows.drop_duplicates(by).sort_values(by)
    whose = _whose(rows, others)
    before, last = whose[["state", "norm"]].shift(), whose["state"].transform("max")
    made = rows.assign(layer=rows["state"], norm_in=before["norm"], gain_block=rows["norm"] / before["norm"], last=last)
    return made[rows["state"] == before["state"] + 1]


def _whose(rows: pd.DataFrame, others: Sequence[str]) -> Any:
    return rows.groupby(list(others), dropna=False) if others else rows.groupby(np.zeros(len(rows)))


def _states(
    values: pd.Series, rows: pd.DataFrame, others: Sequence[str], norms: Mapping[str, Any], where: object
) -> list[int]:
    """Our numbers of states that are named or numbered; DataError for what is neither, or both."""
    states = [_named(value, depth) for value, depth in zip(values, rows["depth"], strict=True)]
    unnamed = values[[state is None for state in states]]
    if unnamed.empty:
        return [state for state in states if state is not None]
    numbers = [_number(value, where) for value in unnamed]
    if len(numbers) < len(rows):
        what, got = "states by name and by number", repr(unnamed.iloc[0])
        raise DataError(what, where=where, got=got, allowed="one or the other")
    shift = _shift(rows.assign(state=numbers), others, norms, where)
    return [number + shift for number in numbers]


def _named(value: object, depth: float) -> int | None:
    """The number of a state that is named; None where its name says none."""
    if value == FINAL:
        return None if np.isnan(depth) else int(depth)
    hook = HOOK.fullmatch(str(value))
    return int(hook[1]) + (hook[2] == "post") if hook else None


def _number(value: object, where: object) -> int:
    number = float(str(value)) if NUMBER.fullmatch(str(value)) else -1.0
    if number < 0 or number != int(number):
        allowed = "0 to L, or blocks.0.hook_resid_pre to blocks.(L-1).hook_resid_post"
        raise DataError("not a state of the stream", where=where, got=repr(value), allowed=allowed)
    return int(number)


def _shift(rows: pd.DataFrame, others: Sequence[str], norms: Mapping[str, Any], where: object) -> int:
    """What is added to their numbers of states for state l to be x_l; UsageError where the numbers do not say it.

    Of models whose depth is not known nothing can be said, and nothing is asked.
    """
    whose = _whose(rows, others)["state"]
    first, last, depth = whose.transform("min"), whose.transform("max"), rows["depth"]
    whole = (first == 0) & (last == depth)
    fewer = depth.notna() & (last <= depth) & ~whole
    states = norms.get("states")
    if states is None:
        if fewer.any():
            raise _unsaid(rows[fewer], where)
        return 0
    if states == OUTPUTS and whole.any():
        what = "states 0 to L are what enters block 1 and what leaves every block, no outputs alone"
        raise UsageError(what, where=where, got=_numbers(rows[whole]), next_step='leave out states = "outputs"')
    bases = {0} if (first == 0).any() else set()
    bases |= {1} if ((first > 0) & (last == depth)).any() else set()
    if "counted_from" not in norms and depth.notna().any() and len(bases) != 1:
        again = {base: {"norms": {"counted_from": base}} for base in (0, 1)}
        raise UsageError(
            "the numbers of the states do not say whether they count from 0 or from 1",
            where=where,
            got=_numbers(rows),
            remedy=tuple(Remedy(when=f"from {base}", mapping=mapping) for base, mapping in again.items()),
        )
    base = norms.get("counted_from", min(bases, default=0))
    return int(states == OUTPUTS) - int(base)


def _numbers(rows: pd.DataFrame) -> str:
    depth = int(rows["depth"].iloc[0])
    return f"states {rows['state'].min()} to {rows['state'].max()} of a model of {depth} blocks"


def _unsaid(rows: pd.DataFrame, where: object) -> UsageError:
    """The error for fewer states than L + 1 of which it is not said what they are, with a line for either."""
    return UsageError(
        "of fewer states than 0 to L it must be said whether they are what enters or what leaves the blocks",
        where=where,
        got=_numbers(rows),
        allowed=", ".join(f'states = "{name}"' for name in STATES),
        remedy=tuple(Remedy(when=f"if {what}", words={"states": name}) for name, what in STATES.items()),
    )
