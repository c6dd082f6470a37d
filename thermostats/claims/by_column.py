"""Records in parts that a table shows in one row: each column's place in the record."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from thermostats import earlier


class ByColumn:
    """A record whose parts stand in the columns of a table.

    Scripts written for versions up to 0.2.0 read the columns as fields of the record itself; they still may, and are
    warned.
    """

    COLUMNS: ClassVar[Mapping[str, str]]
    """Where in the record a column stands: `lower` at `headline.lower`."""
    EARLIER: ClassVar[Mapping[str, str]] = {}
    """The same of what were fields once and are no column."""

    def columns(self) -> dict[str, Any]:
        """Values by column."""
        return {name: attrgetter(place)(self) for name, place in self.COLUMNS.items()}

    if not TYPE_CHECKING:  # no name that is only read so by earlier scripts is one to the type checker

        def __getattr__(self, name: str) -> Any:
            return earlier.read(self, name, {**self.EARLIER, **self.COLUMNS})
