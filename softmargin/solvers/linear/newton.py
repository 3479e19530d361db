"""Semismooth Newton on the augmented Lagrangian (hinge, ε-insensitive), plain Newton (logistic, squared hinge).

    min over w, b of  ½‖w‖² + Σ cᵢ ℓ(yᵢ, ⟨w, xᵢ⟩ + b)

Y. Yan, Q. Li, "An efficient augmented Lagrangian method for support vector machine", 2020; D. Niu, C. Wang, P. Tang,
Q. Wang, E. Song, "A sparse semismooth Newton based augmented Lagrangian method for large-scale SVMs", 2019.
With multipliers a and a smoothing width δ the loss of a row becomes smooth, with derivative ``−reply``,

    reply(z) = step(y, z, a, q = δ / c, c):  for the hinge  y · clip(a y + c (1 − y z) / δ, 0, c),

and bends only on the few rows J strictly inside the box, so that a Newton step solves ``(I + Σ_J hᵢ xᵢ xᵢᵀ) p = −g``
over those rows alone (`system`). Once w is stationary, ``w = Σ reply x``: the replies are a dual point, they become
the multipliers, and δ shrinks. Smooth losses have δ = 0 and need no multipliers.

A step of this solver is one round of that: a pass over all rows, Newton steps (some three) over the rows near enough
to matter, a pass over all rows. Additions:

- Start: the same on a sample of an eighth of the rows, itself started from an eighth of that.
- Near rows: those whose reply could change if their score moved by `reach`. The others keep their reply; the line
  search between the old w and the new one is over all rows, so that a wrong guess costs time and nothing else.
- Free bias: one more unknown without regulariser, eliminated from each system.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from softmargin.losses import SMOOTH, bend, row_gap, step
from softmargin.problem import Iterate, Model, Problem, Work, relative
from softmargin.rows import entries, kernel, rmatvec, take
from softmargin.solvers.linear.system import Systems
from softmargin.solvers.support import Support

WIDE, WIDTH = 4.0, 1.0  # the first smoothing width in mean losses: from zero, or with known multipliers; from a model
NARROW, EASY = 0.25, 8  # the smoothing width shrinks to this after a stationary round, half as far after many steps
NEWTON_STEPS = 12  # in one round, at most
SMOOTH_STEPS = 2  # of a smooth loss, which has no multipliers to wait for
STATIONARY = 0.1  # the share of the gap that the gradient may make in a stationary point
ROUNDING = 1e-12  # the share of the objective below which the gradient's part of the gap is rounding
FINEST = 1e-12  # the smallest smoothing width, in largest targets
FLATTENED, LINE_STEPS = 0.1, 20  # a line search ends where the slope is so small a share of the first one
FLAT = 1e-14  # the share of the bends below which b has no curvature left
SAMPLE = 8  # the start uses one row in so many, if at least SMALLEST remain, and PER_FEATURE for each feature
SMALLEST, PER_FEATURE = 2000, 8
SAMPLE_GAP, SAMPLE_ROUNDS = 0.1, 6  # the sample is solved to this relative gap, in at most so many rounds
REACH = 1.5  # how far scores are taken to move in the next round, in largest moves of the last one
MOST = 0.7  # a larger share of near rows is as good as all
TRUSTED = 0.5  # a start with a larger relative gap brings its model only: such dual points mislead


@kernel
def replies(loss, y, z, a, q, c, out, h):
    """Every row's reply at its score, and how it bends; returns the sum of the row gaps at the reply."""
    gap = 0.0
    for i in range(np.uint64(len(y))):
        out[i] = step(loss, y[i], z[i], a[i], q[i], c[i])
        h[i] = bend(loss, y[i], out[i], q[i], c[i])
        gap += row_gap(loss, y[i], z[i], out[i], c[i])
    return gap


@kernel
def descent(loss, y, z, dz, t, a, q, c):
    """The part of the slope along z + t dz that the rows make."""
    slope = 0.0
    for i in range(np.uint64(len(y))):
        slope -= step(loss, y[i], z[i] + t * dz[i], a[i], q[i], c[i]) * dz[i]
    return slope


@kernel
def may_change(loss, y, z, reach, a, q, c, reply, out):
    """Marks the rows whose reply is not the present one for all scores within `reach`."""
    for i in range(np.uint64(len(y))):
        low = step(loss, y[i], z[i] - reach, a[i], q[i], c[i])
        out[i] = low != reply[i] or low != step(loss, y[i], z[i] + reach, a[i], q[i], c[i])


@dataclass
class State:
    """What a run knows between two steps."""

    w: Any
    b: float
    z: Any  # scores of all rows
    a: Any  # multipliers
    reply: Any  # a dual candidate: the replies of the last round
    pull: Any  # Σ reply x
    delta: float  # smoothing width, in scores; 0 for smooth losses
    reach: float  # how far scores may move in the next round
    gap: float  # primal minus dual
    work: Work


