"""The figures of the report: the study's eight redrawn from the tables, and all of them as one."""

from thermostats.reporting.figures.combined import combine
from thermostats.reporting.figures.figure import COLUMN, EMPTY, Figure, png, svg
from thermostats.reporting.figures.gains import DEPTH, LABS, PROMPTS, SIZE
from thermostats.reporting.figures.spectra import LAYERS, SPECTRA, SQUARED
from thermostats.reporting.figures.transition import TRANSITION

SINGLE = (DEPTH, LABS, SPECTRA, LAYERS, TRANSITION, SIZE, PROMPTS, SQUARED)
"""In the order of the preprint."""
COMBINED = combine(SINGLE)
FIGURES: tuple[Figure, ...] = (*SINGLE, COMBINED)

__all__ = ["COLUMN", "COMBINED", "EMPTY", "FIGURES", "SINGLE", "Figure", "png", "svg"]
