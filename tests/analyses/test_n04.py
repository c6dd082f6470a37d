"""N04 on trainings of known truth: when signs are fixed, which pairs flip, and verdicts that turn with it."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, by_rules_alone, judged, shipped
from scipy import stats

from thermostats.errors import UsageError
from thermostats.studies.nursery.design import CHECKPOINTS
from thermostats.studies.nursery.shipped import shipped_table
from thermostats.studies.nursery.signs import (
    development,
    fixed_from,
    kappa,
    log_gains,
    log_ratios,
    pair_table,
    within_cells,
)


def trainings(fixed_at, models=96, seed=1):
    """Rows of `checkpoints`: the sign of every model's log gain turns at its place in `fixed_at` and stays."""
    design = shipped_table().iloc[:models]
    rng = np.random.default_rng(seed)
    final = rng.choice([-0.3, 0.3], len(design))
    rows = []
    for i, facts in enumerate(design.to_dict("records")):
        for k, share in enumerate(CHECKPOINTS):
            gain = np.exp(final[i] if k >= fixed_at(facts) else -final[i])
            parts = {"": gain, "_geometric": gain, "_sd": 0.05, "_n": 6}
            gains = {f"{name}{end}": v for name in ("last_gain", "penultimate_gain") for end, v in parts.items()}
            rows.append({**facts, **gains, "share": share, "step": round(600 * share)})
    table = pd.DataFrame(rows).assign(tuned=False, learned=True)
    table = table.assign(model_id="nursery/" + table["model"], heritage=table["recipe"])
    return table.assign(comparable=table["norm"] != "post")


def pairs(changes, noise=0.02, seed=1):
    """Gains by prompt of models at 0.3 above or below 1 and of what tuning makes of them, a pair a change."""
    rng = np.random.default_rng(seed)
    rows = []
    for i, change in enumerate(changes):
        level = 0.3 if i % 2 else -0.3
        for prompt in range(6):
            base = level + rng.normal(0, noise)
            tuned = base + change + rng.normal(0, noise / 2)
            rows.append((f"m{i:02d}", "base", "", np.exp(base), f"r{i:02d}", f"p{prompt}"))
            rows.append((f"m{i:02d}-tuned", "instruct", f"m{i:02d}", np.exp(tuned), f"r{i:02d}", f"p{prompt}"))
    table = pd.DataFrame(rows, columns=["model_id", "variant", "parent", "value", "heritage", "prompt_id"])
    return table.assign(family=table["heritage"], source="nursery", norm_place="pre")


def test_a_sign_is_fixed_from_where_it_never_changes_again():
    logs = pd.DataFrame(
        [[1, 1, 1, 1, 1, 1], [-1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, 1], [1, 1, 1, 1, 1, -1]],
        columns=list(CHECKPOINTS),
        dtype=float,
    )
    first = fixed_from(logs).idxmax(axis=1)
    assert list(first) == [0.0, 0.01, 0.3, 1.0]
    table = development(logs, ["a", "b", "c", "d"]).set_index("share")
    assert list(table["fixed"]) == [1, 2, 2, 2, 3, 4]
    assert table.loc[0.0, "as_at_the_end"] == 0.5 and table.loc[1.0, "as_at_the_end"] == 1
    assert table.loc[0.0, "by_chance"] == pytest.approx(0.75 * 0.75 + 0.25 * 0.25)


