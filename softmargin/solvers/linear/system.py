"""Solve ``(I + Σ hᵢ xᵢ xᵢᵀ) v = g`` over a few rows, again and again while rows and h change a little.

Where a factor is cheap (features × features, or rows × rows) it is made each time and the answer is exact. Elsewhere
conjugate gradients run on the exact system, preconditioned by the last factor, and a new factor is made only when they
need too many steps. Where both sizes are too large for any factor, the preconditioner is the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from softmargin.rows import (
    Rows,
    column_squares,
    entries,
    gram,
    gram_cost,
    matvec,
    pairwise,
    pairwise_cost,
    rmatvec,
    take,
)

LARGEST_FACTOR = 6000  # order of a matrix that is still factored: 288 MB, a few seconds
CHEAP = 10  # a factor that costs less than so many steps of conjugate gradients is made each time
OVERHEAD = 100_000  # operations that a step could have done while Python and the threads get going
STEPS, TOLERANCE = 12, 0.05  # of conjugate gradients before a new factor; relative size of the residual
FEW_STEPS, MANY_STEPS = 40, 300  # after a new factor; without any
ENOUGH = 4000  # rows (or ten per feature): a factor made from every k-th of more serves as well

Solve = Callable[[Any], Any]


class Systems:
    """Solves one system after the other; see the module's docstring."""

    def __init__(self, n_features: int, n_jobs: int = 1) -> None:
        self.n_features, self.n_jobs = n_features, n_jobs
        self.visits = 0  # of rows, in products and factors
        self._last: Solve | None = None

    def solve(self, rows: Rows, h: Any, *sides: Any) -> list[Any]:
        """The answers for some right-hand sides."""
        m, d = len(h), self.n_features
        if m == 0:
            return [g.copy() for g in sides]
        step = 4 * entries(rows) + OVERHEAD
        by_features = gram_cost(rows, d) + d**3 / 24
        by_rows = pairwise_cost(rows, d) + m**3 / 24
        if min(by_features, by_rows) <= CHEAP * step and min(m, d) <= LARGEST_FACTOR:
            factor = self._features_by_features if by_features <= by_rows else self._rows_by_rows
            solve = factor(rows, h)
            return [solve(g) for g in sides]
        if min(m, d) > LARGEST_FACTOR or FEW_STEPS * step < min(by_features, by_rows):
            diagonal = 1.0 + column_squares(rows, h, d)
            self.visits += m
            return [self._conjugate_gradients(rows, h, g, lambda r: r / diagonal, MANY_STEPS)[0] for g in sides]
        return [self._refine(rows, h, g) for g in sides]

    def _refine(self, rows: Rows, h: Any, g: Any) -> Any:
        if self._last is not None:
            v, done = self._conjugate_gradients(rows, h, g, self._last, STEPS)
            if done:
                return v
        every = max(1, len(h) // max(ENOUGH, 10 * self.n_features))
        if len(h) < self.n_features:
            self._last = self._rows_by_rows(rows, h)
        else:
            self._last = self._features_by_features(take(rows, np.s_[::every]), every * h[::every])
        return self._conjugate_gradients(rows, h, g, self._last, FEW_STEPS)[0]

    def _features_by_features(self, rows: Rows, h: Any) -> Solve:
        self.visits += len(h)
        A = gram(rows, h, self.n_features, self.n_jobs)
        A[np.diag_indices(self.n_features)] += 1.0
        return _factored(A)

    def _rows_by_rows(self, rows: Rows, h: Any) -> Solve:
        # Woodbury: (I + ZᵀHZ)⁻¹ g = g − Zᵀ(H⁻¹ + ZZᵀ)⁻¹ Z g;  H⁻¹ > 0 keeps duplicate rows from making it singular
        self.visits += len(h)
        K = pairwise(rows, self.n_features)
        K[np.diag_indices(len(h))] += 1.0 / h
        inner = _factored(K)

        def solve(g: Any) -> Any:
            self.visits += 2 * len(h)
            return g - rmatvec(rows, inner(matvec(rows, g, self.n_jobs)), self.n_features, self.n_jobs)

        return solve

    def _conjugate_gradients(self, rows: Rows, h: Any, g: Any, precondition: Solve, steps: int) -> tuple[Any, bool]:
        v, residual = np.zeros_like(g), g.copy()
        target = TOLERANCE**2 * (g @ g)
        scaled = precondition(residual)
        direction, size = scaled.copy(), residual @ scaled
        for _ in range(steps):
            if residual @ residual <= target:
                return v, True
            self.visits += 2 * len(h)
            image = direction + rmatvec(rows, h * matvec(rows, direction, self.n_jobs), self.n_features, self.n_jobs)
            length = size / (direction @ image)
            v += length * direction
            residual -= length * image
            scaled = precondition(residual)
            size, before = residual @ scaled, size
            direction = scaled + (size / before) * direction
        return v, bool(residual @ residual <= target)


def _factored(A: Any) -> Solve:
    """Solves with a positive definite matrix; one that rounding has made indefinite gets a larger diagonal."""
    largest = float(A.diagonal().max())
    for share in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6):
        B = A + share * largest * np.eye(len(A)) if share else A
        try:
            lower = cho_factor(B, lower=True, check_finite=False)
        except LinAlgError:
            continue
        return lambda g: cho_solve(lower, g, check_finite=False)
    return lambda g: g.copy()  # the plain gradient: slow, but downhill
