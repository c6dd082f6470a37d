"""The posterior of models' mean log gains over prompts beside a finding on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.modelling.inference.fitted import side_by_side
from thermostats.modelling.laws.line import fit_line
from thermostats.words import short_name

OUTCOME = "log_gain"


def with_means(
    found: Finding,
    rows: pd.DataFrame,
    statement: str,
    holds: Callable[[NDArray[Any]], NDArray[np.bool_]],
    *,
    scale: float,
    seed: int,
) -> Finding:
    """The finding with P(`statement`): `holds` is asked of the draws of the mean log gain of every model at once.

    rows: model_id, heritage, source, category and the gain, `value`, one row a model and prompt; every model has a fit
    of its own, in which prompts of one category are alike. `scale`: prior scale of log gains.
    """
    fits = {
        short_name(str(model)): fit_line(
            own.assign(**{OUTCOME: np.log(own["value"])}),
            OUTCOME,
            scale=scale,
            group="category",
            sources=sorted(set(own["source"])),
            seed=seed + k,
        )
        for k, (model, own) in enumerate(rows.groupby("model_id"))
    }
    fit = side_by_side(fits)
    told = posterior_of(
        fit,
        model=f"Mean log gain over prompts of {', '.join(fits)}, prompts of one category alike"
        f"{', every model by itself' if len(fits) > 1 else ''}.",
        statement=statement,
        truth=np.asarray(holds(fit.quantities["mean"]).all(axis=-1)),
        classical=found.verdict,
        tables=["means"],
    )
    return beside(found, fit, told)
