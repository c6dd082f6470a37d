"""C01 to C10 on the shipped tables: figures as printed, and verdicts that follow the data where these are changed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.studies.delia2026.stated import H4_EXTENDED
from thermostats.studies.delia2026.transition_layers import all_heads
from thermostats.words import agrees, comparison

ANALYSES = Path(__file__).parents[2] / "analyses"
DATA = Path(__file__).parents[2] / "data"
SCRIPTS = sorted([*ANALYSES.glob("c0?_*.py"), *ANALYSES.glob("c10_*.py")])
pytestmark = pytest.mark.skipif(
    not (DATA / "published" / "runs.csv").is_file(), reason="the published tables are not in this checkout"
)
YES, NO, OPEN, UNMEASURED = "supported", "not supported", "inconclusive", "needs measurement"


def load(claim: str) -> ModuleType:
    (path,) = ANALYSES.glob(f"{claim}_*.py")
    name = f"tested_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class Altered(Evidence):
    """The shipped tables with some of them changed on the way out."""

    def __init__(self, tables: Evidence, **changes: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        super().__init__(tables.data)
        self.tables, self.changes = tables, changes

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        frame = self.tables.table(name, **equals)
        return self.changes[name](frame) if name in self.changes else frame


@pytest.fixture(scope="module")
def tables() -> Evidence:
    return Evidence(DATA)


@pytest.fixture(scope="module")
def found(tables: Evidence) -> dict[str, list[Finding]]:
    return {path.name[:3]: load(path.name[:3]).analyse(tables) for path in SCRIPTS}


def made(n: int = 12, **columns: object) -> pd.DataFrame:
    """Rows of made-up models of two labs with two families each."""
    rows = pd.DataFrame({"model_id": [f"lab/m{i}" for i in range(n)]})
    rows["heritage"] = ["EleutherAI" if i < n // 2 else "Other" for i in range(n)]
    rows["family"] = [f"{lab}-{i % 4}" for i, lab in enumerate(rows["heritage"])]
    rows["gain"] = 1.0
    rows = rows.assign(**columns)
    return rows.assign(lower=rows["gain"] - 0.01, upper=rows["gain"] + 0.01, log_gain=np.log(rows["gain"]))


def test_there_are_ten_claims() -> None:
    assert [path.name[:3] for path in SCRIPTS] == [f"c{i:02}" for i in range(1, 11)]


def test_every_finding_is_whole(found: dict[str, list[Finding]]) -> None:
    for claim, findings in found.items():
        assert findings[0].draw is not None and findings[0].caption and findings[0].table is not None, claim
        for finding in findings:
            assert finding.claim == claim.upper()
            assert finding.plain.endswith(".") and "nan" not in finding.plain and "inf " not in finding.plain
            if finding.estimate is not None and finding.lower is not None and finding.upper is not None:
                assert finding.lower <= finding.estimate <= finding.upper
            assert set(finding.reproduced) or not finding.published or finding.verdict == UNMEASURED


SHOWN = {"c01": 22, "c02": 1, "c03": 18, "c06": 1, "c09": 40, "c10": 14}
"""Least number of published figures that each claim shows; the others have none."""
DO_NOT_FOLLOW = {
    "c01": {"r of the text", "p of the text"},
    "c02": {"total gain ≤"},
    "c03": {"others expand, %", "Fisher p <", "mean gain EleutherAI"},
    "c09": {"error within heritage, % of depth", "error of L/2, % of depth"},
}
IN_FIGURES_ONLY = {
    "c06": {"ratio of squared W_V norms, late layers"},
    "c09": {
        f"L* of {name} in figure 5"
        for name in ("pythia-160m", "pythia-410m", "bloom-560m", "opt-125m", "opt-350m", "gpt2")
    },
    "c10": {"critical ρ, lower", "critical ρ, upper"},
}


@pytest.mark.parametrize("claim", [path.name[:3] for path in SCRIPTS])
def test_published_figures_stand_beside_the_recomputed_ones(found: dict[str, list[Finding]], claim: str) -> None:
    rows = [row for finding in found[claim] for row in comparison(finding.published, finding.reproduced)]
    printed = {row.name: row.agrees for row in rows if row.published}
    assert len(printed) >= SHOWN.get(claim, 0)
    assert {name for name, agrees in printed.items() if agrees is False} == DO_NOT_FOLLOW.get(claim, set())
    assert {name for name, agrees in printed.items() if agrees is None} == IN_FIGURES_ONLY.get(claim, set())


@pytest.mark.parametrize("claim", [path.name[:3] for path in SCRIPTS])
def test_figures_are_drawn(found: dict[str, list[Finding]], claim: str) -> None:
    draw = found[claim][0].draw
    assert draw is not None
    axes = Figure().add_subplot()
    draw(axes)
    assert axes.has_data()


@pytest.mark.parametrize(
    ("claim", "number", "name", "follows"),
    [
        ("c01", 0, "r of the text", False),
        ("c01", 0, "p of the text", False),
        ("c01", 0, "r of the later note", True),
        ("c01", 0, "p of the later note", True),
        ("c02", 0, "total gain ≤", False),
        ("c03", 0, "EleutherAI dampens, %", True),
        ("c03", 0, "others expand, %", False),
        ("c03", 0, "Fisher p <", False),
        ("c03", 0, "mean gain EleutherAI", False),
        ("c03", 0, "mean gain TII", True),
        ("c03", 0, "mean gain StabilityAI", True),
        ("c03", 0, "mean gain Meta", True),
        ("c03", 0, "mean gain BigScience", True),
        ("c09", 0, "error across heritages, % of depth", True),
        ("c09", 0, "error within heritage, % of depth", False),
        ("c09", 0, "error of L/2, % of depth", False),
        ("c10", 0, "accuracy in the hunt, %", True),
        ("c10", 0, "ρ of GPT-J-6B", True),
        ("c10", 1, "r of ρ and gain in the file", True),
    ],
)
def test_published_figures(found: dict[str, list[Finding]], claim: str, number: int, name: str, follows: bool) -> None:
    finding = found[claim][number]
    assert agrees(name, finding.published[name], finding.reproduced[name]) is follows


@pytest.mark.parametrize(
    ("claim", "name", "printed"),
    [
        ("c01", "r with ρ in place of depth", "-0.81"),
        ("c01", "p with ρ in place of depth", "0.014"),
        ("c01", "r of the text", "-0.88"),
        ("c03", "median gain EleutherAI", "0.99"),
        ("c03", "Fisher p <", "0.036"),
        ("c09", "error of L/2, % of depth", "15.97"),
    ],
)
def test_computations_that_do_give_them(found: dict[str, list[Finding]], claim: str, name: str, printed: str) -> None:
    decimals = len(printed.split(".")[1])
    assert f"{found[claim][0].reproduced[name]:.{decimals}f}" == printed


@pytest.mark.parametrize(
    ("squared", "right", "verdict"), [(300.0, True, YES), (30.0, True, NO), (300.0, False, UNMEASURED)]
)
def test_late_layers_verdict(squared: float, right: bool, verdict: str) -> None:
    c06 = load("c06")
    rows = pd.DataFrame(
        [
            {"model_id": model, "heritage": lab, "layer": layer, "squared": value, "right": right}
            for model, lab, value in (("a", "EleutherAI", squared), ("b", "Meta", 1.0))
            for layer in range(1, 13)
        ]
    )
    late = c06.late_means(rows, pd.Series({"a": 12, "b": 12}))
    assert c06.verdict(c06.pairs(late)) == verdict


def test_dense_operator_is_the_kronecker_product() -> None:
    """L_F = L_G ⊗ WᵀW for one head, built here from the graph Laplacian instead of edge by edge."""
    rng = np.random.default_rng(3)
    A = np.tril(rng.random((1, 4, 4)))
    W = rng.normal(size=(1, 2, 3))
    w = (A[0] + A[0].T) / 2
    np.fill_diagonal(w, 0.0)
    graph = np.diag(w.sum(axis=1)) - w
    assert np.allclose(load("c07").dense_operator(A, W), np.kron(graph, W[0].T @ W[0]))


def test_identities_are_told_from_the_printed_formula(found: dict[str, list[Finding]]) -> None:
    assert [finding.verdict for finding in found["c07"]][:3] == [YES, YES, NO]


@pytest.mark.parametrize(("formula", "half", "verdict"), [(3.0, 20.0, YES), (20.0, 3.0, NO), (10.0, 10.0, OPEN)])
def test_transition_verdict(formula: float, half: float, verdict: str) -> None:
    c09 = load("c09")
    noise = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 0.5])
    rows = made(6, kind="figure", n_layers=20.0, layer=[9.0, 11.0, 12.0, 8.0, 10.0, 13.0], formula=10.0, half=10.0)
    rows = rows.assign(error_formula=formula + noise, error_half=half - noise)
    assert c09.one_definition(rows, "figure").verdict == verdict


def test_steepest_change_is_found_as_in_the_files(tables: Evidence) -> None:
    """Where the files took all heads, the layer found here is the published one."""
    published = tables.table("transitions", source=H4_EXTENDED, definition="max_abs_gradient").dropna(subset="layer")
    found = all_heads(tables).set_index("model_id")["layer"]
    assert len(published) == 3
    assert (published.set_index("model_id")["layer"] - 1 == found[published["model_id"]]).all()
