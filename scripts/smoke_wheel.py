"""Install the wheel alone and use it in an empty folder: `python scripts/smoke_wheel.py WHEEL
PYTHON...`.

The wheel comes from `python -m build`. Each interpreter gets an environment in FOLDER, which is
used again when the script is run again: without torch, or with --measure beside it one with the
extra. --report also makes the whole report. Nothing of the checkout is on the path; of its pages
the Python lines are run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "docs"))
from page_blocks import blocks, matches  # noqa: E402

LARGEST = 12
"""MB of a wheel."""
BEYOND = 350
"""MB that an installation without extras may weigh beyond PyMC and matplotlib, which PyMC 5
requires and PyMC 6 not."""
WEIGH = """
import json
from importlib.metadata import distribution, distributions
from packaging.requirements import Requirement

names, waiting = set(), ["pymc", "matplotlib"]
while waiting:
    name = waiting.pop().lower().replace("_", "-")
    if name not in names:
        names.add(name)
        needs = [Requirement(line) for line in distribution(name).requires or []]
        waiting += [need.name for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]
sizes = {}
for each in distributions():
    name = each.name.lower().replace("_", "-")
    if name not in names | {"pip", "setuptools"}:
        paths = [each.locate_file(file) for file in each.files or []]
        sizes[name] = sum(path.stat().st_size for path in paths if path.is_file()) / 1e6