@dataclass(frozen=True)
class Newton:
    """Semismooth Newton on the augmented Lagrangian.

    Parameters
    ----------
    seed : int
        Of the sample that the start uses.
    """

    supports: ClassVar[Support] = Support(
        step="one product per Newton step over the near rows, and a small system",
        source="Yan & Li 2020; Niu et al. 2019",
    )
    seed: int = 0

    def init(self, problem: Problem, start: Iterate | None = None) -> State:
        """At zero, or at `start`; where rows are many, at the solution for a sample of them."""
        loss, y, c = problem.loss, problem.y, problem.c
        work, delta, width = _work(problem, 2 * problem.n), None, WIDE
        model, a = Model(np.zeros(problem.n_features), problem.central_bias()), loss.middle(y, c)
        if start is not None:
            model = start.model if problem.bias != "none" else Model(start.model.w)
            if start.a is not None and start.gap <= TRUSTED:
                a = loss.nearest(y, start.a, c)
            else:
                width = WIDTH
        elif problem.n // SAMPLE >= max(SMALLEST, PER_FEATURE * problem.n_features):
            sample = self._solve_sample(problem)
            model, delta = Model(sample.w, sample.b), sample.delta
            work = work.plus(sample.work, 1 / SAMPLE)
        z = problem.scores(model)
        if delta is None:
            mean = max(float(c @ loss.value(y, z) / c.sum()), 1e-3)
            delta = 0.0 if isinstance(loss, SMOOTH) else width * mean
        pull = np.zeros_like(model.w)
        state = State(model.w.copy(), model.b, z, a, np.zeros(problem.n), pull, delta, np.inf, 0, work)
        self._reply(problem, state)
        return state

    def _solve_sample(self, problem: Problem) -> State:
        chosen = np.random.default_rng(self.seed).choice(problem.n, problem.n // SAMPLE, replace=False)
        part = problem.only(np.sort(chosen))
        part = replace(part, c=part.c * (problem.c.sum() / part.c.sum()))
        state = self.init(part)
        for _ in range(SAMPLE_ROUNDS):
            if state.gap <= SAMPLE_GAP * part.primal(Model(state.w, state.b), state.z):
                break
            state = self.step(part, state)
        return state

    def step(self, problem: Problem, s: State) -> State:
        """One round: Newton steps over the rows near enough to matter, then a line search over all."""
        q = s.delta / problem.c
        near = np.ones(problem.n, np.bool_)
        if np.isfinite(s.reach):
            may_change(problem.loss, problem.y, s.z, s.reach, s.a, q, problem.c, s.reply, near)
        S = np.flatnonzero(near) if near.mean() < MOST else slice(None)
        noise = ROUNDING * problem.primal(Model(s.w, s.b), s.z)
        model, z_near, steps, visits = self._newton_steps(problem.only(S), s, s.z[S], s.a[S], s.reply[S], noise)
        before, old = s.z, Model(s.w, s.b)
        if isinstance(S, slice):
            s.w, s.b, s.z = model.w, model.b, z_near
        else:
            z = problem.scores(model)
            move = Model(model.w - s.w, model.b - s.b)
            t = _line_search(problem, old, move, s.z, z - s.z, s.a, 0.0, s.delta, most=1.0)
            s.w, s.b, s.z = s.w + t * move.w, s.b + t * move.b, z if t == 1.0 else s.z + t * (z - s.z)
            visits += problem.n
        moved, old_reply = float(np.abs(s.z - before).max(initial=0.0)), s.reply
        off = self._reply(problem, s)
        s.work = s.work.plus(_work(problem, visits + int(np.count_nonzero(s.reply != old_reply))))
        if off <= 2 * STATIONARY * s.gap + noise or isinstance(problem.loss, SMOOTH):
            s.a, s.reach = s.reply.copy(), max(REACH * moved, s.delta)
            s.delta = max(s.delta * (NARROW if steps <= EASY else NARROW**0.5), self._finest(problem))
        else:
            s.reach = 2 * max(s.reach, moved)
        return s

    def view(self, problem: Problem, s: State) -> Iterate:
        """The model, and the replies as dual candidate."""
        model = Model(s.w, s.b)
        dual = problem.primal(model, s.z) - s.gap
        return Iterate(model, s.reply, s.work, relative(s.gap, dual))

    def _finest(self, problem: Problem) -> float:
        """The smallest smoothing width that scores in float64 can feel."""
        return 0.0 if isinstance(problem.loss, SMOOTH) else FINEST * (float(np.abs(problem.y).max()) or 1.0)

    def _reply(self, problem: Problem, s: State) -> float:
        """Bring replies, pull and gap up to date with the scores; returns the gradient's part of the gap."""
        reply, bends = np.empty(problem.n), np.empty(problem.n)
        gap = replies(problem.loss, problem.y, s.z, s.a, s.delta / problem.c, problem.c, reply, bends)
        s.pull += problem.image(reply - s.reply)
        s.reply = reply
        off = _off(problem, Model(s.w, s.b), s.pull, float(reply.sum()))
        s.gap = gap + off
        return off

    def _newton_steps(
        self, part: Problem, s: State, z: Any, a: Any, reply: Any, noise: float
    ) -> tuple[Model, Any, int, int]:
        """Newton steps over the rows of `part`, all others keeping their reply, until w is stationary.

        Returns the model, the scores of `part`, and how many steps and visits of rows there were.
        """
        loss, y, c, rows, d = part.loss, part.y, part.c, part.rows, part.n_features
        q, w, b, pull, total = s.delta / c, s.w, s.b, s.pull.copy(), float(s.reply.sum())
        systems, bends, steps, visits = Systems(d, part.n_jobs), np.empty(part.n), 0, 0
        for _ in range(SMOOTH_STEPS if isinstance(loss, SMOOTH) else NEWTON_STEPS):
            new = np.empty(part.n)
            gap = replies(loss, y, z, a, q, c, new, bends)
            pull += part.image(new - reply)
            visits += int(np.count_nonzero(new != reply))
            total, reply = total + float((new - reply).sum()), new
            if _off(part, Model(w, b), pull, total) <= STATIONARY * gap + noise:
                break
            J = np.flatnonzero(bends > 0.0)
            p, pb = _direction(part, Model(w, b), pull, total, take(rows, J), bends[J], systems, s.delta)
            dz = part.scores(Model(p, pb))
            kept = pull @ p + total * pb - reply @ dz  # what the rows outside `part` add to the slope
            t = _line_search(part, Model(w, b), Model(p, pb), z, dz, a, kept, s.delta)
            w, b, z, steps, visits = w + t * p, b + t * pb, z + t * dz, steps + 1, visits + part.n
        return Model(w, b), z, steps, visits + systems.visits


def _work(problem: Problem, visits: int) -> Work:
    """So many visits of rows, of average length."""
    return Work(visits / problem.n, round(visits * entries(problem.rows) / problem.n))


def _bias_slope(problem: Problem, b: float, total: float) -> float:
    """The derivative of the objective with respect to the bias."""
    return 0.0 if problem.bias == "none" else (b / problem.rho2 if problem.rho2 else 0.0) - total


def _off(problem: Problem, model: Model, pull: Any, total: float) -> float:
    """How much of the gap comes from the gradient not being zero."""
    g, gb = model.w - pull, _bias_slope(problem, model.b, total)
    return float(0.5 * (g @ g) + 0.5 * problem.rho2 * gb * gb) + problem.imbalance(model.b, total)


def _direction(
    problem: Problem, model: Model, pull: Any, total: float, rows: Any, h: Any, systems: Systems, delta: float
) -> tuple[Any, float]:
    """The Newton direction for w and b; where nothing bends, b moves by the smoothing width."""
    slope = pull - model.w
    if problem.bias == "none":
        return systems.solve(rows, h, slope)[0], 0.0
    coupling = rmatvec(rows, h, problem.n_features)  # between w and b
    systems.visits += len(h)
    p, v = systems.solve(rows, h, slope, coupling)
    curvature = float(h.sum() - coupling @ v) + (1 / problem.rho2 if problem.rho2 else 0.0)
    downhill = -(_bias_slope(problem, model.b, total) + float(coupling @ p))
    pb = downhill / curvature if curvature > FLAT * h.sum() else delta * float(np.sign(downhill))
    return p - pb * v, pb


def _line_search(
    problem: Problem, at: Model, move: Model, z: Any, dz: Any, a: Any, kept: float, delta: float, most: float = 1e6
) -> float:
    """A step at which the slope of the smoothed objective along `move` has nearly vanished."""
    q = delta / problem.c
    start, bend_ = float(at.w @ move.w) - kept, float(move.w @ move.w)
    if problem.rho2:
        start, bend_ = start + at.b * move.b / problem.rho2, bend_ + move.b**2 / problem.rho2

    def slope(t: float) -> float:
        return start + t * bend_ + float(descent(problem.loss, problem.y, z, dz, t, a, q, problem.c))

    low, high, at_low, at_high = 0.0, 1.0, slope(0.0), slope(1.0)
    enough = FLATTENED * abs(at_low)
    if abs(at_high) <= enough or at_low >= 0.0:  # the latter only by rounding, very near the optimum
        return 1.0
    while at_high < 0.0 and high < most:
        low, at_low, high = high, at_high, 4.0 * high
        at_high = slope(high)
    if at_high < 0.0:
        return high
    t = high
    for _ in range(LINE_STEPS):
        t = low - at_low * (high - low) / (at_high - at_low)
        t = min(max(t, low + 0.1 * (high - low)), high - 0.1 * (high - low))
        here = slope(t)
        if abs(here) <= enough:
            break
        if here < 0.0:
            low, at_low = t, here
        else:
            high, at_high = t, here
    return float(t)
