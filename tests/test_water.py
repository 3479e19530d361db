"""The water level: against sorting, against a linear program, and as the maximum over the bias that it claims to be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from softmargin.water import fill

VOLUMES = st.one_of(st.just(0.0), st.floats(1e-6, 1e3))
NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-10.0, 10.0))  # with ties, and without


def by_sorting(r, volume):
    """The level of one basin: the water stands on the k lowest and does not reach the next."""
    r = np.sort(r)
    for k in range(1, len(r) + 1):
        level = (volume + r[:k].sum()) / k
        if k == len(r) or level <= r[k]:
            return level


def by_linear_program(r, y, volume):
    """max γ so that the slacks γ − rᵢ − yᵢ b, where positive, sum up to at most the volume; b is free."""
    n = len(r)
    rows = np.column_stack([np.ones(n), -y, -np.eye(n)])
    found = linprog(
        np.r_[-1.0, 0.0, np.zeros(n)],
        A_ub=np.vstack([rows, np.r_[0.0, 0.0, np.ones(n)]]),
        b_ub=np.r_[r, volume],
        bounds=[(None, None)] * 2 + [(0, None)] * n,
        method="highs",
    )
    assert found.status == 0
    return -found.fun


@st.composite
def basins(draw, least=1):
    """Responses and labels: at least so many examples in each class."""
    sizes = draw(st.integers(least, 12)), draw(st.integers(least, 12))
    r = np.array(draw(st.lists(NUMBERS, min_size=sum(sizes), max_size=sum(sizes))))
    y = np.repeat([1.0, -1.0], sizes)
    order = np.random.default_rng(draw(st.integers(0, 9))).permutation(len(y))
    return r[order], y[order]


def poured(r, level):
    return np.maximum(level - r, 0.0).sum()


@settings(max_examples=100, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=30).map(np.array), VOLUMES)
def test_one_basin_is_the_level_by_sorting(r, volume):
    """Whatever the labels: without a bias there is one basin."""
    found = fill(r, np.ones(len(r)), volume, False)
    assert found.level == pytest.approx(by_sorting(r, volume), rel=1e-12, abs=1e-12)
    assert found.bias == 0.0
    assert poured(r, found.level) == pytest.approx(volume, rel=1e-9, abs=1e-9)


@settings(max_examples=80, deadline=None)
@given(basins(), VOLUMES)
def test_two_basins_are_the_best_over_the_bias(case, volume):
    """A linear program finds no higher level, and the level at the bias that is returned is this one."""
    r, y = case
    found = fill(r, y, volume, True)
    assert found.level == pytest.approx(by_linear_program(r, y, volume), rel=1e-7, abs=1e-7)
    assert by_sorting(r + y * found.bias, volume) == pytest.approx(found.level, rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(basins(), VOLUMES, st.lists(st.floats(-20, 20), min_size=5, max_size=5))
def test_no_bias_has_a_higher_level(case, volume, biases):
    """The same by trial: any bias, those between any two examples, and small steps aside."""
    r, y = case
    found = fill(r, y, volume, True)
    between = 0.5 * (r[y < 0][:, None] - r[y > 0][None, :]).ravel()
    for b in [*biases, *between, found.bias - 1e-3, found.bias + 1e-3]:
        assert by_sorting(r + y * b, volume) <= found.level + 1e-9 * (1.0 + abs(found.level))


@settings(max_examples=80, deadline=None)
@given(basins(), VOLUMES, st.booleans())
def test_those_under_water_are_the_lowest_of_each_basin(case, volume, free):
    r, y = case
    found = fill(r, y, volume, free)
    sides = [y > 0, y < 0] if free else [np.ones(len(y), bool)]
    counts = [np.count_nonzero(found.under & side) for side in sides]
    assert len(set(counts)) == 1
    assert counts[0] >= 1
    for side in sides:
        dry = r[side & ~found.under]
        assert r[side & found.under].max() <= dry.min(initial=np.inf)
    # nobody who is dry is below the surface, nobody under water above it
    shifted = r + y * found.bias
    assert shifted[found.under].max() <= found.level + 1e-9 * (1 + abs(found.level))
    assert shifted[~found.under].min(initial=np.inf) >= found.level - 1e-9 * (1 + abs(found.level))


@settings(max_examples=80, deadline=None)
@given(basins(), VOLUMES, st.booleans(), st.integers(0, 1000))
def test_the_uniform_distribution_under_water_is_a_supergradient(case, volume, free, seed):
    """The level is concave in the responses, and p* bounds it from above everywhere: what the perceptron climbs by."""
    r, y = case
    found = fill(r, y, volume, free)
    p = found.under / np.count_nonzero(found.under)
    other = r + np.random.default_rng(seed).normal(size=len(r)) * 10.0 ** (seed % 4 - 2)
    assert fill(other, y, volume, free).level <= found.level + p @ (other - r) + 1e-9 * (1 + np.abs(other).max())


@pytest.mark.parametrize("volume", [0.0, 0.5, 1e6])
def test_a_class_of_one_example(volume):
    """Then one example is under water in each class, however much there is."""
    r, y = np.array([3.0, 1.0, 2.0, -1.0]), np.array([-1.0, 1.0, 1.0, 1.0])
    found = fill(r, y, volume, True)
    assert found.under.tolist() == [True, False, False, True]
    assert found.level == pytest.approx(0.5 * (3.0 - 1.0 + volume))
    assert found.level == pytest.approx(by_linear_program(r, y, volume))


def test_equal_responses_share_the_water():
    """All are alike: the level is their height and the mean depth, with and without a bias."""
    r, y = np.full(10, 0.25), np.where(np.arange(10) < 5, 1.0, -1.0)
    for free in (False, True):
        assert fill(r, y, 5.0, free).level == pytest.approx(0.75)
        assert fill(r, y, 5.0, free).bias == 0.0


def test_many_examples_and_no_copy_is_written_back():
    rng = np.random.default_rng(0)
    r, y = rng.normal(size=20_001), np.where(rng.random(20_001) < 0.3, 1.0, -1.0)
    before = r.copy()
    for volume in (0.0, 1.0, 1e3, 1e5):
        assert fill(r, y, volume, False).level == pytest.approx(by_sorting(r, volume), rel=1e-12)
        free = fill(r, y, volume, True)
        assert by_sorting(r + y * free.bias, volume) == pytest.approx(free.level, rel=1e-10)
        assert free.level >= fill(r, y, volume, False).level
    np.testing.assert_array_equal(r, before)
