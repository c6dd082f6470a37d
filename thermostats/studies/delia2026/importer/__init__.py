"""The study's published result files as tidy tables: `import_published`."""

from thermostats.studies.delia2026.importer.importer import Imported, import_published

__all__ = ["Imported", "import_published"]
