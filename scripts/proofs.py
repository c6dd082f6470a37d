"""Prove a tiny model of every class under the transformers that is installed: `data/proofs.csv`.

`proofs.py bloom gemma2` for some classes; `--missing`: only those without a row of this version, as
after an interruption. The file is written after every class; rows of other versions stay as they
are. Models are those of the conformance suite, saved and loaded again, their windows narrower than
the longest input.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "measurement"))

import tiny  # noqa: E402
import transformers  # noqa: E402
from test_towers import whole  # noqa: E402

from thermostats.errors import ThermostatsError, take_first_line  # noqa: E402
from thermostats.measurement.architectures import ARCHITECTURES, TEXT_TOWERS  # noqa: E402
from thermostats.measurement.proving import FAILS, HOLDS, ModelProof, prove  # noqa: E402
from thermostats.measurement.session import set_quiet  # noqa: E402
from thermostats.tables import store  # noqa: E402
from thermostats.tables.folders import write_atomically  # noqa: E402
from thermostats.tables.schemas import TABLES  # noqa: E402

FILE = ROOT / "data" / "proofs.csv"
WINDOW = 4
"""Tokens that a windowed block sees, fewer than the longest input has."""
WINDOWS = ("sliding_window", "attention_window_size")
"""Configuration keys of it."""


def is_known(name: str) -> bool:
    """Whether the transformers that is installed has a class."""
    if name in TEXT_TOWERS:
        return name in transformers.CONFIG_MAPPING
    return name in tiny.CONFIGURATIONS and hasattr(transformers, tiny.CONFIGURATIONS[name][0])


def build(name: str) -> Any:
    """The tiny model of an entry, or of a class with a text tower, as it is saved."""
    if name in TEXT_TOWERS:
        return whole(name)
    kind, arguments = tiny.CONFIGURATIONS[name]
    make = getattr(transformers, kind)
    stated = make(**arguments).to_dict()
    inner = stated.get("text_config", stated)
    narrow = {key: WINDOW for key in WINDOWS if inner.get(key)}
    if "text_config" in arguments:
        return tiny.build_whole(
            make(**{**arguments, "text_config": {**arguments["text_config"], **narrow}})
        )
    return tiny.build_whole(make(**{**arguments, **narrow}))


def prove_class(name: str) -> ModelProof:
    """What is proved of a class: its tiny model, saved, found and loaded as any model's folder
    is."""
    with TemporaryDirectory() as folder:
        build(name).save_pretrained(folder)
        return prove(folder)


def make_row(name: str, proof: ModelProof) -> dict[str, Any]:
    """The row of a class."""
    held = [each for each in proof.identities if each.state == HOLDS]
    largest = max(held, key=lambda each: each.difference or 0.0)
    failed = [each.name for each in proof.identities if each.state == FAILS]
    return {
        "architecture": name,
        "transformers": proof.transformers,
        "torch": proof.torch.partition("+")[0],
        "dtype": proof.dtype,
        "held": len(held),
        "failed": " ".join(failed),
        "difference": largest.difference,
        "identity": largest.name,
        "place": largest.place,
        "not_covered": "; ".join(proof.uncovered),
        "inputs": proof.prompts,
        "proved_on": datetime.now(UTC).date().isoformat(),
    }


def read_rows() -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of the file by class and version."""
    if not FILE.is_file():
        return {}
    rows = store.validate(store.read_typed(FILE, "proofs"), "proofs", FILE)
    return {(row["architecture"], row["transformers"]): row for row in rows.to_dict("records")}


def write_rows(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Write the file."""
    frame = pd.DataFrame(list(rows.values()), columns=list(TABLES["proofs"].columns))
    write_atomically(FILE, store.encode_csv(store.validate(frame, "proofs", FILE), "proofs"))


def main() -> None:
    """Prove every class asked for, and write its row."""
    parser = ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    every = [*(entry.name for entry in ARCHITECTURES), *TEXT_TOWERS]
    parser.add_argument("classes", nargs="*", choices=[*every, []], default=[], metavar="CLASS")
    parser.add_argument("--missing", action="store_true")
    arguments = parser.parse_args()
    set_quiet()
    rows = read_rows()
    number = version("transformers")
    failed: list[str] = []
    left_out: list[str] = []
    for name in arguments.classes or every:
        if arguments.missing and (name, number) in rows:
            continue
        if not is_known(name):
            print(f"{name}: left out, transformers {number} has no such class", flush=True)
            continue
        try:
            proof = prove_class(name)
        except (ImportError, AttributeError, TypeError, ValueError, ThermostatsError) as error:
            print(f"{name}: left out, {type(error).__name__}: {take_first_line(error)}", flush=True)
            left_out.append(name)
            continue
        rows[name, number] = make_row(name, proof)
        failed += [name] * (not proof.passed)
        write_rows(rows)
        print(f"{name}: {proof.badge}", flush=True)
    if failed or left_out:
        sys.exit(
            f"not proved: {', '.join(failed) or 'none'}; left out: {', '.join(left_out) or 'none'}"
        )


if __name__ == "__main__":
    main()
