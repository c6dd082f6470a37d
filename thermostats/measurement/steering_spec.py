"""What steering is asked for: a gain by name, targets for it, weights that may change, and
settings.

Loads neither tables nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from thermostats.errors import UsageError, build_unknown_error
from thermostats.measurement.spec import Setting
from thermostats.tables.schemas import EVERY, GAINS, READ_GAINS

LEAST_DEPTH = {
    "penultimate_gain": 2,
    "geometric_gain": 2,
    "max_gain": 2,
    "geometric_gain_to_penultimate": 3,
    "max_gain_to_penultimate": 3,
    "total_amplification": 2,
    "penultimate_read_gain": 2,
    "geometric_read_gain": 2,
}
"""Blocks that a model needs to have a gain; 1 where nothing is said."""
BLOCK = "block "
FACTORS = tuple(math.exp(step) for step in (-0.4, -0.2, -0.1, 0.1, 0.2, 0.4))
"""Targets over a model's own gain where none is named: a price curve."""
WIDTH, RATE = 64, 1e-3
"""Width of the stream up to which the learning rate is the standard one; of wider ones it falls as
1/d."""


def _shorten_name(name: str) -> str:
    """A gain's name without the word gain."""
    plain = name.replace("_amplification", "").replace("_gain", "")
    return plain


SHORT = {_shorten_name(name): name for name in (*GAINS, *READ_GAINS)}
"""What a gain may be called on the command line → its name in the tables."""


def find_gain(text: str | int) -> str:
    """A gain's name in the tables, of what a user calls it: `penultimate`, `penultimate_gain`, `3`,
    `block 3`.

    Raises UsageError for a name that there is not, and for a block below 1.
    """
    word = str(text).strip()
    number = word.removeprefix(BLOCK)
    if number.isdecimal():
        if int(number) < 1:
            what = "blocks are numbered from 1"
            raise UsageError(what, where="gain", got=repr(word), allowed="1 to the model's depth")
        return f"{BLOCK}{int(number)}"
    if word in SHORT:
        return SHORT[word]
    if word in SHORT.values():
        return word
    names = [*SHORT, "the number of a block, such as 3"]
    raise build_unknown_error("no such gain", word, names, where="gain")


def check_depth(gain: str, depth: int) -> None:
    """Raise UsageError where a model has too few blocks for a gain."""
    needed = LEAST_DEPTH.get(gain, 1)
    if gain.startswith(BLOCK):
        needed = int(gain.removeprefix(BLOCK))
    if needed > depth:
        what = "the model has too few blocks for this gain"
        got = f"{gain} of {depth} block{'s' * (depth > 1)}"
        fine = []
        for short, name in SHORT.items():
            if LEAST_DEPTH.get(name, 1) <= depth:
                fine.append(short)
        raise UsageError(what, where="gain", got=got, allowed=", ".join(fine))


def check_target(value: Any) -> float:
    """A target as a number. Raises UsageError for what is no finite number above 0."""
    try:
        target = float(value)
    except (TypeError, ValueError):
        target = math.nan
    if not 0 < target < math.inf:
        what = "a gain is a ratio of norms, and its target a number above 0"
        raise UsageError(
            what, where="to", got=repr(value), allowed="a number above 0, such as 0.95"
        )
    return target


def mirror_target(start: float, target: float) -> float:
    """The target as far from where a gain starts on the other side: g²/t for the gain g and the
    target t."""
    return start**2 / target


