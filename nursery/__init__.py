"""Training of the controlled study's models: `python -m nursery`; its findings are in
`thermostats.studies.nursery`."""

from pathlib import Path

STUDIES = Path(__file__).resolve().parents[1] / "data" / "nursery"
"""Folder of the studies: their designs, protocols and tables."""
DESIGN = STUDIES / "second" / "design.toml"
"""The design that is meant where none is named."""
