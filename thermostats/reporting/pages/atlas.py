"""The layer atlas: one self-contained page with every model's quantities by layer, to choose and to
point at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
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
from thermostats.claims.study import load_studies
from thermostats.formatting import format_number, strip_owner
from thermostats.modelling.draws import Array
from thermostats.plots.general import mark
from thermostats.plots.svg import find_dark_colour
from thermostats.reporting.render import Files, build_page_environment, hash_scripts, load_script
from thermostats.reporting.state import build_navigation, describe_machine
from thermostats.tables.schemas import EXTERNAL, NURSERY, OURS

GAIN = "gain"
NORM = "norm"
W_V = "W_V"
W_O = "W_O"
TRACE = "trace"
QUANTITIES = {
    GAIN: "residual gain of a block",
    NORM: "residual norm over that of block 1",
    TRACE: "trace of the sheaf Laplacian",
    W_V: "spectral norm of the value matrix",
    W_O: "spectral norm of the output matrix",
}
"""Panels of the atlas in their order, in words."""
PUBLISHED_ORIGIN = "published"
MEASURED_ORIGIN = "measured here"
TRAINED_ORIGIN = "trained in the nursery"
EXTERNAL_ORIGIN = "measured by others"
POSITIONS = {
    "last": "last token",
    "mean": "geometric mean over tokens",
    "mean_norm": "ratio of norms averaged over tokens",
    "all": "norms pooled over all tokens",
    "unstated": "token not stated",
}
"""Token positions in order of preference; the first token is an attention sink and is left out."""
VARIANTS = {
    "exact": "exact trace",
    "multi_head": "all heads, W_V as its source cut it",
    "first_head": "W_V of the first head only",
    "subsampled": "on a sample of tokens and dimensions",
}
"""Variants of the trace in order of preference."""
FEWEST = 2
"""Layers that a run must have to be drawn as a line."""
MODEL = ["model_id", "revision", "heritage", "origin"]
COLUMNS = [
    *MODEL,
    "family",
    "n_layers",
    "quantity",
    "layer",
    "depth",
    "value",
    "norm",
    "definition",
    "source",
]


def collect_rows(tables: Evidence) -> pd.DataFrame:
    """Everything that the atlas draws, sorted: columns `COLUMNS`; `norm` is n_l itself where it is
    known.

    Of every model, origin (published, measured by this package, or trained for the controlled
    study: then at the end of its training) and quantity it is one run: with at least `FEWEST`
    layers if there is one, then by the order of `POSITIONS` or `VARIANTS`, then the one with most
    layers. Over prompts it is the mean that the source gives, else the geometric mean (arithmetic
    for traces).
    """
    depth = _read(tables, "models").drop_duplicates(["model_id", "revision"])[
        ["model_id", "revision", "family", "n_layers"]
    ]
    stream = _stream(tables)
    parts = [
        _collect_gains(stream),
        _collect_norms(stream),
        _collect_traces(tables),
        _collect_weights(tables),
    ]
    filled = [part for part in parts if not part.empty]
    both = pd.concat(filled or [stream.reindex(columns=COLUMNS)])
    both = both.drop(columns=["family", "n_layers"], errors="ignore")
    both = both.merge(depth, on=["model_id", "revision"], how="left")
    both["depth"] = both["layer"].astype(float) / both["n_layers"].astype(float)
    both["quantity"] = pd.Categorical(both["quantity"], list(QUANTITIES))
    both = both.reindex(columns=COLUMNS).dropna(subset=["value", "depth"])
    both = both.sort_values(["quantity", *MODEL, "layer"], ignore_index=True)
    types = {
        "family": str,
        "quantity": str,
        "layer": int,
        "n_layers": int,
        "value": float,
        "norm": float,
    }
    return both.astype(types)


def choose_contrasting(drawn: pd.DataFrame, most: int) -> list[str]:
    """Models that differ: of each lab the one with most quantities, and of these some with mean
    gains far apart.

    They are models of the study whose gains stay inside the panel, where these are of enough labs.
    """
    trained = drawn[drawn["origin"] != TRAINED_ORIGIN]
    published = trained.loc[trained["origin"] == PUBLISHED_ORIGIN, "model_id"]
    inside = set(published) & list_inside(trained)
    study = trained[trained["model_id"].isin(inside)]
    trained = study if study["heritage"].nunique() >= most else trained
    gains = _select_gains(trained)
    by_model = trained.groupby("model_id")
    facts = {
        "gain": np.log(gains["value"]).groupby(gains["model_id"]).mean(),
        "quantities": by_model["quantity"].nunique(),
        "layers": by_model["layer"].nunique(),
        "lab": by_model["heritage"].first(),
    }
    table = pd.DataFrame(facts).dropna()
    table = table.sort_values(["quantities", "layers"], ascending=False, kind="stable")
    table = table.drop_duplicates("lab")
    ordered = list(table.sort_values("gain").index)
    n_chosen = min(most, len(ordered))
    places = np.linspace(0, len(ordered) - 1, n_chosen).round().astype(int)
    return [str(ordered[place]) for place in places]


def _select_gains(drawn: pd.DataFrame) -> pd.DataFrame:
    """Gains from the block on from which they are drawn."""
    return drawn[(drawn["quantity"] == GAIN) & (drawn["layer"] >= SHOWN_GAIN_FROM)]


def list_inside(drawn: pd.DataFrame) -> set[str]:
    """Models whose gains all stay inside the panel of gains that is shown at first."""
    gains = _select_gains(drawn)
    low, high = _find_common_gains(gains)
    ends = gains.groupby("model_id")["value"].agg(["min", "max"])
    is_inside = (ends["min"] >= low) & (ends["max"] <= high)
    return set(ends.index[is_inside])


def find_missing(drawn: pd.DataFrame, tables: Evidence) -> dict[str, list[str]]:
    """Models of the table `models` without data by layer, by quantity; what is drawn instead of it
    is not it."""
    models = sorted(set(tables.table("models")["model_id"]))
    drawn = drawn[~drawn["definition"].isin(list(list_substitutes()))]
    missing = {}
    for quantity in QUANTITIES:
        there = set(drawn.loc[drawn["quantity"] == quantity, "model_id"])
        missing[quantity] = [model for model in models if model not in there]
    return missing


def list_substitutes() -> dict[str, str]:
    """What studies bring that is drawn with a quantity but is not it, in words: its quantity by its
    definition."""
    drawn = chain.from_iterable(study.layers.values() for study in load_studies().values())
    return {words: quantity for quantity, words in drawn}


def _read(tables: Evidence, name: str, **equals: str | list[str]) -> pd.DataFrame:
    """Rows of a table, and those of the controlled study at the end of training."""
    ended = tables.table("models", source=NURSERY, variant="base")
    trained = tables.table(name, source=NURSERY, **equals)
    trained = trained.merge(ended[["model_id", "revision"]])
    both = pd.concat([tables.table(name, **equals), trained], ignore_index=True)
    return both.assign(origin=_find_origin(both, tables)) if "run_id" in both else both


def _stream(tables: Evidence) -> pd.DataFrame:
    """Log gain and log norm of every run, position and layer, averaged over prompts."""
    layers = _read(tables, "layers")
    layers = layers[layers["position"].isin(list(POSITIONS))]
    by = ["run_id", "position", "layer"]
    log_gain = np.log(layers["gain_block"].astype(float))
    log_norm = np.log(layers["norm_in"].astype(float))
    values = layers.assign(log_gain=log_gain, log_norm=log_norm)
    averaged = values["prompt_id"] == ""
    means = values[averaged].groupby(by)[["log_gain", "log_norm"]].first()
    made = values[~averaged].groupby(by)[["log_gain", "log_norm"]].mean()
    out = means.combine_first(made).reset_index()
    facts = _collect_facts(layers)
    return out.merge(facts, on="run_id", how="left")


def _collect_gains(stream: pd.DataFrame) -> pd.DataFrame:
    gains = stream.dropna(subset="log_gain")
    chosen = _choose_best(gains, "position", list(POSITIONS))
    values = np.exp(chosen["log_gain"])
    places = chosen["position"].map(POSITIONS)
    return chosen.assign(quantity=GAIN, value=values, definition=places, norm=np.nan)


def _collect_norms(stream: pd.DataFrame) -> pd.DataFrame:
    """n_l / n_1 from the norms where they are known, else as the product of the gains of blocks 2
    to l."""
    curves = []
    for _, line in stream.groupby(["run_id", "position"], sort=True):
        curve = _build_curve(line)
        if not curve.empty:
            curves.append(curve)
    if not curves:
        return stream.iloc[:0].assign(quantity=NORM, value=np.nan)
    return _choose_best(pd.concat(curves), "position", list(POSITIONS)).assign(quantity=NORM)


def _build_curve(line: pd.DataFrame) -> pd.DataFrame:
    by_layer = line.set_index("layer").sort_index()
    log_gain = by_layer["log_gain"]
    log_in = by_layer["log_norm"]
    left = log_in.rename(index=lambda layer: layer - 1)
    stated = left.drop(index=0, errors="ignore").dropna()
    place = POSITIONS[str(line["position"].iloc[0])]
    if 1 in stated.index:
        log_out = stated - stated[1]
        after = log_out.index.max() + 1
        if after in log_gain.index and np.isfinite(log_gain[after]):
            log_out.loc[after] = log_out[after - 1] + log_gain[after]
        norms = np.exp(stated).reindex(log_out.index)
        definition = f"{place}, from the norms"
    else:
        inner = log_gain[log_gain.index >= 2].dropna()
        unbroken = inner[inner.index == 2 + np.arange(len(inner))]
        if unbroken.empty:
            return line.iloc[:0]
        log_out = pd.concat([pd.Series({1: 0.0}), unbroken.cumsum()])
        norms = pd.Series(np.nan, index=log_out.index)
        definition = f"{place}, product of the mean gains"
    facts = line.iloc[[0] * len(log_out)].drop(columns=["layer", "log_gain", "log_norm"])
    facts = facts.reset_index(drop=True)
    layers = log_out.index.to_numpy()
    values = np.exp(log_out.to_numpy())
    return facts.assign(layer=layers, value=values, norm=norms.to_numpy(), definition=definition)


def _collect_traces(tables: Evidence) -> pd.DataFrame:
    attention = _read(tables, "attention", head="", variant=list(VARIANTS)).dropna(subset="trace")
    attention = attention[attention["trace"] > 0]
    by = ["run_id", "variant", "layer"]
    averaged = attention["prompt_id"] == ""
    means = attention[averaged].groupby(by)["trace"].first()
    made = attention[~averaged].groupby(by)["trace"].mean()
    out = means.combine_first(made).rename("value").reset_index()
    out = out.merge(_collect_facts(attention), on="run_id", how="left")
    chosen = _choose_best(out, "variant", list(VARIANTS))
    return chosen.assign(quantity=TRACE, definition=chosen["variant"].map(VARIANTS), norm=np.nan)


def _collect_weights(tables: Evidence) -> pd.DataFrame:
    norms = _read(tables, "weights", head="", matrix=[W_V, W_O]).dropna(subset="spectral_norm")
    parts = []
    for matrix, part in norms.groupby("matrix"):
        chosen = _choose_best(part, "matrix", [W_V, W_O])
        value = chosen["spectral_norm"]
        words = {"quantity": matrix, "definition": "whole matrix"}
        parts.append(chosen.assign(**words, value=value, norm=np.nan))
    for study in load_studies().values():
        for prefix, drawn in study.layers.items():
            parts.append(_collect_summaries(tables, prefix, *drawn))
    filled = [part for part in parts if not part.empty]
    return pd.concat(filled or parts or [norms])


def _collect_summaries(
    tables: Evidence, prefix: str, quantity: str, definition: str
) -> pd.DataFrame:
    """What a study gives by layer as summaries, drawn with a quantity that it is not."""
    summaries = _read(tables, "summaries")
    summaries = summaries[summaries["estimand"].str.startswith(prefix)]
    layer = summaries["estimand"].str.removeprefix(prefix).astype(int)
    return summaries.assign(layer=layer, quantity=quantity, definition=definition, norm=np.nan)


def _choose_best(rows: pd.DataFrame, by: str, order: list[str]) -> pd.DataFrame:
    """Rows of one run and position or variant per model, revision and origin."""
    if rows.empty:
        return rows
    counted = rows.groupby([*MODEL, "run_id", by], sort=True)["layer"].nunique()
    candidates = counted.rename("layers").reset_index()
    candidates["line"] = candidates["layers"] >= FEWEST
    places = {name: place for place, name in enumerate(order)}
    candidates["place"] = candidates[by].map(places)
    ranked = candidates.sort_values(
        ["line", "place", "layers", "run_id"], ascending=[False, True, False, True]
    )
    chosen = ranked.drop_duplicates(MODEL)[["run_id", by]]
    return rows.merge(chosen, on=["run_id", by])


def _collect_facts(frame: pd.DataFrame) -> pd.DataFrame:
    """Model, lab and origin of every run of a table."""
    runs = frame.drop_duplicates("run_id")
    return runs[["run_id", *MODEL, "source"]]


def _find_origin(frame: pd.DataFrame, tables: Evidence) -> pd.Series:
    others = tables.named(EXTERNAL).table("runs")["source"]
    origins = {
        OURS: MEASURED_ORIGIN,
        NURSERY: TRAINED_ORIGIN,
        **dict.fromkeys(others, EXTERNAL_ORIGIN),
    }
    return frame["source"].map(origins).fillna(PUBLISHED_ORIGIN)


SCRIPT = "atlas.js"
WIDTH = 406
HEIGHT = 224
"""Size of a panel's plot in the units of its SVG."""
DEEPEST = 1.015
"""Relative depth at the right end of a plot."""
ARROW = 4
"""Half the width of the triangle where a line leaves its plot."""
FIRST = 4
"""Models that are shown at first."""
DIGITS = 5
"""Significant digits of a value in the page."""
SHOWN_GAIN_FROM = 2
"""First block in the panel of gains: block 1 lifts the embedding and would set the scale."""
SHOWN = 0.98
"""Quantile of the gains up to which, and one less it from which, they are shown unless the whole
range is asked for."""
DASHES = {PUBLISHED_ORIGIN: "", EXTERNAL_ORIGIN: "8 2 2 2"}
DASHES |= {MEASURED_ORIGIN: "5 3", TRAINED_ORIGIN: "1 3"}
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


