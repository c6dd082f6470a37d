"""A frame as one row a model: the mean log gain, its spread over prompts and their number, or the
error that is stated.

Rows of the frame are one per model and prompt (`prompt_id`), or one per model: a lone gain, or an
average with its standard deviation. How a law takes the error from the spread is its own affair: as
known, or as an estimate itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.columns import (
    COMPUTED,
    check_columns,
    check_distinct_units,
    convert_log_errors,
    keep_comparable,
    list_names,
    name_estimand,
    read_labels,
    read_numbers,
    suggest_complete_rows,
    warn_missing_models,
    warn_unread_errors,
)
from thermostats.modelling.importance import estimate_moderated_errors
from thermostats.next_steps import Code, repeat_call, write_value
from thermostats.tables import store
from thermostats.tables.choices import check_gain
from thermostats.tables.features import LAST, build_features, collect_prompt_gains
from thermostats.tables.frames import take_logs
from thermostats.tables.model_rows import pick_model_rows
from thermostats.tables.reading import keep_last_revision
from thermostats.tables.schemas import GAINS, NURSERY

OF_MEAN = "of_mean"
"""Column: the log gain is the log of a mean over prompts, which is above the mean of their logs."""


@dataclass(frozen=True, kw_only=True)
class ModelGains:
    """One row per model: its facts, `log_gain` (natural), `error` (its standard error); and what is
    odd about them."""

    table: pd.DataFrame
    estimand: str
    sources: tuple[str, ...]
    warnings: tuple[str, ...]


ErrorModel = Callable[[pd.DataFrame, list[str]], pd.DataFrame]
"""From log_gain, sd, n_prompts and `OF_MEAN` of every model, its `error`; what is odd goes to the
list."""


def read_model_gains(
    table: pd.DataFrame,
    estimand: str,
    *,
    outcome: str,
    errors: ErrorModel,
    names: Sequence[str] = (),
    quantities: Sequence[str] = (),
    optional: Sequence[str] = (),
    positive: bool = True,
    se: str | float | None = None,
    preference: Preference | None = None,
) -> ModelGains:
    """ȳ_i, the mean log gain of model i over its prompts, and its standard error: one row a model,
    in order of names.

    `outcome`: column of the gain, with `<outcome>_sd` (over prompts, divisor n − 1) and `n_prompts`
    where it is an average, of which `<outcome>_geometric` is the geometric mean where that is
    known. `names`, `quantities`: columns of labels and of numbers that every model has one of
    (`positive`: above 0); `optional`: columns that stay where no model has two values. `se`:
    standard error of the gain as given, a column or a number, in place of spreads; by the delta
    method that of ȳ_i is se/gain. `errors`: `fill_known_errors` or `add_moderated_errors`.
    `preference`: which of several of a model counts; without it a model stands in one row, or in
    one per prompt. Rows without a gain, and models whose gain is pinned near 1 by their norm
    (`comparable` false), are left out with a warning.

    Raises UsageError for missing columns, gains that are not positive and finite, a model with two
    labs or geometries, missing labels and numbers, a prompt twice in one model, and averages next
    to other rows of their model.
    """
    check_columns(table, "model_id", *names, *quantities, outcome)
    _names_apart([*names, *quantities])
    if preference is not None:
        table = preference.select_sources(table, outcome)
    rows, warnings = filter_gains(table, outcome)
    if preference is not None:
        rows = preference.pick_measurements(rows, outcome, warnings)
    facts = _read_facts(rows, names, quantities, positive=positive)
    if _read_column(rows, "prompt_set", "").nunique(dropna=False) > 1:
        warnings.append(
            "models were measured on different prompt sets: differences between sets are part of "
            "the models'"
        )
    if se is None:
        means = errors(_take_means(rows, outcome).loc[facts.index], warnings)
        means = means.drop(columns=OF_MEAN)
    else:
        means = _read_stated_gains(rows, outcome, se, warnings)
    warnings += warn_unread_errors(table, outcome, se, f"{outcome}_sd", "n_prompts")
    stay = {}
    for name in optional:
        if name in facts:
            continue
        values = _read_model_column(rows, name)
        if values is not None:
            stay[name] = values
    files = set(_read_column(rows, "source", "").dropna()) - {""}
    return ModelGains(
        table=facts.join(means).assign(**stay).reset_index(),
        estimand=name_estimand(estimand, rows),
        sources=tuple(sorted(files)),
        warnings=tuple(warnings),
    )


def _names_apart(columns: Sequence[str]) -> None:
    """UsageError where a fact of a model is called as a column that is computed."""
    if taken := [name for name in columns if name in (*COMPUTED, "sd", "n_prompts", OF_MEAN)]:
        step = repeat_call(Code(f"df.rename(columns={{{write_value(taken[0])}: NAME}})"))
        raise UsageError(
            "a fit of gains computes a column of this name itself",
            where=taken[0],
            allowed="another name",
            next_step=step or "rename it",
        )


def fill_known_errors(means: pd.DataFrame, warnings: list[str]) -> pd.DataFrame:
    """The error of a mean, sd/√n, as if it were known; a model without one has the largest of the
    others."""
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = means["sd"] / np.sqrt(means["n_prompts"])
    unknown = ~np.isfinite(errors)
    if unknown.all():
        warnings.append("no model's spread over prompts is known: gains are taken as exact")
        return means.assign(error=0.0)
    if unknown.any():
        names = list_names(means.index[unknown])
        warnings.append(f"error unknown, so the largest of the others is used: {names}")
    return means.assign(error=errors.where(~unknown, errors[~unknown].max()))


def add_moderated_errors(means: pd.DataFrame, warnings: list[str]) -> pd.DataFrame:
    """The error of a mean with its degrees of freedom (`freedom`), spreads being estimates
    themselves (`estimate_moderated_errors`).

    The log gain of an average is log m − (s/m)²/2, to second order the mean of log gains. Raises
    UsageError for an average that states a spread of 0 or no number of prompts.
    """
    sd = means["sd"]
    n = means["n_prompts"]
    if (bad := sd.notna() & (~(n >= 2) | (means[OF_MEAN] & (sd <= 0)))).any():
        raise UsageError(
            "an average without its spread or number of prompts",
            got=", ".join(means.index[bad][:5]),
            allowed="gain_sd above 0 and n_prompts of 2 or more",
        )
    if alone := int(sd.isna().sum()):
        warnings.append(
            "every model has a single row: variation between models and between prompts cannot be "
            "separated"
            if alone == len(means)
            else f"{alone} models have a single row: their spread over prompts is that of the "
            f"others"
        )
    n = n.where(sd.notna(), 1)
    read_numbers(n, "n_prompts", least=1)
    sd = sd.fillna(0.0)
    error, freedom = estimate_moderated_errors(sd.to_numpy(), n.to_numpy(np.float64))
    log_gain = means["log_gain"]
    logs = log_gain.where(~means[OF_MEAN], log_gain - np.square(sd) / 2)
    return means.assign(log_gain=logs, sd=sd, n_prompts=n, error=error, freedom=freedom)


def filter_gains(table: pd.DataFrame, outcome: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows that have a gain and may be compared, and who is left out; UsageError for a gain that
    has no logarithm."""
    rows = table.dropna(subset=outcome)
    warnings = warn_missing_models(table["model_id"].dropna(), rows["model_id"], f"no {outcome}")
    is_prompt = _read_prompts(table).ne("")
    has_others = table["model_id"].isin(rows["model_id"])
    is_partial = table[outcome].isna() & is_prompt & has_others
    if partly := int(is_partial.sum()):
        warnings.append(
            f"{partly} of {len(table)} rows have no {outcome} and are left out; their models have "
            f"others"
        )
    rows, pinned = keep_comparable(rows)
    if rows.empty:
        got = "; ".join([f"{len(table)} rows", *pinned])
        raise UsageError("no row has a gain", where=outcome, got=got, allowed="gains above 0")
    gain = rows[outcome]
    if not pd.api.types.is_numeric_dtype(gain):
        rows = rows.assign(**{outcome: read_numbers(gain, outcome, least=1)})
    gain = rows[outcome].to_numpy(dtype=np.float64)
    bad = ~(np.isfinite(gain) & (gain > 0))
    if bad.any():
        count = f"{int(bad.sum())} of {gain.size} rows"
        raise UsageError(
            "a gain is not positive and finite",
            where=rows["model_id"].to_numpy()[bad][0],
            got=f"{gain[bad][0]:g} in {count}",
            allowed="gains above 0",
            next_step="look at these measurements; an overflow in half precision gives such values",
        )
    return rows.reset_index(drop=True), warnings + pinned


