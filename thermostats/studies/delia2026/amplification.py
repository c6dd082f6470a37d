"""Net amplification of the published models over their blocks, and the study's product of gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.question import Test
from thermostats.claims.result import OF_LAW, Audit, Estimate, Result
from thermostats.modelling.classical.association import estimate_one_sample
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import estimate_shares, wrap_counts
from thermostats.studies.delia2026.prompt_gains import LAST_GAIN_FILES, select_single_runs
from thermostats.studies.delia2026.published_gains import FOUR, load_gains
from thermostats.studies.delia2026.stated_facts import check_model_figures, index_models
from thermostats.tables.model_rows import read_prompt_gains

OFFSET = 1e-10
"""The study adds it to a gain before taking the logarithm; the published products have it in every
factor."""
BELOW = "models clearly below 1"
INTERVAL = "Clopper–Pearson exact interval of the share of families, 95%"
BY_MODEL = {
    "product of {}": r"/results/[^/]+/final_cumulative",
    "{}, % of gains below 1": r"/results/[^/]+/contracting_pct",
    "{}, % of gains from 1 on": r"/results/[^/]+/expanding_pct",
}


def measure_amplification(tables: Evidence, *, seed: int) -> pd.DataFrame:
    """One row per model: n_L/n_1 over prompts where measured, else n_(L-1)/n_1 of the mean gains,
    at the last token."""
    rows = select_single_runs(read_prompt_gains(tables, "total_amplification", *LAST_GAIN_FILES))
    key = ["model_id", "heritage", "family"]
    models = []
    for (model, heritage, family), r in rows.groupby(key):
        d = estimate_one_sample(r["value"], against=1, log=True, seed=seed)
        ratio = (d.ratio, d.ratio_lower, d.ratio_upper)
        models.append((model, heritage, family, "n_L/n_1", *ratio, len(r), True))
    columns = [*key, "what", "amplification", "lower", "upper", "n_prompts", "comparable"]
    measured = pd.DataFrame(models, columns=columns)
    others = load_gains(tables)
    unmeasured = ~others["model_id"].isin(measured["model_id"])
    with_total = others["total_to_penultimate"].notna()
    others = others[unmeasured & with_total]
    rest = others[[*key, "comparable"]].assign(what="n_(L-1)/n_1")
    rest["amplification"] = others["total_to_penultimate"]
    both = pd.concat([measured, rest], ignore_index=True)
    layers = index_models(tables)["n_layers"]
    depth = both["model_id"].map(layers.astype(float))
    both["over_root_of_L"] = both["amplification"] / np.sqrt(depth)
    return both.sort_values("amplification", ascending=False, ignore_index=True)


def count_amplifying(name: str, rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """The exact interval of the share of families all of whose models lie above 1; models by `name`
    and families.

    rows: one a model with heritage, family, `log` amplification and `half` its interval.
    """
    half = rows["half"].to_numpy(float)
    families = rows.groupby(["heritage", "family"]).ngroup().to_numpy()
    low = outcomes["log"] - half
    high = outcomes["log"] + half
    amplifies = []
    for code in np.unique(families):
        above = low[:, families == code] > 0
        amplifies.append(above.all(axis=1))
    by_family = np.empty((len(low), 0), dtype=bool)
    if amplifies:
        by_family = np.stack(amplifies, axis=1)
    laws = _list_laws(rows)
    gains = np.exp([outcomes["log"].T, low.T, high.T])
    models = []
    for value, lower, upper, law in zip(*gains, laws, strict=True):
        gain = wrap_counts(value)
        gain = replace(gain, lower=lower, upper=upper, law=law)
        models.append({"amplification": gain})
    found = estimate_shares(by_family)
    below = wrap_counts((high < 0).sum(axis=1))
    return {"share of families": found, BELOW: below, name: models}


def _list_laws(rows: pd.DataFrame) -> list[StudentLaw]:
    """Of every model's interval, that of its log."""
    return [StudentLaw(free, scale="log") for free in count_free(rows)]


def count_free(rows: pd.DataFrame) -> list[float]:
    """Degrees of freedom of every model's interval over its prompts; endless without prompts, of
    which there is no interval."""
    prompts = pd.Series(np.nan, rows.index)
    if "n_prompts" in rows:
        prompts = rows["n_prompts"]
    free = prompts.astype(float) - 1
    return list(free.where(free >= 1, np.inf))


def describe_amplifying(name: str, rows: pd.DataFrame, result: Result) -> Result:
    """The result with its models, its families and the least of the models."""
    logs = rows["log"]
    models = rows.assign(amplification=np.exp(logs))
    half = rows["half"]
    models["lower"] = np.exp(logs - half)
    models["upper"] = np.exp(logs + half)
    laws = pd.Series(_list_laws(rows), rows.index, dtype=object)
    models[f"amplification{OF_LAW}"] = laws
    amplifies = models.assign(amplifies=models["lower"] > 1)
    groups = amplifies.groupby(["heritage", "family"], as_index=False)
    families = groups["amplifies"].all()
    least = None if rows.empty else models.loc[models["amplification"].idxmin()]
    words = {"k": int(families["amplifies"].sum()), "families": len(families), "least": least}
    if rows.empty:
        none = {**result.quantities, "share of families": Estimate(None)}
        result = result.adding(quantities=none)
    return result.adding(rows={name: models, "families": families}, words=words)


def declare_amplifying(name: str) -> Test:
    """The test of how many families amplify, whose rule reads models by `name`."""
    describe = partial(describe_amplifying, name)
    return Test(partial(count_amplifying, name), ("log",), INTERVAL, describe=describe)


def load_published_product(tables: Evidence) -> pd.DataFrame:
    """The study's product and its parts, all tokens pooled: with and without block 1 and the final
    norm."""
    layers = tables.table("layers", source=FOUR)
    summaries = tables.table("summaries", source=FOUR)
    of_norm = summaries[summaries["estimand"] == "normed_gain_all_tokens"]
    normed = of_norm.set_index("model_id")["value"]
    rows = []
    for (model, heritage, family), r in layers.groupby(["model_id", "heritage", "family"]):
        gains = r.sort_values("layer")["gain_block"]
        g = gains.dropna().to_numpy(float)
        every = np.append(g, normed[model])
        product = float(np.prod(every))
        as_published = np.prod(every + OFFSET)
        below = every < 1
        row = {
            "model_id": model,
            "heritage": heritage,
            "family": family,
            "amplification": product,
            "comparable": True,
            "as_published": float(as_published),
            "below_1": 100 * float(np.mean(below)),
            "of_block_1": g[0],
            "without_block_1": product / g[0],
            "blocks_2_to_before_last": float(np.prod(g[1:])),
        }
        rows.append(row)
    return pd.DataFrame(rows).sort_values("amplification", ascending=False, ignore_index=True)


def check_product(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Products and shares of gains below 1 of the file, by the names of `BY_MODEL`; `table`:
    `load_published_product`."""
    figures = {}
    for row in table.itertuples():
        figures[row.model_id] = (row.as_published, row.below_1, 100 - row.below_1)
    return check_model_figures(tables, FOUR, BY_MODEL, figures.items())
