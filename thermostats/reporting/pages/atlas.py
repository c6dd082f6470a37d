"""The layer atlas: one self-contained page with every model's quantities by layer, to choose and to point at."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import cache
from math import cos, log10, pi, sin
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from thermostats.claims.evidence import Evidence
from thermostats.plots.marks import mark
from thermostats.reporting.pages import atlas_rows
from thermostats.reporting.render import environment
from thermostats.reporting.stale import machine
from thermostats.reporting.text import Files, text
from thermostats.words import number, short_name

VEGA_LITE = "6.4"
"""Release of Vega-Lite that the charts are compiled with; the script in the page is of the same one."""
EMBED = "window.vegaEmbed = vegaEmbed;"
"""What the script in the page offers to the page's own."""
HEIGHT, WIDTH = 230, 420
"""Size of a panel in pixels; the page sets the width to what there is."""
DIGITS = 5
"""Significant digits of a value in the page."""
SHOWN_GAIN_FROM = 2
"""First block in the panel of gains: block 1 lifts the embedding and would set the scale."""
SHOWN = 0.98
"""Quantile of the gains up to which, and one less it from which, they are shown unless the whole range is asked for."""
WHOLE = "whole_range"
SHAPES = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "<": "triangle-left",
    ">": "triangle-right",
    "D": "diamond",
    "P": "cross",
}
"""Markers of `plots` that Vega has by name."""
DASHES = {atlas_rows.PUBLISHED_ORIGIN: [1, 0], atlas_rows.MEASURED_ORIGIN: [5, 3], atlas_rows.TRAINED_ORIGIN: [1, 3]}
CROSS = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"
CORNERS = {"p": 5, "h": 6, "H": 6, "8": 8, "d": 4, "*": 10}


def files(tables: Evidence) -> dict[str, bytes]:
    """`atlas.html`, `atlas.md`, and the curves as `atlas.csv`."""
    drawn, found = atlas_rows.rows(tables), Files()
    found.add("atlas.html", page(tables).encode())
    shown = found.table(pd.DataFrame(curves(drawn)), "Curves", "atlas.csv")
    found.add("atlas.md", text("atlas.md", curves=shown, lacking=lacking(drawn, tables), machine=machine()).encode())
    return found.found


def page(tables: Evidence) -> str:
    """The atlas as one HTML page without references to anything outside it: the same text for the same tables."""
    drawn = atlas_rows.rows(tables)
    shown = _shown(drawn)
    context = {
        "labs": [{"name": lab, "svg": swatch(lab)} for lab in labs_of(shown)],
        "origins": sorted(shown["origin"].unique(), reverse=True),
        "spec": script_json(compiled(shown)) if len(shown) else "",
        "bundle": _bundle() if len(shown) else "",
        "curves": curves(drawn),
        "lacking": lacking(drawn, tables),
        "quantities": atlas_rows.QUANTITIES,
        "n_models": drawn["model_id"].nunique(),
        "n_curves": len(curves(drawn)),
        "first_block": SHOWN_GAIN_FROM,
        **_shown_gains(shown),
    }
    return environment().get_template("atlas.html").render(context)


def labs_of(shown: pd.DataFrame) -> list[str]:
    """Labs in the order of the alphabet."""
    return sorted(str(lab) for lab in shown["heritage"].unique())


def chart(shown: pd.DataFrame) -> alt.ConcatChart:
    """The panels with their checkboxes, choice of a model and pointer, as Altair declares them."""
    labs, origins = labs_of(shown), sorted(shown["origin"].unique(), reverse=True)
    models = sorted(shown["model"].unique())
    boxes = [_checkbox(f"lab_{i}", lab) for i, lab in enumerate(labs)]
    boxes += [_checkbox(f"origin_{i}", origin, origin in at_first(origins)) for i, origin in enumerate(origins)]
    whole_range = alt.binding_checkbox(name="Whole range of gains", element="#whole")
    boxes.append(alt.param(name=WHOLE, value=False, bind=whole_range))
    select = alt.binding_select(
        options=[None, *models], labels=["all models", *models], name="Model ", element="#model"
    )
    chosen = alt.selection_point(name="chosen", fields=["model"], bind=select, on="click", clear="dblclick")
    pointed = alt.selection_point(name="pointed", fields=["model"], on="pointerover", clear="pointerout", empty=False)
    kept = _any_of("lab", "heritage", labs) + " && " + _any_of("origin", "origin", origins)
    depth = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    scales = {
        "x": alt.X("depth:Q", title="relative depth, l / L", scale=alt.Scale(domain=[0, 1.015]), axis=depth),
        "color": alt.Color("heritage:N", legend=None, scale=_scale(labs, [mark(lab).color for lab in labs])),
        "shape": alt.Shape("heritage:N", legend=None, scale=_scale(labs, [shape(lab) for lab in labs])),
    }
    panels = [
        _panel(quantity, words, kept, scales | {"y": _vertical(quantity, shown)}, chosen, pointed)
        for quantity, words in atlas_rows.QUANTITIES.items()
        if (shown["quantity"] == quantity).any()
    ]
    whole = alt.concat(*panels, columns=2, data=alt.InlineData(name="rows", values=shown.to_dict("records")))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
        whole = whole.add_params(*boxes, chosen, pointed)
    configured: alt.ConcatChart = whole.configure(
        font="Segoe UI, Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif",
        background="transparent",
        axis=alt.AxisConfig(
            gridColor="#ece9e2",
            domainColor="#8a8d91",
            tickColor="#8a8d91",
            labelColor="#1d1f21",
            titleColor="#1d1f21",
            titleFontWeight="normal",
            labelFontSize=12,
            titleFontSize=12,
        ),
        title=alt.TitleConfig(anchor="start", fontSize=14, color="#1d1f21", offset=8),
        view=alt.ViewConfig(stroke=None),
    )
    return configured


