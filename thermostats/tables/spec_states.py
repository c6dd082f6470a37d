"""What became of specs that are being measured: a small file for each in the data folder, gone once it is measured.

The files only tell; what is measured is what stands in the tables.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from thermostats.errors import DataError, reason

FOLDER = ".measuring"
WAITING, RUNNING, FAILED, INTERRUPTED, DONE = "waiting", "running", "failed", "interrupted", "done"


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
    """Put a spec's state in the place of the one before; raises DataError where it cannot be written."""
    path = data / FOLDER / f"{name}.json"
    temporary = path.with_suffix(f".{state.host}.{state.pid}")
    try:
        path.parent.mkdir(exist_ok=True)
        temporary.write_text(json.dumps(asdict(state), ensure_ascii=False), encoding="utf-8")
        temporary.replace(path)  # not synced: it is worth nothing once the machine is down
    except OSError as error:
        raise DataError("cannot write what is being measured", where=path, got=reason(error)) from error


def clear(data: Path, name: str) -> None:
    """Forget a spec's state, as it is measured, and what a killed process left half-written of it."""
    for path in (data / FOLDER).glob(f"{name}.*"):
        path.unlink(missing_ok=True)


def read(data: Path) -> list[SpecState]:
    """States of every spec that is not measured; one whose process on this machine is gone was interrupted."""
    states = []
    for path in sorted((data / FOLDER).glob("*.json")):
        try:
            state = SpecState(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue  # measured meanwhile
        except (OSError, ValueError, TypeError, RecursionError) as error:
            what = "what is being measured cannot be read"
            raise DataError(what, where=path, got=str(error), next_step="remove the file") from error
        if _gone(state):
            ended = "the process that measured it has ended; the same command continues"
            state = replace(state, state=INTERRUPTED, reason=ended)
        states.append(state)
    return states


def _gone(state: SpecState) -> bool:
    """Whether a spec waits for, or runs in, a process of this machine that is no more."""
    if state.state == FAILED or state.host != socket.gethostname():
        return False
    try:
        os.kill(state.pid, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)  # another user's is not permitted, and alive
    return False
