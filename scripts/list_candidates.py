"""Public models that could be measured next: `python scripts/list_candidates.py` writes
`data/candidates.csv`.

Shapes come from tables in `scripts/candidates/`: `litgpt.csv`, which `read_litgpt.py` made of a
released package, and `stated.csv`, declared from the defaults of transformers, papers and public
repositories, with the source of every row. `classes.csv` says which class of transformers has a
shape of litgpt, `alike.csv` which model has that of another, `families.csv` whose a model is,
`descents.csv` what it comes from (a model that it does not name was trained from random weights),
`model_table.csv` whether it is gated, as a public table of models of the hub has it
(github.com/mivanit/transformerlens-model-table, docs/model_table.csv at 0414146), and
`licences.csv` its licence where a source was read that states it. All else follows: transformers
builds every model without memory, and this package reads its shape and counts its weights, as after
a download. No model is downloaded.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import transformers
from transformers import PretrainedConfig

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.architectures import STACKS
from thermostats.measurement.checkpoint import read_geometry
from thermostats.measurement.class_facts import collect_facts
from thermostats.measurement.empty_models import build_empty_model
from thermostats.measurement.lookup import lookup
from thermostats.measurement.model_class import Architecture
from thermostats.measurement.spectra import read_config
from thermostats.tables import store
from thermostats.tables.folders import write_atomically
from thermostats.tables.schemas import list_dtypes

DECLARED = Path(__file__).parent / "candidates"
PLACE = Path(__file__).resolve().parents[1] / "data" / "candidates.csv"
TRANSFORMERS = "5.24.0"
"""Version whose defaults are meant; another one's may be others."""
LITGPT = "litgpt 0.5.13, litgpt/config.py (Apache-2.0)"
RENAMED = {"meta-llama/Meta-Llama-3.1-": "meta-llama/Llama-3.1-"}
"""Beginnings of names that the hub has changed since, as the table `models` has them."""
LEFT_OUT = {
    "garage-bAInd/Platypus2-70B": "litgpt gives it 64 key/value heads; Llama-2-70b, from which it "
    "was tuned, has 8"
}
TOLERANCE = 0.1
"""Largest gap between the weights counted and those stated, relative: names round, and some leave
heads out."""
BYTES = 2
"""Of a weight in bfloat16."""
COMMON = {
    "n_layers": "num_hidden_layers",
    "d_model": "hidden_size",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "d_head": "head_dim",
    "d_ff": "intermediate_size",
    "vocab_size": "vocab_size",
}
"""Columns of a shape by the names that most classes of transformers have for them."""
ONE_KEY_EACH = {"n_kv_heads": "", "d_head": ""}
KEYS: dict[str, dict[str, str]] = {
    "gpt_neox": ONE_KEY_EACH,
    "olmo": {"d_head": ""},
    "olmo2": {"d_head": ""},
    "phi": {"d_head": ""},
    "phi3": {"d_head": ""},
    "qwen2": {"d_head": ""},
    "stablelm": {"d_head": ""},
    "falcon": {"n_kv_heads": "num_kv_heads", "d_head": "", "d_ff": "ffn_hidden_size"},
    "mixtral": {"n_experts": "num_local_experts"},
    "qwen3_moe": {"n_experts": "num_experts", "d_expert": "moe_intermediate_size"},
}
"""Where a class has other names; empty: none of its own, the value follows from others."""
VARIANTS = {"decoder": "base", "encoder": "", "vision": ""}
"""Of models that come from no other, by modality."""
NESTED = ("gemma3",)
"""Classes whose configuration nests that of the text's stack."""


def read_declared(name: str) -> pd.DataFrame:
    """A declared table, every cell a text."""
    return pd.read_csv(DECLARED / f"{name}.csv", dtype=str, keep_default_na=False)


def longest_beginning(name: str, beginnings: pd.Series) -> int | None:
    """Index of the longest of several beginnings that a name has; None where it has none."""
    fitting = beginnings[[name.startswith(each) for each in beginnings]]
    return None if fitting.empty else fitting.index[fitting.str.len().argmax()]


def current_name(name: str) -> str:
    """The name that the hub has now."""
    for old, new in RENAMED.items():
        name = name.replace(old, new)
    return name


def build_configuration(shape: Mapping[str, str], class_row: Mapping[str, str]) -> dict[str, Any]:
    """Configuration values of transformers for a shape of litgpt, and the class's own."""
    keys = COMMON | KEYS.get(class_row["architecture"], {})
    stated = {key: int(shape[column]) for column, key in keys.items() if key and shape[column]}
    stated["tie_word_embeddings"] = class_row["tied"] == "True"
    if class_row["architecture"] in NESTED:
        stated = {"text_config": stated, "tie_word_embeddings": stated["tie_word_embeddings"]}
    return stated | json.loads(class_row["configuration"])


def read_shapes() -> pd.DataFrame:
    """One row per model: model_id, architecture, configuration (values), stated_millions,
    source."""
    classes = read_declared("classes")
    rows = []
    for shape in read_declared("litgpt").to_dict("records"):
        name = current_name(shape["model_id"])
        if name in LEFT_OUT:
            continue
        index = longest_beginning(name, classes["begins"])
        if index is None:
            raise DataError("classes.csv has no class for a model of litgpt", where=name)
        class_row = classes.loc[index].to_dict()
        source = f"{LITGPT}; class and tied embeddings: {class_row['source']}"
        configuration = build_configuration(shape, class_row)
        rows.append(
            {
                "model_id": name,
                "configuration": configuration,
                "stated_millions": "",
                "source": source,
            }
        )
        rows[-1]["architecture"] = class_row["architecture"]
    for stated in read_declared("stated").to_dict("records"):
        rows.append({**stated, "configuration": json.loads(stated["configuration"])})
    shapes = {row["model_id"]: row for row in rows}
    for alike in read_declared("alike").to_dict("records"):
        like = shapes[alike["shape_of"]]
        rows.append(
            {
                **like,
                "model_id": alike["model_id"],
                "source": f"{alike['source']}; {like['source']}",
            }
        )
    table = pd.DataFrame(rows)
    if (twice := table["model_id"].duplicated()).any():
        raise DataError(
            "a model is declared twice", where=DECLARED, got=table.loc[twice, "model_id"].iloc[0]
        )
    return table


