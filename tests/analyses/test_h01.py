"""H01: models of labs and families that are alike, models that are not, and labs that only differ in spread."""

from __future__ import annotations

import numpy as np
import pandas as pd
from altered import NO, OPEN, YES, analysis
from scipy import stats

from thermostats.modelling.heritability import by_flipped_signs, heritability, labs_and_families


def models(n_labs: int = 10, each: int = 6, lam: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Models of labs with two families each; a share `lam` of the variance drifts along labs and families."""
    rng = np.random.default_rng(seed)
    lab = np.repeat(np.arange(n_labs), each)
    rows = pd.DataFrame(
        {
            "model_id": [f"m{i}" for i in range(lab.size)],
            "heritage": [f"lab{i}" for i in lab],
            "family": [f"f{i}" for i in 2 * lab + np.tile(np.arange(each) % 2, n_labs)],
            **{name: rng.normal(size=lab.size) for name in ("log_L", "log_H", "log_d_h", "log_n")},
        }
    )
    root = np.linalg.cholesky((1 - lam) * np.eye(lab.size) + lam * labs_and_families(rows))
    return rows.assign(log_gain=0.2 * root @ rng.standard_normal(lab.size), lab=lab)


def verdict(rows: pd.DataFrame) -> str:
    h01 = analysis("h01")
    return str(h01.HERITABLE.verdict(h01.descent(rows)))


def test_the_rule_on_models_that_are_alike_and_on_models_that_are_not() -> None:
    assert verdict(models(20, lam=0.9)) == YES
    assert verdict(models(20, lam=0.0)) == NO
    assert verdict(models(3, each=4, lam=0.5)) == OPEN


def test_shape_that_goes_with_the_lab_is_no_descent() -> None:
    rows = models(20, seed=1)
    rng = np.random.default_rng(5)
    rows["log_L"] = rng.normal(size=20)[rows["lab"]]
    rows["log_gain"] += 0.5 * rows["log_L"]
    assert heritability(rows, ()).p_value < 0.001
    assert verdict(rows) != YES


def test_families_and_labs_share_a_third_each() -> None:
    rows = models(2, each=4).assign(family=["a", "a", "b", "", "c", "c", "c", "c"])
    k = 3 * labs_and_families(rows)
    assert k[0].tolist() == [3, 2, 1, 1, 0, 0, 0, 0] and k[4].tolist() == [0, 0, 0, 0, 3, 2, 2, 2]


def test_flipped_signs_keep_their_level_where_labs_differ_in_spread_and_the_likelihood_does_not() -> None:
    rows = models(12, each=2)
    rows = pd.concat([rows, models(3, each=8).assign(heritage=lambda t: "big " + t["heritage"])], ignore_index=True)
    x, k = np.ones((len(rows), 1)), labs_and_families(rows)
    spread = np.where(rows["heritage"].str.startswith("big"), 1.0, 3.0)
    rng = np.random.default_rng(1)
    p = [by_flipped_signs(spread * rng.standard_normal(len(rows)), x, k, flips=200) for _ in range(400)]
    false = int((np.array(p) <= 0.05).sum())
    assert stats.binom.sf(false - 1, 400, 0.05) > 0.001
