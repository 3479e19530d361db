"""softmargin: support vector machines, trained fast and with a proven bound on their distance from the optimum."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from softmargin.certificate import Certificate as Certificate
    from softmargin.driver import Solution as Solution
    from softmargin.driver import Stop as Stop
    from softmargin.driver import certify as certify
    from softmargin.driver import solve as solve
    from softmargin.estimators.kernel import SVC as SVC
    from softmargin.estimators.kernel import SVR as SVR
    from softmargin.estimators.kernel import NuSVC as NuSVC
    from softmargin.estimators.kernel import NuSVR as NuSVR
    from softmargin.estimators.kernel import OneClassSVM as OneClassSVM
    from softmargin.estimators.kernel import SlackSVC as SlackSVC
    from softmargin.estimators.linear import LinearSVC as LinearSVC
    from softmargin.estimators.linear import LinearSVR as LinearSVR
    from softmargin.history import History as History
    from softmargin.kernel_problem import KernelProblem as KernelProblem
    from softmargin.kernel_problem import SlackProblem as SlackProblem
    from softmargin.liblinear import load_liblinear as load_liblinear
    from softmargin.liblinear import save_liblinear as save_liblinear
    from softmargin.libsvm import load_libsvm as load_libsvm
    from softmargin.libsvm import save_libsvm as save_libsvm
    from softmargin.losses import EpsilonInsensitive as EpsilonInsensitive
    from softmargin.losses import Hinge as Hinge
    from softmargin.losses import Logistic as Logistic
    from softmargin.losses import SquaredHinge as SquaredHinge
    from softmargin.persist import load as load
    from softmargin.persist import save as save
    from softmargin.problem import Model as Model
    from softmargin.problem import Problem as Problem
    from softmargin.solvers import SOLVERS as SOLVERS
    from softmargin.solvers.kernel.active_set import ActiveSet as ActiveSet
    from softmargin.solvers.kernel.batch_perceptron import BatchPerceptron as BatchPerceptron
    from softmargin.solvers.kernel.smo import SMO as SMO
    from softmargin.solvers.linear.dual_descent import DualDescent as DualDescent
    from softmargin.solvers.linear.newton import Newton as Newton
    from softmargin.svmlight import dump_svmlight as dump_svmlight
    from softmargin.svmlight import load_svmlight as load_svmlight

_HOME = {
    "Certificate": "certificate",
    "SVC": "estimators.kernel",
    "SVR": "estimators.kernel",
    "NuSVC": "estimators.kernel",
    "NuSVR": "estimators.kernel",
    "OneClassSVM": "estimators.kernel",
    "SlackSVC": "estimators.kernel",
    "KernelProblem": "kernel_problem",
    "SlackProblem": "kernel_problem",
    "ActiveSet": "solvers.kernel.active_set",
    "BatchPerceptron": "solvers.kernel.batch_perceptron",
    "SMO": "solvers.kernel.smo",
    "LinearSVC": "estimators.linear",
    "LinearSVR": "estimators.linear",
    "History": "history",
    "EpsilonInsensitive": "losses",
    "Hinge": "losses",
    "Logistic": "losses",
    "SquaredHinge": "losses",
    "load_liblinear": "liblinear",
    "save_liblinear": "liblinear",
    "load_libsvm": "libsvm",
    "save_libsvm": "libsvm",
    "load": "persist",
    "save": "persist",
    "Model": "problem",
    "Problem": "problem",
    "Solution": "driver",
    "Stop": "driver",
    "certify": "driver",
    "solve": "driver",
    "SOLVERS": "solvers",
    "DualDescent": "solvers.linear.dual_descent",
    "Newton": "solvers.linear.newton",
    "dump_svmlight": "svmlight",
    "load_svmlight": "svmlight",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: Numba and the solvers are not loaded before something is trained."""
    if name not in _HOME:
        raise AttributeError(f"module 'softmargin' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"softmargin.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
