"""Tables of a third study that nobody trained: its frozen design, with gains of a simulated
world."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from altered import shipped

from nursery import designs, tuning
from nursery.component_worlds import logs
from nursery.designs import Member, Pack
from scripts.nursery_tables import extract, packed
from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery import MODELS, THIRD, third
from thermostats.studies.nursery.crossed import CrossedWorld
from thermostats.tables.folders import find_shipped

DESIGN = find_shipped("data") / "nursery" / "third" / "design.toml"
SD = 0.05
"""Of log gains between prompts."""


@cache
def packs() -> tuple[Pack, ...]:
    return tuple(designs.read(DESIGN).packs())


def made(
    world: CrossedWorld,
    *,
    seed: int = 1,
    early: float = 0.9,
    elsewhere: float = 0.0,
    embed: float = 0.0,
    follows: float = 0.5,
    through: float = 0.0,
    crossing: int = 0,
    stiff: float = 1.0,
) -> dict[str, pd.DataFrame]:
    """`models`, `gains` and `prompts` of a world.

    early: correlation of the gain at a tenth of training with that at the end, about its cell;
    elsewhere: what prompts of other corpora add to a log gain; embed: slope of a recipe's gain on
    the log of its embedding; follows: exponents of rate and of 1/decay in spectra; through: slope
    of the gain on the log spectra; crossing: tuned models that cross 1, of 60; stiff: how many
    times as much tuning changes dampening bases as expanding ones.
    """
    rng = np.random.default_rng(seed)
    members = [(member, pack) for pack in packs() for member in pack.members]
    stems = sorted({member.recipe.name.partition("-")[0] for member, _ in members})
    x = np.unique(logs(designs.read(DESIGN).grid), axis=0)
    y = world.simulate_study(len(stems), x, rng)
    facts = pd.DataFrame([_facts(member, pack) for member, pack in members])
    at = [
        np.flatnonzero(
            np.isclose(x, np.log([pack.shape.n_layers, pack.shape.rho, pack.shape.d_model])).all(
                axis=1
            )
        )[0]
        for _, pack in members
    ]
    corpus = (
        facts["corpus"]
        .map({name: place for place, name in enumerate(sorted(third.CORPORA))})
        .to_numpy()
    )
    recipe = (
        facts["recipe"]
        .str.partition("-")[0]
        .map({name: place for place, name in enumerate(stems)})
        .to_numpy()
    )
    spectrum = follows * (
        np.log(facts["rate"]) - np.log(facts["decay"].where(facts["decay"] > 0, 0.1))
    )
    spectrum += 0.1 * rng.normal(size=len(stems))[recipe]
    gain = y[corpus, recipe, at] + embed * np.log(facts["embed"] / 0.14) + through * spectrum
    tuned, ends = _tuned(facts, gain.to_numpy(), crossing, stiff)
    facts, gain = pd.concat([facts, tuned], ignore_index=True), np.append(gain, ends)
    spectrum = np.append(spectrum, np.zeros(len(tuned)))
    return {
        "models": facts[list(MODELS)],
        "gains": _gains(facts, gain, spectrum, early, elsewhere, rng),
        "prompts": _prompts(facts, gain, elsewhere, rng),
    }


def _facts(member: Member, pack: Pack) -> dict[str, object]:
    own = vars(member.recipe) | vars(pack.shape) | vars(member)
    own |= {
        "recipe": member.recipe.name,
        "rho": pack.shape.rho,
        "kind": "",
        "tokens": 1,
        "learned": True,
    }
    own |= {"d_head": pack.shape.d_head}
    return own | {
        "loss": 3.0,
        "loss_unigram": 5.0,
        "loss_bigram": 4.0,
        "steps": pack.steps,
        "model": member.model,
    }


def _tuned(
    facts: pd.DataFrame, gain: np.ndarray, crossing: int, stiff: float
) -> tuple[pd.DataFrame, np.ndarray]:
    """Twenty bases, half of them dampening, each in three kinds; the first so many cross 1 by 0.3.

    The others move away from 1, by about 0.02 where they expand and `stiff` times that where they
    dampen.
    """
    rng = np.random.default_rng(5)
    first = facts.index[facts["replicate_of"] == ""]
    order = first[np.argsort(gain[first])]
    rows, ends = [], []
    for number, (base, kind) in enumerate(
        (b, k) for b in (*order[:10], *order[-10:]) for k in tuning.KINDS
    ):
        own = facts.loc[base]
        corpus = (
            next(name for name in third.CORPORA if name != own["corpus"])
            if kind == "corpus"
            else own["corpus"]
        )
        parent = f"{own['model']}/step{own['steps']:05d}"
        rows.append(
            dict(own)
            | {"model": f"{own['model']}-{kind}", "kind": kind, "parent": parent, "corpus": corpus}
        )
        away = 0.02 * np.exp(0.3 * rng.normal()) * (stiff if gain[base] < 0 else 1.0)
        ends.append(
            -0.3 * np.sign(gain[base])
            if number < crossing
            else gain[base] + away * np.sign(gain[base])
        )
    return pd.DataFrame(rows), np.array(ends)


def _crossed(facts: pd.DataFrame, **axes: list) -> pd.DataFrame:
    rows = facts[["model", "corpus", "n_layers", "steps", "kind"]].assign(row=np.arange(len(facts)))
    for name, values in axes.items():
        rows = rows.merge(pd.DataFrame({name: values}), how="cross")
    return rows


def _gains(facts, gain, spectrum, early, elsewhere, rng):
    rows = _crossed(facts, share=[*third.SHARES, 1.0], prompts=list(third.CORPORA), back=[1, 0])
    rows = rows[(rows["kind"] == "") | rows["share"].isin([0.0, 1.0])]
    cells = facts[["corpus", "n_layers", "rho", "d_model"]].astype(str).agg(" ".join, axis=1)
    mean = pd.Series(gain).groupby(cells.to_numpy()).transform("mean").to_numpy()
    off = gain - mean
    before = mean + early * off + np.sqrt(1 - early**2) * off.std() * rng.normal(size=len(gain))
    at, done = rows["row"].to_numpy(), rows["share"].to_numpy() == 1
    value = (
        np.where(done, gain[at], before[at])
        + elsewhere * (rows["prompts"] != rows["corpus"]).to_numpy()
    )
    made_of = {
        "model": rows["model"],
        "step": (rows["share"] * rows["steps"]).round().astype(int),
        "layer": rows["n_layers"] - rows["back"],
        "log_gain": np.where(rows["back"] == 1, value, 0.1),
        "log_gain_sd": SD,
        "wv_norm": np.exp(spectrum[at]),
        "wo_norm": np.exp(spectrum[at]),
        "prompts": rows["prompts"],
    }
    return pd.DataFrame(made_of)[list(THIRD["gains"])].reset_index(drop=True)


def _prompts(facts, gain, elsewhere, rng):
    rows = _crossed(facts, position=["last", "mean"], prompts=list(third.CORPORA), prompt=[1, 2])
    value = gain[rows["row"]] + elsewhere * (rows["prompts"] != rows["corpus"]).to_numpy()
    rows = rows.assign(penultimate_gain=value, last_gain=value + SD * rng.normal(size=len(rows)))
    return rows[list(THIRD["prompts"])]


def with_third(tables: dict[str, pd.DataFrame]) -> Evidence:
    """The shipped tables with what is read of those of a third study."""
    evidence = shipped().fork()
    read = {"models": tables["models"]} | extract(**tables)
    evidence._frames = {}
    evidence._loaded = dict(evidence._loaded) | {
        f"third_{name}": frame for name, frame in read.items()
    }
    return evidence


def write(tables: dict[str, pd.DataFrame], out: Path) -> None:
    """Write what is read of them."""
    (out / "read").mkdir(parents=True)
    tables["models"].to_csv(out / "models.csv", index=False, lineterminator="\n")
    for name, frame in extract(**tables).items():
        (out / "read" / f"{name}.parquet").write_bytes(packed(frame))
