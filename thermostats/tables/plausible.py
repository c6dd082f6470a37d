"""Rows of other people that can hardly be what they say: far beyond every known row, or against
another column.

Such rows are asked about before they are written; whoever joins them may insist. What this package
measured itself has proofs of its own and is not asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from thermostats.errors import DataError, find_nearest
from thermostats.tables import store
from thermostats.tables.features import STATED_MEANS, collect_prompt_gains
from thermostats.tables.folders import find_shipped
from thermostats.tables.frames import select_rows
from thermostats.tables.identities import COUNTED
from thermostats.tables.labels import find_grouped_misspelt, find_repeated_texts, strip_lab
from thermostats.tables.remedies import Remedy, write_change, write_renaming
from thermostats.tables.schemas import GAINS, NURSERY, OF_RUNS, OURS, TABLES, TEXT
from thermostats.tables.validation import locate_values

Tables = Mapping[str, pd.DataFrame]
FAR = {"ratio": 10.0, "norm": 100.0}
"""By unit of a column: how many times beyond all known rows of its kind a value is far."""
FAR_OF_A_RUN = 5.0
"""The same for a run's median gain, which differs less between models than single rows do."""
ENOUGH = 5
"""Known rows from which on a kind has a range."""
PER_CENT = 100.0
NEAR = 2.0
"""Within this factor of 100, what is too large by a factor is taken for per cent."""
PROJECTED = ("albert", "electra", "opt")
"""Architectures that may have a projection between the embedding and the stream, besides those of
known rows."""
SLACK = 1e-3
DEPTH = 0.02
"""Gap between a stated relative depth and layer over depth that rounding does not explain."""
LABELS = (
    ("models", "model_id", ""),
    ("models", "family", "heritage"),
    ("prompts", "prompt_set", ""),
    ("prompts", "prompt_id", "prompt_set"),
    ("prompts", "category", "prompt_set"),
    ("runs", "source", ""),
    ("runs", "prompt_set", ""),
    ("layers", "prompt_id", "run_id"),
    ("summaries", "prompt_id", "run_id"),
    ("outputs", "prompt_id", "run_id"),
)
"""Columns of labels besides that of labs: table, column, and the column within whose values they
are compared."""
ONCE = "df.drop_duplicates({text})"
"""Rows of prompts with each text once."""
SHOWN = 20
"""Doubts of one kind that are listed."""


def check_plausible(
    incoming: Tables, models: pd.DataFrame, runs: pd.DataFrame, before: Tables
) -> None:
    """Raise DataError that lists what can hardly be as it is, with the row and the likely cause.

    models, runs: those tables as they will be; before: the tables models, runs and prompts as they
    are.
    """
    doubts = [*_check_spaces(incoming), *_check_labels(incoming, before)]
    if "models" in incoming:
        doubts += _check_labs(incoming["models"], before["models"])
        doubts += _check_shapes(incoming["models"], before["models"])
    if "prompts" in incoming:
        doubts += _check_texts(incoming["prompts"], before["prompts"])
    whose = ["model_id", "revision"]
    others = runs[~runs["source"].isin([OURS, NURSERY])]
    facts = models[[*whose, "n_layers", "vocab_size"]]
    about = others[["run_id", *whose]].merge(facts, on=whose)
    rows = {}
    for s in OF_RUNS:
        if s.name in incoming:
            rows[s.name] = _add_facts(incoming[s.name], about)
    checks = {
        "layers": _check_gains,
        "summaries": _check_summaries,
        "weights": _check_weights,
        "outputs": _check_outputs,
    }
    for name, check in {**checks, "transitions": _check_transitions}.items():
        if len(rows.get(name, ())):
            doubts += check(rows[name])
    if doubts:
        raise DataError(
            "these rows are hardly what they say",
            got=f"{len(doubts)} doubt{'s' * (len(doubts) > 1)}",
            rows=[doubt.what for doubt in doubts],
            next_step="correct them, or insist with --accept (accept=True in Python); nothing was "
            "written",
            remedy=_choose_remedy(doubts),
        )


def _add_facts(rows: pd.DataFrame, about: pd.DataFrame) -> pd.DataFrame:
    """Rows of runs with what is said about these; without rows of other runs."""
    place = locate_values(rows["run_id"], about["run_id"])
    rows = rows if (place >= 0).all() else rows[place >= 0]
    facts = about.drop(columns="run_id").take(place[place >= 0])
    return rows.assign(**facts.set_axis(rows.index))


