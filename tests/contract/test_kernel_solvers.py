"""What every solver of kernel machines promises, on every machine: an entry of SOLVERS is tested here."""

import itertools

import numpy as np
import pytest
from helpers import EPSILON, RHO, deadline, solve, stored
from kernel_helpers import GAMMA, MACHINES, C, data, gaussian, objective, optimum, posed

from softmargin import SOLVERS, BatchPerceptron, SlackProblem, Stop
from softmargin.kernels import RBF, Linear
from softmargin.problem import Iterate
from softmargin.water import fill

KERNEL = [name for name, kind in SOLVERS.items() if "kernel" in kind.supports.problems]
EXACT = [name for name in KERNEL if name != "sbp"]
EVERY = [
    (s, m, b)
    for s in KERNEL
    for m, b in MACHINES
    if b in SOLVERS[s].supports.biases and (s != "sbp" or m == "classification")
]
TRIPLES = pytest.mark.parametrize(("solver", "machine", "bias"), EVERY)
EXACTLY = pytest.mark.parametrize("solver", EXACT)
PASSES = 2000


def goal(solver):
    """The gap that a solver is asked for: the perceptron is slow near the optimum."""
    return 5e-2 if solver == "sbp" else 1e-5


def fitted(solver, machine, bias, gap=None, storage="dense", dtype=np.float64, passes=PASSES, **options):
    X, y, c = data(machine, solver != "sbp")
    start = options.pop("start", None)
    p = posed(machine, bias, stored(X.astype(dtype), storage), y, c, **options)
    return p, solve(p, solver, Stop(gap=gap or goal(solver), passes=passes), start=start)


def kernel_of(machine, bias, X):
    return gaussian(X) + (RHO**2 if bias == "penalised" else 0.0)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@TRIPLES
def test_reaches_the_optimum_and_the_certificate_is_true(solver, machine, bias, dtype, storage):
    """The interval holds the optimum that others find, and the model has the objective that it is said to have."""
    X, y, c = data(machine, solver != "sbp")
    _, solution = fitted(solver, machine, bias, storage=storage, dtype=dtype)
    certificate, (w, b) = solution.certificate, solution.model
    exact, K = optimum(machine, bias, solver != "sbp"), kernel_of(machine, bias, X)
    assert solution.status.name == "CONVERGED"
    assert certificate.relative_gap <= goal(solver)
    true = objective(machine, K, y, c, w, b)  # rounding of the scores counts against the model, never for it
    assert certificate.primal - certificate.gap <= true <= certificate.primal + 1e-7 * abs(exact)
    assert certificate.dual <= exact + 1e-7 * abs(exact)
    assert certificate.primal >= exact - 1e-6 * abs(exact)  # as good as the other solver is
    if bias != "free":
        assert b == 0.0


@TRIPLES
def test_the_history_only_improves_and_work_is_counted(solver, machine, bias):
    p, solution = fitted(solver, machine, bias)
    records = [record.certificate for record in solution.history]
    assert records[-1] == solution.certificate
    for before, after in itertools.pairwise(records):
        assert after.primal <= before.primal
        assert after.dual >= before.dual
        assert after.work.passes > before.work.passes
        assert after.work.kernel_evaluations >= before.work.kernel_evaluations
        assert after.work.kernel_computed >= before.work.kernel_computed
    work = solution.certificate.work
    assert work.kernel_evaluations > 0
    assert work.kernel_computed > 0
    assert p.gram.computed >= work.kernel_computed


@TRIPLES
def test_the_same_seed_gives_the_same_bits(solver, machine, bias):
    one, other = (fitted(solver, machine, bias)[1] for _ in range(2))
    assert one.model.w.tobytes() == other.model.w.tobytes()
    assert np.array_equal(one.model.b, other.model.b)
    assert one.a.tobytes() == other.a.tobytes()
    assert [r.certificate for r in one.history] == [r.certificate for r in other.history]


@TRIPLES
def test_a_warm_start_from_the_solution_is_done_at_once(solver, machine, bias):
    p, solution = fitted(solver, machine, bias)
    again = solve(p, solver, Stop(gap=1.1 * goal(solver), passes=PASSES), start=Iterate(solution.model, solution.a))
    assert again.status.name == "CONVERGED"
    assert again.certificate.work.passes == 0
    assert len(again.history) == 1


