"""The only seam to PyMC, nutpie and ArviZ: sample, predict, densities, convergence.

A model is a plain function `model(pm, data)` that declares random variables inside an open PyMC model. `data` is a
mapping: arrays in it are `pm.Data` and may change from fit to fit without a new compilation, everything else (sizes,
switches) is constant. Sizes of parameters must come from constants. PyMC 5 and 6, ArviZ 0.23 and 1.x; nothing of them
is imported before the first use.
"""

from __future__ import annotations

import importlib
import logging
import os
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from thermostats.choices import cores_there_are, options
from thermostats.errors import ThermostatsError, UsageError
from thermostats.modelling.inference.draws import (
    KIND,
    LEVEL,
    Array,
    Diagnostics,
    Draws,
    Settings,
    Weights,
    cache_key,
    element_names,
    equal_tailed,
    load_draws,
    save_draws,
)
from thermostats.modelling.inference.draws import finite as check_finite
from thermostats.tables.caching import cache_folder
from thermostats.terminal import looked_at

Model = Callable[[Any, Mapping[str, Any]], None]
Data = Mapping[str, Any]

CORES_VARIABLE = "THERMOSTATS_CORES"
TAILS = (0.05, 0.95)
_COMPILED: OrderedDict[str, Any] = OrderedDict()
COMPILED_KEPT = 16
LEAST_TAIL = 5
"""Draws in the tail of importance ratios that its Pareto shape takes."""


def fit(
    model: Model,
    data: Data,
    *,
    seed: int,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    retry: bool = True,
    cache: bool = True,
    progress: bool | None = None,
) -> Draws:
    """Sample the posterior of a model; draws that were made before come from the cache.

    Where a diagnostic is beyond its limit (R-hat ≤ 1.01, bulk and tail ESS ≥ 400, no divergence, energy fraction ≥ 0.3,
    over all quantities) there is one more attempt with smaller steps and twice the draws. A second
    fit of the same model with other arrays takes no compilation. `progress`: a bar on standard error, by default for a
    fit alone on a terminal.

    Raises UsageError for arrays that are not finite, ThermostatsError where sampling cannot start.
    """
    _check(data)
    alone = CORES_VARIABLE not in os.environ  # fits side by side have one bar in common, their caller's
    bar = alone and looked_at() if progress is None else progress
    once = partial(_attempt, model, data, progress=bar)
    return _kept(model, data, once, seed=seed, settings=settings, retry=retry, cache=cache)


def _kept(
    model: Callable[..., Any],
    data: Data,
    once: Callable[[int, Settings], Draws],
    *,
    seed: int,
    settings: Settings,
    retry: bool,
    cache: bool,
) -> Draws:
    """Draws from the cache, or one attempt, and another where a diagnostic is beyond its limit."""
    folder = cache_folder() if cache else None
    path = None
    if folder is not None:
        key = cache_key(model, data, seed=seed, settings=asdict(settings), retry=retry, versions=versions())
        path = folder / "draws" / f"{key}.npz"
        if (stored := load_draws(path)) is not None:
            return stored
    draws = once(seed, settings)
    if retry and draws.beyond_limits():
        second = once(seed + 1, settings.retried())
        seconds = {n: getattr(draws, n) + getattr(second, n) for n in ("compile_seconds", "sample_seconds")}
        draws = replace(second, attempts=2, seed=seed, **seconds)
    if path is not None:
        save_draws(path, draws)
    return draws


def sample_only(model: Model, data: Data, *, seed: int, settings: Settings) -> tuple[dict[str, Array], int]:
    """Draws of every quantity, chain × draw × …, and the number of divergences: no gate, no retry, no cache.

    For many refits of one model in a simulation study, which look at a few quantities only.
    """
    _check(data)
    trace, _ = _with_nutpie(model, data, seed, settings, False)
    return _values(trace), int(np.asarray(trace.sample_stats["diverging"].values).sum())


