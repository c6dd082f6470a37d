"""logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, L* = ⌈p L⌉: where in the network is the transition layer?

Its rivals are a polynomial in L and 1/H, one place for all, the middle, and the published formula; each predicts labs
and networks that it was not fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from thermostats.choices import options
from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, is_constant, labels, left_out, named, numbers
from thermostats.modelling.heritage.rows import lines, standardised
from thermostats.modelling.inference.checks import Statistic
from thermostats.modelling.inference.draws import SEED, Array, equal_tailed
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.held_out import few_folds, held_out
from thermostats.modelling.inference.quadrature import Lines, Posterior, posterior, predict
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.modelling.laws.lines import between, fitted_line
from thermostats.plots.marks import ABOVE

Formula = tuple[float, float, float]
"""a, b, c of L* = L (a + b L + c/H)."""
CENTRE_SD, SLOPE_SD, SPREAD = 1.5, 0.5, 0.5
"""Prior scales on the logit: places from 5% to 95% of the depth; slopes (over one SD), labs and the rest share 1."""
ROUNDING = 12**-0.5
"""Standard error of L* in layers: it is a whole number."""
SYMBOLS = {"n_layers": "b", "n_heads": "c"}
SHAPES = {"n_layers": "log Lᵢ", "n_heads": "log Hᵢ"}
PRIORS = (
    ("a", f"N(0, {CENTRE_SD:g}²)", "places from 5% to 95% of the depth are no surprise"),
    ("b", f"N(0, {SLOPE_SD:g}²)", "over one SD of log L: up to 12% of the depth at its middle is no surprise"),
    ("c", f"N(0, {SLOPE_SD:g}²)", "over one SD of log H: the same"),
    ("τ", f"half-normal({SPREAD:g})", "labs differ as much as slopes may move"),
    ("σ", f"half-normal({SPREAD:g})", "networks of one lab differ as much"),
)
FRACTION_SD, FRACTION_SPREAD = 0.5, 0.25
"""Prior scales of the refitted polynomial's terms and residual, in units of the depth."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One row per network with its transition layer; `full`: the line on the logit, `shape`: names of its columns."""

    frame: pd.DataFrame
    L: Array
    H: Array
    star: Array
    shape: tuple[str, ...]
    full: Lines
    mean: Lines
    """The same without its shape: one place for all."""
    polynomial: Lines
    """L*/L as a + b L + c/H, with L in units of the largest and 1/H of the smallest."""
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
    polynomial = lines(
        frame,
        star / L,
        np.column_stack([one, L / L.max(), H.min() / H]),
        sd=[FRACTION_SD] * 3,
        sigma_scale=FRACTION_SPREAD,
        tau_scale=1.0,
        groups=None,
        error=ROUNDING / L,
    )
    return Placed(
        frame=frame,
        L=L,
        H=H,
        star=star,
        shape=tuple(shape),
        full=full,
        mean=replace(on_logit(), y=full.y, error=full.error),
        polynomial=polynomial,
        sources=files,
        warnings=(*said, *_warnings(L, H, star, labs)),
    )


