"""The matrix of kernel values between all rows: computed in blocks, kept within a memory budget, counted.

A row of it is k(xᵢ, ·) for all n rows of the data, in single precision. Rows are computed many at a time (one matrix
product and one pass of the kernel's function for each tile of `TILE` columns, tiles shared by the threads) and
kept in `store`; the least recently used make room. `scores` never looks at the store: it computes every value anew.
Arithmetic is in single precision where that is good enough for the data, and in double where it is not.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from softmargin import validate
from softmargin.kernels import Kernel, Precomputed, between
from softmargin.products import packed
from softmargin.store import DenseStore, SparseStore, add_rows
from softmargin.threads import share

TILE = 1024  # columns computed at a time: with ROWS rows of float32 they stay in the cache
ROWS = 512
LEAST = 1e-7  # values below this share of the largest are next to nothing
MANY, FEW = 5000, 0.05  # of so many rows those are kept as lists whose share of other values is at most this
EVICT = 0.2  # the share of the lists that leaves when there is no room
PIECE, GROUP = 1 << 23, 1 << 24  # values of one side of a tile at most; of all left sides that are packed at a time
KEPT = 0.1  # right sides are kept packed when they take at most this share of the memory
SMALL = 200_000  # kernel values that are not worth a second thread
PROBES = 32  # rows on which rounding is measured
ASYMMETRY = 1e-5  # how far a kernel may be from symmetric and definite, in units of its largest value
COARSE = 1e-5  # how wrong single-precision values may be, in units of the largest
SPARE = 8  # a focus leaves room for one column more in so many
SHARE = 0.5  # of the memory that is free now: what the store may take by default
MEGABYTE = 2**20


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
    >>> gram.store.square(gram.fetch(np.array([1])), gram.columns).tolist(), gram.asked, gram.computed
    ([[0.0, 1.0, 0.0]], 3, 3)
    """

    def __init__(
        self, X: Any, kernel: Kernel, *, cache_size: float | None = None, n_jobs: int = 1, constant: float = 0.0
    ) -> None:
        self.X, self.kernel, self.n_jobs, self.constant = X, kernel, n_jobs, constant
        self.n: int = X.shape[0]
        self.known = isinstance(kernel, Precomputed)
        if self.known and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel of shape {X.shape} is not square: pass the values between all rows for training"
            )
        self._index: Any = None  # which rows of X these are, where they are not all
        if self.known:
            self.diagonal = np.asarray(X.diagonal(), np.float64) + constant
        else:
            self.diagonal = (
                np.concatenate([kernel.diagonal(X[k : k + TILE]) for k in range(0, self.n, TILE)]) + constant
            )
        if not np.isfinite(self.diagonal).all():
            raise ValueError(
                "the kernel of a row with itself is not a finite number: the features are too large for this kernel; "
                "scale them or choose a smaller gamma or degree"
            )
        self.fine = False  # whether `scores` must have products in double precision
        self.precision = self._precision()
        self.definite = kernel.definite and self._looks_definite()
        self._few = self._mostly_nothing()
        megabytes = default_cache() if cache_size is None else validate.positive("cache_size", cache_size, _CACHE)
        self._open(int(megabytes * MEGABYTE) // 4)

    def part(self, rows: Any, *, share: float = 1.0, n_jobs: int | None = None, values: Any = None) -> Gram:
        """The matrix of some rows, with its own store of a share of the memory.

        `values` are all its values (from `whole`), where somebody has computed them already.
        """
        part = copy.copy(self)
        part._index = rows if self._index is None else self._index[rows]
        part.n, part.diagonal, part.n_jobs = len(rows), self.diagonal[rows], n_jobs or self.n_jobs
        part._open(int(share * self.allowed), values)
        return part

    def _open(self, allowed: int, values: Any = None) -> None:
        """Begin with an empty store of at most so many values, or with the one that holds them all."""
        sides = 0 if self.known else self.n * self.X.shape[1]
        self._keeps_sides = 0 < sides <= KEPT * allowed
        self.allowed, self.budget = allowed, min(allowed - sides * self._keeps_sides, self.n**2)
        self.complete, self.sparse = values is not None, values is None and self._few and self.n >= MANY
        self.asked = self.computed = 0
        self._memo: tuple[Any, Any] | None = None
        self._packed: dict[Any, Any] = {}
        self.columns = np.arange(0)
        if values is not None:
            self._memory = values.reshape(-1)
            self._keep(DenseStore(self._memory, self.n, self.n, self.n), np.arange(self.n))
            self.slot, self._row = np.arange(self.n), np.arange(self.n)
            return
        if self.budget < min(2, self.n) * self.n:
            raise ValueError(
                f"cache_size={allowed * 4 / MEGABYTE:.3g} megabytes do not hold two rows of {self.n} kernel values, "
                f"the least that training needs: pass at least {2 * 4 * self.n / MEGABYTE:.3g}"
            )
        # the system gives this memory when it is written
        self._memory = np.empty(0 if self.sparse else self.budget, np.float32)
        self.focus(np.arange(self.n))

    def marks(self) -> tuple[Any, ...]:
        """The arrays that tell these rows from others."""
        index = () if self._index is None else (self._index,)
        return (self.X.data, self.X.indices, self.X.indptr, *index) if sp.issparse(self.X) else (self.X, *index)

    def _precision(self) -> Any:
        """Of the kept values' arithmetic: single, unless that is seen to be too coarse for these data."""
        if self.known or not self.n or not self.kernel.threads:
            return np.float32
        some = self.X[: self.n : max(self.n // PROBES, 1)]
        exact, coarse = (between(self.kernel, some, some, kind) for kind in (np.float64, np.float32))
        return np.float32 if np.abs(exact - coarse).max() <= COARSE * np.abs(exact).max() else np.float64

    def _looks_definite(self) -> bool:
        """Whether the values between some rows could be inner products; refuses what is not even symmetric."""
        some = np.arange(0, self.n, max(self.n // PROBES, 1))
        values = np.asarray(self._block(self._rows(some, "left"), self._rows(some, "right")), np.float64)
        size = np.abs(values).max(initial=0.0)
        if np.abs(values - values.T).max(initial=0.0) > ASYMMETRY * size:
            i, j = np.unravel_index(np.argmax(np.abs(values - values.T)), values.shape)
            raise ValueError(
                f"the kernel is not symmetric: {values[i, j]:.7g} for rows {some[i]} and {some[j]}, "
                f"{values[j, i]:.7g} for rows {some[j]} and {some[i]}"
            )
        return bool(not len(some) or np.linalg.eigvalsh(values)[0] > -ASYMMETRY * size * len(some))

    def focus(self, columns: Any) -> None:
        """Keep rows of these columns only. Where they begin with those kept before, the rows are extended."""
        width, before = len(columns), len(self.columns)
        if 0 < before <= width and np.array_equal(columns[:before], self.columns) and self.store.can_widen(width):
            if width > before:
                self._extend(columns[before:])
            return
        if self.sparse:
            self._keep(
                SparseStore(self.budget // 2, self.n, width, LEAST * float(np.abs(self.diagonal).max())), columns
            )
        else:
            spare = width if width == self.n else min(self.n, width + width // SPARE, self.budget // 2)
            self._keep(DenseStore(self._memory, self.n, width, spare), columns)

    def _keep(self, store: DenseStore | SparseStore, columns: Any) -> None:
        """Begin anew with an empty store for rows of these columns."""
        self.store: Any = store
        self.columns = columns
        self.capacity: int = self.store.capacity
        self.slot = np.full(self.n, -1)  # where each row is kept
        self._row = np.full(self.capacity, -1)  # which row each slot keeps
        self._used, self._since, self._clock = np.zeros(self.capacity, np.int64), np.zeros(self.capacity, np.int64), 0

    def _mostly_nothing(self) -> bool:
        """Whether most values are so small that rows are kept as lists."""
        if self.n < MANY or not self.kernel.threads:
            return False
        some, others = (np.arange(0, self.n, max(self.n // count, 1)) for count in (PROBES, TILE))
        values = self._block(self._rows(some, "left"), self._rows(others, "right"))
        return bool(np.mean(np.abs(values) > LEAST * np.abs(self.diagonal).max()) < FEW)

    def _extend(self, more: Any) -> None:
        first, self.columns = len(self.columns), np.concatenate([self.columns, more])
        slots = np.flatnonzero(self._row >= 0)
        self.store.write(slots, first, lambda use: self._tiles(self._row[slots], more, use))

    def fetch(self, index: Any) -> Any:
        """The slots of `store` that hold these rows (at most `capacity` different ones), computed if need be."""
        self._clock += 1
        self.asked += len(index) * len(self.columns)
        kept = self.slot[index] >= 0
        self._used[self.slot[index[kept]]] = self._clock
        missing = np.unique(index[~kept])
        if len(missing):
            slots = self._room(len(missing))
            try:
                self.store.write(slots, 0, lambda use: self._tiles(missing, self.columns, use))
            except MemoryError:  # they are longer than was thought
                slots = self._room(len(missing), everything=True)
                self.store.write(slots, 0, lambda use: self._tiles(missing, self.columns, use))
            self.slot[missing], self._row[slots] = slots, missing
            self._used[slots] = self._since[slots] = self._clock
        return self.slot[index]

    def _room(self, count: int, everything: bool = False) -> Any:
        """Slots for new rows: free ones, and those of the rows that were not used, or came, longest ago."""
        free, held = np.flatnonzero(self._row < 0), np.flatnonzero(self._row >= 0)
        held = held[np.lexsort((self._since[held], self._used[held]))]
        leave = len(held) if everything else max(count - len(free), 0)
        if self.sparse and len(held) and count * self.store.mean() > self.store.free():
            leave = max(leave, min(len(held), int(np.ceil(count + len(held) * EVICT))))
        gone = held[:leave]
        gone = gone[self._used[gone] < self._clock]
        self.slot[self._row[gone]], self._row[gone] = -1, -1
        if self.sparse and len(gone):
            self.store.drop(gone, held[len(gone) :])
        return np.concatenate([free, gone])[:count]

    def _tiles(self, index: Any, others: Any, use: Any) -> None:
        """Call ``use(part, columns, block)`` for all tiles of the rows `index` and the columns `others`, in parallel.

        `part` and `columns` are slices of the two; tiles of the same columns come one after the other.
        """
        width = 1 if self.known else max(self.X.shape[1], 1)
        height, tile = (max(min(most, PIECE // width), 48) for most in (ROWS, TILE))
        together = max(GROUP // (width * height), 1) * height  # rows that are packed at a time
        n_tiles = -(-len(others) // tile)
        small = len(index) * len(others) < SMALL or not self.kernel.threads
        for begin in range(0, len(index), together):
            end = min(begin + together, len(index))
            parts = [slice(first, min(first + height, end)) for first in range(begin, end, height)]
            rows = [self._rows(index[part], "left") for part in parts]

            def task(first: int, last: int, _: int) -> None:
                for k in range(int(first), int(last)):
                    columns = slice(k * tile, min((k + 1) * tile, len(others)))
                    right = self._columns(others, columns)
                    for part, left in zip(parts, rows, strict=True):  # noqa: B023
                        use(part, columns, self._block(left, right))

            share(task, n_tiles, 1 if small else min(self.n_jobs, n_tiles))
        self.computed += len(index) * len(others)

    def _columns(self, others: Any, columns: slice) -> Any:
        """The right side of a tile, kept where all rows are asked for and there is room: packing it costs as much as
        multiplying it with some fifty rows."""
        if len(others) < self.n or not self._keeps_sides:
            return self._rows(others[columns], "right")
        key = columns.start, columns.stop, self.fine
        if key not in self._packed:
            if self.fine and any(not fine for *_, fine in self._packed):
                self._packed.clear()
            self._packed[key] = self._rows(others[columns], "right")
        return self._packed[key]

    def _rows(self, chosen: Any, side: Any) -> Any:
        """Rows ready to be multiplied; for known values, where they stand."""
        chosen = chosen if self._index is None else self._index[chosen]
        if self.known:
            return chosen
        if len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1 and (np.diff(chosen) == 1).all():  # no copy
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
        else:
            self.asked += int(np.count_nonzero(coef)) * self.n
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

    def take(self, chosen: Any) -> Any:
        """Some rows as they are."""
        return self.X[chosen if self._index is None else self._index[chosen]]

    def whole(self) -> Any:
        """All values, in single precision."""
        out, every = np.empty((self.n, self.n), np.float32), np.arange(self.n)

        def use(part: slice, columns: slice, block: Any) -> None:
            out[part, columns] = block

        self._tiles(every, every, use)
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
        """``out += Σ weightsₖ · row in slotsₖ``, for the columns in focus."""
        jobs = 1 if self.sparse else min(self.n_jobs, 1 + len(slots) * len(out) // 1_000_000)
        share(lambda lo, hi, _: self.store.add(slots, weights, out, lo, hi), len(out), jobs)


_CACHE = "it is in megabytes; None takes half of the free memory"
