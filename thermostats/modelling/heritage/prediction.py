"""A model's gain before it is measured, and how good such predictions have been of the models at
hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.formatting import format_percent, join_words
from thermostats.modelling.draws import SEED
from thermostats.modelling.heritage.fit_heritage import WAYS, HeldOut, fit_heritage, leave_one_out
from thermostats.modelling.model_gains import GEOMETRY, SCALE, gain_rows
from thermostats.next_steps import write_value
from thermostats.settings import check_coverage
from thermostats.tables.folders import find_lookup_folder
from thermostats.tables.model_rows import find_other_spelling

FACTS = (*GEOMETRY, *SCALE)
"""What is to be known of a model, besides its lab."""
LAB, UNNAMED = "lab", "unnamed"
"""The argument, and what stands in the place of a lab where none is named."""
SIDES = {True: "above 1", False: "below 1"}
KNOWN = {"model": "known", "heritage": "new"}
"""Whether other models of the lab are at hand, by what was left out."""


@dataclass(frozen=True, kw_only=True)
class TrackRecord:
    """Models predicted by a fit that had not seen them: themselves alone, or all models of their
    lab."""

    lab: str
    """`known`: other models of the lab were at hand; `new`: none was."""
    models: int
    right: int
    """Models whose gain is on the side of 1 where the mean of its predicted log gain puts it."""
    majority: int
    """Models that are on the side of 1 where most are: what one guess for all of them gives."""
    side: str
    """That side."""
    error: float
    """Root of the mean squared error of the log gain."""
    covered: float
    """Share of models inside their interval."""
    level: float
    """Probability that the interval was meant to have."""

    @classmethod
    def build(cls, left_out: HeldOut, level: float) -> TrackRecord:
        """Count what a fit's models left out say.

        Parameters
        ----------
        left_out : HeldOut
            Of `leave_one_out`.
        level : float
            Probability that the intervals were meant to have.

        Returns
        -------
        TrackRecord
            Sides, errors and coverage.

        Examples
        --------
        >>> import thermostats
        >>> from thermostats.modelling.heritage.fit_heritage import leave_one_out
        >>> from thermostats.modelling.heritage.prediction import TrackRecord
        >>> rows = thermostats.gain_rows("penultimate_gain")
        >>> fit = thermostats.fit_heritage(rows, estimand="penultimate_gain")
        >>> record = TrackRecord.build(leave_one_out(fit, by="model"), fit.level)
        >>> record.lab, 0 < record.right <= record.models
        ('known', True)
        """
        rows = left_out.predictions
        above = rows["observed"] > 0
        predicted = rows["predicted"] > 0
        side = bool(above.mean() >= 1 / 2)
        right = int((above == predicted).sum())
        majority = int((above == side).sum())
        return cls(
            lab=KNOWN[left_out.left_out],
            models=len(rows),
            right=right,
            majority=majority,
            side=SIDES[side],
            error=left_out.rmse,
            covered=left_out.coverage,
            level=level,
        )

    @property
    def worthless(self) -> bool:
        """Whether one guess for all has been as good at sides."""
        return self.right <= self.majority

    def sentence(self) -> str:
        """Say the record in plain words.

        Returns
        -------
        str
            Two sentences.

        Examples
        --------
        >>> from thermostats.modelling.heritage.prediction import TrackRecord
        >>> counts = {"models": 10, "right": 7, "majority": 6, "side": "above 1"}
        >>> record = TrackRecord(lab="new", **counts, error=0.1, covered=0.9, level=0.94)
        >>> print(record.sentence().split(";")[0])
        Of 10 models of labs of which no model was at hand, 7 were predicted on the right side of 1
        """
        of = {
            "known": "labs with other models at hand",
            "new": "labs of which no model was at hand",
        }[self.lab]
        end = ": as to the side of 1, such a prediction is worthless" if self.worthless else ""
        factor = f"a factor of {math.exp(self.error):.2f} (root mean square)"
        inside = f"{format_percent(self.covered)} of gains lay inside"
        sides = (
            f"Of {self.models} models of {of}, {self.right} were predicted on the right side of 1; "
            f"guessing {self.side} for all gives {self.majority}{end}."
        )
        errors = (
            f"Predictions were off by {factor}, and {inside} their "
            f"{format_percent(self.level)} interval."
        )
        return f"{sides} {errors}"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A gain that was not measured yet, with the record of such predictions."""

    table: pd.DataFrame
    """One row: the facts, then as `Fit.predict`: `<gain>_mean`, _sd, _median, _lower, _upper,
    `P(<gain> < 1)`, what lies beyond the rows of the fit."""
    gain: str
    records: tuple[TrackRecord, ...]
    """Of labs that are known, and of new ones."""
    labs: tuple[str, ...]
    """Labs of the models at hand."""
    level: float
    """Of the interval."""

    @property
    def lab_at_hand(self) -> bool:
        """Whether the fit has seen the lab."""
        return self.table["heritage"].iloc[0] in self.labs

    @property
    def record(self) -> TrackRecord:
        """That of predictions of this kind."""
        return self.records[0 if self.lab_at_hand else 1]

    def __repr__(self) -> str:
        """What a person reads; the numbers are in `table` and `records`."""
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """Say what is predicted, and how far it can be relied on, in plain words.

        Returns
        -------
        list of str
            Sentences.

        Examples
        --------
        >>> import thermostats
        >>> facts = {"n_layers": 20, "n_heads": 10, "d_head": 128, "n_params": 5.2e8}
        >>> prediction = thermostats.predict_gain(facts, lab="EleutherAI", family="pythia")
        >>> len(prediction.sentences()) > 1
        True
        """
        row = self.table.iloc[0]
        median = row[f"{self.gain}_median"]
        interval = f"{row[f'{self.gain}_lower']:.3g} to {row[f'{self.gain}_upper']:.3g}"
        chance = row[f"P({self.gain} < 1)"]
        words = self.gain.replace("_", " ")
        name = words[0].upper() + words[1:]
        lab = row["heritage"]
        first = (
            f"{name}: {median:.3g}, {format_percent(self.level)} interval {interval}; "
            f"the probability that it is below 1 is {chance:.2g}."
        )
        unseen = f"No model of {lab} has this gain" if lab != UNNAMED else "No lab is named"
        others = (
            f"{unseen}; models are at hand of {join_words(self.labs)}. The lab's part is drawn "
            f"anew."
        )
        lines = [first]
        if not self.lab_at_hand:
            lines.append(others)
        if row["outside"]:
            lines.append(f"Beyond the models at hand: {row['outside']}.")
        return [*lines, self.record.sentence()]


