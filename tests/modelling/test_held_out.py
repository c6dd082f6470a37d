from dataclasses import replace

import numpy as np
import pytest
from test_quadrature import some_lines

from thermostats.errors import UsageError
from thermostats.modelling.inference.held_out import compare, few_folds, held_out, mixture, rival
from thermostats.modelling.inference.quadrature import log_evidence


def test_elpd_is_the_sum_of_exact_refits():
    lines = some_lines(1, n=12, groups=3)
    folds = lines.groups.astype(str).tolist()
    table = compare({"a": rival(lines), "b": rival(some_lines(1, n=12, groups=0))}, {"lab": folds}).set_index("rival")
    rests = [log_evidence(lines.rows(lines.groups != g)) for g in range(3)]
    assert table.loc["a", "elpd_lab"] == pytest.approx(3 * log_evidence(lines) - sum(rests), abs=1e-8)
    assert table["probability"].sum() == pytest.approx(1)
    assert table["difference_lab"].max() == 0


def test_a_mixture_of_one_model_with_itself_is_that_model():
    lines = some_lines(2, n=12, groups=3)
    twice = mixture([lines, lines], np.array([0.2, 0.8]))
    table = compare({"once": rival(lines), "twice": twice}, {"row": [str(i) for i in range(12)]}).set_index("rival")
    assert table.loc["once", "log_evidence"] == pytest.approx(log_evidence(lines))
    assert table.loc["twice", "elpd_row"] == pytest.approx(table.loc["once", "elpd_row"])


def test_the_true_model_wins():
    lines = some_lines(3, n=30, groups=0, truth={"b": 0.5})
    without = replace(lines, X=lines.X[:, :1], mean=lines.mean[:1], sd=lines.sd[:1])
    table = compare({"slope": rival(lines), "none": rival(without)}, {"row": [str(i) for i in range(30)]})
    assert table["rival"].iloc[0] == "slope"
    assert table.set_index("rival").loc["none", "difference_row"] < -5


def test_one_fold_is_refused():
    lines, one = some_lines(1), ["x"] * 18
    with pytest.raises(UsageError, match="nothing to leave out"):
        compare({"a": rival(lines)}, {"lab": one})
    with pytest.raises(UsageError, match="nothing to leave out"):
        held_out(lines, one, seed=1)


def test_many_labs_are_left_out_in_groups_and_no_lab_is_parted():
    said: list[str] = []
    labs = [f"lab{i % 150}" for i in range(400)]
    folds = few_folds(labs, "labs", said)
    assert len(set(folds)) == 20
    assert len({(lab, fold) for lab, fold in zip(labs, folds, strict=True)}) == 150
    assert "150 labs" in said[0]
    assert few_folds(labs[:30], "labs") == labs[:30]
