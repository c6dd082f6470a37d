"""Tables of a controlled study that nobody trained: the shipped design with log gains of known causes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery.design import model_matrix
from thermostats.studies.nursery.plan import shipped_table
from thermostats.tables.features import GAINS
from thermostats.tables.vocabulary import NURSERY

DATA = Path(__file__).parents[2] / "data"
STEPS = 600
PROMPTS, WITHIN = 12, 0.02
Truth = Callable[[pd.DataFrame], np.ndarray]
"""From the design's model matrix to what every model's log gain is without noise."""


class Simulated(Evidence):
    """The shipped tables, with trained models whose gains have known causes; `models`: how many, all by default."""

    def __init__(
        self, truth: Truth, *, noise: float = 0.05, seed: int = 1, models: int | None = None, ratio: Truth | None = None
    ) -> None:
        super().__init__(DATA)
        design = shipped_table().iloc[:models]
        self.made = made(design, truth, noise, seed, ratio)
        self.records = pd.DataFrame(
            {
                "model": design["model"],
                "parent": "",
                "corpus": design["corpus"],
                "steps": STEPS,
                "loss": 4.0,
                "loss_unigram": 5.0,
                "learned": True,
            }
        )

    def named(self, name: str) -> Simulated:
        """Itself: what is simulated belongs to the controlled study."""
        return self

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        if name == "features" and equals.get("source") == NURSERY:
            return self.made.copy()
        return self.records.copy() if name == "nursery_training" else super().table(name, **equals)


def made(design: pd.DataFrame, truth: Truth, noise: float, seed: int, ratio: Truth | None) -> pd.DataFrame:
    """Rows of `features` at the end of training, every gain with the same causes and noise of its own."""
    rng = np.random.default_rng(seed)
    matrix = model_matrix(design)
    expected = np.asarray(truth(matrix), dtype=np.float64)
    log_ratio = rng.normal(0, 0.1, len(design)) + (ratio(matrix) if ratio else 0.0)
    rows = pd.DataFrame(
        {
            "model_id": NURSERY + "/" + design["model"],
            "revision": f"step{STEPS}",
            "source": NURSERY,
            "comparable": (design["norm"] != "post").to_numpy(),
            "n_params": 12 * design["n_layers"] * design["d_model"] ** 2,
            "wv_wo_ratio": np.exp(log_ratio),
        }
    )
    rows["n_params_nonembedding"] = rows["n_params"]
    for gain in GAINS:
        log_gain = expected + rng.normal(0, noise, len(design))
        rows[gain] = rows[f"{gain}_geometric"] = np.exp(log_gain)
        rows[f"{gain}_sd"], rows[f"{gain}_n"] = WITHIN * np.exp(log_gain), PROMPTS
    return rows.reset_index(drop=True)
