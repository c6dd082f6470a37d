"""What to measure: a `RunSpec`, or many from a file with one model per row of CSV or JSONL, or per
`[[spec]]` of TOML.

In TOML and JSONL a list stands for each of its values in turn, so one entry covers all checkpoints
of a model:

    [[spec]]
    model = "EleutherAI/pythia-160m"
    revision = ["step1000", "step2000", "step4000"]

Loads neither tables nor torch.
"""

from __future__ import annotations

import csv
import ctypes
import io
import json
import math
import os
import re
import sys
import tomllib
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from thermostats.errors import (
    DataError,
    ThermostatsError,
    TransientError,
    UsageError,
    build_unknown_error,
    suggest_nearest,
)
from thermostats.measurement.gguf_parts import is_gguf
from thermostats.tables.choices import MAIN, is_text, refuse_placeholder, split_revision
from thermostats.tables.folders import (
    PROMPTS,
    find_shipped,
    list_layers,
    list_own_files,
    read_bytes,
)

Records = list[tuple[str, dict[Any, Any]]]
"""File and line of a record, and its fields."""


def read_text(path: Path, what: str) -> str:
    """A file's text; `what` it holds is named in the DataError where it cannot be read or is not
    UTF-8."""
    try:
        return read_bytes(path, PROMPTS).decode("utf-8-sig")
    except OSError as error:
        raise DataError(
            f"{what} cannot be read", where=path, got=error.strerror or str(error)
        ) from error
    except UnicodeDecodeError as error:
        got = f"byte {error.object[error.start]:#04x} at {error.start}"
        raise DataError(
            f"{what} are not UTF-8 text", where=path, got=got, next_step="save as UTF-8"
        ) from error


def parse_csv_records(text: str, path: Path) -> Records:
    """The rows by name of the column; cells beyond the columns stand under None."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(f"{path}, line {reader.line_num}", dict(row)) for row in reader]
    except csv.Error as error:
        raise DataError(
            f"CSV is damaged: {error}", where=f"{path}, line {reader.line_num}"
        ) from error


def parse_jsonl_records(text: str, path: Path) -> Records:
    """The objects, one a line; empty lines are left out."""
    records: Records = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line is not JSON: {error}", where=where) from error
        if not isinstance(fields, dict):
            raise DataError("line is not a JSON object", where=where, got=line[:60])
        records.append((where, fields))
    return records


ENGINES = ("local", "ray")
Item = TypeVar("Item")
MADE = "images"
"""Prompt set of images that code makes (`prompts.py`)."""

RETRIES = 2
"""How often what fails by no fault of its own is tried again."""


@dataclass(frozen=True)
class EngineSettings:
    """How to run many specs."""

    name: str = "local"
    cpus: int | None = None
    """Threads that a model is measured with."""
    device: str = "auto"
    spread: bool = False
    """Models are spread over all devices."""
    address: str | None = None
    """Address of a Ray cluster that exists."""
    gpu_memory: int | None = None
    """Bytes of one GPU of a cluster; without it models run on CPUs there."""
    gpus: int = 1
    """GPUs that a model may have, where one does not hold it."""

    @property
    def is_on_gpus(self) -> bool:
        """Models run on GPUs of a cluster."""
        return self.gpu_memory is not None and self.device != "cpu"

    @property
    def cluster(self) -> str:
        """The address for `ray.init`, which without one waits for the last cluster of a machine,
        gone or not."""
        return self.address or os.environ.get("RAY_ADDRESS") or "local"

    def __post_init__(self) -> None:
        """Raise UsageError for an engine that does not exist."""
        if self.name not in ENGINES:
            raise build_unknown_error("no such engine", self.name, ENGINES, where="--set engine")


def select_shard(items: Sequence[Item], which: str) -> list[Item]:
    """Every N-th item from the K-th on, for `K/N`, such as 2/8; each item is in one of the N
    shards.

    Raises UsageError for what is not K/N with 1 ≤ K ≤ N.
    """
    parts = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", which)
    if parts is None or not 1 <= (number := int(parts[1])) <= (count := int(parts[2])):
        raise UsageError(
            "no such shard", where="--shard", got=repr(which), allowed="K/N, such as 1/8 to 8/8"
        )
    return list(items[number - 1 :: count])


@dataclass(frozen=True)
class Setting:
    """A setting that `measure --set` takes."""

    kind: type
    words: str
    least: float = 1
    """Of a number, the smallest that there is."""


SETTINGS = {
    "name": Setting(str, "of the model in the tables, such as me/my-model; for one model"),
    "device": Setting(str, "auto, cpu, cuda, cuda:1, …"),
    "device_map": Setting(str, "auto spreads a model over several devices"),
    "token_budget": Setting(
        int, "largest number of tokens in a batch; a smaller one needs less memory"
    ),
    "trust_remote_code": Setting(bool, "yes runs code that comes with a model"),
    "older": Setting(
        str,
        "runs of an older version of this name: same (of these weights) or again (measure again)",
    ),
    "engine": Setting(str, "local or ray"),
    "address": Setting(str, "of a running Ray cluster, as ray start printed it"),
    "cpus": Setting(int, "threads per model; by default 4, on Ray 1"),
    "gpus": Setting(int, "GPUs of Ray that one model may be spread over"),
    "gpu_memory": Setting(float, "of one GPU of the cluster, in GB; without it, CPUs are used"),
    "retries": Setting(
        int, f"how often what fails for external reasons is tried again; by default {RETRIES}", 0
    ),
    "disk_budget": Setting(
        float, "disk space for downloaded models, in GB; measured ones are deleted"
    ),
}
"""Settings that are seldom needed, by name."""
SPEC = ("name", "device", "device_map", "token_budget", "trust_remote_code", "older")
"""Those that say how one model is measured; the others say where many are."""
FLAGS = {"yes": True, "true": True, "no": False, "false": False}


def parse_settings(
    texts: Sequence[str], choices: Mapping[str, Setting] = SETTINGS
) -> dict[str, Any]:
    """Settings of texts such as `device=cuda:1`, by name; raises UsageError for others, naming the
    setting.

    choices: the settings that there are.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in choices:
            raise build_unknown_error("no such setting", name, choices, where="--set")
        settings[name] = _parse_value(name, value.strip(), choices[name])
    return settings


