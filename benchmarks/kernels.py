"""Benchmarks of the kernel machines: ``python run.py kernels forest sbp blocks prediction growth anatomy``.

Ours is the whole of `fit`, kernel rows and certificates included, both cores, the median of three runs after one that
is not counted. Rivals are timed in their `fit`, in a process of their own, at their tol of 1e-3; one that takes `MOST`
times our time or 20 minutes is stopped and counts as that. The dual objective of every rival's model is computed from
its coefficients in double precision, and our time is also given for the loosest tolerance at which our dual objective
is as good as the best of theirs.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tasks

from softmargin import SVC, KernelProblem, SlackSVC

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
MOST = {"scikit-learn-intelex": 100.0, "libsvm": 31.0, "scikit-learn": 10.0}  # a rival is stopped after so many times
LONGEST = 1200.0  # our time, or so many seconds
CACHE = 8000.0  # megabytes, for everybody


def _intelex(task: tasks.KernelTask) -> Any:
    from sklearnex.svm import SVC

    return SVC(C=task.C, gamma=task.gamma, tol=1e-3, cache_size=CACHE)


def _scikit_learn(task: tasks.KernelTask) -> Any:
    from sklearn.svm import SVC

    return SVC(C=task.C, gamma=task.gamma, tol=1e-3, cache_size=CACHE)


class _LibSVM:
    """LIBSVM's own library behind `fit` and `predict`; data are converted before the clock starts."""

    def __init__(self, task: tasks.KernelTask) -> None:
        from libsvm.svm import svm_parameter, svm_problem

        self.options = svm_parameter(f"-s 0 -t 2 -c {task.C} -g {task.gamma} -e 0.001 -m {CACHE} -q")
        self.problem, self.y = svm_problem(task.y, task.X), task.y

    def fit(self, X: Any, y: Any) -> _LibSVM:
        from libsvm.svmutil import svm_train

        self.model = svm_train(self.problem, self.options)
        self.support_ = np.array(self.model.get_sv_indices()) - 1
        self.dual_coef_ = np.array(self.model.get_sv_coef()).T
        if self.model.get_nr_class() == 2 and self.model.get_labels()[0] != 1:
            self.dual_coef_ = -self.dual_coef_
        return self

    def predict(self, X: Any) -> Any:
        from libsvm.svmutil import svm_predict

        return np.array(svm_predict([0] * len(X), X, self.model, "-q")[0])


RIVALS: dict[str, Callable[[Any], Any]] = {
    "scikit-learn-intelex": _intelex,
    "libsvm": _LibSVM,
    "scikit-learn": _scikit_learn,
}


def _train(pipe: Any, rival: str, task: tasks.KernelTask, runs: int) -> None:
    model = RIVALS[rival](task)
    if rival == "scikit-learn-intelex":
        RIVALS[rival](task).fit(task.X[:2000], task.y[:2000])  # its first call is slow
    pipe.send("ready")
    seconds = []
    while len(seconds) < runs and sum(seconds) < 60.0:
        began = time.perf_counter()
        model.fit(task.X, task.y)
        seconds.append(time.perf_counter() - began)
    predicting = error = None
    if task.X_test is not None:
        began = time.perf_counter()
        error = float(np.mean(model.predict(task.X_test) != task.y_test))
        predicting = time.perf_counter() - began
    support, coef = np.asarray(model.support_), np.asarray(model.dual_coef_)
    pipe.send((statistics.median(seconds), error, support, coef, predicting))


def rival_run(rival: str, task: tasks.KernelTask, limit: float, runs: int = 3) -> dict[str, Any]:
    """Seconds, test error and dual coefficients of a rival, or that it was stopped."""
    here, there = mp.Pipe()
    process = mp.get_context("fork").Process(target=_train, args=(there, rival, task, runs), daemon=True)
    process.start()
    try:
        if not here.poll(600) or here.recv() != "ready":
            raise RuntimeError(f"{rival} did not start")
        if not here.poll(limit):
            return {"seconds": None, "limit": limit}
        seconds, error, support, coef, predicting = here.recv()
        out = {"seconds": seconds, "error": error, "support": len(support), "predicting": predicting, "limit": limit}
        return out | ({"coef": (support, coef[0])} if len(coef) == 1 else {})
    finally:
        process.kill()


def _fit(task: tasks.KernelTask, tol: float, runs: int) -> tuple[float, SVC]:
    model = SVC(C=task.C, gamma=task.gamma, tol=tol, cache_size=CACHE, random_state=0)
    seconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        model.fit(task.X, task.y)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:]), model