def _read_facts(
    rows: pd.DataFrame, names: Sequence[str], quantities: Sequence[str], *, positive: bool
) -> pd.DataFrame:
    """Labels and numbers of every model."""
    facts = rows[["model_id", *names, *quantities]].drop_duplicates()
    for column in names:
        read_labels(facts[column], column)
    twice = facts["model_id"].duplicated()
    if twice.any():
        raise UsageError(
            "a model has two labs or two geometries",
            got=facts["model_id"][twice].iloc[0],
            allowed="one row of facts",
        )
    for column in quantities:
        values = facts[column].to_numpy(dtype=np.float64, na_value=np.nan)
        bad = ~(np.isfinite(values) & (values > 0 if positive else True))
        if bad.any():
            step = suggest_complete_rows(column)
            raise UsageError(
                "missing geometry",
                where=column,
                got=", ".join(facts["model_id"].to_numpy()[bad][:5]),
                allowed=f"a number{' above 0' if positive else ''} for every model",
                next_step=step or "fill in the table models, or leave these models out",
            )
    return facts.set_index("model_id").sort_index()


def _read_model_column(rows: pd.DataFrame, name: str) -> pd.Series | None:
    """A column by model; None where nothing is stated, or a model has two of it."""
    if name not in rows:
        return None
    stated = rows[["model_id", name]].replace("", None).dropna().drop_duplicates()
    if stated.empty or stated["model_id"].duplicated().any():
        return None
    return stated.set_index("model_id")[name]


