"""Inner products and distances between two blocks of rows, at the speed of the processor's vector units.

Blocks are packed into panels of a few rows, feature by feature, so that the innermost loop (`_panel`) keeps a small
tile of results in registers and reads memory in order: the way of K. Goto and R. van de Geijn, "Anatomy of
high-performance matrix multiplication", 2008. Why not BLAS: it has no distances, ``‖x‖² + ‖z‖² − 2⟨x, z⟩`` loses the
digits of near rows that a kernel needs most, and on processors that it does not know it has half of this speed.
Packing converts types and fills in zeros, so that float32, float64 and CSR of some density are one code. Very sparse
rows, and arrays of other namespaces, are multiplied by their own library.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from softmargin.rows import kernel

WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
VECTOR = 64 if WIDE else 32  # bytes of a vector
LEFT = 12 if WIDE else 6  # rows of a left panel: with two vectors of the right one they fill the registers
DEPTH = 256  # features of a panel that stay in the nearest cache; also the length of single-precision sums
DENSE = 0.01  # sparser blocks are not filled up with zeros
OPERATIONS = {"inner": 0, "squared": 1, "absolute": 2}

Operation = Literal["inner", "squared", "absolute"]


class Block(NamedTuple):
    """Rows, ready for one side of a product: `panels` of them, or as they are."""

    rows: Any
    panels: Any = None


def packed(X: Any, side: Literal["left", "right"], dtype: Any) -> Block:
    """Rows ready to be multiplied, in the precision of `dtype`."""
    if sp.issparse(X) and X.nnz < DENSE * X.shape[0] * X.shape[1]:
        return Block(X.astype(dtype, copy=False))
    if not sp.issparse(X) and not isinstance(X, np.ndarray):
        return Block(X)
    width = LEFT if side == "left" else 2 * VECTOR // np.dtype(dtype).itemsize
    panels = np.empty((-(-X.shape[0] // width), X.shape[1], width), dtype)
    if sp.issparse(X):
        panels[:] = 0
        _scatter(X.data, X.indices, X.indptr, panels)
    else:
        _pack(X, panels)
    return Block(X, panels)


def product(operation: Operation, left: Block, right: Block) -> Any:
    """Of every left row with every right one: ``⟨x, z⟩``, ``‖x − z‖²`` or ``‖x − z‖₁``; yours to overwrite."""
    shape = left.rows.shape[0], right.rows.shape[0]
    if left.panels is None or right.panels is None:
        return _plain(operation, left.rows, right.rows)
    m, n = left.panels.shape, right.panels.shape
    out = np.zeros((m[0] * m[2], n[0] * n[2]), left.panels.dtype)
    _multiply(OPERATIONS[operation], left.panels, right.panels, out)
    return out[: shape[0], : shape[1]]


def _plain(operation: Operation, X: Any, Z: Any) -> Any:
    """The same by the arrays' own library."""
    if operation == "absolute":
        from sklearn.metrics.pairwise import manhattan_distances

        return np.asarray(manhattan_distances(X, Z))
    sparse = sp.issparse(X) or sp.issparse(Z)
    inner = (sp.csr_array(X) @ sp.csr_array(Z).T).toarray() if sparse else X @ Z.T
    if operation == "inner":
        return inner
    inner *= -2.0
    inner += squared_lengths(X)[:, None].astype(inner.dtype)
    inner += squared_lengths(Z)[None, :].astype(inner.dtype)
    inner[inner < 0.0] = 0.0
    return inner


def squared_lengths(X: Any) -> Any:
    """``⟨x, x⟩`` of every row, in float64."""
    if sp.issparse(X):
        return np.asarray(X.astype(np.float64, copy=False).power(2).sum(axis=1)).ravel()
    if isinstance(X, np.ndarray):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return (X * X).sum(axis=1)


def decay(D: Any, gamma: float) -> Any:
    """``exp(−γ D)`` in place, for D from 0 up."""
    if isinstance(D, np.ndarray) and D.dtype == np.float32:
        _decay(D, np.float32(-gamma / np.log(2.0)))
        return D
    D *= -gamma
    if isinstance(D, np.ndarray):
        return np.exp(D, out=D)
    return D.__array_namespace__().exp(D)


# ---- compiled ----