class Doubt(NamedTuple):
    """What is odd, and where its likely cause is known, in whose case the rows that are meant."""

    what: str
    cause: str = ""
    rows: str = ""


def _choose_remedy(doubts: Sequence[Doubt]) -> Remedy:
    """The rows that are meant where every doubt has one cause, else to insist."""
    causes = {(doubt.cause, doubt.rows) for doubt in doubts}
    if len(causes) == 1 and doubts[0].rows:
        insist = "nothing was written; accept=True (--accept) insists"
        return Remedy(when=f"{insist}; {doubts[0].cause}", rows=doubts[0].rows)
    return Remedy(when="nothing was written; correct them, or insist (--accept)", option="accept")


def _check_spaces(incoming: Tables) -> Iterator[Doubt]:
    for name, frame in incoming.items():
        for label, column in TABLES[name].columns.items():
            if column.dtype == TEXT and not column.free:
                texts = frame[label]
                for value in texts[texts != texts.str.strip()].unique():
                    what = (
                        f"{name}, {label} {value!r}: a space at an end; the same without it is "
                        f"another name"
                    )
                    yield Doubt(what, "without the space", write_change(label, "{}.str.strip()"))


def _check_labels(incoming: Tables, held: Tables) -> Iterator[Doubt]:
    """Labels that differ in spelling alone from those in the tables, or from each other."""
    for name, label, within in LABELS:
        if name in incoming:
            for value, meant in find_grouped_misspelt(
                incoming[name], held.get(name), label, within
            ).items():
                what = (
                    f"{name}, {label} {value!r}: {meant!r} is spelt otherwise; two spellings are "
                    f"two names"
                )
                yield Doubt(what, f"if {meant} is meant", write_renaming(label, value, meant))


def _check_texts(prompts: pd.DataFrame, held: pd.DataFrame) -> Iterator[Doubt]:
    """Prompts of a set that are one text under several names."""
    of_sets = held["prompt_set"].isin(prompts["prompt_set"])
    every = pd.concat([held[of_sets], prompts])
    every = every.drop_duplicates(["prompt_set", "prompt_id"], keep="last")
    for of_set, rows in every.groupby("prompt_set"):
        for names in find_repeated_texts(rows["prompt_id"], rows["text_sha256"]).values():
            some = ", ".join(names[:5])
            times = len(names)
            what = f"prompts, {some} of {of_set}: one text {times} times is not {times} prompts"
            yield Doubt(what, "each text once", ONCE)


def _check_labs(new: pd.DataFrame, before: pd.DataFrame) -> Iterator[Doubt]:
    """Labs that differ from one in the tables, or from each other, by capitals, spaces or signs
    alone."""
    labs = set(before["heritage"]) - {""}
    spelt: dict[str, str] = {}
    for lab in sorted(labs):
        spelt[strip_lab(lab)] = lab
    for lab in dict.fromkeys(new["heritage"]):
        if lab and lab not in labs:
            other = spelt.setdefault(strip_lab(lab), lab)
            if other != lab:
                what = (
                    f"models, heritage {lab!r}: the lab {other!r} is spelt otherwise; two "
                    f"spellings are two labs"
                )
                yield Doubt(what, f"if {other} is meant", write_renaming("heritage", lab, other))


def _check_shapes(new: pd.DataFrame, before: pd.DataFrame) -> Iterator[Doubt]:
    """Columns of a model that contradict each other."""
    is_projected = before["d_embed"].ne(before["d_model"]).fillna(False)
    projected = {*PROJECTED, *before.loc[is_projected, "architecture"]}
    for row in new[new["source"] != COUNTED].itertuples():
        name = f"models, {row.model_id}"
        if _is_stated(row.n_kv_heads) and row.n_heads % row.n_kv_heads:
            yield Doubt(
                f"{name}: {row.n_kv_heads} key/value heads do not divide {row.n_heads} heads"
            )
        if (
            _is_stated(row.d_embed)
            and row.d_embed != row.d_model
            and row.architecture not in projected
        ):
            yield Doubt(
                f"{name}: d_embed {row.d_embed} is not d_model {row.d_model}, without a projection "
                f"in between"
            )
        width = row.d_head * row.n_heads if _is_stated(row.d_head) else row.d_model
        least = row.n_layers * row.d_model * width
        for label in ("n_params", "n_params_nonembedding"):
            count = getattr(row, label)
            if _is_stated(count) and count < least:
                held = f"its {row.n_layers} blocks hold in W_Q alone, {least}"
                what = f"{label} {count} is fewer than {held}: in thousands or millions?"
                yield Doubt(f"{name}: {what}")


