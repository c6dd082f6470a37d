"""Which models to measure next: moments of worlds, the search against brute force, predictions, and
what is printed."""

import json
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.noise import Random
from thermostats.claims.planning.advice import (
    NextModel,
    NextModels,
    NextSet,
    export_advice,
    summarise_advice,
    write_sentences,
)
from thermostats.claims.planning.campaign import choose_campaign
from thermostats.claims.planning.candidates import planned_evidence, planned_tables, read_candidates
from thermostats.claims.planning.contrast import (
    DesignContrast,
    Moved,
    NotLinearError,
    contrast_of,
    moments,
    simulated_moments,
)
from thermostats.claims.planning.next_models import (
    Prospect,
    Terms,
    asked_question,
    find_advice,
    find_new_groups,
    next_models,
    plan_claim,
    read_rows,
    write_lines,
)
from thermostats.claims.planning.prediction import predictive
from thermostats.claims.planning.scoring import Looks, Verdicts, shares_of
from thermostats.claims.planning.search import SMALL, SMALLER, Budget, Pool, SetSearch
from thermostats.claims.planning.shipped_advice import advise, load_advice
from thermostats.claims.question import Question, Trial
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, Result
from thermostats.claims.rule import NEVER, Decide, V
from thermostats.claims.run import load_claim, needs_of_all
from thermostats.claims.study import list_scripts
from thermostats.claims.worlds import (
    TOTAL,
    Worlds,
    build_descent_worlds,
    build_line_worlds,
    build_share_worlds,
    build_shift_worlds,
)
from thermostats.errors import UsageError
from thermostats.tables.folders import find_shipped

RNG = np.random.default_rng(4)
MODALITIES = (("a", "decoder"), ("b", "vision"), ("c", "encoder"))
HEADER = "model_id,heritage,family,n_layers,n_heads,d_model,n_params\n"


def study(n: int = 12, labs: int = 4) -> pd.DataFrame:
    """Models of some labs at several depths."""
    lab = [f"lab {k % labs}" for k in range(n)]
    return pd.DataFrame(
        {
            "model_id": [f"m{k}" for k in range(n)],
            "heritage": lab,
            "family": lab,
            "n_layers": RNG.permutation(np.arange(n) + 6).astype(float),
            "y": RNG.normal(size=n),
            "focal": [k % labs == 0 for k in range(n)],
            "holds": [k % 3 == 0 for k in range(n)],
        }
    )


def question(worlds: Worlds, within: str = "") -> Question:
    """A question whose rule is never asked."""
    trial = Trial(lambda evidence: study(), lambda rows: Result(), worlds=worlds, within=within)
    rule = Decide(V("r") > 0, NEVER)
    return Question("T01.one", "one", None, lambda evidence: Result(), rule, trial=trial)


LINE = build_line_worlds("y", "n_layers", 0.5)
SHIFT = build_shift_worlds("y", 0.4, TOTAL, by="focal")
DESCENT = build_descent_worlds("y", 0.6, "n_layers")
SHARE = build_share_worlds("holds", 0.9, 0.5)


@pytest.mark.parametrize("worlds", [LINE, SHIFT, DESCENT])
def test_moments_of_a_world_are_those_of_its_draws(worlds: Worlds) -> None:
    rows = study()
    for size in ("null", "claimed"):
        world = worlds.build_world(size, between=0.3, ar=0.3)
        mean, covariance = moments(world, rows)
        mean_drawn, drawn = simulated_moments(world, rows)
        assert np.abs(mean - mean_drawn).max() < 6 * TOTAL / 50_000**0.5
        assert np.abs(covariance - drawn).max() < 0.05 * TOTAL**2