@intrinsic
def _panel(typingctx, operation, depth, A, a0, B, b0, C, c0, stride):
    """``C += A op B`` for one panel of each: LEFT rows by two vectors, over `depth` features."""

    def codegen(context, builder, signature, args):
        real = context.get_data_type(signature.args[2].dtype)
        bits = signature.args[2].dtype.bitwidth
        lanes = 8 * VECTOR // bits
        vector, i64 = ir.VectorType(real, lanes), ir.IntType(64)

        def number(k):
            return ir.Constant(i64, k)

        def pointer(k):
            return builder.gep(context.make_array(signature.args[k])(context, builder, args[k]).data, [args[k + 1]])

        def load(base, at):
            loaded = builder.load(builder.bitcast(builder.gep(base, [at]), vector.as_pointer()))
            loaded.align = bits // 8
            return loaded

        def function(name, count):
            kind = ir.FunctionType(vector, [vector] * count)
            return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{lanes}f{bits}")

        def spread(value):
            nothing = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(
                first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            )

        def accumulated(which, x, z, total):
            if which == "inner":
                return builder.call(function("fma", 3), [x, z, total])
            apart = builder.fsub(x, z)
            if which == "squared":
                return builder.call(function("fma", 3), [apart, apart, total])
            return builder.fadd(total, builder.call(function("fabs", 1), [apart]))

        a, b, c = pointer(2), pointer(4), pointer(6)
        depth, stride = args[1], args[8]
        end = builder.append_basic_block("end")
        switch = builder.switch(args[0], end)
        for which, code in OPERATIONS.items():
            start = builder.append_basic_block(f"{which}.start")
            loop, done = (builder.append_basic_block(f"{which}.{part}") for part in ("loop", "done"))
            switch.add_case(ir.Constant(args[0].type, code), start)
            builder.position_at_end(start)
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(i64)
            k.add_incoming(number(0), start)
            totals = [[builder.phi(vector) for _ in range(2)] for _ in range(LEFT)]
            z = [load(b, builder.add(builder.mul(k, number(2 * lanes)), number(v * lanes))) for v in range(2)]
            for r, pair in enumerate(totals):
                x = spread(builder.load(builder.gep(a, [builder.add(builder.mul(k, number(LEFT)), number(r))])))
                for v, total in enumerate(pair):
                    total.add_incoming(ir.Constant(vector, [0.0] * lanes), start)
                    total.add_incoming(accumulated(which, x, z[v], total), loop)
            following = builder.add(k, number(1))
            k.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
            builder.position_at_end(done)
            for r, pair in enumerate(totals):
                for v, total in enumerate(pair):
                    at = builder.add(builder.mul(stride, number(r)), number(v * lanes))
                    summed = builder.fadd(load(c, at), total.incomings[1][0])
                    builder.store(summed, builder.bitcast(builder.gep(c, [at]), vector.as_pointer())).align = bits // 8
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    i8 = types.int64
    return types.void(i8, i8, A, i8, B, i8, C, i8, i8), codegen


@kernel
def _multiply(operation, A, B, C):
    n_left, d, wide_left = A.shape
    n_right, _, wide_right = B.shape
    stride = C.shape[1]
    for k in range(0, d, DEPTH):
        depth = min(DEPTH, d - k)
        for j in range(n_right):
            for i in range(n_left):
                at = i * wide_left * stride + j * wide_right
                a, b = (i * d + k) * wide_left, (j * d + k) * wide_right
                _panel(operation, depth, A, a, B, b, C, at, stride)  # type: ignore[call-arg]


@kernel
def _pack(X, panels):
    n, d = X.shape
    width = panels.shape[2]
    for p in range(len(panels)):
        panel = panels[p]
        for r in range(width):
            i = p * width + r
            if i < n:
                for k in range(d):
                    panel[k, r] = X[i, k]
            else:
                for k in range(d):
                    panel[k, r] = 0.0


@kernel
def _scatter(data, indices, indptr, panels):
    width = panels.shape[2]
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            panels[i // width, indices[k], i % width] = data[k]


@intrinsic
def _power_of_two(typingctx, n):
    """2ⁿ as float32, for a whole number n from −126 to 127: its exponent bits."""

    def codegen(context, builder, signature, args):
        i32 = ir.IntType(32)
        bits = builder.shl(builder.add(args[0], ir.Constant(i32, 127)), ir.Constant(i32, 23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.int32), codegen


@kernel
def _decay(D, scale):
    """``2^(scale · D)`` in place: 2 to a whole number, and a polynomial of the rest (relative error 1e-7)."""
    one = np.float32
    for i in range(len(D)):
        row = D[i]
        for j in range(len(row)):
            x = max(row[j] * scale, one(-126.0))
            whole = np.floor(x + one(0.5))
            r = x - whole
            p = one(1.5403530e-4)
            p = p * r + one(1.33335581e-3)
            p = p * r + one(9.61812911e-3)
            p = p * r + one(5.55041087e-2)
            p = p * r + one(2.40226507e-1)
            p = p * r + one(6.93147181e-1)
            p = p * r + one(1.0)
            row[j] = p * _power_of_two(np.int32(whole))  # type: ignore[call-arg]
