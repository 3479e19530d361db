"""Problems to test with, and their optima found without this package: scikit-learn and SciPy, plain NumPy formulas."""

from __future__ import annotations

import contextlib
import signal
import warnings

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from softmargin import SOLVERS, EpsilonInsensitive, Hinge, Logistic, Problem, SquaredHinge
from softmargin import solve as solve

LINEAR = {name: kind for name, kind in SOLVERS.items() if "linear" in kind.supports.problems}
EPSILON = 0.1
LOSSES = {"hinge": Hinge(), "squared": SquaredHinge(), "logistic": Logistic(), "epsilon": EpsilonInsensitive(EPSILON)}
BIASES = ("none", "free", "penalised")
RHO = 2.0  # the size of the bias feature, where the bias is penalised
CASES = ("tall", "wide", "weighted", "odd")

VALUES = {
    "hinge": lambda y, z: np.maximum(0, 1 - y * z),
    "squared": lambda y, z: np.maximum(0, 1 - y * z) ** 2,
    "logistic": lambda y, z: np.logaddexp(0, -y * z),
    "epsilon": lambda y, z: np.maximum(0, np.abs(y - z) - EPSILON),
}
SLOPES = {  # of the smooth ones
    "squared": lambda y, z: -2 * y * np.maximum(0, 1 - y * z),
    "logistic": lambda y, z: -y * expit(-y * z),
}


def data(case: str, loss: str, seed: int = 0):
    """X (dense, with zeros), y and weights of a small problem that no hyperplane solves."""
    rng = np.random.default_rng(seed)
    n, d = (24, 60) if case == "wide" else (60, 6)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    weight = rng.integers(1, 4, n) * rng.random(n) if case == "weighted" else np.ones(n)
    if case == "odd":
        X[:, 0] = 1.0  # constant
        X[10:20] = X[0]  # duplicates
        X[5] = 0.0  # empty, the constant included
        X[:, 3] = 0.0  # a column of zeros
    z = X @ rng.normal(size=d) + 0.7 + rng.normal(size=n)
    return X, (z if loss == "epsilon" else np.where(z > 0, 1.0, -1.0)), weight


def stored(X, storage: str):
    """X as "dense", "csr" (32-bit indices) or "csr64"."""
    if storage == "dense":
        return np.ascontiguousarray(X)
    X = sp.csr_array(X)
    kind = np.int64 if storage == "csr64" else np.int32
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    return X


def problem(X, y, loss: str, bias: str, C: float = 1.0, weight=None, **options) -> Problem:
    """A problem with the loss of that name."""
    return Problem.of(X, y, C=C, sample_weight=weight, loss=LOSSES[loss], bias=bias, bias_scale=RHO, **options)


def objective(X, y, c, loss: str, bias: str, w, b: float) -> float:
    """The primal objective by its definition."""
    penalty = w @ w + (b * b / RHO**2 if bias == "penalised" else 0.0)
    return float(0.5 * penalty + c @ VALUES[loss](y, X @ w + b))


def bias_by_trial(z, y, c, loss: str) -> float:
    """The best bias for scores z: the best of all kinks, or where SciPy finds it."""
    if loss in SLOPES:
        return float(minimize_scalar(lambda b: c @ VALUES[loss](y, z + b), bracket=(-1, 1), tol=1e-12).x)
    kinks = y - z if loss == "hinge" else np.concatenate([y - z - EPSILON, y - z + EPSILON])
    return float(min(kinks, key=lambda b: c @ VALUES[loss](y, z + b)))


def optimum(X, y, c, loss: str, bias: str) -> float:
    """The objective of the best model, by other people's solvers: an upper bound good to about nine digits."""
    X = np.asarray(X, np.float64)
    d = X.shape[1]
    if loss in SLOPES:
        Z = X if bias == "none" else np.column_stack([X, np.ones(len(y))])
        ridge = np.ones(Z.shape[1])
        ridge[d:] = 1 / RHO**2 if bias == "penalised" else 0.0

        def both(v):
            z = Z @ v
            return 0.5 * ridge @ v**2 + c @ VALUES[loss](y, z), ridge * v + Z.T @ (c * SLOPES[loss](y, z))

        return float(minimize(both, np.zeros(Z.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).fun)
    common = {"tol": 1e-10, "C": 1.0}
    if bias == "free":
        common |= {"tol": 1e-7, "max_iter": 300_000}
        best = SVC(kernel="linear", **common) if loss == "hinge" else SVR(kernel="linear", epsilon=EPSILON, **common)
    else:
        common |= {
            "max_iter": 1_000_000,
            "fit_intercept": bias == "penalised",
            "intercept_scaling": RHO,
            "random_state": 0,
        }
        best = LinearSVC(loss="hinge", **common) if loss == "hinge" else LinearSVR(epsilon=EPSILON, dual=True, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best.fit(X, y, sample_weight=c)
    w = best.coef_.ravel()
    b = {"none": 0.0, "penalised": float(np.ravel(best.intercept_)[0])}.get(bias)
    return objective(X, y, c, loss, bias, w, bias_by_trial(X @ w, y, c, loss) if b is None else b)


@contextlib.contextmanager
def deadline(seconds: float):
    """TimeoutError in the block when it takes longer: a loop that never ends fails a test instead of hanging it."""

    def late(number, frame):
        raise TimeoutError(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
