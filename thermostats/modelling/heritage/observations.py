"""What the heritage model observes: log gains of prompts, or of averages where only these are known.

A prompt row gives log gain; the average m of n prompts with standard deviation s gives log m − s²/(2 m²) with standard
error s/(m √n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError


def observations(rows: pd.DataFrame, models: Sequence[str], warnings: list[str]) -> Mapping[str, Any]:
    """The fields of `Design` that hold prompt rows and averages; what is odd about them is added to `warnings`.

    Raises UsageError for a model with an average beside other rows, a prompt twice in one model, an average without its
    spread or number of prompts.
    """
    prompt = rows["prompt_id"].fillna("") if "prompt_id" in rows else pd.Series("", index=rows.index)
    has_sd = rows["gain_sd"].notna() if "gain_sd" in rows else pd.Series(False, index=rows.index)
    averaged = (prompt == "") & has_sd
    single, means = rows[~averaged], rows[averaged]
    number = {name: i for i, name in enumerate(models)}
    both = set(single["model_id"]) & set(means["model_id"])
    if both or means["model_id"].duplicated().any():
        raise UsageError(
            "a model has an average beside other rows",
            got=", ".join(sorted(both)[:5]) or means["model_id"].iloc[0],
            allowed="prompt rows, or one average",
        )
    named = prompt[~averaged] != ""
    again = single.loc[named, ["model_id"]].assign(prompt=prompt[~averaged][named]).duplicated()
    if again.any():
        raise UsageError(
            "a prompt twice in one model",
            where=single["model_id"][again[again].index].iloc[0],
            got=f"{int(again.sum())} rows beside others of the same prompt",
            allowed="one row per model and prompt",
            next_step="take one run per model",
        )
    once = single["model_id"].value_counts()
    if (once == 1).any():
        warnings.append(
            "every model has a single row: what is the model's and what is the prompt's cannot be told apart"
            if (once == 1).all() and means.empty
            else f"{int((once == 1).sum())} models have a single row: their spread over prompts is that of the others"
        )
    m, s, n = (
        means[name].to_numpy(dtype=np.float64, na_value=np.nan) if len(means) else np.empty(0)
        for name in ("gain", "gain_sd", "n_prompts")
    )
    if len(means) and not ((s > 0) & (n >= 2)).all():
        raise UsageError(
            "an average without its spread or number of prompts",
            got=", ".join(means["model_id"].to_numpy()[~((s > 0) & (n >= 2))][:5]),
            allowed="gain_sd above 0 and n_prompts of 2 or more",
        )
    if "category" in single and (single["category"].fillna("") != "").all() and len(single):
        category = single["category"].astype(str)
    else:
        category = pd.Series("all", index=single.index)
        if "category" in single and (single["category"].fillna("") != "").any():
            warnings.append("some prompts have no category: categories are left out")
    names = sorted(set(category))
    if len(set(rows["prompt_set"]) if "prompt_set" in rows else {""}) > 1:
        warnings.append(
            "models were measured on different prompt sets: differences between sets are part of the models'"
        )
    y_model = np.array([number[name] for name in single["model_id"]], dtype=np.int64)
    return {
        "categories": tuple(names),
        "y": np.log(single["gain"].to_numpy(dtype=np.float64)),
        "y_model": y_model,
        "y_category": np.array([names.index(name) for name in category], dtype=np.int64),
        "prompted": np.unique(y_model),
        "average": np.log(m) - np.square(s / m) / 2,
        "average_error": s / m / np.sqrt(n),
        "average_df": n - 1,
        "average_model": np.array([number[name] for name in means["model_id"]], dtype=np.int64),
    }
