"""Attained levels, what they are worth in simulated worlds, and the verdicts that follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables
from scipy import stats

from thermostats.claims import calibration, levels
from thermostats.claims.calibration import Calibration, Side
from thermostats.claims.claim import Claim
from thermostats.claims.evidence import POOLED
from thermostats.claims.finding import Criterion, Finding, Sample, Strength
from thermostats.claims.judge import (
    AT_WILL,
    Weighed,
    answer_question,
    choose_calibration,
    combine_parts,
    describe_row,
    describe_settling,
    pick_verdicts,
    weigh,
)
from thermostats.claims.question import Question, Scope, Test, Trial, convert_numpy
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, Estimate, Reason, Result
from thermostats.claims.rule import (
    ALPHA,
    NEVER,
    Above,
    Always,
    AtLeast,
    Below,
    Condition,
    Decide,
    Each,
    EveryRow,
    Gate,
    Given,
    Posterior,
    Rule,
    Some,
    V,
)
from thermostats.claims.template import Template
from thermostats.claims.worlds import (
    World,
    Worlds,
    build_line_worlds,
    build_mean_worlds,
    build_share_worlds,
)
from thermostats.errors import DataError, UsageError
from thermostats.modelling.classical.association import estimate_correlation, estimate_one_sample
from thermostats.modelling.classical.counts import estimate_proportion
from thermostats.modelling.classical.many import (
    Many,
    estimate_correlations,
    estimate_differences,
    estimate_means,
    estimate_shares,
)
from thermostats.settings import CALIBRATE_VARIABLE

R = V("r")
RISES = Decide((R > 0) & (R.p <= ALPHA), (R < 0) & (R.p <= ALPHA))
WORDS = Template(
    Path("t01.md"), "T01", "t", {}, {"line": {"estimand": "r", "plain": "{{ verdict.sentence }}."}}
)


def of(
    r: float = 0.0, lower: float | None = None, upper: float | None = None, p: float | None = None
) -> Result:
    return Result(quantities={"r": Estimate(r, lower, upper, p=p)})


def study(n: int = 20) -> pd.DataFrame:
    """Models of five labs."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {"model_id": [f"m{i}" for i in range(n)], "heritage": [f"lab{i % 5}" for i in range(n)]}
    )
    return rows.assign(x=rng.normal(size=n), y=rng.normal(size=n))


def of_line(rows: pd.DataFrame) -> Result:
    if len(rows) < 3:
        raise UsageError("too few rows", got=len(rows))
    found = stats.pearsonr(rows["x"], rows["y"])
    return Result.build(rows, {"r": Estimate(float(found.statistic), p=float(found.pvalue))})


def question(worlds: Worlds | None, rule: Rule = RISES, n: int = 20, unit: str = "") -> Question:
    trial = Trial(lambda _: study(n), of_line, unit, worlds)
    return Question("T01.line", "line", None, lambda _: of_line(study(n)), rule, trial=trial)


LINE = build_line_worlds("y", "x", 0.7, kinds=("normal", "lognormal"), group="")


def test_the_level_of_an_interval_is_that_at_which_it_would_touch_the_bar() -> None:
    """An interval of 95% whose end lies half as far as the bar: z = 2 · 1.96; one that ends at the
    bar has 5%."""
    assert (R.interval > 0).attained(of(2.0, 1.0, 3.0)) == pytest.approx(
        2 * stats.norm.sf(2 * 1.959964), rel=1e-6
    )
    assert (R.interval > 0).attained(of(1.0, 0.0, 2.0)) == pytest.approx(0.05)
    assert (R.lower > 0).attained(of(1.0, 0.0, 2.0)) == pytest.approx(0.05)
    assert (R.interval < 0).attained(of(-1.0, -3.0, 1.0)) == pytest.approx(
        2 * stats.norm.sf(1.959964 / 2)
    )
    assert (R.interval > 0).attained(of(-1.0, -2.0, 0.5)) == 1.0
    assert (R.interval > 0).attained(of(1.0)) == 1.0
    assert (R.interval > V("bar")).attained(
        Result(quantities={"r": Estimate(2.0, 1.0, 3.0), "bar": Estimate(1.0)})
    ) == pytest.approx(0.05)


def test_a_wider_interval_never_has_a_smaller_level() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        middle, half, bar = rng.normal(), rng.uniform(0.1, 2.0), rng.normal()
        at = [
            float((R.interval > bar).attained(of(middle, middle - k * half, middle + k * half)))
            for k in (1, 1.5, 3)
        ]
        assert at == sorted(at)
        assert ((R.interval > bar).holds(of(middle, middle - half, middle + half))) == (
            at[0] < ALPHA
        )


