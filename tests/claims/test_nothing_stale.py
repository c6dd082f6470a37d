"""Whatever happened to a folder, findings and pages that were kept are those that an empty cache
would give."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest
from histories import SOURCES, History, make_package

from thermostats.claims import judge, stored
from thermostats.claims.claim import Claim
from thermostats.claims.codec import dump_value, load_value
from thermostats.claims.evidence import (
    MEASURED,
    POOLED,
    Evidence,
    describe_coincidence,
    find_lacking,
    find_measuring_runs,
)
from thermostats.claims.finding import Finding, Sample
from thermostats.claims.question import Curve, describe_missing_models
from thermostats.claims.run import load_claim
from thermostats.claims.stored import Stored
from thermostats.claims.study import list_scripts
from thermostats.errors import ThermostatsError
from thermostats.reporting.state import list_table_pages
from thermostats.tables import folders
from thermostats.tables.model_rows import model_rows
from thermostats.tables.schemas import TABLES
from thermostats.tables.store import CACHE_VARIABLE

CLAIMS = list_scripts(folders.find_shipped("analyses"))
PAGES = list_table_pages()
EVERY = (*CLAIMS, *PAGES)
CHECKS = 6
"""How often findings are asked for in a long history, each time after one thing more."""
QUICK = {0: "H03", 1: "causes", 2: "R01"}
"""Seeds of the histories of the quick test, each with what takes little time to make."""
PART = 5
"""Things that happen in a quick history before findings are asked for again."""
READERS = "U64"
"""A claim of this test alone: it has a finding for every way in which findings read, and each says
what it read."""
MODELS = (
    "EleutherAI/pythia-1b",
    "facebook/opt-125m",
    "openai-community/gpt2",
    "google/gemma-2-9b",
    "me/m1",
    "me/m2",
)
WAYS: dict[str, Callable[[Evidence], Any]] = {
    **{
        name: partial(Evidence.table, name=name)
        for name in (*TABLES, "features")
        if name != "findings"
    },
    "last gains": lambda evidence: evidence.table("layers", position="last"),
    "own models": Evidence.own_models,
    "external sources": Evidence.external_sources,
    "folder": Evidence.folder,
    "sources of models": lambda evidence: evidence.sources(MODELS),
    "origins": lambda evidence: evidence.origin(
        pd.Series([*SOURCES, "logos-in-layers", "buk81-removed"])
    ),
    "without a source": lambda evidence: evidence.exclude_source(SOURCES[0]).table("weights"),
    "measuring runs": find_measuring_runs,
    "measuring runs again": find_measuring_runs,
    "shared": lambda evidence: evidence.computed(("shared",), partial(twice_read, evidence)),
    "shared again": lambda evidence: evidence.computed(("shared",), partial(twice_read, evidence)),
    "kept": lambda evidence: evidence.keep("kept", partial(twice_read, evidence)),
    "kept again": lambda evidence: evidence.keep("kept", partial(twice_read, evidence)),
    "computed rows": lambda evidence: model_rows(evidence, incomparable=True),
    "computed rows again": lambda evidence: model_rows(evidence, incomparable=True),
    "coincidence": lambda evidence: describe_coincidence(evidence, MODELS),
    "coincidence again": lambda evidence: describe_coincidence(evidence, MODELS),
    "left out": lambda evidence: list(
        describe_missing_models(READERS, ("gains", "weights"), (), evidence)
    ),
    "lacking": lambda evidence: find_lacking(
        evidence, ["outputs.entropy", "summaries.normed_gain"]
    ),
}


def twice_read(evidence: Evidence) -> list[str]:
    """What is computed of a result that is computed once itself, and of a set beside."""
    return [
        str(len(find_measuring_runs(evidence))),
        said_of(evidence.named(MEASURED).table("transitions")),
    ]


def said_of(read: Any) -> str:
    """What was read, in short."""
    if isinstance(read, pd.DataFrame):
        return f"{list(read)} {pd.util.hash_pandas_object(read, index=False).sum()}"
    return str(read.tolist() if isinstance(read, pd.Series) else read)


class Readers(Claim):
    """Findings that say what they read, and one over those of a set."""

    def judge(self, evidence: Evidence, keep: Any = None) -> list[Finding]:
        findings = []
        for name in (MEASURED, POOLED):
            ways = {f"{READERS}.{way}": partial(self.finding_of, way) for way in WAYS}
            parts = [keep(made, evidence.named(name), read, ()) for made, read in ways.items()]
            over = keep(f"{READERS}.over", evidence.named(name), partial(self.over, parts), parts)
            findings += [*parts, over]
        return findings

    def finding_of(self, way: str, evidence: Evidence) -> Finding:
        said = said_of(WAYS[way](evidence))
        return Finding(f"{READERS}.{way}", way, "supported", said, sample=Sample(evidence.name))

    def over(self, parts: Sequence[Finding], evidence: Evidence) -> Finding:
        said = " ".join(part.plain for part in parts)
        return Finding(f"{READERS}.over", "over", "supported", said, sample=Sample(evidence.name))


def drawn_from_hat(sequences: int = 40, each: int = 2) -> list[tuple[int, tuple[str, ...]]]:
    """Seeds, with the claims and pages that are asked: every one in turn."""
    names = list(EVERY)
    Random(64).shuffle(names)  # noqa: S311 - it hides nothing
    places = (range(each * seed, each * (seed + 1)) for seed in range(sequences))
    return [
        (seed, tuple(names[at % len(names)] for at in chosen)) for seed, chosen in enumerate(places)
    ]


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    made: dict[bool, Path] = {}

    def package(tiny: bool) -> Path:
        if tiny not in made:
            made[tiny] = make_package(tmp_path_factory.mktemp("package"), tiny=tiny)
        return made[tiny]

    return package


@pytest.fixture
def world(
    packages: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """A folder for a history where the package has few rows; fits and curves are functions of rows
    read anyway."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(judge, "_record_fit", lambda *_: None)
    monkeypatch.setattr("thermostats.claims.claim.build_curve", rows_of_curve)
    monkeypatch.setattr(stored, "render_svg", lambda _: b"")

    def with_package(tiny: bool = False) -> Path:
        monkeypatch.setattr(folders, "INSTALLED", packages(tiny))
        return tmp_path

    return with_package