def _read_stated_gains(
    rows: pd.DataFrame, outcome: str, se: str | float, warnings: list[str]
) -> pd.DataFrame:
    """Log gain of every model with the error that is stated; its degrees of freedom are
    infinite."""
    check_distinct_units(rows, ["model_id"])
    gain = rows[outcome].to_numpy(dtype=np.float64)
    error, words = convert_log_errors(rows, se, outcome, gain)
    warnings.append(words)
    columns = {"log_gain": np.log(gain), "error": error, "freedom": np.inf}
    return pd.DataFrame(columns, index=rows["model_id"])


def _take_means(rows: pd.DataFrame, outcome: str) -> pd.DataFrame:
    """Mean log gain of every model, its standard deviation over prompts and their number; NaN where
    not known."""
    sd = _read_floats(rows, f"{outcome}_sd")
    geometric = _read_floats(rows, f"{outcome}_geometric")
    n = _read_floats(rows, "n_prompts")
    rows = rows[["model_id", outcome]].assign(prompt_id=_read_prompts(rows))
    alone = ~rows["model_id"].duplicated(keep=False)
    averaged = (rows["prompt_id"] == "") & (sd.notna() | alone)
    _refuse_twice(rows[~averaged], rows.loc[averaged, "model_id"])
    gain = rows[outcome].astype("float64")
    prompts = np.log(gain[~averaged]).groupby(rows["model_id"][~averaged])
    of_prompts = prompts.agg(log_gain="mean", sd="std", n_prompts="size").assign(**{OF_MEAN: False})
    stated = take_logs(geometric)
    means = {
        "log_gain": stated.fillna(np.log(gain)),
        "sd": sd / gain,
        "n_prompts": n,
        OF_MEAN: sd.notna() & stated.isna(),
    }
    of_models = pd.DataFrame(means)[averaged].set_index(rows.loc[averaged, "model_id"])
    return pd.concat([part for part in (of_prompts, of_models) if len(part)])


