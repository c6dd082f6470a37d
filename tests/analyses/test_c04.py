"""C04: which models support the order heritage > geometry > scale, and what is said of size."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, by_rules_alone, judged, shipped

from thermostats.claims.result import Estimate, Result

GAIN = "max_gain"


def made(n: int, by: dict[str, float], noise: float, seed: int) -> pd.DataFrame:
    """Comparable models of five labs whose log largest gain has known causes; `lab` is the number of the lab."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({name: rng.normal(size=n) for name in ("n_layers", "n_heads", "d_head", "n_params")}).map(
        np.exp
    )
    names = [f"m{i}" for i in range(n)]
    rows = rows.assign(model_id=names, n_params_nonembedding=rows["n_params"], comparable=True, lab=np.arange(n) % 5)
    rows["heritage"] = "lab" + rows["lab"].astype(str)
    log = sum(slope * (rows[name] if name == "lab" else np.log(rows[name])) for name, slope in by.items())
    return rows.assign(max_gain_to_penultimate=np.exp(log + noise * rng.normal(size=n)))


@pytest.mark.parametrize(
    ("n", "by", "noise", "verdict"),
    [(40, {"lab": 1.0, "n_layers": 0.9}, 0.05, YES), (30, {"n_layers": 0.3}, 0.01, NO), (30, {"lab": 0.3}, 0.01, OPEN)],
    ids=["lab, then shape", "shape alone", "lab alone: geometry and scale are alike"],
)
def test_the_order_follows_the_causes(n: int, by: dict[str, float], noise: float, verdict: str) -> None:
    c04 = by_rules_alone("c04")
    c04.gains = lambda _: made(n, by, noise, seed=4)
    found = judged(c04, shipped(), f"order.{GAIN}")[f"order.{GAIN}"]
    assert found.verdict == verdict and (found.estimate > 0) == ("lab" in by)


@pytest.mark.parametrize(("slope", "upper", "verdict"), [(0.5, 0.1, NO), (0.0, 0.1, OPEN), (0.0, 0.04, YES)])
def test_size_is_judged_by_its_p_and_by_its_share(slope: float, upper: float, verdict: str) -> None:
    share = Result(quantities={"scale": Estimate(0.0, -0.1, upper)})
    c04 = by_rules_alone("c04")
    c04.gains = lambda _: made(40, {"n_params": slope}, 0.3, seed=6)
    c04.by_shares = lambda *_: share
    found = judged(c04, shipped(), f"size.{GAIN}")[f"size.{GAIN}"]
    assert found.verdict == verdict and (found.probability <= 0.05) == (verdict == NO)


def test_the_published_models_speak_against_the_order_by_their_mean_gain_alone() -> None:
    c04 = by_rules_alone("c04")
    found = judged(c04, shipped(), "order.penultimate_gain", "order.geometric_gain")
    primary, other = found["order.penultimate_gain"], found["order.geometric_gain"]
    assert (primary.verdict, other.verdict) == (OPEN, NO)
    assert primary.table["what"].tolist() == [*c04.BLOCKS, c04.FIRST, c04.SECOND]
    assert "With all weights" in " ".join(primary.notes)
