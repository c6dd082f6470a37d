"""The page of simulated worlds: for every claim and verdict the worst world in which it is false,
and what p is worth there."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from thermostats.claims.calibration import pick_worst
from thermostats.claims.levels import PLAUSIBLE, POWER
from thermostats.claims.rule import ALPHA
from thermostats.formatting import format_number
from thermostats.reporting.claim_page import Entry
from thermostats.reporting.pages import WORLDS_TABLE, name_folder
from thermostats.reporting.pages.index import group_entries
from thermostats.reporting.render import Text, render_link, render_text

Read = Callable[[str], bytes | None]


def render_worlds_page(entries: Sequence[Entry], read: Read) -> str:
    """The page's Markdown. read: a file of the report by name; None where there is none."""
    groups = {}
    for title, group in group_entries(entries).items():
        rows = (list_worst_worlds(entry, read) for entry in group)
        groups[title] = list(chain.from_iterable(rows))
    filled = {title: rows for title, rows in groups.items() if rows}
    return render_text("worlds.md", groups=filled, bar=ALPHA)


def list_worst_worlds(entry: Entry, read: Read) -> Iterator[dict[str, Any]]:
    """A row for each verdict of the findings that lead a claim: the worst plausible world in which
    it is false."""
    folder = name_folder(entry.id)
    content = read(f"{folder}/{WORLDS_TABLE}")
    if content is None or entry.error:
        return
    table = pd.read_csv(io.BytesIO(content))
    first = entry.findings[0]
    for id_ in first.criterion.parts or (first.id,):
        own = table[table["finding"] == id_]
        for side, of_side in own[own["box"] == PLAUSIBLE].groupby("side", sort=False):
            worst = pick_worst(of_side)
            of_power = (own["box"] == POWER) & (own["side"] == side)
            power = own.loc[of_power, "power"]
            limit = worst["bound_05"]
            yield {
                "claim": _link_finding(id_, folder, whole=not first.criterion.parts),
                "side": side,
                "limit": format_number(limit, 2) if limit else "never",
                "rate": float(worst["rate"]),
                "power": float(power.iloc[0]) if len(power) else math.nan,
                "words": worst["words"],
            }


def _link_finding(id_: str, folder: str, *, whole: bool) -> Text:
    """The claim's page, with the finding's name where others lead it too."""
    claim, _, name = id_.partition(".")
    link = render_link(claim, f"{folder}/index.md")
    words = name.partition(".")[0].replace("_", " ")
    return link if whole else Text(f"{link} {words}")
