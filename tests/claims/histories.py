"""What happens to a user's folder over time, drawn at random: joins, replacements, `set`, `forget`, copies."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pandas as pd

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.folders import own_files, shipped
from thermostats.tables.model_rows import own_models, set_facts
from thermostats.tables.runs import run_id
from thermostats.tables.schemas import NURSERY, TABLES

OF_RUNS = ("layers", "summaries", "outputs", "weights", "attention", "transitions")
BESIDE = ("lineage", "sources", "statements", "inconsistencies", "reconciliation", "prompts")
"""Tables whose rows belong to no run."""
SOURCES = ("my lab", "their lab", "thermostats")
LINKED = ("nursery/third", "nursery/design.csv", "nursery/training.csv", "timings", "worlds.csv", "gauge.csv")
"""What a small package has of the real one as it is."""
MOST_ROWS = 300
"""Of one run that are joined at once."""


def make_package(folder: Path) -> Path:
    """What ships, with fewer rows: all runs but those of the controlled study, of which it has one seed a recipe."""
    real, data = shipped("data"), folder / "data"
    tables = {name: store.load(name, real) for name in TABLES if name != "findings"}
    models = tables["models"]
    few = models[(models["heritage"] != NURSERY) | models["model_id"].str.contains("-1$|-1-tuned$")]
    runs = tables["runs"][tables["runs"]["model_id"].isin(few["model_id"])]
    for name, rows in (tables | {"models": few, "runs": runs}).items():
        chosen = rows[rows["run_id"].isin(runs["run_id"])] if "run_id" in rows else rows
        if name == "attention":
            chosen = chosen[chosen["prompt_id"] == chosen.groupby("run_id")["prompt_id"].transform("min")]
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
        self.random = Random(seed)
        self.root, self.folder = folder, folder / "mine"
        self.folders = [self.folder]
        self.tables = {name: store.load(name, shipped("data")) for name in TABLES if name != "findings"}
        self.done: Counter[str] = Counter()
        self.steps: list[str] = []
        self.joined = 0

    def go_on(self, steps: int = 1) -> None:
        """So many things happen; what is refused is none of them."""
        actions: dict[Callable[[], str], int] = {
            self.join_model: 3,
            self.join_run: 3,
            self.join_rows_of_run: 6,
            self.join_beside: 4,
            self.replace_rows: 3,
            self.replace_model: 2,
            self.set_fact: 3,
            self.forget_source: 1,
            self.copy_folder: 2,
            self.return_to_folder: 1,
        }
        while steps:
            [action] = self.random.choices(list(actions), list(actions.values()))
            try:
                said = action()
            except (DataError, UsageError) as error:
                self.done[f"{action.__name__} refused: {error.what}"] += 1
                continue
            if said:
                self.done[action.__name__] += 1
                self.steps.append(f"{action.__name__} {said}")
                steps -= 1

    def join_model(self) -> str:
        """A model like one that ships, with or without its lab, family, parent and recipe."""
        like = self.random.choice(self.known_models())
        self.joined += 1
        facts = {"model_id": f"me/m{self.joined}", "revision": "main", "source": self.random.choice(SOURCES)}
        facts |= {name: "" for name in ("heritage", "family") if self.random.random() < 1 / 3}
        facts |= {"seed_of": like["model_id"]} if self.random.random() < 1 / 4 else {}
        facts |= {"variant": "instruct", "parent": like["model_id"]} if self.random.random() < 1 / 4 else {}
        self.join("models", pd.DataFrame([like | facts]))
        return f"{facts['model_id']} like {like['model_id']}"

    def join_run(self) -> str:
        """A run of a model that is there, its own or one that ships, without any row."""
        models = [row for row in self.known_models() if self.random.random() < 1 / 4]
        own = own_models(self.folder).to_dict("records")
        model = self.random.choice(own or models) if self.random.random() < 1 / 2 else self.random.choice(models)
        row = self.random.choice(self.tables["runs"].to_dict("records"))
        said = {"model_id": model["model_id"], "revision": model["revision"], "source": self.random.choice(SOURCES)}
        row |= said | {"measure_version": "1", "licence": "", "model_sha": "", "confirmed_sha": "", "proof": ""}
        row["run_id"] = run_id(row)
        self.join("runs", pd.DataFrame([row]))
        return f"{row['run_id']} of {row['model_id']} by {row['source']}"

    def join_rows_of_run(self) -> str:
        """Rows of one table for a run of one's own: those of a run that ships, of no more layers, with other numbers."""
        runs = self.own_rows("runs")
        if runs.empty:
            return ""
        run = self.random.choice(runs.to_dict("records"))
        name = self.random.choice(OF_RUNS)
        models = pd.concat([self.tables["models"], own_models(self.folder)])
        depth = models.drop_duplicates("model_id").set_index("model_id")["n_layers"]
        shipped_runs, rows = self.tables["runs"], self.tables[name]
        same_prompts = shipped_runs.loc[shipped_runs["prompt_set"] == run["prompt_set"], "run_id"]
        rows = rows[rows["run_id"].isin(same_prompts)] if "prompt_id" in rows else rows
        if rows.empty:
            return ""
        like = self.random.choice(sorted(set(rows["run_id"])))
        rows = rows[rows["run_id"] == like].head(MOST_ROWS)
        if "layer" in rows:
            rows = rows[rows["layer"].fillna(0) <= depth[run["model_id"]]]
        self.join(name, self.changed(rows.assign(run_id=run["run_id"]), name))
        return f"{name} of {run['run_id']}"

    def join_beside(self) -> str:
        """A row of a table that belongs to no run: one that ships with other words or numbers, or a new source."""
        name = self.random.choice(BESIDE)
        row = self.random.choice(self.tables[name].to_dict("records"))
        if name == "sources":
            row["file"] = self.random.choice([*SOURCES, *sorted(set(self.tables["runs"]["source"]) - {NURSERY})])
        if name == "lineage":
            models = [*own_models(self.folder)["model_id"], *self.tables["models"]["model_id"]]
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
        row = self.random.choice(self.known_models())
        name = self.random.choice(["heritage", "family", "year"])
        row[name] = 2021 if name == "year" else self.random.choice(sorted(set(self.tables["models"][name]) - {""}))
        self.join("models", pd.DataFrame([row]))
        return f"{name} of {row['model_id']}"

    def set_fact(self) -> str:
        """A fact of one's own model."""
        models = own_models(self.folder)
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

    def forget_source(self) -> str:
        """The rows of a source are gone."""
        sources = {*self.own_rows("runs")["source"], *own_models(self.folder)["source"]} & set(SOURCES)
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

    def known_models(self) -> list[dict[str, object]]:
        """Models that ship, those of the controlled study left out."""
        models = self.tables["models"]
        models = models[models["heritage"] != NURSERY]
        return [{str(name): value for name, value in row.items()} for row in models.to_dict("records")]

    def own_rows(self, name: str) -> pd.DataFrame:
        held = [store.read_typed(path, name) for path in own_files(name, self.folder)]
        return pd.concat(held, ignore_index=True) if held else self.tables[name].iloc[:0]

    def changed(self, rows: pd.DataFrame, name: str) -> pd.DataFrame:
        """Rows whose numbers are larger or smaller by one factor; of blocks their gains alone, which norms would tie."""
        factor = self.random.choice([0.8, 0.9, 1.1, 1.25])
        numbers = [label for label in rows if label not in store.key(name) and rows[label].dtype == "float64"]
        if name == "layers":
            numbers, others = ["gain_block"], [label for label in numbers if label != "gain_block"]
            rows = rows[rows["gain_block"].notna()].assign(**dict.fromkeys(others, float("nan")))
        return rows.assign(**{label: rows[label] * factor for label in numbers})