def _is_stated(value: object) -> bool:
    return not pd.isna(value)


def _check_gains(rows: pd.DataFrame) -> Iterator[Doubt]:
    """Gains and norms of layers, against those that ship: of block 1, and of the others."""
    shipped = _load_shipped("layers")
    first = rows["layer"] == 1
    of_first = shipped["layer"] == 1
    for label, column in TABLES["layers"].columns.items():
        if column.unit in FAR and rows[label].notna().any():
            far = FAR[column.unit]
            values = rows[["model_id", "layer", label]]
            theirs = shipped[[label]]
            parts = {f"{label} of block 1": (first, of_first), label: (~first, ~of_first)}
            for what, (new, known) in parts.items():
                yield from _check_range(values[new], theirs[known], "layers", label, far, what)
    gains = rows.loc[~first, ["run_id", "model_id", "gain_block"]]
    medians = gains.groupby(["run_id", "model_id"])["gain_block"].median().reset_index()
    shipped = shipped[~of_first & shipped["run_id"].isin(_list_uncontrolled())]
    theirs = shipped.groupby("run_id")["gain_block"].median().reset_index()
    what = "median gain of a run's blocks after the first"
    yield from _check_range(medians, theirs, "layers", "gain_block", FAR_OF_A_RUN, what)


@cache
def _load_shipped(name: str) -> pd.DataFrame:
    """A table that ships, which nothing changes."""
    return store.load(name, find_shipped("data"))


def _list_uncontrolled() -> set[str]:
    """Runs that ship and are of no model of the controlled study, whose small models may be far
    from all others."""
    runs = _load_shipped("runs")
    return set(runs.loc[runs["source"] != NURSERY, "run_id"])


@cache
def _load_shipped_gains() -> pd.DataFrame:
    """Every gain that ships, by run and prompt."""
    names = ("runs", "models", "layers", "summaries")
    return collect_prompt_gains(**{name: _load_shipped(name) for name in names})


def _check_summaries(rows: pd.DataFrame) -> Iterator[Doubt]:
    """Named values: names that something reads, gains above 0, and none far beyond those that
    ship."""
    shipped = _load_shipped("summaries")
    gains = _load_shipped_gains()
    moments = (f"{gain}{end}" for gain in GAINS for end in ("_mean", "_sd"))
    read = {*shipped["estimand"], *GAINS, *moments, *STATED_MEANS}
    for estimand in dict.fromkeys(rows.loc[~rows["estimand"].isin(read), "estimand"]):
        meant = find_nearest(estimand, sorted(GAINS))
        doubt = f"summaries, estimand {estimand!r}: nothing reads it"
        if meant:
            renaming = write_renaming("estimand", estimand, meant)
            yield Doubt(f"{doubt}; did you mean {meant}?", f"if {meant} is meant", renaming)
        else:
            yield Doubt(f"{doubt}; one of {', '.join(GAINS)}, or the same with _mean or _sd?")
    named = rows.assign(estimand=rows["estimand"].str.removesuffix("_mean"))
    uncontrolled = gains["run_id"].isin(_list_uncontrolled())
    for gain in GAINS:
        of = select_rows(named, estimand=gain)
        is_gain = gains["gain"] == gain
        for row in of[of["value"] <= 0].head(SHOWN).itertuples():
            what = (
                f"summaries, {row.model_id}: {gain} {row.value:g}, but a gain is above 0: a "
                f"logarithm, decibels?"
            )
            yield Doubt(what, "if they are decibels", write_change("value", "10 ** ({n} / 20)"))
        spreads = select_rows(rows, estimand=f"{gain}_sd")
        for row in spreads[spreads["value"] < 0].head(SHOWN).itertuples():
            what = f"{gain}_sd {row.value:g}, but a standard deviation is not below 0"
            yield Doubt(f"summaries, {row.model_id}: {what}")
        yield from _check_range(of, gains[is_gain], "summaries", "value", FAR["ratio"], gain)
        means = of.groupby(["run_id", "model_id"])["value"].median().reset_index()
        theirs = gains[is_gain & uncontrolled].groupby("run_id")["value"].median().reset_index()
        far = FAR["ratio"] if gain.startswith("total") else FAR_OF_A_RUN
        yield from _check_range(means, theirs, "summaries", "value", far, f"median {gain} of a run")