def exact_draws(
    values: Mapping[str, Array],
    *,
    seed: int,
    settings: Settings,
    start: float,
    weights: Weights = Weights(),  # noqa: B008 (frozen)
) -> Draws:
    """Independent draws (chains·draws × …) as sampling would give them; `start`: `perf_counter` when drawing began.

    `weights`: of those by which they were chosen.
    """
    shaped = {n: v.reshape(settings.chains, settings.draws, *v.shape[1:]) for n, v in values.items()}
    check_finite(shaped)
    return Draws(
        values=shaped,
        diagnostics=weights,
        settings=settings,
        attempts=1,
        seed=seed,
        compile_seconds=0.0,
        sample_seconds=time.perf_counter() - start,
        versions=versions(),
        exact=True,
    )


def chained_draws(
    values: Mapping[str, Array], *, judged: Sequence[str], seed: int, settings: Settings, start: float
) -> Draws:
    """Draws of groups of short chains (groups·draws × …, one chain after another) as sampling would give them.

    R-hat and effective sizes are those of the groups, of the quantities `judged`; no energy, no divergences.
    """
    drawn = exact_draws(values, seed=seed, settings=settings, start=start)
    found = _diagnostics({name: drawn.values[name] for name in judged}, np.full((2, 2), np.nan), 0)
    return replace(drawn, diagnostics=found, exact=False)


def prior_predictive(model: Model, data: Data, *, seed: int, draws: int = 500) -> dict[str, Array]:
    """Draws from the prior of every quantity and of the data, each of shape draws × …"""
    pm = _pymc()
    _check(data)
    trace = pm.sample_prior_predictive(draws=draws, model=_build(model, data), random_seed=seed)
    groups = [getattr(trace, name) for name in ("prior", "prior_predictive") if hasattr(trace, name)]
    return {str(name): np.asarray(group[name].values[0]) for group in groups for name in group.data_vars}


