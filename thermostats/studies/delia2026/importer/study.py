"""What the readers fill: the rows of every table, with runs, prompt sets, statements and inconsistencies."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsFloat, TypeVar

from thermostats.errors import DataError
from thermostats.studies.delia2026.importer.files import stated_date
from thermostats.studies.delia2026.importer.ledger import DERIVABLE, Document, Place
from thermostats.studies.delia2026.importer.names import MODELS, heritage, model_id, model_named
from thermostats.tables.runs import run_id

Known = TypeVar("Known")
EXACT = 0.0
"""For copies and for small whole numbers."""
DOUBLE = 1e-9
"""For sums of some hundred float64 numbers in another order: rounding grows to 1e-14, p-values lose more digits."""
SINGLE = 1e-6
"""For figures that the study computed in float32 (unit roundoff 6e-8, a few tens of operations)."""

RANGES = (
    (r"_pct$", 0.0, 100.0),
    (r"(^|_)p(_val|_value.*)?$", 0.0, 1.0),
    (r"(_r|[Cc]orrelation)$", -1.0, 1.0),
    (r"_rate$", 0.0, 1.0),
)
"""Keys whose numbers have a range whatever they are derived from: pattern, lowest, highest."""

OVERFLOW = "NaN in the file: attention overflowed in float16"
UNSTATED = "unstated"
UNSTATED_SET = "study_unstated"


@dataclass
class Study:
    """Documents by family, rows of the table `models` by hub id, and the rows made so far by table."""

    documents: Mapping[str, Document]
    facts: Mapping[str, Mapping[str, Any]]
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> None:
        """One row of a table."""
        self.rows.setdefault(table, []).append(row)

    def file(self, family: str) -> str:
        """Name of the file of a family, with its time stamp."""
        return self.documents[family].file

    def model(self, place: Place) -> str:
        """Hub id of the model named at a place."""
        return model_id(place.text(), place)

    def fact(self, model: str, label: str) -> Any:
        """One column of the table `models` for a model."""
        if model not in self.facts:
            raise DataError(
                "the table models lacks a model of the study", got=repr(model), next_step="add it to models"
            )
        return self.facts[model][label]

    def name(self, name: str) -> str:
        """Hub id of a model whose name a reader has checked already."""
        return MODELS[name.rsplit("/", 1)[-1].lower()]

    def by_file(self, file: str) -> Document:
        """Document of a file."""
        return next(document for document in self.documents.values() if document.file == file)

    def known(self, values: Mapping[Any, Known], key: Any, place: Place) -> Known:
        """Value under a name that another part of the file gives; raises DataError where it does not."""
        if key not in values:
            raise DataError(
                "the name is in one part of the file only",
                where=place.where,
                got=repr(key),
                allowed=", ".join(map(str, values)),
            )
        return values[key]

    def prompts(self, name: str, prompts: Sequence[tuple[str, str, str, int | None]]) -> None:
        """Declare a prompt set: id, text ("" where the file does not give it), category, complexity of each prompt."""
        for prompt_id, text, category, complexity in prompts:
            self.add(
                "prompts",
                prompt_set=name,
                prompt_id=prompt_id,
                text=text,
                text_sha256=_sha(text) if text else "",
                category=category,
                complexity=complexity,
            )

    def run(
        self, document: Document, model: str, *, prompt_set: str, dtype: str = UNSTATED, attention: str = UNSTATED
    ) -> str:
        """Declare a run and return its id."""
        hashes = [p["text_sha256"] for p in self.rows.get("prompts", []) if p["prompt_set"] == prompt_set]
        measured = {
            "model_id": model,
            "revision": "main",
            "dtype": dtype,
            "attention": attention,
            "prompt_set": prompt_set,
            "prompt_sha": _sha("\n".join(hashes)) if any(hashes) else "",
            "measure_version": "published",
            "source": document.file,
        }
        identity = run_id(measured)
        self.add(
            "runs",
            run_id=identity,
            **measured,
            versions="",
            device="",
            seconds=None,
            measured_at=stated_date(document.root),
        )
        return identity

    def layer(
        self, run: str, layer: int, prompt_id: str, position: str, missing: str = "", **values: float | None
    ) -> None:
        """One row of the table `layers`."""
        missing = missing or _reason(values)
        self.add("layers", run_id=run, layer=layer, prompt_id=prompt_id, position=position, missing=missing, **values)

    def output(self, run: str, prompt_id: str, *, top_token: str, **values: float | None) -> None:
        """One row of the table `outputs`."""
        token = json.dumps(top_token, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("\x7f", "\\u007f")
        self.add("outputs", run_id=run, prompt_id=prompt_id, top_token=token, missing=_reason(values), **values)

    def attention(
        self, run: str, layer: int, variant: str, missing: str = "", *, prompt_id: str = "", **values: float | None
    ) -> None:
        """One row of the table `attention`, all heads together."""
        self.add(
            "attention",
            run_id=run,
            layer=layer,
            head="",
            prompt_id=prompt_id,
            variant=variant,
            missing=missing,
            **values,
        )

    def transition(
        self,
        place: Place,
        run: str,
        definition: str,
        variant: str,
        L: int,
        *,
        expected: int | None = None,
        prompt_id: str = "",
    ) -> int:
        """Import a 0-based index as a 1-based layer and return the index; hold it against the recomputed one."""
        index = place.whole()
        place.number("transitions.layer (index + 1)", lower=0, upper=L - 1)
        self.add(
            "transitions",
            run_id=run,
            prompt_id=prompt_id,
            definition=definition,
            trace_variant=variant,
            layer=index + 1,
            relative_depth=(index + 1) / L,
            missing="",
        )
        if expected is not None and expected != index:
            self.disagree(
                place.where,
                "does not follow",
                place.document,
                f"the index is not that of the definition {definition} on the curve {variant} (both 0-based)",
                "imported as published",
                value=index,
                other_value=expected,
            )
        return index

    def summary(self, run: str, estimand: str, value: float | None, prompt_id: str = "", missing: str = "") -> None:
        """One row of the table `summaries`."""
        self.add("summaries", run_id=run, prompt_id=prompt_id, estimand=estimand, value=value, missing=missing)

    def take(
        self, place: Place, run: str, estimand: str, prompt_id: str = "", missing: str = OVERFLOW, **bounds: float
    ) -> float | None:
        """Import a number as a summary and return it."""
        value = place.number(f"summaries.value {estimand}", **bounds)
        self.summary(run, estimand, value, prompt_id, missing if value is None else "")
        return value

    def state(self, place: Place, statistic: str, model: str = "", missing: str = OVERFLOW) -> float | None:
        """Import a number as a statement and return it."""
        value = place.number("statements.value")
        self._statement(place, statistic, model, value, missing)
        return value

    def _statement(self, place: Place, statistic: str, model: str, value: float | None, missing: str) -> None:
        self.add(
            "statements",
            source=place.document.file,
            pointer=place.pointer,
            statistic=statistic,
            model_id=model,
            value=value,
            missing=missing if value is None else "",
        )

    def derive(
        self,
        place: Place,
        expected: SupportsFloat,
        rule: str,
        statistic: str = "",
        model: str = "",
        within: float = DOUBLE,
    ) -> float:
        """Hold a number against the value recomputed by `rule`; where they differ it is a statement and a disagreement.

        Where they agree and the number is a figure of its own it is a statement too, so that it can be shown beside
        what is recomputed; copies, counts, places and shapes (`within` is EXACT) and entries of lists are not.
        The difference is relative to the larger of the two; both NaN counts as equal. Raises
        DataError where a percentage, p, rate or correlation is outside its range.
        """
        value, recomputed = place.within(**_range(place)), float(expected)
        difference = relative(value, recomputed)
        if difference <= within:
            tolerance = f"within {within:g} relative" if within else "equal"
            place.enter(DERIVABLE, f"{rule}; {tolerance}", difference)
            if within and not place.is_entry:
                known = None if math.isnan(value) else value
                self._statement(place, statistic or rule, model or model_named(place), known, OVERFLOW)
            return value
        self.state(place, statistic or rule, model)
        self.disagree(
            f"{place.document.file}{place.pointer}",
            "does not follow",
            place.document,
            f"the figure is not what {rule} gives",
            "kept as a statement beside the recomputed value",
            model=model,
            value=value,
            other_value=recomputed,
        )
        return value

    def same(self, place: Place, model: str, label: str) -> int:
        """Hold a fact against the table `models`."""
        place.whole()
        return int(self.derive(place, float(self.fact(model, label)), f"models.{label}", label, model, EXACT))

    def lab(self, place: Place, model: str) -> None:
        """Hold the lab named at a place against the table `models`."""
        if heritage(place.text()) != self.fact(model, "heritage"):
            self.disagree(
                f"{place.document.file}{place.pointer}",
                "wrong fact",
                place.document,
                f"the lab is given as {place.text()}, the table models has {self.fact(model, 'heritage')}",
                "the table models holds",
                model=model,
            )

    def disagree(
        self,
        name: str,
        kind: str,
        document: Document,
        what: str,
        handling: str,
        *,
        other_file: str = "",
        model: str = "",
        value: float | None = None,
        other_value: float | None = None,
    ) -> None:
        """One row of the table `inconsistencies`."""
        self.add(
            "inconsistencies",
            inconsistency_id=name,
            kind=kind,
            file=document.file,
            other_file=other_file,
            model_id=model,
            value=None if value is None or math.isnan(value) else value,
            other_value=None if other_value is None or math.isnan(other_value) else other_value,
            what=what,
            handling=handling,
        )


def _reason(values: Mapping[str, float | None]) -> str:
    return "NaN in the file" if None in values.values() else ""


def _range(place: Place) -> dict[str, float]:
    key = place.pattern.rsplit("/", 1)[-1]
    return next(({"lower": low, "upper": high} for name, low, high in RANGES if re.search(name, key)), {})


def relative(value: float, expected: float) -> float:
    """Difference relative to the larger of two numbers; 0 where both are NaN, infinite where one is."""
    if math.isnan(value) and math.isnan(expected):
        return 0.0
    if math.isnan(value) or math.isnan(expected):
        return math.inf
    return abs(value - expected) / max(abs(value), abs(expected)) if value != expected else 0.0


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
