"""What to measure: a `RunSpec`, or many from a file with one model per row of CSV or JSONL, or per `[[spec]]` of TOML.

In TOML and JSONL a list stands for each of its values in turn, so one entry covers all checkpoints of a model:

    [[spec]]
    model = "EleutherAI/pythia-160m"
    revision = ["step1000", "step2000", "step4000"]

Loads neither tables nor torch.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, UsageError, unknown
from thermostats.measurement.gguf_parts import is_gguf
from thermostats.measurement.records import Records, csv_records, jsonl_records, read_text
from thermostats.measurement.settings import is_shipped_set
from thermostats.tables.folders import shipped

WHAT = {
    "weights": ("weights", ("weights", "summaries")),
    "gains": ("residual", ("layers", "summaries")),
    "outputs": ("residual", ("outputs",)),
    "attention": ("attention", ("attention", "transitions")),
}
"""What can be asked for → the run it belongs to and the tables it fills."""
PRECISIONS = ("float32", "bfloat16", "float16")
SAME, AGAIN = ANSWERS = ("same", "again")
"""About runs of an older version: they are of these weights and stay; or they are measured again."""
ANSWERED = "same: they are of these weights; again: measure again"


@dataclass(frozen=True)
class RunSpec:
    """What to measure: a model (hub id or local folder), its revision, precision, prompts and kinds of quantity.

    Each field is what a user may say by an option, a setting or a column of that name.
    """

    model: str
    revision: str = "main"
    dtype: str = "float32"
    prompts: str = "core"
    what: tuple[str, ...] = tuple(WHAT)
    device: str = "auto"
    device_map: str | None = None
    token_budget: int | None = None
    heritage: str = ""
    trust_remote_code: bool = False
    download: bool = True
    cache: str | None = None
    """Folder that a model which the hub's own cache lacks is downloaded to, in the place of that cache."""
    name: str = ""
    """model_id for a local folder; empty: the folder's name."""
    source: str = "thermostats"
    """`source` of its runs: it marks a designed experiment (`tables/vocabulary.py`)."""
    pickles: bool = True
    """Whether weights that exist only as pickles may be downloaded and read, by torch with `weights_only=True`."""
    older: str = ""
    """Of runs that an older version measured under this name: ``same`` keeps them as of these weights, ``again``
    measures again; empty: the user is asked."""

    def __post_init__(self) -> None:
        """Raise UsageError for a kind of quantity, a precision, an answer or a budget that does not exist."""
        unknown = [name for name in self.what if name not in WHAT]
        if unknown or not self.what:
            raise UsageError("no such quantity to measure", got=", ".join(unknown), allowed=", ".join(WHAT))
        if self.dtype not in PRECISIONS:
            raise UsageError("no such precision", where="dtype", got=self.dtype, allowed=", ".join(PRECISIONS))
        if self.older not in ("", *ANSWERS):
            raise UsageError("no such answer about older runs", where="older", got=self.older, allowed=ANSWERED)
        if self.token_budget is not None and self.token_budget < 1:
            raise UsageError("a batch must hold at least one token", where="token budget", got=str(self.token_budget))


def spec_of(model: str, options: Mapping[str, Any]) -> RunSpec:
    """The spec of one model with fields of RunSpec by name, paths made absolute.

    Raises UsageError for a field that does not exist, or a value that is not of its type.
    """
    allowed = sorted(TYPES.keys() - {"model"})
    for name, value in options.items():
        if name not in allowed:
            raise unknown("no such option", name, allowed, where="measure")
        if value is not None or "None" not in TYPES[name]:
            _check_type(name, value, "measure")
    return _placed(RunSpec(model, **options))


ALLOWED = {"tuple[str, ...]": "names", "int | None": "a whole number", "bool": "True or False"}
"""Types of the fields that are not text, and their names in messages."""
TYPES = {each.name: str(each.type) for each in fields(RunSpec)}
FIELDS = ("model", "revision", "dtype", "prompts", "device_map", "heritage", "name", "what", "token_budget")
"""What a file may say of a model; whether code of its own may run is said on the command line alone."""
RANGE = re.compile(r"(?P<stem>.*?)(?P<first>\d+)\.\.(?P<same>.*?)(?P<last>\d+):(?P<by>\d+)")
"""A range of revisions, `step1000..step5000:1000`."""
MOST = 100_000
"""Specs that one entry may stand for."""


def specs(models: Sequence[str], options: Mapping[str, Any]) -> list[RunSpec]:
    """Specs of hub ids, model folders and files of specs, in order, each once; `options` where a file does not say.

    Paths are made absolute, so that a worker elsewhere finds them.

    Raises UsageError for fields or values that do not exist, DataError for a file that cannot be read.
    """
    listed: list[RunSpec] = []
    for model in models:
        path = shipped_lists().get(model, Path(model).expanduser())
        if path.suffix.lower() in READERS and path.is_file():
            listed += read_specs(path, options)
        elif path.suffix.lower() in READERS and not path.exists():
            raise UsageError("no such file of specs", got=model, next_step="check the path")
        else:
            named = revisions(str(options.get("revision", "main")))
            listed += [RunSpec(model, **{**options, "revision": revision}) for revision in named]
    return list(dict.fromkeys(_placed(spec) for spec in listed))