def summary(quantities: Mapping[str, Array], *, level: float = LEVEL, exact: Collection[str] = ()) -> pd.DataFrame:
    """One row per quantity (chain × draw × …): mean, sd, median, interval of a named kind and level, convergence.

    exact: those drawn independently, of whose convergence there is nothing to say.
    """
    rows: list[pd.DataFrame] = []
    for name, values in quantities.items():
        columns = values.reshape(*values.shape[:2], -1)
        lower, upper = equal_tailed(columns, level, axis=(0, 1))
        rows.append(
            pd.DataFrame(
                {
                    "quantity": element_names(name, values.shape[2:]),
                    "mean": columns.mean(axis=(0, 1)),
                    "sd": columns.std(axis=(0, 1), ddof=1),
                    "median": np.median(columns, axis=(0, 1)),
                    "lower": lower,
                    "upper": upper,
                    "kind": KIND,
                    "level": level,
                    **({} if name in exact else convergence(columns)),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def mcse(values: Array) -> float:
    """Monte Carlo standard error of the mean of one quantity, chain × draw."""
    return float(values.std(ddof=1) / np.sqrt(_arviz().ess(values, method="mean")))


def pareto_smooth(log_ratios: Array) -> tuple[Array, Array]:
    """Normalised log weights (… × draws) and Pareto k of importance ratios; Vehtari et al. 2024, JMLR 25(72).

    Ratios that are all the same are equal weights, k = −∞. Where the tail is one value or has fewer than `LEAST_TAIL`
    draws there is nothing to fit: the weights as they are, k = ∞, which no check trusts.
    """
    rows = np.asarray(log_ratios, dtype=np.float64).reshape(-1, log_ratios.shape[-1])
    size = rows.shape[1]
    tail = int(3 * size**0.5) if size > 225 else size // 5
    ordered = np.sort(rows, axis=1)
    same = ordered[:, 0] == ordered[:, -1]
    fitted = ordered[:, -tail] != ordered[:, -1] if tail >= LEAST_TAIL else np.zeros(len(rows), dtype=bool)
    weights, k = rows - np.logaddexp.reduce(rows, axis=1, keepdims=True), np.where(same, -np.inf, np.inf)
    if fitted.any():
        arviz = _arviz()
        if _first_generation(arviz):
            weights[fitted], k[fitted] = arviz.psislw(rows[fitted])
        else:
            smooth = importlib.import_module("arviz_stats.base").array_stats.psislw
            weights[fitted], k[fitted] = smooth(-rows[fitted])
    return weights.reshape(log_ratios.shape), k.reshape(log_ratios.shape[:-1])


@cache
def versions() -> Mapping[str, str]:
    """Versions of what the draws depend on."""
    return {name: version(name) for name in ("pymc", "pytensor", "arviz", "nutpie")}


def _attempt(model: Model, data: Data, seed: int, settings: Settings, *, progress: bool) -> Draws:
    start = time.perf_counter()
    sample = _with_nutpie if settings.sampler == "nutpie" else _with_pymc
    trace, compiled_at = sample(model, data, seed, settings, progress)
    done = time.perf_counter()
    values = _values(trace)
    energy, diverging = (np.asarray(trace.sample_stats[name].values) for name in ("energy", "diverging"))
    return Draws(
        values=values,
        diagnostics=_diagnostics(values, energy, int(diverging.sum())),
        settings=settings,
        attempts=1,
        seed=seed,
        compile_seconds=compiled_at - start,
        sample_seconds=done - compiled_at,
        versions=versions(),
    )


def _values(trace: Any) -> dict[str, Array]:
    names = [str(name) for name in trace.posterior.data_vars if not str(name).endswith("__")]
    values = {name: np.ascontiguousarray(trace.posterior[name].values, dtype=np.float64) for name in names}
    check_finite(values)
    return values


def _with_nutpie(model: Model, data: Data, seed: int, settings: Settings, progress: bool) -> tuple[Any, float]:
    _arviz()
    nutpie = importlib.import_module("nutpie")
    arrays = {name: value for name, value in data.items() if isinstance(value, np.ndarray)}
    structure = {name: value for name, value in data.items() if name not in arrays}
    kinds = {name: f"{array.dtype}{array.ndim}" for name, array in arrays.items()}
    compiled_key = cache_key(model, structure, kinds=kinds)
    if compiled_key not in _COMPILED:
        _COMPILED[compiled_key] = nutpie.compile_pymc_model(_build(model, data))
        while len(_COMPILED) > COMPILED_KEPT:
            _COMPILED.popitem(last=False)
    compiled = _COMPILED[compiled_key]
    compiled_at = time.perf_counter()
    shared = (
        {var.name for var in compiled.shared_var_keys} if hasattr(compiled, "shared_var_keys") else compiled.shared_data
    )
    used = {name: array for name, array in arrays.items() if name in shared}
    trace = nutpie.sample(
        compiled.with_data(**used), seed=seed, save_warmup=False, progress_bar=progress, **_options(settings)
    )
    return trace, compiled_at


def _with_pymc(model: Model, data: Data, seed: int, settings: Settings, progress: bool) -> tuple[Any, float]:
    pm = _pymc()
    built = _build(model, data)
    trace = pm.sample(
        random_seed=seed,
        nuts_sampler="pymc",
        progressbar=progress,
        compute_convergence_checks=False,
        model=built,
        **_options(settings),
    )
    compiled_at = time.perf_counter() - float(trace.posterior.attrs["sampling_time"])
    return trace, compiled_at


def _options(settings: Settings) -> dict[str, Any]:
    """What both samplers are given."""
    same = {name: getattr(settings, name) for name in ("draws", "tune", "chains", "target_accept")}
    return {**same, "cores": _cores(settings)}


def _cores(settings: Settings) -> int:
    """Cores for the chains of one fit: all there are, or as many as fits side by side are given each."""
    given = os.environ.get(CORES_VARIABLE, "")
    return min(settings.chains, max(1, int(given)) if given.isdigit() else options.cores or cores_there_are())


def _build(model: Model, data: Data) -> Any:
    """The PyMC model."""
    pm = _pymc()
    with pm.Model() as built:
        arrays = {name: pm.Data(name, value) for name, value in data.items() if isinstance(value, np.ndarray)}
        model(pm, {**data, **arrays})
    open_shapes = [rv.name for rv in built.free_RVs if None in rv.type.shape]
    if open_shapes:
        raise ThermostatsError(
            "sizes of parameters must be constants of the model",
            where=model.__qualname__,
            got=", ".join(open_shapes),
            next_step="give their sizes as whole numbers in the data",
        )
    return built


def _check(data: Data) -> None:
    bad = [name for name, value in data.items() if isinstance(value, np.ndarray) and not np.isfinite(value).all()]
    if bad:
        raise UsageError("missing or infinite values in a model's data", got=", ".join(bad), allowed="finite numbers")


def _diagnostics(values: Mapping[str, Array], energy: Array, divergences: int) -> Diagnostics:
    names = [element for name, array in values.items() for element in element_names(name, array.shape[2:])]
    columns = np.concatenate([array.reshape(*array.shape[:2], -1) for array in values.values()], axis=2)
    found = convergence(columns)
    worst = {
        "rhat": int(np.nanargmax(found["rhat"])),
        "ess_bulk": int(np.nanargmin(found["ess_bulk"])),
        "ess_tail": int(np.nanargmin(found["ess_tail"])),
    }
    bfmi = np.square(np.diff(energy, axis=1)).mean(axis=1) / energy.var(axis=1)
    return Diagnostics(
        rhat_max=float(found["rhat"][worst["rhat"]]),
        ess_bulk_min=float(found["ess_bulk"][worst["ess_bulk"]]),
        ess_tail_min=float(found["ess_tail"][worst["ess_tail"]]),
        divergences=divergences,
        bfmi_min=float(bfmi.min()),
        **{f"{name}_name": names[at] for name, at in worst.items()},
    )


def convergence(columns: Array) -> dict[str, Array]:
    """R-hat and effective sample sizes of chain × draw × quantity; NaN for a quantity that never varies."""
    arviz = _arviz()
    asked: dict[str, Callable[[Array], Any]] = {
        "rhat": arviz.rhat,
        "ess_bulk": lambda x: arviz.ess(x, method="bulk"),
        "ess_tail": lambda x: arviz.ess(x, method="tail", prob=TAILS),
    }
    varies = np.ptp(columns, axis=(0, 1)) > 0
    return {
        name: np.array([float(measure(columns[:, :, i])) if varies[i] else np.nan for i in range(columns.shape[2])])
        for name, measure in asked.items()
    }


def to_arviz(
    groups: Mapping[str, Mapping[str, Array]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[str]],
    of: Mapping[str, Sequence[str]],
) -> Any:
    """Groups of variables as the installed ArviZ has them: InferenceData before 1.0, DataTree since.

    `of`: further coordinates along the only dimension of the observed data.
    """
    arviz, options = _arviz(), {"dims": dict(dims), "coords": dict(coords)}
    given = {name: dict(group) for name, group in groups.items()}
    found = arviz.from_dict(**given, **options) if _first_generation(arviz) else arviz.from_dict(given, **options)
    if of:
        [unit] = next(iter(found["observed_data"].data_vars.values())).dims
        for name in given:
            group = found[name] if _first_generation(arviz) else found[name].to_dataset()
            if unit in group.dims and not set(of) & set(group.dims):
                found[name] = group.assign_coords({label: (unit, list(names)) for label, names in of.items()})
    return found


def _pymc() -> Any:
    _arviz()
    logging.getLogger("pymc").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS", category=UserWarning)
    return importlib.import_module("pymc")


def _arviz() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return importlib.import_module("arviz")


def _first_generation(arviz: Any) -> bool:
    return hasattr(arviz, "psislw")
