"""Encoders and vision models from a folder to rows: their positions, sums before norms, images, and
what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import transformers
from conftest import snapshot
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.measurement import forward, gains
from thermostats.measurement.batching import ImagePrompt
from thermostats.measurement.from_python import measure
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.prompts import CATEGORIES, build_made_images, read_image, render
from thermostats.tables import store
from thermostats.tables.features import build_features

SIDE = tiny.SMALL["image_size"]
HASHES = {
    "noise 1.5": "2776180de6dc938993a1a5a605d62e690853dd6d3ce4996a8704421fe94d643f",
    "grating 8.0": "052f4b086398bb4f286865f54558ff61c404e9dc829adfbdb6e9656007407c49",
    "polygon 5.0": "beb7439256074d668d4843ae9e84680d397be73418611cc964a51663d61f22ed",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Tables of its own, without the package's beneath."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "models.csv").write_bytes((store.find_shipped("data") / "models.csv").read_bytes())
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model, as the hub holds them: with its head, without the pooler that the
    base model has."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    torch.manual_seed(0)
    config = transformers.BertConfig(**tiny.CONFIGURATIONS["bert"][1])
    tiny.noisy(transformers.BertForMaskedLM(config)).save_pretrained(folder)  # type: ignore[operator]
    words = ["[UNK]", "[CLS]", "[SEP]", *"abcdefg"]
    plain = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("[CLS]", 1), ("[SEP]", 2)]
    plain.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=special
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]").save_pretrained(
        folder
    )
    return folder


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image classifier with its processor."""
    folder = tmp_path_factory.mktemp("models") / "vit"
    torch.manual_seed(0)
    config = transformers.ViTConfig(**tiny.CONFIGURATIONS["vit"][1])
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


