"""What a planned study is asked for: its size, the shares of its causes, and its geometry."""

from __future__ import annotations

from thermostats.errors import UsageError, did_you_mean

CAUSES = ("heritage", "geometry", "scale")
"""What has a share of variance; what is left is the single model's own."""
GEOMETRIES = ("met", "free", "unrelated")
"""How geometry and scale are drawn: as they are met (see `power.model_facts`); the same with labs dealt out at
random; and with a number of parameters that has nothing to do with depth, heads and width either."""


def parsed(shares: str) -> dict[str, float]:
    """Shares of heritage, geometry and scale from text such as 0.60,0.15,0.05.

    Raises UsageError for shares that are not three numbers of at least 0 with a sum of at most 1.
    """
    try:
        numbers = [float(part) for part in shares.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(CAUSES) or not all(number >= 0 for number in numbers) or sum(numbers) > 1 + 1e-9:
        raise UsageError(
            "not shares of one whole",
            where="--shares",
            got=shares,
            allowed=f"three numbers of at least 0, of {', '.join(CAUSES)}, together at most 1",
            next_step="for example --shares 0.60,0.15,0.05",
        )
    return dict(zip(CAUSES, numbers, strict=True))


def check_size(n_models: int, n_labs: int, geometry: str) -> None:
    """Raise UsageError for fewer than 2 labs or 4 models, for as many labs as models, for another `geometry`."""
    if geometry not in GEOMETRIES:
        raise UsageError(
            "no such geometry",
            got=geometry,
            allowed=", ".join(GEOMETRIES),
            next_step=did_you_mean(geometry, GEOMETRIES),
        )
    if n_labs < 2 or n_models < n_labs + 1 or n_models < 4:
        raise UsageError(
            "no study can have this size",
            got=f"{n_models} models in {n_labs} labs",
            allowed="2 labs or more, 4 models or more, more models than labs",
        )
