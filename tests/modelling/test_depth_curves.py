import numpy as np
import pytest
from calibrated import assert_covered, within
from scipy.special import logsumexp
from simulated import depth_outcomes, depth_truth

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.quadrature import log_evidence
from thermostats.modelling.laws import depth_curves
from thermostats.modelling.laws.depth_curves import Depths, curve, frontier, frontier_density, left_out_pit, node

LN10 = np.log(10)
CURVE = ("middle", "beta", "sigma", "tau")
FRONTIER = ("frontier_middle", "frontier_beta", "below", "noise")


def some_depths(seed: int, *, envelope: bool, n: int = 24, labs: int = 6) -> tuple[Depths, dict[str, float]]:
    rng = np.random.default_rng(seed)
    truth = depth_truth(rng)
    L, y = depth_outcomes(rng, truth, envelope=envelope, n=n, labs=labs)
    x = np.log(L / np.exp(np.log(L).mean()))
    return Depths(y=y, x=x, error=np.full(n, 0.01), groups=np.arange(n) % labs, n_groups=labs, scale=0.3), truth


def test_density_of_the_envelope_is_a_proper_one_and_that_of_its_parts():
    grid = np.linspace(-3, 2, 20_001)
    density = np.exp(frontier_density(grid, np.array(0.2), np.array(0.4), np.array(0.1)))
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
    rng = np.random.default_rng(1)
    y = 0.2 - np.abs(rng.normal(0, 0.4, 200_000)) + rng.normal(0, 0.1, 200_000)
    assert np.trapezoid(density * grid, grid) == pytest.approx(y.mean(), abs=0.003)


def test_intervals_of_the_curve_cover_tables_from_its_prior():
    inside = []
    for i in range(100):
        depths, truth = some_depths(i, envelope=False)
        found = curve(depths, seed=i, draws=1500)
        drawn = np.column_stack([found.found.beta[:, 0], found.beta, found.found.sigma, found.found.tau])
        inside.append(within([truth[name] for name in CURVE], drawn))
    assert_covered(inside)


def test_intervals_of_the_envelope_cover_tables_from_its_prior():
    inside = []
    for i in range(100):
        depths, truth = some_depths(500 + i, envelope=True)
        found = frontier(depths, seed=i, draws=3000)
        drawn = np.column_stack([found.middle, found.beta, found.below, found.noise])
        inside.append(within([truth[name] for name in FRONTIER], drawn))
    assert_covered(inside)


def test_evidence_is_the_integral_over_the_prior():
    depths, _ = some_depths(7, envelope=True, n=5, labs=2)
    rng = np.random.default_rng(2)
    n = 100_000
    m, below, noise = (np.abs(rng.normal(0, s, (n, 1))) for s in (0.3, 0.3, 0.05))
    top = m * np.exp(-rng.normal(0.5, 1, (n, 1)) * depths.x)
    each = frontier_density(depths.y, top, below, np.hypot(noise, depths.error)).sum(axis=1)
    weights = np.exp(each - each.max())
    error = weights.std() / weights.mean() / n**0.5
    assert frontier(depths, seed=1).log_evidence == pytest.approx(logsumexp(each) - np.log(n), abs=0.08 + 4 * error)
    beta = rng.normal(0.5, 1, 2000)
    each = np.array([log_evidence(node(depths, b)) for b in beta])
    weights = np.exp(each - each.max())
    error = weights.std() / weights.mean() / beta.size**0.5
    assert curve(depths, seed=1).log_evidence == pytest.approx(logsumexp(each) - np.log(beta.size), abs=4 * error)


def test_transforms_of_left_out_models_are_uniform_on_average():
    pits = []
    for i in range(4):
        for envelope in (True, False):
            depths, _ = some_depths(900 + i, envelope=envelope, n=12, labs=4)
            pits.append(left_out_pit(depths, [str(k % 6) for k in range(12)], envelope=envelope, seed=i))
    assert abs(np.mean(pits) - 0.5) < 4 * (1 / 12 / 96) ** 0.5


