"""The universes of questions about the study's models: rows that some universe reads, and options
as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from thermostats.claims.evidence import EXTERNAL, POOLED, Evidence
from thermostats.formatting import format_number, strip_owner
from thermostats.modelling.classical.association import PowerLaw
from thermostats.modelling.classical.many import measure_margin
from thermostats.modelling.specification import Choices, Option, transform_normal_scores
from thermostats.plots.general import (
    DASHED,
    INK,
    MUTED,
    draw_forest,
    draw_reference,
    draw_scatter,
    log_axis,
    mark,
    name_models,
    name_rows,
    place_legend,
    prepare_drawing,
    shorten_names,
)
from thermostats.plots.point_names import GROUND, Look, name_ends, place_labels
from thermostats.studies.delia2026.largest_gains import SPANS
from thermostats.studies.delia2026.published_gains import NAMED_GAINS, load_gains
from thermostats.studies.delia2026.stated_audits import FOCAL
from thermostats.tables.model_rows import model_rows

FACTS = [
    "model_id",
    "heritage",
    "family",
    "comparable",
    "n_prompts",
    "lower",
    "upper",
    "gain",
    "log_gain",
    "rho",
]
SHAPE = ["n_layers", "n_heads", "d_head", "d_model", "n_params", "n_params_nonembedding"]
COLUMNS = tuple(gain.column for gain in NAMED_GAINS)
READ_GAIN = "penultimate_read_gain"

PROMPTS: Mapping[str, Option] = {
    "arithmetic mean": "prompts == 'arithmetic'",
    "geometric mean": "prompts == 'geometric'",
}
"""Aggregation over prompts; where mean and SD alone are published the geometric mean is
m·exp(−(SD/m)²/2)."""
SETS: Mapping[str, Option] = {"the study's": "set == 'study'", "with other people's": ""}
ERRORS: Mapping[str, Option] = {"log gain": "", "normal scores": transform_normal_scores}


def list_outcomes(*left_out: str) -> dict[str, Option]:
    """Named gains, their log the outcome."""
    chosen = [gain for gain in NAMED_GAINS if gain.column not in left_out]
    outcomes: dict[str, Option] = {}
    for gain in chosen:
        column = gain.column
        outcomes[SHORT[column]] = {"outcome": f"log({column})"}
    return outcomes


READ: dict[str, Option] = {"penultimate block, as read": {"outcome": f"log({READ_GAIN})"}}
"""The gain of what blocks read of the stream, of the models of which any source knows it."""
SHORT = {
    "penultimate_gain": "penultimate block",
    "normed_gain": "last, final norm in it",
    "geometric_gain_to_penultimate": "mean per block",
    "max_gain_to_penultimate": "largest block",
}


def collect_universe_rows(evidence: Evidence) -> pd.DataFrame:
    """Models of the study and of other people, each with gains averaged over prompts in both ways.

    Columns besides those of `load_gains`: `set` (study, or external for models that the study
    lacks), `prompts`, `focal`, `lab` and `clade`, heritage and family that no option changes, and
    the penultimate read gain by whichever source.
    """
    study = load_gains(evidence)
    others = model_rows(evidence.named(EXTERNAL), incomparable=True)
    known = others["model_id"].isin(study["model_id"])
    others = others[~known]
    with_read = model_rows(evidence.named(POOLED), READ_GAIN, incomparable=True)
    read = with_read.set_index("model_id")["gain"]
    frames = []
    for name, rows in (("study", study), ("external", others)):
        facts = rows[[*FACTS, *SHAPE, *COLUMNS]].copy()
        facts["set"] = name
        facts["lab"] = rows["heritage"]
        facts["clade"] = rows["family"]
        facts["focal"] = facts["heritage"] == FOCAL
        facts[READ_GAIN] = facts["model_id"].map(read)
        frames.append(facts.assign(prompts="arithmetic"))
        geometric = {c: rows[c] * measure_geometric_ratio(rows, c) for c in COLUMNS}
        frames.append(facts.assign(prompts="geometric", **geometric))
    numbers = dict.fromkeys((*COLUMNS, *SHAPE, READ_GAIN), float)
    return pd.concat(frames, ignore_index=True).astype(numbers)


def select_mean_rows(evidence: Evidence) -> pd.DataFrame:
    """The same of arithmetic means over prompts alone, where the other mean moves nothing."""
    return collect_universe_rows(evidence).query("prompts == 'arithmetic'").reset_index(drop=True)


def select_study_rows(evidence: Evidence) -> pd.DataFrame:
    """The same without other people's models."""
    return collect_universe_rows(evidence).query("set == 'study'").reset_index(drop=True)


