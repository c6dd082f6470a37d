"""ȳ_i = α + Σ_b f_b,i + f_i,model + error_i, f_b = τ√φ_b X_b u_b: is log gain decided by heritage,
geometry or scale?

Every block's contribution f_b is scaled to unit expected variance and multiplied by τ√φ_b, τ
half-normal and shares φ ~ Dirichlet(a, …, a), one of them the single model's, so that blocks of
many columns have no head start (cf. Zhang et al. 2022, R2D2M2, and the joint variance priors of
Fuglstad et al. 2020, doi:10.1214/19-BA1185). With normal residuals the exact engine draws it, else
PyMC. The estimands are finite-population standard deviations of the contributions over the models
at hand (Gelman 2005, doi:10.1214/009053604000001048).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from thermostats.errors import UsageError
from thermostats.modelling import regressors as residuals
from thermostats.modelling.draws import Array, Statistic, join_draws
from thermostats.modelling.importance import NEAR_INFINITE
from thermostats.modelling.laws import LOG
from thermostats.modelling.mixed_model import (
    Effects,
    Fixed,
    Kind,
    Mixed,
    MixedDesign,
    Rest,
    SharedVariance,
)
from thermostats.modelling.model_gains import GEOMETRY, SCALE
from thermostats.modelling.positive import PositivePrior
from thermostats.modelling.regressors import Regressors
from thermostats.modelling.sampling import Sampled, pad_levels

Integers = NDArray[np.int64]
ORDER = "heritage > geometry > scale"
TOGETHER = "geometry and scale"
"""Both as one block: `sd_geometry_and_scale` is the spread of the sum of what they contribute."""
OWN = "model"
"""What is left to the single model."""
FAMILY, LINEAGE = "family", "lineage"
"""Families within labs are a block of their own, neither heritage nor residual; lineage is lab and
family together."""


def group_basis(codes: Integers, shares: Array) -> Array:
    """Centred indicators of groups, M × groups, scaled to unit expected variance; `shares`: of
    every group's models."""
    indicators = np.eye(shares.size)[codes]
    return np.asarray((indicators - shares) / np.sqrt(1 - np.square(shares).sum()))


def build_scaled_map(columns: Array) -> Array:
    """A, columns × rank r, with (x − mean)A = √(M/r)·Q, Q orthonormal; rank 0 where nothing
    varies."""
    centred = columns - columns.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    varied = norms > 1e-9 * (1 + np.abs(columns).max(initial=0.0))
    if not varied.any():
        return np.empty((columns.shape[1], 0))
    _, s, right = np.linalg.svd(centred[:, varied] / norms[varied], full_matrices=False)
    rank = int((s > 1e-8 * s[0]).sum())
    by = np.zeros((columns.shape[1], rank))
    by[varied] = right[:rank].T / s[:rank] / norms[varied][:, None]
    q = centred @ by
    signs = np.sign(q[np.abs(q).argmax(axis=0), np.arange(rank)])
    return np.asarray(by * signs * np.sqrt(len(columns) / rank))


def measure_block_sds(contributions: Mapping[str, Array]) -> dict[str, Array]:
    """`sd_<block>`: finite-population standard deviation √(Σ_i (f_i − mean f)²/M) over the last
    axis, of every block.

    Gelman 2005, AOS 33(1).
    """
    block_sds: dict[str, Array] = {}
    for name, part in contributions.items():
        block_sds[f"sd_{name}"] = np.asarray(part.std(axis=-1))
    return block_sds


def check_distinct_columns(
    blocks: Mapping[str, Sequence[str]],
    call: Callable[[dict[str, list[str]]], str],
    outcome: str = "",
) -> None:
    """UsageError where a column stands in two blocks, twice in one, or is the outcome: it would
    belong to neither.

    `call`: the line that works, from blocks that hold each column once.
    """
    places: dict[str, list[str]] = {outcome: ["the outcome"]} if outcome else {}
    for name, columns in blocks.items():
        for column in columns:
            places.setdefault(column, []).append(name)
    last = {}
    for column, named in places.items():
        if column != outcome:
            last[column] = named[-1]
    once: dict[str, list[str]] = {}
    for name, columns in blocks.items():
        once[name] = [c for c in dict.fromkeys(columns) if last.get(c) == name]
    for column, named in places.items():
        if len(named) > 1:
            raise UsageError(
                "a column stands in two blocks"
                if len(set(named)) > 1
                else "a column is named twice in a block",
                where=column,
                got=" and ".join(dict.fromkeys(named)),
                allowed="each column once",
                next_step=call({name: columns for name, columns in once.items() if columns}),
            )