def test_a_p_value_is_its_own_level_and_a_count_is_met_or_not() -> None:
    assert (R.p <= 0.05).attained(of(p=0.2)) == 0.2 and (R.p < 0.05).attained(of(p=0.01)) == 0.01
    assert (R.p <= 0.05).attained(of()) == 1.0
    assert [(R.p > 0.05).attained(of(p=p)) for p in (0.2, 0.01)] == [0.0, 1.0]
    assert [(R > 0).attained(of(r)) for r in (1.0, -1.0)] == [0.0, 1.0]


def test_levels_of_joined_conditions_are_the_largest_or_the_smallest() -> None:
    both = Result(quantities={"r": Estimate(0.5, p=0.01), "s": Estimate(0.5, p=0.3)})
    assert ((R.p <= 0.05) & (V("s").p <= 0.05)).attained(both) == 0.3
    assert ((R.p <= 0.05) | (V("s").p <= 0.05)).attained(both) == 0.01
    rows = Result(rows={"rows": pd.DataFrame({"p": [0.01, 0.02, 0.5]})})
    assert Each("rows", V("p") <= 0.05).attained(rows) == 1.0
    assert Each("rows", V("p").p <= 0.05).attained(rows) == 0.5
    assert Some("rows", V("p").p <= 0.05).attained(rows) == 0.01
    assert Some("rows", V("p").p <= 0.05, adjust="holm").attained(rows) == pytest.approx(0.03)
    assert NEVER.attained(rows) == 1.0


def test_levels_of_rules() -> None:
    few = Given(V("n") >= 5, RISES)
    assert (
        few.level(Result(quantities={"n": Estimate(3), "r": Estimate(0.9, p=0.001)}), SUPPORTED)
        == 1.0
    )
    assert (
        few.level(Result(quantities={"n": Estimate(8), "r": Estimate(0.9, p=0.001)}), SUPPORTED)
        == 0.001
    )
    assert EveryRow(Below("x", 1)).level(
        Result(
            rows={"rows": pd.DataFrame({"x": [0.5, 0.8], "lower": [0.4, 0.6], "upper": [0.6, 1.0]})}
        ),
        SUPPORTED,
    ) == pytest.approx(0.05)
    always = Always("against", V("share").upper < 0.25)
    shown = {"share": Estimate(0.0, 0.0, 0.25), "against": Estimate(0)}
    assert always.level(Result(quantities=shown), SUPPORTED) == pytest.approx(0.05)
    assert always.level(Result(quantities={**shown, "against": Estimate(2)}), AGAINST) == 0.0


def test_a_rule_without_a_level_is_refused_by_name_when_declared() -> None:
    claim = Claim("T01", "t", "", "", "")
    with pytest.raises(DataError, match=r"a rule without a level.*T01\.line"):
        claim.finding("line", primary=AtLeast(models=3))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"a condition without a level.*something nobody can order"):
        Condition("something nobody can order", lambda _: True)  # type: ignore[abstract,call-arg]
    claim.finding("line", primary=Posterior("r > 0"))


def test_many_studies_have_the_levels_that_they_have_one_by_one() -> None:
    r, p = np.array([0.5, -0.2, 0.1]), np.array([0.001, 0.4, np.nan])
    at_once = RISES.level(Result(quantities={"r": Many(r, r - 0.1, r + 0.1, p)}), SUPPORTED)  # type: ignore[dict-item]
    assert at_once.tolist() == [
        float(RISES.level(of(x, p=y), SUPPORTED)) for x, y in zip(r, p, strict=True)
    ]


@pytest.mark.parametrize("method", ["pearson", "spearman"])
@pytest.mark.parametrize("groups", [None, ["a"] * 3 + ["b"] * 4])
def test_correlations_of_many_studies_are_those_of_single_ones(
    method: str, groups: list[str] | None
) -> None:
    rng = np.random.default_rng(3)
    x, outcomes = rng.normal(size=7), rng.normal(size=(4, 7))
    found = estimate_correlations(x, outcomes, method=method, groups=groups)  # type: ignore[arg-type]
    for place, y in enumerate(outcomes):
        single = estimate_correlation(x, y, method=method, groups=groups, seed=1)  # type: ignore[arg-type]
        known = (single.estimate, single.lower, single.upper)
        assert (found.estimate[place], found.lower[place], found.upper[place]) == pytest.approx(
            known
        )
        p = single.p_permutation if groups is None else single.p_value
        assert found.p[place] == pytest.approx(p)


def test_means_and_shares_of_many_studies_are_those_of_single_ones() -> None:
    rng = np.random.default_rng(5)
    outcomes = rng.normal(0.3, 1, (5, 12))
    of_means, of_shares = estimate_means(outcomes), estimate_shares(outcomes > 0)
    for place, y in enumerate(outcomes):
        single, share = (
            estimate_one_sample(y, seed=1, resamples=1),
            estimate_proportion(int((y > 0).sum()), 12),
        )
        for found, known in ((of_means, single), (of_shares, share)):
            at = [getattr(found, name)[place] for name in ("estimate", "lower", "upper", "p")]
            assert at == pytest.approx([known.estimate, known.lower, known.upper, known.p_value])