def test_only_models_with_every_checkpoint_count_and_tuned_ones_do_not():
    rows = trainings(lambda facts: 0)
    cut = rows.drop(index=rows.index[(rows["model"] == "r01-1") & (rows["share"] == 0.3)])
    tuned = rows[(rows["model"] == "r02-2") & (rows["share"] == 1)].assign(tuned=True, last_gain_geometric=9.0)
    logs = log_gains(pd.concat([cut, tuned]), "last_gain")
    assert len(logs) == 95 and "r01-1" not in logs.index
    assert abs(logs.loc["r02-2", 1.0]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "fixed_at, early, initial",
    [
        (lambda facts: 0, YES, YES),
        (lambda facts: 2, YES, NO),
        (lambda facts: 4, NO, NO),
        (lambda facts: 4 if facts["recipe"] in ("r03", "r08") else 0, OPEN, OPEN),
    ],
)
def test_verdicts_on_when_turn_with_the_truth(fixed_at, early, initial):
    n04 = by_rules_alone("n04")
    n04.checkpoints = lambda _: trainings(fixed_at)
    found = judged(n04, shipped(), "sign.tenth", "sign.start")
    assert [finding.verdict for finding in found.values()] == [early, initial]
    assert found["sign.tenth"].sample.n_models == 64 and found["sign.tenth"].sample.n_groups == 16


def of_shape(noise):
    """Trainings whose last gain is that of their shape from the start, with noise of its own at every checkpoint."""
    rows = trainings(lambda facts: 0)
    level = np.where(rows["n_layers"] * rows["d_model"] > 400, 0.3, -0.3)
    return rows.assign(last_gain_geometric=np.exp(level + np.random.default_rng(1).normal(0, noise, len(rows))))


def test_what_shape_makes_is_no_memory_of_training():
    n04 = by_rules_alone("n04")
    n04.checkpoints = lambda _: of_shape(0.05)
    found = judged(n04, shipped(), "sign.tenth")["sign.tenth"]
    assert (
        found.verdict == NO
        and found.headline.upper < 0.71
        and "10% of training 64 models already have the side" in found.plain
    )


def test_with_few_models_on_the_rarer_side_there_is_too_little_data():
    n04 = by_rules_alone("n04")
    rows = trainings(lambda facts: 0)
    rare = rows["model"].isin(rows["model"].drop_duplicates()[:4])
    n04.checkpoints = lambda _: rows.assign(last_gain_geometric=np.where(rare, 0.9, 1.1))
    found = judged(n04, shipped(), "sign.tenth")["sign.tenth"]
    assert (found.verdict, found.reason) == (
        OPEN,
        "too little data",
    ) and "too little data unless" in found.criterion.words


def test_correlation_inside_cells_is_that_of_ranks_off_their_cells():
    rng = np.random.default_rng(1)
    cells, groups = pd.Series(np.repeat(list("abcdefgh"), 5)), pd.Series(np.tile(np.arange(5), 8))
    x = pd.Series(rng.normal(size=40)) + cells.map({c: 9.0 * i for i, c in enumerate("abcdefgh")})
    y = pd.Series(rng.normal(size=40)) + 0.8 * (x - x.groupby(cells).transform("mean")) - x
    found = within_cells(x, y, cells, groups)
    ranks = pd.DataFrame({"x": x.rank(), "y": y.rank()})

    def z(kept: pd.Series) -> float:
        off = ranks[kept] - ranks[kept].groupby(cells[kept]).transform("mean")
        return np.arctanh(np.corrcoef(off["x"], off["y"])[0, 1])

    whole, left = z(groups >= 0), np.array([z(groups != group) for group in range(5)])
    half = stats.t.ppf(0.975, 4) * np.sqrt(4 / 5 * np.square(left - left.mean()).sum())
    assert [found.estimate, found.lower, found.upper] == pytest.approx(np.tanh([whole, whole - half, whole + half]))
    signs = pd.DataFrame({"a": [True] * 62 + [False] * 2, "b": [True] * 61 + [False, True, True]})
    assert kappa(signs["a"], signs["b"], pd.Series(np.arange(64) % 16)).value == pytest.approx(-0.0213, abs=1e-3)
    with pytest.raises(UsageError, match="nothing to correlate"):
        within_cells(x * 0, y, cells, groups)


def test_the_interval_inside_cells_covers_where_models_of_a_recipe_are_alike():
    rng, inside = np.random.default_rng(2), 0
    recipes, cells = (pd.Series(which.ravel()) for which in np.meshgrid(np.arange(24), np.arange(8), indexing="ij"))
    for _ in range(300):
        x, y = (pd.Series((rng.normal(size=(24, 1)) + 0.5 * rng.normal(size=(24, 8))).ravel()) for _ in range(2))
        found = within_cells(x, y, cells, recipes)
        inside += found.lower < 0 < found.upper
    assert stats.binomtest(inside, 300, 0.95).pvalue > 0.001


