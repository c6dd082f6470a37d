"""`fit_heritage`: a table of gains to the fit of the heritage model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from thermostats.errors import UsageError, listed, unknown
from thermostats.modelling.calls import fits
from thermostats.modelling.classical.estimates import at_position, columns_of, named, numbers
from thermostats.modelling.columns import Columns, comparable_only, units_once
from thermostats.modelling.draws import SEED, Settings
from thermostats.modelling.fit import Fit, Law, law_fitted
from thermostats.modelling.heritage import classical
from thermostats.modelling.heritage.blocks import FAMILY, LINEAGE, OWN, asked_of, columns_once, in_order
from thermostats.modelling.heritage.labs import labs_table, superpopulation
from thermostats.modelling.heritage.law import LAB, NORMAL, RESIDUALS, STANDARD, Heritage
from thermostats.modelling.heritage.left_out import left_out_table
from thermostats.modelling.heritage.model_means import model_means
from thermostats.modelling.heritage.quantities import POPULATION_MEAN, quantities, statistics
from thermostats.modelling.heritage.rows import GEOMETRY, SCALE, said_of
from thermostats.modelling.heritage.separable import what_rows_cannot_say
from thermostats.modelling.heritage.stated import blocks_figure, equations, models_table, orders_table, priors
from thermostats.modelling.standard_errors import not_read
from thermostats.plots import posterior as plots
from thermostats.tables.vocabulary import GAINS

SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""
CAREFUL = Settings(target_accept=0.98)
"""Settings of PyMC: shares near 0 need smaller steps."""


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
    se: str | float | None = None,
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
    error, which `se` states: a column, or a number, of the gain as given; by the delta method that of ȳ_i is se/gain,
    known, of any n. Predicted are log gains. Models whose gains are near 1 by construction (`comparable` false) are
    left out with a warning. `estimand` says which gain it is, and sets the prior scale of τ. `blocks`: other blocks in
    the order that is asked about, name to columns, of names (groups, the first of which stand for labs) or of numbers
    as they are. `concentration`: a. `residuals`: normal, student or skew; `lab_df` above 2: Student-t lab effects.
    Normal ones are drawn exactly, others by PyMC, which takes a minute.

    Quantities: sd_<block> and share_<block> of every block and of the single `model`, total_sd (τ);
    population_mean_log_gain (of models that there could be: those at hand are a sample) and, not printed,
    models_mean_log_gain (of those at hand); with families sd_lineage and lineage_share, of lab and family together.
    Statements: heritage > geometry and scale, which is the lab above shape and size together; then orders of the
    blocks. Tables: orders, labs, models, superpopulation, left out (by exact refits, of normal residuals alone), and
    classical counterparts: classical, dominance, commonality.

    Raises UsageError for gains that are not positive and finite or all the same, missing geometry, a model in several
    rows that no prompt tells apart, a model with two labs, fewer than 4 models, one lab, one model in every lab, a
    block without variation, a prompt twice in one model, blocks of names and numbers together, errors that are missing,
    below 0 or not below their gains, priors out of range.
    """
    outcome = outcome or ("gain" if "gain" in table or estimand not in table else estimand)
    roles = {"geometry": geometry, "scale": scale}
    columns = {"model": model, "lab": lab, "prompt": prompt} | ({"se": se} if isinstance(se, str) else {})
    request, gone = _asked(table, outcome, columns, roles, blocks)
    estimand, before = estimand or outcome, table
    table, left = comparable_only(request.read(table, optional=("prompt",)))
    units_once(table, [model, prompt] if prompt in table and se is None else [model], _of_many(outcome, table))
    _complete(request, table)
    chosen = _blocks(request) if blocks is None else _each_listed(blocks)
    columns_once(chosen, partial(_with_blocks, request, before, named=blocks is not None), outcome)
    heritage = _declared(table, estimand, chosen, blocks is None, concentration, residuals, lab_df, se is not None)
    names = [column for name in heritage.groups for column in heritage.blocks[name]]
    others = [column for name in heritage.blocks if name not in heritage.groups for column in heritage.blocks[name]]
    rows, warnings = model_means(table, estimand, names=names, numbers=others, positive=heritage.logs, se=se)
    warnings += not_read(before, outcome, se, f"{outcome}_sd", "n_prompts")
    if "family" in rows and heritage.blocks.get(heritage.lab) == (LAB,):
        nested = {**heritage.blocks, FAMILY: (LAB, "family")}
        heritage = replace(heritage, blocks=nested, groups=(*heritage.groups, FAMILY))
    warnings += what_rows_cannot_say(rows, heritage, _without_labs(request, before), _look(request))
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
        reads=request.of_new,
    )


