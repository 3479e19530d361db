"""The training problems of kernel machines, all one box-constrained quadratic program.

    max over a of  Σ tᵥ aᵥ − ½ ‖Σ aᵥ φ(x_row(v))‖²,   loᵥ ≤ aᵥ ≤ hiᵥ,   Σ_{v in group g} aᵥ = T_g

    min over w, β of  ½‖w‖² + Σ uᵥ max(0, ±(tᵥ − ⟨w, φ(x)⟩ − β_g)) + Σ_g T_g β_g

A variable's box is [0, u], whose loss counts scores below its target (sign +), or [−u, 0], for scores above it (−).
Without a bias there is no group: all β are zero. The familiar machines are rows of this table (n rows, weights c):

==============  =========================================  ===========================================
machine         variables: target, box                     groups and totals
==============  =========================================  ===========================================
SVC             y, [0, c] where y = 1, else [−c, 0]        one, T = 0: β is the bias
SVR             y − ε, [0, c] and y + ε, [−c, 0]           one, T = 0
OneClassSVM     0, [0, 1]                                  one, T = ν n: β is −ρ
NuSVC           0, [0, 1] where y = 1, else [−1, 0]        one a class, T = ± ν n / 2: β = b ∓ ρ
NuSVR           y, [0, c] and y, [−c, 0]                   one a side, T = ± ν Σc / 2: β = b ± ε
==============  =========================================  ===========================================

`SlackProblem` is the other scalarisation, of the Stochastic Batch Perceptron: ``max over ‖w‖ ≤ 1, b of f(w, b)``, where
f is the level γ with ``Σ max(0, γ − yᵢ (⟨w, φ(xᵢ)⟩ + b)) = n ν``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from softmargin import validate
from softmargin.gram import Gram
from softmargin.kernels import Kernel, named
from softmargin.problem import Bias, Model, Schedule


class Box(NamedTuple):
    """The quadratic program without its kernel; see the module's docstring."""

    row: Any
    t: Any
    lo: Any
    hi: Any
    group: Any
    totals: Any

    @property
    def u(self) -> Any:
        """The width of every box: the weight of the variable's loss."""
        return self.hi - self.lo

    def only(self, chosen: Any) -> Box:
        """The program of some variables, all others being zero."""
        row, t, lo, hi, group, totals = self
        return Box(row[chosen], t[chosen], lo[chosen], hi[chosen], group[chosen], totals)

    def offset(self, beta: Any) -> Any:
        """β of every variable."""
        return beta[self.group] if len(self.totals) else 0.0

    def shortfall(self, z: Any, beta: Any) -> Any:
        """How far every variable's score is on the wrong side of its target; negative on the right side."""
        return np.where(self.hi > 0.0, 1.0, -1.0) * (self.t - z - self.offset(beta))

    def primal(self, square: float, z: Any, beta: Any) -> float:
        """The primal objective, from ‖w‖² and the score without β of every variable."""
        return float(
            0.5 * square + self.u @ np.maximum(self.shortfall(z, beta), 0.0) + (self.totals @ beta if len(beta) else 0)
        )

    def dual(self, square: float, a: Any) -> float:
        """The dual objective, from ‖Σ a φ(x)‖²."""
        return float(self.t @ a - 0.5 * square)

    def best_offsets(self, z: Any) -> Any:
        """The β that are best for these scores: the slope of the loss in β rises by u at every kink t − z."""
        beta = np.zeros(len(self.totals))
        for g, total in enumerate(self.totals):
            mine = slice(None) if len(self.totals) == 1 else self.group == g
            kinks, u, hi = (self.t - z)[mine], self.u[mine], self.hi[mine]
            order = np.argsort(kinks)
            climbed = np.cumsum(u[order])
            at = int(np.searchsorted(climbed, hi.sum() - total, side="left"))
            beta[g] = kinks[order[min(at, len(kinks) - 1)]]
        return beta

    def best_model(self, square: float, z: Any, blur: float = 0.0) -> tuple[float, Any, float]:
        """The scale and the β that are best for a vector, and their objective: where its slope changes sign.

        Scores that may be wrong by `blur` are taken to be, to the worse side.
        """
        sign = np.where(self.hi > 0.0, 1.0, -1.0)
        box = self._replace(t=self.t + sign * blur) if blur else self

        def at(scale: float) -> tuple[float, Any, float]:
            beta = box.best_offsets(scale * z)
            return scale, beta, box.primal(scale**2 * square, scale * z, beta)

        def slope(scale: float, beta: Any) -> float:
            wrong = box.shortfall(scale * z, beta) > 0.0
            return scale * square - float((box.u * sign * z)[wrong].sum())

        best = at(1.0)
        down = slope(1.0, best[1])
        if not down or not square > 0.0:
            return best
        step = -np.sign(down) * FINEST
        low, high = 1.0, 1.0 + step
        for _ in range(SCALES):
            here = at(high)
            best = min(best, here, key=lambda found: found[2])
            if slope(high, here[1]) * down <= 0.0 or here[2] > best[2]:
                break
            step *= NEARER
            low, high = high, max(high + step, 0.0)
        for _ in range(SCALES // 2):
            middle = 0.5 * (low + high)
            here = at(middle)
            best = min(best, here, key=lambda found: found[2])
            low, high = (middle, high) if slope(middle, here[1]) * down > 0.0 else (low, middle)
        return best

    def gap(self, z: Any, a: Any, floor: float, enough: float = 0.0) -> float:
        """The relative gap of a dual point whose variables have the scores z, at the best scale of its model.

        The scale is not looked for where the gap is enough without, or beyond hope.
        """
        square = float(a @ z)
        dual = self.dual(square, a)
        gap = _relative(self.primal(square, z, self.best_offsets(z)) - dual, dual, floor)
        if enough < gap < HOPELESS * enough or not enough:
            gap = _relative(self.best_model(square, z)[2] - dual, dual, floor)
        return gap

    def nearest(self, a: Any) -> Any:
        """The point moved into the boxes, and to the totals by scaling one side down, or one side's room."""
        a = np.clip(a, self.lo, self.hi)
        for g, total in enumerate(self.totals):
            mine = slice(None) if len(self.totals) == 1 else self.group == g
            off = float(a[mine].sum() - total)
            if abs(off) > BALANCED * float(np.abs(a[mine]).sum()):
                room = (a - self.lo if off > 0.0 else self.hi - a)[mine]
                a[mine] -= off * room / max(float(room.sum()), 1e-300)
        return np.clip(a, self.lo, self.hi)


def _relative(gap: float, dual: float, floor: float) -> float:
    """A gap as a fraction of the dual objective."""
    if gap == 0.0:
        return 0.0
    return abs(gap) / max(abs(dual), floor) if dual or abs(gap) <= floor else np.inf


class Seen(NamedTuple):
    """A vector ``w = Σ coef φ(x)`` seen from the data."""

    coef: Any
    z: Any  # scores of all rows, without β
    square: float  # ‖w‖²
    blur: float  # how wrong a score may be: some standard deviations of what was measured


class Evaluation(NamedTuple):
    """A dual point, the best model on its ray, and their objectives."""

    seen: Seen
    scale: float
    beta: Any
    primal: float
    dual: float
    floor: float

    @property
    def gap(self) -> float:
        """The relative gap."""
        return _relative(self.primal - self.dual, self.dual, self.floor)

    def exact_gap(self, box: Box) -> float:
        """About the relative gap that it would be without rounding of the scores."""
        scale, z = self.scale, self.seen.z[box.row]
        primal = box.primal(scale**2 * self.seen.square, scale * z, self.beta)
        blur = self.seen.blur * float(np.linalg.norm(self.seen.coef))
        return _relative(primal - self.dual - 0.5 * blur, self.dual, self.floor)


SIGMAS = 3.0  # a score is taken to be wrong by so many standard deviations, always to the worse side
HOPELESS = 1e4  # a gap so many times too large is not closed by a better scale
FINEST, NEARER, SCALES = 1e-6, 8.0, 8  # the search for the best scale: its first step, how steps grow, how many
NOTHING, ROUNDING = 1e-4, 1e-12  # of the largest objective there could be: what counts as zero
BALANCED = 1e-9  # how far a sum may be from its total, in units of Σ|a|: rounding


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """A penalised kernel problem; see the module's docstring.

    >>> from softmargin import KernelProblem, solve
    >>> problem = KernelProblem.of([[0.0], [1.0], [3.0]], [-1, -1, 1], C=10.0, kernel="rbf", gamma=0.5)
    >>> solve(problem).certificate.relative_gap < 1e-3
    True
    """

    kind: ClassVar[str] = "kernel"
    schedule: ClassVar[Schedule] = Schedule(hope=1.0, first=30.0)
    gram: Gram
    box: Box
    c: Any
    y: Any
    bias: Bias = "free"
    _memo: list[Any] = field(default_factory=list)  # the last evaluation, for whoever asks again

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: float = 1.0,
        degree: float = 3,
        coef0: float = 0.0,
        epsilon: float | None = None,
        sample_weight: Any = None,
        bias: Bias = "free",
        bias_scale: float = 1.0,
        cache_size: float | None = None,
        n_jobs: int | None = -1,
    ) -> KernelProblem:
        """Classification with labels −1 and +1, or regression where `epsilon` is a number."""
        X, y = validate.matrix(X, y, y_numeric=True)
        chosen: Kernel = named(kernel, gamma=gamma, degree=degree, coef0=coef0)
        validate.choice("bias", bias, ("none", "free", "penalised"))
        constant = 0.0
        if bias == "penalised":
            validate.bias_scale("bias_scale", bias_scale, "it is the size of the feature that carries the bias")
            constant = bias_scale**2
        c, kept = validate.weights(C, sample_weight, X)
        gram = Gram(X, chosen, cache_size=cache_size, n_jobs=validate.jobs(n_jobs), constant=constant)
        if kept is not None:
            gram, y = gram.part(kept), y[kept]
        if epsilon is None:
            return classification(gram, validate.labels(y), c, bias)
        validate.not_negative("epsilon", epsilon, "errors up to this size cost nothing")
        return regression(gram, y.astype(np.float64), c, epsilon, bias)

    @property
    def n(self) -> int:
        """The number of dual variables."""
        return len(self.box.t)

    @property
    def n_weights(self) -> int:
        """The length of a model's coefficients: one for each row."""
        return self.gram.n

    @property
    def floor(self) -> float:
        """The smallest objective that counts as more than zero."""
        if self.box.totals.any():  # such an objective is ½‖w‖² of a w of this total
            return NOTHING * 0.5 * float(np.abs(self.box.totals).sum()) ** 2 * float(self.gram.diagonal.max())
        return ROUNDING * self.box.primal(0.0, np.zeros(self.n), self.box.best_offsets(np.zeros(self.n)))

    @property
    def is_classification(self) -> bool:
        """Whether this is C-SVC."""
        return self.y is not None and np.array_equal(self.box.t, self.y)

    def coefficients(self, a: Any) -> Any:
        """The weight of every row in ``w = Σ a φ(x)``."""
        if self.n == self.gram.n:
            return a
        return np.bincount(self.box.row, weights=a, minlength=self.gram.n)

    def primal(self, model: Model) -> float:
        """The primal objective of a model as it is."""
        seen = self.look(model.w)
        beta = np.atleast_1d(model.b) if len(self.box.totals) else np.zeros(0)
        return self.box.primal(seen.square, seen.z[self.box.row], beta)

    @staticmethod
    def as_bias(beta: Any) -> Any:
        """The bias of a model: zero, a number, or a number for each group."""
        return float(beta[0]) if len(beta) == 1 else beta if len(beta) else 0.0

    def look(self, coef: Any) -> Seen:
        """A vector's scores, from kernel values computed anew."""
        z = self.gram.scores(coef)
        return Seen(coef, z, float(coef @ z), SIGMAS * self.gram.rounding(coef, z))

    def evaluate(self, a: Any) -> Evaluation:
        """The objectives at a dual point in the box; rounding of the scores counts against both."""
        if self._memo and self._memo[0][1] == self.gram.fine and np.array_equal(self._memo[0][0], a):
            known: Evaluation = self._memo[0][2]
            return known
        seen = self.look(self.coefficients(a))
        blur = seen.blur * float(np.linalg.norm(seen.coef))
        z = seen.z[self.box.row]
        if self.gram.definite:
            scale, beta, primal = self.box.best_model(seen.square + blur, z, seen.blur)
        else:
            scale, beta = 1.0, self.box.best_offsets(z)
            primal = self.box.primal(seen.square, z, beta)
        found = Evaluation(seen, scale, beta, primal, self.box.dual(seen.square + blur, a), self.floor)
        self._memo[:] = [(a.copy(), self.gram.fine, found)]
        return found

    def marks(self) -> tuple[Any, ...]:
        """All that tells this problem from another: arrays, and a text."""
        return (*self.gram.marks(), *self.box, repr((self.gram.kernel, self.gram.constant, self.bias)))


