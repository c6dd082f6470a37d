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
from itertools import chain, pairwise
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
    apply_effects,
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


def compute_indicator_sd(shares: Array) -> np.float64:
    """√(1 − Σ_j share_j²): expected standard deviation of the centred indicators of groups."""
    left = 1 - np.square(shares).sum()
    return np.float64(np.sqrt(left))


def group_basis(codes: Integers, shares: Array) -> Array:
    """Centred indicators of groups, M × groups, scaled to unit expected variance; `shares`: of
    every group's models."""
    indicators = np.eye(shares.size)[codes]
    return np.asarray((indicators - shares) / compute_indicator_sd(shares))


def build_scaled_map(columns: Array) -> Array:
    """A, columns × rank r, with (x − mean)A = √(M/r)·Q, Q orthonormal; rank 0 where nothing
    varies."""
    centred = columns - columns.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    largest = np.abs(columns).max(initial=0.0)
    varied = norms > 1e-9 * (1 + largest)
    if not varied.any():
        return np.empty((columns.shape[1], 0))
    lengths = norms[varied]
    unit_columns = centred[:, varied] / lengths
    _, s, right = np.linalg.svd(unit_columns, full_matrices=False)
    kept = s > 1e-8 * s[0]
    rank = int(kept.sum())
    by = np.zeros((columns.shape[1], rank))
    directions = right[:rank].T / s[:rank]
    by[varied] = directions / lengths[:, None]
    q = centred @ by
    largest_rows = np.abs(q).argmax(axis=0)
    furthest = q[largest_rows, np.arange(rank)]
    signs = np.sign(furthest)
    norm = np.sqrt(len(columns) / rank)
    return np.asarray(by * signs * norm)


def measure_block_sds(contributions: Mapping[str, Array]) -> dict[str, Array]:
    """`sd_<block>`: finite-population standard deviation √(Σ_i (f_i − mean f)²/M) over the last
    axis, of every block.

    Gelman 2005, AOS 33(1).
    """
    block_sds = {}
    for name, part in contributions.items():
        sd = part.std(axis=-1)
        block_sds[f"sd_{name}"] = np.asarray(sd)
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
    places = {}
    if outcome:
        places[outcome] = ["the outcome"]
    for name, columns in blocks.items():
        for column in columns:
            places.setdefault(column, []).append(name)
    last = {}
    for column, named in places.items():
        if column != outcome:
            last[column] = named[-1]
    once = {}
    for name, columns in blocks.items():
        kept = [c for c in dict.fromkeys(columns) if last.get(c) == name]
        if kept:
            once[name] = kept
    for column, named in places.items():
        if len(named) > 1:
            what = "a column is named twice in a block"
            if len(set(named)) > 1:
                what = "a column stands in two blocks"
            raise UsageError(
                what,
                where=column,
                got=" and ".join(dict.fromkeys(named)),
                allowed="each column once",
                next_step=call(once),
            )


def list_orders(blocks: Sequence[str]) -> tuple[str, ...]:
    """Orders that are asked about: of neighbours, of all, and of all with the lineage in the place
    of the lab."""
    causes = [name for name in blocks if name != FAMILY]
    orders = [" > ".join(pair) for pair in pairwise(causes)]
    if len(causes) > 2:
        orders.append(" > ".join(causes))
    if FAMILY in blocks and len(causes) > 1:
        causes_of_lineage = [LINEAGE, *causes[1:]]
        orders.append(" > ".join(causes_of_lineage))
    return tuple(orders)


def list_questions(blocks: Sequence[str]) -> tuple[str, ...]:
    """What a fit is asked first: the first block above geometry and scale together, the order of
    all, then the rest."""
    causes = [name for name in blocks if name != FAMILY]
    questions = []
    if {"geometry", "scale"} <= set(causes[1:]):
        questions.append(f"{causes[0]} > {TOGETHER}")
    if len(causes) > 1:
        questions.append(" > ".join(causes))
    questions += list_orders(blocks)
    return tuple(dict.fromkeys(questions))


