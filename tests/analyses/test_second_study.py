"""N01, N05 and N06 on second studies of known truth: verdicts turn with it."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from altered import NO, UNMEASURED, YES, analysis, judged, shipped

from thermostats.studies.nursery import second
from thermostats.studies.nursery.recipes import drawn

SHAPES = list(itertools.product((4, 8, 16), (0.125, 2.0), (32, 80)))


def study(*, recipe=0.2, depth=-0.06, scale=0.0, follows=1.0, through=0.0, early=0.95, seed=1):
    """Rows of `second.along` at a tenth and at the end: recipes drawn as the design's are, gains made of what is asked.

    follows: slope of the log spectra on log √(rate/decay); through: that of the gain on the spectra.
    """
    rng, rows = np.random.default_rng(seed), []
    for own in drawn(48, 23, 64)[:40]:
        effect = recipe * rng.normal()
        ratio = 0.5 * np.log(own.rate / own.decay) if own.decay else 0.0
        spectrum = follows * ratio + 0.2 * rng.normal()
        for L, rho, d in SHAPES:
            gain = effect + depth * np.log(L / 8) + scale * np.log(d / 50) + through * spectrum + 0.05 * rng.normal()
            before = early * gain + recipe * np.sqrt(1 - early**2) * rng.normal()
            for share, value in ((0.1, before), (1.0, gain)):
                facts = {"model": f"{own.name}-{L}-{rho}-{d}", "kind": "", "parent": "", "replicate_of": ""}
                rows.append(
                    facts
                    | {"n_layers": L, "rho": rho, "d_model": d, "recipe": own.name, "steps": own.steps, "learned": True}
                    | {"optimiser": own.optimiser, "rate": own.rate, "decay": own.decay, "share": share}
                    | {"step": round(share * own.steps), "log_gain": value, "log_gain_sd": 0.05}
                    | {"log_wv": spectrum, "log_wo": spectrum + 0.1 * rng.normal()}
                )
    return with_names(pd.DataFrame(rows))


def with_names(rows):
    logs = {name: np.log(rows[column].astype(float)) for name, column in second.LOGS.items()}
    return rows.assign(model_id="nursery/" + rows["model"], heritage=rows["recipe"], **logs)


def with_tuned(rows, crossing):
    """Bases and tuned models, of which so many cross 1."""
    found = []
    for i in range(42):
        base, tuned = -0.2, 0.2 if i < crossing else -0.1
        facts = {
            "n_layers": 4,
            "rho": 2.0,
            "d_model": 32,
            "recipe": f"c{i:03d}",
            "steps": 400,
            "step": 400,
            "log_gain_sd": 0.02,
        }
        found.append(facts | {"model": f"b{i}", "kind": "", "parent": "", "log_gain": base})
        found.append(facts | {"model": f"t{i}", "kind": "corpus", "parent": f"b{i}/step00400", "log_gain": tuned})
    return with_names(pd.DataFrame(found))


def verdicts(monkeypatch, claim, rows, *only):
    monkeypatch.setattr(second, "along", lambda tables: rows)
    return {name: found.verdict for name, found in judged(analysis(claim), shipped().fork(), *only).items()}


@pytest.mark.parametrize("claim", ["n05", "n06"])
def test_nothing_is_said_before_the_study_is_measured(claim, monkeypatch):
    empty = second.along(shipped())
    monkeypatch.setattr(second, "along", lambda tables: empty.iloc[:0])
    assert {found.verdict for found in judged(analysis(claim), shipped().fork()).values()} == {UNMEASURED}
    few = study()
    few = few[few["recipe"].isin(sorted(set(few["recipe"]))[:15])]
    asked = {"n05": "spectra.log_wv", "n06": "sign"}[claim]
    assert set(verdicts(monkeypatch, claim, few, asked).values()) == {UNMEASURED}


@pytest.mark.parametrize(
    "truth, verdict",
    [({"recipe": 0.2, "scale": 0.01, "depth": -0.1}, YES), ({"recipe": 0.01, "scale": 0.1, "depth": -0.2}, NO)],
)
def test_the_ratio_turns_with_the_truth(monkeypatch, truth, verdict):
    assert verdicts(monkeypatch, "n01", study(**truth), "second") == {"second": verdict}


@pytest.mark.parametrize("follows, verdict", [(1.0, YES), (0.0, NO)])
def test_spectra_follow_or_do_not(monkeypatch, follows, verdict):
    found = verdicts(monkeypatch, "n05", study(follows=follows), "spectra.log_wv", "spectra.log_wo")
    assert found == {"spectra.log_wv": verdict, "spectra.log_wo": verdict}


def test_mediation_is_found_where_it_is(monkeypatch):
    assert verdicts(monkeypatch, "n05", study(through=0.5, recipe=0.05), "mediation") == {"mediation": YES}
    assert verdicts(monkeypatch, "n05", study(through=0.0, recipe=0.05), "mediation") != {"mediation": YES}


def test_an_indirect_effect_by_hand():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    e = np.array([1.0, -2.0, 0.0, 2.0, -1.0])
    rows = pd.DataFrame(
        {"log_ratio": x, "log_norm": 2 * x + e, "log_gain": 3 * (2 * x + e) + 0.5 * x, "optimiser": "lion"}
    )
    effect, vanishes = second.mediated(rows)
    assert effect == pytest.approx(3 * float(np.polyfit(x, 2 * x + e, 1)[0]))
    assert vanishes == pytest.approx(1.0)


@pytest.mark.parametrize("early, verdict", [(0.99, YES), (0.0, NO)])
def test_the_end_is_settled_early_or_not(monkeypatch, early, verdict):
    assert verdicts(monkeypatch, "n06", study(early=early), "sign") == {"sign": verdict}


def test_signs_say_nothing_where_nearly_all_are_on_one_side(monkeypatch):
    rows = study(early=0.99)
    rows["log_gain"] = rows["log_gain"].abs() + 0.01
    assert verdicts(monkeypatch, "n06", rows, "sign") == {"sign": "inconclusive"}


@pytest.mark.parametrize("crossing, verdict", [(9, YES), (0, NO)])
def test_tuning_crosses_or_does_not(monkeypatch, crossing, verdict):
    assert verdicts(monkeypatch, "n06", with_tuned(study(), crossing), "tuning") == {"tuning": verdict}
