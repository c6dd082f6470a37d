"""Tests of labs on the models at hand, next to what they could have shown and how often they
err."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.formatting import format_count, format_number
from thermostats.modelling.draws import Array
from thermostats.modelling.model_gains import gain_rows, read_remarks
from thermostats.modelling.planned import WANTED
from thermostats.tables.folders import find_data_folder
from thermostats.tables.model_rows import list_own_ids
from thermostats.tables.reading import features
from thermostats.tables.schemas import GAIN_WORDS, GAINS

WORLDS, ALPHA = 200, 0.05
"""Simulated studies, and the level of the tests."""
TIMES = (1, 2, 3, 4, 6, 8, 12)
"""How many times as many labs are tried."""
SPARE = 4
"""Residual degrees of freedom that a test needs."""
NUMBERS = ("n_layers", "n_heads", "d_head", "n_params")


@dataclass(frozen=True, kw_only=True)
class Tested:
    """One question: the test of labs next to what else is in the model, and what it says in
    simulated worlds."""

    question: str
    f: float
    p: float
    df: tuple[int, int]
    false: float
    """Share of worlds without effects of labs in which p ≤ 0.05."""
    power: float
    """Share of worlds in which p ≤ 0.05 where labs differ as much as models of one lab."""
    wanted: float
    """Times as many labs for a power of 0.8; NaN where none tried suffices."""

    @property
    def error(self) -> float:
        """Largest Monte-Carlo standard error of the two rates, as standard deviations of a binomial
        share."""
        variances = [rate * (1 - rate) / WORLDS for rate in (self.false, self.power)]
        return float(np.sqrt(max(variances)))


def answer_questions(models: pd.DataFrame, *, seed: int = 1) -> tuple[Tested, ...]:
    """Both questions of a table of models: log_gain, heritage, and of `NUMBERS` the columns that
    all of them have.

    Raises UsageError for fewer than two labs, or where fewer than four degrees of freedom remain
    for the residual.
    """
    labs = models["heritage"].astype(str).to_numpy()
    if len(set(labs)) < 2:
        raise UsageError(
            "one lab: nothing to compare it with",
            got=f"{len(models)} models",
            allowed="2 labs or more",
        )
    y = models["log_gain"].to_numpy(float)
    shape = _take_logs(models)
    questions = {
        "Does the lab matter at all?": shape[:, :1],
        "Does it beyond shape and size?": shape,
    }
    answers = []
    for words, reduced in questions.items():
        answers.append(_run_lab_test(words, y, reduced, labs, seed))
    return tuple(answers)


def _run_lab_test(
    question: str, y: Array, reduced: Array, labs: Sequence[str] | Array, seed: int
) -> Tested:
    outcome = y[None]
    ratios, ps, df = _compute_f(outcome, reduced, labs)
    rng = np.random.default_rng(seed)
    columns = np.column_stack([reduced, _build_indicators(labs)])
    basis, _ = np.linalg.qr(columns)
    left = y - basis @ (basis.T @ y)
    squares = np.square(left).sum()
    variance = squares / df[1]
    sigma = float(np.sqrt(variance))
    noise = rng.standard_normal((WORLDS, len(y)))
    false = _measure_rate(sigma * noise, reduced, labs)
    powers = []
    wanted = np.nan
    for times in TIMES:
        power = _simulate_power(times, reduced, labs, rng)
        powers.append(power)
        if power >= WANTED:
            wanted = float(times)
            break
    return Tested(
        question=question,
        f=float(ratios[0]),
        p=float(ps[0]),
        df=df,
        false=false,
        power=powers[0],
        wanted=wanted,
    )


def _measure_rate(outcomes: Array, reduced: Array, labs: Sequence[str] | Array) -> float:
    """Share of outcomes, a row each, with p ≤ 0.05."""
    _, ps, _ = _compute_f(outcomes, reduced, labs)
    return float((ps <= ALPHA).mean())


def _simulate_power(
    times: int, reduced: Array, labs: Sequence[str] | Array, rng: np.random.Generator
) -> float:
    """Share of worlds with p ≤ 0.05 where labs differ as much as models of one lab, of so many
    times as many labs."""
    names = np.array([f"{lab} {i}" for i in range(times) for lab in labs])
    codes = np.unique(names, return_inverse=True)[1]
    of_labs = rng.standard_normal((WORLDS, codes.max() + 1))
    noise = rng.standard_normal((WORLDS, names.size))
    repeated = np.tile(reduced, (times, 1))
    return _measure_rate(of_labs[:, codes] + noise, repeated, names)


def _compute_f(
    outcomes: Array, reduced: Array, labs: Sequence[str] | Array
) -> tuple[Array, Array, tuple[int, int]]:
    """F and p of labs for every row of outcomes, and the degrees of freedom."""
    small = _build_basis(reduced)
    with_labs = np.column_stack([reduced, _build_indicators(labs)])
    full = _build_basis(with_labs)
    n_models = outcomes.shape[1]
    rank = full.shape[1]
    k = rank - small.shape[1]
    rest = n_models - rank
    if k < 1 or rest < SPARE:
        raise UsageError(
            "too few models for a test of labs",
            got=f"{n_models} models of {len(set(labs))} labs",
            allowed=f"{rank + SPARE} models or more for so many labs and columns",
        )
    total = np.square(outcomes).sum(axis=1)
    of_small = np.square(outcomes @ small).sum(axis=1)
    of_full = np.square(outcomes @ full).sum(axis=1)
    rss_0 = total - of_small
    rss_1 = total - of_full
    f = (rss_0 - rss_1) / k / (rss_1 / rest)
    p = stats.f.sf(f, k, rest)
    return f, p, (k, rest)


def _build_basis(columns: Array) -> Array:
    """An orthonormal basis of columns, some of which may follow from others."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    kept = s > 1e-10 * s[0]
    return np.asarray(u[:, kept])


