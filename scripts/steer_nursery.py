"""Make the shipped rows of `interventions`: `python -m scripts.steer_nursery FOLDER`.

Into FOLDER go corpora, the models of the nursery's fourth study, and below `rows` their
interventions; what is there is not made again, so that the same command resumes after an
interruption. With --shard K/N it takes every N-th model; with --stories the folder of
karpathy/stories260K is steered too, and with --only MODEL… these alone; with --pack, when all
is there, rows are added to `data/nursery/interventions-steered.parquet` and its like, where those
of other models stay as they are.
`data/nursery/fourth/protocol.md` says what is asked and why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import torch

from nursery import corpora, designs, fourth_study, training
from nursery.designs import Member
from nursery.pack_training import HELD_OUT_WINDOWS
from nursery.prompts import WINDOW
from nursery.records import step_folder
from nursery.tuning import tuned_packs
from scripts.pack_runs import add_rows, write
from thermostats.measurement.hub import ModelFolder
from thermostats.measurement.intervention_rows import RealTexts, RowKeeper, Subject, describe_tuning
from thermostats.measurement.interventions import PriceCurve
from thermostats.measurement.loading import load
from thermostats.measurement.model_row import build_model_row
from thermostats.measurement.opened_models import ModelRequest, open_model
from thermostats.measurement.sampled_texts import pad_texts
from thermostats.measurement.spec import select_shard
from thermostats.measurement.steering import BaseOutputs, Goal
from thermostats.measurement.steering_spec import (
    FACTORS,
    SteeringSettings,
    SteeringSpec,
    mirror_target,
)
from thermostats.studies.nursery.steered import PREFIX
from thermostats.tables import store
from thermostats.tables.choices import of_interventions
from thermostats.tables.folders import ARCHIVE, find_shipped, list_shipped_models, prepare_folder
from thermostats.tables.join import join
from thermostats.tables.schemas import NURSERY, OURS

DESIGN = fourth_study.OUT / "design.toml"
SETTINGS = SteeringSettings(steps=200, batch=8, tokens=63)
"""How every model is steered; committed before any of them was."""
SEEDS = (1, 2)
"""Seeds of the steering: texts, their split and the order of batches."""
CURVE = "penultimate_gain"
"""Gain whose price curve gives the stiffness."""
CROSSED = ("last_gain", "penultimate_gain", "geometric_gain")
"""Gains that are taken across 1: last, penultimate, mean of the log gains of blocks 2 to L."""
MARGIN = 1.05
"""A gain that grows is taken to 1/1.05, one that dampens to 1.05."""
STORIES = "karpathy/stories260K"


@dataclass(frozen=True)
class Study:
    """A model of the study: its folder, what it is called, what is asked of it, and texts that it
    did not write."""

    folder: Path
    name: str
    crosses: bool
    """Its gains are taken across 1 under both seeds; else its stiffness alone is asked."""
    corpus: str = ""
    source: str = NURSERY
    member: Member | None = None
    tuned: tuple[tuple[str, Path, int], ...] = ()
    """Models tuned from it: on what, their folders, and steps."""
    revision: str = ""
    """What the tables call the state of its weights, where they have several of it."""
    older: str = ""
    """`same` where shipped rows of its name are of these weights: measured anew, they are equal."""


def name_model(model: str) -> str:
    """What a model of the fourth study is called in the tables; models of the third have the same
    names."""
    return f"{PREFIX}{model}"


def train_models(folder: Path, *, needed: bool) -> None:
    """Make corpora where they are not there yet, and models of the fourth study where one is
    needed."""
    corpora.build(folder)
    designs.claim_folder(folder, DESIGN)
    if not needed:
        return
    design = designs.read(DESIGN)
    for packs in (design.packs, lambda: tuned_packs(design, folder)):
        for step in training.train_all(packs(), folder, processes=1):
            for each in step.trained:
                print(each.model, each.loss, file=sys.stderr)


def list_studies(folder: Path, stories: Path | None) -> list[Study]:
    """Every model that is steered: the fourth study's, the packaged ones, and a real one."""
    design = designs.read(DESIGN)
    tuned: dict[str, list[tuple[str, Path, int]]] = {}
    for pack in tuned_packs(design, folder):
        for member in pack.members:
            base = member.parent.partition("/")[0]
            kind = member.model.removeprefix(f"{base}-")
            words = f"corpus {member.recipe.corpus}" if kind == "corpus" else f"another {kind}"
            place = step_folder(folder, member.model, pack.steps)
            tuned.setdefault(base, []).append((words, place, pack.steps))
    found = []
    for pack in design.packs():
        for member in pack.members:
            place = step_folder(folder, member.model, pack.steps)
            found.append(
                Study(
                    place,
                    name_model(member.model),
                    not member.replicate_of,
                    member.recipe.corpus,
                    member=member,
                    tuned=tuple(tuned.get(member.model, ())),
                )
            )
    corpus = pd.read_csv(DESIGN.parents[1] / "design.csv").set_index("model")["corpus"]
    for place in list_shipped_models():
        name = f"{NURSERY}/{place.name}"
        revision = find_last_step(name)
        found.append(Study(place, name, True, corpus[place.name], revision=revision))
    if stories is not None:
        found.append(Study(stories, STORIES, True, source=OURS, older="same"))
    return found


