"""Start states for the fault tests: a store, rows to join, a tiny model; and the bytes of a folder."""

from __future__ import annotations

from pathlib import Path

from conftest import SHA, layer, model, run, table

from thermostats.tables import store

MACHINES_OWN = {".lock", ".seconds.json", "cache"}
"""Files and folders that say something about this machine or this moment, not about the data."""


def files_of(folder: Path, *, leftovers: bool = False) -> dict[str, bytes]:
    """Every file under a folder with its bytes; with `leftovers` also what a writer stages."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and MACHINES_OWN.isdisjoint(path.relative_to(folder).parts)
        and (leftovers or path.parent.name != ".staging")
    }


def make_store(folder: Path) -> None:
    """A store of its own with one model, two prompts and one run of three layers."""
    measured = run()
    prompts = [{"prompt_set": "two", "prompt_id": name, "text_sha256": SHA, "category": "Plain"} for name in "ab"]
    rows = [layer(measured, number, gain, name) for number, gain in ((1, 9.0), (2, 1.5), (3, 0.5)) for name in "ab"]
    save(folder, "models.csv", "models", model())
    save(folder, "prompts.csv", "prompts", *prompts)
    save(folder, f"measured/runs/{measured['run_id']}.csv", "runs", measured)
    save(folder, f"measured/layers/{measured['run_id']}.csv", "layers", *rows)


def make_news(folder: Path, sources: int = 3) -> list[Path]:
    """CSV files to join: new models, new runs with their layers, and rows that are there already with other values."""
    measured = [run("lab/new", source=f"source {number}") for number in range(sources)]
    replaced = [layer(run(), 2, 1.75, name) for name in "ab"]
    layers = [layer(row, number, 1.0 + number / 8) for row in measured for number in (1, 2, 3)]
    save(folder, "models.csv", "models", model("lab/new"))
    save(folder, "runs.csv", "runs", *measured)
    save(folder, "layers.csv", "layers", *layers, *replaced)
    return [folder / f"{name}.csv" for name in ("models", "runs", "layers")]


def save(folder: Path, file: str, name: str, *rows: dict[str, object]) -> None:
    """Rows as a file of table `name`."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(store.to_csv(table(name, *rows), name))


def make_model(folder: Path) -> None:
    """A GPT-2 of three layers with a word tokenizer, as `save_pretrained` writes it."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(1)
    config = transformers.GPT2Config(n_layer=3, n_head=2, n_embd=16, vocab_size=8, n_positions=12)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["?", *"abcdefg"])}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(folder)