def _parse_value(name: str, text: str, setting: Setting) -> Any:
    kind = setting.kind
    try:
        value = FLAGS[text.lower()] if kind is bool else kind(text)
        if text and (kind in (bool, str) or value >= setting.least):
            return value
    except (KeyError, ValueError):
        pass
    numbers = {
        int: f"a whole number from {setting.least:g}",
        float: f"a number from {setting.least:g}",
    }
    allowed = {bool: "yes or no", str: "text", **numbers}[kind]
    raise UsageError(
        "no such value of a setting", where="--set", got=f"{name}={text}", allowed=allowed
    )


def build_settings(chosen: Mapping[str, Any]) -> EngineSettings:
    """How many specs are run, by settings as `parse_settings` gives them."""
    named = {}
    for name in ("cpus", "device", "address", "gpus"):
        if name in chosen:
            named[name] = chosen[name]
    spread = chosen.get("device_map") is not None
    memory = convert_gigabytes(chosen.get("gpu_memory"))
    return EngineSettings(chosen.get("engine", "local"), **named, spread=spread, gpu_memory=memory)


def convert_gigabytes(gigabytes: float | None) -> int | None:
    """GB as bytes."""
    return None if gigabytes is None else int(gigabytes * 1e9)


NAMES = re.compile(r"auto|cpu|mps|(cuda|xpu)(:[0-9]{1,3})?")
MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""Ways to spread a model over devices that accelerate knows by name."""
AMD = Path("/dev/kfd")
"""There with the driver of AMD's GPUs, which torch calls cuda too."""