def test_an_encoder_is_measured_with_its_special_tokens(
    encoder: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text("a b c d\n")
    layers = measure(str(encoder), data, prompts=str(tmp_path / "p.txt")).set_index(
        ["layer", "position"]
    )
    model = transformers.BertModel.from_pretrained(encoder).eval()
    with torch.no_grad():
        hidden = model(torch.tensor([[1, 3, 4, 5, 6, 2]]), output_hidden_states=True).hidden_states
    norms = torch.stack([states[0].norm(dim=-1) for states in hidden]).double()
    gains = norms[1:] / norms[:-1]
    for layer in range(3):
        expected = {
            "cls": gains[layer, 0],
            "last": gains[layer, 4],
            "mean": gains[layer, 1:5].log().mean().exp(),
        }
        for position, value in expected.items():
            row = layers.loc[(layer + 1, position)]
            assert row["gain_block"] == pytest.approx(float(value), rel=1e-5)
            assert (
                row["n_tokens"] == 6 and row["gain_sum_attention"] > 0 and row["gain_sum_mlp"] > 0
            )
    counts = store.check(data)
    assert counts["outputs"] == 0 and counts["attention"] > 0
    runs = store.load("runs", data)
    assert set(runs["prompt_set"]) == {"", "p"}
    assert runs.loc[runs["prompt_set"] == "p", "proof"].str.startswith("value=").all()
    (model_row,) = (
        row for row in store.load("models", data).to_dict("records") if row["model_id"] == "bert"
    )
    assert (model_row["norm_place"], model_row["position_scheme"]) == ("post", "learned")
    pooler = sum(parameter.numel() for parameter in model.pooler.parameters())
    assert (
        model_row["n_params"] == sum(parameter.numel() for parameter in model.parameters()) - pooler
    )


def test_a_vision_model_is_measured_on_images_that_code_makes(vision: Path, data: Path) -> None:
    layers = measure(str(vision), data, prompts="images", what=("gains", "weights"))
    assert len(layers) == 25 * 3 * 2 and (layers["missing"] == "").all()
    images = store.load("prompts", data).query("prompt_set == 'images'")
    assert (
        set(images["modality"]) == {"image"}
        and images.groupby("category").size().tolist() == [5] * 5
    )
    model = transformers.ViTModel.from_pretrained(vision).eval()
    processor = transformers.ViTImageProcessor.from_pretrained(vision)
    pixels = processor(images=render("noise 1.0"), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        hidden = model(pixels, output_hidden_states=True).hidden_states
    norms = torch.stack([states[0].norm(dim=-1) for states in hidden[:3]]).double()
    gains = norms[1:] / norms[:-1]
    rows = layers.set_index(["prompt_id", "layer", "position"])["gain_block"]
    for layer in range(2):  # the last of the hidden states is normed
        assert rows["noise-1.0", layer + 1, "cls"] == pytest.approx(
            float(gains[layer, 0]), rel=1e-5
        )
        patches = float(gains[layer, 1:].log().mean().exp())
        assert rows["noise-1.0", layer + 1, "patches"] == pytest.approx(patches, rel=1e-5)
    assert store.check(data)["layers"] == len(layers)


def test_a_folder_of_images_in_any_colours(vision: Path, data: Path, tmp_path: Path) -> None:
    images = tmp_path / "mine"
    (images / "greys").mkdir(parents=True)
    grey = np.random.default_rng(0).integers(0, 255, (20, 30), dtype=np.uint8)
    Image.fromarray(grey).save(images / "greys" / "a.png")
    Image.fromarray(np.dstack([grey // 2] * 4)).save(images / "b.png")
    Image.fromarray(np.dstack([grey] * 3)).save(images / "c.jpg")
    layers = measure(str(vision), data, prompts=str(images), what=("gains",))
    assert set(layers["prompt_id"]) == {"greys/a.png", "b.png", "c.jpg"}
    twins = tmp_path / "twins"
    twins.mkdir()
    Image.fromarray(grey).save(twins / "grey.png")
    Image.fromarray(np.dstack([grey] * 4)).save(twins / "rgba.png")
    with pytest.raises(
        DataError, match=r"grey\.png, rgba\.png of twins: one text 2 times"
    ):  # the same pixels
        measure(str(vision), data, prompts=str(twins), what=("gains",))
    (images / "broken.png").write_bytes((images / "b.png").read_bytes()[:40])
    with pytest.raises(DataError, match=r"image cannot be read.*broken\.png"):
        measure(str(vision), data, prompts=str(images), what=("gains",))
    with pytest.raises(UsageError, match="no images in this folder"):
        (tmp_path / "empty").mkdir()
        measure(str(vision), data, prompts=str(tmp_path / "empty"), what=("gains",))


@pytest.fixture(scope="module", params=["clip", pytest.param("siglip", marks=pytest.mark.slow)])
def two_towers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, encoder: Path
) -> Path:
    """A whole CLIP or SigLIP, with tokenizer and image processor."""
    folder = tmp_path_factory.mktemp("models") / request.param
    small = {
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_attention_heads": 4,
        "projection_dim": 16,
    }
    text = {
        **small,
        "num_hidden_layers": 2,
        "vocab_size": 61,
        "max_position_embeddings": 32,
        "eos_token_id": 2,
    }
    image = {**small, "num_hidden_layers": 3, "image_size": SIDE, "patch_size": 4}
    kind = "CLIP" if request.param == "clip" else "Siglip"
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=image)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((encoder / name).read_bytes())
    transformers.ViTImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


def test_a_model_of_two_stacks_is_two_runs_of_two_models(
    two_towers: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text("a b c d\n")
    texts = measure(
        str(two_towers), data, prompts=str(tmp_path / "p.txt"), what=("gains", "weights")
    )
    images = measure(str(two_towers), data, prompts="images", what=("gains", "weights"))
    name = two_towers.name
    assert (set(texts["model_id"]), set(images["model_id"])) == (
        {f"{name}:text"},
        {f"{name}:vision"},
    )
    assert (texts["layer"].max(), images["layer"].max()) == (2, 3)
    models = store.load("models", data).set_index("model_id")
    assert models.loc[[f"{name}:text", f"{name}:vision"], "n_layers"].tolist() == [2, 3]
    assert models.loc[[f"{name}:text", f"{name}:vision"], "modality"].tolist() == [
        "encoder",
        "vision",
    ]
    model = (
        getattr(transformers, "CLIPModel" if name == "clip" else "SiglipModel")
        .from_pretrained(two_towers)
        .eval()
    )
    pixels = transformers.ViTImageProcessor.from_pretrained(two_towers)(
        images=render("disc 40.0"), return_tensors="pt"
    )
    with torch.no_grad():
        hidden = model.vision_model(pixels["pixel_values"], output_hidden_states=True).hidden_states
    norms = torch.stack([states[0].norm(dim=-1) for states in hidden]).double()
    patches = norms[1:, -9:].log().mean(dim=1) - norms[:-1, -9:].log().mean(dim=1)
    rows = images.set_index(["prompt_id", "layer", "position"])["gain_block"]
    for layer in (1, 2):
        assert rows["disc-40.0", layer, "patches"] == pytest.approx(
            float(patches[layer - 1].exp()), rel=1e-5
        )
    parameters = sum(x.numel() for x in model.vision_model.parameters())
    head = sum(x.numel() for n, x in model.vision_model.named_parameters() if n.startswith("head"))
    assert models.loc[f"{name}:vision", "n_params"] == parameters - head


@pytest.mark.slow
def test_swin_has_gains_within_stages_and_no_total(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "swin"
    tiny.build("swin").save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    layers = measure(str(folder), data, prompts="images")
    assert (
        len(layers) == 25 * 5
        and (layers["missing"] == "").all()
        and set(layers["position"]) == {"patches"}
    )
    tokens = layers.query("prompt_id == 'disc-40.0'").sort_values("layer")["n_tokens"]
    assert tokens.tolist() == [256, 256, 64, 64, 16]
    assert store.check(data)["attention"] == 0  # within windows
    row = build_features(data, position="patches").query("model_id == 'swin'").iloc[0]
    assert row["stages"] == 3 and row["geometric_gain"] > 0 and np.isnan(row["total_amplification"])
    with pytest.raises(UsageError, match="has none of the requested quantities"):
        measure(str(folder), data, prompts="images", what=("attention",))


@pytest.mark.parametrize(
    ("name", "changes", "side", "message"),
    [
        ("vit", {}, 16, "not an image as the model reads it"),
        ("dinov2", {}, 18, "sides that are multiples of 4"),
        ("swin", {"window_size": 3}, 32, "do not divide into windows"),
    ],
)
def test_sizes_that_do_not_divide(
    name: str, changes: dict[str, int], side: int, message: str
) -> None:
    decoder = tiny.opened(name, **changes)
    with pytest.raises(UsageError, match=message):
        measure_gains(decoder, [ImagePrompt("a", torch.zeros(3, side, side))])


def test_a_model_that_gives_other_numbers_each_time_is_refused(
    encoder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.txt").write_text("a b c d e f g a b c\na b\n")
    before, plain = snapshot(data), forward.call

    def noisy(module: Any, batch: Any, **more: Any) -> Any:
        with torch.no_grad():
            module.embeddings.LayerNorm.weight.copy_(torch.rand(module.config.hidden_size))
        return plain(module, batch, **more)

    monkeypatch.setattr(gains, "call", noisy)
    with pytest.raises(
        ThermostatsError, match="two inputs measured again by themselves give different numbers"
    ):
        measure(str(encoder), data, prompts=str(tmp_path / "p.txt"), what=("gains",))
    assert snapshot(data) == before


def without(folder: Path, file: str) -> None:
    (folder / file).unlink()


def test_recipes_give_what_they_say(tmp_path: Path) -> None:
    assert {
        recipe: row.text_sha256
        for row in build_made_images().itertuples()
        if (recipe := row.text) in HASHES
    } == HASHES
    assert sum(map(len, CATEGORIES.values())) == 25
    with pytest.raises(DataError, match="no such recipe"):
        render("noise 9")
    grey = render("noise 1.5").astype(float).mean(axis=2)
    power = np.abs(np.fft.rfft2(grey - grey.mean())) ** 2
    frequency = np.hypot(np.fft.fftfreq(224)[:, None], np.fft.rfftfreq(224)[None, :])
    band = (frequency > 0.02) & (frequency < 0.3)
    slope = np.polyfit(np.log(frequency[band]), np.log(power[band]), 1)[0]
    assert slope == pytest.approx(-3.0, abs=0.1)
    Image.fromarray(render("disc 40.0")).save(tmp_path / "disc.png")
    assert np.array_equal(read_image(tmp_path / "disc.png"), render("disc 40.0"))
