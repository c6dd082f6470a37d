"""Change one thing in a module and run its tests: those changes that no test notices are shown.

    make mutants

Each module is mutated by rule (comparisons, arithmetic, logic, constants, dropped statements), a sample is drawn with a
seed, and each mutant runs in a process forked from one that has loaded the libraries but none of the package, so that
declarations at the head of a module are mutated too. Which test reaches which line is measured first; a mutant is given
the tests that reach its line (all, where it runs as the module is loaded), the nearest file's quickest first, as many
as take `--budget` seconds when nothing is wrong. What takes three times as long as all of them counts as noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mutation_rules import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
TABLES, MEASURED, MODELLED = "thermostats/tables", "thermostats/measurement", "thermostats/modelling"
DECLARED = tuple(f"tests/tables/test_{name}.py" for name in ("described", "rows", "names", "identities", "store"))
EXPORTED = ("tests/tables/test_described.py", "tests/tables/test_export.py")
FEATURES = ("tests/tables/test_features.py", "tests/tables/test_features_kept.py")
MODULES: dict[str, tuple[str, ...]] = {
    f"{MEASURED}/sheaf.py": ("tests/measurement/test_sheaf.py",),
    f"{MEASURED}/spectra.py": ("tests/measurement/test_spectra.py",),
    f"{MEASURED}/residual.py": ("tests/measurement/test_residual.py", "tests/measurement/test_gains.py"),
    f"{MODELLED}/heritage.py": ("tests/modelling/test_heritage_fit.py",),
    f"{MODELLED}/heritage_fit.py": ("tests/modelling/test_heritage_fit.py",),
    f"{TABLES}/atomic.py": ("tests/tables/test_atomic.py", "tests/tables/test_names.py"),
    f"{TABLES}/begin.py": ("tests/tables/test_folders.py", "tests/tables/test_begin.py"),
    f"{TABLES}/bounded.py": ("tests/tables/test_bounded.py",),
    f"{TABLES}/caching.py": ("tests/tables/test_caching.py",),
    f"{TABLES}/codebook.py": EXPORTED,
    f"{TABLES}/croissant.py": EXPORTED,
    f"{TABLES}/datapackage.py": EXPORTED,
    f"{TABLES}/declare.py": DECLARED,
    f"{TABLES}/describe.py": EXPORTED,
    f"{TABLES}/export.py": EXPORTED,
    f"{TABLES}/features.py": FEATURES,
    f"{TABLES}/features_kept.py": ("tests/tables/test_features_kept.py",),
    f"{TABLES}/folders.py": ("tests/tables/test_folders.py", "tests/tables/test_begin.py"),
    f"{TABLES}/grouped.py": FEATURES,
    f"{TABLES}/identities.py": ("tests/tables/test_identities.py",),
    f"{TABLES}/incoming.py": ("tests/tables/test_incoming.py",),
    f"{TABLES}/join.py": ("tests/tables/test_join.py", "tests/tables/test_incoming.py"),
    f"{TABLES}/listing.py": ("tests/tables/test_listing.py",),
    f"{TABLES}/mapping.py": ("tests/tables/test_mapping.py", "tests/tables/test_incoming.py"),
    f"{TABLES}/names.py": ("tests/tables/test_names.py",),
    f"{TABLES}/parameters.py": ("tests/tables/test_parameters.py",),
    f"{TABLES}/reading.py": ("tests/tables/test_reading.py",),
    f"{TABLES}/rows.py": ("tests/tables/test_rows.py", "tests/tables/test_incoming.py"),
    f"{TABLES}/runs.py": ("tests/tables/test_run_ids.py", "tests/tables/test_join.py"),
    f"{TABLES}/schemas.py": DECLARED,
    f"{TABLES}/states.py": ("tests/tables/test_states.py",),
    f"{TABLES}/store.py": ("tests/tables/test_store.py", "tests/tables/test_join.py"),
    f"{TABLES}/study_schemas.py": DECLARED,
    f"{TABLES}/vocabulary.py": DECLARED,
}
"""Modules and the files of their tests, the nearest first; those of `tables/published` are left out: they read the
study's files, which few have, and a test holds what they make of them to the byte."""
LIBRARIES = ("numpy", "pandas", "pandera.pandas", "pytest", "hypothesis", "filelock")
OF_MODELS = ("scipy.stats", "torch", "transformers")
"""Loaded beside them where what is mutated is not of the tables."""


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self.module, self.path, self.source = module, path, source

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """The mutated module, and nothing else."""
        del path, target
        if name != self.module:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """As usual."""
        del spec

    def get_code(self, name: str) -> CodeType:
        """The mutated source, as `runpy` asks for it."""
        del name
        return compile(self.source, str(self.path), "exec")

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutated source."""
        exec(self.get_code(self.module), module.__dict__)  # noqa: S102 - our own code, changed


@dataclass(frozen=True)
class Test:
    """A test, the seconds that it takes, and the lines that it reaches by module."""

    name: str
    seconds: float
    lines: Mapping[str, Sequence[int]]


def forked(work: Callable[[], object], seconds: float) -> str | None:
    """What `work` returns in a forked child, as JSON; nothing where it takes longer than `seconds`."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.setpgid(0, 0)
            with os.fdopen(writer, "w") as stream:
                json.dump(work(), stream)
        finally:
            os._exit(0)
    os.close(writer)
    with contextlib.suppress(TimeoutError), os.fdopen(reader) as stream:
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return stream.read()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what a test started ends with it
            os.waitpid(child, 0)
    return None


