"""Tables of a controlled study that nobody trained: the shipped design with norms, gains and curves
of known truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
from altered import ROOT

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery import load_shipped_table
from thermostats.tables.schemas import NURSERY

STEPS = 600
LAST, START = "step00600", "step00000"


class Made(Evidence):
    """The shipped tables with made-up rows of the controlled study, whatever the set of evidence;
    no later study."""

    def __init__(self, design: pd.DataFrame, **frames: pd.DataFrame) -> None:
        super().__init__(ROOT / "data")
        facts = {"parent": "", "steps": STEPS, "loss": 4.0, "loss_unigram": 5.0, "learned": True}
        self.records, self.frames = design[["model", "corpus"]].assign(**facts), frames

    def named(self, name: str) -> Made:
        return self

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        if name == "nursery_training":
            return self.records.copy()
        if name.startswith(("second_", "third_")) and name not in self.frames:
            return super().table(name, **equals).iloc[:0]
        if name not in self.frames or equals.get("source", NURSERY) != NURSERY:
            return super().table(name, **equals)
        rows = self.frames[name]
        for column, wanted in equals.items():
            rows = rows[rows[column].isin(wanted if isinstance(wanted, list) else [wanted])]
        return rows.copy()


class Trained(Made):
    """Trained models whose norms, gains and curves are made up.

    elasticity: of the gain by ‖W_V‖/‖W_O‖. cut: factor by which the published slicing changes W_V
    in GPT-2's layout. loud: factor of the norms of the first recipe's models. levels: of the
    anisotropy, at the end of training.
    """

    def __init__(
        self,
        models: int,
        *,
        elasticity: float = 0.0,
        cut: float = 5.0,
        loud: float = 1.0,
        levels: tuple[int, ...] = (0,),
    ) -> None:
        rng = np.random.default_rng(4)
        design = (
            load_shipped_table()
            .sort_values(["n_layers", "model"], ascending=[False, True])
            .head(max(models, 1))
        )
        gains, weights, layers = [], [], []
        for row in design.itertuples():
            base = {
                "model_id": f"{NURSERY}/{row.model}",
                "source": NURSERY,
                "heritage": NURSERY,
                "run_id": row.model,
            }
            scale = float(np.exp(rng.normal(0, 0.3))) * (
                loud if row.recipe == design["recipe"].iloc[0] else 1.0
            )
            gain = scale**elasticity * float(np.exp(rng.normal(0, 0.02)))
            measured = {
                "penultimate_gain": gain,
                "penultimate_gain_geometric": gain,
                "penultimate_gain_sd": 0.02,
            }
            known = {
                "comparable": row.norm != "post",
                "prompt_set": NURSERY,
                "n_params_nonembedding": 1000,
            }
            gains.append(base | measured | known | {"revision": LAST, "penultimate_gain_n": 12})
            thirds = [("W_V_published_thirds", scale * cut)] if row.model_type == "gpt2" else []
            for layer in range(1, row.n_layers + 1):
                at = {"layer": layer, "head": "", "revision": LAST}
                weights += [
                    base | at | {"matrix": m, "spectral_norm": v}
                    for m, v in [("W_V", scale), ("W_O", 1.0), *thirds]
                ]
                level = levels[(layer - 1) * len(levels) // row.n_layers] / 5
                layers += [
                    base
                    | {
                        "layer": layer,
                        "revision": step,
                        "anisotropy": by * level + 0.01 * rng.normal(),
                    }
                    for step, by in ((LAST, 1), (START, 0))
                ]
        made = {
            "features": pd.DataFrame(gains),
            "weights": pd.DataFrame(weights),
            "layers": pd.DataFrame(layers),
        }
        super().__init__(
            design, **{name: frame if models else frame.iloc[:0] for name, frame in made.items()}
        )
