# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Every day
#
# What the package does for who lives in pandas and a notebook, tried in one go. Measuring needs
# `pip install 'thermostats[measure]'`; without torch its cells are skipped.

# %%
from pathlib import Path

import pandas as pd

import thermostats
from thermostats.errors import UsageError
from thermostats.tables.folders import list_shipped_models

# %% [markdown]
# ## Tables
#
# A string is one item. `features()` has one row a model and source, and is filtered in words.

# %%
layers = thermostats.load("layers", models=True)
print(
    [
        column
        for column in ("model_id", "heritage", "family", "n_layers", "n_heads", "d_head")
        if column in layers
    ]
)
pythia = thermostats.features(lab="EleutherAI", family="pythia")
print(*pythia["heritage"].unique(), pythia["model_id"].nunique())
print(len(thermostats.features()) < len(thermostats.features(every=True)))

# %%
[exported] = thermostats.export("layers", "out")
print(exported.path, exported.rows == len(layers))

# %% [markdown]
# ## Measurements from elsewhere

# %%
gains = pd.DataFrame(
    {"layer": [11, 12], "prompt_id": "a", "position": "last", "gain_block": [1.31, 1.12]}
)
gains = gains.assign(model_id="EleutherAI/pythia-160m", source="my own hooks")
thermostats.join(gains, data="mine", table="layers")
print(thermostats.load("runs", "mine")["source"].eq("my own hooks").sum())

# %% [markdown]
# ## Findings and reports

# %%
result = thermostats.report("C17", out="my-report")
found = thermostats.findings("C17", out="my-report")
print(result.ok, *found["claim"].unique())
found[["finding", "verdict", "reason", "estimate"]].head(3)

# %% [markdown]
# ## Fits
#
# The seed has a default. At a prompt a fit is ten lines at most; in a notebook it is a table, and so is its gate.

# %%
rows = thermostats.gain_rows("penultimate_gain")
fit = thermostats.fit_heritage(rows, estimand="penultimate_gain")
print(len(repr(fit).splitlines()) <= 10, fit.seed, fit.level)
fit

# %%
gate = fit.check()
print(gate.passes, fit.check().table().equals(gate.table()))
gate

# %%
for kind in ("blocks", "intervals", "prior", "replicated", "labs"):
    axes = fit.plot(kind=kind)
    axes.figure.draw_without_rendering()
    drawn, (width, height) = axes.figure.get_tightbbox(), axes.figure.get_size_inches()
    print(kind, min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) > -0.01)

# %%
copy = thermostats.load_fit(fit.save("fit.nc"))
print(copy.summary().equals(fit.summary()), copy.check().passes)

# %%
features = thermostats.model_rows("pooled", "penultimate_gain")
expanding = features.assign(expands=features["penultimate_gain"] > 1)
line = thermostats.fit_line(features, "penultimate_gain", ["n_layers"], scale=0.5)
share = thermostats.fit_share(expanding, "expands")
crowding = thermostats.studies.delia2026.fit_crowding(features)
print(*[f"{each.law.name}: {each.status}" for each in (line, share, crowding)], sep="\n")

# %% [markdown]
# What a session chooses once holds for the fits that follow, in all their tables.

# %%
thermostats.options.level = 0.5
narrow = thermostats.fit_line(features, "penultimate_gain", ["n_layers"], scale=0.5).summary()
thermostats.options.reset()
wide = line.summary()
print(bool((narrow.eval("upper - lower") < wide.eval("upper - lower")).all()))

# %% [markdown]
# ## What cannot be done names what can

# %%
wrong = {
    "table": lambda: thermostats.load("layer"),
    "lab": lambda: thermostats.features(lab="Eleuther"),
    "claim": lambda: thermostats.report("C99", out="nothing"),
    "figure": lambda: fit.plot(kind="interval"),
    "level": lambda: setattr(thermostats.options, "level", 95),
    "rows": lambda: thermostats.join(gains.drop(columns="layer"), data="nothing", table="layers"),
}
for name, call in wrong.items():
    try:
        call()
    except UsageError as error:
        print(f"{name}: {str(error).replace(str(Path.cwd()), '.')[:100]}")
print(Path("nothing").exists())

# %% [markdown]
# ## Measuring
#
# A folder, a hub id, or a model in memory with its tokenizer: compiled, or spread over devices.

# %% tags=["torch"]
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = next(folder for folder in list_shipped_models() if folder.name == "r07-5")
from_disk = thermostats.measure(
    str(folder), what="gains", data="mine", prompts=["one day", "two cats sat"]
)
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
spread = AutoModelForCausalLM.from_pretrained(folder, device_map="auto")
for given in (model, torch.compile(model), spread):
    own = thermostats.measure(
        given, tokenizer, prompts=["one day", "two cats sat"], what="gains", layers=[1, 2]
    )
    same = from_disk[from_disk["layer"] <= 2]
    print(*own["layer"].unique(), own["gain_block"].tolist() == same["gain_block"].tolist())

# %% tags=["torch"]
for asked in ({"layers": [99]}, {"revision": "v2"}, {"prompts": []}):
    try:
        thermostats.measure(model, tokenizer, data="nothing", **asked)
    except UsageError as error:
        print(f"{next(iter(asked))}: {str(error)[:90]}")
print(Path("nothing").exists())