def build_files(tables: Evidence) -> dict[str, bytes]:
    """`atlas.html`, `atlas.md`, and the curves as `atlas.csv`."""
    drawn = collect_rows(tables)
    made = Files()
    made.add("atlas.html", render_page(tables, drawn).encode())
    curves_table = made.add_table(pd.DataFrame(list_curves(drawn)), "Curves", "atlas.csv")
    lacking = list_lacking(drawn, tables)
    made.add_page("atlas.md", curves=curves_table, lacking=lacking, machine=describe_machine())
    return made.contents


def render_page(tables: Evidence, drawn: pd.DataFrame | None = None) -> str:
    """The atlas as one HTML page without references to anything outside it: the same text for the
    same tables."""
    drawn = collect_rows(tables) if drawn is None else drawn
    points = _select_shown(drawn)
    lines = list_curves(drawn)
    gains = points.loc[points["quantity"] == GAIN, "value"]
    low, high = _find_common_gains(points)
    labs = list_labs(points)
    origins = sorted(points["origin"].unique(), reverse=True)
    marks = []
    for lab in labs:
        colour = mark(lab).color
        marks.append((lab, trace_marker(lab), colour, find_dark_colour(colour)))
    models = points.drop_duplicates("model")[["model", "heritage", "first", "origin"]]
    depths = (0, 0.2, 0.4, 0.6, 0.8, 1)
    script = load_script(SCRIPT)
    outside = ~gains.between(low, high)
    template = build_page_environment().get_template("atlas.html")
    return template.render(
        pages=build_navigation(),
        labs=marks,
        number_of={lab: place for place, lab in enumerate(labs)},
        origins=origins,
        at_first=list_first_origins(origins),
        dashes=[DASHES[origin] for origin in origins],
        panels=build_panels(points),
        models=models.to_dict("records"),
        size=(WIDTH, HEIGHT),
        depths=[(float(_place_depths(depth)), f"{depth:g}") for depth in depths],
        script=Markup(script),  # noqa: S704
        policy=hash_scripts([script]),
        first=FIRST,
        curves=lines,
        lacking=list_lacking(drawn, tables),
        quantities=QUANTITIES,
        n_models=drawn["model_id"].nunique(),
        n_curves=len(lines),
        first_block=SHOWN_GAIN_FROM,
        low=format_number(low),
        high=format_number(high),
        outside=int(outside.sum()),
        n_gains=len(gains),
    )


