"""Heritage, geometry, scale: shares of the variance of the log gain and the model of their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thermostats.modelling.heritage.fit import fit_heritage as fit_heritage

__all__ = ["fit_heritage"]


def __getattr__(name: str) -> Any:
    """`fit_heritage` is imported when first used, so that sizes of studies are judged before anything large loads."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from thermostats.modelling.heritage.fit import fit_heritage  # noqa: PLC0415

    return fit_heritage
