"""Stiffness from the Fisher information against a dense solution."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.measurement.fisher import compute_stiffness
from thermostats.measurement.sampled_texts import pad_texts
from thermostats.measurement.stream_logs import read_stream

TEXTS = [[1, 5, 9, 11, 3], [1, 7, 2, 30, 8], [1, 40, 21, 17, 4]]


def test_conjugate_gradients_come_to_the_dense_solution() -> None:
    """F from the Jacobian of logits: Σ Jᵀ (diag p − p pᵀ) J / tokens, with the same damping."""
    base = tiny.opened("llama", hidden_size=8, intermediate_size=8, num_hidden_layers=2)
    texts, damping = pad_texts(TEXTS), 1e-3
    places = base.model.double()
    weights = list(places.parameters())
    logs = read_stream(base, texts)
    p = logs.logits.softmax(dim=-1).detach()
    size = sum(weight.numel() for weight in weights)
    fisher = torch.zeros(size, size, dtype=torch.float64)
    tokens = 0
    for text in range(len(TEXTS)):
        for token in range(1, 5):
            rows = [
                torch.cat(
                    [g.reshape(-1) for g in torch.autograd.grad(logit, weights, retain_graph=True)]
                )
                for logit in logs.logits[text, token]
            ]
            jacobian = torch.stack(rows)
            q = p[text, token]
            fisher += jacobian.T @ (torch.diag(q) - torch.outer(q, q)) @ jacobian
            tokens += 1
    mean = logs.blocks[-2, :, 1:].mean()
    parts = torch.autograd.grad(mean, weights, allow_unused=True, materialize_grads=True)
    slope = torch.cat([part.reshape(-1) for part in parts])
    solved = torch.linalg.solve(
        fisher / tokens + damping * torch.eye(size, dtype=torch.float64), slope
    )
    expected = 0.5 / float(slope @ solved)
    stiffness = compute_stiffness(base, texts, "penultimate_gain", iterations=400, damping=damping)
    assert stiffness[-1] == pytest.approx(expected, rel=1e-4)
    bounds = stiffness[:60]
    assert all(after <= before * (1 + 1e-6) for before, after in pairwise(bounds))
