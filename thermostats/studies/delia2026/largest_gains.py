"""The largest gain of a model's blocks, and how it goes with depth: of which blocks, with which
exponent, and what chance does where more blocks have a larger maximum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from thermostats.claims.claim import Case
from thermostats.claims.evidence import EXTERNAL, Evidence
from thermostats.errors import UsageError
from thermostats.modelling.classical.many import Many, fit_clustered_slopes, fit_slopes
from thermostats.modelling.specification import Statistic
from thermostats.studies.delia2026.published_gains import load_gains
from thermostats.tables.model_rows import model_rows

STATED = -1.0
"""Exponent β of log G_max ∝ L^β where G_max is 10^(1/L), or T^(1/L) for any total T."""
EXPONENT = "exponent"
FACTS = ["model_id", "heritage", "family", "comparable", "n_layers", "n_params_nonembedding"]
EXCHANGES = 2_000
"""Exchanges of blocks between models."""
LEAST = 4
"""Models of a line within families."""


@dataclass(frozen=True)
class Span(Case):
    """Consecutive blocks, of which the largest gain is taken."""

    first: int = 2
    """The first block."""
    left_out: int = 1
    """Blocks at the end that do not count."""

    def mark_blocks(self, gains: pd.DataFrame) -> pd.Series:
        """Which rows of `read_block_gains` are of these blocks."""
        last = gains["n_layers"] - self.left_out
        return gains["layer"].between(self.first, last)

    def count_blocks(self, depths: pd.Series) -> pd.Series:
        """How many blocks models of some depths have in it."""
        return depths - self.left_out - self.first + 1


INNER = Span("inner", "blocks 2 to L − 1", "largest_inner")
SPANS = (
    INNER,
    Span("from_1", "blocks 1 to L − 1", "largest_from_1", first=1),
    Span("from_3", "blocks 3 to L − 1", "largest_from_3", first=3),
    Span("without_two", "blocks 2 to L − 2", "largest_without_two", left_out=2),
)
"""Of which blocks the largest gain may be meant; block 1 lifts the embedding into the stream."""


def read_block_gains(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """Gains of blocks at the last token of the runs of some models: run_id, prompt_id, layer, gain,
    n_layers.

    Prompts one by one where they have every block that the run has; else the means over prompts.
    """
    layers = tables.table("layers", position="last")
    of_models = layers["run_id"].isin(rows["run_id"])
    measured = layers["gain_block"].notna()
    layers = layers[of_models & measured]
    single = layers["prompt_id"] != ""
    of_prompts = layers[single].groupby("run_id")["layer"].nunique()
    every = layers.groupby("run_id")["layer"].nunique()
    complete = of_prompts.reindex(every.index) == every
    whole = set(every.index[complete])
    of_whole = layers["run_id"].isin(whole)
    chosen = layers[single == of_whole]
    named = chosen[["run_id", "prompt_id", "layer", "gain_block"]]
    gains = named.rename(columns={"gain_block": "gain"})
    return gains.merge(rows[["run_id", "n_layers"]])


def find_largest(gains: pd.DataFrame, span: Span) -> pd.Series:
    """The largest gain of a span by run, its mean over prompts.

    A run of which a prompt lacks a block of the span is left out.
    """
    inside = gains[span.mark_blocks(gains)]
    by_prompt = inside.groupby(["run_id", "prompt_id"])
    prompts = by_prompt["gain"].agg(gain="max", blocks="size")
    n_layers = by_prompt["n_layers"].first()
    whole = prompts["blocks"] == span.count_blocks(n_layers)
    kept = prompts[whole.groupby("run_id").transform("all")]
    return kept.groupby("run_id")["gain"].mean()


def exchange_blocks(gains: pd.DataFrame, span: Span, *, seed: int) -> float:
    """Mean correlation of depth with the largest gain where the blocks of all models are exchanged
    at random, each model keeping their number.

    gains: of `read_block_gains`; a block's gain is its mean over prompts. It is above 0, since a
    maximum over more blocks is larger.
    """
    inside = gains[span.mark_blocks(gains)]
    by_block = inside.groupby(["run_id", "layer"])
    gains_of_blocks = by_block["gain"].mean()
    n_layers = by_block["n_layers"].first()
    depths = n_layers.groupby("run_id", sort=False).agg(["first", "size"])
    ends = depths["size"].cumsum().to_numpy()
    starts = np.concatenate([[0], ends[:-1]])
    gains_in_order = gains_of_blocks.to_numpy(float)
    pool = np.tile(gains_in_order, (EXCHANGES, 1))
    rng = np.random.default_rng(seed)
    exchanged = rng.permuted(pool, axis=1)
    largest = np.maximum.reduceat(exchanged, starts, axis=1)
    depth = depths["first"].to_numpy(float)
    centred = largest - largest.mean(axis=1, keepdims=True)
    x = depth - depth.mean()
    of_largest = np.square(centred).sum(axis=1)
    squares = of_largest * np.square(x).sum()
    r = centred @ x / np.sqrt(squares)
    return float(r.mean())


def add_exponent_columns(rows: pd.DataFrame, gain: str) -> pd.DataFrame:
    """Models whose gain is above 1, of which log log G exists, with `log_L` and `outcome`.

    The outcome is log log G + log L, the same at every depth where the exponent is −1.
    """
    growing = rows[rows[gain] > 1]
    growing = growing.reset_index(drop=True)
    log_L = np.log(growing["n_layers"].astype(float))
    log_gain = np.log(growing[gain])
    log_log_gain = np.log(log_gain)
    return growing.assign(log_L=log_L, outcome=log_log_gain - STATED * log_L)


def list_undefined(rows: pd.DataFrame, gain: str) -> list[str]:
    """Models whose gain is not above 1, which have no log log G."""
    undefined = ~(rows[gain] > 1)
    return sorted(rows.loc[undefined, "model_id"])


def fit_family_exponents(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """β of log G ∝ L^β within families, a level each; p: against `STATED`."""
    x = rows["log_L"].to_numpy(float)
    slopes = fit_slopes(x, outcomes["outcome"], rows["family"])
    return {EXPONENT: _add_stated(slopes)}


def fit_model_exponents(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """β of log G ∝ L^β over all models, labs as clusters; p: against `STATED`."""
    x = rows["log_L"].to_numpy(float)
    slopes = fit_clustered_slopes(x, outcomes["outcome"], rows["heritage"])
    return {EXPONENT: _add_stated(slopes)}


def _add_stated(beyond: Many) -> Many:
    """Slopes beyond the stated exponent as exponents."""
    return beyond.shift(STATED)


def build_family_exponent(rows: pd.DataFrame) -> Statistic:
    """The exponent within families as a curve has it, of outcomes of `add_exponent_columns`."""
    codes, families = pd.factorize(rows["family"])
    if len(rows) < max(LEAST, len(families) + 2):
        got = f"{len(rows)} rows of {len(families)} families"
        raise UsageError("too few rows for an exponent", got=got)
    member = codes[:, None] == np.arange(len(families))
    means = member / np.bincount(codes)
    x = rows["log_L"].to_numpy(float)
    inner = x - (x @ means)[codes]
    if not np.ptp(inner) > 0:
        raise UsageError("an exponent needs families of several depths", got=str(families[0]))
    weights = inner / np.square(inner).sum()

    def statistic(outcomes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(outcomes @ weights + STATED)

    return statistic


def list_family_exponents(rows: pd.DataFrame, gain: str) -> pd.DataFrame:
    """Exponent of every family with its interval, and r of depth with the gain: family, n_models,
    exponent, lower, upper, r.

    rows: of `add_exponent_columns`; gain: the column that it took.
    """
    found = []
    for family, own in rows.groupby("family"):
        if own["n_layers"].nunique() < LEAST - 1:
            continue
        outcomes = own[["outcome"]].to_numpy(float).T
        one = fit_family_exponents(own, {"outcome": outcomes})[EXPONENT]
        depths = own["n_layers"].astype(float)
        r = np.corrcoef(depths, own[gain])[0, 1]
        ends = (float(end[0]) for end in (one.estimate, one.lower, one.upper))
        found.append((family, len(own), *ends, float(r)))
    columns = ["family", "n_models", "exponent", "lower", "upper", "r"]
    return pd.DataFrame(found, columns=columns)


def collect_span_rows(evidence: Evidence) -> pd.DataFrame:
    """Models of the study and of other people, each with the largest gain of every span of
    blocks.

    Columns: model_id, heritage, family, comparable, n_layers, n_params_nonembedding; `set` (study,
    or external for models that the study lacks), and the columns of `SPANS`.
    """
    study = load_gains(evidence)
    other = evidence.named(EXTERNAL)
    others = model_rows(other, incomparable=True)
    known = others["model_id"].isin(study["model_id"])
    others = others[~known]
    frames = []
    for name, tables, rows in (("study", evidence, study), ("external", other, others)):
        gains = read_block_gains(tables, rows)
        by_span = {}
        for span in SPANS:
            largest = find_largest(gains, span)
            by_span[span.column] = rows["run_id"].map(largest)
        frames.append(rows[FACTS].assign(set=name, **by_span))
    spans = [span.column for span in SPANS]
    numbers = dict.fromkeys(("n_layers", "n_params_nonembedding", *spans), float)
    return pd.concat(frames, ignore_index=True).astype(numbers)
