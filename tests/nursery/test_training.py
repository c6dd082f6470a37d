"""Training: checkpoints, resumption, determinism, held positions, fine-tuning, and every build by every recipe."""

from __future__ import annotations

import math
import shutil

import pandas as pd
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_corpora import BUDGET, row, small_corpora  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from thermostats.studies.nursery import corpora, training  # noqa: E402
from thermostats.studies.nursery.factors import BUILDS, CHECKPOINTS, RECIPE, STEPS  # noqa: E402
from thermostats.studies.nursery.models import POSITION_TABLES, build  # noqa: E402
from thermostats.studies.nursery.optimisers import optimisers  # noqa: E402
from thermostats.studies.nursery.plan import LOSSES, model_folder, read_record, step_folder  # noqa: E402

LAST = 12


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return small_corpora(tmp_path_factory.mktemp("corpora"))


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "nursery")


@pytest.fixture(scope="module")
def trained(made):
    """A model without positions, trained and tuned."""
    without = row("r02-1", position="none", optimiser="sgd")
    return without, training.train(without, made, budget=BUDGET), training.tune(without, made, budget=BUDGET)


def weights(folder, model, step):
    loaded = AutoModelForCausalLM.from_pretrained(step_folder(folder, model, step), dtype=torch.float32)
    return loaded.state_dict()


