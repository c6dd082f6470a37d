"""Recipes and shapes of a designed study, and the distributions that recipes are drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from thermostats.errors import UsageError

CORPORA = ("english", "synthetic", "code", "shuffled")
OPTIMISERS = ("adamw", "lion", "muon", "sgd")
SCHEDULES = ("cosine", "constant", "linear")
TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
}
"""Of a field declared so: what its value may be, and that in words."""


@dataclass(frozen=True)
class Shape:
    """Depth, width of the stream, heads and their width; the feed-forward part is 8/3 of the
    stream's width, gated."""

    n_layers: int
    d_model: int
    n_heads: int
    d_head: int

    @property
    def inner(self) -> int:
        """Width of all heads together."""
        return self.n_heads * self.d_head

    @property
    def d_ff(self) -> int:
        """Width of the feed-forward part, a multiple of eight."""
        return 8 * round(self.d_model / 3)

    @property
    def rho(self) -> float:
        """Head density H / d_h."""
        return self.n_heads / self.d_head

    @property
    def name(self) -> str:
        """Such as L08d80h12."""
        return f"L{self.n_layers:02d}d{self.d_model}h{self.n_heads}"

    def weights(self, vocab_size: int) -> int:
        """Weights of the matrices, embedding and head among them."""
        block = 4 * self.d_model * self.inner + 3 * self.d_model * self.d_ff
        return self.n_layers * block + 2 * vocab_size * self.d_model


def shape_of(n_layers: int, rho: float, d_model: int) -> Shape:
    """The shape with H = ρ d_h exactly, an even d_h (positions turn pairs), and heads as wide
    together as the stream or up to a fifth more or less.

    Raises UsageError where there is none.
    """
    shapes = [
        Shape(n_layers, d_model, round(rho * d_head), d_head)
        for d_head in range(2, 2 * d_model + 1, 2)
        if 1 <= rho * d_head < math.inf and round(rho * d_head) == rho * d_head
    ]
    best = min(shapes, key=lambda shape: abs(math.log(shape.inner / d_model)), default=None)
    if n_layers < 2 or best is None or not 0.8 <= best.inner / d_model <= 1.2:
        widths = sorted({s.inner for s in shapes if s.inner <= 512})
        raise UsageError(
            "a shape does not divide into heads",
            got=f"L={n_layers}, rho={rho:g}, d={d_model}",
            allowed=f"two layers or more, with rho={rho:g} a width near "
            f"{', '.join(map(str, widths)) or 'none'}",
            next_step="take another width, or a head density H/d_h that is a ratio of small "
            "numbers",
        )
    return best


@dataclass(frozen=True)
class Recipe:
    """Everything that a lab decides, the shape apart."""

    name: str
    corpus: str
    optimiser: str
    rate: float
    """Peak learning rate."""
    decay: float
    """Weight decay λ, decoupled for every optimiser: a step shrinks matrices by the factor 1 −
    rate·λ."""
    schedule: str
    """Of the rate after warm-up: to a tenth by a cosine, constant, or to nothing by a line."""
    warmup: float
    """Share of the steps over which the rate rises to its peak."""
    batch: int
    """Windows in a step."""
    steps: int
    init: float
    """Standard deviation of initial matrices over 1/√inputs."""
    depth_power: float
    """Matrices that write into the stream begin by (2 L)^-power smaller."""
    embed: float
    """Standard deviation of the initial embedding."""
    dropout: float
    """Of what attention and MLP write, in training."""
    clip: float
    """Largest norm of the gradient; 0: it is not clipped."""

    def check(self) -> None:
        """Raise UsageError where it cannot run."""
        where = f"recipe {self.name}"
        check_types(self, where)
        limits = {
            "corpus": (self.corpus in CORPORA, ", ".join(CORPORA)),
            "optimiser": (self.optimiser in OPTIMISERS, ", ".join(OPTIMISERS)),
            "schedule": (self.schedule in SCHEDULES, ", ".join(SCHEDULES)),
            "rate": (0 < self.rate < math.inf, "a number above 0"),
            "decay": (
                self.decay >= 0 and self.decay * self.rate < 1,
                "0 or more, and below 1 / rate",
            ),
            "warmup": (0 <= self.warmup < 1, "0 or more, below 1"),
            "batch": (self.batch >= 1, "1 or more"),
            "steps": (self.steps >= 1, "1 or more"),
            "init": (0 < self.init < math.inf, "a number above 0"),
            "depth_power": (math.isfinite(self.depth_power), "a finite number"),
            "embed": (0 < self.embed < math.inf, "a number above 0"),
            "dropout": (0 <= self.dropout < 1, "0 or more, below 1"),
            "clip": (0 <= self.clip < math.inf, "0 or more"),
        }
        check_limits(self, where, limits)

    def factor(self, step: int) -> float:
        """Rate over its peak at step 0, 1, …"""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return (step + 1) / warm
        share = (step - warm) / max(1, self.steps - warm)
        if self.schedule == "constant":
            return 1.0
        return (
            1.0 - share
            if self.schedule == "linear"
            else 0.1 + 0.45 * (1 + math.cos(math.pi * share))
        )


