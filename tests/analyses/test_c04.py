"""C04: which models support heritage over architecture, shape over size, and next to nothing for
size."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, analysis, by_rules_alone, judged, shipped, untried
from matplotlib.figure import Figure

from thermostats.claims import levels
from thermostats.claims.noise import Random
from thermostats.claims.question import convert_numpy
from thermostats.modelling.heritage.variance_shares import measure_signal_shares
from thermostats.plots.general import draw_forest
from thermostats.studies.delia2026 import cause_worlds, hierarchy

GAIN = "penultimate_gain"
GAINS = (GAIN, "geometric_gain_to_penultimate", "max_gain_to_penultimate", "penultimate_read_gain")


def made(n: int, by: dict[str, float], noise: float, seed: int) -> pd.DataFrame:
    """Comparable models of five labs, ten families, whose log gain has known causes; `lab` is the
    lab's number."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({name: rng.normal(size=n) for name in ("log_L", "log_d", "log_rho")})
    rows["log_n"] = rows["log_L"] + 2 * rows["log_d"]
    rows["log_shape"] = rows["log_L"] - rows["log_d"]
    named = {"n_layers": "log_L", "d_model": "log_d", "rho": "log_rho", "n_params": "log_n"}
    rows = rows.assign(**{column: np.exp(rows[log]) for column, log in named.items()})
    rows = rows.assign(
        n_params_nonembedding=rows["n_params"], comparable=True, lab=np.arange(n) % 5
    )
    rows = rows.assign(n_heads=rows["rho"] * 8, d_head=8.0)
    rows = rows.assign(
        model_id=[f"m{i}" for i in range(n)], heritage="lab" + rows["lab"].astype(str)
    )
    rows["family"] = rows["heritage"] + (np.arange(n) // 5 % 2).astype(str)
    log = sum(slope * rows[name] for name, slope in by.items())
    return rows.assign(penultimate_gain=np.exp(log + noise * rng.normal(size=n)))


@pytest.mark.parametrize(
    ("finding", "by", "verdict", "reason"),
    [
        ("architecture", {"lab": 1.0, "log_shape": 0.1}, YES, ""),
        ("architecture", {"log_rho": 0.3}, NO, ""),
        ("lineage", {"lab": 1.0, "log_shape": 0.1}, YES, ""),
        ("lineage", {"log_n": 0.3}, NO, ""),
        ("geometry", {"lab": 0.3, "log_rho": 0.3}, YES, ""),
        ("geometry", {"lab": 0.3, "log_L": 0.3}, OPEN, "depends on what is called geometry"),
        ("geometry", {"lab": 0.3, "log_n": 0.3}, NO, ""),
        ("size", {"lab": 0.3, "log_rho": 0.3}, YES, ""),
        ("size", {"lab": 0.3, "log_n": 0.3}, NO, ""),
    ],
)
def test_verdicts_follow_the_causes(
    finding: str, by: dict[str, float], verdict: str, reason: str
) -> None:
    c04 = untried(by_rules_alone("c04"))
    c04.load_gains = lambda _: made(60, by, 0.02, seed=4)
    c04.fit_descent_shares = lambda *_: None  # models that are made up have no parents
    c04.find_lab_rivals = lambda _: []  # nor a year or a tokenizer
    found = judged(c04, shipped(), f"{finding}.{GAIN}")[f"{finding}.{GAIN}"]
    assert (found.verdict, found.reason) == (verdict, reason)
    assert ("settle nothing" in found.criterion.settles) == bool(reason)


def test_the_truth_of_a_world_is_that_of_its_signal_in_every_coding() -> None:
    """Computed from large samples, against shares of signals without noise, averaged over draws."""
    c04 = analysis("c04")
    question = next(q for q in c04.CLAIM.questions if q.id == f"C04.geometry.{GAIN}")
    rows = question.trial.read_rows(shipped().named("published"), question.over)
    for size in ("claimed", "density alone", "scale only", "strong lab, scale above geometry"):
        world = cause_worlds.GEOMETRY_SHARES.build_world(size)
        drawn = world.signal(
            rows, lambda own: np.zeros((200, len(own))), Random(np.random.default_rng(1), 200)
        )
        least = min(
            np.subtract(
                *measure_signal_shares(rows, drawn["outcome"], coding.blocks)[:, 1:].mean(axis=0)
            )
            for coding in hierarchy.CODINGS
        )
        held = levels.count_truths(
            question, convert_numpy(rows), question.trial.worlds.build_world(size)
        )["supported"]
        assert (least > 0) == (held >= levels.MOSTLY), (size, least, held)


@pytest.mark.parametrize(
    "name",
    [
        "LAB_EQUALS_ARCHITECTURE",
        "LINEAGE_EQUALS_ARCHITECTURE",
        "GEOMETRY_EQUALS_SCALE",
        "SCALE_AT_MARGIN",
    ],
)
def test_the_boundary_is_where_what_is_compared_is_0(name: str) -> None:
    c04 = analysis("c04")
    rows, boundary = (
        c04.select_models(shipped().named("published"), c04.GAIN),
        getattr(cause_worlds, name),
    )
    random = Random(np.random.default_rng(1), 5)
    signals = boundary.draw_outcomes(
        0.6, 1.0, boundary.beside, rows, lambda own: np.zeros((5, len(own))), random
    )
    assert boundary.compare_signals(rows, signals["outcome"], 0.6) == pytest.approx(
        np.zeros(5), abs=1e-3
    )


def test_gains_that_are_not_asked_are_universes_of_the_curve() -> None:
    claim = analysis("c04").CLAIM
    asked = {q.over.column for q in claim.questions if q.over is not None}
    curve = next(q.curve for q in claim.questions if q.curve)
    in_curve = {option["outcome"] for option in curve.choices["gain"].values()}
    assert asked == {GAIN}
    assert in_curve == {f"log({gain})" for gain in GAINS}


def test_the_figure_of_the_whole_has_every_part_of_the_claim() -> None:
    c04 = analysis("c04")
    tables = shipped().fork().named("published")
    trials = {name: c04.TRIALS[name] for name in ("architecture", "geometry", "size")}
    parts = {name: trial.test(trial.read_rows(tables, c04.GAIN)) for name, trial in trials.items()}
    table = c04.compare_halves(parts).set_index("what")
    assert list(table.index[:3]) == ["lab", "shape and size", "lab − shape and size"]
    heads = {
        "lab − shape and size": "architecture",
        table.index[3]: "geometry",
        table.index[6]: "size",
    }
    for what, name in heads.items():
        head = parts[name].headline
        assert tuple(table.loc[what]) == (head.value, head.lower, head.upper)
    assert all(what.startswith("shape − size: ") for what in table.index[3:6]) and len(table) == 8
    axes = Figure().add_subplot()
    draw_forest(table.reset_index(), axes, label="what")
    assert [label.get_text() for label in axes.get_yticklabels()] == list(table.index)
