"""Dual coordinate descent: for one row at a time, the best dual variable given all the others.

    max over a of  Σ gain(yᵢ, aᵢ, cᵢ) − ½‖w(a)‖²,   w(a) = Σ aᵢ xᵢ

C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent method for large-scale
linear SVM", ICML 2008, Algorithm 1 (and Yu, Huang, Lin 2011 for the logistic loss; Ho, Lin 2012 for regression).
A step costs two passes over the entries of one row: ``z = ⟨w, x⟩`` and ``w += (new − a) x``. Deviations:

- Order: blocks of 16 neighbouring rows in random order. As few passes as a full permutation needs, in place, and the
  memory is read in stretches. (Blocks of 256 need three times the passes: neighbours meet too regularly.)
- Shrinking: a row whose variable did not move rests, twice as long each time, at most `REST` passes; and at most `REST`
  passes more, while w has not moved far enough for its score to reach the point where the variable would move.
  Nothing has to be undone at the end, as every row comes back by itself.
- Relaxation: a step goes 1.2 times as far as the best one, which saves up to a third of the passes to tight gaps.
- Free bias: proximal point on b alone. The bias is a feature of size ρ whose weight is measured from a centre, and
  the centre moves to the bias found after each pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin.losses import gain, row_gap, slack, step
from softmargin.problem import Iterate, Model, Problem, Work, relative
from softmargin.rows import kernel, row_axpy, row_dot, row_prefetch, squared_norms
from softmargin.solvers.support import Support

NEIGHBOURS = np.uint64(16)
REST = 15
CALM = 10.0  # a score is taken to move so many times less than w's path would allow it; √features where that is less
FEW = 8  # fewer than one row in so many are visited in any order, more of them by blocks
SCAN = 8  # when few rows are awake, only every so many passes look for others whose rest has ended
RELAXATION = 1.2  # below 2, so that every step still gains
PROXIMAL = 0.03  # the squared size of the bias feature that frees the bias, in mean squared lengths of the rows
SMALLEST = 1e-300  # stands for the squared length of an empty row
FAR = 1 << 24  # bytes of data above which the next rows are asked for ahead of their turn


class Rest(NamedTuple):
    """When every row is visited next."""

    due: Any  # in this pass,
    far: Any  # or, at most REST passes later, when w has drifted so far
    wait: Any  # how many passes the row rested last

    @classmethod
    def none(cls, n: int) -> Rest:
        """All rows are due."""
        return cls(np.zeros(n, np.int32), np.zeros(n), np.zeros(n, np.uint8))


@kernel
def by_blocks(blocks, chosen, visits):
    """The chosen rows, block by block; returns how many."""
    n, count = np.uint64(len(chosen)), np.uint64(0)
    for block in blocks:
        first = np.uint64(block) * NEIGHBOURS
        for i in range(first, min(n, first + NEIGHBOURS)):
            visits[count] = i
            count += np.uint64(chosen[i])
    return count


@kernel
def sweep(loss, rows, y, c, q, visits, now, drift, a, rest, gaps, w, bias, rho2, ahead):
    """One pass over the rows of `visits`, keeping the row gaps met; returns the gain made, Σ ‖moves‖², entries read."""
    n, accesses, gained, moved = np.uint64(len(visits)), np.uint64(0), 0.0, 0.0
    calm, centre, total = min(CALM, np.sqrt(len(w))), bias[0], bias[1]
    for k in range(n):
        if ahead > 0 and k + ahead < n:
            row_prefetch(rows, visits[k + ahead])
        i = visits[k]
        z, old = row_dot(rows, i, w) + centre + rho2 * total, a[i]
        gaps[i] = row_gap(loss, y[i], z, old, c[i])
        new = step(loss, y[i], z, old, q[i], c[i])
        if new == old:
            rest.wait[i] = min(2 * rest.wait[i] + 1, REST)
            rest.far[i] = drift + calm * slack(loss, y[i], z) / np.sqrt(q[i])
        else:
            rest.wait[i], rest.far[i] = 0, drift
            gained += gain(loss, y[i], new, c[i]) - gain(loss, y[i], old, c[i])
            moved += (new - old) ** 2 * q[i]
            a[i] = new
            total += new - old
            row_axpy(new - old, rows, i, w)
            accesses += rows.stop[i] - rows.start[i]
        rest.due[i] = now + 1 + rest.wait[i]
        accesses += rows.stop[i] - rows.start[i]
    bias[1] = total
    return gained, moved, accesses


@dataclass
class State:
    """What a run knows between two passes."""

    w: Any
    a: Any
    q: Any  # squared length of the rows, bias feature included, over the relaxation
    bias: Any  # the centre of b, and Σ a
    pull: float  # squared size of the bias feature
    rest: Rest
    drift: float  # about how long the path of w was
    gaps: Any  # the row gaps when the rows were last visited
    gained: float  # Σ gain
    now: int
    rng: np.random.Generator
    work: Work


@dataclass(frozen=True)
class DualDescent:
    """Dual coordinate descent.

    Parameters
    ----------
    seed : int
        Of the order in which rows are visited.
    """

    supports: ClassVar[Support] = Support(step="two passes over the entries of a row", source="Hsieh et al., ICML 2008")
    seed: int = 0

    def init(self, problem: Problem, start: Iterate | None = None) -> State:
        """At zero, or at the dual point of `start`."""
        a, w = np.zeros(problem.n), np.zeros(problem.n_features)
        bias = np.array([problem.central_bias(), 0.0])
        if start is not None and start.a is not None:
            a = problem.loss.nearest(problem.y, start.a, problem.c)
            w = problem.image(a)
            bias[:] = start.model.b if problem.bias == "free" else 0.0, a.sum()
        q = squared_norms(problem.rows, problem.n_jobs)
        pull = PROXIMAL * (float(q.mean()) or 1.0) if problem.bias == "free" else problem.rho2
        q = np.maximum(q + pull, SMALLEST) / RELAXATION
        rng = np.random.default_rng(self.seed)
        gaps, gained = np.full(problem.n, np.inf), float(problem.loss.gain(problem.y, a, problem.c).sum())
        return State(w, a, q, bias, pull, Rest.none(problem.n), 0.0, gaps, gained, 0, rng, Work())

    def step(self, problem: Problem, s: State) -> State:
        """Passes over the rows that do not rest, until they add up to half of all rows."""
        loss, rows, y, c = problem.loss, problem.rows, problem.y, problem.c
        ahead = np.uint64(2 if rows.data.nbytes > FAR else 0)
        visited, read, visits = 0, 0, np.empty(0, np.uint64)
        while 2 * visited < problem.n:
            if s.now % SCAN and 0 < FEW * len(visits) < problem.n:
                visits = s.rng.permutation(visits[s.rest.due[visits] <= s.now])
            else:
                visits = _order(s)
            made = sweep(loss, rows, y, c, s.q, visits, s.now, s.drift, s.a, s.rest, s.gaps, s.w, s.bias, s.pull, ahead)
            gained, moved, accesses = made
            s.gained, visited, read = s.gained + gained, visited + len(visits), read + int(accesses)
            if problem.bias == "free":
                s.bias[0] += s.pull * s.bias[1]
                moved += CALM**2 * s.pull * s.bias[1] ** 2  # the bias moves every score alike
            s.drift += float(np.sqrt(moved))
            s.now += 1
        s.work = s.work.plus(Work(visited / problem.n, read))
        return s

    def view(self, problem: Problem, s: State) -> Iterate:
        """The model and the dual point, of which it is the exact image."""
        b = s.bias[0] if problem.bias == "free" else s.pull * s.bias[1]
        dual = s.gained - 0.5 * float(s.w @ s.w + problem.rho2 * s.bias[1] ** 2)
        gap = float(s.gaps.sum()) + problem.imbalance(float(b), float(s.bias[1]))
        return Iterate(Model(s.w, float(b)), s.a, s.work, relative(gap, dual))


def _order(s: State) -> Any:
    """The rows that do not rest, in the order of their visit: by blocks where they are many."""
    due, far, _ = s.rest
    chosen = (due <= s.now) & ((far <= s.drift) | (due <= s.now - REST))
    n, count = len(due), np.count_nonzero(chosen)
    if FEW * count < n:
        return s.rng.permutation(np.flatnonzero(chosen)).view(np.uint64)
    visits = np.empty(n + 1, np.uint64)
    return visits[: by_blocks(s.rng.permutation(-(-n // int(NEIGHBOURS))), chosen, visits)]
