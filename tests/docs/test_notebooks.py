"""Every notebook has the cells of its script, runs, and prints what it was committed with."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from page_blocks import ROOT, loaded

jupytext = pytest.importorskip("jupytext")
pytest.importorskip("ipykernel")


RUN = loaded("notebooks/run.py")
SAMPLED = {"heritage_with_checks"}
"""Their digits are another processor's: what they say is compared, their numbers are not."""
NAMES = [script.stem for script in RUN.SCRIPTS]
LONG = {"every_day"}


def _printed(notebook: Any) -> list[str]:
    """What each cell prints, in order, in however many pieces it came; values and figures are not
    compared."""
    return [
        "".join(output["text"] for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code" and _runs(cell)
    ]


def _runs(cell: Any) -> bool:
    return bool(find_spec(RUN.TORCH)) or RUN.TORCH not in cell.metadata.get("tags", [])


def _said(name: str, text: str) -> str:
    return " ".join(re.sub(r"-?\d+(\.\d+)?", "0", text).split()) if name in SAMPLED else text


@pytest.mark.parametrize("script", RUN.SCRIPTS, ids=lambda path: path.stem)
def test_notebook_is_paired(script: Path) -> None:
    source, notebook = jupytext.read(script), jupytext.read(script.with_suffix(".ipynb"))
    assert [(c.cell_type, c.source) for c in notebook.cells] == [
        (c.cell_type, c.source) for c in source.cells
    ], "the notebook is not that of its script: python notebooks/run.py"


SHOWN = {
    "fit.plot()": "image/png",
    "fit.plot().figure": "image/png",
    "fit": "text/html",
    "thermostats.profile('SmolLM2-135M-Instruct')": "image/png",
    "found[0]": "text/html",
}
"""Last lines of cells, and how a notebook shows their values."""
MADE = """
import thermostats
from thermostats.claims.evidence import Evidence
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.tables.folders import find_shipped

rows = thermostats.model_rows("published", "penultimate_gain")
fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
found = load_claim(list_scripts(find_shipped("analyses"))["C03"]).judge(Evidence())
"""


@pytest.mark.slow
def test_a_notebook_shows_figures_and_findings(tmp_path: Path) -> None:
    """Without pyplot, which would show figures that it made."""
    script = tmp_path / "shown.py"
    script.write_text("# %%\n" + MADE + "".join(f"\n# %%\n{line}\n" for line in SHOWN))
    cells = [each for each in RUN.executed(script, tmp_path).cells if each.cell_type == "code"]
    for cell, kind in zip(cells[1:], SHOWN.values(), strict=True):
        data = [output["data"] for output in cell.outputs if "data" in output]
        assert data and kind in data[-1], cell.source
    assert "<svg" in cells[-1].outputs[-1]["data"]["text/html"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in NAMES]
)
def test_notebook_runs(name: str, tmp_path: Path) -> None:
    script = ROOT / "notebooks" / f"{name}.py"
    if any("measure(" in cell.source and _runs(cell) for cell in jupytext.read(script).cells):
        pytest.importorskip(RUN.TORCH)
    notebook = RUN.executed(script, tmp_path)
    committed = jupytext.read(script.with_suffix(".ipynb"))
    printed, known = (
        [_said(name, text) for text in _printed(one)] for one in (notebook, committed)
    )
    assert printed == known, "the notebook prints something else by now: python notebooks/run.py"
    assert any(printed)
