"""What classical tests say of the rows of a law: the table `classical` of its fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd
from patsy import PatsyError  # type: ignore[import-untyped]

from thermostats.errors import ThermostatsError, UsageError
from thermostats.modelling.classical.association import correlation, ols, power_law
from thermostats.modelling.classical.counts import one_sample_bound
from thermostats.modelling.classical.estimates import Array, Estimate, columns_of, labels, numbers
from thermostats.modelling.classical.mixed import MixedSlope, mixed_slope
from thermostats.modelling.classical.resampling import bca

Predictor = Callable[[pd.DataFrame, pd.DataFrame], Array]
"""(rows to learn from, rows to predict) → predictions; a rule without parameters ignores the first."""
LEVEL = 0.95
FIELDS = ("test", "estimate", "lower", "upper", "level", "interval", "p_value", "n")


def _table(questions: Mapping[str, Callable[[], Estimate]]) -> pd.DataFrame:
    """One row a question: of, test, estimate, lower, upper, level, interval, p_value, n, note.

    What cannot be computed of these rows is a row whose note says why.
    """
    rows = [{"of": question, **_tried(compute)} for question, compute in questions.items()]
    return pd.DataFrame(rows, columns=["of", *FIELDS, "note"])


def _tried(compute: Callable[[], Estimate]) -> dict[str, object]:
    try:
        found = compute()
    except ThermostatsError as error:
        return {"note": f"not possible: {error}"}
    note = found.note if isinstance(found, MixedSlope) else ""
    return {name: getattr(found, name) for name in FIELDS} | {"note": note}


def of_depth(L: Array, log10_gain: Array, *, seed: int) -> pd.DataFrame:
    """Least squares of log10 log10 G on log10 L against the claim's −1, and the share of models above 10^(1/L)."""
    return _table(
        {
            "−β of log10 G = k L^(−β)": lambda: power_law(L, log10_gain, against=-1.0),
            "share of models above 10^(1/L)": lambda: one_sample_bound(10**log10_gain, 10 ** (1 / L), seed=seed),
        }
    )


def of_slopes(log_gain: Array, labs: pd.Series, columns: Mapping[str, Array], *, seed: int) -> pd.DataFrame:
    """Spearman correlation of log gain with every column, and a mixed model with a level a lab and a slope a column.

    Columns together in one mixed model, as they are in the fit of the law.
    """
    frame = pd.DataFrame({"log_gain": log_gain, "heritage": labs.to_numpy(), **columns})
    formula = f"log_gain ~ {' + '.join(columns)}"

    def slope(name: str) -> MixedSlope:
        return mixed_slope(frame, formula, "heritage", term=name)

    def rank(name: str) -> Estimate:
        return correlation(columns[name], log_gain, method="spearman", seed=seed)

    slopes: dict[str, Callable[[], Estimate]] = {f"slope {n}, levels of labs": partial(slope, n) for n in columns}
    return _table(slopes | {f"rank correlation with {n}": partial(rank, n) for n in columns})


def of_transition(frame: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Slopes of the logit of depth with a level a lab, and errors of depth with each lab left out.

    `frame`: heritage, n_layers, n_heads, L_star. The polynomial L* = L (a + b L + c/H) is fitted by least squares.
    """
    L, H = (frame[name].to_numpy(dtype=np.float64) for name in ("n_layers", "n_heads"))
    star = frame["L_star"].to_numpy(dtype=np.float64)
    place = (star - 0.5) / L
    known = pd.DataFrame(
        {"heritage": frame["heritage"].to_numpy(), "L": L, "star": star, "square": L**2, "over_heads": L / H}
    ).assign(logit=np.log(place / (1 - place)), log_L=np.log(L), log_H=np.log(H))
    varied = [name for name in ("log_L", "log_H") if np.ptp(known[name])]
    together = " + ".join(varied)

    def slope(name: str) -> Estimate:
        return mixed_slope(known, f"logit ~ {together}", "heritage", term=name)

    def fraction(learn: pd.DataFrame, ask: pd.DataFrame) -> Array:
        return np.asarray(ask["L"] * (learn["star"] / learn["L"]).mean(), dtype=np.float64)

    def half(_: pd.DataFrame, ask: pd.DataFrame) -> Array:
        return np.asarray(ask["L"] / 2, dtype=np.float64)

    def missed(rule: str | Predictor) -> Estimate:
        return leave_one_out_error(known, rule, observed="star", depth="L", groups="heritage", seed=seed)

    slopes: dict[str, Callable[[], Estimate]] = {
        f"slope of the logit on {name}, levels of labs": partial(slope, name) for name in varied
    }
    return _table(
        slopes
        | {
            "error of depth of the polynomial by least squares": lambda: missed("star ~ L + square + over_heads - 1"),
            "error of depth of the mean fraction": lambda: missed(fraction),
            "error of depth of L/2": lambda: missed(half),
        }
    )


def leave_one_out_error(
    frame: pd.DataFrame, predictor: str | Predictor, *, observed: str, depth: str, groups: str, seed: int
) -> Estimate:
    """Error of depth of groups predicted from the other groups, mean over groups of mean |predicted − observed|/L.

    `predictor` is a formula fitted by least squares whose left side is the column `observed`, or a function; L the
    column `depth`. The interval is BCa over groups. There is no test: p is NaN. Raises UsageError for fewer than 4
    rows, fewer than 3 groups, values not above 0, or a formula that the rows left cannot determine.
    """
    columns_of(frame, observed, depth)
    truth = numbers(frame[observed], observed, least=4, positive=True)
    layers = numbers(frame[depth], depth, least=4, positive=True)
    held = labels(frame[groups], groups)
    names = list(dict.fromkeys(held.tolist()))
    if len(names) < 3:
        raise UsageError("too few groups to leave one out", where=groups, got=len(names), allowed="at least 3")
    predicted = np.full(truth.size, np.nan)
    for name in names:
        predicted[held == name] = _predict(predictor, frame[held != name], frame[held == name], name)
    error = np.array([(np.abs(predicted - truth) / layers)[held == name].mean() for name in names])
    lower, upper, kind = np.nan, np.nan, "none: constant errors"
    if np.ptp(error) > 0:
        lower, upper, kind = bca([error], np.mean, level=LEVEL, seed=seed)
    rule = predictor if isinstance(predictor, str) else getattr(predictor, "__name__", "a rule")
    return Estimate(
        test=f"leave one {groups} out, {rule}; no test",
        estimate=float(error.mean()),
        lower=lower,
        upper=upper,
        level=LEVEL,
        interval=f"{kind}, over {groups}",
        p_value=np.nan,
        n=truth.size,
    )


def _predict(predictor: str | Predictor, learn: pd.DataFrame, ask: pd.DataFrame, name: str) -> Array:
    try:
        values = ols(learn, predictor).predict(ask) if isinstance(predictor, str) else predictor(learn, ask)
    except PatsyError as error:
        raise UsageError(
            "the formula cannot predict the rows left out", where=name, got=error, allowed="levels seen in other rows"
        ) from error
    return numbers(np.broadcast_to(np.asarray(values, dtype=np.float64), len(ask)), f"prediction of {name}", least=1)
