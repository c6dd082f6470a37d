"""Classical counterparts of the heritage model: against statsmodels, sums of R², parts of geometry
and scale."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.law import list_bases, measure_geometry_and_scale
from thermostats.modelling.heritage.simulated import simulate_facts, simulate_heritage
from thermostats.modelling.heritage.variance_shares import (
    build_model_frame,
    list_dominance,
    measure_commonality,
    run_block_tests,
)


@pytest.fixture(scope="module")
def fit() -> Fit:
    facts = simulate_facts(24, 6, np.random.default_rng(3))
    one = simulate_heritage(
        facts, shares={"heritage": 0.6, "geometry": 0.2, "scale": 0.1}, seed=3, n_prompts=10
    )
    return fit_heritage(one.table, estimand="simulated")


def formulas(fit: Fit) -> tuple[pd.DataFrame, dict[str, str]]:
    frame, blocks = build_model_frame(fit)
    terms = {name: " + ".join(columns) for name, columns in blocks.items()}
    return frame, terms | {"heritage": "C(heritage)"}


def test_block_tests_are_those_of_statsmodels(fit: Fit) -> None:
    frame, terms = formulas(fit)
    table = run_block_tests(fit, permutations=199).set_index(["method", "block"])
    full = smf.ols("log_gain ~ " + " + ".join(terms.values()), frame).fit()
    for block in terms:
        others = " + ".join(term for name, term in terms.items() if name != block)
        expected = anova_lm(smf.ols(f"log_gain ~ {others}", frame).fit(), full).iloc[1]
        row = table.loc[("partial F", block)]
        assert (row["statistic"], row["p_value"]) == pytest.approx(
            (expected["F"], expected["Pr(>F)"])
        ), block
        assert table.loc[("Freedman–Lane", block), "statistic"] == pytest.approx(expected["F"])
    shape = f"log_gain ~ {terms['geometry']} + {terms['scale']}"
    mixed = smf.mixedlm(shape, frame, groups=frame["heritage"]).fit()
    assert table.loc[("mixed model", "heritage"), "sd"] == pytest.approx(
        float(mixed.cov_re.iloc[0, 0]) ** 0.5, rel=0.01
    )
    assert (table["p_holm"].dropna() >= table["p_value"].dropna()).all()


def test_r_squared_adds_up(fit: Fit) -> None:
    frame, terms = formulas(fit)
    table = measure_commonality(fit)
    for given, base in (("nothing", "1"), ("heritage", terms["heritage"])):
        both = (
            smf.ols(f"log_gain ~ {base} + {terms['geometry']} + {terms['scale']}", frame)
            .fit()
            .rsquared
        )
        alone = smf.ols(f"log_gain ~ {base}", frame).fit().rsquared
        assert table.loc[table["given"] == given, "r_squared"].sum() == pytest.approx(both - alone)


def test_dominance_stands_beside_its_null(fit: Fit) -> None:
    table = list_dominance(fit)
    assert list(table["block"]) == ["heritage", "geometry", "scale"]
    assert list(table["df"]) == [5, 3, 1]
    assert table["null_mean"].is_monotonic_decreasing  # by size alone
    assert (table["null_upper"] > table["null_mean"]).all()
    assert sorted(table["rank"]) == [1, 2, 3]


def test_what_cannot_be_tested_says_why() -> None:
    """Five models in four labs leave no residual."""
    facts = simulate_facts(6, 4, np.random.default_rng(0)).assign(gain=np.exp(np.linspace(0, 1, 6)))
    fit = fit_heritage(facts, estimand="simulated")
    table = run_block_tests(fit, permutations=99)
    assert table["note"].str.startswith("not possible").sum() >= 6
    assert len(table) == 9
    assert "not possible" in list_dominance(fit)["note"][0]


def test_a_fit_without_labs_or_scale_says_what_is_not_possible() -> None:
    facts = simulate_facts(24, 6, np.random.default_rng(3)).assign(
        gain=np.exp(np.linspace(0, 0.3, 24))
    )
    fit = fit_heritage(facts, blocks={"depth": ["n_layers"], "heads": ["n_heads"]})
    table = run_block_tests(fit, permutations=99).set_index(["method", "block"])
    assert table.loc["mixed model", "note"].str.contains("there are no labs").all()
    assert table.loc[("partial F", "depth"), "df"] == 1
    assert "not possible" in measure_commonality(fit)["note"][0]


def test_parts_of_geometry_and_scale(fit: Fit) -> None:
    """A contribution of geometry that scale determines is nobody's alone; one orthogonal to scale
    is all geometry's."""
    bases = list_bases(fit.design)
    shared = 0.3 * bases["scale"][:, 0]

    def parts(geometry: np.ndarray) -> dict[str, np.ndarray]:
        return measure_geometry_and_scale(
            {"geometry": geometry[None, None], "scale": np.zeros((1, 1, 24))}, bases
        )

    found = parts(shared)
    assert found["sd_geometry_alone"].item() == pytest.approx(0, abs=1e-12)
    assert found["sd_geometry_and_scale"].item() == pytest.approx(shared.std())
    q, _ = np.linalg.qr(bases["scale"])
    free = bases["geometry"][:, 0] - q @ (q.T @ bases["geometry"][:, 0])
    assert parts(free)["sd_geometry_alone"].item() == pytest.approx(free.std())
