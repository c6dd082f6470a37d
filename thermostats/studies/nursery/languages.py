"""Gains of the first study by the language of the prompt; the second study's rows are means over both languages.

Every model was measured on three English prompts and three of the synthetic language, whatever it had learned.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery import together
from thermostats.studies.nursery.rows import by_t, final, judged, slope_within
from thermostats.tables.features import by_prompt
from thermostats.tables.vocabulary import NURSERY

LANGUAGES = ("english", "synthetic")


def log_gains(tables: Evidence) -> pd.DataFrame:
    """Log penultimate gain of the first study's comparable models (rows) by prompt (columns)."""
    ends = judged(final(tables), together.PENULTIMATE)[["model_id", "revision"]]
    models = tables.table("models", source=NURSERY).merge(ends, on=["model_id", "revision"])
    runs = tables.table("runs", source=NURSERY).merge(ends, on=["model_id", "revision"])
    layers, summaries = (
        table[table["run_id"].isin(runs["run_id"])]
        for table in (tables.table(name, source=NURSERY) for name in ("layers", "summaries"))
    )
    values = by_prompt(runs, models, layers, summaries)
    own = values[(values["gain"] == together.PENULTIMATE) & (values["prompt_id"] != "")]
    own = own.merge(runs[["run_id", "model_id"]], on="run_id")
    logs = own.assign(log_gain=np.log(own["value"].astype(float)))
    return logs.groupby(["model_id", "prompt_id"])["log_gain"].mean().unstack()


def by_language(tables: Evidence) -> pd.DataFrame:
    """What the corpus does and what depth does, by the language of the prompts; the first study.

    Columns: prompts, alike (least correlation over models between two of its prompts), corpus (synthetic minus English,
    log gain at one shape, recipes as the unit) with corpus_lower, corpus_upper, corpus_p; depth_english and
    depth_synthetic, slopes on log L of models of either corpus, with _lower and _upper.
    """
    prompts, rows = log_gains(tables), together.models(tables)
    first, found = rows[rows["study"] == "first"], []
    for language in LANGUAGES:
        chosen = prompts[[name for name in prompts if str(name).startswith(language)]]
        own = first.assign(log_gain=first["model_id"].map(chosen.mean(axis=1))).reset_index(drop=True)
        means = together.recipes(own)
        means = means.assign(synthetic=(means["corpus"] == "synthetic").astype(float))
        effect = by_t(*slope_within(means, "log_gain", "synthetic", "study"), "")
        row = {"prompts": language, "alike": float(chosen.corr().to_numpy().min())}
        row |= {
            "corpus": effect.value,
            "corpus_lower": effect.lower,
            "corpus_upper": effect.upper,
            "corpus_p": effect.p,
        }
        for at in together.slopes_of_corpora(own, "log_L").to_dict("records"):
            ends = {"": at["slope"], "_lower": at["slope_lower"], "_upper": at["slope_upper"]}
            row |= {f"depth_{at['corpus']}{end}": value for end, value in ends.items()}
        found.append(row)
    return pd.DataFrame(found)
