"""Records in parts that a table shows in one row: each column's place in the record."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar


class ByColumn:
    """A record whose parts stand in the columns of a table."""

    COLUMNS: ClassVar[Mapping[str, str]]
    """Where in the record a column stands: `lower` at `headline.lower`."""

    def columns(self) -> dict[str, Any]:
        """Values by column."""
        return {name: attrgetter(place)(self) for name, place in self.COLUMNS.items()}
