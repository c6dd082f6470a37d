"""Packs: held against transformers and torch's optimisers, one model at a time; what a kill or a
neighbour changes."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.nn.functional import cross_entropy  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from nursery import corpora, pack_training, prompts, stacked  # noqa: E402
from nursery.designs import Member, Pack  # noqa: E402
from nursery.gains_by_prompt import of_trained  # noqa: E402
from nursery.pack_training import run as run_pack  # noqa: E402
from nursery.rates import Optimiser, orthogonal  # noqa: E402
from nursery.recipes import Recipe, shape_of  # noqa: E402
from nursery.records import BY_PROMPT, LOSSES, model_folder, read_gains, read_record, step_folder  # noqa: E402
from thermostats.measurement.execute import run_specs  # noqa: E402
from thermostats.measurement.spec import RunSpec  # noqa: E402
from thermostats.tables import store  # noqa: E402

STEPS = 12
CONTEXT = 128
PLAIN = Recipe("a", "english", "adamw", 3e-3, 0.5, "cosine", 0.1, 4, STEPS, 0.5, 0.5, 0.1, 0.0, 1.0)
WIDE = shape_of(3, 2, 80)
NARROW = shape_of(2, 0.125, 32)
RECIPES = (
    PLAIN,
    replace(PLAIN, name="b", corpus="synthetic", schedule="linear", clip=0.0, decay=0.0),
    replace(PLAIN, name="c", optimiser="lion", rate=1e-3, schedule="constant", dropout=0.2),
    replace(PLAIN, name="d", optimiser="muon", depth_power=0.0),
    replace(PLAIN, name="e", optimiser="sgd", rate=0.3, decay=0.0, clip=0.5),
)


def pack(recipes=RECIPES, shape=NARROW, name="p"):
    members = tuple(
        Member(f"{recipe.name}-{shape.name}", recipe, 40 + i) for i, recipe in enumerate(recipes)
    )
    return Pack(name, shape, members, CONTEXT, (0.0, 0.5, 1.0))


@pytest.fixture
def folder(small_corpora, tmp_path):
    return shutil.copytree(small_corpora, tmp_path / "nursery")


@pytest.fixture(scope="module")
def trained(made):
    return run_pack(pack(), made)


def content(folder, model):
    """Everything that training came to, without the time that it took."""
    files = {
        path.name: path.read_bytes()
        for path in model_folder(folder, model).rglob("*")
        if path.is_file()
    }
    return files | {"training.json": json.loads(files["training.json"]) | {"seconds": 0}}


@pytest.mark.parametrize("shape", [WIDE, NARROW])
def test_an_exported_model_has_the_same_logits(shape, tmp_path):
    weights = stacked.stack([stacked.initial(shape, replace(PLAIN, init=s), 97, s) for s in (1, 2)])
    tokens = torch.randint(97, (2, 3, 20), generator=torch.Generator().manual_seed(5))
    stream = stacked.forward(weights, tokens, shape, norms=True)
    for number in range(2):
        model = stacked.export(weights, number, shape, CONTEXT)
        again = model(input_ids=tokens[number], output_hidden_states=True)
        assert torch.allclose(stream.logits[number], again.logits, atol=2e-4)
        assert torch.allclose(
            stream.norms[1][number], again.hidden_states[1].norm(dim=-1), rtol=1e-4
        )
        model.save_pretrained(tmp_path / str(number))
        stored = stacked.restored(tmp_path / str(number))
        assert all(torch.equal(stored[name][0], tensor[number]) for name, tensor in weights.items())


def alone(made, member, kind):
    """Losses of the same model trained one at a time, by transformers' own class and an optimiser
    of torch."""
    recipe, corpus = member.recipe, corpora.load(made, member.recipe.corpus)
    start = stacked.initial(NARROW, recipe, corpus.vocab_size, member.seed)
    model = stacked.export(start, 0, NARROW, CONTEXT)
    model.get_input_embeddings().padding_idx = (
        None  # else the end-of-text token would not be trained
    )
    vectors = [p for p in model.parameters() if p.ndim < 2]
    inner = [p for name, p in model.named_parameters() if "_proj" in name]
    outer = [p for name, p in model.named_parameters() if "embed" in name or "head" in name]
    decayed = {"params": [*inner, *outer], "weight_decay": recipe.decay}
    rules = {
        "adamw": lambda: [
            torch.optim.AdamW([decayed, {"params": vectors, "weight_decay": 0}], betas=(0.9, 0.95))
        ],
        "sgd": lambda: [torch.optim.SGD(model.parameters(), momentum=0.9)],
        "muon": lambda: [
            torch.optim.Muon(inner, weight_decay=recipe.decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(
                [
                    {"params": outer, "weight_decay": recipe.decay},
                    {"params": vectors, "weight_decay": 0},
                ],
                betas=(0.9, 0.95),
            ),
        ],
    }[kind]()
    losses = []
    for step in range(recipe.steps):
        rng = np.random.default_rng([member.seed, 0, step])
        starts = rng.integers(len(corpus.train) - CONTEXT, size=recipe.batch)
        windows = torch.from_numpy(pack_training.cut(corpus.train, starts, pack()))
        loss = cross_entropy(
            model(input_ids=windows[:, :-1]).logits.flatten(0, 1), windows[:, 1:].flatten()
        )
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip or math.inf)
        for rule in rules:
            for group in rule.param_groups:
                group["lr"] = recipe.rate * recipe.factor(step)
            rule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("number", "within"), [(0, 1e-4), (1, 1e-4), (3, 5e-3), (4, 1e-4)])
def test_losses_are_those_of_one_model_at_a_time(made, trained, number, within):
    """Torch's Muon iterates in sixteen bits, so that it agrees less closely."""
    member = pack().members[number]
    losses = alone(made, member, member.recipe.optimiser)
    written = pd.read_csv(model_folder(made, member.model) / LOSSES)
    written = written[written["part"] == "train"].set_index("step")["loss"]
    assert written[10] == pytest.approx(np.mean(losses[:10]), rel=within)
    assert written[12] == pytest.approx(np.mean(losses[10:]), rel=within)
    assert losses[-1] < losses[0] - 0.1


