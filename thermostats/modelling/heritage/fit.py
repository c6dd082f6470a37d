"""`fit_heritage`: a table of gains to the fit of the heritage model; tables and figures of its fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError, listed, unknown
from thermostats.modelling.calls import fits
from thermostats.modelling.classical.estimates import at_position, columns_of, named, numbers
from thermostats.modelling.columns import Columns, comparable_only, units_once
from thermostats.modelling.draws import SEED, Settings, summary
from thermostats.modelling.fit import Fit, Law, Prior, law_fitted
from thermostats.modelling.heritage import classical
from thermostats.modelling.heritage.blocks import FAMILY, LINEAGE, OWN, bayes_factor, in_order, orders_of, scaled_map
from thermostats.modelling.heritage.labs import labs_table, superpopulation
from thermostats.modelling.heritage.law import (
    LAB,
    NORMAL,
    RESIDUALS,
    STANDARD,
    Heritage,
    groups_of,
    log_gains,
    quantities,
    statistics,
)
from thermostats.modelling.heritage.left_out import left_out_table
from thermostats.modelling.heritage.model_means import model_means
from thermostats.modelling.heritage.rows import GEOMETRY, SCALE, said_of
from thermostats.plots import posterior as plots
from thermostats.plots.general import forest
from thermostats.tables.vocabulary import GAINS

LEAST, SMALL_STUDY = 4, 10
OTHERS_SHIP = "add models: thermostats.model_rows() has those that ship, thermostats.features() says whose"
NO_FAMILIES = "families are not stated, so each model is its own: they have no share"
SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""
CAREFUL = Settings(target_accept=0.98)
"""Of PyMC: shares near 0 need smaller steps."""
PRIOR_DRAWS, PRIOR_NUMBERS = 20_000, 2_000_000
"""Of prior probabilities; draws times models: of very many models fewer draws."""


@fits
def fit_heritage(
    table: pd.DataFrame,
    *,
    outcome: str = "",
    model: str = "model_id",
    lab: str | None = "heritage",
    geometry: str | Sequence[str] | None = None,
    scale: str | Sequence[str] | None = None,
    prompt: str = "prompt_id",
    estimand: str = "",
    seed: int = SEED,
    blocks: Mapping[str, Sequence[str]] | None = None,
    concentration: float = 1.0,
    residuals: str = NORMAL,
    lab_df: float = 0.0,
    settings: Settings = CAREFUL,
) -> Fit:
    """ȳ_i = α + Σ_b f_b,i + f_i,model + error_i, shares φ of τ² ~ Dirichlet(a, …, a): heritage, geometry and scale.

    `table`: one row per model, one per model and prompt, or averages with `gain_sd` (divisor n − 1) and `n_prompts`; as
    `gain_rows` gives it, or your own, in which `outcome` (the gain; by default `gain`, or the `estimand`), `model`,
    `lab` (None: no labs), `geometry`, `scale` and `prompt` name the columns. Without geometry or scale named, those of
    `gain_rows` count, and where there are none the fit goes without and says so. Numbers enter as logs, in any unit.
    `family`, where known, is a block of its own within labs. Models enter by their mean log gain ȳ_i with its standard
    error; predicted are log gains. Models whose gains are near 1 by construction (`comparable` false) are left out with
    a warning. `estimand` says which gain it is, and sets the prior scale of τ. `blocks`: other blocks in the order that
    is asked about, name to columns, of names (groups, the first of which stand for labs) or of numbers as they are.
    `concentration`: a. `residuals`: normal, student or skew; `lab_df` above 2: Student-t lab effects. Normal ones are
    drawn exactly, others by PyMC, which takes a minute.

    Quantities: sd_<block> and share_<block> of every block and of the single `model`, total_sd (τ), mean_log_gain; with
    families sd_lineage and lineage_share, of lab and family together. Statements: orders of the blocks. Tables: orders,
    labs, models, superpopulation, left out (by exact refits), and classical counterparts: classical, dominance,
    commonality.

    Raises UsageError for gains that are not positive and finite or all the same, missing geometry, a model in several
    rows that no prompt tells apart, a model with two labs, fewer than 4 models, one lab, one model in every lab, a
    block without variation, a prompt twice in one model, blocks of names and numbers together, priors out of range.
    """
    outcome = outcome or ("gain" if "gain" in table or estimand not in table else estimand)
    given = {"geometry": geometry, "scale": scale}
    asked, gone = _asked(table, outcome, {"model": model, "lab": lab, "prompt": prompt}, given, blocks)
    estimand, before = estimand or outcome, table
    table, left = comparable_only(asked.read(table, optional=("prompt",)))
    units_once(table, [model, prompt] if prompt in table else [model], _of_many(outcome, table))
    _complete(asked, table)
    chosen = _blocks(asked) if blocks is None else blocks
    heritage = _declared(table, estimand, chosen, blocks is None, concentration, residuals, lab_df)
    names = [column for name in heritage.groups for column in heritage.blocks[name]]
    columns = [column for name in heritage.blocks if name not in heritage.groups for column in heritage.blocks[name]]
    rows, warnings = model_means(table, estimand, names=names, numbers=columns, positive=heritage.logs)
    if "family" in rows and heritage.blocks.get(heritage.lab) == (LAB,):
        nested = {**heritage.blocks, FAMILY: (LAB, "family")}
        heritage = replace(heritage, blocks=nested, groups=(*heritage.groups, FAMILY))
    warnings += _odd(rows, heritage, _without_labs(asked, before))
    numbers(rows["log_gain"], f"log {estimand}", varied=True)
    sources = set(table.loc[table["gain"].notna(), "source"].dropna()) if "source" in table else set()
    return law_fitted(
        heritage_law(heritage, rows),
        rows,
        seed=seed,
        settings=settings,
        estimand=at_position(estimand, table),
        sources=tuple(sorted(sources)),
        warnings=(*said_of(before), *left, *gone, *warnings),
        reads=asked.of_new,
    )


def _asked(
    table: pd.DataFrame,
    outcome: str,
    named: Mapping[str, str | None],
    given: Mapping[str, str | Sequence[str] | None],
    blocks: Mapping[str, Sequence[str]] | None,
) -> tuple[Columns, list[str]]:
    """What a call says of its columns, and which blocks the fit goes without since nothing names their columns."""
    standard, gone = {"geometry": GEOMETRY, "scale": SCALE}, list[str]()
    numbers = {name: listed(columns, name) for name, columns in given.items()} if blocks is None else {}
    unnamed = [name for name, columns in numbers.items() if columns is None]
    there = {named["model"], named["lab"]} - {None} <= set(table)
    for name in unnamed:
        numbers[name] = list(standard[name])
        if there and not set(standard[name]) & set(table):
            numbers[name] = []
            gone.append(f"no {name}: the table has no {', '.join(standard[name])}, and {name}=[…] names no others")
    labelled = {name: column for name, column in named.items() if name != "lab" or blocks is None or column in table}
    columns = {"outcome": outcome, **labelled, **numbers}
    return Columns(call="fit_heritage", named=columns, computed=partial(_gains, outcome)), gone


def _complete(asked: Columns, table: pd.DataFrame) -> None:
    """UsageError where geometry or scale of a model with a gain is missing, with the call of what is there."""
    rows = table[table["gain"].notna()]
    full = {
        name: [column for column in asked.named.get(name) or () if rows[column].notna().all()]
        for name in ("geometry", "scale")
        if name in asked.named
    }
    if lacking := [c for name, kept in full.items() for c in asked.named[name] or () if c not in kept]:
        models = rows.loc[rows[lacking].isna().any(axis=1), "model_id"]
        raise UsageError(
            "missing geometry",
            where=", ".join(lacking),
            got=f"none of {named(set(models.astype(str)), 5)}",
            allowed="a number above 0 for every model",
            next_step=replace(asked, named={**asked.named, **full}).filled_in(table, {}),
        )


def _without_labs(asked: Columns, table: pd.DataFrame) -> str:
    """The call that asks nothing of labs: of geometry and scale, or without these of the mean."""
    if asked.named.get("geometry") or asked.named.get("scale"):
        return replace(asked, named={**asked.named, "lab": None}).filled_in(table, {})
    return f'thermostats.fit_line(df, "{asked.named["outcome"]}", model="{asked.named["model"]}", group=None)'


def _gains(outcome: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the outcome and its spread under the names that models' means are taken of."""
    both = {"gain": outcome, "gain_sd": f"{outcome}_sd"}
    return rows.assign(**{name: rows[column] for name, column in both.items() if column != name and column in rows})


