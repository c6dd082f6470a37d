"""`prove`: right models hold, each kind of fault fails by its name, bad input is refused as
`measure` refuses it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import gguf_small
import small
import tiny
import torch
import transformers
from conftest import command
from test_loading import write_tokenizer

from thermostats import measure
from thermostats.cli import tools
from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.measurement import identities, loading, proving
from thermostats.measurement.activations import Activations, read_activations
from thermostats.measurement.architectures import ARCHITECTURES
from thermostats.measurement.forward import Decoder
from thermostats.measurement.identities import Deviation, find_deviations
from thermostats.measurement.proof import PROOF, TOLERANCES, check_proof
from thermostats.measurement.proving import (
    FAILS,
    HOLDS,
    IDENTITIES,
    OPEN,
    Opened,
    prove,
    prove_opened,
)
from thermostats.tables import register, store

ALLOWED = TOLERANCES[torch.float32]


def build_model(name: str, **changes: Any) -> torch.nn.Module:
    """The tiny model of an entry with all its parts."""
    kind, arguments = tiny.CONFIGURATIONS[name]
    return tiny.build_whole(getattr(transformers, kind)(**{**arguments, **changes}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.save_model(tmp_path_factory.mktemp("models") / "tiny-gpt2")


def find_failed(
    decoder: Decoder, seen: Activations, claims: Decoder | None = None
) -> dict[str, set[str]]:
    """Identities that fail, and what would explain each."""
    failed: dict[str, set[str]] = {}
    for each in find_deviations(decoder, seen, claims):
        if not each.excess <= ALLOWED:
            failed.setdefault(each.identity, set()).add(each.cause)
    return failed


def read_prompt(decoder: Decoder, length: int = 9) -> Activations:
    return read_activations(decoder, tiny.arguments(tiny.inputs(decoder, length)[0]))


@pytest.mark.parametrize("name", tiny.in_turn())
def test_every_class_holds(name: str, tmp_path: Path) -> None:
    build_model(name).save_pretrained(tmp_path)
    proof = prove(tmp_path)
    assert proof.passed, proof.failed
    assert proof.architecture == name
    states = {each.name: each.state for each in proof.identities}
    assert list(states) == list(IDENTITIES)
    always = {"stream", "residual", "norms", "final", "facts", "again"}
    assert all(states[identity] == HOLDS for identity in always)


def test_every_class_that_can_be_built_is_in_the_register() -> None:
    rows = store.load("proofs", store.find_shipped("data"))
    assert set(tiny.CONFIGURATIONS) <= set(rows["architecture"])
    assert {entry.name for entry in ARCHITECTURES} <= set(
        rows.loc[rows["failed"] == "", "architecture"]
    )
    assert rows["difference"].max() < ALLOWED


def test_numbers_are_those_of_plain_arithmetic() -> None:
    """The residual of one block, spelt out, and what a run proves of itself among the rest."""
    decoder = tiny.opened("llama")
    prompt = tiny.prompts(7)[0]
    seen: dict[str, Any] = {}
    block = decoder.blocks[1]
    block.register_forward_pre_hook(lambda _m, args: seen.update(before=args[0].double()))
    block.register_forward_hook(
        lambda _m, _a, out: seen.update(after=(out if torch.is_tensor(out) else out[0]).double())
    )
    block.self_attn.register_forward_hook(
        lambda _m, _a, out: seen.update(attention=out[0].double())
    )
    block.mlp.register_forward_hook(lambda _m, _a, out: seen.update(mlp=out.double()))
    read = read_activations(decoder, tiny.arguments(prompt))
    off = (seen["after"] - seen["before"] - seen["attention"] - seen["mlp"]).norm(dim=-1)
    expected = float((off / (seen["attention"] + seen["mlp"]).norm(dim=-1)).max())
    (found,) = (
        d
        for d in find_deviations(decoder, read)
        if d.identity == "residual" and "block 2" in d.place
    )
    assert found.difference == pytest.approx(expected, rel=1e-6)
    proof = check_proof(decoder)
    proved = {each.name: each for each in prove(build_model("llama")).identities}
    for name in PROOF:
        assert getattr(proof, name) <= proved[name].excess + 1e-12


def test_the_read_gain_in_rows_is_held_against_the_states() -> None:
    decoder = tiny.opened("gpt2")
    (prompt,) = tiny.prompts(6)
    measured = identities.check_read_gain
    rows = proving.measure_gains(decoder, [prompt]).layers
    seen = read_activations(decoder, tiny.arguments(prompt))
    assert max(each.excess for each in measured(decoder, seen, prompt, rows)) < 1e-5
    wrong = rows.assign(gain_read=rows["gain_read"] * 1.01)
    off = [each.excess for each in measured(decoder, seen, prompt, wrong)]
    np.testing.assert_allclose(off, 0.01, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "ignores"), [("gpt2", True), ("llama", False), ("modernbert", True), ("olmo2", False)]
)
def test_what_norms_see_is_asked_of_the_norms(name: str, ignores: bool) -> None:
    decoder = tiny.opened(name)
    assert identities.is_mean_ignored(decoder, 32) == ignores


def change_entry(name: str, **changes: Any) -> dict[str, set[str]]:
    """What fails of a tiny model whose entry is changed."""
    decoder = tiny.opened(name)
    wrong = replace(decoder, entry=replace(decoder.entry, **changes))
    return find_failed(wrong, read_prompt(wrong))


HELD = "holds the residual"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"attention_out": "", "mlp_out": ""}, "both writes hold the residual"),
        ({"attention_out": ""}, f"attention's write {HELD}"),
        ({"mlp_out": ""}, f"the feed-forward layer's write {HELD}"),
    ],
)
def test_a_write_that_holds_the_residual_fails(changes: dict[str, str], cause: str) -> None:
    """BLOOM's attention and feed-forward modules add the residual themselves."""
    assert cause in change_entry("bloom", **changes)["residual"]