def count_repository(config: PretrainedConfig) -> int | None:
    """Weights of all stacks of a model that has several, tied ones once; None of a model of one
    stack."""
    if not (config.is_encoder_decoder or hasattr(config, "vision_config")):
        return None
    loader = (
        transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModel
    )
    with torch.device("meta"):
        model = loader.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def name_modality(entry: Architecture) -> str:
    """What a stack is, as the table `models` names it."""
    if entry.reads == "image":
        return "vision"
    return "decoder" if entry.has_head or entry.headless else "encoder"


def describe_model(architecture: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Shape, weights and download of a model that its configuration describes; nothing takes
    memory."""
    config = transformers.AutoConfig.for_model(architecture, **configuration)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config.save_pretrained(folder)
        stated = read_config(folder, "image" if architecture in STACKS else "text")
        entry = lookup(stated)
        model = build_empty_model(folder, entry.loader, **entry.set_values)
    stack = model.get_submodule(entry.part) if entry.part else model
    shape = read_geometry(entry, stated)
    ties = getattr(config, "tie_word_embeddings", True)
    facts = collect_facts(stack, entry, stated, tied=bool(ties) or not entry.has_head)
    weights = count_repository(config) or facts["n_params"]
    if ties and configuration.get("tie_word_embeddings") is False:
        weights += (
            config.vocab_size * config.hidden_size
        )  # T5's class ties what the files hold apart
    return {
        "modality": name_modality(entry),
        "architecture": entry.model_type,
        "n_heads": shape.n_heads,
        "n_kv_heads": shape.n_kv_heads,
        "d_head": shape.d_head,
        "d_model": shape.d_model,
        **facts,
        "comparable": entry.additive,
        "stages": len(entry.depths) or 1,
        "download_gb": BYTES * weights / 1e9,
    }


def check_stated(row: Mapping[str, Any], stated: str) -> None:
    """DataError where the weights counted are not about as many as the source states, in
    millions."""
    if not stated:
        return
    counted = row["download_gb"] * 1e3 / BYTES
    if abs(counted / float(stated) - 1) > TOLERANCE:
        got = f"{counted:.0f} million weights"
        allowed = f"{stated} million, by {row['source']}"
        raise DataError(
            "a shape does not give the weights stated",
            where=row["model_id"],
            got=got,
            allowed=allowed,
        )


def name_origin(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with lab, family, year, and what each model comes from; DataError for a model of no
    family."""
    families = read_declared("families")
    found = [longest_beginning(name, families["begins"]) for name in rows["model_id"]]
    if None in found:
        raise DataError(
            "families.csv has no family for a model", where=rows["model_id"][found.index(None)]
        )
    labels = families.loc[found, ["heritage", "family", "year"]].reset_index(drop=True)
    descents = read_declared("descents").set_index("model_id")
    if len(unknown := descents.index.difference(rows["model_id"])):
        raise DataError("descents.csv names a model that is no candidate", where=unknown[0])
    descent_rows = descents.reindex(rows["model_id"]).reset_index(drop=True)
    unsaid = {
        "kind": "scratch",
        "variant": rows["modality"].map(VARIANTS),
        "parent": "",
        "seed_of": "",
    }
    return pd.concat([rows, labels.astype({"year": "Int64"}), descent_rows.fillna(unsaid)], axis=1)


def name_terms(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with gating and licence, empty where no source that was read states them."""
    gated = read_declared("model_table").set_index("model_id")["gated"].replace("", None)
    licences = read_declared("licences")
    found = [longest_beginning(name, licences["begins"]) for name in rows["model_id"]]
    stated = ["" if index is None else licences["model_licence"][index] for index in found]
    return rows.assign(
        gated=rows["model_id"].map(gated.map({"True": True, "False": False})), model_licence=stated
    )


def list_candidates() -> pd.DataFrame:
    """The whole table, by name of the model; DataError where transformers is of another version."""
    if (version := transformers.__version__) != TRANSFORMERS:
        step = f"pip install transformers=={TRANSFORMERS}"
        raise DataError(
            "another version of transformers", got=version, allowed=TRANSFORMERS, next_step=step
        )
    rows = []
    for shape in read_shapes().to_dict("records"):
        facts = describe_model(shape["architecture"], shape["configuration"])
        row = {"model_id": shape["model_id"], **facts, "source": shape["source"]}
        check_stated(row, shape["stated_millions"])
        rows.append(row)
    named = name_terms(name_origin(pd.DataFrame(rows)))
    return store.validate(named[list(list_dtypes("candidates"))], "candidates")


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.parse_args()
    transformers.logging.set_verbosity_error()
    try:
        table = list_candidates()
        write_atomically(PLACE, store.encode_csv(table, "candidates"))
    except ThermostatsError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{PLACE}: {len(table)} models of {table['heritage'].nunique()} labs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
