"""User input to a `Problem`: every refusal of data, labels, weights and parameters is made here, before any work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight, check_array, check_X_y, validate_data

FLOATS = [np.float64, np.float32]


def matrix(X: Any, y: Any = "no_validation", *, estimator: Any = None, reset: bool = True, **options: Any) -> Any:
    """The rows as CSR or C-ordered array of float32 or float64, uncopied where they are that already; y beside them."""
    dtype = getattr(X, "dtype", None)
    narrow = isinstance(dtype, np.dtype) and (dtype.kind == "b" or (dtype.kind in "iuf" and dtype.itemsize <= 2))
    dtypes = np.float32 if narrow else FLOATS
    options = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": dtypes, "order": "C"} | options
    if estimator is not None:
        found = validate_data(estimator, X, y, reset=reset, **options)
    else:
        found = check_array(X, **options) if isinstance(y, str) else check_X_y(X, y, **options)
    X, y = found if isinstance(found, tuple) else (found, None)
    if sp.issparse(X):
        X = _canonical(X)
    return X if y is None else (X, y)


def _canonical(X: Any) -> Any:
    """The sparse matrix if no row has a column twice, else a copy with such entries added; corrupt ones are refused."""
    if X.nnz and (X.indices.min() < 0 or X.indices.max() >= X.shape[1]):
        raise ValueError(f"X has column numbers outside 0 to {X.shape[1] - 1}: its index arrays are corrupt")
    if np.any(np.diff(X.indptr) < 0) or X.indptr[0] != 0 or X.indptr[-1] > len(X.data):
        raise ValueError("X has row pointers that fall or exceed its entries: its index arrays are corrupt")
    if X.has_canonical_format:
        return X
    from softmargin.rows import as_rows, repeated_entries

    if repeated_entries(as_rows(X), X.shape[1]):
        X = X.copy()
        X.sum_duplicates()
    return X


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def positive(name: str, value: Any, remedy: str, *, allow_inf: bool = False) -> float:
    """A parameter that must be a number above zero."""
    if not _number(value) or not value > 0 or (math.isinf(value) and not allow_inf):
        raise ValueError(f"{name}={value!r} is not a {'' if allow_inf else 'finite '}number above 0: {remedy}")
    return float(value)


def not_negative(name: str, value: Any, meaning: str, *, allow_inf: bool = False) -> float:
    """A parameter that must be a number from zero up."""
    if not _number(value) or not value >= 0 or (math.isinf(value) and not allow_inf):
        raise ValueError(f"{name}={value!r} is not a {'' if allow_inf else 'finite '}number from 0 up: {meaning}")
    return float(value)


def weights(C: float, sample_weight: Any, X: Any) -> tuple[Any, Any]:
    """``c = C · weight`` of the rows with a weight above zero, and their numbers (None when that is all of them)."""
    C = positive("C", C, "pass for example C=1.0; larger fits the training rows more closely")
    n = X.shape[0]
    if sample_weight is None:
        return np.full(n, C), None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(
            f"sample_weight[{row}]={weight[row]} is negative: weights count how often a row stands for itself"
        )
    if not weight.any():
        raise ValueError("sample_weight is zero for every row: nothing is left to train on")
    kept = None if weight.all() else np.flatnonzero(weight)
    return C * (weight if kept is None else weight[kept]), kept


def linear_model(w: Any, b: Any, n_weights: int) -> tuple[Any, Any]:
    """The weights and the bias of a model, if they are those of a model with so many weights."""
    w = np.asarray(w, np.float64).reshape(-1)
    if len(w) != n_weights:
        raise ValueError(
            f"the model has {len(w)} weights and the problem {n_weights}: they do not belong together "
            "(a linear model has a weight for each feature, a kernel model one for each row)"
        )
    if not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise ValueError("the model has weights that are not finite: it can neither be certified nor started from")
    return w, float(b) if np.ndim(b) == 0 else np.asarray(b, np.float64)


def dual_point(a: Any, n: int) -> Any:
    """A dual variable for each of n rows."""
    a = np.asarray(a, np.float64)
    if a.shape != (n,) or not np.isfinite(a).all():
        raise ValueError(
            f"the dual point has shape {a.shape} and the problem {n} rows: it needs a finite number for each of them"
        )
    return a


def bias_scale(name: str, value: Any, meaning: str) -> None:
    """The size of the feature that carries a penalised bias: its square must be an ordinary number."""
    positive(name, value, meaning)
    if not 1e-100 <= value <= 1e100:
        raise ValueError(f"{name}={value!r} has a square beyond the range of numbers: choose it near 1")


def choice(name: str, value: Any, known: Iterable[str]) -> None:
    """One of some names."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}={value!r} is not known: choose one of {', '.join(known)}")


def callables(name: str, value: Any) -> tuple[Any, ...]:
    """Some functions."""
    if callable(value) or not isinstance(value, Sequence) or not all(map(callable, value)):
        raise TypeError(f"{name}={value!r} is not a list of functions: pass for example [function]")
    return tuple(value)


def labels(y: Any) -> Any:
    """Labels −1 and +1 as float64."""
    y = np.asarray(y)
    if y.ndim != 1 or not np.isin(y, (-1, 1)).all():
        raise ValueError("y must hold -1 and +1 only: encode other labels first, or use LinearSVC, which does")
    return y.astype(np.float64)


def class_weights(class_weight: Any, classes: Any, index: Any, weight: Any) -> Any:
    """The factor of every class, from None, a dictionary, or "balanced" (then by weight, as repetition would)."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight={class_weight!r} is not known: pass 'balanced', a dictionary or None")
        totals = np.bincount(index, weights=weight, minlength=len(classes))
        return np.where(totals > 0, totals.sum() / (len(classes) * np.maximum(totals, 1e-300)), 0.0)
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight={class_weight!r} must be None, 'balanced' or a dictionary from label to weight")
    unknown = [label for label in class_weight if label not in list(classes)]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is not among the labels {list(classes)}")
    factors = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
    if not (np.isfinite(factors) & (factors >= 0)).all():
        raise ValueError(f"class_weight={class_weight!r} holds a weight that is not a number from 0 up")
    return factors


def jobs(n_jobs: int | None) -> int:
    """How many threads `n_jobs` means (None: one, -1: all processors), never more than there are processors."""
    from joblib import effective_n_jobs

    if n_jobs is not None and (not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} is not a number of threads: pass 1, 2, ..., or -1 for all processors")
    return int(min(effective_n_jobs(n_jobs), effective_n_jobs(-1)))
