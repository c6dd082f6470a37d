"""Shapes of the decoders that litgpt knows: `python scripts/candidates/read_litgpt.py WHEEL` writes
`litgpt.csv`.

WHEEL comes with `pip download litgpt==0.5.13 --no-deps`; litgpt is under the Apache License 2.0.
Only shapes are taken, no code. Another file than the declared one is refused, so that the same rows
come out.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from thermostats.errors import DataError, ThermostatsError
from thermostats.tables.folders import write_atomically

PLACE = Path(__file__).parent / "litgpt.csv"
SHA256 = "da044b76c52cd44fc0564f6177ed6cf186dde24f711ce8e71e1fd9e9da5f02b2"
"""Of litgpt-0.5.13-py3-none-any.whl, as the package index has it."""
CONFIG = "litgpt/config.py"
SHAPE = {
    "n_layers": "n_layer",
    "d_model": "n_embd",
    "n_heads": "n_head",
    "n_kv_heads": "n_query_groups",
    "d_head": "head_size",
    "d_ff": "intermediate_size",
    "vocab_size": "padded_vocab_size",
    "n_experts": "n_expert",
    "d_expert": "moe_intermediate_size",
}
"""Columns by the names that litgpt has for them."""


def read_configurations(wheel: Path) -> ModuleType:
    """The module of a wheel that lists configurations; DataError where the wheel is not the
    declared one."""
    content = wheel.read_bytes()
    got = hashlib.sha256(content).hexdigest()
    if got != SHA256:
        step = "pip download litgpt==0.5.13 --no-deps"
        raise DataError(
            "another file than the declared one",
            where=wheel,
            got=got,
            allowed=SHA256,
            next_step=step,
        )
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        loader = SourceFileLoader("litgpt_config", archive.extract(CONFIG, folder))
        module = ModuleType(loader.name)
        sys.modules[loader.name] = module  # its dataclass looks there
        loader.exec_module(module)
    return module


def read_shapes(module: Any) -> pd.DataFrame:
    """One row per model, by its name on the hub."""
    rows = []
    for configuration in module.configs:
        place = configuration["hf_config"]
        complete = module.Config(**configuration)
        shape = {column: getattr(complete, name) for column, name in SHAPE.items()}
        rows.append({"model_id": f"{place['org']}/{place['name']}", **shape})
    table = pd.DataFrame(rows).drop_duplicates().sort_values("model_id", ignore_index=True)
    return table.astype(dict.fromkeys(SHAPE, "Int64"))


def main() -> int:
    """Write the shapes beside this script."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("wheel", type=Path)
    arguments = parser.parse_args()
    try:
        shapes = read_shapes(read_configurations(arguments.wheel))
        write_atomically(PLACE, shapes.to_csv(index=False, lineterminator="\n").encode())
    except (ThermostatsError, OSError) as error:
        print(error, file=sys.stderr)
        return getattr(error, "exit_code", 1)
    print(f"{PLACE}: {len(shapes)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
