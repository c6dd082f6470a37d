"""Loading: exactly the weights of the files, or an error that says what is wrong and what to do."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file

from thermostats.errors import DataError, UsageError
from thermostats.measurement import loading
from thermostats.measurement.batching import TokenisedPrompt, tokenise
from thermostats.measurement.empty_models import build_empty_model
from thermostats.measurement.from_python import measure
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.hub import fetch_model_folder
from thermostats.measurement.loading import load
from thermostats.measurement.proof import check_proof
from thermostats.measurement.spectra import WITHOUT_HEAD
from thermostats.tables import store

WORDS = ("[UNK]", "<s>", "</s>", "the", "cat", "sat")


def write_tokenizer(folder: Path, template: str = "<s> $A") -> None:
    plain = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token=WORDS[0])
    )
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    plain.post_processor = tokenizers.processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain, **special).save_pretrained(folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    tiny.build("llama").save_pretrained(folder)
    write_tokenizer(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "tiny-llama"))


def opened(folder: Path, **options: Any) -> loading.Loaded:
    return load(fetch_model_folder(str(folder)), device="cpu", **options)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the tensors of a folder's only weights file."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_weights_are_those_of_the_file_in_every_precision(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    for dtype in ("float32", "bfloat16", "float16"):
        loaded = opened(folder, dtype=dtype)
        state = loaded.decoder.model.state_dict()
        assert all(
            torch.equal(state[name], tensor.to(getattr(torch, dtype)))
            for name, tensor in stored.items()
        )
        assert loaded.device == "cpu" and not loaded.decoder.model.training


def test_model_spread_by_a_device_map(folder: Path) -> None:
    pytest.importorskip("accelerate")
    prompts = [TokenisedPrompt("a", (1, 3, 4, 5)), TokenisedPrompt("b", (1, 3))]
    plain, spread = opened(folder), opened(folder, device_map="auto")
    here, there = (
        measure_gains(plain.decoder, prompts).layers,
        measure_gains(spread.decoder, prompts).layers,
    )
    pd.testing.assert_frame_equal(there, here, rtol=1e-5, check_exact=not torch.cuda.is_available())
    parts = {
        "model.embed_tokens": "cpu",
        "model.layers": "disk",
        "model.norm": "cpu",
        "model.rotary_emb": "cpu",
        "lm_head": "cpu",
    }
    (folder / "offload").mkdir()
    offloaded = opened(folder, device_map=parts)
    assert offloaded.device == "cpu, disk"
    assert measure_gains(offloaded.decoder, prompts).layers.equals(here)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.pop("model.layers.1.mlp.up_proj.weight"),
            r"1 missing \(model\.layers\.1\.mlp\.up_proj\.weight\)",
        ),
        (
            lambda t: t.update({"model.layers.9.x": torch.zeros(2)}),
            r"1 unexpected \(model\.layers\.9\.x\)",
        ),
        (
            lambda t: t.update({"model.norm.weight": torch.zeros(7)}),
            r"1 of another shape \(model\.norm\.weight: file \(7,\), configuration \(32,\)\)",
        ),
    ],
)
def test_weights_and_configuration_that_disagree(
    folder: Path, change: Callable[..., Any], message: str
) -> None:
    rewrite(folder, change)
    with pytest.raises(DataError, match=f"weights and configuration disagree.*{message}"):
        opened(folder)


def test_shards_and_plain_pickles_are_loaded_as_one_file_is(folder: Path, tmp_path: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    tiny.build("llama").save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    (folder / "model.safetensors").unlink()
    torch.save(stored, folder / "pytorch_model.bin")
    for place in (folder, tmp_path / "shards"):
        state = opened(place, tokenizer=False).decoder.model.state_dict()
        assert all(torch.equal(state[name], tensor) for name, tensor in stored.items())


def test_folders_without_tokenizer(folder: Path, tmp_path: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    for name in ("gpt2", "gpt_neox", "opt"):
        tiny.build(name).save_pretrained(tmp_path / name)
    for place in (folder, *(tmp_path / name for name in ("gpt2", "gpt_neox", "opt"))):
        with pytest.raises(DataError, match="no usable tokenizer"):
            opened(place)
    assert opened(folder, tokenizer=False).tokenizer is None


def test_eager_attention_is_refused_where_it_is_wrong(tmp_path: Path) -> None:
    tiny.build("falcon_multi_head_sequential").save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="eager attention is wrong for this model"):
        opened(tmp_path, attention="eager", tokenizer=False)


def test_a_device_that_is_not_there(folder: Path) -> None:
    with pytest.raises(UsageError, match="no such device here"):
        load(fetch_model_folder(str(folder)), device="quantum")


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no config\.json"):
        fetch_model_folder(str(tmp_path))
    with pytest.raises(UsageError, match="no such model folder"):
        fetch_model_folder(str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="not the id of a model"):
        fetch_model_folder("bad id!")


def test_special_tokens_in_front_stay_and_those_behind_go(folder: Path) -> None:
    write_tokenizer(folder, "<s> $A </s>")
    words = opened(folder).tokenizer
    prompts, before = tokenise(words, [("a", "the cat sat"), ("b", "the </s> cat")])
    assert [prompt.token_ids for prompt in prompts] == [(1, 3, 4, 5), (1, 3, 2, 4)]
    assert before == "<s>"
    with pytest.raises(UsageError, match="the prompt is empty"):
        tokenise(words, [("a", "")])


def test_a_text_that_begins_with_what_the_tokenizer_adds_is_refused(folder: Path) -> None:
    words = opened(folder).tokenizer
    with pytest.raises(UsageError, match=r"there twice \(prompt a\).*leave <s> out"):
        tokenise(words, [("a", "<s> the cat")])
    write_tokenizer(folder, "$A")
    prompts, before = tokenise(opened(folder).tokenizer, [("a", "<s> the cat")])
    assert prompts[0].token_ids == (1, 3, 4) and before == ""


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module."])
def test_a_prefix_of_all_names_in_the_files_is_named(prefix: str, folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = {f"{prefix}{name}": tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(
        DataError, match=rf"all names in the files begin with '{prefix}'.*model\._orig_mod"
    ):
        opened(folder)


def test_a_prompt_of_the_beginning_token_alone_is_found_behind_the_one_in_front(
    folder: Path,
) -> None:
    words = opened(folder).tokenizer
    assert words("<s>")["input_ids"] == [1, 1]
    with pytest.raises(UsageError, match=r"there twice \(prompt b\).*remove the prompt"):
        tokenise(words, [("a", "the cat"), ("b", "<s>")])


@pytest.mark.parametrize(
    "stated",
    [
        {"_attn_implementation": "flash_attention_2"},
        {"attn_implementation": "flash_attention_3"},
        {"output_attentions": True},
        {"return_dict": False},
        {"output_hidden_states": True, "return_dict": False},
    ],
    ids=str,
)
def test_what_a_configuration_says_of_kernels_and_outputs_changes_no_number(
    stated: dict[str, Any], folder: Path
) -> None:
    prompts = [TokenisedPrompt("a", (1, 3, 4, 5)), TokenisedPrompt("b", (1, 3))]
    plain = opened(folder).decoder
    before = measure_gains(plain, prompts, decode=str)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **stated}))
    decoder = opened(folder).decoder
    after = measure_gains(decoder, prompts, decode=str)
    pd.testing.assert_frame_equal(after.layers, before.layers)
    assert after.outputs is not None
    pd.testing.assert_frame_equal(after.outputs, before.outputs)
    assert check_proof(decoder).passed
    assert build_empty_model(folder).config.return_dict  # type: ignore[union-attr]


HEADLESS = {
    "an embedding model": ("LlamaModel", "layers", {}),
    "a reward model": ("LlamaForSequenceClassification", "layers", {"pad_token_id": 0}),
    "one with tied embeddings": ("LlamaModel", "layers", {"tie_word_embeddings": True}),
    "another class": ("GPT2Model", "h", {}),
}


@pytest.mark.parametrize("kind", HEADLESS)
def test_a_decoder_without_its_head_is_measured_as_plain_hooks_see_it(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    name, place, changes = HEADLESS[kind]
    config = tiny.build("gpt2" if name.startswith("GPT2") else "llama").config
    for key, value in changes.items():
        setattr(config, key, value)
    model = tiny.noisy(getattr(transformers, name)(config))
    path = tmp_path / "headless"
    model.save_pretrained(path)
    write_tokenizer(path)
    rows = measure(
        str(path),
        tmp_path / "data",
        prompts=["the cat sat", "cat"],
        what=["weights", "gains", "attention"],
    )
    row = store.load("models", tmp_path / "data").set_index("model_id").loc["headless"]
    runs = store.load("runs", tmp_path / "data")
    runs = set(runs.loc[runs["model_id"] == "headless", "run_id"])
    weights = store.load("weights", tmp_path / "data")
    weights = weights[weights["run_id"].isin(runs) & (weights["layer"] == 0)]
    base = transformers.AutoModel.from_pretrained(path)
    assert (row["modality"], row["n_params"]) == (
        "decoder",
        sum(p.numel() for p in base.parameters()),
    )
    assert set(weights["matrix"]) == {"embedding"}
    norms: list[float] = []
    for block in base.get_submodule(place):
        block.register_forward_pre_hook(
            lambda _module, args: norms.append(float(args[0][0, -1].double().norm()))
        )
        last = block
    last.register_forward_hook(
        lambda _m, _a, x: norms.append(
            float((x if isinstance(x, torch.Tensor) else x[0])[0, -1].double().norm())
        )
    )
    for prompt, ids in {"p001": [1, 3, 4, 5], "p002": [1, 4]}.items():
        norms.clear()
        with torch.no_grad():
            base(input_ids=torch.tensor([ids]))
        measured = rows[(rows["prompt_id"] == prompt) & (rows["position"] == "last")].sort_values(
            "layer"
        )
        assert measured["gain_block"].tolist() == pytest.approx(
            [b / a for a, b in itertools.pairwise(norms)], rel=1e-5
        )
    with pytest.raises(UsageError, match=r"none of the requested quantities: got outputs"):
        measure(str(path), tmp_path / "data", prompts=["the cat sat"], what="outputs")


def test_a_decoder_that_lost_its_head_is_still_refused(folder: Path) -> None:
    """Its configuration says that it has one."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tie_word_embeddings": False}))
    rewrite(folder, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(DataError, match=r"1 missing \(lm_head\.weight"):
        opened(folder)


@pytest.mark.parametrize(
    ("name", "headless"),
    [
        *[
            (name, True)
            for name in (
                "MistralModel",
                "LlamaForSequenceClassification",
                "LLMForSequenceRegression",
            )
        ],
        *[
            (name, True)
            for name in (
                "Qwen2ForRewardModel",
                "Qwen2ForTokenClassification",
                "InternLM2ForRewardModel",
            )
        ],
        *[
            (name, False)
            for name in ("GPT2LMHeadModel", "GPT2DoubleHeadsModel", "LlamaForCausalLM")
        ],
        *[(name, False) for name in ("Qwen3VLForConditionalGeneration", "BertForMaskedLM")],
    ],
)
def test_names_of_classes_without_a_head(name: str, headless: bool) -> None:
    """As the hub's configurations have them."""
    assert bool(WITHOUT_HEAD.search(name)) == headless