def _blocks(columns: Columns) -> dict[str, Sequence[str]]:
    """Labs, geometry and scale, as far as there are columns of them."""
    labs = {LAB: (LAB,)} if columns.named.get("lab") else {}
    return labs | {name: tuple(columns.named[name] or ()) for name in ("geometry", "scale") if columns.named.get(name)}


def _of_many(outcome: str, table: pd.DataFrame) -> str:
    """What to do about models in several rows: the package's own measurements have rows for it."""
    if "run_id" in table and outcome in GAINS:
        return f'thermostats.fit_heritage(thermostats.gain_rows("{outcome}"), estimand="{outcome}")'
    return ""


def heritage_law(heritage: Heritage, rows: pd.DataFrame) -> Law:
    """The law of these blocks; of the rows, what its alternatives can leave out."""
    parts = (*heritage.blocks, OWN)
    lineage = (f"sd_{LINEAGE}", f"{LINEAGE}_share")
    joint = ("sd_geometry_and_scale", "sd_geometry_alone", "sd_scale_alone")
    of_labs = {"labs": labs_table, "superpopulation": superpopulation} if heritage.groups else {}
    law = Law(
        name="heritage",
        lay_out=heritage.lay_out,
        quantities=quantities,
        reported=(
            *(f"sd_{name}" for name in parts),
            *(f"share_{name}" for name in parts),
            *(*lineage, "total_sd", "mean_log_gain", *joint),
        ),
        statements={order: partial(in_order, order) for order in orders_of(tuple(heritage.blocks))},
        statistics=statistics,
        equations=_equations(heritage),
        priors=_priors(heritage),
        tables={"orders": _orders, "models": _models, **of_labs, "left out": left_out_table, **classical.TABLES},
        figures={
            "blocks": _figure,
            "shares": lambda fit, axes: plots.variance_shares(fit.summary(), axes),
            "orders": lambda fit, axes: plots.order_probability_bar(fit.table("orders"), axes),
            **({"labs": lambda fit, axes: plots.lab_forest(fit.table("labs"), axes)} if heritage.groups else {}),
        },
        units=(*(heritage.blocks[heritage.lab] if heritage.groups else ()), "model_id"),
    )
    others = {name: replace(law, lay_out=other.lay_out) for name, other in heritage.others(rows).items()}
    return replace(law, alternatives=others)