@pytest.mark.parametrize("families", [7, 24])
def test_differences_of_many_studies_move_groups_whole(families: int) -> None:
    rng = np.random.default_rng(6)
    family = np.array([f"f{i % families}" for i in range(3 * families)])
    focal = np.isin(family, ["f0", "f1", "f2"])
    outcomes = rng.random((3, len(family))) < np.where(focal, 0.8, 0.3)
    found = estimate_differences(outcomes, focal, family)
    for place, y in enumerate(outcomes):
        by = pd.Series(y).groupby(family).mean()
        ours, others = by[["f0", "f1", "f2"]], by.drop(["f0", "f1", "f2"])
        single = stats.permutation_test(
            (ours, others),
            lambda a, b, axis: np.abs(a.mean(axis=axis) - b.mean(axis=axis)),
            alternative="greater",
            n_resamples=2500,
            rng=np.random.default_rng(1),
        )
        assert found.estimate[place] == pytest.approx(ours.mean() - others.mean())
        assert found.p[place] == pytest.approx(single.pvalue, abs=1e-9 if families == 7 else 0.03)


def test_the_bound_is_the_largest_level_below_which_too_few_studies_lie() -> None:
    assert (
        levels.find_bound(np.arange(1, 100) / 100, 0.05) == 0.04999
    )  # four of 99 lie below: (4 + 1)/(99 + 1)
    assert (
        levels.find_bound(np.full(99, 1 / 60), 0.05) == 0.01666
    )  # not 0.01667: what ties with it is not below it
    assert levels.find_bound(np.r_[np.zeros(12), np.ones(87)], 0.05) == 0.0
    assert levels.find_bound(np.zeros(10), 0.05) == 0.0
    grid = np.r_[np.full(12, 1 / 21), np.full(88, 0.5)]  # permutations whose floor comes up in 12%
    assert not Side(
        pd.DataFrame({"box": ["plausible"], "bound_05": [levels.find_bound(grid, 0.05)]})
    ).gives(1 / 21)


def test_truth_is_computed_from_large_samples_and_flips_at_the_boundary() -> None:
    asked = question(LINE, Decide((R > 0.3) & (R.p <= ALPHA), (R < 0.3) & (R.p > ALPHA)))
    rows = study()
    assert (
        levels.count_truths(asked, rows, LINE.build_world("claimed"))[SUPPORTED] == levels.SAMPLES
    )
    assert levels.count_truths(asked, rows, LINE.build_world("null"))[SUPPORTED] == 0
    sizes = levels.find_false_sizes(asked, rows)
    assert sizes[SUPPORTED][0] == "null" and sizes[AGAINST][0] == "claimed"
    for side in (SUPPORTED, AGAINST):
        assert LINE.size(sizes[side][1]) == pytest.approx(0.3, abs=0.05)


def test_a_null_in_which_neither_side_is_true_is_false_for_both() -> None:
    sizes = levels.find_false_sizes(question(LINE), study())
    assert sizes[SUPPORTED] == ["null"] and "null" in sizes[AGAINST] and "claimed" in sizes[AGAINST]


def test_either_side_of_one_bar_states_nothing_that_a_null_could_meet() -> None:
    apart = Decide((R.lower > 0) | (R.upper < 0), NEVER)
    assert apart.supported.statement() is apart.supported
    assert (
        Gate(R > 0).statement().words == "r > 0"
        and (Gate(R > 0) & (V("s") > 1)).statement().words == "s > 1"
    )


def test_bad_worlds_are_refused_by_name() -> None:
    nothing = replace(LINE, claimed=0.0)
    with pytest.raises(DataError, match=r"leaves no false world.*T01\.line"):
        levels.find_false_sizes(question(LINE, Decide(R > -2, NEVER)), study())
    with pytest.raises(DataError, match=r"fewer units than the simulation needs.*T01\.line"):
        list(levels.calibrate_rule(question(nothing, n=1), study(1)))

    def fails(_: pd.DataFrame) -> Result:
        raise UsageError("too few")

    lost = replace(question(LINE), trial=Trial(lambda _: study(), fails, "", LINE))
    with pytest.raises(DataError, match=r"truth of a world cannot be computed.*T01\.line"):
        levels.count_truths(lost, study(), LINE.build_world())
    with pytest.raises(DataError, match="without worlds"):
        levels.require_worlds(question(None))


def test_boxes_raise_one_nuisance_to_its_bound_or_all() -> None:
    worlds = replace(
        LINE, box={"ar": (0.0, 0.6), "ratio": (1.0, 3.0, 1 / 3), "between": (0.0, 0.6)}
    )
    plausible, hostile = worlds.plausible(), worlds.hostile()
    bounds = {"ar": (0.6,), "ratio": (3.0, 1 / 3), "between": (0.6,)}
    raised = [sum(point[name] in ends for name, ends in bounds.items()) for point in plausible]
    assert max(raised) == 1 and len({tuple(point.items()) for point in plausible}) == len(plausible)
    assert {"ar": 0.6, "ratio": 2.0, "between": 0.3} in plausible
    assert {"ar": 0.6, "ratio": 0.5, "between": 0.3} in plausible
    assert {"ar": 0.0, "ratio": 1.0, "between": 0.0} in plausible
    assert hostile == [{"ar": 0.6, "ratio": end, "between": 0.6} for end in (3.0, 1 / 3)]


