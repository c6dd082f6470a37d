"""Optimisers of the recipes, all from torch, and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Muon, Optimizer

from thermostats.studies.nursery.factors import DECAY, PEAK, WARMUP

ADAM_RATE = 4e-3
"""Base learning rate of Adam, AdamW and (matched in root mean square) Muon.

Both base rates come from a pilot of 240 steps on one model outside the design (GPT-2, L = 4, d = 32): the held-out loss
fell up to 0.02, the largest rate tried, for AdamW and Muon, and SGD came apart at 3; the design's two peaks, once and
three times the base, stay below.
"""
SGD_RATE = 0.5
MOMENTUM = 0.9
BETAS = (0.9, 0.95)


def optimisers(model: nn.Module, recipe: Mapping[str, Any]) -> list[Optimizer]:
    """The optimisers that train a model together; weight decay acts on matrices and embeddings only.

    - adamw: decoupled decay (Loshchilov and Hutter 2019). - adam: none.
    - sgd: momentum 0.9, decay in the gradient, so scaled that it shrinks matrices per step as AdamW's would.
    - muon: orthogonalised momentum for the blocks' matrices (Jordan et al. 2024), AdamW for everything else.
    """
    peak, decay, name = PEAK[recipe["peak"]], DECAY[recipe["decay"]], recipe["optimiser"]
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    matrices = [p for _, p in trained if p.ndim >= 2]
    vectors = [p for _, p in trained if p.ndim < 2]
    adam: dict[str, Any] = {"lr": ADAM_RATE * peak, "betas": BETAS}
    if name == "sgd":
        shrink = decay * ADAM_RATE / SGD_RATE * (1 - MOMENTUM)
        groups = _groups(matrices, vectors, shrink)
        return [SGD(groups, lr=SGD_RATE * peak, momentum=MOMENTUM)]
    if name == "muon":
        outside = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
        head = model.get_output_embeddings()  # type: ignore[operator]
        outside |= {id(p) for p in head.parameters()}
        inner = [p for p in matrices if id(p) not in outside]
        rest = _groups([p for p in matrices if id(p) in outside], vectors, decay)
        muon = Muon(inner, lr=ADAM_RATE * peak, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
        return [muon, AdamW(rest, **adam)]
    kind = {"adamw": AdamW, "adam": Adam}[name]
    return [kind(_groups(matrices, vectors, decay), **adam)]


def schedule(kind: str, steps: int) -> Callable[[int], float]:
    """Learning rate over its peak at step 0, 1, …: linear warm-up, then `constant` or `cosine` down to a tenth."""
    warm = max(1, round(WARMUP * steps))

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        if kind == "constant":
            return 1.0
        share = (step - warm) / max(1, steps - warm)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * share))

    return factor


def _groups(matrices: Sequence[torch.Tensor], vectors: Sequence[torch.Tensor], decay: float) -> list[dict[str, Any]]:
    groups = ({"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0})
    return [group for group in groups if group["params"]]
