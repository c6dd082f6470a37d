"""Disagreements between files, and of labels and verdicts with the figures: found by comparing the rows imported."""

from __future__ import annotations


def find(study) -> None:
    return None
