"""Is log gain decided by heritage, geometry or scale? Models in labs, with a prior that favours no block.

log G_ip = m_i + c_k + d_ik + e_ip, e_ip ~ t_ν(0, σ_i);
m_i = α + f_i,heritage + f_i,geometry + f_i,scale + f_i,model.

Every block's contribution f_b is scaled to unit expected variance and multiplied by τ√φ_b, τ half-normal and shares
φ ~ Dirichlet(a, a, a, a), so that blocks of many columns have no head start (cf. Zhang et al. 2022, R2D2M2, and the
joint variance priors of Fuglstad et al. 2020, doi:10.1214/19-BA1185). The estimands are finite-population standard
deviations of the contributions over the models at hand (Gelman 2005, doi:10.1214/009053604000001048).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import numbers
from thermostats.modelling.heritage.blocks import LARGE_STUDY, design
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.fitted import HeritageFit
from thermostats.modelling.heritage.model import TOTAL_SD, arrays, heritage_model, prior_orders
from thermostats.modelling.heritage.rows import said_of
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Settings
from thermostats.modelling.inference.fitted import NO_SOURCE

CAREFUL = Settings(draws=1500, target_accept=0.98)
"""Shares near 0 and averages with heavy tails need smaller steps, and move slowly."""
SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""
AUTO, SAMPLING, CLOSED = "auto", "sampling", "closed form"


def fit_heritage(
    table: pd.DataFrame,
    *,
    estimand: str,
    seed: int,
    concentration: float = 1.0,
    lab_df: float = 0.0,
    residualise: str = "",
    method: str = AUTO,
    settings: Settings = CAREFUL,
    cache: bool = True,
    progress: bool | None = None,
) -> HeritageFit:
    """Fit the heritage model to a table of gains.

    `table`: as `heritage_rows.gain_rows(estimand)` gives it: model_id, heritage, n_layers, n_heads, d_head, n_params
    and `gain`, one row per prompt (`prompt_id`, `category`) or one row with `gain_sd` and `n_prompts`; `family` where
    known. `estimand` names the gain and sets the prior scale of τ. `lab_df` above 2: Student-t lab effects;
    `residualise`: see `design`. `method`: sampling, or the closed form of the models' means, which `auto` takes for
    more than `LARGE_STUDY` models.

    Raises UsageError as `design` does, for gains that are all the same, and for Student-t effects in closed form.
    """
    if not (0 < concentration < math.inf and (lab_df == 0 or 2 < lab_df < math.inf)):
        raise UsageError(
            "priors out of range",
            got=f"concentration {concentration}, lab_df {lab_df}",
            allowed="concentration above 0; lab_df 0 or above 2",
        )
    if method not in (AUTO, SAMPLING, CLOSED):
        raise UsageError("no such method", got=method, allowed=f"{AUTO}, {SAMPLING}, {CLOSED}")
    laid_out = design(table, estimand, residualise=residualise)
    numbers(np.concatenate([laid_out.y, laid_out.average]), f"log {estimand}", varied=True)
    total_sd = SUMMED_TOTAL_SD if estimand in SUMMED else TOTAL_SD
    chosen = method if method != AUTO else CLOSED if laid_out.n_models > LARGE_STUDY else SAMPLING
    said = (*said_of(table), *laid_out.warnings, *(() if laid_out.sources else (NO_SOURCE,)))
    if chosen == CLOSED:
        if lab_df:
            raise UsageError("Student-t lab effects have no closed form", got=lab_df, allowed=f"method {SAMPLING}")
        said = (*said, "closed form of the models' means: the spread over prompts is normal, categories are averaged")
        draws = closed_form(laid_out, total_sd=total_sd, concentration=concentration, seed=seed, settings=settings)
    else:
        data = arrays(laid_out, total_sd=total_sd, concentration=concentration, lab_df=lab_df)
        draws = sampling.fit(heritage_model, data, seed=seed, settings=settings, cache=cache, progress=progress)
    return HeritageFit(
        design=laid_out,
        draws=draws,
        method=chosen,
        total_sd=total_sd,
        concentration=concentration,
        lab_df=lab_df,
        seed=seed,
        prior=prior_orders(laid_out, concentration=concentration, lab_df=lab_df, seed=seed),
        warnings=said,
    )
