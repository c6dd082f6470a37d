"""Identity of a run: a hash of what was measured; what was merely recorded with it is not part of
it."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, describe_file_error

MEASURED = (
    "model_id",
    "revision",
    "dtype",
    "attention",
    "prompt_set",
    "prompt_sha",
    "measure_version",
    "source",
)
OF_THE_PASS = ("special_tokens", "versions", "device", "seconds", "measured_at", "proof")
RECORDED = (*OF_THE_PASS, "instrument", "licence", "confirmed_sha", "differences")
LIKE = [label for label in MEASURED if label != "measure_version"]
"""What two runs share that measured the same, perhaps of other weights or by another version."""


def read_hashes(runs: pd.DataFrame) -> pd.Series[str]:
    """The hash of the model's files by run: as the run states it, else as it was confirmed; empty
    where nobody knows it."""
    return runs["model_sha"].where(runs["model_sha"] != "", runs["confirmed_sha"])


def run_id(run: Mapping[str, Any]) -> str:
    """Compute the id of a run from what was asked for and what was measured.

    It is the first 16 hexadecimal digits of the SHA-256 of the values of `MEASURED`, one a line, in
    that order, in UTF-8. The hash of the model's files is a last line where the run states it; runs
    of versions that did not know it keep their ids.

    Parameters
    ----------
    run : mapping
        A row of the table `runs`: model_id, revision, dtype, attention, prompt_set, prompt_sha,
        measure_version and source, and model_sha where it is known.

    Returns
    -------
    str
        16 hexadecimal digits.

    Examples
    --------
    >>> import thermostats
    >>> runs = thermostats.load("runs")
    >>> run = runs[runs["model_sha"] != ""].iloc[0]
    >>> thermostats.run_id(run) == run["run_id"]
    True
    """
    values = [run[label] for label in MEASURED]
    if sha := run.get("model_sha"):
        values.append(sha)
    lines = "\n".join(map(str, values))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def hash_prompts(prompts: pd.DataFrame) -> str:
    """SHA-256 over the hashes of a set's texts, one after the other in order of prompt_id, in
    hexadecimal."""
    ordered = prompts.sort_values("prompt_id")["text_sha256"]
    return hashlib.sha256("".join(ordered).encode()).hexdigest()


def mark_superseded(runs: pd.DataFrame) -> pd.Series[bool]:
    """Runs that were measured again by a later version, of the same weights, or where they are
    stated only now: those rows stand instead."""
    version = pd.to_numeric(runs["measure_version"], errors="coerce")
    sha = runs["model_sha"]
    like = [runs[label] for label in LIKE]
    of_any = version.where(sha != "").groupby(like).transform("max")
    of_these = version.groupby([*like, sha]).transform("max")
    return version < of_any.where(sha == "", of_these)


def check_run_ids(runs: pd.DataFrame) -> None:
    """Raise DataError where a row of `runs` carries another id than its values give."""
    for row in runs.to_dict("records"):
        stated = row["run_id"]
        computed = run_id(row)
        if stated != computed:
            raise DataError(
                "a run's id does not follow from what was measured",
                got=f"run_id {stated!r} of model {row['model_id']!r}",
                allowed=repr(computed),
                next_step="thermostats.run_id(ROW) computes it",
            )


FOLDER = ".measuring"
WAITING = "waiting"
RUNNING = "running"
FAILED = "failed"
INTERRUPTED = "interrupted"
DONE = "done"


@dataclass(frozen=True)
class SpecState:
    """One spec: its state, the reason, the attempt, and the process that said so."""

    model: str
    revision: str
    dtype: str
    prompts: str
    state: str
    reason: str = ""
    attempt: int = 1
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


def write(data: Path, name: str, state: SpecState) -> None:
    """Put a spec's state in the place of the one before; raises DataError where it cannot be
    written."""
    path = data / FOLDER / f"{name}.json"
    temporary = path.with_suffix(f".{state.host}.{state.pid}")
    try:
        path.parent.mkdir(exist_ok=True)
        temporary.write_text(json.dumps(asdict(state), ensure_ascii=False), encoding="utf-8")
        temporary.replace(path)  # not synced: it is worth nothing once the machine is down
    except OSError as error:
        with suppress(OSError):  # it may be that nothing of it is there
            temporary.unlink()
        raise DataError(
            "cannot write what is being measured; finished runs are whole",
            where=path,
            got=describe_file_error(error),
            next_step="free space or choose a folder that can be written; the same command goes on",
        ) from error


def clear(data: Path, name: str) -> None:
    """Forget a spec's state, as it is measured, and what a killed process left half-written of it;
    what cannot be removed stays, and the next call tries it again."""
    for path in (data / FOLDER).glob(f"{name}.*"):
        with suppress(OSError):  # another process removed it, or nobody may
            path.unlink()


def read(data: Path) -> list[SpecState]:
    """States of every spec that is not measured; one whose process on this machine is gone was
    interrupted."""
    states = []
    for path in sorted((data / FOLDER).glob("*.json")):
        try:
            state = SpecState(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue  # measured meanwhile
        except (OSError, ValueError, TypeError, RecursionError) as error:
            what = "what is being measured cannot be read"
            raise DataError(
                what, where=path, got=str(error), next_step="remove the file"
            ) from error
        if _is_gone(state):
            ended = "the process that measured it has ended; the same command continues"
            state = replace(state, state=INTERRUPTED, reason=ended)
        states.append(state)
    return states


def _is_gone(state: SpecState) -> bool:
    """Whether a spec waits for, or runs in, a process of this machine that is no more."""
    if state.state == FAILED or state.host != socket.gethostname():
        return False
    try:
        os.kill(state.pid, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)  # another user's is not permitted, and alive
    return False
