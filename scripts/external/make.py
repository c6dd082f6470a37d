"""Other people's measurements as tables: `python scripts/external/make.py FOLDER` writes
`data/external`.

FOLDER holds one folder a source, with its files as published and its licence; one with a
`source.toml` was written by `thermostats export contribution`. The same files give the same bytes.
Nothing is written where a licence forbids shipping, a file is missing, or rows do not fit the
tables.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import gpt2_pythia
import instruct_models
import l_star_calibration
import llama_scope
import logos_in_layers
import pandas as pd
import standard_model
import study_removed
from contribution import contributions
from source import Tables

from thermostats.errors import DataError, ThermostatsError
from thermostats.tables import store
from thermostats.tables.export import FILE, Source
from thermostats.tables.export import LICENCE_FILE as LICENCE
from thermostats.tables.folders import write_atomically
from thermostats.tables.identities import count_parameters
from thermostats.tables.schemas import add_later_columns, list_dtypes
from thermostats.tables.store import check_licence

HERE = Path(__file__).parent
OUT = Path(__file__).resolve().parents[2] / "data" / "external"
SOURCES = (
    *(logos_in_layers, study_removed, l_star_calibration, llama_scope, instruct_models),
    *(gpt2_pythia, standard_model),
)
ALIKE = {
    "revision": "main",
    "n_positions": 0,
    "gated_mlp": True,
    "norm_kind": "RMSNorm",
    "position_scheme": "rotary",
}
ALIKE |= {"parallel_block": False}
"""What the configurations of all these models have in common."""
INTRODUCTION = (
    "Made by `scripts/external/make.py`. `models.csv` holds facts of models from their public "
    "configurations; each "
    "folder has the licence of its source, and in `source.toml` where its figures come from. A row "
    "of `runs` says "
    "source, licence, instrument and precision, and a row of `layers` the position of the token."
)
SANDWICH = ("gemma2",)
"""Architectures that norm what a sub-block writes as well as what it reads."""


def models() -> pd.DataFrame:
    """Facts of the models that the study did not publish, from their configurations; weights by
    their formula."""
    rows = pd.read_csv(HERE / "models.csv", keep_default_na=False).assign(**ALIKE)
    rows["d_embed"] = rows["d_model"]
    rows["norm_place"] = [
        "sandwich" if architecture in SANDWICH else "pre" for architecture in rows["architecture"]
    ]
    counts = [
        count_parameters({str(name): value for name, value in row.items()})
        for row in rows.to_dict("records")
    ]
    rows["n_params"], rows["n_params_nonembedding"] = zip(*counts, strict=True)
    return add_later_columns(rows, "models")[list(list_dtypes("models"))]


def licence(source: Source, folder: Path) -> bytes:
    """A source's licence, or who states it; refused where it forbids shipping, or is not what was
    declared."""
    check_licence(source.licence, source.name)
    if not source.licence_file:
        return source.statement()
    path = folder / source.licence_file
    text = path.read_bytes()
    if source.licence.casefold() not in text.decode().partition("\n")[0].casefold():
        got = text.decode()[:60]
        raise DataError(
            "the licence is not the one declared", where=path, got=got, allowed=source.licence
        )
    return text


def readme(made: list[Tables]) -> bytes:
    """What is there, from where, and what was left out."""
    lines = ["# Other people's measurements", "", INTRODUCTION, ""]
    for tables in made:
        source = tables.source
        counts = ", ".join(
            f"{len(rows)} rows of {name}" for name, rows in sorted(tables.rows.items())
        )
        where = f"{source.address}, {source.commit}; licence {source.licence}"
        lines += [f"## {source.name}", "", f"{source.title}. {where}."]
        lines += [f"Left out: {source.left_out}."] * bool(source.left_out)
        instruments = sorted({row["instrument"] for row in tables.rows["runs"]} - {"unstated"})
        lines += [
            "",
            *(f"- Instrument: {name}." for name in instruments),
            f"- {counts[0].upper()}{counts[1:]}.",
            "",
        ]
    return "\n".join(lines).encode()


def files(folder: Path) -> dict[str, bytes]:
    """Every file of `data/external` by its path there. Raises where something is wrong with a
    source."""
    made = []
    contents = {"models.csv": store.encode_csv(models(), "models")}
    for reader in (*SOURCES, *contributions(folder)):
        source = reader.SOURCE
        place = folder / source.name
        if not place.is_dir():
            raise DataError(
                "a source's files are missing",
                where=place,
                next_step="name the folder that holds them all",
            )
        contents[f"{source.name}/{LICENCE}"] = licence(source, place)
        contents[f"{source.name}/{FILE}"] = source.toml()
        tables = reader.tables(place)
        made.append(tables)
        for name, rows in tables.rows.items():
            contents[f"{source.name}/{name}.csv"] = store.encode_csv(pd.DataFrame(rows), name)
    return contents | {"README.md": readme(made)}


def main() -> int:
    """Make the files and put them in the place of those that are there."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("folder", type=Path, help="the sources' files, a folder a source")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    try:
        contents = files(arguments.folder)
    except (ThermostatsError, OSError) as error:
        print(error, file=sys.stderr)
        return getattr(error, "exit_code", 1)
    for name, content in contents.items():
        (arguments.out / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.out / name, content)
    for folder in {(arguments.out / name).parent for name in contents} - {arguments.out}:
        for stale in (
            path for path in folder.glob("*.csv") if f"{folder.name}/{path.name}" not in contents
        ):
            stale.unlink()
    print(f"{arguments.out}: {len(contents)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
