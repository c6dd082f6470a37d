"""Changed weights in a loaded model: the weights of `gauge` taken from one, and put into a copy of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import nn

from thermostats.measurement.forward import Decoder, decoder
from thermostats.measurement.gauge import ModelWeights

EPSILON = ("eps", "variance_epsilon")
"""What classes call the ε of a norm."""


def weights_of(places: Decoder) -> ModelWeights:
    """The weights of a loaded model, bfloat16 and float16 exactly; tied ones stand there under both names."""
    tensors = {
        name: tensor.detach().cpu().double().numpy().copy()
        for name, tensor in places.model.state_dict().items()
        if tensor.is_floating_point()
    }
    return ModelWeights(places.entry, places.config, tensors)


def with_weights(places: Decoder, weights: ModelWeights) -> Decoder:
    """A copy of a loaded model with other weights at its own precision, in memory alone; what was tied is no more.

    ε of norms is multiplied as the weights say.
    """
    model = deepcopy(places.model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, array in weights.tensors.items():
        before, _, label = name.rpartition(".")
        module: Any = model.get_submodule(before)
        if name in parameters:
            values = torch.from_numpy(np.array(array)).to(parameters[name])
            module._parameters[label] = nn.Parameter(values, requires_grad=False)
    for norm, factor in weights.epsilon.items():
        module = model.get_submodule(norm)
        label = next(name for name in EPSILON if hasattr(module, name))
        setattr(module, label, getattr(module, label) * factor)
    return decoder(model, places.entry, places.config)
