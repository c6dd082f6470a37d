"""Tables to one row per model and source: named gains, geometry, published transition layers,
spectral norms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import build_unknown_error
from thermostats.tables import store
from thermostats.tables.choices import of_interventions
from thermostats.tables.entries import drop_names
from thermostats.tables.frames import select_rows
from thermostats.tables.runs import mark_superseded
from thermostats.tables.schemas import (
    FLAG,
    FLOAT,
    FUNCTION,
    GAINS,
    INTEGER,
    MODEL,
    MODELS,
    POSITIONS,
    READ_GAINS,
    RUN,
    RUNS,
    STORED,
    TEXT,
    Column,
    declare_column,
    declare_number,
)
from thermostats.tables.validation import rank_rows


def index_rows(rows: pd.DataFrame, labels: Sequence[str]) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """Number of each row's combination of texts, counted in their order, and the combinations by
    number."""
    ranks = rank_rows(rows[label] for label in labels)
    number, distinct = pd.factorize(ranks, sort=True)
    row = np.empty(len(distinct), dtype=np.int64)
    row[number] = np.arange(len(rows))
    return number, rows[list(labels)].take(row).reset_index(drop=True)


@dataclass(frozen=True)
class Groups:
    """Rows ordered by group, in their own order within; `numbers`, first row and rows of each
    group.

    A sum over a group must not depend on what other rows there are, so groups are summed one by one
    (`reduceat`): pandas gives another last digit where the rows of groups alternate.
    """

    order: NDArray[np.int64]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def build(cls, number: NDArray[np.int64]) -> Groups:
        order = np.argsort(number, kind="stable")
        ordered = number[order]
        first = np.ones(len(ordered), dtype=np.bool_)
        first[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(first)
        sizes = np.diff(starts, append=len(ordered))
        return cls(order, ordered[starts], starts, sizes)

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.add.reduceat(values[self.order], self.starts)

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.sum(values) / self.sizes

    def max(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum.reduceat(values[self.order], self.starts)

    def std(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation, divisor n - 1; NaN for one row."""
        means = np.repeat(self.mean(values), self.sizes)
        squares = np.empty_like(values)
        squares[self.order] = (values[self.order] - means) ** 2
        divisor = np.where(self.sizes > 1, self.sizes - 1, np.nan)
        return np.sqrt(self.sum(squares) / divisor)


OF_RUNS = ("layers", "summaries", "transitions", "weights")
"""Tables of runs that features are made of."""
LAYER_COLUMNS = ("run_id", "layer", "prompt_id", "position", "gain_block", "gain_read")
"""Columns of the table layers that features are made of."""
WEIGHT_NAMES = {"W_V": "wv_norm", "W_O": "wo_norm"}
STATED_MEANS = {f"{matrix}_spectral_norm_mean": label for matrix, label in WEIGHT_NAMES.items()}
ACROSS = ("total_amplification",)
"""Beginnings of gains that compare norms across the whole stream; of one whose width changes there
are none."""
LAST = "last"
"""Position of the gains unless another is asked for: the only one at which the study's gains are
stated."""


def build_features(data: str | Path | None = None, *, position: str = LAST) -> pd.DataFrame:
    """One row per model, revision and source, as `combine` makes it from the tables of a data
    folder.

    position: token position of the gains, one of those in the table layers.

    Raises UsageError for another position, DataError where a table is damaged or refers to a run or
    model that is not there.
    """
    if position not in POSITIONS:
        raise build_unknown_error("no such token position", position, POSITIONS)
    tables = {}
    for name in ("runs", "models", *OF_RUNS[1:]):
        tables[name] = store.load(name, data)
    layers = store.load_parts("layers", data, LAYER_COLUMNS)
    return _combine_parts(layers, **tables, position=position)


