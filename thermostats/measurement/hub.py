"""A model's name to a folder on disk: a local folder as it is, a hub id from the cache, or else
downloaded.

Naming a hub id is asking for it: what the cache lacks is fetched, unless `download` is false or
HF_HUB_OFFLINE is set. Only weights, configuration and tokenizer are fetched, and pickles only where
there is no safetensors file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from huggingface_hub import (
    HfApi,
    constants,
    hf_hub_download,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils._paths import filter_repo_objects
from huggingface_hub.utils.tqdm import tqdm

from thermostats.errors import DataError, ThermostatsError, TransientError, UsageError
from thermostats.formatting import format_bytes, format_count
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.gguf_files import prepare_gguf_folder, record
from thermostats.measurement.gguf_parts import is_gguf, list_parts, name_gguf_model
from thermostats.tables.choices import MAIN
from thermostats.tables.folders import list_shipped_models

COMPANIONS = ["*.json", "*.model", "*.txt", "*.tiktoken", "*.jinja"]
SAFE = ["model*.safetensors"]
PICKLED = ["pytorch_model*.bin"]
CODE = ["*.py"]
OTHERS = ["original/*", "onnx/*", "*/*"]
NETWORK: tuple[type[Exception], ...] = tuple(
    kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError"
)
"""What the HTTP client that huggingface_hub uses raises for a connection that breaks: it is no
OSError."""
UNREACHABLE: tuple[type[Exception], ...] = (LocalEntryNotFoundError, OSError, *NETWORK)

LOGIN = "`hf auth login`, or a token of https://huggingface.co/settings/tokens in HF_TOKEN"
REFUSALS: dict[type[HfHubHTTPError], tuple[str, str]] = {
    GatedRepoError: (
        "the model is gated: its owner grants access",
        f"accept the conditions on https://huggingface.co/{{model}} and log in with {LOGIN}",
    ),
    RepositoryNotFoundError: (
        "the hub has no such model, or it is private",
        f"check the id; for a private model log in with {LOGIN}",
    ),
    RevisionNotFoundError: ("the model has no such revision", "check --revision"),
}
"""What is wrong and what to do next; a gated repository is one that is not found, too, and stands
first."""

BUSY = 429
"""Status of a hub that is asked too often."""
ASKED_AT_ONCE = 16
"""Models that the hub is asked about at a time."""
TOLD_AFTER = 10.0
"""Seconds from one line on a download to the next."""
AFRESH = 3
"""How often files of a model may begin afresh, from a server that breaks off and does not
resume."""


@dataclass(frozen=True)
class ModelFolder:
    """A model on disk; `revision` as asked for, `commit` the snapshot of the hub it is (empty for a
    local folder)."""

    model_id: str
    revision: str
    path: Path
    commit: str
    reads: str = "text"
    """What the stack that is measured reads, ``text`` or ``image``, where a model has several."""


class Bar(tqdm):
    """The bar of a download, or lines where nobody sees a bar; it stops a download that would never
    end.

    huggingface_hub counts an attempt as progress as soon as data came, also where the server sends
    the file from its start again and breaks off once more. It then takes the bytes that it throws
    away off the bar.
    """

    model = ""
    afresh = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        of_network = str(kwargs.get("name")).endswith(".transfer")  # bytes that are counted twice
        self.of_bytes = kwargs.get("unit") == "B" and not of_network
        self.came = 0.0
        self.told = perf_counter()
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]

    def update(self, n: float | None = 1) -> Any:
        """As in tqdm; raises OSError once files were restarted too often."""
        self.afresh += n is not None and n < 0
        if self.afresh > AFRESH:
            raise OSError(
                f"the server breaks off and does not resume: downloads were restarted {AFRESH} "
                f"times"
            )
        with self.get_lock():  # files come in threads, and what came must not go back
            self.came += n or 0
            self._print_line()
        return super().update(n)

    def _print_line(self) -> None:
        """What came, where nobody sees a bar and the last line is some seconds old."""
        if not (self.disable and self.of_bytes and perf_counter() - self.told >= TOLD_AFTER):
            return
        self.told = perf_counter()
        of_all = f" of {format_bytes(self.total)}" if self.total else ""
        print(f"{self.model}: downloaded {format_bytes(self.came)}{of_all}", file=sys.stderr)


def fetch_model_folder(
    model: str,
    *,
    revision: str = "main",
    download: bool = True,
    code: bool = False,
    pickles: bool = True,
    cache: Path | None = None,
) -> ModelFolder:
    """The folder of a local path or hub id; with `code`, the repository's Python files are fetched
    too.

    A GGUF file's is made from it (`gguf_files.py`); its revision is its scheme, such as Q4_K_M,
    where none is named.

    What the hub's own cache lacks is looked for in `cache`, and downloaded to it, where one is
    given. Without `pickles` weights that are there as pickles alone are neither fetched nor read.

    Raises UsageError where there is no such folder or the id is none, and ThermostatsError where
    the hub has no such model or revision, the model is gated, has pickles alone, or is neither in
    the cache nor to be had.
    """
    local = find_local_folder(model)
    if local is not None and local.is_file():
        made = prepare_gguf_folder(local)
        shown = record(made)["scheme"] if revision == MAIN else revision
        return ModelFolder(name_gguf_model(local), shown, made, "")
    if local is not None:
        return ModelFolder(local.name, revision, local, "")
    with _handle_hub_errors(model, revision):
        for place in dict.fromkeys((None, cache)):
            snapshot = _find_cached(model, revision, code, place, pickles)
            if snapshot is not None:
                return ModelFolder(model, revision, snapshot, snapshot.name)
        _check_allowed(model, revision, download)
        size = format_bytes(_count_bytes(model, revision))
        print(f"{model}: downloading {size}", file=sys.stderr, flush=True)
        options: dict[str, Any] = {
            "revision": revision,
            "ignore_patterns": OTHERS,
            "cache_dir": cache,
        }
        options["tqdm_class"] = type(Bar.__name__, (Bar,), {"model": model})
        path = Path(snapshot_download(model, allow_patterns=_list_patterns(SAFE, code), **options))
        if not list(path.glob("*.safetensors")):
            if not pickles:
                raise build_pickles_error(model, revision)
            snapshot_download(model, allow_patterns=_list_patterns(PICKLED, code), **options)
    return ModelFolder(model, revision, path, path.name)


def find_local_folder(model: str) -> Path | None:
    """The folder of a local path, or its GGUF file; None for what can only be a hub id.

    Raises UsageError for a path without a model, DataError where parts of a GGUF file are missing.
    """
    path = Path(model).expanduser()
    if is_gguf(path):
        return list_parts(path)[0]
    if path.is_dir():
        if not (path / "config.json").is_file() and (path / "adapter_config.json").is_file():
            what = (
                "the folder holds an adapter alone, and adapters can be measured only after merging"
            )
            step = (
                "merge it into its base model with merge_and_unload, save that, and name its folder"
            )
            raise UsageError(what, where=path.resolve(), got="adapter_config.json", next_step=step)
        if not (path / "config.json").is_file():
            step = "name the folder that `save_pretrained` wrote, or a hub id"
            raise UsageError(
                "not a model's folder: there is no config.json",
                where=path.resolve(),
                next_step=step,
            )
        return path.resolve()
    if path.exists() or model.startswith((".", "/", "~")) or "\\" in model or model.count("/") > 1:
        step = f"give the folder's path, or a hub id such as gpt2{_suggest_shipped()}"
        raise UsageError("no such model folder", got=model, next_step=step)
    return None


def _suggest_shipped() -> str:
    """Where trained models are at hand that need no network."""
    return "; `thermostats ls models --paths` prints three" if list_shipped_models() else ""


def fetch_config_folder(
    model: str, *, revision: str = "main", download: bool = True, cache: Path | None = None
) -> Path:
    """A folder with the configuration of a local path or hub id; of a model that is not here, that
    alone is fetched.

    Raises as `fetch_model_folder` does.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if is_gguf(path):
        return prepare_gguf_folder(path)
    with _handle_hub_errors(model, revision):
        for place in dict.fromkeys((None, cache)):
            config = try_to_load_from_cache(
                model, "config.json", revision=revision, cache_dir=place
            )
            if isinstance(config, str):
                return Path(config).parent
        _check_allowed(model, revision, download)
        _count_bytes(model, revision)  # asks once, where a download is tried six times
        return Path(
            hf_hub_download(model, "config.json", revision=revision, cache_dir=cache)
        ).parent