def kernels() -> list[dict[str, Any]]:
    """Seven problems, three rivals."""
    out = []
    for name in tasks.KERNEL:
        task = tasks.kernel(name)
        seconds, model = _fit(task, 1e-3, 3)
        row: dict[str, Any] = {"data": name, "ours": seconds, "gap": model.certificate_.relative_gap, "rivals": {}}
        row |= {"dual": model.certificate_.dual, "support": len(model.support_)}
        row["error"] = None if task.X_test is None else float(np.mean(model.predict(task.X_test) != task.y_test))
        best = -np.inf
        for rival in RIVALS:
            run = rival_run(rival, task, min(MOST[rival] * seconds, LONGEST))
            if "coef" in run:
                support, coef = run.pop("coef")
                run["dual"], run["gap"] = _quality(task, support, coef)
                best = max(best, run["dual"])
            row["rivals"][rival] = run
            print(name, rival, run, flush=True)
        for tol in TOLERANCES:
            if tol < 1e-3:
                seconds, model = _fit(task, tol, 3)
            if model.certificate_.dual >= best - 1e-9 * abs(best):
                break
        row |= {"matched": seconds, "matched tol": tol, "matched gap": model.certificate_.relative_gap}
        row["matched dual"] = model.certificate_.dual
        out.append(row)
        print("ROW", json.dumps(row), flush=True)
    return out


def _quality(task: tasks.KernelTask, support: Any, coef: Any) -> tuple[float, float]:
    """The dual objective of a rival's coefficients, and the certified gap of its model at the best scale and bias."""
    problem = KernelProblem.of(task.X, task.y, C=task.C, gamma=task.gamma, cache_size=CACHE)
    problem.gram.in_double_precision()
    a = np.zeros(problem.n)
    a[support] = coef
    found = problem.evaluate(problem.box.nearest(a))
    return found.dual, found.gap


