"""The matrix of kernel values between all rows: computed in blocks, kept within a memory budget, counted.

A row of it is k(xᵢ, ·) for all n rows of the data, in single precision. Rows are computed many at a time (one matrix
product and one pass of the kernel's function for each tile of `TILE` columns, tiles shared by the threads) and
kept in `store`; the least recently used make room. `scores` never looks at the store: it computes every value anew.
Arithmetic is in single precision where that is good enough for the data, and in double where it is not.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from softmargin import validate
from softmargin.kernels import Kernel, Precomputed, between
from softmargin.products import packed
from softmargin.rows import kernel as compiled
from softmargin.threads import share

TILE = 1024  # columns computed at a time: with ROWS rows of float32 they stay in the cache
ROWS = 512
SMALL = 200_000  # kernel values that are not worth a second thread
PROBES = 32  # rows on which rounding is measured
COARSE = 1e-5  # how wrong single-precision values may be, in units of the largest
SPARE = 8  # a focus leaves room for one column more in so many
SHARE = 0.5  # of the memory that is free now: what the store may take by default
MEGABYTE = 2**20


@compiled
def add_rows(store, slots, weights, out, lo, hi):
    """``out += Σ weightsₖ store[slotsₖ]`` on the columns lo to hi, in float64."""
    for first in range(lo, hi, np.uint64(TILE)):
        last = min(first + np.uint64(TILE), hi)
        part = out[first:last]
        for k in range(np.uint64(len(slots))):
            row, weight = store[slots[k], first:last], weights[k]
            for j in range(len(part)):
                part[j] += weight * row[j]


@compiled
def gather(store, slots, columns, out):
    """``out[k, j] = store[slotsₖ, columnsⱼ]``."""
    for k in range(np.uint64(len(slots))):
        row = store[slots[k]]
        for j in range(np.uint64(len(columns))):
            out[k, j] = row[columns[j]]


def default_cache() -> float:
    """Megabytes of the default budget."""
    try:
        with open("/proc/meminfo") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    return SHARE * free / MEGABYTE


class Gram:
    """Kernel values between the rows of X, computed when they are asked for.

    Parameters
    ----------
    X : array or CSR matrix
        Used in place; for `Precomputed`, the matrix of kernel values.
    kernel : Kernel
    cache_size : float, optional
        Megabytes of kernel rows that are kept at most; half of the free memory by default.
    n_jobs : int
    constant : float
        Added to every value: the squared size of a penalised bias feature.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin.gram import Gram
    >>> from softmargin.kernels import Linear
    >>> gram = Gram(np.eye(3), Linear())
    >>> gram.store[gram.fetch(np.array([1]))].tolist(), gram.asked, gram.computed
    ([[0.0, 1.0, 0.0]], 3, 3)
    """

    def __init__(
        self, X: Any, kernel: Kernel, *, cache_size: float | None = None, n_jobs: int = 1, constant: float = 0.0
    ) -> None:
        self.X, self.kernel, self.n_jobs, self.constant = X, kernel, n_jobs, constant
        self.n: int = X.shape[0]
        self.known = isinstance(kernel, Precomputed)
        self.diagonal = kernel.diagonal(X) + constant
        if not np.isfinite(self.diagonal).all():
            raise ValueError(
                "the kernel of a row with itself is not a finite number: the features are too large for this kernel; "
                "scale them or choose a smaller gamma or degree"
            )
        self.precision = self._precision()
        megabytes = default_cache() if cache_size is None else validate.positive("cache_size", cache_size, _CACHE)
        self.budget = min(int(megabytes * MEGABYTE) // 4, self.n**2)
        if self.budget < min(2, self.n) * self.n:
            raise ValueError(
                f"cache_size={cache_size} megabytes do not hold two rows of {self.n} kernel values, the least that "
                f"training needs: pass at least {2 * 4 * self.n / MEGABYTE:.3g}"
            )
        self._memory = np.empty(self.budget, np.float32)  # the system gives it when it is written
        self.asked = self.computed = 0
        self.fine = False  # whether `scores` must have products in double precision
        self._memo: tuple[Any, Any] | None = None
        self.columns = np.arange(0)
        self.focus(np.arange(self.n))

    def _precision(self) -> Any:
        """Of the kept values' arithmetic: single, unless that is seen to be too coarse for these data."""
        if self.known or not self.n:
            return np.float32
        some = self.X[: self.n : max(self.n // PROBES, 1)]
        exact, coarse = (between(self.kernel, some, some, kind) for kind in (np.float64, np.float32))
        return np.float32 if np.abs(exact - coarse).max() <= COARSE * np.abs(exact).max() else np.float64

    def focus(self, columns: Any) -> None:
        """Keep rows of these columns only. Where they begin with those kept before, the rows are extended."""
        width, before = len(columns), len(self.columns)
        if np.array_equal(columns[:before], self.columns) and 0 < before and width <= self.store.shape[1]:
            if width > before:
                self._extend(columns[before:])
            return
        spare = width if width == self.n else min(self.n, width + width // SPARE, self.budget // 2)
        self.capacity = min(self.n, self.budget // spare)
        self.store = self._memory[: self.capacity * spare].reshape(self.capacity, spare)
        self.columns = columns
        self.slot = np.full(self.n, -1)  # where each row is kept
        self._row = np.full(self.capacity, -1)  # which row each slot keeps
        self._used, self._clock, self._filled = np.zeros(self.capacity, np.int64), 0, 0

    def _extend(self, more: Any) -> None:
        first, self.columns = len(self.columns), np.concatenate([self.columns, more])
        slots = np.flatnonzero(self._row >= 0)

        def write(part: slice, columns: slice, block: Any) -> None:
            self.store[slots[part], first + columns.start : first + columns.stop] = block

        self._tiles(self._row[slots], more, write)

    def fetch(self, index: Any) -> Any:
        """The slots of `store` that hold these rows (at most `capacity` different ones), computed if need be."""
        self._clock += 1
        self.asked += len(index) * len(self.columns)
        kept = self.slot[index] >= 0
        self._used[self.slot[index[kept]]] = self._clock
        missing = np.unique(index[~kept])
        if len(missing):
            slots = self._room(len(missing))

            def write(part: slice, columns: slice, block: Any) -> None:
                self.store[slots[part], columns] = block

            self._tiles(missing, self.columns, write)
            self.slot[missing], self._row[slots], self._used[slots] = slots, missing, self._clock
        return self.slot[index]

    def _room(self, count: int) -> Any:
        """Slots for new rows: free ones, then those of the rows that were not used for longest."""
        free = np.arange(self._filled, min(self._filled + count, self.capacity))
        self._filled += len(free)
        if len(free) == count:
            return free
        oldest = np.argsort(np.where(self._row >= 0, self._used, self._clock), kind="stable")[: count - len(free)]
        self.slot[self._row[oldest]] = -1
        return np.concatenate([free, oldest])

    def _tiles(self, index: Any, others: Any, use: Any) -> None:
        """Call ``use(part, columns, block)`` for all tiles of the rows `index` and the columns `others`, in parallel.

        `part` and `columns` are slices of the two; tiles of the same columns come one after the other.
        """
        parts = [slice(first, first + ROWS) for first in range(0, len(index), ROWS)]
        rows = [self._rows(index[part], "left") for part in parts]
        n_tiles = -(-len(others) // TILE)

        def task(first: int, last: int, _: int) -> None:
            for tile in range(int(first), int(last)):
                columns = slice(tile * TILE, min((tile + 1) * TILE, len(others)))
                right = self._rows(others[columns], "right")
                for part, left in zip(parts, rows, strict=True):
                    use(part, columns, self._block(left, right))

        small = len(index) * len(others) < SMALL or not self.kernel.threads
        share(task, n_tiles, 1 if small else min(self.n_jobs, n_tiles))
        self.computed += len(index) * len(others)

    def _rows(self, chosen: Any, side: Any) -> Any:
        """Rows ready to be multiplied; for known values, where they stand."""
        if self.known:
            return chosen
        if chosen[-1] - chosen[0] == len(chosen) - 1:  # neighbours: no copy
            chosen = slice(chosen[0], chosen[-1] + 1)
        return packed(self.X[chosen], side, np.float64 if self.fine else self.precision)

    def _block(self, left: Any, right: Any) -> Any:
        if self.known:
            block = self.X[left][:, right]
            block = block.toarray() if sp.issparse(block) else block
        else:
            block = self.kernel.block(left, right)
        if self.constant:
            block += block.dtype.type(self.constant)
        return block

    def scores(self, coef: Any) -> Any:
        """``Σ coefⱼ k(xⱼ, ·)`` of every row, from values computed anew and added up in float64.

        The last answer is remembered, for whoever asks about the same coefficients again.
        """
        if self._memo is None or not np.array_equal(self._memo[0], coef):
            self._memo = coef.copy(), self.scores_of(coef, np.arange(self.n))
        return self._memo[1]

    def scores_of(self, coef: Any, rows: Any) -> Any:
        """`scores` of some rows, not remembered."""
        index, out = np.flatnonzero(coef), np.zeros(len(rows))

        def use(part: slice, columns: slice, block: Any) -> None:
            add_rows(block, np.arange(len(block)), coef[index[part]], out[columns], np.uint64(0), block.shape[1])

        if len(index):
            self._tiles(index, rows, use)
        self.asked += len(index) * len(rows)
        return out

    def rounding(self, coef: Any, z: Any) -> float:
        """How wrong the scores z of these coefficients are, measured on some rows against double precision."""
        if self.fine or self.known or self.precision is np.float64:
            return 0.0
        index = np.flatnonzero(coef)
        index = index[:: max(len(index) // PROBES, 1)]
        self.fine = True
        try:
            exact = self.scores_of(coef, index)
        finally:
            self.fine = False
        return float(np.sqrt(np.mean((exact - z[index]) ** 2))) if len(index) else 0.0

    def in_double_precision(self) -> bool:
        """Have `scores` use double precision from now on; returns whether it had not before."""
        changed = not self.fine and self.precision is np.float32 and not self.known
        if changed:
            self.fine, self._memo = True, None
        return changed

    def update(self, out: Any, slots: Any, weights: Any) -> None:
        """``out += Σ weightsₖ · row in slot k``, for the columns in focus."""
        jobs = min(self.n_jobs, 1 + len(slots) * len(out) // 1_000_000)
        share(lambda lo, hi, _: add_rows(self.store, slots, weights, out, lo, hi), len(out), jobs)

    def square(self, slots: Any, places: Any) -> Any:
        """The kernel values between the rows in these slots and the columns at these places."""
        out = np.empty((len(slots), len(places)), np.float32)
        gather(self.store, slots, places, out)
        return out


_CACHE = "it is in megabytes; None takes half of the free memory"
