"""Two folders to measure: a trained model of the checkout, and the same with larger writes of its
last two blocks."""

import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from thermostats.tables.folders import list_shipped_models

[source] = [path for path in list_shipped_models() if path.name == "r07-5"]
for name in ("base", "tuned"):
    shutil.copytree(source, name)
path = Path("tuned/model.safetensors")
weights = load_file(path)
for name in list(weights):
    if ".layers.7.mlp.dense_4h_to_h" in name or ".layers.8.mlp.dense_4h_to_h" in name:
        weights[name] = 1.5 * weights[name]
save_file(weights, path, metadata={"format": "pt"})