def predict_gain(
    model: str | Path | Mapping[str, Any],
    *,
    lab: str = "",
    family: str = "",
    gain: str = "penultimate_gain",
    data: str | Path | None = None,
    level: float | None = None,
    seed: int = SEED,
) -> Prediction:
    """Predict the gain of a model that was not measured, with the record of such predictions.

    It is predicted by `fit_heritage` to the models at hand. The record is computed from the same
    rows by leaving out each model of labs of two or more, and each lab (`leave_one_out`).

    Parameters
    ----------
    model : str, Path or mapping
        A config.json, a model's folder or hub id, of which no weights are read, or its facts:
        n_layers, n_heads, d_head, n_params.
    lab : str
        Who trains it; one that the rows lack, or none, is drawn anew.
    family : str
        Of the lab's, where it belongs to one.
    gain : str
        Which of the named gains.
    data : str or Path
        A user's folder, read together with the package's own tables.
    level : float
        Of the intervals; by default that of `options`.
    seed : int
        Of the draws.

    Returns
    -------
    Prediction
        The prediction on the gain's own scale, and the records.

    Raises
    ------
    UsageError
        For facts that are missing or no numbers above 0, a configuration of a class that is not
        described, a lab that the tables spell otherwise and a gain that no row holds.

    Examples
    --------
    >>> import thermostats
    >>> facts = {"n_layers": 20, "n_heads": 10, "d_head": 128, "n_params": 5.2e8}
    >>> prediction = thermostats.predict_gain(facts, lab="EleutherAI", family="pythia")
    >>> prediction.table[["penultimate_gain_median", "P(penultimate_gain < 1)"]].round(1)
       penultimate_gain_median  P(penultimate_gain < 1)
    0                      1.1                      0.1
    """
    _check_label(lab, LAB)
    _check_label(family, "family")
    stated = model if isinstance(model, Mapping) else _read_config(model)
    facts = _read_numbers(stated)
    rows = gain_rows(gain, data=data)
    fit = fit_heritage(rows, estimand=gain, seed=seed)
    level = (
        fit.level
        if level is None
        else check_coverage(level, "thermostats.predict_gain(model, level={})")
    )
    labs = tuple(sorted(set(fit.rows["heritage"])))
    if lab not in labs and (other := find_other_spelling(lab, find_lookup_folder(data))):
        step = f"thermostats.predict_gain(MODEL, lab={write_value(other)})"
        raise UsageError(
            "the tables spell this lab otherwise",
            where=LAB,
            got=repr(lab),
            allowed=other,
            next_step=step,
        )
    new: dict[str, Any] = {"heritage": lab or UNNAMED}
    if family:
        new["family"] = family
    predicted = fit.predict({**new, **facts}, level=level)
    left_out = [leave_one_out(fit, by=by) for by in WAYS]
    records = [TrackRecord.build(each, fit.level) for each in left_out]
    return Prediction(table=predicted, gain=gain, records=tuple(records), labs=labs, level=level)


def _read_config(model: str | Path) -> Mapping[str, Any]:
    from thermostats.measurement.empty_models import read_config_facts  # noqa: PLC0415

    return read_config_facts(model)


def _check_label(value: Any, name: str) -> None:
    """UsageError for a lab or family that is missing or no text."""
    if not isinstance(value, str):
        step = f'thermostats.predict_gain(MODEL, {name}="NAME"), or without {name}='
        allowed = "a name; leave it out where it is not known"
        got = repr(value)[:60]
        raise UsageError(f"no {name}", where=name, got=got, allowed=allowed, next_step=step)


def _read_numbers(facts: Mapping[str, Any]) -> dict[str, float]:
    """The facts as numbers; UsageError names those that are missing and those that are none."""
    line = (
        'thermostats.predict_gain({"n_layers": 24, "n_heads": 16, "d_head": 64, "n_params": 4e8}, '
        'lab="EleutherAI")'
    )
    if lacking := [name for name in FACTS if facts.get(name) is None]:
        what = "facts of the model are missing"
        allowed = f"{', '.join(FACTS)}, or a config.json"
        raise UsageError(what, got=f"no {', '.join(lacking)}", allowed=allowed, next_step=line)
    for name in FACTS:
        value = facts[name]
        if not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
            got = repr(value)[:60]
            raise UsageError(f"{name} is no number above 0", got=got, next_step=line)
    for name in FACTS:
        value = facts[name]
        if isinstance(value, bool) or value % 1:
            got = repr(value)[:60]
            raise UsageError(f"{name} is no whole number", got=got, next_step=line)
    return {name: float(facts[name]) for name in FACTS}
