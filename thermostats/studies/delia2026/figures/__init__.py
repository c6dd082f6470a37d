"""The figures of the report: the study's eight redrawn from the tables, and all of them as one."""

from thermostats.studies.delia2026.figures.combined import combine
from thermostats.studies.delia2026.figures.figure import EMPTY, Figure, png, svg
from thermostats.studies.delia2026.figures.gains import DEPTH, LABS, PROMPTS, SIZE
from thermostats.studies.delia2026.figures.spectra import LAYERS, SPECTRA, SQUARED
from thermostats.studies.delia2026.figures.transition import TRANSITION

SINGLE = (DEPTH, LABS, SPECTRA, LAYERS, TRANSITION, SIZE, PROMPTS, SQUARED)
"""In the order of the preprint."""
COMBINED = combine(SINGLE)
FIGURES: tuple[Figure, ...] = (*SINGLE, COMBINED)

__all__ = ["COMBINED", "EMPTY", "FIGURES", "SINGLE", "Figure", "png", "svg"]
