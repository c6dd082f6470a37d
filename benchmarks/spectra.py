"""Spectral norms from disk against the full SVD and scipy's svds; peak memory on a large file; cost of the sheaf trace.

    OMP_NUM_THREADS=1 python benchmarks/spectra.py [--layers 13] [--folder DIR]

Prints a table and writes it to benchmarks/results/spectra.csv; seconds are processor time unless they are named wall.
The large file (13 layers of 7B shapes in bfloat16: 5.8 GB) is written to DIR, by default a temporary folder, and
removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save_file
from scipy.sparse.linalg import svds

from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.sheaf import head_measures, value_spectra
from thermostats.measurement.spectra import weights

RESULTS = Path(__file__).parent / "results" / "spectra.csv"
SMALL = {"GPT-2-small shape": (12, 768), "Pythia-410m shape": (4, 1024), "one layer, 2048 wide": (1, 2048)}
SPECTRA: dict[str, Callable[[int], np.ndarray]] = {
    "flat (random)": np.ones,
    "decaying": lambda n: np.arange(1, n + 1) ** -0.7,
}
CHILD = """
import re, sys, time
from pathlib import Path
from thermostats.measurement.spectra import weights
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before = peak()
start, cpu = time.perf_counter(), time.process_time()
weights(Path(sys.argv[1]), heads=sys.argv[2] == "heads")
print(time.perf_counter() - start, time.process_time() - cpu, before, peak())
"""


def median_seconds(run: Callable[[], object], repeats: int = 3) -> float:
    """Median processor time of a call, which other work on the machine disturbs least."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def llama_folder(folder: Path, layers: int, width: int, scale: np.ndarray, vocabulary: int = 64) -> None:
    """A model's folder with random W_V and W_O in float32 whose columns are scaled by `scale`."""
    rng = np.random.default_rng(0)
    tensors = {"model.embed_tokens.weight": rng.standard_normal((vocabulary, width), np.float32)}
    for layer in range(layers):
        for name in ("v_proj", "o_proj"):
            tensors[f"model.layers.{layer}.self_attn.{name}.weight"] = np.ascontiguousarray(
                rng.standard_normal((width, width), np.float32) * scale.astype(np.float32)
            )
    save_file(tensors, folder / "model.safetensors")
    write_config(folder, layers, width, tied=True)


def write_config(folder: Path, layers: int, width: int, tied: bool) -> None:
    """config.json of a LLaMA model with heads of 64 or 128."""
    config = {
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // (128 if width >= 4096 else 64),
        "tie_word_embeddings": tied,
    }
    (folder / "config.json").write_text(json.dumps(config))


def against_svd(folder: Path) -> list[dict[str, object]]:
    """Whole W_V and W_O of all layers, from disk: ours, full SVD, svds."""

    def every(reduce: Callable[[np.ndarray], float]) -> list[float]:
        tensors = load_file(folder / "model.safetensors")
        return [reduce(W) for name, W in sorted(tensors.items()) if "proj" in name]

    rows = []
    for shape, (layers, width) in SMALL.items():
        for kind, values in SPECTRA.items():
            llama_folder(folder, layers, width, values(width))
            ours = median_seconds(lambda: weights(folder, heads=False), 5)
            svd = median_seconds(lambda: every(lambda W: float(np.linalg.svd(W, compute_uv=False)[0])), 1)
            lanczos = median_seconds(lambda: every(lambda W: float(svds(W, k=1, return_singular_vectors=False)[0])), 1)
            found = weights(folder, heads=False)
            found = found[found["matrix"].isin(["W_V", "W_O"])].sort_values(["layer", "matrix"])["spectral_norm"]
            exact = np.array(every(lambda W: float(np.linalg.norm(W.astype(np.float64), 2))))
            by_layer = exact.reshape(layers, 2)[np.argsort([str(layer) for layer in range(layers)]).argsort()]
            error = np.abs(found.to_numpy().reshape(layers, 2) / by_layer - 1).max()
            rows.append(
                row(f"{shape}, {kind}", ours_s=ours, svd_ratio=svd / ours, svds_ratio=lanczos / ours, error=error)
            )
    return rows


