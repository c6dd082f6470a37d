"""What gains cost over the model's own forward pass, and what a run's proof costs:
`benchmarks/proof.py`.

One model a family of width 768 and 12 blocks, random weights, on one core: 25 prompts of 8 to 32
tokens, or 25 images of 12 × 12 patches. Medians of `--repeats` runs, taken in turn, in seconds of
the processor. A run is loading the weights from disk, the gains, and the proof.
`proof_of_default_run`: share of the proofs in all that `measure` does unless told otherwise, which
is weights, gains, outputs and attention.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import pandas as pd
import torch
import transformers

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "measurement"))

import tiny  # noqa: E402
from test_loading import write_tokenizer  # noqa: E402

from thermostats.measurement import proof  # noqa: E402
from thermostats.measurement.batching import ImagePrompt  # noqa: E402
from thermostats.measurement.forward import call, make_batches, prepare_model  # noqa: E402
from thermostats.measurement.gains import measure_gains  # noqa: E402
from thermostats.measurement.proof import check_proof, repeat_pass  # noqa: E402
from thermostats.measurement.session import measure_one  # noqa: E402
from thermostats.measurement.spec import RunSpec  # noqa: E402
from thermostats.tables.folders import start_folder  # noqa: E402

FAMILIES = (
    "gpt2",
    "llama",
    "gpt_neox",
    "bert",
    "albert",
    "deberta-v2",
    "modernbert",
    "vit",
    "clip_vision_model",
)
SIZE = {
    **{
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
    },
    **{"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 5000, "embedding_size": 128},
    **{
        "image_size": 168,
        "patch_size": 14,
        "max_position_embeddings": 64,
        "n_positions": 64,
        "pad_token_id": 0,
    },
}


def inputs(decoder: Any) -> list[Any]:
    """25 prompts, or as many images."""
    if decoder.entry.reads == "image":
        return [ImagePrompt(f"i{i}", torch.randn(3, 168, 168)) for i in range(25)]
    return tiny.inputs(decoder, *(8 + i for i in range(25)))


def timed(work: Any) -> float:
    """Seconds of the processor, which others on the machine do not change."""
    began = process_time()
    work()
    return process_time() - began


def of_default_run(decoder: Any, folder: Path) -> float:
    """Share of the processor's seconds of `measure` on a model's folder that its proofs took."""
    spent = []

    def watched(work: Any) -> Any:
        def run(*positional: Any, **options: Any) -> Any:
            began = process_time()
            try:
                return work(*positional, **options)
            finally:
                spent.append(process_time() - began)

        return run

    prompts = "images" if decoder.entry.reads == "image" else "core"
    if prompts == "core":
        write_tokenizer(folder)
    else:
        transformers.ViTImageProcessor(size={"height": 168, "width": 168}).save_pretrained(folder)  # type: ignore[attr-defined]
    spec = RunSpec(model=str(folder), name="own/model", heritage="Own", prompts=prompts)
    checks = check_proof, repeat_pass
    proof.check_proof, proof.repeat_pass = map(watched, checks)
    with TemporaryDirectory() as data, start_folder(f"{data}/mine") as folder_of_rows:
        outcomes = []
        seconds = timed(lambda: outcomes.append(measure_one(spec, folder_of_rows)))
    if outcomes[0].status != "measured":
        sys.exit(outcomes[0].problem.reason)
    proof.check_proof, proof.repeat_pass = checks
    return sum(spent) / seconds


def row(name: str, repeats: int, folder: Path) -> dict[str, Any]:
    """Times of one family."""
    kind = getattr(transformers, tiny.CONFIGURATIONS[name][0])
    fields = kind().to_dict()
    fits = {key: value for key, value in SIZE.items() if key in fields or key in kind.attribute_map}
    model = tiny.from_config(kind(**{**tiny.OWN.get(name, {}), **fits}))
    model.save_pretrained(folder)  # type: ignore[operator]
    decoder, load = tiny.places(model), type(model).from_pretrained  # type: ignore[attr-defined]
    prompts = inputs(decoder)
    batches = make_batches(decoder, prompts, packed=True)

    def plain() -> None:
        with prepare_model(decoder.model):
            for batch in batches:
                call(decoder.base, batch)

    rows = measure_gains(decoder, prompts).layers

    def prove() -> None:
        check_proof(decoder)
        alone = {"token_budget": 1, "packed": False}
        repeat_pass(
            decoder, prompts, lambda prompt: measure_gains(decoder, [prompt], **alone).layers, rows
        )

    work = {
        "forward": plain,
        "gains": lambda: measure_gains(decoder, prompts),
        "proof": prove,
        "load": lambda: load(folder),
    }
    seconds = [{key: timed(do) for key, do in work.items()} for _ in range(repeats)]
    took = {key: median(each[key] for each in seconds) for key in work}
    run = took["load"] + took["gains"] + took["proof"]
    return {
        "family": name,
        **took,
        "gains_over_forward": took["gains"] / took["forward"],
        "proof_of_run": took["proof"] / run,
        "proof_of_default_run": median(of_default_run(decoder, folder) for _ in range(repeats)),
    }


def main() -> None:
    """Measure every family and write the table."""
    parser = ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--families",
        nargs="*",
        default=FAMILIES,
        help="these alone; the table keeps the others' rows",
    )
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[attr-defined]
    rows = []
    for name in arguments.families:
        with TemporaryDirectory() as folder:
            rows.append(row(name, arguments.repeats, Path(folder)))
            print(rows[-1], flush=True)
    place = ROOT / "benchmarks" / "results" / "proof.csv"
    others = (
        pd.read_csv(place).set_index("family").drop(index=list(arguments.families), errors="ignore")
    )
    table = pd.concat([others, pd.DataFrame(rows).round(4).set_index("family")])
    table.reindex([name for name in FAMILIES if name in table.index]).to_csv(place)


if __name__ == "__main__":
    main()
