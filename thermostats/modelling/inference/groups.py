"""A part of a fit as the groups of variables that ArviZ knows, with named dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Array, element_names
from thermostats.modelling.inference.parts import Part, Update

OUTCOME = "outcome"
"""What the outcome is called in every group."""
UNIT = "model_id"
"""Dimension of models; ArviZ keeps the name `model` for models that it compares."""
ROW = "row"
"""Dimension of outcomes that are of no single thing, such as of a model and a prompt."""
OF_DESIGN = {"u": ("lab", "labs"), "v": ("family", "families"), "share": ("block", "blocks")} | dict.fromkeys(
    ("m", "m_raw", "log_sigma"), (UNIT, "models")
)
"""Quantities of a fit with a `design`: their dimension, and the field of the design that names its elements."""


def to_arviz(fit: Any, part: Part, seed: int) -> Any:
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
    [unit] = dims[OUTCOME]
    further = {name: names for name, names in part.of.items() if name != unit}
    return sampling.to_arviz({name: group for name, group in variables.items() if group}, dims, coords, further)


def _axes(fit: Any, part: Part, posterior: Mapping[str, Array]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Dimensions of variables and names along dimensions; of elements named as the outcomes are it is the outcomes'."""
    unit, names = _units(part)
    dims, coords = {OUTCOME: [unit]}, {unit: names}
    design = getattr(fit, "design", None)
    named = {name: (axis, getattr(design, field, ())) for name, (axis, field) in OF_DESIGN.items()}
    for name, labels in fit.labels.items():
        same = [axis for axis, of in part.of.items() if set(of) == set(labels)]
        named[name] = (same[0] if same else f"{name}_of", labels)
    for name, (axis, elements) in named.items():
        own = [str(element) for element in elements]
        if name in posterior and posterior[name].shape[2:] == (len(own),) and coords.get(axis, own) == own:
            dims[name], coords[axis] = [axis], own
    return dims, coords


def _units(part: Part) -> tuple[str, list[str]]:
    """Dimension of the outcome and its names: the first whose names tell the rows apart, else rows by all or number."""
    for axis, names in part.of.items():
        if len(set(names)) == len(names):
            return axis, list(names)
    rows = [", ".join(names) for names in zip(*part.of.values(), strict=True)]
    return ROW, rows if len(set(rows)) == len(rows) > 0 else [str(number) for number in range(part.observed.size)]


def _prior(updates: Mapping[str, Update], posterior: Mapping[str, Array]) -> dict[str, Array]:
    """Draws from the prior, 1 × draw × …, of the quantities of the posterior whose every element has them."""
    found = {}
    for name, drawn in posterior.items():
        elements = element_names(name, drawn.shape[2:])
        if all(element in updates for element in elements):
            columns = np.stack([updates[element].prior for element in elements], axis=-1)
            found[name] = columns.reshape(1, -1, *drawn.shape[2:])
    return found
