"""``softmargin certify`` for kernel models: the objective of a model as it is, against a proven bound on the best."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from softmargin import Certificate

ROWS = 1024  # whose kernel values with all support vectors are computed at once


class Part(NamedTuple):
    """A training problem behind a model: all rows, or those of a pair of classes, with the model's scores of them."""

    rows: Any
    y: Any
    c: Any
    scores: Any
    square: float  # ‖w‖²


def certified(estimator: Any, X: Any, y: Any, bias: dict[str, Any], gap: float, jobs: int | None) -> dict[str, Any]:
    """The certificate of every problem, by the two labels that it tells apart (or by nothing, if it is one)."""
    from softmargin.threads import interrupts

    kernel = _kernel(estimator)
    if not kernel.definite:
        raise ValueError(
            f"kernel={estimator.kernel!r} with these parameters is no inner product: nothing can be proven about it"
        )
    with interrupts():  # one Ctrl-C ends them all
        parts = _parts(estimator, kernel, X, y, bias)
        return {name: _certificate(estimator, kernel, X, part, bias, gap, jobs) for name, part in parts.items()}


def _kernel(estimator: Any) -> Any:
    from softmargin.kernels import named

    return named(estimator.kernel, gamma=estimator._gamma or 1.0, degree=estimator.degree, coef0=estimator.coef0)


def _parts(estimator: Any, kernel: Any, X: Any, y: Any, bias: dict[str, Any]) -> dict[str, Part]:
    """The problems, with signs as the model has them."""
    import numpy as np

    from softmargin import validate
    from softmargin.cli.common import check_labels

    coef, intercept = estimator.dual_coef_, estimator.intercept_
    if not hasattr(estimator, "classes_"):
        among, of_rows = _values(estimator, kernel, X, coef)
        square = float((coef @ among[:, 0]).item()) + _of_bias(intercept[0], bias)
        return {"": Part(np.arange(len(y)), y, np.full(len(y), estimator.C), of_rows[:, 0] + intercept[0], square)}
    classes = estimator.classes_
    check_labels(y, classes)
    ascending = np.argsort(classes)  # models from LIBSVM have them in any order
    index = ascending[np.searchsorted(classes[ascending], y)]
    c = estimator.C * validate.class_weights(estimator.class_weight, classes, index, np.ones(len(y)))[index]
    pairs = list(itertools.combinations(range(len(classes)), 2))
    ends, weights = np.cumsum(estimator.n_support_), np.zeros((len(pairs), coef.shape[1]))
    for k, (i, j) in enumerate(pairs):
        for mine, row in ((i, j - 1), (j, i)):
            own = slice(ends[mine] - estimator.n_support_[mine], ends[mine])
            weights[k, own] = coef[row, own]
    among, of_rows = _values(estimator, kernel, X, weights)
    parts = {}
    for k, (i, j) in enumerate(pairs):
        rows = np.flatnonzero(((index == i) | (index == j)) & (c > 0.0))
        first = j if len(pairs) == 1 else i  # of two classes, scores above zero mean the second
        signs = np.where(index[rows] == first, 1.0, -1.0)
        square = float(weights[k] @ among[:, k]) + _of_bias(intercept[k], bias)
        name = "" if len(pairs) == 1 else f"{classes[i]}, {classes[j]}"
        parts[name] = Part(rows, signs, c[rows], of_rows[rows, k] + intercept[k], square)
    return parts


def _of_bias(b: float, bias: dict[str, Any]) -> float:
    """What a penalised bias adds to ‖w‖²."""
    if bias["bias"] == "none" and b:
        raise ValueError(f"the model has bias {b:g} but the problem has none: say --bias free or penalised")
    return float(b / bias["bias_scale"]) ** 2 if bias["bias"] == "penalised" else 0.0


def _values(estimator: Any, kernel: Any, X: Any, coef: Any) -> tuple[Any, Any]:
    """``Σ coef k(·, vector)`` in double precision, a column for each row of coef: of the vectors, and of the rows."""
    import numpy as np

    from softmargin.kernels import Precomputed, between

    if isinstance(kernel, Precomputed):
        known = X[:, estimator.support_].astype(np.float64)
        return known[estimator.support_] @ coef.T, known @ coef.T

    def of(rows: Any) -> Any:
        blocks = (rows[first : first + ROWS] for first in range(0, rows.shape[0], ROWS))
        return np.concatenate(
            [np.zeros((0, len(coef))), *(between(kernel, block, vectors) @ coef.T for block in blocks)]
        )

    vectors = estimator.support_vectors_
    return of(vectors), of(X)


def _certificate(
    estimator: Any, kernel: Any, X: Any, part: Part, bias: dict[str, Any], gap: float, jobs: int | None
) -> Certificate:
    """Solve the problem for its bound, and hold the model's own objective against it."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    from softmargin import Certificate, KernelProblem, Stop, solve
    from softmargin.driver import Status

    chosen = X[part.rows][:, part.rows] if estimator.kernel == "precomputed" else X[part.rows]
    epsilon = None if hasattr(estimator, "classes_") else estimator.epsilon
    problem = KernelProblem.of(
        chosen,
        part.y,
        sample_weight=part.c,
        kernel=kernel,
        epsilon=epsilon,
        cache_size=estimator.cache_size,
        n_jobs=-1 if jobs is None else jobs,
        **bias,
    )
    problem.gram.in_double_precision()
    solution = solve(problem, "auto", Stop(gap=gap))
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if np.isneginf(solution.certificate.dual):
        raise ValueError("the kernel's values are not those of an inner product: nothing can be proven about the model")
    if solution.status is not Status.CONVERGED:
        width = solution.certificate.relative_gap
        warnings.warn(f"the bound is {width:.1e} wide: {solution.status.value}", ConvergenceWarning, stacklevel=2)
    short = 1.0 - part.y * part.scores if epsilon is None else np.abs(part.y - part.scores) - epsilon
    primal = 0.5 * part.square + float(part.c @ np.maximum(short, 0.0))
    return Certificate(primal, solution.certificate.dual)
