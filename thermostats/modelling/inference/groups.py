"""A part of a fit as the groups of variables that ArviZ knows, with named dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from thermostats.modelling.inference.draws import Array, element_names
from thermostats.modelling.inference.parts import Part, Update

OUTCOME = "outcome"
"""What the outcome is called in every group."""
UNIT = "model_id"
"""Dimension of models; ArviZ keeps the name `model` for models that it compares."""
OF_DESIGN = {"m": (UNIT, "models"), "u": ("lab", "labs"), "v": ("family", "families"), "share": ("block", "blocks")}
"""Quantities of a fit with a `design`: their dimension, and the field of the design that names its elements."""
NAMED_BY = {"rows": UNIT, "models": UNIT, "groups": "group"}
"""Tables of a fit that may have a row an outcome, and the column that names them."""


class Groups(NamedTuple):
    """Variables by group and name, the names of their dimensions behind the draws, and those of the elements."""

    variables: dict[str, dict[str, Array]]
    dims: dict[str, list[str]]
    coords: dict[str, list[str]]


def groups_of(fit: Any, part: Part, seed: int) -> Groups:
    """Groups posterior, prior, prior_predictive, posterior_predictive, log_likelihood and observed_data of a part.

    Posterior: chain × draw × …, with the quantities that are reported where they have as many draws. Others: 1 × draw ×
    …, predictive ones of the draws that the checks replicate.
    """
    values = part.draws.values
    shape = next(iter(values.values())).shape[:2]
    posterior = {name: drawn for name, drawn in fit.quantities.items() if drawn.shape[:2] == shape} | dict(values)
    dims, coords = _axes(fit, part, posterior)
    variables = {
        "posterior": posterior,
        "prior": _prior(part.updates(seed), posterior),
        "prior_predictive": {OUTCOME: part.prior(seed)[None]},
        "posterior_predictive": {OUTCOME: part.replicate(seed)[None]},
        "log_likelihood": {OUTCOME: part.density()[None]},
        "observed_data": {OUTCOME: part.observed},
    }
    return Groups({name: group for name, group in variables.items() if group}, dims, coords)


def _axes(fit: Any, part: Part, posterior: Mapping[str, Array]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    unit, names = _units(fit, part)
    dims, coords = {OUTCOME: [unit]}, {unit: names}
    design = getattr(fit, "design", None)
    for name, (axis, field) in OF_DESIGN.items():
        elements = [str(element) for element in getattr(design, field, ())]
        if (
            name in posterior
            and posterior[name].shape[2:] == (len(elements),)
            and coords.get(axis, elements) == elements
        ):
            dims[name], coords[axis] = [axis], elements
    for name, labels in fit.labels.items():
        if name in posterior and posterior[name].shape[2:] == (len(labels),):
            dims[name], coords[f"{name}_of"] = [f"{name}_of"], list(labels)
    return dims, coords


def _units(fit: Any, part: Part) -> tuple[str, list[str]]:
    """Dimension of the outcome and its names: those of a table with the same outcomes in its rows, else numbers."""
    design = getattr(fit, "design", None)
    if design is not None and len(design.models) == part.observed.size:
        return UNIT, list(design.models)
    for name, column in NAMED_BY.items():
        table = fit.tables.get(name)
        if table is None or column not in table or len(table) != part.observed.size or not table[column].is_unique:
            continue
        numbers = table.select_dtypes("number").to_numpy("float64", na_value=np.nan)
        if np.isclose(numbers, part.observed[:, None]).all(axis=0).any():
            return column, list(table[column].astype(str))
    return "row", [str(number) for number in range(part.observed.size)]


def _prior(updates: Mapping[str, Update], posterior: Mapping[str, Array]) -> dict[str, Array]:
    """Draws from the prior, 1 × draw × …, of the quantities of the posterior whose every element has them."""
    found = {}
    for name, drawn in posterior.items():
        elements = element_names(name, drawn.shape[2:])
        if all(element in updates for element in elements):
            columns = np.stack([updates[element].prior for element in elements], axis=-1)
            found[name] = columns.reshape(1, -1, *drawn.shape[2:])
    return found