def forest() -> dict[str, Any]:
    """Forest whole, with the parameters of the SBP paper: time, memory and error at falling gaps."""
    X, y, X_test, y_test = tasks.forest()
    rows = []
    for tol in (0.1,):
        began = time.perf_counter()
        model = SVC(C=1e4, gamma=1e-4, tol=tol, cache_size=CACHE, random_state=0).fit(X, y)
        seconds = time.perf_counter() - began
        rows.append(
            {
                "tol": tol,
                "seconds": seconds,
                "gap": model.certificate_.relative_gap,
                "error": float(np.mean(model.predict(X_test) != y_test)),
                "support": len(model.support_),
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )
        print(rows[-1], flush=True)
    return {"runs": rows}


class _ErrorWatcher:
    """Test errors of a run as it goes on; only the solver's time counts."""

    def __init__(self, X: Any, y: Any, goal: float) -> None:
        self.X, self.y, self.goal, self.errors, self.paused = X, y, goal, [], 0.0
        self.began = time.perf_counter()

    def of(self, problem: Any) -> Callable[..., bool]:
        from softmargin.prediction import weighted_kernels

        def watch(iterate: Any, certificate: Any) -> bool:
            now = time.perf_counter()
            seconds, used = now - self.began - self.paused, np.flatnonzero(iterate.model.w)
            scores = weighted_kernels(
                problem.gram.kernel, problem.gram.take(used), self.X, iterate.model.w[used][None], 2
            )
            error = float(np.mean((scores[:, 0] + iterate.model.b) * self.y <= 0))
            self.errors.append((iterate.work.passes, seconds, error))
            self.paused += time.perf_counter() - now
            return error <= self.goal

        return watch


def sbp() -> list[dict[str, Any]]:
    """The paper's runtime on Adult, with a bias: when the Stochastic Batch Perceptron reaches 15.0 % errors."""
    out = []
    for name, slack, goal in (("Adult, C=100", 5.79e-4, 0.150),):
        task = tasks.kernel(name)
        for block in (64, 256):
            model = SlackSVC(slack=slack, gamma=task.gamma, block=block, tol=1e-6, max_iter=8, random_state=0)
            watcher = _ErrorWatcher(task.X_test, task.y_test, goal)

            class Watched(SlackSVC):
                def _watchers(self, problem: Any, k: int) -> list[Any]:
                    return [type("Watch", (), {"watch": staticmethod(watcher.of(problem))})]  # noqa: B023

            run = Watched(**model.get_params())
            watcher.began = time.perf_counter()
            import warnings

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run.fit(task.X, task.y)
            reached = next((s for _, s, error in watcher.errors if error <= goal), None)
            out.append({"data": name, "block": block, "goal": goal, "seconds": reached, "errors": watcher.errors})
            print(name, block, reached, watcher.errors[-1], flush=True)
    return out


def blocks() -> list[dict[str, Any]]:
    """The SBP on 8 000 rows of Adult: kernel evaluations and seconds to a gap, for blocks of k."""
    from softmargin import BatchPerceptron, SlackProblem, Stop, solve

    task = tasks.kernel("Adult, C=1")
    out = []
    for k in (1, 4, 16, 64, 256):
        problem = SlackProblem.of(task.X[:8000], task.y[:8000], slack=0.011, gamma=task.gamma, cache_size=CACHE)
        history = solve(problem, BatchPerceptron(block=k), Stop(gap=0.02, passes=64)).history
        for gap in (0.1, 0.05, 0.02):
            at = next((r for r in history if r.certificate.relative_gap <= gap), None)
            found = (None, None, None)
            if at is not None:
                work = at.certificate.work
                found = (work.kernel_evaluations, work.kernel_computed, at.seconds)
            out.append({"block": k, "gap": gap} | dict(zip(("asked", "computed", "seconds"), found, strict=True)))
        print(out[-3:], flush=True)
    return out


def prediction() -> dict[str, float]:
    """Seconds for the scores of the MNIST test set."""
    task = tasks.kernel("MNIST 8, C=1")
    model = SVC(C=task.C, gamma=task.gamma, cache_size=CACHE, random_state=0).fit(task.X, task.y)
    theirs = _intelex(task).fit(task.X, task.y)
    found = {}
    for name, one in (("ours", model), ("scikit-learn-intelex", theirs)):
        runs = []
        for _ in range(8):
            began = time.perf_counter()
            one.predict(task.X_test)
            runs.append(time.perf_counter() - began)
        found[name] = statistics.median(runs[1:])
    return found


def growth() -> list[dict[str, Any]]:
    """MNIST, C = 1: time and memory against the number of rows."""
    task = tasks.kernel("MNIST 8, C=1")
    out = []
    for n in (7_500, 15_000, 30_000, 60_000):
        part = task._replace(X=task.X[:n], y=task.y[:n])
        seconds, model = _fit(part, 1e-3, 3)
        row = {"n": n, "seconds": seconds, "support": len(model.support_)}
        row["computed"] = model.certificate_.work.kernel_computed
        row["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        out.append(row)
        print(row, flush=True)
    return out


def anatomy() -> dict[str, Any]:
    """Where the time goes on MNIST, C = 1, and the floor: the product of the support vectors with all rows."""
    from softmargin import gram, kernel_problem, products, store
    from softmargin.solvers.kernel import active_set

    task = tasks.kernel("MNIST 8, C=1")
    spent: dict[str, float] = {}

    def clocked(owner: Any, name: str, label: str) -> Callable[[], None]:
        plain = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return plain(*given, **named)
            finally:
                spent[label] = spent.get(label, 0.0) + time.perf_counter() - began

        setattr(owner, name, timed)
        return lambda: setattr(owner, name, plain)

    total, model = _fit(task, 1e-3, 3)
    undo = [
        clocked(products, "_multiply", "product"),
        clocked(products, "_decay", "exponential"),
        clocked(products, "_pack", "packing"),
        clocked(active_set, "solve_block", "inner solve"),
        clocked(gram.Gram, "update", "updates of the responses"),
        clocked(store.DenseStore, "square", "gathering blocks"),
        clocked(kernel_problem.KernelProblem, "evaluate", "certificate (its products included)"),
    ]
    one = SVC(C=task.C, gamma=task.gamma, cache_size=CACHE, random_state=0, n_jobs=1)
    began = time.perf_counter()
    one.fit(task.X, task.y)
    alone = time.perf_counter() - began
    for back in undo:
        back()
    n, d, vectors = task.X.shape[0], task.X.shape[1], len(model.support_)
    rate = _rate(d)
    floor = 2 * vectors * n * d / rate
    return {"seconds": total, "one thread": alone, "spent": spent, "floor": floor, "rate": rate, "vectors": vectors}


def _rate(d: int) -> float:
    """Operations a second of the fastest single-precision matrix product at hand, both cores."""
    rng = np.random.default_rng(0)
    A, B = rng.random((512, d), np.float32), rng.random((60_000, d), np.float32)
    best = np.inf
    for _ in range(5):
        began = time.perf_counter()
        A @ B.T
        best = min(best, time.perf_counter() - began)
    return 2 * len(A) * len(B) * d / best


KERNEL_BENCHMARKS: dict[str, Callable[[], Any]] = {
    "kernels": kernels,
    "forest": forest,
    "sbp": sbp,
    "blocks": blocks,
    "prediction": prediction,
    "growth": growth,
    "anatomy": anatomy,
}
