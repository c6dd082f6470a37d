"""From the tables to what is fitted: one row per prompt (or a mean with its spread) and one row per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.columns import at_position, columns_of, labels, models_missing, named, numbers, units_once
from thermostats.modelling.gaussian import moderated, not_read, of_logs
from thermostats.tables import store
from thermostats.tables.features import LAST, by_prompt, features
from thermostats.tables.model_rows import one_row_a_model
from thermostats.tables.schemas import GAINS, NURSERY

GEOMETRY = ("n_layers", "n_heads", "d_head")
SCALE = ("n_params",)
SAID = "left out"
"""Under this name `DataFrame.attrs` of the rows holds what `said_of` gives."""


def said_of(rows: pd.DataFrame) -> tuple[str, ...]:
    """What was left out before these rows were made, in words; nothing of rows that `gain_rows` did not make.

    Selections and sorted copies keep it; tables put together from several do not.
    """
    return tuple(rows.attrs.get(SAID, ()))


def gain_rows(
    estimand: str,
    *,
    data: str | Path | None = None,
    source: str | Sequence[str] | None = None,
    incomparable: bool = False,
    position: str = LAST,
) -> pd.DataFrame:
    """Rows for `fit_heritage` from the tables: base models, each from its run with the most prompts.

    A model whose variant is not stated counts as a base model, unless it is of the controlled study.

    A model measured prompt by prompt has a row per prompt (`gain`); one of which only mean and standard deviation over
    prompts are known has one row with `prompt_id` empty, `gain`, `gain_sd` (divisor n − 1) and `n_prompts`. `source`:
    files or measurements to take, in order of preference; all by default. `position`: token of the gains.
    Models whose gains are near 1 by construction are left out unless `incomparable`. `fit_heritage` warns of models
    and prompts that are left out (`said_of`).

    Raises UsageError for a gain that is not in `GAINS` or that no row of these sources holds.
    """
    loaded = {name: store.load(name, data) for name in ("runs", "models", "layers", "summaries")}
    files = [source] if isinstance(source, str) else source
    table, values = features(data, position=position), by_prompt(**loaded, position=position)
    return chosen_rows(estimand, table, store.load("prompts", data), values, files, incomparable)


def chosen_rows(
    estimand: str,
    table: pd.DataFrame,
    prompts: pd.DataFrame,
    values: pd.DataFrame,
    files: Sequence[str] | None = None,
    incomparable: bool = False,
) -> pd.DataFrame:
    """Rows for `fit_heritage` from tables at hand: `features`, `prompts`, and gains by prompt as of `by_prompt`."""
    if estimand not in GAINS:
        raise UsageError("no such gain", got=estimand, allowed=", ".join(GAINS))
    unstated = (table["variant"] == "") & (table["source"] != NURSERY)  # there: unfinished, or trained on
    table = table.assign(variant=table["variant"].mask(unstated, "base"))
    fit_for_it = (table["variant"] == "base") & table[estimand].notna() & (table["comparable"] | incomparable)
    in_question = _of_sources(table, estimand, files, fit_for_it)
    rows, sizes = in_question[fit_for_it[in_question.index]], prompts.groupby("prompt_set").size()
    each = rows[f"{estimand}_n"].fillna(0).astype("int64")
    rows = rows.assign(each=each > 0, n_prompts=each.where(each > 0, rows["prompt_set"].map(sizes)))
    base = in_question[in_question["variant"] == "base"]
    with_gain = base[base[estimand].notna()]
    notes = models_missing(base["model_id"], with_gain["model_id"], f"no {estimand}")
    if pinned := set(with_gain["model_id"]) - set(rows["model_id"]):
        notes.append("left out, since normalised after the sum: " + named(pinned))
    if tuned := set(in_question.loc[in_question[estimand].notna(), "model_id"]) - set(base["model_id"]):
        notes.append("left out, not a base model: " + named(tuned))
    rows = _one_row(rows, files, notes, first=["each"])
    _say_fewer(rows[rows["each"]], estimand, rows["prompt_set"].map(sizes), notes)
    facts = ["model_id", "heritage", "family", *GEOMETRY, *SCALE]
    shared = [*facts, "source", "token_position", "prompt_set", "n_prompts"]
    averaged = rows[~rows["each"]]
    n = averaged["n_prompts"].astype("float64")
    means = averaged[shared].assign(
        prompt_id="", category="", gain=averaged[estimand], gain_sd=averaged[f"{estimand}_sd"] * np.sqrt(n / (n - 1))
    )
    values = values[(values["gain"] == estimand) & (values["prompt_id"] != "")]
    single = rows.loc[rows["each"], ["run_id", *shared]].merge(
        values[["run_id", "prompt_id", "value"]].rename(columns={"value": "gain"}), on="run_id"
    )
    single = single.merge(prompts[["prompt_set", "prompt_id", "category"]], on=["prompt_set", "prompt_id"], how="left")
    both = pd.concat([part for part in (single.drop(columns="run_id"), means) if len(part)], ignore_index=True)
    ordered = both.sort_values(["model_id", "prompt_id"], kind="stable", ignore_index=True)
    ordered.attrs[SAID] = tuple(notes)
    return ordered


def _of_sources(table: pd.DataFrame, estimand: str, files: Sequence[str] | None, usable: pd.Series) -> pd.DataFrame:
    """Rows of the sources asked for, all but the controlled study by default; UsageError where none is usable."""
    chosen = table["source"].isin(files) if files is not None else table["source"] != NURSERY
    if not (chosen & usable).any():
        raise UsageError(
            "no row holds the gain asked for",
            where=estimand,
            got=f"source {', '.join(files)}" if files else "all sources",
            allowed=", ".join(sorted(set(table.loc[usable, "source"]))) or "another gain",
        )
    return table[chosen]


def _say_fewer(rows: pd.DataFrame, estimand: str, stated: pd.Series, notes: list[str]) -> None:
    """Name models that have this gain of fewer prompts than their set holds."""
    if len(fewer := rows[rows["n_prompts"] < stated.reindex(rows.index)]):
        notes.append(f"prompts without {estimand}, left out: some of " + named(fewer["model_id"]))


def _column(rows: pd.DataFrame, name: str, absent: object) -> pd.Series:
    """A column, or one of a single value where the rows have none."""
    return rows[name] if name in rows else pd.Series(absent, index=rows.index)


@dataclass(frozen=True, kw_only=True)
class ModelRows:
    """One row per model: columns of the features, `log_gain` (natural), `error` (its standard error), `n_prompts`."""

    table: pd.DataFrame
    estimand: str
    sources: tuple[str, ...]
    warnings: tuple[str, ...]


def log_gains_of_models(
    table: pd.DataFrame,
    estimand: str,
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    se: str | float | None = None,
    least: int = 3,
) -> ModelRows:
    """Log gains of `features` rows, one row per model (that with most prompts), errors by the delta method.

    log g ± sd/(g √n); where prompts were kept apart log g is their geometric mean. `source`: files to take, in order of
    preference; all but the controlled study by default. `error_from`: the gain whose relative error stands in where the
    estimand's spread over prompts is not known. `prompt_counts`: prompts of each prompt set, for files that hold
    averages only; where fewer have this gain a warning says so. A model without an error takes the largest of the
    others, and a warning says so. `se`: known errors of the gain as given, in place of all these. Models whose gain is
    pinned near 1 by their norm (`comparable` false) are left out with a warning, and so are those without this gain.

    Raises UsageError for a gain that is not there, is not above 0, is infinite or the same in all models, for a model
    without a lab, and for fewer than `least` models.
    """
    columns_of(table, "model_id", "heritage", "source", estimand)
    table = table.reset_index(drop=True)
    units_once(table, ())
    files = [source] if isinstance(source, str) else source
    in_question = _of_sources(table, estimand, files, table[estimand].notna())
    rows = in_question[in_question[estimand].notna()]
    labels(rows["heritage"], "heritage")
    notes = models_missing(in_question["model_id"], rows["model_id"], f"no {estimand}")
    pinned = ~_column(rows, "comparable", True).astype(bool)
    if pinned.any():
        notes.append("left out, since normalised after the sum: " + named(set(rows.loc[pinned, "model_id"])))
        rows = rows[~pinned]
    stated = _column(rows, "prompt_set", "").map(dict(prompt_counts or {})).astype("float64")
    n_prompts = _column(rows, f"{estimand}_n", np.nan).astype("float64")
    rows = _one_row(rows.assign(n_prompts=n_prompts.where(n_prompts > 0).fillna(stated).fillna(0)), files, notes)
    stated = _column(rows, "prompt_set", "").map(dict(prompt_counts or {})).astype("float64")
    _say_fewer(rows, estimand, stated, notes)
    gain = numbers(rows[estimand], estimand, least=least, positive=True, varied=True)
    if se is None:
        logs, errors = _of_prompts(rows, estimand, gain, error_from, notes)
    else:
        logs, (errors, words) = np.log(gain), of_logs(rows, se, estimand, gain)
        rows = rows.assign(n_prompts=0.0)  # known errors are those of no number of prompts
        notes.append(words)
    notes += not_read(table, estimand, se, f"{estimand}_sd")
    result = rows.assign(log_gain=logs, error=errors)
    return ModelRows(
        table=result,
        estimand=at_position(estimand, result),
        sources=tuple(sorted(set(result["source"]) - {""})),
        warnings=tuple(notes),
    )


def _of_prompts(
    rows: pd.DataFrame, estimand: str, gain: np.ndarray, error_from: str | None, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Log gains, geometric means where they are known, and their errors from spreads over prompts."""
    logs = np.log(gain)
    if f"{estimand}_geometric" in rows:
        geometric = np.log(rows[f"{estimand}_geometric"].astype("float64").to_numpy())
        logs = np.where(np.isfinite(geometric), geometric, logs)
    errors = _errors(rows, estimand)
    if error_from is not None and error_from != estimand:
        columns_of(rows, error_from)
        other = _errors(rows, error_from)
        stands = np.isnan(errors) & np.isfinite(other)
        if stands.any():
            notes.append(f"error of {error_from} stands in for that of {estimand} in {int(stands.sum())} models")
        errors = np.where(np.isnan(errors), other, errors)
    unknown = np.isnan(errors)
    if unknown.all():
        notes.append("no model's spread over prompts is known: gains are taken as exact")
        errors = np.zeros(len(rows))
    elif unknown.any():
        notes.append("error unknown, so the largest of the others is used: " + named(rows.loc[unknown, "model_id"]))
        errors = np.where(unknown, np.nanmax(errors), errors)
    return logs, errors


