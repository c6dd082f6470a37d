"""Against the operator itself: the dense n·d × n·d sheaf Laplacian built from its restriction
maps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thermostats.measurement import sheaf
from thermostats.tables.schemas import TABLES
from thermostats.tables.store import validate


def softmax_attention(rng, heads, n, *, sink=0.0, causal=True):
    scores = np.exp(rng.standard_normal((heads, n, n)))
    scores = np.tril(scores) if causal else scores
    return (1 - sink) * scores / scores.sum(axis=2, keepdims=True)


def smallest_nonzero(eigenvalues):
    return eigenvalues[eigenvalues > 1e-9 * eigenvalues[-1]][0]


def rows_by_head(rows, variant="exact"):
    return {row["head"]: row for row in rows if row["variant"] == variant}


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 6),
    d_h=st.integers(1, 3),
    sink=st.sampled_from([0.0, 0.3]),
    causal=st.booleans(),
)
def test_head_measures_are_those_of_the_dense_operator(seed, n, d_h, sink, causal):
    rng = np.random.default_rng(seed)
    heads, d = 2, 5
    A, W = (
        softmax_attention(rng, heads, n, sink=sink, causal=causal),
        rng.standard_normal((heads, d_h, d)),
    )
    measured = sheaf.measure_heads(A, sheaf.measure_value_spectra(W))
    for h in range(heads):
        L = sheaf.build_dense_operator(A[h : h + 1], W[h : h + 1])
        eigenvalues = np.linalg.eigvalsh(L)
        scale = eigenvalues[-1]
        assert measured["trace"][h] == pytest.approx(np.trace(L), rel=1e-10)
        assert measured["laplacian_max"][h] == pytest.approx(scale, rel=1e-10)
        assert measured["laplacian_min"][h] == pytest.approx(
            smallest_nonzero(eigenvalues), rel=1e-6, abs=1e-10 * scale
        )


def test_heads_are_blocks_of_one_operator():
    rng = np.random.default_rng(0)
    A, W = softmax_attention(rng, 3, 4), rng.standard_normal((3, 2, 4))
    spectra = sheaf.measure_value_spectra(W)
    rows = rows_by_head(sheaf.build_attention_rows(A, spectra, spectra, layer=1, prompt_id="a"))
    total = sheaf.build_dense_operator(A, W)
    eigenvalues = np.linalg.eigvalsh(total)
    assert rows[""]["trace"] == pytest.approx(np.trace(total), rel=1e-10)
    assert rows[""]["trace"] == pytest.approx(
        sum(rows[str(h)]["trace"] for h in (1, 2, 3)), rel=1e-14
    )
    assert rows[""]["laplacian_max"] == pytest.approx(eigenvalues[-1], rel=1e-10)
    assert rows[""]["laplacian_min"] == pytest.approx(smallest_nonzero(eigenvalues), rel=1e-9)


def test_uniform_attention_over_two_tokens_by_hand():
    A = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    W = np.diag([3.0, 4.0])[None]
    measured = {
        name: value[0]
        for name, value in sheaf.measure_heads(A, sheaf.measure_value_spectra(W)).items()
    }
    # w = 1/4, L_G = [[1, -1], [-1, 1]]/4 with eigenvalues 0 and 1/2; squared singular values 9 and
    # 16
    assert measured == pytest.approx(
        {
            "trace": 0.5 * 25,
            "self_attention": 0.75,
            "graph_lambda2": 0.5,
            "laplacian_min": 4.5,
            "laplacian_max": 8.0,
            "entropy": np.log(2) / 2,
            "distance": 0.25,
            "operator_norm": 4 * np.sqrt(0.5),
            "contraction_ratio": np.sqrt(0.5),
        },
        rel=1e-14,
    )


def test_published_variants_by_name():
    rng = np.random.default_rng(3)
    A, W = softmax_attention(rng, 2, 5), rng.standard_normal((2, 3, 4))
    spectra, other = sheaf.measure_value_spectra(W), sheaf.measure_value_spectra(2 * W)
    rows = {
        r["variant"]: r["trace"]
        for r in sheaf.build_attention_rows(A, spectra, other, layer=1, prompt_id="a")
        if r["head"] == ""
    }
    frobenius = np.linalg.norm(W, axis=(1, 2)) ** 2
    assert rows["multi_head"] == pytest.approx(4 * rows["exact"], rel=1e-12)
    assert rows["first_head"] == pytest.approx(
        4 * (5 - np.trace(A.mean(axis=0))) * frobenius[0], rel=1e-12
    )
    assert rows["printed_factor"] == pytest.approx(0, abs=1e-12)
    sinks = sheaf.measure_printed_trace(0.5 * A, spectra)
    assert sinks == pytest.approx(-2.5 * frobenius.sum(), rel=1e-12)
    assert sheaf.build_proxy_row(4, 3.0)["trace"] == 9.0


def test_rows_are_a_table():
    rng = np.random.default_rng(5)
    spectra = sheaf.measure_value_spectra(rng.standard_normal((2, 3, 4)))
    rows = sheaf.build_attention_rows(
        softmax_attention(rng, 2, 4), spectra, spectra, layer=3, prompt_id="a"
    )
    rows += sheaf.build_attention_rows(
        np.ones((2, 1, 1)), spectra, spectra, layer=3, prompt_id="one token"
    )
    rows += sheaf.build_attention_rows(
        np.full((2, 3, 3), np.nan), spectra, spectra, layer=3, prompt_id="overflow"
    )
    rows.append(sheaf.build_proxy_row(3, 2.0))
    table = validate(pd.DataFrame(rows).assign(run_id="r"), "attention")
    assert list(table.columns) == list(TABLES["attention"].columns)
    one_token = table[(table["prompt_id"] == "one token") & (table["variant"] == "exact")]
    assert (
        (one_token["trace"] == 0).all()
        and one_token["graph_lambda2"].isna().all()
        and (one_token["missing"] == sheaf.ONE_TOKEN).all()
    )
    overflow = table[table["prompt_id"] == "overflow"]
    assert overflow["trace"].isna().all() and (overflow["missing"] == sheaf.NOT_FINITE).all()
    assert overflow["head"].tolist() == ["", "1", "2"] and set(overflow["variant"]) == {"exact"}


def test_uniform_causal_attention_in_closed_form():
    n = 7
    A = np.tril(np.ones((1, n, n))) / np.arange(1, n + 1)[None, :, None]
    measured = sheaf.measure_heads(A, sheaf.measure_value_spectra(np.eye(3)[None]))
    rows = np.arange(1, n + 1)
    assert measured["entropy"][0] == pytest.approx(np.log(rows).mean(), rel=1e-13)
    assert measured["distance"][0] == pytest.approx(((rows - 1) / 2).mean(), rel=1e-13)
    assert measured["self_attention"][0] == pytest.approx((1 / rows).mean(), rel=1e-13)
    assert measured["trace"][0] == pytest.approx(3 * (n - (1 / rows).sum()), rel=1e-13)


def test_attention_to_the_first_token_alone_is_a_star():
    n = 6
    A = np.zeros((1, n, n))
    A[0, :, 0] = 1
    measured = sheaf.measure_heads(A, sheaf.measure_value_spectra(np.eye(2)[None]))
    assert measured["graph_lambda2"][0] == pytest.approx(1 / 2, rel=1e-13)
    assert measured["laplacian_max"][0] == pytest.approx(n / 2, rel=1e-13)
    assert measured["contraction_ratio"][0] == pytest.approx((n - 1) / (n * (n - 1) / 2), rel=1e-13)


def test_attention_to_oneself_alone_has_no_nonzero_eigenvalue():
    measured = sheaf.measure_heads(np.eye(4)[None], sheaf.measure_value_spectra(np.eye(2)[None]))
    assert measured["trace"][0] == measured["graph_lambda2"][0] == measured["laplacian_max"][0] == 0
    assert np.isnan(measured["laplacian_min"][0])


def test_rank_deficient_values_do_not_turn_rounding_into_eigenvalues():
    rng = np.random.default_rng(1)
    W = np.outer(rng.standard_normal(4), rng.standard_normal(6))[None].astype(np.float32)
    spectra = sheaf.measure_value_spectra(W)
    assert np.count_nonzero(spectra.squared) == 1
    assert spectra.spectral[0] == pytest.approx(np.linalg.norm(W[0].astype(float)), rel=1e-12)
    wider_than_the_stream = sheaf.measure_value_spectra(rng.standard_normal((3, 300, 2)))
    assert np.count_nonzero(wider_than_the_stream.squared, axis=1).tolist() == [2, 2, 2]
