"""Log gains of the last two blocks of trained models, by prompt and position."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from nursery import stacked
from nursery.designs import Pack
from nursery.prompts import Prompts, prompts_of
from nursery.recipes import Shape
from nursery.records import step_folder


@torch.no_grad()
def log_norms(weights: stacked.Weights, prompts: Prompts, shape: Shape) -> tuple[Tensor, Tensor]:
    """Logs of the stream's norms, (layers + 1, models, prompts): at the last token, and of the mean
    over tokens.

    The first token, which sees no other, is left out of the mean.
    """
    tokens = prompts.tokens
    ends = prompts.ends
    like = weights["norm"]
    wide = tokens[None].expand(len(like), -1, -1).to(like.device)
    norms = torch.stack(stacked.forward(weights, wide, shape, norms=True).norms).double()
    places = torch.arange(tokens.shape[1])
    counted = ((places > 0) & (places <= ends[:, None])).to(norms)
    means = (norms * counted).sum(dim=-1) / counted.sum(dim=-1)
    return norms[:, :, torch.arange(len(ends)), ends].log(), means.log()


def by_prompt(weights: stacked.Weights, prompts: Prompts, shape: Shape) -> pd.DataFrame:
    """Log gains of the last block and the one before, a row per model (`number`), set, prompt and
    position."""
    parts = []
    for position, norms in zip(("last", "mean"), log_norms(weights, prompts, shape), strict=True):
        penultimate, last = norms.diff(dim=0)[-2:].cpu().numpy()
        for name, rows in prompts.sets.items():
            places = itertools.product(range(norms.shape[1]), range(1, 1 + rows.stop - rows.start))
            part = pd.DataFrame(places, columns=["number", "prompt"]).assign(
                prompts=name, position=position
            )
            parts.append(
                part.assign(
                    last_gain=last[:, rows].ravel(), penultimate_gain=penultimate[:, rows].ravel()
                )
            )
    return pd.concat(parts, ignore_index=True)


def of_trained(packs: Sequence[Pack], folder: Path, kind: str, device: str) -> pd.DataFrame:
    """The same of models that are trained, on another kind of prompts than in training; `model`
    names each."""
    prompts = prompts_of(folder, kind)
    parts = []
    for pack in packs:
        names = [member.model for member in pack.members]
        ends = [stacked.restored(step_folder(folder, name, pack.steps)) for name in names]
        weights = {name: tensor.to(device) for name, tensor in stacked.stack(ends).items()}
        rows = by_prompt(weights, prompts, pack.shape)
        parts.append(
            rows.assign(model=rows["number"].map(dict(enumerate(names)))).drop(columns="number")
        )
    return pd.concat(parts, ignore_index=True)
