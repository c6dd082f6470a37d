"""The layer atlas: one self-contained page with every model's quantities by layer, to choose and to point at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup
from matplotlib.markers import MarkerStyle
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator
from matplotlib.transforms import Affine2D

from thermostats.claims.evidence import Evidence
from thermostats.formatting import number, short_name
from thermostats.modelling.draws import Array
from thermostats.plots.dark import dark
from thermostats.plots.marks import mark
from thermostats.reporting.digest import machine
from thermostats.reporting.pages import atlas_rows
from thermostats.reporting.render import environment, hashes, script
from thermostats.reporting.state import navigation
from thermostats.reporting.text import Files, text

SCRIPT = "atlas.js"
WIDTH, HEIGHT = 406, 224
"""Size of a panel's plot in the units of its SVG."""
DEEPEST = 1.015
"""Relative depth at the right end of a plot."""
ARROW = 4
"""Half the width of the triangle where a line leaves its plot."""
FIRST = 6
"""Models that are shown at first."""
DIGITS = 5
"""Significant digits of a value in the page."""
SHOWN_GAIN_FROM = 2
"""First block in the panel of gains: block 1 lifts the embedding and would set the scale."""
SHOWN = 0.98
"""Quantile of the gains up to which, and one less it from which, they are shown unless the whole range is asked for."""
DASHES = {atlas_rows.PUBLISHED_ORIGIN: "", atlas_rows.EXTERNAL_ORIGIN: "8 2 2 2"}
DASHES |= {atlas_rows.MEASURED_ORIGIN: "5 3", atlas_rows.TRAINED_ORIGIN: "1 3"}
UNKNOWN = "–"
"""Where a value is missing."""
STEPS = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
"""Codes of matplotlib's paths as SVG writes them."""


@dataclass(frozen=True, kw_only=True)
class AtlasLine:
    """One quantity of one model by layer, from one source, as an element of the page holds it."""

    model: str
    lab: str
    family: str
    origin: str
    first: bool
    """Of one of the models that are shown at first."""
    what: str
    """What was measured, and the file that it is from."""
    layers: str
    """Layers apart by spaces, and so values and norms; empty where no norm is known."""
    values: str
    norms: str
    of: int
    """Layers of the model."""
    way: str
    """Path of an SVG through the points."""
    leaving: str
    """Path of the triangles at the edges where points lie outside the plot."""


@dataclass(frozen=True, kw_only=True)
class AtlasPanel:
    """The lines of one quantity over relative depth, on a logarithmic axis."""

    words: str
    span: str
    """`common` or `whole` range of the gains; empty for other quantities, which have one."""
    ticks: list[tuple[float, str]]
    """Heights of the horizontal lines in the plot, from above, and their numbers."""
    unchanged: float | None
    """Height of 1, where that is a stream that a block leaves as long as it was."""
    lines: list[AtlasLine]


def files(tables: Evidence) -> dict[str, bytes]:
    """`atlas.html`, `atlas.md`, and the curves as `atlas.csv`."""
    drawn, made = atlas_rows.rows(tables), Files()
    made.add("atlas.html", page(tables, drawn).encode())
    curves_table = made.table(pd.DataFrame(curves(drawn)), "Curves", "atlas.csv")
    made.add(
        "atlas.md", text("atlas.md", curves=curves_table, lacking=lacking(drawn, tables), machine=machine()).encode()
    )
    return made.contents


