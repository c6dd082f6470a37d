"""Measuring from Python: strings and lists, models in memory, blocks and revisions; what is refused
leaves nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import torch
import transformers

from thermostats.errors import DataError, UsageError
from thermostats.measurement import session
from thermostats.measurement.from_python import measure
from thermostats.tables import store

TEXTS = ["a b c", "b c d e f"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.save_model(tmp_path_factory.mktemp("models") / "tiny-gpt2")


@pytest.fixture
def model(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


def gains(rows: pd.DataFrame) -> list[float]:
    ordered = rows[rows["position"] == "last"].sort_values(["prompt_id", "layer"])
    return [float(gain) for gain in ordered["gain_block"]]


def test_a_string_is_one_kind_and_prompts_are_a_list(folder: Path, tmp_path: Path) -> None:
    rows = measure(str(folder), data=tmp_path / "mine", what="gains", prompts=TEXTS)
    assert set(rows["prompt_id"]) == {"p001", "p002"}
    prompts = store.load("prompts", tmp_path / "mine")
    assert set(TEXTS) <= set(prompts["text"])
    assert store.load("runs", tmp_path / "mine")["source"].tolist().count("thermostats") >= 1


def test_without_a_data_folder_rows_are_returned_and_kept_nowhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = measure(folder, prompts=TEXTS, what="gains")
    assert list(tmp_path.iterdir()) == []
    again = measure(folder, data=tmp_path / "mine", prompts=TEXTS, what="gains")
    assert gains(rows) == pytest.approx(gains(again), rel=1e-12) and len(rows) == len(again)


@pytest.mark.slow
def test_a_model_in_memory_gives_the_gains_of_its_folder(
    folder: Path, model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    from_disk = measure(str(folder), tmp_path / "mine", what="gains", prompts=TEXTS)
    for each in (model, torch.compile(model)):
        rows = measure(each, tokenizer, prompts=TEXTS, what="gains")
        assert gains(rows) == gains(from_disk)
        assert set(rows["model_id"]) == {"tiny-gpt2"}


@pytest.mark.parametrize("how", ["on disk", pytest.param("compiled block", marks=pytest.mark.slow)])
def test_a_model_in_parts_gives_the_gains_of_its_folder(
    how: str, folder: Path, tokenizer: Any, tmp_path: Path
) -> None:
    """Of several devices, one of them a folder, and with a block that torch.compile holds."""
    places = {
        "transformer.wte": "cpu",
        "transformer.wpe": "cpu",
        "transformer.h.0": "cpu",
        "transformer.h.1": "disk",
    }
    places |= {"transformer.h.2": "disk", "transformer.ln_f": "cpu", "lm_head": "cpu"}
    options = (
        {"device_map": places, "offload_folder": str(tmp_path / "off")} if how == "on disk" else {}
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
    if how == "compiled block":
        model.transformer.h[1] = torch.compile(model.transformer.h[1])
    rows = measure(model, tokenizer, prompts=TEXTS, what="gains")
    assert gains(rows) == gains(
        measure(str(folder), tmp_path / "mine", what="gains", prompts=TEXTS)
    )


@pytest.mark.slow
def test_revisions_come_one_after_another(folder: Path, tmp_path: Path) -> None:
    rows = measure(
        str(folder), tmp_path / "mine", prompts=TEXTS, what="gains", revision=["step1", "step2"]
    )
    assert rows.groupby("revision")["run_id"].nunique().to_dict() == {"step1": 1, "step2": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"waht": "gains"}, "did you mean what?"),
        ({"what": "gain"}, "allowed: weights, gains, outputs, attention"),
        ({"what": 3}, "not a name or a list of names (what)"),
        ({"what": []}, "no such quantity"),
        ({"prompts": []}, "thermostats ls prompts"),
        ({"prompts": ["a", 3]}, "not a name (prompts)"),
        ({"prompts": ["a", " "]}, "or an empty one"),
        ({"prompts": "cor"}, "no such prompt set"),
        ({"revision": 3}, "not a name or a list of names (revision)"),
        ({"revision": []}, "no revision to measure"),
        ({"layers": [4]}, "allowed: 1 to 3"),
        ({"layers": [0]}, "blocks are numbered from 1"),
        ({"layers": "1"}, "blocks are numbered from 1"),
        ({"layers": [1.5]}, "blocks are numbered from 1"),
        ({"dtype": 3}, "dtype is not of its type"),
        ({"dtype": "float8"}, "no such precision"),
        ({"token_budget": "big"}, "a whole number"),
        ({"device": "gpu"}, "no such device"),
        ({"download": "no"}, "True or False"),
        ({"tokenizer": 3}, "leave it out"),
    ],
)
def test_what_is_refused_leaves_nothing(
    folder: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        measure(str(folder), data=tmp_path / "mine", **options)
    assert not (tmp_path / "mine").exists()


def test_what_cannot_be_measured_names_what_can(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    for wrong in (3, torch.nn.Linear(2, 2)):
        with pytest.raises(UsageError, match="a transformers model in memory"):
            measure(wrong, tokenizer, data=tmp_path / "mine")
    with pytest.raises(UsageError, match="needs its tokenizer"):
        measure(model, data=tmp_path / "mine")
    with pytest.raises(UsageError, match="follows from its weights"):
        measure(model, tokenizer, data=tmp_path / "mine", revision="v2")
    assert not (tmp_path / "mine").exists()


def test_a_refused_part_says_which_runs_are_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise DataError("no gains today")

    monkeypatch.setitem(session.MEASURE, "residual", refuse)
    with pytest.raises(DataError, match="no gains today") as refused:
        measure(str(folder), tmp_path / "mine", prompts=TEXTS, what=["weights", "gains"])
    assert re.fullmatch(r"Stored: weights \(\w{16}\)\.", refused.value.__notes__[0])
    assert not store.load("weights", tmp_path / "mine").empty


def test_hooks_on_a_model_in_memory_are_not_left_out_in_silence(model: Any, tokenizer: Any) -> None:
    handle = model.transformer.h[1].register_forward_hook(lambda _module, _args, output: output)
    with pytest.raises(UsageError, match=r"has hooks.*got transformer\.h\.1.*handle\.remove"):
        measure(model, tokenizer, prompts=TEXTS, what="gains")
    handle.remove()
    model(
        **tokenizer("a b", return_tensors="pt"), output_hidden_states=True
    )  # transformers leaves hooks of its own
    assert len(measure(model, tokenizer, prompts=TEXTS, what="gains"))


def test_a_weight_that_is_computed_from_others_is_named(model: Any, tokenizer: Any) -> None:
    torch.nn.utils.parametrizations.weight_norm(model.lm_head)
    with pytest.raises(
        UsageError, match=r"computed from others.*got lm_head: weight.*remove_parametrizations"
    ):
        measure(model, tokenizer, prompts=TEXTS, what="gains")


def other_activation(model: Any) -> None:
    model.transformer.h[1].mlp.act = torch.nn.ReLU()


def other_forward(model: Any) -> None:
    plain = model.transformer.h[0].mlp.forward
    model.transformer.h[0].mlp.forward = lambda x: 0.5 * plain(x)


def other_attribute(model: Any) -> None:
    model.transformer.h[2].attn.scale_attn_weights = False
    model.transformer.h[2].attn.scaling = 3.0


def other_head(model: Any) -> None:
    plain = model.lm_head.forward
    model.lm_head.forward = lambda x: 2 * plain(x)


@pytest.mark.parametrize(
    ("change", "place", "dtype"),
    [
        (other_activation, "block 2", torch.float32),
        (other_forward, "block 1", torch.float32),
        (other_forward, "block 1", torch.bfloat16),
        (other_attribute, "block 3", torch.float32),
        (other_head, "the logits", torch.float32),
    ],
)
def test_a_model_that_is_more_than_its_weights_is_refused_where_it_differs(
    change: Any, place: str, dtype: torch.dtype, folder: Path, tokenizer: Any, tmp_path: Path
) -> None:
    """As in ablations: nothing of the change stands in the files."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    assert len(measure(model, tokenizer, tmp_path / "mine", prompts=TEXTS, what="gains"))
    change(model)
    with pytest.raises(
        UsageError,
        match=rf"computes something else than its weights do.*\({place}, of \d+ tokens\)",
    ):
        measure(model, tokenizer, tmp_path / "mine", prompts=TEXTS, what="gains")
    measure(model, tokenizer, tmp_path / "mine", what="weights")
    assert not store.load("weights", tmp_path / "mine").empty