def shipped_lists() -> dict[str, Path]:
    """Files of specs that ship, by name: the models of a study."""
    return {path.stem: path for path in sorted((shipped("data") / "to_measure").glob("*.csv"))}


def revisions(text: str) -> list[str]:
    """Revisions of a list such as `main,step1000`, in which `step1000..step5000:1000` stands for a range.

    Numbers of a range are as wide as its first one: `step010..step030:10` is step010, step020, step030.

    Raises UsageError where a range is none, or stands for too many.
    """
    names: list[str] = []
    for part in map(str.strip, text.split(",")):
        if ".." not in part:
            names.append(part)
            continue
        span = RANGE.fullmatch(part)
        if span is None or span["same"] not in ("", span["stem"]) or not int(span["by"]):
            allowed = "a range such as step1000..step5000:1000"
            raise UsageError("not a range of revisions", where="--revision", got=part, allowed=allowed)
        steps = range(int(span["first"]), int(span["last"]) + 1, int(span["by"]))
        if not 0 < len(steps) <= MOST:
            raise UsageError("a range without revisions, or of too many", where="--revision", got=part)
        names += [f"{span['stem']}{step:0{len(span['first'])}d}" for step in steps]
    if not all(names):
        raise UsageError("a revision without a name", where="--revision", got=repr(text))
    return names


def read_specs(path: Path, options: Mapping[str, Any]) -> list[RunSpec]:
    """Specs of a file, in its order.

    Raises as `specs` does, with the line or the number of the entry.
    """
    rows = READERS[path.suffix.lower()](read_text(path, "specs"), path)
    entries = [spec for where, row in rows for spec in _each(row, options, where)]
    if not entries:
        raise DataError("no specs in this file", where=path, next_step="write one model per line, or [[spec]] tables")
    return entries


def _each(row: Mapping[str, Any], options: Mapping[str, Any], where: str) -> Iterator[RunSpec]:
    for name in row:
        if name not in FIELDS:
            raise unknown("unknown field of a spec", name, FIELDS, where=where)
    stated = {name: value for name, value in row.items() if value not in (None, "")}
    if "model" not in stated:
        raise UsageError("a spec without model", where=where, next_step="give a hub id or a model folder")
    if isinstance(stated.get("what"), str):
        stated["what"] = [part.strip() for part in stated["what"].split(",")]
    choices = [
        [(name, tuple(value))]
        if name == "what" and isinstance(value, list)
        else [(name, each) for each in (value if isinstance(value, list) else [value])]
        for name, value in stated.items()
    ]
    if (count := math.prod(len(choice) for choice in choices)) > MOST:
        raise UsageError("one entry stands for too many specs", where=where, got=str(count), allowed=f"at most {MOST}")
    for chosen in map(dict, product(*choices)):
        budget = chosen.get("token_budget")
        if isinstance(budget, str) and budget.strip().isascii() and budget.strip().isdecimal() and len(budget) < 20:
            chosen["token_budget"] = int(budget)
        for name, value in chosen.items():
            _check_type(name, value, where)
        try:
            yield RunSpec(**{**options, **chosen})
        except UsageError as error:
            place = f"{where}, {error.where}".rstrip(", ")
            raise UsageError(error.what, where=place, got=error.got, allowed=error.allowed) from error


def _check_type(name: str, value: Any, where: str) -> None:
    """Raise UsageError for a value that is not of its field's type."""
    kind, inner = TYPES[name].partition("[")[0].partition(" ")[0], value if isinstance(value, tuple) else ()
    if type(value).__name__ != kind or not all(isinstance(item, str) for item in inner):
        allowed = ALLOWED.get(TYPES[name], "text")
        raise UsageError(f"{name} is not of its type", where=where, got=repr(value)[:60], allowed=allowed)


def _placed(spec: RunSpec) -> RunSpec:
    """The spec with absolute paths where it names a folder or a file."""
    model, prompts = Path(spec.model).expanduser(), Path(spec.prompts)
    try:
        if model.is_dir() or is_gguf(model):
            spec = replace(spec, model=str(model.resolve()))
        named = is_shipped_set(spec.prompts) or not prompts.exists()
        return spec if named else replace(spec, prompts=str(prompts.resolve()))
    except (OSError, ValueError) as error:
        got, allowed = repr(spec.model)[:80], "owner/name, a folder, or a GGUF file"
        raise UsageError("neither a model nor a path", got=got, allowed=allowed) from error


def _toml(text: str, path: Path) -> Records:
    try:
        parsed = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not TOML: {error}", where=path) from error
    entries = parsed.pop("spec", [])
    if parsed or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        got = ", ".join(parsed) or repr(entries)[:60]
        raise DataError("a file of specs may hold only [[spec]] tables", where=path, got=got)
    return [(f"{path}, spec {number}", entry) for number, entry in enumerate(entries, 1)]


def _csv(text: str, path: Path) -> Records:
    rows = csv_records(text, path)
    for where, row in rows:
        if None in row or None in row.values():
            raise DataError("not as many cells as columns", where=where, allowed=", ".join(filter(None, row)))
    return rows


READERS = {".toml": _toml, ".csv": _csv, ".jsonl": jsonl_records}