def test_few_trainings_need_measurement():
    n04 = by_rules_alone("n04")
    n04.checkpoints = lambda _: trainings(lambda facts: 0, models=30)
    assert judged(n04, shipped(), "sign.tenth")["sign.tenth"].verdict == UNMEASURED


def of_pairs(gains):
    n04 = by_rules_alone("n04")
    n04.gains_of_pairs = lambda tables, gain: gains
    return judged(n04, shipped().fork(), "tuning.sign", "tuning.magnitude")


@pytest.mark.parametrize(
    ("changes", "noise", "sign", "magnitude"),
    [
        ([0.6] + [0.1] * 13, 0.02, NO, YES),
        ([0.1] * 14, 0.02, OPEN, YES),
        ([0.1] * 40, 0.02, YES, YES),
        ([0.0] * 14, 0.01, OPEN, NO),
    ],
)
def test_verdicts_on_pairs_turn_with_the_truth(changes, noise, sign, magnitude):
    found = of_pairs(pairs(changes, noise=noise))
    assert (found["tuning.sign"].verdict, found["tuning.magnitude"].verdict) == (sign, magnitude)
    assert set(found["tuning.sign"].table["study"]) == {"here, by design", "published, C11"}
    assert found["tuning.magnitude"].headline.value == pytest.approx(np.exp(max(changes)), rel=0.05)
    assert ("cannot come out as supported" in " ".join(found["tuning.sign"].notes)) == (len(changes) < 36)


def test_few_pairs_need_measurement_and_pinned_gains_are_left_out():
    assert of_pairs(pairs([0.1] * 7))["tuning.sign"].verdict == UNMEASURED
    gains = pairs([0.1] * 12)
    pinned = gains["model_id"].str.startswith("m00")
    found = of_pairs(gains.assign(norm_place=np.where(pinned, "post", "pre")))
    assert found["tuning.sign"].sample.n_models == 22


def test_a_pair_is_by_hand_what_the_table_says():
    """m00 dampens and is tuned past 1, m01 amplifies and stays; m03 is tuned from a model that is not there."""
    gains = pairs([0.5, 0.2, 0.2, 0.2], noise=0.05)
    gains = gains[(gains["model_id"] != "m03") & ~((gains["model_id"] == "m01") & (gains["prompt_id"] == "p5"))]
    table = pair_table(gains, seed=1).set_index("model_id")
    assert list(table.index) == ["m00", "m01", "m02"] and table["n_prompts"].tolist() == [6, 5, 6]
    for base, n in (("m00", 6), ("m01", 5)):
        by_model = np.log(gains.pivot(index="prompt_id", columns="model_id", values="value"))
        logs_of = by_model[[base, f"{base}-tuned"]].dropna()
        for name, logs, level in (
            ("base", logs_of[base], 0.95),
            ("tuned", logs_of[f"{base}-tuned"], 0.95),
            ("ratio", logs_of[f"{base}-tuned"] - logs_of[base], 1 - 0.05 / 3),
        ):
            half = stats.t.ppf((1 + level) / 2, n - 1) * logs.std(ddof=1) / np.sqrt(n)
            names = ["ratio" if name == "ratio" else f"{name}_gain", f"{name}_lower", f"{name}_upper"]
            assert np.log(table.loc[base, names].astype(float)).tolist() == pytest.approx(
                [logs.mean(), logs.mean() - half, logs.mean() + half]
            )
    assert table["flips"].tolist() == table["other_side"].tolist() == [True, False, False]
    ratios = log_ratios(gains)
    assert ratios["pair"].value_counts().to_dict() == {"m00": 6, "m01": 5, "m02": 6}
    assert np.exp(ratios.groupby("pair")["log_ratio"].mean()).to_dict() == pytest.approx(table["ratio"].to_dict())
