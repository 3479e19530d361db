"""Kernels: the inner products of a feature space, computed in blocks.

A kernel is an immutable description, a function of two blocks of rows: ``block(left, right)`` is the matrix of k(x, z)
for rows that are ready to be multiplied (`products`), ``kernel(X, Z)`` the same for plain ones.

============  ==================================  =========================================
`Linear`      ``⟨x, z⟩``
`RBF`         ``exp(−γ ‖x − z‖²)``                local: far rows have a kernel of zero
`Polynomial`  ``(γ ⟨x, z⟩ + r)^degree``
`Sigmoid`     ``tanh(γ ⟨x, z⟩ + r)``              indefinite: certificates do not apply
`Laplacian`   ``exp(−γ ‖x − z‖₁)``                local
`Callable`    any function                        of two blocks, or of two rows
`Precomputed` the values themselves               X is the matrix of kernel values
============  ==================================  =========================================
"""

from __future__ import annotations

import math
from collections.abc import Callable as Function
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from softmargin import validate
from softmargin.products import Block, decay, packed, product, squared_lengths


def between(kernel: Kernel, X: Any, Z: Any, dtype: Any = np.float64) -> Any:
    """k of every row of X with every row of Z."""
    return kernel.block(packed(X, "left", dtype), packed(Z, "right", dtype))


class Kernel(Protocol):
    """What a Gram matrix needs of a kernel."""

    @property
    def definite(self) -> bool:
        """Whether it is an inner product: else nothing can be certified."""

    @property
    def threads(self) -> bool:
        """Whether blocks may be computed in several threads."""

    def block(self, left: Block, right: Block) -> Any:
        """k of every left row with every right one; the caller may overwrite the result."""

    def diagonal(self, X: Any) -> Any:
        """k of every row with itself."""


def namespace(array: Any) -> Any:
    """The functions that belong to an array."""
    return np if isinstance(array, np.ndarray) else array.__array_namespace__()


@dataclass(frozen=True)
class Linear:
    """``⟨x, z⟩``."""

    definite = True
    threads = True

    def block(self, left: Block, right: Block) -> Any:
        return product("inner", left, right)

    def diagonal(self, X: Any) -> Any:
        return squared_lengths(X)


@dataclass(frozen=True)
class RBF:
    """The Gaussian kernel ``exp(−γ ‖x − z‖²)``."""

    gamma: float
    definite = True
    threads = True

    def __post_init__(self) -> None:
        validate.positive("gamma", self.gamma, "it is one over twice the squared width of the Gaussian")

    def block(self, left: Block, right: Block) -> Any:
        return decay(product("squared", left, right), self.gamma)

    def diagonal(self, X: Any) -> Any:
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class Polynomial:
    """``(γ ⟨x, z⟩ + r)^degree``."""

    gamma: float
    degree: float = 3
    coef0: float = 0.0
    threads = True

    def __post_init__(self) -> None:
        validate.positive("gamma", self.gamma, "it is the factor of the inner product")
        validate.not_negative("degree", self.degree, "it is the power of the kernel")
        _finite("coef0", self.coef0)

    @property
    def definite(self) -> bool:
        """With a negative r, or a power that is no whole number, it need not be an inner product."""
        return self.coef0 >= 0.0 and self.degree == int(self.degree)

    def block(self, left: Block, right: Block) -> Any:
        return self._of(product("inner", left, right))

    def diagonal(self, X: Any) -> Any:
        return self._of(squared_lengths(X))

    def _of(self, inner: Any) -> Any:
        inner *= self.gamma
        inner += self.coef0
        if self.degree != int(self.degree) or self.degree > 16:
            return inner**self.degree
        out = inner.copy() if self.degree else inner * 0.0 + 1.0
        for _ in range(int(self.degree) - 1):
            out *= inner
        return out


@dataclass(frozen=True)
class Sigmoid:
    """``tanh(γ ⟨x, z⟩ + r)``, which is not an inner product for most γ and r."""

    gamma: float
    coef0: float = 0.0
    definite = False
    threads = True

    def __post_init__(self) -> None:
        validate.positive("gamma", self.gamma, "it is the factor of the inner product")
        _finite("coef0", self.coef0)

    def block(self, left: Block, right: Block) -> Any:
        return self._of(product("inner", left, right))

    def diagonal(self, X: Any) -> Any:
        return self._of(squared_lengths(X))

    def _of(self, inner: Any) -> Any:
        inner *= self.gamma
        inner += self.coef0
        return namespace(inner).tanh(inner, out=inner)


