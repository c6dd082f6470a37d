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
# Measure a model, look at its gain block by block, and put it beside the models of the study. Needs
# `pip install 'thermostats[measure]'`; no network.
#
# `MODEL` is a folder in Hugging Face format or a hub id. Where there is none, a small model with random weights is
# made.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt

import thermostats

MODEL = os.environ.get("MODEL", "my-model")

# %%
if MODEL == "my-model" and not Path(MODEL).exists():
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    words = Tokenizer(models.BPE(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    prompts = thermostats.load("prompts").query("prompt_set == 'core'")
    words.train_from_iterator(prompts["text"], trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"]))
    config = GPTNeoXConfig(
        vocab_size=500, hidden_size=64, intermediate_size=256, num_hidden_layers=6, num_attention_heads=4
    )
    GPTNeoXForCausalLM(config).save_pretrained(MODEL)
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(MODEL)

# %% [markdown]
# ## Measure
#
# The rows go to the folder `mine`; the tables that ship with the package are read beside it. Run this cell again and
# nothing is measured twice.

# %%
layers = thermostats.measure(MODEL, data="mine", heritage="My lab", what=("gains",))
print(f"{len(layers)} rows: {layers['layer'].nunique()} blocks, {layers['prompt_id'].nunique()} prompts")

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
axes.plot(wide.index, wide.median(axis=1), color="#0072B2", linewidth=2, label="median over prompts")
axes.axhline(1, color="0.3", linewidth=0.8)
axes.set_xlabel("block")
axes.set_ylabel("gain at the last token")
_ = axes.legend(frameon=False)

# %% [markdown]
# ## Beside the study's models
#
# One row per model and source, with every gain by name. A random model is no model of anything: this shows where your
# own would stand.

# %%
features = thermostats.features("mine")
mine = features[features["model_id"] == Path(MODEL).name].dropna(subset="penultimate_gain").iloc[0]
published = features[features["source"].str.endswith((".json", ".csv"))]  # the study's own files
for gain in ("penultimate_gain", "geometric_gain_to_penultimate"):
    rest = published[gain].dropna()
    print(f"{gain}: {mine[gain]:.2f}; published {rest.min():.2f} to {rest.max():.2f}, {len(rest)} rows")

# %% [markdown]
# Next: the notebook on heritage, which asks what differences between labs are worth.
