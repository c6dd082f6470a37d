"""From the features to what a model-level fit takes: one row a model, its log gain and the error of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import at_position, columns_of, labels, left_out, named, numbers
from thermostats.modelling.inference.quadrature import Lines
from thermostats.tables.vocabulary import NURSERY


@dataclass(frozen=True, kw_only=True)
class ModelRows:
    """One row a model: the columns of the features, `log_gain` (natural), `error` (its standard error), `n_prompts`."""

    table: pd.DataFrame
    estimand: str
    sources: tuple[str, ...]
    warnings: tuple[str, ...]


def model_rows(
    table: pd.DataFrame,
    estimand: str,
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    least: int = 3,
) -> ModelRows:
    """Log gains of `features` rows, one row a model (that with most prompts), errors by the delta method.

    log g ± sd/(g √n); where prompts were kept apart log g is their geometric mean. `source`: files to take, in order
    of preference; all but the controlled study by default. `error_from`: the gain whose relative error stands in where
    the estimand's spread over prompts is not known. `prompt_counts`: prompts of each prompt set, for files that hold
    averages only; where fewer have this gain a warning says so. A model without an error takes the largest of the
    others, and a warning says so. Models whose gain is pinned near 1 by their norm (`comparable` false) are left out
    with a warning, and so are those without this gain.

    Raises UsageError for a gain that is not there, is not above 0, is infinite or the same in all models, for a model
    without a lab, and for fewer than `least` models.
    """
    columns_of(table, "model_id", "heritage", "source", estimand)
    said: list[str] = []
    files = [source] if isinstance(source, str) else list(source) if source is not None else None
    asked = table[table["source"].isin(files) if files is not None else table["source"] != NURSERY]
    rows = asked[asked[estimand].notna()]
    if rows.empty:
        raise UsageError(
            "no row holds the gain asked for",
            where=estimand,
            got=f"source {', '.join(files)}" if files else "all sources",
            allowed=", ".join(sorted(set(table.loc[table[estimand].notna(), "source"]))) or "another gain",
        )
    labels(rows["heritage"], "heritage")
    said += left_out(asked["model_id"], rows["model_id"], f"no {estimand}")
    if "comparable" in rows and not rows["comparable"].all():
        said.append("left out, normed after the sum: " + named(set(rows.loc[~rows["comparable"], "model_id"])))
        rows = rows[rows["comparable"]]
    n = _prompts(rows, estimand, prompt_counts or {})
    rows, twice = one_row_a_model(rows.assign(n_prompts=n.fillna(0)), files)
    if twice:
        said.append("measured more than once, one row taken: " + named(twice))
    stated = rows["prompt_set"].map(dict(prompt_counts or {})) if "prompt_set" in rows else np.nan
    if len(fewer := rows[rows["n_prompts"] < stated]):
        said.append(f"prompts without {estimand}, left out: some of " + named(fewer["model_id"]))
    gain = numbers(rows[estimand], estimand, least=least, positive=True, varied=True)
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
            said.append(f"error of {error_from} stands in for that of {estimand} in {int(stands.sum())} models")
        errors = np.where(np.isnan(errors), other, errors)
    unknown = np.isnan(errors)
    if unknown.all():
        said.append("no model's spread over prompts is known: gains are taken as exact")
        errors = np.zeros(len(rows))
    elif unknown.any():
        said.append("error unknown, the largest of the others taken: " + named(rows.loc[unknown, "model_id"]))
        errors = np.where(unknown, np.nanmax(errors), errors)
    kept = rows.assign(log_gain=logs, error=errors)
    return ModelRows(
        table=kept,
        estimand=at_position(estimand, kept),
        sources=tuple(sorted(set(kept["source"]))),
        warnings=tuple(said),
    )


def one_row_a_model(
    rows: pd.DataFrame, files: Sequence[str] | None = None, *, first: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """The row of every model from the first of `files`, then with most `n_prompts`; and the models that had several.

    `first`: true/false columns that come before the number of prompts, true first.
    """
    preference = rows["source"].map({name: i for i, name in enumerate(files)}) if files is not None else 0
    by = ["model_id", "_file", *first, "n_prompts", "source"]
    ascending = [True, True, *(False for _ in first), False, True]
    order = rows.assign(_file=preference).sort_values(by, ascending=ascending, kind="stable")
    twice = sorted(set(order.loc[order["model_id"].duplicated(), "model_id"]))
    return order.drop_duplicates("model_id").drop(columns="_file").reset_index(drop=True), twice


def standardised(values: pd.Series, name: str) -> tuple[np.ndarray, float, float]:
    """(x − mean)/sd with mean and sd; raises UsageError for a column that is missing, infinite or constant."""
    x = numbers(values.astype("float64"), name, varied=True)
    centre, spread = float(x.mean()), float(x.std())
    return (x - centre) / spread, centre, spread


def lines(
    rows: pd.DataFrame,
    y: np.ndarray,
    X: np.ndarray,
    *,
    sd: Sequence[float],
    sigma_scale: float,
    tau_scale: float,
    groups: str | None = "heritage",
    error: np.ndarray | None = None,
) -> Lines:
    """A Gaussian model of these rows with a group effect for every value of the column `groups`; prior means 0."""
    codes = pd.factorize(rows[groups])[0] if groups is not None else np.full(len(rows), -1)
    return Lines(
        y=np.asarray(y, dtype=np.float64),
        X=np.asarray(X, dtype=np.float64),
        groups=codes.astype(np.int64),
        n_groups=int(codes.max()) + 1,
        error=np.zeros(len(rows)) if error is None else np.asarray(error, dtype=np.float64),
        mean=np.zeros(X.shape[1]),
        sd=np.asarray(sd, dtype=np.float64),
        sigma_scale=sigma_scale,
        tau_scale=tau_scale,
    )


def _prompts(rows: pd.DataFrame, estimand: str, counts: Mapping[str, int]) -> pd.Series:
    own = rows[f"{estimand}_n"].astype("float64") if f"{estimand}_n" in rows else pd.Series(np.nan, index=rows.index)
    own = own.where(own > 0)
    stated = rows["prompt_set"].map(dict(counts)).astype("float64") if "prompt_set" in rows else np.nan
    return own.fillna(stated)


def _errors(rows: pd.DataFrame, gain: str) -> np.ndarray:
    """Standard error of the log gain, sd/(g √n); NaN where sd or n is not known."""
    if f"{gain}_sd" not in rows:
        return np.full(len(rows), np.nan)
    n = rows[f"{gain}_n"].astype("float64").to_numpy() if f"{gain}_n" in rows else np.zeros(len(rows))
    kept_apart = n > 0
    n = np.where(kept_apart, n, rows["n_prompts"].astype("float64"))
    sd = rows[f"{gain}_sd"].astype("float64").to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        divisor = np.where(kept_apart, np.sqrt(n), np.sqrt(n - 1))  # published sds of averages have the divisor n
        found = sd / rows[gain].astype("float64").to_numpy() / divisor
    return np.where(np.isfinite(found), found, np.nan)