def fit_transition(
    table: pd.DataFrame,
    definition: str = "first_sign_change",
    *,
    source: str | Sequence[str] | None = None,
    published: Formula | None = None,
    seed: int = SEED,
) -> Fitted:
    """logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, L* = ⌈p L⌉: p lies between (L* − 1)/L and L*/L.

    In the first and the last layer one of these bounds is infinite on the logit (`lines.between`).

    `table`: rows of `features` with the column `L_star_<definition>` (1-based; `<definition>_<trace variant>` where
    there is one); of several rows of a model the mean is taken. On the logit no prediction leaves the network. Next to
    it, each refitted without the lab that is predicted: the polynomial L* = L (a + b L + c/H) and the mean fraction,
    and without any fit L/2 and the `published` formula, the polynomial with these a, b, c. Tables: `models` (L* and
    every prediction from other labs with the logit model's interval), `errors` (`error_of_depth` = mean |predicted −
    L*|/L, `mape` relative to L*, `better_than_half`: the error of L/2 minus the rule's, with paired t interval,
    share of predictions and of intervals inside the network, coverage and width of the intervals), `errors_within_labs`
    (the same of networks whose lab has others, each predicted from all others, so that its lab is known), `polynomial`
    (its terms).

    Networks without an L* are left out with a warning. Raises UsageError for fewer than 4 models, fewer than 2 labs, a
    layer outside 1 to L, missing depth, heads or lab, a model with two of one of these.
    """
    placed = transition_rows(table, definition, source=source)
    frame, L, full = placed.frame, placed.L, placed.full
    labs, said = frame["heritage"].astype(str).tolist(), list(placed.warnings)
    models, errors = _compared(placed, few_folds(labs, "labs", said), np.ones(L.size, dtype=bool), published, seed)
    middle = replace(full.rows(np.array([0])), X=np.eye(1, full.X.shape[1]), groups=np.array([-1]), error=np.zeros(1))
    new = predict(posterior(full, seed=seed), middle, seed=seed)
    new_low, new_high = equal_tailed(expit(new[:, 0]))

    def quantities(found: Posterior) -> Quantities:
        slopes = {f"slope_{name}": found.beta[..., i] for i, name in enumerate(placed.shape, 1)}
        return {"depth": expit(found.beta[..., 0])} | slopes | {"lab_sd": found.tau, "residual_sd": found.sigma}

    asked: dict[str, Statement] = {"behind the middle": lambda q: q["depth"] > 0.5}
    if "n_layers" in placed.shape:
        asked["deeper networks turn relatively later"] = lambda q: q["slope_n_layers"] > 0
    if "n_heads" in placed.shape:
        asked["more heads turn relatively earlier"] = lambda q: q["slope_n_heads"] < 0
    symbols = {SYMBOLS[name] for name in placed.shape}
    return fitted_line(
        full,
        frame,
        quantities,
        ways=[labs, frame["model_id"].astype(str).tolist()],
        part="logit",
        statistics=_statistics(L),
        statements=asked,
        seed=seed,
        family="transition",
        estimand=definition,
        sources=placed.sources,
        probabilities={"L* of a network like these lies behind the middle": float((new > 0).mean())},
        numbers={"new_network_depth_lower": float(new_low), "new_network_depth_upper": float(new_high)},
        tables={
            "errors": errors,
            "errors_within_labs": _within_labs(placed, published, seed),
            "models": models,
            "polynomial": _terms(placed, published, seed),
        },
        warnings=tuple(said),
        figure=_figure,
        labels={"beta": ("intercept", *placed.shape)},
        equations=_equations(placed.shape, published),
        priors=tuple(line for line in PRIORS if line[0] in symbols or line[0] not in SYMBOLS.values()),
    )


def _equations(shape: Sequence[str], published: Formula | None) -> tuple[str, ...]:
    terms = "".join(f" + {SYMBOLS[name]} z({SHAPES[name]})" for name in shape)
    stated = (
        ";  published: " + ", ".join(f"{n} = {v:g}" for n, v in zip("abc", published, strict=True)) if published else ""
    )
    return (
        f"logit((L*ᵢ − ½)/Lᵢ) = a{terms} + u_lab(i) + εᵢ",
        "u_lab ~ N(0, τ²),  εᵢ ~ N(0, σ² + rᵢ²),  rᵢ the rounding of L*ᵢ to whole layers on the logit",
        f"refitted polynomial: L*ᵢ/Lᵢ = a + b Lᵢ + c/Hᵢ + εᵢ{stated}",
    )


def _rows(
    table: pd.DataFrame, column: str, source: str | Sequence[str] | None
) -> tuple[pd.DataFrame, tuple[str, ...], list[str]]:
    """One row per network, the files they are from, and what was left out or put together."""
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
        said.append("several rows, so their mean is used: " + named(twice))
    found = facts.first().assign(L_star=models[column].mean().astype("float64")).reset_index()
    if len(found):
        labels(found["heritage"], "heritage")
    return found, tuple(sorted(set(rows["source"]))), said


def _warnings(L: Array, H: Array, star: Array, labs: pd.Series) -> tuple[str, ...]:
    edge, same_place = int(((star == 1) | (star == L)).sum()), is_constant(star / L)
    rank = np.linalg.matrix_rank(np.column_stack([np.ones(L.size), L, 1 / H]))
    r = float(np.corrcoef(np.log(L), np.log(H))[0, 1]) if np.ptp(L) and np.ptp(H) else 0.0
    small = L.size < 12 or labs.nunique() < 4
    known = {
        f"L* is the first or the last layer of {edge} networks: there the logit is known on one side only": edge,
        "L*/L is the same in every network: its spread is known up to the rounding of L* and its prior": same_place,
        f"L* is {star[0]:g} in every network: L*/L varies with the depth alone": is_constant(star) and not same_place,
        "one network of every lab: labs cannot be separated from networks, so their prior decides": labs.is_unique,
        f"the three terms of the polynomial have rank {rank} in these networks: their priors decide between them": (
            rank < 3
        ),
        "L is the same in every network: no slope": not np.ptp(L),
        "H is the same in every network: no slope": not np.ptp(H),
        f"log L and log H are correlated (r = {r:.2f}): their slopes cannot be separated": abs(r) > 0.95,
        f"{L.size} networks of {labs.nunique()} labs: intervals of other labs are wide and rest on the priors": small,
    }
    return tuple(words for words, holds in known.items() if holds)


