"""Every fit with a good table, every way to spoil it, and what must come of both: refused or said,
in which words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated import benchmark_table, model_table, pairs_table, transition_table

from thermostats.modelling.crowding import fit_crowding, fit_threshold, read_crowding_rows
from thermostats.modelling.entropy import fit_slopes
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.simulated import simulate_facts
from thermostats.modelling.kleiber import fit_envelope, fit_kleiber, read_bounded_rows
from thermostats.modelling.lines import fit_line
from thermostats.modelling.matched import fit_matched
from thermostats.modelling.measurements import fit_sources
from thermostats.modelling.pairs import build_pairs, fit_invariance
from thermostats.modelling.populations import read_cells
from thermostats.modelling.ranking import fit_benchmark
from thermostats.modelling.shares import fit_share
from thermostats.modelling.spectral_ratio import fit_spectral, read_spectral_rows
from thermostats.modelling.transition import fit_transition, read_transition_rows
from thermostats.modelling.unit_means import fit_unit_means

Table = pd.DataFrame
REFUSED, SAID = "refused", "said"


@dataclass(frozen=True)
class Case:
    """A fit with a good table of n models in so many labs, and where its gain and its geometry
    stand."""

    good: Callable[[int, int], Table]
    fit: Callable[[Table], Any]
    warnings: Callable[[Table], Iterable[str]] | None
    gain: str
    geometry: tuple[str, ...]
    """Columns; what does not vary with all of them constant."""
    copied: Callable[[Table], Table] | None = None
    """Makes the columns of the model rank-deficient."""


def gains(n: int, labs: int) -> Table:
    rng = np.random.default_rng(1)
    table = model_table(
        0.1 + rng.normal(0, 0.1, n), L=rng.choice([6, 12, 24, 36, 48], n), labs=labs
    )
    rho = np.exp(rng.normal(-1.6, 0.6, n))
    return table.assign(rho=rho, ratio=np.exp(rng.normal(0, 0.5, n)))


def averages(n: int, labs: int) -> Table:
    rng = np.random.default_rng(2)
    gain = np.exp(rng.normal(0.1, 0.2, n))
    lab = [f"lab{i % labs}" for i in range(n)]
    facts = (
        simulate_facts(12, 4, rng)
        .head(n)
        .assign(model_id=[f"m{i}" for i in range(n)], heritage=lab)
    )
    return facts.assign(gain=gain, gain_sd=0.1, n_prompts=25, prompt_id="")


def networks(n: int, labs: int) -> Table:
    truth = {"a": 0.3, "b": 0.2, "c": 0.0, "tau": 0.2, "sigma": 0.2}
    return transition_table(np.random.default_rng(3), truth, n=n, labs=labs)


def paired(n: int, labs: int) -> Table:
    rng = np.random.default_rng(4)
    found = pairs_table(
        rng, levels=list(rng.normal(0, 0.3, n)), changes=list(rng.normal(0, 0.1, n)), prompts=5
    )
    return found.assign(heritage="lab" + (found["heritage"].str[3:].astype(int) % labs).astype(str))


def prompted(n: int, labs: int) -> Table:
    rng = np.random.default_rng(5)
    found = benchmark_table(rng, list(np.linspace(-0.2, 0.4, n)))
    return found.assign(heritage="lab" + (found["model_id"].str[1:].astype(int) % labs).astype(str))


def truths(n: int, labs: int) -> Table:
    held = np.random.default_rng(6).random(n) < 0.7
    lab = [f"lab{i % labs}" for i in range(n)]
    return pd.DataFrame({"model_id": [f"m{i}" for i in range(n)], "heritage": lab, "holds": held})


def measured(n: int, labs: int) -> Table:
    """Every model by two sources."""
    rng = np.random.default_rng(7)
    table = model_table(0.1 + rng.normal(0, 0.2, n), labs=labs).assign(
        dtype="float32", prompt_set="p"
    )
    level = np.exp(rng.normal(0, 0.05, n))
    other = table.assign(source="other", dtype="bfloat16", **{GAIN: table[GAIN] * level})
    return pd.concat([table.assign(source="one"), other], ignore_index=True)


def matched(n: int, labs: int) -> Table:
    """Models of three shapes, a family a lab and shape."""
    rng = np.random.default_rng(8)
    table = gains(n, labs).assign(
        n_layers=12, n_heads=[8, 12, 16] * (n // 3) + [8] * (n % 3), d_model=768
    )
    table = table.sort_values("n_heads", ignore_index=True).assign(
        heritage=[f"lab{i % labs}" for i in range(n)], gain=np.exp(rng.normal(0, 0.1, n))
    )
    return (
        table.assign(family=[f"f{i % labs}" for i in range(n)])
        .drop(columns=GAIN)
        .rename(columns={"gain": GAIN})
    )


def ratios(table: Table) -> Table:
    return table[["model_id", "ratio"]]


def of_cells(what: str) -> Callable[[Table], list[str]]:
    return lambda table: read_cells(table, what)[1]


GAIN, PEAK = "penultimate_gain", "L_star_peak"
CASES = {
    "heritage": Case(
        averages,
        lambda t: fit_heritage(t, estimand="last_gain", seed=1),
        None,
        "gain",
        ("n_layers", "n_heads", "d_head"),
        lambda t: t.assign(n_heads=2 * t["n_layers"]),
    ),
    "kleiber": Case(
        gains,
        lambda t: fit_kleiber(t, GAIN, seed=1),
        lambda t: read_bounded_rows(t, GAIN).warnings,
        GAIN,
        ("n_layers",),
    ),
    "envelope": Case(
        gains,
        lambda t: fit_envelope(t, GAIN, seed=1),
        lambda t: read_bounded_rows(t, GAIN).warnings,
        GAIN,
        ("n_layers",),
    ),
    "transition": Case(
        networks,
        lambda t: fit_transition(t, "peak", seed=1),
        lambda t: read_transition_rows(t, "peak").warnings,
        PEAK,
        ("n_layers", "n_heads"),
        lambda t: t.assign(n_heads=t["n_layers"]),
    ),
    "crowding": Case(
        gains,
        lambda t: fit_crowding(t, GAIN, seed=1),
        lambda t: read_crowding_rows(t, GAIN).warnings,
        GAIN,
        ("rho",),
        lambda t: t.assign(rho=t.groupby("heritage")["rho"].transform("first")),
    ),
    "threshold": Case(
        gains,
        lambda t: fit_threshold(t, GAIN, seed=1),
        lambda t: read_crowding_rows(t, GAIN).warnings,
        GAIN,
        ("rho",),
        lambda t: t.assign(rho=t.groupby("heritage")["rho"].transform("first")),
    ),
    "spectral": Case(
        gains,
        lambda t: fit_spectral(t, ratios(t), GAIN, seed=1),
        lambda t: read_spectral_rows(t, ratios(t), GAIN).warnings,
        GAIN,
        ("ratio",),
        lambda t: t.assign(ratio=t.groupby("heritage")["ratio"].transform("first")),
    ),
    "invariance": Case(
        paired,
        lambda t: fit_invariance(t, seed=1),
        lambda t: build_pairs(t)[1],
        "value",
        (),
        lambda t: t.assign(value=t.groupby(["prompt_id", "family"])["value"].transform("first")),
    ),
    "benchmark": Case(
        prompted,
        lambda t: fit_benchmark(t, seed=1),
        of_cells("an order of models"),
        "value",
        (),
        lambda t: t.assign(category=t["prompt_id"]),
    ),
    "slopes": Case(
        prompted,
        lambda t: fit_slopes(t, seed=1),
        lambda t: fit_slopes(t, seed=1).warnings,
        "value",
        (),
        lambda t: t.assign(entropy=t["entropy"].where(t["model_id"] != "m0", 3.0)),
    ),
    "unit_means": Case(
        prompted, lambda t: fit_unit_means(t, "value", scale=0.5, seed=1), None, "value", ()
    ),
    "share": Case(truths, lambda t: fit_share(t, "holds", seed=1), None, "holds", ()),
    "sources": Case(measured, lambda t: fit_sources(t, GAIN, seed=1), None, GAIN, ()),
    "matched": Case(
        matched,
        lambda t: fit_matched(t, GAIN, focal="lab0", seed=1),
        None,
        GAIN,
        ("n_layers", "n_heads", "d_model"),
        lambda t: t.assign(n_heads=t["heritage"].str[3:].astype(int)),
    ),
    "line": Case(
        gains,
        lambda t: fit_line(t, GAIN, ["n_layers", "rho"], scale=0.5, seed=1),
        None,
        GAIN,
        ("n_layers", "rho"),
        lambda t: t.assign(rho=2.0 * t["n_layers"]),
    ),
}


def first(value: float) -> Callable[[Case], Table]:
    """A good table whose first row has that gain."""

    def make(case: Case) -> Table:
        table = case.good(12, 4)
        changed = table[case.gain].astype(object if case.gain == "holds" else float)
        return table.assign(**{case.gain: changed.where(np.arange(len(table)) > 0, value)})

    return make


def geometry(value: Any) -> Callable[[Case], Table]:
    """A good table with that geometry in the first row, or in all where it is a number."""

    def make(case: Case) -> Table:
        table, rows = case.good(12, 4), slice(None) if np.isfinite(value) else slice(1)
        for column in case.geometry:
            values = table[column].astype(float)
            values.iloc[rows] = value
            table = table.assign(**{column: values})
        return table

    return make


BAD: dict[str, Callable[[Case], Table]] = {
    "one lab": lambda case: case.good(12, 1),
    "one model a lab": lambda case: case.good(12, 12),
    "two models": lambda case: case.good(2, 2),
    "no lab": lambda case: (t := case.good(12, 4)).assign(
        heritage=t["heritage"].where(np.arange(len(t)) > 0)
    ),
    "gain of zero": first(0.0),
    "gain below zero": first(-1.0),
    "infinite gain": first(np.inf),
    "gain not known": first(np.nan),
    "gain in words": lambda case: case.good(12, 4).assign(**{case.gain: "much"}),
    "constant gain": lambda case: (t := case.good(12, 4)).assign(
        **{case.gain: [t[case.gain].min()] * len(t)}
    ),
    "geometry not known": geometry(np.nan),
    "constant geometry": geometry(48.0),
    "rank-deficient": lambda case: (
        case.copied(case.good(12, 4)) if case.copied else pytest.fail("no such columns")
    ),
}
COMMON = {
    "gain in words": (REFUSED, "a column is not numeric"),
    "no lab": (REFUSED, "labels are missing"),
    "infinite gain": (REFUSED, "missing or infinite values"),
    "constant gain": (REFUSED, "constant column decides nothing"),
}
LOGARITHMS = dict.fromkeys(("gain of zero", "gain below zero"), (REFUSED, "logarithm is taken"))
COLUMNS = {
    "two models": (REFUSED, "too few points"),
    "geometry not known": (REFUSED, "missing or infinite values"),
    "constant geometry": (REFUSED, "constant column decides nothing"),
}
READ = COLUMNS | {
    **dict.fromkeys(
        ("gain of zero", "gain below zero", "infinite gain"),
        (REFUSED, "a gain is not positive and finite"),
    ),
    "gain not known": (SAID, "no penultimate_gain, left out: 1 of 12 models (m0000)"),
    "geometry not known": (REFUSED, "missing geometry"),
}
"""Of fits with one row a model (`read_model_gains`)."""
UNKNOWN = {"gain not known": (REFUSED, "missing or infinite values")}
"""What several fits have in common."""
EXPECTED: dict[str, dict[str, tuple[str, str]]] = {
    "heritage": COMMON
    | READ
    | {
        "one lab": (REFUSED, "one lab"),
        "one model a lab": (REFUSED, "every lab has one model"),
        "two models": (REFUSED, "too few models"),
        "gain not known": (SAID, "no gain, left out: 1 of 12 models (m0)"),
        "geometry not known": (SAID, "left out: 1 of 12 models (m0)"),
        "constant geometry": (REFUSED, "a block without variation"),
        "rank-deficient": (SAID, "geometry has rank 2 of 3 columns"),
    },
    "kleiber": COMMON
    | READ
    | {"one lab": (SAID, "only one lab"), "one model a lab": (SAID, "one model of every lab")},
    "transition": COLUMNS
    | {
        "one lab": (REFUSED, "no other lab to predict"),
        "one model a lab": (SAID, "one network of every lab"),
        "no lab": (REFUSED, "labels are missing"),
        "gain of zero": (REFUSED, "outside its network"),
        "gain below zero": (REFUSED, "outside its network"),
        "infinite gain": (REFUSED, "infinite values"),
        "gain in words": (REFUSED, "a column is not numeric"),
        "gain not known": (SAID, "no L* of this definition, left out: 1 of 12 models (m0)"),
        "constant gain": (SAID, "in every network: L*/L varies with the depth alone"),
        "constant geometry": (SAID, "L is the same in every network: no slope"),
        "rank-deficient": (SAID, "their slopes cannot be separated"),
    },
    "crowding": COMMON
    | READ
    | {
        "one lab": (REFUSED, "there is no variation between labs"),
        "one model a lab": (SAID, "does not vary within any lab"),
        "rank-deficient": (SAID, "does not vary within any lab"),
    },
    "spectral": COMMON
    | READ
    | {
        "one lab": (REFUSED, "labs are predicted from the others"),
        "one model a lab": (SAID, "one model per lab"),
        "gain not known": (SAID, "ratio known, gain not: m0000"),
        "rank-deficient": (SAID, "the ratio differs between labs only"),
        "geometry not known": (REFUSED, "missing or infinite values"),
    },
    "invariance": COMMON
    | LOGARITHMS
    | UNKNOWN
    | {
        "one lab": (SAID, "all pairs are of lab0"),
        "constant gain": (REFUSED, "one gain of a pair is constant"),
        "rank-deficient": (REFUSED, "follows from the other exactly"),
    },
    "benchmark": COMMON
    | LOGARITHMS
    | UNKNOWN
    | {
        "one lab": (SAID, "one lab: an order of models says nothing about labs"),
        "one model a lab": (SAID, "one model per lab: an order of models is not yet one of labs"),
        "two models": (SAID, "2 models: differences between models rest on the priors"),
        "rank-deficient": (SAID, "one prompt per category"),
    },
    "slopes": COMMON
    | LOGARITHMS
    | UNKNOWN
    | {
        "one lab": (SAID, "one lab: a slope over models says nothing about labs"),
        "one model a lab": (SAID, "one model per lab: a slope over models is not yet one of labs"),
        "two models": (SAID, "2 models: differences between models rest on the priors"),
        "rank-deficient": (SAID, "no slope of m0"),
    },
    "unit_means": {name: said for name, said in {**COMMON, **UNKNOWN}.items() if name != "no lab"},
    "share": {
        "one lab": (SAID, "one heritage: units count as independent"),
        "one model a lab": (SAID, "one unit of every heritage"),
        "two models": (SAID, "2 units: the share stays close to its prior"),
        "no lab": (REFUSED, "labels are missing"),
        "gain not known": (REFUSED, "values are missing"),
        "gain below zero": (REFUSED, "neither true nor false"),
        "gain in words": (REFUSED, "neither true nor false"),
        "constant gain": (SAID, "it holds for"),
    },
    "sources": COMMON | LOGARITHMS,
    "matched": COMMON
    | LOGARITHMS
    | {
        "one lab": (REFUSED, "too few shapes that the focal lab shares"),
        "one model a lab": (REFUSED, "too few shapes that the focal lab shares"),
        "two models": (REFUSED, "too few shapes that the focal lab shares"),
        "gain not known": (SAID, "no penultimate_gain, left out: 1 of 12 models (m0000)"),
        "geometry not known": (REFUSED, "labels are missing"),
        "constant geometry": (REFUSED, "too few shapes that the focal lab shares"),
        "rank-deficient": (REFUSED, "too few shapes that the focal lab shares"),
    },
    "line": COMMON
    | COLUMNS
    | UNKNOWN
    | {
        "one lab": (SAID, "one heritage: its level cannot be separated from the mean"),
        "one model a lab": (SAID, "one row of every heritage"),
        "rank-deficient": (SAID, "columns of rank 1 of 2"),
    },
}
EXPECTED |= {"envelope": EXPECTED["kleiber"], "threshold": EXPECTED["crowding"]}
TAKEN = {
    ("invariance", "one model a lab"): "pairs of several labs are one population",
    ("invariance", "two models"): "two pairs: the number is said in the result",
    **{
        ("unit_means", bad): "labs are not read"
        for bad in ("one lab", "one model a lab", "no lab", "two models")
    },
    **{
        ("unit_means", f"gain {what} zero"): "an outcome may have any sign"
        for what in ("of", "below")
    },
    ("share", "gain of zero"): "0 is false",
    ("sources", "one lab"): "kinds with one value are left out and named",
    ("sources", "one model a lab"): "kinds that coincide are named",
    ("sources", "two models"): "levels of few are close to their priors",
    ("sources", "gain not known"): "a row without the gain is no measurement of it",
    ("line", "gain of zero"): "an outcome may have any sign",
    ("line", "gain below zero"): "an outcome may have any sign",
}
"""What is no bad input of a fit, or is said where the fit is made."""
