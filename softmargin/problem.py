"""The problem, stated once; every solver, certificate and estimator reads it from here.

Penalised:  ``min over w, b of  ½‖w‖² + Σ cᵢ ℓ(yᵢ, ⟨w, xᵢ⟩ + b)``  with  ``cᵢ = C · weightᵢ > 0``.

The bias b is none (zero), free, or penalised: then it is the weight of an extra feature of size ρ (`bias_scale`), which
adds ``b² / (2ρ²)``. Dual:  ``max Σ gain(yᵢ, aᵢ, cᵢ) − ½‖Σ aᵢxᵢ‖²``  (``− ½ρ²(Σaᵢ)²`` when b is penalised,
``Σaᵢ = 0`` when it is free). Papers that write ``λ/2‖w‖² + (1/n)Σ ℓ`` mean ``C = 1 / (λn)``: `Problem.from_lambda`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from softmargin import validate
from softmargin.losses import EpsilonInsensitive, Hinge, Loss
from softmargin.rows import Rows, as_rows, both_products, matvec, rmatvec, take

Bias = Literal["none", "free", "penalised"]


class Model(NamedTuple):
    """A linear model: its scores are ``⟨w, x⟩ + b``."""

    w: Any
    b: Any = 0.0


class Work(NamedTuple):
    """What a run cost, in the units of the papers."""

    passes: float = 0.0  # visits of rows, in units of all rows
    feature_accesses: int = 0
    kernel_evaluations: int = 0  # asked for by the algorithm
    kernel_computed: int = 0  # really computed, after caching

    def plus(self, other: Work, share: float = 1.0) -> Work:
        """Both together; `share` is for work on a problem that has only so much of the rows."""
        return Work(self.passes + share * other.passes, *(a + b for a, b in zip(self[1:], other[1:], strict=True)))


class Iterate(NamedTuple):
    """Where a solver stands: a model, a candidate for the dual, and its own unproven idea of the relative gap."""

    model: Model
    a: Any = None
    work: Work = Work()
    gap: float = np.inf


class Schedule(NamedTuple):
    """When a certificate is worth its price."""

    hope: float  # the solver's own gap, in units of the goal, at which the first is made
    first: float  # the passes after which the first is made in any case


def relative(gap: float, dual: float) -> float:
    """A gap as a fraction of the dual objective: none where there is no gap, inf where that objective is not known."""
    return 0.0 if gap == 0.0 else gap / dual if dual > 0.0 else np.inf


@dataclass(frozen=True, eq=False)
class Problem:
    """A penalised training problem; see the module's docstring.

    Make one with `Problem.of`:

    >>> from softmargin import Problem, solve
    >>> problem = Problem.of([[0.0], [1.0], [3.0]], [-1, -1, 1], C=10.0)
    >>> solution = solve(problem)
    >>> solution.certificate.relative_gap < 1e-3
    True
    """

    kind: ClassVar[str] = "linear"
    schedule: ClassVar[Schedule] = Schedule(hope=1.3, first=30.0)
    rows: Rows
    y: Any
    c: Any
    n_features: int
    loss: Loss = Hinge()
    bias: Bias = "free"
    bias_scale: float = 1.0
    n_jobs: int = 1  # threads that products with the rows may use

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        C: float = 1.0,
        sample_weight: Any = None,
        loss: Loss | None = None,
        bias: Bias = "free",
        bias_scale: float = 1.0,
        n_jobs: int | None = None,
    ) -> Problem:
        """A problem from data; labels are −1 and +1, or numbers for the ε-insensitive loss."""
        loss = Hinge() if loss is None else loss
        if not isinstance(loss, Loss):
            raise TypeError(f"loss={loss!r} is not a loss: pass for example softmargin.Hinge()")
        X, y = validate.matrix(X, y, y_numeric=True)
        y = y.astype(np.float64) if isinstance(loss, EpsilonInsensitive) else validate.labels(y)
        c, kept = validate.weights(C, sample_weight, X)
        rows = as_rows(X) if kept is None else take(as_rows(X), kept)
        y = y if kept is None else y[kept]
        validate.choice("bias", bias, ("none", "free", "penalised"))
        validate.bias_scale("bias_scale", bias_scale, "it is the size of the feature that carries a penalised bias")
        if isinstance(loss, EpsilonInsensitive):
            validate.not_negative("epsilon", loss.epsilon, "errors up to this size cost nothing")
        return cls(rows, y, c, X.shape[1], loss, bias, bias_scale, validate.jobs(n_jobs))

    @classmethod
    def from_lambda(cls, X: Any, y: Any, *, lam: float, **options: Any) -> Problem:
        """The problem of papers that write ``λ/2‖w‖² + (1/n) Σ ℓ``: the same minimiser, objectives divided by λ."""
        validate.positive("lam", lam, "it is the weight of the regulariser, for example 1e-4")
        return cls.of(X, y, C=1.0 / (lam * len(y)), **options)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def n_weights(self) -> int:
        """The length of a model's weights."""
        return self.n_features

    def marks(self) -> tuple[Any, ...]:
        """All that tells this problem from another: arrays, and a text."""
        return (*self.rows, self.y, self.c, repr((self.n_features, self.loss, self.bias, self.bias_scale)))

    @property
    def rho2(self) -> float:
        """The squared size of the bias feature, zero unless the bias is penalised."""
        return self.bias_scale**2 if self.bias == "penalised" else 0.0

    def only(self, rows: Any) -> Problem:
        """The problem on some of the rows."""
        return replace(self, rows=take(self.rows, rows), y=self.y[rows], c=self.c[rows])

    def scores(self, model: Model) -> Any:
        """``⟨w, x⟩ + b`` of every row."""
        z = matvec(self.rows, model.w, self.n_jobs)
        return z + model.b if model.b else z

    def image(self, a: Any) -> Any:
        """``Σ a x``, the weights that a dual point stands for."""
        return rmatvec(self.rows, a, self.n_features, self.n_jobs)

    def scores_and_image(self, model: Model, a: Any) -> tuple[Any, Any]:
        """`scores` of the model and `image` of the dual point, at about the cost of one of them."""
        z, image = both_products(self.rows, model.w, a, self.n_jobs)
        return (z + model.b if model.b else z), image

    def central_bias(self) -> float:
        """Where a free bias may begin: in the middle of the targets."""
        return float(np.median(self.y)) if self.bias == "free" and isinstance(self.loss, EpsilonInsensitive) else 0.0

    def imbalance(self, b: float, total: float) -> float:
        """About what a dual point with ``Σa = total`` loses by being balanced, where the bias is free."""
        return abs(total) * (abs(b) + float(np.abs(self.y).max(initial=0.0))) if self.bias == "free" else 0.0

    def primal(self, model: Model, z: Any = None) -> float:
        """The primal objective of a model (whose scores are z, where they are known)."""
        z = self.scores(model) if z is None else z
        penalty = model.w @ model.w + (model.b**2 / self.rho2 if self.rho2 else 0.0)
        return float(0.5 * penalty + self.c @ self.loss.value(self.y, z))

    def dual(self, a: Any, image: Any = None) -> float:
        """The dual objective of a (whose image is known, or not), −inf where a is not feasible."""
        inside = np.array_equal(self.loss.nearest(self.y, a, self.c), a)
        if not inside or (self.bias == "free" and abs(a.sum()) > 1e-9 * np.abs(a).sum()):
            return -np.inf
        w = self.image(a) if image is None else image
        return float(self.loss.gain(self.y, a, self.c).sum() - 0.5 * (w @ w + self.rho2 * a.sum() ** 2))
