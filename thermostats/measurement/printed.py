"""The verb `measure`: models named on the command line, their settings, and what became of them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thermostats.errors import UsageError, build_install_error
from thermostats.measurement.spec import (
    RETRIES,
    SPEC,
    RunSpec,
    build_settings,
    check_device,
    check_set,
    collect_specs,
    convert_gigabytes,
    require_device,
    select_shard,
)
from thermostats.tables import folders

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

    `options`: fields of `RunSpec`. `chosen`: settings by name, as `settings.parsed` gives them.
    `shard`: the part of the specs that is measured, as `select_shard` takes it. What can be said
    without torch is said before it is loaded.

    Raises UsageError for options that do not exist, a GPU that is not there, where the extra that
    measuring needs is not installed, or none of the models is a model's folder or a hub id;
    DataError for a file of specs that cannot be read.
    """
    if not models:
        what = "no model is named"
        step = "thermostats measure MODEL --data mine, or --models FILE for many"
        raise UsageError(what, next_step=step)
    if chosen.get("name") and len(models) > 1:
        what = "a name can be given to only one model"
        got = ", ".join(models)
        raise UsageError(what, where="--set name", got=got, next_step="measure it alone")
    settings = build_settings(chosen)
    budget = convert_gigabytes(chosen.get("disk_budget"))
    tables = folders.find_lookup_folder(data)
    check_device(settings.device, chosen.get("device_map"))
    if settings.name == "local":
        require_device(settings.device)
    fields = {**options, **{name: chosen[name] for name in SPEC if name in chosen}}
    try:
        fields["cache"] = None if budget is None else str(locate_own_cache())
        wanted = _check_specs(select_shard(collect_specs(models, fields), shard), tables)
        from thermostats.measurement.engines import Inline  # noqa: PLC0415
        from thermostats.measurement.execute import open_engine, run_specs  # noqa: PLC0415
        from thermostats.measurement.session import Bars, ProgressLines, set_quiet  # noqa: PLC0415

        check_installed()
    except ImportError as error:
        raise build_install_error(error) from error
    folder = tables if dry_run else folders.prepare_folder(data)
    print(f"data folder: {folder}", file=sys.stderr)
    limits = {"retries": chosen.get("retries", RETRIES), "budget": budget}
    alone = len(wanted) == 1 and settings.name == "local"
    outcomes = list[Any]()
    display = Bars() if sys.stderr.isatty() else ProgressLines()
    with display.bars:
        engine = (Inline if alone else open_engine)(settings, folder, display.report)
        for outcome in run_specs(
            wanted, folder, dry_run=dry_run, engine=engine, prepare=set_quiet, **limits
        ):
            outcomes.append(outcome)
            display.print_outcome(len(outcomes), len(wanted), outcome)
    if len(outcomes) > 1:
        print(summarise_outcomes(outcomes), file=sys.stderr)
    return outcomes


def check_installed() -> None:
    """Raise ImportError where the extra that measuring needs is not installed, without loading
    it."""
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise ImportError(f"No module named {name!r}")


def _check_specs(wanted: list[RunSpec], tables: Path) -> list[RunSpec]:
    """The specs, where their prompts are sets that can be read and a model of them may be there;
    else a UsageError."""
    sets = {spec.prompts for spec in wanted}
    for prompts in sets:
        check_set(prompts, tables)
    _check_places([spec.model for spec in wanted])
    from thermostats.measurement.prompts import load_prompts  # noqa: PLC0415

    for prompts in sets:
        load_prompts(prompts, tables)
    return wanted


def _check_places(models: Sequence[str]) -> None:
    """Raise UsageError where none of the models is a folder of one or may be a hub id; one of
    several is said later."""
    from thermostats.measurement.hub import find_local_folder  # noqa: PLC0415

    wrong = []
    for model in models:
        try:
            find_local_folder(model)
        except UsageError as error:
            wrong.append(error)
    if wrong and len(wrong) == len(models):
        raise wrong[0]


def summarise_outcomes(outcomes: Sequence[Any]) -> str:
    """How many specs came to what, and how many were tried more than once."""
    counts = Counter(outcome.status for outcome in outcomes)
    again = sum(outcome.attempts > 1 for outcome in outcomes)
    parts = []
    for status, count in sorted(counts.items()):
        parts.append(f"{count} {status}")
    return f"{len(outcomes)} specs: {', '.join(parts)}" + (
        f"; {again} tried more than once" if again else ""
    )


def locate_own_cache() -> Path:
    """Folder for models that are downloaded within a budget: only what lies here is deleted
    again."""
    from huggingface_hub import constants  # noqa: PLC0415

    stated = os.environ.get(CACHE_VARIABLE)
    return Path(stated) if stated else Path(constants.HF_HOME) / "thermostats"
