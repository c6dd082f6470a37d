"""C19: each explanation turns with its own numbers, and the whole with its parts."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, of, scaled, shipped

from thermostats.claims.result import Audit
from thermostats.studies.delia2026 import anomalies


@pytest.mark.parametrize(
    ("name", "change", "verdict"),
    [
        ("llama", {"layers": scaled(of("Llama-3.1-8B", "thermo"), 0.5)}, YES),
        ("layer_norm", {"layers": scaled(of("", "gpt2_layernorm"), 0.5)}, YES),
        ("parallel_block", {"layers": scaled(of("gpt-j-6b", "gptj"), 0.5)}, YES),
        ("silent_exit", {"layers": scaled(of("Mistral-7B-v0.1", "thermo"), 2.0)}, NO),
        ("opt", {"attention": scaled(of("opt-125m", "H4_v2"), 30.0, "trace")}, NO),
        ("unembedding", {}, OPEN),
    ],
)
def test_an_explanation_turns_with_its_numbers(name: str, change: dict, verdict: str) -> None:
    assert judged(by_rules_alone("c19"), altered(**change), name)[name].verdict == verdict


@pytest.mark.parametrize(("slope", "verdict"), [(-0.5, YES), (0.5, NO)])
def test_a_correlation_decides_where_there_are_models_enough(
    slope: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    norm, noise = np.exp(np.linspace(0, 3, 12)), 0.05 * np.random.default_rng(0).normal(size=12)
    table = pd.DataFrame(
        {"model_id": [f"lab{k % 4}/model{k}" for k in range(12)], "spectral_norm": norm}
    )
    table = table.assign(
        heritage=table["model_id"].str.split("/").str[0], gain_stated=np.exp(noise) * norm**slope
    )
    table = table.assign(last_gain_measured=1.0, effective_amplification=1.0).set_index("model_id")
    monkeypatch.setattr(anomalies, "collect_unembeddings", lambda *_: table)
    monkeypatch.setattr(anomalies, "check_projector", lambda *_: Audit())
    found = judged(analysis("c19"), shipped(), "unembedding")["unembedding"]
    assert found.posterior is None and found.verdict == verdict