@pytest.mark.parametrize("name", ["gemma2", "glm4", "olmo2"])
def test_a_norm_behind_a_sub_block_that_is_left_out_fails(name: str) -> None:
    failed = change_entry(name, attention_write="", mlp_write="")
    assert failed["residual"] == {"a norm behind a sub-block is forgotten"}


def test_a_norm_before_instead_of_after_fails() -> None:
    names = {"attention_norm": "post_attention_layernorm", "mlp_norm": "post_feedforward_layernorm"}
    failed = change_entry("olmo2", **names, attention_write="", mlp_write="")
    assert failed["residual"] == {"a norm behind a sub-block is forgotten"}
    assert failed["norms"] == {"no norm stands in front of attention"}


def test_a_post_norm_block_called_pre_norm_fails() -> None:
    failed = change_entry("bert", norm_after=())
    assert failed["residual"] == {"a norm stands behind the sum, not in front of the sub-block"}


def test_another_norm_in_front_fails() -> None:
    failed = change_entry("llama", attention_norm="post_attention_layernorm")
    assert failed == {"norms": {"another norm stands in front of attention"}}
    failed = change_entry("llama", mlp_norm="input_layernorm")
    assert failed == {"norms": {"another norm stands in front of the feed-forward layer"}}


def shift(seen: Activations, **shifted: str) -> Activations:
    """Activations in which a name of every block holds what another one does."""
    blocks = [
        {**each, **{name: each[other] for name, other in shifted.items()}} for each in seen.blocks
    ]
    return replace(seen, blocks=tuple(blocks))


@pytest.mark.parametrize("name", ["llama", "bert", "mamba"])
def test_a_state_that_is_off_by_one_fails(name: str) -> None:
    decoder = tiny.opened(name)
    seen = read_prompt(decoder)
    failed = find_failed(decoder, shift(seen, x_out="x_in"))
    assert "the state is off by one block" in failed["states"]
    assert "stream" in failed
    later = (*seen.blocks[1:], seen.blocks[-1])
    states = [
        {**own, "x_in": each["x_in"], "x_out": each["x_out"]}
        for own, each in zip(seen.blocks, later, strict=True)
    ]
    failed = find_failed(decoder, replace(seen, blocks=tuple(states)))
    assert "the state is off by one block" in failed["states"]
    assert "residual" in failed


def test_a_last_state_behind_the_final_norm_fails() -> None:
    decoder = tiny.opened("llama")
    seen = read_prompt(decoder)
    blocks = (*seen.blocks[:-1], {**seen.blocks[-1], "x_out": seen.final})
    failed = find_failed(decoder, replace(seen, blocks=blocks))
    assert failed["final"] == {"the last state is already normed"}


def test_a_forgotten_scale_of_the_embedding_fails() -> None:
    """Gemma multiplies its embedding by √d outside the module."""
    decoder = tiny.opened("gemma2")
    prompt = tiny.prompts(6)[0]
    seen = read_activations(decoder, tiny.arguments(prompt))
    rows = decoder.base.embed_tokens.weight[list(prompt.token_ids)].detach().double().numpy()
    unscaled = ({**seen.blocks[0], "x_in": rows}, *seen.blocks[1:])
    failed = find_failed(decoder, replace(seen, blocks=unscaled))
    assert failed["embedding"] == {"a scale of the embedding is forgotten"}


