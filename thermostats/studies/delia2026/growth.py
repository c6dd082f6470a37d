"""The page "What is known of why the stream grows": findings of several claims weighed in one
account of one screen."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.result import UNMEASURED
from thermostats.claims.template import fill_words
from thermostats.formatting import join_words
from thermostats.plots.general import draw_lines_by_layer, prepare_drawing
from thermostats.plots.svg import render_svg
from thermostats.reporting.pages import name_folder
from thermostats.reporting.render import Files, Text, render_link, render_text
from thermostats.studies.delia2026.block_gains import choose_spread_models, collect_block_gains
from thermostats.tables.invariants import read_effects
from thermostats.tables.model_rows import model_rows

_WORDS_FILE = Path(__file__).with_suffix(".toml")
WORDS = tomllib.loads(_WORDS_FILE.read_text(encoding="utf-8"))
GUESSES = "guesses.csv"
GAIN = "penultimate_gain"
MODEL = "r03-1"
KNOB = "W_V × 8 and W_O / 8 in every block"
FAMILY = ["heritage", "family"]
FIGURE, BLOCKS = "growth.svg", "block-gains.csv"
NAMED = 5
"""Models whose profiles the picture shows."""
Case = tuple[str, Mapping[str, Any]]


def list_claims(*, weighed: bool = False) -> list[str]:
    """Claims that the page links to, in its order; weighed: those of which it weighs a finding."""
    every: list[Mapping[str, str]] = []
    for part in WORDS["part"]:
        every.extend(part["sentence"])
    listed = [sentence for sentence in every if "finding" in sentence or not weighed]
    return list(dict.fromkeys(map(_find_claim, listed)))


def build_files(findings: Iterable[Finding], tables: Evidence) -> dict[str, bytes]:
    """The page's Markdown and the table behind its best guess."""
    by_place = {(finding.id, finding.sample.evidence): finding for finding in findings}
    pooled = tables.named(POOLED)
    blocks = collect_block_gains(pooled)
    guessed = guess_gains(model_rows(pooled, GAIN))
    computed: dict[str, Callable[[], Case]] = {
        "norms": partial(count_norms, tables),
        "at_will": measure_gauge_moves,
        "guesses": partial(choose_best_guess, guessed),
    }
    parts = {}
    for part in WORDS["part"]:
        lines = (_build_line(each, by_place, computed) for each in part["sentence"])
        parts[part["title"]] = list(filter(None, lines))
    there = {finding.claim for finding in by_place.values()}
    lacking = [claim for claim in list_claims(weighed=True) if claim not in there]
    made = Files()
    figure = ""
    if len(choose_spread_models(blocks, NAMED)):
        picture = draw_profiles(blocks)
        figure = made.add_figure(picture, FIGURE, describe_profiles(blocks), BLOCKS)
        made.add_rows(BLOCKS, blocks)
    page = render_text(
        "growth.md",
        title=WORDS["title"],
        intro=WORDS["intro"],
        parts=parts,
        lacking=lacking,
        table=GUESSES,
        figure=figure,
    )
    made.add("growth.md", page.encode())
    made.add_rows(GUESSES, guessed)
    return made.contents


def draw_profiles(blocks: pd.DataFrame) -> bytes:
    """The picture: gains along the depth of models whose penultimate gains are far apart."""
    shown = choose_spread_models(blocks, NAMED)
    gain = np.exp(shown["log_gain"])
    depth = shown["layer"] / shown["n_layers"]
    lines = shown.assign(gain=gain, depth=depth)
    draw = prepare_drawing(
        draw_lines_by_layer,
        lines,
        y="gain",
        x="depth",
        null=1.0,
        xlabel="block l / L",
        ylabel="gain of block",
    )
    return render_svg(draw)


def describe_profiles(blocks: pd.DataFrame) -> str:
    """What the picture says: its caption, the finding first."""
    before_last = blocks["n_layers"] - 1
    penultimate = blocks[blocks["layer"] == before_last]
    above = blocks["log_gain"] > 0
    shrinking = penultimate["log_gain"] < 0
    shown = choose_spread_models(blocks, NAMED)["model_id"]
    values = {
        "blocks": len(blocks),
        "above": int(above.sum()),
        "models": len(penultimate),
        "shrinking": int(shrinking.sum()),
        "shown": shown.nunique(),
    }
    return fill_words(WORDS["picture"], values)


def _find_claim(sentence: Mapping[str, str]) -> str:
    return sentence.get("claim") or sentence["finding"].partition(".")[0]


