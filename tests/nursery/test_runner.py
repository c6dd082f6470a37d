"""Many trainings side by side: what is through, what failed, what is skipped; and choosing what to train."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_corpora import BUDGET, row, small_corpora

from thermostats.errors import UsageError
from thermostats.studies.nursery import plan
from thermostats.studies.nursery.plan import read_record
from thermostats.studies.nursery.training import Job, jobs, train_all


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return small_corpora(tmp_path_factory.mktemp("corpora"))


def through(steps):
    return [trained.model for step in steps for trained in step.trained]


@pytest.mark.slow
def test_two_processes_train_and_then_tune_and_do_nothing_the_second_time(made):
    rows = [row("r01-1"), row("r01-2", corpus="synthetic", seed=9)]
    wanted = jobs(rows, plan.tuned_rows(rows), BUDGET)
    assert [job.name for job in wanted] == ["r01-1", "r01-2", "r01-1-tuned"]
    assert [job.steps for job in wanted] == [12, 12, 4]
    steps = list(train_all(wanted, made, processes=2))
    assert sorted(through(steps)) == ["r01-1", "r01-1-tuned", "r01-2"] and through(steps)[-1] == "r01-1-tuned"
    assert all(0 <= step.share <= 1 for step in steps)
    again = list(train_all(wanted, made, processes=2))
    assert through(again) == [job.name for job in wanted] and len(again) == 3
    assert [list(step.trained) for step in again] == [[read_record(made, job.name)] for job in wanted]


def test_a_failed_training_is_raised_when_the_others_are_through(made):
    wanted = [Job(row("r05-1", model_type="no-such-model"), False, BUDGET), Job(row("r05-2"), False, BUDGET)]
    done = []
    with pytest.raises(Exception, match="no-such-model"):
        for step in train_all(wanted, made, processes=1):
            done.append(step)
    assert through(done) == ["r05-2"] and read_record(made, "r05-1") is None


def test_models_and_recipes_are_chosen_by_name():
    assert [found["model"] for found in plan.chosen(["r03-2"], [])] == ["r03-2"]
    assert {found["recipe"] for found in plan.chosen([], ["r03", "r05"])} == {"r03", "r05"}
    assert len(plan.chosen(["r03-2"], ["r03"])) == 6 and len(plan.chosen([], [])) == 96
    rows = plan.chosen([], [])
    assert sorted(found["recipe"] for found in plan.tuned_rows(rows)) == sorted({found["recipe"] for found in rows})


@pytest.mark.parametrize("models, recipes, got", [(["r3-2"], [], "r3-2"), ([], ["r17"], "r17")])
def test_a_name_that_is_not_in_the_design_is_refused_with_the_nearest(models, recipes, got):
    with pytest.raises(UsageError, match=got) as raised:
        plan.chosen(models, recipes)
    assert "r0" in str(raised.value)


def test_a_job_says_about_how_long_it_takes():
    small, wide, deep = (Job(row(d_model=d, n_layers=L), False, 1.0) for d, L in ((32, 2), (72, 2), (32, 20)))
    assert small.steps == 600 and small.work < wide.work < deep.work
    assert Job(row(), True, 1.0).steps == 180
