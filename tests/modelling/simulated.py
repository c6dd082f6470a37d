"""Tables with a known truth for the model families."""

from __future__ import annotations

import numpy as np
import pandas as pd


def model_table(
    log_gain: np.ndarray,
    *,
    L: np.ndarray | None = None,
    rho: np.ndarray | None = None,
    labs: int = 6,
    error: float = 0.01,
    prompts: int = 25,
    estimand: str = "penultimate_gain",
) -> pd.DataFrame:
    n = log_gain.size
    depth = np.full(n, 24) if L is None else L
    return pd.DataFrame(
        {
            "model_id": [f"m{i:04d}" for i in range(n)],
            "heritage": [f"lab{i % labs}" for i in range(n)],
            "source": "simulated",
            "comparable": True,
            "n_layers": depth,
            "n_heads": 8 + np.arange(n) % 5,
            "rho": np.exp(np.linspace(-3, 0, n)) if rho is None else rho,
            "n_params_nonembedding": 10 ** (8 + (np.arange(n) * 7 % 5) / 2),
            estimand: np.exp(log_gain),
            f"{estimand}_sd": np.exp(log_gain) * error * np.sqrt(prompts),
            f"{estimand}_n": prompts,
        }
    )


def pairs_table(
    rng: np.random.Generator, *, levels: list[float], changes: list[float], prompts: int = 25, spread: float = 0.1
) -> pd.DataFrame:
    rows = []
    for j, (level, change) in enumerate(zip(levels, changes, strict=True)):
        base = level + spread * rng.standard_normal(prompts)
        tuned = base + change + spread / 2 * rng.standard_normal(prompts)
        for name, variant, parent, gains in ((f"b{j}", "base", "", base), (f"t{j}", "instruct", f"b{j}", tuned)):
            rows += [
                {
                    "model_id": name, "heritage": f"lab{j}", "family": f"f{j}", "variant": variant, "parent": parent,
                    "prompt_id": f"p{k:02d}", "value": float(np.exp(g)),
                }
                for k, g in enumerate(gains)
            ]  # fmt: skip
    return pd.DataFrame(rows)


def benchmark_table(
    rng: np.random.Generator,
    levels: list[float],
    *,
    prompt_sd: float = 0.05,
    category_sd: float = 0.1,
    noise: float = 0.03,
    slope: float = 0.6,
    prompts: int = 25,
    categories: int = 5,
) -> pd.DataFrame:
    kind = np.arange(prompts) % categories
    by_category = category_sd * rng.standard_normal(categories)
    by_prompt = prompt_sd * rng.standard_normal(prompts)
    rows = []
    for m, level in enumerate(levels):
        gains = level + by_category[kind] + by_prompt + noise * rng.standard_normal(prompts)
        z = (gains - gains.mean()) / gains.std()
        entropy = 4 + slope * z + np.sqrt(1 - slope**2) * rng.standard_normal(prompts)
        rows += [
            {
                "model_id": f"m{m}", "heritage": f"lab{m}", "prompt_id": f"p{k:02d}", "category": f"c{kind[k]}",
                "value": float(np.exp(gains[k])), "entropy": float(entropy[k]),
            }
            for k in range(prompts)
        ]  # fmt: skip
    return pd.DataFrame(rows)
