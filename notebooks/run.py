"""Make the notebooks from their scripts, with what they print: `python notebooks/run.py`."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
TORCH = "torch"
"""Tag of cells that measure: without torch they are skipped."""
SCRIPTS = sorted(path for path in HERE.glob("*.py") if path.name != "run.py")


def executed(script: Path, folder: Path) -> Any:
    """The notebook of a script, run in a folder; nbclient's CellExecutionError names the cell that fails."""
    notebook = jupytext.read(script)
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number:02d}"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=600,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        skip_cells_with_tag="" if find_spec(TORCH) else TORCH,
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _worth_keeping(output)]
    notebook.metadata.pop("language_info", None)
    return notebook


def _worth_keeping(output: Any) -> bool:
    """Not progress on standard error, and not empty lines."""
    return output.output_type != "stream" or (output.name == "stdout" and bool(output.text.strip()))


def main() -> None:
    """Run every script and write its notebook."""
    for script in SCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(script, Path(folder))
        jupytext.write(notebook, script.with_suffix(".ipynb"), fmt="ipynb")
        print(script.with_suffix(".ipynb").name)


if __name__ == "__main__":
    main()
