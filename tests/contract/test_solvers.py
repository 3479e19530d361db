"""What every solver of SOLVERS promises, on every loss and bias that it supports: an entry there is tested here."""

import itertools

import numpy as np
import pytest
from helpers import BIASES, CASES, LINEAR, LOSSES, data, objective, optimum, problem, solve, stored

from softmargin import SOLVERS, Stop
from softmargin.problem import Iterate

GAP = 1e-6
EVERY = [
    (solver, loss, bias)
    for solver, kind in LINEAR.items()
    for loss in LOSSES
    for bias in BIASES
    if isinstance(LOSSES[loss], kind.supports.losses) and bias in kind.supports.biases
]
TRIPLES = pytest.mark.parametrize(("solver", "loss", "bias"), EVERY)
HINGES = pytest.mark.parametrize(
    ("solver", "loss", "bias"), [e for e in EVERY if e[1:] in (("hinge", "free"), ("logistic", "none"))]
)
OPTIMA: dict = {}


def best(case, loss, bias):
    if (case, loss, bias) not in OPTIMA:
        X, y, weight = data(case, loss)
        OPTIMA[case, loss, bias] = optimum(X, y, weight, loss, bias)
    return OPTIMA[case, loss, bias]


def same_bits(one, other):
    return (
        one.model.w.tobytes() == other.model.w.tobytes()
        and float(one.model.b) == float(other.model.b)
        and one.a.tobytes() == other.a.tobytes()
        and one.certificate == other.certificate
        and [r.certificate for r in one.history] == [r.certificate for r in other.history]
    )


@pytest.mark.parametrize("case", CASES)
@TRIPLES
def test_reaches_the_optimum_dense_and_sparse(solver, loss, bias, case):
    X, y, weight = data(case, loss)
    exact, primals = best(case, loss, bias), []
    for storage in ("dense", "csr"):
        p = problem(stored(X, storage), y, loss, bias, weight=weight)
        solution = solve(p, solver, Stop(gap=GAP, passes=20_000))
        certificate, (w, b) = solution.certificate, solution.model
        assert solution.status.name == "CONVERGED"
        assert certificate.relative_gap <= GAP
        # the certificate speaks the truth about the model and about the optimum
        assert certificate.primal == pytest.approx(objective(X, y, weight, loss, bias, w, b), rel=1e-10)
        assert certificate.dual == pytest.approx(p.dual(solution.a), rel=1e-10)
        assert certificate.dual <= exact * (1 + 1e-9)
        assert certificate.primal - exact <= certificate.gap + 1e-9 * exact
        assert certificate.primal >= exact * (1 - 1e-6)  # as good as the other solver is
        if bias == "none":
            assert b == 0.0
        # the history only ever improves, and its last word is the solution's
        records = [record.certificate for record in solution.history]
        assert records[-1] == certificate
        for before, after in itertools.pairwise(records):
            assert after.primal <= before.primal
            assert after.dual >= before.dual
            assert after.gap <= before.gap
            assert after.work.passes > before.work.passes
            assert after.work.feature_accesses >= before.work.feature_accesses
        assert all(one.seconds <= two.seconds for one, two in zip(solution.history, solution.history[1:], strict=False))
        primals.append(certificate.primal)
    assert primals[0] == pytest.approx(primals[1], rel=2 * GAP)


@TRIPLES
def test_dense_and_sparse_are_the_same_run(solver, loss, bias):
    """Up to rounding, which the first steps have not yet magnified."""
    X, y, weight = data("weighted", loss)
    X = X + (X == 0) * 0.1  # nothing is zero: the same entries in the same order
    one, other = (
        solve(problem(stored(X, s), y, loss, bias, weight=weight), solver, Stop(1e-14, passes=4))
        for s in ("dense", "csr")
    )
    np.testing.assert_allclose(one.model.w, other.model.w, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.a, other.a, rtol=1e-6, atol=1e-6)


@TRIPLES
def test_a_warm_start_from_the_solution_is_done_at_once(solver, loss, bias):
    X, y, _ = data("tall", loss)
    p = problem(X, y, loss, bias)
    solution = solve(p, solver, Stop(gap=GAP, passes=20_000))
    before = solution.model.w.copy()
    again = solve(p, solver, Stop(gap=2 * GAP), start=Iterate(solution.model, solution.a))
    assert again.status.name == "CONVERGED"
    assert again.certificate.work.passes == 0
    assert len(again.history) == 1
    further = solve(p, solver, Stop(gap=GAP / 10, passes=20_000), start=Iterate(solution.model, solution.a))
    assert further.certificate.relative_gap <= GAP / 10
    np.testing.assert_array_equal(solution.model.w, before)


@HINGES
def test_a_start_of_another_problem_helps_or_does_no_harm(solver, loss, bias):
    X, y, _ = data("tall", loss)
    start = solve(problem(X, y, loss, bias, C=10.0), solver, Stop(gap=GAP, passes=20_000))
    p = problem(X, y, loss, bias, C=0.1)
    solution = solve(p, solver, Stop(gap=GAP, passes=20_000), start=Iterate(start.model, start.a))
    assert solution.certificate.relative_gap <= GAP