def _check_weights(rows: pd.DataFrame) -> Iterator[Doubt]:
    shipped = _load_shipped("weights")
    for matrix, of in rows.groupby("matrix"):
        theirs = select_rows(shipped, matrix=matrix)
        for label in ("spectral_norm", "frobenius_norm"):
            what = f"{label} of {matrix}"
            yield from _check_range(of, theirs, "weights", label, FAR["norm"], what)
    bound = rows["frobenius_norm"] * (1 + SLACK)
    for row in rows[rows["spectral_norm"] > bound].head(SHOWN).itertuples():
        where = f"weights, {row.model_id}, layer {row.layer}, {row.matrix}"
        above = f"above the Frobenius norm {row.frobenius_norm:g}"
        yield Doubt(f"{where}: spectral norm {row.spectral_norm:g} {above}")


def _check_outputs(rows: pd.DataFrame) -> Iterator[Doubt]:
    words = rows["vocab_size"].astype("float64").replace(0.0, np.nan)
    most = np.log(words)
    wrong = rows.assign(most=most)[rows["entropy"] > most * (1 + SLACK)]
    for row in wrong.head(SHOWN).itertuples():
        what = f"entropy {row.entropy:g} above log(vocab_size) = {row.most:.3g}: in bits?"
        yield Doubt(f"outputs, {row.model_id}: {what}")


def _check_transitions(rows: pd.DataFrame) -> Iterator[Doubt]:
    depth = rows["layer"] / rows["n_layers"].astype("float64")
    for row in rows[depth > 1].head(SHOWN).itertuples():
        what = f"L* {row.layer:g} lies beyond its {row.n_layers} layers"
        yield Doubt(f"transitions, {row.model_id}: {what}")
    gap = (rows["relative_depth"] - depth).abs()
    for row in rows.assign(depth=depth)[gap > DEPTH].head(SHOWN).itertuples():
        what = f"relative_depth {row.relative_depth:g} is not L*/L = {row.depth:.3g}: in per cent?"
        yield Doubt(f"transitions, {row.model_id}: {what}")


def _check_range(
    rows: pd.DataFrame, shipped: pd.DataFrame, table: str, label: str, far: float, what: str
) -> Iterator[Doubt]:
    """Values above 0 that lie more than `far` times beyond all known ones; the same doubt in many
    rows once a model."""
    theirs = shipped.loc[shipped[label] > 0, label]
    if len(theirs) < ENOUGH:
        return
    low = float(theirs.min())
    high = float(theirs.max())
    values = rows[label]
    over = rows[values > high * far]
    under = rows[(values > 0) & (values < low / far)]
    known = f"any of {len(theirs)} known ({low:.3g} to {high:.3g})"
    for model, of in over.groupby("model_id"):
        value = float(of[label].max())
        where = f"{table}, {model}{_describe_places(of)}"
        cause = _guess_cause(of[label], theirs)
        times = f"{value / high:.3g} times beyond {known}"
        doubt = Doubt(f"{where}: {what} {value:g} is {times}: {cause}")
        if _is_per_cent(of[label], theirs):
            as_share = write_change(label, "{n} / 100")
            doubt = doubt._replace(cause="if they are in per cent", rows=as_share)
        yield doubt
    for model, of in under.groupby("model_id"):
        value = float(of[label].min())
        where = f"{table}, {model}{_describe_places(of)}"
        times = f"{low / value:.3g} times below {known}"
        yield Doubt(f"{where}: {what} {value:g} is {times}: a logarithm, or another unit?")


def _describe_places(rows: pd.DataFrame) -> str:
    if "layer" not in rows:
        return ""
    layers = sorted(set(rows["layer"]))
    noun = "layers" if len(layers) > 1 else "layer"
    some = ", ".join(map(str, layers[:3]))
    return f", {noun} {some}{', …' * (len(layers) > 3)}"


def _guess_cause(values: pd.Series, usual: pd.Series) -> str:
    """Why values may be too large: per cent, where they are a hundred times what is usual."""
    return "per cent?" if _is_per_cent(values, usual) else "another unit?"


def _is_per_cent(values: pd.Series, usual: pd.Series) -> bool:
    ratio = float(values.median() / usual.median())
    return PER_CENT / NEAR <= ratio <= PER_CENT * NEAR