def _declared(
    table: pd.DataFrame,
    estimand: str,
    blocks: Mapping[str, Sequence[str]],
    logs: bool,
    concentration: float,
    residuals: str,
    lab_df: float,
) -> Heritage:
    """Blocks and priors as they were asked for."""
    if not (0 < concentration < math.inf and (lab_df == 0 or 2 < lab_df < math.inf)):
        raise UsageError(
            "priors out of range",
            got=f"concentration {concentration}, lab_df {lab_df}",
            allowed="concentration above 0; lab_df 0 or above 2",
        )
    if residuals not in RESIDUALS:
        raise unknown("no such law of the residuals", residuals, RESIDUALS)
    chosen = {str(name): tuple(columns) for name, columns in blocks.items()}
    if not chosen or not all(chosen.values()) or {FAMILY, OWN, LINEAGE} & set(chosen):
        raise UsageError(
            "no such blocks",
            got=chosen,
            allowed=f"one block or more, each of one column or more, none called {FAMILY}, {OWN} or {LINEAGE}",
        )
    columns_of(table, *(column for columns in chosen.values() for column in columns))
    groups = []
    for name, columns in chosen.items():
        texts = [not pd.api.types.is_numeric_dtype(table[column]) for column in columns]
        if name == LAB or all(texts):
            groups.append(name)
        elif any(texts):
            raise UsageError("a block of names and numbers", where=name, got=", ".join(columns), allowed="one kind")
    return Heritage(
        blocks=chosen,
        groups=tuple(groups),
        logs=logs,
        total_sd=SUMMED_TOTAL_SD if estimand in SUMMED else STANDARD.total_sd,
        concentration=concentration,
        lab_df=lab_df,
        residuals=residuals,
    )