def rows_of_curve(_curve: Curve, _rule: object, _test: object, rows: pd.DataFrame) -> str:
    """In the place of a curve the rows that it is made of."""
    return said_of(rows)


class Compared(Stored):
    """Findings of one claim, or a page; what is kept is made anew all the same, and held against
    it."""

    def __init__(self, name: str, anew: Evidence) -> None:
        super().__init__(name, "key")
        self.anew = anew
        self.used = False
        """Whether a finding that is made uses a value that was kept."""
        self.served: list[str] = []
        self.stale: list[str] = []

    def has(self, part: tuple[str, str], evidence: Evidence) -> bool:
        """Whether what is kept of a part is used."""
        return self.memo.find(part, partial(stored._is_fresh, evidence)) is not None

    def __call__(
        self,
        name: str,
        evidence: Evidence,
        make: Callable[[Evidence], Finding],
        over: Sequence[Finding],
    ) -> Finding:
        kept = self.has((name, evidence.name), evidence)
        self.used = False
        finding = super().__call__(name, evidence, make, over)
        if kept or self.used:
            anew = partial(make, self.anew.named(evidence.name))
            self.compare(f"{name} ({evidence.name})", finding, anew)
        return finding

    def keep_inner(self, name: str, evidence: Evidence, make: Callable[[Evidence], Any]) -> Any:
        part = (f"{stored.INNER}{name}", evidence.name)
        self.used |= self.has(part, evidence)
        return super().keep_inner(name, evidence, make)

    def add_curve(
        self,
        finding: Finding,
        evidence: Evidence,
        read: Callable[[Evidence], pd.DataFrame],
        make: Callable[[pd.DataFrame], Any],
    ) -> Finding:
        kept = self.memo.versions.get((f"{finding.id} curve", evidence.name))
        drawn = super().add_curve(finding, evidence, read, make)
        if kept:
            anew = self.anew.named(evidence.name)
            self.compare(f"{finding.id} curve", drawn.curve, lambda: make(read(anew)))
        return drawn

    def page(
        self, evidence: Evidence, make: Callable[[Evidence], dict[str, bytes]]
    ) -> dict[str, bytes]:
        kept = self.has(stored.PAGE, evidence)
        files = super().page(evidence, make)
        if kept:
            self.compare("page", files, partial(make, self.anew))
        return files

    def compare(self, name: str, kept: Any, make: Callable[[], Any]) -> None:
        self.served.append(name)
        try:
            anew = make()
        except ThermostatsError as error:
            self.stale.append(f"{name}: kept, anew {error}")
            return
        made = stored._draw_finding(anew).finding if isinstance(anew, Finding) else anew
        if dump_value(kept) != dump_value(load_value(dump_value(made))):
            one, other = json.loads(dump_value(kept)), json.loads(dump_value(made))
            self.stale.append(f"{name}: {first_difference(one, other)}")


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


