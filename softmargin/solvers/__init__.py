"""The table of solvers, and the way from a name to a solver that can solve the problem."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from softmargin import validate
from softmargin.problem import Problem
from softmargin.solvers.linear.auto import Auto
from softmargin.solvers.linear.dual_descent import DualDescent
from softmargin.solvers.linear.newton import Newton
from softmargin.solvers.support import Solver, Support

__all__ = ["SOLVERS", "Solver", "Support", "resolve"]

SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "dual_descent": DualDescent,
    "newton": Newton,
}


def resolve(solver: Solver | str, problem: Problem, *, gap: float = 1e-3, seed: int = 0) -> Solver:
    """The solver that is meant, if it can solve the problem; `gap` and `seed` are for one that is named."""
    if isinstance(solver, str):
        validate.choice("solver", solver, SOLVERS)
        options: dict[str, Any] = {"gap": gap, "seed": seed}
        wanted = {field.name for field in fields(SOLVERS[solver])}  # type: ignore[arg-type]
        solver = SOLVERS[solver](**{name: value for name, value in options.items() if name in wanted})
    if not isinstance(solver, tuple(SOLVERS.values())):
        raise TypeError(f"solver={solver!r} is neither a name nor a solver: choose one of {', '.join(SOLVERS)}")
    name, supports = type(solver).__name__, solver.supports
    if not isinstance(problem.loss, supports.losses):
        raise ValueError(f"{name} cannot train with {type(problem.loss).__name__}: choose another solver or loss")
    if problem.bias not in supports.biases:
        raise ValueError(f"{name} cannot train with bias {problem.bias!r}: choose another solver")
    return solver
