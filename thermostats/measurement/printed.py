"""The verb `measure`: models named on the command line, their settings, and what became of them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import ThermostatsError, UsageError, not_installed
from thermostats.measurement.architectures import BOTH_WAYS, Config, config_of
from thermostats.measurement.checkpoint import rope_type, ropes
from thermostats.measurement.progress import Bars, ProgressLines
from thermostats.measurement.spec import (
    RETRIES,
    SPEC,
    check_device,
    check_here,
    check_set,
    in_bytes,
    in_shard,
    settings_of,
    specs,
)
from thermostats.next_steps import command
from thermostats.tables import folders, store
from thermostats.tables.identities import COUNTED
from thermostats.tables.invariants import unread
from thermostats.tables.model_rows import own_models
from thermostats.tables.runs import superseded
from thermostats.tables.schemas import OURS

CACHE_VARIABLE = "THERMOSTATS_MODELS"


def measure_models(
    models: Sequence[str],
    options: Mapping[str, Any],
    data: str | Path | None,
    *,
    dry_run: bool,
    shard: str = "1/1",
    **chosen: Any,
) -> list[Any]:
    """Outcomes of measuring models and files of specs, with progress on standard error.

    `options`: fields of `RunSpec`. `chosen`: settings by name, as `settings.parsed` gives them. `shard`: the part of
    the specs that is measured, as `in_shard` takes it. What can be said without torch is said before it is loaded.

    Raises UsageError for options that do not exist, a GPU that is not there, where the extra that measuring needs is
    not installed, or none of the models is a model's folder or a hub id; DataError for a file of specs that cannot be
    read.
    """
    if not models:
        what, step = "no model is named", "thermostats measure MODEL --data mine, or --models FILE for many"
        raise UsageError(what, next_step=step)
    if chosen.get("name") and len(models) > 1:
        what, got = "a name can be given to only one model", ", ".join(models)
        raise UsageError(what, where="--set name", got=got, next_step="measure it alone")
    settings, budget = settings_of(chosen), in_bytes(chosen.get("disk_budget"))
    tables = folders.begun_or_shipped(data)
    check_device(settings.device, chosen.get("device_map"))
    if settings.name == "local":
        check_here(settings.device)
    try:
        fields = {**options, **{name: chosen[name] for name in SPEC if name in chosen}}
        wanted = specs(models, {**fields, "cache": None if budget is None else str(own_cache())})
        wanted = in_shard(wanted, shard)
        sets = {spec.prompts for spec in wanted}
        for prompts in sets:
            check_set(prompts, tables)
        _check_places([spec.model for spec in wanted])
        from thermostats.measurement.prompts import load_prompts  # noqa: PLC0415 - loads pandas

        for prompts in sets:
            load_prompts(prompts, tables)
        from thermostats.measurement.engines.local import Inline  # noqa: PLC0415 - needs the extra
        from thermostats.measurement.execute import execute, open_engine  # noqa: PLC0415 - as above
        from thermostats.measurement.session import quiet  # noqa: PLC0415 - as above

        check_installed()
    except ImportError as error:
        raise not_installed(error) from error
    folder = tables if dry_run else folders.writable_folder(data)
    print(f"data folder: {folder}", file=sys.stderr)
    limits = {"retries": chosen.get("retries", RETRIES), "budget": budget}
    alone = len(wanted) == 1 and settings.name == "local"
    outcomes = []
    display = Bars() if sys.stderr.isatty() else ProgressLines()
    with display.bars:
        engine = (Inline if alone else open_engine)(settings, folder, display.report)
        for outcome in execute(wanted, folder, dry_run=dry_run, engine=engine, prepare=quiet, **limits):
            outcomes.append(outcome)
            display.done(len(outcomes), len(wanted), outcome)
    if len(outcomes) > 1:
        print(summary(outcomes), file=sys.stderr)
    return outcomes


def check_installed() -> None:
    """Raise ImportError where the extra that measuring needs is not installed, without loading it."""
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise ImportError(f"No module named {name!r}")


def _check_places(models: Sequence[str]) -> None:
    """Raise UsageError where none of the models is a folder of one or may be a hub id; one of several is said later."""
    from thermostats.measurement.hub import local_folder  # noqa: PLC0415 - needs the extra

    wrong = []
    for model in models:
        try:
            local_folder(model)
        except UsageError as error:
            wrong.append(error)
    if wrong and len(wrong) == len(models):
        raise wrong[0]


def summary(outcomes: Sequence[Any]) -> str:
    """How many specs came to what, and how many were tried more than once."""
    counts = Counter(outcome.status for outcome in outcomes)
    again = sum(outcome.attempts > 1 for outcome in outcomes)
    parts = [f"{count} {status}" for status, count in sorted(counts.items())]
    return f"{len(outcomes)} specs: {', '.join(parts)}" + (f"; {again} tried more than once" if again else "")


def own_cache() -> Path:
    """Folder for models that are downloaded within a budget: only what lies here is deleted again."""
    from huggingface_hub import constants  # noqa: PLC0415 - comes with the extra

    stated = os.environ.get(CACHE_VARIABLE)
    return Path(stated) if stated else Path(constants.HF_HOME) / "thermostats"


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


def _by_length(config: Config) -> bool:
    return not {"longrope", "dynamic"}.isdisjoint(map(rope_type, ropes(config)))


def _chunks(config: Config) -> bool:
    size = config_of(config).get("chunk_size_feed_forward")
    return isinstance(size, int) and size > 0


def _never(_row: Mapping[str, Any]) -> bool:
    return False


CHANGES = (
    Change(
        2,
        ("gains", "attention"),
        _by_length,
        lambda row: row["architecture"] in ("phi3", "phimoe"),
        "with rotary factors that follow the length, rows depended on the longest prompt of a batch",
    ),
    Change(
        2,
        ("gains",),
        _chunks,
        _never,
        "with chunk_size_feed_forward, gain_mlp and write_mlp were those of a part of the tokens",
    ),
    Change(
        2,
        ("gains", "attention"),
        lambda config: any(config_of(config).get(key) is value for key, value in BOTH_WAYS.items()),
        _never,
        "with attention in both directions, prompts of one batch were not kept apart",
    ),
    Change(
        2,
        ("gains",),
        lambda config: (config_of(config).get("num_hidden_layers") or config_of(config).get("n_layer")) == 1,
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
"""Facts that older versions read from the wrong place: column, classes, and values that are not theirs."""


def older(data: str | Path | None = None) -> list[str]:
    """What of a user's own rows would be measured differently now, and what it takes, a sentence each."""
    folder = store.data_folder(data)
    models = own_models(folder)
    runs = store.load("runs", folder)
    runs = runs[(runs["source"] == OURS) & ~superseded(runs)]
    runs = runs.merge(models[["model_id", "revision"]], on=["model_id", "revision"])
    return [*_facts(models), *_changes(runs, models), *_unread(runs, models, folder), *_unstated(runs)]


