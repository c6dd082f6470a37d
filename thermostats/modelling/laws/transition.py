"""Where in the network is the transition layer L*: a line on the logit of depth, its rivals, other labs foretold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import expit, logit

from thermostats.errors import UsageError
from thermostats.modelling.classical import counterparts
from thermostats.modelling.classical.estimates import columns_of, is_constant, labels, left_out, named, numbers
from thermostats.modelling.heritage.rows import lines, standardised
from thermostats.modelling.inference.checks import Check, joined
from thermostats.modelling.inference.draws import LEVEL, Array, equal_tailed
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.held_out import HeldOut, few_folds, held_out
from thermostats.modelling.inference.quadrature import Lines, Posterior, posterior, predict
from thermostats.modelling.inference.sensitivity import sensitivity
from thermostats.modelling.laws import linear
from thermostats.modelling.laws.rounding import between
from thermostats.modelling.laws.transition_errors import compared

PUBLISHED = (0.11, 0.012, 4.9)
"""a, b, c of the study's L* = L (a + b L + c/H)."""
CENTRE_SD, SLOPE_SD, SPREAD = 1.5, 0.5, 0.5
"""Prior scales on the logit: places from 5 % to 95 % of the depth; slopes (over one SD), labs and the rest share 1."""
ROUNDING = 12**-0.5
"""Standard error of L* in layers: it is a whole number."""
SYMBOLS = {"n_layers": "b", "n_heads": "c"}
SHAPES = {"n_layers": "log Lᵢ", "n_heads": "log Hᵢ"}
PRIORS = (
    ("a", f"N(0, {CENTRE_SD:g}²)", "places from 5 % to 95 % of the depth are no surprise"),
    ("b", f"N(0, {SLOPE_SD:g}²)", "over one SD of log L: up to 12 % of the depth at its middle is no surprise"),
    ("c", f"N(0, {SLOPE_SD:g}²)", "over one SD of log H: the same"),
    ("τ", f"half-normal({SPREAD:g})", "labs differ as much as slopes may move"),
    ("σ", f"half-normal({SPREAD:g})", "networks of one lab differ as much"),
)
FRACTION_SD, FRACTION_SPREAD = 0.5, 0.25
"""Prior scales of the refitted polynomial's terms and residual, in units of the depth."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One row a network with its transition layer; `full`: the line on the logit, `shape`: names of its columns."""

    frame: pd.DataFrame
    L: Array
    H: Array
    star: Array
    shape: tuple[str, ...]
    full: Lines
    mean: Lines
    """The same without its shape: one place for all."""
    sources: tuple[str, ...]
    warnings: tuple[str, ...]


def transition_rows(table: pd.DataFrame, definition: str, *, source: str | Sequence[str] | None = None) -> Placed:
    """The rows of `fit_transition` and their model; raises as it does."""
    frame, files, said = _rows(table, f"L_star_{definition}", source)
    L, H = (numbers(frame[name].astype("float64"), name, positive=True) for name in ("n_layers", "n_heads"))
    star = numbers(frame["L_star"], definition, least=4)
    if (star < 1).any() or (star > L).any():
        at = int(np.flatnonzero((star < 1) | (star > L))[0])
        raise UsageError(
            "a transition layer outside its network",
            where=f"{definition} of {frame['model_id'][at]}",
            got=float(star[at]),
            allowed=f"1 to {L[at]:g}, layers counted from 1",
        )
    labs = frame["heritage"].astype(str)
    if labs.nunique() < 2:
        raise UsageError("no other lab to predict", where="heritage", got=labs.unique()[0], allowed="2 labs or more")
    place = (star - 0.5) / L
    with np.errstate(divide="ignore"):
        lower, upper = logit(np.maximum(star - 1, 0) / L), logit(np.minimum(star, L) / L)
    one = np.ones(L.size)
    shape = {
        name: standardised(pd.Series(np.log(x)), name)[0] for name, x in (("n_layers", L), ("n_heads", H)) if np.ptp(x)
    }

    def on_logit(*columns: Array) -> Lines:
        X = np.column_stack([one, *columns])
        sd = [CENTRE_SD, *[SLOPE_SD] * len(columns)]
        return lines(frame, logit(place), X, sd=sd, sigma_scale=SPREAD, tau_scale=SPREAD)

    full = between(on_logit(*shape.values()), lower, upper, seed=L.size)
    return Placed(
        frame=frame,
        L=L,
        H=H,
        star=star,
        shape=tuple(shape),
        full=full,
        mean=replace(on_logit(), y=full.y, error=full.error),
        sources=files,
        warnings=(*said, *_warnings(L, H, star, labs)),
    )


