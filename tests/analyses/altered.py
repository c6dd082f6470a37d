"""Analyses by their claim, and the shipped tables with some of them changed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
from conftest import shipped_tables
from matplotlib.figure import Figure

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.result import Result
from thermostats.modelling.checks import Gate
from thermostats.modelling.heritage.law import ORDER
from thermostats.studies.delia2026.fitted_hierarchy import ABOVE_BOTH, FIRST, FittedHierarchy

ROOT = Path(__file__).parents[2]
YES, NO, OPEN, UNMEASURED = "supported", "not supported", "inconclusive", "needs measurement"
Change = Callable[[pd.DataFrame], pd.DataFrame]


def analysis(claim: str) -> ModuleType:
    """A fresh copy of an analysis, such as `c16`."""
    (path,) = (ROOT / "analyses").glob(f"{claim}_*.py")
    spec = importlib.util.spec_from_file_location(f"tested_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)

    sys.modules[spec.name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def judged(module: ModuleType, tables: Evidence, *only: str) -> dict[str, Finding]:
    """Findings by id without the claim's, of several sets of evidence the first; `only`: these and
    no others."""
    claim = module.CLAIM
    asked = [
        replace(q, views=None)
        for q in claim.questions
        if not only or q.id.partition(".")[2] in only
    ]
    found = replace(claim, questions=asked).judge(tables)
    first: dict[str, Finding] = {}
    for finding in found:
        first.setdefault(finding.id.partition(".")[2], finding)
        assert finding.plain.endswith(".") and (
            finding.figure.draw is None or finding.figure.caption
        )
        assert not {"nan", "None", "inf"} & set(
            finding.plain.replace(",", " ").replace("[", " ").split()
        )
    return first


def verdict(module: ModuleType, name: str, result: Result) -> str:
    """What the first question of a name comes to on a result: by its needs and by its primary
    rule."""
    question = next(q for q in module.CLAIM.questions if q.id.partition(".")[2] == name)
    enough = YES if question.scope.needs is None else question.scope.needs.verdict(result)
    return question.primary.verdict(result) if enough == YES else enough


def is_drawn(finding: Finding) -> bool:
    """Whether the finding's figure shows something."""
    axes = Figure().add_subplot()
    finding.figure.draw(axes)
    return axes.has_data()


@cache
def shipped() -> Evidence:
    """The shipped tables, and what shared functions compute of them, once."""
    return shipped_tables()


def altered(**change: Change) -> Evidence:
    """The shipped tables with some of them changed."""
    tables = shipped().fork()
    tables._loaded = dict(tables._loaded)
    tables._frames = {}
    for name, changed in change.items():
        tables._loaded[name] = changed(tables._join_table(name).copy())
    return tables


def of(model: str, file: str = "") -> Callable[[pd.DataFrame], pd.Series]:
    """Rows of a model in files whose names begin so."""
    return lambda f: f["model_id"].str.endswith(model) & f["source"].str.startswith(file)


def measured_again(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with those of the benchmark a second time, as measured here, and nothing else that
    was."""
    frame = frame[frame["source"] != "thermostats"]
    more = frame[of("", "thermo")(frame)]
    return pd.concat([frame, more.assign(source="thermostats", run_id=more["run_id"] + "-again")])


def scaled(
    where: Callable[[pd.DataFrame], pd.Series], by: float, column: str = "gain_block"
) -> Change:
    """A column multiplied where a condition holds."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[where(frame), column] *= by
        return frame

    return change


class _Draws(dict[str, np.ndarray]):
    def __missing__(self, key: str) -> np.ndarray:
        return np.ones((4, 10))


class _Chances(dict[str, float]):
    def __missing__(self, key: str) -> float:
        return 1.0


class NoFit:
    """What stands for a fit where the classical rule alone is asked: every quantity is 1, every
    table empty."""

    quantities = numbers = _Draws()
    probabilities = _Chances()
    sampled: ClassVar = {"changes": _Draws()}
    labels: ClassVar = {"mean": ("a model",), "share": ("model",)}
    design: ClassVar = SimpleNamespace(labels=labels)
    n_models = n_heritages = 2
    statements: ClassVar[dict[str, object]] = {ORDER: lambda drawn: drawn["order"] > 0}
    status = "passed"

    def table(self, name: str) -> pd.DataFrame:
        if name == "new_pair":
            return pd.DataFrame(
                {"pair": ["any pair"], "p_sign_changes": [0.5], "from_prior_alone": [0.5]}
            )
        if name == "across_labs":
            return pd.DataFrame(
                [dict.fromkeys(("r_squared_across_labs", "sign_right_across_labs"), 0.5)]
            ).assign(coverage_across_labs=0.9)
        if name == "orders":
            return pd.DataFrame(
                {"statement": [ORDER], "probability": [1.0], "prior": [0.25], "bayes_factor": [1.0]}
            )
        if name != "models":
            return pd.DataFrame({"model_id": [], "heritage": [], "probability_dampens": []})
        rules = {
            rule: [6.0, 9.0 + k, 12.0]
            for k, rule in enumerate(("mean fraction", "published formula", "logit"))
        }
        named = {"model_id": ["a", "b", "c"], "heritage": ["x", "x", "y"]}
        return pd.DataFrame(named | {"n_layers": [12, 24, 24], "L_star": [7.0, 9.0, 14.0]} | rules)

    def beside(self, name: str, other: object) -> NoFit:
        return self


STAND_IN = FittedHierarchy(
    words="own files",
    n_models=2,
    n_labs=2,
    orders=pd.DataFrame(
        0.5,
        index=[ABOVE_BOTH, FIRST, ORDER],
        columns=["prior", "probability", "lowest", "highest", "without_families"],
    ),
    spreads={name: np.linspace(0.01, 0.1, 50) for name in ("lab", "shape", "size")},
    divisions=1,
    gate=Gate(checks=()),
    gained=1.0,
    gained_error=1.0,
)
"""What stands for the fitted order of C04."""


def by_rules_alone(claim: str) -> ModuleType:
    """An analysis whose findings are judged by their primary rules, without a fit or a curve."""
    module = analysis(claim)
    for name, function in list(vars(module).items()):
        home = getattr(function, "__module__", "")
        law = home.startswith("thermostats.modelling.") and ".classical" not in home
        if name.startswith("fit_") and law:
            setattr(module, name, lambda *_, **__: NoFit())
    for name, nothing in {
        "draw_panels": (),
        "draw_variance_shares": None,
        "collect_tables": {},
        "describe_hierarchies": (STAND_IN,),
    }.items():
        if hasattr(module, name):
            setattr(module, name, lambda *_, nothing=nothing: nothing)
    module.CLAIM.questions[:] = [
        replace(question, robustness=None, curve=None) for question in module.CLAIM.questions
    ]
    return module


@cache
def shipped_by_rules_alone(claim: str) -> list[Finding]:
    """Findings of a claim on the shipped tables without fits and curves, once a process."""
    found: list[Finding] = by_rules_alone(claim).CLAIM.judge(shipped())
    return found


def untried(module: ModuleType) -> ModuleType:
    """The same analysis, whose rules decide at 5%, whatever that is worth and whichever unit
    carries the verdict."""
    module.CLAIM.questions[:] = [
        replace(question, trial=None) for question in module.CLAIM.questions
    ]
    return module