def list_labs(points: pd.DataFrame) -> list[str]:
    """Labs in the order of the alphabet."""
    return sorted(str(lab) for lab in points["heritage"].unique())


def build_panels(points: pd.DataFrame) -> list[AtlasPanel]:
    """A panel for every quantity that there is, and for gains a second one over their whole
    range."""
    made = []
    for quantity, words in QUANTITIES.items():
        rows = points[points["quantity"] == quantity]
        if rows.empty:
            continue
        whole = _find_axis_ends(rows["value"])
        spans = {"": whole}
        if quantity == GAIN:
            spans = {"common": _find_common_gains(rows), "whole": whole}
        ratio = quantity in {GAIN, NORM}
        for span, ends in spans.items():
            made.append(_build_panel(rows, words, span, *ends, ratio=ratio))
    return made


def place_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Up to about eight round numbers between the ends of a logarithmic axis, and what is written
    next to them."""
    orders = log10(high / low)
    steps = (1.0, 2.0, 5.0) if orders < 3 else (1.0,)
    locator = MaxNLocator(6) if orders < 1 else LogLocator(subs=steps)
    places = locator.tick_values(low, high)
    thousands = EngFormatter(sep="")
    ticks: list[tuple[float, str]] = []
    for at in places:
        if low <= at <= high:
            label = thousands(at) if at >= 1000 else f"{at:g}"
            ticks.append((float(at), label))
    return ticks


def trace_marker(heritage: str) -> str:
    """Path of a lab's marker in every figure, in a box from -1 to 1."""
    style = MarkerStyle(mark(heritage).marker)
    place = style.get_transform() + Affine2D().scale(2, -2)
    path = style.get_path().transformed(place)
    steps = []
    for points, code in path.iter_segments(simplify=False):
        step = STEPS[int(code)]
        numbers = ",".join(f"{x:.3f}" for x in points)
        steps.append(step if step == "Z" else step + numbers)
    return "".join(steps)