def test_worlds_of_truth_values_have_no_moments_and_are_contrasts_of_shares() -> None:
    with pytest.raises(NotLinearError):
        moments(SHARE.build_world(), study())
    assert contrast_of(question(SHARE), study()).kind is Moved.SHARE
    kinds = [contrast_of(question(worlds), study()).kind for worlds in (LINE, SHIFT, DESCENT)]
    assert kinds == [Moved.MEAN, Moved.MEAN, Moved.SPREAD]


def test_information_of_a_mean_is_that_of_least_squares() -> None:
    rows = study()
    contrast = contrast_of(question(build_line_worlds("y", "n_layers", 0.5, group="")), rows)
    flat = replace(contrast, covariances=np.eye(len(rows))[None])
    x = contrast.effect - contrast.effect.mean()
    assert flat.precision() == pytest.approx(float(x @ x))


def test_models_of_a_group_by_themselves_say_nothing_of_a_test_within_groups() -> None:
    rows = study(8, 4)
    alone = rows.assign(family=[f"f{k}" for k in range(8)], heritage="one lab")
    pairs = alone.assign(family=[f"f{k % 4}" for k in range(8)])
    worlds = build_line_worlds("y", "n_layers", 0.5, group="")
    known = [contrast_of(question(worlds, "family"), each).precision() for each in (alone, pairs)]
    assert known[0] < 0.05 * known[1]


def test_more_rows_never_say_less() -> None:
    rows = study(14)
    for worlds in (LINE, SHIFT, DESCENT, SHARE):
        contrast = contrast_of(question(worlds), rows)
        known = [contrast.part(np.arange(n)).precision() for n in range(6, 15)]
        assert np.all(np.diff(known) > -1e-9 * known[-1]), worlds


def pool(seed: int, worlds: Worlds) -> Pool:
    """Ten candidates beside eight models at hand, each of a size of its own."""
    rng = np.random.default_rng(seed)
    lab = [f"lab {k}" for k in rng.integers(0, 6, 18)]
    names = [f"m{k}" for k in range(18)]
    depths = rng.integers(6, 60, 18).astype(float)
    rows = study(18).assign(heritage=lab, family=lab, n_layers=depths, model_id=names)
    rows = rows.assign(focal=rows["heritage"].isin(["lab 0", "lab 1"]))
    sizes = dict(zip(names, rng.uniform(0.5, 12, 18), strict=True))
    files = tuple(frozenset({name}) for name in names[8:])
    return Pool(contrast_of(question(worlds), rows), 8, files, sizes)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("worlds", [LINE, SHIFT, DESCENT, SHARE])
def test_the_search_agrees_with_brute_force(seed: int, worlds: Worlds) -> None:
    of = pool(seed, worlds)
    budget = Budget(20.0, 4)
    every = chain.from_iterable(combinations(range(10), n) for n in range(1, 5))
    fitting = [frozenset(chosen) for chosen in every if of.fits(frozenset(chosen), budget)]
    best = max(map(of.information, fitting))
    found = SetSearch(of, budget).best_sets()
    assert of.fits(found[0], budget) and len(set(found)) == len(found)
    assert of.information(found[0]) == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("worlds", [LINE, SHIFT, DESCENT, SHARE])
def test_more_to_spend_never_tells_less(seed: int, worlds: Worlds) -> None:
    of = pool(seed, worlds)
    budgets = [50.0 * SMALLER**k for k in range(4, -1, -1)]
    told = [
        of.information(found[0]) if found else 0.0
        for found in (SetSearch(of, Budget(each, 4)).best_sets() for each in budgets)
    ]
    assert all(more >= less * (1 - 2 * SMALL) for less, more in pairwise(told))


def test_what_tells_as_much_for_less_is_among_the_sets() -> None:
    """One candidate of 135 GB tells a little more than one of 10 GB: both are named."""
    effect = np.array([0.0, 0.1, 1.0, 1.005])
    contrast = DesignContrast(Moved.MEAN, effect, np.ones((4, 1)), np.eye(4)[None])
    files = tuple(frozenset({name}) for name in ("a", "b"))
    of = Pool(contrast, 2, files, {"a": 10.0, "b": 135.0})
    found = SetSearch(of, Budget(140.0, 1)).best_sets()
    assert found == [frozenset({1}), frozenset({0})]


