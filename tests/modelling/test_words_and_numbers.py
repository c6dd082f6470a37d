"""Of every law: priors in words are those that are drawn, quantities are named for what is in
them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bad_inputs import CASES, averages, gains, measured, truths
from scipy import stats
from test_lineage import made

import thermostats
from thermostats.modelling.crowding import StepDesign
from thermostats.modelling.draws import Array
from thermostats.modelling.fit import Fit
from thermostats.modelling.gaussian import Gaussian, HalfNormals, Mixture, Shares
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.importance import NEAR_INFINITE
from thermostats.modelling.kleiber import ALIKE, fit_kleiber
from thermostats.modelling.laws import WIDER, Design, Law
from thermostats.modelling.lineage_law import LineageDesign
from thermostats.modelling.lines import fit_line
from thermostats.modelling.measurements import fit_sources
from thermostats.modelling.mixed_model import Fixed, Kind, MixedDesign, Rest
from thermostats.modelling.sampling import Sampled, choose_mode
from thermostats.modelling.shares import fit_share

GAIN = "penultimate_gain"
FITS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api" / "fits.md"
Prior = tuple[str, tuple[float, ...]]
"""A distribution and its numbers, the scale last; or words without a number."""
EFFECT: Prior = ("N", (0.0, 1.0))
"""Of effects in units of their scale."""
NOTHING: Prior = ("half-normal", (ALIKE,))
"""Of what labs differ by where there is one."""
ESTIMATED: Prior = ("inverse χ² with n_i − 1 + d_0 degrees of freedom", ())
KNOWN: Prior = ("known", ())


def fit_blocks(**changed: Any) -> Fit:
    """Labs with families, and a second block of names where it is asked for."""
    table = averages(12, 4).assign(family=list("aabbccddefgh"), corpus=list("pq") * 6)
    return fit_heritage(table, estimand="last_gain", seed=1, **changed)


def fit_tree(process: str, *, instruments: tuple[str, ...] = ("one",), **changed: Any) -> Fit:
    rows = made().drop(columns=["log_gain", "error"])
    tree = thermostats.tree(rows)
    repeated = pd.concat([rows.assign(who=who) for who in instruments])
    return thermostats.fit_lineage(repeated, tree, process=process, seed=1, **changed)


GIVEN = {
    "intercept": stats.norm(0.2, 0.7),
    "total_sd": stats.lognorm(0.6, scale=0.3),
    "shares": {"heritage": 2.0, "scale": 0.5, "family": 3.0, "model": 1.5},
}
BLOCKS = {"heritage": ["heritage"], "corpus": ["corpus"], "scale": ["n_params"]}
FITS: Mapping[str, Callable[[], Fit]] = {
    **{name: partial(case.fit, case.good(12, 4)) for name, case in CASES.items()},
    "line, two levels": lambda: fit_line(measured(12, 4), GAIN, levels=["source"], seed=1),
    "kleiber, one lab": lambda: fit_kleiber(gains(12, 1), GAIN, seed=1),
    "share, one group": lambda: fit_share(truths(12, 1), "holds", seed=1),
    "sources, one lab": lambda: fit_sources(measured(12, 1), GAIN, seed=1),
    "heritage, families": fit_blocks,
    "heritage, stated errors": partial(fit_blocks, se=0.05),
    "heritage, other labs": partial(fit_blocks, blocks=BLOCKS, lab_df=4.0),
    "heritage, long tails": partial(fit_blocks, residuals="student"),
    "heritage, skew": partial(fit_blocks, residuals="skew"),
    "heritage, given": partial(fit_blocks, priors=GIVEN),
    "heritage, given in PyMC": partial(fit_blocks, priors=GIVEN, lab_df=4.0),
    "lineage": partial(fit_tree, "brownian"),
    "lineage, a pull": partial(fit_tree, "free"),
    "lineage, levels": partial(fit_tree, "levels"),
    "lineage, instruments": partial(fit_tree, "brownian", instruments=("a", "b"), instrument="who"),
}
HERITAGE = {
    "beta 0": "α",
    "total": "τ",
    "shares": "φ",
    "errors": "se_i²",
    "u_heritage": "u_heritage: share_heritage",
    "u_geometry": "u_geometry: share_geometry",
    "u_scale": "u_scale: share_scale",
    "rest": ": share_model",
}
FAMILIES = HERITAGE | {"u_family": "u_family: share_family"}
IN_PYMC = FAMILIES | {"beta": "α", "tau": "τ", "share": "φ"}
IN_PYMC |= {f"z_{name}": f"u_{name}" for name in ("heritage", "geometry", "scale", "family")}
DESCENT = {"u_descent": ": share_descent"}
LINEAGE = {
    "beta 0": "μ",
    "total": "τ",
    "shares": "φ",
    "errors": "se_i²",
    "u_geometry": ": share_geometry",
    "u_scale": ": share_scale",
    "rest": ": share_model and sd_model",
}
LEVELS = {"u_lab": ": share_descent_lab", "u_family": ": share_descent_family"}
REPEATED = {"u_model": ": share_model and sd_model", "rest": ": sd_repeat"}
PARTS: Mapping[str, Mapping[str, str]] = {
    "threshold": {
        "beta 0": "a: below",
        "beta 1": "δ: step",
        "level": "τ: lab_sd",
        "rest": "σ: residual_sd",
        "c": "c",
    },
    "kleiber": {"m": "m", "beta": "β: beta", "sigma": "σ: sigma", "tau": "τ: lab_sd"},
    "kleiber, one lab": {"m": "m", "beta": "β: beta", "sigma": "σ: sigma", "tau": ": lab_sd"},
    "envelope": {"m": "m", "beta": "β: frontier_beta", "below": "ω: below", "noise": "η: noise"},
    "share": {"mu": "μ", "tau": "τ: tau"},
    "share, one group": {"mu": "μ", "tau": ": tau"},
    "heritage": HERITAGE,
    "heritage, families": FAMILIES,
    "heritage, stated errors": FAMILIES | {"errors": "se_i"},
    "heritage, other labs": IN_PYMC | {"z_corpus": "u_corpus", "u_corpus": ": share_corpus"},
    "heritage, long tails": IN_PYMC,
    "heritage, skew": IN_PYMC,
    "heritage, given": FAMILIES,
    "heritage, given in PyMC": IN_PYMC,
    "lineage": LINEAGE | DESCENT,
    "lineage, a pull": LINEAGE | DESCENT | {"α": "α", "η": "η"},
    "lineage, levels": LINEAGE | LEVELS,
    "lineage, instruments": LINEAGE | DESCENT | REPEATED,
}
"""Part of a model: symbol of its prior, and the quantities that are it; others are those of the
declaration."""
WORDS = {
    "N": "N({:.3g}, {:.3g}²)",
    "half-normal": "half-normal({:.3g})",
    "log-normal": "log-normal(log {:.3g}, {:.3g}²)",
    "t": "t_{:.3g}, scaled to unit variance",
    "Gamma": "Gamma({:.3g}, rate {:.3g})",
    "uniform": "uniform on ({:.3g}, {:.3g})",
}


@cache
def plan_fit(law: str) -> Fit:
    """A fit that is not drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fit, "draws", None)
        return FITS[law]()