def fit_transition(
    table: pd.DataFrame,
    definition: str = "first_sign_change",
    *,
    source: str | Sequence[str] | None = None,
    seed: int,
    cache: bool = True,
) -> Fitted:
    """logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, L* = ⌈p L⌉: p lies between (L* − 1)/L and L*/L.

    In the first and the last layer one of these bounds is infinite on the logit (`rounding.between`).

    `table`: rows of `features` with the column `L_star_<definition>` (1-based; `<definition>_<trace variant>` where
    there is one); of several rows of a model the mean is taken. On the logit no prediction leaves the network. Beside
    it, each refitted without the lab that is predicted: the published polynomial with its terms free (`polynomial`),
    the mean fraction, and without any fit L/2 and the published formula. Tables: `models` (L* and every prediction from
    other labs with the logit model's interval), `errors` (`error_of_depth` = mean |predicted − L*|/L, `mape` relative
    to L*, `better_than_half`: the error of L/2 less that of the rule with its paired t interval, share of predictions
    and of intervals inside the network, coverage and width of the intervals), `errors_within_labs` (the same of
    networks whose lab has others, each foretold from all others, so that its lab is known), `sensitivity` (exact
    refits; t errors by weights).

    The classical counterparts: table `classical`, as `counterparts.of_transition` gives it.

    Networks without an L* are left out with a warning. Raises UsageError for fewer than 4 models, fewer than 2 labs, a
    layer outside 1 to L, missing depth, heads or lab, a model with two of one of these.
    """
    placed = transition_rows(table, definition, source=source)
    frame, L, H, star, full = placed.frame, placed.L, placed.H, placed.star, placed.full
    labs, said = frame["heritage"].astype(str), list(placed.warnings)
    one = np.ones(L.size)
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
    fit = linear.sample(full, seed=seed, cache=cache)
    folds = few_folds(labs.tolist(), "labs", said)
    a, b, c = PUBLISHED
    drawn = {
        "logit": _layers(held_out(full, folds, seed=seed, exact=True), L),
        "mean fraction": _layers(held_out(placed.mean, folds, seed=seed, exact=True), L),
        "polynomial": held_out(polynomial, folds, seed=seed).draws * L,
    }
    fixed = {"L/2": L / 2, "published formula": L * (a + b * L + c / H)}
    models, errors = compared(frame, star, L, drawn, fixed)
    coefficients = posterior(polynomial, seed=seed).beta / np.array([1.0, L.max(), 1 / H.min()])
    names = ("a", "b", "c")
    low, high = equal_tailed(coefficients)
    new = predict(posterior(full, seed=seed), _elsewhere(full), seed=seed)
    depth = expit(fit.beta[..., 0])
    of_depth = {"logit of the depth": lambda p: p.beta[:, 0]} | {
        f"slope_{name}": partial(_coefficient, i + 1) for i, name in enumerate(placed.shape)
    }
    return Fitted(
        family="transition",
        estimand=definition,
        sources=placed.sources,
        n_models=L.size,
        n_heritages=labs.nunique(),
        parts={"logit": fit.part(_statistics(L), {"depth": depth, "behind the middle": fit.beta[..., 0] > 0})},
        quantities={
            "depth": depth,
            **{f"slope_{name}": fit.beta[..., i + 1] for i, name in enumerate(placed.shape)},
            "lab_sd": fit.tau,
            "residual_sd": fit.sigma,
        },
        probabilities={
            "deeper networks turn relatively later": _above(fit, "n_layers", placed.shape),
            "more heads turn relatively earlier": 1 - _above(fit, "n_heads", placed.shape),
            "L* of a network like these lies behind the middle": float((new > 0).mean()),
        },
        numbers={
            "new_network_depth_lower": float(np.quantile(expit(new), (1 - LEVEL) / 2)),
            "new_network_depth_upper": float(np.quantile(expit(new), (1 + LEVEL) / 2)),
            "rank_of_polynomial": float(np.linalg.matrix_rank(terms)),
        },
        tables={
            "errors": errors,
            "errors_within_labs": _within_labs(placed, polynomial, fixed, seed),
            "models": models,
            "sensitivity": sensitivity(full, of_depth, seed=seed),
            "classical": counterparts.of_transition(frame, seed=seed),
            "polynomial": pd.DataFrame(
                {
                    "term": names,
                    "published": PUBLISHED,
                    "median": np.median(coefficients, axis=0),
                    "lower": low,
                    "upper": high,
                }
            ),
        },
        refits=partial(linear.sensitivity_anew, full, of_depth, cache=cache),
        warnings=tuple(said),
        figure=_figure,
        influence=partial(_left_out, placed),
        equations=(
            "logit((L*ᵢ − ½)/Lᵢ) = a"
            + "".join(f" + {SYMBOLS[n]} z({SHAPES[n]})" for n in placed.shape)
            + " + u_lab(i) + εᵢ",
            "u_lab ~ N(0, τ²),  εᵢ ~ N(0, σ² + rᵢ²),  rᵢ the rounding of L*ᵢ to whole layers on the logit",
            "refitted polynomial: L*ᵢ/Lᵢ = a + b Lᵢ + c/Hᵢ + εᵢ;  published: a = 0.11, b = 0.012, c = 4.9",
        ),
        priors=tuple(
            line
            for line in PRIORS
            if line[0] not in SYMBOLS.values() or line[0] in {SYMBOLS[name] for name in placed.shape}
        ),
        seed=seed,
    )


