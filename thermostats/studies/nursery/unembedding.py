"""Unembeddings and last gains of the trained models."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery.norms import at_the_end
from thermostats.studies.nursery.rows import final


def trained_unembeddings(tables: Evidence) -> pd.DataFrame:
    """One row a comparable trained model: columns of `final`, `heritage` (its recipe), spectral norm, logs of both."""
    norms = at_the_end(tables, "weights", head="", matrix="unembedding").groupby("model_id")["spectral_norm"].first()
    models = final(tables)
    table = models[models["comparable"].astype(bool)].assign(heritage=lambda f: f["recipe"])
    table = table.assign(spectral_norm=table["model_id"].map(norms).astype(float))
    table = table.dropna(subset=["spectral_norm", "last_gain"])
    return table.assign(log_norm=np.log(table["spectral_norm"]), log_gain=np.log(table["last_gain"].astype(float)))
