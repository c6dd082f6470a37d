"""Two models on the same prompts: how far their blocks are apart, prompt by prompt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from thermostats.errors import UsageError
from thermostats.next_steps import command
from thermostats.settings import coverage
from thermostats.settings import options as session
from thermostats.tables.by_layer import values_of
from thermostats.tables.features import LAST

LEAST = 2
"""Prompts that a standard deviation needs."""


def paired(
    first: str | Path,
    second: str | Path,
    *,
    quantity: str = "gain",
    position: str = LAST,
    data: str | Path | None = None,
    level: float | None = None,
) -> pd.DataFrame:
    """d̄_l ± t_(n−1) s_l / √n of the differences d_lp = G_l^second(p) − G_l^first(p) over the n prompts p of both.

    One row a block: layer, n_prompts, first and second (means over those prompts), difference, sd, lower and upper (the
    interval of Student's t, Biometrika 6, 1908, for the mean difference over prompts like these). Its attributes
    (`attrs`) say of what it is; `thermostats.profile` draws it. Prompts are the same where their texts are, whatever
    set they are of. first, second, quantity, position: as in `profile`. level: by default that of `options`.

    Raises UsageError for models without such rows, of different depths, or measured on other prompts.
    """
    inside = session.level if level is None else coverage(level)
    a, b = (values_of(model, quantity, position, data) for model in (first, second))
    together = _shared(a, b, str(first), str(second), data)
    depths = [int(side["layer"].max()) for side in (a, b)]
    if depths[0] != depths[1]:
        what, allowed = "the models have different numbers of blocks", "models of one depth, as a base and a tuned one"
        step = f"thermostats.profile([{str(first)!r}, {str(second)!r}]) draws both over relative depth"
        raise UsageError(what, got=f"{depths[0]} and {depths[1]}", allowed=allowed, next_step=step)
    together["difference"] = together["second"] - together["first"]
    groups = together.groupby("layer")
    table = groups[["first", "second", "difference"]].mean()
    n, sd = groups.size(), groups["difference"].std(ddof=1)
    half = student.ppf((1 + inside) / 2, n - 1) * sd / np.sqrt(n)
    table = table.assign(sd=sd, lower=table["difference"] - half, upper=table["difference"] + half)
    table.insert(0, "n_prompts", n)
    table = table.reset_index()
    table.attrs = {
        "first": str(first),
        "second": str(second),
        "quantity": quantity,
        "position": position,
        "level": inside,
    }
    return table


def _shared(first: pd.DataFrame, second: pd.DataFrame, here: str, there: str, data: str | Path | None) -> pd.DataFrame:
    """layer, prompt, first and second of the first two runs that share prompts."""
    key = ["layer", "prompt"]
    for _, a in first[first["prompt"].ne("")].groupby("run_id", sort=False):
        for _, b in second[second["prompt"].ne("")].groupby("run_id", sort=False):
            one, other = (side.drop_duplicates(key).set_index(key)["value"] for side in (a, b))
            both = pd.concat({"first": one, "second": other}, axis=1, join="inner").reset_index()
            if both["prompt"].nunique() >= LEAST:
                return both
    sets = [", ".join(dict.fromkeys(side["prompt_set"])) for side in (first, second)]
    step = command("measure", there, prompts=first["prompt_set"].iloc[0], what="gains", data=data or "mine")
    raise UsageError(
        "the two models were measured on other prompts, so nothing can be paired",
        where=f"{here}, {there}",
        got=f"prompt sets {sets[0]} and {sets[1]}",
        allowed=f"{LEAST} prompts or more of the same text",
        next_step=step,
    )