def mark_ordered(order: str, drawn: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Draws whose standard deviations `sd_<block>` come in an order such as `heritage > geometry
    and scale`."""
    named = []
    for name in order.split(" > "):
        quantity = name.replace(" ", "_")
        named.append(drawn[f"sd_{quantity}"])
    above = [a > b for a, b in pairwise(named)]
    return np.asarray(np.logical_and.reduce(above))


def compute_bayes_factor(posterior: float, prior: float) -> float:
    """Posterior odds over prior odds of an order; infinite where every draw obeys it."""
    if posterior >= 1:
        return np.inf
    odds = posterior / (1 - posterior)
    prior_odds = prior / (1 - prior)
    return odds / prior_odds


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
            unseen = pd.Series(0.0, index=new)
            shares = pd.concat([shares, unseen])
        codes = shares.index.get_indexer(labels)
        if fit is None and self.apart and not is_separable(codes):
            return None
        columns = group_basis(codes, shares.to_numpy(float))
        names = tuple(shares.index)
        return Effects(columns=columns, names=names, codes=codes, basis=shares)


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
        if fit:
            centre, by = fit.basis
        else:
            centre = x.mean(axis=0)
            by = self.map_columns(x)
        columns = np.zeros((len(table), 1)) if self.dropped else (x - centre) @ by
        return Effects(columns=columns, basis=(centre, by))

    def map_columns(self, x: Array) -> Array:
        """Map from the centred columns of all blocks, p × rank."""
        by = self.embed_map(x, self.columns)
        if not self.beyond:
            return by
        other = self.embed_map(x, self.beyond)
        centred = x - x.mean(axis=0)
        slopes, *_ = np.linalg.lstsq(centred @ other, centred @ by, rcond=None)
        left = by - other @ slopes
        if self.least_left:
            left = left @ self._find_kept(centred @ left)
        if not left.shape[1]:
            return np.zeros((x.shape[1], 1))
        scaling = build_scaled_map(centred @ left)
        return np.asarray(left @ scaling)

    def _find_kept(self, left: Array) -> Array:
        """Directions of residuals of which enough is left, rank × kept; columns were of norm
        √(M/rank) before."""
        _, lengths, right = np.linalg.svd(left, full_matrices=False)
        before = np.sqrt(len(left) / left.shape[1])
        least = self.least_left * before
        kept = right[lengths >= least]
        return np.asarray(kept.T)

    def embed_map(self, x: Array, columns: Sequence[str]) -> Array:
        """Map of some of the columns from all."""
        places = [self.every.index(column) for column in columns]
        by = build_scaled_map(x[:, places])
        padded_map = np.zeros((x.shape[1], by.shape[1]))
        padded_map[places] = by
        return padded_map


def read_logs(table: pd.DataFrame, columns: Sequence[str], *, logs: bool) -> Array:
    """Columns of numbers, or their logs."""
    values = table[list(columns)]
    x = values.to_numpy(float)
    return np.asarray(np.log(x) if logs else x)


def is_logged(mixed: Mixed) -> bool:
    """Whether numbers enter by their logarithms."""
    return any(kind.logs for kind in list_numbers(mixed).values())


def describe_numbers(kind: Kind, *, logs: bool) -> str:
    """A block of numbers in words."""
    named = [f"log {column}" if logs else column for column in kind.covariates]
    return f"{kind.name}: {', '.join(named)}"


def declare_numbers(
    blocks: Mapping[str, Sequence[str]], *, logs: bool, symbols: bool = True
) -> list[Kind]:
    """Blocks of columns of numbers; `symbols`: with the prior of their effects in words."""
    columns_in_blocks = chain(*blocks.values())
    every = tuple(dict.fromkeys(columns_in_blocks))
    numbers: list[Kind] = []
    for name, columns in blocks.items():
        block = NumberBlock(
            name=name,
            symbol=f"u_{name}" if symbols else "",
            why="orthonormal columns of equal expected weight",
            effect=f"f_i,{name}",
            columns=tuple(columns),
            every=every,
            logs=logs,
        )
        numbers.append(block)
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
    mean = Fixed(sd=2 * total_sd, symbol=symbol, why=why)
    total = PositivePrior(scale=total_sd)
    return Mixed(
        outcome="log_gain",
        left="ȳ_i",
        fixed=(mean,),
        kinds=tuple(kinds),
        rest=Rest(effect=rest, error="error", freedom="freedom"),
        variance=SharedVariance(total=total, concentration=concentration),
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
    declared = declare_numbers(numbers, logs=logs)
    kinds = {kind.name: kind for kind in declared}
    for place, name in enumerate(groups):
        block = declare_groups(name, blocks[name])
        if place == 0:
            block = replace(block, apart=True, df=lab_df)
        kinds[name] = block
    ordered = [kinds[name] for name in blocks]
    mixed = declare_shares(ordered, total_sd, concentration, "α")
    rest = replace(mixed.rest, shape=residuals)
    mixed = replace(mixed, rest=rest, regress=look_over_blocks)
    return mixed if is_exact(mixed) else replace(mixed, engine=declare_sampled)


def is_exact(mixed: Mixed) -> bool:
    """Whether the model is Gaussian given its scales."""
    if mixed.rest.shape != NORMAL:
        return False
    groups = list_groups(mixed).values()
    return not any(kind.df for kind in groups)


def declare_groups(name: str, columns: Sequence[str]) -> GroupBlock:
    """A block of groups."""
    why = f"groups of {name} are exchangeable; their scale is τ√φ"
    if name == FAMILY:
        why = "families are exchangeable within and across labs"
    symbol = f"u_{name}"
    effect = f"f_i,{name}"
    return GroupBlock(name=name, symbol=symbol, why=why, effect=effect, columns=tuple(columns))


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
    bases = {}
    for kind in design.mixed.kinds:
        if kind.block in design.effects:
            effects = design.effects[kind.block]
            bases[kind.name] = effects.columns
    return bases


def list_shares(design: MixedDesign, name: str) -> pd.Series:
    """Of a block of groups every group's share of the models of the fit."""
    shares: pd.Series = design.effects[f"u_{name}"].basis
    return shares


def look_over_blocks(design: MixedDesign) -> Regressors:
    """Numbers of all blocks, standardised, and labs."""
    kinds = list(list_numbers(design.mixed).values())
    x = kinds[0].read(design.table) if kinds else np.empty((len(design.table), 0))
    lab = name_lab(design.mixed)
    labs = design.effects.get(f"u_{lab}")
    codes = labs.codes if labs else None
    return Regressors(x=standardise(x), groups=codes)


def standardise(x: Array) -> Array:
    """Columns off their means in their standard deviations."""
    centred = x - x.mean(axis=0)
    spread = np.maximum(x.std(axis=0), 1e-300)
    return np.asarray(centred / spread)


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
        names = name_groups(rows, columns)
        rows = rows[names.duplicated(keep=False)]
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
    freedom = gaussian.freedom
    if freedom is None:
        freedom = np.full(n, np.inf)
    fitted = slice(design.before, design.before + n)
    every[fitted] = np.minimum(freedom, NEAR_INFINITE)
    arrays = {}
    for name, basis in bases.items():
        rank = basis.shape[1]
        padded = np.zeros((n, pad_levels(rank)))
        padded[:, :rank] = basis
        arrays[f"X_{name}"] = padded
    lab = name_lab(design.mixed)
    assert variance is not None  # noqa: S101 - of shares
    alpha = design.mixed.fixed[0]
    lab_df = groups[lab].df if lab else 0.0
    concentrations = variance.list_concentrations(design.effects)
    widths = {f"n_{name}": padded.shape[1] for name, padded in arrays.items()}
    data: dict[str, Any] = {
        **arrays,
        "blocks": tuple(bases),
        "lab": lab,
        "lab_df": lab_df,
        "residuals": design.mixed.rest.shape,
        "n_models": size,
        "intercept": np.array([alpha.mean, alpha.sd]),
        "total": variance.total,
        "total_scale": np.asarray(variance.total.scale),
        "concentration": np.array(concentrations),
        "freedom": every,
        "model": design.before + np.arange(n),
        "error_observed": gaussian.error,
        "y_observed": gaussian.y,
        **widths,
    }
    return Sampled(
        declare=declare_heritage_model,
        data=data,
        per_row=(*arrays, "model", "error_observed", "y_observed"),
    )


STANDARD = declare_heritage(BLOCKS, (LAB,))


def declare_heritage_model(data: Mapping[str, Any]) -> None:
    """The model; `model` numbers the model of every row."""
    import pymc as pm  # noqa: PLC0415

    intercept = data["intercept"]
    beta = pm.Normal("beta", intercept[0], intercept[1], shape=1)
    tau = data["total"].declare(pm, "tau", data["total_scale"])
    n_shares = len(data["blocks"]) + 1
    concentration = data["concentration"] * np.ones(n_shares)
    share = pm.Dirichlet("share", concentration)
    scale = pm.Deterministic("scale", tau * pm.math.sqrt(share))
    mean = beta[0]
    df = data["lab_df"]
    for k, name in enumerate(data["blocks"]):
        size = data[f"n_X_{name}"]
        if df and name == data["lab"]:
            unit = ((df - 2) / df) ** 0.5
            z = pm.StudentT(f"z_{name}", nu=df, mu=0.0, sigma=unit, shape=size)
        else:
            z = pm.Normal(f"z_{name}", shape=size)
        effects = pm.Deterministic(f"u_{name}", scale[k] * z)
        basis = data[f"X_{name}"]
        mean = mean + pm.math.dot(basis, effects)
    c = 2 / (
        9 * data["freedom"]
    )  # Wilson and Hilferty 1931: the third root of χ²/ν is close to normal
    z_error = pm.Normal("z_error", shape=data["n_models"])
    third_root = 1 - c + pm.math.sqrt(c) * z_error
    root = pm.math.maximum(third_root, LEAST_ROOT)
    blur = pm.Deterministic("blur", root**-1.5)
    error = data["error_observed"] * blur[data["model"]]
    y = data["y_observed"]
    own = scale[-1]
    if data["residuals"] == SKEW:
        delta = pm.Uniform("delta", -MOST_SKEW, MOST_SKEW)
        omega = own / pm.math.sqrt(1 - 2 * delta**2 / np.pi)
        spread = pm.math.sqrt(omega**2 + error**2)
        rest = omega**2 * (1 - delta**2)
        alpha = omega * delta / pm.math.sqrt(rest + error**2)
        place = mean - omega * delta * (2 / np.pi) ** 0.5
        pm.SkewNormal("y", alpha, mu=place, sigma=spread, observed=y)
        return
    if data["residuals"] == STUDENT:
        nu = LEAST_DF + pm.Gamma("nu", DF_SHAPE, DF_RATE)
        tail = (nu / 2 - 1) / FACTORS
        log_chance = -nu / 2 * np.log(FACTORS) - tail
        chance = pm.Deterministic("chance", pm.math.softmax(log_chance))
        middle = pm.math.sum(chance * FACTORS)
        factor = pm.Deterministic("factor", FACTORS / middle)
        variance = own**2 * factor + error[:, None] ** 2
        spread = pm.math.sqrt(variance)
        centre = mean[:, None] + 0 * spread
        pm.NormalMixture("y", w=chance, mu=centre, sigma=spread, observed=y)
        return
    spread = pm.math.sqrt(own**2 + error**2)
    pm.Normal("y", mean, spread, observed=y)


def name_groups(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Names of groups, of nested ones with those they lie in; who has no inner group is one of its
    own."""
    missing = pd.Series(pd.NA, index=rows.index)
    first, *inner = (rows.get(name, missing) for name in columns)
    names = first.astype(str)
    for column in inner:
        texts = column.astype(str)
        stated = column.notna() & (texts != "")
        own = rows["model_id"].astype(str)
        nested = texts.where(stated, own)
        names = names + " / " + nested
    return names


def is_separable(codes: NDArray[np.int64]) -> bool:
    """Whether effects of groups can be separated from the mean and from the residual."""
    sizes = np.bincount(codes)
    several = (sizes > 0).sum() >= 2
    return bool(several and sizes.max() >= 2)


POPULATION_MEAN, MODELS_MEAN = "population_mean_log_gain", "models_mean_log_gain"
"""Means of log gains: over models that there could be, and over those at hand, which exact gains
leave no doubt of."""
OF_LAB = "mean log gain of "
"""How the names of labs begin among the quantities that statements may ask about."""


def take_effects(values: Mapping[str, Array], name: str, n: int) -> Array:
    """Effects of the block of this name, the first n of its columns, … × n."""
    effects = values[f"u_{name}"]
    return effects[..., :n]


def compute_contribution(values: Mapping[str, Array], name: str, basis: Array) -> Array:
    """What the block of this name and these columns contributes to every model, … × M."""
    return apply_effects(values[f"u_{name}"], basis)


def compute_contributions(
    values: Mapping[str, Array], design: MixedDesign, rng: np.random.Generator | None = None
) -> dict[str, Array]:
    """Contribution of every block to every model's log gain, and what is left to the model, … × M;
    `rng`: as of `log_gains`."""
    bases = list_bases(design)
    parts = {}
    for name, x in bases.items():
        parts[name] = compute_contribution(values, name, x)
    off = log_gains(values, design, rng) - values["beta"]
    return {**parts, OWN: off - sum(parts.values())}


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
    model_scale = values["scale"][..., -1:]
    variance = np.square(model_scale)
    error = np.square(values.get("error", given.error))
    none = np.zeros(given.y.size)
    centre = values["beta"] + none
    for name, x in list_bases(design).items():
        centre = centre + compute_contribution(values, name, x)
    if "blur" in values:  # PyMC's factor of errors
        blur = values["blur"][..., models]
        error = error * np.square(blur)
    if "factor" in values:
        variance = _draw_mixture(values, variance, error, y - centre, rng)
    if "delta" in values:
        delta = values["delta"][..., None]
        shift, variance = _draw_skewed(delta, variance, error, y - centre, rng)
        centre = centre + shift
    weight = variance / (variance + error)
    expected = centre + weight * (y - centre)
    sd = np.sqrt(weight * error)
    noise = rng.standard_normal(centre.shape)
    return np.asarray(expected + sd * noise)


def _draw_mixture(
    values: Mapping[str, Array], spread: Array, error: Array, off: Array, rng: np.random.Generator
) -> Array:
    """Given what outcomes are off, draws of the variance of every residual, one of those that make
    up Student's t."""
    factor = values["factor"][..., None, :]
    each = spread[..., None] * factor
    variance = each + error[..., None]
    misfit = np.square(off)[..., None] / variance
    chance = np.maximum(values["chance"], 1e-300)
    log_p = np.log(chance)[..., None, :] - 0.5 * (np.log(variance) + misfit)
    chances = special.softmax(log_p, axis=-1)
    heights = np.cumsum(chances, axis=-1)
    reached = rng.random(off.shape)[..., None]
    at = (reached > heights).sum(axis=-1, keepdims=True)
    places = np.minimum(at, FACTORS.size - 1)
    every = each + 0 * variance
    drawn = np.take_along_axis(every, places, axis=-1)
    return np.asarray(drawn[..., 0])


def _draw_skewed(
    delta: Array, spread: Array, error: Array, off: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Given what outcomes are off, draws of shifts, and variances about them, of which skew-normal
    residuals are made.

    ω(δ|z| + √(1 − δ²) z′) less its mean; |z| given the outcome is a normal cut off at 0.
    """
    narrowed = 1 - 2 * delta**2 / np.pi
    omega = np.sqrt(spread / narrowed)
    slope = omega * delta
    rest = np.square(omega) * (1 - delta**2)
    mean = slope * (2 / np.pi) ** 0.5
    unskewed = rest + error
    variance = unskewed / (np.square(slope) + rest + error)
    middle = variance * slope * (off + mean) / unskewed
    sd = np.sqrt(variance)
    heights = rng.random(middle.shape)
    z = stats.truncnorm.ppf(heights, -middle / sd, np.inf, middle, sd)
    return slope * z - mean, rest


AT_ONCE = 4_000_000
"""Draws times models up to which all are held at once."""


def compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    """Finite-population standard deviations, shares, τ, and the mean log gain of every lab's
    models."""
    rng = np.random.default_rng(0)
    scale = values["scale"]
    n_draws = scale[..., 0].size
    n_numbers = n_draws * design.gaussian.y.size
    n_parts = min(len(scale), -(-n_numbers // AT_ONCE))
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
    drawn = measure_block_sds(parts)
    shares = {}
    for k, name in enumerate(parts):
        shares[name] = square[..., k] / total
        drawn[f"share_{name}"] = shares[name]
    lab = name_lab(design.mixed)
    if FAMILY in parts and lab in parts:
        lineage = parts[lab] + parts[FAMILY]
        drawn |= measure_block_sds({LINEAGE: lineage})
        drawn[f"{LINEAGE}_share"] = shares[lab] + shares[FAMILY]
    drawn["total_sd"] = np.sqrt(total)
    drawn[MODELS_MEAN] = m.mean(axis=-1)
    drawn[POPULATION_MEAN] = compute_population_mean(values, design)
    if {"geometry", "scale"} <= set(parts):
        drawn |= measure_geometry_and_scale(parts, list_bases(design))
    if lab in parts:
        of_labs = m @ build_lab_means(design)
        means = np.moveaxis(of_labs, -1, 0)
        labs = list_shares(design, lab).index
        names = [f"{OF_LAB}{name}" for name in labs]
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
            effects = take_effects(values, name, shares.size)
            contribution = effects @ shares
            mean = mean - contribution / compute_indicator_sd(shares)
    return np.asarray(mean)


def build_lab_means(design: MixedDesign) -> Array:
    """M × labs: what values of models times this are means over the models of every lab."""
    lab = name_lab(design.mixed)
    labs = design.effects[f"u_{lab}"]
    every = np.eye(len(labs.names))
    member = every[labs.codes]
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
        explained = (centred @ q) @ q.T
        left = centred - explained
        return np.asarray(left.std(axis=-1))

    return {
        "sd_geometry_and_scale": centred.std(axis=-1),
        "sd_geometry_alone": beyond(bases["scale"]),
        "sd_scale_alone": beyond(bases["geometry"]),
    }


def build_statistics(design: MixedDesign) -> dict[str, Statistic]:
    """Whether models dampen, and what of the residuals moves the blocks' shares."""
    closing = residuals.build_statistics(design.regressors, residuals.CLOSING)
    return {"share of models that dampen": lambda y: (y < 0).mean(axis=-1), **closing}
