"""Other trainers on ``½‖w‖² + C Σ hinge`` without bias, each as a generator of (tolerance, seconds, w).

Only training is timed: data are converted to what the rival wants first. Tolerances go from loose to tight; whoever
iterates says when to stop. `serve` runs a rival in a process of its own, where it can be killed.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Runs = Iterator[tuple[float, float, Any]]
GRID = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)


def liblinear(X: Any, y: Any, C: float, threads: int) -> Runs:
    """LIBLINEAR's own library (``-s 3``), its cap of 300 iterations lifted."""
    sys.path.insert(0, str(liblinear_without_cap()))
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train

    data = problem(y, sp.csr_matrix(X, dtype=np.float64))
    for eps in GRID:
        options = parameter(f"-s 3 -c {C} -e {eps} -q")
        seconds, model = timed(lambda options=options: train(data, options))
        yield eps, seconds, np.ctypeslib.as_array(model.w, (X.shape[1],)).copy() * (1 if model.label[0] == 1 else -1)


def scikit_learn(X: Any, y: Any, C: float, threads: int) -> Runs:
    """scikit-learn's LinearSVC: its own copy of LIBLINEAR, conversion included."""
    from sklearn.svm import LinearSVC

    for tol in GRID:
        model = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=tol, max_iter=10**8, random_state=0)
        seconds, _ = timed(lambda model=model: model.fit(X, y))
        yield tol, seconds, model.coef_[0]


def sgd(X: Any, y: Any, C: float, threads: int) -> Runs:
    """scikit-learn's SGDClassifier, averaged, for ever more epochs."""
    from sklearn.linear_model import SGDClassifier

    for epochs in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000):
        model = SGDClassifier(
            alpha=1 / (C * len(y)), fit_intercept=False, max_iter=epochs, tol=None, average=True, random_state=0
        )
        seconds, _ = timed(lambda model=model: model.fit(X, y))
        yield epochs, seconds, model.coef_[0]


def snapml(X: Any, y: Any, C: float, threads: int) -> Runs:
    """IBM's Snap ML with the threads given, for ever smaller changes of the model."""
    from snapml import SupportVectorMachine

    X = sp.csr_matrix(X) if sp.issparse(X) else X
    for tol in (*GRID, 1e-6, 1e-7, 1e-8):
        model = SupportVectorMachine(regularizer=1 / C, tol=tol, max_iter=10**6, n_jobs=threads, random_state=0)
        seconds, _ = timed(lambda model=model: model.fit(X, y))
        yield tol, seconds, np.asarray(model.coef_, np.float64).reshape(-1)


RIVALS: dict[str, Callable[[Any, Any, float, int], Runs]] = {
    "liblinear": liblinear,
    "snapml": snapml,
    "scikit-learn": scikit_learn,
    "sgd": sgd,
}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds of a call and its result; short calls are made three times, for the median."""
    runs = []
    while not runs or (len(runs) < 3 and max(runs) < 0.5):
        began = time.perf_counter()
        result = call()
        runs.append(time.perf_counter() - began)
    return statistics.median(runs), result


def serve(
    rival: str, X: Any, y: Any, C: float, threads: int, limit: float
) -> Iterator[tuple[float, float, Any] | None]:
    """The runs of a rival in its own process; None, and the end, when one takes longer than `limit` seconds."""
    here, there = mp.Pipe()
    process = mp.get_context("fork").Process(target=_work, args=(there, rival, X, y, C, threads), daemon=True)
    process.start()
    try:
        if not here.poll(300) or here.recv() != "ready":
            raise RuntimeError(f"{rival} did not start")
        preparing = 120.0  # the first answer comes after imports and conversions
        while True:
            here.send("next")
            if not here.poll(limit + preparing):
                yield None
                return
            preparing = 1.0
            answer = here.recv()
            if answer is None:
                return
            yield answer
    finally:
        process.kill()


def _work(pipe: Any, rival: str, X: Any, y: Any, C: float, threads: int) -> None:
    runs = RIVALS[rival](X, y, C, threads)
    pipe.send("ready")
    while pipe.recv() == "next":
        pipe.send(next(runs, None))


def liblinear_without_cap() -> Path:
    """The package liblinear-official built from its source without the cap of 300 iterations; made once, then kept."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "softmargin" / "liblinear-without-cap"
    if (home / "liblinear").is_dir():
        return home
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*pip, "download", "--no-deps", "--no-binary", ":all:", "liblinear-official", "-d", folder], check=True
        )
        archive = next(Path(folder).glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        source = next(Path(folder).glob("*/cpp-source/linear.cpp"))
        text, changed = re.subn(
            r"int dual_solver_max_iter = 300;", "int dual_solver_max_iter = 2000000000;", source.read_text()
        )
        if changed != 1:
            raise RuntimeError(f"{source.name} of this release has its cap elsewhere")
        source.write_text(text)
        subprocess.run([*pip, "install", "--no-deps", "--target", str(home), str(source.parents[1])], check=True)
    return home