def _within_labs(placed: Placed, published: Formula | None, seed: int) -> pd.DataFrame:
    """Errors with each network left out alone, of many every twentieth together; empty where no lab has two."""
    several = placed.frame["heritage"].duplicated(keep=False).to_numpy()
    if not several.any():
        return pd.DataFrame(columns=["rule", "error_of_depth"])
    folds = few_folds(placed.frame["model_id"].astype(str).tolist(), "networks")
    return _compared(placed, folds, several, published, seed)[1]


def _compared(
    placed: Placed, folds: Sequence[str], shown: NDArray[np.bool_], published: Formula | None, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Predictions of every rule and L*, one row per network, and their errors, one row per rule, the best first.

    Rules that are fitted predict every fold from the others; only networks `shown` count.
    """
    L, star = placed.L[shown], placed.star[shown]
    fixed = {"L/2": L / 2}
    if published:
        a, b, c = published
        fixed["published formula"] = L * (a + b * L + c / placed.H[shown])
    on_logit = {"logit": placed.full, "mean fraction": placed.mean}
    drawn = {name: _layers(held_out(m, folds, seed=seed, exact=True).draws, placed.L) for name, m in on_logit.items()}
    drawn["polynomial"] = held_out(placed.polynomial, folds, seed=seed).draws * placed.L
    models = placed.frame.loc[shown, ["model_id", "heritage", "n_layers", "n_heads", "L_star"]].copy()
    errors: list[dict[str, object]] = []
    for name, layers in fixed.items():
        models[name] = layers
        errors.append({"rule": name, "fitted": False, **_errors(layers, star, L)})
    for name, every in drawn.items():
        values = every[:, shown]
        low, high = equal_tailed(values)
        found = np.median(values, axis=0)
        models[name], models[f"{name}_lower"], models[f"{name}_upper"] = found, low, high
        spread = {
            "coverage": ((low <= star) & (star <= high)).mean(),
            "width_of_depth": ((high - low) / L).mean(),
            "interval_inside": ((low >= 0.5) & (high <= L + 0.5)).mean(),
        }
        errors.append({"rule": name, "fitted": True, **_errors(found, star, L), **spread})
    return models, pd.DataFrame(errors).sort_values("error_of_depth", ignore_index=True)


def _errors(predicted: Array, star: Array, L: Array) -> dict[str, float]:
    """Errors of one rule, and the error of depth of L/2 minus the rule's, paired by network, with its t interval."""
    off = np.abs(predicted - star)
    gained = np.abs(L / 2 - star) / L - off / L
    reach = stats.t.ppf((1 + options.level) / 2, gained.size - 1) * gained.std(ddof=1) / gained.size**0.5
    return {
        "error_of_depth": float((off / L).mean()),
        "mape": float((off / star).mean()),
        "inside": float(((predicted >= 0.5) & (predicted <= L + 0.5)).mean()),
        "better_than_half": float(gained.mean()),
        "better_than_half_lower": float(gained.mean() - reach),
        "better_than_half_upper": float(gained.mean() + reach),
    }


def _layers(logits: Array, L: Array) -> Array:
    """Logits to layers: L* = ⌈L p⌉."""
    return np.asarray(np.clip(np.ceil(expit(logits) * L), 1, L))


def _terms(placed: Placed, published: Formula | None, seed: int) -> pd.DataFrame:
    """The polynomial's terms as published and as refitted."""
    units = np.array([1.0, placed.L.max(), 1 / placed.H.min()])
    found = posterior(placed.polynomial, seed=seed).beta / units
    low, high = equal_tailed(found)
    median = np.median(found, axis=0)
    stated = {"published": published} if published else {}
    return pd.DataFrame({"term": [*"abc"], **stated, "median": median, "lower": low, "upper": high})


def _statistics(L: Array) -> dict[str, Statistic]:
    deep = np.median(L) <= L
    both = deep.any() and not deep.all()
    return {"mean": lambda y: y.mean(axis=-1), "spread": lambda y: y.std(axis=-1)} | (
        {"deep less shallow": lambda y: y[..., deep].mean(axis=-1) - y[..., ~deep].mean(axis=-1)} if both else {}
    )


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    shown = fitted.table("models").sort_values("n_layers", ignore_index=True)
    rows, L = np.arange(len(shown)), shown["n_layers"].astype("float64")
    axes.hlines(rows, shown["logit_lower"] / L, shown["logit_upper"] / L, alpha=0.4, linewidth=4)
    axes.plot(shown["logit"] / L, rows, "|", label="predicted from other labs")
    if "published formula" in shown:
        axes.plot(shown["published formula"] / L, rows, "x", label="published formula")
    axes.plot(shown["L_star"] / L, rows, "o", label="L*")
    axes.axvline(0.5, linewidth=0.8, linestyle="--")
    axes.set_yticks(rows, [str(name) for name in shown["model_id"]])
    axes.set_xlabel("L* / L")
    axes.legend(**ABOVE)
    return axes
