"""L01: which of two laws of growth fits, on models made by either and by neither."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, ROOT, YES, analysis, shipped, verdict

from thermostats.studies.literature.exponential import (
    build_profiles,
    compare_training_steps,
    fit_laws,
)

DEPTHS = np.repeat([12, 16, 24, 32, 40, 80], 4)


def made(
    rate: float, power: float, seed: int, noise: float = 0.05, ar: float = 0.0
) -> pd.DataFrame:
    """Models of 8 labs whose log gains are rate + power·log(l/(l − 1)) and errors, neighbours'
    correlated at `ar`."""
    rng = np.random.default_rng(seed)
    models = [
        pd.DataFrame(
            {
                "model_id": f"m{i}",
                "heritage": f"lab{i % 8}",
                "n_layers": depth,
                "layer": np.arange(2, depth),
            }
        )
        for i, depth in enumerate(DEPTHS)
    ]
    rows = pd.concat(models, ignore_index=True)
    law = rate + power * np.log(rows["layer"] / (rows["layer"] - 1))
    errors = rng.standard_normal(len(rows))
    for at in range(1, len(rows) if ar else 0):
        errors[at] = ar * errors[at - 1] + (1 - ar**2) ** 0.5 * errors[at]
    return rows.assign(log_gain=law + noise * errors)


@pytest.mark.parametrize(("rate", "power", "says"), [(0.06, 0.0, YES), (0.0, 1.0, NO)])
def test_the_law_by_which_models_were_made_is_told(rate: float, power: float, says: str) -> None:
    l01 = analysis("l01")
    rows = fit_laws(made(rate, power, seed=1))
    assert verdict(l01, "models", l01.SHARED(rows)) == says
    fitted, true = (rows["power"], power) if power else (rows["growth"], np.exp(rate))
    assert fitted.median() == pytest.approx(true, rel=0.02)


def test_of_models_that_do_not_grow_half_go_either_way() -> None:
    """Errors alone favour neither law: over 40 studies of 24 models the share is a half within 3
    standard errors."""
    favoured = np.concatenate([fit_laws(made(0.0, 0.0, seed))["exponential"] for seed in range(40)])
    assert abs(favoured.mean() - 0.5) < 3 * 0.5 / favoured.size**0.5
    l01 = analysis("l01")
    assert verdict(l01, "models", l01.SHARED(fit_laws(made(0.0, 0.0, seed=0)))) == OPEN


def test_errors_that_go_together_hardly_hide_a_power_law() -> None:
    """With neighbours correlated at 0.5, as increments of real models are, a power of 1/2 is told
    in most models."""
    favoured = np.concatenate(
        [fit_laws(made(0.0, 0.5, seed, ar=0.5))["exponential"] for seed in range(20)]
    )
    assert favoured.mean() < 0.1


def test_delta_is_the_difference_of_both_bics_by_least_squares() -> None:
    """Against numpy's least squares and BIC = n log(RSS/n) + k log n, with k = 1 in either law."""
    rows = made(0.03, 0.4, seed=3)
    own = rows[rows["model_id"] == "m9"]
    y, layer = own["log_gain"].to_numpy(), own["layer"].to_numpy(np.float64)
    bic = []
    for column in (np.ones(y.size), np.log(layer) - np.log(layer - 1)):
        _, (squares,), _, _ = np.linalg.lstsq(column[:, None], y, rcond=None)
        bic.append(y.size * np.log(squares / y.size) + np.log(y.size))
    row = fit_laws(own).iloc[0]
    assert row["delta"] == pytest.approx(bic[0] - bic[1]) and row["blocks"] == y.size


def test_cumulated_norms_have_errors_that_go_together_where_increments_have_none() -> None:
    rows = fit_laws(made(0.06, 0.0, seed=4))
    assert rows["neighbours"].median() > 0.5
    assert abs(rows["neighbours_of_increments"].median()) < 0.2


def test_models_of_the_controlled_study_are_taken_at_the_end_of_training() -> None:
    evidence = shipped().named("nursery")
    end, steps = build_profiles(evidence), compare_training_steps(evidence)
    revisions = evidence.table("layers", position="last")["revision"].unique()
    last = max(revisions, key=lambda name: int(name.removeprefix("step")))
    pd.testing.assert_frame_equal(end, build_profiles(evidence, last))
    assert list(steps["step"]) == [0, 6, 18, 60, 180, 600] and set(steps["models"]) == {
        end["model_id"].nunique()
    }
    assert steps["exponential"].iloc[-1] == fit_laws(end)["exponential"].sum()


def test_profiles_are_one_measurement_a_model_of_blocks_2_to_before_the_last() -> None:
    rows = build_profiles(shipped().named("pooled"))
    inside = rows.groupby("model_id").agg(
        first=("layer", "min"), last=("layer", "max"), L=("n_layers", "first")
    )
    assert not rows.duplicated(["model_id", "layer"]).any()
    assert (inside["first"] >= 2).all() and (inside["last"] < inside["L"]).all()
    layers = shipped().table("layers", position="last")
    one = layers[(layers["model_id"] == "EleutherAI/pythia-410m") & (layers["layer"] == 5)]
    means = np.log(one["gain_block"]).groupby(one["run_id"]).mean()
    mine = rows[(rows["model_id"] == "EleutherAI/pythia-410m") & (rows["layer"] == 5)][
        "log_gain"
    ].item()
    assert np.isclose(means, mine).any()


def test_pages_of_the_controlled_study_name_it_first_among_their_limits_and_are_right() -> None:
    """They say that of large models most grow at one rate, which cannot be said of the controlled
    study's."""
    pages = sorted((ROOT / "analyses").glob("n0*.md"))
    notes = [page.read_text(encoding="utf-8").split("### notes\n")[1] for page in pages]
    assert len(notes) == 5 and all(
        note.startswith("- Of large models that were measured most grow at one rate")
        for note in notes
    )
    rule = analysis("l01").RULE
    said = {
        name: rule.verdict(analysis("l01").judge_laws(shipped().named(name)))
        for name in ("pooled", "nursery")
    }
    assert said == {"pooled": YES, "nursery": OPEN}