def _ring(*_: object) -> None:
    raise TimeoutError


def _pytest(arguments: Sequence[str], plugin: object) -> int:
    import hypothesis  # noqa: PLC0415 - after the mutant is in place
    import pytest  # noqa: PLC0415

    drawn = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", deadline=None, database=None, derandomize=True, phases=drawn)
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", "--no-header", "-m", "not slow"]
    os.chdir(ROOT)
    return int(pytest.main([*quiet, *arguments], plugins=[plugin]))


def reach(module: str, kept: Path) -> list[Test]:
    """Tests of a module by file and the time that they take, with the lines that each reaches.

    A file of tests is run once: what was found before is taken from the file `kept`, as long as neither it nor the
    module has changed. Raises SystemExit where a test fails.
    """
    known = json.loads(kept.read_text()) if kept.is_file() else {}
    found: list[Test] = []
    for file in MODULES[module]:
        of = known.get(file, {"of": {}})["of"]
        if (of.get(file), of.get(module)) != (digest(file), digest(module)):
            known[file] = {"of": {name: digest(name) for name in (file, *MODULES)}, "tests": _reached(file)}
            kept.write_text(json.dumps(known))
        each = [Test(name, seconds, lines) for name, seconds, lines in known[file]["tests"]]
        found += sorted(each, key=lambda test: test.seconds)
    return found


def digest(file: str) -> str:
    """Of a file of the repository."""
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:12]


def _reached(file: str) -> list[list[Any]]:
    """Name, seconds and lines by module of each test of a file."""

    def run() -> object:
        import coverage  # noqa: PLC0415 - as the package, only in the child
        import pytest  # noqa: PLC0415

        seen = coverage.Coverage(data_file=None, config_file=False, include=[str(ROOT / name) for name in MODULES])
        seconds: dict[str, float] = {}
        shared: dict[str, list[str]] = {}

        class Plugin:
            context = ""

            def pytest_runtest_setup(self, item: Any) -> None:
                shared[item.nodeid] = item.fixturenames
                self.enter(item.nodeid)

            def pytest_runtest_logreport(self, report: Any) -> None:
                seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration

            @pytest.hookimpl(wrapper=True)
            def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
                outer = self.context
                if fixturedef.scope != "function":
                    self.enter(fixturedef.argname)
                try:
                    return (yield)
                finally:
                    self.enter(outer)

            def enter(self, context: str) -> None:
                self.context = context
                seen.switch_context(context)

        seen.start()
        code = _pytest([file], Plugin())
        seen.stop()
        lines: dict[str, dict[str, set[int]]] = {}
        for module in MODULES:
            for line, names in seen.get_data().contexts_by_lineno(str((ROOT / module).resolve())).items():
                for name in names:
                    lines.setdefault(name, {}).setdefault(module, set()).add(line)
        found = []
        for name, taken in seconds.items():
            parts = [lines.get(part, {}) for part in (name, *shared[name])]
            every = {module: sorted(set().union(*(part.get(module, ()) for part in parts))) for module in MODULES}
            found.append([name, taken, {module: reached for module, reached in every.items() if reached}])
        return [code, found]

    code, found = json.loads(forked(run, 600) or "[1, []]")
    if code:
        raise SystemExit(f"{file}: its tests fail as it is")
    return list(found)


