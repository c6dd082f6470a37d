"""Published figures against measured ones of the same models: how far they differ, and beyond which error.

A figure is a mean over prompts. Two are compared on the scale of logarithms, d = log(measured / published), as in
Bland and Altman (1986, Lancet 327:307). The error of d is t SE(d) + log(1 + tol). On the same prompts SE is that of
the paired differences, SE² = var_i(m_i/m̄ - p_i/p̄)/n; on others SE² = s_m²/(n_m m̄²) + s_p²/(n_p p̄²), by the delta
method. tol is what the precision may change (`identities.TOLERANCE`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.tables.features import STATED_MEANS, WEIGHT_NAMES, by_prompt, spectral_norms
from thermostats.tables.identities import TOLERANCE
from thermostats.tables.vocabulary import GAINS

LEVEL = 0.95
LIMITS = 1.96
"""Standard deviations that the limits of agreement lie from the mean difference."""
WIDEST = max(TOLERANCE.values())
"""Tolerance of a precision that is not stated."""
WITHIN, BEYOND, UNTOLD = "within error", "beyond error", "error unknown"
EXTRA = "gain_two_before_last"
"""Gain of block L - 2, one block before the penultimate: no named gain, but what one that is a block off is."""
THIRDS = "_thirds"
"""Ends the names of spectral norms of thirds of fused weights, as some take them for W_V."""
NORMS = ("wv_", "wo_")
"""What names of spectral norms and their ratios begin with."""
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Figure:
    """One quantity of one run: mean over prompts, its standard deviation and prompts (NaN, 0 where unknown)."""

    run: Mapping[str, Any]
    mean: float
    sd: float
    prompts: Mapping[str, float]
    """Values by prompt; empty where only an average is known."""
    n: int
    exact: bool
    """No prompt enters it: a norm of weights."""

    @property
    def relative_error(self) -> float:
        """Standard error of log of the mean, sd / (mean √n); NaN where unknown, 0 of what no prompt enters."""
        if self.exact or self.n == 0:
            return 0.0 if self.exact else math.nan
        return self.sd / (self.mean * math.sqrt(self.n))

    @property
    def half_width(self) -> float:
        """Of the interval of log of the mean at `LEVEL`."""
        return _t(self.n) * self.relative_error if self.relative_error else 0.0


def compared(tables: Tables, published: set[str], explanations: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    """One row for each published figure and the measured one that is nearest to it in prompts and precision.

    tables: runs, models, layers, summaries, outputs, transitions, weights. published: sources that are a study's.
    explanations: quantity, which other it may be instead, why.

    Columns: model_id, quantity; of both sides value, lower, upper, prompt_set, dtype, run_id; log_ratio with lower and
    upper, error, agrees (`WITHIN`, `BEYOND` or `UNTOLD`), why.
    """
    runs = tables["runs"]
    theirs = runs["source"].isin(published)
    measured = runs[~theirs & runs["model_id"].isin(runs.loc[theirs, "model_id"])]
    if measured.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    both = pd.concat([runs[theirs & runs["model_id"].isin(measured["model_id"])], measured])
    figures = _figures(both, tables, published)
    by_model: dict[tuple[str, str], list[Figure]] = {}
    for (_, quantity), figure in figures.items():
        if figure.run["source"] not in published:
            by_model.setdefault((str(figure.run["model_id"]), quantity), []).append(figure)
    rows = []
    for (_, quantity), figure in figures.items():
        model = str(figure.run["model_id"])
        if figure.run["source"] in published and (candidates := by_model.get((model, quantity))):
            other = min(candidates, key=lambda each: _distance(figure, each))
            row = _row(quantity, figure, other)
            others = {name: by_model.get((model, name), []) for _, name, _ in explanations}
            row["why"] = _why(figure, row, candidates, others, explanations) if row["agrees"] == BEYOND else ""
            rows.append(row)
    found = pd.DataFrame(rows, columns=COLUMNS)
    return found.sort_values(["quantity", "model_id", "prompt_set", "dtype"], ignore_index=True)


COLUMNS = (
    *("model_id", "quantity", "source", "prompt_set", "dtype", "run_id", "value", "lower", "upper"),
    *("measured_source", "measured_prompt_set", "measured_dtype", "measured_run_id"),
    *("measured", "measured_lower", "measured_upper", "same_prompts"),
    *("log_ratio", "log_ratio_lower", "log_ratio_upper", "error", "agrees", "why"),
)


def limits(rows: pd.DataFrame) -> pd.DataFrame:
    """Bland and Altman's summary for each quantity, one figure a model: mean ratio with its interval, limits of
    agreement (mean ± 1.96 s of the log ratios, as ratios), and how many rows agree."""
    found = []
    for quantity, of in rows.groupby("quantity", sort=True):
        each = of.groupby("model_id")["log_ratio"].mean()
        n, mean = len(each), float(each.mean())
        s = float(each.std(ddof=1)) if n > 1 else math.nan
        half = _t(n) * s / math.sqrt(n)
        ratios = (mean, mean - half, mean + half, mean - LIMITS * s, mean + LIMITS * s)
        counts = [int((of["agrees"] == name).sum()) for name in (WITHIN, BEYOND, UNTOLD)]
        found.append([quantity, n, *map(math.exp, ratios), *counts])
    columns = ["quantity", "models", "mean_ratio", "lower", "upper", "limit_below", "limit_above"]
    return pd.DataFrame(found, columns=[*columns, "within", "beyond", "unknown"])


def _row(quantity: str, published: Figure, measured: Figure) -> dict[str, Any]:
    d, error = _difference(published, measured)
    known = not math.isnan(error)
    half = error - _tolerance(published, measured)
    row = {"model_id": published.run["model_id"], "quantity": quantity, "log_ratio": d, "error": error}
    row |= {"log_ratio_lower": d - half, "log_ratio_upper": d + half, "same_prompts": _same(published, measured)}
    row["agrees"] = UNTOLD if not known else WITHIN if abs(d) <= error else BEYOND
    for figure, before, value in ((published, "", "value"), (measured, "measured_", "measured")):
        row |= {f"{before}{name}": figure.run[name] for name in ("source", "prompt_set", "dtype", "run_id")}
        low, high = (figure.mean * math.exp(sign * figure.half_width) for sign in (-1, 1))
        row |= {value: figure.mean, f"{before}lower": low, f"{before}upper": high}
    return row


def _difference(published: Figure, measured: Figure) -> tuple[float, float]:
    """log(measured / published), and its error; NaN where a spread is not known."""
    d = math.log(measured.mean / published.mean)
    if _same(published, measured):
        shared = sorted(published.prompts)
        of = np.array([[f.prompts[name] / f.mean for name in shared] for f in (published, measured)])
        n, se = len(shared), float((of[1] - of[0]).std(ddof=1)) / math.sqrt(len(shared))
    else:
        n = min((f.n for f in (published, measured) if f.n), default=0)
        se = math.hypot(published.relative_error, measured.relative_error)
    return d, (_t(n) * se if se else se) + _tolerance(published, measured)


def _same(published: Figure, measured: Figure) -> bool:
    """Whether two figures rest on the same prompts, each known by itself."""
    same_set = published.run["prompt_set"] == measured.run["prompt_set"] and len(published.prompts) > 1
    return bool(same_set and published.prompts.keys() == measured.prompts.keys())


def _tolerance(*figures: Figure) -> float:
    return math.log1p(max(TOLERANCE.get(str(figure.run["dtype"]), WIDEST) for figure in figures))


def _t(n: int) -> float:
    return float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) if n > 1 else math.nan


def _distance(published: Figure, measured: Figure) -> tuple[bool, bool, bool, str]:
    one, other = published.run, measured.run
    prompts, dtype = one["prompt_set"] != other["prompt_set"], one["dtype"] != other["dtype"]
    return prompts, dtype, other["dtype"] != "float32", str(other["run_id"])


def _why(
    published: Figure,
    row: Mapping[str, Any],
    candidates: Sequence[Figure],
    others: Mapping[str, Sequence[Figure]],
    explanations: Sequence[tuple[str, str, str]],
) -> str:
    """What the published figure agrees with instead: the nearest of what is declared, and of other precisions."""
    tried = [(other, why) for name, alt, why in explanations if name == row["quantity"] for other in others[alt]]
    tried += [
        (other, f"precision: it agrees with the measurement in {other.run['dtype']}")
        for other in candidates
        if other.run["dtype"] != row["measured_dtype"] and other.run["prompt_set"] == row["measured_prompt_set"]
    ]
    agreeing = [
        (abs(d), why)
        for other, why in tried
        if other.run["prompt_set"] in (row["measured_prompt_set"], "")
        for d, error in [_difference(published, other)]
        if abs(d) <= error
    ]
    return min(agreeing)[1] if agreeing else "not explained"


def _figures(runs: pd.DataFrame, tables: Tables, published: set[str]) -> dict[tuple[str, str], Figure]:
    """Every quantity of every run, positive ones alone: their logarithms are compared.

    Thirds of fused weights that a study published it called W_V, and so they are held against W_V.
    """
    known = {str(run["run_id"]): run for run in runs.to_dict("records")}
    values = _values(runs, {name: _of(frame, known) for name, frame in tables.items()})
    theirs = values["run_id"].isin(runs.loc[runs["source"].isin(published), "run_id"])
    values["quantity"] = values["quantity"].where(~theirs, values["quantity"].str.removesuffix(THIRDS))
    values = values[~(theirs & values["quantity"].eq(EXTRA))]
    values = values[values["value"] > 0].drop_duplicates(["run_id", "prompt_id", "quantity"])
    spread = _of(tables["summaries"], known)
    spread = spread[spread["prompt_id"].eq("") & spread["estimand"].isin([f"{gain}_sd" for gain in GAINS])]
    stated = {(r.run_id, r.estimand.removesuffix("_sd")): r.value for r in spread.itertuples()}
    sizes = tables["prompts"].groupby("prompt_set").size().to_dict()
    found = {}
    for key, rows in values.groupby(["run_id", "quantity"], sort=True):
        run = known[key[0]]
        single = rows[rows["prompt_id"] != ""]
        by = {str(name): float(value) for name, value in zip(single["prompt_id"], single["value"], strict=True)}
        mean = float((single if by else rows)["value"].mean())
        sd = float(single["value"].std(ddof=1)) if len(by) > 1 else float(stated.get(key, math.nan))
        n = len(by) or (0 if math.isnan(sd) else int(sizes.get(run["prompt_set"], 0)))
        found[key] = Figure(run, mean, sd, by, n, exact=str(key[1]).startswith(NORMS))
    return found


def _of(frame: pd.DataFrame, runs: Mapping[str, Any]) -> pd.DataFrame:
    return frame[frame["run_id"].isin(runs)] if "run_id" in frame else frame


def _values(runs: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Columns run_id, prompt_id (empty: an average, or of no prompt), quantity, value."""
    models, layers, summaries = tables["models"], tables["layers"], tables["summaries"]
    gains = by_prompt(runs, models, layers, summaries).rename(columns={"gain": "quantity"})
    depth = runs.merge(models[["model_id", "revision", "n_layers"]]).set_index("run_id")["n_layers"]
    third = layers[(layers["position"] == "last") & (layers["layer"] == layers["run_id"].map(depth) - 2)]
    found = [gains, third.rename(columns={"gain_block": "value"}).assign(quantity=EXTRA)]
    found.append(tables["outputs"].rename(columns={"entropy": "value"}).assign(quantity="entropy"))
    moves = tables["transitions"].rename(columns={"layer": "value"})
    found.append(moves.assign(quantity="L_star_" + moves["definition"] + "_" + moves["trace_variant"]))
    found.append(_norms(tables["weights"], summaries))
    columns = ["run_id", "prompt_id", "quantity", "value"]
    return pd.concat([frame[columns] for frame in found if len(frame)], ignore_index=True)


def _norms(weights: pd.DataFrame, summaries: pd.DataFrame) -> pd.DataFrame:
    """Means over layers of the spectral norms of W_V, its published thirds and W_O, and their ratios."""
    matrices = {**WEIGHT_NAMES, "W_V_published_thirds": f"wv_norm{THIRDS}"}
    stated = {**STATED_MEANS, "W_V_spectral_norm_mean_published_thirds": f"wv_norm{THIRDS}"}
    each = spectral_norms(weights, summaries, matrices, stated)
    means = each.groupby(["stated", "run_id", "label"])["spectral_norm"].mean().reset_index(name="value")
    found = means.drop_duplicates(["run_id", "label"]).rename(columns={"label": "quantity"})
    wide = found.pivot(index="run_id", columns="quantity", values="value")
    for ending in ("", THIRDS):
        if {f"wv_norm{ending}", "wo_norm"} <= set(wide):
            wide[f"wv_wo_ratio{ending}"] = wide[f"wv_norm{ending}"] / wide["wo_norm"]
    long = wide.reset_index().melt(id_vars="run_id", var_name="quantity").dropna(subset="value")
    return long.assign(prompt_id="")
