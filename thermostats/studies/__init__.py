"""Studies: each brings tables, words and questions; the instrument imports none of them."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Studies are imported when first used."""
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