def check_device(device: str, device_map: str | None = None) -> None:
    """Raise UsageError for the name of a device that there is on no machine, or no way to spread a
    model."""
    if NAMES.fullmatch(device) is None:
        raise UsageError(
            "no such device",
            where="--set device",
            got=device,
            allowed="auto, cpu, cuda, cuda:1, mps, xpu, …",
        )
    if device_map is not None and device_map not in MAPS:
        raise UsageError(
            "no such device map", where="--set device_map", got=device_map, allowed=", ".join(MAPS)
        )


def require_device(device: str) -> None:
    """Raise UsageError for a GPU that this machine lacks; of what only torch can tell, nothing is
    said."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or (count := count_gpus()) is None or int(number or 0) < count:
        return
    what = "no such GPU on this machine"
    allowed = ", ".join(["auto", "cpu", *map("cuda:{}".format, range(count))])
    step = "leave out --set device: the first GPU is used if there is one, otherwise the processor"
    raise UsageError(what, where="--set device", got=device, allowed=allowed, next_step=step)


def count_gpus() -> int | None:
    """GPUs that NVIDIA's driver counts, 0 without the driver; None where another maker's driver is
    there."""
    if AMD.exists():
        return None
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


def check_set(name: str, folder: Path) -> None:
    """Raise UsageError where there is neither a prompt set of this name in a data folder nor a file
    at that path."""
    if name == MADE or Path(name).exists():
        return
    try:
        sets = set_names(folder)
    except (OSError, UnicodeDecodeError, csv.Error):
        return  # what is wrong with the table is said by what reads it whole
    if name not in sets:
        raise build_set_error(name, sets)


def set_names(folder: Path) -> set[str]:
    """Names of the prompt sets in a data folder's CSV files."""
    names: set[str] = set()
    files = [path for layer in list_layers(folder) for path in list_own_files("prompts", layer)]
    for path in files:
        if path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as lines:
                names |= {row.get("prompt_set") or "" for row in csv.DictReader(lines)}
    return names


@cache
def is_shipped_set(name: str) -> bool:
    """Whether a prompt set of this name ships: it is meant, though a file or folder here may be
    called the same."""
    return name in set_names(find_shipped("data"))


def build_set_error(name: str, sets: Iterable[str]) -> UsageError:
    """The error for a name that is none of these sets' and no file's."""
    names = sorted({*sets, MADE} - {""})
    allowed = ", ".join([*names, "a file .txt, .csv or .jsonl", "a folder of images"])
    near = suggest_nearest(name, names, "thermostats ls prompts")
    if " " in name:  # a text, where a name is meant
        near = f"a prompt itself stands in a list: thermostats.measure(…, prompts=[{name!r}])"
    return UsageError("no such prompt set or file", got=repr(name), allowed=allowed, next_step=near)


WHAT = {
    "weights": ("weights", ("weights", "summaries")),
    "gains": ("residual", ("layers", "summaries")),
    "outputs": ("residual", ("outputs",)),
    "attention": ("attention", ("attention", "transitions")),
}
"""What can be asked for → the run it belongs to and the tables it fills."""
PRECISIONS = ("float32", "bfloat16", "float16")
SAME, AGAIN = ANSWERS = ("same", "again")
"""About runs of an older version: they are of these weights and stay; or they are measured
again."""
ANSWERED = "same: they are of these weights; again: measure again"


