"""y = Xβ + Σ_k Z_k u_k + ε, u_k ~ N(0, s_k²), ε_i ~ N(0, s_0² + error_i²): exact draws, any priors
of the scales.

Given the scales everything is Gaussian. θ = log s, a handful of numbers, is drawn by importance
sampling: from a Student-t about the mode of p(θ | y), then from one about the weighted draws. β and
the effects are drawn exactly given the drawn scales. Lines with levels of groups, crossed effects
and the heritage model are this model; Searle, Casella and McCulloch 1992, Variance Components,
chapter 9. Errors that are estimates themselves (`freedom`) are drawn with θ.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats
from scipy.special import logsumexp

from thermostats.errors import UsageError
from thermostats.modelling.draws import (
    EXACT,
    PARETO_LIMIT,
    Array,
    Draws,
    Settings,
    check_weights,
    count_effective,
    normalise_pareto_weights,
    resample_systematically,
    split_chains,
)
from thermostats.modelling.importance import Squares, draw_candidates, normalise_weights
from thermostats.modelling.nested_groups import NestedGroups
from thermostats.modelling.positive import LARGEST, PositivePrior


class Scales(Protocol):
    """A prior of the scales s_1, …, s_K, s_0."""

    @property
    def largest(self) -> float:
        """The largest of what it is stated with, in units of the outcomes."""

    def log_density(self, theta: Array) -> Array:
        """log p(θ) of every row of θ = log s."""

    def log_prior(self, theta: Array) -> Array:
        """The same of what the prior is stated for, up to a constant: what a power of the prior
        scales."""

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Scales from the prior, size × (K + 1)."""


@dataclass(frozen=True)
class HalfNormals:
    """Independent half-normal scales."""

    scales: tuple[float, ...]

    @property
    def largest(self) -> float:
        return max(self.scales)

    def log_density(self, theta: Array) -> Array:
        mean_log_scale = np.log(self.scales).mean()
        constant = 0.5 * math.log(2 / math.pi) - mean_log_scale
        return np.asarray(self.log_prior(theta) + (theta + constant).sum(axis=1))

    def log_prior(self, theta: Array) -> Array:
        scale = np.exp(np.minimum(theta, LARGEST))
        ratio = scale / np.asarray(self.scales)
        return np.asarray(-0.5 * np.square(ratio).sum(axis=1))

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        shape = (size, len(self.scales))
        return np.abs(rng.normal(0.0, self.scales, shape))


@dataclass(frozen=True)
class Shares:
    """s_k² = τ²φ_k, τ of its own prior, φ ~ Dirichlet(a_1, …, a_K+1), one a scale: with equal ones
    no kind has a head start."""

    total: PositivePrior
    """Of τ."""
    concentrations: tuple[float, ...]

    @property
    def largest(self) -> float:
        return self.total.scale

    def log_density(self, theta: Array) -> Array:
        log_total, log_phi = self._split_total(theta)
        density = self._score_split(log_total, log_phi) + log_total / 2
        return np.asarray(density + log_phi.sum(axis=1) + self._log_constant)

    def log_prior(self, theta: Array) -> Array:
        return self._score_split(*self._split_total(theta))

    @cached_property
    def _log_constant(self) -> float:
        free_shares = len(self.concentrations) - 1
        constant = self.total.log_constant + free_shares * math.log(2)
        constant += special.gammaln(sum(self.concentrations))
        return float(constant - special.gammaln(self.concentrations).sum())

    def _score_split(self, log_total: Array, log_phi: Array) -> Array:
        """log p of τ² and φ, up to a constant."""
        powers = np.array(self.concentrations) - 1
        return np.asarray(self.total.log_kernel(log_total) + log_phi @ powers)

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        total = self.total.draw((size, 1), rng)
        phi = rng.dirichlet(self.concentrations, size)
        return total * np.sqrt(phi)

    def _split_total(self, theta: Array) -> tuple[Array, Array]:
        """log τ² and log φ of rows of θ."""
        log_total = np.logaddexp.reduce(2 * theta, axis=1)
        return log_total, 2 * theta - log_total[:, None]


