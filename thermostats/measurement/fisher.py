"""Stiffness of a gain from the Fisher information: what moving it must cost near rest, without
training.

    kl(θ + δ) ≈ ½ δᵀ F δ,   least where ∇gᵀ δ = x:   ½ x² / (∇gᵀ F⁻¹ ∇g),   so  k = ½ / (∇gᵀ F⁻¹ ∇g)

g is the mean log gain over texts and tokens but the first, F the Hessian at rest of mean KL(p‖q) on
the same texts, which is the Fisher information of the model's distribution there. F⁻¹∇g by
conjugate gradients (Hestenes and Stiefel 1952), whose ∇gᵀx grows with every iteration: each is an
upper bound on k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from thermostats.measurement.forward import Decoder
from thermostats.measurement.sampled_texts import Texts
from thermostats.measurement.steering import copy_model
from thermostats.measurement.stream_logs import average_texts, read_stream, take_log_gain


def compute_stiffness(
    base: Decoder, texts: Texts, gain: str, *, iterations: int = 300, damping: float = 0.0
) -> list[float]:
    """k after each iteration, nats a token per squared log distance; the last is the least upper
    bound.

    damping: added to F's diagonal. The model is copied, in float64.
    """
    places = copy_model(base)
    places.model.double()
    weights = [weight for weight in places.model.parameters() if weight.requires_grad]
    with torch.no_grad():
        log_p = read_stream(places, texts).logits.log_softmax(dim=-1)
    with sdpa_kernel(SDPBackend.MATH):
        slope = _differentiate_gain(places, texts, gain, weights)
        gradient = _differentiate_kl(places, texts, log_p.exp(), weights)

        def product(vector: Tensor) -> Tensor:
            along = (gradient @ vector.detach()).sum()
            turned = torch.autograd.grad(along, weights, retain_graph=True)
            return _flatten(turned) + damping * vector

        solved = _solve(product, slope, iterations)
    return [0.5 / float(reach) for reach in solved]


def _flatten(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def _differentiate_gain(
    places: Decoder, texts: Texts, gain: str, weights: Sequence[torch.nn.Parameter]
) -> Tensor:
    """∇g (weights)."""
    later = texts.later.double()
    logs = read_stream(places, texts)
    mean = average_texts(take_log_gain(gain, logs, later), later).mean()
    slopes = torch.autograd.grad(mean, weights, allow_unused=True, materialize_grads=True)
    return _flatten(slopes)


def _differentiate_kl(
    places: Decoder, texts: Texts, p: Tensor, weights: Sequence[torch.nn.Parameter]
) -> Tensor:
    """∇ KL(p‖q) at rest, where it is 0, with its graph (weights)."""
    later = texts.later.double()
    log_q = read_stream(places, texts).logits.log_softmax(dim=-1)
    kl = -((p * log_q).sum(dim=-1) * later).sum() / later.sum()
    return _flatten(torch.autograd.grad(kl, weights, create_graph=True))


def _solve(product: Callable[[Tensor], Tensor], slope: Tensor, iterations: int) -> list[Tensor]:
    """∇gᵀx after each iteration of conjugate gradients for F x = ∇g from 0."""
    x = torch.zeros_like(slope)
    residual = slope.clone()
    direction = residual.clone()
    size = residual @ residual
    reached = []
    for _ in range(iterations):
        turned = product(direction)
        step = size / (direction @ turned)
        x = x + step * direction
        residual = residual - step * turned
        before = size
        size = residual @ residual
        direction = residual + (size / before) * direction
        reached.append(slope @ x)
        if size <= 1e-20 * (slope @ slope):
            break
    return reached
