"""C02: two models clearly above a bound are enough against it, one is not; few models below decide
nothing. The exponent of the largest gain is that of a line through log log G."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, shipped
from scipy import stats

from thermostats.studies.delia2026.largest_gains import SPANS, find_largest, read_block_gains


@pytest.mark.parametrize(
    ("n", "factor", "above", "verdict"),
    [
        (16, 0.98, 0, YES),
        (16, 1.02, 0, NO),
        (16, 0.98, 1, OPEN),
        (16, 0.98, 2, NO),
        (8, 0.98, 0, OPEN),
    ],
)
def test_bound_verdict(
    monkeypatch: pytest.MonkeyPatch, n: int, factor: float, above: int, verdict: str
) -> None:
    c02 = by_rules_alone("c02")
    rows = pd.DataFrame(
        {"model_id": [f"lab/m{i}" for i in range(n)], "heritage": "lab", "family": "m"}
    )
    rows = rows.assign(n_layers=range(10, 10 + 2 * n, 2), comparable=True, n_prompts=10.0)
    largest = factor * 10 ** (1 / rows["n_layers"]) * np.linspace(0.99, 1.0, n)
    for what in c02.GAINS:
        rows[what.column] = largest.where(rows.index >= above, 2.0)
    for what in c02.PRODUCTS:
        rows[what.column] = np.linspace(2, 3, n)
    rows["upper"] = 1.001 * rows["gain"]
    monkeypatch.setattr(c02, "models", lambda *_: rows)
    found = judged(c02, altered(), "bound.penultimate_gain", "total.from_block_1")
    assert found["bound.penultimate_gain"].verdict == verdict
    assert found["total.from_block_1"].verdict == (YES if n == 16 else OPEN)


PYTHIA = "pythia_family_NO_FINAL_LN_20260105_174820.json"


def largest_of_pythia() -> tuple[np.ndarray, np.ndarray]:
    """Depths, and largest mean gains of blocks 2 to L − 1, read from the rows themselves."""
    layers = shipped().named("published").table("layers", source=PYTHIA, position="last")
    means = layers[(layers["prompt_id"] == "") & (layers["layer"] > 1)]
    by_run = means.groupby("run_id").agg(depth=("layer", "max"), gain=("gain_block", "max"))
    return by_run["depth"].to_numpy(float) + 1, by_run["gain"].to_numpy(float)


def test_the_exponent_of_pythia_is_that_of_a_line_through_log_log_gains() -> None:
    found = judged(analysis("c02"), shipped(), "family_exponent")["family_exponent"]
    L, gain = largest_of_pythia()
    x, y = np.log(L), np.log(np.log(gain))
    line = stats.linregress(x, y)
    half = stats.t.ppf(0.975, len(L) - 2) * line.stderr
    head = found.headline
    assert head.value == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-9)
    assert (head.lower, head.upper) == pytest.approx((line.slope - half, line.slope + half))
    p = 2 * stats.t.sf(abs(line.slope + 1) / line.stderr, len(L) - 2)
    assert head.p == pytest.approx(p)
    assert found.sample.n_models == 8
    assert [round(end, 2) for end in (head.value, head.lower, head.upper)] == [-0.49, -0.63, -0.34]
    deep = L > 12
    assert np.polyfit(x[deep], y[deep], 1)[0] == pytest.approx(-0.68, abs=0.005)
    assert "pythia-70m and pythia-160m) the exponent is −0.68 [−1.07, −0.30]" in found.notes[0]
    assert found.verdict == NO
    assert found.short == (
        "In Pythia the largest gain falls with depth, but more slowly than this bound."
    )


def test_over_all_models_the_exponent_is_least_squares_with_labs_as_clusters() -> None:
    c02 = analysis("c02")
    found = judged(c02, shipped(), "model_exponent")["model_exponent"]
    rows = c02.select_comparable(shipped().named("pooled"))
    x = np.log(rows["n_layers"].to_numpy(float))
    y = np.log(np.log(rows["max_gain_to_penultimate"].to_numpy(float)))
    assert found.headline.value == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-9)
    lower, upper = found.headline.lower, found.headline.upper
    assert lower < 0 < upper and lower > -1
    assert (found.verdict, found.reason) == (NO, "")
    assert found.short == (
        "Over all models it does not fall as the bound does; whether it falls at all stays open."
    )
    by_family = found.table.set_index("family")
    assert set(by_family.index) == {"pythia", "gpt-neo", "opt", "qwen2.5"}
    r_of = {"gpt-neo": -0.96, "opt": 0.72, "qwen2.5": 0.16, "pythia": -0.93}
    for family, own in rows.groupby("family"):
        if family in r_of:
            r = np.corrcoef(own["n_layers"].astype(float), own["max_gain_to_penultimate"])[0, 1]
            assert by_family.loc[family, "r"] == pytest.approx(r)
            assert r == pytest.approx(r_of[family], abs=0.005)


@pytest.mark.parametrize(("exponent", "verdict"), [(-1.0, YES), (-0.3, NO), (0.0, NO), (-2.0, NO)])
@pytest.mark.parametrize("name", ["family_exponent", "model_exponent"])
def test_the_verdict_follows_the_exponent(name: str, exponent: float, verdict: str) -> None:
    c02 = analysis("c02")
    (question,) = (q for q in c02.CLAIM.questions if q.id == f"C02.{name}")
    L = np.tile([6, 12, 16, 24, 30, 36], 4)
    gain = np.exp(3 * L**exponent * np.exp(0.03 * np.sin(7 * np.arange(L.size))))
    rows = pd.DataFrame({"n_layers": L, "max_gain_to_penultimate": gain})
    rows = rows.assign(
        model_id=[f"m{i}" for i in range(L.size)],
        heritage=np.repeat(list("abcd"), 6),
        family=np.repeat(list("wxyz"), 6),
    )
    result = question.trial.test(c02.add_exponent_columns(rows, c02.LARGEST))
    assert result.headline.value == pytest.approx(exponent, abs=0.05)
    assert question.primary.verdict(result) == verdict


def test_a_model_whose_largest_gain_is_not_above_1_is_left_out_by_name() -> None:
    """In the deepest model every inner block shrinks the stream."""

    def shrunk(layers: pd.DataFrame) -> pd.DataFrame:
        last = layers.groupby("run_id")["layer"].transform("max")
        own = (layers["source"] == PYTHIA) & (last >= 35) & (layers["layer"] > 1)
        return layers.assign(gain_block=layers["gain_block"].where(~own, 0.9))

    found = judged(analysis("c02"), altered(layers=shrunk), "family_exponent")["family_exponent"]
    assert found.sample.n_models == 7
    assert any("not above 1" in note and "pythia-12b" in note for note in found.notes)


def test_the_largest_gain_of_a_span_needs_all_of_its_blocks() -> None:
    gains = pd.DataFrame(
        {"run_id": "a", "prompt_id": "p", "layer": range(1, 7), "gain": [9, 5, 1, 2, 3, 4.0]}
    ).assign(n_layers=7)
    named = {span.id: span for span in SPANS}
    seen = {name: find_largest(gains, span).to_dict() for name, span in named.items()}
    assert seen == {
        "inner": {"a": 5.0},
        "from_1": {"a": 9.0},
        "from_3": {"a": 4.0},
        "without_two": {"a": 5.0},
    }
    assert find_largest(gains[gains["layer"] != 4], named["inner"]).empty
    rows = shipped().named("published")
    models = analysis("c02").select_families(rows)
    read = find_largest(read_block_gains(rows, models), named["inner"])
    known = models.set_index("run_id")["max_gain_to_penultimate"]
    pd.testing.assert_series_equal(read[known.index], known, check_names=False, check_dtype=False)
