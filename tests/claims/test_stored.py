"""A finding whose rows are as they were is kept; one whose rows changed is made again, and no
other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.claim import Case, Claim, Estimate, Evidence, Result
from thermostats.claims.codec import decode, dump_value, encode, load_value
from thermostats.claims.memo import FORMAT
from thermostats.claims.result import Verdict
from thermostats.claims.rule import Above, AtLeast
from thermostats.claims.stored import Stored
from thermostats.plots.general import draw_forest, prepare_drawing

KEY = "ab" * 32
WORDS = """# U01 Models of a lab grow

Source: nobody

## Said
They grow.

## Estimand
the mean

## Identification
Not causal.

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
    return tmp_path / "cache" / "findings" / "U01.json"


class Rows(Evidence):
    """Features of two labs."""

    def __init__(self, gains: dict[str, list[float]], names: str) -> None:
        super().__init__()
        rows = [
            (lab, f"{lab}/{names}{i}", gain)
            for lab, own in gains.items()
            for i, gain in enumerate(own)
        ]
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
        table = pd.DataFrame(
            {"what": ["gain"], "estimate": rows["gain"].mean(), "lower": 0.5, "upper": 2.0}
        )
        mean = float(rows["gain"].mean())
        found = Result.build(rows, {"gain": Estimate(mean, mean - 0.1, mean + 0.1)}, table=table)
        return Result(**{**vars(found), "draw": prepare_drawing(draw_forest, table, label="what")})

    @claim.overall(["lab.a", "lab.b"])
    def whole(evidence: Evidence, _parts: object) -> Result:
        made.append("whole")
        return Result(n_models=1)

    return claim


def run(
    tmp_path: Path, gains: dict[str, list[float]], key: str = KEY, names: str = ""
) -> tuple[list[str], list[str], Stored, Evidence]:
    made: list[str] = []
    kept, evidence = Stored("U01", key), Rows(gains, names)
    found = claim(tmp_path, made).judge(evidence, kept)
    kept.write()
    return made, [finding.plain for finding in found], kept, evidence


def test_only_what_reads_changed_rows_is_made_again(tmp_path: Path, cache: Path) -> None:
    made, first, before, read = run(tmp_path, {"a": [2.0], "b": [0.5]})
    assert made == ["a", "b", "whole"]
    made, again, kept, read_again = run(tmp_path, {"a": [2.0], "b": [0.5]})
    assert made == [] and again == first
    assert read_again.selections == read.selections
    assert (
        kept.made["U01.lab.a", "published"].figure
        == before.made["U01.lab.a", "published"].figure
        != b""
    )
    made, changed, _, _ = run(tmp_path, {"a": [2.0], "b": [3.0]})
    assert made == ["b", "whole"] and changed != first
    made, back, _, _ = run(tmp_path, {"a": [2.0], "b": [0.5]})
    assert made == [] and back == first  # the version before is kept, too


def test_versions_that_say_the_same_are_told_apart_by_their_rows(
    tmp_path: Path, cache: Path
) -> None:
    for made in (["a", "b", "whole"], []):
        for names in ("one", "two"):
            assert run(tmp_path, {"a": [2.0], "b": [0.5]}, names=names)[0] == made


DAMAGE = ("other code", "older format", "cut off", "no record", "no cache", "edited")


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_cannot_be_trusted_is_made_again(
    tmp_path: Path, cache: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = {"a": [2.0], "b": [0.5]}
    run(tmp_path, gains)
    content = cache.read_bytes()
    if damage == "older format":
        now = f'"format": {FORMAT}'.encode()
        assert content.count(now) == 1
        cache.write_bytes(content.replace(now, f'"format": {FORMAT - 1}'.encode()))
    if damage == "cut off":
        cache.write_bytes(content[:-1])
    if damage == "no record":
        cache.write_bytes(
            content.replace(
                b"thermostats.claims.finding:Finding", b"thermostats.claims.finding:Nothing"
            )
        )
    if damage == "edited":
        assert content.count(b"The mean is 2") == 1
        cache.write_bytes(content.replace(b"The mean is 2", b"The mean is 9"))
    if damage == "no cache":
        monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    made, *_ = run(tmp_path, gains, "cd" * 32 if damage == "other code" else KEY)
    assert made == (["a"] if damage == "edited" else ["a", "b", "whole"])


def test_a_file_runs_no_code(tmp_path: Path, cache: Path) -> None:
    """It names records of the package; whatever else it names is not called."""
    gains = {"a": [2.0], "b": [0.5]}
    run(tmp_path, gains)
    content = cache.read_text()
    for other in ("os:system", "thermostats.claims.stored:Stored", "thermostats.terminal:print"):
        cache.write_text(content.replace("thermostats.claims.finding:Finding", other))
        assert run(tmp_path, gains)[0] == ["a", "b", "whole"]
    for kind in ("os:system", "builtins:eval", "thermostats.errors:install"):
        with pytest.raises(ValueError, match="no record of the package"):
            decode({"kind": kind, "value": "ls"})


@dataclass(frozen=True)
class Foreign:
    """A record of another package."""

    x: int = 1


VALUES = [
    *(None, True, 3, 0.1, math.inf, "é", b"\0", (1, (2.5, "a")), [1, [2]], {"a": {1: None}}, {}),
    *(
        Estimate(1.0, 0.5, None, "95% t interval"),
        Verdict("supported"),
        np.float64(0.1),
        np.arange(6.0).reshape(2, 3),
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    again = load_value(dump_value(value))
    assert type(again) is type(value) and np.all(again == value)


def test_a_table_is_read_as_it_was_written() -> None:
    table = pd.DataFrame(
        {"x": [0.1, math.nan], "n": pd.array([1, None], "Int64"), "of": ["a", ""]}, index=["r", "s"]
    )
    pd.testing.assert_frame_equal(decode(encode(table)), table, check_dtype=False)
    pd.testing.assert_series_equal(decode(encode(table["x"])), table["x"])
    assert math.isnan(decode(encode(math.nan)))


@pytest.mark.parametrize("value", [Foreign(), len, pd.DataFrame({"a": [object()]}), {1j}])
def test_what_has_no_form_in_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="has no form"):
        encode(value)
