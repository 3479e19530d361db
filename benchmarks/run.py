"""Run the benchmarks, keep their results: ``make benchmarks``, or ``python run.py [NAME …]`` for some of `BENCHMARKS`.

On an idle machine, one process at a time. Ours is the whole of `solve`, certificates included, the median of seven runs
after one that is not counted. Rivals are timed by `rivals`: a run under half a second is made three times, for the
median, a longer one once. A rival's time to an accuracy is its shortest run, over its tolerances, whose objective is
within that accuracy of our certified lower bound. A rival that is not there after 100 times our time, or after the
seconds below, is given up and counts as that. Results go to ``results/``; `figures.py` makes the tables.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import tasks
from kernels import KERNEL_BENCHMARKS
from rivals import RIVALS, liblinear_without_cap, serve, timed

from softmargin import LinearSVC, Problem, Stop, __version__, solve
from softmargin.problem import Model

RESULTS = Path(__file__).parent / "results"
ACCURACIES = (1e-3, 1e-5)
COSTS = (0.05, 1.0, 10.0)
MOST = 100.0  # a rival is given up after so many times our time,
SECONDS = {"liblinear": 200.0, "snapml": 200.0, "scikit-learn": 10.0, "sgd": 10.0}  # or a run of so many seconds


def main(wanted: list[str]) -> None:
    for name in wanted or list(BENCHMARKS):
        print(f"== {name}", flush=True)
        result = {"machine": machine(), "results": BENCHMARKS[name]()}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


def machine() -> dict[str, Any]:
    import numba
    import scipy
    import sklearn

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    versions |= {"numba": numba.__version__, "softmargin": __version__, "python": platform.python_version()}
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "versions": versions,
    }


def median_seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The median time of some calls after one that is not counted, and the last result."""
    call()
    runs = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = call()
        runs.append(time.perf_counter() - began)
    return statistics.median(runs), result


def linear() -> list[dict[str, Any]]:
    """Time to 1e-3 and 1e-5: hinge, no bias, the six data sets, three values of C; every rival."""
    liblinear_without_cap()
    out = []
    for name in tasks.BINARY:
        X, y = tasks.binary(name)
        for C in COSTS:
            problem = Problem.of(X, y, C=C, bias="none", n_jobs=2)
            row: dict[str, Any] = {"data": name, "C": C, "rivals": {}}
            for jobs in (1, 2):
                for gap in ACCURACIES:
                    posed = replace(problem, n_jobs=jobs)
                    seconds, solution = median_seconds(lambda p=posed, g=gap: solve(p, stop=Stop(gap=g)), 7)
                    row[f"ours {jobs} {gap:g}"] = seconds
                    row[f"gap {jobs} {gap:g}"] = solution.certificate.relative_gap
            dual = solve(problem, stop=Stop(gap=1e-7)).certificate.dual
            for rival in RIVALS:
                row["rivals"][rival] = to_accuracies(
                    rival, X, y, C, problem, dual, [row[f"ours 2 {g:g}"] for g in ACCURACIES]
                )
            out.append(row)
            print(json.dumps(row), flush=True)
    return out


def to_accuracies(
    rival: str, X: Any, y: Any, C: float, problem: Problem, dual: float, ours: list[float]
) -> dict[str, float | None]:
    """The rival's shortest run to every accuracy; None where it was given up."""
    found: dict[float, float] = {}
    best = np.inf
    limit = min(MOST * max(ours), SECONDS[rival])
    for run in serve(rival, X, y, C, 2, limit):
        if run is None:
            break
        _, seconds, w = run
        off = problem.primal(Model(w)) / dual - 1.0
        best = min(best, off)
        for gap in ACCURACIES:
            if off <= gap:
                found[gap] = min(found.get(gap, np.inf), seconds)
        if len(found) == len(ACCURACIES) and seconds > 2.0 * found[min(ACCURACIES)]:
            break
        if seconds > limit:
            break
    return {f"{gap:g}": found.get(gap) for gap in ACCURACIES} | {"best": best, "limit": limit}


def with_and_without_bias(measured: Callable[[Problem, Stop], float]) -> list[dict[str, Any]]:
    """What `measured` says of every binary problem, without a bias and with a free one, two threads, each accuracy."""
    out = []
    for name in tasks.BINARY:
        X, y = tasks.binary(name)
        for C in COSTS:
            row: dict[str, Any] = {"data": name, "C": C}
            for kind in ("none", "free"):
                problem = Problem.of(X, y, C=C, bias=kind, n_jobs=2)
                for gap in ACCURACIES:
                    row[f"{kind} {gap:g}"] = measured(problem, Stop(gap=gap))
            out.append(row)
            print(json.dumps(row), flush=True)
    return out


def bias() -> list[dict[str, Any]]:
    """Our time with a free bias against our time without."""
    return with_and_without_bias(lambda problem, stop: median_seconds(lambda: solve(problem, stop=stop), 5)[0])


