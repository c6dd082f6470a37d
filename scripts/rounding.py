"""What rounding does to gains and norms: `python scripts/rounding.py OUT.csv NAME=FOLDER...`.

Every matrix of a model's blocks and its embedding are rounded by a scheme of GGUF and multiplied
out again, as the package `libgguf` does it (llama.cpp's reference). Model and rounded model are
measured on the same prompts. One row per model and scheme, of changes relative to the model as it
is: of its matrices (in the Frobenius norm, the median matrix), of the spectral norms of W_V and
W_O, and of the gain of every block on every prompt, at the last token, of an encoder and a vision
model the mean over tokens and patches. Schemes in blocks of 256 are left out where no row is a
multiple: llama.cpp then falls back on one in blocks of 32.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import libgguf
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

import thermostats

SCHEMES = ("Q8_0", "Q6_K", "Q5_0", "Q4_K", "Q4_1", "Q4_0")
NARROW = {"Q6_K": "Q8_0", "Q4_K": "Q5_0"}
"""Schemes in blocks of 256, and what stands for them where a row has another width."""
BLOCK = 32
WIDE = 256


def rounded(weights: NDArray[np.float32], scheme: str) -> NDArray[np.float32]:
    """A matrix rounded and multiplied out; as it is where its rows are no multiple of a block."""
    width = weights.shape[-1]
    if weights.ndim != 2 or width % BLOCK:
        return weights
    name = NARROW.get(scheme, scheme) if width % WIDE else scheme
    kind = libgguf.GGMLQuantizationType[name]
    rows = np.ascontiguousarray(weights, np.float32)
    return np.asarray(
        libgguf.dequantize_rows(libgguf.quantize_rows(rows, kind), kind, n_per_row=width)
    )


def rows_of(folder: Path, name: str, data: Path, prompts: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Gains by layer and prompt, and spectral norms of whole matrices by layer, of a model's
    folder."""
    layers = thermostats.measure(
        folder, data=data, name=name, prompts=prompts, what=("weights", "gains")
    )
    position = (
        "patches"
        if prompts == "images"
        else "mean"
        if "mean" in set(layers["position"])
        else "last"
    )
    gains = layers[layers["position"] == position].set_index(["layer", "prompt_id"])["gain_block"]
    weights = thermostats.load("weights", data=data, models=True)
    weights = weights[
        (weights["model_id"] == name)
        & (weights["head"] == "")
        & weights["matrix"].isin(["W_V", "W_O"])
    ]
    return gains, weights.set_index(["layer", "matrix"])["spectral_norm"]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "models", nargs="+", help="NAME=FOLDER, of a vision model NAME=FOLDER=images"
    )
    arguments = parser.parse_args()
    rows = []
    for each in arguments.models:
        name, folder, prompts = [*each.split("="), "core"][:3]
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary)
            plain = rows_of(Path(folder), name, place / "data", prompts)
            held = load_file(Path(folder) / "model.safetensors")
            wide = any(x.ndim == 2 and x.shape[1] % WIDE == 0 for x in held.values())
            for scheme in SCHEMES if wide else [each for each in SCHEMES if each not in NARROW]:
                other = place / scheme
                shutil.copytree(folder, other)
                changed = {key: rounded(value, scheme) for key, value in held.items()}
                save_file(changed, other / "model.safetensors", metadata={"format": "pt"})
                both = rows_of(other, f"{name}-{scheme}", place / "data", prompts)
                shutil.rmtree(other)
                moved = [
                    np.abs(np.log(after / before)).dropna()
                    for before, after in zip(plain, both, strict=True)
                ]
                matrices = [key for key in held if held[key].ndim == 2]
                off = [
                    np.linalg.norm(changed[k] - held[k]) / np.linalg.norm(held[k]) for k in matrices
                ]
                rows.append(
                    {
                        "model": name,
                        "scheme": scheme,
                        "weights": float(np.median(off)),
                        "norm_median": float(moved[1].median()),
                        "norm_largest": float(moved[1].max()),
                        "gain_median": float(moved[0].median()),
                        "gain_largest": float(moved[0].max()),
                    }
                )
                print(rows[-1], flush=True)
    pd.DataFrame(rows).to_csv(arguments.out, index=False, float_format="%.2g", lineterminator="\n")


if __name__ == "__main__":
    main()
