"""A store of two labs, and analyses small enough to run in every test."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from conftest import layer, model, run, snapshot, table

from thermostats.reporting.report import report
from thermostats.tables import store

EVIL = "<script>alert(1)</script>|`x`"
ANALYSIS = '''
"""{id}: gains of one lab."""

from thermostats.plots import general as plots
from thermostats.claims.claim import Audit, Basis, Claim, Estimate
from thermostats.claims.finding import Criterion, Drawing, Finding, Sample


class Made(Claim):
    def judge(self, tables, kept=lambda name, rows, make, over: make(rows)):
        return [kept("{id}.mean-gain", tables, lambda rows: analyse(rows)[0], ())]


CLAIM = Made("{id}", "Gains of {lab} <b>", "said a|b", "mean gain", "rule", Basis("figure 1"))


def analyse(tables):
    rows = tables.table("layers", heritage="{lab}")[["model_id", "heritage", "layer", "gain_block"]]
    mean = float(rows["gain_block"].mean())
    plain = f"The mean gain is {{mean:.3f}} for {{rows['model_id'].iloc[0]}}. More | text."
    return [
        Finding(
            "{id}.mean-gain", "mean gain", "supported", plain,
            audit=Audit({{"mean": 1.0, "p": 0.01}}, {{"mean": mean}}),
            headline=Estimate(mean, mean - 1, mean + 1, "95% made up", {p}), sample=Sample(n_models=1, n_groups=1),
            table=rows, figure=Drawing({draw}, "Mean gain over layers."),
        )
    ]


if __name__ == "__main__":
    CLAIM.main()
'''  # noqa: E501
DRAW = 'lambda axes: plots.draw_scatter(rows, axes, x="layer", y="gain_block")'


def write_analysis(
    folder: Path, claim: str, lab: str, p: float = 0.03, *, draws: bool = False
) -> Path:
    """A sound analysis of one lab's gains, with or without a figure."""
    path = folder / f"{claim.lower()}_gains.py"
    path.write_text(
        ANALYSIS.format(id=claim, lab=lab, p=p, draw=DRAW if draws else None).lstrip(),
        encoding="utf-8",
    )
    return path


def write_gains(data: Path, model_id: str, gain: float, source: str = "tests") -> None:
    """Measured gains of one model."""
    measured = run(model_id, source=source)
    rows = [layer(measured, number, gain * number) for number in (1, 2, 3)]
    store.save(
        table("runs", measured), "runs", data / "measured" / "runs" / f"{measured['run_id']}.csv"
    )
    store.save(
        table("layers", *rows), "layers", data / "measured" / "layers" / f"{measured['run_id']}.csv"
    )


def make_workplace(folder: Path, *, draws: bool = False) -> dict[str, Path]:
    """Folders `data`, `analyses` and `out` of a report on two labs, one of which has a model with a
    hostile name."""
    places = {name: folder / name for name in ("data", "analyses", "out")}
    for name, content in _files(draws).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    places["out"].mkdir()
    return places


@cache
def _files(draws: bool) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        data, analyses = Path(folder, "data"), Path(folder, "analyses")
        store.save(
            table("models", model("meta/small", "Meta"), model(EVIL, "TII")),
            "models",
            data / "models.csv",
        )
        prompts = [
            {"prompt_set": "two", "prompt_id": "a", "text_sha256": "0" * 64, "category": "Plain"}
        ]
        store.save(table("prompts", *prompts), "prompts", data / "prompts.csv")
        write_gains(data, "meta/small", 0.5)
        write_gains(data, EVIL, 0.7)
        analyses.mkdir()
        write_analysis(analyses, "C01", "Meta", p=0.03, draws=draws)
        write_analysis(analyses, "C02", "TII", p=0.02, draws=draws)
        return snapshot(Path(folder))


