"""What exact refits of a line say under other priors, and without what a reader may doubt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.modelling.draws import Array, equal_tailed
from thermostats.modelling.gaussian import Lines, Posterior, posterior

FACTORS = {"half the prior scales": 0.5, "twice the prior scales": 2.0}


def alternatives(lines: Lines) -> dict[str, Lines]:
    """The same rows under other priors, with exact outcomes, without group effects, without groups of one row."""
    found = {"as stated": lines} | {
        name: replace(
            lines, sd=lines.sd * f, sigma_scale=lines.sigma_scale * f, tau_scale=lines.tau_scale * f
        )
        for name, f in FACTORS.items()
    }  # fmt: skip
    if lines.error.any():
        found["outcomes taken as exact"] = replace(lines, error=np.zeros(lines.y.size))
    if lines.n_groups:
        found["no effects of labs"] = replace(lines, n_groups=0)
        kept = np.bincount(lines.groups)[lines.groups] > 1
        if not kept.all() and kept.sum() >= 2:
            found["without labs of one model"] = lines.rows(kept)
    return found


def sensitivity(lines: Lines, quantities: Mapping[str, Callable[[Posterior], Array]], *, seed: int) -> pd.DataFrame:
    """One row an alternative and quantity: P(quantity > 0), median and interval, all by exact refits."""
    rows = []
    for name, other in alternatives(lines).items():
        found = posterior(other, seed=seed)
        for quantity, of in quantities.items():
            drawn = of(found)
            low, high = equal_tailed(drawn)
            rows.append(
                {
                    "alternative": name,
                    "quantity": quantity,
                    "P(> 0)": float((drawn > 0).mean()),
                    "median": float(np.median(drawn)),
                    "lower": float(low),
                    "upper": float(high),
                    "n": other.y.size,
                }
            )
    return pd.DataFrame(rows)
