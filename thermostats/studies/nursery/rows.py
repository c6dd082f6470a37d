"""Rows of the controlled study for its analyses: gains and features beside recipe, architecture, geometry and scale."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery.design import recipes
from thermostats.tables.vocabulary import NURSERY

DESIGN = [
    "model",
    *recipes().columns,
    "architecture",
    "norm",
    "position",
    "tied",
    "n_layers",
    "d_model",
    "n_heads",
    "d_head",
    "rho",
    "seed",
    "replicate_of",
]


def checkpoints(tables: Evidence) -> pd.DataFrame:
    """One row a trained model and checkpoint, fine-tuned ones too.

    Columns: `model` (that of the design), `tuned`, `step`, `share` (of the training's steps), all columns of the
    design, `learned`, `loss` and `loss_unigram` of the training (held out, nat per token), and the gains and features
    of the table `features` (those of the runs with and without eager attention in one row), without the columns that
    the design has.
    """
    measured = tables.table("features", source=NURSERY).groupby(["model_id", "revision"], as_index=False).first()
    training = tables.table("nursery_training")
    names = measured["model_id"].str.removeprefix(f"{NURSERY}/")
    measured = measured.drop(columns=[name for name in DESIGN if name in measured]).assign(
        trained=names,
        tuned=names.str.endswith("-tuned"),
        model=names.str.removesuffix("-tuned"),
        step=measured["revision"].str.removeprefix("step").astype(int),
    )
    records = training.rename(columns={"model": "trained"})[["trained", "steps", "learned", "loss", "loss_unigram"]]
    rows = measured.merge(records, on="trained", how="left").merge(tables.table("nursery_design")[DESIGN], on="model")
    return rows.assign(share=rows["step"] / rows["steps"]).sort_values(["trained", "step"], ignore_index=True)


def final(tables: Evidence) -> pd.DataFrame:
    """Rows of `checkpoints` at the end of training, one a model of the design, with logs of geometry and scale.

    Further columns: log_L, log_H, log_d_h, log_rho, log_d, log_n (non-embedding weights).
    """
    rows = checkpoints(tables)
    rows = rows[~rows["tuned"] & (rows["step"] == rows["steps"])].reset_index(drop=True)
    return rows.assign(
        log_L=np.log(rows["n_layers"]),
        log_H=np.log(rows["n_heads"]),
        log_d_h=np.log(rows["d_head"]),
        log_rho=np.log(rows["rho"]),
        log_d=np.log(rows["d_model"]),
        log_n=np.log(rows["n_params_nonembedding"]),
    )
