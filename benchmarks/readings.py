"""What the columns about what readers see cost: `benchmarks/readings.py`, seconds of the processor
with and without.

Random models of width 768 and 12 blocks on one core, as in `proof.py`: weights alone, gains alone,
and all that `measure` does by itself, in turn with and without, medians of `--repeats`. Without:
nothing is centred, and W_V and W_O are neither folded nor balanced.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any
from unittest import mock

import pandas as pd
import proof as sizes
import tiny
import transformers
from test_loading import write_tokenizer

from thermostats.measurement import forward, gains, spectra
from thermostats.measurement.session import measure_one
from thermostats.measurement.spec import WHAT, RunSpec
from thermostats.tables.folders import start_folder

FILE = sizes.ROOT / "benchmarks" / "results" / "readings.csv"
FAMILIES = ("gpt_neox", "gpt2", "llama")
KINDS = {"weights": ("weights",), "gains": ("gains",), "all": tuple(WHAT)}


def seconds(folder: Path, what: tuple[str, ...], *, reading: bool) -> float:
    """Processor's seconds of measuring a model's folder."""
    never = mock.patch.object
    spec = RunSpec(model=str(folder), name="own/model", heritage="Own", prompts="core", what=what)
    with TemporaryDirectory() as data, start_folder(f"{data}/mine") as rows:
        began = process_time()
        if reading:
            outcome = measure_one(spec, rows)
        else:
            plain: Any = lambda *_: False  # noqa: E731
            with (
                never(forward, "reads_centred", plain),
                never(gains, "reads_centred", plain),
                never(spectra, "_add_read_norms", lambda *_: None),
            ):
                outcome = measure_one(spec, rows)
        took = process_time() - began
    if outcome.status != "measured":
        sys.exit(outcome.problem.reason)
    return took


def main() -> None:
    """Measure every family and write the table."""
    parser = ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats: int = parser.parse_args().repeats
    rows = []
    for name in FAMILIES:
        kind = getattr(transformers, tiny.CONFIGURATIONS[name][0])
        fields = kind().to_dict()
        fits = {
            key: value
            for key, value in sizes.SIZE.items()
            if key in fields or key in kind.attribute_map
        }
        with TemporaryDirectory() as folder:
            tiny.from_config(kind(**fits)).save_pretrained(folder)
            write_tokenizer(Path(folder))
            for label, what in KINDS.items():
                pairs = [
                    [seconds(Path(folder), what, reading=on) for on in (False, True)]
                    for _ in range(repeats)
                ]
                without, with_ = (median(column) for column in zip(*pairs, strict=True))
                rows.append(
                    {
                        "family": name,
                        "what": label,
                        "without": without,
                        "with": with_,
                        "cost": with_ / without - 1,
                    }
                )
                print(rows[-1], flush=True)
    pd.DataFrame(rows).round(3).to_csv(FILE, index=False)


if __name__ == "__main__":
    main()
