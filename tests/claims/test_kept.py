"""A finding whose rows are as they were is kept; one whose rows changed is made again, and no other."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from thermostats.claims.claim import Case, Claim, Estimate, Evidence, Result
from thermostats.claims.kept import Kept
from thermostats.claims.rule import Above, AtLeast
from thermostats.plots.general import drawing, forest

KEY = "ab" * 32
WORDS = """# U01 Models of a lab grow

Source: nobody

## Said
They grow.

## Estimand
the mean

## lab
### estimand
gain of {{ over.words }}
### plain
The mean is {{ q["gain"].value | number }}.
### caption
Means.

## whole
### estimand
all
### plain
{{ verdict.sentence }}.
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THERMOSTATS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "findings" / "U01.bin"


class Rows(Evidence):
    """Features of two labs."""

    def __init__(self, gains: dict[str, list[float]], names: str) -> None:
        super().__init__()
        rows = [(lab, f"{lab}/{names}{i}", gain) for lab, own in gains.items() for i, gain in enumerate(own)]
        self._loaded["features"] = pd.DataFrame(rows, columns=["heritage", "model_id", "gain"])


def claim(tmp_path: Path, made: list[str]) -> Claim:
    script = tmp_path / "u01_grow.py"
    script.with_suffix(".md").write_text(WORDS)
    claim = Claim.read(script)

    @claim.shared
    def read(evidence: Evidence, lab: str) -> pd.DataFrame:
        return evidence.table("features", heritage=lab)

    over = (Case("a", "lab a"), Case("b", "lab b"))

    @claim.finding("lab", primary=Above("gain", 1), over=over, needs=AtLeast(models=1))
    def of_lab(evidence: Evidence, case: Case) -> Result:
        made.append(case.id)
        rows = read(evidence, case.id)
        table = pd.DataFrame({"what": ["gain"], "estimate": rows["gain"].mean(), "lower": 0.5, "upper": 2.0})
        mean = float(rows["gain"].mean())
        found = Result.of(rows, {"gain": Estimate(mean, mean - 0.1, mean + 0.1)}, table=table)
        return Result(**{**vars(found), "draw": drawing(forest, table, label="what")})

    @claim.overall(["lab.a", "lab.b"])
    def whole(evidence: Evidence, _parts: object) -> Result:
        made.append("whole")
        return Result(n_models=1)

    return claim


def run(
    tmp_path: Path, gains: dict[str, list[float]], key: str = KEY, names: str = ""
) -> tuple[list[str], list[str], Kept, Evidence]:
    made: list[str] = []
    kept, evidence = Kept("U01", key), Rows(gains, names)
    found = claim(tmp_path, made).judge(evidence, kept)
    kept.write()
    return made, [finding.plain for finding in found], kept, evidence


def test_only_what_reads_changed_rows_is_made_again(tmp_path: Path, cache: Path) -> None:
    made, first, before, read = run(tmp_path, {"a": [2.0], "b": [0.5]})
    assert made == ["a", "b", "whole"]
    made, again, kept, read_again = run(tmp_path, {"a": [2.0], "b": [0.5]})
    assert made == [] and again == first
    assert read_again.selections == read.selections
    assert kept.made["U01.lab.a", "published"].figure == before.made["U01.lab.a", "published"].figure != b""
    made, changed, _, _ = run(tmp_path, {"a": [2.0], "b": [3.0]})
    assert made == ["b", "whole"] and changed != first
    made, back, _, _ = run(tmp_path, {"a": [2.0], "b": [0.5]})
    assert made == [] and back == first  # the version before is kept, too


def test_versions_that_say_the_same_are_told_apart_by_their_rows(tmp_path: Path, cache: Path) -> None:
    for made in (["a", "b", "whole"], []):
        for names in ("one", "two"):
            assert run(tmp_path, {"a": [2.0], "b": [0.5]}, names=names)[0] == made


@pytest.mark.parametrize("damage", ["other code", "cut off", "a byte", "no cache"])
def test_what_cannot_be_trusted_is_made_again(
    tmp_path: Path, cache: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = {"a": [2.0], "b": [0.5]}
    run(tmp_path, gains)
    content = cache.read_bytes()
    if damage == "cut off":
        cache.write_bytes(content[:-1])
    if damage == "a byte":
        cache.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    if damage == "no cache":
        monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    made, *_ = run(tmp_path, gains, "cd" * 32 if damage == "other code" else KEY)
    assert made == ["a", "b", "whole"]


class Evil:
    """What a pickle makes of itself when it is loaded: a file that tells of it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.path, "ran")


def test_a_file_runs_no_code(tmp_path: Path, cache: Path) -> None:
    ran = tmp_path / "ran"
    run(tmp_path, {"a": [2.0], "b": [0.5]})
    for content in (pickle.dumps(Evil(ran)), pickle.dumps({("U01.lab.a", "published"): [Evil(ran)]})):
        cache.write_bytes(hashlib.sha256(content).digest() + bytes.fromhex(KEY) + content)
        made, *_ = run(tmp_path, {"a": [2.0], "b": [0.5]})
        assert made == ["a", "b", "whole"] and not ran.exists()
    pickle.loads(content)  # noqa: S301 - it would have run
    assert ran.exists()