def _asked(
    table: pd.DataFrame,
    outcome: str,
    named: Mapping[str, str | None],
    blocks_of: Mapping[str, str | Sequence[str] | None],
    blocks: Mapping[str, Sequence[str]] | None,
) -> tuple[Columns, list[str]]:
    """What a call says of its columns, and which blocks the fit goes without since nothing names their columns."""
    standard, gone = {"geometry": GEOMETRY, "scale": SCALE}, list[str]()
    numbers = {name: listed(columns, name) for name, columns in blocks_of.items()} if blocks is None else {}
    unnamed = [name for name, columns in numbers.items() if columns is None]
    there = {named["model"], named["lab"]} - {None} <= set(table)
    for name in unnamed:
        numbers[name] = list(standard[name])
        if there and not set(standard[name]) & set(table):
            numbers[name] = []
            gone.append(f"no {name}: the table has no {', '.join(standard[name])}, and {name}=[…] names no others")
    labelled = {name: column for name, column in named.items() if name != "lab" or blocks is None or column in table}
    columns = {"outcome": outcome, **labelled, **numbers}
    further = tuple(dict.fromkeys(column for name, of in (blocks or {}).items() for column in listed(of, name) or ()))
    return Columns(call="fit_heritage", named=columns, computed=partial(_gains, outcome), further=further), gone


def _complete(names: Columns, table: pd.DataFrame) -> None:
    """UsageError where geometry or scale of a model with a gain is missing, with the call of what is there."""
    rows = table[table["gain"].notna()]
    full = {
        name: [column for column in names.named.get(name) or () if rows[column].notna().all()]
        for name in ("geometry", "scale")
        if name in names.named
    }
    if lacking := [c for name, present in full.items() for c in names.named[name] or () if c not in present]:
        models = rows.loc[rows[lacking].isna().any(axis=1), "model_id"]
        raise UsageError(
            "missing geometry",
            where=", ".join(lacking),
            got=f"none of {named(set(models.astype(str)), 5)}",
            allowed="a number above 0 for every model",
            next_step=replace(names, named={**names.named, **full}).filled_in(table, {}),
        )


def _without_labs(names: Columns, table: pd.DataFrame) -> str:
    """The call that asks nothing of labs: of geometry and scale, or without these of the mean."""
    if names.named.get("geometry") or names.named.get("scale"):
        return replace(names, named={**names.named, "lab": None}).filled_in(table, {})
    return f'thermostats.fit_line(df, "{names.named["outcome"]}", model="{names.named["model"]}", group=None)'


def _look(names: Columns) -> str:
    """The call that shows gains by lab."""
    lab, outcome = names.named.get("lab"), names.named["outcome"]
    return f'df.groupby("{lab}")["{outcome}"].describe()' if lab else f'df["{outcome}"].describe()'


def _gains(outcome: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the outcome and its spread under the names that models' means are taken of."""
    both = {"gain": outcome, "gain_sd": f"{outcome}_sd"}
    return rows.assign(**{name: rows[column] for name, column in both.items() if column != name and column in rows})


def _blocks(columns: Columns) -> dict[str, Sequence[str]]:
    """Labs, geometry and scale, as far as there are columns of them."""
    labs = {LAB: (LAB,)} if columns.named.get("lab") else {}
    return labs | {name: tuple(columns.named[name] or ()) for name in ("geometry", "scale") if columns.named.get(name)}


def _each_listed(blocks: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Blocks as they were asked for, a single column as a list of one."""
    return {str(name): listed(columns, str(name)) or [] for name, columns in blocks.items()}


def _with_blocks(request: Columns, table: pd.DataFrame, blocks: Mapping[str, Sequence[str]], *, named: bool) -> str:
    """The call with these blocks, which `named` them, or named geometry and scale."""
    if named:
        return f"thermostats.fit_heritage(df, blocks={dict(blocks)!r})"
    numbers = {name: list(blocks.get(name, ())) or None for name in ("geometry", "scale")}
    return replace(request, named={**request.named, **numbers}).filled_in(table, {})


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
    left_out = {"left out": left_out_table} if heritage.groups and heritage.exact else {}
    law = Law(
        name="heritage",
        of=heritage.of,
        quantities=quantities,
        reported=(
            *(f"sd_{name}" for name in parts),
            *(f"share_{name}" for name in parts),
            *(*lineage, "total_sd", POPULATION_MEAN, *joint),
        ),
        statements={order: partial(in_order, order) for order in asked_of(tuple(heritage.blocks))},
        statistics=statistics,
        equations=equations(heritage),
        priors=priors(heritage),
        tables={"orders": orders_table, "models": models_table, **of_labs, **left_out, **classical.TABLES},
        figures={
            "blocks": blocks_figure,
            "shares": lambda fit, axes: plots.variance_shares(fit.summary().reset_index(), axes),
            "orders": lambda fit, axes: plots.order_probability_bar(fit.table("orders"), axes),
            **({"labs": lambda fit, axes: plots.lab_forest(fit.table("labs"), axes)} if heritage.groups else {}),
        },
        units=(*(heritage.blocks[heritage.lab] if heritage.groups else ()), "model_id"),
    )
    others = {name: replace(law, of=other.of) for name, other in heritage.others(rows).items()}
    return replace(law, alternatives=others)


def _declared(
    table: pd.DataFrame,
    estimand: str,
    blocks: Mapping[str, Sequence[str]],
    logs: bool,
    concentration: float,
    residuals: str,
    lab_df: float,
    stated: bool,
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
    chosen = {name: tuple(columns) for name, columns in blocks.items()}
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
        stated=stated,
    )
