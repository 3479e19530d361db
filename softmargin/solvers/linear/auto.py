"""The choice between the linear solvers, by shape first and then by watching: what ``solver="auto"`` does.

Coordinate descent wins where a few passes are enough: text, small C, loose gaps. Newton wins where it needs many, if
its systems are small. Very tall data go to Newton at once, as even a few passes cost more than its start on a sample,
and so do smooth losses of few features.
Elsewhere coordinate descent begins, and when its own gap falls so slowly that it would need more than `PATIENCE`
further passes, Newton goes on from its point. The figures behind the rule are in ``docs/performance.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.losses import SMOOTH
from softmargin.problem import Iterate, Problem, Work
from softmargin.solvers.linear.dual_descent import DualDescent
from softmargin.solvers.linear.newton import Newton
from softmargin.solvers.support import Support

TALL = 2000  # rows per feature from which Newton begins at once
NARROW = 1000  # features up to which Newton begins at once with a smooth loss, for which it needs few steps
SMALL = 3000  # features, or rows, up to which Newton's systems are quickly factored
LOOK = 4.0  # passes between two looks at the speed of coordinate descent
HOPELESS = 0.5  # a gap that after the first few passes says that there will be many
PATIENCE = 6.0  # passes of coordinate descent that a run of Newton is worth


@dataclass
class State:
    """The state of the solver at work, and what was seen at the last look."""

    inner: Any
    newton: bool
    seen_gap: float
    seen_passes: float
    work: Work


@dataclass(frozen=True)
class Auto:
    """Coordinate descent, Newton, or the one after the other.

    Parameters
    ----------
    gap : float
        The relative gap that the run is going for.
    seed : int
        Of the solvers.
    """

    supports: ClassVar[Support] = Support(step="as dual_descent or newton", source="softmargin: docs/performance.md")
    gap: float = 1e-3
    seed: int = 0

    def init(self, problem: Problem, start: Iterate | None = None) -> State:
        """Newton at once for very tall data and for smooth losses of few features, else coordinate descent."""
        few_steps = isinstance(problem.loss, SMOOTH) and problem.n_features <= NARROW
        newton = few_steps or problem.n > TALL * problem.n_features
        solver = Newton(self.seed) if newton else DualDescent(self.seed)
        return State(solver.init(problem, start), newton, np.inf, 0.0, Work())

    def step(self, problem: Problem, s: State) -> State:
        """A step of the solver at work; now and then, a look at whether it is still the right one."""
        if s.newton:
            s.inner = Newton(self.seed).step(problem, s.inner)
            return s
        solver = DualDescent(self.seed)
        s.inner = solver.step(problem, s.inner)
        if min(problem.n, problem.n_features) <= SMALL and s.inner.work.passes >= s.seen_passes + LOOK:
            here = solver.view(problem, s.inner)
            if self._too_slow(s, here):
                s.inner, s.newton, s.work = Newton(self.seed).init(problem, here), True, here.work
            s.seen_gap, s.seen_passes = here.gap, here.work.passes
        return s

    def _too_slow(self, s: State, here: Iterate) -> bool:
        if not here.gap < HOPELESS:
            return True
        if here.gap <= self.gap:
            return False
        fall = np.log(s.seen_gap / here.gap) / (here.work.passes - s.seen_passes)  # per pass
        needed = np.log(here.gap / max(self.gap, 1e-15))
        return not fall * PATIENCE > needed

    def view(self, problem: Problem, s: State) -> Iterate:
        """Where the solver at work stands."""
        iterate = (Newton if s.newton else DualDescent)(self.seed).view(problem, s.inner)
        return iterate._replace(work=s.work.plus(iterate.work))
