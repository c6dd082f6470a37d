"""Worlds in which log gains drift along labs and families: with any errors."""

from __future__ import annotations

from functools import partial

import pandas as pd

from thermostats.claims.noise import ERRORS, Errors, Noise, Rng
from thermostats.claims.worlds.world import TOTAL, World


def worlds_of_descent(outcome: str, claimed: float, weak: float) -> tuple[World, ...]:
    """Log gains of which a share λ drifts along labs and families, as claimed or weakly, or nothing; every error.

    A lab that lies off as a whole is descent, so errors of that kind are no world without it.
    """
    at = partial(partial, _of_descent, outcome)
    kinds = {kind: words for kind, words in ERRORS.items() if kind != "one outlying lab"}
    return (
        World("as claimed", f"λ = {claimed:g}, normal errors", True, at(claimed), Errors(), True),
        World("weak descent", f"λ = {weak:g}, normal errors", True, at(weak), Errors()),
        *(World(kind, f"no descent, {words}", False, at(0.0), Errors(kind)) for kind, words in kinds.items()),
    )


def _of_descent(outcome: str, lam: float, rows: pd.DataFrame, noise: Noise, rng: Rng) -> pd.DataFrame:
    lab = rows["heritage"].astype(str)
    family = lab + " / " + rows["family"].astype(str).where(rows["family"].astype(str) != "", rows["model_id"])
    steps = [rng.standard_normal(codes.max() + 1)[codes] for codes in (pd.factorize(x)[0] for x in (lab, family))]
    drift = (steps[0] + steps[1] + rng.standard_normal(len(rows))) / 3**0.5
    return rows.assign(**{outcome: TOTAL * (lam**0.5 * drift + (1 - lam) ** 0.5 * noise(rows))})
