"""Changes of a model without training, as a user writes them.

    W_V * s, W_O / s      matrices of every block, or some (`W_V 2-4 * 2`); b_V goes with W_V
    block l * s           what block l writes: x_l = x_(l-1) + s (f_l(x_(l-1)) - x_(l-1))
    without block l       the same with s = 0
    stream l + a          a times the vector of ones added to what leaves block l
    stream + a            the same of what enters the first block

Several, separated by commas, are done together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from thermostats.errors import UsageError
from thermostats.measurement.checkpoint import index_value_rows
from thermostats.measurement.forward import (
    Decoder,
    extract_input,
    extract_tensor,
    find_submodule,
    has_attention,
)
from thermostats.measurement.lookup import select_layer_config
from thermostats.measurement.steering import copy_model

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
SCALED = re.compile(rf"(W_V|W_O|block)(?: (\d+)(?:-(\d+))?)? ?([*/]) ?({NUMBER})")
LEFT_OUT = re.compile(r"without block (\d+)(?:-(\d+))?")
SHIFTED = re.compile(rf"stream(?: (\d+))? ?([+-]) ?({NUMBER})")
EVERY_BLOCK = "without every block"
EXAMPLES = "W_V * 2, W_V 2-4 * 2, block 3 * 0.5, without block 3, stream 3 + 64"


@dataclass(frozen=True)
class Action:
    """One change: what is changed (W_V, W_O, block, stream), in which blocks (from 1), and the
    number."""

    what: str
    blocks: tuple[int, ...]
    amount: float


def parse_actions(text: str, depth: int) -> list[Action]:
    """The changes of a text, of a model of so many blocks. Raises UsageError for what is none."""
    words = [word.strip() for word in text.split(",")]
    return [_parse(word, depth) for word in words]


def _parse(word: str, depth: int) -> Action:
    found = SCALED.fullmatch(word)
    if found is not None:
        what, first, last, sign, number = found.groups()
        if what == "block" and first is None:
            raise _build_error(word, "a block is named by its number")
        amount = float(number)
        if sign == "/":
            if amount == 0:
                raise _build_error(word, "nothing is divided by 0")
            amount = 1 / amount
        return Action(what, _number_blocks(word, first, last, depth), amount)
    found = LEFT_OUT.fullmatch(word)
    if found is not None:
        return Action("block", _number_blocks(word, found[1], found[2], depth), 0.0)
    found = SHIFTED.fullmatch(word)
    if found is not None:
        number = float(found[3]) * (-1 if found[2] == "-" else 1)
        place = (0,) if found[1] is None else _number_blocks(word, found[1], None, depth)
        return Action("stream", place, number)
    raise _build_error(word, "no such change of a model")


def _build_error(word: str, what: str) -> UsageError:
    return UsageError(
        what, got=repr(word), allowed=EXAMPLES, next_step='thermostats do FOLDER "W_V * 2"'
    )


def _number_blocks(word: str, first: str | None, last: str | None, depth: int) -> tuple[int, ...]:
    """Blocks from one to another, all where none is named."""
    if first is None:
        return tuple(range(1, depth + 1))
    one = int(first)
    other = int(last or first)
    if not 1 <= one <= other <= depth:
        what = "the model has no such block"
        raise UsageError(what, where=repr(word), got=first, allowed=f"1 to {depth}")
    return tuple(range(one, other + 1))


def expand_action(text: str, depth: int) -> list[str]:
    """The changes that a text stands for: one for every block where each is left out in turn, else
    itself."""
    if text.strip() == EVERY_BLOCK:
        return [f"without block {number}" for number in range(1, depth + 1)]
    return [text.strip()]


@torch.no_grad()
def change_model(base: Decoder, actions: Sequence[Action]) -> Decoder:
    """A copy of a model with changes; blocks and streams are changed by hooks, which stay on the
    copy.

    Raises UsageError where a model has no W_V or W_O that stand for what a change says.
    """
    changed = copy_model(base)
    for action in actions:
        if action.what in ("W_V", "W_O"):
            _scale_matrices(changed, action)
        elif action.what == "block":
            for number in action.blocks:
                changed.blocks[number - 1].register_forward_hook(
                    _scale_write(action.amount), with_kwargs=True
                )
        else:
            _shift_stream(changed, action)
    return changed


def is_stored(actions: Sequence[Action]) -> bool:
    """Whether changes are of weights alone, so that the changed model can be saved."""
    return all(action.what in ("W_V", "W_O") for action in actions)


def _scale_matrices(changed: Decoder, action: Action) -> None:
    entry = changed.entry
    places = dict.fromkeys(changed.blocks[number - 1] for number in action.blocks)
    for block in places:
        if not has_attention(block, entry):
            what = f"a block has no {action.what}"
            step = 'leave a block out instead: thermostats do FOLDER "without block 1"'
            raise UsageError(what, where=entry.name, got=type(block).__name__, next_step=step)
        if action.what == "W_O":
            output: Any = find_submodule(block, entry.output, entry)
            output.weight.mul_(action.amount)
            continue
        number = changed.blocks.index(block)
        _scale_values(changed, block, number, action.amount)


def _scale_values(changed: Decoder, block: nn.Module, number: int, amount: float) -> None:
    """Multiply W_V of a block, and b_V, by a number."""
    entry = changed.entry
    rows = index_value_rows(entry, select_layer_config(entry, changed.config, number)).ravel()
    places = torch.from_numpy(np.asarray(rows))
    module: Any = find_submodule(block, entry.value, entry)
    matrix = module.weight.T if entry.transposed else module.weight
    matrix[places] *= amount
    bias = getattr(module, "bias", None)
    if entry.value_bias:
        owner, _, label = entry.value_bias.rpartition(".")
        bias = getattr(find_submodule(block, owner, entry), label, None)
        places = torch.arange(0 if bias is None else len(bias))
    if bias is not None:
        bias[places] *= amount


Hook = Callable[..., Any]


def _scale_write(amount: float) -> Hook:
    """A hook that multiplies what a block writes to the stream by a number."""

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        before = extract_input(args, kwargs)
        after = extract_tensor(output)
        new = before if amount == 0 else before + amount * (after - before)
        return _replace_states(output, new)

    return hook


def _shift_stream(changed: Decoder, action: Action) -> None:
    """Add a number to every coordinate of what enters the first block, or leaves another."""

    def entering(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        new = extract_input(args, kwargs) + action.amount
        if args:
            return (new, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": new}

    def leaving(_module: nn.Module, _args: Any, output: Any) -> Any:
        return _replace_states(output, extract_tensor(output) + action.amount)

    (number,) = action.blocks
    if number == 0:
        changed.blocks[0].register_forward_pre_hook(entering, with_kwargs=True)
    else:
        changed.blocks[number - 1].register_forward_hook(leaving)


def _replace_states(output: Any, new: Any) -> Any:
    """What a block returned with other hidden states."""
    return new if isinstance(output, torch.Tensor) else (new, *output[1:])