def certifying() -> list[dict[str, Any]]:
    """The share of a run that its certificates, and the driver around them, cost."""

    def share(problem: Problem, stop: Stop) -> float:
        began = time.perf_counter()
        solution = solve(problem, stop=stop)
        return 1.0 - solution.history[-1].seconds / (time.perf_counter() - began)

    return with_and_without_bias(lambda *posed: statistics.median([share(*posed) for _ in range(6)][1:]))


def ovr() -> list[dict[str, Any]]:
    """One against the rest, all classes, two cores: ours to 1e-3 against scikit-learn's LinearSVC, alone and spread."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC as Theirs

    out = []
    for name in tasks.MULTICLASS:
        X, y = tasks.multiclass(name)
        ours = LinearSVC(fit_intercept=False, n_jobs=2, random_state=0)
        seconds, fitted = median_seconds(lambda m=ours, X=X, y=y: m.fit(X, y), 3)
        exact = LinearSVC(fit_intercept=False, n_jobs=2, random_state=0, tol=1e-6).fit(X, y).certificate_.dual
        row: dict[str, Any] = {"data": name, "ours": seconds, "gap": fitted.certificate_.relative_gap, "theirs": []}
        X32 = sp.csr_array(X) if sp.issparse(X) else X
        signs = [np.where(y == label, 1.0, -1.0) for label in np.unique(y)]
        problems = [Problem.of(X, sign, bias="none", n_jobs=2) for sign in signs]
        done = False
        for tol in (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3):
            for spread in (False, True):
                model = Theirs(loss="hinge", fit_intercept=False, tol=tol, max_iter=10**7, random_state=0)
                model = OneVsRestClassifier(model, n_jobs=2) if spread else model
                taken, _ = timed(lambda m=model, X=X32, y=y: m.fit(X, y))
                coef = np.vstack([e.coef_ for e in model.estimators_]) if spread else model.coef_
                off = sum(p.primal(Model(w)) for p, w in zip(problems, coef, strict=True)) / exact - 1.0
                row["theirs"].append({"tol": tol, "spread": spread, "seconds": taken, "off": off})
                print(name, seconds, row["theirs"][-1], flush=True)
                done = done or off <= 1e-3 or taken > MOST * seconds
            if done:
                break
        out.append(row)
    return out


def startup() -> dict[str, float]:
    """Seconds: importing beyond sklearn.svm; the first fit ever, and the first in a process, beyond a second one."""
    code = """
import time, json, os, sklearn.svm
began = time.perf_counter(); import softmargin; from softmargin import LinearSVC; imported = time.perf_counter() - began
from sklearn.datasets import make_classification
X, y = make_classification(2000, 20, random_state=0)
began = time.perf_counter(); LinearSVC().fit(X, y); first = time.perf_counter() - began
began = time.perf_counter(); LinearSVC().fit(X, y); second = time.perf_counter() - began
print(json.dumps([imported, first - second]))
"""
    import tempfile

    runs = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(6):
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | {"NUMBA_CACHE_DIR": cache},
            )
            runs.append(json.loads(done.stdout))
    return {
        "import": statistics.median(run[0] for run in runs[1:]),
        "first fit ever": runs[0][1],
        "first fit in a process": statistics.median(run[1] for run in runs[1:]),
    }


def table1() -> list[dict[str, Any]]:
    """The SGD paper's Table 1: C = 0.1, no bias; our interval at 1e-5 beside the paper's."""
    paper = {"a9a": (1149.904, 1149.893), "w8a": (755.1139, 755.1064), "covtype": (36427.52, 36427.16)}
    out = []
    for name, (upper, lower) in paper.items():
        problem = Problem.of(*tasks.binary(name), C=0.1, bias="none", n_jobs=2)
        ours = solve(problem, stop=Stop(gap=1e-5)).certificate
        exact = solve(problem, "newton", stop=Stop(gap=1e-9)).certificate
        row = {
            "data": name,
            "paper": [lower, upper],
            "ours": [ours.dual, ours.primal],
            "optimum": [exact.dual, exact.primal],
        }
        row["overlap"] = bool(ours.dual <= upper and lower <= ours.primal)
        out.append(row)
        print(json.dumps(row), flush=True)
    return out


def loop() -> dict[str, float]:
    """Nanoseconds per stored entry and pass of coordinate descent on imdb, of the same loop in C, and of the memory."""
    from speed.descent import measure

    return measure(*tasks.binary("imdb"))


def svmlight() -> list[dict[str, Any]]:
    """Megabytes a second that text is read with, one core, beside scikit-learn's reader."""
    from speed.svmlight import measure

    return measure()


BENCHMARKS: dict[str, Callable[[], Any]] = {
    "table1": table1,
    "startup": startup,
    "loop": loop,
    "svmlight": svmlight,
    "bias": bias,
    "certifying": certifying,
    "ovr": ovr,
    "linear": linear,
    **KERNEL_BENCHMARKS,
}

if __name__ == "__main__":
    main(sys.argv[1:])
