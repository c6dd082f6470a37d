"""Other tools held against the same model: an adapter's faults are named, a tool that cannot is
refused in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
from torch import Tensor

from thermostats.errors import UsageError
from thermostats.measurement import other_tools, proving
from thermostats.measurement.activations import read_activations
from thermostats.measurement.forward import Decoder
from thermostats.measurement.other_tools import HOOKS, TOOLS, Read, Tool
from thermostats.measurement.proving import FAILS, HOLDS, OPEN, PLACES, ModelProof, prove

LINES = 40
"""Most that an adapter may have."""
Fault = Callable[[list[Read]], list[Read]]


def read_rightly(places: Decoder, ids: Tensor) -> list[Read]:
    """A tool that reads what we read, its tensors with a dimension for the batch."""
    seen = read_activations(places, {"input_ids": ids})
    return [
        {name: torch.from_numpy(each[name]).unsqueeze(0) for name in PLACES if name in each}
        for each in seen.blocks
    ]


@pytest.fixture
def use_tool(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Stand in for nnterp with a tool that is right but for a fault."""

    def install(fault: Fault = lambda seen: seen) -> None:
        def read(places: Decoder, ids: Tensor) -> list[Read]:
            return fault(read_rightly(places, ids))

        monkeypatch.setitem(TOOLS, "nnterp", Tool("nnterp", "nnterp", read))
        monkeypatch.setattr(other_tools, "version", lambda _package: "9.9")

    return install


def hold(name: str, **changes: Any) -> ModelProof:
    return prove(tiny.build(name, **changes), tool="nnterp")


def find_states(proof: ModelProof) -> dict[str, str]:
    """State of every identity of the other tool."""
    assert proof.tool is not None
    return {each.name: each.state for each in proof.tool.identities}


@pytest.mark.parametrize("name", ["llama", "bloom", "gemma2", "olmo2", "glm4", "gpt_neox"])
def test_a_right_tool_holds_and_agrees(name: str, use_tool: Callable[..., None]) -> None:
    use_tool()
    proof = hold(name)
    assert proof.passed
    assert set(find_states(proof).values()) == {HOLDS}
    assert proof.tool is not None and {each.state for each in proof.tool.agreement} == {HOLDS}
    assert (
        proof.badge == f"nnterp 9.9 holds and agrees (float32, transformers {proof.transformers})"
    )


def add_residual(seen: list[Read]) -> list[Read]:
    """BLOOM's modules as they are called: what they return holds the stream."""
    return [
        {
            **each,
            "attention_write": each["attention_write"] + each["x_in"],
            "mlp_write": each["x_out"],
        }
        for each in seen
    ]


def step_back(seen: list[Read]) -> list[Read]:
    return [{**each, "x_out": each["x_in"]} for each in seen]


def hand_out_less(seen: list[Read]) -> list[Read]:
    return [{name: each[name] for name in ("x_in", "x_out")} for each in seen]


@pytest.mark.parametrize(
    ("name", "fault", "identity", "says", "differs"),
    [
        (
            "bloom",
            add_residual,
            "residual",
            "both writes hold the residual",
            {"attention_write", "mlp_write"},
        ),
        ("llama", step_back, "states", "the state is off by one block", {"x_out"}),
    ],
)
def test_faults_of_a_tool_are_named(
    name: str,
    fault: Fault,
    identity: str,
    says: str,
    differs: set[str],
    use_tool: Callable[..., None],
) -> None:
    use_tool(fault)
    proof = hold(name)
    assert proof.tool is not None and not proof.passed and not proof.failed
    (row,) = (each for each in proof.tool.identities if each.name == identity)
    assert (row.state, says in row.why) == (FAILS, True), row.why
    assert {each.name for each in proof.tool.agreement if each.state == FAILS} == differs
    assert proof.badge.startswith(f"nnterp 9.9 is off: {', '.join(proof.tool.failed)} (float32")