def chosen(file: str, mutant: Mutant, tests: Sequence[Test], budget: float) -> list[Test]:
    """Tests that reach a mutant, in their order, as many as the budget allows, one at least.

    Where none does, all may: the line runs when the module is loaded.
    """
    taken, spent = [], 0.0
    for test in [test for test in tests if not set(mutant.lines).isdisjoint(test.lines.get(file, ()))] or tests:
        spent += test.seconds
        if not taken or spent <= budget:
            taken.append(test)
    return taken


def outcome(file: str, mutant: Mutant, tests: Sequence[Test], seconds: float) -> str:
    """`killed`, `timeout` or `survived`: what tests say of another source of a module in so many seconds."""

    def run() -> object:
        name = file.removesuffix(".py").replace("/", ".")
        sys.meta_path.insert(0, Mutated(name, ROOT / file, mutant.source()))
        return _pytest([test.name for test in tests], object())

    code = forked(run, seconds)
    return "timeout" if code is None else "survived" if code == "0" else "killed"


def main() -> None:
    """Draw, run and note mutants; what was run before with the same source is not run again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=20, help="mutants of each module")
    parser.add_argument("--modules", default="thermostats", help="beginnings of their names, separated by commas")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after so many")
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of tests that a mutant is given")
    parser.add_argument("--again", action="store_true", help="and those that survived other tests, or less of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("build/mutants.jsonl"))
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    noted = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.is_file() else []
    last = {(line["sha"], line["mutant"]): line for line in noted}
    began = time.monotonic()
    for file, tests in MODULES.items():
        if not file.startswith(tuple(given.modules.split(","))):
            continue
        source = (ROOT / file).read_text(encoding="utf-8")
        sha = digest(file)
        every = mutants(source)
        shuffled = random.Random(f"{given.seed} {file}").sample(every, len(every))  # noqa: S311 - a draw, no secret
        state = f"{given.budget:g} s of " + hashlib.sha256("".join(map(digest, tests)).encode()).hexdigest()[:12]

        def settled(before: dict[str, Any] | None, state: str = state) -> bool:
            survived = before is not None and before["outcome"] == "survived"
            return before is not None and not (given.again and survived and before["given"] != state)

        drawn = [mutant for mutant in shuffled[: given.sample] if not settled(last.get((sha, mutant.what)))]
        if not drawn or time.monotonic() - began > given.seconds:
            continue
        for name in (*LIBRARIES, *(OF_MODELS if not file.startswith(TABLES) else ())):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        known = reach(file, given.results.with_name("reach.json"))
        for mutant in drawn:
            if time.monotonic() - began > given.seconds:
                break
            given_tests = chosen(file, mutant, known, given.budget)
            limit = 3 * sum(test.seconds for test in given_tests) + 15
            line = {
                "module": file,
                "sha": sha,
                "of": len(every),
                "mutant": mutant.what,
                "code": source.splitlines()[mutant.lines[0] - 1].strip(),
                "tests": len(given_tests),
                "given": state,
                "outcome": outcome(file, mutant, given_tests, limit),
            }
            print(*(line[name] for name in ("module", "mutant", "code", "tests", "outcome")), flush=True)
            with given.results.open("a") as stream:
                stream.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
