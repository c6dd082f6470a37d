"""What an analysis is and what it returns: the records `Claim` and `Finding`, and the tables an analysis reads."""

from __future__ import annotations

import hashlib
import json
import sys
import textwrap
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from thermostats.claims.posterior import Posterior
from thermostats.errors import ThermostatsError, UsageError
from thermostats.studies.nursery.plan import shipped_table
from thermostats.tables import store
from thermostats.tables.features import combine
from thermostats.tables.folders import shipped
from thermostats.tables.vocabulary import NURSERY
from thermostats.terminal import readable_in_part, refuse
from thermostats.words import chance_of, comparison, estimate_text, number, probability_text

RUN_COLUMNS = ["run_id", "model_id", "revision", "prompt_set", "source"]
MODEL_COLUMNS = ["model_id", "revision", "heritage", "family"]


@dataclass(frozen=True)
class Claim:
    """One claim of the study and the rule by which it is judged.

    The rule is fixed before its test is run; the study's own figures were known.
    """

    id: str
    title: str
    said: str
    """What the study says, in our words, with its figures."""
    estimand: str
    """The quantity the verdict rests on, in words."""
    rule: str
    """When the claim counts as supported, when as not supported; everything else is inconclusive."""
    source: str
    """Section or figure of the preprint, and files."""
    rows: str = ""
    """Whose rows it reads, in a few words such as `study and yours`; empty: not stated."""


@dataclass(frozen=True)
class Finding:
    """What the tables say on one estimand of one claim; a row of the table `findings`.

    `published` and `reproduced` are named figures with the same names where a figure could be recomputed; a name that
    is only in `published` could not. A name that ends in `<` or `>` is a bound ("Fisher p <": 0.001). `lower` and
    `upper` are of the kind and level that `interval` names. `plain` is one paragraph that a non-statistician can quote,
    with every number formatted from the computed values; its first two sentences stand in the table of all claims, and
    `estimand` names the estimate there.
    """

    claim: str
    estimand: str
    verdict: str
    plain: str
    published: Mapping[str, float] = field(default_factory=dict)
    reproduced: Mapping[str, float] = field(default_factory=dict)
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    interval: str = ""
    probability: float | None = None
    probability_kind: str = ""
    """What `probability` is: `p-value` (two-sided or without sides) or `one-sided p-value`, both adjusted for the
    family of claims on the index, or what it is posterior of."""
    n_models: int = 0
    n_heritages: int = 0
    group: str = "lab"
    """What `n_heritages` counts: labs, or recipes where models were trained in the controlled study."""
    rhat_max: float | None = None
    ess_min: float | None = None
    divergences: int | None = None
    notes: tuple[str, ...] = ()
    """Further sentences for the page: which computation gives the published figure, what the data cannot decide."""
    table: pd.DataFrame | None = None
    """The numbers behind the verdict, shown on the page."""
    draw: Callable[..., object] | None = None
    """Draws the finding's figure onto the matplotlib axes it is given."""
    caption: str = ""
    """What the figure shows and what was estimated; its alt text."""
    posterior: Posterior | None = None
    """The fitted model beside the classical test; `verdict` is what both agree on."""


NURSERY_TABLES = {"nursery_design": "design", "nursery_training": "training", "nursery_losses": "losses"}
"""Tables of the controlled study beside those of the schema: its design, its trainings' records and losses."""
BENCHMARKS = ("sheaf-exponents", "sheaf-dense")
"""Results of benchmarks that an analysis shows: times, and so of one machine. Empty where they are not at hand."""


