"""The universes of questions about the study's models: rows that some universe reads, and options
as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy import stats

from thermostats.claims.evidence import EXTERNAL, POOLED, Evidence
from thermostats.formatting import format_number, strip_owner
from thermostats.modelling.classical.association import PowerLaw
from thermostats.modelling.specification import Choices, Option, transform_normal_scores
from thermostats.plots.general import (
    INK,
    MUTED,
    draw_forest,
    draw_reference,
    draw_scatter,
    log_axis,
    mark,
    name_rows,
    place_legend,
    prepare_drawing,
)
from thermostats.plots.point_names import GROUND, name_ends, place_labels
from thermostats.studies.delia2026.largest_gains import SPANS
from thermostats.studies.delia2026.published_gains import LEVEL, NAMED_GAINS, load_gains
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
        outcomes[SHORT[gain.column]] = {"outcome": f"log({gain.column})"}
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
    others = others[~others["model_id"].isin(study["model_id"])]
    read = model_rows(evidence.named(POOLED), READ_GAIN, incomparable=True).set_index("model_id")[
        "gain"
    ]
    frames = []
    for name, rows in (("study", study), ("external", others)):
        facts = rows[[*FACTS, *SHAPE, *COLUMNS]].assign(
            set=name, lab=rows["heritage"], clade=rows["family"]
        )
        facts["focal"] = facts["heritage"] == FOCAL
        facts[READ_GAIN] = facts["model_id"].map(read)
        frames.append(facts.assign(prompts="arithmetic"))
        frames.append(
            facts.assign(
                prompts="geometric",
                **{c: rows[c] * measure_geometric_ratio(rows, c) for c in COLUMNS},
            )
        )
    return pd.concat(frames, ignore_index=True).astype(
        dict.fromkeys((*COLUMNS, *SHAPE, READ_GAIN), float)
    )


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
    return (
        exact.fillna(np.exp(-((rows[f"{gain}_sd"] / rows[gain]) ** 2) / 2))
        .fillna(1.0)
        .astype(float)
    )


def select_pair_labs(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of labs that have two or more."""
    return rows[rows.groupby("heritage")["model_id"].transform("size") > 1].reset_index(drop=True)


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
SHAPE_AND_SIZE = tuple(column for block in ("geometry", "scale") for column in CODED_BLOCKS[block])

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
    return rows[rows.groupby("family")["n_layers"].transform("nunique") > 2].reset_index(drop=True)


def remove_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Depth less what a line over log size, with a level for each family, says of it."""
    levels = pd.get_dummies(rows["family"], dtype=float)
    x = np.column_stack([levels, np.log(rows["n_params_nonembedding"])])
    depth = rows["n_layers"].to_numpy(float)
    return rows.assign(n_layers=depth - x @ np.linalg.lstsq(x, depth, rcond=None)[0])


PYTHIA = "set == 'study' and family == 'pythia'"
DEPTH: Choices = {
    "gain": list_outcomes() | READ,
    "prompts": PROMPTS,
    "models": {
        "Pythia": PYTHIA,
        "Pythia, smallest left out": f"{PYTHIA} and n_layers > 6",
        "the study's families": ("set == 'study' and comparable", select_deep_families),
        "other people's too": ("comparable", select_deep_families),
    },
    "depth": {"L": "", "log L": {"n_layers": "log(n_layers)"}, "L given size": remove_size},
    "outcome": {"gain": lambda rows: rows.assign(outcome=np.exp(rows["outcome"])), **ERRORS},
}


def share_inner_blocks(rows: pd.DataFrame) -> pd.DataFrame:
    """The number of blocks 2 to L − 1 in the place of L, as the exponent has it."""
    log_blocks = np.log(rows["n_layers"] - 2)
    return rows.assign(outcome=rows["outcome"] - rows["log_L"] + log_blocks, log_L=log_blocks)


EXPONENTS: Choices = {
    "blocks": {
        span.words: {
            "outcome": f"log(log({span.column})) + log(n_layers)",
            "log_L": "log(n_layers)",
        }
        for span in SPANS
    },
    "models": {
        **{name: DEPTH["models"][name] for name in ("Pythia", "Pythia, smallest left out")},
        "Pythia, two smallest left out": f"{PYTHIA} and n_layers > 12",
        **{name: DEPTH["models"][name] for name in ("the study's families", "other people's too")},
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
    return rows.assign(outcome=rows["outcome"] - np.log(10) / rows["blocks"])


def prepare_bound_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Gain, bound and relative error as the test of the bound reads them, of rows of
    `subtract_bound`.

    The error over prompts is that of the penultimate gain, the one that was published.
    """
    bound = 10 ** (1 / rows["blocks"])
    half = (rows["upper"] - rows["gain"]) / rows["gain"]
    error = half / stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"].fillna(1) - 1)
    return rows.assign(outcome=np.exp(rows["outcome"]) * bound, bound=bound, error=error)


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
    clear = (value * high < 1) | (value * low > 1)
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
        place_labels(axes, rows["ratio"], rows["gain"], list(rows["name"]))


