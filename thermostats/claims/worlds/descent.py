"""Worlds in which log gains drift along labs and families, or are carried by one kind of kinship: with any errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from thermostats.claims.noise import ERRORS, Errors, Noise, Rng
from thermostats.claims.worlds.world import TOTAL, Signal, World


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


def worlds_of_carriers(
    carrier: str, signals: Mapping[str, Callable[[float], Signal]], claimed: float, strong: float
) -> tuple[World, ...]:
    """Worlds in which one carrier has a share λ of the variance, a rival has it, or nothing is carried.

    signals: of every carrier, by its share λ. A lab that lies off as a whole is carried by it, so errors of that kind
    are no world in which nothing is; tails of t₃ stand for those of t₄.
    """
    kinds = {kind: words for kind, words in ERRORS.items() if kind not in {"one outlying lab", "t4"}}
    carried, words = signals[carrier], "the {} carrying λ = {:g}, normal errors"
    rivals = [
        World(f"the {name} carries", words.format(name, strong), False, signals[name](strong), Errors())
        for name in signals
        if name != carrier
    ]
    return (
        World(
            "as claimed",
            f"the {carrier} carrying λ = {claimed:g}, normal errors",
            True,
            carried(claimed),
            Errors(),
            True,
        ),
        World("strong", f"the {carrier} carrying λ = {strong:g}, normal errors", True, carried(strong), Errors()),
        *rivals,
        *(World(kind, f"nothing carried, {words}", False, carried(0.0), Errors(kind)) for kind, words in kinds.items()),
    )
