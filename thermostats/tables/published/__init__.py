"""The study's published result files as tidy tables: `import_published`."""

from thermostats.tables.published.importer import Imported, import_published

__all__ = ["Imported", "import_published"]