def _facts(models: pd.DataFrame) -> list[str]:
    counted = models[models["source"] == COUNTED]
    sentences = []
    for row in counted.to_dict("records"):
        wrong = [name for name, classes, is_wrong in WRONG if row["architecture"] in classes and is_wrong(row[name])]
        if wrong:
            stated = ", ".join(f"{name} {row[name]}" for name in wrong)
            sentences.append(f"{_label(row)}: {stated} is not what its class has; {_again(row)} corrects it")
    return sentences


def _changes(runs: pd.DataFrame, models: pd.DataFrame) -> list[str]:
    sentences = []
    facts = {(row["model_id"], row["revision"]): row for row in models.to_dict("records")}
    for (model, revision), group in runs.groupby(["model_id", "revision"]):
        row, config = facts[model, revision], _config(str(model), str(revision))
        for change in CHANGES:
            version = pd.to_numeric(group["measure_version"], errors="coerce")
            of_kind = group["attention"].map(KINDS).isin(change.kinds)
            concerned = change.likely(row) if config is None else change.switch(config)
            if concerned and (ids := sorted(group.loc[of_kind & (version < change.version), "run_id"])):
                sentences.append(f"{_label(row)}, run {', '.join(ids)}: {change.what}; {_again(row)}")
    return sentences


def _unread(runs: pd.DataFrame, models: pd.DataFrame, folder: Path) -> list[str]:
    listed = unread(runs, models, store.load("layers", folder), store.load("weights", folder))
    return [
        f"{_label(row)}, run {row['run_id']}: rows lack {row['lacks']}; {_again(row)}"
        for row in listed.to_dict("records")
    ]


def _unstated(runs: pd.DataFrame) -> list[str]:
    silent = runs[(runs["model_sha"] == "") & (runs["confirmed_sha"] == "")]
    return [
        f"{model} @ {revision}, {len(group)} {'run does' if len(group) == 1 else 'runs do'} not state of which weights "
        f"they are; thermostats measure {model} --set older=same keeps them, --set older=again measures again"
        for (model, revision), group in silent.groupby(["model_id", "revision"])
    ]


def _config(model: str, revision: str) -> Config | None:
    """The configuration of a model whose files are in the hub's cache; None of any other."""
    with suppress(ImportError, ThermostatsError):
        from thermostats.measurement.hub import config_folder  # noqa: PLC0415 - needs the extra
        from thermostats.measurement.spectra import read_config  # noqa: PLC0415 - as above

        if not Path(model).exists():
            return read_config(config_folder(model, revision=revision, download=False))
    return None


def _label(row: Mapping[str, Any]) -> str:
    return f"{row['model_id']} @ {row['revision']}"


def _again(row: Mapping[str, Any]) -> str:
    revision = "" if row["revision"] == "main" else row["revision"]
    return command("measure", row["model_id"], revision=revision, set="older=again")
