"""Kernel machines to test with: kernel values, objectives and optima by plain NumPy and scikit-learn."""

from __future__ import annotations

import functools
import warnings

import helpers
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import NuSVC, NuSVR, OneClassSVM

from softmargin import kernel_problem
from softmargin.gram import Gram
from softmargin.kernels import RBF

GAMMA, C, NU = 0.2, 2.0, 0.4
MACHINES = [
    *(("classification", bias) for bias in helpers.BIASES),
    *(("regression", bias) for bias in helpers.BIASES),
    ("one_class", "free"),
    ("nu_classification", "free"),
    ("nu_regression", "free"),
]


def data(machine: str, weighted: bool = True):
    """X, y and weights (with C in them): float32 numbers, so that both precisions have the same data."""
    X, y, weight = helpers.data("weighted", "epsilon" if "regression" in machine else "hinge")
    return X.astype(np.float32).astype(np.float64), y, C * (weight if weighted else np.ones(len(y)))


def gaussian(X, Z=None, gamma: float = GAMMA):
    """The matrix of the RBF kernel."""
    return np.exp(-gamma * cdist(X, X if Z is None else Z, "sqeuclidean"))


def posed(machine: str, bias: str, X, y, c, kernel=None, *, nu: float = NU, **options):
    """The problem as the package poses it, on rows X."""
    options.setdefault("constant", helpers.RHO**2 if bias == "penalised" else 0.0)
    gram = Gram(X, RBF(GAMMA) if kernel is None else kernel, **options)
    pose = getattr(kernel_problem, machine)
    if machine == "classification":
        return pose(gram, y, c, bias)
    if machine == "regression":
        return pose(gram, y, c, helpers.EPSILON, bias)
    return pose(gram, c, nu) if machine == "one_class" else pose(gram, y, c, nu)


def objective(machine: str, K, y, c, coef, beta, nu: float = NU) -> float:
    """The primal objective of ``w = Σ coef φ(x)`` by the machine's own definition, in float64."""
    z = K @ coef
    beta = np.atleast_1d(beta)
    half = 0.5 * coef @ z
    if machine == "classification":
        return float(half + c @ np.maximum(0, 1 - y * (z + beta[0])))
    if machine == "regression":
        return float(half + c @ np.maximum(0, np.abs(y - z - beta[0]) - helpers.EPSILON))
    if machine == "one_class":  # with the threshold ρ
        rho = -beta[0]
        return float(half + c @ np.maximum(0, rho - z) - nu * c.sum() * rho)
    if machine == "nu_classification":  # with the margin ρ
        b, rho = 0.5 * (beta[0] + beta[1]), 0.5 * (beta[1] - beta[0])
        return float(half + c @ np.maximum(0, rho - y * (z + b)) - nu * c.sum() * rho)
    b, epsilon = 0.5 * (beta[0] + beta[1]), 0.5 * (beta[0] - beta[1])
    return float(half + c @ np.maximum(0, np.abs(y - z - b) - epsilon) + nu * c.sum() * epsilon)


@functools.cache
def optimum(machine: str, bias: str, weighted: bool = True) -> float:
    """The best objective, by scikit-learn: good to about seven digits, from above."""
    X, y, c = data(machine, weighted)
    K = gaussian(X) + (helpers.RHO**2 if bias == "penalised" else 0.0)
    if machine in ("classification", "regression"):
        values, vectors = np.linalg.eigh(K)  # rows whose inner products are K; the bias is in them
        rows = vectors * np.sqrt(np.maximum(values, 0.0))
        loss = "hinge" if machine == "classification" else "epsilon"
        return helpers.optimum(rows, y, c, loss, "free" if bias == "free" else "none")
    kind = {
        "one_class": lambda: OneClassSVM(kernel="precomputed", nu=NU, tol=1e-8),
        "nu_classification": lambda: NuSVC(kernel="precomputed", nu=NU, tol=1e-8),
        "nu_regression": lambda: NuSVR(kernel="precomputed", nu=NU, C=1.0, tol=1e-8),
    }[machine]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        kind.fit(K, y, sample_weight=c)
    coef = np.zeros(len(y))
    coef[kind.support_] = kind.dual_coef_[0]
    if machine == "nu_classification":  # which divides by its margin
        coef *= NU * c.sum() / np.abs(coef).sum()
    z = K @ coef
    kinks = y - z if machine == "nu_regression" else -z
    if machine == "one_class":
        return min(objective(machine, K, y, c, coef, kink) for kink in kinks)
    # the two offsets are found one after the other: the objective is a sum of one function of each
    beta = np.array([kinks[0], kinks[0]])
    for g in (0, 1):
        trials = []
        for kink in kinks:
            beta[g] = kink
            trials.append(two_offsets(machine, z, y, c, beta))
        beta[g] = kinks[int(np.argmin(trials))]
    return objective(machine, K, y, c, coef, beta)


def two_offsets(machine: str, z, y, c, beta) -> float:
    """What a ν-machine's objective has of its two offsets, written as the sum that it is for any two of them."""
    half = 0.5 * NU * c.sum()
    if machine == "nu_classification":
        up = c @ (np.maximum(0, -z - beta[0]) * (y > 0))
        down = c @ (np.maximum(0, z + beta[1]) * (y < 0))
    else:
        up, down = c @ np.maximum(0, y - z - beta[0]), c @ np.maximum(0, z + beta[1] - y)
    return float(up + down + half * (beta[0] - beta[1]))