FITTED = '''
"""{id}: slope of one lab's gains, as a fit would tell it; its numbers are made up."""

import numpy as np
import pandas as pd

from thermostats.modelling.checks import Check, Gate
from thermostats.claims.claim import Basis, Claim, Estimate
from thermostats.claims.finding import Convergence, Finding, Sample
from thermostats.claims.finding import Computation, Conclusion, FittedModel
from thermostats.claims.result import Panel


class Made(Claim):
    def judge(self, tables, kept=lambda name, rows, make, over: make(rows)):
        return [kept("{id}.slope", tables, lambda rows: analyse(rows)[0], ())]


WORDS = ("Gains fall with depth in <i>every</i> lab", "they fall", "slope of log G_l on l", "rule")
CLAIM = Made("{id}", *WORDS, Basis("4"))


def points(axes):
    axes.plot(np.linspace(0, 1, 20), np.linspace(1, 0, 20) ** 2)
    axes.set_xlabel("slope")
    return axes


def analyse(tables):
    rows = tables.table("layers", heritage="{lab}")[["model_id", "layer", "gain_block"]]
    name = rows["model_id"].iloc[0]
    statistics = pd.DataFrame(
        [["spread <b>", 0.41, 0.2, 0.7, 0.34, 0.34], ["share below 1", 0.6, 0.4, 0.9, 0.7, 0.3]],
        columns=["statistic", "observed", "lower", "upper", "p", "tail"],
    )
    left = pd.DataFrame(
        [[name, "supported", 0.97], ["Meta", "inconclusive", 0.91]], columns=["left_out", "verdict", "P"]
    )
    transforms = pd.DataFrame({{"pit": [0.5], "pareto_k": [0.1]}})
    gate = Gate(checks=(
        Check(name="sampler", outcome="{sampler}", reason="all within limits", table=pd.DataFrame()),
        Check(name="prior predictive", outcome="passed", reason="all statistics are covered", table=statistics),
        Check(name="posterior predictive", outcome="passed", reason="all statistics are reproduced", table=statistics),
        Check(name="LOO-PIT", outcome="passed", reason="p = 0.4", table=transforms),
        Check(name="influence", outcome="warned", reason="hangs on one unit: Meta", table=left),
    ))
    summary = pd.DataFrame([["beta", -0.42, 0.11, -0.42, -0.64, -0.21, "ETI", 0.94, 1.002, 1810.0, 1420.0, 0.0026],
                            [name, 0.3, 0.05, 0.3, 0.21, 0.41, "ETI", 0.94, 1.001, 2210.0, 1920.0, 0.0011]],
                           columns=["quantity", "mean", "sd", "median", "lower", "upper", "kind", "level", "rhat",
                                    "ess_bulk", "ess_tail", "mcse"])
    diagnostics = pd.DataFrame([["R-hat", 1.002, 1.01, "beta", True], ["bulk ESS", 1810.0, 400.0, "beta", True],
                                ["divergences", 0.0, 0.0, "", "{sampler}" == "passed"]],
                               columns=["diagnostic", "worst", "limit", "quantity", "passes"])
    posterior = FittedModel(
        model="Log gain on depth, one line a lab, drawn towards each other.",
        equations=("log G_ip ~ t_4(α_lab + β x_i, σ)", "α_lab ~ Normal(μ, τ)"),
        priors=(("β", "Normal(0, 1)", "a gain that triples over depth is rare"), ("τ", "HalfNormal(0.5)", name)),
        conclusion=Conclusion(
            rule="Supported where P(β < 0) ≥ 0.95, not supported where ≤ 0.05.", statement="P(β < 0)",
            probability=0.973, error=0.003, verdict="supported", classical="{classical}",
        ),
        computation=Computation(
            words="nutpie, 4 chains of 1,000 draws after 1,000 of tuning.", diagnostics=diagnostics, seed=3,
            versions={{"pymc": "5.28.0"}}, warnings=("Depth and width can hardly be told apart.",),
        ),
        gate=gate, summary=summary,
        sensitivity=pd.DataFrame([["β ~ Normal(0, 2)", 0.971, 0.2]], columns=["changed", "P(β < 0)", "pareto_k"]),
        tables={{"Labs": pd.DataFrame([[name, 0.1]], columns=["lab", "effect"])}},
        panels=(
            Panel(name="prior-to-posterior", draw=points, caption="β before and after the data: it moves below 0."),
            Panel(name="posterior-predictive", draw=points, caption="Replicated data hold the observed."),
        ),
        sources=("tests",),
    )
    return [
        Finding(
            "{id}.slope", "slope", "{classical}" if "{classical}" ==
            posterior.concluded else "inconclusive",
            f"The gain falls for {{name}}. More.",
            headline=Estimate(-0.42, -0.64, -0.21, "94% ETI", 0.973, "P(β < 0)"),
            sample=Sample(n_models=1, n_groups=1), convergence=Convergence(1.002, 1420.0, 0), posterior=posterior,
        )
    ]


if __name__ == "__main__":
    CLAIM.main()
'''  # noqa: E501


def write_fitted(
    folder: Path, claim: str, lab: str, *, classical: str = "supported", sampler: str = "passed"
) -> Path:
    """A sound analysis with a posterior, by default one that supports its claim as its classical
    test does."""
    path = folder / f"{claim.lower()}_fitted.py"
    path.write_text(
        FITTED.format(id=claim, lab=lab, classical=classical, sampler=sampler).lstrip(),
        encoding="utf-8",
    )
    return path


def report_of_five(folder: Path) -> dict[str, Path]:
    """The workplace with its report: two claims without a fit, one that agrees, one that does not,
    one that failed."""
    places = make_workplace(folder, draws=True)
    write_fitted(places["analyses"], "C03", "TII")
    write_fitted(places["analyses"], "C04", "TII", classical="inconclusive")
    write_fitted(places["analyses"], "C05", "Meta", sampler="failed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOSTATS_CACHE", "off")
        assert report(**places, processes=1).ok
    return places
