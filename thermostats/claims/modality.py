"""What kind of statement a claim makes, and what can decide a statement of that kind."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

ASSOCIATION: Final = "association"
MODALITIES = MappingProxyType(
    {
        ASSOCIATION: "Claimed is an association: rows of models decide it, and of causes it says "
        "nothing.",
        "every": "Claimed is something of every unit: a counterexample that is found again decides "
        "against it, and units at hand only bound how many exceptions there are.",
        "cannot": "Claimed is that something cannot be: one case that is made, and made again, "
        "decides against it, and no number of cases that were not made supports it.",
        "because": "Claimed is a cause: an intervention, or a design that assigns it, decides "
        "that; what models as they are say is an association.",
    }
)
"""By the word that stands in a claim's Markdown: what may decide a statement of this kind."""