def combine(
    runs: pd.DataFrame,
    models: pd.DataFrame,
    layers: pd.DataFrame,
    summaries: pd.DataFrame,
    transitions: pd.DataFrame,
    weights: pd.DataFrame,
    *,
    position: str = LAST,
) -> pd.DataFrame:
    """One row per model, revision and source, with every named gain that the rows of its run allow.

    A source that measured a model on several prompt sets or in several precisions has a row for
    each (`prompt_set`, `dtype`, `attention`); runs are never averaged. A run that was measured
    again by a later version is left out, and so is one that changed its model. A weights-only run
    has a row of its own only where its model and source have no other; its norms stand in all rows
    of that model and source.

    Gains, all at one token `position`; what a source states as a summary is at the last token. For
    each gain g of `GAINS` and `READ_GAINS` there are four columns: `g`, arithmetic mean over
    prompts (what the study reports); `g_geometric`, exp of the mean of log g over prompts; `g_sd`,
    standard deviation over prompts (n - 1 where computed here, else as published); `g_n`, prompts
    that it rests on. Where a source has only averages over prompts, g is made from them, g_n is 0
    and g_geometric is empty. A summary over several layers is given only where every one of them is
    there. Of one block n_L/n_1 is 1 and n_L/n_0 is its gain.

    Geometry: all columns of the table models but its source, and `rho` = H/d_h, `aspect` = d/L,
    `kv_ratio` = K/H, `ff_ratio` = d_ff/d, `log10_n_params`, `log10_n_params_nonembedding`;
    `comparable` is False for models that norm after the residual sum, whose gains are near 1 by
    construction.

    Transition layers, mean over prompts, 1-based: `L_star_<definition>_<trace variant>`, without
    the variant where it is unstated, and the same with `_sd`. Spectral norms, mean over layers of
    the whole matrix: `wv_norm`, `wo_norm`, and their ratio `wv_wo_ratio`.

    Raises DataError where a run's model is not in the table models, or a row's run not in the table
    runs.
    """
    return _combine_parts(
        [layers], runs, models, summaries, transitions, weights, position=position
    )


def _combine_parts(
    parts: Iterable[pd.DataFrame],
    runs: pd.DataFrame,
    models: pd.DataFrame,
    summaries: pd.DataFrame,
    transitions: pd.DataFrame,
    weights: pd.DataFrame,
    *,
    position: str,
) -> pd.DataFrame:
    """As `combine`, of the table layers in parts, no run of which is in two of them."""
    store.check_reference(runs, "runs", "model_id", models, "models")
    for name, frame in zip(OF_RUNS[1:], (summaries, transitions, weights), strict=True):
        store.check_reference(frame, name, "run_id", runs, "runs")
    measured = runs
    runs = runs[~of_interventions(runs)]
    old = mark_superseded(runs)
    runs = runs[~old]
    if old.any():
        summaries = select_rows(summaries, run_id=runs["run_id"])
        transitions = select_rows(transitions, run_id=runs["run_id"])
        weights = select_rows(weights, run_id=runs["run_id"])
    stated = summaries if position == LAST else summaries.iloc[:0]
    summarised: list[pd.DataFrame] = []
    for layers in parts:
        store.check_reference(layers, "layers", "run_id", measured, "runs")
        counted = select_rows(layers, run_id=runs["run_id"]) if old.any() else layers
        here = stated["run_id"].isin(counted["run_id"].unique())
        values = collect_prompt_gains(runs, models, counted, stated[here], position=position)
        summarised.append(_summarise_prompts(values, stated[here]))
        stated = stated[~here]
    summarised.append(_summarise_prompts(_read_summaries(stated), stated))
    gains = pd.concat(summarised, ignore_index=True)
    picked = _pick_runs(runs, gains["run_id"])[RUN]
    geometry = _compute_geometry(models)
    whose = ["model_id", "revision"]
    rows = picked.merge(geometry, on=whose, how="left", validate="many_to_one")
    rows = rows.merge(gains, on="run_id", how="left")
    across = [name for name in rows if str(name).startswith(ACROSS)]
    rows.loc[rows["stages"] > 1, across] = np.nan
    rows = rows.merge(_summarise_transitions(transitions), on="run_id", how="left")
    norms = collect_spectral_norms(weights, summaries)
    rows = rows.merge(_summarise_spectra(norms, runs), on=MODEL, how="left")
    counts = [f"{gain}_n" for gain in (*GAINS, *READ_GAINS)]
    rows[counts] = rows[counts].astype("Int64")
    token = pd.Series(position, index=rows.index, dtype="str")
    rows.insert(len(RUN), "token_position", token)
    rows.insert(len(RUN) + 1, "n_prompts", rows[counts].max(axis=1))
    order = [*MODEL, "prompt_set", "dtype", "attention"]
    ordered = rows.sort_values(order, kind="stable", ignore_index=True)
    return ordered.copy()  # columns of a kind lie together


