"""A small store with every kind of row, for the tests that need one."""

from __future__ import annotations

import gc
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import pandas as pd
import pasted
import pytest

from thermostats.claims.evidence import Evidence
from thermostats.tables import store
from thermostats.tables.runs import run_id
from thermostats.tables.store import CACHE_VARIABLE

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.register_profile("many", deadline=None, max_examples=10_000)
hypothesis.settings.load_profile("untimed")

SHA = "0" * 64
WORDS = (
    "it",
    "is",
    "a",
    "truth",
    "that",
    "single",
    "men",
    "of",
    "good",
    "fortune",
    "must",
    "want",
    "some",
    "wife",
)
STUDY = Path(__file__).parent / "studies" / "delia2026" / "files"
"""The study's result files with their sentences replaced: see
`scripts/delia2026/study_figures.py`."""


@cache
def _loaded() -> Evidence:
    return Evidence()


def shipped_tables() -> Evidence:
    """The shipped tables, loaded once a process, with no selection remembered."""
    return _loaded().fork()


def table(name: str, *rows: dict[str, object]) -> pd.DataFrame:
    """Rows as table `name`; what a row leaves out is empty."""
    columns = store.list_dtypes(name)
    full = [
        {label: row.get(label, "" if dtype == "str" else None) for label, dtype in columns.items()}
        for row in rows
    ]
    return store.validate(pd.DataFrame(full, columns=list(columns)), name)


def model(
    model_id: str = "lab/small", heritage: str = "Lab", n_layers: int = 3
) -> dict[str, object]:
    """A row of `models`: GPT-2 in small, its parameters counted by hand.

    Embedding 10·8 + positions 16·8 = 208; a block has 4·8² + 4·8 (attention), 2·8·32 + 32 + 8
    (feed-forward) and 4·8 (norms) = 872 weights; the final norm 16.
    """
    return {
        "model_id": model_id,
        "revision": "main",
        "heritage": heritage,
        "family": "small",
        "variant": "base",
        "architecture": "gpt2",
        "n_layers": n_layers,
        "d_model": 8,
        "d_embed": 8,
        "n_heads": 2,
        "n_kv_heads": 2,
        "d_head": 4,
        "d_ff": 32,
        "vocab_size": 10,
        "n_positions": 16,
        "tied_embeddings": True,
        "gated_mlp": False,
        "n_params": 208 + 872 * n_layers + 16,
        "n_params_nonembedding": 872 * n_layers + 16,
        "norm_kind": "LayerNorm",
        "norm_place": "pre",
        "position_scheme": "learned",
        "parallel_block": False,
        "year": 2020,
        "source": "made up for tests",
    }


def run(model_id: str = "lab/small", **fields: object) -> dict[str, object]:
    """A row of `runs` with the id that follows from it."""
    row = {
        "model_id": model_id,
        "revision": "main",
        "dtype": "float32",
        "attention": "eager",
        "prompt_set": "two",
        "prompt_sha": SHA,
        "measure_version": "1",
        "source": "tests",
        **fields,
    }
    return {"run_id": run_id(row), **row}


def layer(
    run_row: dict[str, object], number: int, gain: float, prompt_id: str = "a"
) -> dict[str, object]:
    """A row of `layers` at the last token."""
    return {
        "run_id": run_row["run_id"],
        "layer": number,
        "prompt_id": prompt_id,
        "position": "last",
        "gain_block": gain,
    }


def finding(claim: str, **fields: object) -> dict[str, object]:
    """A row of `findings` that publishes and reproduces nothing, unless told otherwise."""
    empty = {
        "estimand": "x",
        "headline": True,
        "published": "{}",
        "reproduced": "{}",
        "verdict": "supported",
    }
    return {"claim": claim, **empty, "n_models": 8, "n_heritages": 2, **fields}


def make_empty_store(folder: Path) -> Path:
    """A folder of tables, read by itself, that have no rows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.csv").write_bytes(store.encode_csv(table("models"), "models"))
    return folder


def make_store(folder: Path) -> Path:
    """A data folder with one model, one run of three layers and two prompts."""
    for name, content in _files_of_the_small_store().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@cache
def _files_of_the_small_store() -> dict[str, bytes]:
    measured = run()
    prompts = [
        {"prompt_set": "two", "prompt_id": name, "text_sha256": SHA, "category": "Plain"}
        for name in "ab"
    ]
    rows = [
        layer(measured, number, gain, name)
        for number, gain in ((1, 9.0), (2, 1.5), (3, 0.5))
        for name in "ab"
    ]
    tables = {"models": [model()], "prompts": prompts, "runs": [measured], "layers": rows}
    of_run = {"runs", "layers"}
    places = {
        name: f"measured/{name}/{measured['run_id']}.csv" if name in of_run else f"{name}.csv"
        for name in tables
    }
    return {
        places[name]: store.encode_csv(table(name, *rows), name) for name, rows in tables.items()
    }


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder with a space in its name."""
    folder = tmp_path / pasted.FOLDER
    folder.mkdir()
    return folder