def page(tables: Evidence, drawn: pd.DataFrame | None = None) -> str:
    """The atlas as one HTML page without references to anything outside it: the same text for the same tables."""
    drawn = atlas_rows.rows(tables) if drawn is None else drawn
    points, lines = _shown(drawn), curves(drawn)
    gains = points.loc[points["quantity"] == atlas_rows.GAIN, "value"]
    low, high = _common_gains(points)
    labs, origins = labs_of(points), sorted(points["origin"].unique(), reverse=True)
    return (
        environment()
        .get_template("atlas.html")
        .render(
            pages=navigation(),
            labs=[(lab, shape(lab), mark(lab).color, dark(mark(lab).color)) for lab in labs],
            number_of={lab: place for place, lab in enumerate(labs)},
            origins=origins,
            at_first=at_first(origins),
            dashes=[DASHES[origin] for origin in origins],
            panels=panels(points),
            models=points.drop_duplicates("model")[["model", "heritage", "first", "origin"]].to_dict("records"),
            size=(WIDTH, HEIGHT),
            depths=[(float(_across(depth)), f"{depth:g}") for depth in (0, 0.2, 0.4, 0.6, 0.8, 1)],
            script=Markup(script(SCRIPT)),  # noqa: S704
            policy=hashes([script(SCRIPT)]),
            first=FIRST,
            curves=lines,
            lacking=lacking(drawn, tables),
            quantities=atlas_rows.QUANTITIES,
            n_models=drawn["model_id"].nunique(),
            n_curves=len(lines),
            first_block=SHOWN_GAIN_FROM,
            low=number(low),
            high=number(high),
            outside=int((~gains.between(low, high)).sum()),
            n_gains=len(gains),
        )
    )


def labs_of(points: pd.DataFrame) -> list[str]:
    """Labs in the order of the alphabet."""
    return sorted(str(lab) for lab in points["heritage"].unique())


def panels(points: pd.DataFrame) -> list[AtlasPanel]:
    """A panel for every quantity that there is, and for gains a second one over their whole range."""
    made = []
    for quantity, words in atlas_rows.QUANTITIES.items():
        rows = points[points["quantity"] == quantity]
        if rows.empty:
            continue
        whole = _around(rows["value"])
        spans = {"common": _common_gains(rows), "whole": whole} if quantity == atlas_rows.GAIN else {"": whole}
        ratio = quantity in {atlas_rows.GAIN, atlas_rows.NORM}
        made += [_panel(rows, words, span, *ends, ratio=ratio) for span, ends in spans.items()]
    return made


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Up to about eight round numbers between the ends of a logarithmic axis, and what is written next to them."""
    orders = log10(high / low)
    steps = (1.0, 2.0, 5.0) if orders < 3 else (1.0,)
    places = MaxNLocator(6).tick_values(low, high) if orders < 1 else LogLocator(subs=steps).tick_values(low, high)
    thousands = EngFormatter(sep="")
    return [(float(at), thousands(at) if at >= 1000 else f"{at:g}") for at in places if low <= at <= high]


def shape(heritage: str) -> str:
    """Path of a lab's marker in every figure, in a box from -1 to 1."""
    style = MarkerStyle(mark(heritage).marker)
    path = style.get_path().transformed(style.get_transform() + Affine2D().scale(2, -2))
    steps = [(STEPS[int(code)], points) for points, code in path.iter_segments(simplify=False)]
    return "".join(step + ",".join(f"{x:.3f}" for x in points) * (step != "Z") for step, points in steps)


def curves(drawn: pd.DataFrame) -> list[dict[str, Any]]:
    """Every line of the atlas as text: model, lab, quantity, what it is, and its values layer by layer."""
    by = ["quantity", "model_id", "revision", "heritage", "origin"]
    return [
        {
            "quantity": str(quantity),
            "model": _named(model, revision),
            "lab": lab,
            "origin": origin,
            "L": int(line["n_layers"].iloc[0]),
            "definition": line["definition"].iloc[0],
            "source": line["source"].iloc[0],
            "values": ", ".join(f"{row.layer}: {number(row.value)}" for row in line.itertuples()),
        }
        for (quantity, model, revision, lab, origin), line in drawn.groupby(by, sort=False)
    ]


def lacking(drawn: pd.DataFrame, tables: Evidence) -> list[dict[str, str]]:
    """By quantity, in words, the models of the tables that have no data by layer."""
    total = tables.table("models")["model_id"].nunique()
    rows = []
    for quantity, models in atlas_rows.missing(drawn, tables).items():
        named = f"{len(models)} of {total}: {', '.join(map(short_name, models))}"
        sentence = (
            "No model lacks it" if not models else f"All {total} models lack it" if len(models) == total else named
        )
        for definition in (words for words, of in atlas_rows.substitutes().items() if of == quantity):
            if instead := sorted(drawn.loc[drawn["definition"] == definition, "model_id"].unique()):
                sentence += f". What is drawn of {', '.join(map(short_name, instead))} is the {definition}"
        rows.append({"quantity": atlas_rows.QUANTITIES[quantity], "models": sentence + "."})
    return rows


