"""Rows of the data: the only file that knows sparse from dense.

Row i is the entries ``start[i]`` to ``stop[i]`` of ``data``; ``Sparse`` adds their column numbers. Rows are therefore
chosen without moving an entry: `take` only makes a new ``start`` and ``stop``.
Index arrays are unsigned (Numba then drops its branch for negative indices: twice as fast) and everything is a
read-only view of the caller's memory, whatever its type: nothing is copied to float64, and a read-only memory map
compiles to the same machine code as an array.

`row_dot` and `row_axpy` compile to the loop of the storage that they are given, so a solver is written once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from scipy.linalg.blas import dsyrk

from softmargin.threads import share

CHUNK = 4096  # rows made dense at a time
FASTMATH = {"reassoc", "contract", "nsz"}  # sums may be reordered (vectorised); infinities and NaN keep their meaning


class Sparse(NamedTuple):
    """Rows of a CSR matrix: column numbers beside the entries."""

    data: Any
    start: Any
    stop: Any
    indices: Any


class Dense(NamedTuple):
    """Rows of a C-ordered matrix, flattened."""

    data: Any
    start: Any
    stop: Any


Rows = Sparse | Dense


def as_rows(X: Any) -> Rows:
    """A view of a CSR matrix or a C-ordered array as rows."""
    if sp.issparse(X):
        start, stop = (_unsigned(X.indptr[part]).astype(np.uint64, copy=False) for part in (np.s_[:-1], np.s_[1:]))
        return Sparse(_frozen(X.data), _frozen(start), _frozen(stop), _frozen(_unsigned(X.indices)))
    n, d = X.shape
    start = np.arange(0, n * d, d, dtype=np.uint64) if d else np.zeros(n, np.uint64)
    return Dense(_frozen(X.reshape(-1)), _frozen(start), _frozen(start + np.uint64(d)))


def take(rows: Rows, chosen: Any) -> Rows:
    """The rows numbered `chosen`: no entry is copied."""
    return rows._replace(start=_frozen(rows.start[chosen]), stop=_frozen(rows.stop[chosen]))


def matvec(rows: Rows, w: Any, n_jobs: int = 1) -> Any:
    """The products of every row with `w`, in float64."""
    out = np.empty(len(rows.start))
    share(lambda lo, hi, _: _matvec(rows, w, out, lo, hi), len(out), _useful(rows, n_jobs))
    return out


def rmatvec(rows: Rows, a: Any, n_features: int, n_jobs: int = 1) -> Any:
    """The sum of the rows times their `a`, in float64; rows with a zero are not touched."""
    n_jobs = _useful(rows, n_jobs)
    parts = np.zeros((n_jobs, n_features))
    share(lambda lo, hi, k: _rmatvec(rows, a, parts[k], lo, hi), len(rows.start), n_jobs)
    return parts.sum(axis=0) if n_jobs > 1 else parts[0]


def both_products(rows: Rows, w: Any, a: Any, n_jobs: int = 1) -> tuple[Any, Any]:
    """`matvec` with `w` and `rmatvec` with `a` in one trip through the memory."""
    n_jobs, z = _useful(rows, n_jobs), np.empty(len(rows.start))
    parts = np.zeros((n_jobs, len(w)))
    share(lambda lo, hi, k: _both_products(rows, w, a, z, parts[k], lo, hi), len(z), n_jobs)
    return z, parts.sum(axis=0) if n_jobs > 1 else parts[0]


def squared_norms(rows: Rows, n_jobs: int = 1) -> Any:
    """The squared length of every row, in float64."""
    out = np.empty(len(rows.start))
    share(lambda lo, hi, _: _squared_norms(rows, out, lo, hi), len(out), _useful(rows, n_jobs))
    return out


def column_squares(rows: Rows, h: Any, n_features: int) -> Any:
    """``Σ hᵢ xᵢ²``, the diagonal of `gram`."""
    out = np.zeros(n_features)
    _column_squares(rows, h, out)
    return out


def gram(rows: Rows, h: Any, n_features: int, n_jobs: int = 1) -> Any:
    """The lower triangle of ``Σ hᵢ xᵢ xᵢᵀ``, features × features."""
    if _by_entries(rows, n_features):
        out = np.zeros((n_features, n_features), order="F")
        _outer_products(rows, h, out)
        return out
    parts = [np.zeros((n_features, n_features), order="F") for _ in range(n_jobs)]

    def add(lo: int, hi: int, k: int) -> None:
        for first in range(int(lo), int(hi), CHUNK):
            part = slice(first, min(first + CHUNK, int(hi)))
            Z = _dense(take(rows, part), n_features)
            Z *= np.sqrt(h[part])[:, None]
            parts[k] = dsyrk(1.0, Z.T, beta=1.0, c=parts[k], overwrite_c=True, lower=True)

    share(add, len(h), n_jobs)
    return sum(parts[1:], parts[0])


def gram_cost(rows: Rows, n_features: int) -> float:
    """Operations of `gram`, dense products counted as eight times faster, and symmetric."""
    m, stored = len(rows.start), entries(rows)
    return stored**2 / m if _by_entries(rows, n_features) else m * n_features**2 / 16


def pairwise(rows: Rows, n_features: int) -> Any:
    """``⟨xᵢ, xⱼ⟩`` for all pairs of rows."""
    if isinstance(rows, Dense):
        Z = _dense(rows, n_features)
        return Z @ Z.T
    lengths = (rows.stop - rows.start).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], np.int64)
    _pack(rows, data, indices)
    Z = sp.csr_array((data, indices, indptr), shape=(len(lengths), n_features))
    return (Z @ Z.T).toarray()


def pairwise_cost(rows: Rows, n_features: int) -> float:
    """Operations of `pairwise`, on the scale of `gram_cost`."""
    m, stored = len(rows.start), entries(rows)
    return m**2 * n_features / 8 if isinstance(rows, Dense) else m * stored


def _by_entries(rows: Rows, n_features: int) -> bool:
    return isinstance(rows, Sparse) and 16 * entries(rows) ** 2 < (len(rows.start) * n_features) ** 2


def _dense(rows: Rows, n_features: int) -> Any:
    out = np.zeros((len(rows.start), n_features))
    _fill(rows, out)
    return out


def repeated_entries(rows: Rows, n_features: int) -> bool:
    """Whether a row has the same column twice."""
    return bool(_repeated(rows, np.zeros(n_features, np.uint64)))


def entries(rows: Rows) -> int:
    """How many entries the rows store."""
    return int((rows.stop - rows.start).sum())


def _useful(rows: Rows, n_jobs: int) -> int:
    """No more threads than have a quarter of a millisecond's work each: starting one costs a fifth of that."""
    if n_jobs == 1:
        return 1
    every = 1 + len(rows.start) // 1000  # a sample of the rows tells how long they are
    return min(n_jobs, 1 + every * entries(take(rows, np.s_[::every])) // 250_000)


def _unsigned(index: Any) -> Any:
    return index.view(np.dtype(f"u{index.itemsize}"))


def _frozen(array: Any) -> Any:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


# ---- the loops: `row_dot` and `row_axpy` stand for whichever storage a kernel is compiled for ----


def row_dot(rows: Any, i: Any, w: Any) -> Any:
    """⟨row i, w⟩."""


def row_axpy(step: Any, rows: Any, i: Any, w: Any) -> Any:
    """``w += step · row i``."""


def row_axpy_squared(step: Any, rows: Any, i: Any, w: Any) -> Any:
    """``w += step · (row i)²``, entry by entry."""


def is_sparse(rows: Any) -> bool:
    return rows.instance_class is Sparse


@overload(row_dot, inline="always")
def _(rows: Any, i: Any, w: Any) -> Any:
    if is_sparse(rows):

        def sparse(rows: Any, i: Any, w: Any) -> Any:
            s = 0.0
            for k in range(rows.start[i], rows.stop[i]):
                s += rows.data[k] * w[rows.indices[k]]
            return s

        return sparse

    def dense(rows: Any, i: Any, w: Any) -> Any:
        row, s = rows.data[rows.start[i] : rows.stop[i]], 0.0
        for k in range(len(row)):
            s += row[k] * w[k]
        return s

    return dense


@overload(row_axpy, inline="always")
def _(step: Any, rows: Any, i: Any, w: Any) -> Any:
    if is_sparse(rows):

        def sparse(step: Any, rows: Any, i: Any, w: Any) -> Any:
            for k in range(rows.start[i], rows.stop[i]):
                w[rows.indices[k]] += step * rows.data[k]

        return sparse

    def dense(step: Any, rows: Any, i: Any, w: Any) -> Any:
        row = rows.data[rows.start[i] : rows.stop[i]]
        for k in range(len(row)):
            w[k] += step * row[k]

    return dense


@overload(row_axpy_squared, inline="always")
def _(step: Any, rows: Any, i: Any, w: Any) -> Any:
    if is_sparse(rows):

        def sparse(step: Any, rows: Any, i: Any, w: Any) -> Any:
            for k in range(rows.start[i], rows.stop[i]):
                w[rows.indices[k]] += step * rows.data[k] * rows.data[k]

        return sparse

    def dense(step: Any, rows: Any, i: Any, w: Any) -> Any:
        row = rows.data[rows.start[i] : rows.stop[i]]
        for k in range(len(row)):
            w[k] += step * row[k] * row[k]

    return dense


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a loop: releases the GIL, cached on disk."""
    return njit(nogil=True, cache=True, error_model="numpy", fastmath=FASTMATH)(function)


@kernel
def _matvec(rows: Any, w: Any, out: Any, lo: Any, hi: Any) -> Any:
    for i in range(lo, hi):
        out[i] = row_dot(rows, i, w)


@kernel
def _rmatvec(rows: Any, a: Any, out: Any, lo: Any, hi: Any) -> Any:
    for i in range(lo, hi):
        if a[i] != 0.0:
            row_axpy(a[i], rows, i, out)


@kernel
def _both_products(rows: Any, w: Any, a: Any, z: Any, out: Any, lo: Any, hi: Any) -> Any:
    for i in range(lo, hi):
        z[i] = row_dot(rows, i, w)
        if a[i] != 0.0:
            row_axpy(a[i], rows, i, out)


@kernel
def _squared_norms(rows: Any, out: Any, lo: Any, hi: Any) -> Any:
    for i in range(lo, hi):
        s = 0.0
        for k in range(rows.start[i], rows.stop[i]):
            s += np.float64(rows.data[k]) * np.float64(rows.data[k])
        out[i] = s


@kernel
def _repeated(rows: Any, seen: Any) -> Any:
    for i in range(np.uint64(len(rows.start))):
        for k in range(rows.start[i], rows.stop[i]):
            if seen[rows.indices[k]] == i + np.uint64(1):
                return True
            seen[rows.indices[k]] = i + np.uint64(1)
    return False


@kernel
def _fill(rows: Any, out: Any) -> Any:
    for i in range(np.uint64(len(out))):
        row_axpy(1.0, rows, i, out[i])


@kernel
def _pack(rows: Any, data: Any, indices: Any) -> Any:
    at = 0
    for i in range(np.uint64(len(rows.start))):
        for k in range(rows.start[i], rows.stop[i]):
            data[at] = rows.data[k]
            indices[at] = rows.indices[k]
            at += 1


@kernel
def _column_squares(rows: Any, h: Any, out: Any) -> Any:
    for i in range(np.uint64(len(h))):
        row_axpy_squared(h[i], rows, i, out)


@kernel
def _outer_products(rows: Any, h: Any, out: Any) -> Any:
    for i in range(np.uint64(len(h))):
        for k in range(rows.start[i], rows.stop[i]):
            column, part = rows.indices[k], h[i] * rows.data[k]
            for t in range(rows.start[i], k + np.uint64(1)):
                other = rows.indices[t]
                out[max(column, other), min(column, other)] += part * rows.data[t]


@intrinsic
def _prefetch(typingctx, array, k):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        struct = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = cgutils.get_item_pointer(context, builder, signature.args[0], struct, [args[1]], wraparound=False)
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        fetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]), "llvm.prefetch.p0"
        )
        builder.call(fetch, [builder.bitcast(pointer, byte), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, k), codegen


def row_prefetch(rows: Any, i: Any) -> Any:
    """Ask the memory for row i, which is wanted soon: a jump to a far row costs more than its arithmetic."""


@overload(row_prefetch, inline="always")
def _(rows: Any, i: Any) -> Any:
    line = np.uint64(64 // rows[0].dtype.bitwidth * 8)
    if is_sparse(rows):

        def sparse(rows: Any, i: Any) -> Any:
            for k in range(rows.start[i], rows.stop[i], line):
                _prefetch(rows.data, k)  # type: ignore[call-arg]
                _prefetch(rows.indices, k)

        return sparse

    def dense(rows: Any, i: Any) -> Any:
        for k in range(rows.start[i], rows.stop[i], line):
            _prefetch(rows.data, k)  # type: ignore[call-arg]

    return dense
