"""C05, C06, C07 and C15 on models trained here: made-up tables of known truth, and what turns the verdicts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery.plan import shipped_table
from thermostats.tables.vocabulary import NURSERY

ROOT = Path(__file__).parents[2]
YES, NO, OPEN, UNMEASURED = "supported", "not supported", "inconclusive", "needs measurement"
LAST, START = "step00600", "step00000"


def load(claim: str) -> ModuleType:
    (path,) = (ROOT / "analyses").glob(f"{claim}_*.py")
    name = f"trained_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class Trained(Evidence):
    """The shipped tables with trained models of the design whose norms, gains and curves are made up.

    elasticity: of the gain by ‖W_V‖/‖W_O‖. cut: factor by which the published slicing changes W_V in GPT-2's layout.
    loud: factor of the norms of the first recipe's models. levels: of the anisotropy, at the end of training.
    """

    def __init__(
        self,
        models: int,
        *,
        elasticity: float = 0.0,
        cut: float = 5.0,
        loud: float = 1.0,
        levels: tuple[int, ...] = (0,),
    ) -> None:
        super().__init__(ROOT / "data")
        rng = np.random.default_rng(4)
        design = shipped_table().sort_values(["n_layers", "model"], ascending=[False, True]).head(max(models, 1))
        self.records = pd.DataFrame(
            {"model": design["model"], "parent": "", "steps": 600, "loss": 4.0, "loss_unigram": 5.0, "learned": True}
        )
        gains, weights, layers = [], [], []
        for row in design.itertuples():
            base = {"model_id": f"{NURSERY}/{row.model}", "source": NURSERY, "heritage": NURSERY, "run_id": row.model}
            scale = float(np.exp(rng.normal(0, 0.3))) * (loud if row.recipe == design["recipe"].iloc[0] else 1.0)
            gain = scale**elasticity * float(np.exp(rng.normal(0, 0.02)))
            gains.append(
                base
                | {
                    "revision": LAST,
                    "comparable": row.norm != "post",
                    "penultimate_gain": gain,
                    "prompt_set": NURSERY,
                    "penultimate_gain_geometric": gain,
                    "penultimate_gain_sd": 0.02,
                    "penultimate_gain_n": 12,
                    "n_params_nonembedding": 1000,
                }
            )
            thirds = [("W_V_published_thirds", scale * cut)] if row.model_type == "gpt2" else []
            for layer in range(1, row.n_layers + 1):
                at = {"layer": layer, "head": "", "revision": LAST}
                weights += [
                    base | at | {"matrix": m, "spectral_norm": v} for m, v in [("W_V", scale), ("W_O", 1.0), *thirds]
                ]
                level = levels[(layer - 1) * len(levels) // row.n_layers] / 5
                layers += [
                    base | {"layer": layer, "revision": step, "anisotropy": by * level + 0.01 * rng.normal()}
                    for step, by in ((LAST, 1), (START, 0))
                ]
        made = {"features": pd.DataFrame(gains), "weights": pd.DataFrame(weights), "layers": pd.DataFrame(layers)}
        self.made = {name: frame if models else frame.iloc[:0] for name, frame in made.items()}

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        if name == "nursery_training":
            return self.records.copy()
        if name not in self.made or equals.get("source") != NURSERY:
            return super().table(name, **equals)
        rows = self.made[name]
        for column, wanted in equals.items():
            rows = rows[rows[column].isin(wanted if isinstance(wanted, list) else [wanted])]
        return rows.copy()


def by_tests_alone(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """C05 with its findings as the classical test has them; the fit takes seconds."""
    c05 = load("c05")
    told = dict.fromkeys(("r_squared_across_labs", "sign_right_across_labs", "coverage_across_labs"), 0.5)
    monkeypatch.setattr(c05, "fit_spectral", lambda *_, **__: SimpleNamespace(numbers=told))
    monkeypatch.setattr(c05, "with_fit", lambda finding, *_: finding)
    return c05


@pytest.mark.parametrize(("elasticity", "verdict"), [(-0.3, YES), (0.3, NO)])
def test_c05_follows_the_slope_that_was_put_in(
    elasticity: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published slicing, off by a factor in one layout only, is judged apart and weakens the correlation."""
    right, cut = by_tests_alone(monkeypatch).trained(Trained(90, elasticity=elasticity, cut=20.0))
    assert right.verdict == verdict
    assert right.estimate is not None and cut.estimate is not None and abs(cut.estimate) < abs(right.estimate)
    assert right.group == "recipe" and right.n_heritages <= 16
    assert "factors from 20.0 to 20.0" in right.notes[0] and "predicted from the others" in right.notes[1]


def test_c05_leaves_out_pinned_gains_and_models_of_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    right, _ = by_tests_alone(monkeypatch).trained(Trained(96, elasticity=-0.3))
    design = shipped_table()
    assert right.n_models == int(((design["norm"] != "post") & (design["n_layers"] >= 3)).sum())


@pytest.mark.slow
def test_c05_has_a_verdict_only_where_the_posterior_and_its_checks_allow_it() -> None:
    right, _ = load("c05").trained(Trained(90, elasticity=-0.3))
    assert right.posterior is not None and right.posterior.classical == YES and right.posterior.probability > 0.95
    assert right.verdict == (YES if right.posterior.gate.passes else OPEN)


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
    for claim, count in (("c05", 2), ("c06", 2)):
        assert [f.verdict for f in load(claim).trained(empty)] == [UNMEASURED] * count
    few = Trained(20, elasticity=-1.0)
    assert [f.verdict for f in load("c05").trained(few)] == [UNMEASURED] * 2
