"""The eight L* to which the constants of the study's formula were fitted, from notes that its
author removed."""

import csv
from pathlib import Path

from source import Tables

from thermostats.tables.export import Source

SOURCE = Source(
    name="buk81-lstar-calibration",
    title="L* of the eight models to which the constants of the studied formula were fitted",
    address="github.com/buk81/uniformity-asymmetry",
    commit="e3c7f94beb01a75e6774173ee3beeff3806d209c",
    licence="MIT",
    licence_file="../buk81-removed/LICENSE",
    left_out="gains and labels of behaviour in the same tables, copied from files that are "
    "published",
)
FILE = "lstar_calibration.csv"
PROMPTS = "removed_calibration"
INSTRUMENT = "index of a layer on a curve of traces, which is not in the file"
INDEX, PREDICTED = "L_star_calibration_index", "L_star_calibration_predicted"
"""L* as it stands in the notes, counted from 0, and what their table says that the formula
gives."""
NAN = "index of the first NaN"
NOT_AN_EXTREME = "the published index is where the first NaN stands, not an extreme"
"""Said of the same two models in the published files too."""


def tables(folder: Path) -> Tables:
    """L* as a layer counted from 1, empty where the index is that of a NaN; the indices as they
    stand are summaries."""
    made = Tables(SOURCE)
    made.prompts(PROMPTS, ["unstated"], "unstated")
    with (folder / FILE).open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            run = made.run(row["model_id"], PROMPTS, INSTRUMENT)
            index = float(row["l_star"])
            depth = float(row["n_layers"])
            made.summaries(run, {INDEX: index, PREDICTED: float(row["predicted_in_the_table"])})
            place = {"run_id": run, "definition": "calibration", "trace_variant": "unstated"}
            found = {"layer": index + 1, "relative_depth": (index + 1) / depth}
            unknown = {"missing": NOT_AN_EXTREME}
            made.add("transitions", [place | (unknown if row["note"] == NAN else found)])
    return made
