"""Signs of the log gain along the training of the controlled study's models; pairs of a model and one tuned from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import V
from thermostats.errors import UsageError
from thermostats.modelling.classical.counts import clustered_share
from thermostats.modelling.draws import Array
from thermostats.plots.general import legend_above, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.delia2026.tuned_pairs import ratio_of_pair
from thermostats.studies.nursery.design import CHECKPOINTS, RECIPE
from thermostats.studies.nursery.rows import half_width
from thermostats.tables.features import by_prompt
from thermostats.tables.vocabulary import NURSERY


def log_gains(rows: pd.DataFrame, gain: str) -> pd.DataFrame:
    """Mean log gain by model (rows) and share of training (columns), models with all of CHECKPOINTS.

    `rows`: as `nursery_rows.checkpoints` gives them; tuned models are left out.
    """
    chosen = rows[~rows["tuned"] & rows[f"{gain}_geometric"].notna()]
    logs = chosen.assign(value=np.log(chosen[f"{gain}_geometric"].astype("float64")), share=chosen["share"].round(4))
    wide = logs.pivot(index="model", columns="share", values="value").reindex(columns=list(CHECKPOINTS))
    return wide.dropna()


def fixed_from(logs: pd.DataFrame) -> pd.DataFrame:
    """Whether the sign is the final one at a share of training and at every later one: models × shares."""
    same = (logs > 0).eq(logs.iloc[:, -1] > 0, axis=0)
    return same.iloc[:, ::-1].cummin(axis=1).iloc[:, ::-1]


R, RARE = V("within-cell rank correlation"), V("models on the rarer side")
KAPPA, BY_RECIPE = "agreement beyond chance (κ)", "95% jackknife t interval over recipes"
HALF, RARER = 0.71, 10
"""Least correlation of interest, half of the variance of the ranks. With fewer models on the rarer side signs say
nothing."""
NEARLY_ONE, LEAST_GROUPS = 1 - 1e-12, 2
"""The largest correlation that has a finite z, and the fewest groups that say how it varies."""


def within_cells(x: pd.Series, y: pd.Series, cells: pd.Series, groups: pd.Series) -> Estimate:
    """Spearman correlation of two columns inside cells, ranks over all rows off their cell's mean; rows of one group
    are not independent: a 95% jackknife t interval over groups, of Fisher's z, and the two-sided p of the same t.

    Raises UsageError where nothing varies inside cells.
    """
    cell, group = pd.factorize(cells)[0], pd.factorize(groups)[0]
    a, b = (ranked_in(values, cells) for values in (x, y))
    size = np.maximum(_without(np.ones(len(a)), group, cell), 1)
    a1, b1 = _without(a, group, cell), _without(b, group, cell)
    pairs = ((a, a, a1, a1), (b, b, b1, b1), (a, b, a1, b1))
    aa, bb, ab = ((_without(u * v, group, cell) - u1 * v1 / size).sum(axis=1) for u, v, u1, v1 in pairs)
    if len(size) <= LEAST_GROUPS or not (aa[0] > 0 and bb[0] > 0):
        raise UsageError("nothing to correlate inside cells", got=f"{len(a)} rows, {len(size) - 1} groups")
    z = np.arctanh(np.clip(ab / np.sqrt(aa * bb), -NEARLY_ONE, NEARLY_ONE))
    half, df = float(half_width(z[1:])), len(z) - 2
    p = float(2 * stats.t.sf(abs(z[0]) / max(half / stats.t.ppf((1 + LEVEL) / 2, df), 1e-300), df))
    r, lower, upper = np.tanh(z[0] + half * np.array([0, -1, 1])).tolist()
    return Estimate(r, lower, upper, BY_RECIPE, p)


def _without(values: Array, group: npt.NDArray[np.int64], cell: npt.NDArray[np.int64]) -> Array:
    """Sums by cell (columns) of all rows, then of all without each group in turn."""
    size = (int(group.max()) + 1, int(cell.max()) + 1)
    sums = np.bincount(group * size[1] + cell, values, size[0] * size[1]).reshape(size)
    return np.concatenate([sums.sum(axis=0, keepdims=True), sums.sum(axis=0) - sums])


def ranked_in(values: pd.Series, cells: pd.Series) -> Array:
    """Ranks over all rows, off the mean rank of their cell."""
    ranks = pd.Series(stats.rankdata(values), index=cells.index)
    return np.asarray(ranks - ranks.groupby(cells).transform("mean"))


def kappa(first: pd.Series, second: pd.Series, groups: pd.Series) -> Estimate:
    """Cohen's κ of two columns of truth values, with its 95% jackknife t interval over groups; None where undefined."""
    a, b, group = first.to_numpy(bool), second.to_numpy(bool), pd.factorize(groups)[0]
    columns = (np.ones(len(a)), a, b, a == b)
    n, p, q, same = (_without(np.asarray(column, float), group, np.zeros_like(group))[:, 0] for column in columns)
    p, q, same = p / n, q / n, same / n
    chance = p * q + (1 - p) * (1 - q)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(chance < 1, (same - chance) / (1 - chance), np.nan)
    ends = (values[0] + half_width(values[1:]) * np.array([0, -1, 1])).tolist()
    value, lower, upper = (None if math.isnan(end) else end for end in ends)
    return Estimate(value, lower, upper, BY_RECIPE)


