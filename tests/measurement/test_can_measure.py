"""What can be measured is told from the configuration alone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import transformers

from thermostats.measurement import can_measure as module
from thermostats.measurement.architectures import UnsupportedArchitectureError
from thermostats.measurement.can_measure import can_measure
from thermostats.measurement.estimate import Place


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("llama", {}),
        ("vit", {"outputs": "no next-token distribution"}),
        ("falcon_multi_head_sequential", {"attention": "computes something else"}),
    ],
)
def test_each_kind_with_its_memory_and_time_or_the_reason(name: str, refused: dict[str, str], tmp_path: Path) -> None:
    tiny.build(name).config.save_pretrained(tmp_path)  # type: ignore[union-attr, operator]
    rows = {row["what"]: row for row in can_measure(str(tmp_path))}
    assert {what for what, row in rows.items() if not row["measured"]} == set(refused)
    assert all(said in rows[what]["why"] for what, said in refused.items())
    assert rows["gains"]["gigabytes"] > 0 and rows["gains"]["seconds"] > 0
    assert rows["weights"]["gigabytes"] == 0


def test_what_does_not_fit_or_is_not_known_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.build("gpt2").config.save_pretrained(tmp_path)  # type: ignore[union-attr, operator]
    monkeypatch.setattr(module, "local_place", lambda _: Place("cpu", 1000))
    rows = {row["what"]: row for row in can_measure(str(tmp_path))}
    assert rows["weights"]["measured"] and "cannot fit" in rows["gains"]["why"]
    (tmp_path / "config.json").write_text('{"model_type": "pvt"}')
    with pytest.raises(UnsupportedArchitectureError, match="width changes between stages"):
        can_measure(str(tmp_path))


def test_a_model_of_several_stacks_has_rows_for_each(tmp_path: Path) -> None:
    text = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}
    vision = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    transformers.CLIPConfig(text_config=text, vision_config=vision).save_pretrained(tmp_path)
    rows = {(row["stack"], row["what"]): row for row in can_measure(str(tmp_path))}
    assert len(rows) == 8 and rows["vision", "gains"]["seconds"] > rows["text", "gains"]["seconds"]