def pytest_collection_finish() -> None:
    """Garbage is looked for seldom, and never in what the modules of all tests hold."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Generator[None, None, None]:
    """Next steps of the refusals that a test meets run as they are pasted, with `df` and `fit` as
    names but in `tests/test_callers.py`."""
    if item.path.name == "test_callers.py":
        yield
        return
    unnamed = mock.patch("thermostats.next_steps.find_user", return_value=None)
    with unnamed, pasted.watched() as met:
        yield
        wrong = pasted.faults(met, alone=hasattr(item.function, "one_fault"))
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def small_store(tmp_path: Path) -> Path:
    """The data folder of `make_store`."""
    return make_store(tmp_path / "data")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What can be made again is kept in a folder that all processes of these tests share, not in
    the user's cache."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        if CACHE_VARIABLE not in os.environ:
            patch.setenv(CACHE_VARIABLE, str(shared / "cache"))
        yield


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Files written in this process outlive it without being synced; `tests/faults` ends others in
    between."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def report_of_five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report that tests of its pages read and none changes."""
    from workplaces import report_of_five

    return report_of_five(tmp_path_factory.mktemp("five"))["out"]


@pytest.fixture(scope="session")
def rows_of_atlas() -> pd.DataFrame:
    """Rows that the atlas draws of the shipped tables."""
    from thermostats.reporting.pages import atlas

    return atlas.collect_rows(shipped_tables())


@pytest.fixture(scope="session")
def page_of_atlas(rows_of_atlas: pd.DataFrame) -> str:
    """The atlas of the shipped tables."""
    from thermostats.reporting.pages import atlas

    return atlas.render_page(shipped_tables(), rows_of_atlas)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if path is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        started = driver.chromium.launch(executable_path=path, args=flags)
        yield started
        started.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, which `remount` gives another size."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs the right to mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], check=False
    )
    if done.returncode:
        pytest.skip("this system lets nobody mount")
    yield disk
    subprocess.run(["/bin/umount", "-l", str(disk)], check=True)


def remount(disk: Path, how: str) -> None:
    """The disk with another option of `mount`, as `size=1m` or `ro`."""
    subprocess.run(["/bin/mount", "-o", f"remount,{how}", str(disk)], check=True)


@contextmanager
def limited_memory() -> Iterator[None]:
    """2 GB beyond what is in use."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 1024**3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def command(
    *arguments: object, cwd: Path | None = None, code: str = "", **environment: object
) -> subprocess.CompletedProcess[str]:
    """What `thermostats` with these arguments, a script named first, or code ends with.

    Arguments alone run in this process: most of the time of one in its own goes into imports.
    """
    words = [str(argument) for argument in arguments]
    if not (code or environment or words[0].endswith(".py")):
        return _here(words, cwd)
    program = ["-c", code] if code else [] if words[0].endswith(".py") else ["-m", "thermostats"]
    variables = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    asked = [sys.executable, *program, *words]
    return subprocess.run(
        asked, capture_output=True, text=True, check=False, cwd=cwd, env=variables
    )


def _here(words: list[str], cwd: Path | None) -> subprocess.CompletedProcess[str]:
    from thermostats.cli.app import main

    handler, printed, errors = signal.getsignal(signal.SIGINT), io.StringIO(), io.StringIO()
    try:
        with (
            mock.patch.object(sys, "argv", ["thermostats", *words]),
            mock.patch.dict(os.environ),
            chdir(cwd or Path.cwd()),
            redirect_stdout(printed),
            redirect_stderr(errors),
            warnings.catch_warnings(),
            pytest.raises(SystemExit) as stopped,
        ):
            warnings.showwarning = _on_stderr
            main()
    finally:
        signal.signal(signal.SIGINT, handler)
    return subprocess.CompletedProcess(
        words, int(stopped.value.code or 0), printed.getvalue(), errors.getvalue()
    )


def _on_stderr(
    message: Warning | str, category: type[Warning], name: str, line: int, *_: object
) -> None:
    """A warning where a process of its own writes it, of the kinds that it writes."""
    if not issubclass(
        category, (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
    ):
        print(warnings.formatwarning(message, category, name, line), file=sys.stderr, end="")


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file under a folder with its bytes; the lock that guards a join holds none."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