def _build_indicators(labs: Sequence[str] | Array) -> Array:
    names = np.asarray(labs, dtype=str)
    codes = np.unique(names, return_inverse=True)[1]
    return np.eye(codes.max() + 1)[codes]


def _take_logs(models: pd.DataFrame) -> Array:
    """An intercept, and the logs of the numbers that every model has and that vary."""
    columns = [np.ones(len(models))]
    for name in NUMBERS:
        if name in models and models[name].notna().all() and models[name].nunique() > 1:
            numbers = models[name].to_numpy(float)
            x = np.log(numbers)
            centred = x - x.mean()
            columns.append(centred / x.std())
    return np.column_stack(columns)


GAIN = "penultimate_gain"
"""The gain that is asked about unless more of the user's models have another."""


def choose_gain(data: str | Path | None) -> str:
    """The named gain that most of the user's models have: the penultimate, or where more have
    another, that."""
    measured = list_own_ids(find_data_folder(data))
    rows = features(data)
    rows = rows[rows["model_id"].isin(measured)]
    having = {}
    for name in (GAIN, *GAINS):
        known = rows[name].notna()
        ids = rows.loc[known, "model_id"]
        having[name] = ids.nunique()
    return max(having, key=lambda name: having[name])


def answer(data: str | Path | None, gain: str = GAIN) -> dict[str, Any]:
    """Which models, which are left out, and each question's test and rates; why there is none where
    there is none."""
    rows = gain_rows(gain, data=data)
    without_lab = rows["heritage"] == ""
    ids = rows.loc[without_lab, "model_id"]
    unstated = sorted(set(ids))
    left_out = list(read_remarks(rows))
    if unstated:
        left_out.append(f"left out, since no lab is stated: {', '.join(unstated)}")
    of_labs = rows[~without_lab]
    models = _summarise_models(of_labs)
    yours = list_own_ids(find_data_folder(data))
    your_rows = models[models["model_id"].isin(yours)]
    for whose, chosen in (("your", your_rows), ("all", models)):
        try:
            tested = answer_questions(chosen)
        except UsageError as error:
            if len(chosen):
                left_out.append(f"{whose} models alone: {error}")
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
        questions = [{**asdict(each), "error": each.error} for each in tested]
        return {**counts, "questions": questions}
    return {
        "gain": gain,
        "whose": "",
        "models": [],
        "labs": 0,
        "left_out": left_out,
        "questions": [],
    }


def format_lines(result: dict[str, Any]) -> list[str]:
    """The first answer in words, a line each."""
    if not result["questions"]:
        return [
            f"No first answer: too few models with a {result['gain']} and a lab.",
            *result["left_out"],
        ]
    whose = "your own" if result["whose"] == "your" else "all"
    models = format_count(len(result["models"]), "model")
    of = f"{models} of {format_count(result['labs'], 'lab')}"
    text = [f"First answer, {GAIN_WORDS[result['gain']]}, {whose} models: {of}"]
    for each in result["questions"]:
        tested = Tested(**{name: value for name, value in each.items() if name != "error"})
        yes = "yes" if tested.p <= ALPHA else "not shown"
        ratio = f"F({tested.df[0]}, {tested.df[1]}) = {format_number(tested.f)}"
        p = format_number(tested.p)
        text.append(f"{tested.question} {yes}: {ratio}, p = {p}")
        error = format_number(100 * tested.error, 2)
        rates = (
            f"{tested.false:.1%} where labs do not matter, in {tested.power:.0%} where they differ "
            f"as much as models of one lab."
        )
        text.append(
            f"  In {WORLDS} simulated worlds of these models (± {error} points) it says yes in "
            f"{rates}"
        )
        if tested.p > ALPHA:
            text.append("  " + _describe_answer(tested))
    if result["whose"] == "your":
        text.append(
            "The report asks the same of these and the study's models together, so that its answer "
            "may differ."
        )
    left_out = [f"  {line}" for line in result["left_out"]]
    return [*text, *left_out]


def _describe_answer(tested: Tested) -> str:
    if tested.wanted == 1:
        return f"That is at least {WANTED:.0%}: these models could have shown it."
    if np.isnan(tested.wanted):
        return (
            f"No number of labs that was tried gives {WANTED:.0%}: more models of each lab would."
        )
    return (
        f"{tested.wanted:g} times as many labs like these would settle it in {WANTED:.0%} of "
        f"studies."
    )


def _summarise_models(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean log gain over prompts and the facts, one row a model."""
    gains = rows["gain"].astype("float64")
    logs = rows.assign(log_gain=np.log(gains))
    facts = dict.fromkeys(["heritage", "n_layers", "n_heads", "d_head", "n_params"], "first")
    return logs.groupby("model_id", as_index=False).agg({"log_gain": "mean", **facts})
