"""What kind of statement a claim makes, and what can decide a statement of that kind."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

ASSOCIATION: Final = "association"
MODALITIES = MappingProxyType(
    {
        ASSOCIATION: "Claimed is an association, not a cause.",
        "every": "Claimed is something of every unit: a counterexample found twice refutes it.",
        "cannot": "Claimed is an impossibility: one case made twice refutes it, no count supports "
        "it.",
        "because": "Claimed is a cause: only an intervention or an assigned design decides that.",
    }
)
"""By the word in a claim's Markdown: what may decide a statement of this kind."""
