"""A table of models with their named gains, such as a CSV of other people: one mapping that fills two tables.

`{"name": "model_id", "lab": "heritage", "layers": "n_layers", "gain": "penultimate_gain"}` says of each model its row
of `models`, and of each named gain (or its standard deviation over prompts, `penultimate_gain_sd`) one of `summaries`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thermostats.errors import UsageError
from thermostats.tables.schemas import dtypes
from thermostats.tables.vocabulary import GAINS

IDENTITY = ("model_id", "revision", "source")
"""What a gain has of its model, and whose both are."""
SD = "_sd"


def is_gain(name: object) -> bool:
    """Whether a name is that of a gain, or of its standard deviation over prompts."""
    return isinstance(name, str) and name.removesuffix(SD) in GAINS


def parts(content: Mapping[str, Any], entries: Sequence[str]) -> list[dict[str, Any]]:
    """A mapping as those of the tables that it fills: itself, or where it names gains one of models and one a gain."""
    plain = not set(content) <= set(entries)
    columns = dict(content) if plain else dict(content.get("columns", {}))
    gains = {theirs: ours for theirs, ours in columns.items() if is_gain(ours)}
    if not gains or content.get("table"):
        return [dict(content)]
    facts = {theirs: ours for theirs, ours in columns.items() if theirs not in gains}
    rest: Mapping[str, Any] = {} if plain else content
    constants, factors = dict(rest.get("constants", {})), dict(rest.get("factors", {}))
    if not {"model_id"} & {*facts.values(), *constants}:
        step = 'mapping={"their column of models": "model_id", …}'
        raise UsageError("gains of no model", where="mapping", got=", ".join(columns), next_step=step)
    fixed = {name: value for name, value in constants.items() if name in dtypes("models")}
    of_models = {
        "table": "models",
        "columns": facts,
        "constants": fixed,
        "factors": {name: factor for name, factor in factors.items() if not is_gain(name)},
        "ignore": _ignored(rest, gains),
    }
    of_runs = {name: value for name, value in constants.items() if name not in fixed or name in dtypes("runs")}
    named = {theirs: ours for theirs, ours in facts.items() if ours in IDENTITY}
    mappings = [of_models] if set(facts.values()) - set(IDENTITY) else []
    for theirs, gain in gains.items():
        others = [name for name in columns if name not in named and name != theirs]
        mappings.append(
            {
                "table": "summaries",
                "columns": {**named, theirs: "value"},
                "constants": {**of_runs, "estimand": gain, "prompt_id": ""},
                "factors": {"value": factors[gain]} if gain in factors else {},
                "ignore": _ignored(rest, others),
            }
        )
    return mappings


def _ignored(rest: Mapping[str, Any], columns: Sequence[str] | Mapping[str, str]) -> list[str] | str:
    """What the user leaves out, and what another part takes."""
    ignore = rest.get("ignore", [])
    return ignore if isinstance(ignore, str) else [*ignore, *columns]