@TRIPLES
def test_a_warm_start_from_another_problem_still_converges(solver, machine, bias):
    """Its dual point is moved into the boxes and to the sums."""
    X, y, c = data(machine, solver != "sbp")
    far = solve(posed(machine, bias, X, y, 10 * c), solver, Stop(gap=goal(solver), passes=PASSES))
    solution = fitted(solver, machine, bias, start=Iterate(far.model, far.a))[1]
    assert solution.certificate.relative_gap <= goal(solver)
    exact = optimum(machine, bias, solver != "sbp")
    assert solution.certificate.dual <= exact + 1e-7 * abs(exact)


@TRIPLES
def test_a_stopped_run_goes_on_from_its_checkpoint(solver, machine, bias, tmp_path):
    """To the objective of the run that was not stopped."""
    X, y, c = data(machine, solver != "sbp")
    stops = Stop(gap=goal(solver), passes=0.5), Stop(gap=goal(solver), passes=PASSES)
    first, second = (solve(posed(machine, bias, X, y, c), solver, stop, checkpoint=tmp_path / "run") for stop in stops)
    assert first.status.name in ("PASSES", "CONVERGED")
    if first.status.name == "PASSES":
        assert second.certificate.work.passes > first.certificate.work.passes
        assert second.certificate.primal <= first.certificate.primal
        assert len(second.history) > len(first.history)
    assert second.certificate.relative_gap <= goal(solver)
    whole = fitted(solver, machine, bias)[1]
    assert second.certificate.primal == pytest.approx(whole.certificate.primal, rel=2 * goal(solver))


@pytest.mark.parametrize("solver", [name for name in KERNEL if name != "sbp"])
def test_weights_are_repetitions(solver):
    X, y, _ = data("classification", weighted=False)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = solve(posed("classification", "free", X, y, C * times), solver, Stop(goal(solver), PASSES))
    rows = np.repeat(np.arange(len(y)), times)
    repeated = solve(
        posed("classification", "free", X[rows], y[rows], np.full(len(rows), C)), solver, Stop(goal(solver))
    )
    assert max(weighted.certificate.relative_gap, repeated.certificate.relative_gap) <= goal(solver)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=2 * goal(solver))


@TRIPLES
def test_data_are_never_written(solver, machine, bias):
    X, y, c = data(machine, solver != "sbp")
    for array in (X, y, c):
        array.flags.writeable = False
    assert solve(posed(machine, bias, X, y, c), solver, Stop(goal(solver), PASSES)).status.name == "CONVERGED"


@pytest.mark.parametrize("machine", [m for m, _ in MACHINES if m != "classification"])
def test_the_perceptron_trains_classifiers_only(machine):
    X, y, c = data(machine)
    with pytest.raises(ValueError, match="choose another solver"):
        solve(posed(machine, "free", X, y, c), "sbp")


# ---- hard cases for those that claim any gap ----


def bounds(machine, bias, K, y, c, solution):
    """The model's objective and the dual point's, by their definitions in float64."""
    coef = solution.a if machine != "regression" else solution.a[: len(y)] + solution.a[len(y) :]
    dual = y @ coef - 0.5 * coef @ K @ coef
    if machine == "regression":
        dual -= EPSILON * np.abs(solution.a).sum()
    return objective(machine, K, y, c, solution.model.w, solution.model.b), dual


def check(solver, X, y, c, kernel, K, gap, bias="free", passes=500, **options):
    """Converged to the gap, which the definitions confirm."""
    solution = solve(posed("classification", bias, X, y, c, kernel, **options), solver, Stop(gap=gap, passes=passes))
    assert solution.status.name == "CONVERGED"
    assert solution.certificate.relative_gap <= gap
    primal, dual = bounds("classification", bias, K, y, c, solution)
    assert abs(solution.a.sum()) <= 1e-9 * np.abs(solution.a).sum() or bias != "free"
    assert (solution.a * y >= 0).all()
    assert (np.abs(solution.a) <= c).all()
    assert primal - dual <= 1.5 * gap * abs(dual) + 1e-12 * c.sum()
    assert primal <= solution.certificate.primal + 1e-7 * abs(dual) + 1e-12 * c.sum()
    return solution


