"""Whatever happened to a folder, findings and pages that were kept are those that an empty cache would give."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from histories import History, make_package

from thermostats.claims import judge, stored
from thermostats.claims.evidence import Evidence, digest_of
from thermostats.claims.finding import Finding
from thermostats.claims.question import Curve
from thermostats.claims.run import claim_of
from thermostats.claims.stored import Stored, decode, encode
from thermostats.claims.study import scripts
from thermostats.reporting.state import pages_of_tables
from thermostats.tables import folders
from thermostats.tables.store import CACHE_VARIABLE

CLAIMS = scripts(folders.shipped("analyses"))
PAGES = pages_of_tables()
EVERY = (*CLAIMS, *PAGES)
CHECKS, BETWEEN = 5, (1, 2)
"""How often findings are asked for, and how many things happen in between."""
FAST = (("C17", 1), ("X01", 2), ("H03", 3))
"""Claims that take little time, each with the seed of what happens."""


def drawn_from_hat(sequences: int = 40, each: int = 2) -> list[tuple[int, tuple[str, ...]]]:
    """Seeds, with the claims and pages that are asked: every one in turn."""
    names = list(EVERY)
    Random(64).shuffle(names)
    places = (range(each * seed, each * (seed + 1)) for seed in range(sequences))
    return [(seed, tuple(names[at % len(names)] for at in chosen)) for seed, chosen in enumerate(places)]


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_package(tmp_path_factory.mktemp("package"))


@pytest.fixture
def small(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a history, in a world whose package is small; fits and curves are functions of rows read anyway."""
    monkeypatch.setattr(folders, "INSTALLED", package)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(judge, "_fitted", lambda *_: None)
    monkeypatch.setattr(judge, "curve_of", rows_of_curve)
    monkeypatch.setattr(stored, "drawn", lambda _: b"")
    return tmp_path


def rows_of_curve(curve: Curve, _rule: object, _test: object, evidence: Evidence) -> str:
    """In the place of a curve the rows that it is made of."""
    return digest_of(curve.rows(evidence))


class Compared(Stored):
    """Findings of one claim, or a page; what is kept is made anew all the same, and held against it."""

    def __init__(self, name: str, anew: Evidence) -> None:
        super().__init__(name, "key")
        self.anew = anew
        self.served: list[str] = []
        self.stale: list[str] = []

    def __call__(
        self, name: str, evidence: Evidence, make: Callable[[Evidence], Finding], over: Sequence[Finding]
    ) -> Finding:
        kept = self._fresh((name, evidence.name), evidence)
        finding = super().__call__(name, evidence, make, over)
        if kept is not None:
            self.compare(f"{name} ({evidence.name})", finding, make(self.anew.named(evidence.name)))
        return finding

    def page(self, evidence: Evidence, make: Callable[[Evidence], dict[str, bytes]]) -> dict[str, bytes]:
        kept = self._fresh(stored.PAGE, evidence)
        files = super().page(evidence, make)
        if kept is not None:
            self.compare("page", files, make(self.anew))
        return files

    def compare(self, name: str, kept: Any, anew: Any) -> None:
        self.served.append(name)
        made = stored._drawn(anew, {}).finding if isinstance(anew, Finding) else anew
        if as_text(kept) != as_text(decode(json.loads(as_text(made)))):
            self.stale.append(f"{name}: {first_difference(json.loads(as_text(kept)), json.loads(as_text(made)))}")


def as_text(value: Any) -> str:
    return json.dumps(encode(value))


def first_difference(kept: Any, anew: Any) -> str:
    """The first place at which two values of JSON differ, with both."""
    pairs: list[tuple[Any, Any]] = [(kept, anew)]
    while pairs:
        one, other = pairs.pop(0)
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            pairs += [(one[name], other[name]) for name in one]
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pairs += list(zip(one, other, strict=True))
        elif one != other:
            return f"kept {str(one)[:300]!r}, anew {str(other)[:300]!r}"
    return "nothing"


def asked(name: str, history: History, questions: int | None = None) -> Compared:
    """A claim or page, asked of the folder in use; of a claim all its questions, or the first ones."""
    tables = Evidence(history.folder if history.folder.is_dir() else None)
    findings, evidence = Compared(name, tables.fork()), tables.fork()
    before = findings.rows(evidence)
    if name in PAGES:
        findings.page(evidence, importlib.import_module(PAGES[name]).files)
    else:
        claim = claim_of(CLAIMS[name])
        replace(claim, questions=claim.questions[:questions]).judge(evidence, findings)
    assert before in ("", stored.digest_of(evidence.selections)), "a report takes it for fresh, or for stale"
    findings.write()
    return findings


def stale_after(
    folder: Path, seed: int, names: Sequence[str], checks: int = CHECKS, questions: int | None = None
) -> tuple[list[str], int]:
    """What was served though an empty cache gives another, in a history of a folder; and how much was served."""
    history, random = History(folder, seed), Random(seed)
    stale, served = list[str](), 0
    history.begin()
    for _ in range(checks):
        history.go_on(random.randint(*BETWEEN))
        for name in names:
            compared = asked(name, history, questions)
            stale += [f"{line}; after {'; '.join(history.steps)}" for line in compared.stale]
            served += len(compared.served)
    return stale, served


@pytest.mark.parametrize(("claim", "seed"), FAST)
def test_what_is_kept_is_what_would_be_made(claim: str, seed: int, small: Path) -> None:
    stale, served = stale_after(small, seed, [claim])
    assert not stale, "\n".join(stale)
    assert served, "nothing was kept, so nothing was compared"


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "names"), drawn_from_hat())
def test_of_all_claims_and_pages_too(seed: int, names: tuple[str, ...], small: Path) -> None:
    stale, served = stale_after(small, seed, names)
    assert not stale, "\n".join(stale)
    assert served, "nothing was kept, so nothing was compared"


def test_all_claims_and_pages_come_up() -> None:
    assert {name for _, names in drawn_from_hat() for name in names} == set(EVERY)