@pytest.mark.parametrize(("least", "most"), [(5, 99), (1, 2), (4, 4)])
def test_a_change_that_acts_on_some_lengths_is_refused_where_they_are_measured(
    least: int, most: int, folder: Path, tokenizer: Any, tmp_path: Path
) -> None:
    """As scaling beyond a length does; lengths are those of the run's own prompts."""
    texts = {length: " ".join("ab"[i % 2] for i in range(length)) for length in (2, 3, 4, 6, 9)}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    plain = model.transformer.h[1].mlp.forward

    def changed(x: Any) -> Any:
        return plain(x) * (0.5 if least <= x.shape[1] <= most else 1.0)

    model.transformer.h[1].mlp.forward = changed
    for ends in ((2, 3), (3, 9), (2, 9), (4, 6)):
        prompts = [texts[length] for length in ends]
        if any(least <= length <= most for length in ends):
            with pytest.raises(UsageError, match="computes something else than its weights do"):
                measure(model, tokenizer, prompts=prompts, what="gains")
        else:
            assert len(measure(model, tokenizer, prompts=prompts, what="gains"))


def test_a_tokenizer_that_is_more_than_its_files_is_refused(
    model: Any, folder: Path, tmp_path: Path
) -> None:
    class Prefixing(type(transformers.AutoTokenizer.from_pretrained(folder))):  # type: ignore[misc]
        def __call__(self, text: str, **options: Any) -> Any:
            return super().__call__(f"d {text}", **options)

    words = transformers.AutoTokenizer.from_pretrained(folder)
    words.__class__ = Prefixing
    with pytest.raises(
        UsageError,
        match=r"as other tokens.*\(prompt p001\): got tokens \[1, 2, 3\].*\[4, 1, 2, 3\]",
    ):
        measure(model, words, tmp_path / "mine", prompts=TEXTS, what="gains")
    assert not (tmp_path / "mine").exists()