@EXACTLY
@pytest.mark.parametrize("bias", ["none", "free"])
def test_duplicates_that_disagree(solver, bias):
    """Ten places, twenty rows on each, labels drawn at random: flat directions in all the dual."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(10, 2)), 20, 0)
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    check(solver, X, y, np.full(200, 1.0), RBF(1.0), gaussian(X, gamma=1.0), 1e-5, bias)


@EXACTLY
@pytest.mark.parametrize("bias", ["none", "free"])
def test_a_nearly_constant_kernel(solver, bias):
    """All rows are nearly one point; the best model is nearly the bias alone."""
    X, y, c = data("classification")
    check(solver, X, y, c, RBF(1e-8), gaussian(X, gamma=1e-8), 1e-4, bias)


@EXACTLY
def test_a_hard_margin(solver):
    """Separable data and C = 1e8: no slack is left, and the boxes are far away."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    y = np.where(X.sum(axis=1) > 0, 1.0, -1.0)
    X += 0.3 * y[:, None]
    K = X @ X.T
    solution = check(solver, X, y, np.full(80, 1e8), Linear(), K, 1e-5)
    z = K @ solution.model.w + solution.model.b
    assert (y * z).min() > 1 - 1e-3


@EXACTLY
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_one_feature(solver, kernel):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 1))
    y = np.where(X[:, 0] + rng.normal(size=150) > 0, 1.0, -1.0)
    K = X @ X.T if kernel == "linear" else gaussian(X, gamma=1.0)
    check(solver, X, y, np.ones(150), Linear() if kernel == "linear" else RBF(1.0), K, 1e-5)


@EXACTLY
@pytest.mark.parametrize("gap", [1e-6, 1e-9])
@pytest.mark.parametrize("bias", ["none", "free", "penalised"])
def test_small_gaps(solver, bias, gap):
    X, y, c = data("classification")
    check(solver, X, y, c, RBF(GAMMA), kernel_of("classification", bias, X), gap, bias)


@EXACTLY
@pytest.mark.parametrize("machine", ["regression", "one_class", "nu_classification", "nu_regression"])
@pytest.mark.parametrize("gap", [1e-6, 1e-9])
def test_small_gaps_of_the_other_machines(solver, machine, gap):
    _, solution = fitted(solver, machine, "free", gap=gap, passes=500)
    assert solution.status.name == "CONVERGED"
    X, y, c = data(machine)
    true = objective(machine, gaussian(X), y, c, *solution.model)
    assert abs(true - solution.certificate.primal) <= gap * abs(true)
    assert true == pytest.approx(optimum(machine, "free"), rel=1e-6)


@EXACTLY
@pytest.mark.parametrize(("machine", "bias"), [m for m in MACHINES if m[1] == "free"])
@pytest.mark.parametrize("rows", [2, 5])
def test_room_for_a_few_kernel_rows_only(solver, machine, bias, rows):
    """Slower, and no worse."""
    budget = (rows + 0.5) * 60 * 4 / 2**20
    with deadline(5):
        p, solution = fitted(solver, machine, bias, cache_size=budget, passes=500)
    assert p.gram.budget < (rows + 1) * 60
    assert solution.status.name == "CONVERGED"
    assert solution.certificate.primal == pytest.approx(optimum(machine, bias), rel=2e-5)


@EXACTLY
def test_one_row_of_a_class(solver):
    X, _, c = data("classification")
    y = np.where(np.arange(len(c)) == 7, 1.0, -1.0)
    check(solver, X, y, c, RBF(GAMMA), gaussian(X), 1e-5)


# ---- the Stochastic Batch Perceptron ----


def labelled(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0.3, 1.0, -1.0)


