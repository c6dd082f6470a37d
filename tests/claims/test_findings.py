"""What an analysis reads and what it says when it is run as a script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from thermostats.claims.claim import Audit, Basis, Claim, Estimate
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding, Sample, format_finding, read_finding
from thermostats.claims.modality import MODALITIES
from thermostats.claims.result import SUPPORTED
from thermostats.errors import DataError, UsageError

ROOT = Path(__file__).parents[2]
CLAIM = Claim("U01", "Depth helps", "It is said.", "a mean", "a rule", Basis("a source"))
FINDING = Finding(
    id="U01.mean",
    estimand="mean gain",
    verdict=SUPPORTED,
    plain="So it is.",
    headline=Estimate(1.25, 1.1, 1.4, "95% t", 0.01),
    sample=Sample(n_models=1, n_groups=4),
    audit=Audit({"r": -0.81, "p": 0.014}, {"r": -0.878}),
    notes=("One file lacks it.",),
)


def test_rows_are_not_selected_by_a_column_that_is_not_there(small_store: Path) -> None:
    tables = Evidence(small_store)
    assert len(tables.table("layers", heritage="Lab")) == 6
    with pytest.raises(UsageError, match="table layers cannot be selected by 'heritge'"):
        tables.table("layers", heritge="Lab")


def test_tables_beside_the_schema_are_read_too(small_store: Path) -> None:
    tables = Evidence(small_store)
    assert len(tables.table("nursery_design")) == 96
    assert len(tables.table("third_models")) == 716


def test_a_finding_on_a_terminal_says_all_it_has() -> None:
    lines = format_finding(FINDING).splitlines()
    assert lines[0] == "SUPPORTED  mean gain"
    assert "  rests on     1 model of 4 labs" in lines
    assert any(line.startswith("  estimate     1.25 [1.1") for line in lines)
    assert "  probability  p = 0.010" in lines
    assert any(line.startswith("  r: published −0.81, reproduced −0.878") for line in lines)
    assert any(line.startswith("  p: published 0.014, reproduced not recomputed") for line in lines)
    assert lines[-1] == "  Note: One file lacks it."


def test_an_analysis_as_a_script_prints_its_claim_or_says_what_is_wrong(
    small_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["u01_depth_helps.py", "--data", str(small_store), "--details"]
    )
    monkeypatch.setattr(
        Claim, "judge", lambda self, tables: [FINDING] * bool(len(tables.table("layers")))
    )
    CLAIM.main()
    assert capsys.readouterr().out.startswith(
        "U01  Depth helps\n\n  Said: It is said.\n  Rule: a rule\n\nSUPPORTED"
    )

    def refused(claim: Claim, tables: Evidence) -> list[Finding]:
        raise DataError("no rows", next_step="measure a model")

    monkeypatch.setattr(Claim, "judge", refused)
    with pytest.raises(SystemExit) as stopped:
        CLAIM.main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "thermostats: no rows. Next: measure a model\n"


def test_a_finding_has_a_place_for_every_column_and_comes_back_from_them() -> None:
    values = FINDING.columns()
    assert (values["claim"], values["lower"], values["n_heritages"]) == ("U01", 1.1, 4)
    assert read_finding(values) == FINDING
    with pytest.raises(KeyError):
        read_finding({**values, "lowest": 1.0})


def test_a_claim_states_its_modality() -> None:
    """What may decide it follows from the kind of statement, which every shipped claim names."""
    stated = {path.stem: Claim.read(path).basis.modality for path in ROOT.glob("analyses/*.md")}
    assert len(stated) > 30 and set(stated.values()) == set(MODALITIES)
    assert stated["c11_fine_tuning"] == "cannot"


def test_a_modality_that_there_is_not_is_refused(tmp_path: Path) -> None:
    words = (ROOT / "analyses/c11_fine_tuning.md").read_text()
    path = tmp_path / "u01_never.md"
    path.write_text(words.replace("Modality: cannot", "Modality: never"))
    with pytest.raises(DataError, match=r"no such kind of statement.*got never.*cannot"):
        Claim.read(path)
