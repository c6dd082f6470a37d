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

from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.modelling.heritage.rows import gain_rows

rows = gain_rows("penultimate_gain")
print(rows.groupby("heritage")["model_id"].nunique().to_string())

# %% [markdown]
# ## The model

# %%
fit = fit_heritage(rows, estimand="penultimate_gain", seed=1, method="closed form")
print(*fit.equations, sep="\n")

# %% [markdown]
# ## May it be believed?

# %%
gate = fit.check()
for check in gate.checks:
    print(f"{check.name:22} {check.outcome:10} {check.reason}")

# %% [markdown]
# The posterior predictive check on what the claim is about: new models of the same labs, beside those observed.

# %%
predictive = next(check for check in gate.checks if check.name == "posterior predictive")
predictive.table.round(2)

# %% [markdown]
# ## What it says

# %%
fit.orders().round(2)

# %%
figure, axes = plt.subplots(figsize=(6, 2.4))
_ = fit.plot(axes)

# %% [markdown]
# The rule asks for P ≥ 0.95 or ≤ 0.05. Anything else is inconclusive, and so is any fit that fails its checks.

# %%
print(fit.verdict())

# %% [markdown]
# ## What else it could have said

# %%
variants = fit.sensitivity()
shown = variants[~variants["variant"].str.contains("/")].assign(P=variants[ORDER].round(2))
shown[["variant", "how", "P", "verdict", "n_models"]]

# %% [markdown]
# The answer hangs on single labs. More labs, not more models of the same ones, would settle it: `thermostats power`
# says how many.
