"""A model in GGUF has the rows of the same model in safetensors; what is wrong with a file is
named."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("gguf")
pytest.importorskip("torch")
pytest.importorskip("transformers")

import gguf
import gguf_small as small
import transformers
from safetensors.numpy import load_file

from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.measurement.execute import run_specs
from thermostats.measurement.gguf_files import (
    Converted,
    check_metadata,
    prepare_gguf_folder,
    record,
)
from thermostats.measurement.gguf_tokenizers import check_tokenizer
from thermostats.measurement.lookup import lookup
from thermostats.measurement.spec import collect_specs
from thermostats.measurement.spectra import measure_weights
from thermostats.tables import store

Q8_0 = 7
"""`general.file_type` of a file whose matrices are Q8_0."""
KEYS = {
    "prompt_id",
    "layer",
    "position",
    "estimand",
    "matrix",
    "head",
    "definition",
    "trace",
    "direction",
}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(store.find_shipped("data") / "models.csv", folder)
    return folder


@pytest.mark.parametrize("tied", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_row_of_an_unrounded_file_is_that_of_the_same_model_in_safetensors(
    tied: bool, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THERMOSTATS_CACHE", str(tmp_path / "cache"))
    made = small.model(tied=tied)
    file = small.write(tmp_path / "in-gguf.gguf", small.tensors(made))
    made.save_pretrained(tmp_path / "plain")
    for path in prepare_gguf_folder(file).glob("tokenizer*"):
        shutil.copy(path, tmp_path / "plain")
    (tmp_path / "two.txt").write_text("ab c d\nb c ab f\n")
    options = {"prompts": str(tmp_path / "two.txt"), "heritage": "Us"}
    for outcome in run_specs(collect_specs([str(file), str(tmp_path / "plain")], options), data):
        assert outcome.status == "measured", outcome.problem.reason
    assert store.check(data)["runs"] == 6
    models = store.load("models", data).set_index("model_id").loc[["in-gguf", "plain"]]
    assert models["revision"].tolist() == ["F32", "main"]
    assert models["quantised"].tolist() == ["", ""]
    assert models["model_licence"].tolist() == ["mit", ""]
    same = models.drop(columns=["revision", "model_licence"])
    assert same.iloc[0].equals(same.iloc[1])
    assert models["n_params"].iloc[0] == sum(p.numel() for p in made.parameters())
    runs = store.load("runs", data)
    for name in ("layers", "outputs", "weights", "attention", "summaries"):
        rows = store.load(name, data).merge(runs[["run_id", "model_id"]]).drop(columns="run_id")
        first, second = (
            rows[rows["model_id"] == each].drop(columns="model_id") for each in ("in-gguf", "plain")
        )
        assert len(first) > 0
        if name == "weights":
            assert set(first["stored_as"]) == {"F32"}
            assert set(second["stored_as"]) == {""}
            first, second = first.drop(columns="stored_as"), second.drop(columns="stored_as")
        keys = [
            label
            for label in first.columns
            if first[label].dtype == second[label].dtype and label in KEYS
        ]
        first, second = (rows.sort_values(keys, ignore_index=True) for rows in (first, second))
        pd.testing.assert_frame_equal(first, second, rtol=1e-5)


def test_blocks_of_eight_bits_are_their_scale_times_the_integer(
    tmp_path: Path, cache: Path
) -> None:
    made = small.model(tied=False)
    file = small.write(tmp_path / "rounded.gguf", small.tensors(made, "Q8_0"), file_type=Q8_0)
    folder = prepare_gguf_folder(file, cache)
    stated = record(folder)
    name = "model.layers.1.mlp.up_proj.weight"
    weights = made.get_parameter(name).detach().numpy()
    blocks = weights.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
    decoded = load_file(folder / "model.safetensors")[name]
    assert (
        np.abs(decoded.reshape(-1, 32) / scale - np.round(decoded.reshape(-1, 32) / scale)).max()
        < 1e-3
    )
    bound = scale * (0.5 + 127 * 2**-11)  # half a step, and the scale's own rounding to 11 bits
    assert (np.abs(decoded.reshape(-1, 32) - blocks) <= bound).all()
    assert stated["scheme"] == "Q8_0"
    assert stated["types"][name] == "Q8_0"
    assert stated["types"]["model.norm.weight"] == "F32"
    assert stated["files"] == ["rounded.gguf"]


def test_rows_of_matrices_say_what_their_tensors_were_stored_as(
    tmp_path: Path, cache: Path
) -> None:
    held = small.tensors(small.model(tied=True), "Q8_0")
    values = small.model(tied=True).model.layers[1].self_attn.v_proj.weight.detach().numpy()
    held["blk.1.attn_v.weight"] = small.stored(values, "Q4_0")
    rows = measure_weights(
        prepare_gguf_folder(small.write(tmp_path / "m.gguf", held), cache)
    ).set_index(["layer", "matrix", "head"])
    for (layer, matrix, _), stored in rows["stored_as"].items():
        other = {"W_V": "Q4_0", "OV": "Q8_0 Q4_0"}.get(matrix, "Q8_0") if layer == 2 else "Q8_0"
        assert stored == other, (layer, matrix)


def test_a_head_stored_twice_is_told_from_one_of_its_own(tmp_path: Path, cache: Path) -> None:
    tied, untied = small.model(tied=True), small.model(tied=False)
    twice = small.tensors(tied, "Q8_0")
    twice["output.weight"] = small.stored(tied.model.embed_tokens.weight.detach().numpy(), "Q4_0")
    folders = [
        prepare_gguf_folder(small.write(tmp_path / "twice.gguf", twice), cache),
        prepare_gguf_folder(
            small.write(tmp_path / "own.gguf", small.tensors(untied, "Q8_0")), cache
        ),
        prepare_gguf_folder(
            small.write(tmp_path / "once.gguf", small.tensors(tied, "Q8_0")), cache
        ),
    ]
    assert [record(folder)["head"] for folder in folders] == ["tied, stored twice", "own", "tied"]
    counts = [
        sum(
            p.numel()
            for p in transformers.AutoModelForCausalLM.from_pretrained(folder).parameters()
        )
        for folder in folders
    ]
    assert counts == [sum(p.numel() for p in each.parameters()) for each in (tied, untied, tied)]
    assert ["lm_head.weight" in load_file(folder / "model.safetensors") for folder in folders] == [
        False,
        True,
        False,
    ]


def test_parts_and_pieces_are_read_as_one_file(tmp_path: Path, cache: Path) -> None:
    held = small.tensors(small.model(tied=False), "Q8_0")
    (tmp_path / "split").mkdir()
    split = small.write_split(tmp_path / "split", held, [5, 11])
    file = small.write(tmp_path / "whole.gguf", held)
    content = file.read_bytes()
    (tmp_path / "cut").mkdir()
    third = len(content) // 3 + 1
    for i in range(3):
        (tmp_path / "cut" / f"whole.gguf.part{i:02d}").write_bytes(
            content[i * third : (i + 1) * third]
        )
    folders = [
        prepare_gguf_folder(path, cache)
        for path in (file, split[1], tmp_path / "cut" / "whole.gguf.part02")
    ]
    first, *others = (load_file(folder / "model.safetensors") for folder in folders)
    for other in others:
        assert first.keys() == other.keys()
        assert all(np.array_equal(first[name], other[name]) for name in first)
    assert record(folders[1])["types"] == record(folders[0])["types"]
    assert folders[2] == folders[0]  # the same bytes are the same model


def test_a_second_call_makes_nothing_and_another_file_of_the_name_is_made_anew(
    tmp_path: Path, cache: Path
) -> None:
    file = small.write(tmp_path / "small.gguf", small.tensors(small.model(tied=True)))
    folder = prepare_gguf_folder(file, cache)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert prepare_gguf_folder(file, cache) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    small.write(file, small.tensors(small.model(tied=True, seed=1)))
    assert prepare_gguf_folder(file, cache) != folder


def refused(path: Path, cache: Path, kind: type[ThermostatsError] = DataError) -> str:
    with pytest.raises(kind) as caught:
        prepare_gguf_folder(path, cache)
    assert not list((cache / "gguf").glob("[!.]*"))
    assert caught.value.next_step
    return str(caught.value)


def test_missing_and_misplaced_parts_are_named(tmp_path: Path, cache: Path) -> None:
    held = small.tensors(small.model(tied=False))
    first, second, third = small.write_split(tmp_path, held, [5, 11])
    content = second.read_bytes()
    second.unlink()
    assert f"a part of the GGUF model is missing ({second})" in refused(first, cache)
    second.write_bytes(third.read_bytes())
    third.write_bytes(content)
    assert "not in order" in refused(first, cache)


def test_parts_of_two_models_are_refused(tmp_path: Path, cache: Path) -> None:
    held = small.tensors(small.model(tied=False))
    first, _ = small.write_split(tmp_path, held, [5])
    (tmp_path / "other").mkdir()
    _, other = small.write_split(tmp_path / "other", held, [9])
    shutil.copy(other, tmp_path)
    assert "two models" in refused(first, cache)


@pytest.mark.parametrize("lost", [0, 1])
def test_missing_pieces_are_named(lost: int, tmp_path: Path, cache: Path) -> None:
    content = small.write(tmp_path / "m.gguf", small.tensors(small.model(tied=False))).read_bytes()
    third = len(content) // 3 + 1
    for i in range(3):
        (tmp_path / f"m.gguf.part{i}").write_bytes(content[i * third : (i + 1) * third])
    (tmp_path / f"m.gguf.part{lost}").unlink()
    message = refused(tmp_path / "m.gguf.part2", cache)
    assert ("not a GGUF file" if lost == 0 else f"missing ({tmp_path}/m.gguf.part1)") in message


@pytest.mark.parametrize("share", [0.2, 0.999])
def test_a_file_that_is_cut_off_is_refused(share: float, tmp_path: Path, cache: Path) -> None:
    path = small.write(tmp_path / "m.gguf", small.tensors(small.model(tied=False)))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "cut off or damaged" in refused(path, cache)


def test_what_is_no_gguf_is_refused(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"PK\x03\x04 an archive")
    assert "not a GGUF file" in refused(path, cache)
    path.write_bytes(b"")
    assert "not a GGUF file" in refused(path, cache)
    refused(tmp_path / "none.gguf", cache, UsageError)


def test_schemes_that_cannot_be_read_are_named(tmp_path: Path, cache: Path) -> None:
    held = small.tensors(small.model(tied=False))
    path = small.write(tmp_path / "m.gguf", held)
    content = bytearray(path.read_bytes())
    name = b"blk.1.ffn_up.weight"
    place = content.index(name) + len(name) + 4 + 2 * 8
    assert int.from_bytes(content[place : place + 4], "little") == 0
    content[place : place + 4] = (250).to_bytes(4, "little")
    path.write_bytes(content)
    assert "scheme that is not known" in refused(path, cache)
    content[place : place + 4] = int(gguf.GGMLQuantizationType.I32).to_bytes(4, "little")
    path.write_bytes(content)
    assert "I32 for blk.1.ffn_up.weight" in refused(path, cache)


def test_tensors_that_would_be_passed_over_are_named(tmp_path: Path, cache: Path) -> None:
    held = small.tensors(small.model(tied=False))
    extra = {**held, "rope_freqs.weight": small.stored(np.ones(4), "F32")}
    message = refused(small.write(tmp_path / "m.gguf", extra), cache, ThermostatsError)
    assert "1 that transformers does not read (rope_freqs.weight" in message
    lacking = {name: x for name, x in held.items() if name != "blk.2.ffn_up.weight"}
    assert "1 missing (model.layers.2.mlp.up_proj.weight" in refused(
        small.write(tmp_path / "m.gguf", lacking), cache, ThermostatsError
    )


def test_a_class_that_transformers_does_not_read_is_refused(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_name("small")
    writer.add_tensor("v.patch_embd.weight", np.ones((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "does not read this model" in refused(path, cache, UsageError)


def test_without_a_cache_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    path = small.write(tmp_path / "m.gguf", small.tensors(small.model(tied=False)))
    with pytest.raises(UsageError, match="switched off"):
        prepare_gguf_folder(path)


READ = {
    *(
        "block_count",
        "rope.freq_base",
        "rope.dimension_count",
        "attention.head_count",
        "attention.head_count_kv",
    ),
    "attention.layer_norm_rms_epsilon",
}
"""Keys of a Llama that transformers makes its configuration of, so that the file is the model that
they say."""
CHANGE_NO_NUMBER = {
    *(
        "vocab_size",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "expert_count",
        "ssm.inner_size",
        "pooling_type",
        "classifier.output_labels",
        "dense_2_feat_in",
        "dense_2_feat_out",
    ),
    *("expert_feed_forward_length", "expert_shared_feed_forward_length"),
    *("rope.scaling.finetuned", "decoder_start_token_id"),
}
"""Widths, which the shapes of the tensors state once more, and what no gain depends on."""


def keys_of(group: type) -> list[str]:
    """Every key of an architecture that the package gguf names, without the architecture."""
    named = [each for name, each in vars(group).items() if not name.startswith("_")]
    own = [
        each.format(arch="", dense="dense_2")[1:]
        for each in named
        if isinstance(each, str) and "{arch}" in each
    ]
    return own + [key for each in named if isinstance(each, type) for key in keys_of(each)]


def test_every_key_of_an_architecture_is_read_or_refused_by_its_name(
    tmp_path: Path, cache: Path
) -> None:
    keys = keys_of(gguf.Keys)
    assert len(keys) > 90
    assert {*READ, *CHANGE_NO_NUMBER, "rope.scaling.factor", "attn_logit_softcapping"} <= set(keys)
    held = small.tensors(small.model(tied=True))
    passed = []
    for key in set(keys) - READ - CHANGE_NO_NUMBER:
        file = small.write(tmp_path / "m.gguf", held, stating={f"llama.{key}": 3})
        try:
            prepare_gguf_folder(file, cache)
        except UsageError as error:
            assert f"llama.{key} = 3" in error.got
        else:
            passed.append(key)
    assert not passed


def test_keys_that_change_no_number_leave_the_model_as_it_is(tmp_path: Path, cache: Path) -> None:
    held = small.tensors(small.model(tied=True))
    plain = load_file(
        prepare_gguf_folder(small.write(tmp_path / "m.gguf", held), cache) / "model.safetensors"
    )
    widths = {"vocab_size", "embedding_length", "feed_forward_length"}
    stating: dict[str, object] = {f"llama.{key}": 16 for key in CHANGE_NO_NUMBER - widths}
    usual = {"attention.key_length": 8, "attention.value_length": 8, "attention.causal": True}
    none = {"rope.scaling.type": "none", "rope.scaling.factor": 1.0, "attention.scale": 8**-0.5}
    stating |= {f"llama.{key}": value for key, value in {**usual, **none}.items()}
    folder = prepare_gguf_folder(small.write(tmp_path / "m.gguf", held, stating=stating), cache)
    assert record(folder)["files"] == ["m.gguf"]
    other = load_file(folder / "model.safetensors")
    assert plain.keys() == other.keys()
    assert all(np.array_equal(plain[name], other[name]) for name in plain)


def keys_and_class(
    architecture: str, kind: str, stating: dict[str, object], **own: object
) -> tuple[dict[str, object], Converted]:
    """A file with what llama.cpp needs of an architecture, and what transformers makes of it."""
    config = getattr(transformers, f"{kind}Config")(**own).to_dict()
    made = Converted(lookup(config), config)

    def read(*names: str) -> object:
        return next((config[name] for name in names if name in config), None)

    usual = {
        "block_count": read("num_hidden_layers", "num_layers", "n_layer"),
        "embedding_length": read("hidden_size", "d_model", "n_embd"),
        "attention.head_count": read("num_attention_heads", "num_heads", "n_head"),
        "attention.layer_norm_rms_epsilon": read("rms_norm_eps"),
    }
    stated = {key: value for key, value in (usual | stating).items() if value is not None}
    whole = {f"{architecture}.{key}": value for key, value in stated.items()}
    return {"general.architecture": architecture, **whole}, made


GEMMA2_27B = {
    "hidden_size": 4608,
    "num_hidden_layers": 46,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
}
OF_GEMMA2 = {"attention.head_count_kv": 16, "attention.key_length": 128}
OF_GEMMA2 |= {"attention.value_length": 128}
HEADS = {"attention.head_count_kv": 4, "attention.key_length": 256, "attention.value_length": 256}
PLAIN = {"attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": None}
USUAL = {
    "gemma2": HEADS,
    "gemma3": HEADS | {"attention.sliding_window": 4096, "rope.freq_base": 1e6},
    "stablelm": PLAIN | {"rope.dimension_count": 20},
    "bloom": PLAIN | {"attention.head_count": 8},
    "qwen3moe": {"attention.head_count_kv": 4, "expert_used_count": 8},
    "lfm2": {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e6},
}
"""What a file states that describes the class as it is by default."""


@pytest.mark.parametrize(
    ("architecture", "kind", "right", "wrong"),
    [
        (
            "gemma2",
            "Gemma2",
            {"attn_logit_softcapping": 50.0, "attention.sliding_window": 4096},
            {},
        ),
        ("gemma2", "Gemma2", {"attn_logit_softcapping": 50.0}, {"final_logit_softcapping": 20.0}),
        (
            "gemma3",
            "Gemma3Text",
            {"rope.freq_base": 1e6, "rope.freq_base_swa": 1e4},
            {"rope.scaling.factor": 8.0},
        ),
        ("stablelm", "StableLm", {"rope.dimension_count": 20}, {"rope.dimension_count": 80}),
        ("bloom", "Bloom", {"attention.head_count_kv": 8}, {"attention.head_count_kv": 4}),
        ("qwen3moe", "Qwen3Moe", {"expert_weights_norm": False}, {"expert_weights_norm": True}),
        ("lfm2", "Lfm2", {"attention.head_count_kv": [0, 8, 0]}, {"shortconv.l_cache": 4}),
    ],
)
def test_a_key_that_transformers_does_not_read_may_say_what_its_class_does(
    architecture: str, kind: str, right: dict[str, object], wrong: dict[str, object]
) -> None:
    """Defaults of the classes as their documentation states them: Gemma 2 caps at 50 and 30,
    StableLM rotates a quarter of 80."""
    stated, made = keys_and_class(architecture, kind, USUAL[architecture] | right)
    check_metadata(stated, made, Path("m.gguf"))
    other = {f"{architecture}.{key}": value for key, value in wrong.items()}
    if other:
        with pytest.raises(UsageError, match=re.escape(next(iter(other)))):
            check_metadata({**stated, **other}, made, Path("m.gguf"))


def test_a_tokenizer_that_is_read_as_another_one_is_refused(tmp_path: Path, cache: Path) -> None:
    held = small.tensors(small.model(tied=True))
    for key, value in {"pre": "smollm", "add_bos_token": "yes"}.items():
        name = f"tokenizer.ggml.{key}"
        assert f"{name} = {value}" in refused(
            small.write(tmp_path / "m.gguf", held, stating={name: value}), cache
        )
    pieces = ["<unk>", "<s>", "</s>", "▁", *(chr(ord("a") + i) for i in range(26)), "▁a", "ab"]
    spaced = {"model": "llama", "tokens": pieces, "scores": [-float(i) for i in range(32)]}
    stating = {f"tokenizer.ggml.{key}": value for key, value in spaced.items()}
    for prefixed in (True, False):
        stating["tokenizer.ggml.add_space_prefix"] = prefixed
        file = small.write(tmp_path / "m.gguf", held, stating=stating)
        if prefixed:
            assert prepare_gguf_folder(file, cache)
        else:
            assert "add_space_prefix = False" in refused(file, tmp_path / "other")


def test_a_special_token_outside_the_vocabulary_ends_in_words(tmp_path: Path, cache: Path) -> None:
    stating = {"tokenizer.ggml.padding_token_id": 99}
    file = small.write(tmp_path / "m.gguf", small.tensors(small.model(tied=True)), stating=stating)
    assert "transformers cannot load the model from GGUF" in refused(file, cache)


SPLITS = {
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral"), True),
    **dict.fromkeys(("midm-2.0", "lfm2", "jina-v5-nano", "tekken"), True),
    **dict.fromkeys(("gpt-2", "qwen2", "smollm", "default", "dbrx", "gpt-4o", "phi-2"), False),
    **dict.fromkeys(("smaug-bpe", "deepseek-r1-qwen", "qwen35", "minimax-m2"), False),
}
"""Splits of GPT-2's kind, and whether llama.cpp begins their texts with the first token where a
file does not say it."""


class Tokenizer:
    """Puts tokens before and behind a text."""

    bos_token_id, eos_token_id, all_special_tokens = 1, 2, ()

    def __init__(self, first: list[int], last: list[int] = [], words: str = "▁a") -> None:  # noqa: B006
        self.first, self.last, self.words = first, last, words
        self.merges: list[list[str]] = []

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        bare = [5 + len(text)]
        return {"input_ids": self.first + bare + self.last if add_special_tokens else bare}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.words] * len(ids)

    def convert_tokens_to_string(self, words: list[str]) -> str:
        return "".join(words)

    @property
    def backend_tokenizer(self) -> Tokenizer:
        return self

    def to_str(self) -> str:
        return json.dumps({"model": {"merges": self.merges}})


def said_of(stated: dict[str, object], tokenizer: Tokenizer) -> str:
    """What is said of a tokenizer; nothing where it is taken."""
    stated = {f"tokenizer.ggml.{key}": value for key, value in stated.items()}
    try:
        check_tokenizer(stated, tokenizer, Path("m.gguf"))
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("begins", [True, False])
def test_a_first_token_that_a_file_does_not_state_is_that_of_llama_cpp(
    split: str, begins: bool
) -> None:
    tokenizer = Tokenizer([1] if begins else [])
    stated = {"model": "gpt2", "pre": split, "bos_token_id": 1}
    assert ("add_bos_token" in said_of(stated, tokenizer)) == (begins != SPLITS[split])
    assert "add_bos_token" not in said_of({**stated, "add_bos_token": begins}, tokenizer)


def test_every_split_that_transformers_knows_is_in_the_table() -> None:
    """One that it learns is looked up in llama.cpp before it is read here."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    unread = {"kormo", "f2llmv2", "megrez", "llama4", "kanana2", "talkie"}  # of Qwen's and GPT-4o's
    assert set(GGUF_PRE_TOKENIZER_SPLITS) <= SPLITS.keys() | unread


