"""Certificates: weak duality, the best bias, feasible dual points, and intervals that hold the true optimum."""

import numpy as np
import pytest
from helpers import BIASES, LOSSES, bias_by_trial, data, deadline, objective, optimum, problem, solve
from hypothesis import given
from hypothesis import strategies as st

from softmargin import Certificate, Model, Stop, certify
from softmargin.certificate import best_bias, feasible, prove
from softmargin.problem import Iterate

EVERY = [(loss, bias) for loss in LOSSES for bias in BIASES]
PAIRS = pytest.mark.parametrize(("loss", "bias"), EVERY)
OPTIMA: dict = {}


def known(loss, bias):
    """A problem and its optimum."""
    X, y, weight = data("weighted", loss, seed=3)
    if (loss, bias) not in OPTIMA:
        OPTIMA[loss, bias] = optimum(X, y, weight, loss, bias)
    return problem(X, y, loss, bias, weight=weight), OPTIMA[loss, bias]


@PAIRS
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_any_model_and_any_dual_point_bound_the_optimum(loss, bias, seed, size):
    p, best = known(loss, bias)
    rng = np.random.default_rng(seed)
    b = 0.0 if bias == "none" else float(rng.normal())
    model = Model(size * rng.normal(size=p.n_features), b)
    proven = prove(p, Iterate(model, size * rng.normal(size=p.n)))
    certificate = proven.certificate
    assert 0 <= certificate.dual <= best * (1 + 1e-8)
    assert best * (1 - 1e-8) <= certificate.primal <= p.primal(model) * (1 + 1e-12) + 1e-7
    assert certificate.gap == certificate.primal - certificate.dual
    assert certificate.primal == pytest.approx(p.primal(proven.model), rel=1e-12)
    assert proven.certificate.dual == pytest.approx(max(p.dual(proven.a), 0.0), rel=1e-12)


@PAIRS
def test_problem_objectives_are_the_definition(loss, bias):
    X, y, weight = data("weighted", loss)
    p, rng = problem(X, y, loss, bias, C=0.7, weight=weight), np.random.default_rng(0)
    w, b = rng.normal(size=6), 0.0 if bias == "none" else 0.4
    assert p.primal(Model(w, b)) == pytest.approx(objective(X, y, 0.7 * weight, loss, bias, w, b), rel=1e-12)
    a = feasible(p, rng.normal(size=60))
    rho2 = 4.0 if bias == "penalised" else 0.0
    by_hand = LOSSES[loss].gain(y, a, 0.7 * weight).sum() - 0.5 * ((X.T @ a) @ (X.T @ a) + rho2 * a.sum() ** 2)
    assert p.dual(a) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([0.01, 1.0, 100.0]), guess=st.sampled_from([0.0, -3.0, 1e6]))
def test_best_bias_against_trial(loss, seed, size, guess):
    p, _ = known(loss, "free")
    z = size * np.random.default_rng(seed).normal(size=p.n)
    b, other = best_bias(p, z, guess), bias_by_trial(z, p.y, p.c, loss)
    value, best = (float(p.c @ p.loss.value(p.y, z + x)) for x in (b, other))
    assert value <= best + 2e-8 * p.c.sum()


@pytest.mark.parametrize("size", [1e6, 1e9, 1e12, 1e30])
@pytest.mark.parametrize("loss", ["hinge", "epsilon"])
def test_best_bias_ends_for_scores_of_any_size(loss, size):
    X, y, _ = data("tall", loss)
    p = problem(X, y, loss, "free")
    with deadline(5):
        b = best_bias(p, size * (1 + np.random.default_rng(0).random(60)), 0.0)
    assert np.isfinite(b)


@PAIRS
def test_infeasible_dual_points_are_refused_then_made_feasible(loss, bias):
    p, _ = known(loss, bias)
    outside = -1e3 * p.y * p.c if loss != "epsilon" else 1e3 * p.c
    assert p.dual(outside) == -np.inf
    assert np.isfinite(p.dual(feasible(p, outside)))
    if bias == "free":
        lopsided = np.where(p.y > 0, p.loss.middle(p.y, p.c) if loss != "epsilon" else p.c, 0.0)
        assert p.dual(lopsided) == -np.inf
        assert abs(feasible(p, lopsided).sum()) <= 1e-12
    a = feasible(p, np.random.default_rng(0).normal(size=p.n))
    np.testing.assert_allclose(feasible(p, a), a, rtol=1e-12)


def test_without_a_dual_point_nothing_is_claimed():
    p, best = known("hinge", "free")
    certificate = prove(p, Iterate(Model(np.zeros(p.n_features)))).certificate
    assert certificate.dual == 0.0
    assert certificate.relative_gap == np.inf
    assert certificate.primal >= best


@pytest.mark.parametrize("loss", LOSSES)
def test_a_bias_where_the_problem_has_none_proves_nothing(loss):
    p, best = known(loss, "none")
    solution = solve(known(loss, "free")[0], stop=Stop(gap=1e-6))
    proven = prove(p, Iterate(solution.model, solution.a))
    assert proven.model.b == 0.0
    assert proven.certificate.primal >= best * (1 - 1e-8)


def test_arithmetic():
    assert Certificate(3.0, 2.0).gap == 1.0
    assert Certificate(3.0, 2.0).relative_gap == 0.5
    assert Certificate(3.0, 3.0 + 1e-15).gap > 0.0, "a negative gap is rounding, and is not hidden"
    assert Certificate(0.0, 0.0).relative_gap == 0.0
    assert Certificate(1.0, 0.0).relative_gap == np.inf
    assert "3" in str(Certificate(3.0, 2.0))
    assert "5.0e-01" in str(Certificate(3.0, 2.0))


@PAIRS
def test_certify_any_model(loss, bias):
    p, best = known(loss, bias)
    b = 0.0 if bias == "none" else 0.3
    model = Model([0.1] * p.n_features, b)
    certificate = certify(p, model, gap=1e-6)
    assert certificate.primal == pytest.approx(p.primal(Model(np.full(p.n_features, 0.1), b)))
    assert certificate.dual <= best * (1 + 1e-8)
    assert certificate.dual >= best * (1 - 2e-6)
    known_dual = solve(p, stop=Stop(gap=1e-6)).a
    assert certify(p, model, known_dual).dual == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Model([1.0]), "1 weights and the problem 6"),
        (Model([np.nan] * 6), "not finite"),
        (Model([1.0] * 6, np.inf), "not finite"),
        (Model([1.0] * 6, 1.0), "bias"),
    ],
)
def test_certify_refuses_models_that_do_not_belong(model, message):
    with pytest.raises(ValueError, match=message):
        certify(known("hinge", "none")[0], model)
