"""Power of a claim in its own worlds: against a closed form, and studies as they are asked for."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import command
from scipy import stats

from thermostats.claims import power as planning
from thermostats.claims.calibration import ORDER, Calibration
from thermostats.claims.levels import POWER
from thermostats.claims.power import power, simulate_planned_power, write_sentences
from thermostats.claims.question import Question, Trial
from thermostats.claims.result import SUPPORTED, Estimate, Result
from thermostats.claims.rule import ALPHA, Decide, V
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.claims.worlds import build_mean_worlds
from thermostats.errors import DataError, UsageError
from thermostats.modelling.fit import Fit
from thermostats.modelling.fit_power import FitPower
from thermostats.modelling.planned import WANTED, PlannedStudy, draw_rows, plan_studies
from thermostats.tables.folders import find_shipped
from thermostats.tables.join import join

MEAN = V("mean")
RULE = Decide((MEAN > 0) & (MEAN.p <= ALPHA), (MEAN < 0) & (MEAN.p <= ALPHA))
SHIFT = 0.5


def here() -> pd.DataFrame:
    """Three labs of five, two and one models; of each two rows."""
    models = {"a": 5, "b": 2, "c": 1}
    rows = [
        (f"{lab}{k}", lab, prompt) for lab, n in models.items() for k in range(n) for prompt in "pq"
    ]
    return pd.DataFrame(rows, columns=["model_id", "heritage", "prompt_id"]).assign(
        y=0.0, x=range(16)
    )


def mean(rows: pd.DataFrame) -> Result:
    found = stats.ttest_1samp(rows["y"], 0.0)
    return Result.build(rows, {"mean": Estimate(float(rows["y"].mean()), p=float(found.pvalue))})


def question() -> Question:
    trial = Trial(lambda _: here(), mean, "", build_mean_worlds("y", SHIFT, 0.0, 1.0, group=""))
    return Question("T01.mean", "mean", None, lambda _: mean(here()), RULE, trial=trial)


def known(limit: float) -> Calibration:
    """What is known of a rule: that one side has power, and below which level it is given."""
    rows = [{"side": str(SUPPORTED), "box": box, "bound_05": limit} for box in (POWER, "plausible")]
    return Calibration(pd.DataFrame(rows).reindex(columns=list(ORDER)))


def test_labs_at_hand_take_turns_and_whoever_comes_again_is_another() -> None:
    made = draw_rows(PlannedStudy((4, 3, 2, 2)), here(), np.random.default_rng(1))
    models = made.drop_duplicates("model_id").groupby("heritage")["model_id"].agg(list)
    assert {lab: len(of) for lab, of in models.items()} == {"a": 4, "b": 3, "c": 2, "a 1": 2}
    assert set(models["a"]) < {f"a{k}" for k in range(5)} and {
        name[0] for name in models["a 1"]
    } == {"a"}
    assert sorted(models["b"])[:2] == ["b0", "b1"] and sorted(models["c"]) == ["c0", "c0 0.1"]
    assert made.groupby("model_id").size().eq(2).all() and len(made) == 22
    repeated = made[made["model_id"].str.startswith("c0")].groupby("model_id")["x"].agg(list)
    assert repeated.iloc[0] == repeated.iloc[1] == [14, 15]


@pytest.mark.parametrize("limit", [ALPHA, 0.01])
def test_power_is_that_of_the_t_test(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """P(t > t_(1−α/2)) with t noncentral, δ = shift √n: each model has two rows, so n is twice the
    models."""
    monkeypatch.setattr(planning, "calibrate_rows", lambda *_: known(limit))
    sizes = plan_studies([6, 20], [3], [[9, 1]], write=str)
    table = simulate_planned_power(question(), here(), sizes, most=1000)
    assert table[["models", "labs", "largest"]].to_numpy().tolist() == [
        [6, 3, 2],
        [20, 3, 7],
        [10, 2, 9],
    ]
    for row in table.itertuples():
        power = exact(int(row.models), limit)
        assert row.power == pytest.approx(power, abs=4 * (power * (1 - power) / row.studies) ** 0.5)
        assert row.error < 0.05 and row.limit == limit and row.studies == 1000
    share = table["power"][1]
    reached = (
        f"20 models of 3 labs would say “supported” where it is true in {share:.0%} of simulations."
    )
    none = "No study of these sizes says “supported” where it is true in 80% of simulations."
    assert write_sentences(table) == [reached if share >= WANTED else none]


def exact(models: int, limit: float) -> float:
    n = 2 * models
    return float(stats.nct.sf(stats.t.isf(limit / 2, n - 1), n - 1, SHIFT * n**0.5))


def test_a_rule_that_was_not_tried_is_tried_on_the_study_itself() -> None:
    """Of a mean of 0 “not supported” is not true, so that it has no power there."""
    table = simulate_planned_power(
        question(), here(), plan_studies([12], [3], [], write=str), most=400
    )
    assert table["side"].tolist() == ["supported"] and 0 < table["limit"][0] < ALPHA
    assert table["power"][0] == pytest.approx(exact(12, table["limit"][0]), abs=0.1)


def test_studies_are_every_pair_as_even_as_may_be() -> None:
    made = plan_studies([7, 9], [2, 3], [[1, 5, 2]], write=str)
    assert [study.sizes for study in made] == [(4, 3), (3, 2, 2), (5, 4), (3, 3, 3), (5, 2, 1)]


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"models": 20}, "models=[20], labs=[10]"),
        ({"labs": 1}, "models=[20, 40, 80], labs=[2]"),
        ({"models": [20], "labs": [1, 2]}, "models=[20], labs=[2]"),
        ({"models": [3, 30], "labs": 9}, "models=[9, 30], labs=[9]"),
        ({"sizes": [12]}, "sizes=[[12, 12]]"),
        ({"sizes": [[2, 1], [8, 7]]}, "sizes=[[3, 1], [8, 7]]"),
        ({}, "models=[20, 40, 80], labs=[10]"),
    ],
)
def test_a_size_that_no_study_has_leads_to_the_nearest_that_one_has(
    asked: dict[str, Any], line: str
) -> None:
    with pytest.raises(UsageError) as refused:
        power("C05", **asked, finding="ratio.right_value_matrix")
    step = refused.value.next_step
    assert step == f'thermostats.power("C05", {line}, finding="ratio.right_value_matrix")'
    sizes = eval(f"dict({line})")  # noqa: S307
    nothing: dict[str, Any] = {"models": (), "labs": (), "sizes": ()}
    assert plan_studies(**{**nothing, **sizes}, write=str)


def test_a_study_of_one_lab_is_simulated_where_the_claim_is_about_one_else_refused() -> None:
    one = power("C01", models=[10], labs=[1], most=20)
    assert set(one["labs"]) == {1} and one["power"].max() > 0
    ran = command("power", "C05", "--labs", "1", "--models", "20,40", "--studies", "50")
    line = "thermostats power C05 --models 20,40 --labs 2 --studies 50"
    assert ran.returncode == 2 and ran.stderr.rstrip().endswith(f"Next: {line}")
    sizes = command("power", "C05", "--sizes", "3", "--figure", "power.svg")
    line = "thermostats power C05 --sizes 3,3 --figure power.svg"
    assert sizes.returncode == 2 and sizes.stderr.rstrip().endswith(f"Next: {line}")


def test_a_claim_without_worlds_and_a_finding_that_is_not_there_are_named() -> None:
    with pytest.raises(UsageError, match="no such finding that was tried"):
        power("C05", models=[20], labs=[5], finding="nothing")


def test_levels_that_end_above_the_limit_are_no_lack_of_power() -> None:
    rows = {
        "side": ["supported"] * 2,
        "models": [8, 16],
        "labs": [2, 2],
        "power": [0.0, 0.0],
        "limit": [6e-4, 5e-4],
    }
    lines = planning.write_sentences(pd.DataFrame({**rows, "least": [1 / 1500, 1 / 1500]}))
    assert any(
        "No simulated test attains a level below α*: the least is 0.00067" in line for line in lines
    )
    assert not any(
        "attains" in line
        for line in planning.write_sentences(pd.DataFrame({**rows, "least": [1e-5, 1 / 1500]}))
    )


@pytest.mark.slow
def test_the_command_gives_a_grid_and_a_figure(tmp_path: Path) -> None:
    figure = tmp_path / "power.svg"
    asked = [
        "--models",
        "12,20",
        "--labs",
        "4",
        "--sizes",
        "9,2,1",
        "--studies",
        "40",
        "--figure",
        figure,
        "--json",
    ]
    rows = json.loads(command("power", "C05", *asked).stdout)
    assert sorted({(row["models"], row["labs"], row["largest"]) for row in rows}) == [
        (12, 3, 9),
        (12, 4, 3),
        (20, 4, 5),
    ]
    assert all(0 <= row["power"] <= 1 and row["limit"] <= ALPHA for row in rows)
    assert "power of C05" in figure.read_text(encoding="utf-8") or figure.read_text(
        encoding="utf-8"
    ).startswith("<?xml")


BLOCKS = ("nnsight", "transformer_lens", "wandb", "wide")
STRANGERS = Path(__file__).parents[1] / "strangers"
FILES = sorted(STRANGERS.glob("*.csv"))


def refuse_file(file: Path, **sizes: Any) -> str:
    """The next step of who asks for the power of a file on the command line."""
    asked = {"models": [], "labs": [], "sizes": [], **sizes}
    with pytest.raises(UsageError, match="planned by a fit") as refused:
        planning.check_claim(str(file), asked, is_shell=True)
    return refused.value.next_step


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_in_the_place_of_a_claim_leads_to_a_fit_of_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that is printed runs as it is, up to the studies."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(Fit, "power", lambda self, **sizes: asked.append(sizes))
    lines = refuse_file(file, models=[20, 40], labs=[9]).split("\n")
    *before, line = (each for each in lines if re.match("thermostats|python|# then", each))
    assert bool(before) == (file.stem in BLOCKS)
    _, option, code = shlex.split(line[line.index("python -c") :])
    assert option == "-c"
    if not before:
        exec(code, {})  # noqa: S102
        assert asked == [{"models": [20, 40], "labs": [9]}]
    else:
        assert before == [f"thermostats join {shlex.quote(str(file))} --data mine"]
        assert ".power(models=[20, 40], labs=[9])" in code


def test_the_command_line_says_what_to_do_with_a_file(tmp_path: Path) -> None:
    ran = command("power", STRANGERS / "german.csv", "--sizes", "8,7,1,1")
    assert ran.returncode == 2 and "the id of a claim, such as C05" in ran.stderr
    assert ".power(sizes=[[8, 7, 1, 1]])" in ran.stderr and 'sep=";", decimal=","' in ran.stderr
    with pytest.raises(UsageError, match=r'df = pd\.read_csv\("[^"]*models\.csv"\)\n.*models=40'):
        power(str(STRANGERS / "models.csv"), models=40, labs=9)
    with pytest.raises(UsageError, match="no such file"):
        power("none.csv")
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        power(str(tmp_path / "empty.csv"))


def join_models(folder: Path, labs: int) -> Path:
    """A folder of nine models of a user's, of so many labs."""
    names = [f"own/m{number}" for number in range(9)]
    of_labs = [f"lab {number % labs}" for number in range(9)]
    facts = {"heritage": of_labs, "n_layers": range(8, 17), "n_heads": [4, 6, 8] * 3, "d_model": 96}
    gains = {
        "n_params": np.arange(1, 10) * 10**6,
        "last_gain": np.linspace(0.9, 1.1, 9),
        "source": "own",
    }
    join(pd.DataFrame({"model_id": names, **facts, **gains}), data=folder)
    return folder


