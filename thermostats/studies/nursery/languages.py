"""Gains of the two older studies by what their prompts are of, and how much of what corpora do is the prompts'.

Every model of both was measured on three English prompts and three of the synthetic language, whatever it had learned.
Some of the second study's models were trained again and measured on 25 prompts of each of four corpora
(`second_prompts`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate
from thermostats.studies.nursery import second, together
from thermostats.studies.nursery.components import CORPUS, OVER, components, ratios
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
    gains = values[(values["gain"] == together.PENULTIMATE) & (values["prompt_id"] != "")]
    gains = gains.merge(runs[["run_id", "model_id"]], on="run_id")
    logs = gains.assign(log_gain=np.log(gains["value"].astype(float)))
    return logs.groupby(["model_id", "prompt_id"])["log_gain"].mean().unstack()


def by_language(tables: Evidence) -> pd.DataFrame:
    """What the corpus does and what depth does, by the language of the prompts; the first study.

    Columns: prompts, alike (least correlation over models between two of its prompts), corpus (synthetic minus English,
    log gain at one shape, recipes as the unit) with corpus_lower, corpus_upper, corpus_p; depth_english and
    depth_synthetic, slopes on log L of models of either corpus, with _lower and _upper.
    """
    prompts, rows = log_gains(tables), together.models(tables)
    first, parts = rows[rows["study"] == "first"], []
    for language in LANGUAGES:
        chosen = prompts[[name for name in prompts if str(name).startswith(language)]]
        logs = first.assign(log_gain=first["model_id"].map(chosen.mean(axis=1))).reset_index(drop=True)
        means = together.recipes(logs)
        means = means.assign(synthetic=(means["corpus"] == "synthetic").astype(float))
        effect = by_t(*slope_within(means, "log_gain", "synthetic", "study"), "")
        row = {"prompts": language, "alike": float(chosen.corr().to_numpy().min())}
        row |= {
            "corpus": effect.value,
            "corpus_lower": effect.lower,
            "corpus_upper": effect.upper,
            "corpus_p": effect.p,
        }
        for at in together.slopes_of_corpora(logs, "log_L").to_dict("records"):
            ends = {"": at["slope"], "_lower": at["slope_lower"], "_upper": at["slope_upper"]}
            row |= {f"depth_{at['corpus']}{end}": value for end, value in ends.items()}
        parts.append(row)
    return pd.DataFrame(parts)


SIX, OWN = "the six of before", "of the model's own corpus"
SHAPE, NEARLY = ["n_layers", "rho", "d_model"], 0.9


def trained_again(tables: Evidence) -> pd.DataFrame:
    """Rows of `second.ends` that have gains by prompt, at the shapes that nearly all of their recipes have."""
    rows = second.ends(tables)
    rows = rows[rows["model"].isin(tables.table("second_prompts")["model"])]
    recipes = rows.groupby(SHAPE)["recipe"].transform("nunique")
    return rows[recipes >= NEARLY * rows["recipe"].nunique()].reset_index(drop=True)


def of_second(tables: Evidence) -> pd.DataFrame:
    """Rows of `trained_again` by what their prompts are of: the six of before, those of each corpus, the model's own.

    Columns: prompts, models, recipes; corpus (synthetic minus English, log gain, recipes as the unit) with
    corpus_lower, corpus_upper, corpus_p; depth_english and depth_synthetic, slopes on log L, with _lower and _upper;
    over and wide, SD of recipe within a corpus and of the corpus over that of geometry, with _lower and _upper. Empty
    until it is measured.
    """
    by_prompt, rows = tables.table("second_prompts"), trained_again(tables)
    if rows.empty:
        return pd.DataFrame()
    by_prompt = by_prompt[by_prompt["position"] == "last"]
    means = by_prompt.groupby(["model", "prompts"])["penultimate_gain"].mean().unstack()
    means = means.reindex(rows["model"]).set_index(rows.index)
    logs = pd.Series([means.at[i, corpus] for i, corpus in rows["corpus"].items()], index=rows.index)
    sets = {SIX: rows["log_gain"], OWN: logs, **{f"of {name}": means[name] for name in means}}
    parts = []
    for prompts, gain in sets.items():
        counts = {"prompts": prompts, "models": len(rows), "recipes": rows["recipe"].nunique()}
        parts.append(counts | _of_corpora(rows.assign(log_gain=gain)))
    return pd.DataFrame(parts)


def in_second(tables: Evidence) -> dict[str, list[dict[str, object]]]:
    """The same as words: `prompts`, its rows; nothing until it is measured."""
    ratios_of = of_second(tables)
    return {"prompts": ratios_of.to_dict("records")} if len(ratios_of) else {}


def _of_corpora(rows: pd.DataFrame) -> dict[str, float | None]:
    means = rows.groupby(["recipe", "corpus"], as_index=False)["log_gain"].mean().assign(study="second")
    means["synthetic"] = (means["corpus"] == "synthetic").astype(float)
    effect = by_t(*slope_within(means, "log_gain", "synthetic", "study"), "")
    parts = ratios(components(second.by_corpus(rows)))
    named = {"corpus": effect, "over": parts[OVER], "wide": parts[CORPUS]}
    row = {f"{name}{end}": value for name, at in named.items() for end, value in _ends(at)} | {"corpus_p": effect.p}
    for at in second.slopes_of_corpora(rows, "log_L").itertuples():
        ends = {"": at.slope, "_lower": at.slope_lower, "_upper": at.slope_upper}
        row |= {f"depth_{at.corpus}{end}": value for end, value in ends.items()}
    return row


def _ends(at: Estimate) -> tuple[tuple[str, float | None], ...]:
    return ("", at.value), ("_lower", at.lower), ("_upper", at.upper)
