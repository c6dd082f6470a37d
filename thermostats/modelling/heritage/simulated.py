"""Studies of heritage with a known truth: geometry as it is met, and gains with stated shares of
variance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.modelling.heritage.law import OWN, STANDARD, list_bases

HEAD_WIDTHS = (64, 80, 128, 256)
CATEGORY_SD = 0.01
VOCABULARIES = (32_000, 50_304, 128_256, 256_000)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A table as `fit_heritage` takes it, with what it was made from."""

    table: pd.DataFrame
    contributions: Mapping[str, Array]
    """Per block, one value per model, models in order of their names."""
    means: Array
    """True log gain of every model."""
    sds: Mapping[str, float]
    """Finite-population standard deviations of the contributions."""


def simulate_facts(
    n_models: int, n_labs: int, rng: np.random.Generator, *, geometry: str = "met"
) -> pd.DataFrame:
    """Models of labs with geometry as it is met: labs keep to a head width, depth and heads vary.

    Embeddings are tied or not. Labs take turns, so that their sizes differ by one at most. log
    parameters then have R² ≈ 0.96 on log L, log H, log d_h (0.98 in the tables that ship), and the
    lab explains two thirds of log ρ. geometry: met; free, the same with labs dealt out at random;
    unrelated, a number of parameters that has nothing to do with depth, heads and width either.
    """
    lab = np.arange(n_models) % n_labs
    favourite = rng.choice(HEAD_WIDTHS, size=n_labs)
    keeps = rng.random(n_models) < 0.8
    d_head = np.where(keeps, favourite[lab], rng.choice(HEAD_WIDTHS, size=n_models))
    log_depth = rng.normal(np.log(24), 0.4, size=n_models)
    depth = np.exp(log_depth)
    n_layers = np.clip(np.round(depth), 4, 96).astype(int)
    width = 64 * n_layers * np.exp(rng.normal(0.3, 0.3, size=n_models))
    heads = np.round(width / d_head)
    n_heads = np.maximum(heads, 2).astype(int)
    width = n_heads * d_head
    words = rng.choice(VOCABULARIES, size=n_labs)[lab]
    vocabulary = words * rng.integers(1, 3, size=n_models)
    n_params = 12 * n_layers * width**2 + vocabulary * width
    if geometry != "met":
        lab = rng.permutation(lab)
    if geometry == "unrelated":
        n_params = rng.permutation(n_params)
    labs = [f"lab{j:03d}" for j in lab]
    models = [f"{name}/model{i:04d}" for i, name in enumerate(labs)]
    columns = {
        "model_id": models,
        "heritage": labs,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "d_head": d_head,
        "n_params": n_params,
    }
    return pd.DataFrame(columns)


def simulate_heritage(
    facts: pd.DataFrame,
    *,
    shares: Mapping[str, float],
    total: float = 0.2,
    n_prompts: int = 25,
    prompt_sd: float = 0.05,
    nu: float = 5.0,
    n_categories: int = 5,
    seed: int,
) -> Simulated:
    """A table of gains per prompt from the heritage model with given shares (the model's own is
    what is left of 1).

    Models differ in their prompt scale by a factor of about 1.6 either way; prompts are Student-t
    with `nu` degrees of freedom about model and category.
    """
    rng = np.random.default_rng(seed)
    models = facts.sort_values("model_id")
    bases = list_bases(STANDARD.design_rows(models))
    parts = simulate_contributions(bases, shares, total, rng)
    order = {name: i for i, name in enumerate(models["model_id"])}
    means = np.asarray(sum(parts.values()))
    places = [order[name] for name in facts["model_id"]]
    index = np.repeat(places, n_prompts)
    categories = np.arange(n_prompts) % n_categories
    category = np.tile(categories, len(facts))
    effect = rng.normal(scale=CATEGORY_SD, size=n_categories)
    log_scale = rng.normal(scale=0.5, size=len(facts))
    scale = prompt_sd * np.exp(log_scale)
    noise = rng.standard_t(nu, size=index.size) * scale[index]
    prompts = [f"p{i:03d}" for i in range(n_prompts)]
    centred = effect - effect.mean()
    repeated = facts.index.repeat(n_prompts)
    log_gain = means[index] + centred[category] + noise
    table = facts.loc[repeated].assign(
        prompt_id=np.tile(prompts, len(facts)),
        category=[f"category {c}" for c in category],
        gain=np.exp(log_gain),
    )
    sds = {name: float(part.std()) for name, part in parts.items()}
    return Simulated(table=table.reset_index(drop=True), contributions=parts, means=means, sds=sds)


def simulate_contributions(
    bases: Mapping[str, Array], shares: Mapping[str, float], total: float, rng: np.random.Generator
) -> dict[str, Array]:
    """One draw of every block's contribution for given shares and total standard deviation, the
    model's own last."""
    stated = sum(shares.get(name, 0.0) for name in bases)
    remainder = 1 - stated
    unknown = set(shares) - {*bases, OWN}
    if unknown or remainder < -1e-9 or min(shares.values(), default=0.0) < 0:
        allowed = f"{', '.join(bases)}, together ≤ 1"
        raise UsageError("not shares of one whole", got=dict(shares), allowed=allowed)
    parts = {}
    for name, x in bases.items():
        share = np.sqrt(shares.get(name, 0.0))
        effects = rng.normal(size=x.shape[1])
        parts[name] = share * (x @ effects)
    n_models = len(next(iter(bases.values())))
    rest_sd = np.sqrt(max(remainder, 0.0))
    rest = rest_sd * rng.normal(size=n_models)
    contributions = {}
    for name, part in {**parts, OWN: rest}.items():
        contributions[name] = total * part
    return contributions
