"""Stiffness of a gain held against the Fisher information: `python benchmarks/stiffness.py FOLDER
MODEL`, MODEL as rows of `interventions` have it.

To second order KL(p‖q) = ½ δ'Fδ for a change δ of the weights, and the least that moves log g by d
is ½ d² / (∇g'F⁻¹∇g), ∇g of log g. So the price per squared log distance is k = ½ / (∇g'F⁻¹∇g). F is
the Fisher information on the texts that the steering trained on, the model's own samples, exact
over the vocabulary: Fv is the gradient of KL at θ + εv over ε, in float64. F⁻¹∇g is taken by
conjugate gradients, which use more directions of the weights with every step, as training does; so
k falls with steps, and is given by step. `held_out` is ½ δ'F_h δ / (∇g_h'δ)² of the same δ on the
held-out texts of the steering, on which its price was measured. Beside it stands the stiffness from
the rows: that of 200 steps of Adam at six targets. Results are added to
`benchmarks/results/stiffness.csv`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from scripts.steer_nursery import CURVE, SEEDS, SETTINGS
from thermostats.claims.evidence import INTERVENED, Evidence
from thermostats.measurement.forward import Decoder
from thermostats.measurement.opened_models import ModelRequest, open_model
from thermostats.measurement.sampled_texts import Texts
from thermostats.measurement.steering import compute_kl
from thermostats.measurement.stream_logs import average_texts, read_stream, take_log_gain
from thermostats.modelling.price_curves import estimate_stiffness

ROWS = 64
"""Texts that are passed through the model at once."""
SHOWN = (1, 2, 5, 10, 20, 50, 100, 200)
"""Steps of conjugate gradients after which k is given."""
STEP = 1e-5
"""Length of εv, in the length of all weights."""
FILE = Path(__file__).parent / "results" / "stiffness.csv"


@dataclass(frozen=True)
class Sample:
    """A model on some texts: what F and ∇g are of."""

    decoder: Decoder
    parts: tuple[Texts, ...]
    """The texts, `ROWS` at a time."""
    log_p: tuple[Tensor, ...]

    @classmethod
    def read(cls, decoder: Decoder, texts: Texts) -> Sample:
        """The texts with the model's distribution as it is."""
        parts = tuple(texts.parts(ROWS))
        with torch.no_grad():
            log_p = (read_stream(decoder, part).logits.log_softmax(dim=-1) for part in parts)
            return cls(decoder, parts, tuple(log_p))

    @property
    def weights(self) -> list[Tensor]:
        """All weights, tied ones once."""
        return list(self.decoder.model.parameters())

    def slope(self) -> Tensor:
        """∇ of the mean over texts of log g."""
        total = torch.zeros(())
        for part in self.parts:
            logs = read_stream(self.decoder, part)
            later = part.later.double()
            each = average_texts(take_log_gain(CURVE, logs, later), later).sum()
            total = total + self._differentiate(each)
        return total / sum(len(part) for part in self.parts)

    def times_fisher(self, v: Tensor) -> Tensor:
        """Fv: ∇KL where the weights are moved by εv, over ε."""
        size = torch.cat([weight.detach().flatten() for weight in self.weights]).norm()
        step = float(STEP * size / v.norm())
        moved = torch.zeros(())
        self._move(step * v)
        try:
            for part, log_p in zip(self.parts, self.log_p, strict=True):
                log_q = read_stream(self.decoder, part).logits.log_softmax(dim=-1)
                later = part.later.double()
                moved = moved + self._differentiate((compute_kl(log_p, log_q) * later).sum())
        finally:
            self._move(-step * v)
        return moved / (step * sum(float(part.later.sum()) for part in self.parts))

    def _differentiate(self, number: Tensor) -> Tensor:
        weights = self.weights
        parts = torch.autograd.grad(number, weights, allow_unused=True, materialize_grads=True)
        return torch.cat([part.flatten() for part in parts])

    @torch.no_grad()
    def _move(self, by: Tensor) -> None:
        begin = 0
        for weight in self.weights:
            weight.add_(by[begin : begin + weight.numel()].view_as(weight))
            begin += weight.numel()


def price_by_fisher(trained: Sample, held_out: Sample, steps: int) -> pd.DataFrame:
    """k on the texts of F and on held-out ones by steps of conjugate gradients (Hestenes and
    Stiefel 1952, doi:10.6028/jres.049.044)."""
    slope, slope_held = trained.slope(), held_out.slope()
    x = torch.zeros_like(slope)
    left = slope.clone()
    towards = left.clone()
    made = []
    for step in range(1, steps + 1):
        moved = trained.times_fisher(towards)
        length = (left @ left) / (towards @ moved)
        x = x + length * towards
        new = left - length * moved
        towards = new + (new @ new) / (left @ left) * towards
        left = new
        if step in SHOWN:
            held = 0.5 * (x @ held_out.times_fisher(x)) / (slope_held @ x) ** 2
            made.append((step, float(0.5 / (slope @ x)), float(held)))
            print(*made[-1], flush=True)
    return pd.DataFrame(made, columns=["steps", "fisher", "held_out"])


def main() -> None:
    """Add the rows of a model."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--texts", type=int, default=SETTINGS.texts, help="of F, of those trained on"
    )
    parser.add_argument("--data", type=Path, help="a data folder with the model's price curve")
    asked = parser.parse_args()
    rows = Evidence(asked.data).named(INTERVENED).table("interventions", model_id=[asked.model])
    known = estimate_stiffness(rows, CURVE)
    if known.empty:
        raise SystemExit(f"{asked.model}: no price curve of it; scripts/steer_nursery.py makes one")
    torch.set_num_threads(1)
    request = ModelRequest(asked.folder, None, None, None, "float32", "cpu", asked.model)
    with open_model(request, reads_texts=False) as opened:
        texts = opened.split_samples(SETTINGS, SEEDS[0])
        decoder = opened.base
        decoder.model.double()
        trained = Sample.read(decoder, texts[0].part(slice(0, asked.texts)))
        found = price_by_fisher(trained, Sample.read(decoder, texts[1]), asked.steps)
    steered = known[["stiffness", "lower", "upper", "floor"]].iloc[[0] * len(found)]
    found = pd.concat([found, steered.reset_index(drop=True)], axis=1)
    found.insert(0, "texts", asked.texts)
    found.insert(0, "model", asked.model)
    held = pd.read_csv(FILE) if FILE.is_file() else found.iloc[:0]
    others = (held["model"] != asked.model) | (held["texts"] != asked.texts)
    every = pd.concat([held[others], found], ignore_index=True)
    every.to_csv(FILE, index=False, float_format="%.5g", lineterminator="\n")


if __name__ == "__main__":
    main()
