"""Groups taken out one by one give the density that the covariance of the outcomes gives, written
out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from thermostats.modelling.draws import Array
from thermostats.modelling.gaussian import SEVERAL, Gaussian, HalfNormals, solve_transposed
from thermostats.modelling.heritage.law import group_basis

LABS, FAMILIES, MODELS = 4, 9, 25


def lay_out(codes: Array, groups: int, *, centred: bool) -> Array:
    """Indicators of groups, or those of a heritage model."""
    shares = np.bincount(codes, minlength=groups) / len(codes)
    return group_basis(codes, shares) if centred else np.eye(groups)[codes]


def build_model(
    *,
    centred: bool = True,
    estimated: bool = True,
    crossed: bool = False,
    slopes: int = 0,
    groups: int = FAMILIES,
) -> Gaussian:
    """Models of families within labs, with numbers of their own; crossed: families lie in two
    labs."""
    rng = np.random.default_rng(3)
    family = np.append(np.arange(FAMILIES), rng.integers(0, FAMILIES, MODELS - FAMILIES))
    lab = rng.integers(0, LABS, MODELS) if crossed else family % LABS
    error = rng.uniform(0.05, 0.3, MODELS) if estimated else rng.choice([0.0, 0.2], MODELS)
    return Gaussian(
        y=3 + rng.normal(size=MODELS),
        X=np.column_stack([np.ones(MODELS), rng.normal(size=(MODELS, slopes))]),
        sd=np.append(2.0, np.full(slopes, 0.7)),
        blocks={
            "lab": lay_out(lab, LABS, centred=centred),
            "numbers": rng.normal(size=(MODELS, 2)),
            "family": lay_out(family, groups, centred=centred),
        },
        prior=HalfNormals((0.5, 0.4, 0.3, 0.2)),
        error=error,
        freedom=np.full(MODELS, 4.0) if estimated else None,
        place=np.append(2.5, np.zeros(slopes)),
    )


def score_by_covariance(model: Gaussian, scale: Array, square: Array) -> float:
    """log p(y | scales, squared errors) of the covariance written out."""
    v = (model.X * model.sd**2) @ model.X.T + np.diag(scale[-1] ** 2 + square)
    for each, block in zip(scale, model.blocks.values(), strict=False):
        v = v + each**2 * block @ block.T
    return float(stats.multivariate_normal(model.X @ model.prior_mean, v).logpdf(model.y))


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"centred": False},
        {"estimated": False},
        {"crossed": True},
        {"slopes": 2},
        {"groups": FAMILIES + 2},
        {"groups": FAMILIES + 1, "centred": False, "estimated": False},
    ],
    ids=str,
)
def test_densities_are_those_of_the_covariance(kind: dict[str, Any]) -> None:
    model = build_model(**kind)
    rng = np.random.default_rng(5)
    theta = rng.normal(-1, 0.7, (SEVERAL, 4))
    square = np.broadcast_to(np.square(model.error), (SEVERAL, MODELS))
    if model.freedom is not None:
        square = square * model.freedom / rng.chisquare(model.freedom, square.shape)
    found = model.log_density(theta, square if model.freedom is not None else None)
    expected = [
        score_by_covariance(model, scale, errors)
        for scale, errors in zip(np.exp(theta), square, strict=True)
    ]
    assert model.nested is not None
    assert len(model.nested.levels) == (1 if kind.get("crossed") else 2)
    assert found - model.prior.log_density(theta) == pytest.approx(expected, rel=1e-11, abs=1e-9)


def test_some_rows_of_a_model_are_scored_as_all_are() -> None:
    """Without all models of a lab its effect is still there, and moves all others."""
    whole = build_model()
    model = whole.select_rows(whole.blocks["lab"][:, 0] <= 0)
    theta = np.random.default_rng(1).normal(-1, 0.7, (SEVERAL, 4))
    square = np.broadcast_to(np.square(model.error), (SEVERAL, model.y.size))
    expected = [score_by_covariance(model, row, square[0]) for row in np.exp(theta)]
    assert model.nested is not None
    assert model.nested.levels[-1].absent > 0
    found = model.log_density(theta, square) - model.prior.log_density(theta)
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-9)


@pytest.mark.parametrize("centred", [True, False])
def test_a_refit_is_the_one_that_takes_all_effects_at_once(
    monkeypatch: pytest.MonkeyPatch, centred: bool
) -> None:
    """The draws of a fit are the same numbers whichever way densities are computed."""
    fast = build_model(centred=centred).sample(seed=4)
    monkeypatch.setattr(Gaussian, "nested", None)
    slow = build_model(centred=centred).sample(seed=4)
    assert fast.log_evidence == pytest.approx(slow.log_evidence, abs=1e-9)
    for name, drawn in slow.values.items():
        assert fast.values[name] == pytest.approx(drawn, rel=1e-9, abs=1e-9)


def test_offsets_without_an_intercept_are_left_to_the_whole_matrix() -> None:
    model = build_model()
    without = Gaussian(
        y=model.y,
        X=model.X * 1.1,
        sd=model.sd,
        blocks=model.blocks,
        prior=model.prior,
        error=model.error,
        freedom=model.freedom,
    )
    assert without.nested is None


def test_a_factor_is_solved_from_the_last_element() -> None:
    rng = np.random.default_rng(2)
    factor = np.tril(rng.normal(size=(3, 6, 6))) + 5 * np.eye(6)
    right = rng.normal(size=(3, 5))
    found = solve_transposed(factor, right)
    expected = [
        np.linalg.solve(each[:5, :5].T, row) for each, row in zip(factor, right, strict=True)
    ]
    assert found == pytest.approx(np.array(expected), rel=1e-12)
