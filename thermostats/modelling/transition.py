"""Where in the network is the transition layer L*: a line on the logit of depth, its rivals, other labs foretold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import expit, logit

from thermostats.errors import UsageError
from thermostats.modelling import linear
from thermostats.modelling.draws import LEVEL, Array, equal_tailed
from thermostats.modelling.estimates import columns_of, numbers
from thermostats.modelling.fitted import Fitted
from thermostats.modelling.gaussian import HeldOut, Lines, held_out, posterior, predict
from thermostats.modelling.model_rows import lines, standardised

PUBLISHED = (0.11, 0.012, 4.9)
"""a, b, c of the study's L* = L (a + b L + c/H)."""
CENTRE_SD, SLOPE_SD, SPREAD = 1.5, 0.5, 0.5
"""Prior scales on the logit: places from 5 % to 95 % of the depth; slopes (over one SD), labs and the rest share 1."""
ROUNDING = 12**-0.5
"""Standard error of L* in layers: it is a whole number."""
FRACTION_SD, FRACTION_SPREAD = 0.5, 0.25
"""Prior scales of the refitted polynomial's terms and residual, in units of the depth."""


def fit_transition(
    table: pd.DataFrame,
    definition: str = "first_sign_change",
    *,
    source: str | Sequence[str] | None = None,
    seed: int,
    cache: bool = True,
) -> Fitted:
    """logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, p = (L* − ½)/L the middle of block L*; the
    rounding of L* to whole layers is part of the error.

    `table`: rows of `features` with the column `L_star_<definition>` (1-based; `<definition>_<trace variant>` where
    there is one); of several rows of a model the mean is taken. On the logit no prediction leaves the network. Beside
    it, each refitted without the lab that is predicted: the published polynomial with its terms free (`polynomial`),
    the mean fraction, and without any fit L/2 and the published formula. Tables: `models` (L* and every prediction from
    other labs with the logit model's interval), `errors` (`error_of_depth` = mean |predicted − L*|/L, `mape` relative
    to L*, share of predictions and of intervals inside the network, coverage and width of the intervals).

    Raises UsageError for fewer than 4 models, fewer than 2 labs, a layer outside 1 to L, missing depth or heads.
    """
    frame, files = _rows(table, f"L_star_{definition}", source)
    L, H = (numbers(frame[name].astype("float64"), name, positive=True) for name in ("n_layers", "n_heads"))
    star = numbers(frame["L_star"], definition, least=4)
    if (star < 1).any() or (star > L).any():
        raise UsageError("a transition layer outside its network", where=definition, got=float(star.max()),
                         allowed="1 to L, layers counted from 1")  # fmt: skip
    labs = frame["heritage"].astype(str)
    if labs.nunique() < 2:
        raise UsageError("no other lab to predict", where="heritage", got=labs.unique()[0], allowed="2 labs or more")
    said = _warnings(L, H, labs)
    place = (star - 0.5) / L
    y, error = logit(place), ROUNDING / (L * place * (1 - place))
    one = np.ones(L.size)
    shape = [standardised(pd.Series(np.log(x)), name)[0] for x, name in ((L, "n_layers"), (H, "n_heads")) if np.ptp(x)]

    def on_logit(*columns: Array) -> Lines:
        X = np.column_stack([one, *columns])
        sd = [CENTRE_SD, *[SLOPE_SD] * len(columns)]
        return lines(frame, y, X, sd=sd, sigma_scale=SPREAD, tau_scale=SPREAD, error=error)

    terms = np.column_stack([one, L / L.max(), H.min() / H])
    polynomial = lines(
        frame,
        star / L,
        terms,
        sd=[FRACTION_SD] * 3,
        sigma_scale=FRACTION_SPREAD,
        tau_scale=1.0,
        groups=None,
        error=ROUNDING / L,
    )
    full = on_logit(*shape)
    fit = linear.sample(full, seed=seed, cache=cache)
    folds = labs.tolist()
    a, b, c = PUBLISHED
    drawn = {
        "logit": _layers(held_out(full, folds, seed=seed), L),
        "mean fraction": _layers(held_out(on_logit(), folds, seed=seed), L),
        "polynomial": held_out(polynomial, folds, seed=seed).draws * L,
    }
    fixed = {"L/2": L / 2, "published formula": L * (a + b * L + c / H)}
    models, errors = _compared(frame, star, L, drawn, fixed)
    coefficients = posterior(polynomial, seed=seed).beta / np.array([1.0, L.max(), 1 / H.min()])
    names = ("a", "b", "c")
    low, high = equal_tailed(coefficients)
    new = predict(posterior(full, seed=seed), _elsewhere(full), seed=seed)
    depth = expit(fit.beta[..., 0])
    return Fitted(
        family="transition",
        estimand=definition,
        sources=files,
        n_models=L.size,
        n_heritages=labs.nunique(),
        parts={"logit": fit.part(_statistics(L), {"depth": depth, "behind the middle": fit.beta[..., 0] > 0})},
        quantities={
            "depth": depth,
            **{f"slope_{name}": fit.beta[..., i + 1] for i, name in enumerate(_shape_names(L, H))},
            "lab_sd": fit.tau,
            "residual_sd": fit.sigma,
        },
        probabilities={
            "deeper networks turn relatively later": _above(fit, "n_layers", L, H),
            "more heads turn relatively earlier": 1 - _above(fit, "n_heads", L, H),
            "L* of a network like these lies behind the middle": float((new > 0).mean()),
        },
        numbers={
            "new_network_depth_lower": float(np.quantile(expit(new), (1 - LEVEL) / 2)),
            "new_network_depth_upper": float(np.quantile(expit(new), (1 + LEVEL) / 2)),
            "rank_of_polynomial": float(np.linalg.matrix_rank(terms)),
        },
        tables={
            "errors": errors,
            "models": models,
            "polynomial": pd.DataFrame(
                {"term": names, "published": PUBLISHED, "median": np.median(coefficients, axis=0), "lower": low,
                 "upper": high}
            ),
        },
        warnings=said,
        figure=_figure,
        influence=partial(linear.without_each, full, folds, lambda p: p.beta[:, 0], "logit of the depth"),
        seed=seed,
    )  # fmt: skip


