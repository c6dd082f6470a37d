"""Means of models' log gains over prompts, every model fitted by itself."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.modelling.inference.fitted import Fitted, side_by_side
from thermostats.modelling.laws.lines import fit_line
from thermostats.words import short_name


def fit_means(rows: pd.DataFrame, *, scale: float, seed: int) -> Fitted:
    """Fit with the quantity `mean`, chain × draw × models: mean log gain, prompts of one category alike.

    rows: model_id, heritage, source, category and the gain, `value`, one row a model and prompt. `scale`: prior scale
    of log gains.
    """
    return side_by_side(
        {
            short_name(str(model)): fit_line(
                own.assign(log_gain=np.log(own["value"])),
                "log_gain",
                scale=scale,
                group="category",
                sources=sorted(set(own["source"])),
                seed=seed + k,
            )
            for k, (model, own) in enumerate(rows.groupby("model_id"))
        }
    )
