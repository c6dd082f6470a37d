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
    rng: np.random.Generator,
    *,
    levels: list[float],
    changes: list[float],
    prompts: int = 25,
    spread: float = 0.1,
) -> pd.DataFrame:
    pairs = []
    for level, change in zip(levels, changes, strict=True):
        base = level + spread * rng.standard_normal(prompts)
        pairs.append((base, base + change + spread / 2 * rng.standard_normal(prompts)))
    return pairs_of_log_gains(pairs)


def pairs_of_log_gains(pairs: list[tuple[np.ndarray, np.ndarray]]) -> pd.DataFrame:
    """Log gains of base and tuned model, by prompt, as rows of `collect_prompt_gains`."""
    rows = []
    for j, (base, tuned) in enumerate(pairs):
        for name, variant, parent, gains in (
            (f"b{j}", "base", "", base),
            (f"t{j}", "instruct", f"b{j}", tuned),
        ):
            facts = {
                "model_id": name,
                "heritage": f"lab{j}",
                "family": f"f{j}",
                "variant": variant,
                "parent": parent,
            }
            rows += [
                {**facts, "prompt_id": f"p{k:02d}", "value": float(np.exp(g))}
                for k, g in enumerate(gains)
            ]
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
                "model_id": f"m{m}",
                "heritage": f"lab{m}",
                "prompt_id": f"p{k:02d}",
                "category": f"c{kind[k]}",
                "value": float(np.exp(gains[k])),
                "entropy": float(entropy[k]),
            }
            for k in range(prompts)
        ]
    return pd.DataFrame(rows)


def transition_truth(rng: np.random.Generator) -> dict[str, float]:
    """Quantities of the line on the logit of depth, drawn from their priors."""
    a, b, c, tau, sigma = rng.normal(0, [1.5, 0.5, 0.5, 0.5, 0.5])
    return {"a": a, "b": b, "c": c, "tau": abs(tau), "sigma": abs(sigma)}


def transition_table(
    rng: np.random.Generator, truth: dict[str, float], *, n: int = 24, labs: int = 6
) -> pd.DataFrame:
    """Networks whose logit of depth is that line, L* = ⌈L p⌉."""
    L, H, lab = network_shapes(rng, n, labs)
    z = [(np.log(v) - np.log(v).mean()) / np.log(v).std() for v in (L, H)]
    place = (
        truth["a"] + truth["b"] * z[0] + truth["c"] * z[1] + rng.normal(0, truth["tau"], labs)[lab]
    )
    place = place + rng.normal(0, truth["sigma"], n)
    return networks(L, H, lab, np.ceil(L / (1 + np.exp(-place))))


def network_shapes(
    rng: np.random.Generator, n: int, labs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Layers, heads and labs of n networks."""
    return (
        rng.choice([12, 16, 24, 32, 36, 48], n),
        rng.choice([8, 12, 16, 20, 32, 40], n),
        np.arange(n) % labs,
    )


def networks(L: np.ndarray, H: np.ndarray, lab: np.ndarray, star: np.ndarray) -> pd.DataFrame:
    """Networks of these shapes and labs with L*, put within the network."""
    n = len(L)
    facts = {
        "model_id": [f"m{i}" for i in range(n)],
        "heritage": [f"lab{j}" for j in lab],
        "source": "simulated",
    }
    return pd.DataFrame({**facts, "n_layers": L, "n_heads": H, "L_star_peak": np.clip(star, 1, L)})


def crowding_table(
    rng: np.random.Generator, kind: str, *, n: int = 36, labs: int = 6
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Gains of a rival drawn from its prior (`constant`, `slope`, `slopes apart`, `step`), with
    what made them."""
    lab = np.arange(n) % labs
    x = rng.normal(-1.6, 0.5, labs)[lab] + rng.normal(0, 0.5, n)
    mean = np.array([x[lab == j].mean() for j in range(labs)])[lab]
    truth = {
        "a": rng.normal(0, 0.5),
        "cut": rng.uniform(x.min(), x.max()),
        "step": rng.normal(0, 0.5),
    }
    truth |= {name: rng.normal(0, 0.25 / x.std()) for name in ("within", "between")}
    truth |= {name: abs(rng.normal(0, 0.25)) for name in ("tau", "sigma")}
    y = (
        truth["a"]
        + rng.normal(0, truth["tau"], labs)[lab]
        + rng.normal(0, np.hypot(truth["sigma"], 0.01), n)
    )
    y += {
        "constant": 0.0,
        "slope": truth["within"] * (x - x.mean()),
        "slopes apart": truth["within"] * (x - mean) + truth["between"] * (mean - x.mean()),
        "step": truth["step"] * (x > truth["cut"]),
    }[kind]
    return model_table(y, rho=np.exp(x), labs=labs), truth
