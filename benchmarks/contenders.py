"""What is timed, one function a contender: given a model's folder it loads, and returns the work to
be repeated.

Each is called by `worker.py` in an environment of its own, so that what it imports it imports
itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

Work = Callable[[], Any]
SGEMM = 2048


def prompts_of(folder: Path) -> list[list[int]]:
    """Token ids of the prompts."""
    return json.loads((folder / "prompts.json").read_text(encoding="utf-8"))


def norms(folder: Path) -> Work:
    """This package: the table `layers` of all prompts, sub-blocks, cosines and anisotropy
    included."""
    from thermostats.measurement.gains import measure_gains  # noqa: PLC0415

    decoder, prompts = _loaded(folder, "default")

    def run() -> list[float]:
        table = measure_gains(decoder, prompts).layers
        last = table[table["position"] == "last"].sort_values(["prompt_id", "layer"])
        return list(last["norm_in"])

    return run


def norms_notebook(folder: Path) -> Work:
    """transformers as in a notebook: one prompt at a time, with the head, all hidden states
    kept."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompts = [torch.tensor([ids]) for ids in prompts_of(folder)]

    def run() -> list[float]:
        norms = []
        with torch.no_grad():
            for ids in prompts:
                states = model(ids, output_hidden_states=True).hidden_states
                norms += torch.stack([x[0].norm(dim=-1) for x in states])[:-1, -1].tolist()
        return norms

    return run


def norms_transformer_lens(folder: Path) -> Work:
    """TransformerLens: one prompt at a time, a filter that keeps the residual stream alone."""
    import torch  # noqa: PLC0415
    from transformer_lens.model_bridge import TransformerBridge  # noqa: PLC0415

    model = TransformerBridge.boot_transformers(str(folder), device="cpu", dtype=torch.float32)
    model.eval()
    prompts = [torch.tensor([ids]) for ids in prompts_of(folder)]
    layers = range(model.cfg.n_layers)
    names = [f"blocks.{layer}.hook_resid_pre" for layer in layers]
    wanted = {*names, f"blocks.{layers[-1]}.hook_resid_post"}

    def run() -> list[float]:
        norms = []
        with torch.no_grad():
            for ids in prompts:
                cache = model.run_with_cache(
                    ids, names_filter=lambda name: name in wanted, return_type=None
                )[1]
                lengths = {name: cache[name][0].norm(dim=-1) for name in wanted}
                norms += torch.stack([lengths[name] for name in names])[:, -1].tolist()
        return norms

    return run


def norms_nnsight(folder: Path) -> Work:
    """nnsight: one prompt at a time, the norms computed inside the trace."""
    import nnsight  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from nnsight import LanguageModel  # noqa: PLC0415

    model = LanguageModel(str(folder), dispatch=True, dtype=torch.float32)
    blocks = list(model.transformer.h if hasattr(model, "transformer") else model.gpt_neox.layers)
    prompts = [torch.tensor([ids]) for ids in prompts_of(folder)]

    def run() -> list[float]:
        norms = []
        with torch.no_grad():
            for ids in prompts:
                with model.trace(ids):
                    states = nnsight.save([block.input[0].norm(dim=-1) for block in blocks])
                norms += torch.stack(states)[:, -1].tolist()
        return norms

    return run


def sgemm(_folder: Path) -> Work:
    """The machine's own rate: one product of two square float32 matrices."""
    import torch  # noqa: PLC0415

    a, b = torch.randn(SGEMM, SGEMM), torch.randn(SGEMM, SGEMM)
    return lambda: float((a @ b)[0, 0]) * 0


def sheaf(folder: Path) -> Work:
    """This package: the table `attention` of all prompts, spectra of W_V included."""
    from thermostats.measurement.attention import measure_attention  # noqa: PLC0415

    decoder, prompts = _loaded(folder, "eager")
    return lambda: float(measure_attention(decoder, prompts)["trace"].sum())


def eager_forward(folder: Path) -> Work:
    """The forward pass that the sheaf features are taken from: same model as it is, same batches,
    no hooks."""
    import torch  # noqa: PLC0415

    from thermostats.measurement.forward import call, make_batches  # noqa: PLC0415

    decoder, prompts = _loaded(folder, "eager")

    def run() -> None:
        with torch.inference_mode():
            for batch in make_batches(decoder, prompts):
                call(decoder.base, batch)

    return run


