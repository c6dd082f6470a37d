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
# A claim, a rule written down before the tables are read, a function from rows to numbers: what an analysis holds.
# Here it is tried in a notebook first.

# %%
from pathlib import Path

import matplotlib.pyplot as plt

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.finding import format_finding
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above
from thermostats.modelling.classical.counts import estimate_proportion
from thermostats.plots.general import draw_forest

# %% [markdown]
# ## The words
#
# A Markdown file: what is said, and the sentences of the page, with places for the numbers.

# %%
WORDS = """# U91 The stream grows

Source: a guess of ours, written down before the tables were read

## Said
In more than 80% of models the mean gain a block is above 1.

## Estimand
share of models whose geometric mean gain over blocks 2 to L − 1 is above 1

## Identification
Not causal: a description of models that exist. The share is identified by counting them, if they are independent and
stand for the rest; if models of one lab are alike, the interval is too narrow.

## share
### estimand
share of models whose geometric mean gain over blocks 2 to L − 1 is above 1
### plain
{{ verdict.sentence }}: the stream grows in {{ above }} of {{ n_models }} models, a share of
{{ estimate.value | percent }} (95% interval {{ estimate.lower | percent }} to {{ estimate.upper | percent }}).
"""
_ = Path("u91_the_stream_grows.md").write_text(WORDS, encoding="utf-8")
CLAIM = Claim.read("u91_the_stream_grows.md")

# %% [markdown]
# ## The rule
#
# It decides, and it states itself.

# %%
RULE = Above("share", 0.8)
print(RULE.words())

# %% [markdown]
# ## The numbers
#
# The table `features` has one row per model, source and prompt set; of each model the one with most prompts is taken.
# `Evidence("mine")` has the rows of your folder `mine` too.

# %%
GAIN = "geometric_gain_to_penultimate"


@CLAIM.finding("share", primary=RULE, evidence=POOLED)
def share(evidence):
    """Share of models that grow."""
    rows = evidence.table("features")
    rows = rows[rows["comparable"]].dropna(subset=[GAIN])
    rows = rows.sort_values("n_prompts", kind="stable").drop_duplicates("model_id", keep="last")
    above = int((rows[GAIN] > 1).sum())
    found = estimate_proportion(above, len(rows), against=0.8)
    interval = f"95% {found.interval}"
    estimate = Estimate(found.estimate, found.lower, found.upper, interval, found.p_value)
    return Result.build(
        rows[["model_id", "heritage", GAIN]], {"share": estimate}, words={"above": above}
    )


[finding] = CLAIM.judge(Evidence())
print(format_finding(finding))

# %%
figure, axes = plt.subplots(figsize=(6, 4.5))
shown = finding.table.assign(lower=finding.table[GAIN], upper=finding.table[GAIN]).sort_values(GAIN)
draw_forest(shown, axes, label="model_id", estimate=GAIN, heritage="heritage", null=1.0)
_ = axes.set_xlabel("mean gain a block")

# %% [markdown]
# ## What it does not say
#
# Models of one family are not independent, so that the interval is too narrow: the how-to "Add a claim" puts a fitted
# share next to the test, in which models of one lab are alike, and turns this notebook into files that the report runs.
