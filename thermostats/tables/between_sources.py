"""Sources against each other on the models that both measured: plain differences, before any model of them.

A source is who measured (`evidence.origin`): the files of a study are one. Two measurements of a model are held against
each other on the scale of logarithms, d = log(second / first).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from thermostats.tables.evidence import SETS, in_set, origin
from thermostats.tables.reading import of_last_revision
from thermostats.tables.vocabulary import GAINS

NAMED = ("last_gain", "penultimate_gain", "geometric_gain_to_penultimate", "max_gain_to_penultimate")
"""Gains at the last token that sources are compared on."""
MEASUREMENT = ["model_id", "from", "prompt_set", "dtype", "position"]
LEAST = 3
"""Blocks that two profiles must share for a correlation."""


def counts(features: pd.DataFrame, runs: pd.DataFrame, published: set[str]) -> pd.DataFrame:
    """One row per set of evidence: models and labs of all its rows, of comparable ones, of those with gains.

    features: rows of the table `features` of decoders at the last token, every set's. A model is comparable where it
    does not norm the stream itself after each sum; it has gains where one of `GAINS` is known at the last token.
    """
    rows = []
    for name, what in SETS.items():
        rows_of_set = features[in_set(name, features, published, runs)]
        comparable = rows_of_set[rows_of_set["comparable"].astype(bool)]
        last = rows_of_set[rows_of_set[list(GAINS)].notna().any(axis=1)]
        row: dict[str, object] = {"evidence": name}
        for kind, of in (("", rows_of_set), ("comparable_", comparable), ("last_token_", last)):
            row |= {f"{kind}models": of["model_id"].nunique(), f"{kind}labs": of["heritage"].nunique()}
        rows.append({**row, "what": what})
    return pd.DataFrame(rows)


def measurements(features: pd.DataFrame, published: set[str]) -> pd.DataFrame:
    """Rows of `features` at every model's last revision; the files of a study are one source."""
    rows = of_last_revision(features, "model_id")
    return rows.assign(source=origin(rows["source"], published))


def gain_pairs(features: pd.DataFrame, published: set[str]) -> pd.DataFrame:
    """Named gains at the last token of models that two sources measured: one row per model, gain and pair.

    Columns: model_id, gain; first, second (sources), first_gain, second_gain, first_prompts, second_prompts,
    first_dtype, second_dtype; log_ratio. Of a source with several runs each is one of the pair; runs of one source are
    not held against each other.
    """
    rows = features.assign(**{"from": origin(features["source"], published)})
    pairs = []
    for gain in NAMED:
        for model, measured in rows.dropna(subset=gain).groupby("model_id"):
            runs = measured.sort_values(["from", "source", "prompt_set", "dtype"]).to_dict("records")
            for a, b in combinations(runs, 2):
                if a["from"] != b["from"]:
                    row = {"model_id": model, "gain": gain, "log_ratio": float(np.log(b[gain] / a[gain]))}
                    for place, run in (("first", a), ("second", b)):
                        row |= {place: run["source"], f"{place}_gain": run[gain], f"{place}_dtype": run["dtype"]}
                        row[f"{place}_prompts"] = run[f"{gain}_n"]
                    pairs.append(row)
    return pd.DataFrame(pairs, columns=PAIRS)


PAIRS = [
    *("model_id", "gain", "first", "first_prompts", "first_dtype", "first_gain"),
    *("second", "second_prompts", "second_dtype", "second_gain", "log_ratio"),
]


def profiles(layers: pd.DataFrame, runs: pd.DataFrame, published: set[str]) -> pd.DataFrame:
    """Mean over prompts of log G_l by measurement and layer: columns `MEASUREMENT`, layer, log_gain."""
    rows = layers.dropna(subset="gain_block").merge(
        runs[["run_id", "model_id", "source", "prompt_set", "dtype"]], on="run_id", suffixes=("_of_row", "")
    )
    rows = rows.assign(log_gain=np.log(rows["gain_block"]), **{"from": origin(rows["source"], published)})
    return rows.groupby([*MEASUREMENT, "layer"])["log_gain"].mean().reset_index()


def profile_pairs(profiles: pd.DataFrame) -> pd.DataFrame:
    """How far the gains of two sources differ block by block, over the inner blocks (from 2 on) that both have.

    One row per model and pair of measurements by two sources, or by one on other prompts: model_id; first and second
    with their positions and prompt sets; blocks; r (Pearson) of the log gains; mean and sd of d; largest |d|.
    """
    inner = profiles[profiles["layer"] >= 2]
    pairs = []
    for model, measured in inner.groupby("model_id"):
        lines = {name: rows.set_index("layer")["log_gain"] for name, rows in measured.groupby(MEASUREMENT[1:])}
        for a, b in combinations(sorted(lines), 2):
            if a[0] == b[0] and a[1] == b[1]:
                continue
            both = pd.concat([lines[a], lines[b]], axis=1, join="inner").to_numpy(np.float64)
            if len(both) < LEAST:
                continue
            d = both[:, 1] - both[:, 0]
            row = {"model_id": model, "first": a[0], "first_position": a[3], "first_prompt_set": a[1]}
            row |= {"second": b[0], "second_position": b[3], "second_prompt_set": b[1], "blocks": len(both)}
            row["r"] = float(np.corrcoef(both.T)[0, 1])
            row |= {"mean_d": float(d.mean()), "sd_d": float(d.std(ddof=1)), "largest_d": float(np.abs(d).max())}
            pairs.append(row)
    return pd.DataFrame(pairs, columns=PROFILE_PAIRS)


PROFILE_PAIRS = [
    *("model_id", "first", "first_position", "first_prompt_set", "second", "second_position", "second_prompt_set"),
    *("blocks", "r", "mean_d", "sd_d", "largest_d"),
]