def classification(gram: Gram, y: Any, c: Any, bias: Bias = "free") -> KernelProblem:
    """C-SVC."""
    box = Box(np.arange(len(y)), y, np.where(y < 0, -c, 0.0), np.where(y > 0, c, 0.0), *_groups(len(y), bias))
    return KernelProblem(gram, box, c, y, bias)


def regression(gram: Gram, y: Any, c: Any, epsilon: float, bias: Bias = "free") -> KernelProblem:
    """ε-SVR."""
    row, zero = np.tile(np.arange(len(y)), 2), np.zeros(len(y))
    t, lo, hi = np.concatenate([y - epsilon, y + epsilon]), np.concatenate([zero, -c]), np.concatenate([c, zero])
    return KernelProblem(gram, Box(row, t, lo, hi, *_groups(2 * len(y), bias)), c, y, bias)


def one_class(gram: Gram, c: Any, nu: float) -> KernelProblem:
    """The support of a distribution: at most a share ν of the weight outside."""
    n, totals = len(c), np.array([nu * c.sum()])
    return KernelProblem(gram, Box(np.arange(n), np.zeros(n), np.zeros(n), c, np.zeros(n, np.int64), totals), c, None)


def nu_classification(gram: Gram, y: Any, c: Any, nu: float) -> KernelProblem:
    """ν-SVC: at least a share ν of the weight are support vectors, at most so much margin errors."""
    half = 0.5 * nu * float(c.sum())
    box = Box(
        np.arange(len(y)),
        np.zeros(len(y)),
        np.where(y < 0, -c, 0.0),
        np.where(y > 0, c, 0.0),
        (y < 0).astype(np.int64),
        np.array([half, -half]),
    )
    return KernelProblem(gram, box, c, y)


