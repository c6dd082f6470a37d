"""Whatever is not Gaussian: a model declared in PyMC, drawn by NUTS through nutpie, without it by
PyMC's own sampler.

A structure (`declared`) is compiled once in a process, for which no cache on disk can be used:
nutpie's callbacks are made anew in each. A refit with other arrays takes no compilation, and
densities and replicates of all draws together need none. With `declared` the only seam to PyMC, 5
and 6, and to nutpie; both are imported on first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermostats.errors import ThermostatsError, UsageError, build_unknown_error, take_first_line
from thermostats.modelling.draws import (
    ARVIZ_NOTICE,
    Array,
    Draws,
    Settings,
    check_chains,
    check_finite,
)
from thermostats.settings import count_cores, options
from thermostats.terminal import is_progress_seen

Declare = Callable[[Mapping[str, Any]], None]
RESERVED = {"chain", "draw"}
"""Names of the dimensions of draws."""
NUMBERS = 4_000_000
"""Numbers of an array that is held at a time."""
_STRUCTURES: dict[Any, Structure] = {}


@dataclass(frozen=True, kw_only=True)
class Structure:
    """A model that was built once, and what is compiled of it."""

    model: Any
    """The PyMC model, its arrays mutable."""
    plain: Any
    """The same in which no variable is transformed."""
    compiled: dict[str, Any]
    """nutpie's model, and functions of the free variables, by name; each is compiled when first
    asked for."""


def build_structure(declare: Declare, data: Mapping[str, Any]) -> Structure:
    """The built model with this data in it."""
    arrays = _take_arrays(data)
    constants = tuple((k, data[k]) for k in sorted(data) if k not in arrays)
    kinds = tuple((k, arrays[k].dtype.str, arrays[k].ndim) for k in sorted(arrays))
    key = (declare, constants, kinds)
    if key not in _STRUCTURES:
        model = build(declare, data)
        conditioning = importlib.import_module("pymc.model.transform.conditioning")
        plain = conditioning.remove_value_transforms(model)
        _STRUCTURES[key] = Structure(model=model, plain=plain, compiled={})
    structure = _STRUCTURES[key]
    for model in (structure.model, structure.plain):
        held = {name: values for name, values in arrays.items() if name in model.named_vars}
        import_pymc().set_data(held, model=model)
    return structure


def _take_arrays(data: Mapping[str, Any]) -> dict[str, Array]:
    arrays = {}
    for name, values in data.items():
        if isinstance(values, np.ndarray):
            arrays[name] = values
    return arrays


def build(declare: Declare, data: Mapping[str, Any]) -> Any:
    """The PyMC model; raises ThermostatsError where the size of a parameter follows from an
    array."""
    pm = import_pymc()
    with pm.Model() as model, ignore_messages():
        arrays = {name: pm.Data(name, values) for name, values in _take_arrays(data).items()}
        declare(_Data({**data, **arrays}))
    if unsized := [rv.name for rv in model.free_RVs if None in rv.type.shape]:
        raise ThermostatsError(
            "sizes of parameters must be constants of the model",
            where=name_model(declare),
            got=", ".join(unsized),
            next_step="give their sizes as whole numbers in the data",
        )
    return model


class _Data(dict[str, Any]):
    """What a model reads."""

    def __missing__(self, name: str) -> Any:
        raise build_unknown_error(
            "a model reads what its data do not have", name, self, where="data"
        )


def name_model(declare: Declare) -> str:
    return str(getattr(declare, "__name__", "model"))


def check_arrays(data: Mapping[str, Any]) -> None:
    """Raise UsageError for arrays that are not finite."""
    bad = []
    for name, values in _take_arrays(data).items():
        if not np.isfinite(values).all():
            bad.append(name)
    if bad:
        raise UsageError(
            "missing or infinite values in a model's data",
            got=", ".join(bad),
            allowed="finite numbers",
        )


def check_variables(model: Any, where: str) -> None:
    """Raise UsageError for variables that NUTS cannot draw, and for names that draws have."""
    kinds = ("int", "uint", "bool")
    if counts := [rv.name for rv in model.free_RVs if rv.dtype.startswith(kinds)]:
        raise UsageError(
            "variables that take whole numbers alone cannot be drawn",
            where=where,
            got=", ".join(counts),
            allowed="continuous variables",
            next_step="sum over their values: pm.Mixture, or a likelihood written with "
            "pm.math.logsumexp",
        )
    if taken := RESERVED & set(model.named_vars):
        raise UsageError(
            "a variable has a name that is taken",
            where=where,
            got=", ".join(sorted(taken)),
            next_step="rename it",
        )


def check_outcome(model: Any, outcome: str, observed: Array, where: str) -> None:
    """Raise UsageError for a model that declares no such outcome or one of another length."""
    there = [rv.name for rv in model.observed_RVs]
    if outcome not in there:
        step = f"outcome={there[0]!r}" if there else "give one variable its data by observed=…"
        raise UsageError(
            "the model declares no such outcome",
            where=where,
            got=f"outcome={outcome!r}",
            allowed=", ".join(there) or "a variable with observed=…",
            next_step=step,
        )
    shape = model[outcome].shape.eval(mode=choose_mode())
    size = tuple(int(n) for n in shape)
    if size != observed.shape:
        what = "the outcome has another length than the rows"
        raise UsageError(what, where=outcome, got=f"{size}", allowed=f"{observed.shape}")


def list_stored(model: Any) -> list[str]:
    """Variables of a trace: those of which the data do not set the size, which is compiled."""
    stored: list[str] = []
    for variable in [*model.free_RVs, *model.deterministics]:
        if None not in variable.type.shape:
            stored.append(variable.name)
    return stored


def compute_row_quantities(model: Any, posterior: Any) -> dict[str, Array]:
    """The deterministics of which the data set the size, chain × draw × …"""
    names = [variable.name for variable in model.deterministics if None in variable.type.shape]
    if not names:
        return {}
    draws = []
    for rv in model.free_RVs:
        draws.append(np.asarray(posterior[rv.name].values, dtype=np.float64))
    chains = draws[0].shape[:2]
    flat = []
    for values in draws:
        flat.append(values.reshape(-1, *values.shape[2:]))
    compute = compile_many(model.free_RVs, [model[name] for name in names])
    quantities = {}
    for name, drawn in zip(names, compute(*flat), strict=True):
        values = np.asarray(drawn, dtype=np.float64)
        quantities[name] = values.reshape(*chains, *values.shape[1:])
    return quantities


def compile_many(inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., list[Array]]:
    """Expressions of some variables as a function of many values of each, size × …, which is
    interpreted."""
    graph = importlib.import_module("pytensor.graph.replace")
    pt = importlib.import_module("pytensor.tensor")
    many = []
    for each in inputs:
        kind = each.type
        many.append(pt.tensor(each.name, dtype=kind.dtype, shape=(None, *kind.shape)))
    of_each = graph.vectorize_graph(list(outputs), dict(zip(inputs, many, strict=True)))
    with ignore_messages():
        compute = import_pymc().pytensorf.compile(
            many, of_each, mode=choose_mode(), on_unused_input="ignore"
        )
    return lambda *values: _expand_draws(compute(*values), outputs, len(values[0]))


def _expand_draws(made: Sequence[Array], outputs: Sequence[Any], size: int) -> list[Array]:
    """Values by draw; one that depends on none is that of all."""
    expanded: list[Array] = []
    for values, output in zip(made, outputs, strict=True):
        shape = (size, *values.shape)
        is_drawn = values.ndim > output.ndim
        expanded.append(values if is_drawn else np.broadcast_to(values, shape))
    return expanded


def run_in_parts(
    compute: Callable[..., list[Array]], draws: Sequence[Array], numbers: int
) -> list[Array]:
    """A function of many draws, a part of them at a time, where every draw takes so many
    numbers."""
    parts = max(1, len(draws[0]) * numbers // NUMBERS)
    split = [np.array_split(values, parts) for values in draws]
    made = [compute(*some) for some in zip(*split, strict=True)]
    return [np.concatenate(each) for each in zip(*made, strict=True)]


def choose_mode() -> Any:
    """The mode of a function that is called a few times: made at once, without compiled code."""
    mode = importlib.import_module("pytensor.compile.mode").Mode(
        linker="py", optimizer="fast_compile"
    )
    return mode.including("canonicalize", "stabilize")


def import_pymc() -> Any:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    with ignore_messages():
        return importlib.import_module("pymc")


@contextmanager
def ignore_messages() -> Iterator[None]:
    """Without what others say that no user can act on: no BLAS, which slows nothing down here; an
    array's layout."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=ARVIZ_NOTICE, category=FutureWarning)
        warnings.filterwarnings(
            "ignore", message="PyTensor could not link to a BLAS", category=UserWarning
        )
        warnings.filterwarnings(
            "ignore", message=r"(?s).*np\.dot\(\) is faster on contiguous arrays"
        )
        yield