def test_lion_moves_by_the_sign_of_its_average():
    weights = {"q": torch.zeros(1, 1, 2, 2), "norm": torch.zeros(1, 2)}
    recipe = replace(
        PLAIN, optimiser="lion", rate=0.1, decay=0.0, clip=0.0, schedule="constant", warmup=0.0
    )
    rule = Optimiser(weights, [recipe])
    first = {"q": torch.tensor([[[[1.0, -2.0], [3.0, 0.0]]]]), "norm": torch.zeros(1, 2)}
    rule.step(weights, first, 0)
    assert torch.allclose(weights["q"][0, 0], torch.tensor([[-0.1, 0.1], [-0.1, 0.0]]))
    rule.step(weights, {name: -0.05 * g for name, g in first.items()}, 1)
    assert torch.allclose(weights["q"][0, 0], torch.tensor([[-0.2, 0.2], [-0.2, 0.0]]))


def test_orthogonal_directions_are_those_of_the_singular_vectors():
    matrices = torch.randn(3, 6, 10, generator=torch.Generator().manual_seed(1))
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    inside = u.mT @ orthogonal(matrices) @ v.mT
    assert (inside - torch.diag_embed(inside.diagonal(dim1=1, dim2=2))).abs().max() < 1e-4
    assert (
        inside.diagonal(dim1=1, dim2=2).min() > 0.6 and inside.diagonal(dim1=1, dim2=2).max() < 1.3
    )
    assert torch.allclose(orthogonal(matrices.mT), orthogonal(matrices).mT, atol=1e-5)


def test_a_neighbour_changes_nothing_but_rounding(made, trained, folder):
    for number in (2, 4):
        member = pack().members[number]
        done = run_pack(Pack("one", NARROW, (member,), CONTEXT, (0.0, 1.0)), folder)[0]
        assert done.loss == pytest.approx(trained[number].loss, rel=1e-4)


def test_what_is_killed_goes_on_to_the_same_bits(made, trained, folder, monkeypatch):
    monkeypatch.setattr(pack_training, "SAVED_EVERY", 0.0)

    class KilledError(Exception):
        pass

    def kill(done, _total):
        if done == 7:
            raise KilledError

    with pytest.raises(KilledError):
        run_pack(pack(), folder, progress=kill)
    assert not (folder / "models").exists()
    seen = []
    run_pack(pack(), folder, progress=lambda done, total: seen.append(done))
    assert seen[0] in (7, 8) and seen[-1] == STEPS
    for member in pack().members:
        assert content(folder, member.model) == content(made, member.model)
    assert not list((folder / "packs").glob("*.pt"))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run_pack(pack(), folder) == [
        read_record(folder, member.model) for member in pack().members
    ]
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_gains_and_spectra_along_training_are_the_instruments(made, trained, tmp_path):
    member = pack().members[3]
    path = step_folder(made, member.model, STEPS)
    spec = RunSpec(
        str(path),
        prompts="nursery",
        what=("gains", "weights"),
        device="cpu",
        name="x/y",
        download=False,
    )
    assert [outcome.problem.reason for outcome in run_specs([spec], tmp_path)] == [""]
    layers = store.load("layers", tmp_path)
    runs = store.load("runs", tmp_path)
    mine = set(runs.loc[runs["model_id"] == "x/y", "run_id"])
    measured = layers[(layers["position"] == "last") & layers["run_id"].isin(mine)]
    logs = np.log(measured["gain_block"].astype(float)).groupby(measured["layer"]).mean()
    along = pd.read_csv(model_folder(made, member.model) / "gains.csv")
    assert list(along["step"].unique()) == [0, 6, 12]
    last = along[along["step"] == STEPS].set_index("layer")
    assert last["log_gain"].to_numpy() == pytest.approx(logs.to_numpy(), abs=2e-4)
    weights = store.load("weights", tmp_path)
    weights = weights[weights["run_id"].isin(mine) & (weights["head"] == "")]
    for matrix, column in (("W_V", "wv_norm"), ("W_O", "wo_norm")):
        norms = (
            weights[weights["matrix"] == matrix].set_index("layer")["spectral_norm"].astype(float)
        )
        assert last[column].to_numpy() == pytest.approx(norms.sort_index().to_numpy(), rel=1e-4)