def name_parts(law: str) -> dict[str, tuple[str, list[str]]]:
    """Symbol and quantities of every part."""
    if law in PARTS:
        split = {part: text.partition(":") for part, text in PARTS[law].items()}
        return {
            part: (symbol.strip(), [each.strip() for each in quantities.split(" and ") if each])
            for part, (symbol, _, quantities) in split.items()
        }
    mixed = plan_fit(law).designed(MixedDesign).mixed
    parts: dict[str, Fixed | Kind | Rest] = {
        f"beta {k}": each for k, each in enumerate(mixed.fixed)
    }
    parts |= {kind.block: kind for kind in mixed.kinds} | {"rest": mixed.rest}
    scaled = [part for part, each in parts.items() if isinstance(each, Fixed) and each.unscaled]
    named = {
        part: [each.quantity] * bool(each.quantity and part not in scaled)
        for part, each in parts.items()
    }
    return {part: (each.symbol, named[part]) for part, each in parts.items()}


def read_priors(fit: Fit, law: Law) -> dict[str, Prior]:
    """Priors of a law as its model has them, by part."""
    design = law.of(fit.rows)
    if isinstance(design.model, Sampled):
        return read_declared(design.model)
    if isinstance(design.model, Mixture):
        first, *others = design.model.nodes
        assert all(node.prior == first.prior and (node.sd == first.sd).all() for node in others)
        return read_exact(first) | read_nodes(fit, design)
    return read_exact(design.model)


