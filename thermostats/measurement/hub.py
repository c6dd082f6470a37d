"""A model's name to a folder on disk: a local folder as it is, a hub id from the cache, or else downloaded.

Naming a hub id is asking for it: what the cache lacks is fetched, unless `download` is false or HF_HUB_OFFLINE is set.
Only weights, configuration and tokenizer are fetched, and pickles only where there is no safetensors file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from thermostats.errors import DataError, ThermostatsError, TransientError, UsageError
from thermostats.measurement.checkpoint import open_checkpoint

COMPANIONS = ["*.json", "*.model", "*.txt", "*.tiktoken", "*.jinja"]
SAFE, PICKLED = ["model*.safetensors"], ["pytorch_model*.bin"]
CODE = ["*.py"]
OTHERS = ["original/*", "onnx/*", "*/*"]
NETWORK: tuple[type[Exception], ...] = tuple(kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")
"""What the HTTP client that huggingface_hub uses raises for a connection that breaks: it is no OSError."""
UNREACHABLE: tuple[type[Exception], ...] = (LocalEntryNotFoundError, OSError, *NETWORK)


@dataclass(frozen=True)
class ModelFolder:
    """A model on disk; `revision` as asked for, `commit` the snapshot of the hub it is (empty for a local folder)."""

    model_id: str
    revision: str
    path: Path
    commit: str


def model_folder(model: str, *, revision: str = "main", download: bool = True, code: bool = False) -> ModelFolder:
    """The folder of a local path or hub id; with `code`, the repository's Python files are fetched too.

    Raises UsageError where there is no such folder or the id is none, and ThermostatsError where the hub has no such
    model or revision, the model is gated, or it is neither in the cache nor to be had.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UsageError(
                "not a model's folder: there is no config.json", where=path.resolve(),
                next_step="name the folder that `save_pretrained` wrote, or a hub id",
            )  # fmt: skip
        return ModelFolder(path.resolve().name, revision, path.resolve(), "")
    if path.exists() or model.startswith((".", "/", "~")) or "\\" in model or model.count("/") > 1:
        raise UsageError(
            "no such model folder", got=model, next_step="give the folder's path, or a hub id such as gpt2"
        )
    cached = _cached(model, revision, code)
    if cached is None:
        cached = _downloaded(model, revision, download, code)
    return ModelFolder(model, revision, cached, cached.name)


def _patterns(weights: list[str], code: bool) -> list[str]:
    return [*COMPANIONS, *weights, *(CODE if code else [])]


def _cached(model: str, revision: str, code: bool) -> Path | None:
    """The snapshot in the cache where it holds a configuration and all weights."""
    for weights in (SAFE, PICKLED):
        patterns = _patterns(weights, code)  # a snapshot without what was never wanted counts as incomplete otherwise
        try:
            path = Path(
                snapshot_download(
                    model, revision=revision, allow_patterns=patterns, ignore_patterns=OTHERS, local_files_only=True
                )
            )
            open_checkpoint(path)
        except (LocalEntryNotFoundError, DataError):
            continue
        except HFValidationError as error:
            raise UsageError(
                "not the id of a model", got=repr(model), allowed="owner/name", next_step="or a folder that exists"
            ) from error
        if (path / "config.json").is_file() and not (code and not list(path.glob("*.py"))):
            return path
    return None


def _downloaded(model: str, revision: str, download: bool, code: bool) -> Path:
    where = f"{model}, revision {revision}"
    if not download:
        raise ThermostatsError(
            "the model is not in the cache, and downloading was not allowed", where=where,
            next_step="allow it, or name a local folder",
        )  # fmt: skip
    try:
        # asked first, as it takes a time limit, which snapshot_download does not
        HfApi().model_info(model, revision=revision, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT)
        path = Path(
            snapshot_download(model, revision=revision, allow_patterns=_patterns(SAFE, code), ignore_patterns=OTHERS)
        )
        if not list(path.glob("*.safetensors")):
            snapshot_download(model, revision=revision, allow_patterns=_patterns(PICKLED, code), ignore_patterns=OTHERS)
    except GatedRepoError as error:
        raise ThermostatsError(
            "the model is gated: its owner grants access", where=where,
            next_step=f"accept the conditions on https://huggingface.co/{model} and log in with `hf auth login`",
        ) from error  # fmt: skip
    except RepositoryNotFoundError as error:
        raise ThermostatsError(
            "the hub has no such model, or it is private", where=where,
            next_step="check the id; for a private model log in with `hf auth login`",
        ) from error  # fmt: skip
    except RevisionNotFoundError as error:
        raise ThermostatsError("the model has no such revision", where=where, next_step="check --revision") from error
    except UNREACHABLE as error:
        status = _status(error)
        if status in (401, 403):
            raise ThermostatsError(
                "the hub refuses access to the model", where=where, got=f"status {status}",
                next_step="log in anew with `hf auth login`: the token may have expired, or lack the right to read",
            ) from error  # fmt: skip
        raise TransientError(
            "the model is not in the cache and the hub cannot be reached", where=where, got=_cause(error),
            next_step="check the network, HF_HUB_OFFLINE and free disk space, or name a local folder",
        ) from error  # fmt: skip
    return path


def _status(error: BaseException | None) -> int | None:
    """HTTP status that an error, or what it came from, carries."""
    while error is not None:
        if isinstance(error, HfHubHTTPError):
            return int(error.response.status_code)
        error = error.__cause__
    return None


def _cause(error: BaseException) -> str:
    """First line of what an error came from, where huggingface_hub says only that there was one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no further reason'])[0][:160]}"