def test_a_model_that_comes_apart_is_kept_and_harms_no_other(made, trained, folder):
    wild = replace(PLAIN, name="wild", optimiser="sgd", rate=1e30, clip=0.0, decay=0.0)
    done = run_pack(pack((PLAIN, wild)), folder)
    assert (done[1].loss, done[1].learned) == (None, False)
    assert done[0].loss == pytest.approx(trained[0].loss, rel=1e-4)


def test_loss_of_frequencies_alone_by_hand(made):
    corpus = corpora.load(made, "synthetic")
    counts = (
        pd.Series(corpus.train).value_counts().reindex(range(corpus.vocab_size), fill_value=0) + 1
    )
    expected = sum(-math.log(counts[token] / counts.sum()) for token in corpus.heldout) / len(
        corpus.heldout
    )
    assert corpora.unigram_loss(corpus) == pytest.approx(expected)


def test_a_bigram_model_by_hand(made):
    corpus = corpora.load(made, "synthetic")
    tokens = list(corpus.train)
    held = list(corpus.heldout)
    n = corpus.vocab_size
    p = (np.bincount(tokens, minlength=n) + 1) / (len(tokens) + n)
    pairs = pd.Series(list(pairwise(tokens))).value_counts().to_dict()
    firsts = np.bincount(tokens[:-1], minlength=n)
    losses = [
        -math.log((pairs.get((a, b), 0) + corpora.PSEUDO * p[b]) / (firsts[a] + corpora.PSEUDO))
        for a, b in pairwise(held)
    ]
    assert corpora.bigram_loss(corpus) == pytest.approx(np.mean(losses))
    assert corpora.bigram_loss(corpus) < corpora.unigram_loss(corpus)


def test_models_are_measured_on_prompts_of_every_corpus(made, monkeypatch):
    """Against the hidden states of the exported model, prompt by prompt."""
    windows = {
        name: corpora.load(made, name).heldout[None, :32].repeat(2, axis=0)
        for name in corpora.NAMES
    }
    for place, rows in enumerate(windows.values()):
        rows[1] = np.roll(rows[1], place + 1)
    monkeypatch.setattr(prompts, "prompt_sets", lambda folder, context: windows)
    wide = replace(pack(RECIPES[:2], name="of-corpora"), prompts="corpora")
    wide = replace(
        wide, members=tuple(replace(member, model=f"{member.model}-c") for member in wide.members)
    )
    trained = run_pack(wide, made)[1]
    along = read_gains(made, trained.model)
    at_end = along[along["step"] == STEPS].set_index(["prompts", "layer"])
    by_prompt = pd.read_csv(model_folder(made, trained.model) / BY_PROMPT)
    by_prompt = by_prompt.set_index(["prompts", "prompt", "position"])
    assert len(at_end) == 4 * NARROW.n_layers and len(by_prompt) == 4 * 2 * 2
    again = of_trained([wide], made, "corpora", "cpu")
    again = again[again["model"] == trained.model].set_index(["prompts", "prompt", "position"])
    assert again["last_gain"].to_numpy() == pytest.approx(
        by_prompt.loc[again.index, "last_gain"].to_numpy(), abs=1e-5
    )
    model = AutoModelForCausalLM.from_pretrained(step_folder(made, trained.model, STEPS))
    for name, rows in windows.items():
        states = streams(model, torch.tensor(rows.astype(int)))
        norms = states.norm(dim=-1).double()
        logs = norms[:, :, -1].log().diff(dim=0)
        means = norms[:, :, 1:].mean(dim=-1).log().diff(dim=0)
        assert at_end.loc[name, "log_gain"].to_numpy() == pytest.approx(
            logs.mean(dim=1).numpy(), abs=1e-5
        )
        for prompt in (1, 2):
            for position, values in (("last", logs), ("mean", means)):
                row = by_prompt.loc[(name, prompt, position)]
                assert row["penultimate_gain"] == pytest.approx(
                    values[-2, prompt - 1].item(), abs=1e-5
                )
                assert row["last_gain"] == pytest.approx(values[-1, prompt - 1].item(), abs=1e-5)


def streams(model, tokens):
    """The stream before and after every block, (layers + 1, prompts, positions, d)."""
    states = []
    hooks = [
        model.model.embed_tokens.register_forward_hook(lambda m, args, out: states.append(out))
    ]
    hooks += [
        layer.register_forward_hook(
            lambda m, args, out: states.append(out[0] if isinstance(out, tuple) else out)
        )
        for layer in model.model.layers
    ]
    with torch.no_grad():
        model(input_ids=tokens)
    for hook in hooks:
        hook.remove()
    return torch.stack(states)