def run_line(line: str) -> None:
    """Run the code of a printed command."""
    *_, code = shlex.split(line[line.index("python -c") :])
    exec(code, {})  # noqa: S102


SEVERAL_LABS, ONE_LAB = {"models": [20, 40], "labs": [9]}, {"models": [10, 20], "labs": [1]}


@pytest.mark.parametrize(
    ("claim", "labs", "asked", "sizes", "name"),
    [
        ("C01", 3, SEVERAL_LABS, SEVERAL_LABS, "line"),
        ("C01", 3, ONE_LAB, {"models": [10, 20]}, "line"),
        ("C01", 1, ONE_LAB, {"models": [10, 20]}, "line"),
        ("C01", 1, {"sizes": [[12], [6, 4]]}, {"models": [12, 10]}, "line"),
        ("C03", 3, SEVERAL_LABS, SEVERAL_LABS, "heritage"),
        ("C03", 3, ONE_LAB, None, ""),
        ("C03", 1, SEVERAL_LABS, None, ""),
    ],
)
def test_where_studies_are_of_others_models_a_line_plans_from_the_users(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    claim: str,
    labs: int,
    asked: dict[str, Any],
    sizes: dict[str, Any] | None,
    name: str,
) -> None:
    """By a line where that asks what the claim does, of studies of one lab or of several; else of
    labs, where there are some."""
    question = load_claim(list_scripts(find_shipped("analyses"))[claim]).questions[0]
    own = join_models(tmp_path / "own rows", labs)
    others, *lines = planning.suggest_own_plan(question, own, asked)
    assert "not from your models" in others
    made: list[tuple[str, int, dict[str, Any], FitPower]] = []
    power_of_fit = Fit.power

    def simulate_few(self: Fit, **stated: Any) -> None:
        planned = power_of_fit(self, **stated, studies=2)
        made.append((self.law.name, len(self.rows), stated, planned))

    monkeypatch.setattr(Fit, "power", simulate_few)
    for line in lines:
        run_line(line)
    assert len(made) == bool(sizes)
    for law, rows, stated, planned in made:
        assert (law, rows, stated) == (name, 9, sizes)
        assert not planned.table.empty