def test_points_have_random_numbers_in_common() -> None:
    asked, rows = question(LINE), study()
    first, again = (
        levels.simulate_levels(asked, rows, LINE.build_world("null"), 20, "seed") for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    raised = levels.simulate_levels(asked, rows, LINE.build_world("null", ar=0.1), 20, "seed")
    assert np.corrcoef(np.log(first[:, 0] + 1e-3), np.log(raised[:, 0] + 1e-3))[0, 1] > 0.8


@pytest.fixture(scope="module")
def made() -> pd.DataFrame:
    """The rows of the table for a line that is clear in its data."""
    rows = study().assign(y=lambda own: own["x"] + 0.1 * own["y"])
    effort = levels.Effort(30, 40, 400, 200)
    return pd.DataFrame(levels.calibrate_rule(question(LINE), rows, effort)).reindex(
        columns=list(calibration.ORDER)
    )


def test_limits_are_those_of_the_worst_world_and_hold_again(made: pd.DataFrame) -> None:
    side, asked = Side(made[made["side"] == "supported"]), question(LINE)
    assert side.limit() == side.rows.loc[side.rows["box"] == "plausible", "bound_05"].min() < 0.05
    worst = side.worst
    assert worst is not None and "ar=0.6" in worst["point"]
    again = levels.simulate_levels(
        asked,
        study(),
        levels.require_worlds(asked).build_world(**levels.parse_point(worst["point"])),
        600,
        "again",
    )
    assert (again[:, 0] < side.limit()).mean() < 0.07
    assert (again[:, 0] <= ALPHA).mean() > 0.07
    assert side.p(side.limit() / 1e6) == "< .01" and side.p(0.9) == "above .05"
    assert 0 < side.power <= 1


def test_a_decided_verdict_has_tipping_points_and_conditions(made: pd.DataFrame) -> None:
    known = Side(made[made["side"] == "supported"])
    limit = known.limit("hostile")
    assert known.condition(limit * 0.5) == ""
    assert known.condition(limit * 1.01).startswith(
        "neighbours in x err alike (0.6) and SDs differ 3 times along x"
    )
    (level,) = set(made.loc[made["box"] == "tipping", "rate"])
    assert known.tipping(level * 2) == () and len(known.tipping(level)) == 2 * 2 + 2 * 2 * 2
    assert known.tipping(level)[0].startswith(
        "not up to neighbours in x err alike (0.6), the others at rest, normal"
    )


def test_a_verdict_falls_between_the_values_that_were_tried() -> None:
    path = [(0.0, 0.1), (0.3, 0.04), (0.6, 0.01)]
    assert levels.find_fall(path, 0.02) == (pytest.approx(0.5), True)
    assert levels.find_fall(path, 0.04) == (pytest.approx(0.3), True)
    assert levels.find_fall(path, 0.2) == (0.0, True) and levels.find_fall(path, 0.001) == (
        0.6,
        False,
    )


def table_of(**limits: tuple[float, float]) -> pd.DataFrame:
    """Rows of a table: a plausible and a hostile limit by side."""
    return pd.DataFrame(
        [
            {
                **{
                    "rule": "T01.line",
                    "n_models": 20,
                    "side": side.replace("_", " "),
                    "box": box,
                    "words": "all err alike",
                },
                **{
                    "point": "size=null; kind=normal; ar=0.6; ratio=3",
                    "studies": 1000,
                    "rate": 0.1,
                },
                **{"bound_05": limit, "bound_01": limit / 10, "bound_001": limit / 100},
                "digest": question(LINE).digest(),
            }
            for side, both in limits.items()
            for box, limit in zip(("plausible", "hostile"), both, strict=True)
        ]
    ).reindex(columns=list(calibration.ORDER))


def weighed(
    monkeypatch: pytest.MonkeyPatch,
    result: Result,
    rule: Rule = RISES,
    **limits: tuple[float, float],
):
    asked = question(LINE, rule)
    known = table_of(**limits).assign(digest=asked.digest())
    monkeypatch.setattr(calibration, "load_levels", lambda: known)
    return weigh(asked, shipped_tables(), result, study())


def test_a_side_is_given_below_its_limit_and_below_five_per_cent_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loose, strict = (0.2, 0.2), (0.01, 0.001)
    assert weighed(monkeypatch, of(0.5, p=0.04), supported=loose).verdict == SUPPORTED
    assert weighed(monkeypatch, of(0.5, p=0.06), supported=loose).verdict == OPEN
    found = weighed(monkeypatch, of(0.5, p=0.04), supported=strict)
    assert (found.verdict, found.strength.leans) == (OPEN, SUPPORTED)
    found = weighed(monkeypatch, of(0.5, p=0.005), supported=strict)
    assert found.verdict == SUPPORTED and found.strength.p == "≤ .05"
    assert found.strength.unless == "all err alike"
    assert weighed(monkeypatch, of(0.5, p=0.0005), supported=strict).strength.unless == ""


def test_of_two_sides_the_one_that_is_met_more_clearly_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = Decide((R > 0) & (R.p <= ALPHA), R.upper < 0.5)
    small = of(0.1, 0.02, 0.2, p=0.001)
    found = weighed(monkeypatch, small, both, supported=(0.01, 0.01), not_supported=(0.05, 0.05))
    assert found.verdict == AGAINST and found.strength.both
    found = weighed(monkeypatch, small, both, supported=(0.05, 0.05), not_supported=(1e-16, 1e-16))
    assert found.verdict == SUPPORTED and not found.strength.both


def test_too_little_data_is_a_matter_of_power(monkeypatch: pytest.MonkeyPatch) -> None:
    for power, reason in ((0.3, Reason.TOO_LITTLE), (0.7, Reason.UNDECIDED)):
        known = table_of(supported=(0.01, 0.01))
        row = {
            **known.iloc[0].to_dict(),
            "box": "power",
            "power": power,
            "models_wanted": 60,
            "groups_wanted": 15,
        }
        known = pd.concat([known, pd.DataFrame([row])], ignore_index=True)
        monkeypatch.setattr(calibration, "load_levels", lambda known=known: known)
        found = answer_question(WORDS, question(LINE), shipped_tables(), of(0.3, p=0.2), study())
        assert (found.verdict, found.reason) == (OPEN, reason)
        said = f"A study of this size finds an effect of the declared size in {power:.0%} of cases."
        assert found.criterion.settles == said
        grows = replace(question(LINE), scope=Scope(POOLED))
        found = answer_question(WORDS, grows, shipped_tables(), of(0.3, p=0.2), study())
        line = "`thermostats next T01` says which models would settle it."
        assert found.criterion.settles == f"{said} {line}"
        asked = question(LINE)
        assert asked.trial is not None
        at_will = replace(asked, trial=replace(asked.trial, larger=""))
        said = answer_question(
            WORDS, at_will, shipped_tables(), of(0.3, p=0.2), study()
        ).criterion.settles
        assert said.startswith(AT_WILL) and "would find" not in said and f"{power:.0%}" in said
    found = weighed(monkeypatch, of(0.5, p=0.04), supported=(0.0, 0.0))
    assert (found.verdict, found.reason) == (OPEN, Reason.TOO_LITTLE)
    assert describe_settling(question(LINE), found).startswith(
        "Even at its smallest level “supported” comes falsely"
    )


def test_a_side_of_a_tried_rule_without_a_false_world_is_not_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = weighed(monkeypatch, of(0.5, p=0.001), not_supported=(0.05, 0.05))
    assert (found.verdict, found.reason, found.strength.leans) == (
        OPEN,
        Reason.TOO_LITTLE,
        SUPPORTED,
    )
    assert (
        describe_settling(question(LINE), found)
        == "“supported” was tried in no case in which it is false, so it is not given."
    )
    assert weighed(monkeypatch, of(-0.5, p=0.001), not_supported=(0.05, 0.05)).verdict == AGAINST
    untried = weighed(monkeypatch, of(0.5, p=0.001))
    assert untried.verdict == SUPPORTED and "not been tried" in untried.strength.provisional


def test_a_side_that_nuisances_make_true_everywhere_is_refused_by_name() -> None:
    def lifted(size: float, *, kind: str, **nuisances: float) -> World:
        world = LINE.make(0.0, kind=kind, **nuisances)
        return replace(world, large=of(size if nuisances["ar"] == 0 else 1.0))

    worlds = replace(LINE, make=lifted, box={"ar": (0.0, 0.6)})
    rule = Decide((R > 0.3) & (R.p <= ALPHA), NEVER)
    assert levels.find_false_sizes(question(worlds, rule), study())[SUPPORTED]
    search = levels.Search(
        question(worlds, rule), study(), SUPPORTED, ["null"], levels.Effort(4, 4, 4, 4)
    )
    assert [point["ar"] for point in search.find_worst(levels.PLAUSIBLE)] == [0.0] * 2
    with pytest.raises(DataError, match=r"leaves no false world.*T01\.line.*“supported” is true"):
        raised = replace(worlds, box={"ar": (0.3, 0.6)})
        list(
            levels.calibrate_rule(
                question(replace(raised, null=0.0), rule), study(), levels.Effort(4, 4, 4, 4)
            )
        )


@pytest.mark.parametrize(("outlier", "unit"), [(0.0, ""), (9.0, "m0")])
def test_a_verdict_that_one_unit_carries_hangs_on_it(
    outlier: float, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = study()
    rows["y"] = (0 if outlier else 1) * rows["x"] + 0.3 * np.random.default_rng(4).normal(
        size=len(rows)
    )
    rows.loc[0, ["x", "y"]] += outlier
    asked = question(None, unit="model_id")
    monkeypatch.setattr(
        calibration, "load_levels", lambda: table_of(supported=(0.05, 0.05)).iloc[:0]
    )
    found = weigh(asked, shipped_tables(), of_line(rows), rows)
    assert found.reason == (Reason.ONE_UNIT if unit else Reason.NONE)
    assert not unit or found.strength.unit == unit
    at = levels.measure_attained(RISES, asked.trial, rows, of_line(rows), SUPPORTED)
    assert (at.without > levels.WITHOUT * ALPHA) == bool(unit)
    every = replace(asked, trial=replace(asked.trial, unit="")) if asked.trial else asked
    assert weigh(every, shipped_tables(), of_line(rows), rows).verdict == SUPPORTED


def test_a_study_that_hangs_on_a_unit_has_a_larger_level_in_the_simulation() -> None:
    """Its level is a quarter of the largest without a unit, so that both limits are one."""
    rows = study().assign(y=0.0)
    rows.loc[0, ["x", "y"]] = 9.0
    rows["y"] += 0.1 * np.random.default_rng(5).normal(size=len(rows))
    (supported, _) = levels._measure_study(RISES, Trial(lambda _: rows, of_line, "model_id"), rows)
    alone = of_line(rows[rows["model_id"] != "m0"])
    assert supported == pytest.approx(float(RISES.level(alone, SUPPORTED)) / 4)


def test_studies_at_once_are_studies_one_by_one() -> None:
    def many(rows: pd.DataFrame, outcomes: dict[str, np.ndarray]) -> dict[str, Many]:
        found = estimate_correlations(rows["x"].to_numpy(), outcomes["y"])
        t = found.estimate * np.sqrt((len(rows) - 2) / (1 - found.estimate**2))
        return {"r": replace(found, p=2 * stats.t.sf(np.abs(t), len(rows) - 2))}

    single = question(LINE, unit="model_id", n=8)
    assert single.trial is not None
    at_once = replace(
        single, trial=replace(single.trial, test=Test(many, ("y",), p_kind="p-value"))
    )
    for world in (LINE.build_world("null", "lognormal", ar=0.3), LINE.build_world("claimed")):
        one, other = (
            levels.simulate_levels(asked, study(8), world, 60, "seed")
            for asked in (single, at_once)
        )
        low = one[:, 0] <= ALPHA
        np.testing.assert_allclose(one[low, 0], other[low, 0], rtol=1e-6)
        assert (one[~low, 0] > ALPHA).all() and (other[~low, 0] > ALPHA).all()


def test_what_was_simulated_of_another_rule_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, known = question(LINE), table_of(supported=(0.01, 0.01))
    monkeypatch.setattr(calibration, "load_levels", lambda: known)
    assert (
        len(calibration.select_design(asked, 20)) == 2
        and calibration.select_design(asked, 21).empty
    )
    assert asked.trial is not None
    others = (
        replace(asked, primary=Above("r", 0)),
        replace(asked, trial=replace(asked.trial, version=2)),
        replace(asked, trial=replace(asked.trial, worlds=replace(LINE, claimed=0.5))),
        replace(asked, trial=replace(asked.trial, worlds=replace(LINE, box={}))),
    )
    assert all(calibration.select_design(other, 20).empty for other in others)


def test_limits_of_the_nearest_design_are_provisional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "load_levels", lambda: table_of(supported=(0.01, 0.01)))
    here, there = (
        calibration.find_nearest(question(LINE), 20),
        calibration.find_nearest(question(LINE), 33),
    )
    assert here.provisional == "" and here.tried
    assert (
        there.provisional
        == "its limits are those of a design of 20 rows, the nearest to the 33 here"
    )
    assert "not been tried" in Calibration(here.rows.iloc[:0]).provisional


def test_rows_of_ones_own_are_simulated_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "load_levels", lambda: table_of(supported=(0.01, 0.01)))
    asked = question(LINE, n=12)
    assert choose_calibration(asked, study(12)).provisional
    monkeypatch.setenv(CALIBRATE_VARIABLE, "1")
    known = choose_calibration(asked, study(12))
    assert known.provisional == "" and set(known.rows["box"]) == {"plausible", "hostile"}
    assert known.side(SUPPORTED).limit() != 0.01
    monkeypatch.setattr(
        calibration, "load_levels", lambda: table_of(supported=(0.01, 0.01)).iloc[:0]
    )
    alone = calibration.calibrate_rows(asked, study(12))
    assert alone.tried and alone.side(SUPPORTED).limit() > 0


