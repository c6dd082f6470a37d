"""What PyMC alone can draw is drawn where asked for; else the page shows what the snapshot has of
the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import finding, table
from workplaces import FITTED, make_workplace, write_analysis

import thermostats
from thermostats.claims.finding import Finding, Sample, Undrawn
from thermostats.claims.rule import Posterior
from thermostats.claims.run import load_claim
from thermostats.claims.stored import Made
from thermostats.claims.study import list_scripts
from thermostats.reporting import state as of_snapshots
from thermostats.reporting.build import add_earlier_posterior
from thermostats.reporting.report import ReportRun, report
from thermostats.reporting.snapshot import find_redrawn, list_differences
from thermostats.reporting.state import hash_inputs, load_posteriors
from thermostats.settings import DRAW_VARIABLE
from thermostats.tables import store
from thermostats.tables.folders import find_shipped

Build = Callable[..., ReportRun]
LATER = FITTED.replace(
    "posterior=posterior,", "posterior=posterior if is_drawing() else LATER,"
).replace(
    "class Made(Claim)",
    "from thermostats.claims.finding import Undrawn\n"
    "from thermostats.settings import is_drawing\n\n"
    'LATER = Undrawn(model="Log gain on depth.", rule="r", statement="P(β < 0)")\n\n\nclass '
    "Made(Claim)",
)
"""An analysis whose fit is left for later."""
DRAWN = f"thermostats {thermostats.__version__}, pymc 5.28.5; 2026-11-28"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    made = make_workplace(tmp_path)
    for number in (1, 2):
        next(made["analyses"].glob(f"c0{number}*.py")).unlink()
    write_analysis(made["analyses"], "C01", "Meta")
    source = LATER.format(id="C02", lab="TII", classical="supported", sampler="passed").lstrip()
    (made["analyses"] / "c02_later.py").write_text(source, encoding="utf-8")
    return made


@pytest.fixture
def build(places: dict[str, Path]) -> Build:
    return lambda **options: report(**places, processes=1, **options)


def of_snapshot(path: Path, inputs: str, **changed: object) -> Path:
    row = finding(
        "C02", finding="C02.slope", evidence="", posterior=0.961, mc_error=0.004, drawn=DRAWN
    )
    figures = {"inputs_sha": inputs, "rhat_max": 1.003, "ess_min": 1510.0, "divergences": 0}
    store.save(table("findings", row | figures | changed), "findings", path)
    return path


def inputs_in(out: Path) -> str:
    [row] = (
        store.read_typed(out / "findings.csv", "findings")
        .query("claim == 'C02'")
        .to_dict("records")
    )
    return str(row["inputs_sha"])


def test_a_report_draws_where_asked_to_and_does_not_forget_it(
    build: Build, places: dict[str, Path]
) -> None:
    page = places["out"] / "c02" / "index.md"
    assert build().ok
    assert "P(β &lt; 0) is not drawn: `thermostats report C02 --draw`" in page.read_text()
    assert "P(β &lt; 0) = 0.973" not in page.read_text()
    assert build().written == ()
    assert build(check=True).ok and not build(check=True, draw=True).ok
    again = build(draw=True)
    assert [outcome.status for outcome in again.outcomes] == ["fresh", "built"]
    assert "P(β &lt; 0) = 0.973" in page.read_text() and "not drawn" not in page.read_text()
    assert build().written == () and build(draw=True).written == ()


def test_a_page_shows_what_the_snapshot_has_of_the_same_inputs(
    build: Build, places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build()
    path, page = tmp_path / "kept" / "findings.csv", places["out"] / "c02" / "index.md"
    of_snapshot(path, inputs_in(places["out"]))
    monkeypatch.setattr(of_snapshots, "locate_shipped_snapshot", lambda: path)
    built = build()
    assert [o.why for o in built.outcomes if o.status == "built"] == [
        "posteriors that it does not draw"
    ]
    said = page.read_text()
    assert (
        "P(β &lt; 0) = 0.961 (Monte-Carlo error 0.0040), R-hat 1.003, effective sample size 1,510, "
        "0 diverg" in said
    )
    assert "pymc 5.28.5; 2026-11-28" in said and "not drawn" not in said
    [row] = (
        store.read_typed(places["out"] / "findings.csv", "findings")
        .query("claim == 'C02'")
        .to_dict("records")
    )
    assert (row["posterior"], row["mc_error"], row["drawn"]) == (0.961, 0.004, DRAWN)
    assert (row["rhat_max"], row["ess_min"], row["divergences"]) == (1.003, 1510.0, 0)
    assert build().written == ()


def undrawn() -> Made:
    left = Undrawn(model="A line.", rule="r", statement="P(a)")
    made = Finding(
        "C02.slope", "slope", "inconclusive", "So.", sample=Sample("published"), posterior=left
    )
    return Made(made, b"", (), {"rows": "1"})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"inputs_sha": "0" * 64}, "of other rows, or of another script"),
        (
            {"drawn": DRAWN.replace(thermostats.__version__, "0.0.9")},
            "was drawn by thermostats 0.0.9",
        ),
        ({"evidence": "measured"}, "has none of it"),
        ({"drawn": ""}, "has none of it"),
    ],
)
def test_a_snapshot_stands_for_the_same_inputs_and_version_alone(
    changed: dict[str, object], why: str, tmp_path: Path
) -> None:
    made, inputs = undrawn(), hash_inputs("script", {"rows": "1"})
    path = of_snapshot(tmp_path / "findings.csv", inputs, **{"evidence": "published", **changed})
    posterior = add_earlier_posterior(made, load_posteriors(path), inputs).finding.posterior
    assert isinstance(posterior, Undrawn)
    assert why in posterior.why and (posterior.earlier is None) == bool(why)


@pytest.mark.parametrize("damage", ["cut", "columns", "numbers", "bytes", "none"])
def test_a_damaged_snapshot_is_not_shown_and_that_is_said(damage: str, tmp_path: Path) -> None:
    inputs = hash_inputs("script", {"rows": "1"})
    path = of_snapshot(tmp_path / "findings.csv", inputs, evidence="published")
    content = path.read_text(encoding="utf-8")
    if damage == "none":
        path.unlink()
    elif damage == "bytes":
        path.write_bytes(b"\xff\xfe\x00")
    else:
        changed = {"cut": content[:-90], "columns": content.replace("mc_error", "error")}
        changed["numbers"] = content.replace("0.961", "much")
        path.write_text(changed[damage], encoding="utf-8")
    posterior = add_earlier_posterior(undrawn(), load_posteriors(path), inputs).finding.posterior
    assert isinstance(posterior, Undrawn) and posterior.earlier is None
    assert posterior.why == (
        "no snapshot ships with this version"
        if damage == "none"
        else "the snapshot is damaged or of another version"
    )


def test_what_is_not_drawn_differs_from_no_snapshot_and_what_is_drawn_may(tmp_path: Path) -> None:
    path = of_snapshot(tmp_path / "findings.csv", "a")
    row = store.read_typed(path, "findings")
    assert list_differences(path, row.assign(posterior=None, mc_error=None, drawn="")) == ()
    near, far = (row.assign(posterior=p) for p in (0.975, 0.99))
    assert find_redrawn(path, near) == () and find_redrawn(path, far.assign(inputs_sha="b")) == ()
    assert find_redrawn(path, far) == ("C02.slope: posterior 0.961000, now 0.990000",)
    assert find_redrawn(path, far.assign(drawn="")) == ()


def test_no_primary_rule_reads_a_posterior() -> None:
    """So no verdict waits for one."""
    paths = list_scripts(find_shipped("analyses")).values()
    questions = [question for path in paths for question in load_claim(path).questions]
    assert len(questions) > 60
    assert [question.id for question in questions if isinstance(question.primary, Posterior)] == []


def test_the_snapshot_ships_with_the_package() -> None:
    assert of_snapshots.locate_shipped_snapshot().is_file()
    assert load_posteriors().damaged == ""
    assert DRAW_VARIABLE not in __import__("os").environ