print(json.dumps(sizes))
"""  # noqa: E501
FIT = """
import pandas as pd
from thermostats.modelling.shares import fit_share
rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(12)], "heritage": list("aabbccddeeff"), "grows": [1, 0] * 6})
fit = fit_share(rows.assign(grows=rows["grows"] == 1), "grows", against=0.5, seed=1)
posterior = fit.to_arviz()["posterior"]
assert set(posterior.dims) >= {"chain", "draw"}, posterior
assert fit.status == "passed", fit.status
assert 0.2 < fit.probabilities["share > 0.5"] < 0.8, fit.probabilities
"""  # noqa: E501
MAP = """table = "layers"
[columns]
block = "layer"
growth = "gain_block"
[constants]
position = "last"
prompt_id = ""
source = "smoke"
model_id = "EleutherAI/pythia-160m"
"""
GAINS = "block,growth\n1,8.0\n2,1.2\n3,1.1\n"


class Place:
    """An empty folder, an environment with the wheel, and nothing else."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.bin, self.folder = environment / "bin", folder
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "THERMOSTATS"))
        }
        self.variables = {
            **clean,
            "PATH": f"{self.bin}:{clean['PATH']}",
            "THERMOSTATS_CACHE": "off",
        }

    def run(self, *command: str, code: int = 0) -> str:
        """Standard output of a command, or standard error where it is to fail; stops the script at
        another code."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            sys.exit(
                f"{' '.join(command)}: exit code {done.returncode}, expected "
                f"{code}\n{done.stdout}{done.stderr}"
            )
        return done.stderr if code else done.stdout


def page(place: Place, name: str) -> bool:
    """Whether the Python lines of a page print what stands below them."""
    page = blocks((ROOT / name).read_text(encoding="utf-8"))
    lines = [block for block in page if block.language == "python" and not block.note]
    printed = place.run(str(place.bin / "python"), "-c", "\n".join(block.code for block in lines))
    return matches("".join(block.output or "" for block in lines), printed)


def weight(place: Place) -> tuple[str, bool]:
    """What an installation weighs beyond PyMC's and matplotlib's, the heaviest named, and whether
    it may."""
    sizes: dict[str, float] = json.loads(place.run(str(place.bin / "python"), "-c", WEIGH))
    heaviest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    named = ", ".join(f"{name} {size:.0f}" for name, size in heaviest)
    return f"{sum(sizes.values()):.0f} MB beyond PyMC's and matplotlib's ({named})", sum(
        sizes.values()
    ) <= BEYOND


def uses(place: Place) -> Iterator[tuple[str, bool]]:
    """What a newcomer does, and whether it came out."""
    thermostats = str(place.bin / "thermostats")
    python = str(place.bin / "python")
    version = place.run(thermostats, "--version").strip()
    yield "versions agree", version == place.run(python, "-m", "thermostats", "--version").strip()
    where = place.run(python, "-c", "import thermostats; print(thermostats.__file__)")
    yield "it is the wheel", "site-packages" in where
    checks = json.loads(place.run(thermostats, "doctor", "--json"))
    states = {check["name"]: check["state"] for check in checks}
    versions = {check["name"]: check["found"] for check in checks}
    yield "doctor", "broken" not in states.values()
    yield f"libraries {versions['libraries']}", states["libraries"] == "ok"
    yield "the README's lines", page(place, "README.md")
    yield (
        "completion",
        "complete" in place.run("bash", "-c", f"{thermostats} --show-completion; exit $?"),
    )
    yield "tables", "layers\t" in place.run(thermostats, "check")
    yield "claims", len(json.loads(place.run(thermostats, "ls", "claims", "--json"))) >= 20
    (place.folder / "map.toml").write_text(MAP)
    (place.folder / "gains.csv").write_text(GAINS)
    joined = place.run(thermostats, "join", "gains.csv", "--map", "map.toml", "--data", "mine")
    yield "join", "layers\t3\t0\t0" in joined
    yield (
        "own rows and the package's",
        "smoke" in place.run(thermostats, "ls", "runs", "--data", "mine"),
    )
    path = place.run(thermostats, "new", "claim", "my idea").strip()
    yield "own claim alone", place.run(python, path).startswith("U01")
    place.run(
        thermostats, "report", "--analyses", "analyses", "--data", "mine", "--out", "mine-report"
    )
    yield (
        "own claim in a report",
        "U01\tclaim" in place.run(thermostats, "findings", "--out", "mine-report"),
    )
    place.run(thermostats, "report", "C20")
    yield "a claim of the study", (place.folder / "reports" / "c20" / "index.html").is_file()
    place.run(thermostats, "export", "tables")
    yield "export", (place.folder / "tables" / "datapackage.json").is_file()
    yield "citations", "10.5281/zenodo.18165365" in place.run(thermostats, "cite")
    place.run(thermostats, "power", "C02", "--models", "20", "--labs", "5", "--studies", "50")
    place.run(python, "-c", FIT)
    yield "a fit of the installed generation of PyMC", True


def without_torch(place: Place) -> Iterator[tuple[str, bool]]:
    """What holds of an installation without extras."""
    yield (
        "no torch",
        "No module named 'torch'"
        in place.run(str(place.bin / "python"), "-c", "import torch", code=1),
    )
    refused = place.run(str(place.bin / "thermostats"), "measure", "gpt2", "--data", "mine", code=2)
    yield "measuring names the extra", "thermostats[measure]" in refused
    place.run(str(place.bin / "python"), str(ROOT / "scripts" / "bare_calls.py"))
    yield "every verb and every public function", True
    yield weight(place)


def with_torch(place: Place) -> Iterator[tuple[str, bool]]:
    """Models are made and measured as a page does it."""
    yield "measuring", page(place, "docs/how-to/encoders-and-vision.md")


def whole_report(place: Place) -> Iterator[tuple[str, bool]]:
    """Every claim."""
    place.run(str(place.bin / "thermostats"), "report", "--all", "--out", "whole")
    claims = json.loads(place.run(str(place.bin / "thermostats"), "ls", "claims", "--json"))
    pages = [place.folder / "whole" / claim["claim"].lower() / "index.html" for claim in claims]
    yield f"report --all, {len(pages)} claims", all(path.is_file() for path in pages)


def installed(wheel: Path, interpreter: str, folder: Path, *, measure: bool) -> Path:
    """An environment with the wheel and what it needs; made once, the wheel put in anew each
    time."""
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    pip += [
        "--constraint",
        str(ROOT / "constraints.txt"),
    ] * measure  # the build of torch that the tests know
    name = subprocess.run(
        [interpreter, "-V"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    environment = folder / f"{name}{'-measure' * measure}"
    if not environment.is_dir():
        subprocess.run([interpreter, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run([python, *pip, f"{wheel}{'[measure]' * measure}"], check=True)
    subprocess.run([python, *pip, "--force-reinstall", "--no-deps", str(wheel)], check=True)
    return environment


def main() -> None:
    """Go through all interpreters; stop at the first thing that does not come out."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("python", nargs="+", help="interpreters, such as python3.12")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/smoke"), help="where the environments are kept"
    )
    parser.add_argument("--install-only", action="store_true")
    parser.add_argument("--measure", action="store_true", help="with the extra, and measure")
    parser.add_argument("--report", action="store_true", help="also make the whole report")
    parser.add_argument("--bare", action="store_true", help="only what holds without extras")
    chosen = parser.parse_args()
    size = chosen.wheel.stat().st_size / 1e6
    print(f"wheel: {size:.1f} MB", flush=True)
    if size > LARGEST:
        sys.exit(f"the wheel is larger than {LARGEST} MB")
    parts = [with_torch if chosen.measure else without_torch, *[whole_report] * chosen.report]
    parts = parts if chosen.bare else [uses, *parts]
    for interpreter in chosen.python:
        began = time.perf_counter()
        environment = installed(
            chosen.wheel.resolve(), interpreter, chosen.folder.resolve(), measure=chosen.measure
        )
        print(f"{environment.name}: installed in {time.perf_counter() - began:.0f} s", flush=True)
        if chosen.install_only:
            continue
        with tempfile.TemporaryDirectory() as empty:
            place = Place(environment, Path(empty))
            for what, good in (each for part in parts for each in part(place)):
                print(f"{environment.name}: {what}: {'yes' if good else 'NO'}", flush=True)
                if not good:
                    sys.exit(1)
        print(f"{environment.name}: all in {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
