"""declare(data): a function that declares variables, and the PyMC model that it becomes, built once for each structure.

Arrays in `data` are `pm.Data`, so that others can take their place; all else is constant. Sizes of parameters are
constants; a `Deterministic` may have a value a row and is computed from the draws.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from thermostats.errors import ThermostatsError, UsageError, unknown
from thermostats.modelling.draws import Array

Declare = Callable[[Mapping[str, Any]], None]
RESERVED = {"chain", "draw"}
"""Names of the dimensions of draws."""
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
    size = model[outcome].shape.eval()
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
    draws = posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior
    with quiet():
        table = pymc().compute_deterministics(draws, var_names=names, model=model, progressbar=False)
    return {name: np.asarray(table[name].values, dtype=np.float64) for name in names}


def pymc() -> Any:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    with quiet():
        return importlib.import_module("pymc")


@contextmanager
def quiet() -> Iterator[None]:
    """Without the remark that no BLAS was found, which slows down nothing that is done here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS", category=UserWarning)
        yield
