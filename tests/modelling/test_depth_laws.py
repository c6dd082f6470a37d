import numpy as np
import pytest
from calibrated import assert_covered, within
from scipy.special import logsumexp
from simulated import depth_outcomes, depth_truth

from thermostats.modelling import depth_parts
from thermostats.modelling.depth_laws import Depths, curve, frontier, frontier_density, left_out_pit, node
from thermostats.modelling.gaussian import log_evidence

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


@pytest.mark.parametrize("labs", [0, 6])
def test_the_seam_and_the_exact_posteriors_agree(labs):
    depths, _ = some_depths(3, envelope=False)
    depths = Depths(**{**vars(depths), "n_groups": labs, "y": depths.y + 0.1})
    laws = depth_parts.sample(depths, seed=1, cache=False)
    assert laws.draws.status == "passed"
    found, top = curve(depths, seed=1, draws=20_000), frontier(depths, seed=1, draws=20_000)
    pairs = [
        ("middle", found.found.beta[:, 0]), ("beta", found.beta), ("sigma", found.found.sigma),
        ("frontier_middle", top.middle), ("frontier_beta", top.beta), ("below", top.below), ("noise", top.noise),
    ] + ([("tau", found.found.tau)] if labs else [])  # fmt: skip
    for name, exact in pairs:
        assert laws.draws[name].mean() == pytest.approx(exact.mean(), abs=0.15 * exact.std()), name
        assert laws.draws[name].std() == pytest.approx(exact.std(), rel=0.12), name


@pytest.mark.slow
def test_sampled_intervals_cover_tables_from_the_prior():
    inside, settled = [], 0
    for i in range(30):
        both = []
        for envelope, names in ((False, CURVE), (True, FRONTIER)):
            depths, truth = some_depths(2000 + i, envelope=envelope)
            draws = depth_parts.sample(depths, seed=i, cache=False).draws
            settled += draws.status == "passed"
            both.append(within([truth[n] for n in names], np.column_stack([draws.flat(n) for n in names])))
        inside.append(np.concatenate(both))
    assert_covered(inside)
    assert settled >= 54
