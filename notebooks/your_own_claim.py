# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own claim
#
# A claim, a rule written down before the tables are read, a function from tables to a finding: what a file of an
# analysis holds. Here it is tried in a notebook first.

# %%
import matplotlib.pyplot as plt

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding, text_of
from thermostats.claims.verdict import SENTENCES, if_above
from thermostats.modelling.classical.counts import proportion
from thermostats.plots.general import forest

# %% [markdown]
# ## The claim and its rule

# %%
BAR = 0.8
CLAIM = Claim(
    id="C91",
    title="The stream grows",
    said="In more than 80 % of models the mean gain a block is above 1.",
    estimand="share of models whose geometric mean gain over blocks 2 to L − 1 is above 1",
    rule=f"Supported where the whole 95 % interval of the share lies above {BAR:g}, against where it lies below.",
    source="A guess of ours, written down before the tables were read.",
)

# %% [markdown]
# ## The rows
#
# The table `features` has one row per model, source and prompt set; of each model the one with most prompts is taken.
# `Evidence("mine")` has the rows of your folder `mine` too.

# %%
tables = Evidence()
rows = tables.table("features")
rows = rows[rows["comparable"]].dropna(subset=["geometric_gain_to_penultimate"])
rows = rows.sort_values("n_prompts", kind="stable").drop_duplicates("model_id", keep="last")
above = rows["geometric_gain_to_penultimate"] > 1
print(f"{above.sum()} of {len(rows)} models of {rows['heritage'].nunique()} labs")

# %% [markdown]
# ## The test and the finding

# %%
share = proportion(int(above.sum()), len(rows), against=BAR)
verdict = if_above(share.lower, share.upper, BAR)
finding = Finding(
    claim=CLAIM.id,
    estimand=CLAIM.estimand,
    verdict=verdict,
    plain=f"{SENTENCES[verdict]}: the stream grows in {above.sum()} of {len(rows)} models, a share of "
    f"{share.estimate:.0%} (95 % interval {share.lower:.0%} to {share.upper:.0%}). The claim asks for more "
    f"than {BAR:.0%}.",
    estimate=share.estimate,
    lower=share.lower,
    upper=share.upper,
    interval=f"95 % {share.interval}",
    probability=share.p_value,
    probability_kind="p-value",
    n_models=len(rows),
    n_heritages=rows["heritage"].nunique(),
)
print(text_of(finding))

# %%
figure, axes = plt.subplots(figsize=(6, 4.5))
value = rows["geometric_gain_to_penultimate"]
shown = rows.assign(lower=value, upper=value).sort_values("geometric_gain_to_penultimate")
forest(shown, axes, label="model_id", estimate="geometric_gain_to_penultimate", heritage="heritage", null=1.0)
_ = axes.set_xlabel("mean gain a block")

# %% [markdown]
# ## What it does not say
#
# Models of one family are not independent, so that the interval is too narrow: the how-to "Add a claim" puts a fitted
# share beside the test, in which models of one lab are alike, and turns this notebook into a file that the report runs.