def find_last_step(name: str) -> str:
    """Revision of a packaged model: the last of its training in the tables."""
    models = store.load("models")
    return str(models.loc[models["model_id"] == name, "revision"].max())


def cut_texts(folder: Path, corpus: str) -> RealTexts | None:
    """Windows of a corpus's held-out tokens: those of the held-out loss in training, and the
    prompts."""
    if not corpus:
        return None
    tokens = corpora.load(folder, corpus).heldout
    context = designs.read(DESIGN).context
    starts = np.linspace(0, len(tokens) - context - 1, HELD_OUT_WINDOWS).astype(int)
    windows = [tokens[start : start + context + 1].tolist() for start in starts]
    prompts = corpora.prompt_sets(folder, WINDOW)[corpus].tolist()
    return RealTexts(f"{NURSERY} {corpus}", pad_texts(windows), pad_texts(prompts))


def list_goals(study: Study, subject: Subject, seed: int) -> Iterator[Goal]:
    """What a model is steered to under one seed: the floor, a curve, and crossings with their
    mirrors."""
    yield Goal(CURVE, None)
    start = subject.start(CURVE)
    if seed == SEEDS[0]:
        for factor in FACTORS:
            yield Goal(CURVE, start * factor)
    for gain in CROSSED if study.crosses else ():
        start = subject.start(gain)
        target = 1 / MARGIN if start > 1 else MARGIN
        yield Goal(gain, target)
        yield Goal(gain, mirror_target(start, target))


def record_model(study: Study, data: Path) -> None:
    """Join the row of a model of the fourth study, which its folder alone does not say."""
    if study.member is None or (store.load("models", data)["model_id"] == study.name).any():
        return
    member = study.member
    facts = build_model_row(
        study.folder,
        model_id=study.name,
        revision="main",
        models=pd.DataFrame({"model_id": [], "heritage": []}),
        heritage=NURSERY,
    )
    facts |= {
        "family": member.recipe.name,
        "variant": "base",
        "source": NURSERY,
        "seed_of": name_model(member.replicate_of) if member.replicate_of else "",
    }
    join([store.validate(pd.DataFrame([facts]), "models")], data=data)


