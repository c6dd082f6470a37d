"""What happens to a user's folder over time, drawn at random: joins, replacements, `set`, `forget`,
copies."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.export import Source
from thermostats.tables.folders import PROVENANCE, find_shipped, list_own_files
from thermostats.tables.model_rows import read_own_models, set_facts
from thermostats.tables.runs import run_id
from thermostats.tables.schemas import EXTERNAL, NURSERY, OURS, TABLES

OF_RUNS = ("layers", "summaries", "outputs", "weights", "attention", "transitions")
SELDOM_READ = ("weights", "weights", "outputs")
"""Those that most findings are made without: they are joined oftener, so that something is kept."""
BESIDE = ("lineage", "sources", "statements", "inconsistencies", "reconciliation", "prompts")
"""Tables whose rows belong to no run."""
SOURCES = ("my lab", "their lab")
MODELS, RUNS = 3, 8
"""Joined before findings are first asked for."""
LINKED = (
    "nursery/third",
    "nursery/design.csv",
    "nursery/training.csv",
    "timings",
    "worlds.csv",
    "gauge.csv",
    "nuisances.csv",
)
"""What a small package has of the real one as it is."""
FREE = {"layers": ["gain_block"], "weights": ["spectral_norm", "frobenius_norm"]}
"""Numbers of a table that may change together; of other tables all."""
PROMPTS = 5
"""Of a run of this package, or of the controlled study, in a small package."""
FEW_ROWS = 15
"""Of a run in a tiny package."""
MORE_ROWS, TRIES = 4, 200
"""Times that rows of runs are joined where everything else happens once; tries until then."""
MOST_ROWS = 300
"""Of one run that are joined at once."""


def make_package(folder: Path, *, tiny: bool = False) -> Path:
    """What ships, with fewer rows: two seeds a recipe of the controlled study, the first of a run's
    many prompts.

    tiny: nothing of the controlled study, and a few rows a run.
    """
    real, data = find_shipped("data"), folder / "data"
    tables = {name: store.load(name, real) for name in TABLES if name != "findings"}
    models, seeds = tables["models"], "-1$" if tiny else "-[12]$|-1-tuned$"
    few = models[(models["heritage"] != NURSERY) | models["model_id"].str.contains(seeds)]
    runs = tables["runs"][tables["runs"]["model_id"].isin(few["model_id"])]
    runs = runs[runs["source"] != NURSERY] if tiny else runs
    long = set(runs.loc[runs["source"].isin([OURS, NURSERY]), "run_id"])
    for name, rows in (tables | {"models": few, "runs": runs}).items():
        chosen = rows[rows["run_id"].isin(runs["run_id"])] if "run_id" in rows else rows
        if {"run_id", "prompt_id"} <= set(rows):
            place = chosen.groupby("run_id")["prompt_id"].rank("dense")
            chosen = chosen[(place <= PROMPTS) | ~chosen["run_id"].isin(long)]
        if "run_id" in rows and tiny:
            chosen = chosen.groupby("run_id").head(FEW_ROWS)
        store.save(chosen.reset_index(drop=True), name, data / f"{name}.csv")
    for name in LINKED:
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).symlink_to(real / name)
    for name in ("analyses", "reports"):
        (folder / name).symlink_to(real.parent / name)
    return folder


class History:
    """A user's folders, of which one is in use, and what is done to them, as a seed has it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - it hides nothing
        self.root, self.folder = folder, folder / "mine"
        self.folders = [self.folder]
        self.tables = {
            name: store.load(name, find_shipped("data")) for name in TABLES if name != "findings"
        }
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.steps: list[str] = []
        self.joined = 0
        self.ways: dict[Callable[[], str], int] = {
            self.join_rows_of_runs: 12,
            self.join_beside: 4,
            self.replace_rows: 3,
            self.copy_folder: 2,
            self.set_fact: 2,
            self.join_models: 1,
            self.join_runs: 1,
            self.replace_model: 1,
            self.state_source: 1,
            self.forget_source: 1,
            self.return_to_folder: 1,
        }
        """What may happen, and how often it does beside the rest."""

    def go_on(self) -> None:
        """Something happens; what is refused does not count."""
        while not self.happens(*self.random.choices(list(self.ways), list(self.ways.values()))):
            pass

    def live_through(self) -> Iterator[str]:
        """Everything happens once, in any order, and rows of runs are joined several times; yields
        what has happened. What cannot be done yet comes later.

        Raises RuntimeError where something cannot be done at all.
        """
        beside = [partial(self.join_beside, name) for name in BESIDE]
        others = [way for way in self.ways if way != self.join_beside]
        waiting = [*[self.join_rows_of_runs] * MORE_ROWS, *beside, *others]
        self.random.shuffle(waiting)
        for _ in range(TRIES):
            if not waiting:
                return
            action = waiting.pop(0)
            if self.happens(action):
                yield self.steps[-1]
            else:
                waiting.append(action)
        raise RuntimeError(f"cannot be done: {waiting}; refused: {self.refused}")

    def happens(self, action: Callable[[], str]) -> bool:
        """Whether something could be done, and was not refused."""
        try:
            said = action()
        except (DataError, UsageError) as error:
            self.refused[error.what] += 1
            return False
        name = getattr(action, "func", action).__name__
        self.done[name] += bool(said)
        self.steps += [f"{name} {said}"] * bool(said)
        return bool(said)

    def begin(self) -> None:
        """Models and runs are joined, of which nothing is measured yet."""
        for action in (partial(self.join_models, MODELS), partial(self.join_runs, RUNS)):
            while not self.happens(action):
                pass

    def join_models(self, count: int = 1) -> str:
        """Models like those that ship, with or without their lab, family, parent and recipe."""
        rows = []
        for like in self.random.sample(self.of_others(self.tables["models"]), count):
            self.joined += 1
            facts = {
                "model_id": f"me/m{self.joined}",
                "revision": "main",
                "source": self.random.choice(SOURCES),
            }
            facts |= {name: "" for name in ("heritage", "family") if self.random.random() < 1 / 3}
            facts |= {"seed_of": like["model_id"]} if self.random.random() < 1 / 4 else {}
            facts |= (
                {"variant": "instruct", "parent": like["model_id"]}
                if self.random.random() < 1 / 4
                else {}
            )
            rows.append(like | facts)
        self.join("models", pd.DataFrame(rows))
        return ", ".join(str(row["model_id"]) for row in rows)

    def join_runs(self, count: int = 1) -> str:
        """Runs like some that ship, of the same model or of one's own, by somebody else, without
        any row."""
        own, rows = read_own_models(self.folder)[["model_id", "revision"]].to_dict("records"), []
        for like in self.random.sample(self.of_others(self.tables["runs"]), count):
            model = self.random.choice(own) if own and self.random.random() < 1 / 4 else {}
            said = dict.fromkeys(("licence", "model_sha", "confirmed_sha", "proof"), "")
            row = (
                like
                | model
                | said
                | {"source": self.random.choice(SOURCES), "measure_version": "1"}
            )
            rows.append(row | {"run_id": run_id(row)})
        self.join("runs", pd.DataFrame(rows).drop_duplicates("run_id"))
        return ", ".join(f"{row['run_id']} of {row['model_id']} by {row['source']}" for row in rows)

    def join_rows_of_runs(self) -> str:
        """Rows of one table for some runs of one's own, each those of a run that ships, with other
        numbers."""
        name, runs = self.random.choice((*OF_RUNS, *SELDOM_READ)), self.own_rows("runs")
        runs = runs[~runs["run_id"].isin(self.own_rows(name)["run_id"])]
        chosen = [row for row in runs.to_dict("records") if self.random.random() < 1 / 2]
        rows = [
            self.like_shipped(name, row["run_id"], row["model_id"], row["prompt_set"])
            for row in chosen
        ]
        rows = [each for each in rows if len(each)]
        if not rows:
            return ""
        joined = pd.concat(rows, ignore_index=True)
        self.join(name, self.changed(joined, name))
        return f"{name} of {', '.join(sorted(set(joined['run_id'])))}"

    def like_shipped(self, name: str, run: str, model: str, prompt_set: str) -> pd.DataFrame:
        """Rows of a table for a run, as one that ships has them: of the same model, if there is
        one, and prompts."""
        runs = self.tables["runs"]
        likes = runs[runs["run_id"].isin(self.tables[name]["run_id"])]
        likes = likes if name == "weights" else likes[likes["prompt_set"] == prompt_set]
        likes = likes[likes["model_id"] == model] if (likes["model_id"] == model).any() else likes
        like = self.random.choice([*likes["run_id"], ""])
        rows = (
            self.tables[name][self.tables[name]["run_id"] == like]
            .head(MOST_ROWS)
            .assign(run_id=run)
        )
        if "layer" in rows:
            models = pd.concat(
                [self.tables["models"], read_own_models(self.folder)]
            ).drop_duplicates("model_id")
            [depth] = models.loc[models["model_id"] == model, "n_layers"]
            rows = rows[rows["layer"].fillna(0) <= depth]
        return rows

    def join_beside(self, name: str = "") -> str:
        """A row of a table that belongs to no run: one that ships with other words or numbers, or a
        new source. name: the table; empty: any."""
        name = name or self.random.choice(BESIDE)
        row = self.random.choice(self.tables[name].to_dict("records"))
        if name == "sources":
            known = {*self.tables["sources"]["file"], *self.own_rows("sources")["file"], NURSERY}
            row["file"] = self.random.choice(
                sorted({*SOURCES, *self.tables["runs"]["source"]} - known)
            )
        if name == "lineage":
            models = [*read_own_models(self.folder)["model_id"], *self.tables["models"]["model_id"]]
            row |= {"model_id": self.random.choice(models), "heritage": "", "family": ""}
        if name == "prompts":
            row["category"] = self.random.choice(sorted(set(self.tables["prompts"]["category"])))
        self.join(name, self.changed(pd.DataFrame([row]), name))
        return f"{name} {row[next(iter(TABLES[name].columns))]}"

    def replace_rows(self) -> str:
        """Other numbers in the rows of one run in one table."""
        there = [name for name in OF_RUNS if len(self.own_rows(name))]
        if not there:
            return ""
        name = self.random.choice(there)
        rows = self.own_rows(name)
        run = self.random.choice(sorted(set(rows["run_id"])))
        self.join(name, self.changed(rows[rows["run_id"] == run], name))
        return f"{name} of {run}"

    def replace_model(self) -> str:
        """Another lab, family or year of a model that ships."""
        row = self.random.choice(self.of_others(self.tables["models"]))
        name = self.random.choice(["heritage", "family", "year"])
        row[name] = (
            2021
            if name == "year"
            else self.random.choice(sorted(set(self.tables["models"][name]) - {""}))
        )
        self.join("models", pd.DataFrame([row]))
        return f"{name} of {row['model_id']}"

    def set_fact(self) -> str:
        """A fact of one's own model."""
        models = read_own_models(self.folder)
        if models.empty:
            return ""
        model = self.random.choice(sorted(set(models["model_id"])))
        facts = {
            "heritage": sorted(set(self.tables["models"]["heritage"]) - {NURSERY}),
            "family": ["", "made up", "pythia"],
            "variant": ["base", "instruct"],
            "parent": ["", *sorted(set(self.tables["models"]["model_id"]))],
            "seed_of": ["", *sorted(set(self.tables["models"]["model_id"]))],
            "year": ["2020", "2023"],
        }
        name = self.random.choice(sorted(facts))
        value = self.random.choice(facts[name])
        set_facts(model, {name: value}, data=self.folder)
        return f"{name}={value} of {model}"

    def state_source(self) -> str:
        """A source says where its figures come from, and what it left out."""
        if not self.folder.is_dir():
            return ""
        name, left_out = self.random.choice(SOURCES), self.random.choice(["", "a", "b"])
        words = {
            "name": name,
            "title": "Figures",
            "address": "https://example.org",
            "commit": "1",
            "licence": "MIT",
        }
        stated = Source(**words, licence_file="", licence_by="me", left_out=left_out)
        place = self.folder / EXTERNAL / name / PROVENANCE
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(stated.toml())
        return f"{name} without {left_out}"

    def forget_source(self) -> str:
        """The rows of a source are gone."""
        sources = {*self.own_rows("runs")["source"], *read_own_models(self.folder)["source"]} & set(
            SOURCES
        )
        if not sources:
            return ""
        source = self.random.choice(sorted(sources))
        thermostats.forget(source, data=self.folder)
        return source

    def copy_folder(self) -> str:
        """A copy with another name is in use from now on."""
        if not self.folder.is_dir():
            return ""
        copied = self.root / f"mine-{len(self.folders)}"
        shutil.copytree(self.folder, copied)
        self.folders.append(copied)
        self.folder = copied
        return copied.name

    def return_to_folder(self) -> str:
        """A folder that was in use before is in use again."""
        others = [folder for folder in self.folders if folder != self.folder]
        if not others:
            return ""
        self.folder = self.random.choice(others)
        return self.folder.name

    def join(self, name: str, rows: pd.DataFrame) -> None:
        thermostats.join(rows, table=name, data=self.folder, replace=True, accept=True)

    def of_others(self, rows: pd.DataFrame) -> list[dict[str, Any]]:
        """Rows that ship with a model, those of the controlled study left out."""
        chosen = rows[~rows["model_id"].str.startswith(f"{NURSERY}/")]
        return [
            {str(name): value for name, value in row.items()} for row in chosen.to_dict("records")
        ]

    def own_rows(self, name: str) -> pd.DataFrame:
        held = [store.read_typed(path, name) for path in list_own_files(name, self.folder)]
        return pd.concat(held, ignore_index=True) if held else self.tables[name].iloc[:0]

    def changed(self, rows: pd.DataFrame, name: str) -> pd.DataFrame:
        """Rows whose numbers are larger or smaller by one factor, as far as no number follows from
        others."""
        factor = self.random.choice([0.8, 0.9, 1.1, 1.25])
        numbers = [
            label
            for label in rows
            if label not in store.list_key_columns(name) and rows[label].dtype == "float64"
        ]
        if name == "layers":
            others = [label for label in numbers if label != "gain_block"]
            rows = rows[rows["gain_block"].notna()].assign(**dict.fromkeys(others, float("nan")))
        numbers = FREE.get(name, numbers)
        return rows.assign(**{label: rows[label] * factor for label in numbers})