@dataclass(frozen=True)
class Laplacian:
    """``exp(−γ ‖x − z‖₁)``."""

    gamma: float
    definite = True
    threads = True

    def __post_init__(self) -> None:
        validate.positive("gamma", self.gamma, "it is one over the width of the kernel")

    def block(self, left: Block, right: Block) -> Any:
        return decay(product("absolute", left, right), self.gamma)

    def diagonal(self, X: Any) -> Any:
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class Callable:
    """A user's function: of two blocks of rows, with a matrix as result, or of two rows, with a number."""

    function: Function[[Any, Any], Any]
    definite = True  # as far as anybody knows
    threads = False  # nor whether it may run in several

    def block(self, left: Block, right: Block) -> Any:
        X, Z = left.rows, right.rows
        shape = (X.shape[0], Z.shape[0])
        out = self._on_blocks(X, Z, shape)
        if out is None:
            out = np.array([[self._number(x, z) for z in _each(Z)] for x in _each(X)], np.float64).reshape(shape)
        if not np.isfinite(out).all():
            row, column = np.argwhere(~np.isfinite(out))[0]
            raise ValueError(
                f"kernel={self._name} returned {out[row, column]} for two rows: a kernel must give finite numbers"
            )
        return out

    def _on_blocks(self, X: Any, Z: Any, shape: tuple[int, int]) -> Any:
        """The function's matrix, None if it is a function of two rows."""
        try:
            out = self.function(X, Z)
            out = out.toarray() if sp.issparse(out) else np.asarray(out)
        except (ValueError, TypeError, IndexError):
            return None
        if out.shape == shape and (max(shape) > 1 or out.ndim == 2):
            return np.array(out, np.float64 if out.dtype != np.float32 else np.float32)
        if out.ndim == 2 and min(shape) > 1:
            raise ValueError(
                f"kernel={self._name} returned shape {out.shape} for blocks of {shape[0]} and {shape[1]} rows: "
                f"return shape {shape}, or a number for two single rows"
            )
        return None

    def _number(self, x: Any, z: Any) -> float:
        value = np.asarray(self.function(x, z))
        if value.size != 1:
            raise ValueError(
                f"kernel={self._name} returned shape {value.shape} for two rows: return a number, "
                "or the matrix of kernel values for two blocks of rows"
            )
        return float(value.reshape(-1)[0])

    def __repr__(self) -> str:
        """Without an address, so that a checkpoint knows the kernel again in another process."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"Callable({getattr(self.function, '__module__', '')}.{name})"

    @property
    def _name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def diagonal(self, X: Any) -> Any:
        out = np.empty(X.shape[0])
        for first in range(0, len(out), 16):
            part = X[first : first + 16]
            out[first : first + 16] = np.diagonal(self.block(Block(part), Block(part)))
        return out


def _each(X: Any) -> Any:
    return (X[i : i + 1] for i in range(X.shape[0])) if sp.issparse(X) else X


@dataclass(frozen=True)
class Precomputed:
    """Kernel values that are known: X is their matrix, and `block` is not asked."""

    definite = True
    threads = True

    def block(self, left: Block, right: Block) -> Any:
        raise TypeError("a precomputed kernel has no rows to compute from")

    def diagonal(self, X: Any) -> Any:
        return np.asarray(X.diagonal(), np.float64)


KERNELS = ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed")


def named(kernel: Any, *, gamma: float, degree: float, coef0: float) -> Kernel:
    """The kernel that scikit-learn's parameters mean: a name, a function, or a kernel already."""
    if callable(kernel):
        return Callable(kernel)
    if not isinstance(kernel, str):
        if hasattr(kernel, "block") and hasattr(kernel, "diagonal"):
            return kernel  # type: ignore[no-any-return]
        raise TypeError(f"kernel={kernel!r} is neither a name ({', '.join(KERNELS)}), nor a function, nor a kernel")
    validate.choice("kernel", kernel, KERNELS)
    made: dict[str, Function[[], Kernel]] = {
        "linear": Linear,
        "poly": lambda: Polynomial(gamma, degree, coef0),
        "rbf": lambda: RBF(gamma),
        "sigmoid": lambda: Sigmoid(gamma, coef0),
        "laplacian": lambda: Laplacian(gamma),
        "precomputed": Precomputed,
    }
    return made[kernel]()


def _finite(name: str, value: Any) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{name}={value!r} is not a finite number: pass for example 0.0")