def test_candidates_that_tell_something_only_together_are_found() -> None:
    effect = np.array([0.0, 1.0, 0.0, 0.0])
    group = np.array([0, 0, 1, 2])
    covariance = np.eye(4) + 100 * (group[:, None] == group[None, :])
    contrast = DesignContrast(Moved.MEAN, effect, np.ones((4, 1)), covariance[None])
    sizes = {str(place): 1.0 for place in range(4)}
    files = tuple(frozenset({str(place)}) for place in range(4))
    of = Pool(contrast, 0, files, sizes, (frozenset({0, 1}),))
    assert frozenset({0, 1}) <= SetSearch(of, Budget(2.0, 2)).best_sets()[0]


def test_predictions_keep_the_rows_at_hand_and_follow_their_effect() -> None:
    rows = study(16).assign(heritage=[f"h{k}" for k in range(16)])
    rows["family"] = rows["heritage"]
    x = rows["n_layers"].to_numpy()
    rows["y"] = 2.0 + 0.3 * x + 0.01 * RNG.normal(size=16)
    new = np.arange(16) >= 12
    asked = question(build_line_worlds("y", "n_layers", 0.5, group=""))
    world = predictive(asked, rows, new, contrast_of(asked, rows))
    assert world is not None
    drawn = world.draw(rows, Random(np.random.default_rng(2), 4000))["y"]
    assert (drawn[:, ~new] == rows["y"].to_numpy()[~new]).all()
    assert np.abs(drawn[:, new].mean(axis=0) - (2.0 + 0.3 * x[new])).max() < 0.05
    assert 0.005 < drawn[:, new].std(axis=0).max() < 0.1