NEAR = 200_000
"""Numbers that stay near the processor: so many are held at a time where draws are many."""
SEVERAL = 16
"""Rows of θ from which on groups are taken out one by one, and products of single rows summed."""
MANY = 1000
"""Outcomes, or distinct errors, from which on they count for how much is held."""
LEAST_COLUMNS, MOST_DISTINCT = 8, 0.5
"""Columns of a block whose rows that are alike are put together, at least, and its share of
distinct rows, at most."""


@dataclass(frozen=True, kw_only=True)
class Products:
    """Cross-products of groups of rows with one weight each."""

    flat: Array
    """Groups × columns²."""

    @classmethod
    def build(cls, parts: Sequence[Array]) -> Products:
        """Of the rows of every group."""
        squares = [(part.T @ part).ravel() for part in parts]
        return cls(flat=np.stack(squares))

    def weighted(self, weights: Array) -> Array:
        """Weighted sums, draws × columns × columns; weights: draws × groups."""
        columns = round(self.flat.shape[1] ** 0.5)
        sums = weights @ self.flat
        return sums.reshape(-1, columns, columns)


@dataclass(frozen=True, kw_only=True)
class Alike:
    """Rows with a weight each, of which many are alike in one block of columns, such as models of
    one lab.

    With b_g the block's distinct rows and c_i the other columns: Σ_i w_i b b' = Σ_g w_g b_g b_g',
    Σ_i w_i b c' = Σ_g b_g (Σ_{i in g} w_i c_i)'.
    """

    order: NDArray[np.int64]
    """Places of the weights of rows by group."""
    starts: NDArray[np.int64]
    """Where each group begins among them."""
    distinct: Array
    """Groups × columns of the block."""
    others: Array
    """The other columns, rows by group."""
    places: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Columns of the block and others in the matrix."""
    products: Products | None
    """Those of each row, of a small matrix: for many draws its products are sooner summed."""

    @classmethod
    def build(
        cls, matrix: Array, widths: Sequence[int], which: NDArray[np.int64] | None = None
    ) -> Alike | None:
        """By the widest of some blocks side by side; None where it is narrow or its rows are
        distinct.

        which: the place of every row's weight among the weights; None: each has its own.
        """
        wide = int(np.argmax(widths))
        first = sum(widths[:wide])
        block = np.arange(first, first + widths[wide])
        if block.size < LEAST_COLUMNS:
            return None
        distinct, group = np.unique(matrix[:, block], axis=0, return_inverse=True)
        if len(distinct) > MOST_DISTINCT * len(matrix):
            return None
        group = group.ravel()
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        others = np.delete(np.arange(matrix.shape[1]), block)
        products = None
        if which is None and matrix.size * matrix.shape[1] <= NEAR:
            products = Products.build(list(matrix[:, None]))
        return cls(
            order=order if which is None else which[order],
            starts=starts,
            distinct=distinct,
            others=matrix[np.ix_(order, others)],
            places=(block, others),
            products=products,
        )

    def weighted(self, weights: Array) -> Array:
        """Weighted sums, draws × columns × columns; weights: draws × rows, or × what rows share."""
        if self.products is not None and len(weights) >= SEVERAL:
            return self.products.weighted(weights)
        block, others = self.places
        width = block.size + others.size
        total = np.empty((len(weights), width, width))
        sorted_weights = weights[:, self.order]
        of_groups = np.add.reduceat(sorted_weights, self.starts, axis=1)
        within = of_groups @ _flatten_squares(self.distinct)
        block_rows = block[:, None]
        other_rows = others[:, None]
        total[:, block_rows, block] = within.reshape(-1, block.size, block.size)
        across = self.distinct.T @ self._sum_others(sorted_weights)
        total[:, block_rows, others] = across
        total[:, other_rows, block] = np.swapaxes(across, 1, 2)
        besides = sorted_weights @ _flatten_squares(self.others)
        total[:, other_rows, others] = besides.reshape(-1, others.size, others.size)
        return total

    def _sum_others(self, sorted_weights: Array) -> Array:
        """Weighted sums of the other columns over the rows of every group, draws × groups ×
        columns."""
        if len(self.others) <= MANY:
            weighted = sorted_weights[..., None] * self.others
            return np.add.reduceat(weighted, self.starts, axis=1)
        ends = [*self.starts[1:], len(self.others)]
        groups = []
        for first, end in zip(self.starts, ends, strict=True):
            rows = slice(first, end)
            groups.append(sorted_weights[:, rows] @ self.others[rows])
        return np.stack(groups, axis=1)


def _flatten_squares(rows: Array) -> Array:
    """Products of the columns of every row with one another, rows × columns²."""
    squares = rows[:, :, None] * rows[:, None, :]
    return squares.reshape(len(rows), -1)


NUMBERS = 4_000_000
"""Numbers held at a time."""
SMALLEST_SCALE, LARGEST_SCALE = 1e-4, 1e2
"""Range of a scale in the likelihood, in units of the outcomes' standard deviation: the square of
their ratio times thousands of outcomes is what double precision holds."""


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Outcomes, columns and priors; n outcomes."""

    y: Array
    X: Array
    """n × p."""
    sd: Array
    """Standard deviations of the normal priors of β."""
    blocks: Mapping[str, Array]
    """Design of every kind of effect, n × levels."""
    prior: Scales
    """Prior of the blocks' scales in their order, and of the residual's, which is the last."""
    error: Array
    """Standard errors of the outcomes; 0 where there is none."""
    freedom: Array | None = None
    """Their degrees of freedom, where they are estimates: error² ~ the one given times ν/χ²(ν);
    else they are exact."""
    place: Array | None = None
    """Means of the normal priors of β; None: all 0."""

    LEAVES_OUT: ClassVar = True
    """Whether outcomes are predicted from all others."""

    @property
    def observed(self) -> Array:
        """The outcomes."""
        return self.y

    def sample(self, *, seed: int, settings: Settings = Settings()) -> Draws:  # noqa: B008
        """Independent draws of beta, scale (s_1, …, s_K, s_0), the effects by the names of their
        blocks, and error.

        The last where errors are estimates. Diagnostics are those of the weights: effective number
        and Pareto k. Raises UsageError for numbers that are not finite.
        """
        begin = time.perf_counter()
        rng = np.random.default_rng(seed)
        self._check()
        number = settings.chains * settings.draws
        theta, square, log_weight, weight, k = draw_candidates(self, number, rng)
        rows = resample_systematically(weight, number, rng)
        effective = count_effective(weight)
        drawn = self._draw_effects(theta[rows], square[rows], rng)
        values = split_chains(drawn, settings)
        log_evidence = special.logsumexp(log_weight) - math.log(log_weight.size)
        return Draws(
            values=values,
            diagnostics=check_weights(effective, k),
            engine=EXACT,
            settings=settings,
            effective=min(effective, float(rows.size)),
            log_evidence=float(log_evidence),
            seconds=time.perf_counter() - begin,
        )

    def reweighted(
        self, draws: Draws, of: Gaussian, rows: NDArray[np.bool_], *, seed: int, size: int
    ) -> Draws | None:
        """Draws of this model, of some `rows` of another's outcomes, made of draws of that other.

        θ and squared errors of the other's draws weigh p(y_rows, θ)/p(y, θ), whatever columns its
        rows were laid out with; β and effects are drawn anew given them. None where priors or kinds
        of effects differ, so that θ is another, and where Pareto k is above 0.7.
        """
        if list(self.blocks) != list(of.blocks) or self.prior != of.prior:
            return None
        rng = np.random.default_rng(seed)
        values = draws.few(size)
        theta = np.log(values["scale"])
        square = np.square(values["error"]) if of.freedom is not None else None
        left = None if square is None else square[:, rows]
        log_ratio = self.log_density(theta, left) - of.score_draws(draws, size)
        log_weight, k = normalise_pareto_weights(log_ratio[None])
        if not k[0] <= PARETO_LIMIT:
            return None
        weight = normalise_weights(log_weight[0])
        chosen = resample_systematically(weight, len(theta), rng)
        effective = count_effective(weight)
        square = self._repeat_errors(len(theta)) if left is None else left[chosen]
        settings = replace(draws.settings, draws=len(theta) // draws.settings.chains)
        drawn = self._draw_effects(theta[chosen], square, rng)
        return Draws(
            values=split_chains(drawn, settings),
            diagnostics=check_weights(effective, float(k[0])),
            engine=EXACT,
            settings=settings,
            effective=effective,
        )

    def score_draws(self, draws: Draws, size: int) -> Array:
        """`log_density` of at most so many of its draws; that of the last ones asked for is kept,
        since every unit that is left out asks for the same."""
        if not (self._scored and self._scored[0] is draws and self._scored[1] == size):
            values = draws.few(size)
            square = None if self.freedom is None else np.square(values["error"])
            density = self.log_density(np.log(values["scale"]), square)
            self._scored[:] = [draws, size, density]
        scored: Array = self._scored[2]
        return scored

    @cached_property
    def _scored(self) -> list[Any]:
        """Draws, how many of them, and their log densities; empty: none was asked for."""
        return []

    def log_density(self, theta: Array, square: Array | Squares | None = None) -> Array:
        """log p(y | θ) + log p(θ) of every row of θ = log s, and of squared errors where they are
        not those given."""
        if square is None:
            square = self._repeat_errors(len(theta))
        if self.nested is not None and len(theta) >= SEVERAL:
            parts = _split_pieces(theta, square, self.nested.held)
            density = [_score_nested(self, self.nested, *part) for part in parts]
        else:
            pieces = self._split_pieces(theta, square)
            density = [_score_scales(self, *part)[0] for part in pieces]
        return np.concatenate(density) + self.prior.log_density(theta)

    def log_prior(self, values: Mapping[str, Array]) -> Array:
        """Log prior of draws (size × …) up to a constant: of the scales and of β; that of effects
        is the model."""
        z = (values["beta"] - self.prior_mean) / self.sd
        fixed = -0.5 * np.square(z).sum(axis=1)
        of_scales = self.prior.log_prior(np.log(values["scale"]))
        return np.asarray(of_scales + fixed)

    def expected(self, values: Mapping[str, Array]) -> Array:
        """Expected outcomes given β and the effects, size × n; levels that no draw has are new ones
        at 0."""
        mean = values["beta"] @ self.X.T
        for name, design in self.blocks.items():
            effects = values[name]
            levels = effects.shape[1]
            mean = mean + effects @ design[:, :levels].T
        return mean

    def log_likelihood(self, values: Mapping[str, Array]) -> Array:
        """log p(y_i | β, effects, s_0), size × n."""
        spread = self._read_spread(values)
        expected = self.expected(values)
        return np.asarray(stats.norm.logpdf(self.y, expected, spread))

    def replicate(
        self, values: Mapping[str, Array], rng: np.random.Generator, *, measured: bool = True
    ) -> Array:
        """Outcomes of every draw, size × n; a level that no draw has is drawn anew from its
        population.

        `measured`: with their errors of measurement.
        """
        mean = self.expected(values)
        for k, (name, design) in enumerate(self.blocks.items()):
            if unseen := design.shape[1] - values[name].shape[1]:
                z = rng.standard_normal((len(mean), unseen))
                fresh = values["scale"][:, [k]] * z
                mean = mean + fresh @ design[:, -unseen:].T
        spread = self._read_spread(values, measured=measured)
        residual = spread * rng.standard_normal(mean.shape)
        return mean + residual

    def _read_spread(self, values: Mapping[str, Array], *, measured: bool = True) -> Array:
        """Standard deviations of outcomes about their expectation, size × n or × 1."""
        error = values.get("error", self.error) if measured else 0.0
        return np.hypot(values["scale"][:, -1:], error)

    def new_levels(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Draws without those of the effects, so that all levels are drawn anew."""
        levels = {}
        for name, drawn in values.items():
            levels[name] = drawn[:, :0] if name in self.blocks else drawn
        return levels

    def draw_prior(self, size: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of beta, scale, effects, errors that are estimates and outcomes `y` from the
        prior."""
        scale = self.prior.draw(size, rng)
        effects = {}
        for k, (name, design) in enumerate(self.blocks.items()):
            z = rng.standard_normal((size, design.shape[1]))
            effects[name] = scale[:, [k]] * z
        beta = rng.normal(self.prior_mean, self.sd, (size, self.sd.size))
        values = {"beta": beta, "scale": scale, **effects}
        if self.freedom is not None:
            chi2 = rng.chisquare(self.freedom, (size, self.error.size))
            values["error"] = self.error * np.sqrt(self.freedom / chi2)
        return values | {"y": self.replicate(values, rng)}

    def select_rows(self, which: NDArray[np.bool_]) -> Gaussian:
        """The same model of some of the outcomes."""
        blocks = {}
        for name, design in self.blocks.items():
            blocks[name] = design[which]
        freedom = None if self.freedom is None else self.freedom[which]
        y = self.y[which]
        X = self.X[which]
        error = self.error[which]
        return replace(self, y=y, X=X, error=error, freedom=freedom, blocks=blocks)

    def single(self, theta: Array, square: Array) -> tuple[Array, Array]:
        """Diagonal of the inverse covariance P of the outcomes, and Py, rows of θ × n; of distinct
        errors."""
        if self.y.size > MANY and len(theta) > 1:
            singles = []
            for t in range(len(theta)):
                singles.append(self.single(theta[[t]], square[[t]]))
            diagonals, pulled_outcomes = zip(*singles, strict=True)
            return np.concatenate(diagonals), np.concatenate(pulled_outcomes)
        factor, noise, d = build_factor(self, theta, square)
        half, pulled = whiten_design(self, factor, d, noise)
        diagonal = 1 / noise - np.square(half).sum(axis=1)
        return diagonal, pulled

    @property
    def ranks(self) -> list[int]:
        """Levels of every kind of effect."""
        return [design.shape[1] for design in self.blocks.values()]

    @cached_property
    def design(self) -> Array:
        """X and all blocks side by side, n × q."""
        return np.column_stack([self.X, *self.blocks.values()])

    @cached_property
    def unit(self) -> float:
        """Standard deviation of the outcomes, or a thousandth of the largest prior scale where that
        is more."""
        return max(float(self.y.std()), 1e-3 * self.prior.largest)

    @cached_property
    def prior_mean(self) -> Array:
        """Means of the priors of β."""
        return np.zeros(self.sd.size) if self.place is None else self.place

    @cached_property
    def centre(self) -> Array:
        """β near its posterior mean: sums of squares are those about Xβ, which a mean far beyond
        the spread needs."""
        of_outcomes = self.X * self.sd / self.unit
        columns = np.concatenate([of_outcomes, np.eye(self.sd.size)])
        prior_mean = self.prior_mean / self.sd
        outcomes = np.concatenate([self.y / self.unit, prior_mean])
        solution = np.linalg.lstsq(columns, outcomes)[0]
        return np.asarray(self.sd * solution)

    @cached_property
    def around(self) -> Array:
        """Outcomes about the centre."""
        return np.asarray(self.y - self.X @ self.centre)

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Distinct squared errors, and how many outcomes have each; errors that are estimates are
        distinct."""
        if self.freedom is not None:
            return np.square(self.error), np.ones(self.y.size)
        square, counts = np.unique(np.square(self.error), return_counts=True)
        return square, counts.astype(np.float64)

    @cached_property
    def _error_places(self) -> NDArray[np.int64]:
        """Of every outcome the place of its squared error among the distinct ones."""
        inverse = np.unique(np.square(self.error), return_inverse=True)[1]
        return inverse.ravel()

    def _repeat_errors(self, size: int) -> Array:
        """The squared errors as given, for so many rows of θ."""
        square = self.moments[0]
        return np.broadcast_to(square, (size, square.size))

    @cached_property
    def products(self) -> Products | Alike:
        """How cross-products of (design, y about centre) are weighted by the precision of every
        distinct error."""
        both = np.column_stack([self.design, self.around])
        widths = [self.sd.size, *self.ranks, 1]
        if self.freedom is not None:
            alike = Alike.build(both, widths)
            return alike or Products.build(list(both[:, None]))
        which = self._error_places
        last = which.max()
        many = Alike.build(both, widths, which) if last >= MANY else None
        if many is not None:
            return many
        groups = [both[which == j] for j in range(last + 1)]
        return Products.build(groups)

    @cached_property
    def nested(self) -> NestedGroups | None:
        """The same laid out for many densities at once; None where groups do not lie in one
        another, or are few."""
        exact = self.freedom is None
        which = self._error_places if exact else np.arange(self.y.size)
        off = (self.prior_mean - self.centre) / self.sd
        return NestedGroups.build(self.X, self.sd, off, self.blocks, self.around, which)

    def _draw_effects(
        self, theta: Array, square: Array, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Draws of everything given θ and squared errors."""
        pieces = self._split_pieces(theta, square)
        coefficients = [_score_scales(self, *piece, rng)[1] for piece in pieces]
        ends = np.cumsum([self.X.shape[1], *self.ranks])
        together = np.concatenate(coefficients)
        beta, *effects = np.split(together, ends[:-1], axis=1)
        values = {"beta": beta, "scale": np.exp(theta)}
        values |= zip(self.blocks, effects, strict=True)
        if self.freedom is not None:
            values["error"] = np.sqrt(square)
        return values

    def _split_pieces(self, theta: Array, square: Array | Squares) -> Iterator[tuple[Array, Array]]:
        held = (self.design.shape[1] + 1) ** 2
        if self.y.size > MANY:
            held = max(held, self.y.size)
        return _split_pieces(theta, square, held)

    def _check(self) -> None:
        arrays = {"outcomes": self.y, "columns": self.X, "known errors": self.error, **self.blocks}
        if bad := [name for name, values in arrays.items() if not np.isfinite(values).all()]:
            raise UsageError(
                "missing or infinite values in a model",
                got=", ".join(bad),
                allowed="finite numbers",
            )
        if taken := {"beta", "scale", "error", "y"} & set(self.blocks):
            raise UsageError("a block of effects has a name that is taken", got=", ".join(taken))


def _split_pieces(
    theta: Array, square: Array | Squares, held: int
) -> Iterator[tuple[Array, Array]]:
    """Rows of θ and squared errors, so many at a time that `NEAR` are held, `held` a row."""
    pieces = len(theta) * held // NEAR
    parts = np.clip(pieces, 1, len(theta))
    for rows in np.array_split(np.arange(len(theta)), parts):
        piece = slice(rows[0], rows[-1] + 1)
        yield theta[piece], square[piece]


def _score_nested(model: Gaussian, nested: NestedGroups, theta: Array, square: Array) -> Array:
    """log p(y | θ) of every row of θ and squared errors, groups taken out one by one."""
    scale = read_scales(model, theta)
    noise = np.square(scale[:, -1:]) + square
    grown, quadratic = nested.score(scale, 1 / noise)
    return _compute_density(model, noise, grown, quadratic)


def _compute_density(model: Gaussian, noise: Array, grown: Array, quadratic: Array) -> Array:
    """log p(y | θ) from the variances of the residuals, log|A| and the quadratic form."""
    constant = model.y.size * math.log(2 * math.pi)
    log_noise = np.log(noise) @ model.moments[1]
    return -0.5 * (constant + log_noise + grown + quadratic)


def _score_scales(
    model: Gaussian, theta: Array, square: Array, rng: np.random.Generator | None = None
) -> tuple[Array, Array]:
    """log p(y | θ) of every row of θ and squared errors and, with `rng`, a draw of β and all
    effects; without, nothing.

    With d the prior standard deviations of the coefficients, W = (X Z) diag(d), D the variances of
    the residuals, β₀ the centre, r = y − Xβ₀, m = (μ − β₀)/d with the priors' means μ (of
    effects 0), A = I + WᵀD⁻¹W = LLᵀ and b
    = WᵀD⁻¹r + m: log p(y | θ) = −½ (n log 2π + log|D| + log|A| + rᵀD⁻¹r + |m|² − |L⁻¹b|²).
    """
    factor, noise, d = build_factor(model, theta, square)
    q = d.shape[1]
    diagonal = np.diagonal(factor, axis1=1, axis2=2)[:, :q]
    grown = 2 * np.log(diagonal).sum(axis=1)
    quadratic = np.square(factor[:, q, q]) - 1
    density = _compute_density(model, noise, grown, quadratic)
    if rng is None:
        return density, np.empty((len(theta), 0))
    z = rng.standard_normal((len(theta), q))
    around = factor[:, q, :q] + z
    coefficients = d * solve_transposed(factor, around)
    coefficients[:, : model.sd.size] += model.centre
    return density, coefficients


def whiten_design(model: Gaussian, factor: Array, d: Array, noise: Array) -> tuple[Array, Array]:
    """L⁻¹WᵀD⁻¹, draws × q × n, and V⁻¹r, draws × n, with V the covariance of the outcomes; `noise`:
    D, draws × n."""
    q = d.shape[1]
    weighted = model.design * d[:, None, :] / noise[..., None]
    solved = np.linalg.solve(factor[:, :q, :q], np.swapaxes(weighted, 1, 2))
    half = np.asarray(solved, dtype=np.float64)
    explained = np.einsum("tqn,tq->tn", half, factor[:, q, :q])
    return half, model.around / noise - explained


def solve_transposed(factor: Array, right: Array) -> Array:
    """x with Lᵀx = right of every draw, from the last element to the first; L: the first rows and
    columns of `factor`, lower triangular."""
    x = right.copy()
    for place in reversed(range(right.shape[1])):
        column = x[:, place : place + 1]
        column /= factor[:, place, place, None]
        x[:, :place] -= factor[:, place, :place] * column
    return x


def read_scales(model: Gaussian, theta: Array) -> Array:
    """Scales as the likelihood has them, rows of θ."""
    scale = np.exp(np.clip(theta, -300, 300))
    smallest = SMALLEST_SCALE * model.unit
    largest = LARGEST_SCALE * model.unit
    return np.clip(scale, smallest, largest)


def build_factor(model: Gaussian, theta: Array, square: Array) -> tuple[Array, Array, Array]:
    """Root of A bordered by b, whose last row is L⁻¹b, its last entry squared 1 + rᵀD⁻¹r + |m|² −
    |L⁻¹b|²; D; d."""
    scale = read_scales(model, theta)
    fixed = np.broadcast_to(model.sd, (len(theta), model.sd.size))
    of_effects = np.repeat(scale[:, :-1], model.ranks, axis=1)
    d = np.concatenate([fixed, of_effects], axis=1)
    noise = np.square(scale[:, -1:]) + square
    q = d.shape[1]
    bordered = np.column_stack([d, np.ones(len(d))])
    inner = model.products.weighted(1 / noise)
    inner *= bordered[:, :, None]
    inner *= bordered[:, None, :]
    diagonal = np.arange(q + 1)
    inner[:, diagonal, diagonal] += 1
    away = (model.prior_mean - model.centre) / model.sd
    off = np.append(away, np.zeros(q - model.sd.size))
    inner[:, q, :q] += off
    inner[:, :q, q] += off
    inner[:, q, q] += off @ off
    return np.asarray(np.linalg.cholesky(inner)), noise, d


OF_NODE = Settings(draws=500)
MATTERS = 0.01
"""Posterior probability of a value from which on its weights are judged."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Models of the same outcomes with equal columns, one a value."""

    nodes: tuple[Gaussian, ...]
    weights: Array
    """Prior probabilities of the values; less than 1 in all where values without posterior mass
    have no node."""
    seed: int = 0

    @property
    def observed(self) -> Array:
        """The outcomes."""
        return self.nodes[0].y

    @cached_property
    def fits(self) -> tuple[Draws, ...]:
        """Draws of every node."""
        fits = []
        for k, node in enumerate(self.nodes):
            fits.append(node.sample(seed=self.seed + k, settings=OF_NODE))
        return tuple(fits)

    @cached_property
    def log_joint(self) -> Array:
        """Log of prior probability times evidence, value by value."""
        evidence = [fit.log_evidence for fit in self.fits]
        return np.asarray(np.log(self.weights) + np.array(evidence))

    @property
    def log_evidence(self) -> float:
        """log p(y)."""
        return float(logsumexp(self.log_joint))

    @property
    def probability(self) -> Array:
        """Posterior probability of every value."""
        return np.exp(self.log_joint - self.log_evidence)

    def sample(self, *, seed: int, settings: Settings = Settings()) -> Draws:  # noqa: B008
        """Draws of node (the number of the value) and of everything that a node has."""
        rng = np.random.default_rng(seed)
        size = settings.chains * settings.draws
        node = rng.choice(len(self.nodes), size, p=self.probability)
        flat = [fit.few(fit.size) for fit in self.fits]
        rows = rng.integers(0, self.fits[0].size, size)
        values = {}
        for name in flat[0]:
            of_nodes = [draws[name] for draws in flat]
            drawn = [of_nodes[k][row] for k, row in zip(node, rows, strict=True)]
            values[name] = np.stack(drawn)
        judged = []
        for fit, p in zip(self.fits, self.probability, strict=True):
            if p >= MATTERS:
                judged.append(fit)
        effective = min(fit.effective for fit in judged)
        k = max(_read_pareto_k(fit) for fit in judged)
        values["node"] = node.astype(np.float64)
        return Draws(
            values=split_chains(values, settings),
            diagnostics=check_weights(effective, k),
            engine=EXACT,
            settings=settings,
            effective=min(effective, float(size)),
            log_evidence=self.log_evidence,
        )

    def log_likelihood(self, values: Mapping[str, Array]) -> Array:
        """log p(y_i | everything), size × n."""
        return self._map_nodes(values, lambda node, some: node.log_likelihood(some))

    def log_prior(self, values: Mapping[str, Array]) -> Array:
        """Log prior of draws up to a constant."""
        chosen = values["node"].astype(np.int64)
        log_weight = np.log(self._prior_probability)[chosen]
        of_nodes = self._map_nodes(values, lambda node, some: node.log_prior(some))
        return log_weight + of_nodes

    def replicate(self, values: Mapping[str, Array], rng: np.random.Generator) -> Array:
        """Outcomes of every draw, size × n."""
        return self._map_nodes(values, lambda node, some: node.replicate(some, rng))

    def draw_prior(self, size: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of node and everything else but outcomes, which `replicate` draws, from the
        prior."""
        node = rng.choice(len(self.nodes), size, p=self._prior_probability)
        values = self.nodes[0].draw_prior(size, rng)
        del values["y"]
        values["node"] = node.astype(np.float64)
        return values

    @property
    def _prior_probability(self) -> Array:
        return np.asarray(self.weights / self.weights.sum())

    def select_rows(self, which: NDArray[np.bool_]) -> Mixture:
        """The mixture of some of the outcomes."""
        nodes = tuple(node.select_rows(which) for node in self.nodes)
        return replace(self, nodes=nodes)

    def _map_nodes(
        self, values: Mapping[str, Array], compute: Callable[[Gaussian, dict[str, Array]], Array]
    ) -> Array:
        """What the draws of each node give, in the order of the draws."""
        chosen = values["node"].astype(np.int64)
        parts = {}
        for k in np.unique(chosen):
            drawn = {}
            for name, v in values.items():
                if name != "node":
                    drawn[name] = v[chosen == k]
            parts[k] = compute(self.nodes[k], drawn)
        first = next(iter(parts.values()))
        result = np.empty((len(chosen), *first.shape[1:]))
        for k, part in parts.items():
            result[chosen == k] = part
        return result


def _read_pareto_k(fit: Draws) -> float:
    """The worst Pareto k of draws."""
    worst = fit.diagnostics.set_index("diagnostic")["worst"]
    return float(worst["Pareto k"])