@dataclass(frozen=True)
class RunSpec:
    """What to measure: a model (hub id or local folder), its revision, precision, prompts and kinds
    of quantity.

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
    """Folder that a model which the hub's own cache lacks is downloaded to, in the place of that
    cache."""
    name: str = ""
    """model_id for a local folder; empty: the folder's name."""
    source: str = "thermostats"
    """`source` of its runs: it marks a designed experiment (`tables/schemas.py`)."""
    pickles: bool = True
    """Whether weights that exist only as pickles may be downloaded and read, by torch with
    `weights_only=True`."""
    older: str = ""
    """Of runs that an older version measured under this name: ``same`` keeps them as of these
    weights, ``again`` measures again; empty: the user is asked."""

    def __post_init__(self) -> None:
        """Raise UsageError for a kind of quantity, a precision, an answer or a budget that does not
        exist, and for a lab that is the word in its place in a printed line."""
        unknown = [name for name in self.what if name not in WHAT]
        if unknown or not self.what:
            raise UsageError(
                "no such quantity to measure", got=", ".join(unknown), allowed=", ".join(WHAT)
            )
        if self.dtype not in PRECISIONS:
            raise UsageError(
                "no such precision", where="dtype", got=self.dtype, allowed=", ".join(PRECISIONS)
            )
        if self.older not in ("", *ANSWERS):
            raise UsageError(
                "no such answer about older runs", where="older", got=self.older, allowed=ANSWERED
            )
        refuse_placeholder("heritage", self.heritage)
        _check_text(self.model)
        if self.token_budget is not None and self.token_budget < 1:
            raise UsageError(
                "a batch must hold at least one token",
                where="token budget",
                got=str(self.token_budget),
            )


def _check_text(model: str) -> None:
    """Raise UsageError for a model whose path is no text, as paths need not be: it is what names
    a run."""
    if not is_text(model):
        raise UsageError(
            "the path of the model is no text",
            where="model",
            got=ascii(model),
            allowed="a path in UTF-8",
            next_step="mv or ln -s gives its folder a name that is text",
        )


def build_spec(model: str, options: Mapping[str, Any]) -> RunSpec:
    """The spec of one model with fields of RunSpec by name, paths made absolute.

    Raises UsageError for a field that does not exist, or a value that is not of its type.
    """
    allowed = sorted(TYPES.keys() - {"model"})
    for name, value in options.items():
        if name not in allowed:
            raise build_unknown_error("no such option", name, allowed, where="measure")
        if value is not None or "None" not in TYPES[name]:
            _check_type(name, value, "measure")
    return _resolve_paths(RunSpec(model, **options))


ALLOWED = {"tuple[str, ...]": "names", "int | None": "a whole number", "bool": "True or False"}
"""Types of the fields that are not text, and their names in messages."""
TYPES = {each.name: str(each.type) for each in fields(RunSpec)}
FIELDS = (
    "model",
    "revision",
    "dtype",
    "prompts",
    "device_map",
    "heritage",
    "name",
    "what",
    "token_budget",
)
"""What a file may say of a model; whether code of its own may run is said on the command line
alone."""
RANGE = re.compile(r"(?P<stem>.*?)(?P<first>\d+)\.\.(?P<same>.*?)(?P<last>\d+):(?P<by>\d+)")
"""A range of revisions, `step1000..step5000:1000`."""
MOST = 100_000
"""Specs that one entry may stand for."""


def collect_specs(models: Sequence[str], options: Mapping[str, Any]) -> list[RunSpec]:
    """Specs of hub ids, model folders and files of specs, in order, each once; `options` where a
    file does not say.

    Paths are made absolute, so that a worker elsewhere finds them.

    Raises UsageError for fields or values that do not exist, DataError for a file that cannot be
    read.
    """
    listed: list[RunSpec] = []
    for model in models:
        path = list_shipped_specs().get(model, Path(model).expanduser())
        if path.suffix.lower() in READERS and path.is_file():
            listed += read_specs(path, options)
        elif path.suffix.lower() in READERS and not path.exists():
            raise UsageError("no such file of specs", got=model, next_step="check the path")
        else:
            named = expand_revisions(str(options.get("revision", "main")))
            listed += [RunSpec(model, **{**options, "revision": revision}) for revision in named]
    return list(dict.fromkeys(_resolve_paths(spec) for spec in listed))


def list_shipped_specs() -> dict[str, Path]:
    """Files of specs that ship, by name: the models of a study."""
    shipped_specs: dict[str, Path] = {}
    for path in sorted((find_shipped("data") / "to_measure").glob("*.csv")):
        shipped_specs[path.stem] = path
    return shipped_specs