def _rows(
    table: pd.DataFrame, column: str, source: str | Sequence[str] | None
) -> tuple[pd.DataFrame, tuple[str, ...], list[str]]:
    """One row a network, the files they are from, and what was left out or put together."""
    columns_of(table, "model_id", "heritage", "source", "n_layers", "n_heads")
    if column not in table:
        known = [name.removeprefix("L_star_") for name in table if str(name).startswith("L_star_")]
        raise UsageError(
            "no such definition of L*",
            got=column.removeprefix("L_star_"),
            allowed=", ".join(name for name in known if not name.endswith("_sd")),
        )
    asked = table
    if source is not None:
        asked = table[table["source"].isin([source] if isinstance(source, str) else list(source))]
    rows = asked[asked[column].notna()]
    said = left_out(asked["model_id"], rows["model_id"], "no L* of this definition")
    models = rows.groupby("model_id")
    facts = models[["heritage", "n_layers", "n_heads"]]
    if (differ := facts.nunique().gt(1).any(axis=1)).any():
        raise UsageError(
            "a model has two labs or two geometries", got=named(differ.index[differ]), allowed="one of each"
        )
    if twice := models.size().loc[lambda n: n > 1].index.tolist():
        said.append("several rows, their mean taken: " + named(twice))
    found = facts.first().assign(L_star=models[column].mean().astype("float64")).reset_index()
    if len(found):
        labels(found["heritage"], "heritage")
    return found, tuple(sorted(set(rows["source"]))), said


def _warnings(L: Array, H: Array, star: Array, labs: pd.Series) -> tuple[str, ...]:
    said = []
    if edge := int(((star == 1) | (star == L)).sum()):
        said.append(f"L* is the first or the last layer of {edge} networks: there the logit is known to one side only")
    if is_constant(star / L):
        said.append("L*/L is the same in every network: its spread is known up to the rounding of L* and its prior")
    elif is_constant(star):
        said.append(f"L* is {star[0]:g} in every network: L*/L varies with the depth alone")
    if not labs.duplicated().any():
        said.append("one network of every lab: labs cannot be told from networks, their prior decides")
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


def _above(fit: linear.LinesFit, name: str, shape: Sequence[str]) -> float:
    return float((fit.beta[..., shape.index(name) + 1] > 0).mean()) if name in shape else float("nan")


def _within_labs(placed: Placed, polynomial: Lines, fixed: dict[str, Array], seed: int) -> pd.DataFrame:
    """Errors with each network left out alone, of many every twentieth together; empty where no lab has two."""
    frame, L = placed.frame, placed.L
    several = frame["heritage"].duplicated(keep=False).to_numpy()
    if not several.any():
        return pd.DataFrame(columns=["rule", "error_of_depth"])
    folds = few_folds(frame["model_id"].astype(str).tolist(), "networks")
    drawn = {
        "logit": _layers(held_out(placed.full, folds, seed=seed, exact=True), L),
        "mean fraction": _layers(held_out(placed.mean, folds, seed=seed, exact=True), L),
        "polynomial": held_out(polynomial, folds, seed=seed).draws * L,
    }
    kept = {name: values[:, several] for name, values in drawn.items()}
    rules = {name: values[several] for name, values in fixed.items()}
    return compared(frame[several], placed.star[several], L[several], kept, rules)[1]


def _layers(found: HeldOut, L: Array) -> Array:
    """Logits to layers: L* = ⌈L p⌉."""
    return np.asarray(np.clip(np.ceil(expit(found.draws) * L), 1, L))


def _coefficient(column: int, found: Posterior) -> Array:
    return found.beta[:, column]


def _left_out(placed: Placed, seed: int) -> Check:
    """Exact refits without each lab, then without each model."""
    ways = [few_folds(placed.frame[name].astype(str).tolist(), name) for name in ("heritage", "model_id")]
    return joined(
        [linear.without_each(placed.full, way, partial(_coefficient, 0), "logit of the depth", seed) for way in ways]
    )


def _elsewhere(full: Lines) -> Lines:
    """The middle network of a lab never seen."""
    row = full.rows(np.array([0]))
    X = np.eye(1, full.X.shape[1])
    return Lines(**{**vars(row), "X": X, "groups": np.array([-1]), "error": np.zeros(1)})


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