def measure_geometric_ratio(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Geometric over arithmetic mean over prompts; 1 where neither prompts nor their SD are
    known."""
    exact = rows[f"{gain}_geometric"] / rows[gain]
    relative_sd = rows[f"{gain}_sd"] / rows[gain]
    approximate = np.exp(-(relative_sd**2) / 2)
    return exact.fillna(approximate).fillna(1.0).astype(float)


def select_pair_labs(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of labs that have two or more."""
    sizes = rows.groupby("heritage")["model_id"].transform("size")
    return rows[sizes > 1].reset_index(drop=True)


MODELS: Mapping[str, Option] = {
    "comparable": "comparable",
    "pinned by a norm too": "",
    "labs of two or more": ("comparable", select_pair_labs),
}
LABS: Mapping[str, Option] = {"lab": "", "family in its place": {"heritage": "family"}}
CATEGORIES = ("Factual", "Syntactic", "Cliche", "Novel", "Nonsense")
"""Categories of the study's prompts."""
NONE = "0 * n_layers"
"""A column that is the same in all rows explains nothing and has no degree of freedom."""
SHAPED = {"log_L": "log(n_layers / d_model)", "log_H": "log(rho)", "log_d_h": NONE, "log_m": NONE}
PLAIN = {"log_L": "log(n_layers)", "log_H": "log(n_heads)", "log_d_h": "log(d_head)", "log_m": NONE}
WEIGHTS = {"log_n": "log(n_params_nonembedding)"}
EVERY_WEIGHT = {"log_n": "log(n_params)"}
CODING_OPTIONS: Mapping[str, Option] = {
    "L, H, d_h | weights": PLAIN | WEIGHTS,
    "L, H, d_h | all weights": PLAIN | EVERY_WEIGHT,
    "L/d, ρ | weights": SHAPED | WEIGHTS,
    "L/d, ρ | all weights": SHAPED | EVERY_WEIGHT,
    "L, ρ | d": SHAPED | {"log_L": "log(n_layers)", "log_n": "log(d_model)"},
    "ρ | L, d": SHAPED | {"log_L": NONE, "log_n": "log(n_layers)", "log_m": "log(d_model)"},
}
"""What counts as shape | as size."""
CODED_BLOCKS = {
    "heritage": ["heritage"],
    "geometry": ["log_L", "log_H", "log_d_h"],
    "scale": ["log_n", "log_m"],
}
SHAPE_AND_SIZE = (*CODED_BLOCKS["geometry"], *CODED_BLOCKS["scale"])

CAUSES: Choices = {
    "gain": list_outcomes("normed_gain") | READ,
    "prompts": PROMPTS,
    "models": MODELS,
    "lab": LABS,
    "shape | size": CODING_OPTIONS,
    "outcome": ERRORS,
}
"""Without other people's models: a lab that one source alone measured cannot be separated from the
source."""


def select_deep_families(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of families with three depths or more."""
    depths = rows.groupby("family")["n_layers"].transform("nunique")
    return rows[depths > 2].reset_index(drop=True)


def remove_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Depth less what a line over log size, with a level for each family, says of it."""
    levels = pd.get_dummies(rows["family"], dtype=float)
    log_size = np.log(rows["n_params_nonembedding"])
    x = np.column_stack([levels, log_size])
    depth = rows["n_layers"].to_numpy(float)
    slopes, *_ = np.linalg.lstsq(x, depth, rcond=None)
    return rows.assign(n_layers=depth - x @ slopes)


PYTHIA = "set == 'study' and family == 'pythia'"
DEEP_MODELS: Mapping[str, Option] = {
    "Pythia": PYTHIA,
    "Pythia, smallest left out": f"{PYTHIA} and n_layers > 6",
    "the study's families": ("set == 'study' and comparable", select_deep_families),
    "other people's too": ("comparable", select_deep_families),
}


def read_gain_itself(rows: pd.DataFrame) -> pd.DataFrame:
    """The gain as the outcome, instead of its log."""
    return rows.assign(outcome=np.exp(rows["outcome"]))


DEPTH: Choices = {
    "gain": list_outcomes() | READ,
    "prompts": PROMPTS,
    "models": DEEP_MODELS,
    "depth": {"L": "", "log L": {"n_layers": "log(n_layers)"}, "L given size": remove_size},
    "outcome": {"gain": read_gain_itself, **ERRORS},
}


def share_inner_blocks(rows: pd.DataFrame) -> pd.DataFrame:
    """The number of blocks 2 to L − 1 in the place of L, as the exponent has it."""
    log_blocks = np.log(rows["n_layers"] - 2)
    outcome = rows["outcome"] - rows["log_L"] + log_blocks
    return rows.assign(outcome=outcome, log_L=log_blocks)


def list_spans() -> dict[str, Option]:
    """Which blocks the largest gain is of, its log's log the outcome."""
    spans: dict[str, Option] = {}
    for span in SPANS:
        outcome = f"log(log({span.column})) + log(n_layers)"
        spans[span.words] = {"outcome": outcome, "log_L": "log(n_layers)"}
    return spans


EXPONENTS: Choices = {
    "blocks": list_spans(),
    "models": {
        "Pythia": DEEP_MODELS["Pythia"],
        "Pythia, smallest left out": DEEP_MODELS["Pythia, smallest left out"],
        "Pythia, two smallest left out": f"{PYTHIA} and n_layers > 12",
        "the study's families": DEEP_MODELS["the study's families"],
        "other people's too": DEEP_MODELS["other people's too"],
    },
    "depth": {"L": "", "L − 2": share_inner_blocks},
}
"""The exponent of the largest gain; the outcome is flat in depth where it is −1."""
SIGNS: Choices = {
    "gain": list_outcomes() | READ,
    "prompts": PROMPTS,
    "models": MODELS,
    "rows": SETS,
    "unit": {"family": "", "lab": {"family": "lab"}, "model": {"family": "model_id"}},
}
DENSITY: Choices = {
    "gain": list_outcomes() | READ,
    "models": {
        "not Pythia": "comparable and family != 'pythia'",
        "not EleutherAI": "comparable and lab != 'EleutherAI'",
        "every family": "comparable",
        "labs of two or more": ("comparable and family != 'pythia'", select_pair_labs),
    },
    "rows": SETS,
    "level of the lab": {"stays": {"within": NONE}, "removed": {"within": "lab"}},
}


def subtract_bound(rows: pd.DataFrame) -> pd.DataFrame:
    """The log of gain over bound as the outcome, instead of that of the gain."""
    log_bound = np.log(10) / rows["blocks"]
    return rows.assign(outcome=rows["outcome"] - log_bound)


def prepare_bound_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Gain, bound and relative error as the test of the bound reads them, of rows of
    `subtract_bound`.

    The error over prompts is that of the penultimate gain, the one that was published.
    """
    bound = 10 ** (1 / rows["blocks"])
    reach = rows["upper"] - rows["gain"]
    half = reach / rows["gain"]
    freedom = rows["n_prompts"].fillna(1) - 1
    error = half / measure_margin(1.0, freedom)
    gain = np.exp(rows["outcome"]) * bound
    return rows.assign(outcome=gain, bound=bound, error=error)


BOUND: Choices = {
    "gain": list_outcomes("normed_gain"),
    "prompts": PROMPTS,
    "models": {"comparable": "comparable", "pinned by a norm too": ""},
    "rows": SETS,
    "bound": {
        "10^(1/L)": ({"blocks": "n_layers"}, subtract_bound),
        "10^(1/(L − 2))": ({"blocks": "n_layers - 2"}, subtract_bound),
    },
}
"""The second bound shares 10 out over the blocks that such a gain is of, 2 to L − 1."""


def mark_sides(rows: pd.DataFrame) -> pd.DataFrame:
    """Which models dampen, and clearly so, as the test of signs reads them."""
    value = np.exp(rows["outcome"])
    low = rows["lower"] / rows["gain"]
    high = rows["upper"] / rows["gain"]
    below = value * high < 1
    clear = below | (value * low > 1)
    return rows.assign(value=value, dampens=value < 1, clear=clear)


HIERARCHY: Choices = {
    "gain and models": {
        "last gain, four models": "of == 'last' and four",
        "last gain, base and tuned": "of == 'last'",
        "last gain, tuned for base": "of == 'last' and (tuned or family == 'pythia')",
        "total amplification": "of == 'total'",
    },
    "prompts": {"all": "", **{f"not {name}": f"category != '{name}'" for name in CATEGORIES}},
}


def draw_norm_ratio(axes: Axes, rows: pd.DataFrame, *, xlabel: str, named: bool = False) -> None:
    """Gain over ‖W_V‖₂/‖W_O‖₂, one point per model."""
    draw_reference(axes, 1.0)
    draw_scatter(
        rows, axes, x="ratio", y="gain", label="name", lower="lower", upper="upper", labels=False
    )
    log_axis(axes, "x")
    axes.set(xlabel=xlabel, ylabel="penultimate gain")
    if named:
        names = list(rows["name"])
        place_labels(axes, rows["ratio"], rows["gain"], names)


def draw_squared_norms(
    axes: Axes, by_layer: pd.DataFrame, others: pd.DataFrame, *, late: float
) -> None:
    """‖W_V‖₂² over depth where it is known by layer, and the means of other models (dashed)."""
    ends = []
    for model, rows in by_layer.sort_values("layer").groupby("model_id"):
        heritage = str(rows["heritage"].iloc[0])
        lab = mark(heritage)
        squared = rows["squared"]
        axes.plot(rows["depth"], squared, marker=lab.marker, markersize=4, color=lab.color)
        ends.append((float(squared.iloc[-1]), strip_owner(str(model)), lab.color))
    for row in others.itertuples():
        color = mark(row.heritage).color
        axes.axhline(row.squared, color=color, linestyle="--", linewidth=1)
        name = f"{strip_owner(row.model_id)}, mean"
        ends.append((row.squared, name, color))
    axes.axvspan(late, 1.0, color="#d5d2cb", alpha=0.35, linewidth=0)
    axes.set(yscale="log", xlabel="relative depth l / L", ylabel="‖W_V‖₂²", xlim=(0, 1.02))
    name_ends(axes, ends)


def draw_worst_residuals(
    axes: Axes, table: pd.DataFrame, names: Mapping[str, str], *, tolerance: float
) -> None:
    """Largest residual of every identity, a column of the table each."""
    least = np.finfo(float).eps / 100
    worst = table[list(names)].max()
    worst = worst.clip(lower=least)
    places = range(len(worst))
    axes.scatter(worst, places, s=48, zorder=3)
    axes.axvline(tolerance, linewidth=1, **DASHED)
    offset: Look = {"xytext": (4, 0), "textcoords": "offset points"}
    axes.annotate("tolerance", (tolerance, 3.4), color=MUTED, **offset)
    axes.set(
        xscale="log",
        xlabel="largest relative residual against the dense operator",
        ylim=(3.6, -0.6),
    )
    axes.set_yticks(places, list(names.values()))


def draw_times_slower(axes: Axes, sizes: pd.DataFrame) -> None:
    """How many times as long building the operator takes as the formula, one row per size."""
    slower = sizes["times_slower_when_built"]
    places = range(len(sizes))
    axes.hlines(places, 1, slower, linewidth=2)
    axes.scatter(slower, places, s=48, zorder=3)
    for place, times in enumerate(slower):
        text = f"{format_number(times, 2)} ×"
        box = {**GROUND, "alpha": 1}
        at = (times, place)
        axes.annotate(text, at, xytext=(7, -3), textcoords="offset points", bbox=box)
    draw_reference(axes, 1.0, vertical=True)
    axes.set(xlabel="time to build the operator / time of the formula")
    axes.margins(x=0.14)
    log_axis(axes, "x")
    names = [f"n = {n}, d = {d}" for n, d in zip(sizes["n"], sizes["d"], strict=True)]
    name_rows(axes, names)


def draw_exact_ratios(axes: Axes, ways: Sequence[pd.Series]) -> None:
    """The study's traces over the exact one: of the first head, and of all heads."""
    for place, values in enumerate(ways):
        spread = np.linspace(-0.2, 0.2, len(values))
        axes.scatter(values, place + spread, s=22, alpha=0.8)
    axes.axvline(1.0, linewidth=1, **DASHED)
    axes.set(xlabel="trace of the study over the exact trace, median of a model", ylim=(1.6, -0.6))
    log_axis(axes, "x")
    axes.set_yticks((0, 1), ["mean attention, first head", "all heads, as cut"])


def draw_file_traces(axes: Axes, rows: pd.DataFrame, files: Mapping[str, str]) -> None:
    """Mean traces of expanders (filled) and dampeners by file."""
    for (lab, expands), points in rows.groupby(["heritage", "by_label"]):
        color, marker = mark(str(lab))
        x = points["multi_head"]
        y = points["source"].map(files)
        face = color if expands else "white"
        look: Look = {"facecolor": face, "edgecolor": color, "marker": marker}
        axes.scatter(x, y, s=60, label=str(lab), zorder=3, **look)
    axes.set(xlabel="mean trace over layers, sum over heads", ylim=(-0.6, 1.6))
    axes.margins(x=0.15)
    log_axis(axes, "x")
    place_legend(axes)
    places = pd.factorize(rows["source"])[0]
    names = shorten_names(rows["model_id"])
    place_labels(axes, rows["multi_head"], places, names)


def draw_transition_layers(axes: Axes, rows: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """L*/L by model: definitions (kind → words), the formula and L/2."""
    drawn = rows[rows["kind"].isin(list(kinds))]
    names = list(drawn["model_id"].drop_duplicates())
    places = {name: i for i, name in enumerate(names)}
    for (kind, words), marker in zip(kinds.items(), "os^", strict=True):
        part = rows[rows["kind"] == kind]
        x = part["layer"] / part["n_layers"]
        y = part["model_id"].map(places)
        axes.scatter(x, y, marker=marker, s=40, label=words, zorder=3)
    models = rows.drop_duplicates("model_id").set_index("model_id").loc[names]
    predicted = models["formula"] / models["n_layers"]
    axes.scatter(predicted, range(len(names)), marker="|", s=260, color=INK)
    entry: Look = {"marker": "|", "markersize": 8, "color": INK}
    axes.plot([], [], linestyle="", label="formula", **entry)
    axes.axvline(0.5, linewidth=1, **DASHED)
    axes.set_yticks(range(len(names)), shorten_names(names))
    lowest = len(names) - 0.5
    axes.set(xlabel="L* / L (dashed: L/2)", xlim=(-0.03, 1.03), ylim=(lowest, -0.5))
    place_legend(axes)


def draw_restriction_maps(
    axes: Axes, curve: pd.DataFrame, table: pd.DataFrame, *, y: str, model: str, ylabel: str
) -> None:
    """A norm of the maps over layers, with L* by every definition."""
    name = strip_owner(model)
    axes.plot(curve["layer"], curve[y], marker="o", label=name)
    draw_reference(axes, 1.0, text="1")
    for dash, row in zip((":", "--", "-."), table.itertuples(), strict=False):
        look: Look = {"color": MUTED, "linestyle": dash, "linewidth": 1}
        axes.axvline(row.L_star, label=f"L*, {row.definition}", **look)
    axes.set(xlabel="layer l", ylabel=ylabel)
    place_legend(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    log_axis(axes, "y")


def draw_attention_and_mlp(axes: Axes, last: pd.DataFrame) -> None:
    """Largest gain of an attention block and gain of the last MLP, one row a model in order of
    size."""
    rows = last.sort_values("n_params")
    draw_reference(axes, 1.0, vertical=True)
    columns = {
        "largest_attention_gain": ("largest of attention", "o"),
        "gain_mlp": ("last MLP", "s"),
    }
    for column, (label, marker) in columns.items():
        values = rows[column]
        axes.scatter(values, range(len(rows)), s=48, marker=marker, label=label, zorder=3)
    axes.set(xlabel="gain, output over normed input")
    log_axis(axes, "x")
    name_models(axes, rows["model_id"])
    place_legend(axes)


FITTED = "#0072B2"
"""Colour of a fitted line."""


def draw_gain_by_size(axes: Axes, last: pd.DataFrame, law: PowerLaw, *, stated: float) -> None:
    """Gain of the last MLP over parameters, the fitted exponent with its interval and the stated
    one."""
    sizes = last["n_params"]
    x = np.geomspace(sizes.min(), sizes.max(), 50)
    fitted = law.prefactor * x**law.estimate
    words = f"fit, exponent {law.estimate:.2f}"
    axes.plot(x, fitted, color=FITTED, label=words)
    middle = np.exp(np.log(sizes).mean())
    log_gain = np.log(last["gain_mlp"])
    gain = np.exp(log_gain.mean())
    relative = x / middle
    lower = gain * relative**law.lower
    upper = gain * relative**law.upper
    low = np.minimum(lower, upper)
    band: Look = {"color": FITTED, "alpha": 0.12, "linewidth": 0}
    axes.fill_between(x, low, np.maximum(lower, upper), **band)
    as_stated = gain * relative**stated
    axes.plot(x, as_stated, label=f"exponent {stated:g}", **DASHED)
    axes.set(xscale="log", yscale="log")
    draw_scatter(last, axes, x="n_params", y="gain_mlp")
    axes.set(xlabel="parameters", ylabel="gain of the last MLP")
    log_axis(axes, "y")


def draw_net_amplification(
    rows: pd.DataFrame, xlabel: str, label: str = "model_id"
) -> Callable[[Axes], None]:
    """Amplification by model, or one row a family."""
    options = {"estimate": "amplification", "heritage": "heritage", "null": 1.0}
    return prepare_drawing(draw_forest, rows, label=label, xlabel=xlabel, log="x", **options)


def trace_by_norm(axes: Axes, table: pd.DataFrame, at: str) -> None:
    """Mean trace over the norm of W_V, with the trace of model `at` scaled by the square of the
    norm."""
    axes.set(xscale="log", yscale="log")
    norms = table["W_V_frobenius"]
    x = np.geomspace(norms.min() * 0.7, norms.max() * 1.4, 20)
    of_model = table.loc[at, "trace_over_W_V_squared"]
    scaled = of_model * x**2
    axes.plot(x, scaled, label="OPT's trace scaled by ‖W_V‖²", **DASHED)
    draw_scatter(table.reset_index(), axes, x="W_V_frobenius", y="trace")
    axes.set(xlabel="Frobenius norm of W_V, mean over layers", ylabel="trace, mean over layers")
    log_axis(axes, "x")
    log_axis(axes, "y")