def _odd(rows: pd.DataFrame, heritage: Heritage, without_labs: str) -> list[str]:
    """What the rows cannot say, in words; UsageError where they say nothing of a block."""
    if len(rows) < LEAST:
        raise UsageError("too few models", got=len(rows), allowed=f"{LEAST} or more", next_step=OTHERS_SHIP)
    warnings, used = list[str](), 1
    for name, columns in heritage.blocks.items():
        if name == FAMILY:
            continue
        if name in heritage.groups:
            sizes = groups_of(rows, columns).value_counts()
            warnings += _of_groups(name, sizes, without_labs)
            used += len(sizes) - 1
            continue
        x = rows[list(columns)].to_numpy(np.float64)
        constant = np.ptp(x, axis=0) <= 1e-12 * np.abs(x).max()
        if constant.all():
            raise UsageError(
                "a block without variation",
                where=name,
                got=f"{', '.join(columns)} constant",
                allowed="one column that varies",
            )
        left = [column for column, same in zip(columns, constant, strict=True) if same]
        warnings += [f"{column} is the same in all models and left out" for column in left]
        rank = scaled_map(np.log(x) if heritage.logs else x).shape[1]
        if rank < len(columns) - len(left):
            warnings.append(f"{name} has rank {rank} of {len(columns) - len(left)} columns")
        used += rank
    if len(rows) < SMALL_STUDY:
        warnings.append(f"{len(rows)} models: shares stay close to their prior")
    if heritage.lab == LAB:
        warnings += _of_families(rows) if FAMILY in heritage.blocks else [NO_FAMILIES]
    if used >= len(rows):
        warnings.append(f"{len(rows)} models for {used} effects: the shares depend strongly on the prior")
    return warnings


def _of_groups(name: str, sizes: pd.Series, step: str) -> list[str]:
    """Refuse groups that cannot be separated from the mean or from the residual."""
    if len(sizes) < 2:
        one = "one lab: its effect" if name == LAB else f"one {name}: its effect"
        raise UsageError(
            f"{one} cannot be separated from the mean", got=sizes.index[0], allowed="2 or more", next_step=step
        )
    if sizes.max() == 1:
        what = "lab" if name == LAB else name
        raise UsageError(
            f"every {what} has one model: {name} cannot be separated from the residual between models",
            got=f"{len(sizes)} {what}s",
            allowed="two models or more in at least one",
            next_step=step,
        )
    if (sizes > 1).sum() < 2:
        return [
            f"only one {'lab' if name == LAB else name} has two models or more: {name} rests on the spread within it"
        ]
    return []


def _of_families(rows: pd.DataFrame) -> list[str]:
    warnings, family = list[str](), groups_of(rows, (LAB, "family"))
    if (lacking := rows["family"].isna()).any():
        warnings.append("treated as a separate family, since none is stated: " + named(rows.loc[lacking, "model_id"]))
    if family.groupby(rows[LAB]).nunique().max() < 2:
        warnings.append(
            "no lab has two families: effects of lab and family cannot be separated and are divided by the prior; "
            "their sum, the lineage, can be estimated"
        )
    if family.value_counts().max() < 2:
        warnings.append("no family has two models: effects of family and model cannot be separated")
    return warnings


