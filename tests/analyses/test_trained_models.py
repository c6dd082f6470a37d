"""C06, C07 and C15 on models trained here: made-up tables of known truth, and what turns the verdicts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from simulated_norms import Trained

from thermostats.studies.nursery.plan import shipped_table

ROOT = Path(__file__).parents[2]
YES, NO, OPEN, UNMEASURED = "supported", "not supported", "inconclusive", "needs measurement"


def load(claim: str) -> ModuleType:
    (path,) = (ROOT / "analyses").glob(f"{claim}_*.py")
    name = f"trained_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.parametrize(
    ("loud", "cut", "verdicts"),
    [(1.0, 5.0, [NO, OPEN]), (100.0, 1.0, [YES, YES]), (1.0, 1.0, [NO, NO]), (3.0, 1.0, [NO, NO])],
)
def test_c06_asks_for_a_recipe_apart_from_all_others(loud: float, cut: float, verdicts: list[str]) -> None:
    """Norms 100 times as large are 10,000-fold in the square: more than the claim allows."""
    found = load("c06").trained(Trained(96, loud=loud, cut=cut))
    expected = [OPEN if v == YES else v for v in verdicts] if loud == 100.0 else verdicts
    assert [finding.verdict for finding in found] == expected


def test_c06_supports_a_recipe_some_three_hundred_times_the_others() -> None:
    models = pd.DataFrame({"heritage": ["a", "a", "b", "c"], "late": [300.0, 310.0, 1.0, 2.0]})
    c06 = load("c06")
    assert c06.verdict_of_recipes(c06.between_recipes(models, "late")) == YES


def attention(traces: float = 1.0) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Two heads of one model on one prompt of ten tokens: tr A = 2, ‖W_V‖_F = 3."""
    base = {"model_id": "m", "revision": "r", "heritage": "lab", "layer": 1, "prompt_id": "p", "prompt_set": "core"}
    heads = [base | {"head": h, "variant": "exact", "self_attention": 0.2, "trace": traces * 8.0 * 9.0} for h in "12"]
    total = [
        base | {"head": "", "variant": v, "trace": t}
        for v, t in (("exact", 144.0), ("first_head", 72.0), ("multi_head", 144.0), ("printed_factor", 0.0))
    ]
    weights = [base | {"matrix": "W_V", "head": h, "frobenius_norm": 3.0} for h in "12"]
    return pd.DataFrame(heads + total), pd.DataFrame(weights), pd.DataFrame([base | {"n_tokens": 10}])


@pytest.mark.parametrize(("traces", "verdict"), [(1.0, YES), (1.001, NO)])
def test_c07_holds_the_measured_trace_against_norms_and_lengths(traces: float, verdict: str) -> None:
    found = load("c07").of_models(*attention(traces), whose="made up", group="lab")
    assert found.verdict == verdict and found.estimate == pytest.approx(abs(traces - 1) * 0.8, abs=1e-12)
    assert found.table is not None
    assert found.table.loc[0, ["first_head", "multi_head", "printed_factor"]].tolist() == [0.5, 1.0, 0.0]


@pytest.mark.parametrize(
    ("slower", "verdict"), [((5, 400), YES), ((0.5, 400), OPEN), ((0.5, 0.9), NO), ((), UNMEASURED)]
)
def test_c07_time_is_judged_at_every_size(slower: tuple[float, ...], verdict: str) -> None:
    dense = pd.DataFrame({"n": range(len(slower)), "d": 2, "times_slower_when_built": slower})
    rates = pd.DataFrame({"exponent": ["alpha (n)"], "estimate": [2.0], "lower": [1.9], "upper": [2.1]})
    assert load("c07").cost(dense, rates)[0] == verdict


@pytest.mark.parametrize(("levels", "verdict"), [((0, 2, 1, 3, 1), YES), ((0, 3, 1), NO)])
def test_c15_counts_phases_at_the_end_and_before_training(
    levels: tuple[int, ...], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    c15 = load("c15")
    monkeypatch.setattr(c15, "fit_share", lambda *_, **__: None)
    monkeypatch.setattr(c15, "posterior_of", lambda *_, **__: None)
    monkeypatch.setattr(c15, "beside", lambda found, *_: found)
    found = c15.trained(Trained(96, levels=levels))
    deep = int((shipped_table()["n_layers"] >= 20).sum())
    assert found.verdict == verdict and found.n_models == deep and found.group == "recipe"
    assert f"before any training: 5 phases fit better than 3 in 0 of {deep}" in found.notes[0]


def test_without_models_everything_needs_measurement() -> None:
    empty = Trained(0)
    for claim, count in (("c06", 2),):
        assert [f.verdict for f in load(claim).trained(empty)] == [UNMEASURED] * count