def _panel(rows: pd.DataFrame, words: str, span: str, low: float, high: float, *, ratio: bool) -> AtlasPanel:
    return AtlasPanel(
        words=words,
        span=span,
        ticks=[(float(_down(at, low, high)), label) for at, label in ticks(low, high)],
        unchanged=float(_down(1.0, low, high)) if ratio and low < 1 < high else None,
        lines=[_line(line, low, high) for _, line in rows.groupby(["model", "origin"], sort=False)],
    )


def _line(rows: pd.DataFrame, low: float, high: float) -> AtlasLine:
    first = rows.iloc[0]
    x, y = _across(rows["depth"]), _down(rows["value"], low, high)
    points = [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]
    leaving = [_arrow(a, above=b < 0) for a, b in zip(x, y, strict=True) if not 0 <= b <= HEIGHT]
    return AtlasLine(
        model=first["model"],
        lab=first["heritage"],
        family=first["family"],
        origin=first["origin"],
        first=bool(first["first"]),
        what=f"{first['definition']}; {first['source']}",
        layers=" ".join(map(str, rows["layer"])),
        values=" ".join(map(_digits, rows["value"])),
        norms=" ".join(map(_digits, rows["norm"])) if rows["norm"].notna().any() else "",
        of=int(first["n_layers"]),
        way="M" + "L".join(points),
        leaving="".join(leaving),
    )


def _arrow(x: float, *, above: bool) -> str:
    """A triangle at the upper or lower edge of a plot that points out of it."""
    edge, inwards = (0, 1.7 * ARROW) if above else (HEIGHT, -1.7 * ARROW)
    return f"M{x:.1f},{edge}l{ARROW},{inwards}h{-2 * ARROW}z"


def _across(depth: npt.ArrayLike) -> Array:
    """Places of relative depths in a plot."""
    return np.asarray(WIDTH * np.asarray(depth) / DEEPEST)


def _down(value: npt.ArrayLike, low: float, high: float) -> Array:
    """Heights of values in a plot, from above."""
    return np.asarray(HEIGHT * np.log(high / np.asarray(value)) / np.log(high / low))


def _shown(drawn: pd.DataFrame) -> pd.DataFrame:
    """Rows as the panels take them: named, without the first gain."""
    rows = drawn[(drawn["quantity"] != atlas_rows.GAIN) | (drawn["layer"] >= SHOWN_GAIN_FROM)]
    names = [_named(*of) for of in zip(rows["model_id"], rows["revision"], strict=True)]
    trained = rows["origin"] == atlas_rows.TRAINED_ORIGIN
    return rows.assign(model=names, first=trained | rows["model_id"].isin(atlas_rows.contrasting(drawn, FIRST)))


def at_first(origins: Sequence[str]) -> set[str]:
    """Origins that are shown before a box is ticked: the many models trained by design would hide all others."""
    return set(origins) - {atlas_rows.TRAINED_ORIGIN} or set(origins)


def _common_gains(points: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of gains unless the whole range is asked for: quantiles of what is shown at first."""
    rows = points[(points["quantity"] == atlas_rows.GAIN) & points["origin"].isin(at_first(list(points["origin"])))]
    gains = rows["value"]
    if gains.nunique() < 2:
        return _around(gains) if len(gains) else (0.0, 0.0)
    return float(gains.quantile(1 - SHOWN)), float(gains.quantile(SHOWN))


def _around(values: pd.Series) -> tuple[float, float]:
    """Ends of an axis that shows all values."""
    return float(0.95 * values.min()), float(1.05 * values.max())


def _named(model: str, revision: str) -> str:
    return model if revision in {"main", ""} else f"{model} @ {revision}"


def _digits(value: float) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:.{DIGITS}g}"
