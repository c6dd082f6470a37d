# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A fit in ArviZ
#
# `to_arviz()` gives what ArviZ's own documentation begins with: InferenceData, or a DataTree since ArviZ 1.0. All that
# follows runs on both.

# %%
import warnings

import arviz as az
import matplotlib.pyplot as plt
import numpy as np

import thermostats

plt.rcParams["figure.dpi"] = 50
warnings.filterwarnings("ignore", category=UserWarning)  # of large Pareto k: looked at below

models = thermostats.model_rows("pooled", "penultimate_gain")
models["log_gain"] = np.log(models["penultimate_gain"])
models["log_depth"] = np.log(models["n_layers"].astype(float))

depth = thermostats.fit_line(
    models, "log_gain", ["log_depth"], scale=0.5
)  # levels of labs, and a slope
labs = thermostats.fit_line(models, "log_gain", scale=0.5)  # levels of labs alone
data = depth.to_arviz()
for group in (
    "posterior",
    "prior",
    "prior_predictive",
    "posterior_predictive",
    "log_likelihood",
    "observed_data",
):
    print(f"{group}: {', '.join(data[group].data_vars)}")

# %% [markdown]
# ## Names
#
# Every outcome has the name of what it is of: a model here, a prompt or a pair in other fits.

# %%
outcome = data["observed_data"]["outcome"]
print(outcome.dims, len(outcome))
print(float(data["observed_data"]["y"].sel(outcome="EleutherAI/pythia-12b").round(3)))

# %%
az.summary(data, var_names=["mean", "slope on log_depth", "group_sd"])

# %%
_ = az.plot_forest(data, var_names=["mean", "slope on log_depth", "group_sd"])

# %% [markdown]
# ## Replicated data
#
# `plot_ppc` is called `plot_ppc_dist` since ArviZ 1.0.

# %%
_ = az.plot_ppc(data) if hasattr(az, "plot_ppc") else az.plot_ppc_dist(data)

# %% [markdown]
# ## Leave one out
#
# Of every model one term: which are hard to predict from the others?

# %%
loo = az.loo(data, pointwise=True)
hard = loo.pareto_k.to_series().nlargest(3)
print(hard.index.isin(models["model_id"]).all())
hard

# %%
compared = az.compare({"depth and labs": data, "labs": labs.to_arviz()})
print(*compared.index, sep=", then ")
compared

# %% [markdown]
# ## The heritage model
#
# Its likelihood is of the models' means: `loo` leaves out models, not prompts.

# %%
rows = thermostats.gain_rows("penultimate_gain")
heritage = thermostats.fit_heritage(rows, estimand="penultimate_gain").to_arviz()
shares = [name for name in heritage["posterior"].data_vars if name.startswith("share_")]
print(dict(heritage["log_likelihood"]["y"].sizes), *shares)

# %%
_ = az.plot_forest(heritage, var_names=shares, combined=True)

# %%
az.summary(heritage, var_names=shares)

# %% [markdown]
# A formula of your own, in the same ArviZ: the how-to "Fit a formula with Bambi".