def collect_prompt_gains(
    runs: pd.DataFrame,
    models: pd.DataFrame,
    layers: pd.DataFrame,
    summaries: pd.DataFrame,
    *,
    position: str = LAST,
) -> pd.DataFrame:
    """Every gain of `GAINS` and `READ_GAINS` at one token: columns run_id, prompt_id, gain, value.

    An empty prompt_id stands for the mean over prompts. Summaries, which state no position, count
    as at the last token.
    """
    columns = layers[["run_id", "prompt_id", "layer", "gain_block", "gain_read"]]
    there = layers["position"] == position
    at_token = columns if there.all() else columns[there]
    depths = _read_depths(runs, models)
    parts = [_compute_layer_gains(at_token, depths)]
    read = fill_read_gains(at_token, runs, models)
    if read["gain_read"].notna().any():
        parts.append(_read_gains(read, depths))
    parts += [_read_summaries(summaries)] if position == LAST else []
    return pd.concat(parts, ignore_index=True)


def _read_depths(runs: pd.DataFrame, models: pd.DataFrame) -> pd.Series[int]:
    """Blocks of each run's model, by run."""
    depths = runs.merge(models[["model_id", "revision", "n_layers"]], on=["model_id", "revision"])
    return depths.set_index("run_id")["n_layers"].astype("int64")


def _compute_geometry(models: pd.DataFrame) -> pd.DataFrame:
    d = models["d_model"]
    d_h = models["d_head"]
    H = models["n_heads"]
    n_params = models["n_params"].astype("float64")
    n_params_nonembedding = models["n_params_nonembedding"].astype("float64")
    rows = models.drop(columns="source")
    rows["rho"] = (H / d_h).astype("float64")
    rows["aspect"] = (d / models["n_layers"]).astype("float64")
    rows["kv_ratio"] = (models["n_kv_heads"] / H).astype("float64")
    rows["ff_ratio"] = (models["d_ff"] / d).astype("float64")
    rows["log10_n_params"] = np.log10(n_params)
    rows["log10_n_params_nonembedding"] = np.log10(n_params_nonembedding)
    rows["comparable"] = models["norm_place"] != "post"
    return rows


def _pick_runs(runs: pd.DataFrame, with_gains: pd.Series[str]) -> pd.DataFrame:
    """Runs without the weights-only ones, which have no gain, whose model and source have another
    run."""
    has_gain = runs["run_id"].isin(with_gains)
    counts = has_gain | (runs["prompt_set"] != "")
    has_other = counts.groupby([runs[label] for label in MODEL]).transform("any")
    return runs[counts | ~has_other]