def draw_squared_norms(
    axes: Axes, by_layer: pd.DataFrame, others: pd.DataFrame, *, late: float
) -> None:
    """‖W_V‖₂² over depth where it is known by layer, and the means of other models (dashed)."""
    ends = []
    for model, rows in by_layer.sort_values("layer").groupby("model_id"):
        lab = mark(str(rows["heritage"].iloc[0]))
        axes.plot(rows["depth"], rows["squared"], marker=lab.marker, markersize=4, color=lab.color)
        ends.append((float(rows["squared"].iloc[-1]), strip_owner(str(model)), lab.color))
    for row in others.itertuples():
        axes.axhline(row.squared, color=mark(row.heritage).color, linestyle="--", linewidth=1)
        ends.append((row.squared, f"{strip_owner(row.model_id)}, mean", mark(row.heritage).color))
    axes.axvspan(late, 1.0, color="#d5d2cb", alpha=0.35, linewidth=0)
    axes.set(yscale="log", xlabel="relative depth l / L", ylabel="‖W_V‖₂²", xlim=(0, 1.02))
    name_ends(axes, ends)


def draw_worst_residuals(
    axes: Axes, table: pd.DataFrame, names: Mapping[str, str], *, tolerance: float
) -> None:
    """Largest residual of every identity, a column of the table each."""
    worst = table[list(names)].max().clip(lower=np.finfo(float).eps / 100)
    axes.scatter(worst, range(len(worst)), s=48, zorder=3)
    axes.axvline(tolerance, color=MUTED, linestyle="--", linewidth=1)
    axes.annotate(
        "tolerance", (tolerance, 3.4), xytext=(4, 0), textcoords="offset points", color=MUTED
    )
    axes.set(
        xscale="log",
        xlabel="largest relative residual against the dense operator",
        ylim=(3.6, -0.6),
    )
    axes.set_yticks(range(len(worst)), list(names.values()))


def draw_times_slower(axes: Axes, sizes: pd.DataFrame) -> None:
    """How many times as long building the operator takes as the formula, one row per size."""
    slower = sizes["times_slower_when_built"]
    axes.hlines(range(len(sizes)), 1, slower, linewidth=2)
    axes.scatter(slower, range(len(sizes)), s=48, zorder=3)
    for place, times in enumerate(slower):
        text = f"{format_number(times, 2)} ×"
        axes.annotate(
            text,
            (times, place),
            xytext=(7, -3),
            textcoords="offset points",
            bbox={**GROUND, "alpha": 1},
        )
    draw_reference(axes, 1.0, vertical=True)
    axes.set(xlabel="time to build the operator / time of the formula")
    axes.margins(x=0.14)
    log_axis(axes, "x")
    name_rows(axes, [f"n = {n}, d = {d}" for n, d in zip(sizes["n"], sizes["d"], strict=True)])