def test_predicted_intervals_hold_what_was_promised() -> None:
    """The effect is drawn from its posterior, not plugged in: 90% of new outcomes lie in 90%."""
    rows = study(14).assign(heritage=[f"h{k}" for k in range(14)])
    rows["family"] = rows["heritage"]
    new = np.arange(14) >= 10
    asked = question(build_line_worlds("y", "n_layers", 0.5, group=""))
    contrast = contrast_of(asked, rows)
    inside = []
    for study_ in range(150):
        drawn = LINE.build_world(kind="normal").draw(rows, Random(np.random.default_rng(study_)))[
            "y"
        ][0]
        world = predictive(asked, rows.assign(y=drawn), new, contrast)
        assert world is not None
        ahead = world.draw(rows, Random(np.random.default_rng(study_), 400))["y"][:, new]
        low, high = np.quantile(ahead, [0.05, 0.95], axis=0)
        inside.append(((drawn[new] >= low) & (drawn[new] <= high)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.06)


def test_shares_ahead_are_those_of_the_rows_at_hand() -> None:
    rows = study(30).assign(holds=[k < 20 for k in range(30)])
    new = np.arange(30) >= 25
    asked = question(SHARE)
    world = predictive(asked, rows, new, contrast_of(asked, rows))
    assert world is not None
    drawn = world.draw(rows, Random(np.random.default_rng(3), 4000))["holds"]
    assert drawn[:, new].mean() == pytest.approx(20.5 / 26, abs=0.02)


def test_of_two_sides_the_one_further_below_its_limit_is_given() -> None:
    limits = {SUPPORTED: 0.02, AGAINST: 0.01}
    attained = np.array([[0.01, 0.5], [0.5, 0.001], [0.015, 0.001], [0.02, 0.01]])
    shares = shares_of(attained, limits)
    assert shares == {str(SUPPORTED): 0.25, str(AGAINST): 0.5, str(OPEN): 0.25}
    never = shares_of(attained, {SUPPORTED: 0.0, AGAINST: 0.0})
    assert never[str(OPEN)] == 1.0


def test_looks_share_five_per_cent() -> None:
    assert sum(Looks(5, taken).share for taken in range(5)) == pytest.approx(0.05)
    with pytest.raises(UsageError, match="looks"):
        Looks(6, 0)
    with pytest.raises(UsageError, match="no declared look"):
        Looks(2, 2)


def test_rows_that_candidates_add_are_those_that_the_claim_selects() -> None:
    """Of C21, models of shapes that both sides have; at hand nothing changes."""
    evidence = Evidence(None)
    candidates = read_candidates()
    names = ["cerebras/Cerebras-GPT-1.3B", "cerebras/Cerebras-GPT-111M"]
    chosen = candidates[candidates["model_id"].isin(names)]
    tables = planned_tables(chosen, evidence, ["gains"])
    claim = load_claim(list_scripts(find_shipped("analyses"))["C21"])
    asked = asked_question(claim)
    assert asked is not None
    trial = asked[0].require_trial()[1]
    before = trial.read_rows(evidence.named(POOLED), asked[0].over)
    after = trial.read_rows(planned_evidence(evidence.named(POOLED), tables, names), asked[0].over)
    assert set(after["model_id"]) - set(before["model_id"]) == {"cerebras/Cerebras-GPT-1.3B"}
    both = after[after["model_id"].isin(before["model_id"])].set_index("model_id")
    kept = before.set_index("model_id")["log_outcome"]
    assert np.allclose(both.loc[kept.index, "log_outcome"], kept)
    again = trial.read_rows(evidence.named(POOLED), asked[0].over)
    assert set(again["model_id"]) == set(before["model_id"])


def own_list(path: Path, *lines: str) -> Path:
    """A list of candidates of one's own."""
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_list_of_ones_own_needs_names_and_shapes(tmp_path: Path) -> None:
    good = own_list(tmp_path / "good.csv", "me/one,Me,one,24,16,2048,1300000000")
    assert read_candidates(good)["download_gb"].tolist() == [2.6]
    bad = own_list(tmp_path / "bad.csv", "me/one,Me,one,24,16,,1300000000")
    with pytest.raises(UsageError, match=r"candidates without shape.*me/one"):
        read_candidates(bad)
    twice = own_list(tmp_path / "twice.csv", *["me/one,Me,one,24,16,2048,1300000000"] * 2)
    with pytest.raises(UsageError, match="listed twice"):
        read_candidates(twice)
    less = tmp_path / "less.csv"
    less.write_text("model_id\nme/one\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"lacks columns.*d_model"):
        read_candidates(less)
    with pytest.raises(UsageError, match="no such file"):
        read_candidates(tmp_path / "none.csv")


def test_a_claim_that_no_model_settles_and_a_budget_that_none_fits_are_told() -> None:
    assert "No question of it is put to public models" in next_models("C07").first_line
    assert "set at will" in next_models("C05").first_line
    with pytest.raises(UsageError, match="no candidate fits the budget"):
        next_models("C21", budget=1e-6)
    with pytest.raises(UsageError, match="no such claim"):
        next_models("C99")
    with pytest.raises(UsageError, match="no such finding"):
        next_models("C21", finding="none")


def test_advice_names_the_models_their_costs_and_the_line(tmp_path: Path) -> None:
    lines = [
        f"me/{name},{lab},{lab},{depth},12,768,{size}"
        for name, lab, depth, size in (
            ("a", "A", 12, 124e6),
            ("b", "B", 12, 130e6),
            ("c", "C", 20, 200e6),
        )
    ]
    claim = load_claim(list_scripts(find_shipped("analyses"))["C01"])
    candidates = read_candidates(own_list(tmp_path / "own.csv", *lines))
    budget = Budget(1.0, 2)
    advice = plan_claim(claim, Evidence(None), candidates, Terms(budget))
    assert not advice.sets and "No candidate within the budget enters" in advice.first_line
    claim = load_claim(list_scripts(find_shipped("analyses"))["H01"])
    open_finding = Terms(budget, finding="beyond_shape.geometric_gain")
    advice = plan_claim(claim, Evidence(None), candidates, open_finding)
    assert isinstance(advice, NextModels) and advice.rows >= 40
    best = advice.sets[0]
    assert 1 <= len(best.models) <= 2 and best.verdicts is not None
    assert best.download_gb <= 1.0 and best.models[0].gated == "not stated"
    assert advice.lines[0].startswith("thermostats measure me/")
    assert sum(best.verdicts.predicted.values()) == pytest.approx(1.0)
    assert all(0 <= limit <= 0.025 for limit in best.verdicts.limits.values())
    assert "settle" in advice.first_line
    assert "look 2 of 2" in " ".join(write_sentences(advice))
    assert json.loads(json.dumps(export_advice(advice), allow_nan=False))["rows"] == advice.rows


def test_the_table_over_claims_names_the_line_for_each() -> None:
    rows = {row["claim"]: row for row in needs_of_all()}
    assert len(rows) == len(list_scripts(find_shipped("analyses")))
    assert rows["C21"]["next"] == "thermostats next C21" and rows["C21"]["models"] > 0
    assert rows["N01"]["next"] == "thermostats needs N01" and rows["N01"]["models"] == 0


def told(claim: str, *sets: tuple[dict[str, float], float], verdict: str = "") -> NextModels:
    """Advice for a claim: sets, each of models with their gigabytes and a probability of a
    verdict."""
    made = []
    for sizes, decided in sets:
        models = tuple(NextModel(name, size, 1.0, "no", "") for name, size in sizes.items())
        shares = {SUPPORTED: decided, AGAINST: 0.0, OPEN: 1 - decided}
        predicted = {str(side): share for side, share in shares.items()}
        limits, least = ({str(side): value for side in shares} for value in (0.05, 0.0))
        found = Verdicts(limits, least, predicted, decided, 0.0, 400)
        made.append(NextSet(models, 9, 0.1, (1.0, 0.9), found))
    budget = Budget(10, 6)
    return NextModels(claim, claim, claim, POOLED, 3, budget, Looks(), tuple(made), verdict=verdict)


def test_a_campaign_has_the_sets_of_open_claims_that_fit_together() -> None:
    every = [
        told("A", ({"a": 4.0, "b": 1.0}, 0.9)),
        told("B", ({"b": 1.0, "c": 5.0}, 0.85)),
        told("C", ({"d": 1.0}, 0.5)),
        told("D", ({"e": 1.0}, 1.0), verdict=str(AGAINST)),
        told("E", ({"f": 8.0}, 0.9)),
    ]
    chosen = choose_campaign(every, 10.0)
    assert [model.model_id for model in chosen.models] == ["a", "b", "d"]
    assert list(chosen.claims) == ["C", "A"] and chosen.download_gb == 6.0
    assert chosen.lines[0].startswith("thermostats measure a b d --what")
    assert "No set within 0.5 GB" in choose_campaign(every, 0.5).write_sentences()[0]
    assert every[0].first_line.startswith("2 models (5 GB) would probably settle this.")
    assert every[2].first_line.startswith("No 6 models within 10 GB settle this")
    assert "The rows at hand decide this: not supported" in every[3].first_line
    assert summarise_advice(every[4])["verdict comes"] == "90%"


def test_a_campaign_takes_what_brings_as_much_for_less_and_then_what_brings_more() -> None:
    large, small = ({"h": 135.0}, 0.83), ({"a": 1.0}, 0.8)
    every = [told("A", large, small), told("B", ({"b": 30.0}, 0.7)), told("C", ({"c": 20.0}, 0.5))]
    chosen = choose_campaign(every, 150.0)
    assert [model.model_id for model in chosen.models] == ["a", "b", "c"]
    better = [told("A", ({"h": 90.0}, 0.99), small), *every[1:]]
    assert "h" in {model.model_id for model in choose_campaign(better, 150.0).models}


@pytest.mark.parametrize("seed", range(30))
def test_a_larger_budget_never_brings_fewer_verdicts(seed: int) -> None:
    """Of claims whose sets share models, for any two budgets."""
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abcdefghijkl", rng.lognormal(1.5, 1.5, 12).round(2).tolist(), strict=True))
    every, chances = [], {}
    for claim in "ABCDEF":
        sets = []
        for _ in range(3):
            names = rng.choice(list(sizes), size=int(rng.integers(1, 4)), replace=False)
            chance = round(float(rng.uniform(0.1, 1.0)), 3)
            sets.append(({name: sizes[name] for name in sorted(names)}, chance))
        every.append(told(claim, *sets))
        chances[claim] = sets
    brought = []
    for budget in np.sort(rng.uniform(1, sum(sizes.values()), 12)):
        chosen = choose_campaign(every, float(budget))
        names = {model.model_id for model in chosen.models}
        assert chosen.download_gb <= budget
        of_claims = (
            max((chance for sizes_, chance in chances[claim] if set(sizes_) <= names), default=0.0)
            for claim in chosen.claims
        )
        brought.append(sum(of_claims))
    assert brought == sorted(brought)


def test_a_side_that_no_study_reaches_is_told() -> None:
    found = Verdicts({SUPPORTED: 0.02, AGAINST: 0.02}, {SUPPORTED: 0.03, AGAINST: 0.0}, {}, 0, 0, 9)
    assert found.out_of_reach == [SUPPORTED]
    one = NextSet((NextModel("a", 1.0, 1.0, "no", ""),), 9, 0.1, (1.0, 0.9), found)
    advice = NextModels("A", "A", "A", POOLED, 3, Budget(10, 6), Looks(), (one,))
    said = " ".join(write_sentences(advice))
    assert "“supported” is out of reach of set 1" in said and "“not supported” is" not in said


def test_a_smaller_effect_than_stated_is_told_and_what_is_decided_needs_no_set() -> None:
    found = Verdicts(
        {SUPPORTED: 0.02, AGAINST: 0.02}, {SUPPORTED: 0.01, AGAINST: 0.01}, {}, 0.97, 0, 400
    )
    one = NextSet((NextModel("a", 1.0, 1.0, "not stated", ""),), 9, 0.1, (1.0, 0.9), found)
    advice = NextModels("A", "A", "A", POOLED, 3, Budget(10, 6), Looks(), (one,))
    rare = replace(found, predicted={SUPPORTED: 0.01, AGAINST: 0.02, OPEN: 0.97})
    often = replace(found, predicted={SUPPORTED: 0.9, AGAINST: 0.0, OPEN: 0.1})
    for verdicts, told_so in ((found, False), (rare, True), (often, False)):
        said = replace(advice, sets=(replace(one, verdicts=verdicts),))
        assert ("show a smaller effect" in said.first_line) == told_so
        assert "No source says of a whether it is given" in " ".join(write_sentences(said))
    decided = replace(advice, verdict=str(SUPPORTED))
    assert "Nothing has to be measured for it." in decided.first_line


def test_models_that_read_images_are_measured_on_images() -> None:
    assert write_lines(dict(MODALITIES), ["gains"]) == (
        "thermostats measure a c --what gains --data mine",
        "thermostats measure b --prompts images --what gains --data mine",
    )


def test_a_test_that_needs_more_rows_gets_as_many_as_it_needs() -> None:
    sizes = {str(place): float(place + 1) for place in range(6)}
    files = tuple(frozenset({name}) for name in sizes)
    contrast = DesignContrast(Moved.COUNT, np.ones(8), np.ones((8, 0)), np.eye(8)[None])
    of = Pool(contrast, 2, files, sizes, (), least=6)
    best = SetSearch(of, Budget(11.0, 6)).best_sets()[0]
    assert of.shortfall(best) == 0 and of.list_models(best) == {"0", "1", "2", "3"}


@pytest.mark.parametrize(("gigabytes", "most"), [(14.0, 5), (14.0, 3), (9.0, 4), (21.0, 6)])
def test_of_a_new_group_comes_what_is_read_with_it_or_none(gigabytes: float, most: int) -> None:
    """Against every choice: two groups of small models, of which two and three are needed."""
    sizes = {str(place): float(place + 1) for place in range(8)}
    files = tuple(frozenset({name}) for name in sizes)
    contrast = DesignContrast(Moved.COUNT, np.ones(10), np.ones((10, 0)), np.eye(10)[None])
    pairs, triples = (frozenset({0, 1, 2}), frozenset({0, 2})), (frozenset({3, 4, 5}),) * 2
    needed = (pairs[1], triples[1])
    of = Pool(contrast, 2, files, sizes, needed, groups=(pairs, triples))
    budget = Budget(gigabytes, most)
    read = [
        choice
        for count in range(1, most + 1)
        for choice in map(frozenset, combinations(range(8), count))
        if of.cost(choice)[0] <= gigabytes
        and (not choice & pairs[0] or {0, 2} <= choice)
        and (not choice & triples[0] or {3, 4, 5} <= choice)
    ]
    best = SetSearch(of, budget).best_sets()
    assert all(choice in read for choice in best)
    assert of.information(best[0]) == max(map(of.information, read))


def test_a_test_that_needs_more_rows_gets_them_of_a_new_group() -> None:
    """No model of it is read alone, so that the first step takes both that are read together."""
    sizes = {str(place): float(place + 1) for place in range(4)}
    files = tuple(frozenset({name}) for name in sizes)
    contrast = DesignContrast(Moved.COUNT, np.ones(6), np.ones((6, 0)), np.eye(6)[None])
    pair = frozenset({1, 2})
    group = frozenset(range(4))
    of = Pool(contrast, 2, files, sizes, (pair,), least=5, groups=((group, pair),))
    search = SetSearch(of, Budget(100.0, 4))
    assert search.smallest() == {0, 1, 2}


@dataclass(frozen=True)
class Asked(Prospect):
    """What a made-up claim would read: families with models of so many depths."""

    depths: int = 3

    def plan_rows(self, names: frozenset[str]) -> tuple[pd.DataFrame, str]:
        rows = self.facts.loc[sorted(names)].reset_index()
        return rows[rows.groupby("family")["n_layers"].transform("nunique") >= self.depths], ""


def asked_of(families: dict[str, list[tuple[int, float]]], depths: int) -> Asked:
    """A claim about families; of each model of a family its depth and download."""
    rows = [
        {"model_id": f"{name}-{k}", "family": name, "n_layers": depth, "download_gb": size}
        for name, models in families.items()
        for k, (depth, size) in enumerate(models)
    ]
    facts = pd.DataFrame(rows).set_index("model_id")
    empty = NextModels("T01", "", "T01.one", POOLED, 0, Budget(60.0, 6), Looks())
    none = pd.DataFrame({"model_id": []})
    within = question(LINE, "family")
    return Asked(within, Evidence(None), none, facts, {}, (), empty, depths=depths)


@pytest.mark.parametrize("depths", [1, 2, 3, 4])
def test_what_a_new_group_takes_is_the_least_that_the_claim_reads(depths: int) -> None:
    """Against every part of a group; two copies of each size of one depth, as CodeGen has."""
    copies = [(20, 0.7)] * 2 + [(32, 5.6)] * 2 + [(33, 14.1)] * 2 + [(34, 32.1)] * 2
    families = {"copies": copies, "unlike": [(40, 3.0), (10, 2.0), (30, 1.0)], "one": [(8, 1.0)]}
    of = asked_of(families, depths)
    rows = of.facts.reset_index()
    least = find_new_groups(of, of.at_hand, rows)
    assert list(least) == sorted(families)
    for family, own in rows.groupby("family"):
        every = [
            frozenset(part)
            for count in range(1, len(own) + 1)
            for part in combinations(own["model_id"], count)
            if len(of.plan_rows(frozenset(part))[0])
        ]
        sizes = [of.facts.loc[sorted(part), "download_gb"].sum() for part in every]
        found = least[family]
        assert bool(found) == bool(every)
        assert not any(part < found for part in every)
        taken = of.facts.loc[sorted(found), "download_gb"].sum()
        assert taken == pytest.approx(min(sizes, default=0.0))
    held = rows[rows["family"] == "copies"]
    assert "copies" not in find_new_groups(of, held, rows)


def test_every_model_of_a_set_enters_the_rows_of_the_claim() -> None:
    """C01 reads families of three depths. CodeGen has three models of each: not the three smallest
    are read, but one of each of the three smallest sizes; and of SmolLM all three."""
    claim = load_claim(list_scripts(find_shipped("analyses"))["C01"])
    asked = asked_question(claim)
    assert asked is not None
    evidence = Evidence(None)
    candidates = read_candidates()
    candidates = candidates[candidates["family"].isin(["codegen", "smollm"])]
    advice = plan_claim(claim, evidence, candidates.reset_index(drop=True), Terms(Budget(25.0, 6)))
    assert advice.sets
    here = evidence.named(asked[1])
    tables = planned_tables(candidates, evidence, ["gains"])
    for each in advice.sets:
        names = frozenset(model.model_id for model in each.models)
        rows, _ = read_rows(asked[0], planned_evidence(here, tables, names))
        assert names <= set(rows["model_id"])
        assert each.rows == len(rows) == advice.rows + len(names)


def test_advice_is_kept_and_made_anew_where_candidates_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THERMOSTATS_CACHE", str(tmp_path / "cache"))
    claim = load_claim(list_scripts(find_shipped("analyses"))["C21"])
    own = [
        f"me/{name},Me{name},{name},24,16,2048,{size}" for name, size in (("a", 1e9), ("b", 2e9))
    ]
    terms = Terms(Budget(10.0, 2))
    one = read_candidates(own_list(tmp_path / "one.csv", own[0]))
    first = find_advice(claim, Evidence(None), one, terms)

    def refuse(*_: object, **__: object) -> None:
        raise TypeError("made anew")

    monkeypatch.setattr("thermostats.claims.planning.next_models.plan_claim", refuse)
    again = find_advice(claim, Evidence(None), one, terms)
    assert again == first and len(again.sets[0].models) == 1
    both = read_candidates(own_list(tmp_path / "two.csv", *own))
    with pytest.raises(TypeError, match="made anew"):
        find_advice(claim, Evidence(None), both, terms)


def test_a_page_has_the_answer_of_the_shipped_advice_without_chances() -> None:
    shipped = load_advice()
    scripts = list_scripts(find_shipped("analyses"))
    answers = []
    for name in ("C01", "C02", "X02"):
        asked = asked_question(load_claim(scripts[name]))
        assert asked is not None
        answers.append(advise(asked[0]))
        says = shipped.loc[shipped["finding"] == asked[0].id, "says"]
        _, told, said = answers[-1].partition(" says: ")
        assert told and said and any(each.startswith(said) for each in says)
        assert "simulated" not in answers[-1] and f"next {name}" in answers[-1]
    assert answers[0].endswith("`thermostats next C01` says: No 6 models within 60 GB settle this.")


def test_rows_that_lack_an_error_of_measurement_are_planned_with() -> None:
    advice = next_models("C02", budget=1.0, models=1)
    assert advice.sets[0].verdicts is not None