def test_a_forgotten_factor_on_the_writes_fails() -> None:
    failed = change_entry("granite", residual_multiplier="")
    assert failed["residual"] == {"a factor on the writes is forgotten"}


@pytest.mark.parametrize(
    ("name", "parallel", "cause"),
    [
        ("gpt_neox", False, "a parallel block is called sequential"),
        ("gptj", False, "a parallel block is called sequential"),
        ("llama", True, "a sequential block is called parallel"),
    ],
)
def test_parallel_called_sequential_fails(name: str, parallel: bool, cause: str) -> None:
    assert change_entry(name, parallel=parallel) == {"order": {cause}}


@pytest.mark.parametrize("tied", [True, False])
def test_tied_called_untied_fails(tied: bool) -> None:
    model: Any = build_model("llama", tie_word_embeddings=tied)
    assert prove(model).passed
    embedding = model.model.embed_tokens.weight
    model.lm_head.weight = torch.nn.Parameter(embedding.detach() + 0.1) if tied else embedding
    proof = prove(model)
    assert proof.failed == ("facts",)
    (facts,) = (each for each in proof.identities if each.name == "facts")
    assert f"tied_embeddings: {tied} stated, {not tied} of the model in memory" in facts.why


def test_an_ignored_window_fails() -> None:
    model: Any = build_model("mistral", sliding_window=3)
    decoder = tiny.places(model)
    assert find_failed(decoder, read_prompt(decoder)) == {}
    model.config.sliding_window = None
    failed = find_failed(decoder, read_prompt(decoder))
    assert failed == {"window": {"a window is ignored"}}


def test_a_window_that_is_not_stated_fails() -> None:
    decoder = tiny.opened("mistral", sliding_window=3)
    claims = replace(decoder, config={**decoder.config, "sliding_window": None})
    assert find_failed(decoder, read_prompt(decoder), claims) == {
        "window": {"a window is not stated"}
    }


@pytest.mark.parametrize(
    ("name", "changes", "reached"),
    [
        ("gpt_neo", {}, [None, 4, None]),
        ("gemma2", {"sliding_window": 3}, [3, None, 3]),
        ("modernbert", {}, [None, 3, 3]),
        ("llama", {}, [None, None, None]),
    ],
)
def test_windows_are_read_from_the_configuration(
    name: str, changes: dict[str, int], reached: list[int | None]
) -> None:
    decoder = tiny.opened(name, **changes)
    assert [
        identities.read_window(decoder.entry, decoder.config, layer) for layer in range(3)
    ] == reached
    moved = read_prompt(decoder).moved
    last = [int(np.flatnonzero(each).max()) + 1 for each in moved if each is not None]
    assert last == [each or 9 for each in reached] if decoder.entry.causal else True


def test_a_head_that_is_left_out_fails() -> None:
    decoder = tiny.opened("llama")
    seen = read_prompt(decoder)
    width = seen.blocks[0]["heads"].shape[-1] // 4
    blocks = [{**each, "heads": np.roll(each["heads"], width, axis=-1)} for each in seen.blocks]
    assert set(find_failed(decoder, replace(seen, blocks=tuple(blocks)))) == {"heads"}


def test_a_block_that_writes_nothing_holds() -> None:
    model: Any = build_model("llama")
    for path in ("self_attn.o_proj", "mlp.down_proj", "self_attn.v_proj"):
        model.model.layers[1].get_submodule(path).weight.data.zero_()
    assert prove(model).passed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["llama", "gemma2", "bloom", "bert"])
def test_half_precision_is_proved_where_the_model_is_in_it(name: str, dtype: torch.dtype) -> None:
    proof = prove(build_model(name).to(dtype))
    assert proof.passed, [each for each in proof.identities if each.state == FAILS]
    assert "half precision" not in proof.uncovered