def test_a_write_without_the_factor_of_its_class_fails(use_tool: Callable[..., None]) -> None:
    """Granite multiplies both writes; our entry names the factor, a tool hands out what is
    written."""
    use_tool()
    proof = hold("granite")
    assert proof.tool is not None
    (row,) = (each for each in proof.tool.identities if each.name == "residual")
    assert row.why.endswith("a factor on the writes is forgotten")
    assert proof.tool.failed == ("residual", "attention_write", "mlp_write")


def test_what_a_tool_does_not_hand_out_is_not_covered(use_tool: Callable[..., None]) -> None:
    use_tool(hand_out_less)
    proof = hold("llama")
    assert proof.passed and proof.tool is not None
    assert {name for name, state in find_states(proof).items() if state == OPEN} == {
        "residual",
        "norms",
        "order",
        "heads",
    }
    assert {each.name for each in proof.tool.agreement if each.state == OPEN} == set(PLACES) - {
        "x_in",
        "x_out",
    }
    names = [row["name"] for row in proving.list_rows(proof)]
    assert names[-len(PLACES) :] == list(PLACES.values())


def test_the_model_is_left_as_it_was(use_tool: Callable[..., None]) -> None:
    def spoil(places: Decoder, ids: Tensor) -> list[Read]:
        seen = read_rightly(places, ids)
        for weight in places.model.parameters():
            weight.data.zero_()
        return seen

    use_tool()
    TOOLS["nnterp"] = replace(TOOLS["nnterp"], read=spoil)
    model = tiny.build("llama")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert prove(model, tool="nnterp").passed
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_a_tool_that_fails_is_refused_in_words(use_tool: Callable[..., None]) -> None:
    def fail(_seen: list[Read]) -> list[Read]:
        raise KeyError("no such architecture")

    use_tool(fail)
    with pytest.raises(
        UsageError, match=r"cannot read a model of this class \(LlamaForCausalLM\): got KeyError"
    ):
        hold("llama")


def test_a_tool_that_does_not_load_is_refused_in_words(use_tool: Callable[..., None]) -> None:
    """nnterp 1.3.0 allows nnsight 0.8, without whose older parts it does not load."""

    def fail(_seen: list[Read]) -> list[Read]:
        raise ModuleNotFoundError("No module named 'nnsight.intervention.tracing'")

    use_tool(fail)
    with pytest.raises(
        UsageError, match=r"nnterp does not load with .*: got No module named 'nnsight"
    ):
        hold("llama")


def test_a_model_of_images_is_refused(use_tool: Callable[..., None]) -> None:
    use_tool()
    with pytest.raises(
        UsageError, match="nnterp is given token ids alone: got a model that reads image"
    ):
        hold("vit")


def test_a_tool_that_is_not_installed_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(other_tools, "version", lack)
    for name, tool in TOOLS.items():
        with pytest.raises(
            UsageError, match=rf"{name} is not installed .* Next: {tool.install_line}"
        ):
            prove(tiny.build("llama"), tool=name)
    with pytest.raises(UsageError, match=r"no adapter for such a tool .* did you mean nnterp"):
        prove(tiny.build("llama"), tool="nnterpp")


def test_the_line_that_installs_a_tool_names_what_it_needs() -> None:
    assert TOOLS["nnterp"].install_line == "pip install nnterp 'nnsight<0.8'"
    assert TOOLS["transformer-lens"].install_line == "pip install transformer-lens"


def test_adapters_are_short() -> None:
    for tool in TOOLS.values():
        assert len(inspect.getsource(tool.read).splitlines()) <= LINES, tool.name
    assert set(HOOKS) == set(PLACES)


@pytest.mark.parametrize("name", TOOLS)
def test_installed_tools_hold_on_llama(name: str) -> None:
    module = {"transformer-lens": "transformer_lens"}.get(name, name)
    if find_spec(module) is None:
        pytest.skip(f"{name} is not installed")
    proof = prove(tiny.build("llama"), tool=name)
    assert proof.tool is not None and proof.tool.failed == ()
