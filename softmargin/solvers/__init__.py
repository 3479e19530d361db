"""The table of solvers, and the way from a name to a solver that can solve the problem."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from softmargin import validate
from softmargin.solvers.kernel.active_set import ActiveSet
from softmargin.solvers.kernel.batch_perceptron import BatchPerceptron
from softmargin.solvers.kernel.smo import SMO
from softmargin.solvers.linear.auto import Auto
from softmargin.solvers.linear.dual_descent import DualDescent
from softmargin.solvers.linear.newton import Newton
from softmargin.solvers.support import Solver, Support

__all__ = ["SOLVERS", "Solver", "Support", "resolve"]

SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "dual_descent": DualDescent,
    "newton": Newton,
    "active_set": ActiveSet,
    "sbp": BatchPerceptron,
    "smo": SMO,
}
AUTO = {"linear": "auto", "kernel": "active_set", "slack": "sbp"}  # what "auto" means, by the kind of problem


def resolve(solver: Solver | str, problem: Any, *, gap: float = 1e-3, seed: int = 0) -> Solver:
    """The solver that is meant, if it can solve the problem; `gap` and `seed` are for one that is named."""
    if isinstance(solver, str):
        validate.choice("solver", solver, SOLVERS)
        solver = AUTO[problem.kind] if solver == "auto" else solver
        options: dict[str, Any] = {"gap": gap, "seed": seed}
        wanted = {field.name for field in fields(SOLVERS[solver])}  # type: ignore[arg-type]
        solver = SOLVERS[solver](**{name: value for name, value in options.items() if name in wanted})
    if not isinstance(solver, tuple(SOLVERS.values())):
        raise TypeError(f"solver={solver!r} is neither a name nor a solver: choose one of {', '.join(SOLVERS)}")
    name, supports = type(solver).__name__, solver.supports
    if problem.kind not in supports.problems:
        able = ", ".join(known for known, kind in SOLVERS.items() if problem.kind in kind.supports.problems)
        raise ValueError(f"{name} cannot solve a {problem.kind} problem: choose one of auto, {able}")
    if problem.kind == "linear" and not isinstance(problem.loss, supports.losses):
        raise ValueError(f"{name} cannot train with {type(problem.loss).__name__}: choose another solver or loss")
    if problem.bias not in supports.biases:
        raise ValueError(f"{name} cannot train with bias {problem.bias!r}: choose another solver")
    return solver