def nu_regression(gram: Gram, y: Any, c: Any, nu: float) -> KernelProblem:
    """ν-SVR: the width of the tube is found, not given."""
    half, zero, n = 0.5 * nu * float(c.sum()), np.zeros(len(y)), len(y)
    lo, hi = np.concatenate([zero, -c]), np.concatenate([c, zero])
    group = np.repeat(np.arange(2), n)
    return KernelProblem(
        gram, Box(np.tile(np.arange(n), 2), np.tile(y, 2), lo, hi, group, np.array([half, -half])), c, y
    )


def _groups(n: int, bias: Bias) -> tuple[Any, Any]:
    return np.zeros(n, np.int64), np.zeros(1 if bias == "free" else 0)


# ---- the slack-constrained problem ----


@dataclass(frozen=True, eq=False)
class SlackProblem:
    """The best margin that a total slack of n ν allows; see the module's docstring.

    >>> from softmargin import SlackProblem, Stop, solve
    >>> problem = SlackProblem.of([[0.0], [1.0], [3.0]], [-1, -1, 1], slack=0.01, kernel="rbf", gamma=0.5)
    >>> solve(problem, stop=Stop(gap=0.05)).certificate.relative_gap <= 0.05
    True
    """

    kind: ClassVar[str] = "slack"
    schedule: ClassVar[Schedule] = Schedule(hope=1.0, first=4.0)
    gram: Gram
    y: Any
    slack: float
    bias: Bias = "free"

    @classmethod
    def of(cls, X: Any, y: Any, *, slack: float, **options: Any) -> SlackProblem:
        """A problem from data, with the options of `KernelProblem.of` but C, epsilon and weights."""
        validate.not_negative("slack", slack, "it is the mean slack of a model of length one, for example 0.01")
        for name in ("C", "epsilon", "sample_weight"):
            if name in options:
                raise TypeError(f"{name} is not a parameter of the slack-constrained problem: remove it")
        shared = KernelProblem.of(X, y, **options)
        return cls(shared.gram, shared.y, float(slack), shared.bias)

    @property
    def n(self) -> int:
        """The number of rows, and of dual variables."""
        return len(self.y)

    @property
    def n_weights(self) -> int:
        """As `KernelProblem.n_weights`."""
        return len(self.y)

    def marks(self) -> tuple[Any, ...]:
        """As `KernelProblem.marks`."""
        return (*self.penalised().marks(), repr(self.slack))

    def penalised(self, C: float = 1.0) -> KernelProblem:
        """The penalised problem of the same rows."""
        return classification(self.gram, self.y, np.full(self.n, C), self.bias)