@pytest.mark.parametrize("free", [False, True])
def test_drawn_indices_are_an_unbiased_supergradient(free):
    """Their mean frequency is p*, uniform under water, and half on each class where the bias is free."""
    X, y = labelled()
    K = gaussian(X)
    r = y * (K @ (y * np.random.default_rng(1).random(40)))
    under = fill(r, y, 4.0, free).under
    p = under / np.count_nonzero(under)
    draws = BatchPerceptron()._drawn(np.random.default_rng(2), under, y, 400_000, free)
    assert len(draws) == 400_000
    often = np.bincount(draws, minlength=40) / len(draws)
    np.testing.assert_allclose(often, p, atol=5 * np.sqrt(p.max() / len(draws)))
    np.testing.assert_allclose(K @ (y * often), K @ (y * p), atol=0.01)
    if free:
        assert often[y > 0].sum() == 0.5


def plain(K, y, slack, rounds, seed):
    """The paper's loop without a bias, one index a round: the mean of all w, as weights of y φ(x)."""
    rng, n = np.random.default_rng(seed), len(y)
    v, every = np.zeros(n), np.zeros(n)
    radius = np.sqrt(K.diagonal().max())
    for t in range(1, rounds + 1):
        r = y * (K @ (y * v))
        order = np.sort(r)
        k = next(k for k in range(1, n + 1) if k == n or (n * slack + order[:k].sum()) / k <= order[k])
        under = np.zeros(n, bool)
        under[np.argsort(r, kind="stable")[:k]] = True
        j = rng.choice(np.flatnonzero(under))
        v[j] += 1 / (radius * np.sqrt(t))
        length = np.sqrt((y * v) @ K @ (y * v))
        v = v / max(length, 1.0)
        every += v
    return y * every / rounds


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_the_average_that_costs_nothing_is_the_plain_average(scale):
    """The same indices, drawn by the same generator, in a plain loop that adds all iterates up."""
    X, y = labelled()
    K = scale * gaussian(X)
    p = SlackProblem.of(K, y, slack=0.05, kernel="precomputed", bias="none")
    method = BatchPerceptron(block=1, seed=3)
    state = method.init(p)
    while state.t < 200:
        state = method.step(p, state)
    np.testing.assert_allclose(method.view(p, state).model.w, plain(K, y, 0.05, state.t, 3), atol=1e-5 / scale**0.5)


@pytest.mark.parametrize("bias", ["none", "free"])
@pytest.mark.parametrize("cost", [0.3, 3.0])
def test_the_interval_of_the_perceptron_holds_the_best_margin(bias, cost):
    """A penalised optimum u is the best of the slack problem for ν = mean hinge / ‖u‖, with the margin 1 / ‖u‖."""
    X, y = labelled()
    K = gaussian(X)
    exact = solve(posed("classification", bias, X, y, np.full(40, cost)), "active_set", Stop(1e-9))
    z = K @ exact.model.w
    length = np.sqrt(exact.model.w @ z)
    slack = np.maximum(0, 1 - y * (z + exact.model.b)).mean() / length
    assert slack > 0
    p = SlackProblem.of(X, y, slack=slack, kernel="rbf", gamma=GAMMA, bias=bias)
    solution = solve(p, "sbp", Stop(gap=5e-2, passes=2000))
    assert solution.status.name == "CONVERGED"
    certificate, (w, b) = solution.certificate, solution.model
    for record in solution.history:  # objectives are minus the margin, and minus its bound
        assert -record.certificate.primal <= 1 / length * (1 + 1e-6)
        assert -record.certificate.dual >= 1 / length * (1 - 1e-6)
    # what is claimed of the model is true: its margin at length one, found by sorting
    z = y * (K @ w + b) / np.sqrt(w @ K @ w)
    level = fill(z, y, 40 * slack, False).level
    assert level == pytest.approx(-certificate.primal, rel=1e-5)


def test_the_perceptron_refuses_weights():
    """Its slack counts every row once: rows of different weight are refused before any work."""
    X, y, c = data("classification")
    with pytest.raises(ValueError, match="rows of equal weight"):
        solve(posed("classification", "free", X, y, c), "sbp", Stop(5e-2, PASSES))


def test_another_seed_is_another_run():
    X, y, c = data("classification", weighted=False)
    one, other = (
        solve(posed("classification", "free", X, y, c), BatchPerceptron(seed=seed), Stop(5e-2)) for seed in (0, 1)
    )
    assert one.model.w.tobytes() != other.model.w.tobytes()
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=0.1)