def download_bytes(model: str, *, revision: str = "main") -> int:
    """Bytes that downloading a model takes, by what the hub says; raises as `fetch_model_folder`
    does."""
    with _handle_hub_errors(model, revision):
        return _count_bytes(model, revision)


def _count_bytes(model: str, revision: str) -> int:
    """Bytes of the files that are fetched, by what the hub says: asked once and with a time limit,
    where a download is tried six times."""
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    info = HfApi().model_info(model, revision=revision, files_metadata=True, timeout=timeout)
    sizes = {}
    for file in info.siblings or ():
        sizes[file.rfilename] = int(file.size or 0)
    weights = list(filter_repo_objects(sizes, allow_patterns=SAFE, ignore_patterns=OTHERS))
    weights = weights or list(
        filter_repo_objects(sizes, allow_patterns=PICKLED, ignore_patterns=OTHERS)
    )
    rest = filter_repo_objects(sizes, allow_patterns=COMPANIONS, ignore_patterns=OTHERS)
    return sum(sizes[name] for name in {*weights, *rest})


def build_pickles_error(model: str, revision: str) -> ThermostatsError:
    """The error for a model whose weights are pickles, where those are not wanted."""
    return ThermostatsError(
        "the model has weights only as pickles, which were neither downloaded nor read",
        where=f"{model}, revision {revision}",
        next_step="name a revision with safetensors, or pickles=True: torch then reads plain "
        "weights from them",
    )