def test_power_says_whose_models_studies_are_of_and_ends_with_the_plan_of_ones_own(
    tmp_path: Path,
) -> None:
    asked = ("power", "C01", "--models", "10", "--labs", "1", "--studies", "20")
    shipped = command(*asked).stderr.splitlines()
    assert "" not in shipped and not shipped[-1].startswith(planning.LIKE_YOURS)
    drawn = [line for line in shipped if "drawn from the study’s own files" in line]
    assert len(drawn) == 1
    own = command(*asked, "--data", join_models(tmp_path / "own", 1)).stderr.splitlines()
    assert own[-1].startswith(f"{planning.LIKE_YOURS}: python -c ") and "" not in own
    assert sum("studies are drawn" in line or "drawn from" in line for line in own) == 1


def test_where_studies_are_of_the_users_models_too_no_line_is_needed(tmp_path: Path) -> None:
    scripts = list_scripts(find_shipped("analyses"))
    of_files = load_claim(scripts["C01"]).questions[0]
    of_all = load_claim(scripts["H01"]).questions[0]
    assert (of_files.scope.evidence, of_all.scope.evidence) == ("published", "pooled")
    own = join_models(tmp_path / "own", 3)
    assert planning.suggest_own_plan(of_files, None, SEVERAL_LABS) == []
    assert planning.suggest_own_plan(of_all, own, SEVERAL_LABS) == []
    assert planning.name_others_rows(of_files, None) == ""
    assert planning.name_others_rows(of_all, own) == ""
    assert planning.name_others_rows(of_files, own) == "the study’s own files"


def test_sentences_say_whose_models_studies_are_drawn_from() -> None:
    size = {"models": [20], "labs": [1], "limit": [0.05], "least": [0.001]}
    table = pd.DataFrame({"side": ["supported"], "power": [0.97], **size})
    others = "the study’s own files"
    assert planning.write_sentences(table, others) == [
        "20 models of 1 lab, drawn from the study’s own files, would say “supported” where it is "
        "true in 97% of simulations."
    ]
    assert planning.write_sentences(table.assign(power=0.1), others) == [
        "No study of these sizes, drawn from the study’s own files, says “supported” where it is "
        "true in 80% of simulations."
    ]
