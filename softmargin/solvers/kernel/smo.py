"""Sequential minimal optimisation: the best pair of variables, over and over; without a bias, the best single one.

    max t·a − ½ aᵀKa  in a box, with fixed sums (`kernel_problem`)

R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information for training support vector
machines", JMLR 6, 2005, Algorithm 2 (WSS 2); J. Platt 1998. The comparator of the Stochastic Batch Perceptron's paper
and what LIBSVM does, here without shrinking. A pair costs two kernel rows and three passes over the variables.
Deviation: when the gap seems reached the responses are computed anew, so that rounding does not end a run too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.kernel_problem import KernelProblem
from softmargin.losses import Hinge
from softmargin.problem import Iterate, Model, Work
from softmargin.solvers.kernel.pairs import alone, exchange, lowest, move_both, partner, rising
from softmargin.solvers.support import Support

PAIRS = 500  # in one step of the solver, at most
HIDDEN = 0.5  # a gap of which rounding makes more than the rest is looked at in double precision


@dataclass
class State:
    """What a run knows between two steps."""

    a: Any
    f: Any  # responses ⟨w, φ(x)⟩ of all rows
    model: Model
    gap: float
    work: Work


@dataclass(frozen=True)
class SMO:
    """Sequential minimal optimisation.

    Parameters
    ----------
    gap : float
        The relative gap that the run is going for.
    """

    supports: ClassVar[Support] = Support(
        losses=(Hinge,),
        problems=("kernel",),
        step=f"two kernel rows a pair, up to {PAIRS} pairs",
        source="Fan, Chen & Lin, JMLR 2005",
    )
    gap: float = 1e-3

    def init(self, problem: KernelProblem, start: Iterate | None = None) -> State:
        """At zero, or at the dual point of `start`; where sums are fixed, at the first point that has them."""
        a = problem.box.nearest(np.zeros(problem.n) if start is None or start.a is None else start.a)
        f = problem.gram.scores_of(problem.coefficients(a), np.arange(problem.gram.n))
        return State(
            a, f, Model(np.zeros(problem.gram.n), problem.as_bias(np.zeros(len(problem.box.totals)))), np.inf, Work()
        )

    def step(self, problem: KernelProblem, s: State) -> State:
        """Some pairs."""
        gram, (row, t, lo, hi, group, totals), a = problem.gram, problem.box, s.a
        asked, computed = gram.asked, gram.computed
        gram.focus(np.arange(gram.n))
        diagonal, d = gram.diagonal[row], t - s.f[row]
        for _ in range(min(PAIRS, max(gram.n, 1))):
            if len(totals):
                tops = [rising(d, a, hi, group, g) for g in range(len(totals))]
                spans = [top - lowest(d, a, lo, group, g) for g, (_, top) in enumerate(tops)]
                i = tops[int(np.argmax(spans))][0]
                if not max(spans) > 0.0:
                    break
                (slot,) = gram.fetch(row[i : i + 1])
                j = partner(i, gram.store.row(slot)[row], diagonal, d, a, lo, group)
                move = exchange(i, j, float(gram.store.row(slot)[row[j]]), diagonal, d, a, lo, hi)
                chosen, moves = np.array([i, j]), np.array([move, -move])
            else:
                i, worst = alone(d, diagonal, a, lo, hi)
                if i < 0 or worst == 0.0:
                    break
                move, _ = move_both(i, i, diagonal[i], diagonal, d, a, lo, hi)
                chosen, moves = np.array([i]), np.array([move])
            gram.update(s.f, gram.fetch(row[chosen]), moves)
            d = t - s.f[row]
        s.gap = problem.box.gap(s.f[row], a, problem.floor)
        coef = problem.coefficients(a)
        s.model = Model(coef, problem.as_bias(problem.box.best_offsets(s.f[row])))
        if s.gap <= self.gap:
            found = problem.evaluate(a)
            hidden = found.gap > self.gap and found.exact_gap(problem.box) < HIDDEN * found.gap
            if hidden and gram.in_double_precision():
                found = problem.evaluate(a)
            s.f, s.gap = found.seen.z.copy(), found.gap
        asked, computed = gram.asked - asked, gram.computed - computed
        s.work = s.work.plus(Work(asked / gram.n**2, 0, asked, computed))
        return s

    def view(self, problem: KernelProblem, s: State) -> Iterate:
        """The dual point and the model that it stands for."""
        return Iterate(s.model, s.a, s.work, s.gap)
