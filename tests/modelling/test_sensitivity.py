import numpy as np
from test_gaussian import some_lines

from thermostats.modelling.gaussian import posterior
from thermostats.modelling.sensitivity import alternatives, sensitivity


def test_every_alternative_is_a_refit_of_its_own():
    lines = some_lines(1, n=13, groups=5)
    named = alternatives(lines)
    assert set(named) == {
        "as stated", "half the prior scales", "twice the prior scales", "outcomes taken as exact", "no effects of labs",
    }  # fmt: skip
    table = sensitivity(lines, {"slope": lambda p: p.beta[:, 1]}, seed=1).set_index("alternative")
    wide = posterior(named["twice the prior scales"], seed=1).beta[:, 1]
    assert table.loc["twice the prior scales", "median"] == np.median(wide)
    narrow, stated, wide_sd = (
        table.loc[n, "upper"] - table.loc[n, "lower"]
        for n in ("half the prior scales", "as stated", "twice the prior scales")
    )
    assert narrow < wide_sd
    assert narrow < 1.1 * stated


def test_labs_of_one_model_are_left_out_where_there_are_some():
    lines = some_lines(2, n=11, groups=10)
    assert alternatives(lines)["without labs of one model"].y.size == 2
