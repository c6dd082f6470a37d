# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Heritage, with checks
#
# Do differences between labs explain more of the gain than geometry and scale do? First comes
# whether the fit may be believed, then what it says, then what else it could have said.

# %%
import matplotlib.pyplot as plt

from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.law import ORDER
from thermostats.modelling.model_gains import gain_rows

rows = gain_rows("penultimate_gain")
print(rows.groupby("heritage")["model_id"].nunique().to_string())

# %% [markdown]
# ## The model

# %%
fit = fit_heritage(rows, estimand="penultimate_gain", seed=1)
print(*fit.law.equations, sep="\n")

# %% [markdown]
# ## May it be believed?

# %%
gate = fit.check()
for check in gate.checks:
    print(f"{check.name:22} {check.outcome:10} {check.reason}")

# %% [markdown]
# The posterior predictive check on what the claim is about: new models of the same labs, against those observed.

# %%
predictive = next(check for check in gate.checks if check.name == "posterior predictive")
predictive.table.round(2)

# %% [markdown]
# ## What it says

# %%
fit.table("orders").round(2)

# %%
figure, axes = plt.subplots(figsize=(6, 2.4))
_ = fit.plot(axes=axes)

# %% [markdown]
# The rule asks for P ≥ 0.95 or ≤ 0.05. Anything else is inconclusive, and so is any fit that fails its checks.

# %%
print(fit.status, round(fit.probability(ORDER), 2))

# %% [markdown]
# ## What else it could have said

# %%
variants = fit.sensitivity()
variants[variants["statement"] == ORDER].drop(columns="statement").round(2)

# %% [markdown]
# The same statement without each lab and each model: where it moves most.

# %%
influence = next(check for check in gate.checks if check.name == "influence").table
moved = influence[influence["statement"] == ORDER].sort_values("probability")
moved.iloc[[0, -1]].round(2)

# %% [markdown]
# No prior makes the order likely; leaving out a single lab moves it more than any of them. More labs, not more models
# of the same ones, would settle it: `thermostats power` says how many.