def list_curves(drawn: pd.DataFrame) -> list[dict[str, Any]]:
    """Every line of the atlas as text: model, lab, quantity, what it is, and its values layer by
    layer."""
    by = ["quantity", "model_id", "revision", "heritage", "origin"]
    curves = []
    for (quantity, model, revision, lab, origin), line in drawn.groupby(by, sort=False):
        first = line.iloc[0]
        values = []
        for row in line.itertuples():
            values.append(f"{row.layer}: {format_number(row.value)}")
        curve = {
            "quantity": str(quantity),
            "model": _name_model(model, revision),
            "lab": lab,
            "origin": origin,
            "L": int(first["n_layers"]),
            "definition": first["definition"],
            "source": first["source"],
            "values": ", ".join(values),
        }
        curves.append(curve)
    return curves


def list_lacking(drawn: pd.DataFrame, tables: Evidence) -> list[dict[str, str]]:
    """By quantity, in words, the models of the tables that have no data by layer."""
    total = tables.table("models")["model_id"].nunique()
    rows = []
    for quantity, models in find_missing(drawn, tables).items():
        named = f"{len(models)} of {total}: {', '.join(map(strip_owner, models))}"
        if not models:
            sentence = "No model lacks it"
        else:
            sentence = f"All {total} models lack it" if len(models) == total else named
        for definition in (words for words, of in list_substitutes().items() if of == quantity):
            if instead := sorted(drawn.loc[drawn["definition"] == definition, "model_id"].unique()):
                sentence += (
                    f". What is drawn of {', '.join(map(strip_owner, instead))} is the {definition}"
                )
        rows.append({"quantity": QUANTITIES[quantity], "models": sentence + "."})
    return rows