@TRIPLES
def test_a_start_from_a_problem_with_another_bias(solver, loss, bias):
    """Its bias must not leak into a problem that has none, where it would prove too low an objective."""
    X, y, _ = data("tall", loss)
    other = "free" if bias != "free" else "none"
    start = solve(problem(X, y, loss, other), "dual_descent", Stop(gap=GAP, passes=20_000))
    solution = solve(
        problem(X, y, loss, bias), solver, Stop(gap=GAP, passes=20_000), start=Iterate(start.model, start.a)
    )
    w, b = solution.model
    assert bias != "none" or b == 0.0
    assert solution.certificate.primal == pytest.approx(objective(X, y, np.ones(60), loss, bias, w, b), rel=1e-10)
    assert solution.certificate.primal == pytest.approx(best("tall", loss, bias), rel=3e-6)


@HINGES
def test_a_start_without_a_dual_point(solver, loss, bias):
    X, y, _ = data("tall", loss)
    p = problem(X, y, loss, bias)
    model = solve(p, solver, Stop(gap=GAP, passes=20_000)).model
    assert solve(p, solver, Stop(gap=GAP, passes=20_000), start=Iterate(model)).certificate.relative_gap <= GAP


@HINGES
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_seed_gives_the_same_bits(solver, loss, bias, n_jobs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 100))  # enough for two threads, and for a sample to start from
    y = np.where(X[:, 0] + rng.normal(size=6000) > 0, 1.0, -1.0)
    p = problem(X, y, loss, bias, C=1e-3, n_jobs=n_jobs)
    one, other = (solve(p, solver, Stop(gap=1e-4)) for _ in range(2))
    assert one.certificate.relative_gap <= 1e-4
    assert same_bits(one, other)


@pytest.mark.parametrize(
    "solver", [name for name, kind in LINEAR.items() if "seed" in getattr(kind, "__annotations__", {})]
)
def test_another_seed_gives_another_run_to_the_same_optimum(solver):
    X, y, _ = data("tall", "hinge")
    p = problem(X, y, "hinge", "free")
    one, other = (solve(p, SOLVERS[solver](seed=seed), Stop(gap=GAP, passes=20_000)) for seed in (0, 1))
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2 * GAP)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("solver", LINEAR)
def test_float32_is_the_same_problem(solver, storage):
    X, y, _ = data("tall", "hinge")
    X = stored(X.astype(np.float32), storage)  # its values are float64 numbers too
    one, other = (
        solve(problem(Z, y, "hinge", "free"), solver, Stop(gap=GAP, passes=20_000)) for Z in (X, X.astype(np.float64))
    )
    assert one.model.w.dtype == np.float64
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2 * GAP)
    assert max(one.certificate.dual, other.certificate.dual) <= min(one.certificate.primal, other.certificate.primal)


@pytest.mark.parametrize("solver", LINEAR)
def test_weights_are_repetitions(solver):
    X, y, _ = data("tall", "hinge")
    times = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = solve(problem(X, y, "hinge", "free", weight=times), solver, Stop(gap=1e-9, passes=50_000))
    repeated = solve(
        problem(np.repeat(X, times, 0), np.repeat(y, times), "hinge", "free"), solver, Stop(gap=1e-9, passes=50_000)
    )
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=2e-9)
    np.testing.assert_allclose(weighted.model.w, repeated.model.w, atol=1e-3)


@TRIPLES
def test_a_step_is_about_one_pass_and_view_is_honest(solver, loss, bias):
    X, y, _ = data("tall", loss)
    p, method = problem(X, y, loss, bias), SOLVERS[solver]()
    state = method.init(p)
    begun = method.view(p, state).work.passes
    for _ in range(5):
        before = method.view(p, state).work.passes
        state = method.step(p, state)
        iterate = method.view(p, state)
        assert before <= iterate.work.passes <= before + (2 if solver == "dual_descent" else 15)
        assert np.isfinite(iterate.model.w).all()
        assert len(iterate.a) == p.n
        assert iterate.gap >= -1e-12
    assert iterate.work.passes > begun, "a run that is limited by passes must end"


@pytest.mark.parametrize("solver", LINEAR)
def test_data_are_never_written(solver):
    X, y, _ = data("tall", "hinge")
    for array in (X, y):
        array.flags.writeable = False
    assert solve(problem(X, y, "hinge", "free"), solver).status.name == "CONVERGED"


def test_auto_changes_over_to_newton_and_stays_certified():
    X, y, _ = data("tall", "hinge")
    seen = []
    p = problem(100 * X, y, "hinge", "free", C=1e3)
    solution = solve(
        p, "auto", Stop(gap=1e-9, passes=50_000), callbacks=[lambda record, iterate: seen.append(record) and None]
    )
    assert solution.status.name == "CONVERGED"
    assert len(seen) == len(solution.history)
    method = SOLVERS["auto"](gap=1e-9)
    state = method.init(p)
    assert not state.newton
    for _ in range(30):
        state = method.step(p, state)
    assert state.newton


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_newton_beyond_the_rounding(loss):
    """A gap that float64 cannot reach ends with the passes, without a warning and with what could be had."""
    X, y, _ = data("tall", loss)
    solution = solve(problem(X, y, loss, "free"), "newton", Stop(gap=1e-300, passes=200))
    assert solution.certificate.relative_gap < 1e-12