def expand_revisions(text: str) -> list[str]:
    """Revisions of a list such as `main,step1000`, in which `step1000..step5000:1000` stands for a
    range.

    Numbers of a range are as wide as its first one: `step010..step030:10` is step010, step020,
    step030.

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
            raise UsageError(
                "not a range of revisions", where="--revision", got=part, allowed=allowed
            )
        first = int(span["first"])
        steps = range(first, int(span["last"]) + 1, int(span["by"]))
        if not 0 < len(steps) <= MOST:
            raise UsageError(
                "a range without revisions, or of too many", where="--revision", got=part
            )
        width = len(span["first"])
        names += [f"{span['stem']}{step:0{width}d}" for step in steps]
    if not all(names):
        raise UsageError("a revision without a name", where="--revision", got=repr(text))
    return names


def read_specs(path: Path, options: Mapping[str, Any]) -> list[RunSpec]:
    """Specs of a file, in its order.

    Raises as `collect_specs` does, with the line or the number of the entry.
    """
    rows = READERS[path.suffix.lower()](read_text(path, "specs"), path)
    entries: list[RunSpec] = []
    for where, row in rows:
        entries.extend(_yield_specs(row, options, where))
    if not entries:
        raise DataError(
            "no specs in this file",
            where=path,
            next_step="write one model per line, or [[spec]] tables",
        )
    return entries


def _list_choices(stated: Mapping[str, Any]) -> list[list[tuple[str, Any]]]:
    """Of each field its values, each with the field's name; several quantities are one value."""
    choices = []
    for name, value in stated.items():
        if not isinstance(value, list):
            choices.append([(name, value)])
        elif name == "what":
            choices.append([(name, tuple(value))])
        else:
            choices.append([(name, each) for each in value])
    return choices


def _yield_specs(
    row: Mapping[str, Any], options: Mapping[str, Any], where: str
) -> Iterator[RunSpec]:
    for name in row:
        if name not in FIELDS:
            raise build_unknown_error("unknown field of a spec", name, FIELDS, where=where)
    stated = {}
    for name, value in row.items():
        if value not in (None, ""):
            stated[name] = value
    if "model" not in stated:
        raise UsageError(
            "a spec without model", where=where, next_step="give a hub id or a model folder"
        )
    if isinstance(stated.get("what"), str):
        stated["what"] = [part.strip() for part in stated["what"].split(",")]
    choices = _list_choices(stated)
    if (count := math.prod(len(choice) for choice in choices)) > MOST:
        raise UsageError(
            "one entry stands for too many specs",
            where=where,
            got=str(count),
            allowed=f"at most {MOST}",
        )
    for chosen in map(dict, product(*choices)):
        budget = chosen.get("token_budget")
        if (
            isinstance(budget, str)
            and budget.strip().isascii()
            and budget.strip().isdecimal()
            and len(budget) < 20
        ):
            chosen["token_budget"] = int(budget)
        for name, value in chosen.items():
            _check_type(name, value, where)
        try:
            yield RunSpec(**{**options, **chosen})
        except UsageError as error:
            place = f"{where}, {error.where}".rstrip(", ")
            raise UsageError(
                error.what, where=place, got=error.got, allowed=error.allowed
            ) from error


def _check_type(name: str, value: Any, where: str) -> None:
    """Raise UsageError for a value that is not of its field's type."""
    kind = TYPES[name].partition("[")[0].partition(" ")[0]
    inner = value if isinstance(value, tuple) else ()
    if type(value).__name__ != kind or not all(isinstance(item, str) for item in inner):
        allowed = ALLOWED.get(TYPES[name], "text")
        raise UsageError(
            f"{name} is not of its type", where=where, got=repr(value)[:60], allowed=allowed
        )


def _resolve_paths(spec: RunSpec) -> RunSpec:
    """The spec with absolute paths where it names a folder or a file."""
    model = Path(spec.model).expanduser()
    prompts = Path(spec.prompts)
    try:
        if model.is_dir() or is_gguf(model):
            spec = replace(spec, model=str(model.resolve()))
        else:
            named_besides = None if spec.revision == MAIN else spec.revision
            name, revision = split_revision(spec.model, named_besides)
            spec = replace(spec, model=name, revision=revision or MAIN)
        named = is_shipped_set(spec.prompts) or not prompts.exists()
        return spec if named else replace(spec, prompts=str(prompts.resolve()))
    except (OSError, ValueError) as error:
        got = repr(spec.model)[:80]
        allowed = "owner/name, a folder, or a GGUF file"
        raise UsageError("neither a model nor a path", got=got, allowed=allowed) from error


