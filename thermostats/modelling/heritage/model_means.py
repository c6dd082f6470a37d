"""From a table of gains, one row per prompt or an average, to one row per model; what is refused and what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, labels, named, numbers
from thermostats.modelling.standard_errors import moderated, of_logs


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
        _of_prompts(rows, facts.index, warnings) if se is None else _stated(rows, estimand, se, warnings)
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


def _of_prompts(rows: pd.DataFrame, models: pd.Index[Any], warnings: list[str]) -> pd.DataFrame:
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


def _column(rows: pd.DataFrame, name: str, absent: object) -> pd.Series:
    """A column, or one of a single value where the rows have none."""
    return rows[name] if name in rows else pd.Series(absent, index=rows.index)