def read_exact(model: Gaussian) -> dict[str, Prior]:
    """Of coefficients, blocks and the rest; or of the whole variance, its shares and errors."""
    priors: dict[str, Prior] = {
        f"beta {k}": ("N", numbers)
        for k, numbers in enumerate(zip(model.prior_mean, model.sd, strict=True))
    }
    if isinstance(model.prior, HalfNormals):
        scales = zip((*model.blocks, "rest"), model.prior.scales, strict=True)
        return priors | {part: ("half-normal", (scale,)) for part, scale in scales}
    assert isinstance(model.prior, Shares)
    assert len(model.prior.concentrations) == len(model.blocks) + 1
    priors |= dict.fromkeys(model.blocks, EFFECT)
    total = model.prior.total
    assert total.family in {"half-normal", "log-normal"}
    priors["total"] = (total.family, (total.scale, *total.shapes))
    priors["shares"] = ("Dirichlet", model.prior.concentrations)
    priors["errors"] = ESTIMATED if model.freedom is not None else KNOWN
    return priors


def read_declared(model: Sampled) -> dict[str, Prior]:
    """Of variables of PyMC where all others are 0, so that a population's mean has its own prior.

    Raw levels of a population are none.
    """
    pt, graph = (
        importlib.import_module("pytensor.tensor"),
        importlib.import_module("pytensor.graph.replace"),
    )
    variables = model.structure.model.free_RVs
    nothing = {variable: pt.zeros(variable.type.shape, variable.dtype) for variable in variables}
    priors: dict[str, Prior] = {}
    for variable in variables:
        if variable.name.endswith("_raw"):
            continue
        operation = variable.owner.op
        arrays = graph.clone_replace(operation.dist_params(variable.owner), nothing)
        values = [array.eval(mode=choose_mode()) for array in arrays]
        if operation.name == "dirichlet":
            priors[variable.name] = "Dirichlet", tuple(values[0].tolist())
            continue
        numbers = [np.unique(value) for value in values]
        assert all(len(each) == 1 for each in numbers)
        priors[variable.name] = name_distribution(operation.name, np.concatenate(numbers).tolist())
    if "freedom" in model.data:
        estimated = (model.data["freedom"] < NEAR_INFINITE).any()
        priors["errors"] = ESTIMATED if estimated else KNOWN
    return priors


def name_distribution(operation: str, numbers: Sequence[float]) -> Prior:
    """A distribution of PyMC in the numbers that laws state."""
    if operation == "t":
        df, mean, scale = numbers
        assert mean == 0
        assert scale**2 == pytest.approx((df - 2) / df)
        return "t", (df,)
    first, second = numbers
    return {
        "normal": ("N", (first, second)),
        "halfnormal": ("half-normal", (second,)),
        "lognormal": ("log-normal", (float(np.exp(first)), second)),
        "gamma": ("Gamma", (first, 1 / second)),
        "uniform": ("uniform", (first, second)),
    }[operation]


def read_nodes(fit: Fit, design: Design) -> dict[str, Prior]:
    """Of what differs between the nodes of a mixture."""
    assert isinstance(design.model, Mixture)
    weights = design.model.weights
    if isinstance(design, StepDesign):
        logs, cuts = np.log(np.unique(fit.rows["rho"])), np.log(design.cuts)
        assert weights == pytest.approx(np.diff(logs) / np.ptp(logs))
        assert ((logs[:-1] < cuts) & (cuts < logs[1:])).all()
        return {"c": ("log c uniform between the smallest and the largest ρ", ())}
    assert isinstance(design, LineageDesign)
    processes = [each.effects["u_descent"].basis.sources.process for each in design.designs]
    pulls = sorted({process.alpha for process in processes})
    commons = sorted({process.common for process in processes})
    pairs = sorted((process.alpha, process.common) for process in processes)
    assert pairs == sorted(product(pulls, commons))
    assert weights == pytest.approx(1 / len(processes))
    return {"α": ("one of", tuple(pulls)), "η": ("one of", tuple(commons))}


def write_prior(prior: Prior) -> str:
    """A prior in the words of the laws."""
    kind, numbers = prior
    if kind in WORDS:
        return simplify(WORDS[kind].format(*numbers))
    listed = ", ".join(f"{number:.3g}" for number in numbers)
    return simplify(f"Dirichlet({listed})" if kind == "Dirichlet" else f"{kind} {listed}".strip())


def simplify(text: str) -> str:
    """Numbers to three digits, minus signs of one kind, 1² as 1."""
    number = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
    rounded = re.sub(number, lambda match: f"{float(match[0]):.3g}", text)
    return rounded.replace("−", "-").replace(" 1²)", " 1)")


@pytest.mark.parametrize("law", FITS)
def test_the_priors_in_words_are_those_that_are_drawn(law: str) -> None:
    """Of all parts, of the law and of its alternatives."""
    fit = plan_fit(law)
    symbols = {part: symbol for part, (symbol, _) in name_parts(law).items() if symbol}
    for name, each in {"as fitted": fit.law, **fit.law.alternatives}.items():
        drawn = read_priors(fit, each)
        stated = [
            (symbol, write_prior(drawn[part]))
            for part, symbol in symbols.items()
            if drawn.get(part, NOTHING) != NOTHING
        ]
        assert sorted(list_printed(each)) == sorted(stated), name
        assert list_unstated(each, drawn, symbols) == [], name