def _compute_layer_gains(layers: pd.DataFrame, depths: pd.Series[int]) -> pd.DataFrame:
    """Gains of every run and prompt from the layers at one token: columns run_id, prompt_id, gain,
    value."""
    where = ["run_id", "prompt_id"]
    columns = layers[[*where, "layer", "gain_block"]]
    there = layers["gain_block"].notna()
    measured = columns if there.all() else columns[there]
    number, prompts = index_rows(measured, where)
    depth = depths.reindex(prompts["run_id"]).to_numpy("int64")
    gain = measured["gain_block"].to_numpy()
    rows = pd.DataFrame(
        {
            "prompt": number,
            "layer": measured["layer"].to_numpy("int64"),
            "L": depth[number],
            "gain_block": gain,
            "log": np.log(gain),
        }
    )
    layer = rows["layer"]
    L = rows["L"]
    inner = rows[layer >= 2]
    gain_of = rows.set_index("prompt")["gain_block"]
    first = gain_of[(layer == 1).to_numpy()]
    log_total, geometric, largest = _combine_layers(inner, skipped=1)
    before_last = inner[inner["layer"] < inner["L"]]
    _, geometric_before, largest_before = _combine_layers(before_last, skipped=2)
    of_one_block = first.index.isin(rows.loc[L == 1, "prompt"])
    without_inner = pd.Series(1.0, index=first.index[of_one_block])
    total = pd.concat([np.exp(log_total), without_inner])
    gains = {
        "last_gain": gain_of[(layer == L).to_numpy()],
        "penultimate_gain": gain_of[(layer == L - 1).to_numpy()],
        "geometric_gain": geometric,
        "max_gain": largest,
        "geometric_gain_to_penultimate": geometric_before,
        "max_gain_to_penultimate": largest_before,
        "total_amplification": total,
        "total_amplification_from_input": total * first.reindex(total.index),
    }
    wide = pd.DataFrame(gains)
    for place, label in enumerate(where):
        wide.insert(place, label, prompts[label].to_numpy()[wide.index])
    return wide.melt(id_vars=where, var_name="gain").dropna(subset="value")


AS_READ = {
    "read_norm": "norm_in",
    "gain_read": "gain_block",
    "centred_write_attention": "write_attention",
    "centred_write_mlp": "write_mlp",
}
"""Columns of `layers` about what is read of the stream → what they are where norms do not subtract
the mean: P = I."""