def _build_panel(
    rows: pd.DataFrame, words: str, span: str, low: float, high: float, *, ratio: bool
) -> AtlasPanel:
    ticks = place_ticks(low, high)
    has_unchanged = ratio and low < 1 < high
    lines = rows.groupby(["model", "origin"], sort=False)
    placed = [(float(_place_values(at, low, high)), label) for at, label in ticks]
    unchanged = float(_place_values(1.0, low, high)) if has_unchanged else None
    curves = [_build_line(line, low, high) for _, line in lines]
    return AtlasPanel(words=words, span=span, ticks=placed, unchanged=unchanged, lines=curves)


def _build_line(rows: pd.DataFrame, low: float, high: float) -> AtlasLine:
    first = rows.iloc[0]
    x = _place_depths(rows["depth"])
    y = _place_values(rows["value"], low, high)
    points = []
    for a, b in zip(x, y, strict=True):
        points.append(f"{a:.1f},{b:.1f}")
    leaving = []
    for a, b in zip(x, y, strict=True):
        if not 0 <= b <= HEIGHT:
            leaving.append(_draw_arrow(a, above=b < 0))
    norms = rows["norm"] if rows["norm"].notna().any() else ()
    return AtlasLine(
        model=first["model"],
        lab=first["heritage"],
        family=first["family"],
        origin=first["origin"],
        first=bool(first["first"]),
        what=f"{first['definition']}; {first['source']}",
        layers=" ".join(map(str, rows["layer"])),
        values=" ".join(map(_format_digits, rows["value"])),
        norms=" ".join(map(_format_digits, norms)),
        of=int(first["n_layers"]),
        way="M" + "L".join(points),
        leaving="".join(leaving),
    )


