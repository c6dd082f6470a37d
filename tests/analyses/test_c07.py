"""C07: identities against the dense operator, time, and measured traces against norms and
lengths."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, analysis, verdict

from thermostats.claims.result import Result
from thermostats.measurement.sheaf import build_dense_operator


def test_dense_operator_is_the_kronecker_product() -> None:
    rng = np.random.default_rng(0)
    A = np.tril(rng.exponential(size=(1, 4, 4)))
    A /= A.sum(axis=2, keepdims=True)
    W = rng.normal(size=(1, 2, 3))
    w = (A[0] + A[0].T) / 2
    np.fill_diagonal(w, 0.0)
    assert np.allclose(
        build_dense_operator(A, W), np.kron(np.diag(w.sum(axis=1)) - w, W[0].T @ W[0])
    )


@pytest.mark.parametrize(
    ("slower", "said"), [((5, 400), YES), ((0.5, 400), OPEN), ((0.5, 0.9), NO), ((), UNMEASURED)]
)
def test_time_is_judged_at_every_size(slower: tuple[float, ...], said: str) -> None:
    sizes = pd.DataFrame({"times as long when built": slower}, dtype=float)
    assert verdict(analysis("c07"), "cost", Result(rows={"sizes": sizes})) == said


@pytest.mark.parametrize(("traces", "said"), [(1.0, YES), (1.001, NO)])
def test_the_measured_trace_is_held_against_norms_and_lengths(traces: float, said: str) -> None:
    """Two heads of one model on one prompt of ten tokens: tr A = 2, ‖W_V‖_F = 3."""
    base = {
        "model_id": "m",
        "revision": "r",
        "heritage": "lab",
        "layer": 1,
        "prompt_id": "p",
        "prompt_set": "core",
    }
    heads = [
        base | {"head": h, "variant": "exact", "self_attention": 0.2, "trace": traces * 8.0 * 9.0}
        for h in "12"
    ]
    ways = (("exact", 144.0), ("first_head", 72.0), ("multi_head", 144.0), ("printed_factor", 0.0))
    heads += [base | {"head": "", "variant": name, "trace": trace} for name, trace in ways]
    weights = pd.DataFrame(
        [base | {"matrix": "W_V", "head": h, "frobenius_norm": 3.0} for h in "12"]
    )
    result = analysis("c07").compare_traces(
        "made up", pd.DataFrame(heads), weights, pd.DataFrame([base | {"n_tokens": 10}])
    )
    assert verdict(analysis("c07"), "trace.measured", result) == said
    assert result.headline.value == pytest.approx(abs(traces - 1) * 0.8, abs=1e-12)
    assert result.table is not None
    assert result.table.loc[0, ["first_head", "multi_head", "printed_factor"]].tolist() == [
        0.5,
        1.0,
        0.0,
    ]