def part(verdict: str, level: float, limit: float = 0.05) -> Finding:
    return Finding("T01.p", "p", verdict, "", strength=Strength(level=level, limit=limit))


def test_one_of_several_parts_speaks_against_the_whole_at_a_stricter_level() -> None:
    asked = Question("T01.line", "line", None, lambda _: Result(), parts=("T01.a", "T01.b"))
    for level, verdict, leans in ((0.02, AGAINST, ""), (0.03, OPEN, AGAINST)):
        parts = [part(AGAINST, level), part(SUPPORTED, 0.001)]
        found = combine_parts(WORDS, asked, parts, Result())
        assert (found.verdict, found.strength.leans) == (verdict, leans)
    assert (
        combine_parts(
            WORDS, asked, [part(SUPPORTED, 0.04), part(SUPPORTED, 0.001)], Result()
        ).verdict
        == SUPPORTED
    )


def test_a_line_of_a_verdict_has_its_condition_and_its_leaning() -> None:
    decided = Finding("T01.a", "a", SUPPORTED, "", strength=Strength(unless="all err alike"))
    assert decided.stands == "supported, unless all err alike"
    hangs = Finding("T01.a", "a", OPEN, "", Reason.ONE_UNIT, strength=Strength(unit="m0"))
    assert hangs.stands == "inconclusive (hangs on one unit, m0)"
    assert replace(hangs, reason=Reason.UNDECIDED).stands == "inconclusive (undecided)"
    leaning = Finding(
        "T01.a",
        "a",
        OPEN,
        "",
        Reason.UNDECIDED,
        strength=Strength(leans=AGAINST, provisional="few"),
    )
    assert leaning.stands == "inconclusive (undecided), leans to “not supported”, provisional"


