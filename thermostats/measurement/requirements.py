"""What measuring a model takes, from its parameters and what the hub says of it, before anything is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from thermostats.errors import ThermostatsError
from thermostats.measurement import hub
from thermostats.measurement.can_measure import RATE
from thermostats.measurement.estimate import BYTES_PER_TOKEN, ITEM, PROCESS, Place

ASKED_AT_ONCE = 16
"""Models that the hub is asked about at a time."""
Named = tuple[str, str]
"""A model and its revision."""


@dataclass(frozen=True)
class Facts:
    """What the hub says of one revision of a model; without asking it, nothing."""

    commit: str = ""
    disk: int | None = None
    """Bytes that downloading takes."""
    gated: bool | None = None
    only_pickles: bool | None = None
    needs: str = ""
    """Why it cannot be had, and what it takes; empty where it can."""


def facts(models: Sequence[Named], *, pickles: bool) -> dict[Named, Facts]:
    """What the hub says of models, each asked once; a hub that cannot be reached is named in `needs`."""
    named = list(dict.fromkeys(models))
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return dict(zip(named, pool.map(lambda each: _facts(each[0], each[1], pickles), named), strict=True))


def _facts(model: str, revision: str, pickles: bool) -> Facts:
    try:
        found = hub.on_hub(model, revision=revision)
    except ThermostatsError as error:
        return Facts(needs=str(error))
    needs = str(hub.only_pickles(model, revision)) if found.only_pickles and not pickles else ""
    if found.gated:
        try:
            hub.check_access(model, revision=revision)
        except ThermostatsError as error:
            needs = str(error)
    return Facts(found.commit, found.n_bytes, found.gated, found.only_pickles, needs)


def memory(n_params: int, dtype: str) -> int:
    """Bytes that a process takes with a model of so many parameters; batches come on top."""
    return n_params * ITEM[dtype] + PROCESS


def fits(n_params: int, dtype: str, place: Place) -> bool:
    """Whether a place has the memory for a model's weights; True if that is unknown."""
    devices = 1 if place.kind == "cpu" else place.devices
    return place.each is None or memory(n_params, dtype) <= place.each * devices


def seconds(n_params: int, texts: Sequence[str], passes: int, kind: str) -> float:
    """About how long so many forward passes over texts take: 2 n_params operations a token at the rate of the kind."""
    tokens = sum(-(-len(text.encode()) // BYTES_PER_TOKEN) + 1 for text in texts)
    return 2 * n_params * tokens * passes / RATE[kind]
