import numpy as np
import pandas as pd
import pytest

from thermostats.measurement import sheaf as transitions
from thermostats.tables.store import validate


def curve(*values):
    return np.array(values, dtype=float)


def test_first_sign_change_is_the_first_top():
    assert transitions.find_sign_change(curve(1, 3, 2, 9, 1)) == 2
    assert transitions.find_sign_change(curve(5, 1, 2, 8, 3)) == 4
    assert transitions.find_sign_change(curve(1, 4, 4, 4, 2)) == 2
    assert transitions.find_sign_change(curve(1, 2, 3)) is None
    assert transitions.find_sign_change(curve(3, 2, 1)) is None
    assert transitions.find_sign_change(curve(3, 2, 5)) is None


def attention_rows(traces, **more):
    rows = pd.DataFrame({"layer": range(1, len(traces) + 1), "trace": traces, **more})
    for label, value in {
        "head": "",
        "prompt_id": "p",
        "variant": "exact",
        "laplacian_min": 1.0,
        "graph_lambda2": 1.0,
        "contraction_ratio": 1.0,
    }.items():
        if label not in rows:
            rows[label] = value
    return rows


def by_definition(table):
    return {
        (r.prompt_id, r.definition, r.trace_variant): (r.layer, r.relative_depth, r.missing)
        for r in table.itertuples()
    }


def test_every_definition_of_a_known_curve():
    rows = attention_rows(
        [1.0, 6.0, 5.0, 8.0],
        laplacian_min=[0.1, 0.4, 0.2, 0.3],
        graph_lambda2=[1, 2, 3, 0],
        contraction_ratio=[4, 3, 2, 9],
    )
    layers = by_definition(
        validate(transitions.find_transitions(rows).assign(run_id="r"), "transitions")
    )
    assert layers == {
        ("p", "max_abs_gradient", "exact"): (1, 0.25, ""),
        ("p", "first_sign_change", "exact"): (2, 0.5, ""),
        ("p", "peak", "exact"): (4, 1.0, ""),
        ("p", "max_spectral_gap", "spectral_gap"): (2, 0.5, ""),
        ("p", "max_lambda2", "lambda2"): (3, 0.75, ""),
        ("p", "minimum", "contraction_ratio"): (3, 0.75, ""),
    }


def test_prompts_and_variants_are_kept_apart_and_heads_are_left_out():
    first, second = (
        attention_rows([1.0, 2.0, 1.0]),
        attention_rows([1.0, 2.0, 3.0]).assign(prompt_id="q", variant="multi_head"),
    )
    heads = attention_rows([9.0, 0.0, 0.0]).assign(head="1")
    layers = by_definition(transitions.find_transitions(pd.concat([second, heads, first])))
    assert layers["p", "peak", "exact"][0] == 2
    assert layers["q", "peak", "multi_head"][0] == 3
    assert ("q", "max_lambda2", "lambda2") not in layers


@pytest.mark.parametrize(
    ("rows", "definition", "reason"),
    [
        (attention_rows([1.0, 2.0, 3.0]), "first_sign_change", transitions.UNTURNED),
        (attention_rows([1.0, float("nan"), 3.0]), "peak", transitions.INCOMPLETE),
        (attention_rows([1.0, 2.0, 3.0]).iloc[[0, 2]], "peak", transitions.INCOMPLETE),
        (attention_rows([1.0]), "max_abs_gradient", transitions.SHORT),
    ],
)
def test_what_cannot_be_found_is_missing_with_its_reason(rows, definition, reason):
    layer, depth, missing = by_definition(transitions.find_transitions(rows))[
        "p", definition, "exact"
    ]
    assert np.isnan(layer) and np.isnan(depth) and missing == reason


def test_gradient_is_central_inside_and_one_sided_at_the_ends():
    assert (
        transitions.find_max_gradient(curve(0, 0, 1, 5, 5.5)) == 3
    )  # (5 - 0)/2 at layer 3; (5.5 - 1)/2 at layer 4
    assert transitions.find_max_gradient(curve(9, 0, 0, 0)) == 1
    assert transitions.find_max_gradient(curve(0, 0, 0, -9)) == 4
    assert (
        transitions.find_max_gradient(curve(*np.tanh(np.linspace(-3, 4, 15)))) == 7
    )  # steepest where tanh crosses 0: x = 0


def test_peak_and_minimum_take_the_first_of_equals():
    assert transitions.find_peak(curve(1, 7, 7)) == 2
    assert transitions.find_minimum(curve(4, 1, 1)) == 2


def test_no_rows_give_an_empty_table():
    assert validate(
        transitions.find_transitions(attention_rows([])).assign(run_id=[]), "transitions"
    ).empty