def _one_row(
    rows: pd.DataFrame, files: Sequence[str] | None, notes: list[str], *, first: Sequence[str] = ()
) -> pd.DataFrame:
    """As `one_row_a_model`, of several the first source by name; `notes` names who had several."""
    if twice := set(rows.loc[rows["model_id"].duplicated(), "model_id"]):
        notes.append("measured more than once, so one row is used: " + named(twice))
    return one_row_a_model(rows, files, first=first, ties=["source"])


def _errors(rows: pd.DataFrame, gain: str) -> np.ndarray:
    """Standard error of the log gain, sd/(g √n); NaN where sd or n is not known."""
    sd, n = (_column(rows, f"{gain}_{what}", np.nan).astype("float64") for what in ("sd", "n"))
    kept_apart = n > 0
    divisor = np.sqrt(
        n.where(kept_apart, (rows["n_prompts"].astype("float64") - 1).clip(lower=0))
    )  # published sds: divisor n
    errors = (sd / rows[gain].astype("float64") / divisor).to_numpy()
    return np.where(np.isfinite(errors), errors, np.nan)


def model_means(
    table: pd.DataFrame,
    estimand: str,
    *,
    names: Sequence[str],
    numbers: Sequence[str],
    positive: bool,
    se: str | float | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """One row per model, in order of their names, and what is odd about the table.

    Columns: model_id, `names` and `numbers`, family where the table has it, log_gain (mean over prompts; of an average
    log m − (s/m)²/2), sd and n_prompts, error of the mean and its degrees of freedom (`moderated`). With `se`, of the
    gain as given, log_gain is its log and the error known. Rows without a gain are left out and said.

    Raises UsageError for missing columns, gains that are not positive and finite, a model with two labs or geometries,
    missing labels and numbers, a prompt twice in one model, averages next to other rows or without their spread.
    """
    columns_of(table, "model_id", *names, *numbers, "gain")
    rows, warnings = _with_gains(table, estimand)
    facts = _facts(rows, names, numbers, positive=positive)
    means = facts.join(
        _means_of_prompts(rows, facts.index, warnings) if se is None else _stated(rows, estimand, se, warnings)
    )
    if "family" in rows and "family" not in means:
        stated = rows[["model_id", "family"]].replace("", None).dropna().drop_duplicates()
        if not stated.empty and not stated["model_id"].duplicated().any():
            means["family"] = stated.set_index("model_id")["family"].reindex(means.index)
    return means.reset_index(), warnings


def _with_gains(table: pd.DataFrame, estimand: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows that have a gain, and a warning of those that have none."""
    rows, warnings = table.dropna(subset="gain").reset_index(drop=True), list[str]()
    if len(rows) < len(table):
        gone = set(table["model_id"].dropna()) - set(rows["model_id"])
        warnings.append(
            f"{len(table) - len(rows)} of {len(table)} rows have no gain and are left out"
            + (f", and with them {named(gone)}" if gone else "")
        )
    if rows.empty:
        raise UsageError("no row has a gain", where=estimand, got=f"{len(table)} rows", allowed="gains above 0")
    if not pd.api.types.is_numeric_dtype(rows["gain"]):
        rows["gain"] = numbers(rows["gain"], estimand, least=1)
    gain = rows["gain"].to_numpy(dtype=np.float64)
    bad = ~(np.isfinite(gain) & (gain > 0))
    if bad.any():
        raise UsageError(
            "a gain is not positive and finite",
            where=rows["model_id"].to_numpy()[bad][0],
            got=f"{gain[bad][0]:g} in {int(bad.sum())} of {gain.size} rows",
            allowed="gains above 0",
            next_step="look at these measurements; an overflow in half precision gives such values",
        )
    return rows, warnings


def _facts(rows: pd.DataFrame, names: Sequence[str], numbers: Sequence[str], *, positive: bool) -> pd.DataFrame:
    """Names and numbers of every model."""
    facts = rows[["model_id", *names, *numbers]].drop_duplicates()
    for column in names:
        labels(facts[column], column)
    twice = facts["model_id"].duplicated()
    if twice.any():
        raise UsageError(
            "a model has two labs or two geometries", got=facts["model_id"][twice].iloc[0], allowed="one row of facts"
        )
    for column in numbers:
        values = facts[column].to_numpy(dtype=np.float64, na_value=np.nan)
        bad = ~(np.isfinite(values) & (values > 0 if positive else True))
        if bad.any():
            raise UsageError(
                "missing geometry",
                where=column,
                got=", ".join(facts["model_id"].to_numpy()[bad][:5]),
                allowed=f"a number{' above 0' if positive else ''} for every model",
                next_step="fill in the table models, or leave these models out",
            )
    return facts.set_index("model_id").sort_index()


def _stated(rows: pd.DataFrame, estimand: str, se: str | float, warnings: list[str]) -> pd.DataFrame:
    """Log gain of every model with the error that is stated; its degrees of freedom are infinite."""
    gain = rows["gain"].to_numpy(dtype=np.float64)
    error, words = of_logs(rows, se, estimand, gain)
    warnings.append(words)
    return pd.DataFrame({"log_gain": np.log(gain), "error": error, "freedom": np.inf}, index=rows["model_id"])


def _means_of_prompts(rows: pd.DataFrame, models: pd.Index[Any], warnings: list[str]) -> pd.DataFrame:
    """Mean log gain of every model over its prompts, with its moderated error."""
    spread = pd.DataFrame(_spreads(rows, warnings)).loc[models]
    error, freedom = moderated(spread["sd"].to_numpy(), spread["n_prompts"].to_numpy(np.float64))
    return spread.assign(error=error, freedom=freedom)


def _spreads(rows: pd.DataFrame, warnings: list[str]) -> Mapping[str, pd.Series]:
    """Mean log gain, its standard deviation over prompts and their number, of every model."""
    rows = rows.assign(prompt_id=_column(rows, "prompt_id", "").fillna(""))
    averaged = (rows["prompt_id"] == "") & _column(rows, "gain_sd", np.nan).notna()
    single, means = rows[~averaged], rows[averaged].set_index("model_id")
    _refuse_twice(single, means)
    logs = np.log(single["gain"].astype("float64")).groupby(single["model_id"])
    alone = int((logs.size() == 1).sum())
    if alone:
        warnings.append(
            "every model has a single row: variation between models and between prompts cannot be separated"
            if alone == logs.ngroups and means.empty
            else f"{alone} models have a single row: their spread over prompts is that of the others"
        )
    if _column(rows, "prompt_set", "").nunique(dropna=False) > 1:
        warnings.append(
            "models were measured on different prompt sets: differences between sets are part of the models'"
        )
    m, s, n = (_column(means, name, np.nan).astype("float64") for name in ("gain", "gain_sd", "n_prompts"))
    if (bad := ~((s > 0) & (n >= 2))).any():
        raise UsageError(
            "an average without its spread or number of prompts",
            got=", ".join(means.index[bad][:5]),
            allowed="gain_sd above 0 and n_prompts of 2 or more",
        )
    return {
        "log_gain": pd.concat([logs.mean(), np.log(m) - np.square(s / m) / 2]),
        "sd": pd.concat([logs.std().fillna(0.0), s / m]),
        "n_prompts": pd.concat([logs.size(), n]),
    }


def _refuse_twice(single: pd.DataFrame, means: pd.DataFrame) -> None:
    both = set(single["model_id"]) & set(means.index)
    if both or means.index.duplicated().any():
        raise UsageError(
            "a model has an average in addition to other rows",
            got=", ".join(sorted(both)[:5]) or means.index[0],
            allowed="rows per prompt, or one average",
        )
    again = single[(single["prompt_id"] != "") & single.duplicated(["model_id", "prompt_id"])]
    if len(again):
        raise UsageError(
            "a prompt twice in one model",
            where=again["model_id"].iloc[0],
            got=f"{len(again)} rows in addition to others of the same prompt",
            allowed="one row per model and prompt",
            next_step="use one run per model",
        )