def _rows(table: pd.DataFrame, column: str, source: str | Sequence[str] | None) -> tuple[pd.DataFrame, tuple[str, ...]]:
    columns_of(table, "model_id", "heritage", "source", "n_layers", "n_heads")
    if column not in table:
        known = [name.removeprefix("L_star_") for name in table if str(name).startswith("L_star_")]
        raise UsageError(
            "no such definition of L*", got=column.removeprefix("L_star_"),
            allowed=", ".join(name for name in known if not name.endswith("_sd")),
        )  # fmt: skip
    rows = table[table[column].notna()]
    if source is not None:
        rows = rows[rows["source"].isin([source] if isinstance(source, str) else list(source))]
    first = rows.groupby("model_id")[["heritage", "n_layers", "n_heads"]].first()
    star = rows.groupby("model_id")[column].mean().astype("float64")
    return first.assign(L_star=star).reset_index(), tuple(sorted(set(rows["source"])))


def _warnings(L: Array, H: Array, labs: pd.Series) -> tuple[str, ...]:
    said = []
    terms = np.column_stack([np.ones(L.size), L, 1 / H])
    if (rank := np.linalg.matrix_rank(terms)) < 3:
        said.append(
            f"the three terms of the polynomial have rank {rank} in these networks: their priors decide between them"
        )
    said += [f"{name} is the same in every network: no slope" for x, name in ((L, "L"), (H, "H")) if not np.ptp(x)]
    if np.ptp(L) and np.ptp(H) and abs(r := float(np.corrcoef(np.log(L), np.log(H))[0, 1])) > 0.95:
        said.append(f"log L and log H go together (r = {r:.2f}): their slopes cannot be told apart")
    if L.size < 12 or labs.nunique() < 4:
        said.append(
            f"{L.size} networks of {labs.nunique()} labs: intervals of other labs are wide and rest on the priors"
        )
    return tuple(said)


def _shape_names(L: Array, H: Array) -> list[str]:
    return [name for name, x in (("n_layers", L), ("n_heads", H)) if np.ptp(x)]


def _above(fit: linear.LinesFit, name: str, L: Array, H: Array) -> float:
    names = _shape_names(L, H)
    return float((fit.beta[..., names.index(name) + 1] > 0).mean()) if name in names else float("nan")


def _layers(found: HeldOut, L: Array) -> Array:
    """Logits to layers: L* = L p + ½."""
    return np.asarray(expit(found.draws) * L + 0.5)


def _elsewhere(full: Lines) -> Lines:
    """The middle network of a lab never seen."""
    row = full.rows(np.array([0]))
    X = np.eye(1, full.X.shape[1])
    return Lines(**{**vars(row), "X": X, "groups": np.array([-1]), "error": np.zeros(1)})


def _compared(
    frame: pd.DataFrame, star: Array, L: Array, drawn: dict[str, Array], fixed: dict[str, Array]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    models, errors = frame[["model_id", "heritage", "n_layers", "n_heads", "L_star"]].copy(), []
    for name, predicted in fixed.items():
        models[name] = predicted
        errors.append({"rule": name, "fitted": False, **_errors(predicted, star, L)})
    for name, values in drawn.items():
        low, high = equal_tailed(values)
        models[name], models[f"{name}_lower"], models[f"{name}_upper"] = np.median(values, axis=0), low, high
        spread = {
            "coverage": ((low <= star) & (star <= high)).mean(),
            "width_of_depth": ((high - low) / L).mean(),
            "interval_inside": ((low >= 0.5) & (high <= L + 0.5)).mean(),
        }
        errors.append({"rule": name, "fitted": True, **_errors(np.median(values, axis=0), star, L), **spread})
    return models, pd.DataFrame(errors).sort_values("error_of_depth", ignore_index=True)


def _errors(predicted: Array, star: Array, L: Array) -> dict[str, float]:
    off = np.abs(predicted - star)
    inside = (predicted >= 0.5) & (predicted <= L + 0.5)
    return {
        "error_of_depth": float((off / L).mean()),
        "mape": float((off / star).mean()),
        "inside": float(inside.mean()),
    }


def _statistics(L: Array) -> dict[str, Any]:
    deep = np.median(L) <= L
    both = deep.any() and not deep.all()
    return {
        "mean": lambda y: y.mean(axis=-1),
        "spread": lambda y: y.std(axis=-1),
        "latest": lambda y: y.max(axis=-1),
    } | ({"deep less shallow": lambda y: y[..., deep].mean(axis=-1) - y[..., ~deep].mean(axis=-1)} if both else {})


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    shown = fitted.table("models").sort_values("n_layers", ignore_index=True)
    rows, L = np.arange(len(shown)), shown["n_layers"].astype("float64")
    axes.hlines(rows, shown["logit_lower"] / L, shown["logit_upper"] / L, alpha=0.4, linewidth=4)
    axes.plot(shown["logit"] / L, rows, "|", label="foretold from other labs")
    axes.plot(shown["published formula"] / L, rows, "x", label="published formula")
    axes.plot(shown["L_star"] / L, rows, "o", label="L*")
    axes.axvline(0.5, linewidth=0.8, linestyle="--")
    axes.set_yticks(rows, [str(name) for name in shown["model_id"]])
    axes.set_xlabel("L* / L")
    axes.legend()
    return axes