def eager_notebook(folder: Path) -> Work:
    """An eager forward pass as in a notebook: one prompt at a time, with the head, attention
    weights returned."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    prompts = [torch.tensor([ids]) for ids in prompts_of(folder)]

    def run() -> None:
        with torch.no_grad():
            for ids in prompts:
                model(ids, output_attentions=True)

    return run


def spectra(folder: Path) -> Work:
    """This package: ‖W_V‖₂ and ‖W_O‖₂ of every layer, read from the files each time."""
    from thermostats.measurement.checkpoint import open_checkpoint, read_geometry  # noqa: PLC0415
    from thermostats.measurement.lookup import lookup  # noqa: PLC0415
    from thermostats.measurement.spectra import build_weight_rows, read_config  # noqa: PLC0415

    def run() -> list[float]:
        config = read_config(folder)
        entry, tensors = lookup(config), open_checkpoint(folder)
        layers = range(1, read_geometry(entry, config).n_layers + 1)
        rows = [
            row
            for layer in layers
            for row in build_weight_rows(entry, config, tensors, layer, heads=False)
        ]
        return [float(row["spectral_norm"]) for row in rows]

    return run


def svd(folder: Path) -> Work:
    """All singular values of W_V and W_O; the model was loaded before the clock started."""
    import torch  # noqa: PLC0415

    matrices = _matrices(folder)
    return lambda: [float(torch.linalg.svdvals(W)[0]) for W in matrices]


def full_svd(folder: Path) -> Work:
    """The full SVD, U and V included, of W_V and W_O; the model was loaded before the clock
    started."""
    import torch  # noqa: PLC0415

    matrices = _matrices(folder)
    return lambda: [float(torch.linalg.svd(W, full_matrices=False)[1][0]) for W in matrices]


def weightwatcher_model(folder: Path) -> Work:
    """WeightWatcher on the model's own attention layers, where W_V is one part of a fused
    matrix."""
    import torch  # noqa: PLC0415
    import weightwatcher as ww  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    watcher = ww.WeightWatcher(model=model)
    layers = watcher.describe()
    attention = layers[layers["longname"].str.contains("attn|attention")]["layer_id"].tolist()
    if not attention:
        raise SystemExit("WeightWatcher sees no attention layer in this model")

    def run() -> int:
        return len(watcher.analyze(layers=attention, plot=False)) * 0

    return run


def weightwatcher(folder: Path) -> Work:
    """WeightWatcher on linear layers that hold W_V and W_O and nothing else; loaded before the
    clock started."""
    import torch  # noqa: PLC0415
    import weightwatcher as ww  # noqa: PLC0415

    layers = torch.nn.ModuleList()
    for W in _matrices(folder):
        layers.append(torch.nn.Linear(W.shape[1], W.shape[0], bias=False))
        layers[-1].weight.data = W
    watcher = ww.WeightWatcher(model=layers)
    return lambda: [
        math.sqrt(x) for x in watcher.analyze(plot=False).sort_values("layer_id")["spectral_norm"]
    ]


def exact(folder: Path) -> Work:
    """The largest singular values in float64, which the others are held against."""
    import torch  # noqa: PLC0415

    matrices = _matrices(folder)
    return lambda: [float(torch.linalg.svdvals(W.double())[0]) for W in matrices]


def every_spectrum(folder: Path) -> Work:
    """This package: the whole table `measure_weights` of a model's files, heads and embeddings
    included."""
    from thermostats.measurement.spectra import measure_weights  # noqa: PLC0415

    return lambda: len(measure_weights(folder)) * 0


def row_norms(folder: Path) -> Work:
    """This package: norms of the rows of both embeddings, the one quantity that takes a single pass
    over its bytes."""
    from thermostats.measurement.checkpoint import open_checkpoint  # noqa: PLC0415
    from thermostats.measurement.lookup import lookup  # noqa: PLC0415
    from thermostats.measurement.spectra import read_config, summarise_embeddings  # noqa: PLC0415

    config = read_config(folder)
    return lambda: list(
        summarise_embeddings(lookup(config), config, open_checkpoint(folder)).values()
    )


def plain_read(folder: Path) -> Work:
    """The disk's own speed: the bytes of both embeddings, which stand first in the file, read one
    after the other."""
    from thermostats.measurement.checkpoint import open_checkpoint  # noqa: PLC0415

    needed = sum(
        math.prod(t.shape) * 2
        for name, t in open_checkpoint(folder).items()
        if "layers" not in name
    )
    buffer = memoryview(bytearray(1 << 23))

    def run() -> int:
        left = needed
        with (folder / "model.safetensors").open("rb", buffering=0) as stream:
            while left > 0:
                left -= stream.readinto(buffer)
        return needed

    return run


def _loaded(folder: Path, attention: str) -> tuple[Any, list[Any]]:
    from thermostats.measurement.batching import TokenisedPrompt  # noqa: PLC0415
    from thermostats.measurement.hub import fetch_model_folder  # noqa: PLC0415
    from thermostats.measurement.loading import load  # noqa: PLC0415

    prompts = [TokenisedPrompt(f"{i:02d}", tuple(ids)) for i, ids in enumerate(prompts_of(folder))]
    return load(
        fetch_model_folder(str(folder)), attention=attention, tokenizer=False
    ).decoder, prompts


def _matrices(folder: Path) -> list[Any]:
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415

    return list(torch.from_numpy(np.load(folder / "matrices.npy")))
