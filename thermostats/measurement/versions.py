"""What a folder measured by an older version would be measured as now: by class and switch, and
what no run states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import ThermostatsError
from thermostats.measurement.checkpoint import list_ropes, name_rope_type
from thermostats.measurement.lookup import BOTH_WAYS, select_decoder_config
from thermostats.measurement.model_class import Config
from thermostats.next_steps import write_command
from thermostats.tables import store
from thermostats.tables.identities import COUNTED
from thermostats.tables.invariants import find_unread
from thermostats.tables.model_rows import read_own_models
from thermostats.tables.runs import mark_superseded
from thermostats.tables.schemas import OURS

KINDS = {"": "weights", "default": "gains", "eager": "attention"}
"""`attention` of a run → what it measured."""


@dataclass(frozen=True)
class Change:
    """What a version measures otherwise than those before it."""

    version: int
    kinds: tuple[str, ...]
    """Kinds of runs that it concerns, of `KINDS`."""
    switch: Callable[[Config], bool]
    """Configurations that it concerns."""
    likely: Callable[[Mapping[str, Any]], bool]
    """Rows of `models` that it may concern, where the configuration is not on this machine."""
    what: str
    """What was measured before, in words."""


def _has_length_scaling(config: Config) -> bool:
    return not {"longrope", "dynamic"}.isdisjoint(map(name_rope_type, list_ropes(config)))


def _has_chunks(config: Config) -> bool:
    size = select_decoder_config(config).get("chunk_size_feed_forward")
    return isinstance(size, int) and size > 0


def _ignore_row(_row: Mapping[str, Any]) -> bool:
    return False


CHANGES = (
    Change(
        2,
        ("gains", "attention"),
        _has_length_scaling,
        lambda row: row["architecture"] in ("phi3", "phimoe"),
        "with rotary factors that follow the length, rows depended on the longest prompt of a "
        "batch",
    ),
    Change(
        2,
        ("gains",),
        _has_chunks,
        _ignore_row,
        "with chunk_size_feed_forward, gain_mlp and write_mlp were those of a part of the tokens",
    ),
    Change(
        2,
        ("gains", "attention"),
        lambda config: any(
            select_decoder_config(config).get(key) is value for key, value in BOTH_WAYS.items()
        ),
        _ignore_row,
        "with attention in both directions, prompts of one batch were not kept apart",
    ),
    Change(
        2,
        ("gains",),
        lambda config: (
            (
                select_decoder_config(config).get("num_hidden_layers")
                or select_decoder_config(config).get("n_layer")
            )
            == 1
        ),
        lambda row: int(row["n_layers"]) == 1,
        "of a model of one block, the total amplification was left empty",
    ),
)

WRONG: tuple[tuple[str, tuple[str, ...], Callable[[Any], bool]], ...] = (
    ("gated_mlp", ("modernbert", "gpt_oss"), lambda value: not value),
    ("n_positions", ("gemma3", "roformer"), lambda value: value > 0),
    ("norm_kind", ("phimoe", "cohere2_moe"), lambda value: value != "LayerNorm"),
    ("position_scheme", ("swin",), lambda value: value != "relative"),
    ("position_scheme", ("roformer",), lambda value: value != "rotary"),
)
"""Facts that older versions read from the wrong place: column, classes, and values that are not
theirs."""


def find_outdated_rows(data: str | Path | None = None) -> list[str]:
    """What of a user's own rows would be measured differently now, and what it takes, a sentence
    each."""
    folder = store.find_data_folder(data)
    models = read_own_models(folder)
    runs = store.load("runs", folder)
    runs = runs[(runs["source"] == OURS) & ~mark_superseded(runs)]
    runs = runs.merge(models[["model_id", "revision"]], on=["model_id", "revision"])
    sentences = [*_list_wrong_facts(models), *_list_changes(runs, models)]
    return [*sentences, *_list_unread(runs, models, folder), *_list_unstated(runs)]


def _list_wrong_facts(models: pd.DataFrame) -> list[str]:
    counted = models[models["source"] == COUNTED]
    sentences = []
    for row in counted.to_dict("records"):
        wrong = []
        for name, classes, is_wrong in WRONG:
            if row["architecture"] in classes and is_wrong(row[name]):
                wrong.append(name)
        if wrong:
            stated = ", ".join(f"{name} {row[name]}" for name in wrong)
            sentences.append(
                f"{_name_row(row)}: {stated} is not what its class has; {_suggest_command(row)} "
                f"corrects it"
            )
    return sentences


def _list_changes(runs: pd.DataFrame, models: pd.DataFrame) -> list[str]:
    sentences = []
    facts = {(row["model_id"], row["revision"]): row for row in models.to_dict("records")}
    for (model, revision), group in runs.groupby(["model_id", "revision"]):
        row = facts[model, revision]
        config = _read_cached_config(str(model), str(revision))
        for change in CHANGES:
            version = pd.to_numeric(group["measure_version"], errors="coerce")
            of_kind = group["attention"].map(KINDS).isin(change.kinds)
            concerned = change.likely(row) if config is None else change.switch(config)
            if concerned and (
                ids := sorted(group.loc[of_kind & (version < change.version), "run_id"])
            ):
                where = f"{_name_row(row)}, run {', '.join(ids)}"
                sentences.append(f"{where}: {change.what}; {_suggest_command(row)}")
    return sentences


def _list_unread(runs: pd.DataFrame, models: pd.DataFrame, folder: Path) -> list[str]:
    listed = find_unread(runs, models, store.load("layers", folder), store.load("weights", folder))
    unread: list[str] = []
    for row in listed.to_dict("records"):
        place = f"{_name_row(row)}, run {row['run_id']}"
        unread.append(f"{place}: rows lack {row['lacks']}; {_suggest_command(row)}")
    return unread


def _list_unstated(runs: pd.DataFrame) -> list[str]:
    silent = runs[(runs["model_sha"] == "") & (runs["confirmed_sha"] == "")]
    sentences = []
    for (model, revision), group in silent.groupby(["model_id", "revision"]):
        runs_do = "run does" if len(group) == 1 else "runs do"
        which = f"{model} @ {revision}, {len(group)} {runs_do}"
        sentences.append(
            f"{which} not state of which weights they are; "
            f"thermostats measure {model} --set older=same keeps them, --set older=again measures "
            f"again"
        )
    return sentences


def _read_cached_config(model: str, revision: str) -> Config | None:
    """The configuration of a model whose files are in the hub's cache; None of any other."""
    with suppress(ImportError, ThermostatsError):
        from thermostats.measurement.hub import fetch_config_folder  # noqa: PLC0415
        from thermostats.measurement.spectra import read_config  # noqa: PLC0415

        if not Path(model).exists():
            return read_config(fetch_config_folder(model, revision=revision, download=False))
    return None


def _name_row(row: Mapping[str, Any]) -> str:
    return f"{row['model_id']} @ {row['revision']}"


def _suggest_command(row: Mapping[str, Any]) -> str:
    revision = "" if row["revision"] == "main" else row["revision"]
    return write_command("measure", row["model_id"], revision=revision, set="older=again")
