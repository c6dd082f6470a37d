"""C01: the verdict follows the gains."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, judged, shipped
from conftest import shipped_tables

from thermostats.claims.judge import weigh
from thermostats.studies.delia2026.largest_gains import INNER, exchange_blocks
from thermostats.studies.delia2026.published_gains import NAMED_GAINS


@pytest.mark.parametrize(
    ("gains", "verdict"), [([0.5, 0.02], NO), ([0.9, 0.0], OPEN)], ids=["rising", "irregular"]
)
def test_verdict_follows_the_gains(gains: list[float], verdict: str) -> None:
    def changed(layers: pd.DataFrame) -> pd.DataFrame:
        last = layers.groupby("run_id")["layer"].transform("max")
        irregular = 0.1 * (last.astype(float) % 5) * (gains[1] == 0)
        value = gains[0] + gains[1] * last + irregular
        return layers.assign(gain_block=layers["gain_block"].where(layers["layer"] < last, value))

    c01 = analysis("c01")
    assert (
        c01.FALLS.verdict(
            c01.build_test(NAMED_GAINS[0])(
                c01.select_outcomes(altered(layers=changed).named("published"), NAMED_GAINS[0])
            )
        )
        == verdict
    )


@pytest.mark.parametrize(("first", "slope", "verdict"), [(6, 0.0, OPEN), (29, -0.02, YES)])
def test_a_correlation_of_one_model_is_left_open(first: int, slope: float, verdict: str) -> None:
    """By the correlation alone both fall, p at most 0.05."""
    (question, *_) = analysis("c01").CLAIM.questions
    rows = pd.DataFrame(
        {
            "n_layers": [first, *range(30, 54)],
            "model_id": [f"m{i}" for i in range(25)],
            "family": "f",
        }
    )
    gains = slope * (rows["n_layers"] - 30) + 0.01 * np.cos(3 * rows.index)
    rows = rows.assign(heritage="lab", outcome=gains.where(rows.index > 0, 1.5))
    assert question.primary.verdict(question.trial.test(rows)) == YES
    untried = replace(question, trial=replace(question.trial, worlds=None))
    assert weigh(untried, shipped_tables(), question.trial.test(rows), rows).verdict == verdict


PYTHIA = "pythia_family_NO_FINAL_LN_20260105_174820.json"


def profiles() -> list[tuple[int, np.ndarray]]:
    """Depth and gains of blocks 1 to L − 1, means over prompts, of the eight Pythia models, read
    from the rows themselves."""
    tables = shipped().named("published")
    layers = tables.table("layers", source=PYTHIA, position="last")
    means = layers[(layers["prompt_id"] == "") & layers["gain_block"].notna()]
    found = []
    for _, own in means.sort_values("layer").groupby("run_id"):
        found.append((int(own["layer"].max()) + 1, own["gain_block"].to_numpy(np.float64)))
    assert len(found) == 8
    return found


def exact_p(x: np.ndarray, y: np.ndarray) -> float:
    """Share of all orders of y whose correlation is at least as far from 0."""
    x, y = x - x.mean(), y - y.mean()
    every = np.abs(y[np.array(list(permutations(range(len(y)))))] @ x)
    return float((every >= abs(x @ y) - 1e-9).mean())


def test_the_largest_and_the_mean_gain_are_asked_with_exact_p() -> None:
    """Recomputed from the gains of blocks, all 40,320 orders one by one."""
    c01 = analysis("c01")
    gains = {gain.id: gain for gain in NAMED_GAINS}
    found = judged(c01, shipped(), "depth.max_gain", "depth.geometric_gain")
    depth = np.array([L for L, _ in profiles()], dtype=float)
    largest = np.array([gains[1:].max() for _, gains in profiles()])
    mean = np.array([np.exp(np.log(gains[1:]).mean()) for _, gains in profiles()])
    p_of = {}
    for name, values in (("max_gain", largest), ("geometric_gain", mean)):
        head = found[f"depth.{name}"].headline
        p_of[name] = exact_p(depth, values)
        assert head.value == pytest.approx(np.corrcoef(depth, values)[0, 1], abs=1e-9)
        exact = c01.BY_ORDERS(
            c01.select_outcomes(shipped().named("published"), gains[name])
        ).headline
        assert exact.p == pytest.approx(p_of[name], abs=1e-9) and 0 < head.p < 0.05
    assert found["depth.max_gain"].headline.value == pytest.approx(-0.928, abs=5e-4)
    assert p_of["max_gain"] == pytest.approx(8 / 40320)
    plain = found["depth.max_gain"].plain
    assert "over all orders of the models = 0.00020, adjusted by Holm over the 3 gains" in plain
    assert "gains that are asked p = 0.00060" in plain


def test_which_blocks_count_and_chance_alone_are_said() -> None:
    """The fall of the largest gain is one of the inner blocks: with block 1 it turns round."""
    (notes,) = (f.notes for f in judged(analysis("c01"), shipped(), "depth.max_gain").values())
    depth = np.array([L for L, _ in profiles()], dtype=float)
    for first, last, words in (
        (0, None, "blocks 1 to L − 1 r = 0.86"),
        (1, None, "blocks 2 to L − 1 r = −0.93"),
        (2, None, "blocks 3 to L − 1 r = −0.92"),
        (1, -1, "blocks 2 to L − 2 r = −0.93"),
    ):
        largest = np.array([gains[first:last].max() for _, gains in profiles()])
        shown = float(words.rpartition(" ")[2].replace("−", "-"))
        assert np.corrcoef(depth, largest)[0, 1] == pytest.approx(shown, abs=0.005)
        assert words in notes[0]
    assert "between 12 and 76" in notes[0]
    pool = np.concatenate([gains[1:] for _, gains in profiles()])
    ends = np.cumsum([len(gains) - 1 for _, gains in profiles()])[:-1]
    rng = np.random.default_rng(7)
    drawn = []
    for _ in range(2000):
        parts = np.split(rng.permutation(pool), ends)
        drawn.append(np.corrcoef(depth, [part.max() for part in parts])[0, 1])
    shown = float(notes[1].split("r = ")[1].split(" ")[0])
    assert shown == pytest.approx(np.mean(drawn), abs=0.03)


def test_exchanged_blocks_of_models_that_are_alike_have_no_correlation() -> None:
    """Models of one number of blocks have none to lose; more blocks have a larger maximum."""
    rng = np.random.default_rng(1)

    def made(depths: list[int]) -> pd.DataFrame:
        return pd.DataFrame(
            [
                {
                    "run_id": f"r{i}",
                    "prompt_id": "",
                    "layer": layer,
                    "gain": rng.uniform(),
                    "n_layers": L,
                }
                for i, L in enumerate(depths)
                for layer in range(1, L + 1)
            ]
        )

    assert exchange_blocks(made([6, 6, 6, 6, 6, 8]), INNER, seed=1) == pytest.approx(0.1, abs=0.12)
    assert exchange_blocks(made([4, 40, 5, 50, 6, 60]), INNER, seed=1) > 0.5
