"""The shipped tables with trained models of the design whose norms, gains and curves are made up."""

from __future__ import annotations

import pandas as pd

from thermostats.studies.nursery.plan import shipped_table

LAST, START = "step00600", "step00000"


def design_depths() -> pd.Series:
    """Layers of every model of the design."""
    return shipped_table()["n_layers"]
