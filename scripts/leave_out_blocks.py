"""Leave each block of the packaged models out, and write what that does as rows that ship:
`python -m scripts.leave_out_blocks [--stories FOLDER]`.

Rows are those of `thermostats do MODEL "without every block" --prompts core`. They are added to
`data/nursery/interventions-blocks.parquet`, those of karpathy/stories260K, whose folder --stories
names, to `data/measured/`; rows that are there stay as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from scripts.pack_runs import add_rows, write
from scripts.steer_nursery import STORIES, find_last_step
from thermostats.measurement.actions import EVERY_BLOCK, change_model, expand_action, parse_actions
from thermostats.measurement.intervention_rows import Subject, describe_action
from thermostats.measurement.opened_models import ModelRequest, open_model
from thermostats.measurement.steering_spec import SteeringSettings
from thermostats.tables import store
from thermostats.tables.choices import of_interventions
from thermostats.tables.folders import ARCHIVE, find_shipped, list_shipped_models, prepare_folder
from thermostats.tables.schemas import NURSERY, OURS

PROMPTS = "core"
"""The texts on which gains of models are measured, so that effects are on the same ones."""
GAIN = "penultimate_gain"
SETTINGS, SEED = SteeringSettings(), 1


@dataclass(frozen=True)
class Model:
    """A model whose blocks are left out: where it is, name, source of its rows, the archive's
    folder."""

    address: str
    name: str
    source: str
    place: str
    older: str = ""


def list_models(stories: Path | None) -> Iterator[Model]:
    """The packaged models, and stories260k where its folder is given."""
    for folder in list_shipped_models():
        name = f"{NURSERY}/{folder.name}"
        yield Model(f"{folder}@{find_last_step(name)}", name, NURSERY, NURSERY)
    if stories is not None:
        yield Model(str(stories), STORIES, OURS, "measured", older="same")


def leave_out(model: Model, data: Path) -> None:
    """Rows of every block of a model, each left out by itself."""
    request = ModelRequest(
        model.address,
        None,
        data,
        PROMPTS,
        "float32",
        "cpu",
        model.name,
        source=model.source,
        older=model.older,
    )
    with open_model(request, reads_texts=True) as opened:
        depth = len(opened.base.blocks)
        subject = Subject.read(opened.base, None, opened.hold_out(SETTINGS, SEED))
        keeper = opened.keep_rows()
        for text in expand_action(EVERY_BLOCK, depth):
            changed = change_model(opened.base, parse_actions(text, depth))
            facts = describe_action(text, GAIN, SETTINGS, SEED)
            keeper.keep(subject.describe_change(changed, GAIN, facts), 0.0)


def pack_rows(place: str, source: str, data: Path) -> None:
    """Add the rows of a source to its archives."""
    runs = store.load("runs", data)
    runs = runs[
        of_interventions(runs) & (runs["source"] == source) & (runs["prompt_set"] == PROMPTS)
    ]
    rows = store.load("interventions", data)
    tables = {"runs": runs, "interventions": rows[rows["run_id"].isin(runs["run_id"])]}
    for name, frame in tables.items() if len(runs) else ():
        path = find_shipped("data") / place / f"{name}-blocks{ARCHIVE}"
        added = add_rows(frame, name, path)
        write(added, name, path)
        print(place, name, len(added))


def main() -> None:
    """Leave blocks out and pack."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--stories", type=Path)
    models = list(list_models(parser.parse_args().stories))
    torch.set_num_threads(1)
    with TemporaryDirectory() as temporary:
        data = prepare_folder(Path(temporary) / "rows")
        for model in models:
            leave_out(model, data)
        for place, source in sorted({(model.place, model.source) for model in models}):
            pack_rows(place, source, data)


if __name__ == "__main__":
    main()