def _parse_toml(text: str, path: Path) -> Records:
    try:
        parsed = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not TOML: {error}", where=path) from error
    entries = parsed.pop("spec", [])
    if (
        parsed
        or not isinstance(entries, list)
        or not all(isinstance(entry, dict) for entry in entries)
    ):
        got = ", ".join(parsed) or repr(entries)[:60]
        raise DataError("a file of specs may hold only [[spec]] tables", where=path, got=got)
    records = []
    for number, entry in enumerate(entries, 1):
        records.append((f"{path}, spec {number}", entry))
    return records


def _parse_csv(text: str, path: Path) -> Records:
    rows = parse_csv_records(text, path)
    for where, row in rows:
        if None in row or None in row.values():
            raise DataError(
                "not as many cells as columns", where=where, allowed=", ".join(filter(None, row))
            )
    return rows


READERS = {".toml": _parse_toml, ".csv": _parse_csv, ".jsonl": parse_jsonl_records}


@dataclass(frozen=True)
class Cost:
    """What a spec takes of the machine."""

    gigabytes: float | None = None
    """Memory for weights and activations at the precision asked for, GB; empty where nothing is
    left to load."""
    disk: float | None = None
    """To be downloaded, GB; of a dry run."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Problem:
    """Why a spec failed, or what of a planned one cannot be measured."""

    reason: str = ""
    """What is wrong, with what to do next; empty where nothing is."""
    wrong_use: bool = False
    """It was asked for wrongly."""
    again: bool = False
    """The machine or the network is at fault, and it may be tried again."""
    options: tuple[str, ...] = ()
    """An option of `thermostats measure` and its value with which it would pass; empty where none
    is known."""


NO_COST = Cost()
NO_PROBLEM = Problem()


@dataclass(frozen=True)
class Outcome:
    """What became of one spec: `measured`, `skipped` (every run was finished), `planned` (dry run)
    or `failed`."""

    model: str
    status: str
    revision: str = ""
    runs: tuple[str, ...] = ()
    """Runs measured, or to be measured."""
    finished: tuple[str, ...] = ()
    """Runs that were finished before and are skipped."""
    rows: dict[str, int] | None = None
    n_params: int | None = None
    cost: Cost = NO_COST
    differences: str = ""
    """Where files, configuration and the model differ."""
    problem: Problem = NO_PROBLEM
    attempts: int = 1

    def replace_reason(self, reason: str) -> Outcome:
        """The outcome with its reason in other words."""
        return replace(self, problem=replace(self.problem, reason=reason))

    def build_row(self) -> dict[str, Any]:
        """The outcome as a row of `thermostats measure --json`."""
        row: dict[str, Any] = {}
        for name, value in asdict(self).items():
            row |= value if name in ("cost", "problem") else {name: value}
        del row["options"]
        return row


def build_failure(spec: RunSpec, error: BaseException) -> Outcome:
    """The outcome of a spec that could not be measured."""
    if isinstance(error, ThermostatsError):
        reason = str(error)
        again = isinstance(error, TransientError)
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        reason = f"unexpected {type(error).__name__} at {where}: {error}"
        again = isinstance(error, OSError | MemoryError)
    options = error.options if isinstance(error, ThermostatsError) else ()
    problem = Problem(reason, isinstance(error, UsageError), again, options)
    return Outcome(spec.model, "failed", spec.revision, problem=problem)


def build_loss(spec: RunSpec, reason: str) -> Outcome:
    """The outcome of a spec whose process is gone."""
    return Outcome(spec.model, "failed", spec.revision, problem=Problem(reason, again=True))