class Tables:
    """The tables of a data folder as an analysis sees them; remembers every selection of rows it handed out.

    The texts of prompts are left out: they are not on every machine, and their hashes stand for them.
    """

    def __init__(self, data: str | Path | None = None) -> None:
        self.data = store.data_folder(data)
        self.selections: dict[str, str] = {}
        self._files: dict[str, pd.DataFrame] = {}
        self._loaded: dict[str, pd.DataFrame] = {}
        self._digests: dict[str, str] = {}

    def fork(self) -> Tables:
        """The same tables, loaded once for both, with no selection remembered."""
        other = Tables(self.data)
        other._files, other._loaded, other._digests = self._files, self._loaded, self._digests
        return other

    def read(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        """Rows of table `name` whose columns have the given values (one, or one of a list); all rows without.

        Run-keyed tables can be selected by the columns of `runs` and `models` too (`source`, `model_id`, `heritage`),
        which are then joined in. `features` is a table too: one row per model and source (`tables/features.py`).
        Rows of the controlled study are handed out only where `source` asks for them. NURSERY_TABLES and BENCHMARKS
        are read too.
        """
        selected = self._select(name, equals)
        self._remember(json.dumps([name, equals], sort_keys=True), selected)
        return selected

    def columns(self) -> set[str]:
        """Columns of all tables that were read so far."""
        return {str(label) for frame in self._loaded.values() for label in frame}

    def changed(self, selections: Mapping[str, str]) -> bool:
        """True where any of the remembered selections has other rows by now."""
        return any(self._digest(selection) != digest for selection, digest in selections.items())

    def _remember(self, selection: str, selected: pd.DataFrame) -> None:
        if selection not in self._digests:
            csv = selected.to_csv(index=False, lineterminator="\n")
            self._digests[selection] = hashlib.sha256(csv.encode()).hexdigest()
        self.selections[selection] = self._digests[selection]

    def _digest(self, selection: str) -> str:
        if selection not in self._digests:
            name, equals = json.loads(selection)
            self.fork()._remember(selection, self._select(name, equals))
        return self._digests[selection]

    def _select(self, name: str, equals: Mapping[str, str | list[str]]) -> pd.DataFrame:
        frame = self._joined(name)
        if "source" in frame and "source" not in equals:
            frame = frame[frame["source"] != NURSERY]
        for label, wanted in equals.items():
            if label not in frame:
                raise UsageError(f"table {name} cannot be selected by {label!r}", allowed=", ".join(frame.columns))
            frame = frame[frame[label].isin(wanted if isinstance(wanted, list) else [wanted])]
        return frame.reset_index(drop=True)

    def _joined(self, name: str) -> pd.DataFrame:
        if name not in self._loaded:
            frame = self._features() if name == "features" else self._table(name)
            if "run_id" in frame and name not in {"runs", "features"}:
                frame = frame.merge(self._table("runs")[RUN_COLUMNS], on="run_id", how="left")
            if "model_id" in frame and "revision" in frame and name not in {"models", "features"}:
                frame = frame.merge(self._table("models")[MODEL_COLUMNS], on=["model_id", "revision"], how="left")
            self._loaded[name] = frame
        return self._loaded[name]

    def _features(self) -> pd.DataFrame:
        names = ("runs", "models", "layers", "summaries", "transitions", "weights")
        return combine(**{name: self._table(name) for name in names})

    def _table(self, name: str) -> pd.DataFrame:
        if name not in self._files:
            frame = _beside_the_schema(name) if name in (*NURSERY_TABLES, *BENCHMARKS) else store.load(name, self.data)
            self._files[name] = frame.assign(text="") if name == "prompts" else frame
        return self._files[name]


def _beside_the_schema(name: str) -> pd.DataFrame:
    """A table of the controlled study, or results of a benchmark, which no wheel carries."""
    if name in NURSERY_TABLES:
        return shipped_table(NURSERY_TABLES[name])
    path = shipped("benchmarks") / "results" / f"{name}.csv"
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def run(claim: Claim, analyse: Callable[[Tables], list[Finding]]) -> None:
    """Run one analysis on the tables in use and print its findings; what an analysis does when run as a script.

    `--data FOLDER` names a folder of own rows.
    """
    parser = ArgumentParser(description=f"{claim.id} {claim.title}. Its findings, printed; no report is written.")
    parser.add_argument("--data", type=Path, help="folder of your own rows, read beside the package's tables")
    try:
        findings = analyse(Tables(parser.parse_args().data))
    except ThermostatsError as error:
        refuse(error)
        sys.exit(error.exit_code)
    with readable_in_part():
        print(f"{claim.id}  {claim.title}\n")
        print(_wrapped(f"Said: {claim.said}") + "\n" + _wrapped(f"Rule: {claim.rule}"))
        for finding in findings:
            print("\n" + text_of(finding))


def text_of(finding: Finding) -> str:
    """A finding as a person would read it on a terminal."""
    lines = [f"{finding.verdict.upper()}  {finding.estimand}", _wrapped(finding.plain)]
    lines += [f"  estimate     {estimate_text(finding)}"] * (finding.estimate is not None)
    lines += [f"  probability  {probability_text(finding)}"] * (finding.probability is not None)
    if finding.posterior is not None:
        lines.append(f"  posterior    {chance_of(finding.posterior.statement, finding.posterior.probability)}")
        lines += [_wrapped(f"Check: {reason}") for reason in finding.posterior.gate.reasons]
    models, heritages = (
        f"{n} {noun}{'s' if n != 1 else ''}"
        for n, noun in ((finding.n_models, "model"), (finding.n_heritages, finding.group))
    )
    lines.append(f"  rests on     {models} of {heritages}")
    for row in comparison(finding.published, finding.reproduced):
        lines.append(
            f"  {row.name}: published {row.published}, reproduced {row.reproduced or 'not recomputed'} {row.word}"
        )
    lines += [_wrapped(f"Note: {note}") for note in finding.notes]
    if finding.table is not None:
        lines.append(finding.table.to_string(index=False, float_format=number))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, width=100, initial_indent="  ", subsequent_indent="  ")
