"""Certificates of kernel machines: `certificate.prove` for the two problems of `kernel_problem`.

Every kernel value behind them is computed anew, for the final model and its dual point alone: nothing that a solver
keeps enters. Scores in single precision are checked against double precision on some rows, and what they are wrong by
counts against the model and against the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softmargin.certificate import NOISE, ROUNDING, Certificate, Certified
from softmargin.certificate import prove as prove
from softmargin.kernel_problem import KernelProblem, SlackProblem
from softmargin.problem import Iterate, Model
from softmargin.water import fill


@prove.register
def _(problem: KernelProblem, iterate: Iterate) -> Certified:
    box, gram = problem.box, problem.gram
    a = box.nearest(np.zeros(problem.n) if iterate.a is None else np.asarray(iterate.a, np.float64))
    found = problem.evaluate(a)
    primal, dual = found.primal, found.dual
    model = Model(found.scale * found.seen.coef, problem.as_bias(found.beta))
    if not np.isfinite(primal):
        raise ValueError("the objective is not a finite number: the kernel's values or C are too large; scale them")
    known = (found.seen.coef, found.scale * found.seen.coef)
    if iterate.model.w.any() and not any(np.array_equal(iterate.model.w, w) for w in known):
        primal, model = min((primal, model), _other(problem, iterate.model.w), key=lambda known: known[0])
    floor = problem.floor
    if gram.definite and not box.totals.any():  # then zero is feasible, and no model needs to be worse
        beta = box.best_offsets(np.zeros(problem.n))
        at_zero = box.primal(0.0, np.zeros(problem.n), beta)
        if primal > at_zero:
            primal, model = at_zero, Model(np.zeros(gram.n), problem.as_bias(beta))
        if dual <= 0.0:
            a, dual = np.zeros(problem.n), 0.0
    noise = (NOISE + KERNEL_NOISE * (not gram.fine)) * (abs(primal) + float(np.abs(a * box.t).sum())) + floor
    if primal - dual < -noise and gram.definite:
        gram.definite = False  # no inner product does that
    return Certified(Certificate(primal, dual if gram.definite else -np.inf, iterate.work, floor), model, a)


KERNEL_NOISE = 1e-5  # the same as NOISE, for values in single precision


def _other(problem: KernelProblem, w: Any) -> tuple[float, Model]:
    """The objective of a model that is not the image of the dual point, at its best scale and bias."""
    seen = problem.look(w)
    square = seen.square + seen.blur * float(np.linalg.norm(w))
    scale, beta, primal = problem.box.best_model(square, seen.z[problem.box.row], seen.blur)
    return primal, Model(scale * w, problem.as_bias(beta))


@prove.register
def _(problem: SlackProblem, iterate: Iterate) -> Certified:
    """The objectives are minus the margin and minus its upper bound: the best margin lies between them."""
    gram, y, volume = problem.gram, problem.y, problem.n * problem.slack
    rows = problem.penalised()
    level, model = 0.0, Model(np.zeros(problem.n))
    if iterate.model.w.any():
        seen = rows.look(np.asarray(iterate.model.w, np.float64))
        length = np.sqrt(max(seen.square + seen.blur * float(np.linalg.norm(seen.coef)), 1e-300))
        found = fill((y * seen.z - seen.blur) / length, y, volume, problem.bias == "free")
        scale = 1.0 / found.level if found.level > 0.0 else 1.0
        level, model = found.level, Model(seen.coef * (scale / length), found.bias * scale)
    p = _distribution(problem, iterate.a)
    against = rows.look(y * p)
    length = np.sqrt(max(against.square + against.blur * float(np.linalg.norm(p)), 0.0))
    bound = float(length + volume * p.max())
    return Certified(
        Certificate(-level, -bound if gram.definite else -np.inf, iterate.work, ROUNDING * bound), model, p
    )


def _distribution(problem: SlackProblem, p: Any) -> Any:
    """The candidate as a distribution, half of it on each class where the bias is free."""
    p = np.ones(problem.n) if p is None else np.maximum(np.asarray(p, np.float64), 0.0)
    if problem.bias != "free":
        return p / p.sum() if p.any() else np.full(problem.n, 1.0 / problem.n)
    for side in (problem.y > 0, problem.y < 0):
        part = p[side] if p[side].any() else np.ones(np.count_nonzero(side))
        p[side] = 0.5 * part / part.sum()
    return p