def _refuse_twice(single: pd.DataFrame, averaged: pd.Series) -> None:
    """UsageError where prompts of a model, or a prompt and an average, would count twice."""
    both = set(single["model_id"]) & set(averaged)
    if both or averaged.duplicated().any():
        names = ", ".join(sorted(both)[:5])
        raise UsageError(
            "a model has an average in addition to other rows",
            got=names or averaged.iloc[0],
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


def _read_prompts(rows: pd.DataFrame) -> pd.Series:
    """The prompt of every row; empty where it is of no single one."""
    return _read_column(rows, "prompt_id", "").fillna("")


def _read_column(rows: pd.DataFrame, name: str, absent: object) -> pd.Series:
    """A column, or one of a single value where the rows have none."""
    return rows[name] if name in rows else pd.Series(absent, index=rows.index)


def _read_floats(rows: pd.DataFrame, name: str) -> pd.Series:
    """A column of numbers, NaN where the rows have none."""
    return _read_column(rows, name, np.nan).astype("float64")


@dataclass(frozen=True, kw_only=True)
class Preference:
    """Which of several measurements of a model counts, in rows of `build_features` or one's own:
    that with most prompts."""

    source: str | Sequence[str] | None = None
    """Files to take, in order of preference; all but the controlled study by default."""
    error_from: str | None = None
    """The gain whose relative spread stands in where that of the outcome is not known."""
    prompt_counts: Mapping[str, int] | None = None
    """Prompts of each prompt set, for averages without a number of prompts, whose spreads have the
    divisor n."""

    @property
    def files(self) -> Sequence[str] | None:
        """The sources as a list."""
        return [self.source] if isinstance(self.source, str) else self.source

    def select_sources(self, table: pd.DataFrame, outcome: str) -> pd.DataFrame:
        """Rows of these sources; UsageError for equal rows, and where none of them has the gain."""
        check_columns(table, "source", outcome)
        table = table.reset_index(drop=True)
        check_distinct_units(table, ())
        return filter_sources(table, outcome, self.files, table[outcome].notna())

    def pick_measurements(
        self, rows: pd.DataFrame, outcome: str, warnings: list[str]
    ) -> pd.DataFrame:
        """The measurement of every model that counts, its spread with the divisor n − 1; rows by
        prompt as they are."""
        if _read_prompts(rows).ne("").any():
            return rows
        prompt_set = _read_column(rows, "prompt_set", "")
        sizes = prompt_set.map(dict(self.prompt_counts or {})).astype("float64")
        n = _measure_spreads(rows, outcome, sizes)["n"].fillna(0.0)
        rows = pick_first_source(rows.assign(n_prompts=n, in_set=sizes), self.files, warnings)
        in_set = rows["in_set"]
        warnings += warn_fewer_prompts(rows, outcome, in_set)
        spreads = _measure_spreads(rows, outcome, in_set)
        if self.error_from is not None and self.error_from != outcome:
            check_columns(rows, self.error_from)
            other = _measure_spreads(rows, self.error_from, in_set)
            stands = spreads["error"].isna() & other["error"].notna()
            spreads = spreads.where(~stands, other)
            if stands.any():
                words = (
                    f"error of {self.error_from} stands in for that of {outcome} in "
                    f"{int(stands.sum())} models"
                )
                warnings.append(words)
        gain = rows[outcome].astype("float64")
        sd = spreads["relative"] * gain
        rows = rows.assign(**{f"{outcome}_sd": sd, "n_prompts": spreads["n"]})
        return rows.drop(columns="in_set")


def _measure_spreads(rows: pd.DataFrame, gain: str, sizes: pd.Series) -> pd.DataFrame:
    """Of a gain sd/g with the divisor n − 1 (`relative`), n, and `error`, sd/(g √n); NaN where not
    known.

    n is that of the gain, else that of the prompt set; in rows that say n of no gain, theirs.
    """
    sd = _read_floats(rows, f"{gain}_sd")
    counted = _read_floats(rows, f"{gain}_n")
    counted = counted.where(counted > 0)
    theirs = counted if f"{gain}_n" in rows else _read_floats(rows, "n_prompts")
    n = counted.fillna(sizes).fillna(theirs)
    published = counted.isna() & sizes.notna()
    with np.errstate(divide="ignore", invalid="ignore"):
        correction = np.sqrt(n / (n - 1)).where(published, 1.0)
        relative = sd * correction / rows[gain].astype("float64")
        error = relative / np.sqrt(n)
    finite = error.where(np.isfinite(error))
    return pd.DataFrame({"relative": relative, "n": n, "error": finite})


def filter_sources(
    table: pd.DataFrame, estimand: str, files: Sequence[str] | None, usable: pd.Series
) -> pd.DataFrame:
    """Rows of the sources asked for, all but the controlled study by default; UsageError where none
    is usable."""
    source = table["source"]
    chosen = source.isin(files) if files is not None else source != NURSERY
    if not (chosen & usable).any():
        usable_sources = set(source[usable])
        others = ", ".join(sorted(usable_sources))
        raise UsageError(
            "no row holds the gain asked for",
            where=estimand,
            got=f"source {', '.join(files)}" if files else "all sources",
            allowed=others or "another gain",
        )
    return table[chosen]


def pick_first_source(
    rows: pd.DataFrame,
    files: Sequence[str] | None,
    warnings: list[str],
    *,
    first: Sequence[str] = (),
) -> pd.DataFrame:
    """As `pick_model_rows`, of several the first source by name; `warnings` names who had
    several."""
    if twice := set(rows.loc[rows["model_id"].duplicated(), "model_id"]):
        warnings.append("measured more than once, so one row is used: " + list_names(twice))
    return pick_model_rows(rows, files, first=first, ties=["source"])


def warn_fewer_prompts(rows: pd.DataFrame, estimand: str, sizes: pd.Series) -> list[str]:
    """A warning that names models which have this gain of fewer prompts than their set holds."""
    fewer = rows.loc[rows["n_prompts"] < sizes, "model_id"]
    if fewer.empty:
        return []
    return [f"prompts without {estimand}, left out: some of " + list_names(fewer)]


GEOMETRY = ("n_layers", "n_heads", "d_head")
SCALE = ("n_params",)
SAID = "left out"
"""Under this name `DataFrame.attrs` of the rows holds what `read_remarks` gives."""


def read_remarks(rows: pd.DataFrame) -> tuple[str, ...]:
    """What was left out before these rows were made, in words; nothing of rows that `gain_rows` did
    not make.

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
    """Give rows of base models for `fit_heritage`, each from its run with the most prompts.

    Of the revisions of a model the last with the gain counts: `main`, else the highest number.
    A model whose variant is not stated counts as a base model, unless it is of the controlled
    study. `fit_heritage` warns of models and prompts that are left out (`read_remarks`).

    Parameters
    ----------
    estimand : str
        A named gain, one of `GAINS`.
    data : str or Path
        A user's folder, read together with the package's own tables.
    source : str or sequence of str
        Files or measurements to take, in order of preference; all by default.
    incomparable : bool
        With models whose gains are near 1 by construction.
    position : str
        Token of the gains.

    Returns
    -------
    DataFrame
        A model measured prompt by prompt has a row per prompt (`gain`); one of which only mean and
        standard deviation over prompts are known has one row with `prompt_id` empty, `gain`,
        `gain_sd` (divisor n − 1) and `n_prompts`.

    Raises
    ------
    UsageError
        For a gain that is not in `GAINS` or that no row of these sources holds.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.gain_rows("penultimate_gain")
    >>> rows[["model_id", "heritage", "n_layers", "gain"]].round(3).head(3)
                      model_id    heritage  n_layers   gain
    0             01-ai/Yi-34B       01.AI        60  1.184
    1      EleutherAI/gpt-j-6b  EleutherAI        28  1.136
    2  EleutherAI/gpt-neo-1.3B  EleutherAI        24  0.892
    """
    check_gain(estimand, "gain_rows")
    loaded = {name: store.load(name, data) for name in ("runs", "models", "layers", "summaries")}
    files = [source] if isinstance(source, str) else source
    table = build_features(data, position=position)
    values = collect_prompt_gains(**loaded, position=position)
    return choose_rows(estimand, table, store.load("prompts", data), values, files, incomparable)


def choose_rows(
    estimand: str,
    table: pd.DataFrame,
    prompts: pd.DataFrame,
    values: pd.DataFrame,
    files: Sequence[str] | None = None,
    incomparable: bool = False,
) -> pd.DataFrame:
    """Rows for `fit_heritage` from tables at hand: `build_features`, `prompts`, and gains by prompt
    as of `collect_prompt_gains`."""
    if estimand not in GAINS:
        raise UsageError("no such gain", got=estimand, allowed=", ".join(GAINS))
    # in the nursery one without variant is unfinished, or trained on
    unstated = (table["variant"] == "") & (table["source"] != NURSERY)
    table = table.assign(variant=table["variant"].mask(unstated, "base"))
    allowed = table["comparable"] | incomparable
    fit_for_it = (table["variant"] == "base") & table[estimand].notna() & allowed
    in_question = filter_sources(table, estimand, files, fit_for_it)
    is_fit = fit_for_it[in_question.index]
    rows = keep_last_revision(in_question[is_fit], "model_id")
    sizes = prompts.groupby("prompt_set").size()
    counted = rows[f"{estimand}_n"].fillna(0).astype("int64")
    by_prompt = counted > 0
    set_sizes = rows["prompt_set"].map(sizes)
    n_prompts = counted.where(by_prompt, set_sizes)
    rows = rows.assign(each=by_prompt, n_prompts=n_prompts)
    is_base = in_question["variant"] == "base"
    base = in_question[is_base]
    has_gain = base[estimand].notna()
    with_gain = base[has_gain]
    notes = warn_missing_models(base["model_id"], with_gain["model_id"], f"no {estimand}")
    if pinned := set(with_gain["model_id"]) - set(rows["model_id"]):
        notes.append("left out, since normalised after the sum: " + list_names(pinned))
    is_measured = in_question[estimand].notna()
    measured = in_question[is_measured]
    if tuned := set(measured["model_id"]) - set(base["model_id"]):
        notes.append("left out, not a base model: " + list_names(tuned))
    rows = pick_first_source(rows, files, notes, first=["each"])
    each = rows[rows["each"]]
    notes += warn_fewer_prompts(each, estimand, each["prompt_set"].map(sizes).astype("float64"))
    facts = ["model_id", "heritage", "family", *GEOMETRY, *SCALE]
    shared = [*facts, "source", "token_position", "prompt_set", "n_prompts"]
    averaged = rows[~rows["each"]]
    n = averaged["n_prompts"].astype("float64")
    sd = averaged[f"{estimand}_sd"] * np.sqrt(n / (n - 1))
    means = averaged[shared].assign(prompt_id="", category="", gain=averaged[estimand], gain_sd=sd)
    measurements = values[(values["gain"] == estimand) & (values["prompt_id"] != "")]
    gains = measurements[["run_id", "prompt_id", "value"]].rename(columns={"value": "gain"})
    single = each[["run_id", *shared]].merge(gains, on="run_id")
    keys = ["prompt_set", "prompt_id"]
    single = single.merge(prompts[[*keys, "category"]], on=keys, how="left")
    parts = [part for part in (single.drop(columns="run_id"), means) if len(part)]
    both = pd.concat(parts, ignore_index=True)
    ordered = both.sort_values(["model_id", "prompt_id"], kind="stable", ignore_index=True)
    ordered.attrs[SAID] = tuple(notes)
    return ordered