def by_ranks(rows: pd.DataFrame) -> Result:
    """Correlation of `early` with `end` inside cells, agreement of their signs, and how many end on the rarer side."""
    up = rows["end"] > 0
    quantities = {
        R.name: within_cells(rows["early"], rows["end"], rows["cell"], rows["recipe"]),
        KAPPA: kappa(rows["early"] > 0, up, rows["recipe"]),
        RARE.name: Estimate(float(min(up.sum(), (~up).sum()))),
    }
    return Result.of(rows, quantities)


def development(logs: pd.DataFrame, recipes: Sequence[str] | pd.Series) -> pd.DataFrame:
    """By share of training: how many dampen, have their final sign, and keep it from there on, with its interval.

    Columns: share, dampens, as_at_the_end, by_chance (agreement of independent signs as frequent as these), fixed,
    estimate, lower, upper.
    """
    fixed, positive = fixed_from(logs), logs > 0
    end = positive.iloc[:, -1]
    rows = []
    for share in logs:
        share_of = clustered_share(fixed[share], recipes)
        p, q = float(positive[share].mean()), float(end.mean())
        counts = int((~positive[share]).sum()), float((positive[share] == end).mean()), p * q + (1 - p) * (1 - q)
        rows.append((share, *counts, int(fixed[share].sum()), share_of.estimate, share_of.lower, share_of.upper))
    columns = ["share", "dampens", "as_at_the_end", "by_chance", "fixed", "estimate", "lower", "upper"]
    return pd.DataFrame(rows, columns=columns)


def gains_of_pairs(tables: Evidence, gain: str) -> pd.DataFrame:
    """A gain by prompt of finished and of tuned models: what `fit_invariance` takes, heritage and family the recipe."""
    models = tables.table("models", source=NURSERY)
    ends = models[models["variant"].isin(["base", "instruct"])]
    runs = tables.table("runs", source=NURSERY).merge(ends[["model_id", "revision"]], on=["model_id", "revision"])
    parts = {name: tables.table(name, source=NURSERY) for name in ("layers", "summaries")}
    parts = {name: frame[frame["run_id"].isin(runs["run_id"])] for name, frame in parts.items()}
    values = by_prompt(runs, ends, parts["layers"], parts["summaries"])
    values = values[(values["gain"] == gain) & (values["prompt_id"] != "")].drop(columns="gain")
    facts = ends[["model_id", "revision", "family", "variant", "parent", "norm_place"]].assign(heritage=ends["family"])
    named = values.merge(runs[["run_id", "model_id", "revision", "source"]], on="run_id")
    named = named.merge(facts, on=["model_id", "revision"])
    parents = set(named.loc[named["variant"] == "instruct", "parent"])
    return named[(named["variant"] == "instruct") | named["model_id"].isin(parents)].reset_index(drop=True)


def pair_table(gains: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """One row per base and its own child: gains of both with 95% t intervals of the mean log, ratio (Bonferroni), flip.

    `gains`: one row per model and prompt with `variant`, `parent` and `value`; pairs without both ends are left out.
    """
    rows, by_pair = [], list(_by_pair(gains))
    for facts, both in by_pair:
        pair = {"model_id": facts.parent, "tuned": facts.Index, "heritage": facts.heritage, "n_prompts": len(both)}
        rows.append(pair | ratio_of_pair(both, "tuned", level=1 - 0.05 / len(by_pair), seed=seed))
    names = {"base_geometric": "base_gain", "tuned_geometric": "tuned_gain"}
    table = pd.DataFrame(rows).rename(columns=names)
    if len(table):
        sides = (table["base_gain"] > 1) != (table["tuned_gain"] > 1)
        table.insert(list(table).index("ratio"), "other_side", sides)
    return table


def log_ratios(gains: pd.DataFrame) -> pd.DataFrame:
    """Log ratio of tuned to trained, one row per pair and shared prompt: model_id and pair (the base), heritage."""
    parts = []
    for facts, both in _by_pair(gains):
        ratios = (np.log(both[facts.Index]) - np.log(both[facts.parent])).rename("log_ratio").reset_index()
        parts.append(ratios.assign(model_id=facts.parent, pair=facts.parent, heritage=facts.heritage))
    return pd.concat(parts, ignore_index=True)


def _by_pair(gains: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Every tuned model whose base is there, and the gains of both by shared prompt, base first."""
    models = gains.drop_duplicates("model_id").set_index("model_id").sort_index()
    wide = gains.pivot(index="prompt_id", columns="model_id", values="value").astype("float64")
    for facts in models[models["variant"] == "instruct"].itertuples():
        if facts.parent in models.index:
            yield facts, wide[[facts.parent, facts.Index]].dropna()


def standard_errors(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Standard error of the mean log gain over prompts, by the delta method, of rows of `checkpoints`."""
    return rows[f"{gain}_sd"] / rows[gain] / np.sqrt(rows[f"{gain}_n"].astype("float64"))


def draw_training(logs: pd.DataFrame, models: pd.DataFrame, factor: str, axes: Axes) -> None:
    """Draw the gain of every model by share of training, coloured by a factor of the recipe."""
    reference(axes, 1.0)
    at = np.arange(len(CHECKPOINTS))
    for place, level in enumerate(RECIPE[factor]):
        gains = np.exp(logs[(models[factor] == level).to_numpy()]).to_numpy()
        lines = axes.plot(at, gains.T, color=f"C{place}", linewidth=0.8, alpha=0.7)
        lines[0].set_label(f"{factor} {level}".replace("_", " "))
    log_axis(axes, "y")
    axes.set_xticks(at, [f"{share:.0%}" for share in CHECKPOINTS])
    axes.set(xlabel="share of training", ylabel="last gain")
    legend_above(axes)
