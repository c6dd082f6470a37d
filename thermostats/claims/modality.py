"""What kind of statement a claim makes, and what can decide a statement of that kind."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

ASSOCIATION: Final = "association"
MODALITIES = MappingProxyType(
    {
        ASSOCIATION: "Claimed is an association, not a cause.",
        "every": "Claimed is something of every unit: a repeated counterexample refutes it.",
        "cannot": "Claimed is an impossibility: one repeated case refutes it, "
        "no count supports it.",
        "because": "Claimed is a cause, which only interventions decide.",
    }
)
"""By the word in a claim's Markdown: what may decide a statement of this kind.

An assigned design is an intervention."""