def _draw_arrow(x: float, *, above: bool) -> str:
    """A triangle at the upper or lower edge of a plot that points out of it."""
    edge = 0 if above else HEIGHT
    inwards = 1.7 * ARROW if above else -1.7 * ARROW
    back = -2 * ARROW
    return f"M{x:.1f},{edge}l{ARROW},{inwards}h{back}z"


def _place_depths(depth: npt.ArrayLike) -> Array:
    """Places of relative depths in a plot."""
    return np.asarray(WIDTH * np.asarray(depth) / DEEPEST)


def _place_values(value: npt.ArrayLike, low: float, high: float) -> Array:
    """Heights of values in a plot, from above."""
    below_top = np.log(high / np.asarray(value))
    return np.asarray(HEIGHT * below_top / np.log(high / low))


def _select_shown(drawn: pd.DataFrame) -> pd.DataFrame:
    """Rows as the panels take them: named, without the first gain."""
    is_late = drawn["layer"] >= SHOWN_GAIN_FROM
    rows = drawn[(drawn["quantity"] != GAIN) | is_late]
    names = []
    for of in zip(rows["model_id"], rows["revision"], strict=True):
        names.append(_name_model(*of))
    trained = rows["origin"] == TRAINED_ORIGIN
    is_contrasting = rows["model_id"].isin(choose_contrasting(drawn, FIRST))
    return rows.assign(model=names, first=trained | is_contrasting)


def list_first_origins(origins: Sequence[str]) -> set[str]:
    """Origins that are shown before a box is ticked: the many models trained by design would hide
    all others."""
    return set(origins) - {TRAINED_ORIGIN} or set(origins)


def _find_common_gains(points: pd.DataFrame) -> tuple[float, float]:
    """Ends of the axis of gains unless the whole range is asked for: quantiles of what is shown at
    first."""
    origins = list_first_origins(list(points["origin"]))
    rows = points[(points["quantity"] == GAIN) & points["origin"].isin(origins)]
    gains = rows["value"]
    if gains.nunique() < 2:
        return _find_axis_ends(gains) if len(gains) else (0.0, 0.0)
    return float(gains.quantile(1 - SHOWN)), float(gains.quantile(SHOWN))


def _find_axis_ends(values: pd.Series) -> tuple[float, float]:
    """Ends of an axis that shows all values."""
    return float(0.95 * values.min()), float(1.05 * values.max())


def _name_model(model: str, revision: str) -> str:
    return model if revision in {"main", ""} else f"{model} @ {revision}"


def _format_digits(value: float) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:.{DIGITS}g}"