def _build_line(
    sentence: Mapping[str, str],
    findings: Mapping[tuple[str, str], Finding],
    computed: Mapping[str, Callable[[], Case]],
) -> dict[str, Any] | None:
    """One line of the page: what it is about, the sentence of its verdict or case, its link, what
    would change it."""
    claim = _find_claim(sentence)
    line = {"about": sentence["about"], "changes": sentence["changes"]}
    if "computed" in sentence:
        case, values = computed[sentence["computed"]]()
        said = fill_words(sentence[case], values)
        stands = ""
    else:
        place = (sentence["finding"], sentence["evidence"])
        finding = findings.get(place)
        if finding is None or finding.verdict == UNMEASURED:
            return None
        values = {"estimate": finding.headline, "estimand": finding.estimand}
        said = fill_words(sentence[finding.verdict], values)
        stands = finding.stands
    return {**line, "said": said, "link": _render_claim_link(claim, findings), "stands": stands}


def _render_claim_link(claim: str, findings: Iterable[tuple[str, str]]) -> Text:
    """The claim's page; its id alone where the report lacks it."""
    there = any(name.startswith(f"{claim}.") for name, _ in findings)
    return render_link(claim, f"{name_folder(claim)}/index.md" if there else "")


def guess_gains(models: pd.DataFrame) -> pd.DataFrame:
    """The log gain of every model, and guesses of it by models that are left: of its family, lab,
    all, and a line.

    The line has log L/d, log ρ and log N. Models are those of families of two or more. A row a
    model.
    """
    numbers = {"log_shape": models["n_layers"] / models["d_model"], "log_rho": models["rho"]}
    numbers["log_n"] = models["n_params_nonembedding"]
    logs = {name: np.log(values.astype("float64")) for name, values in numbers.items()}
    rows = models.assign(**logs)
    finite = np.isfinite(rows[list(logs)]).all(axis=1)
    rows = rows[rows["heritage"].ne("") & finite]
    has_relatives = rows.duplicated(FAMILY, keep=False)
    rows = rows[has_relatives].reset_index(drop=True)
    groups = {"family": FAMILY, "lab": ["heritage"], "mean": lambda row: 0}
    guessed = {}
    for name, by in groups.items():
        guessed[f"by_{name}"] = _take_others_mean(rows["log_gain"], rows.groupby(by))
    guessed["by_shape"] = _fit_others_line(rows, list(logs))
    return rows[["model_id", *FAMILY, "log_gain"]].assign(**guessed)


def _take_others_mean(y: pd.Series, groups: Any) -> pd.Series:
    of_each = groups[y.name]
    others = of_each.transform("sum") - y
    return others / (of_each.transform("size") - 1)


def _fit_others_line(rows: pd.DataFrame, columns: list[str]) -> pd.Series:
    """What a line through all other models says of each: y − e / (1 − h), with residuals e and
    leverages h."""
    numbers = rows[columns].to_numpy(float)
    intercept = np.ones(len(rows))
    x = np.column_stack([intercept, numbers])
    projection = x @ np.linalg.pinv(x)
    y = rows["log_gain"]
    residuals = y - projection @ y
    unexplained = 1 - np.diag(projection)
    return y - residuals / unexplained


def choose_best_guess(guessed: pd.DataFrame) -> Case:
    """Which guess is best, and the root mean squared error of each."""
    names = [name for name in guessed if name.startswith("by_")]
    off = guessed[names].sub(guessed["log_gain"], axis=0)
    errors = off.pow(2).mean().pow(0.5)
    missed = {}
    for name, error in errors.items():
        missed[name.removeprefix("by_")] = float(error)
    families = guessed[FAMILY].drop_duplicates()
    counts = {"n": len(guessed), "families": len(families)}
    best = min(missed, key=lambda name: missed[name])
    return best, {**missed, **counts}


def count_norms(tables: Evidence) -> Case:
    """Kinds of norm of the models below and above 1."""
    rows = model_rows(tables.named(POOLED), GAIN)
    kinds = rows["norm_kind"]
    below = kinds[rows["log_gain"] < 0].value_counts()
    if len(below) != 1:
        counts = [f"{n} with {kind}" for kind, n in below.items()]
        return "several", {"counts": join_words(counts)}
    ((kind, n_below),) = below.items()
    same = kinds == kind
    n_others = int(same.sum() - n_below)
    n_rest = int((~same).sum())
    return "one", {"kind": kind, "below": int(n_below), "others": n_others, "rest": n_rest}


def measure_gauge_moves() -> Case:
    """What a change of weights that leaves every output does to the study's knob, and to the
    gain."""
    moves = read_effects(MODEL, KNOB)
    gain = moves[GAIN]
    case = "moved" if gain["moved"] > 0 else "unmoved"
    return case, {"ratio": moves["wv_wo_ratio"], "gain": gain}