def test_a_curve_with_two_modes_is_summed_over_both():
    """Gains on a curve: labs alike and β about 0.45, or labs apart and β about 1; against 3000 nodes of equal spacing.

    Chains stay in one of them.
    """
    L = np.tile([6, 12, 24, 48], 5)
    depths = Depths(
        y=1 / L + 0.2 / LN10,
        x=np.log(L / np.exp(np.log(L).mean())),
        error=np.full(20, 0.01 / LN10),
        groups=np.arange(20) % 6,
        n_groups=6,
        scale=0.3,
    )
    grid = np.linspace(-0.5, 2.5, 3001)
    density = np.array([log_evidence(node(depths, b)) for b in grid]) - 0.5 * (grid - 0.5) ** 2
    weights = np.exp(density - logsumexp(density))
    found = curve(depths, seed=1, draws=20_000)
    assert found.settled
    for below in (0.4, 0.5, 0.7, 0.9, 1.0):
        assert (found.beta < below).mean() == pytest.approx(weights[grid < below].sum(), abs=0.015)
    low = found.beta < 0.7
    assert 0.05 < low.mean() < 0.5
    assert np.median(found.found.tau[low]) < 0.02
    assert np.median(found.found.tau[~low]) > 0.05


def curve_model(pm, data):
    """The curve as its equations say it, nothing summed out."""
    m, beta = pm.Normal("middle", 0, data["scale"]), pm.Normal("beta", 0.5, 1)
    sigma, centre = pm.HalfNormal("sigma", data["share"]), m * pm.math.exp(-beta * data["x"])
    if data["labs"]:
        raw = pm.Normal("raw", 0, 1, shape=data["labs"])
        centre = centre + pm.math.dot(data["member"], pm.HalfNormal("tau", data["share"]) * raw)
    pm.Normal("outcome", centre, pm.math.sqrt(sigma**2 + data["error"] ** 2), observed=data["y"])


@pytest.mark.slow
@pytest.mark.parametrize("labs", [0, 6])
def test_the_seam_and_the_exact_posteriors_agree(labs):
    depths, _ = some_depths(3, envelope=False)
    depths = Depths(**{**vars(depths), "n_groups": labs, "y": depths.y + 0.1})
    data = {name: getattr(depths, name) for name in ("y", "x", "error", "scale", "share")}
    data |= {"labs": labs, "member": (depths.groups[:, None] == np.arange(labs)).astype(float)}
    sampled = sampling.fit(curve_model, data, seed=1, settings=depth_curves.STEPS, cache=False)
    assert sampled.status == "passed"
    laws, top = depth_curves.sample(depths, seed=1, cache=False), frontier(depths, seed=1, draws=20_000)
    assert laws.curve_draws.status == laws.frontier_draws.status == "passed"
    pairs = [(sampled[name], laws.curve_draws[name]) for name in CURVE[: 4 if labs else 3]]
    exact = (top.middle, top.beta, top.below, top.noise)
    pairs += [(laws.frontier_draws[name], values) for name, values in zip(FRONTIER, exact, strict=True)]
    for one, other in pairs:
        assert one.mean() == pytest.approx(other.mean(), abs=0.15 * other.std())
        assert one.std() == pytest.approx(other.std(), rel=0.12)


def test_a_curve_that_did_not_settle_fails_its_gate(monkeypatch):
    monkeypatch.setattr(depth_curves, "HALVINGS", 1)
    depths, _ = some_depths(3, envelope=False)
    draws, _ = depth_curves.draw_curve(depths, seed=1)
    assert draws.status == "inconclusive: sampler"
    assert "quadrature" in draws.diagnostics.ess_bulk_name


@pytest.mark.slow
@pytest.mark.long
def test_sampled_intervals_of_the_envelope_cover_tables_from_the_prior():
    inside, settled = [], 0
    for i in range(60):
        depths, truth = some_depths(2000 + i, envelope=True)
        draws = depth_curves.sample(depths, seed=i, cache=False).frontier_draws
        settled += draws.status == "passed"
        inside.append(within([truth[n] for n in FRONTIER], np.column_stack([draws.flat(n) for n in FRONTIER])))
    assert_covered(inside)
    assert settled >= 54