def large_file(folder: Path, layers: int) -> None:
    """A safetensors file with `layers` layers of 7B shapes in bfloat16, and both embeddings."""
    rng = np.random.default_rng(0)
    square = (rng.standard_normal((4096, 4096), np.float32).view(np.uint32) >> 16).astype(np.uint16)
    shapes = {"self_attn.q_proj": 4096, "self_attn.k_proj": 4096, "self_attn.v_proj": 4096, "self_attn.o_proj": 4096}
    shapes |= {"mlp.gate_proj": 11008, "mlp.up_proj": 11008, "mlp.down_proj": 11008}
    names = {f"model.layers.{layer}.{name}.weight": rows for layer in range(layers) for name, rows in shapes.items()}
    names |= {"model.embed_tokens.weight": 32000, "lm_head.weight": 32000}
    header, at = {}, 0
    for name, rows in names.items():
        header[name] = {"dtype": "BF16", "shape": [rows, 4096], "data_offsets": [at, at := at + rows * 8192]}
    raw = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(len(raw).to_bytes(8, "little") + raw)
        for number, rows in enumerate(names.values()):
            rolled = np.roll(square, 37 * number, axis=0)
            for first in range(0, rows, 4096):
                stream.write(rolled[: min(4096, rows - first)].tobytes())
        stream.flush()
        os.fsync(stream.fileno())
    write_config(folder, layers, 4096, tied=False)


def drop_cache(path: Path) -> None:
    """Ask the system to forget the file's pages."""
    with path.open("rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def on_large_file(folder: Path, layers: int) -> list[dict[str, object]]:
    """Time and peak memory of all spectra of a file much larger than either."""
    large_file(folder, layers)
    file = folder / "model.safetensors"
    drop_cache(file)
    start = time.perf_counter()
    with file.open("rb", buffering=0) as stream:
        while stream.read(1 << 24):
            pass
    disk = file.stat().st_size / (time.perf_counter() - start)
    needed = sum(
        2 * int(np.prod(tensor.shape))
        for name, tensor in open_checkpoint(folder).items()
        if any(part in name for part in ("v_proj", "o_proj", "embed", "lm_head"))
    )
    rows = []
    for what in ("whole", "heads"):
        drop_cache(file)
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(folder), what], check=True, capture_output=True, text=True
        )
        seconds, cpu, before, peak = map(float, done.stdout.split())
        label = f"{file.stat().st_size / 1e9:.1f} GB, 7B shapes, bfloat16, flat, {what}"
        rows.append(
            row(
                label,
                ours_s=cpu,
                wall_s=seconds,
                peak_MB=peak,
                imports_MB=before,
                needed_GB=needed / 1e9,
                disk_GB_s=disk / 1e9,
            )
        )
    return rows


def sheaf_cost() -> list[dict[str, object]]:
    """The trace against the operator it is the trace of, one head: O(n² + d²) beside O(n² d²) for building it."""
    rows = []
    rng = np.random.default_rng(0)
    for n, d in ((8, 32), (16, 32), (32, 32), (16, 64), (16, 128), (1024, 64), (2048, 64), (64, 2048), (64, 4096)):
        A = np.tril(rng.random((n, n)))
        A /= A.sum(axis=1, keepdims=True)
        W = rng.standard_normal((d, d))
        ours = median_seconds(lambda A=A, W=W: (A.sum() - np.trace(A)) * np.einsum("ij,ij->", W, W), 9)
        dense = float("nan")
        if n * d <= 2048:
            dense = median_seconds(lambda A=A, W=W: np.trace(dense_operator(A, W)), 3)
        rows.append(row(f"trace, one head, n = {n}, d = {d}", ours_s=ours, dense_ratio=dense / ours))
    for n in (16, 64, 256):
        A = np.tril(rng.random((12, n, n)))
        spectra = value_spectra(rng.standard_normal((12, 64, 768)))
        seconds = median_seconds(lambda A=A, spectra=spectra: head_measures(A, spectra), 5)
        rows.append(row(f"all measures, 12 heads, n = {n}", ours_s=seconds))
    return rows


def dense_operator(A: np.ndarray, W: np.ndarray) -> np.ndarray:
    """L_F = L_G ⊗ WᵀW, of size n·d × n·d."""
    weights_ = (A + A.T) / 2
    np.fill_diagonal(weights_, 0)
    return np.kron(np.diag(weights_.sum(axis=1)) - weights_, W.T @ W)


def row(what: str, **figures: float) -> dict[str, object]:
    """One line of the table, printed as it is measured."""
    print(what, *(f"{name}={value:.4g}" for name, value in figures.items()), sep="  ", flush=True)
    return {"what": what, **figures}


def main() -> None:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=13)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        rows = sheaf_cost() + against_svd(Path(name)) + on_large_file(Path(name), arguments.layers)
    RESULTS.parent.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(RESULTS, index=False, float_format="%.4g", lineterminator="\n")


if __name__ == "__main__":
    main()