def _list_patterns(weights: list[str], code: bool) -> list[str]:
    return [*COMPANIONS, *weights, *(CODE if code else [])]


def _find_cached(
    model: str, revision: str, code: bool, cache: Path | None, pickles: bool
) -> Path | None:
    """The snapshot in a cache where it holds a configuration and all weights."""
    for weights in (SAFE, PICKLED)[: 1 + pickles]:
        patterns = _list_patterns(
            weights, code
        )  # a snapshot without what was never wanted counts as incomplete otherwise
        options: dict[str, Any] = {
            "revision": revision,
            "local_files_only": True,
            "cache_dir": cache,
        }
        try:
            path = Path(
                snapshot_download(model, allow_patterns=patterns, ignore_patterns=OTHERS, **options)
            )
            if not pickles and not list(path.glob("*.safetensors")):
                continue
            open_checkpoint(path)
        except (LocalEntryNotFoundError, DataError):
            continue
        if (path / "config.json").is_file() and not (code and not list(path.glob("*.py"))):
            return path
    return None


def _check_allowed(model: str, revision: str, download: bool) -> None:
    """Raise ThermostatsError where a model that the cache lacks may not be downloaded."""
    if not download:
        step = f"leave out --offline and HF_HUB_OFFLINE, or name a local folder{_suggest_shipped()}"
        what = "the model is not in the cache, and downloading was not allowed"
        raise ThermostatsError(what, where=f"{model}, revision {revision}", next_step=step)


@contextmanager
def _handle_hub_errors(model: str, revision: str) -> Iterator[None]:
    """The hub's refusals and broken connections as errors that say what to do about them."""
    where = f"{model}, revision {revision}"
    try:
        yield
    except HFValidationError as error:
        step = "or a folder that exists"
        raise UsageError(
            "not the id of a model", got=repr(model), allowed="owner/name", next_step=step
        ) from error
    except tuple(REFUSALS) as error:
        what, step = next(REFUSALS[kind] for kind in REFUSALS if isinstance(error, kind))
        raise ThermostatsError(what, where=where, next_step=step.format(model=model)) from error
    except UNREACHABLE as error:
        status = _read_status(error)
        if status in (401, 403):
            step = (
                f"log in anew with {LOGIN}: the token may have expired, or lack the right to read"
            )
            what = "the hub refuses access to the model"
            raise ThermostatsError(
                what, where=where, got=f"status {status}", next_step=step
            ) from error
        if status == BUSY:
            what = "the hub asks to wait: too many requests came from here"
            step = (
                f"wait {_read_pause(error)}, then repeat the command; who is logged in, "
                f"with {LOGIN}, may ask more often"
            )
            got = f"status {status}"
            raise TransientError(what, where=where, got=got, next_step=step) from error
        step = (
            f"check the network, HF_HUB_OFFLINE and free disk space, or name a local "
            f"folder{_suggest_shipped()}"
        )
        what = "the model is not in the cache and the hub cannot be reached"
        raise TransientError(
            what, where=where, got=_describe_cause(error), next_step=step
        ) from error


def _read_status(error: BaseException | None) -> int | None:
    """HTTP status that an error, or what it came from, carries."""
    while error is not None:
        if isinstance(error, HfHubHTTPError):
            return int(error.response.status_code)
        error = error.__cause__
    return None


def _read_pause(error: BaseException | None) -> str:
    """How long a server that is asked too often wants to be left alone, in words."""
    while error is not None:
        if isinstance(error, HfHubHTTPError):
            stated = error.response.headers.get("Retry-After", "")
            if stated.isascii() and stated.isdecimal():
                return format_count(int(stated), "second")
        error = error.__cause__
    return "five minutes"


def _describe_cause(error: BaseException) -> str:
    """First line of what an error came from, where huggingface_hub says only that there was one."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or ["no further reason"]
    return f"{type(error).__name__}: {lines[0][:160]}"
