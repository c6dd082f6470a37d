"""The set `own`: every claim on the user's rows alone, wherever there are some, and nothing where
there are none."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.claims.claim import Evidence
from thermostats.claims.evidence import OWN_ROWS
from thermostats.claims.finding import Finding
from thermostats.claims.result import AGAINST, SUPPORTED, UNMEASURED
from thermostats.claims.run import load_claim, load_claims
from thermostats.claims.study import list_scripts
from thermostats.errors import UsageError
from thermostats.reporting import pages
from thermostats.reporting.claim_page import Entry
from thermostats.reporting.pages.index import index_text
from thermostats.tables import store
from thermostats.tables.choices import MEASUREMENTS

SCRIPTS = list_scripts(store.find_shipped("analyses"))
COLUMNS = ("model_id", "revision", "layer", "prompt_id", "gain_block", "position", "source")


def join_gains(folder: Path, slope: float, most: int | None = None) -> Path:
    """A data folder with gains of Pythia and OPT models that change with depth by a slope."""
    rng = np.random.default_rng(3)
    models = thermostats.load("models")
    chosen = models[models["family"].isin(["pythia", "opt"]) & (models["norm_place"] != "post")]
    rows = []
    for model in chosen.drop_duplicates("model_id").head(most or len(chosen)).itertuples():
        for prompt in ("p1", "p2", "p3"):
            gains = np.exp(rng.normal(0.3 + slope * model.n_layers, 0.05, model.n_layers))
            for layer, gain in enumerate(gains, 1):
                row = {"model_id": model.model_id, "layer": layer, "gain_block": gain}
                rows.append(row | {"prompt_id": prompt})
    table = pd.DataFrame(rows).assign(revision="main", position="last", source="my hooks")
    lines = ['table = "layers"', "[columns]", *(f'{name} = "{name}"' for name in COLUMNS)]
    mapping = folder / "map.toml"
    mapping.write_text("\n".join(lines) + "\n", encoding="utf-8")
    thermostats.join(table, table="layers", mapping=mapping, data=folder / "mine")
    return folder / "mine"


@pytest.fixture(scope="module")
def falling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return join_gains(tmp_path_factory.mktemp("falling"), -0.02)


@pytest.fixture(scope="module")
def rising(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return join_gains(tmp_path_factory.mktemp("rising"), 0.02)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return join_gains(tmp_path_factory.mktemp("single"), -0.02, 1)


def find_own(claim: str, data: Path | None) -> dict[str, Finding]:
    found = load_claim(SCRIPTS[claim]).decide_set(Evidence(data), OWN_ROWS)
    return {finding.id: finding for finding in found}


def test_the_set_holds_the_users_rows_and_no_others(falling: Path) -> None:
    own = Evidence(falling).named(OWN_ROWS)
    assert set(own.table("runs")["source"]) == {"my hooks"}
    assert set(own.table("layers")["source"]) == {"my hooks"}
    assert len(own.table("layers", source="thermostats")) == 0
    assert len(Evidence(falling).named("measured").table("runs", source="thermostats")) > 0
    assert set(thermostats.features(evidence="own", data=falling)["source"]) == {"my hooks"}
    models = set(thermostats.model_rows("own", data=falling)["model_id"])
    assert models == set(own.table("runs")["model_id"])


def test_verdicts_are_those_of_the_users_rows(falling: Path, rising: Path) -> None:
    sides = {SUPPORTED: falling, AGAINST: rising}
    for verdict, data in sides.items():
        found = find_own("C01", data)["C01.depth.penultimate_gain"]
        rows = thermostats.model_rows("own", "penultimate_gain", data=data)
        expected = rows["n_layers"].corr(rows["log_gain"], method="pearson")
        assert found.verdict == verdict and found.sample.n_models == len(rows)
        assert found.headline.value is not None
        assert np.sign(found.headline.value) == np.sign(expected)


def test_every_claim_takes_a_folder_of_one_model_or_many(falling: Path, single: Path) -> None:
    for data, least in ((single, 6), (falling, 10)):
        answered = {claim: found for claim in SCRIPTS if (found := find_own(claim, data))}
        assert len(answered) >= least
        findings = [each for found in answered.values() for each in found.values()]
        assert {each.sample.evidence for each in findings} == {OWN_ROWS}
        assert all(each.sample.view_of for each in findings)
        if data == single:
            assert {each.verdict for each in findings} == {UNMEASURED}


def test_a_verdict_over_findings_is_over_those_on_own_rows(falling: Path) -> None:
    found = find_own("C04", falling)
    assert found["C04.whole"].verdict == UNMEASURED
    assert found["C04.whole"].criterion.parts and set(found["C04.whole"].criterion.parts) <= set(
        found
    )


def test_without_own_rows_a_claim_is_judged_as_it_was() -> None:
    assert OWN_ROWS not in MEASUREMENTS
    evidence = Evidence()
    claim = load_claim(SCRIPTS["C20"])
    assert {each.sample.evidence for each in claim.decided(evidence)}.isdisjoint({OWN_ROWS})
    assert not any(OWN_ROWS in name for name in evidence.selections)


def test_a_claim_is_judged_on_own_rows_last(falling: Path) -> None:
    found = load_claim(SCRIPTS["C20"]).judge(Evidence(falling))
    assert [each.sample.evidence for each in found].count(OWN_ROWS) == 1
    assert found[-1].sample.evidence == OWN_ROWS and found[-1].id == found[0].id


def build_entries(data: Path | None) -> list[Entry]:
    stated = {claim.id: claim for claim in load_claims(store.find_shipped("analyses"))}
    found = load_claim(SCRIPTS["C20"]).judge(Evidence(data))
    return [Entry("C20", stated["C20"], tuple(found))]


def test_the_index_has_a_column_where_there_are_own_rows(falling: Path) -> None:
    column = "| on your own rows |"
    with_own = index_text(build_entries(falling), {})
    assert column in with_own and "\n| own | " in with_own
    without = index_text(build_entries(None), {})
    assert column not in without and "\n| own | " not in without and "own rows" not in without


def test_without_own_rows_a_line_says_what_brings_some() -> None:
    with pytest.raises(UsageError, match=r"no rows of your own.*thermostats.* measure|measure\("):
        thermostats.model_rows("own")
    with pytest.raises(UsageError, match="no rows of your own"):
        thermostats.features(evidence="own")
    reports = store.find_shipped("analyses").parent / "reports"
    assert (reports / "snapshot").is_dir()
    with pytest.raises(UsageError, match="this report has no findings on your own rows"):
        thermostats.findings(evidence="own", out=reports)


def test_the_next_line_names_the_folder_that_the_report_was_made_of(
    falling: Path, tmp_path: Path
) -> None:
    """Not `mine`, which is a guess: the report says which folder it is of."""
    shipped = store.find_shipped("analyses").parent / "reports" / "snapshot"
    assert shipped.is_dir()
    out, empty = tmp_path / "out", tmp_path / "theirs"
    out.mkdir()
    rows = pd.read_csv(shipped / "findings.csv", dtype=str, keep_default_na=False)
    rows[rows["evidence"].ne("own")].to_csv(out / "findings.csv", index=False)
    for data, verb in ((falling, "report C02"), (empty, "measure MODEL")):
        origin = {"data": str(data), "analyses": "", "rows": ""}
        (out / pages.MADE_OF).write_text(json.dumps(origin))
        with pytest.raises(UsageError, match="no findings on your own rows") as refused:
            thermostats.findings("C02", evidence="own", out=out)
        end = f" --out {shlex.quote(str(out))}" * verb.startswith("report")
        line = f"thermostats {verb} --data {shlex.quote(str(data))}{end}"
        assert refused.value.next_step == line
    page = out / pages.name_findings_file("C02")
    page.parent.mkdir()
    page.write_text("[]")
    with pytest.raises(UsageError, match="C02: nothing was found on your own rows") as refused:
        thermostats.findings("C02", evidence="own", out=out)
    assert refused.value.next_step == f"thermostats needs C02 --data {shlex.quote(str(empty))}"


def run_script(claim: str, *options: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(SCRIPTS[claim]), *options]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_a_script_prints_findings_on_one_set(falling: Path) -> None:
    done = run_script("C01", "--data", str(falling), "--evidence", "own")
    assert done.returncode == 0 and done.stdout.count(" own ") == 3 and "supported" in done.stdout
    done = run_script("C13", "--data", str(falling), "--evidence", "own")
    assert "C13 asks nothing of your own rows." in done.stdout
    done = run_script("C01", "--evidence", "own")
    assert done.returncode == 2 and "no rows of your own" in done.stderr
    done = run_script("C01", "--evidence", "own", "--details")
    assert done.returncode == 2 and "leave out --evidence" in done.stderr
