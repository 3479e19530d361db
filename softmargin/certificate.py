"""How far a model is from the best one: a proven bound, recomputed in float64 from the problem and the model alone.

Any model bounds the optimum from above, any feasible dual point from below, so good ones may be chosen freely: the best
bias for the given weights, the dual point moved into its box and balanced. Nothing that a solver says about its own
progress enters.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from softmargin.losses import EpsilonInsensitive, Hinge
from softmargin.problem import Iterate, Model, Problem, Work


class Certificate(NamedTuple):
    """A proven interval: the optimum of the problem is at least `dual`, the model's objective is `primal`."""

    primal: float
    dual: float
    work: Work = Work()
    floor: float = 0.0  # the smallest objective that float64 can tell from zero in this problem

    @property
    def gap(self) -> float:
        """The objective is at most so much above the optimum. (A primal below the dual is rounding, of that size.)"""
        return abs(self.primal - self.dual)

    @property
    def relative_gap(self) -> float:
        """The gap as a fraction of the dual objective, whatever its sign (or of `floor`, where the optimum is zero)."""
        if self.gap == 0.0:
            return 0.0
        known = np.isfinite(self.dual) and (self.dual != 0.0 or self.gap <= self.floor)
        return self.gap / max(abs(self.dual), self.floor) if known else np.inf

    def __str__(self) -> str:
        return f"objective {self.primal:.7g}, at most {self.relative_gap:.1e} (relative) above the optimum"


class Certified(NamedTuple):
    """A certificate with the model and the dual point that prove it."""

    certificate: Certificate
    model: Model
    a: Any


ROUNDING = 1e-12  # the share of the zero model's objective that counts as zero
NOISE = 1e-9  # how far the primal may seem to be below the dual, in units of what is summed up for them
BIAS_ACCURACY = 1e-8  # how far the objective may stay above its best over the bias, in units of Σ c


@singledispatch
def prove(problem: Any, iterate: Iterate) -> Certified:
    """The certificate of an iterate, with the model and the dual point behind it."""
    raise TypeError(f"{type(problem).__name__} is not a problem: pass for example Problem.of(X, y)")


@prove.register
def _(problem: Problem, iterate: Iterate) -> Certified:
    model = Model(iterate.model.w, 0.0 if problem.bias == "none" else iterate.model.b)
    # zero is always feasible, and all that is known without a candidate
    candidate = np.zeros(problem.n) if iterate.a is None else feasible(problem, iterate.a)
    z, image = problem.scores_and_image(Model(model.w), candidate)
    if problem.bias == "free":
        model = Model(model.w, best_bias(problem, z, model.b))
    primal = problem.primal(model, z + model.b if model.b else z)
    if not np.isfinite(primal):
        raise ValueError(
            "the objective is not a finite number: the features or weights are too large for float64; scale them"
        )
    at_zero = float(problem.c @ problem.loss.value(problem.y, np.zeros(problem.n)))
    if primal > at_zero:  # a model worse than none at all
        model = Model(np.zeros_like(model.w))
        if problem.bias == "free":
            model = Model(model.w, best_bias(problem, np.zeros(problem.n), 0.0))
        primal = problem.primal(model)
    floor = ROUNDING * at_zero
    dual = problem.dual(candidate, image)
    a, dual = (candidate, dual) if dual > 0.0 else (np.zeros(problem.n), 0.0)
    if primal - dual < -NOISE * (primal + float(np.abs(a * problem.y).sum())) - floor:
        raise ArithmeticError(
            f"the primal objective {primal!r} is below the dual one {dual!r}: "
            "the data hold values so different in size that float64 sums cannot certify them; scale the features"
        )
    return Certified(Certificate(primal, dual, iterate.work, floor), model, a)


def feasible(problem: Problem, a: Any) -> Any:
    """The dual point moved into its box, and balanced by scaling the heavier side down where the bias is free."""
    a = problem.loss.nearest(problem.y, np.asarray(a, np.float64), problem.c)
    if problem.bias == "free":
        up, down = float(a[a > 0.0].sum()), -float(a[a < 0.0].sum())
        a = a * np.where(a > 0.0, min(1.0, down / up) if up else 1.0, min(1.0, up / down) if down else 1.0)
    return a


def best_bias(problem: Problem, z: Any, guess: float) -> float:
    """The bias that is best for the scores z without it: where the slope, which never falls, changes its sign."""
    loss, y, c, at, settled = problem.loss, problem.y, problem.c, z, 0.0
    total, slopes_low = float(c.sum()), loss.slope(y, z + guess)
    here = float(c @ slopes_low)
    if here == 0.0:
        return guess
    reach = -np.sign(here) * 1e-3
    low, high = guess, guess + reach
    while float(c @ (slopes_high := loss.slope(y, at + high))) * here > 0.0:
        low, high, reach, slopes_low = high, high + 4.0 * reach, 4.0 * reach, slopes_high
        here = float(c @ slopes_low)
    while abs(here) * abs(high - low) > BIAS_ACCURACY * total:
        moving = slopes_low != slopes_high  # between low and high the others' slope is what it is at both ends
        if 2 * np.count_nonzero(moving) < len(c):
            settled += float(c[~moving] @ slopes_low[~moving])
            y, c, at, slopes_low, slopes_high = (v[moving] for v in (y, c, at, slopes_low, slopes_high))
        middle = 0.5 * (low + high)
        if middle in (low, high):  # no float lies between
            break
        slopes = loss.slope(y, at + middle)
        at_middle = settled + float(c @ slopes)
        if at_middle * here > 0.0:
            low, here, slopes_low = middle, at_middle, slopes
        else:
            high, slopes_high = middle, slopes
    return _nearest_kink(problem, z, low, high)


def _nearest_kink(problem: Problem, z: Any, low: float, high: float) -> float:
    """The bias between the two at which the loss of a row bends, if that is better than `low`: then it is exact."""
    if not isinstance(problem.loss, Hinge | EpsilonInsensitive):
        return low
    width = getattr(problem.loss, "epsilon", 0.0)
    kinks = np.concatenate([problem.y - z - width, problem.y - z + width])
    kinks = kinks[(kinks >= min(low, high)) & (kinks <= max(low, high))]
    candidates = [low, *kinks[: len(kinks) // 2 + 1][-1:]]
    return float(min(candidates, key=lambda b: float(problem.c @ problem.loss.value(problem.y, z + b))))
