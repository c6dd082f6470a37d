"""C09: the verdict follows the errors, and the figures that the study prints."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone, shipped

from thermostats.claims.result import Result
from thermostats.studies.delia2026.stated_facts import H4_EXTENDED
from thermostats.studies.delia2026.transition_layers import find_all_head_transitions

c09 = by_rules_alone("c09")
ACROSS = [question.name for question in c09.CLAIM.questions].index("across_labs")


def made(formula: float, half: float) -> pd.DataFrame:
    """Six models of two labs whose L* lie around the middle, with errors around the given ones."""
    noise = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 0.5])
    rows = pd.DataFrame(
        {"heritage": ["one", "other"] * 3, "layer": [9.0, 11.0, 12.0, 8.0, 10.0, 13.0]}
    )
    rows = rows.assign(
        model_id=[f"lab/m{i}" for i in rows.index], n_layers=20.0, formula=10.0, half=10.0
    )
    return rows.assign(error_formula=formula + noise, error_half=half - noise)


@pytest.mark.parametrize(
    ("formula", "half", "verdict"), [(3.0, 20.0, YES), (20.0, 3.0, NO), (10.0, 10.0, OPEN)]
)
def test_verdict_follows_the_errors(formula: float, half: float, verdict: str) -> None:
    result = c09.compare_errors(made(formula, half))
    assert c09.NEARER.verdict(result) == verdict
    assert (result.n_models, result.n_groups) == (6, 2)
    assert c09.list_decisive_models(made(formula, half)) == []


@pytest.mark.parametrize(("off", "verdict"), [(0.0, NO), (12.0, YES)])
def test_across_labs_the_formula_is_held_against_the_mean_fraction(
    monkeypatch: pytest.MonkeyPatch, off: float, verdict: str
) -> None:
    star = np.array([9.0, 11.0, 12.0, 8.0, 10.0, 13.0])
    models = pd.DataFrame(
        {"L_star": star, "n_layers": 20.0, "logit": star, "heritage": ["one", "other"] * 3}
    )
    models["model_id"] = [f"m{i}" for i in models.index]
    models = models.assign(
        **{"mean fraction": star + off, "published formula": star + np.linspace(2, 3, 6)}
    )

    slopes = {"slope_n_layers": np.array([[1.0, 1.0]]), "slope_n_heads": np.array([[-1.0, 1.0]])}
    tables = dict.fromkeys(c09.TABLES, models)
    fit = SimpleNamespace(quantities=slopes, table=tables.get)
    monkeypatch.setattr(c09, "fit_transition", lambda *_, **__: fit)
    result: Result = c09.judge_labs(altered())
    assert c09.CLAIM.questions[ACROSS].primary.verdict(result) == verdict
    assert result.words["shape"] == 0.5 and result.words["errors"]["logit"] == 0
    assert (result.n_models, result.n_groups) == (6, 2)


def test_models_out_of_the_studys_scope_are_left_out_beside_the_printed_comparison() -> None:
    """Figure 5 without BLOOM-560m, whose position scheme is ALiBi: 13.3% of depth against 17.7% for
    L/2, by hand."""
    rows = c09.select_definition(
        shipped(), next(one for one in c09.DEFINITIONS if one.id == "figure_5")
    )
    scope = c09.compare_scoped_errors(rows)
    assert [name.split("/")[1] for name in scope["out"]] == ["bloom-560m"] and scope["n"] == len(
        rows
    ) - 1 == 5
    assert (scope["formula"], scope["half"]) == pytest.approx((13.3, 17.7), abs=0.05)
    inside = rows[~rows["model_id"].str.contains("bloom")]
    half = 100 * (inside["n_layers"] / 2 - inside["layer"]).abs() / inside["n_layers"]
    assert scope["half"] == pytest.approx(half.mean())
    assert c09.compare_scoped_errors(inside) == {}


def test_steepest_change_is_found_as_in_the_files() -> None:
    """Where the files took all heads, the layer found here is the published one."""
    tables = shipped()
    published = tables.table(
        "transitions", source=H4_EXTENDED, definition="max_abs_gradient"
    ).dropna(subset="layer")
    found = find_all_head_transitions(tables).set_index("model_id")["layer"]
    assert len(published) == 3
    assert (published.set_index("model_id")["layer"] - 1 == found[published["model_id"]]).all()
