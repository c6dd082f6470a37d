"""The reader of contributions: folders that `thermostats export contribution` wrote, each with its
`source.toml`."""

from dataclasses import dataclass
from pathlib import Path

from source import Tables

from thermostats.tables.export import FILE, Source, read_source
from thermostats.tables.schemas import TABLES
from thermostats.tables.store import read_typed


@dataclass(frozen=True)
class Contribution:
    """A contribution under the name of its folder."""

    SOURCE: Source

    def tables(self, folder: Path) -> Tables:
        """Rows as they were contributed; `thermostats check` holds them against the schema once
        they are in place."""
        made = Tables(self.SOURCE)
        for name in TABLES:
            if (path := folder / f"{name}.csv").is_file():
                made.rows[name] = read_typed(path, name).to_dict("records")
        return made


def contributions(folder: Path) -> list[Contribution]:
    """Every contribution of a folder, by name."""
    return [Contribution(read_source(path)) for path in sorted(folder.glob(f"*/{FILE}"))]