def check_types(record: Any, where: str) -> None:
    """Raise UsageError where a text or number of a record is of another type; a flag is no
    number."""
    limits = {}
    for field in fields(record):
        if field.type in TYPES:
            kind, allowed = TYPES[field.type]
            value = getattr(record, field.name)
            limits[field.name] = isinstance(value, kind) and not isinstance(value, bool), allowed
    check_limits(record, where, limits)


def check_limits(record: Any, where: str, limits: Mapping[str, tuple[bool, str]]) -> None:
    """Raise UsageError for the first field that is not fine; limits: whether each is, and what is
    allowed."""
    for field, (fine, allowed) in limits.items():
        if not fine:
            got = f"{field} = {getattr(record, field)!r} in {where}"
            raise UsageError("this cannot be trained", got=got, allowed=f"{field}: {allowed}")


CHOICES: dict[str, dict[Any, float]] = {
    "corpus": {"english": 0.5, "synthetic": 0.5},
    "optimiser": {"adamw": 0.4, "lion": 0.2, "muon": 0.2, "sgd": 0.2},
    "schedule": {"cosine": 0.4, "constant": 0.3, "linear": 0.3},
    "batch": {8: 0.5, 16: 0.5},
    "tokens": {204_800: 0.5, 409_600: 0.5},
    "depth_power": {0.0: 1 / 3, 0.5: 1 / 3, 1.0: 1 / 3},
}
"""Probabilities of levels."""
RATES = {"adamw": (1e-3, 2e-2), "lion": (3e-4, 4e-3), "muon": (1e-3, 2e-2), "sgd": (0.1, 1.0)}
"""Ranges of the peak rate by optimiser; all ranges are of log-uniform draws."""
RANGES = {
    "warmup": (0.01, 0.2),
    "init": (0.1, 1.2),
    "embed": (0.02, 1.0),
    "clip": (0.3, 3.0),
    "shrinking": (0.03, 10.0),
}
"""shrinking: rate · decay · steps, by how much (as a power of e) a constant rate would shrink a
matrix left alone."""
WITHOUT = {"decay": 0.125, "dropout": 0.5, "clip": 0.25}
"""Chances of none at all."""
MOST_DROPPED = 0.2
"""Dropout, where there is any, is drawn evenly up to this."""


def drawn(count: int, seed: int, context: int) -> list[Recipe]:
    """Recipes c001 … drawn from the distributions above; the first n of more are the n of fewer."""
    return [
        _draw(f"c{number:03d}", np.random.default_rng([seed, number]), context)
        for number in range(1, count + 1)
    ]


def _draw(name: str, rng: np.random.Generator, context: int) -> Recipe:
    level = {
        key: list(options)[rng.choice(len(options), p=list(options.values()))]
        for key, options in CHOICES.items()
    }
    size = {key: float(np.exp(rng.uniform(*np.log(ends)))) for key, ends in RANGES.items()}
    rate = float(np.exp(rng.uniform(*np.log(RATES[level["optimiser"]]))))
    none = {key: bool(rng.random() < chance) for key, chance in WITHOUT.items()}
    steps = level["tokens"] // (level["batch"] * context)
    return Recipe(
        name=name,
        corpus=level["corpus"],
        optimiser=level["optimiser"],
        rate=_short(rate),
        decay=0.0 if none["decay"] else _short(size["shrinking"] / rate / steps),
        schedule=level["schedule"],
        warmup=_short(size["warmup"]),
        batch=level["batch"],
        steps=steps,
        init=_short(size["init"]),
        depth_power=level["depth_power"],
        embed=_short(size["embed"]),
        dropout=0.0 if none["dropout"] else _short(float(rng.uniform(0.01, MOST_DROPPED))),
        clip=0.0 if none["clip"] else _short(size["clip"]),
    )


def _short(value: float) -> float:
    """To three figures."""
    return float(f"{value:.3g}")
