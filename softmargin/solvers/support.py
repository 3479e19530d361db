"""What a solver is."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

from softmargin.losses import EpsilonInsensitive, Hinge, Logistic, SquaredHinge
from softmargin.problem import Iterate


class Support(NamedTuple):
    """What a solver can solve, and how it is to be read: checked before a run, shown in tables."""

    losses: tuple[type, ...] = (Hinge, SquaredHinge, Logistic, EpsilonInsensitive)
    biases: tuple[str, ...] = ("none", "free", "penalised")
    problems: tuple[str, ...] = ("linear",)
    step: str = ""  # what one step costs
    source: str = ""


class Solver(Protocol):
    """A frozen dataclass of hyperparameters with three methods; it never sees clocks, certificates or callbacks.

    A state holds arrays, numbers and random generators only, so that a checkpoint is exact.
    """

    supports: ClassVar[Support]

    def init(self, problem: Any, start: Iterate | None = None) -> Any:
        """The state before the first step."""

    def step(self, problem: Any, state: Any) -> Any:
        """The state after a bounded amount of work, about one pass over the rows."""

    def view(self, problem: Any, state: Any) -> Iterate:
        """Where the solver stands; its arrays are only valid until the next step."""
