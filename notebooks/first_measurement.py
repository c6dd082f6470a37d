# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A first measurement
#
# Measure a model, look at its gain block by block, and compare it with the models of the study. Needs
# `pip install 'thermostats[measure]'`; no network.
#
# `MODEL` is a folder in Hugging Face format or a hub id. Where none is named, it is a small trained model of a
# checkout.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt

import thermostats
from thermostats.tables.folders import list_shipped_models

MODEL = os.environ.get("MODEL") or next(
    str(folder) for folder in list_shipped_models() if folder.name == "r07-5"
)

# %% [markdown]
# ## Measure
#
# The rows go to the folder `mine`; the tables that ship with the package are read too. Run this cell again and
# nothing is measured twice.

# %%
layers = thermostats.measure(MODEL, data="mine", heritage="My lab", what=("gains",))
print(
    f"{len(layers)} rows: {layers['layer'].nunique()} blocks, {layers['prompt_id'].nunique()} prompts"
)

# %% [markdown]
# ## Block by block
#
# Every prompt is a line. Block 1 lifts the embedding into the stream and is left out; above 1 a block expands, below 1
# it dampens.

# %%
last = layers[(layers["position"] == "last") & (layers["layer"] > 1)]
wide = last.pivot(index="layer", columns="prompt_id", values="gain_block")
figure, axes = plt.subplots(figsize=(6, 3))
axes.plot(wide.index, wide, color="0.8", linewidth=0.8)
axes.plot(
    wide.index, wide.median(axis=1), color="#0072B2", linewidth=2, label="median over prompts"
)
axes.axhline(1, color="0.3", linewidth=0.8)
axes.set_xlabel("block")
axes.set_ylabel("gain at the last token")
_ = axes.legend(frameon=False)

# %% [markdown]
# ## Beside the study's models
#
# One row per model and source, with every gain by name. A model of half a million weights is no match for them: this
# shows where your own would stand.

# %%
features = thermostats.features("mine")
mine = features[features["model_id"] == Path(MODEL).name].dropna(subset="penultimate_gain").iloc[0]
published = features[features["source"].str.endswith((".json", ".csv"))]  # the study's own files
for gain in ("penultimate_gain", "geometric_gain_to_penultimate"):
    rest = published[gain].dropna()
    print(
        f"{gain}: {mine[gain]:.2f}; published {rest.min():.2f} to {rest.max():.2f}, {len(rest)} rows"
    )

# %% [markdown]
# Next: the notebook on heritage, which asks what differences between labs are worth.
