"""Tables with a known truth, and what a study of a given size can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling import heritage_gaussian as gaussian
from thermostats.modelling.draws import Array
from thermostats.modelling.heritage_design import BLOCKS, Design, design

TOTAL_SD = 0.5
SUPPORTED_ABOVE = 0.95
HEAD_WIDTHS = (64, 80, 128, 256)
VOCABULARIES = (32_000, 50_304, 128_256, 256_000)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A table as `fit_heritage` takes it, with what it was made from."""

    table: pd.DataFrame
    shares: Mapping[str, float]
    total: float
    contributions: Mapping[str, Array]
    """Per block, one value a model, models in order of their names."""
    means: Array
    """True log gain of every model."""
    sds: Mapping[str, float]
    """Finite-population standard deviations of the contributions."""


@dataclass(frozen=True, kw_only=True)
class Power:
    """How often a study of this size gives posterior probabilities above `threshold`."""

    n_models: int
    n_labs: int
    shares: Mapping[str, float]
    simulations: int
    threshold: float
    rates: Mapping[str, float]
    """Per statement, share of simulated studies in which its posterior probability is above the threshold."""
    errors: Mapping[str, float]
    """Standard errors of the rates."""


def model_facts(n_models: int, n_labs: int, rng: np.random.Generator) -> pd.DataFrame:
    """Models of labs with geometry as it is met: labs keep to a head width, depth and heads vary.

    Embeddings are tied or not. Labs take turns, so that their sizes differ by one at most.
    """
    if n_labs < 2 or n_models < n_labs + 1 or n_models < 4:
        raise UsageError(
            "no study of this size", got=f"{n_models} models in {n_labs} labs",
            allowed="2 labs or more, 4 models or more, more models than labs",
        )  # fmt: skip
    lab = np.arange(n_models) % n_labs
    favourite = rng.choice(HEAD_WIDTHS, size=n_labs)
    d_head = np.where(rng.random(n_models) < 0.8, favourite[lab], rng.choice(HEAD_WIDTHS, size=n_models))
    n_layers = np.clip(np.round(np.exp(rng.normal(np.log(24), 0.4, size=n_models))), 4, 96).astype(int)
    width = 64 * n_layers * np.exp(rng.normal(0.3, 0.3, size=n_models))
    n_heads = np.maximum(np.round(width / d_head), 2).astype(int)
    width = n_heads * d_head
    vocabulary = rng.choice(VOCABULARIES, size=n_labs)[lab] * rng.integers(1, 3, size=n_models)
    n_params = 12 * n_layers * width**2 + vocabulary * width
    return pd.DataFrame(
        {
            "model_id": [f"lab{j:03d}/model{i:04d}" for i, j in enumerate(lab)],
            "heritage": [f"lab{j:03d}" for j in lab],
            "n_layers": n_layers,
            "n_heads": n_heads,
            "d_head": d_head,
            "n_params": n_params,
        }
    )


def simulate_heritage(
    facts: pd.DataFrame,
    *,
    shares: Mapping[str, float],
    total: float = 0.2,
    mean: float = 0.0,
    n_prompts: int = 25,
    prompt_sd: float = 0.05,
    nu: float = 5.0,
    n_categories: int = 5,
    category_sd: float = 0.01,
    seed: int,
) -> Simulated:
    """A table of gains per prompt from the heritage model with given shares (the model's own is what is left of 1).

    Models differ in their prompt scale by a factor of about 1.6 either way; prompts are Student-t with `nu` degrees of
    freedom about model and category.
    """
    rng = np.random.default_rng(seed)
    blank = design(facts.assign(gain=1.0), "simulated")
    parts = contributions(blank, shares, total, rng)
    order = {name: i for i, name in enumerate(blank.models)}
    means = mean + sum(parts.values())
    index = np.repeat([order[name] for name in facts["model_id"]], n_prompts)
    category = np.tile(np.arange(n_prompts) % n_categories, len(facts))
    effect = rng.normal(scale=category_sd, size=n_categories)
    scale = prompt_sd * np.exp(rng.normal(scale=0.5, size=len(facts)))
    noise = rng.standard_t(nu, size=index.size) * scale[index]
    table = facts.loc[facts.index.repeat(n_prompts)].assign(
        prompt_id=np.tile([f"p{i:03d}" for i in range(n_prompts)], len(facts)),
        category=[f"category {c}" for c in category],
        gain=np.exp(np.asarray(means)[index] + (effect - effect.mean())[category] + noise),
    )
    return Simulated(
        table=table.reset_index(drop=True),
        shares=dict(shares),
        total=total,
        contributions=parts,
        means=np.asarray(means),
        sds={name: float(gaussian.block_sds(part)) for name, part in parts.items()},
    )


def contributions(
    blank: Design, shares: Mapping[str, float], total: float, rng: np.random.Generator
) -> dict[str, Array]:
    """One draw of every block's contribution for given shares and total standard deviation."""
    own = 1 - sum(shares.get(name, 0.0) for name in BLOCKS[:-1])
    unknown = set(shares) - set(BLOCKS)
    if unknown or own < -1e-9 or min(shares.values(), default=0.0) < 0:
        raise UsageError("not shares of one whole", got=dict(shares), allowed=f"{', '.join(BLOCKS[:-1])}, together ≤ 1")
    full = {**{name: shares.get(name, 0.0) for name in BLOCKS[:-1]}, BLOCKS[-1]: max(own, 0.0)}
    return {
        name: total * np.sqrt(full[name]) * (gaussian.block_root(covariance) @ rng.normal(size=blank.n_models))
        for name, covariance in blank.covariances().items()
    }


def power(
    n_models: int,
    n_labs: int,
    shares: Mapping[str, float],
    *,
    total: float = 0.2,
    error: float = 0.01,
    simulations: int = 400,
    designs: int = 8,
    threshold: float = SUPPORTED_ABOVE,
    seed: int,
) -> Power:
    """What a study of N models in M labs could show if these were the shares, by the closed-form model.

    `total`: SD of log gain between models; `error`: standard error of a model's mean over prompts. Geometry is drawn
    anew for each of `designs` designs.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {}
    for number in range(designs):
        blank = design(model_facts(n_models, n_labs, rng).assign(gain=1.0), "simulated")
        prepared = gaussian.prepare(
            blank.covariances(), np.full(n_models, error), total_sd=TOTAL_SD, seed=seed + number,
            shares=2000 if n_models <= 60 else 600,
        )  # fmt: skip
        for _ in range(-(-simulations // designs)):
            y = np.sum(list(contributions(blank, shares, total, rng).values()), axis=0)
            y = y + rng.normal(scale=error, size=n_models)
            drawn = gaussian.posterior(prepared, y, seed=int(rng.integers(2**31)), draws=500)
            for statement, probability in gaussian.orders(drawn["sd"]).items():
                found.setdefault(statement, []).append(probability)
    rates = {statement: float(np.mean(np.array(values) > threshold)) for statement, values in found.items()}
    done = designs * -(-simulations // designs)
    return Power(
        n_models=n_models,
        n_labs=n_labs,
        shares=dict(shares),
        simulations=done,
        threshold=threshold,
        rates=rates,
        errors={statement: float(np.sqrt(rate * (1 - rate) / done)) for statement, rate in rates.items()},
    )