def fill_read_gains(layers: pd.DataFrame, runs: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """The rows with `AS_READ` filled in where P = I, as rows of older versions and of others lack
    them."""
    places = ["pre", "sandwich", "output"]
    uncentred = select_rows(models, norm_kind="RMSNorm", norm_place=places)
    whose = ["model_id", "revision"]
    plain = runs.merge(uncentred[whose], on=whose)["run_id"]
    rows = layers["run_id"].isin(plain)
    if not rows.any():
        return layers
    filled = {}
    for name, raw in AS_READ.items():
        if name in layers:
            as_read = layers[raw].where(rows)
            filled[name] = layers[name].fillna(as_read)
    return layers.assign(**filled)


def _read_gains(layers: pd.DataFrame, depths: pd.Series[int]) -> pd.DataFrame:
    """The same three of the read gain R_l that `READ_GAINS` names."""
    values = _compute_layer_gains(layers.assign(gain_block=layers["gain_read"]), depths)
    named = values.assign(gain=values["gain"].str.replace("_gain", "_read_gain"))
    return select_rows(named, gain=READ_GAINS)


def _combine_layers(rows: pd.DataFrame, skipped: int) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Sum of log G, exp of its mean and largest G of each prompt that has all L - `skipped`
    layers."""
    groups = Groups.build(rows["prompt"].to_numpy())
    log = groups.sum(rows["log"].to_numpy())
    largest = groups.max(rows["gain_block"].to_numpy())
    depth = rows["L"].to_numpy()[groups.order][groups.starts]
    complete = groups.sizes == depth - skipped
    index = pd.Index(groups.numbers[complete], name="prompt")
    sums = pd.Series(log[complete], index=index)
    geometric = np.exp(sums / groups.sizes[complete])
    return sums, geometric, pd.Series(largest[complete], index=index)


def _read_summaries(summaries: pd.DataFrame) -> pd.DataFrame:
    """Gains given as named values; `<gain>_mean` is the gain averaged over prompts."""
    named = summaries.assign(gain=summaries["estimand"].str.removesuffix("_mean"))
    is_gain = named["gain"].isin(list(GAINS))
    columns = ["run_id", "prompt_id", "gain", "value"]
    return named.loc[is_gain & named["value"].notna(), columns]


def _summarise_prompts(values: pd.DataFrame, summaries: pd.DataFrame) -> pd.DataFrame:
    """Per run and gain: mean, geometric mean, standard deviation over prompts and their number, one
    column each."""
    values = values.drop_duplicates(["run_id", "prompt_id", "gain"])
    by = ["run_id", "gain"]
    single = values[values["prompt_id"] != ""]
    number, named = index_rows(single, by)
    groups = Groups.build(number)
    value = single["value"].to_numpy()
    log = np.log(np.where(value > 0, value, np.nan))  # a stated gain may be what no gain is
    over_prompts = {
        "mean": groups.mean(value),
        "log": groups.mean(log),
        "sd": groups.std(value),
        "n": groups.sizes,
    }
    each = pd.DataFrame(over_prompts, index=pd.MultiIndex.from_frame(named))
    averaged = select_rows(values, prompt_id="").set_index(by)["value"]
    published_sd = select_rows(summaries, prompt_id="")
    published_sd = published_sd[published_sd["estimand"].str.endswith("_sd")]
    published_sd = published_sd.assign(gain=published_sd["estimand"].str.removesuffix("_sd"))
    index = each.index.union(averaged.index)
    stated_sd = published_sd.set_index(by)["value"].reindex(index)
    each = each.reindex(index)
    by_ending = {
        "": each["mean"].fillna(averaged.reindex(index)),
        "_geometric": np.exp(each["log"]),
        "_sd": each["sd"].where(each["n"].notna(), stated_sd),
        "_n": each["n"].fillna(0.0),
    }
    statistics = pd.DataFrame(by_ending, index=index)
    wide = statistics.unstack("gain")
    wide.columns = [f"{gain}{statistic}" for statistic, gain in wide.columns]
    labels = []
    for gain in (*GAINS, *READ_GAINS):
        for statistic in by_ending:
            labels.append(f"{gain}{statistic}")
    return _index_runs(wide.reindex(columns=labels).astype("float64"))


def _index_runs(wide: pd.DataFrame) -> pd.DataFrame:
    """Rows by run with the run in a column of its own."""
    return wide.rename_axis(index="run_id").reset_index()


def _summarise_transitions(transitions: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over prompts of L* of each run, two columns per definition and
    curve."""
    located = transitions[transitions["layer"].notna()]
    stated = located["trace_variant"] != "unstated"
    variant = ("_" + located["trace_variant"]).where(stated, "")
    located = located.assign(label="L_star_" + located["definition"] + variant)
    located["averaged"] = located["prompt_id"] == ""
    by = ["run_id", "label"]
    alone = located.groupby(by)["averaged"].transform("all").astype("bool")
    chosen = located[~located["averaged"] | alone]
    number, named = index_rows(chosen, by)
    groups = Groups.build(number)
    layer = chosen["layer"].to_numpy()
    spread = named.set_index(by)
    spread[""] = groups.mean(layer)
    spread["_sd"] = groups.std(layer)
    wide = spread.unstack("label")
    wide.columns = [f"{label}{statistic}" for statistic, label in wide.columns]
    return _index_runs(wide.reindex(columns=sorted(wide.columns)))


def collect_spectral_norms(
    weights: pd.DataFrame,
    summaries: pd.DataFrame,
    matrices: Mapping[str, str] = WEIGHT_NAMES,
    means: Mapping[str, str] = STATED_MEANS,
) -> pd.DataFrame:
    """Spectral norms of the whole W_V and W_O of each run's layers, and those stated as means over
    layers.

    matrices, means: labels by matrix, and by the name under which its mean is stated.
    """
    norms = select_rows(weights, head="", matrix=matrices)
    measured = norms.assign(label=norms["matrix"].map(matrices), stated=False)
    stated = select_rows(summaries, prompt_id="", estimand=means)
    labels = stated["estimand"].map(means)
    stated = stated.assign(label=labels, spectral_norm=stated["value"], stated=True)
    columns = ["run_id", "label", "spectral_norm", "stated"]
    return pd.concat([measured[columns], stated[columns]], ignore_index=True)


def _summarise_spectra(norms: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Per model and source: mean spectral norms of W_V and W_O over layers, and their ratio."""
    ordered = norms.sort_values(
        ["stated", "run_id"], kind="stable"
    )  # a sum depends on the order of its terms
    of_models = ordered.merge(runs[["run_id", *MODEL]], on="run_id")
    means = of_models.groupby([*MODEL, "label"])["spectral_norm"].mean()
    labels = list(WEIGHT_NAMES.values())
    wide = means.unstack("label").reindex(columns=labels).astype("float64")
    ratio = wide["wv_norm"] / wide["wo_norm"]
    return wide.assign(wv_wo_ratio=ratio).reset_index()


MEANING = (
    "computed from the tables: one row per model, revision and source, prompt set and precision"
)
OF_GAINS = {
    "": ("{1}; mean over prompts", FLOAT, "ratio"),
    "_geometric": (
        "exp of the mean over prompts of log {0}; empty where only averages are known",
        FLOAT,
        "ratio",
    ),
    "_sd": ("standard deviation over prompts of {0}", FLOAT, "ratio"),
    "_n": ("prompts that {0} rests on; 0: an average was published", INTEGER, "count"),
}
TRANSITION = "L_star_{definition}_{trace variant}"
"""Stands for as many columns as the table transitions has definitions and curves."""


def _declare_gains() -> dict[str, Column]:
    declared = {}
    for gain, formula in (GAINS | READ_GAINS).items():
        of_gain = FUNCTION if gain in READ_GAINS else STORED
        for ending, (words, dtype, unit) in OF_GAINS.items():
            meaning = words.format(gain, formula)
            of = "" if ending == "_n" else of_gain
            declared[f"{gain}{ending}"] = declare_column(dtype, meaning, unit, of=of)
    return declared


FEATURES: dict[str, Column] = {
    **{label: RUNS.columns[label] for label in RUN},
    "token_position": declare_column(TEXT, "that of the gains, as `position` of the table layers"),
    "n_prompts": declare_column(INTEGER, "most prompts that one of its gains rests on", "count"),
    **drop_names(MODELS.columns, MODEL),
    "rho": declare_number("head density, H/d_h", "ratio"),
    "aspect": declare_number("d/L", "ratio"),
    "kv_ratio": declare_number("K/H", "ratio"),
    "ff_ratio": declare_number("d_ff/d", "ratio"),
    "log10_n_params": declare_number("log10 of n_params", "log10"),
    "log10_n_params_nonembedding": declare_number("log10 of n_params_nonembedding", "log10"),
    "comparable": declare_column(
        FLAG, "false where the norm comes after the residual sum: gains are near 1 by construction"
    ),
    **_declare_gains(),
    TRANSITION: declare_number(
        "transition layer L*, mean over prompts; see transitions", "1-based layer", of=STORED
    ),
    f"{TRANSITION}_sd": declare_number("its standard deviation over prompts", "layers", of=STORED),
    "wv_norm": declare_number("mean over layers of the spectral norm of W_V", "norm", of=STORED),
    "wo_norm": declare_number("the same of W_O", "norm", of=STORED),
    "wv_wo_ratio": declare_number("wv_norm/wo_norm", "ratio", of=STORED),
}
"""Every column in its order, with type, unit and meaning."""