def test_two_verdicts_of_a_claim_are_of_its_first_question() -> None:
    def on(name: str, evidence: str, verdict: str) -> Finding:
        return Finding(name, name, verdict, "", sample=Sample(evidence))

    findings = [
        on("a", "pooled", SUPPORTED),
        on("b", "published", AGAINST),
        on("a", "published", OPEN),
    ]
    own, every = pick_verdicts(findings)
    assert own is findings[2] and every is findings[0]
    assert pick_verdicts(findings[1:2]) == (findings[1], None) and pick_verdicts([]) == (None, None)


def test_a_verdict_over_findings_is_on_all_evidence_the_one_over_these_there() -> None:
    def on(name: str, evidence: str, verdict: str) -> Finding:
        strength = Strength(level=0.001, limit=0.04)
        return Finding(name, name, verdict, "", sample=Sample(evidence), strength=strength)

    whole = replace(on("whole", "", OPEN), criterion=Criterion(parts=("a", "b")))
    parts = [on("a", "published", OPEN), on("b", "published", OPEN), on("a", "pooled", SUPPORTED)]
    assert pick_verdicts([whole, *parts]) == (whole, None)
    for verdict in (SUPPORTED, AGAINST):
        own, every = pick_verdicts([whole, *parts, on("b", "pooled", verdict)])
        assert own is whole and every is not None and every.verdict == verdict


