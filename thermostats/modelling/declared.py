"""declare(data): a function that declares variables, and the PyMC model that it becomes, built once for each structure.

Arrays in `data` are `pm.Data`, so that others can take their place; all else is constant. Sizes of parameters are
constants; a `Deterministic` may have a value a row and is computed from the draws.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from thermostats.errors import ThermostatsError, UsageError, unknown
from thermostats.modelling.draws import ARVIZ_NOTICE, Array

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
    """nutpie's model, and functions of the free variables, by name; each is compiled when first asked for."""


def structure_of(declare: Declare, data: Mapping[str, Any]) -> Structure:
    """The built model with this data in it."""
    arrays = {k: v for k, v in data.items() if isinstance(v, np.ndarray)}
    constants = tuple((k, v) for k, v in sorted(data.items()) if k not in arrays)
    kinds = tuple((k, v.dtype.str, v.ndim) for k, v in sorted(arrays.items()))
    key = (declare, constants, kinds)
    if key not in _STRUCTURES:
        model = build(declare, data)
        untransformed = importlib.import_module("pymc.model.transform.conditioning").remove_value_transforms
        _STRUCTURES[key] = Structure(model=model, plain=untransformed(model), compiled={})
    for model in (_STRUCTURES[key].model, _STRUCTURES[key].plain):
        pymc().set_data({name: values for name, values in arrays.items() if name in model.named_vars}, model=model)
    return _STRUCTURES[key]


def build(declare: Declare, data: Mapping[str, Any]) -> Any:
    """The PyMC model; raises ThermostatsError where the size of a parameter follows from an array."""
    pm = pymc()
    with pm.Model() as model, quiet():
        arrays = {k: pm.Data(k, v) for k, v in data.items() if isinstance(v, np.ndarray)}
        declare(_Data({**data, **arrays}))
    if unsized := [rv.name for rv in model.free_RVs if None in rv.type.shape]:
        raise ThermostatsError(
            "sizes of parameters must be constants of the model",
            where=name_of(declare),
            got=", ".join(unsized),
            next_step="give their sizes as whole numbers in the data",
        )
    return model


class _Data(dict[str, Any]):
    """What a model reads."""

    def __missing__(self, name: str) -> Any:
        raise unknown("a model reads what its data do not have", name, self, where="data")


def name_of(declare: Declare) -> str:
    return str(getattr(declare, "__name__", "model"))


def check_arrays(data: Mapping[str, Any]) -> None:
    """Raise UsageError for arrays that are not finite."""
    arrays = {name: values for name, values in data.items() if isinstance(values, np.ndarray)}
    if bad := [name for name, values in arrays.items() if not np.isfinite(values).all()]:
        raise UsageError("missing or infinite values in a model's data", got=", ".join(bad), allowed="finite numbers")


def check_variables(model: Any, where: str) -> None:
    """Raise UsageError for variables that NUTS cannot draw, and for names that draws have."""
    if counts := [rv.name for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool"))]:
        raise UsageError(
            "variables that take whole numbers alone cannot be drawn",
            where=where,
            got=", ".join(counts),
            allowed="continuous variables",
            next_step="sum over their values: pm.Mixture, or a likelihood written with pm.math.logsumexp",
        )
    if taken := RESERVED & set(model.named_vars):
        raise UsageError(
            "a variable has a name that is taken", where=where, got=", ".join(sorted(taken)), next_step="rename it"
        )


def check_outcome(model: Any, outcome: str, observed: Array, where: str) -> None:
    """Raise UsageError for a model that declares no such outcome or one of another length."""
    there = [rv.name for rv in model.observed_RVs]
    if outcome not in there:
        raise UsageError(
            "the model declares no such outcome",
            where=where,
            got=f"outcome={outcome!r}",
            allowed=", ".join(there) or "a variable with observed=…",
            next_step=f"outcome={there[0]!r}" if there else "give one variable its data by observed=…",
        )
    size = model[outcome].shape.eval(mode=interpreted())
    if tuple(size) != observed.shape:
        raise UsageError(
            "the outcome has another length than the rows",
            where=outcome,
            got=f"{tuple(int(n) for n in size)}",
            allowed=f"{observed.shape}",
        )


def stored(model: Any) -> list[str]:
    """Variables of a trace: those of which the data do not set the size, which is compiled."""
    return [variable.name for variable in [*model.free_RVs, *model.deterministics] if None not in variable.type.shape]


def by_row(model: Any, posterior: Any) -> dict[str, Array]:
    """The deterministics of which the data set the size, chain × draw × …"""
    names = [variable.name for variable in model.deterministics if None in variable.type.shape]
    if not names:
        return {}
    draws = [np.asarray(posterior[rv.name].values, dtype=np.float64) for rv in model.free_RVs]
    chains = draws[0].shape[:2]
    flat = [values.reshape(-1, *values.shape[2:]) for values in draws]
    made = of_many(model.free_RVs, [model[name] for name in names])(*flat)
    by_chain = [np.asarray(values, dtype=np.float64).reshape(*chains, *values.shape[1:]) for values in made]
    return dict(zip(names, by_chain, strict=True))


def of_many(inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., list[Array]]:
    """Expressions of some variables as a function of many values of each, size × …, which is interpreted."""
    graph, pt = importlib.import_module("pytensor.graph.replace"), importlib.import_module("pytensor.tensor")
    many = [pt.tensor(each.name, dtype=each.type.dtype, shape=(None, *each.type.shape)) for each in inputs]
    of_each = graph.vectorize_graph(list(outputs), dict(zip(inputs, many, strict=True)))
    with quiet():
        compute = pymc().pytensorf.compile(many, of_each, mode=interpreted(), on_unused_input="ignore")
    return lambda *values: _of_every(compute(*values), outputs, len(values[0]))


def _of_every(made: Sequence[Array], outputs: Sequence[Any], size: int) -> list[Array]:
    """Values by draw; one that depends on none is that of all."""
    return [
        values if values.ndim > output.ndim else np.broadcast_to(values, (size, *values.shape))
        for values, output in zip(made, outputs, strict=True)
    ]


def in_parts(compute: Callable[..., list[Array]], draws: Sequence[Array], numbers: int) -> list[Array]:
    """A function of many draws, a part of them at a time, where every draw takes so many numbers."""
    parts = max(1, len(draws[0]) * numbers // NUMBERS)
    made = [compute(*some) for some in zip(*(np.array_split(values, parts) for values in draws), strict=True)]
    return [np.concatenate(each) for each in zip(*made, strict=True)]


def interpreted() -> Any:
    """The mode of a function that is called a few times: made at once, without compiled code."""
    mode = importlib.import_module("pytensor.compile.mode").Mode(linker="py", optimizer="fast_compile")
    return mode.including("canonicalize", "stabilize")


def pymc() -> Any:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    with quiet():
        return importlib.import_module("pymc")


@contextmanager
def quiet() -> Iterator[None]:
    """Without what others say that no user can act on: no BLAS, which slows nothing down here; an array's layout."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=ARVIZ_NOTICE, category=FutureWarning)
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS", category=UserWarning)
        warnings.filterwarnings("ignore", message=r"(?s).*np\.dot\(\) is faster on contiguous arrays")
        yield
