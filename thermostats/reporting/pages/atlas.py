"""The layer atlas: one self-contained page with every model's quantities by layer, to choose and to point at."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files as resources
from math import log10
from typing import Any

import altair as alt
import pandas as pd
import vl_convert
from markupsafe import Markup
from matplotlib.markers import MarkerStyle
from matplotlib.transforms import Affine2D

from thermostats.claims.evidence import Evidence
from thermostats.formatting import number, short_name
from thermostats.plots.dark import INK, dark
from thermostats.plots.marks import mark
from thermostats.reporting.digest import machine
from thermostats.reporting.pages import atlas_rows
from thermostats.reporting.render import environment, hashes
from thermostats.reporting.state import navigation
from thermostats.reporting.text import Files, text

VEGA_LITE = "6.4"
"""Release of Vega-Lite that the charts are compiled with; the script in the page is of the same one."""
EMBED = "window.vegaEmbed = vegaEmbed;"
"""What the script in the page offers to the page's own."""
HEIGHT, WIDTH = 230, 420
"""Size of a panel in pixels; the page sets the width to the space available."""
FIRST, APART = 6, 13
"""Models that are shown at first, with their names, and pixels from name to name."""
DIGITS = 5
"""Significant digits of a value in the page."""
SHOWN_GAIN_FROM = 2
"""First block in the panel of gains: block 1 lifts the embedding and would set the scale."""
SHOWN = 0.98
"""Quantile of the gains up to which, and one less it from which, they are shown unless the whole range is asked for."""
WHOLE, FEW, SEARCH = "whole", "few", "search"
DASHES = {atlas_rows.PUBLISHED_ORIGIN: [1, 0], atlas_rows.EXTERNAL_ORIGIN: [8, 2, 2, 2]}
DASHES |= {atlas_rows.MEASURED_ORIGIN: [5, 3], atlas_rows.TRAINED_ORIGIN: [1, 3]}
STEPS = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
"""Codes of matplotlib's paths as SVG writes them."""
SPAN = alt.Scale(domain=[0, 1.015], nice=False)
SOFT, GRID = "#8a8d91", "#ece9e2"


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
    scripts = [_bundle(), (resources("thermostats.reporting") / "templates" / "atlas.js").read_text("utf-8")]
    gains = points.loc[points["quantity"] == atlas_rows.GAIN, "value"].astype(float)
    low, high = _common_gains(points)
    return (
        environment()
        .get_template("atlas.html")
        .render(
            pages=navigation(),
            labs=[{"name": lab, "svg": swatch(lab)} for lab in labs_of(points)],
            origins=sorted(points["origin"].unique(), reverse=True),
            spec=script_json(compiled(points)) if len(points) else "",
            scripts=[Markup(script) for script in scripts] if len(points) else [],  # noqa: S704
            policy=hashes(scripts),
            recolored=[(color, dark(color)) for color in colors_of(points)],
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


def colors_of(points: pd.DataFrame) -> list[str]:
    """Colours that the chart is drawn with."""
    return [INK, SOFT, GRID, *dict.fromkeys(mark(lab).color for lab in labs_of(points))]


def labs_of(points: pd.DataFrame) -> list[str]:
    """Labs in the order of the alphabet."""
    return sorted(str(lab) for lab in points["heritage"].unique())


def chart(points: pd.DataFrame) -> alt.ConcatChart:
    """The panels with their checkboxes, choice of a model and pointer, as Altair declares them."""
    labs, origins = labs_of(points), sorted(points["origin"].unique(), reverse=True)
    models = sorted(points["model"].unique())
    boxes = [_checkbox(f"lab_{i}", lab) for i, lab in enumerate(labs)]
    boxes += [_checkbox(f"origin_{i}", origin, origin in at_first(origins)) for i, origin in enumerate(origins)]
    boxes.append(_checkbox(WHOLE, "Whole range of gains", ticked=False))
    boxes.append(_checkbox(FEW, f"Only {FIRST} models of different labs"))
    find = alt.binding(input="search", name="Search ", placeholder="model, lab or family", element="#search")
    boxes.append(alt.param(name=SEARCH, value="", bind=find))
    select = alt.binding_select(
        options=[None, *models], labels=["all models", *models], name="Model ", element="#model"
    )
    chosen = alt.selection_point(name="chosen", fields=["model"], bind=select, on="click", clear="dblclick")
    pointed = alt.selection_point(name="pointed", fields=["model"], on="pointerover", clear="pointerout", empty=False)
    condition = _any_of("lab", "heritage", labs) + " && " + _any_of("origin", "origin", origins)
    few = f"(!{FEW} || datum.first || datum.model === chosen_model)"
    condition += f" && ({SEARCH} ? indexof(datum.words, lower({SEARCH})) >= 0 : {few})"
    panels = [
        _panel(points[points["quantity"] == quantity], quantity, condition, labs, chosen, pointed)
        for quantity in atlas_rows.QUANTITIES
        if (points["quantity"] == quantity).any()
    ]
    figure = alt.concat(*panels, columns=2, data=alt.InlineData(name="rows", values=points.to_dict("records")))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
        figure = figure.add_params(*boxes, chosen, pointed)
    lines: dict[str, Any] = {
        "gridColor": GRID,
        "domainColor": SOFT,
        "tickColor": SOFT,
        "labelColor": INK,
        "titleColor": INK,
    }
    configured: alt.ConcatChart = figure.configure(
        font="Segoe UI, Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif",
        background="transparent",
        axis=alt.AxisConfig(titleFontWeight="normal", labelFontSize=12, titleFontSize=12, **lines),
        title=alt.TitleConfig(anchor="start", fontSize=14, color=INK, offset=8),
        view=alt.ViewConfig(stroke=None),
    )
    return configured


def compiled(points: pd.DataFrame) -> dict[str, Any]:
    """The chart as Vega takes it, with the number of panels in a row as a signal that the page sets."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = vl_convert.vegalite_to_vega(chart(points).to_dict(), vl_version=VEGA_LITE)
    spec["layout"]["columns"] = {"signal": "columns"}
    spec["signals"].append({"name": "columns", "value": 2})
    spec["autosize"] = {"type": "pad"}
    spec["description"] = (
        f"{points['model'].nunique()} models, one line each, in {points['quantity'].nunique()} panels over relative "
        "depth; all values are in the table below."
    )
    return spec


def shape(heritage: str) -> str:
    """Path of a lab's marker in every figure, in a box from -1 to 1."""
    style = MarkerStyle(mark(heritage).marker)
    path = style.get_path().transformed(style.get_transform() + Affine2D().scale(2, -2))
    steps = [(STEPS[int(code)], points) for points, code in path.iter_segments(simplify=False)]
    return "".join(step + ",".join(f"{x:.3f}" for x in points) * (step != "Z") for step, points in steps)


def swatch(heritage: str) -> str:
    """The lab's marker with its colour."""
    return f'<path d="{shape(heritage)}" fill="{mark(heritage).color}"/>'


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


def script_json(content: Any) -> str:
    """JSON that can stand in a script element whatever the names in it are."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shown(drawn: pd.DataFrame) -> pd.DataFrame:
    """Rows as the chart takes them: rounded, named, without the first gain, missing norms as None."""
    rows = drawn[(drawn["quantity"] != atlas_rows.GAIN) | (drawn["layer"] >= SHOWN_GAIN_FROM)]
    numbers = {name: [None if pd.isna(x) else _round(x) for x in rows[name]] for name in ("depth", "value", "norm")}
    points = rows[["heritage", "origin", "quantity", "definition", "source"]].astype(object)
    names = [_named(*of) for of in zip(rows["model_id"], rows["revision"], strict=True)]
    trained = rows["origin"] == atlas_rows.TRAINED_ORIGIN
    words = [" ".join(of).lower() for of in zip(names, rows["heritage"], rows["family"], strict=True)]
    return points.assign(
        model=names,
        words=words,
        first=trained | rows["model_id"].isin(atlas_rows.contrasting(drawn, FIRST)),
        block=[f"{layer} of {L}" for layer, L in zip(rows["layer"], rows["n_layers"], strict=True)],
        **{name: pd.Series(values, index=rows.index, dtype=object) for name, values in numbers.items()},
    )


def _panel(
    rows: pd.DataFrame, quantity: str, condition: str, labs: list[str], chosen: alt.Parameter, pointed: alt.Parameter
) -> alt.LayerChart | alt.FacetChart:
    words, clip = atlas_rows.QUANTITIES[quantity], quantity == atlas_rows.GAIN
    depth = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    base = (
        alt.Chart()
        .transform_filter(f"datum.quantity === {json.dumps(quantity)} && {condition}")
        .encode(
            x=alt.X("depth:Q", title="relative depth, l / L", scale=SPAN, axis=depth),
            y=_vertical(quantity, rows),
            color=alt.Color("heritage:N", legend=None, scale=_scale({lab: mark(lab).color for lab in labs})),
            detail=[alt.Detail("model:N"), alt.Detail("origin:N")],
            opacity=alt.condition(chosen, alt.value(0.9), alt.value(0.08)),
        )
    )
    value = alt.Tooltip("value:Q", title=words, format=".4~g")
    tooltip = [alt.Tooltip("model:N"), alt.Tooltip("heritage:N", title="lab"), alt.Tooltip("block:N"), value]
    tooltip += [alt.Tooltip("norm:Q", title="norm", format=".4~g")] * (quantity == atlas_rows.NORM)
    tooltip += [alt.Tooltip("definition:N", title="what"), alt.Tooltip("origin:N"), alt.Tooltip("source:N")]
    lines = base.mark_line(aria=False, clip=clip).encode(
        strokeWidth=alt.condition(pointed, alt.value(3.5), alt.value(1.3)),
        strokeDash=alt.StrokeDash("origin:N", legend=None, scale=_scale(DASHES)),
    )
    points = base.mark_point(filled=True, aria=False, clip=clip).encode(
        shape=alt.Shape("heritage:N", legend=None, scale=_scale({lab: shape(lab) for lab in labs})),
        size=alt.condition(pointed, alt.value(70), alt.value(26)),
        tooltip=tooltip,
    )
    named = f"datum.label && {FEW} && !{SEARCH}" + f" && !{WHOLE}" * clip
    names = (
        alt.Chart(alt.InlineData(values=_names(rows, quantity)))
        .transform_filter(f"{named} && {condition}")
        .mark_text(align="left", dx=5, fontSize=11, aria=False)
        .encode(x=alt.XDatum(1.015, scale=SPAN), y="at:Q", text="label:N", color="heritage:N")
    )
    leaving = _leaving(base, tooltip, *_ends(quantity, rows)) if clip else []
    return alt.layer(lines, points, *leaving, names).properties(width=WIDTH, height=HEIGHT, title=words)


def _leaving(base: alt.Chart, tooltip: Sequence[alt.Tooltip], low: float, high: float) -> list[alt.Chart]:
    """Arrows at the edges of a panel where a line leaves it, unless the whole range is shown."""
    return [
        base.transform_filter(f"!{WHOLE} && datum.value {beyond}")
        .mark_point(filled=True, aria=False, shape=arrow, size=60)
        .encode(y=alt.YDatum(edge), tooltip=tooltip)
        for beyond, edge, arrow in ((f"> {high}", high, "triangle-up"), (f"< {low}", low, "triangle-down"))
    ]


def _names(rows: pd.DataFrame, quantity: str) -> list[dict[str, Any]]:
    """Names of the models shown at first at the ends of their lines in a panel, so far apart that each can be read.

    One that ends beyond the panel stands at its edge with an arrow.
    """
    first = rows[rows["first"] & (rows["origin"] != atlas_rows.TRAINED_ORIGIN)]
    ends = first.groupby(["model", "heritage", "origin"], sort=False)["value"].last().astype(float)
    low, high = _ends(quantity, rows)
    ends = ends.sort_values(ascending=False)
    arrows = [" ↑" if end > high else " ↓" if end < low else "" for end in ends]
    pixels = list((HEIGHT * (log10(high) - ends.map(log10)) / (log10(high) - log10(low))).clip(0, HEIGHT))
    for place in range(1, len(pixels)):
        pixels[place] = max(pixels[place], pixels[place - 1] + APART)
    pixels = [pixel - max(0.0, max(pixels) - HEIGHT) for pixel in pixels]
    return [
        {"label": short_name(model) + arrow, "heritage": lab, "origin": origin, "words": "", "first": True, "at": at}
        for (model, lab, origin), arrow, at in zip(
            ends.index, arrows, (high * (low / high) ** (y / HEIGHT) for y in pixels), strict=True
        )
    ]


def _ends(quantity: str, rows: pd.DataFrame) -> list[float]:
    """Ends of a panel's vertical axis at first."""
    values = rows["value"].astype(float)
    return _common_gains(rows) if quantity == atlas_rows.GAIN else [0.95 * values.min(), 1.05 * values.max()]


def _vertical(quantity: str, rows: pd.DataFrame) -> alt.Y:
    """Logarithmic axis over all values whatever is chosen; the extreme gains only where they are asked for."""
    ends: list[Any] = _ends(quantity, rows)
    if quantity == atlas_rows.GAIN:
        values = rows["value"].astype(float)
        line = zip((0.95 * values.min(), 1.05 * values.max()), ends, strict=True)
        ends = [alt.ExprRef(f"{WHOLE} ? {end} : {inner}") for end, inner in line]
    scale = alt.Scale(type="log", nice=False, domain=ends)
    axis = alt.Axis(format="~s" if quantity == atlas_rows.TRACE else "~g", tickCount=6)
    return alt.Y("value:Q", title=None, scale=scale, axis=axis)


def at_first(origins: Sequence[str]) -> set[str]:
    """Origins that are shown before a box is ticked: the many models trained by design would hide all others."""
    return set(origins) - {atlas_rows.TRAINED_ORIGIN} or set(origins)


def _common_gains(points: pd.DataFrame) -> list[float]:
    """Ends of the axis of gains unless the whole range is asked for: quantiles of what is shown at first."""
    rows = points[(points["quantity"] == atlas_rows.GAIN) & points["origin"].isin(at_first(list(points["origin"])))]
    gains = rows["value"].astype(float)
    return [_round(gains.quantile(1 - SHOWN)), _round(gains.quantile(SHOWN))] if len(gains) else [0.0, 0.0]


def _checkbox(name: str, label: str, ticked: bool = True) -> alt.Parameter:
    element = "#" + name.replace("_", "-")
    return alt.param(name=name, value=ticked, bind=alt.binding_checkbox(name=label, element=element))


def _any_of(signal: str, field: str, values: list[str]) -> str:
    """Expression that is true where the checkbox of the row's value is ticked."""
    return "(" + " || ".join(f"({signal}_{i} && datum.{field} === {json.dumps(v)})" for i, v in enumerate(values)) + ")"


def _scale(values: Mapping[str, Any]) -> alt.Scale:
    return alt.Scale(domain=list(values), range=list(values.values()))


@cache
def _bundle() -> str:
    """Vega and Vega-Lite as one script, which takes a while to put together."""
    script: str = vl_convert.javascript_bundle(EMBED, vl_version=VEGA_LITE)
    return script


def _named(model: str, revision: str) -> str:
    return model if revision in {"main", ""} else f"{model} @ {revision}"


def _round(value: float) -> float:
    return round(float(value), DIGITS - 1 - int(log10(abs(value)) // 1)) if value else 0.0