def list_printed(law: Law) -> list[tuple[str, str]]:
    """Every symbol with its prior in words."""
    printed = []
    for several, text, _ in law.priors:
        printed += [(symbol, simplify(text)) for symbol in several.split(", ")]
    return printed


def list_unstated(law: Law, drawn: Mapping[str, Prior], symbols: Mapping[str, str]) -> list[Prior]:
    """Priors of parts without a symbol that no equation has; effects in units of their scale, and
    nothing, need not be there."""
    equations = simplify(" ".join(law.equations))
    rest = [
        prior
        for part, prior in drawn.items()
        if part not in symbols and prior not in (EFFECT, NOTHING)
    ]
    return [prior for prior in rest if write_prior(prior) not in equations]


@pytest.mark.parametrize("law", FITS)
def test_half_and_twice_the_prior_scales_are_those_of_every_part(law: str) -> None:
    fit = plan_fit(law)
    drawn = read_priors(fit, fit.law)
    known = [part for part, (symbol, _) in name_parts(law).items() if symbol and part in drawn]
    for name, factor in WIDER.items():
        if name in fit.law.alternatives:
            wider = read_priors(fit, fit.law.alternatives[name])
            for part in known:
                kind, (*place, scale) = drawn[part]
                assert wider[part] == (kind, pytest.approx((*place, factor * scale))), (name, part)


@pytest.mark.parametrize("law", FITS)
def test_the_quantities_of_every_alternative_are_named_for_what_is_in_them(law: str) -> None:
    """Every part of the model has a value of its own, which is looked for among the quantities."""
    fit = plan_fit(law)
    part_of = {}
    for part, (_, quantities) in name_parts(law).items():
        part_of |= dict.fromkeys(quantities, part)
    of_variance = {part for quantity, part in part_of.items() if quantity.startswith("share_")}
    for name, alternative in {"as fitted": fit.law, **fit.law.alternatives}.items():
        design = alternative.of(fit.rows)
        values, marks = mark_parts(design)
        variance = sum(mark**2 for part, mark in marks.items() if part in of_variance)
        found = {}
        for quantity, drawn in alternative.quantities(values, design).items():
            parts = [part for part, mark in marks.items() if holds(drawn, mark, variance)]
            if parts or quantity in part_of:
                found[quantity] = parts
        expected = {quantity: [part] for quantity, part in part_of.items() if part in marks}
        assert found == expected, name


def mark_parts(design: Design) -> tuple[dict[str, Array], dict[str, float]]:
    """Draws in which every coefficient, scale or variable has a value of its own, and these
    values."""
    before = design.model.draw_prior(2, np.random.default_rng(1))
    values = {name: drawn[None] for name, drawn in before.items()}
    model = design.model.nodes[0] if isinstance(design.model, Mixture) else design.model
    whole: list[str] = []
    columns: dict[str, list[str]] = {}
    if isinstance(model, Sampled):
        whole = [variable.name for variable in model.structure.model.free_RVs]
        if "scale" in values:
            columns["scale"] = [*(f"u_{name}" for name in model.data["blocks"]), "rest"]
    else:
        columns["beta"] = [f"beta {k}" for k in range(model.sd.size)]
        columns["scale"] = [*model.blocks, "rest"]
    parts = [*whole, *chain.from_iterable(columns.values())]
    apart = 0.1 + 0.8 * np.linspace(0, 1, len(parts)) ** 1.5
    marks = dict(zip(parts, apart.tolist(), strict=True))
    for name in whole:
        values[name] = np.full_like(values[name], marks[name])
    for name, several in columns.items():
        values[name] = np.broadcast_to([marks[part] for part in several], values[name].shape)
    return values, marks


def holds(drawn: Array, mark: float, variance: float) -> bool:
    """Whether a quantity is a value, or the share that it has of a variance."""
    return np.allclose(drawn, mark) or (variance > 0 and np.allclose(drawn, mark**2 / variance))


def test_every_law_is_among_them() -> None:
    page = FITS_PAGE.read_text(encoding="utf-8")
    laws = re.findall(r"^::: thermostats\.modelling\S+\.fit_(\w+)$", page, re.MULTILINE)
    assert {name.split(",")[0] for name in FITS} == set(laws)
    assert set(PARTS) <= set(FITS)