@pytest.mark.parametrize(
    ("kind", "first", "last", "words", "key"),
    [
        ("llama", [1], [], "▁a", ""),
        ("llama", [], [], "▁a", "add_bos_token"),
        ("llama", [1], [2], "▁a", "add_eos_token"),
        ("llama", [1], [], "a", "add_space_prefix"),
        ("t5", [], [2], "a", "eos_token_id, which stands for 1"),
        ("t5", [], [], "a", "add_eos_token"),
        ("t5", [1], [2], "a", "add_bos_token"),
        ("t5", [], [2], "▁a", "add_space_prefix"),
        ("gemma4", [], [], "a", "add_bos_token"),
    ],
)
def test_what_stands_around_a_text_is_that_of_the_kind_of_tokenizer(
    kind: str, first: list[int], last: list[int], words: str, key: str
) -> None:
    said = said_of({"model": kind}, Tokenizer(first, last, words))
    assert (key in said) and bool(said) == bool(key), said
    if kind == "gemma4":  # llama.cpp puts the first token in front whatever the file says
        assert said_of({"model": kind, "add_bos_token": False}, Tokenizer([], [], "a"))
        assert not said_of({"model": kind, "add_bos_token": False}, Tokenizer([1], [], "a"))


@pytest.mark.parametrize("split", [{}, {"pre": "default"}])
@pytest.mark.parametrize(
    ("merge", "taken"), [("ab", True), ("Ġa", True), ("12", False), ("Ġ(", False), ("_a", False)]
)
def test_a_file_that_names_no_split_is_split_as_llama_cpp_does_by_default(
    split: dict[str, object], merge: str, taken: bool
) -> None:
    """Its default cuts numbers after three digits and punctuation from spaces, GPT-2's does not."""
    tokenizer = Tokenizer([])
    tokenizer.merges = [list(merge.replace("Ġ", " "))]
    said = said_of({"model": "gpt2", "add_bos_token": False, **split}, tokenizer)
    assert ("tokenizer.ggml.pre" in said) != taken