def _equations(heritage: Heritage) -> tuple[str, ...]:
    """The model in lines."""
    parts = " + ".join(f"f_i,{name}" for name in (*heritage.blocks, OWN))
    orders = orders_of(tuple(heritage.blocks))
    shown = []
    for name, columns in heritage.blocks.items():
        if name in heritage.groups:
            group = columns[-1] if columns != (LAB,) else "lab"
            shown.append(f"{name}: X u = c·(u_{group}(i) − mean over models)")
        else:
            shown.append(f"{name}: {', '.join(f'log {column}' if heritage.logs else column for column in columns)}")
    return (
        "ȳ_i = m_i + e_i, e_i ~ N(0, se_i²), se_i²: standard error from n_i prompts, spreads moderated   (model i)",
        f"m_i = α + {parts}",
        "f_b = τ √φ_b X_b u_b,   X_b scaled so that E Σ_i f_b,i²/M = τ² φ_b",
        "; ".join(shown),
        f"f_i,{OWN} ~ {RESIDUALS[heritage.residuals]}",
        "estimands: S_b = SD over the M models of f_b (finite population)"
        + (f"; order: {orders[-1]}" if orders else ""),
        *((f"{LINEAGE}: f_{heritage.lab} + f_{FAMILY}",) if FAMILY in heritage.blocks else ()),
    )


def _priors(heritage: Heritage) -> tuple[Prior, ...]:
    """Every prior of the model with its reason."""
    shares = ", ".join([f"{heritage.concentration:g}"] * (len(heritage.blocks) + 1))
    groups = [name for name in heritage.groups if name != FAMILY]
    effect = f"t_{heritage.lab_df:g}, scaled to unit variance" if heritage.lab_df else "N(0, 1)"
    columns = ", ".join(f"u_{name}" for name in heritage.blocks if name not in heritage.groups)
    return (
        ("α", f"N(0, {2 * heritage.total_sd:g}²)", "gains between a seventh and seven times are no surprise"),
        ("τ", f"half-normal({heritage.total_sd:g})", "models that differ by that many e-folds are no surprise"),
        ("φ", f"Dirichlet({shares})", "no block has a head start"),
        *((f"u_{name}", effect, f"groups of {name} are exchangeable; their scale is τ√φ") for name in groups),
        *((("u_family", "N(0, 1)", "families are exchangeable within and across labs"),) * (FAMILY in heritage.blocks)),
        *(((columns, "N(0, 1)", "orthonormal columns of equal expected weight"),) * bool(columns)),
        (
            "se_i²",
            "inverse χ² with n_i − 1 + d_0 degrees of freedom",
            "spreads over prompts differ between models, by a factor of about 1.6; Smyth 2004",
        ),
    )


def _orders(fit: Fit) -> pd.DataFrame:
    """Per order of blocks: posterior and prior probability (by simulation), and the Bayes factor of the restriction."""
    size = min(PRIOR_DRAWS, PRIOR_NUMBERS // len(fit.rows))
    before = fit.model.from_prior(size, np.random.default_rng(fit.seed))
    prior = quantities({name: values[None] for name, values in before.items()}, fit.constants)
    rows = []
    for order, probability in fit.probabilities.items():
        expected = float(in_order(order, prior).mean())
        rows.append((order, probability, expected, bayes_factor(probability, expected)))
    return pd.DataFrame(rows, columns=["statement", "probability", "prior", "bayes_factor"])


def _models(fit: Fit) -> pd.DataFrame:
    """Per model: log gain over prompts, and P(model dampens) = P(log gain < 0)."""
    m = log_gains(fit.draws.values, fit.constants)
    table = summary({"m": m}, level=fit.level, exact=["m"] if fit.draws.exact else []).drop(columns="quantity")
    table.insert(0, "model_id", list(fit.constants["outcomes"]))
    if lab := fit.constants["lab"]:
        table.insert(1, "heritage", list(groups_of(fit.rows, fit.constants["heritage"].blocks[lab])))
    return table.assign(probability_dampens=(m < 0).mean(axis=(0, 1)))


def _figure(fit: Fit, axes: Axes) -> Axes:
    """Finite-population standard deviations of the blocks with their intervals."""
    blocks = [*fit.constants["heritage"].blocks, OWN]
    rows = fit.summary().set_index("quantity").loc[[f"sd_{name}" for name in blocks]].reset_index()
    rows["quantity"] = ["residual between models" if name == OWN else name for name in blocks]
    forest(rows, axes, label="quantity", estimate="median", null=0.0)
    axes.set_xlabel(f"standard deviation over models, log {fit.estimand.replace('_', ' ')}")
    return axes