def compiled(shown: pd.DataFrame) -> dict[str, Any]:
    """The chart as Vega takes it, with the number of panels in a row as a signal that the page sets."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = vl_convert.vegalite_to_vega(chart(shown).to_dict(), vl_version=VEGA_LITE)
    spec["layout"]["columns"] = {"signal": "columns"}
    spec["signals"].append({"name": "columns", "value": 2})
    spec["autosize"] = {"type": "pad"}
    spec["description"] = (
        f"{shown['model'].nunique()} models, one line each, in {shown['quantity'].nunique()} panels over relative "
        "depth; all values are in the table below."
    )
    return spec


def shape(heritage: str) -> str:
    """Shape of a lab's points as Vega takes it: the marker that the lab has in every figure."""
    marker = mark(heritage).marker
    return SHAPES.get(marker) or (CROSS if marker == "X" else _polygon(marker))


def swatch(heritage: str) -> str:
    """Path of the lab's marker in a box from -1.2 to 1.2, with its colour."""
    paths = {
        "circle": "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z",
        "square": "M-.9,-.9H.9V.9H-.9Z",
        "diamond": "M0,-1.1L1.1,0L0,1.1L-1.1,0Z",
        "triangle-up": "M0,-1L1,.9H-1Z",
        "triangle-down": "M0,1L1,-.9H-1Z",
        "triangle-left": "M-1,0L.9,-1V1Z",
        "triangle-right": "M1,0L-.9,-1V1Z",
        "cross": "M-.35,-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
    }
    name = shape(heritage)
    return f'<path d="{paths.get(name, name)}" fill="{mark(heritage).color}"/>'


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
        listed = f"{len(models)} of {total}: {', '.join(short_name(model) for model in models)}"
        said = "No model lacks it" if not models else f"All {total} models lack it" if len(models) == total else listed
        for definition in (words for words, of in atlas_rows.substitutes().items() if of == quantity):
            if instead := sorted(drawn.loc[drawn["definition"] == definition, "model_id"].unique()):
                said += f". What is drawn of {', '.join(map(short_name, instead))} is the {definition}"
        rows.append({"quantity": atlas_rows.QUANTITIES[quantity], "models": said + "."})
    return rows


