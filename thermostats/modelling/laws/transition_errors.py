"""How far rules miss the transition layer: every prediction beside L*, and errors of depth against those of L/2."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.modelling.inference.draws import LEVEL, Array, equal_tailed


def compared(
    frame: pd.DataFrame, star: Array, L: Array, drawn: dict[str, Array], fixed: dict[str, Array]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Predictions of every rule beside L*, a row a network, and their errors, a row a rule, the best first.

    `drawn`: predictive draws by rule, draws × networks, of rules that were fitted; `fixed`: layers by rule, networks.
    """
    models, errors = frame[["model_id", "heritage", "n_layers", "n_heads", "L_star"]].copy(), []
    half = np.abs(L / 2 - star) / L
    for name, predicted in fixed.items():
        models[name] = predicted
        errors.append(
            {"rule": name, "fitted": False, **_errors(predicted, star, L), **_gained(predicted, star, L, half)}
        )
    for name, values in drawn.items():
        low, high = equal_tailed(values)
        found = np.median(values, axis=0)
        models[name], models[f"{name}_lower"], models[f"{name}_upper"] = found, low, high
        spread = {
            "coverage": ((low <= star) & (star <= high)).mean(),
            "width_of_depth": ((high - low) / L).mean(),
            "interval_inside": ((low >= 0.5) & (high <= L + 0.5)).mean(),
        }
        errors.append(
            {"rule": name, "fitted": True, **_errors(found, star, L), **_gained(found, star, L, half), **spread}
        )
    return models, pd.DataFrame(errors).sort_values("error_of_depth", ignore_index=True)


def _errors(predicted: Array, star: Array, L: Array) -> dict[str, float]:
    off = np.abs(predicted - star)
    inside = (predicted >= 0.5) & (predicted <= L + 0.5)
    return {
        "error_of_depth": float((off / L).mean()),
        "mape": float((off / star).mean()),
        "inside": float(inside.mean()),
    }


def _gained(predicted: Array, star: Array, L: Array, half: Array) -> dict[str, float]:
    """Error of depth of L/2 less that of the rule, paired by network, with its t interval."""
    gained = half - np.abs(predicted - star) / L
    reach = stats.t.ppf((1 + LEVEL) / 2, gained.size - 1) * gained.std(ddof=1) / gained.size**0.5
    return {
        "better_than_half": float(gained.mean()),
        "better_than_half_lower": float(gained.mean() - reach),
        "better_than_half_upper": float(gained.mean() + reach),
    }