def ask(name: str, tables: Evidence) -> Compared:
    """Ask a claim, or make a page, of tables: what is kept of it, and the same anew."""
    findings, evidence = Compared(name, tables.fork()), tables.fork()
    evidence.keep_values(findings)
    before = findings.rows(evidence)
    try:
        if name in PAGES:
            findings.page(evidence, importlib.import_module(PAGES[name]).build_files)
        elif name == READERS:
            Readers(READERS, *[""] * 4).judge(evidence, findings)
        else:
            load_claim(CLAIMS[name]).judge(evidence, findings)
    except ThermostatsError:
        return findings  # as in a report, which says so and keeps nothing of the claim
    assert before in ("", stored.hash_selections(evidence.selections)), (
        "a report would take for stale what is kept"
    )
    findings.write()
    return findings


class Watched:
    """A history whose folder is asked for claims and pages: what was served of them, and what of
    that an empty cache gives otherwise."""

    def __init__(self, history: History, names: Sequence[str]) -> None:
        self.history, self.names = history, names
        self.served, self.stale = list[str](), list[str]()

    def ask_all(self) -> None:
        tables = Evidence(self.history.folder)
        for name in self.names:
            compared = ask(name, tables)
            self.served += compared.served
            after = "; ".join(self.history.steps)
            self.stale += [f"{line}; after {after}" for line in compared.stale]

    def check(self) -> None:
        assert not self.stale, "\n".join(self.stale)
        assert self.served, "nothing was kept, so nothing was compared"


@pytest.mark.parametrize(("seed", "claim"), QUICK.items())
def test_what_is_kept_is_what_would_be_made(
    seed: int, claim: str, world: Callable[..., Path]
) -> None:
    watched = Watched(History(world(tiny=True), seed), [READERS, claim])
    watched.history.begin()
    watched.ask_all()
    for done, _ in enumerate(watched.history.live_through(), start=1):
        if done % PART == 0:
            watched.ask_all()
    watched.ask_all()
    watched.check()


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "names"), drawn_from_hat())
def test_of_all_claims_and_pages_too(
    seed: int, names: tuple[str, ...], world: Callable[..., Path]
) -> None:
    watched = Watched(History(world(), seed), [READERS, *names])
    watched.history.begin()
    for _ in range(CHECKS):
        watched.history.go_on()
        watched.ask_all()
    watched.check()


def test_all_claims_and_pages_come_up() -> None:
    assert {name for _, names in drawn_from_hat() for name in names} == set(EVERY)