@dataclass(frozen=True)
class SteeringSettings:
    """How a model is steered; every number is part of what a price is of."""

    steps: int = 400
    penalty: float = 10.0
    """w in KL(p‖q) + w (log g − log t)²."""
    rate: float | None = None
    """Learning rate of Adam at its first step; None: 1e-3, for streams wider than 64 times 64/d."""
    batch: int = 16
    texts: int = 512
    """Texts that are trained on."""
    held_out: int = 32
    tokens: int = 96
    """Tokens of a text behind the first one, at most what the model's context allows."""
    every: str = "text"
    """What comes to the target: the mean log gain of a text, or of a token each."""

    def __post_init__(self) -> None:
        """Raise UsageError for a setting that cannot be."""
        for name in ("steps", "batch", "texts", "held_out", "tokens"):
            value = getattr(self, name)
            least = 2 if name in ("texts", "held_out") else 1
            if type(value) is not int or value < least:
                _refuse(name, value, f"a whole number from {least}")
        for name in ("penalty", "rate"):
            value = getattr(self, name)
            fine = isinstance(value, (int, float)) and 0 < value < math.inf
            if not fine and not (name == "rate" and value is None):
                _refuse(name, value, "a number above 0")
        if self.every not in EVERY:
            _refuse("every", self.every, " or ".join(EVERY))

    def scale_rate(self, width: int) -> float:
        """Give the learning rate for a stream of a width.

        Parameters
        ----------
        width : int
            Numbers in the stream at a token.

        Returns
        -------
        float
            The rate that was set; else the standard one, less where the stream is wide.

        Examples
        --------
        >>> from thermostats.measurement.steering_spec import SteeringSettings
        >>> SteeringSettings(rate=0.001).scale_rate(768)
        0.001
        """
        return self.rate if self.rate is not None else RATE * min(1.0, WIDTH / width)


def _refuse(name: str, value: Any, allowed: str) -> None:
    what = "no such value of a setting"
    raise UsageError(what, where=name, got=repr(value), allowed=allowed)


SETTINGS: dict[str, Setting] = {
    "device": Setting(str, "auto, cpu, cuda, cuda:1, …"),
    "penalty": Setting(float, "w in KL + w (log g − log t)²; by default 10", 0),
    "rate": Setting(float, "learning rate; by default 1e-3, for streams wider than 64 less", 0),
    "batch": Setting(int, "texts in a step; by default 16"),
    "texts": Setting(int, "texts trained on; by default 512, fewer cost more KL"),
    "held_out": Setting(int, "texts that prices are measured on; by default 32"),
    "tokens": Setting(int, "tokens of a text; by default 96"),
    "every": Setting(str, "what comes to the target: text (mean of each) or token"),
    "name": Setting(str, "of the model in the tables, such as me/my-model"),
    "lab": Setting(str, "lab that trained the model, if the tables do not know it"),
}
"""Settings of steering that are seldom needed, by name."""


def choose_settings(chosen: Mapping[str, Any], **more: Any) -> SteeringSettings:
    """Settings of steering among what was chosen; raises UsageError for a value that cannot be."""
    names = [each.name for each in fields(SteeringSettings)]
    return SteeringSettings(**{name: chosen[name] for name in names if name in chosen}, **more)


@dataclass(frozen=True)
class SteeringSpec:
    """What is asked of one model: a gain, its targets, weights that may change, and how."""

    gain: str
    targets: tuple[float, ...] = ()
    """Empty: `FACTORS` times the model's own gain."""
    only: tuple[str, ...] = ()
    rank: int | None = None
    least_change: float | None = None
    """Steps are added until the price changes by less than this share."""
    seed: int = 1
    settings: SteeringSettings = SteeringSettings()

    @classmethod
    def build(
        cls, gain: str | int, to: Any, *, only: Sequence[str] = (), **more: Any
    ) -> SteeringSpec:
        """The spec of what a user asked for; raises UsageError for what cannot be."""
        stated = [] if to is None else [to]
        if isinstance(to, (list, tuple)):
            stated = list(to)
        targets = tuple(map(check_target, stated))
        spec = cls(find_gain(gain), targets, tuple(only), **more)
        if spec.rank is not None and (type(spec.rank) is not int or spec.rank < 1):
            _refuse("rank", spec.rank, "a whole number from 1")
        if spec.least_change is not None and not 0 < spec.least_change < 1:
            _refuse("until", spec.least_change, "a share, such as 0.05")
        if type(spec.seed) is not int or spec.seed < 0:
            _refuse("seed", spec.seed, "a whole number from 0")
        return spec