def steer_study(study: Study, folder: Path, data: Path) -> None:
    """Take every goal of a model, and read what ordinary tuning did to it."""
    record_model(study, data)
    real = cut_texts(folder, study.corpus)
    request = ModelRequest(
        f"{study.folder}@{study.revision}" if study.revision else str(study.folder),
        None,
        data,
        None,
        "float32",
        "cpu",
        study.name,
        source=study.source,
        older=study.older,
    )
    with open_model(request, reads_texts=False) as opened:
        for seed in SEEDS if study.crosses else SEEDS[:1]:
            trained, held_out = opened.split_samples(SETTINGS, seed)
            subject = Subject.read(opened.base, trained, held_out, real)
            outputs = BaseOutputs(opened.base, trained)
            keeper = opened.keep_rows()
            for goal in list_goals(study, subject, seed):
                spec = SteeringSpec(goal.gain, seed=seed, settings=SETTINGS)
                began = perf_counter()
                PriceCurve(opened, subject, spec, outputs, keeper).take(goal)
                row = keeper.frames[-1].iloc[0]
                told = f"{study.name} seed {seed}: {row['intervention'].partition(';')[0]}"
                print(f"{told}, kl {row['kl']:.5f}, {perf_counter() - began:.0f} s", flush=True)
            if seed == SEEDS[0]:
                read_tuned(study, subject, keeper)


def read_tuned(study: Study, subject: Subject, keeper: RowKeeper) -> None:
    """Rows of ordinary tuning: the same price, of models that were trained on with no gain in
    mind."""
    for words, place, steps in study.tuned:
        facts = describe_tuning(words, CURVE, SETTINGS, steps, SEEDS[0])
        if not keeper.take_row(facts["intervention"]):
            changed = load(ModelFolder("tuned", "main", place, ""), device="cpu", tokenizer=False)
            keeper.keep(subject.describe_change(changed.decoder, CURVE, facts), 0.0)


def count_rows(study: Study) -> int:
    """How many interventions a model has when all of its are made."""
    curve = 1 + len(FACTORS)
    pairs = 2 * len(CROSSED)
    return curve + len(study.tuned) + (pairs + 1 + pairs if study.crosses else 0)


def pack_rows(wanted: list[Study], data: Path) -> None:
    """Write all rows on sampled texts as archives that ship. Exits where some are not there yet."""
    runs = store.load("runs", data)
    runs = runs[of_interventions(runs) & (runs["prompt_set"] == "")]
    rows = store.load("interventions", data)
    made = rows.merge(runs[["run_id", "model_id"]], on="run_id")["model_id"].value_counts()
    lacking = [study.name for study in wanted if made.get(study.name, 0) < count_rows(study)]
    if lacking:
        sys.exit(f"not steered yet: {', '.join(lacking)}")
    runs = runs[runs["model_id"].isin([study.name for study in wanted])]
    models = store.load("models", data)
    for source, place in ((NURSERY, NURSERY), (OURS, "measured")):
        chosen = runs[runs["source"] == source]
        tables = {"runs": chosen, "interventions": rows[rows["run_id"].isin(chosen["run_id"])]}
        if source == NURSERY:
            here = models["model_id"].isin(chosen["model_id"])
            tables["models"] = models[here & models["model_id"].str.startswith(PREFIX)]
        for name, frame in tables.items() if len(chosen) else ():
            path = find_shipped("data") / place / f"{name}-steered{ARCHIVE}"
            added = add_rows(frame, name, path)
            write(added, name, path)
            print(place, name, len(added))


def main() -> None:
    """Train, steer and pack."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--stories", type=Path)
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--only", nargs="+", help="models that are steered; by default all")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.folder.resolve()
    studies = list_studies(folder, arguments.stories)
    only = arguments.only or [study.name for study in studies]
    if wrong := set(only) - {study.name for study in studies}:
        parser.error(f"--only {' '.join(sorted(wrong))}: no such model")
    wanted = [study for study in studies if study.name in only]
    train_models(folder, needed=any(study.member is not None for study in wanted))
    data = prepare_folder(folder / "rows")
    for study in select_shard(wanted, arguments.shard):
        steer_study(study, folder, data)
    if arguments.pack:
        pack_rows(wanted, data)


if __name__ == "__main__":
    main()
