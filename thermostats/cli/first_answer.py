"""What `thermostats new heritage` says at once: tests of labs on the models at hand, and what they could have shown."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.formatting import number, plural
from thermostats.modelling.heritage.gain_rows import gain_rows, said_of
from thermostats.modelling.heritage.lab_tests import ALPHA, WANTED, WORLDS, Tested, first_answer
from thermostats.tables.folders import data_folder
from thermostats.tables.model_rows import own_ids
from thermostats.tables.reading import features
from thermostats.tables.schemas import GAIN_WORDS, GAINS

GAIN = "penultimate_gain"
"""The gain that is asked about unless more of the user's models have another."""


def gain_of(data: str | Path | None) -> str:
    """The named gain that most of the user's models have: the penultimate, or where more have another, that."""
    measured = own_ids(data_folder(data))
    rows = features(data)
    rows = rows[rows["model_id"].isin(measured)]
    having = {name: rows.loc[rows[name].notna(), "model_id"].nunique() for name in (GAIN, *GAINS)}
    return max(having, key=lambda name: having[name])


def answer(data: str | Path | None, gain: str = GAIN) -> dict[str, Any]:
    """Which models, which are left out, and each question's test and rates; why there is none where there is none."""
    rows = gain_rows(gain, data=data)
    unstated = sorted(set(rows.loc[rows["heritage"] == "", "model_id"]))
    left_out = [*said_of(rows), *([f"left out, since no lab is stated: {', '.join(unstated)}"] if unstated else [])]
    models = _models(rows[rows["heritage"] != ""])
    yours = own_ids(data_folder(data))
    your_rows = models[models["model_id"].isin(yours)]
    for whose, chosen in (("your", your_rows), ("all", models)):
        try:
            tested = first_answer(chosen)
        except UsageError as error:
            left_out += [f"{whose} models alone: {error}"] if len(chosen) else []
            continue
        named = sorted(chosen["model_id"])
        if whose == "your":
            lacking = sorted(yours - set(named))
            why = f"no {gain} of a base model that may be compared, or no lab"
            left_out = [f"left out of yours, {why}: {', '.join(lacking)}"] if lacking else []
        counts = {
            "gain": gain,
            "whose": whose,
            "models": named,
            "labs": int(chosen["heritage"].nunique()),
            "left_out": left_out,
        }
        return {**counts, "questions": [{**asdict(each), "error": each.error} for each in tested]}
    return {"gain": gain, "whose": "", "models": [], "labs": 0, "left_out": left_out, "questions": []}


def lines(result: dict[str, Any]) -> list[str]:
    """The first answer in words, a line each."""
    if not result["questions"]:
        return [f"No first answer: too few models with a {result['gain']} and a lab.", *result["left_out"]]
    whose = "your own" if result["whose"] == "your" else "all"
    of = f"{plural(len(result['models']), 'model')} of {plural(result['labs'], 'lab')}"
    text = [f"First answer, {GAIN_WORDS[result['gain']]}, {whose} models: {of}"]
    for each in result["questions"]:
        tested = Tested(**{name: value for name, value in each.items() if name != "error"})
        yes = "yes" if tested.p <= ALPHA else "not shown"
        text.append(
            f"{tested.question} {yes}: F({tested.df[0]}, {tested.df[1]}) = {number(tested.f)}, p = {number(tested.p)}"
        )
        text.append(
            f"  In {WORLDS} simulated worlds of these models (± {number(100 * tested.error, 2)} points) it says yes in "
            f"{tested.false:.1%} where labs do not matter, in {tested.power:.0%} where they differ as much as models "
            "of one lab."
        )
        if tested.p > ALPHA:
            text.append("  " + _settled(tested))
    if result["whose"] == "your":
        text.append("The report asks the same of these and the study's models together, so that its answer may differ.")
    return [*text, *(f"  {line}" for line in result["left_out"])]


def _settled(tested: Tested) -> str:
    if tested.wanted == 1:
        return f"That is at least {WANTED:.0%}: these models could have shown it."
    if np.isnan(tested.wanted):
        return f"No number of labs that was tried gives {WANTED:.0%}: more models of each lab would."
    return f"{tested.wanted:g} times as many labs like these would settle it in {WANTED:.0%} of studies."


def _models(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean log gain over prompts and the facts, one row a model."""
    logs = rows.assign(log_gain=np.log(rows["gain"].astype("float64")))
    facts = dict.fromkeys(["heritage", "n_layers", "n_heads", "d_head", "n_params"], "first")
    return logs.groupby("model_id", as_index=False).agg({"log_gain": "mean", **facts})
