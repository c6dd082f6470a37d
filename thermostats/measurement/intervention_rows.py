"""Rows of the table `interventions`: what an intervention is called, its run, and where its rows
are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.measurement.forward import Decoder
from thermostats.measurement.plan import MeasurementPlan, load_recorded_rows
from thermostats.measurement.prices import (
    Reading,
    count_crossed,
    describe_price,
    measure_change,
    read_texts,
)
from thermostats.measurement.sampled_texts import Texts
from thermostats.measurement.session import PACKAGES
from thermostats.measurement.steering import Goal
from thermostats.measurement.steering_spec import SteeringSettings, SteeringSpec
from thermostats.tables import store
from thermostats.tables.join import join
from thermostats.tables.runs import hash_prompts, run_id
from thermostats.tables.schemas import FLOAT, INTEGER, INTERVENED, list_dtypes

TABLE = "interventions"
VERSION = f"{INTERVENED} 1"
"""`measure_version` of runs of interventions."""
Row = dict[str, Any]


@dataclass(frozen=True)
class RealTexts:
    """Texts that a model did not write: those whose cross-entropy is taken, and prompts whose gain
    is."""

    name: str
    texts: Texts
    prompts: Texts


@dataclass(frozen=True)
class Subject:
    """A model that something is done to: as it was, its texts, and what it does with them."""

    base: Decoder
    trained: Texts | None
    """Texts that are trained on; None where nothing is."""
    held_out: Texts
    before: Reading
    """The model as it was on the held-out texts."""
    before_trained: Reading | None
    real: RealTexts | None = None
    real_before: Reading | None = None

    @classmethod
    def read(
        cls, base: Decoder, trained: Texts | None, held_out: Texts, real: RealTexts | None = None
    ) -> Subject:
        """A model with its texts read once."""
        before = read_texts(base, held_out, base)
        before_trained = None if trained is None else read_texts(base, trained)
        real_before = None if real is None else read_texts(base, real.texts)
        return cls(
            base,
            trained,
            held_out,
            before=before,
            before_trained=before_trained,
            real=real,
            real_before=real_before,
        )

    def start(self, gain: str) -> float:
        """Where a gain is before it is steered: on the texts that are trained on."""
        reading = self.before if self.before_trained is None else self.before_trained
        return reading.gain(gain)

    def price(self, changed: Decoder) -> float:
        """KL of a changed model on the held-out texts, nats a token."""
        return read_texts(changed, self.held_out, self.base).price

    def describe_change(self, changed: Decoder, gain: str, facts: Mapping[str, Any]) -> Row:
        """The row of an intervention but for its run: what it cost, and facts of what was done.

        Raises ThermostatsError where the changed model's numbers are not finite.
        """
        after = read_texts(changed, self.held_out, self.base)
        price = describe_price(self.before, after, gain, int(facts["seed"]))
        real = self._read_real_texts(changed, gain)
        n_tokens = int(self.held_out.lengths.max())
        n_train = 0 if self.trained is None else len(self.trained)
        return {
            "size": measure_change(self.base, changed),
            "n_held_out": len(self.held_out),
            "n_tokens": n_tokens,
            "n_train": n_train,
            "gain_start": self.start(gain) if gain else None,
            **price,
            **real,
            **facts,
            "missing": "",
        }

    def _read_real_texts(self, changed: Decoder, gain: str) -> Row:
        if self.real is None or self.real_before is None:
            return {"real_texts": ""}
        row: Row = {"real_texts": self.real.name, "real_ce_before": self.real_before.entropy}
        row["real_ce_after"] = read_texts(changed, self.real.texts).entropy
        if gain:
            prompts = read_texts(changed, self.real.prompts)
            row["prompts_beyond"] = count_crossed(self.before.gain(gain), prompts.logs[gain])
            row["prompts_last_beyond"] = count_crossed(self.before.gain(gain), prompts.last[gain])
        return row


def describe_steering(goal: Goal, spec: SteeringSpec, steps: int, rate: float) -> Row:
    """Columns that say what a training was."""
    settings = spec.settings
    aimed = goal.target is not None
    return {
        "intervention": name_steering(goal, spec, rate),
        "operation": "steer" if aimed else "floor",
        "what": ", ".join(spec.only),
        "gain": goal.gain if aimed else "",
        "target": goal.target,
        "seed": spec.seed,
        "steps": steps,
        "penalty": settings.penalty if aimed else None,
        "every": settings.every if aimed else "",
        "rate": rate,
        "rank": spec.rank,
    }


def name_steering(goal: Goal, spec: SteeringSpec, rate: float) -> str:
    """What a training is called: everything that its numbers depend on, the run apart."""
    settings = spec.settings
    aim = "floor" if goal.target is None else f"{goal.gain} to {goal.target!r}"
    words = [aim]
    if goal.target is not None:
        words.append(f"penalty {settings.penalty:g} of every {settings.every}")
    words.append(f"{settings.steps} steps of {settings.batch}")
    words.append(f"rate {rate:g}")
    n_texts = f"{settings.texts} and {settings.held_out}"
    words.append(f"{n_texts} texts of {settings.tokens}")
    if spec.only:
        words.append(f"only {', '.join(spec.only)}")
    if spec.rank is not None:
        words.append(f"rank {spec.rank}")
    if spec.least_change is not None:
        words.append(f"until {spec.least_change:g}")
    return "; ".join([*words, f"seed {spec.seed}"])


def describe_action(text: str, gain: str, settings: SteeringSettings, seed: int) -> Row:
    """Columns that say what a change without training was."""
    words = f"do {text}; {gain}; {settings.held_out} texts of {settings.tokens}; seed {seed}"
    return {
        "intervention": words,
        "operation": "do",
        "what": text,
        "gain": gain,
        "seed": seed,
        "steps": 0,
        "every": "",
    }


def describe_tuning(
    words: str, gain: str, settings: SteeringSettings, steps: int, seed: int
) -> Row:
    """Columns that say what a model was tuned on, with no gain in mind."""
    name = f"tune {words}; {gain}; {settings.held_out} texts of {settings.tokens}; seed {seed}"
    return {
        "intervention": name,
        "operation": "tune",
        "what": words,
        "gain": gain,
        "seed": seed,
        "steps": steps,
        "every": "",
    }


def describe_run(planned: MeasurementPlan, *, sampled: bool, source: str) -> Row:
    """The row of `runs` of interventions on a model: what identifies it."""
    folder = planned.folder
    prompt_set = "" if sampled else str(planned.prompts["prompt_set"].iloc[0])
    prompt_sha = "" if sampled else hash_prompts(planned.prompts)
    row: Row = {
        "model_id": folder.model_id,
        "revision": folder.revision,
        "dtype": planned.spec.dtype,
        "attention": "default",
        "prompt_set": prompt_set,
        "prompt_sha": prompt_sha,
        "measure_version": VERSION,
        "source": source,
        "model_sha": planned.sha,
    }
    return {"run_id": run_id(row), **row}


@dataclass
class RowKeeper:
    """Where rows go as they are made: into a user's folder, or nowhere but the list of this
    call."""

    planned: MeasurementPlan
    run: Row
    device: str
    data: Path | None
    sampled: bool
    frames: list[pd.DataFrame] = field(default_factory=list)

    def take_row(self, name: str) -> bool:
        """Whether an intervention has a row already, which is then taken over."""
        if self.data is None:
            return False
        held = store.load(TABLE, self.data, runs={self.run["run_id"]})
        of_run = held["run_id"] == self.run["run_id"]
        here = held[of_run & (held["intervention"] == name)]
        if len(here):
            self.frames.append(here)
        return bool(len(here))

    def keep(self, row: Row, seconds: float) -> None:
        """Take a row, and join it where there is a folder."""
        frame = build_frame([{**row, "run_id": self.run["run_id"]}])
        if self.data is not None:
            join([*self._describe_model(seconds), frame], data=self.data)
        self.frames.append(frame)

    def join_frames(self) -> pd.DataFrame:
        """All rows of this call in the order in which they were asked for, with model and
        revision."""
        rows = pd.concat(self.frames, ignore_index=True)
        return rows.assign(model_id=self.run["model_id"], revision=self.run["revision"])

    def _describe_model(self, seconds: float) -> Iterator[pd.DataFrame]:
        """The model's row and the prompts, where the folder lacks them, and the run's."""
        assert self.data is not None  # noqa: S101 - asked before
        planned = self.planned
        model, revision = planned.model["model_id"], planned.model["revision"]
        if not len(load_recorded_rows(model, revision, self.data)):
            yield store.validate(pd.DataFrame([planned.model]), "models")
        sets = set(store.load("prompts", self.data)["prompt_set"])
        if not self.sampled and self.run["prompt_set"] not in sets:
            yield planned.prompts
        versions = [f"{name}={version(name)}" for name in PACKAGES]
        recorded: Row = {
            "instrument": "",
            "licence": "",
            "confirmed_sha": "",
            "special_tokens": "",
            "proof": "",
            "differences": "; ".join(planned.differences),
            "versions": " ".join(versions),
            "device": self.device,
            "seconds": seconds,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        yield store.validate(pd.DataFrame([{**self.run, **recorded}]), "runs")


def build_frame(rows: list[Row]) -> pd.DataFrame:
    """Rows as a frame of the table `interventions`; what a row leaves out is empty."""
    types = list_dtypes(TABLE)
    empty = {}
    for label, kind in types.items():
        empty[label] = None if kind in (FLOAT, INTEGER) else ""
    full = [{**empty, **row} for row in rows]
    return store.validate(pd.DataFrame(full, columns=list(types)), TABLE)