def test_what_was_not_tried_is_said() -> None:
    proof = prove(build_model("mistral", sliding_window=40))
    assert proof.uncovered == ("half precision", "quantised weights", "windows of 40 tokens")
    by_name = {each.name: each for each in prove(build_model("mamba")).identities}
    assert {name for name, each in by_name.items() if each.state == OPEN} >= {
        "heads",
        "value",
        "circuit",
    }
    assert by_name["heads"].why == "no block has heads and W_O"


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPT-2 is loaded by an entry that calls its blocks parallel."""
    (entry,) = (each for each in ARCHITECTURES if each.name == "gpt2")
    monkeypatch.setattr(loading, "lookup", lambda _config: replace(entry, parallel=True))


def test_the_verb_ends_with_0_where_all_holds(folder: Path, tmp_path: Path) -> None:
    prompts = small.save_prompts(tmp_path)
    done = command("prove", folder, "--prompts", prompts)
    assert done.returncode == 0, done.stderr
    *table, blank, badge = done.stdout.splitlines()
    assert blank == "" and badge.startswith("proved: 14 identities to ")
    assert [line.split("\t")[0] for line in table] == ["name", *IDENTITIES]
    said = json.loads(command("prove", folder, "--prompts", prompts, "--json").stdout)
    assert (said["badge"], said["passed"], said["prompts"]) == (badge, True, "3 prompts of three")
    assert said["transformers"] == transformers.__version__
    assert {each["state"] for each in said["identities"]} == {HOLDS}


@pytest.mark.usefixtures("wrong")
def test_the_verb_ends_with_1_where_something_fails(folder: Path, tmp_path: Path) -> None:
    done = command("prove", folder, "--prompts", small.save_prompts(tmp_path), "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert said["badge"].startswith("not proved: order (")
    (order,) = (each for each in said["identities"] if each["name"] == "order")
    assert order["why"].endswith("a sequential block is called parallel")
    assert order["place"].startswith("prompt p00")


def test_a_model_in_memory_is_proved_with_its_own_prompts(folder: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    proof = prove(model, words, prompts=["a b c", "d e"])
    assert proof.passed and proof.prompts.startswith("2 prompts of prompts-")
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert prove(model).prompts == "ids drawn"
    with pytest.raises(UsageError, match="prompts are read by a tokenizer"):
        prove(model, prompts=["a b c"])
    model.lm_head.register_forward_hook(lambda _m, _a, out: out)
    with pytest.raises(UsageError, match="has hooks"):
        prove(model)


def test_a_weight_that_is_not_finite_is_named() -> None:
    model: Any = build_model("llama")
    model.model.layers[2].mlp.down_proj.weight.data[3, 4] = torch.nan
    with pytest.raises(DataError, match=r"not finite \(model\.layers\.2\.mlp\.down_proj\.weight\)"):
        prove(model)


def remove(*names: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        for name in names:
            for path in folder.glob(name):
                path.unlink()

    return act


def own_code(folder: Path) -> None:
    path = folder / "config.json"
    auto = {"AutoModelForCausalLM": "own.Model"}
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "model_type": "own", "auto_map": auto})
    )


@pytest.mark.parametrize(
    ("spoil", "says", "code"),
    [
        (remove("*.safetensors"), "no weights in this folder", 1),
        (remove("config.json"), "not a model's folder: there is no config.json", 2),
        (own_code, "the model comes with its own code, and no entry describes its class", 2),
    ],
)
def test_bad_folders_are_refused_as_measure_refuses_them(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], None], says: str, code: int
) -> None:
    place = Path(shutil.copytree(folder, tmp_path / "model"))
    spoil(place)
    done = command("prove", place)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    measured = command("measure", place, "--data", tmp_path / "mine")
    assert says in measured.stdout + measured.stderr


def test_without_a_tokenizer_ids_are_drawn(folder: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(folder, tmp_path / "model"))
    remove("tokenizer*", "special*", "vocab*")(place)
    proof = prove(place)
    assert proof.passed and proof.prompts == "ids drawn"
    with pytest.raises(DataError, match="no usable tokenizer"):
        prove(place, prompts=str(small.save_prompts(tmp_path)))
    (place / "tokenizer.json").write_text("{}")
    with pytest.raises(ThermostatsError, match="no usable tokenizer"):
        prove(place)


def test_a_gguf_file_is_proved_as_it_is_measured(tmp_path: Path) -> None:
    path = gguf_small.write(
        tmp_path / "small.gguf", gguf_small.tensors(gguf_small.model(tied=False))
    )
    proof = prove(path, prompts=["a b c", "b a"])
    assert proof.passed and proof.architecture == "llama"


def test_wrong_use_ends_with_2(folder: Path) -> None:
    for words, says in {
        ("./nowhere",): "no such model folder",
        (folder, "--tool", "lens"): "no adapter for such a tool",
        (folder, "--dtype", "float8"): "no such precision",
        (folder, "--prompts", "cor"): "did you mean core?",
        (folder, "--set", "engine=ray"): "this setting changes no proof",
    }.items():
        done = command("prove", *words)
        assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_inputs_that_meet_fail_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def meet(*_args: object, **_options: object) -> Iterator[Any]:
        raise proving.InputsMeetError("they meet", got="off by 0.2")

    monkeypatch.setattr(proving, "measure_proved", meet)
    proof = prove(build_model("llama"))
    assert proof.failed == ("again",)
    assert json.loads(json.dumps(proof.to_json(), allow_nan=False))["passed"] is False


def test_a_failed_identity_names_its_worst_place_and_all_causes() -> None:
    found = [
        Deviation("residual", 0.2, 0.3, "block 1", "first"),
        Deviation("residual", 0.5, 0.5, "block 2", "second"),
        Deviation("residual", 0.0, 0.9, "block 3"),
    ]
    (row,) = proving.collect_worst(found, {"residual": "wrong"}, ALLOWED, {})
    assert (row.state, row.difference, row.excess, row.place) == (FAILS, 0.9, 0.5, "block 2")
    assert row.why == "wrong: first, second"


def test_a_sharded_default_prompt_set_is_read_by_the_models_tokenizer(tmp_path: Path) -> None:
    build_model("llama", vocab_size=64).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    opened = proving.open_folder(str(tmp_path), None, {})
    assert isinstance(opened, Opened) and opened.source.endswith("prompts of core")
    assert prove_opened(replace(opened, inputs=opened.inputs[:2])).passed


def test_a_version_that_is_not_in_the_register_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = small.save_prompts(tmp_path)
    notes = []
    for number in (transformers.__version__, "0.0.1"):
        monkeypatch.setattr(register, "version", lambda _name, number=number: number)
        data = tmp_path / number
        measure(folder, data, prompts=str(prompts), what="gains", heritage="Us")
        (run,) = store.load("runs", data).query("model_id == 'tiny-gpt2'")["proof"]
        proofs = {row["name"]: row for row in tools.run_checks()}["proofs"]
        notes.append((run.partition(" unproven=")[2], proofs["state"], proofs["found"]))
    proved = (
        f"{len(register.list_proved(transformers.__version__))} classes were proved under "
        f"transformers"
    )
    assert notes[1] == ("transformers-0.0.1", tools.UNPROVEN, "transformers 0.0.1 is unproven")
    if register.list_proved(transformers.__version__):
        assert notes[0] == ("", tools.OK, f"{proved} {transformers.__version__}")


def test_a_class_that_failed_is_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = register.load_proofs().drop_duplicates("architecture").head(2)
    rows = rows.assign(transformers="0.0.1", failed=["", "order"])
    monkeypatch.setattr(register, "load_proofs", lambda: rows)
    assert register.list_proved("0.0.1") == {rows["architecture"].iloc[0]}
    monkeypatch.setattr(register, "version", lambda _name: "0.0.1")
    assert register.describe_unproven(rows["architecture"].iloc[1]) == "unproven=transformers-0.0.1"


def test_the_register_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = json.loads(command("ls", "architectures", "--proofs", "--json").stdout)
    names = {
        row["architecture"] for row in json.loads(command("ls", "architectures", "--json").stdout)
    }
    assert {row["architecture"] for row in listed} == names
    (bloom,) = (
        row for row in listed if row["architecture"] == "bloom" and row["transformers"] == "5.24.0"
    )
    assert (bloom["state"], bloom["failed"], bloom["dtype"]) == ("proved", "", "float32")
    assert "half precision" in bloom["not_covered"] and 0 < bloom["difference"] < ALLOWED
    rows = register.load_proofs()
    monkeypatch.setattr(register, "load_proofs", lambda: rows[rows["architecture"] != "bloom"])
    listed = json.loads(command("ls", "architectures", "--proofs", "--json").stdout)
    assert [row["state"] for row in listed if row["architecture"] == "bloom"] == ["unproven"]
    done = command("ls", "models", "--proofs")
    assert (done.returncode, "thermostats ls architectures --proofs" in done.stderr) == (2, True)


def test_the_register_keeps_rows_of_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location(
        "proofs", Path(__file__).parents[2] / "scripts" / "proofs.py"
    )
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "FILE", tmp_path / "proofs.csv")
    for number, words in (
        ("0.0.1", ["llama", "gemma2"]),
        ("0.0.2", ["llama"]),
        ("0.0.2", ["--missing", "llama"]),
    ):
        monkeypatch.setattr(proving, "version", lambda _name, number=number: number)
        monkeypatch.setattr(script, "version", lambda _name, number=number: number)
        monkeypatch.setattr(sys, "argv", ["proofs.py", *words])
        script.main()
    rows = store.validate(store.read_typed(tmp_path / "proofs.csv", "proofs"), "proofs")
    assert rows[["architecture", "transformers"]].to_numpy().tolist() == [
        ["gemma2", "0.0.1"],
        ["llama", "0.0.1"],
        ["llama", "0.0.2"],
    ]
    assert (rows["failed"] == "").all() and not rows["not_covered"].str.contains("windows").any()
