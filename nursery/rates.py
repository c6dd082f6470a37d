"""Optimisers over a stack of models: each step is the textbook's with a rate, a decay and a clip
for every model.

Weight decay is decoupled and acts on matrices and embeddings. Members of one optimiser stand side
by side in the stack.

- adamw: Loshchilov and Hutter 2019, betas 0.9 and 0.95.
- lion: the sign of an average (Chen et al. 2023, arXiv 2302.06675), betas 0.9 and 0.99.
- sgd: momentum 0.9.
- muon: orthogonalised Nesterov momentum 0.95 for the blocks' matrices (Jordan et al. 2024; rates
  matched to AdamW's in root mean square, Liu et al. 2025, arXiv 2502.16982), AdamW for everything
  else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from nursery.recipes import Recipe

BETA1 = 0.9
BETA2 = 0.95
EPS = 1e-8
LION1 = 0.9
LION2 = 0.99
MOMENTUM = 0.9
NESTEROV = 0.95
VECTORS, OUTER = ("norm", "norm1", "norm2"), ("embed", "head")
"""Weights that do not decay, and matrices that are no block's."""
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
Stack = dict[str, Tensor]


class Optimiser:
    """Momenta of a stack of models, and its steps; `moments` is all that a resumed training
    needs."""

    def __init__(self, weights: Stack, recipes: Sequence[Recipe]) -> None:
        self.recipes = list(recipes)
        self.moments = {
            f"{kind} {n}": torch.zeros_like(w)
            for n, w in weights.items()
            for kind in ("first", "second")
        }
        runs = groupby(range(len(recipes)), key=lambda i: recipes[i].optimiser)
        self.parts = [(name, slice((places := list(run))[0], places[-1] + 1)) for name, run in runs]
        like = weights["norm"]
        self._clip = torch.tensor(
            [r.clip or math.inf for r in recipes], dtype=like.dtype, device=like.device
        )
        self._decay = torch.tensor([r.decay for r in recipes], dtype=like.dtype, device=like.device)

    @torch.no_grad()
    def step(self, weights: Stack, gradients: Stack, number: int) -> None:
        """Step `number`, from 0, of every model; weights are changed in place."""
        squares = torch.stack([g.square().flatten(1).sum(dim=1) for g in gradients.values()])
        scale = (self._clip / (squares.sum(dim=0).sqrt() + 1e-6)).clamp(max=1.0)
        rate = self._decay.new_tensor([r.rate * r.factor(number) for r in self.recipes])
        for name, weight in weights.items():
            gradient = gradients[name] * _wide(scale, weight)
            for kind, part in self.parts:
                moved = self._direction(kind, name, gradient[part], part, number)
                step = _wide(rate[part], weight)
                if name not in VECTORS:
                    weight[part] *= 1 - step * _wide(self._decay[part], weight)
                weight[part] -= step * moved

    def _direction(self, kind: str, name: str, g: Tensor, part: slice, number: int) -> Tensor:
        first, second = (self.moments[f"{which} {name}"][part] for which in ("first", "second"))
        inner = name not in VECTORS and name not in OUTER
        if kind == "sgd":
            moved: Tensor = first.mul_(MOMENTUM).add_(g)
            return moved
        if kind == "lion":
            moved = (LION1 * first + (1 - LION1) * g).sign()
            first.lerp_(g, 1 - LION2)
            return moved
        if kind == "muon" and inner:
            first.lerp_(g, 1 - NESTEROV)
            return orthogonal(g.lerp(first, NESTEROV)) * (0.2 * math.sqrt(max(g.shape[-2:])))
        first.lerp_(g, 1 - BETA1)
        second.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
        root = (second / (1 - BETA2 ** (number + 1))).sqrt_().add_(EPS)
        return first / (1 - BETA1 ** (number + 1)) / root


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """Near UVᵀ of every matrix UΣVᵀ, by Newton and Schulz's iteration of degree five; (…, a, b)."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.flatten(-2).norm(dim=-1)[..., None, None].clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    oriented: Tensor = x.mT if tall else x
    return oriented


def _wide(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *(1 for _ in range(like.ndim - 1)))