def draw_exact_ratios(axes: Axes, ways: Sequence[pd.Series]) -> None:
    """The study's traces over the exact one: of the first head, and of all heads."""
    for place, values in enumerate(ways):
        axes.scatter(
            values,
            np.full(len(values), place) + np.linspace(-0.2, 0.2, len(values)),
            s=22,
            alpha=0.8,
        )
    axes.axvline(1.0, color=MUTED, linestyle="--", linewidth=1)
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
        axes.scatter(
            x, y, s=60, facecolor=face, edgecolor=color, marker=marker, label=str(lab), zorder=3
        )
    axes.set(xlabel="mean trace over layers, sum over heads", ylim=(-0.6, 1.6))
    axes.margins(x=0.15)
    log_axis(axes, "x")
    place_legend(axes)
    places = pd.factorize(rows["source"])[0]
    place_labels(axes, rows["multi_head"], places, [strip_owner(name) for name in rows["model_id"]])


def draw_transition_layers(axes: Axes, rows: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """L*/L by model: definitions (kind → words), the formula and L/2."""
    names = list(rows.loc[rows["kind"].isin(list(kinds)), "model_id"].drop_duplicates())
    places = {name: i for i, name in enumerate(names)}
    for (kind, words), marker in zip(kinds.items(), "os^", strict=True):
        part = rows[rows["kind"] == kind]
        x = part["layer"] / part["n_layers"]
        y = part["model_id"].map(places)
        axes.scatter(x, y, marker=marker, s=40, label=words, zorder=3)
    models = rows.drop_duplicates("model_id").set_index("model_id").loc[names]
    axes.scatter(
        models["formula"] / models["n_layers"], range(len(names)), marker="|", s=260, color=INK
    )
    axes.plot([], [], linestyle="", marker="|", markersize=8, color=INK, label="formula")
    axes.axvline(0.5, color=MUTED, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(names)), [strip_owner(name) for name in names])
    axes.set(xlabel="L* / L (dashed: L/2)", xlim=(-0.03, 1.03), ylim=(len(names) - 0.5, -0.5))
    place_legend(axes)


def draw_restriction_maps(
    axes: Axes, curve: pd.DataFrame, table: pd.DataFrame, *, y: str, model: str, ylabel: str
) -> None:
    """A norm of the maps over layers, with L* by every definition."""
    axes.plot(curve["layer"], curve[y], marker="o", label=strip_owner(model))
    draw_reference(axes, 1.0, text="1")
    for dash, row in zip((":", "--", "-."), table.itertuples(), strict=False):
        axes.axvline(
            row.L_star, color=MUTED, linestyle=dash, linewidth=1, label=f"L*, {row.definition}"
        )
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
        axes.scatter(rows[column], range(len(rows)), s=48, marker=marker, label=label, zorder=3)
    axes.set(xlabel="gain, output over normed input")
    log_axis(axes, "x")
    name_rows(axes, [strip_owner(name) for name in rows["model_id"]])
    place_legend(axes)


def draw_gain_by_size(axes: Axes, last: pd.DataFrame, law: PowerLaw, *, stated: float) -> None:
    """Gain of the last MLP over parameters, the fitted exponent with its interval and the stated
    one."""
    x = np.geomspace(last["n_params"].min(), last["n_params"].max(), 50)
    axes.plot(
        x,
        law.prefactor * x**law.estimate,
        color="#0072B2",
        label=f"fit, exponent {law.estimate:.2f}",
    )
    centre = np.exp(np.log(last["n_params"]).mean()), np.exp(np.log(last["gain_mlp"]).mean())
    ends = []
    for slope in (law.lower, law.upper):
        ends.append(centre[1] * (x / centre[0]) ** slope)
    axes.fill_between(
        x, np.minimum(*ends), np.maximum(*ends), color="#0072B2", alpha=0.12, linewidth=0
    )
    axes.plot(
        x,
        centre[1] * (x / centre[0]) ** stated,
        color=MUTED,
        linestyle="--",
        label=f"exponent {stated:g}",
    )
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
    x = np.geomspace(table["W_V_frobenius"].min() * 0.7, table["W_V_frobenius"].max() * 1.4, 20)
    scaled = table.loc[at, "trace_over_W_V_squared"] * x**2
    axes.plot(x, scaled, color=MUTED, linestyle="--", label="OPT's trace scaled by ‖W_V‖²")
    draw_scatter(table.reset_index(), axes, x="W_V_frobenius", y="trace")
    axes.set(xlabel="Frobenius norm of W_V, mean over layers", ylabel="trace, mean over layers")
    log_axis(axes, "x")
    log_axis(axes, "y")