def list_orders(blocks: Sequence[str]) -> tuple[str, ...]:
    """Orders that are asked about: of neighbours, of all, and of all with the lineage in the place
    of the lab."""
    causes = [name for name in blocks if name != FAMILY]
    orders = [" > ".join(pair) for pair in pairwise(causes)]
    orders += [" > ".join(causes)] * (len(causes) > 2)
    if FAMILY in blocks and len(causes) > 1:
        orders.append(" > ".join([LINEAGE, *causes[1:]]))
    return tuple(orders)


def list_questions(blocks: Sequence[str]) -> tuple[str, ...]:
    """What a fit is asked first: the first block above geometry and scale together, the order of
    all, then the rest."""
    orders = list_orders(blocks)
    causes = [name for name in blocks if name != FAMILY]
    joint = [f"{causes[0]} > {TOGETHER}"] if {"geometry", "scale"} <= set(causes[1:]) else []
    return tuple(dict.fromkeys([*joint, *[" > ".join(causes)] * (len(causes) > 1), *orders]))


def mark_ordered(order: str, drawn: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Draws whose standard deviations `sd_<block>` come in an order such as `heritage > geometry
    and scale`."""
    named = []
    for name in order.split(" > "):
        named.append(drawn[f"sd_{name.replace(' ', '_')}"])
    return np.asarray(np.logical_and.reduce([a > b for a, b in pairwise(named)]))


def compute_bayes_factor(posterior: float, prior: float) -> float:
    """Posterior odds over prior odds of an order; infinite where every draw obeys it."""
    return np.inf if posterior >= 1 else posterior / (1 - posterior) / (prior / (1 - prior))


MODERATED = (
    "se_i²",
    "inverse χ² with n_i − 1 + d_0 degrees of freedom",
    "spreads over prompts differ between models, by a factor of about 1.6; Smyth 2004",
)
"""Prior of errors that are estimates, with its reason."""
LAB = "heritage"
NORMAL = "normal"
STUDENT = "student"
SKEW = "skew"
LEAST_DF = 2.5
DF_SHAPE = 2.0
DF_RATE = 0.1
MOST_SKEW = 0.995
OF_DF = f"ν = {LEAST_DF:g} + Gamma({DF_SHAPE:g}, rate {DF_RATE:g})"
OF_SKEW = f"δ uniform on (−{MOST_SKEW:g}, {MOST_SKEW:g})"
RESIDUALS = {
    NORMAL: "N(0, τ²φ_model)",
    STUDENT: f"τ√φ_model t_ν, scaled to unit variance, {OF_DF}",
    SKEW: f"τ√φ_model skew-normal, scaled to mean 0 and unit variance, {OF_SKEW}",
}
"""Laws of the residuals between models, in symbols."""
FACTORS = np.exp(np.linspace(np.log(0.1), np.log(60), 24))
"""Student's t is a mixture of normals, whose variances have these factors but for one of all."""
LEAST_ROOT = 0.3
"""Of χ²/ν, its third root: errors of no more than six times those given."""


@dataclass(frozen=True, kw_only=True)
class ShareKind(Kind):
    """A block that has a share of the whole variance."""

    @property
    def block(self) -> str:
        """Name among the draws."""
        return f"u_{self.name}"


@dataclass(frozen=True, kw_only=True)
class GroupBlock(ShareKind):
    """A block of groups, scaled to unit expected variance over the models of the fit; nested where
    it has columns."""

    columns: tuple[str, ...]
    apart: bool = False
    """Whether a fit goes without them where they cannot be distinguished from the mean or the
    residual."""
    df: float = 0.0
    """Degrees of freedom of the effects; 0: normal."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def prior(self) -> str:
        """In words."""
        return f"t_{self.df:g}, scaled to unit variance" if self.df else "N(0, 1)"

    def arrange(self, table: pd.DataFrame, fit: Effects | None) -> Effects | None:
        """An effect a group; its basis: every group's share of the models of the fit, 0 of those it
        has not seen."""
        labels = name_groups(table, self.columns)
        shares = fit.basis if fit else labels.value_counts(normalize=True).sort_index()
        if new := sorted(set(labels) - set(shares.index)):
            shares = pd.concat([shares, pd.Series(0.0, index=new)])
        codes = shares.index.get_indexer(labels)
        if fit is None and self.apart and not is_separable(codes):
            return None
        columns = group_basis(codes, shares.to_numpy(np.float64))
        return Effects(columns=columns, names=tuple(shares.index), codes=codes, basis=shares)


@dataclass(frozen=True, kw_only=True)
class NumberBlock(ShareKind):
    """A block of columns of numbers, turned into orthonormal ones over the models of the fit."""

    columns: tuple[str, ...]
    every: tuple[str, ...]
    """Columns of all blocks of numbers."""
    logs: bool
    """They enter as logs."""
    beyond: tuple[str, ...] = ()
    """Columns of another block, on which these enter by their residuals."""
    least_left: float = 0.0
    """Directions of which the residuals keep less than this part are left out."""
    dropped: bool = False
    """They contribute nothing, and keep their share."""

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def read(self, table: pd.DataFrame) -> Array:
        """All columns of numbers as they enter, models × columns."""
        return read_logs(table, self.every, logs=self.logs)

    def arrange(self, table: pd.DataFrame, fit: Effects | None) -> Effects:
        """Columns of unit expected variance; their basis: the centre of all columns, and the map
        from these."""
        x = self.read(table)
        centre, by = fit.basis if fit else (x.mean(axis=0), self.map_columns(x))
        columns = np.zeros((len(table), 1)) if self.dropped else (x - centre) @ by
        return Effects(columns=columns, basis=(centre, by))

    def map_columns(self, x: Array) -> Array:
        """Map from the centred columns of all blocks, p × rank."""
        by = self.embed_map(x, self.columns)
        if not self.beyond:
            return by
        other = self.embed_map(x, self.beyond)
        centred = x - x.mean(axis=0)
        slopes = np.linalg.lstsq(centred @ other, centred @ by, rcond=None)[0]
        left = by - other @ slopes
        if self.least_left:
            left = left @ self._find_kept(centred @ left)
        if not left.shape[1]:
            return np.zeros((x.shape[1], 1))
        return np.asarray(left @ build_scaled_map(centred @ left))

    def _find_kept(self, left: Array) -> Array:
        """Directions of residuals of which enough is left, rank × kept; columns were of norm
        √(M/rank) before."""
        _, lengths, right = np.linalg.svd(left, full_matrices=False)
        before = np.sqrt(len(left) / left.shape[1])
        return np.asarray(right[lengths >= self.least_left * before].T)

    def embed_map(self, x: Array, columns: Sequence[str]) -> Array:
        """Map of some of the columns from all."""
        places = [self.every.index(column) for column in columns]
        by = build_scaled_map(x[:, places])
        padded_map = np.zeros((x.shape[1], by.shape[1]))
        padded_map[places] = by
        return padded_map


def read_logs(table: pd.DataFrame, columns: Sequence[str], *, logs: bool) -> Array:
    """Columns of numbers, or their logs."""
    x = table[list(columns)].to_numpy(dtype=np.float64)
    return np.asarray(np.log(x) if logs else x)


def is_logged(mixed: Mixed) -> bool:
    """Whether numbers enter by their logarithms."""
    return any(isinstance(kind, NumberBlock) and kind.logs for kind in mixed.kinds)


def describe_numbers(kind: Kind, *, logs: bool) -> str:
    """A block of numbers in words."""
    return (
        f"{kind.name}: "
        f"{', '.join(f'log {column}' if logs else column for column in kind.covariates)}"
    )


def declare_numbers(
    blocks: Mapping[str, Sequence[str]], *, logs: bool, symbols: bool = True
) -> list[Kind]:
    """Blocks of columns of numbers; `symbols`: with the prior of their effects in words."""
    every = tuple(dict.fromkeys(column for columns in blocks.values() for column in columns))
    numbers: list[Kind] = []
    for name, columns in blocks.items():
        numbers.append(
            NumberBlock(
                name=name,
                symbol=f"u_{name}" if symbols else "",
                why="orthonormal columns of equal expected weight",
                effect=f"f_i,{name}",
                columns=tuple(columns),
                every=every,
                logs=logs,
            )
        )
    return numbers


def declare_shares(
    kinds: Sequence[Kind],
    total_sd: float,
    concentration: float,
    symbol: str,
    rest: str = f"f_i,{OWN} + e_i",
) -> Mixed:
    """Mean log gains of models whose variance is shared out among kinds of effects; `symbol`: of
    the mean."""
    reach = f"{math.exp(4 * total_sd):,.0f}"
    why = f"gains between 1/{reach} and {reach} times are no surprise"
    return Mixed(
        outcome="log_gain",
        left="ȳ_i",
        fixed=(Fixed(sd=2 * total_sd, symbol=symbol, why=why),),
        kinds=tuple(kinds),
        rest=Rest(effect=rest, error="error", freedom="freedom"),
        variance=SharedVariance(total=PositivePrior(scale=total_sd), concentration=concentration),
        scale=LOG,
        tabulate=name_models,
    )


def name_models(rows: pd.DataFrame, _: pd.DataFrame | None) -> pd.DataFrame:
    """Rows by the names of their models."""
    return rows.set_axis(rows["model_id"].astype(str))


TOTAL_SD = 0.5
"""Prior scale of τ: models that differ by a factor of e^0.5 = 1.6 are no surprise."""
BLOCKS = {LAB: (LAB,), "geometry": GEOMETRY, "scale": SCALE}


def declare_heritage(
    blocks: Mapping[str, Sequence[str]],
    groups: Sequence[str] = (),
    *,
    logs: bool = True,
    total_sd: float = TOTAL_SD,
    concentration: float = 1.0,
    lab_df: float = 0.0,
    residuals: str = NORMAL,
) -> Mixed:
    """Blocks of groups, the first of which are labs, and of numbers."""
    numbers = {}
    for name, columns in blocks.items():
        if name not in groups:
            numbers[name] = columns
    kinds = {kind.name: kind for kind in declare_numbers(numbers, logs=logs)}
    for place, name in enumerate(groups):
        labs = declare_groups(name, blocks[name])
        kinds[name] = replace(labs, apart=True, df=lab_df) if place == 0 else labs
    mixed = declare_shares([kinds[name] for name in blocks], total_sd, concentration, "α")
    mixed = replace(mixed, rest=replace(mixed.rest, shape=residuals), regress=look_over_blocks)
    return mixed if is_exact(mixed) else replace(mixed, engine=declare_sampled)


def is_exact(mixed: Mixed) -> bool:
    """Whether the model is Gaussian given its scales."""
    return mixed.rest.shape == NORMAL and not any(kind.df for kind in list_groups(mixed).values())


def declare_groups(name: str, columns: Sequence[str]) -> GroupBlock:
    """A block of groups."""
    why = f"groups of {name} are exchangeable; their scale is τ√φ"
    if name == FAMILY:
        why = "families are exchangeable within and across labs"
    return GroupBlock(
        name=name, symbol=f"u_{name}", why=why, effect=f"f_i,{name}", columns=tuple(columns)
    )


def list_groups(mixed: Mixed) -> dict[str, GroupBlock]:
    """Blocks of groups by name, labs first."""
    return {kind.name: kind for kind in mixed.kinds if isinstance(kind, GroupBlock)}


def list_numbers(mixed: Mixed) -> dict[str, NumberBlock]:
    """Blocks of numbers by name."""
    return {kind.name: kind for kind in mixed.kinds if isinstance(kind, NumberBlock)}


def name_lab(mixed: Mixed) -> str:
    """The block whose groups are labs, or none."""
    return next(iter(list_groups(mixed)), "")


def list_bases(design: MixedDesign) -> dict[str, Array]:
    """Columns of every block, by its name."""
    kinds = []
    for kind in design.mixed.kinds:
        if kind.block in design.effects:
            kinds.append(kind)
    return {kind.name: design.effects[kind.block].columns for kind in kinds}


def list_shares(design: MixedDesign, name: str) -> pd.Series:
    """Of a block of groups every group's share of the models of the fit."""
    shares: pd.Series = design.effects[f"u_{name}"].basis
    return shares


def look_over_blocks(design: MixedDesign) -> Regressors:
    """Numbers of all blocks, standardised, and labs."""
    kinds = list_numbers(design.mixed)
    x = next((kind.read(design.table) for kind in kinds.values()), np.empty((len(design.table), 0)))
    labs = design.effects.get(f"u_{name_lab(design.mixed)}")
    return Regressors(x=standardise(x), groups=labs.codes if labs else None)


def standardise(x: Array) -> Array:
    """Columns off their means in their standard deviations."""
    return np.asarray((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300))


def vary_heritage(mixed: Mixed, rows: pd.DataFrame) -> dict[str, Mixed]:
    """What a reader may doubt: concentration, families, scale, one beyond the other, labs of one
    model."""
    others = vary_concentration(mixed)
    groups = list_groups(mixed)
    numbers = list_numbers(mixed)
    if FAMILY in groups:
        others["families dropped"] = mixed.drop_kinds(f"u_{FAMILY}")
    if {"geometry", "scale"} <= set(numbers):
        geometry = numbers["geometry"]
        scale = numbers["scale"]
        others["scale dropped"] = mixed.replace_kind(replace(scale, dropped=True))
        beyond_scale = replace(geometry, beyond=scale.columns)
        others["geometry residualised on scale"] = mixed.replace_kind(beyond_scale)
        beyond_geometry = replace(scale, beyond=geometry.columns)
        others["scale residualised on geometry"] = mixed.replace_kind(beyond_geometry)
    if groups:
        columns = groups[name_lab(mixed)].columns
        if (name_groups(rows, columns).value_counts() == 1).any():
            several = partial(keep_several, columns)
            others["without labs of one model"] = replace(mixed, tabulate=several)
    return others


HALF_AND_TWICE = {"half": 0.5, "twice": 2.0}
"""Of what other priors state: factors."""


def vary_concentration(mixed: Mixed) -> dict[str, Mixed]:
    """Half and twice the concentration of the shares."""
    assert mixed.variance is not None  # noqa: S101 - of shares
    others = {}
    for words, factor in HALF_AND_TWICE.items():
        variance = mixed.variance.rescale_shares(factor)
        even = f"concentration {variance.concentration:g}"
        name = f"{words} the concentrations given" if variance.concentrations else even
        others[name] = replace(mixed, variance=variance)
    return others


def keep_several(
    columns: Sequence[str], rows: pd.DataFrame, fit: pd.DataFrame | None
) -> pd.DataFrame:
    """Models of labs of two or more; of rows to predict all."""
    if fit is None:
        rows = rows[name_groups(rows, columns).duplicated(keep=False)]
    return name_models(rows, fit)


def declare_sampled(design: MixedDesign) -> Sampled:
    """The same as PyMC has it: sizes are padded, and further elements belong to what was not
    seen."""
    gaussian = design.gaussian
    variance = design.mixed.variance
    bases = list_bases(design)
    n = gaussian.y.size
    groups = list_groups(design.mixed)
    size = pad_levels(design.before + n)
    every = np.full(size, NEAR_INFINITE)
    freedom = np.full(n, np.inf) if gaussian.freedom is None else gaussian.freedom
    every[design.before : design.before + n] = np.minimum(freedom, NEAR_INFINITE)
    arrays = {}
    for name, basis in bases.items():
        arrays[f"X_{name}"] = np.zeros((n, pad_levels(basis.shape[1])))
        arrays[f"X_{name}"][:, : basis.shape[1]] = basis
    lab = name_lab(design.mixed)
    assert variance is not None  # noqa: S101 - of shares
    alpha = design.mixed.fixed[0]
    data: dict[str, Any] = {
        **arrays,
        "blocks": tuple(bases),
        "lab": lab,
        "lab_df": groups[lab].df if lab else 0.0,
        "residuals": design.mixed.rest.shape,
        "n_models": size,
        "intercept": np.array([alpha.mean, alpha.sd]),
        "total": variance.total,
        "total_scale": np.asarray(variance.total.scale),
        "concentration": np.array(variance.list_concentrations(design.effects)),
        "freedom": every,
        "model": design.before + np.arange(n),
        "error_observed": gaussian.error,
        "y_observed": gaussian.y,
    }
    data |= {f"n_{name}": basis.shape[1] for name, basis in arrays.items()}
    return Sampled(
        declare=declare_heritage_model,
        data=data,
        per_row=(*arrays, "model", "error_observed", "y_observed"),
    )


STANDARD = declare_heritage(BLOCKS, (LAB,))


def declare_heritage_model(data: Mapping[str, Any]) -> None:
    """The model; `model` numbers the model of every row."""
    import pymc as pm  # noqa: PLC0415

    beta = pm.Normal("beta", data["intercept"][0], data["intercept"][1], shape=1)
    tau = data["total"].declare(pm, "tau", data["total_scale"])
    share = pm.Dirichlet("share", data["concentration"] * np.ones(len(data["blocks"]) + 1))
    scale = pm.Deterministic("scale", tau * pm.math.sqrt(share))
    mean = beta[0]
    df = data["lab_df"]
    for k, name in enumerate(data["blocks"]):
        size = data[f"n_X_{name}"]
        if df and name == data["lab"]:
            z = pm.StudentT(f"z_{name}", nu=df, mu=0.0, sigma=((df - 2) / df) ** 0.5, shape=size)
        else:
            z = pm.Normal(f"z_{name}", shape=size)
        mean = mean + pm.math.dot(data[f"X_{name}"], pm.Deterministic(f"u_{name}", scale[k] * z))
    c = 2 / (
        9 * data["freedom"]
    )  # Wilson and Hilferty 1931: the third root of χ²/ν is close to normal
    root = pm.math.maximum(
        1 - c + pm.math.sqrt(c) * pm.Normal("z_error", shape=data["n_models"]), LEAST_ROOT
    )
    blur = pm.Deterministic("blur", root**-1.5)
    error = data["error_observed"] * blur[data["model"]]
    if data["residuals"] == SKEW:
        delta = pm.Uniform("delta", -MOST_SKEW, MOST_SKEW)
        omega = scale[-1] / pm.math.sqrt(1 - 2 * delta**2 / np.pi)
        spread = pm.math.sqrt(omega**2 + error**2)
        alpha = omega * delta / pm.math.sqrt(omega**2 * (1 - delta**2) + error**2)
        place = mean - omega * delta * (2 / np.pi) ** 0.5
        pm.SkewNormal("y", alpha, mu=place, sigma=spread, observed=data["y_observed"])
        return
    if data["residuals"] == STUDENT:
        nu = LEAST_DF + pm.Gamma("nu", DF_SHAPE, DF_RATE)
        chance = pm.math.softmax(-nu / 2 * np.log(FACTORS) - (nu / 2 - 1) / FACTORS)
        chance = pm.Deterministic("chance", chance)
        factor = pm.Deterministic("factor", FACTORS / pm.math.sum(chance * FACTORS))
        spread = pm.math.sqrt(scale[-1] ** 2 * factor + error[:, None] ** 2)
        pm.NormalMixture(
            "y", w=chance, mu=mean[:, None] + 0 * spread, sigma=spread, observed=data["y_observed"]
        )
        return
    pm.Normal("y", mean, pm.math.sqrt(scale[-1] ** 2 + error**2), observed=data["y_observed"])


def name_groups(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Names of groups, of nested ones with those they lie in; who has no inner group is one of its
    own."""
    first, *inner = (
        rows[name] if name in rows else pd.Series(pd.NA, index=rows.index) for name in columns
    )
    names = first.astype(str)
    for column in inner:
        stated = column.notna() & (column.astype(str) != "")
        names = names + " / " + column.astype(str).where(stated, rows["model_id"].astype(str))
    return names


def is_separable(codes: NDArray[np.int64]) -> bool:
    """Whether effects of groups can be separated from the mean and from the residual."""
    sizes = np.bincount(codes)
    return bool((sizes > 0).sum() >= 2 and sizes.max() >= 2)


POPULATION_MEAN, MODELS_MEAN = "population_mean_log_gain", "models_mean_log_gain"
"""Means of log gains: over models that there could be, and over those at hand, which exact gains
leave no doubt of."""
OF_LAB = "mean log gain of "
"""How the names of labs begin among the quantities that statements may ask about."""


def compute_contributions(
    values: Mapping[str, Array], design: MixedDesign, rng: np.random.Generator | None = None
) -> dict[str, Array]:
    """Contribution of every block to every model's log gain, and what is left to the model, … × M;
    `rng`: as of `log_gains`."""
    bases = list_bases(design)
    parts = {}
    for name, x in bases.items():
        parts[name] = values[f"u_{name}"][..., : x.shape[1]] @ x.T
    return {**parts, OWN: log_gains(values, design, rng) - values["beta"] - sum(parts.values())}


def log_gains(
    values: Mapping[str, Array], design: MixedDesign, rng: np.random.Generator | None = None
) -> Array:
    """Log gains of the models without their errors of measurement, … × M, drawn given all else.

    Of given draws always the same; `rng`: what draws go on with that are computed part by part.
    Where draws are of the prior they have outcomes of their own, `y`.
    """
    given = design.gaussian
    rng = rng or np.random.default_rng(0)
    models = slice(design.before, design.before + given.y.size)
    y = values.get("y", given.y)
    variance = np.square(values["scale"][..., -1:])
    error = np.square(values.get("error", given.error))
    centre = values["beta"] + np.zeros(given.y.size)
    for name, x in list_bases(design).items():
        centre = centre + values[f"u_{name}"][..., : x.shape[1]] @ x.T
    if "blur" in values:  # PyMC's factor of errors
        error = error * np.square(values["blur"][..., models])
    if "factor" in values:
        variance = _draw_mixture(values, variance, error, y - centre, rng)
    if "delta" in values:
        shift, variance = _draw_skewed(values["delta"][..., None], variance, error, y - centre, rng)
        centre = centre + shift
    weight = variance / (variance + error)
    return np.asarray(
        centre + weight * (y - centre) + np.sqrt(weight * error) * rng.standard_normal(centre.shape)
    )


def _draw_mixture(
    values: Mapping[str, Array], spread: Array, error: Array, off: Array, rng: np.random.Generator
) -> Array:
    """Given what outcomes are off, draws of the variance of every residual, one of those that make
    up Student's t."""
    each = spread[..., None] * values["factor"][..., None, :]
    variance = each + error[..., None]
    log_p = np.log(np.maximum(values["chance"], 1e-300))[..., None, :] - 0.5 * (
        np.log(variance) + np.square(off)[..., None] / variance
    )
    heights = np.cumsum(special.softmax(log_p, axis=-1), axis=-1)
    at = (rng.random(off.shape)[..., None] > heights).sum(axis=-1, keepdims=True)
    return np.asarray(
        np.take_along_axis(each + 0 * variance, np.minimum(at, FACTORS.size - 1), axis=-1)[..., 0]
    )


def _draw_skewed(
    delta: Array, spread: Array, error: Array, off: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Given what outcomes are off, draws of shifts, and variances about them, of which skew-normal
    residuals are made.

    ω(δ|z| + √(1 − δ²) z′) less its mean; |z| given the outcome is a normal cut off at 0.
    """
    omega = np.sqrt(spread / (1 - 2 * delta**2 / np.pi))
    slope = omega * delta
    rest = np.square(omega) * (1 - delta**2)
    mean = omega * delta * (2 / np.pi) ** 0.5
    variance = (rest + error) / (np.square(slope) + rest + error)
    middle = variance * slope * (off + mean) / (rest + error)
    sd = np.sqrt(variance)
    z = stats.truncnorm.ppf(rng.random(middle.shape), -middle / sd, np.inf, middle, sd)
    return slope * z - mean, rest


AT_ONCE = 4_000_000
"""Draws times models up to which all are held at once."""


def compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    """Finite-population standard deviations, shares, τ, and the mean log gain of every lab's
    models."""
    rng = np.random.default_rng(0)
    scale = values["scale"]
    n_parts = min(len(scale), -(-scale[..., 0].size * design.gaussian.y.size // AT_ONCE))
    parts = []
    for rows in np.array_split(np.arange(len(scale)), n_parts):
        part = {name: drawn[rows] for name, drawn in values.items()}
        parts.append(_compute_quantities(part, design, rng))
    return join_draws(parts) if n_parts > 1 else parts[0]


def _compute_quantities(
    values: Mapping[str, Array], design: MixedDesign, rng: np.random.Generator
) -> dict[str, Array]:
    """The same of some of the draws, the first axis of `values`."""
    parts = compute_contributions(values, design, rng)
    square = np.square(values["scale"])
    total = square.sum(axis=-1)
    m = values["beta"] + sum(parts.values())
    shares = {}
    for k, name in enumerate(parts):
        shares[name] = square[..., k] / total
    drawn = measure_block_sds(parts) | {f"share_{name}": share for name, share in shares.items()}
    lab = name_lab(design.mixed)
    if FAMILY in parts and lab in parts:
        drawn |= measure_block_sds({LINEAGE: parts[lab] + parts[FAMILY]})
        drawn[f"{LINEAGE}_share"] = shares[lab] + shares[FAMILY]
    drawn |= {"total_sd": np.sqrt(total), MODELS_MEAN: m.mean(axis=-1)}
    drawn[POPULATION_MEAN] = compute_population_mean(values, design)
    if {"geometry", "scale"} <= set(parts):
        drawn |= measure_geometry_and_scale(parts, list_bases(design))
    if lab in parts:
        means = np.moveaxis(m @ build_lab_means(design), -1, 0)
        names = [f"{OF_LAB}{name}" for name in list_shares(design, lab).index]
        drawn |= dict(zip(names, means, strict=True))
    return drawn


def compute_population_mean(values: Mapping[str, Array], design: MixedDesign) -> Array:
    """α − Σ_b c_b Σ_j share_j u_bj over blocks of groups: the mean log gain of new models of new
    groups, … .

    The groups at hand are a sample of those there could be, so their mean is taken off; geometry
    and scale are those of the models at hand on average.
    """
    mean = values["beta"][..., 0]
    for name, kind in list_groups(design.mixed).items():
        if kind.block in design.effects:
            shares = list_shares(design, name).to_numpy()
            mean = mean - values[kind.block][..., : shares.size] @ shares / np.sqrt(
                1 - np.square(shares).sum()
            )
    return np.asarray(mean)


def build_lab_means(design: MixedDesign) -> Array:
    """M × labs: what values of models times this are means over the models of every lab."""
    labs = design.effects[f"u_{name_lab(design.mixed)}"]
    member = np.eye(len(labs.names))[labs.codes]
    return np.asarray(member / member.sum(axis=0))


def measure_geometry_and_scale(
    parts: Mapping[str, Array], bases: Mapping[str, Array]
) -> dict[str, Array]:
    """Draws of the SD of geometry and scale together, and of what each has beyond the other's
    columns.

    Of the joint contribution f_g + f_s: what regression on scale leaves is geometry's alone, and
    the reverse.
    """
    together = parts["geometry"] + parts["scale"]
    centred = together - together.mean(axis=-1, keepdims=True)

    def beyond(basis: Array) -> Array:
        q, _ = np.linalg.qr(basis)
        return np.asarray((centred - (centred @ q) @ q.T).std(axis=-1))

    return {
        "sd_geometry_and_scale": centred.std(axis=-1),
        "sd_geometry_alone": beyond(bases["scale"]),
        "sd_scale_alone": beyond(bases["geometry"]),
    }


def build_statistics(design: MixedDesign) -> dict[str, Statistic]:
    """Whether models dampen, and what of the residuals moves the blocks' shares."""
    return {
        "share of models that dampen": lambda y: (y < 0).mean(axis=-1),
        **residuals.build_statistics(design.regressors, residuals.CLOSING),
    }