@pytest.mark.parametrize("claimed", [0.9, 0.0])
def test_shares_are_met_whether_units_are_alike_or_not(claimed: float) -> None:
    rows = pd.concat(
        [study().assign(heritage=lambda own, i=i: own["heritage"] + str(i)) for i in range(100)]
    )
    worlds = build_share_worlds("flips", claimed, 0.5)
    for size, share in (("claimed", claimed), ("null", 0.5)):
        for alike in (0.0, 0.3):
            made = worlds.build_world(size, alike=alike).change(rows, np.random.default_rng(1))
            assert made["flips"].mean() == pytest.approx(share, abs=0.03)


def test_plain_rows_say_the_same_in_types_of_numpy() -> None:
    rows = pd.DataFrame(
        {
            "n": [1, 2, None],
            "whole": [1, 2, 3],
            "sure": [True, False, True],
            "name": ["a", "b", None],
        }
    )
    rows = rows.convert_dtypes().astype({"name": "string"})
    made = convert_numpy(rows)
    assert [kind.kind for kind in made.dtypes] == ["f", "i", "b", "O"]
    assert made["whole"].tolist() == [1, 2, 3] and made["n"].isna().tolist() == [False, False, True]
    pd.testing.assert_frame_equal(convert_numpy(made), made)


def test_a_world_may_know_its_own_truth() -> None:
    def known(size: float, **_: float) -> World:
        return World("of known numbers", lambda *_: {}, LINE.build_world().errors, of(size))

    bar = replace(LINE, make=known)
    assert levels.count_truths(question(bar), study(), bar.build_world("null")) == {
        SUPPORTED: 0,
        AGAINST: 0,
    }
    assert (
        levels.count_truths(question(bar), study(), bar.build_world("claimed"))[SUPPORTED]
        == levels.SAMPLES
    )


