"""The losses against their definitions, finite differences and SciPy."""

import numpy as np
import pytest
from helpers import LOSSES, VALUES
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

NAMES = pytest.mark.parametrize("name", LOSSES)
SMOOTH = ("squared", "logistic")

scores = st.floats(-8, 8)
weights = st.floats(1e-3, 1e3)
shares = st.floats(0, 1)
signs = st.sampled_from([-1.0, 1.0])
widths = st.floats(1e-3, 1e3)


def target(name, sign, size=1.7):
    return sign * size if name == "epsilon" else sign


def dual(name, y, c, share):
    """A feasible dual variable."""
    return {"epsilon": (2 * share - 1) * c, "squared": 5 * share * c * y}.get(name, share * c * y)


@NAMES
@given(sign=signs, z=scores, c=weights, share=shares)
def test_row_gap_is_never_negative(name, sign, z, c, share):
    loss, y = LOSSES[name], target(name, sign)
    a = dual(name, y, c, share)
    parts = c * loss.value(y, z), loss.gain(y, a, c), a * z
    assert parts[0] - parts[1] + parts[2] >= -1e-12 * (1 + sum(map(abs, parts)))


@NAMES
@given(sign=signs, z=scores)
def test_value_and_slope(name, sign, z):
    loss, y = LOSSES[name], target(name, sign)
    assert loss.value(y, z) == pytest.approx(VALUES[name](y, z), abs=1e-15)
    kinks = {"hinge": [y], "epsilon": [y - loss[0], y + loss[0]]}.get(name, [])
    assume(all(abs(z - kink) > 1e-5 for kink in kinks))
    h = 1e-6
    assert float(loss.slope(y, z)) == pytest.approx(
        (VALUES[name](y, z + h) - VALUES[name](y, z - h)) / (2 * h), abs=1e-5
    )


@NAMES
@given(sign=signs, z=scores, c=weights, share=shares, q=widths)
def test_step_is_the_best_answer(name, sign, z, c, share, q):
    loss, y = LOSSES[name], target(name, sign)
    a = dual(name, y, c, share)
    inner = name != "logistic" or 1e-3 < share < 1 - 1e-3  # from the very ends its few Newton steps may stop on the way

    def worse(new):
        return -(loss.gain(y, new, c) - (new - a) * z - 0.5 * q * (new - a) ** 2)

    new = loss.step(y, z, a, q, c)
    assert loss.nearest(np.array([y]), np.array([new]), np.array([c]))[0] == pytest.approx(new, rel=1e-12, abs=0)
    far = {"epsilon": c, "squared": y * (15 * c + 20 / q)}.get(name, c * y)
    ends = sorted((-c if name == "epsilon" else 0.0, far))
    best = minimize_scalar(worse, bounds=ends, method="bounded", options={"xatol": 1e-12 * c}).fun
    scale = abs(worse(a)) + c * (1 + abs(z)) + 0.5 * q * (new - a) ** 2
    assert worse(new) <= (min(best, worse(a)) if inner else worse(a)) + 1e-9 * scale


@NAMES
@given(sign=signs, z=scores, c=weights, share=st.floats(0.05, 0.95), q=st.floats(1e-2, 1e2))
def test_bend_is_how_fast_the_step_falls(name, sign, z, c, share, q):
    loss, y = LOSSES[name], target(name, sign)
    a, h = dual(name, y, c, share), 1e-5
    new, low, high = (loss.step(y, z + move, a, q, c) for move in (0, -h, h))
    bends = [loss.bend(y, value, q, c) for value in (low, new, high)]
    assume(name == "logistic" or bends[0] == bends[1] == bends[2])  # no kink nearby
    assert bends[1] == pytest.approx((low - high) / (2 * h), rel=1e-3, abs=1e-5 * c)


@pytest.mark.parametrize("name", SMOOTH)
@given(sign=signs, z=scores, c=weights)
def test_the_step_of_width_zero_is_minus_the_slope(name, sign, z, c):
    loss = LOSSES[name]
    assert loss.step(sign, z, 0.3 * c * sign, 0.0, c) == pytest.approx(
        -c * loss.slope(sign, z), rel=1e-9, abs=1e-12 * c
    )


@NAMES
@given(z=st.lists(st.floats(-50, 50), min_size=1, max_size=9))
def test_nearest_and_middle_are_feasible(name, z):
    loss, a = LOSSES[name], np.array(z)
    y, c = np.where(np.arange(len(z)) % 2, 1.0, -1.0), np.arange(1.0, len(z) + 1)
    near = loss.nearest(y, a, c)
    np.testing.assert_array_equal(loss.nearest(y, near, c), near)
    assert np.isfinite(loss.gain(y, near, c)).all()
    u, limit = near * y, np.inf if name == "squared" else c
    assert (u <= limit).all()
    assert (u >= (-c if name == "epsilon" else 0)).all()
    inside = np.abs(a) <= c if name == "epsilon" else (a * y >= 0) & (a * y <= limit)
    np.testing.assert_array_equal(near[inside], a[inside])
    middle = loss.middle(y, c)
    np.testing.assert_array_equal(loss.nearest(y, middle, c), middle)


@NAMES
def test_compiled_code_is_the_same(name):
    from softmargin.solvers.linear.newton import replies

    loss, rng = LOSSES[name], np.random.default_rng(0)
    y = rng.normal(size=40) if name == "epsilon" else rng.choice([-1.0, 1.0], 40)
    z, c, q = 3 * rng.normal(size=40), rng.random(40) + 0.1, rng.random(40) + 0.1
    a = loss.nearest(y, rng.normal(size=40), c)
    out, bends = np.empty(40), np.empty(40)
    gap = replies(loss, y, z, a, q, c, out, bends)
    steps = [loss.step(y[i], z[i], a[i], q[i], c[i]) for i in range(40)]
    np.testing.assert_allclose(out, steps, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(bends, [loss.bend(y[i], steps[i], q[i], c[i]) for i in range(40)], rtol=1e-9)
    assert gap == pytest.approx(np.sum(c * loss.value(y, z) - loss.gain(y, out, c) + out * z))


@pytest.mark.parametrize("size", [1e3, 1e6, 1e30])
@NAMES
def test_extreme_scores(name, size):
    loss = LOSSES[name]
    with np.errstate(all="raise", under="ignore"):
        for y, z in ((1.0, size), (1.0, -size), (-1.0, size)):
            value = float(loss.value(np.array([y]), np.array([z]))[0])
            assert np.isfinite(value)
            assert value >= 0
            assert np.isfinite(loss.slope(np.array([y]), np.array([z])))[0]