def script_json(content: Any) -> str:
    """JSON that can stand in a script element whatever the names in it are."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shown(drawn: pd.DataFrame) -> pd.DataFrame:
    """Rows as the chart takes them: rounded, named, without the first gain, missing norms as None."""
    rows = drawn[(drawn["quantity"] != atlas_rows.GAIN) | (drawn["layer"] >= SHOWN_GAIN_FROM)]
    names = [_named(model, revision) for model, revision in zip(rows["model_id"], rows["revision"], strict=True)]
    norm = [None if pd.isna(value) else _round(value) for value in rows["norm"]]
    block = [f"{layer} of {L}" for layer, L in zip(rows["layer"], rows["n_layers"], strict=True)]
    return pd.DataFrame(
        {
            "model": names,
            "heritage": rows["heritage"].astype(object),
            "origin": rows["origin"].astype(object),
            "quantity": rows["quantity"].astype(object),
            "block": block,
            "depth": [_round(x) for x in rows["depth"]],
            "value": [_round(x) for x in rows["value"]],
            "norm": pd.Series(norm, index=rows.index, dtype=object),
            "definition": rows["definition"].astype(object),
            "source": rows["source"].astype(object),
        }
    )


def _panel(
    quantity: str, words: str, kept: str, scales: dict[str, Any], chosen: alt.Parameter, pointed: alt.Parameter
) -> alt.LayerChart | alt.FacetChart:
    base = (
        alt.Chart()
        .transform_filter(f"datum.quantity === {json.dumps(quantity)} && {kept}")
        .encode(
            x=scales["x"],
            y=scales["y"],
            color=scales["color"],
            detail=[alt.Detail("model:N"), alt.Detail("origin:N")],
            opacity=alt.condition(chosen, alt.value(0.9), alt.value(0.08)),
        )
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("heritage:N", title="lab"),
        alt.Tooltip("block:N"),
        alt.Tooltip("value:Q", title=words, format=".4~g"),
        alt.Tooltip("definition:N", title="what"),
        alt.Tooltip("origin:N"),
        alt.Tooltip("source:N"),
    ]
    if quantity == atlas_rows.NORM:
        tooltip.insert(4, alt.Tooltip("norm:Q", title="norm n_l", format=".4~g"))
    clip = quantity == atlas_rows.GAIN
    width = alt.condition(pointed, alt.value(3.5), alt.value(1.3))
    lines = base.mark_line(aria=False, clip=clip).encode(
        strokeWidth=width,
        strokeDash=alt.StrokeDash("origin:N", legend=None, scale=_scale(list(DASHES), list(DASHES.values()))),
    )
    points = base.mark_point(filled=True, aria=False, clip=clip).encode(
        shape=scales["shape"], size=alt.condition(pointed, alt.value(70), alt.value(26)), tooltip=tooltip
    )
    return alt.layer(lines, points).properties(width=WIDTH, height=HEIGHT, title=words)


def _vertical(quantity: str, shown: pd.DataFrame) -> alt.Y:
    """Logarithmic axis over all values whatever is chosen; the extreme gains only where they are asked for."""
    values = shown.loc[shown["quantity"] == quantity, "value"].astype(float)
    ends: list[float | alt.ExprRef] = [0.95 * values.min(), 1.05 * values.max()]
    if quantity == atlas_rows.GAIN:
        ends = [
            alt.ExprRef(f"{WHOLE} ? {end} : {inner}") for end, inner in zip(ends, _common_gains(shown), strict=True)
        ]
    scale = alt.Scale(type="log", nice=False, domain=ends)
    axis = alt.Axis(format="~s" if quantity == atlas_rows.TRACE else "~g", tickCount=6)
    return alt.Y("value:Q", title=None, scale=scale, axis=axis)


def at_first(origins: Sequence[str]) -> set[str]:
    """Origins that are shown before a box is ticked: the many models trained by design would hide all others."""
    return set(origins) - {atlas_rows.TRAINED_ORIGIN} or set(origins)


def _common_gains(shown: pd.DataFrame) -> list[float]:
    """Ends of the axis of gains unless the whole range is asked for: quantiles of what is shown at first."""
    rows = shown[(shown["quantity"] == atlas_rows.GAIN) & shown["origin"].isin(at_first(list(shown["origin"])))]
    gains = rows["value"].astype(float)
    return [_round(gains.quantile(1 - SHOWN)), _round(gains.quantile(SHOWN))] if len(gains) else [0.0, 0.0]


def _shown_gains(shown: pd.DataFrame) -> dict[str, Any]:
    """What the page says of the gains that are shown at first."""
    gains = shown.loc[shown["quantity"] == atlas_rows.GAIN, "value"].astype(float)
    low, high = _common_gains(shown)
    outside = int((~gains.between(low, high)).sum())
    return {"low": number(low), "high": number(high), "outside": outside, "n_gains": len(gains)}


def _checkbox(name: str, label: str, ticked: bool = True) -> alt.Parameter:
    return alt.param(
        name=name, value=ticked, bind=alt.binding_checkbox(name=label, element=f"#{name.replace('_', '-')}")
    )


def _any_of(signal: str, field: str, values: list[str]) -> str:
    """Expression that is true where the checkbox of the row's value is ticked."""
    return "(" + " || ".join(f"({signal}_{i} && datum.{field} === {json.dumps(v)})" for i, v in enumerate(values)) + ")"


def _scale(domain: list[str], values: list[Any]) -> alt.Scale:
    return alt.Scale(domain=domain, range=values)


def _polygon(marker: str) -> str:
    corners = CORNERS.get(marker, 6)
    radii = [0.45 if marker == "*" and i % 2 else 1.0 for i in range(corners)]
    squeeze = 0.6 if marker == "d" else 1.0
    points = (
        f"{squeeze * r * sin(2 * pi * i / corners):.3f},{-r * cos(2 * pi * i / corners):.3f}"
        for i, r in enumerate(radii)
    )
    return "M" + "L".join(points) + "Z"


@cache
def _bundle() -> str:
    """Vega and Vega-Lite as one script, which takes a while to put together."""
    script: str = vl_convert.javascript_bundle(EMBED, vl_version=VEGA_LITE)
    return script


def _named(model: str, revision: str) -> str:
    return model if revision in {"main", ""} else f"{model} @ {revision}"


def _round(value: float) -> float:
    return round(float(value), DIGITS - 1 - int(log10(abs(value)) // 1)) if value else 0.0