def test_means_have_a_box_of_labs_alone() -> None:
    worlds = build_mean_worlds("y", 0.0, 0.1, 0.2)
    assert set(worlds.box) == {"between"} and worlds.build_world("null").words.startswith(
        "mean 0.1"
    )


def test_a_level_within_the_error_of_the_limit_is_at_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """α* = .01 of 1,000 studies: 5% ± 1.35% of them lie below, and levels go as p^1.43."""
    strict = (0.01, 0.001)
    side = Side(table_of(supported=strict).iloc[:1])
    assert side.limit_ends() == pytest.approx((0.00637, 0.01408), rel=0.01)
    for p, verdict, reason in (
        (0.004, SUPPORTED, Reason.NONE),
        (0.009, OPEN, Reason.AT_LIMIT),
        (0.012, OPEN, Reason.AT_LIMIT),
        (0.02, OPEN, Reason.TOO_LITTLE),
    ):
        found = weighed(monkeypatch, of(0.5, p=p), supported=strict)
        assert (found.verdict, found.reason) == (verdict, reason), p
    at_limit = weighed(monkeypatch, of(0.5, p=0.009), supported=strict)
    assert at_limit.strength.leans == SUPPORTED
    said = describe_settling(question(LINE), at_limit)
    assert said.startswith("The level 0.009 lies within the error of the limit, which is simulated")
    wide = weighed(monkeypatch, of(0.5, p=0.049), supported=(0.2, 0.2))
    assert wide.verdict == SUPPORTED  # 5% itself is not simulated


def test_an_open_verdict_leans_at_a_level_of_a_fifth_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interval of which the estimate alone lies on a side is no leaning."""
    rule = Decide(R.lower > 0, R.upper < 0)
    for lower, leans in ((-0.3, "supported"), (-1.0, "")):
        found = weighed(monkeypatch, of(0.8, lower, 1.6 - lower), rule, supported=(0.05, 0.05))
        assert (found.verdict, found.strength.leans) == (OPEN, leans)


def lean_on(level: float, unit: str = "model_id") -> Weighed:
    """A study whose level is .001, and without the first model as given."""
    rows = study().assign(heritage=lambda own: np.arange(len(own)) // 2)

    def test(own: pd.DataFrame) -> Result:
        whole = "m0" in set(own["model_id"])
        return Result.build(
            own, {"r": Estimate(0.775 if whole else 0.75, p=0.001 if whole else level)}
        )

    trial = Trial(lambda _: rows, test, unit)
    asked = replace(question(LINE), trial=trial)
    return weigh(asked, shipped_tables(), test(rows), rows)


@pytest.mark.parametrize(
    ("level", "reason", "says"),
    [
        (0.18, Reason.NONE, ""),
        (0.195, Reason.AT_LIMIT, "the verdict would be at the limit"),
        (0.2055, Reason.AT_LIMIT, "the verdict would be at the limit"),
        (0.22, Reason.ONE_UNIT, "the verdict would not stand"),
    ],
)
def test_a_unit_within_a_twentieth_of_what_is_allowed_is_at_the_limit(
    level: float, reason: Reason, says: str
) -> None:
    found = lean_on(level)
    assert found.reason == reason
    said = describe_settling(question(LINE), found)
    if not says:
        assert (found.verdict, said) == (SUPPORTED, "")
        return
    assert said == (
        f"Without m0 {says}, so it is left open: the estimate would be 0.75 in place of 0.775 and "
        f"the level {level:.3g} in place of 0.001, where at most 0.2 is allowed."
    )


def test_a_verdict_that_one_row_makes_names_it() -> None:
    """Labs are left out, and each carries the test; a model of a lab of two moves it all the
    same."""
    rows = study().assign(heritage=lambda own: np.arange(len(own)) // 2)

    def test(own: pd.DataFrame) -> Result:
        alone = {"m0", "m1"} & set(own["model_id"]) == {"m1"}
        return Result.build(own, {"r": Estimate(0.0 if alone else 1.0, p=0.9 if alone else 0.001)})

    trial = Trial(lambda _: rows, test, "heritage")
    asked = replace(question(LINE), trial=trial)
    found = weigh(asked, shipped_tables(), test(rows), rows)
    assert (found.verdict, found.row.unit) == (SUPPORTED, "m0")
    assert describe_row(found) == (
        "One model makes this verdict: without m0 the estimate would be 0 in place of 1 and the "
        "level 1 in place of 0.001.",
    )
    assert not describe_row(lean_on(0.01, "heritage"))


def test_of_worlds_of_one_limit_the_worst_is_that_of_most_false_verdicts() -> None:
    worlds = pd.DataFrame(
        {"bound_05": [0.02, 0.0, 0.0], "rate": [0.9, 0.2, 0.26], "words": ["a", "b", "c"]}
    )
    assert calibration.pick_worst(worlds)["words"] == "c"