@pytest.mark.parametrize(
    ("architecture", "kind", "own", "stating", "key"),
    [
        ("llama", "Llama", {}, {}, ""),
        ("llama", "Llama", {"num_key_value_heads": 8}, {}, "attention.head_count_kv"),
        ("llama", "Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, {},
         "rope.freq_base"),
        ("llama", "Llama", {"head_dim": 64}, {}, "attention.key_length"),
        ("llama", "Llama", {}, {"attention.layer_norm_rms_epsilon": None}, "attention.layer_norm"),
        ("llama", "Llama", {}, {"attention.head_count": None, "attention.head_count_kv": 32},
         "attention.head_count,"),
        ("llama", "Mistral", {}, {"attention.head_count_kv": 8}, "attention.sliding_window"),
        ("gemma2", "Gemma2", GEMMA2_27B, OF_GEMMA2, "attention.scale"),
        ("gemma2", "Gemma2", GEMMA2_27B | {"query_pre_attn_scalar": 144}, OF_GEMMA2, ""),
        ("gemma2", "Gemma2", {}, HEADS, ""),
        ("gemma2", "Gemma2", {"attn_logit_softcapping": 20.0}, HEADS, "attn_logit_softcapping"),
        ("gemma2", "Gemma2", {"final_logit_softcapping": None}, HEADS, ""),
        ("gemma2", "Gemma2", {"sliding_window": 512}, HEADS, "attention.sliding_window"),
        ("gemma3", "Gemma3Text", {}, HEADS | {"rope.freq_base": 1e6}, "attention.sliding_window"),
        ("gemma3", "Gemma3Text", {}, HEADS | {"attention.sliding_window": 4096}, "rope.freq_base"),
        ("gemma3", "Gemma3Text", {},
         HEADS | {"rope.freq_base": 1e6, "attention.sliding_window": 4096}, ""),
        ("stablelm", "StableLm", {}, PLAIN, "rope.dimension_count"),
        ("stablelm", "StableLm", {}, PLAIN | {"rope.dimension_count": 20}, ""),
        ("falcon", "Falcon", {"hidden_size": 4096, "num_attention_heads": 64}, PLAIN,
         "attention.head_count_kv"),
        ("falcon", "Falcon", {"hidden_size": 4096, "num_attention_heads": 64},
         PLAIN | {"attention.head_count_kv": 1}, ""),
        ("qwen3moe", "Qwen3Moe", {"norm_topk_prob": True, "head_dim": 64},
         {"attention.head_count_kv": 4, "expert_used_count": 8}, ""),
        ("qwen3moe", "Qwen3Moe", {"norm_topk_prob": False, "head_dim": 64},
         {"attention.head_count_kv": 4, "expert_used_count": 8}, "expert_weights_norm"),
        ("qwen3moe", "Qwen3Moe", {"norm_topk_prob": True, "head_dim": 64},
         {"attention.head_count_kv": 4}, "expert_used_count"),
        ("qwen2moe", "Qwen2Moe", {"norm_topk_prob": True}, {"expert_used_count": 4},
         "expert_weights_norm"),
        ("bloom", "Bloom", {"n_head": 8}, PLAIN | {"attention.head_count": 8}, ""),
        ("gpt2", "GPT2", {}, PLAIN, ""),
        ("mamba", "Mamba", {}, {"attention.layer_norm_rms_epsilon": 1e-5}, ""),
        ("t5", "T5", {}, {"attention.layer_norm_rms_epsilon": 1e-6}, ""),
        ("t5", "T5", {"d_kv": 32}, {"attention.layer_norm_rms_epsilon": 1e-6},
         "attention.key_length"),
    ],
)  # fmt: skip
def test_what_an_architecture_leaves_out_is_what_llama_cpp_takes_it_for(
    architecture: str, kind: str, own: dict[str, object], stating: dict[str, object], key: str
) -> None:
    """Values by llama.cpp's sources, written down by hand. Gemma 2 of 27B scales scores by 144."""
    stated, made = keys_and_class(architecture, kind, stating, **own)
    if not key:
        check_metadata(stated, made, Path("m.gguf"))
        return
    with pytest.raises(UsageError, match=re.escape(f"no {architecture}.{key}")):
        check_metadata(stated, made, Path("m.gguf"))
