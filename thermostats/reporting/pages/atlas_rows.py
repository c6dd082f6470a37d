"""Rows of the layer atlas: one quantity of one model in one layer, from whichever run has most of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.study import studies
from thermostats.tables.vocabulary import EXTERNAL, NURSERY, OURS

GAIN, NORM, W_V, W_O, TRACE = "gain", "norm", "W_V", "W_O", "trace"
QUANTITIES = {
    GAIN: "residual gain of a block",
    NORM: "residual norm over that of block 1",
    TRACE: "trace of the sheaf Laplacian",
    W_V: "spectral norm of the value matrix",
    W_O: "spectral norm of the output matrix",
}
"""Panels of the atlas in their order, in words."""
PUBLISHED_ORIGIN, MEASURED_ORIGIN, TRAINED_ORIGIN = "published", "measured here", "trained in the nursery"
EXTERNAL_ORIGIN = "measured by others"
POSITIONS = {
    "last": "last token",
    "mean": "geometric mean over tokens",
    "mean_norm": "ratio of norms averaged over tokens",
    "all": "norms pooled over all tokens",
    "unstated": "token not stated",
}
"""Token positions in order of preference; the first token is an attention sink and is left out."""
VARIANTS = {
    "exact": "exact trace",
    "multi_head": "all heads, W_V as its source cut it",
    "first_head": "W_V of the first head only",
    "subsampled": "on a sample of tokens and dimensions",
}
"""Variants of the trace in order of preference."""
FEWEST = 2
"""Layers that a run must have to be drawn as a line."""
MODEL = ["model_id", "revision", "heritage", "origin"]
COLUMNS = [*MODEL, "family", "n_layers", "quantity", "layer", "depth", "value", "norm", "definition", "source"]


def rows(tables: Evidence) -> pd.DataFrame:
    """Everything that the atlas draws, sorted: columns `COLUMNS`; `norm` is n_l itself where it is known.

    Of every model, origin (published, measured by this package, or trained for the controlled study: then at the end of
    its training) and quantity it is one run: with at least `FEWEST`
    layers if there is one, then by the order of `POSITIONS` or `VARIANTS`, then the one with most layers. Over prompts
    it is the mean that the source gives, else the geometric mean (arithmetic for traces).
    """
    depth = _read(tables, "models").drop_duplicates(["model_id", "revision"])[
        ["model_id", "revision", "family", "n_layers"]
    ]
    stream = _stream(tables)
    parts = [_gains(stream), _norms(stream), _traces(tables), _weights(tables)]
    both = pd.concat([part for part in parts if not part.empty] or [stream.reindex(columns=COLUMNS)])
    both = both.drop(columns=["family", "n_layers"], errors="ignore").merge(
        depth, on=["model_id", "revision"], how="left"
    )
    both["depth"] = both["layer"].astype(float) / both["n_layers"].astype(float)
    both["quantity"] = pd.Categorical(both["quantity"], list(QUANTITIES))
    both = both.reindex(columns=COLUMNS).dropna(subset=["value", "depth"])
    return both.sort_values(["quantity", *MODEL, "layer"], ignore_index=True).astype(
        {"family": str, "quantity": str, "layer": int, "n_layers": int, "value": float, "norm": float}
    )


def contrasting(drawn: pd.DataFrame, most: int) -> list[str]:
    """Models that differ: of each lab the one with most quantities, and of these some with mean gains far apart."""
    trained = drawn[drawn["origin"] != TRAINED_ORIGIN]
    gains = trained[(trained["quantity"] == GAIN) & (trained["layer"] > 1)]
    table = pd.DataFrame(
        {
            "gain": np.log(gains["value"]).groupby(gains["model_id"]).mean(),
            "quantities": trained.groupby("model_id")["quantity"].nunique(),
            "layers": trained.groupby("model_id")["layer"].nunique(),
            "lab": trained.groupby("model_id")["heritage"].first(),
        }
    ).dropna()
    table = table.sort_values(["quantities", "layers"], ascending=False, kind="stable").drop_duplicates("lab")
    ordered = list(table.sort_values("gain").index)
    places = np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int)
    return [str(ordered[place]) for place in places]


def missing(drawn: pd.DataFrame, tables: Evidence) -> dict[str, list[str]]:
    """Models of the table `models` without data by layer, by quantity; what is drawn instead of it is not it."""
    models = sorted(set(_read(tables, "models")["model_id"]))
    drawn = drawn[~drawn["definition"].isin(list(substitutes()))]
    return {
        quantity: [model for model in models if model not in set(drawn.loc[drawn["quantity"] == quantity, "model_id"])]
        for quantity in QUANTITIES
    }


def substitutes() -> dict[str, str]:
    """What studies bring that is drawn with a quantity but is not it, in words: its quantity by its definition."""
    return {words: quantity for study in studies().values() for quantity, words in study.layers.values()}


def _read(tables: Evidence, name: str, **equals: str | list[str]) -> pd.DataFrame:
    """Rows of a table, and those of the controlled study at the end of training."""
    ended = tables.table("models", source=NURSERY, variant="base")
    trained = tables.table(name, source=NURSERY, **equals).merge(ended[["model_id", "revision"]])
    both = pd.concat([tables.table(name, **equals), trained], ignore_index=True)
    return both.assign(origin=_origin(both, tables)) if "run_id" in both else both


def _stream(tables: Evidence) -> pd.DataFrame:
    """Log gain and log norm of every run, position and layer, averaged over prompts."""
    layers = _read(tables, "layers")
    layers = layers[layers["position"].isin(list(POSITIONS))]
    by = ["run_id", "position", "layer"]
    values = layers.assign(
        log_gain=np.log(layers["gain_block"].astype(float)), log_norm=np.log(layers["norm_in"].astype(float))
    )
    averaged = values["prompt_id"] == ""
    means = values[averaged].groupby(by)[["log_gain", "log_norm"]].first()
    made = values[~averaged].groupby(by)[["log_gain", "log_norm"]].mean()
    out = means.combine_first(made).reset_index()
    facts = _facts(layers)
    return out.merge(facts, on="run_id", how="left")


def _gains(stream: pd.DataFrame) -> pd.DataFrame:
    gains = stream.dropna(subset="log_gain")
    chosen = _best(gains, "position", list(POSITIONS))
    return chosen.assign(
        quantity=GAIN, value=np.exp(chosen["log_gain"]), definition=chosen["position"].map(POSITIONS), norm=np.nan
    )


def _norms(stream: pd.DataFrame) -> pd.DataFrame:
    """n_l / n_1 from the norms where they are known, else as the product of the gains of blocks 2 to l."""
    curves = [
        curve for _, line in stream.groupby(["run_id", "position"], sort=True) if not (curve := _curve(line)).empty
    ]
    if not curves:
        return stream.iloc[:0].assign(quantity=NORM, value=np.nan)
    return _best(pd.concat(curves), "position", list(POSITIONS)).assign(quantity=NORM)


def _curve(line: pd.DataFrame) -> pd.DataFrame:
    by_layer = line.set_index("layer").sort_index()
    log_gain, log_in = by_layer["log_gain"], by_layer["log_norm"]
    stated = log_in.rename(index=lambda layer: layer - 1).drop(index=0, errors="ignore").dropna()
    place = POSITIONS[str(line["position"].iloc[0])]
    if 1 in stated.index:
        log_out = stated - stated[1]
        after = log_out.index.max() + 1
        if after in log_gain.index and np.isfinite(log_gain[after]):
            log_out.loc[after] = log_out[after - 1] + log_gain[after]
        norms, definition = np.exp(stated).reindex(log_out.index), f"{place}, from the norms"
    else:
        inner = log_gain[log_gain.index >= 2].dropna()
        unbroken = inner[inner.index == 2 + np.arange(len(inner))]
        if unbroken.empty:
            return line.iloc[:0]
        log_out = pd.concat([pd.Series({1: 0.0}), unbroken.cumsum()])
        norms, definition = pd.Series(np.nan, index=log_out.index), f"{place}, product of the mean gains"
    facts = line.iloc[[0] * len(log_out)].drop(columns=["layer", "log_gain", "log_norm"]).reset_index(drop=True)
    return facts.assign(
        layer=log_out.index.to_numpy(), value=np.exp(log_out.to_numpy()), norm=norms.to_numpy(), definition=definition
    )


def _traces(tables: Evidence) -> pd.DataFrame:
    attention = _read(tables, "attention", head="", variant=list(VARIANTS)).dropna(subset="trace")
    attention = attention[attention["trace"] > 0]
    by = ["run_id", "variant", "layer"]
    averaged = attention["prompt_id"] == ""
    means = attention[averaged].groupby(by)["trace"].first()
    made = attention[~averaged].groupby(by)["trace"].mean()
    out = means.combine_first(made).rename("value").reset_index().merge(_facts(attention), on="run_id", how="left")
    chosen = _best(out, "variant", list(VARIANTS))
    return chosen.assign(quantity=TRACE, definition=chosen["variant"].map(VARIANTS), norm=np.nan)


def _weights(tables: Evidence) -> pd.DataFrame:
    norms = _read(tables, "weights", head="", matrix=[W_V, W_O]).dropna(subset="spectral_norm")
    parts = [
        _best(part, "matrix", [W_V, W_O]).assign(
            quantity=matrix, value=lambda frame: frame["spectral_norm"], definition="whole matrix", norm=np.nan
        )
        for matrix, part in norms.groupby("matrix")
    ]
    for study in studies().values():
        parts += [_summaries(tables, prefix, *drawn) for prefix, drawn in study.layers.items()]
    return pd.concat([part for part in parts if not part.empty] or parts or [norms])


def _summaries(tables: Evidence, prefix: str, quantity: str, definition: str) -> pd.DataFrame:
    """What a study gives by layer as summaries, drawn with a quantity that it is not."""
    summaries = _read(tables, "summaries")
    summaries = summaries[summaries["estimand"].str.startswith(prefix)]
    layer = summaries["estimand"].str.removeprefix(prefix).astype(int)
    return summaries.assign(layer=layer, quantity=quantity, definition=definition, norm=np.nan)


def _best(rows: pd.DataFrame, by: str, order: list[str]) -> pd.DataFrame:
    """Rows of one run and position or variant per model, revision and origin."""
    if rows.empty:
        return rows
    candidates = rows.groupby([*MODEL, "run_id", by], sort=True)["layer"].nunique().rename("layers").reset_index()
    candidates["line"] = candidates["layers"] >= FEWEST
    candidates["place"] = candidates[by].map({name: place for place, name in enumerate(order)})
    ranked = candidates.sort_values(["line", "place", "layers", "run_id"], ascending=[False, True, False, True])
    chosen = ranked.drop_duplicates(MODEL)[["run_id", by]]
    return rows.merge(chosen, on=["run_id", by])


def _facts(frame: pd.DataFrame) -> pd.DataFrame:
    """Model, lab and origin of every run of a table."""
    runs = frame.drop_duplicates("run_id")
    return runs[["run_id", *MODEL, "source"]]


def _origin(frame: pd.DataFrame, tables: Evidence) -> pd.Series:
    others = tables.named(EXTERNAL).table("runs")["source"]
    origins = {OURS: MEASURED_ORIGIN, NURSERY: TRAINED_ORIGIN, **dict.fromkeys(others, EXTERNAL_ORIGIN)}
    return frame["source"].map(origins).fillna(PUBLISHED_ORIGIN)