def files(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


def test_checkpoints_are_kept_after_the_shares_that_are_stated():
    assert training.checkpoint_steps(STEPS) == (0, 6, 18, 60, 180, 600)
    assert [step / STEPS for step in training.checkpoint_steps(STEPS)] == list(CHECKPOINTS)
    assert training.checkpoint_steps(LAST) == (0, 1, 4, 12)
    assert training.checkpoint_steps(1) == (0, 1)


def test_a_training_leaves_its_checkpoints_losses_and_record(made, trained):
    asked, done, _ = trained
    kept = {path.name for path in model_folder(made, "r02-1").glob("step*")}
    assert kept == {"step00000", "step00001", "step00004", "step00012"}
    assert read_record(made, "r02-1") == done
    assert (done.model, done.parent, done.corpus, done.steps, done.tokens) == ("r02-1", "", "english", LAST, LAST * 512)
    losses = pd.read_csv(model_folder(made, "r02-1") / LOSSES)
    assert list(losses[losses["part"] == "train"]["step"]) == list(range(1, LAST + 1))
    held = losses[losses["part"] == "heldout"].set_index("step")["loss"]
    assert list(held.index) == [0, 1, 4, 12]
    assert held[12] == pytest.approx(done.loss) and held[12] < held[0]
    vocabulary = corpora.load(made, asked["corpus"]).vocab_size
    assert held[0] == pytest.approx(math.log(vocabulary), abs=0.1)
    assert done.learned == (done.loss < done.loss_unigram)


def test_loss_of_frequencies_alone_is_by_hand_what_it_is_said_to_be(made):
    corpus = corpora.load(made, "synthetic")
    counts = pd.Series(corpus.train).value_counts().reindex(range(corpus.vocab_size), fill_value=0) + 1
    expected = sum(-math.log(counts[token] / counts.sum()) for token in corpus.heldout) / len(corpus.heldout)
    assert corpora.unigram_loss(corpus) == pytest.approx(expected)


def test_what_is_trained_is_not_trained_again_and_what_was_cut_short_begins_anew(folder):
    first = training.train(row(), folder, budget=BUDGET)
    before = files(model_folder(folder, "r01-1"))
    assert training.train(row(), folder, budget=BUDGET) == first
    assert files(model_folder(folder, "r01-1")) == before
    shutil.rmtree(model_folder(folder, "r01-1"))
    rest = model_folder(folder, "r01-1").with_name(".r01-1.part")
    (rest / "step00000").mkdir(parents=True)
    (rest / "step00000" / "half").write_text("a file that a stopped training left")
    again = training.train(row(), folder, budget=BUDGET)
    assert again.loss == first.loss and not rest.exists()
    assert not list(model_folder(folder, "r01-1").rglob("half"))
    other = training.train(row(), folder, budget=BUDGET / 2)
    assert other.steps == 6 and read_record(folder, "r01-1") == other


def test_two_trainings_give_the_same_weights_bit_by_bit_and_another_seed_others(made, folder):
    asked = row("r03-1", dropout="tenth", optimiser="muon", decay="high", peak="high")
    for place in (made, folder):
        training.train(asked, place, budget=BUDGET)
    for step in (0, 1, 4, LAST):
        one, two = (weights(place, "r03-1", step) for place in (made, folder))
        assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    training.train(asked | {"model": "r03-2", "seed": 8}, folder, budget=BUDGET)
    other = weights(folder, "r03-2", LAST)
    assert not torch.equal(other["transformer.h.0.attn.c_attn.weight"], two["transformer.h.0.attn.c_attn.weight"])


@pytest.mark.parametrize("position", ["none", "learned"])
def test_a_position_table_that_is_held_stays_zero_through_training_and_tuning(made, trained, position):
    if position == "none":
        models = {"r02-1": LAST, "r02-1-tuned": 4}
    else:
        training.train(row("r04-1"), made, budget=BUDGET)
        models = {"r04-1": LAST}
    for model, step in models.items():
        tables = [v for name, v in weights(made, model, step).items() if any(t in name for t in POSITION_TABLES)]
        assert len(tables) == 1
        assert all((table == 0).all() for table in tables) == (position == "none")


def test_tuning_goes_on_from_the_finished_model_on_the_other_corpus(made, trained):
    asked, done, tuned = trained
    assert (tuned.model, tuned.parent, tuned.corpus, tuned.steps) == ("r02-1-tuned", "r02-1/step00012", "synthetic", 4)
    assert asked["corpus"] == "english" and tuned.loss_unigram != done.loss_unigram
    before, after = weights(made, "r02-1", LAST), weights(made, "r02-1-tuned", 4)
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved and not any(table in name for name in moved for table in POSITION_TABLES)
    with pytest.raises(FileNotFoundError):
        training.tune(row("r09-1"), made, budget=BUDGET)
    with pytest.raises(FileNotFoundError):
        training.tune(asked, made, budget=2 * BUDGET)


def test_a_training_that_came_apart_is_recorded_as_not_learned(folder, monkeypatch):
    monkeypatch.setattr(training, "heldout_loss", lambda *_: math.nan)
    done = training.train(row(), folder, budget=1 / STEPS)
    assert done.loss is None and done.learned is False and read_record(folder, "r01-1") == done


@pytest.mark.parametrize("kind", BUILDS, ids=lambda kind: f"{kind.model_type}-{kind.norm}-{kind.position}")
def test_every_build_takes_a_step_by_every_initialisation_and_optimiser(made, kind):
    corpus = corpora.load(made, "english")
    facts = {"architecture": kind.architecture, "norm": kind.norm, "position": kind.position}
    window = torch.arange(40)[None] % corpus.vocab_size
    for init in RECIPE["init"]:
        for optimiser in RECIPE["optimiser"]:
            decay = "none" if optimiser == "adam" else "high"
            asked = row(**facts, model_type=kind.model_type, init=init, optimiser=optimiser, decay=decay, tied=False)
            model = build(asked, corpus.vocab_size).train()
            before = {name: value.clone() for name, value in model.named_parameters()}
            loss = model(input_ids=window, labels=window, use_cache=False).loss
            loss.backward()
            for rule in optimisers(model, asked):
                rule.step()
            assert math.isfinite(loss.item())
            still = {name for name, value in model.named_parameters() if torch.equal(value, before[name])}
            held = {name for name, value in model.named_parameters() if not value.requires_grad}
            assert held <= still and bool(held) == (kind.position == "none" and kind.model_type != "smollm3")
            matrices = {name for name, value in before.items() if value.ndim >= 2}
            assert not (still - held) & matrices


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUILDS, ids=lambda kind: f"{kind.model_type}-{kind.norm}-{kind.position}")
def test_every_build_is_measured_from_its_checkpoint(made, kind, tmp_path):
    from thermostats.measurement.execute import execute
    from thermostats.studies.nursery.measuring import rows_of_models, specs
    from thermostats.tables import store
    from thermostats.tables.folders import shipped

    facts = {"architecture": kind.architecture, "norm": kind.norm, "position": kind.position}
    asked = row(f"small-{BUILDS.index(kind)}", **facts, model_type=kind.model_type)
    done = training.train(asked, made, budget=1 / STEPS)
    shutil.copy(shipped("data") / "prompts.csv", tmp_path)
    models = rows_of_models(asked, made, done)
    store.save(models, "models", tmp_path / "models.csv")
    assert [outcome.status for outcome in execute(specs(asked, made, done), tmp_path)].count("failed") == 0
    assert set(models["position_scheme"]) == {kind.position} and set(models["norm_place"]) == {kind.norm}
    layers = store.load("layers", tmp_path)
    assert set(layers["layer"]) == {1, 2} and (layers["gain_block"].dropna() > 0).all()