LONG = 10.0
"""Seconds from which on it is said how long sampling took."""
SMALLEST_PAD = 8
MOST_ELEMENTS = 256
"""Of a variable whose mixing is looked at: a value a row of a long table is none that a statement
reads."""
CORES_VARIABLE = "THERMOSTATS_CORES"


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """A PyMC model and its data."""

    declare: Declare
    data: Mapping[str, Any]
    """Arrays (which may differ from fit to fit) and constants."""
    outcome: str = "y"
    """Name of the observed variable; its values are the array of that name followed by
    `_observed`."""
    per_row: tuple[str, ...] = ()
    """Arrays with one entry per outcome."""
    priors: tuple[str, ...] = ()
    """Variables with several elements that are no effects of one population, such as a scale for
    every model."""

    @property
    def observed(self) -> Array:
        """The outcomes."""
        return np.asarray(self.data[f"{self.outcome}_observed"], dtype=np.float64)

    @property
    def structure(self) -> Structure:
        """The built model with this data in it."""
        return build_structure(self.declare, self.data)

    def select_rows(self, which: NDArray[np.bool_]) -> Sampled:
        """The same model of some of the outcomes."""
        data = {}
        for name, values in self.data.items():
            data[name] = values[which] if name in self.per_row else values
        return replace(self, data=data)

    def sample(self, *, seed: int, settings: Settings = Settings(), retry: bool = True) -> Draws:  # noqa: B008
        """Draws of every variable.

        Where a diagnostic is beyond its limit (R-hat ≤ 1.01, bulk and tail ESS ≥ 400, no
        divergence, energy fraction ≥
        0.3) there is one more attempt with smaller steps and twice the draws, unless not to
        `retry`. Raises UsageError for arrays that are not finite, a model that declares no such
        outcome or one of another length or reads what its data lack; ThermostatsError where the log
        density at the start is not finite.
        """
        self._check()
        draws = _try_sampling(self, seed, settings)
        if not (retry and draws.list_exceeded_limits()):
            return draws
        again = _try_sampling(self, seed + 1, settings.retried())
        seconds = draws.seconds + again.seconds
        return replace(again, attempts=2, seconds=seconds)

    def log_likelihood(self, values: Mapping[str, Array]) -> Array:
        """log p(y_i | …), size × n."""
        name = f"likelihood of {self.outcome}"
        [density] = self._compute_densities(name, lambda model: [model[self.outcome]], values)
        return density

    def log_prior(self, values: Mapping[str, Array]) -> Array:
        """Log prior of the scalar variables and of `priors`, which a power scales; that of effects
        is the model."""

        def list_prior_terms(model: Any) -> list[Any]:
            prior_terms: list[Any] = []
            for rv in model.free_RVs:
                if rv.ndim == 0 or rv.name in self.priors:
                    prior_terms.append(rv)
            return prior_terms

        densities = self._compute_densities(f"prior of {self.priors}", list_prior_terms, values)
        by_draw = []
        for density in densities:
            by_draw.append(density.reshape(len(density), -1).sum(axis=1))
        log_prior = np.sum(by_draw, axis=0)
        return np.asarray(log_prior, dtype=np.float64)

    def replicate(self, values: Mapping[str, Array], rng: np.random.Generator) -> Array:
        """Outcomes of every draw, size × n."""
        drawn = _draw_predictive(self.structure.model, values, [self.outcome], rng)
        return np.asarray(drawn[self.outcome], dtype=np.float64)

    def draw_prior(self, size: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of every variable and of the outcome from the prior."""
        pm = import_pymc()
        with ignore_messages():
            trace = pm.sample_prior_predictive(
                draws=size,
                model=self.structure.model,
                random_seed=_draw_seed(rng),
                compile_kwargs={"mode": choose_mode()},
            )
        drawn: dict[str, Array] = {}
        for part in ("prior", "prior_predictive"):
            if hasattr(trace, part):
                group = getattr(trace, part)
                for name in group.data_vars:
                    drawn[str(name)] = np.asarray(group[name].values[0])
        return drawn

    def predict(self, values: Mapping[str, Array], rng: np.random.Generator) -> Array:
        """Outcomes of these rows from draws of a model of the same variables that was fitted to
        others, size × n.

        A variable that has more elements here (a lab never seen) is drawn anew given all others,
        and those that were fitted keep their draws.
        """
        check_arrays(self.data)
        model = build(self.declare, self.data)
        shapes = {rv.name: tuple(rv.type.shape) for rv in model.free_RVs}
        if strange := [name for name in shapes if name not in values]:
            raise UsageError(
                "the draws are of another model",
                where=name_model(self.declare),
                got=f"draws of {', '.join(values)}",
                allowed=f"draws of {', '.join(shapes)}",
                next_step=f"give the model that has no {', '.join(strange)}",
            )
        drawn_before = {}
        for name, v in values.items():
            if shapes.get(name, v.shape[1:]) == v.shape[1:]:
                drawn_before[name] = v
        grown = [name for name in shapes if name not in drawn_before]
        if grown:
            fresh = _draw_predictive(model, drawn_before, grown, rng)
            for name in grown:
                known = values[name]
                seen = [slice(size) for size in known.shape[1:]]
                fresh[name][(slice(None), *seen)] = known
                drawn_before[name] = fresh[name]
        drawn = _draw_predictive(model, drawn_before, [self.outcome], rng)
        return np.asarray(drawn[self.outcome], dtype=np.float64)

    def _check(self) -> None:
        check_arrays(self.data)
        model = self.structure.model
        check_variables(model, name_model(self.declare))
        check_outcome(model, self.outcome, self.observed, name_model(self.declare))

    def _compute_densities(
        self, name: str, variables: Callable[[Any], list[Any]], values: Mapping[str, Array]
    ) -> list[Array]:
        """Log densities of some variables, element by element, each size × …"""
        structure = self.structure
        model = structure.plain
        if name not in structure.compiled:
            wanted = variables(model)
            densities = model.logp(vars=wanted, sum=False)
            structure.compiled[name] = compile_many(model.value_vars, densities)
        draws = []
        for value in model.value_vars:
            draws.append(values[model.values_to_rvs[value].name])
        return run_in_parts(structure.compiled[name], draws, self.observed.size)


def pad_levels(levels: int) -> int:
    """A number of levels from a few (8, 32, 128, …) that leaves one over, so that few structures
    are compiled."""
    size = SMALLEST_PAD
    while size <= levels:
        size *= 4
    return size


def _try_sampling(sampled: Sampled, seed: int, settings: Settings) -> Draws:
    """Draws and how they were made."""
    begin = time.perf_counter()
    with _report_sampling(sampled, settings) as bar:
        has_nutpie = settings.sampler == "nutpie" and _is_installed("nutpie")
        draw = _run_nutpie if has_nutpie else _run_pymc
        trace = draw(sampled, seed, settings, bar)
    posterior = trace.posterior
    values = {}
    for name in posterior.data_vars:
        if not str(name).endswith("__"):
            drawn = posterior[name].values
            values[str(name)] = np.ascontiguousarray(drawn, dtype=np.float64)
    check_finite(values)
    values |= compute_row_quantities(sampled.structure.model, posterior)
    energy = np.asarray(trace.sample_stats["energy"].values)
    diverging = int(np.asarray(trace.sample_stats["diverging"].values).sum())
    judged = {}
    for name, drawn in values.items():
        if drawn[0, 0].size <= MOST_ELEMENTS:
            judged[name] = drawn
    table, effective = check_chains(judged, energy, diverging)
    return Draws(
        values=values,
        diagnostics=table,
        engine="nutpie" if has_nutpie else "pymc",
        settings=settings,
        effective=effective,
        seconds=time.perf_counter() - begin,
    )


def _run_nutpie(sampled: Sampled, seed: int, settings: Settings, bar: bool) -> Any:
    structure = sampled.structure
    with ignore_messages():
        nutpie = importlib.import_module("nutpie")
        if "nutpie" not in structure.compiled:
            stored = list_stored(structure.model)
            compiled = nutpie.compile_pymc_model(structure.model, var_names=stored)
            structure.compiled["nutpie"] = compiled
    compiled = structure.compiled["nutpie"]
    mutable = (
        {v.name for v in compiled.shared_var_keys}
        if hasattr(compiled, "shared_var_keys")
        else compiled.shared_data
    )
    arrays = {}
    for name, values in sampled.data.items():
        if name in mutable:
            arrays[name] = values
    try:
        with ignore_messages():
            return nutpie.sample(
                compiled.with_data(**arrays),
                seed=seed,
                save_warmup=False,
                progress_bar=bar,
                **_build_options(settings),
            )
    except (RuntimeError, ValueError) as error:
        raise _build_start_error(sampled, error) from error


def _run_pymc(sampled: Sampled, seed: int, settings: Settings, bar: bool) -> Any:
    pm = import_pymc()
    model = sampled.structure.model
    try:
        return pm.sample(
            random_seed=seed,
            nuts_sampler="pymc",
            progressbar=bar,
            compute_convergence_checks=False,
            model=model,
            var_names=list_stored(model),
            **_build_options(settings),
        )
    except pm.exceptions.SamplingError as error:
        raise _build_start_error(sampled, error) from error


def _build_start_error(sampled: Sampled, error: Exception) -> ThermostatsError:
    """The error where the log density is not finite at any start."""
    return ThermostatsError(
        "sampling cannot start: the log density is not finite",
        where=name_model(sampled.declare),
        got=take_first_line(error),
        next_step="look at the priors, and at outcomes outside the support of their distribution",
    )


def _build_options(settings: Settings) -> dict[str, Any]:
    """What both samplers take; cores: all there are, or as many as fits side by side have each."""
    wanted = os.environ.get(CORES_VARIABLE, "")
    cores = max(1, int(wanted)) if wanted.isdigit() else options.cores or count_cores()
    same = {name: getattr(settings, name) for name in ("draws", "tune", "chains", "target_accept")}
    return {**same, "cores": min(settings.chains, cores)}


def _draw_predictive(
    model: Any, values: Mapping[str, Array], names: list[str], rng: np.random.Generator
) -> dict[str, Array]:
    """Draws of some variables given draws of others, size × …"""
    fixed = [rv for rv in model.free_RVs if rv.name in values]
    outputs = [model[name] for name in names]
    draws = [values[rv.name] for rv in fixed]
    if len(fixed) == len(model.free_RVs) and all(_is_one_call(each) for each in outputs):
        return {name: _generate_variable(model[name], fixed, draws, rng) for name in names}
    with ignore_messages():
        draw = import_pymc().pytensorf.compile(
            fixed, outputs, random_seed=_draw_seed(rng), on_unused_input="ignore"
        )
    rows = [draw(*row) for row in zip(*draws, strict=True)]
    drawn: dict[str, Array] = {}
    for k, name in enumerate(names):
        values_of_rows = [row[k] for row in rows]
        drawn[name] = np.array(values_of_rows, dtype=np.float64)
    return drawn


def _is_one_call(variable: Any) -> bool:
    """Whether a variable is drawn by one call of a generator, element by element."""
    random = importlib.import_module("pytensor.tensor.random.op").RandomVariable
    if variable.owner is None or not isinstance(variable.owner.op, random):
        return False
    return not (variable.owner.op.ndim_supp or any(variable.owner.op.ndims_params))


def _generate_variable(
    variable: Any, fixed: Sequence[Any], draws: Sequence[Array], rng: np.random.Generator
) -> Array:
    """Such a variable given draws of all others: its parameters at every draw, then one call for
    many draws."""
    node = variable.owner
    shape = tuple(int(n) for n in variable.shape.eval(mode=choose_mode()))
    expressions = node.op.dist_params(node)
    parameters = compile_many(fixed, expressions)

    def of_some(*some: Array) -> list[Array]:
        size = len(some[0])
        aligned = []
        for values in parameters(*some):
            missing = len(shape) + 1 - values.ndim
            aligned.append(values.reshape(size, *(1,) * missing, *values.shape[1:]))
        drawn = node.op.rng_fn(rng, *aligned, (size, *shape))
        return [np.asarray(drawn, dtype=np.float64)]

    [drawn] = run_in_parts(of_some, draws, math.prod(shape))
    return drawn


@contextmanager
def _report_sampling(sampled: Sampled, settings: Settings) -> Iterator[bool]:
    """Whether to draw a bar; what takes long is announced on standard error, and how long it
    took."""
    alone = CORES_VARIABLE not in os.environ  # fits side by side have their caller's progress
    begin = time.perf_counter()
    new = "nutpie" not in sampled.structure.compiled
    name = name_model(sampled.declare)
    if alone and new:
        work = f"{settings.chains} chains of {settings.tune} + {settings.draws}"
        print(
            f"compiling the model “{name}” (10 to 60 s, once), then sampling {work}",
            file=sys.stderr,
        )
    yield alone and is_progress_seen()
    seconds = time.perf_counter() - begin
    if alone and (new or seconds > LONG):
        print(f"sampled “{name}” in {seconds:.0f} s", file=sys.stderr)


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
