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
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from thermostats.errors import UsageError
from thermostats.modelling import laws as residuals
from thermostats.modelling.columns import drop_computed
from thermostats.modelling.draws import Array, Statistic
from thermostats.modelling.gaussian import Gaussian, Shares
from thermostats.modelling.importance import NEAR_INFINITE
from thermostats.modelling.laws import LOG, Design, Regressors
from thermostats.modelling.model_gains import GEOMETRY, SCALE
from thermostats.modelling.sampling import Sampled, padded

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


def scaled_map(columns: Array) -> Array:
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


def residual(columns: Array, adjusted: Array) -> Array:
    """What least squares on `adjusted` leaves of the columns."""
    return np.asarray(columns - adjusted @ np.linalg.lstsq(adjusted, columns, rcond=None)[0])


def block_sds(contributions: Mapping[str, Array]) -> dict[str, Array]:
    """`sd_<block>`: finite-population standard deviation √(Σ_i (f_i − mean f)²/M) over the last
    axis, of every block.

    Gelman 2005, AOS 33(1).
    """
    return {f"sd_{name}": np.asarray(part.std(axis=-1)) for name, part in contributions.items()}


def columns_once(
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
    last = {column: named[-1] for column, named in places.items() if column != outcome}
    once = {
        name: [c for c in dict.fromkeys(columns) if last.get(c) == name]
        for name, columns in blocks.items()
    }
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


def orders_of(blocks: Sequence[str]) -> tuple[str, ...]:
    """Orders that are asked about: of neighbours, of all, and of all with the lineage in the place
    of the lab."""
    causes = [name for name in blocks if name != FAMILY]
    orders = [" > ".join(pair) for pair in pairwise(causes)]
    orders += [" > ".join(causes)] * (len(causes) > 2)
    if FAMILY in blocks and len(causes) > 1:
        orders.append(" > ".join([LINEAGE, *causes[1:]]))
    return tuple(orders)


def asked_of(blocks: Sequence[str]) -> tuple[str, ...]:
    """What a fit is asked first: the first block above geometry and scale together, the order of
    all, then the rest."""
    orders = orders_of(blocks)
    causes = [name for name in blocks if name != FAMILY]
    joint = [f"{causes[0]} > {TOGETHER}"] if {"geometry", "scale"} <= set(causes[1:]) else []
    return tuple(dict.fromkeys([*joint, *[" > ".join(causes)] * (len(causes) > 1), *orders]))


def in_order(order: str, drawn: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Draws whose standard deviations `sd_<block>` come in an order such as `heritage > geometry
    and scale`."""
    named = [drawn[f"sd_{name.replace(' ', '_')}"] for name in order.split(" > ")]
    return np.asarray(np.logical_and.reduce([a > b for a, b in pairwise(named)]))


def bayes_factor(posterior: float, prior: float) -> float:
    """Posterior odds over prior odds of an order; infinite where every draw obeys it."""
    return np.inf if posterior >= 1 else posterior / (1 - posterior) / (prior / (1 - prior))


def reach_in_words(total_sd: float) -> str:
    """How far gains may lie from 1 within two standard deviations of α ~ N(0, (2 total_sd)²)."""
    times = f"{math.exp(2 * 2 * total_sd):,.0f}"
    return f"gains between 1/{times} and {times} times are no surprise"


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
class Heritage:
    """Blocks of columns of the rows, and priors."""

    blocks: Mapping[str, tuple[str, ...]]
    """Name to columns: of `groups` columns of names, nested where they are several; of the others
    numbers."""
    groups: tuple[str, ...]
    logs: bool
    """Numbers enter as logs."""
    total_sd: float
    """Prior scale of τ."""
    concentration: float = 1.0
    lab_df: float = 0.0
    """Degrees of freedom of the effects of the first block of groups; 0: normal."""
    residuals: str = NORMAL
    dropped: tuple[str, ...] = ()
    """Blocks that contribute nothing, and keep their share."""
    beyond: tuple[str, str] | None = None
    """Two blocks: the first enters by its residuals on the second."""
    alone: bool = True
    """Whether labs of one model take part."""
    stated: bool = False
    """Errors are those that the table states, not of spreads over prompts."""

    @property
    def lab(self) -> str:
        """The block whose groups are labs, or none."""
        return self.groups[0] if self.groups else ""

    @property
    def exact(self) -> bool:
        """Whether the model is Gaussian given its scales."""
        return self.residuals == NORMAL and not self.lab_df

    def of(self, rows: pd.DataFrame) -> HeritageDesign:
        """One row per model to the model."""
        if self.lab and not self.alone:
            rows = rows[groups_of(rows, self.blocks[self.lab]).duplicated(keep=False)]
        x, columns = self._numbers(rows)
        shares = {
            name: groups_of(rows, self.blocks[name]).value_counts(normalize=True).sort_index()
            for name in self.groups
        }
        return self.in_units(
            rows,
            BlockUnits(centre=x.mean(axis=0), maps=self._maps(x, columns), shares=shares),
            before=0,
        )

    def in_units(self, rows: pd.DataFrame, units: BlockUnits, before: int) -> HeritageDesign:
        """Rows in the units of a fit, groups that it does not have last; `before`: its models."""
        x, columns = self._numbers(rows)
        levels = dict[str, pd.Series]()
        bases = dict[str, Array]()
        codes = dict[str, NDArray[np.int64]]()
        for name in self.blocks:
            if name not in self.groups:
                bases[name] = (x - units.centre) @ units.maps[name]
                continue
            labels = groups_of(rows, self.blocks[name])
            new = sorted(set(labels) - set(units.shares[name].index))
            levels[name] = (
                pd.concat([units.shares[name], pd.Series(0.0, index=new)])
                if new
                else units.shares[name]
            )
            codes[name] = levels[name].index.get_indexer(labels)
            if before or name != self.lab or told_apart(codes[name]):
                bases[name] = group_basis(codes[name], levels[name].to_numpy(np.float64))
        bases |= {name: np.zeros((len(rows), 1)) for name in self.dropped if name in bases}
        missing = pd.Series(0.0, index=rows.index)
        y = rows.get("log_gain", missing).to_numpy(dtype=np.float64)
        error = rows.get("error", missing).to_numpy(dtype=np.float64)
        freedom = rows.get("freedom", missing + np.inf).to_numpy(dtype=np.float64)
        model = (
            self._gaussian(bases, y, error, freedom)
            if self.exact
            else self._sampled(bases, y, error, freedom, before)
        )
        return HeritageDesign(
            model=model,
            outcomes=tuple(rows["model_id"].astype(str)),
            scale=LOG,
            groups=tuple(dict.fromkeys(c for name in self.groups for c in self.blocks[name])),
            covariates=tuple(columns),
            regressors=Regressors(
                x=(x - units.centre) / np.maximum(x.std(axis=0), 1e-300), groups=codes.get(self.lab)
            ),
            heritage=self,
            units=units,
            levels=levels,
            codes=codes,
            bases=bases,
            before=before,
            y=y,
            error=error,
        )

    def _numbers(self, rows: pd.DataFrame) -> tuple[Array, list[str]]:
        """Columns of numbers as they enter, models × columns, and their names."""
        columns = list(
            dict.fromkeys(
                c for name in self.blocks if name not in self.groups for c in self.blocks[name]
            )
        )
        x = rows[columns].to_numpy(dtype=np.float64)
        return (np.log(x) if self.logs else x), columns

    def without(self, *names: str) -> Heritage:
        """The law without some blocks."""
        return replace(
            self,
            blocks={name: columns for name, columns in self.blocks.items() if name not in names},
            groups=tuple(name for name in self.groups if name not in names),
        )

    def others(self, rows: pd.DataFrame) -> dict[str, Heritage]:
        """What a reader may doubt: concentration, families, scale, one beyond the other, labs of
        one model."""
        concentrations = [factor * self.concentration for factor in (0.5, 2.0)]
        laws = {
            f"concentration {value:g}": replace(self, concentration=value)
            for value in concentrations
        }
        if FAMILY in self.blocks:
            laws["families dropped"] = self.without(FAMILY)
        if {"geometry", "scale"} <= set(self.blocks):
            laws["scale dropped"] = replace(self, dropped=("scale",))
            laws["geometry residualised on scale"] = replace(self, beyond=("geometry", "scale"))
            laws["scale residualised on geometry"] = replace(self, beyond=("scale", "geometry"))
        if self.lab and (groups_of(rows, self.blocks[self.lab]).value_counts() == 1).any():
            laws["without labs of one model"] = replace(self, alone=False)
        return laws

    def _maps(self, x: Array, columns: Sequence[str]) -> dict[str, Array]:
        """Map of every block from the centred columns of all blocks, p × rank."""
        maps = {}
        for name in self.blocks:
            if name not in self.groups:
                places = [columns.index(column) for column in self.blocks[name]]
                maps[name] = np.zeros((len(columns), 0))
                by = scaled_map(x[:, places])
                maps[name] = np.zeros((len(columns), by.shape[1]))
                maps[name][places] = by
        if self.beyond:
            first, second = self.beyond
            centred = x - x.mean(axis=0)
            slopes = np.linalg.lstsq(centred @ maps[second], centred @ maps[first], rcond=None)[0]
            left = maps[first] - maps[second] @ slopes
            maps[first] = left @ scaled_map(centred @ left)
        return maps

    def _gaussian(
        self, bases: Mapping[str, Array], y: Array, error: Array, freedom: Array
    ) -> Gaussian:
        return Gaussian(
            y=y,
            X=np.ones((y.size, 1)),
            sd=np.array([2 * self.total_sd]),
            blocks={f"u_{name}": basis for name, basis in bases.items()},
            prior=Shares(
                total=self.total_sd, number=len(bases) + 1, concentration=self.concentration
            ),
            error=error,
            freedom=freedom if np.isfinite(freedom).any() else None,
        )

    def _sampled(
        self, bases: Mapping[str, Array], y: Array, error: Array, freedom: Array, before: int
    ) -> Sampled:
        """The same as PyMC has it: sizes are padded, and further elements belong to what was not
        seen."""
        n = y.size
        size = padded(before + n)
        every = np.full(size, NEAR_INFINITE)
        every[before : before + n] = np.minimum(freedom, NEAR_INFINITE)
        arrays = {}
        for name, basis in bases.items():
            arrays[f"X_{name}"] = np.zeros((n, padded(basis.shape[1])))
            arrays[f"X_{name}"][:, : basis.shape[1]] = basis
        data: dict[str, Any] = {
            **arrays,
            "blocks": tuple(bases),
            "lab": self.lab,
            "lab_df": self.lab_df,
            "residuals": self.residuals,
            "n_models": size,
            "total_sd": np.asarray(self.total_sd),
            "concentration": np.asarray(self.concentration),
            "freedom": every,
            "model": before + np.arange(n),
            "error_observed": error,
            "y_observed": y,
        }
        data |= {f"n_{name}": basis.shape[1] for name, basis in arrays.items()}
        return Sampled(
            declare=heritage_model,
            data=data,
            per_row=(*arrays, "model", "error_observed", "y_observed"),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockUnits:
    """What the rows of a fit fix: centre and maps of their numbers, and of every group its share of
    the models."""

    centre: Array
    maps: Mapping[str, Array]
    shares: Mapping[str, pd.Series]


@dataclass(frozen=True, kw_only=True, eq=False)
class HeritageDesign(Design):
    """Blocks of models, with what fixes them; shares of groups are 0 where a fit has not seen
    them."""

    heritage: Heritage
    units: BlockUnits
    levels: Mapping[str, pd.Series]
    """Of every block of groups their shares, by name."""
    codes: Mapping[str, NDArray[np.int64]]
    """Of every block of groups the group of each model."""
    bases: Mapping[str, Array]
    before: int
    """Models of the fit that these are new to."""
    y: Array
    error: Array

    @property
    def lab(self) -> str:
        """The block whose groups are labs, or none."""
        return self.heritage.lab

    def of_new(self, rows: pd.DataFrame) -> HeritageDesign:
        """Other models by the blocks of these."""
        return self.heritage.in_units(
            drop_computed(rows), replace(self.units, shares=self.levels), self.before + self.y.size
        )


STANDARD = Heritage(
    blocks={LAB: (LAB,), "geometry": GEOMETRY, "scale": SCALE},
    groups=(LAB,),
    logs=True,
    total_sd=0.5,
)
"""Models that differ by a factor of e^0.5 = 1.6 are no surprise."""


def heritage_model(data: Mapping[str, Any]) -> None:
    """The model; `model` numbers the model of every row."""
    import pymc as pm  # noqa: PLC0415

    beta = pm.Normal("beta", 0.0, 2 * data["total_sd"], shape=1)
    tau = pm.HalfNormal("tau", data["total_sd"])
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


def groups_of(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
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


def told_apart(codes: NDArray[np.int64]) -> bool:
    """Whether effects of groups can be separated from the mean and from the residual."""
    sizes = np.bincount(codes)
    return bool((sizes > 0).sum() >= 2 and sizes.max() >= 2)


POPULATION_MEAN, MODELS_MEAN = "population_mean_log_gain", "models_mean_log_gain"
"""Means of log gains: over models that there could be, and over those at hand, which exact gains
leave no doubt of."""
OF_LAB = "mean log gain of "
"""How the names of labs begin among the quantities that statements may ask about."""


def contributions(values: Mapping[str, Array], design: HeritageDesign) -> dict[str, Array]:
    """Contribution of every block to every model's log gain, and what is left to the model, … ×
    M."""
    parts = {name: values[f"u_{name}"][..., : x.shape[1]] @ x.T for name, x in design.bases.items()}
    return {**parts, OWN: log_gains(values, design) - values["beta"] - sum(parts.values())}


def log_gains(values: Mapping[str, Array], design: HeritageDesign) -> Array:
    """Log gains of the models without their errors of measurement, … × M, drawn given all else.

    Of given draws always the same. Where draws are of the prior they have outcomes of their own,
    `y`.
    """
    models = slice(design.before, design.before + design.y.size)
    rng = np.random.default_rng(0)
    y = values.get("y", design.y)
    variance = np.square(values["scale"][..., -1:])
    error = np.square(values.get("error", design.error))
    centre = values["beta"] + np.zeros(design.y.size)
    for name, x in design.bases.items():
        centre = centre + values[f"u_{name}"][..., : x.shape[1]] @ x.T
    if "blur" in values:  # PyMC's factor of errors
        error = error * np.square(values["blur"][..., models])
    if "factor" in values:
        variance = _of_mixture(values, variance, error, y - centre, rng)
    if "delta" in values:
        shift, variance = _skewed(values["delta"][..., None], variance, error, y - centre, rng)
        centre = centre + shift
    weight = variance / (variance + error)
    return np.asarray(
        centre + weight * (y - centre) + np.sqrt(weight * error) * rng.standard_normal(centre.shape)
    )


def _of_mixture(
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


def _skewed(
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


def quantities(values: Mapping[str, Array], design: HeritageDesign) -> dict[str, Array]:
    """Finite-population standard deviations, shares, τ, and the mean log gain of every lab's
    models."""
    parts = contributions(values, design)
    square = np.square(values["scale"])
    total = square.sum(axis=-1)
    m = values["beta"] + sum(parts.values())
    shares = {name: square[..., k] / total for k, name in enumerate(parts)}
    drawn = block_sds(parts) | {f"share_{name}": share for name, share in shares.items()}
    lab = design.lab
    if FAMILY in parts and lab in parts:
        drawn |= block_sds({LINEAGE: parts[lab] + parts[FAMILY]})
        drawn[f"{LINEAGE}_share"] = shares[lab] + shares[FAMILY]
    drawn |= {"total_sd": np.sqrt(total), MODELS_MEAN: m.mean(axis=-1)}
    drawn[POPULATION_MEAN] = population_mean(values, design)
    if {"geometry", "scale"} <= set(parts):
        drawn |= geometry_and_scale(parts, design.bases)
    if lab in parts:
        means = m @ lab_means(design)
        drawn |= {
            f"{OF_LAB}{name}": means[..., j] for j, name in enumerate(design.levels[lab].index)
        }
    return drawn


def population_mean(values: Mapping[str, Array], design: HeritageDesign) -> Array:
    """α − Σ_b c_b Σ_j share_j u_bj over blocks of groups: the mean log gain of new models of new
    groups, … .

    The groups at hand are a sample of those there could be, so their mean is taken off; geometry
    and scale are those of the models at hand on average.
    """
    mean = values["beta"][..., 0]
    for name in set(design.heritage.groups) & set(design.bases):
        shares = design.levels[name].to_numpy()
        mean = mean - values[f"u_{name}"][..., : shares.size] @ shares / np.sqrt(
            1 - np.square(shares).sum()
        )
    return np.asarray(mean)


def lab_means(design: HeritageDesign) -> Array:
    """M × labs: what values of models times this are means over the models of every lab."""
    codes = design.codes[design.lab]
    member = np.eye(len(design.levels[design.lab]))[codes]
    return np.asarray(member / member.sum(axis=0))


def geometry_and_scale(parts: Mapping[str, Array], bases: Mapping[str, Array]) -> dict[str, Array]:
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


def statistics(design: HeritageDesign) -> dict[str, Statistic]:
    """Whether models dampen, and what of the residuals moves the blocks' shares."""
    return {
        "share of models that dampen": lambda y: (y < 0).mean(axis=-1),
        **residuals.statistics(design.regressors, residuals.CLOSING),
    }
