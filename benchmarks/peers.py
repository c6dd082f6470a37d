"""The other tools in virtual environments of their own, and contenders as processes that take
turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TORCH = "torch==2.13.0"
PEERS = {
    "TransformerLens": ("transformer-lens",),
    "nnsight": ("nnsight",),
    "WeightWatcher": ("weightwatcher", "transformers"),
}
"""Name → what is installed; the first is the tool itself."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Environment:
    """An interpreter and the version of its tool, or the reason why there is none."""

    python: Path | None
    version: str
    reason: str = ""


def this_package() -> Environment:
    """The environment that this package is run in."""
    return Environment(Path(sys.executable), "")


def install(name: str, cache: Path) -> Environment:
    """The peer's environment under `cache`, made where it is not there yet; torch comes first and
    stays as it is."""
    folder = cache / name.lower()
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    constraint = cache / "constraints.txt"
    cache.mkdir(parents=True, exist_ok=True)
    constraint.write_text(TORCH + "\n", encoding="ascii")
    packages = PEERS[name]
    done = folder / "installed"
    if not done.is_file():
        steps = [
            [sys.executable, "-m", "venv", str(folder)],
            [*pip, "install", "--constraint", str(constraint), TORCH],
            [*pip, "install", "--constraint", str(constraint), *packages],
        ]
        for step in steps:
            ran = subprocess.run(step, capture_output=True, text=True, check=False)
            if ran.returncode:
                return Environment(None, "", _last_line(ran.stderr))
        done.touch()
    query = f"from importlib.metadata import version as v; print(v({packages[0]!r}), v('torch'))"
    ran = subprocess.run([str(python), "-c", query], capture_output=True, text=True, check=False)
    if ran.returncode:
        return Environment(None, "", _last_line(ran.stderr))
    version, torch = ran.stdout.split()
    return Environment(python, f"{name} {version} (torch {torch})")


class Contender:
    """A process that has loaded a model and repeats one piece of work when told to."""

    def __init__(self, name: str, environment: Environment, work: str, folder: Path) -> None:
        self.name = name
        self.reason = environment.reason
        self._process: subprocess.Popen[str] | None = None
        if environment.python is None:
            return
        search = {"PYTHONPATH": str(HERE.parent)} if environment == this_package() else {}
        quiet = {
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONWARNINGS": "ignore",
        }
        self._errors = folder / f"{work}.log"
        with self._errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [str(environment.python), str(HERE / "worker.py"), work, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **ONE_THREAD, **search, **quiet},
            )
        self._answer()

    def ask(self, command: str) -> dict[str, Any]:
        """The answer to a command; empty where the contender is not there, with `reason`."""
        if self._process is None or self._process.stdin is None:
            return {}
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process and self._process.stdout else ""
        if line:
            return json.loads(line)
        self.close()
        self.reason = _last_line(self._errors.read_text(encoding="utf-8"))
        return {}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "ended without a message"
