"""Some entries of a mapping: by their names, by their values, or without the empty ones."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep_names(entries: Mapping[K, V], names: Container[object]) -> dict[K, V]:
    """The entries with these names, in their order."""
    return {name: value for name, value in entries.items() if name in names}


def drop_names(entries: Mapping[K, V], names: Container[object]) -> dict[K, V]:
    """The entries without these names."""
    return {name: value for name, value in entries.items() if name not in names}


def keep_values(entries: Mapping[K, V], values: Container[object]) -> dict[K, V]:
    """The entries that have one of these values."""
    return {name: value for name, value in entries.items() if value in values}


def drop_empty(entries: Mapping[K, V]) -> dict[K, V]:
    """The entries that say something."""
    return {name: value for name, value in entries.items() if value}


def find_name(entries: Mapping[str, V], wanted: V) -> str:
    """The first name of a value; empty where none has it."""
    return next((name for name, value in entries.items() if value == wanted), "")
