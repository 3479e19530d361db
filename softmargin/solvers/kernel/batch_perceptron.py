"""The Stochastic Batch Perceptron: stochastic gradient steps on the slack-constrained problem.

    max over ‖w‖ ≤ 1, b of f(w, b):  the water level γ with  Σ max(0, γ − yᵢ (⟨w, φ(xᵢ)⟩ + b)) = n ν

A. Cotter, S. Shalev-Shwartz, N. Srebro, "The Kernelized Stochastic Batch Perceptron", ICML 2012, section 3.4. A round:

1. find the water level, and p*, uniform on the examples below it (`water`; with a bias on as many of each class);
2. draw j from p*;
3. ``w ← w + η_t y_j φ(x_j)`` with ``η_t = 1/√t``, then back into the ball ``‖w‖ ≤ 1``.

The model is the average of all w (on a penalised problem, of the last window). An index costs n kernel evaluations, and
a round O(n) besides. Deviations:

- Blocks: k indices are drawn from one p*, so that their rows come from one matrix product, but no
  more than are under water; t counts indices. Where the
  bias is free, half of them are drawn from each class.
- Kernels need not have K(x, x) ≤ 1: steps are divided by the largest ``‖φ(x)‖``, which is the same as dividing K.
- A dual point, which the paper does not have: the mean of p* over a window of the run that doubles. It bounds the best
  margin by ``‖Σ pᵢ yᵢ φ(xᵢ)‖ + n ν maxᵢ pᵢ``, and answers the paper's open question of when to stop.
- On a penalised problem ν is not known. It begins at `FIRST_SLACK` and follows the model at the end of each window
  (`_followed`), to ``mean loss / ‖w‖`` of the penalised optimum, which is how the paper sets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.kernel_problem import KernelProblem, SlackProblem
from softmargin.losses import Hinge
from softmargin.problem import Iterate, Model, Work
from softmargin.solvers.support import Support
from softmargin.water import fill

WINDOW = 256  # indices in the first window
FIRST_SLACK = 0.1  # ν before anything is known
NEAR, FOLLOW = 1.0, 0.7  # log C is near when off by less; then log ν goes so far of the way
TINY = 1e-6  # the scale below which the numbers behind it are made small again


@dataclass
class State:
    """What a run knows between two steps."""

    v: Any  # w = scale · Σ v y φ(x)
    scale: float
    r: Any  # responses y ⟨w, φ(x)⟩ / scale
    square: float  # ‖w‖²
    sums: float  # the sum of all w is Σ (sums · v + rest) y φ(x): an average costs nothing but the steps' own indices
    rest: Any
    b: float  # the sum of all biases
    r_sum: Any  # and of all responses
    since: int  # where the sums begin: at zero; on a penalised problem, at the beginning of this window,
    before: Any  # and these are the means of the last one
    b_before: float
    p: Any  # the sum of p* over this window,
    p_before: Any  # and the last one
    slack: float  # ν
    t: int
    window_ends: int
    rng: np.random.Generator
    work: Work


@dataclass(frozen=True)
class BatchPerceptron:
    """The Stochastic Batch Perceptron.

    Parameters
    ----------
    block : int
        Indices drawn in a round; 1 is the paper's algorithm.
    seed : int
        Of the draws.
    """

    supports: ClassVar[Support] = Support(
        losses=(Hinge,),
        biases=("none", "free"),
        problems=("slack", "kernel"),
        step="a kernel row for each index drawn, about n/8 of them",
        source="Cotter, Shalev-Shwartz & Srebro, ICML 2012",
    )
    block: int = 16
    seed: int = 0

    def init(self, problem: SlackProblem | KernelProblem, start: Iterate | None = None) -> State:
        """At zero."""
        if isinstance(problem, KernelProblem) and not problem.is_classification:
            raise ValueError("BatchPerceptron trains classifiers with the hinge loss: choose another solver")
        if isinstance(problem, KernelProblem) and np.ptp(problem.c) > 0.0:
            raise ValueError("BatchPerceptron takes rows of equal weight: choose another solver, or no weights")
        n = problem.gram.n
        slack = problem.slack if isinstance(problem, SlackProblem) else FIRST_SLACK
        v, r, rest, r_sum, zero, p, before = (np.zeros(n) for _ in range(7))
        rng = np.random.default_rng(self.seed)
        return State(v, 1.0, r, 0.0, 0.0, rest, 0.0, r_sum, 0, zero, 0.0, p, before, slack, 0, WINDOW, rng, Work())

    def step(self, problem: SlackProblem | KernelProblem, s: State) -> State:
        """Rounds for an eighth of a pass."""
        gram, y, n = problem.gram, problem.y, problem.gram.n
        gram.focus(np.arange(n))
        computed, free = gram.computed, problem.bias == "free"
        radius = float(np.sqrt(gram.diagonal.max()))
        block = min(self.block, gram.capacity)
        indices = 0
        while indices < n / 8:
            level = fill(s.scale * s.r, y, n * s.slack, free)
            under = int(np.count_nonzero(level.under))
            draws = min(block, under)  # of the worst few, many draws would be one step too long
            s.p[level.under] += draws / under
            chosen = self._drawn(s.rng, level.under, y, draws, free)
            eta = 1.0 / (radius * s.scale * np.sqrt(s.t + 1.0 + np.arange(len(chosen))))
            s.t, indices = s.t + len(chosen), indices + len(chosen)
            different, back = np.unique(chosen, return_inverse=True)
            moves = np.bincount(back, weights=eta)
            self._move(problem, s, different, moves)
            s.sums += s.scale * len(chosen)
            s.b += level.bias * len(chosen)
            s.r_sum += s.scale * len(chosen) * s.r
            if s.t >= s.window_ends:
                s.p_before, s.p, s.window_ends = s.p, np.zeros(n), 2 * s.window_ends
                if isinstance(problem, KernelProblem):
                    s.slack = self._followed(problem, s)
                    s.before, s.b_before = self._average(s), s.b / (s.t - s.since)
                    s.sums, s.b, s.since, s.rest, s.r_sum = 0.0, 0.0, s.t, np.zeros(n), np.zeros(n)
        s.work = s.work.plus(Work(indices / n, 0, indices * n, gram.computed - computed))
        return s

    def _drawn(self, rng: np.random.Generator, under: Any, y: Any, block: int, free: bool) -> Any:
        """Indices from p*: uniform on those under water, where the bias is free half of them from each class."""
        if not free:
            return rng.choice(np.flatnonzero(under), block)
        sides = [np.flatnonzero(under & (y > 0)), np.flatnonzero(under & (y < 0))]
        both = [rng.choice(side, -(-block // 2)) for side in sides]
        return np.stack(both, axis=1).ravel()

    def _move(self, problem: SlackProblem | KernelProblem, s: State, different: Any, moves: Any) -> None:
        """``w += Σ moves y φ(x)`` and back into the ball, by rescaling."""
        gram, y = problem.gram, problem.y
        slots, signed = gram.fetch(different), moves * y[different]
        own = gram.store.square(slots, different) @ signed
        s.square += s.scale**2 * float(2.0 * moves @ s.r[different] + signed @ own)
        s.v[different] += moves
        s.rest[different] -= s.sums * moves
        change = np.zeros(gram.n)
        gram.update(change, slots, signed)
        s.r += y * change
        if s.square > 1.0:
            s.scale, s.square = s.scale / np.sqrt(s.square), 1.0
        if s.scale < TINY:
            s.v *= s.scale
            s.r *= s.scale
            s.sums, s.scale = s.sums / s.scale, 1.0

    def _followed(self, problem: KernelProblem, s: State) -> float:
        """The ν to go on with: that of the mean model of this window at its best scale for C; once near, that of C.

        The optimum for ν is the penalised one for ``C = max p / (γ ‖Σ p y φ(x)‖)``; ``γ = ‖Σ p y φ(x)‖ + n ν max p``.
        """
        n, steps = problem.gram.n, s.t - s.since
        r, length = s.r_sum / steps, np.sqrt(max(float(self._average(s) @ s.r_sum) / steps, 1e-300))
        scale, beta, _ = problem.box.best_model(length**2, problem.y * r)
        loss = np.maximum(problem.box.shortfall(scale * problem.y * r, beta), 0.0)
        level = fill(r / length, problem.y, n * s.slack, problem.bias == "free").level
        most = float(s.p_before.max() / s.p_before.sum())
        rest = level * (level - n * s.slack * most)
        off = np.log(most / (rest * problem.c[0])) if rest > 0.0 else np.inf
        if abs(off) > NEAR:
            return float(loss.mean() / (scale * length)) if scale > 0.0 else 0.5 * s.slack
        return s.slack * float(np.exp(FOLLOW * off))

    @staticmethod
    def _average(s: State) -> Any:
        """The mean of all w, or of those since ν was last changed."""
        return (s.sums * s.v + s.rest) / max(s.t - s.since, 1)

    def view(self, problem: SlackProblem | KernelProblem, s: State) -> Iterate:
        """The average of all w, and the mean of p* over the last window or this one, whichever is longer."""
        y, ripe = problem.y, s.p.sum() >= s.p_before.sum()
        p = s.p if ripe else s.p + s.p_before
        average, b = (self._average(s), s.b / max(s.t - s.since, 1)) if ripe or not s.since else (s.before, s.b_before)
        if isinstance(problem, KernelProblem):
            p = y * p * (problem.c.max() / max(float(p.max()), 1e-300))
        return Iterate(Model(y * average, b), p, s.work)
