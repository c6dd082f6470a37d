"""What the readers fill: the rows of every table; every number is entered as a row, or held against
a computation."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from ledger import DERIVABLE, IMPORTED, NUMERAL, Document, Place
from model_names import LABS, known_model, model_id, model_named
from numpy.typing import NDArray

from thermostats.tables.runs import run_id

Curve = NDArray[np.float64]
EXACT = 0.0
"""Tolerance of copies and small whole numbers."""
DOUBLE = 1e-9
"""For sums of some hundred float64 numbers in another order: rounding grows to 1e-14, p-values lose
more digits."""
SINGLE = 1e-6
"""For figures that the study computed in float32 (unit roundoff 6e-8, a few tens of operations)."""
DIGITS = 12
"""Significant digits of computed figures."""
OVERFLOW = "NaN in the file: attention overflowed in float16"
NAN = "NaN in the file"
UNSTATED = "unstated"
UNSTATED_SET = "study_unstated"
FACTS = {
    "hidden_dim": "d_model",
    "L": "n_layers",
    "H": "n_heads",
    "Layers": "n_layers",
    "N_Layers": "n_layers",
}
"""Columns of the table `models` that the files give under other names."""


def declared(name: str) -> list[dict[str, str]]:
    """Rows of a CSV file in the folder of this module."""
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def rules() -> dict[tuple[str, str], tuple[str, str, float]]:
    """From `derived.csv`, by family and pattern: what a number follows from, the statistic it is,
    and the tolerance."""
    rows = declared("derived.csv")
    return {
        (r["file"], r["pointer"]): (r["rule"], r["statistic"], float(r["within"])) for r in rows
    }


@cache
def disagreements() -> dict[str, dict[str, str]]:
    """Rows of `disagreements.csv` by key."""
    return {row["key"]: row for row in declared("disagreements.csv")}


@dataclass
class Reading:
    """Documents by family, rows of the table `models` by hub id, and the rows made so far by
    table."""

    documents: Mapping[str, Document]
    facts: Mapping[str, Mapping[str, Any]]
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> None:
        """One row of a table."""
        self.rows.setdefault(table, []).append(row)

    def file(self, family: str) -> str:
        """Name of the file of a family, with its time stamp."""
        return self.documents[family].file

    def root(self, family: str) -> Any:
        """What the file of a family holds."""
        return self.documents[family].root

    def model(self, place: Place) -> str:
        """Hub id of the model named at a place."""
        return model_id(place.text(), place)

    def by_model(self, place: Place) -> Iterator[tuple[str, Place]]:
        """Hub ids and places of an object whose keys name models."""
        return ((model_id(name, below), below) for name, below in place.named())

    def name(self, name: str) -> str:
        """Hub id of a model by its name in a file."""
        return known_model(name)

    def fact(self, model: str, label: str) -> Any:
        """One column of the table `models` for a model."""
        return self.facts[model][label]

    def depth(self, model: str) -> int:
        """Number of layers of a model."""
        return int(self.fact(model, "n_layers"))

    def density(self, model: str) -> float:
        """Head density H / d_h of a model."""
        return float(self.fact(model, "n_heads") / self.fact(model, "d_head"))

    def prompts(self, name: str, prompts: Iterable[tuple[str, str, str, int | None]]) -> None:
        """Declare a prompt set: id, text ("" where the file does not give it), category, complexity
        of each prompt."""
        for prompt_id, text, category, complexity in prompts:
            words = {"text": text, "text_sha256": _sha(text) if text else ""}
            self.add(
                "prompts",
                prompt_set=name,
                prompt_id=prompt_id,
                **words,
                category=category,
                complexity=complexity,
            )

    def numbered_prompts(self, name: str, texts: Iterable[str]) -> None:
        """Declare a prompt set of which no more than the texts, or their number, is known: p01,
        p02, …"""
        self.prompts(
            name, [(f"p{i:02}", text, "unstated", None) for i, text in enumerate(texts, start=1)]
        )

    def run(
        self,
        document: Document,
        model: str,
        *,
        prompts: str = UNSTATED_SET,
        dtype: str = UNSTATED,
        attention: str = UNSTATED,
    ) -> Run:
        """Declare a run on a prompt set."""
        hashes = [
            p["text_sha256"] for p in self.rows.get("prompts", []) if p["prompt_set"] == prompts
        ]
        measured = {
            "model_id": model,
            "revision": "main",
            "dtype": dtype,
            "attention": attention,
            "prompt_set": prompts,
            "prompt_sha": _sha("\n".join(hashes)) if any(hashes) else "",
            "measure_version": "published",
            "source": document.file,
        }
        identity = run_id(measured)
        stamp = {
            "versions": "",
            "device": "",
            "seconds": None,
            "measured_at": stated_date(document.root),
        }
        self.add("runs", run_id=identity, **measured, **stamp)
        return Run(self, identity, model, self.depth(model))

    def state(self, place: Place, statistic: str, model: str = "") -> float:
        """Import a number as a statement and return it; the model is the one that the way to the
        place names."""
        self._statement(
            place, statistic, model or model_named(place), place.number("statements.value")
        )
        return place.peek()

    def _statement(self, place: Place, statistic: str, model: str, value: float | None) -> None:
        where = {
            "source": place.document.file,
            "pointer": place.pointer,
            "statistic": statistic,
            "model_id": model,
        }
        self.add("statements", **where, value=value, missing=OVERFLOW if value is None else "")

    def derive(
        self,
        place: Place,
        expected: SupportsFloat,
        rule: str = "",
        model: str = "",
        within: float = DOUBLE,
        statistic: str = "",
    ) -> float:
        """Compare a number with the value recomputed by `rule`; if they differ it is a statement
        and a disagreement.

        Without a rule, its words, statistic and tolerance are those that `derived.csv` declares for
        the place. If they agree and the number is a separate figure, it is a statement too, so that
        it can be shown next to the recomputed value; copies, counts, places and shapes (`within` is
        EXACT) and entries of lists are not. The difference is relative to the larger of the two;
        both NaN counts as equal.
        """
        if not rule:
            rule, statistic, within = rules()[place.document.family, place.pattern]
        value = place.peek()
        recomputed = float(expected)
        difference = relative(value, recomputed)
        if difference <= within:
            tolerance = f"within {within:g} relative" if within else "equal"
            place.enter(DERIVABLE, f"{rule}; {tolerance}", difference)
            if within and not place.is_entry:
                number = None if math.isnan(value) else value
                self._statement(place, statistic or rule, model or model_named(place), number)
            return value
        self.state(place, statistic or rule, model)
        words = {"where": place.where, "file": place.document.file, "rule": rule, "model": model}
        self.disagree("figure", value, recomputed, **words)
        return value

    def follow(self, place: Place, expected: Mapping[str, SupportsFloat], model: str = "") -> None:
        """Hold the numbers at a place, by key, against the values recomputed by the rules of
        `derived.csv`."""
        for key, value in expected.items():
            self.derive(place[key], value, model=model)

    def follow_each(self, place: Place, expected: Curve) -> None:
        """Hold the entries of a list against recomputed values."""
        for entry, value in zip(place.each(len(expected)), expected, strict=True):
            self.derive(entry, value)

    def copy(self, copy: Document, original: Document, rows: Sequence[Mapping[str, Any]]) -> None:
        """Hold a CSV file against the JSON rows that it repeats, cell by cell; disagreements are
        recorded."""
        for place, row in zip(copy.top.each(len(rows)), rows, strict=True):
            for label, value in row.items():
                self._cell(place[label], value, original.file)

    def _cell(self, cell: Place, original: Any, file: str) -> None:
        rule = f"the same figure of {file}"
        if isinstance(original, (int, float)) and not isinstance(original, bool):
            self.derive(cell, float(original), rule, within=EXACT)
            return
        equal = cell.value == original
        if NUMERAL.fullmatch(cell.text()):
            cell.enter(
                *(
                    (DERIVABLE, f"{rule}; equal", 0.0)
                    if equal
                    else (IMPORTED, "inconsistencies.what")
                )
            )
        if not equal:
            words = {"where": cell.where, "file": cell.document.file, "other_file": file}
            self.disagree("cell", **words, cell=repr(cell.value), original=repr(original))

    def disagree(
        self,
        key: str,
        value: float | None = None,
        other_value: float | None = None,
        /,
        **words: object,
    ) -> None:
        """One row of the table `inconsistencies`, by its key in `disagreements.csv`, whose texts
        take `words`.

        `file`, `other_file` and `model` are words too: the row's own where none is given, families
        there.
        """
        row = disagreements()[key]
        files = {
            name: self.file(row[name])
            for name in ("file", "other_file")
            if row[name] and name not in words
        }
        named = {"other_file": "", "model": row["model"]} | files | words
        self.add(
            "inconsistencies",
            inconsistency_id=row["name"].format(**named) or key,
            kind=row["kind"],
            file=named["file"],
            other_file=named["other_file"],
            model_id=named["model"],
            value=_computed(value),
            other_value=_computed(other_value),
            what=row["what"].format(**named),
            handling=row["handling"].format(**named),
        )


@dataclass(frozen=True)
class Run:
    """One run of a model as a file has it, and what its numbers are imported as."""

    reading: Reading
    id: str
    model: str
    L: int

    def fact(self, label: str) -> Any:
        """One column of the table `models`."""
        return self.reading.fact(self.model, label)

    def same(self, place: Place, label: str) -> None:
        """Hold a fact against the table `models`."""
        place.integer()
        self.reading.derive(
            place, float(self.fact(label)), f"models.{label}", self.model, EXACT, label
        )

    def hold(self, place: Place, *keys: str) -> None:
        """Hold the facts under some keys against the table `models`."""
        for key in keys:
            self.same(place[key], FACTS.get(key, key))

    def lab(self, place: Place) -> None:
        """Hold the lab named at a place against the table `models`."""
        lab = place.text()
        recorded = self.fact("heritage")
        if LABS.get(lab, lab) != recorded:
            words = {
                "where": place.where,
                "file": place.document.file,
                "lab": lab,
                "model": self.model,
            }
            self.reading.disagree("lab", **words, known=recorded)

    def add(self, table: str, **row: Any) -> None:
        """One row of a table of this run."""
        self.reading.add(table, run_id=self.id, **row)

    def layers(
        self,
        columns: Mapping[str, Sequence[Place]],
        position: str,
        prompt_id: str = "",
        first: int = 1,
        missing: str = "",
    ) -> list[Curve]:
        """Import columns of the table `layers`, a place each layer from `first` on; returns the
        columns.

        `missing`: the reason where a column has fewer places than another.
        """
        for layer, places in enumerate(zip_longest(*columns.values()), start=first):
            both = zip(columns, places, strict=True)
            values = {
                name: None if place is None else place.number(f"layers.{name}")
                for name, place in both
            }
            reason = missing if None in places else NAN if None in values.values() else ""
            self.add(
                "layers",
                layer=layer,
                prompt_id=prompt_id,
                position=position,
                missing=reason,
                **values,
            )
        return [np.array([place.peek() for place in places]) for places in columns.values()]

    def output(self, columns: Mapping[str, Place], prompt_id: str = "", token: str = "") -> None:
        """Import a row of the table `outputs`."""
        values = {name: place.number(f"outputs.{name}") for name, place in columns.items()}
        top = (
            json.dumps(token, ensure_ascii=False)[1:-1]
            .replace('\\"', '"')
            .replace("\x7f", "\\u007f")
        )
        missing = NAN if None in values.values() else ""
        self.add("outputs", prompt_id=prompt_id, top_token=top, missing=missing, **values)

    def attention(self, places: Mapping[str, Place], variant: str, prompt_id: str = "") -> Curve:
        """Import columns of the table `attention`, all heads together, one row per layer; returns
        the first."""
        for layer, entries in enumerate(
            zip(*(place.each(self.L) for place in places.values()), strict=True), start=1
        ):
            values = {
                name: e.number(f"attention.{name}") for name, e in zip(places, entries, strict=True)
            }
            missing = OVERFLOW if None in values.values() else ""
            where = {"layer": layer, "head": "", "prompt_id": prompt_id, "variant": variant}
            self.add("attention", **where, missing=missing, **values)
        return np.array([entry.peek() for entry in next(iter(places.values())).each()])

    def take(self, place: Place, estimand: str, prompt_id: str = "") -> float:
        """Import a number as a summary and return it."""
        value = place.number(f"summaries.value {estimand}")
        missing = OVERFLOW if value is None else ""
        self.add("summaries", prompt_id=prompt_id, estimand=estimand, value=value, missing=missing)
        return place.peek()

    def per_layer(self, place: Place, estimand: str, prompt_id: str = "") -> Curve:
        """Import a list with one entry per layer as summaries."""
        each = enumerate(place.each(self.L), start=1)
        return np.array(
            [self.take(entry, f"{estimand}_layer_{layer:02}", prompt_id) for layer, entry in each]
        )

    def transition(
        self,
        place: Place,
        definition: str,
        variant: str,
        curve: Curve | None = None,
        find: Callable[[Curve], np.intp] = np.argmax,
        prompt_id: str = "",
    ) -> int:
        """Import a 0-based index as a 1-based layer and return the index.

        With a curve it is held against the extreme of it; where NaN won the search it is a
        statement and the layer is missing.
        """
        index = place.integer()
        layer = None
        missing = ""
        words = {"file": place.document.file, "definition": definition, "variant": variant}
        if curve is not None and np.isnan(curve).any():
            self.reading.state(place, f"L* ({definition}), 0-based, as published", self.model)
            finite = np.flatnonzero(~np.isnan(curve))
            by_nan = index == int(np.isnan(curve).argmax())
            missing = (
                "the published index is where the first NaN stands, not an extreme"
                if by_nan
                else "curve has NaN"
            )
            expected = int(finite[find(curve[finite])])
            self.reading.disagree("NaN as extreme", index, expected, model=self.model, **words)
        else:
            place.number("transitions.layer (index + 1)")
            layer = index + 1
            if curve is not None and (expected := int(find(curve))) != index:
                self.reading.disagree("index", index, expected, where=place.where, **words)
        how = {"prompt_id": prompt_id, "definition": definition, "trace_variant": variant}
        self.add(
            "transitions",
            **how,
            layer=layer,
            relative_depth=layer and layer / self.L,
            missing=missing,
        )
        return index


def relative(value: float, expected: float) -> float:
    """Difference relative to the larger of two numbers; 0 where both are NaN, infinite where one
    is."""
    if math.isnan(value) or math.isnan(expected):
        return 0.0 if math.isnan(value) and math.isnan(expected) else math.inf
    return abs(value - expected) / max(abs(value), abs(expected)) if value != expected else 0.0


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _computed(value: float | None) -> float | None:
    """A figure as it is written: of more digits the last depend on the processor."""
    return None if value is None or math.isnan(value) else float(f"{value:.{DIGITS}g}")


def stated_date(root: Any) -> str:
    """Date and time that a parsed file gives for itself, ISO 8601; empty where it gives none."""
    stated = root.get("date", root.get("timestamp", "")) if isinstance(root, dict) else ""
    if match := re.fullmatch(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)", stated):
        return "{}-{}-{}T{}:{}:{}".format(*match.groups())
    return str(stated).replace(" ", "T")
