"""Where rows of kernel values are kept: whole, or without the values that are next to nothing.

Both stores have numbered slots, and the same few operations: write rows tile by tile, add rows up, pick a square. The
caller decides what is in which slot. A kernel whose width is small beside the data's is zero for most pairs, and a
`SparseStore` keeps only the others: on Covertype one value in sixty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softmargin.rows import kernel

Use = Callable[[slice, slice, Any], None]  # called with rows and columns of a tile, and the tile
STRIP = 1024  # columns added up at a time: they stay in the nearest cache
LANES = 16  # values looked at together


class DenseStore:
    """Rows as they are, in `memory`, with room for some more columns."""

    def __init__(self, memory: Any, n: int, width: int, spare: int) -> None:
        self.capacity = min(n, len(memory) // spare)
        self.width, self._table = width, memory[: self.capacity * spare].reshape(self.capacity, spare)

    def can_widen(self, width: int) -> bool:
        """Whether there is room for so many columns."""
        return bool(width <= self._table.shape[1])

    def write(self, slots: Any, first: int, tiles: Callable[[Use], None]) -> None:
        """Take the rows of some slots, from column `first` on, tile by tile."""

        def use(part: slice, columns: slice, block: Any) -> None:
            self._table[slots[part], first + columns.start : first + columns.stop] = block

        tiles(use)

    def row(self, slot: int) -> Any:
        """A whole row."""
        return self._table[slot, : self.width]

    def add(self, slots: Any, weights: Any, out: Any, low: Any, high: Any) -> None:
        """``out += Σ weightsₖ · row in slotsₖ``, on the columns low to high."""
        add_rows(self._table, slots, weights, out, low, high)

    def square(self, slots: Any, columns: Any) -> Any:
        """The values of the rows in `slots` at `columns`; not to be written to."""
        everything = len(slots) == len(columns) == self.width == self.capacity
        if everything and (slots == columns).all() and (np.diff(slots, prepend=-1) == 1).all():
            return self._table
        out = np.empty((len(slots), len(columns)), np.float32)
        _pick(self._table, slots, columns, out)
        return out


class SparseStore:
    """Rows as lists of columns and values, those below `least` in size left out; `budget` values in all."""

    def __init__(self, budget: int, n: int, width: int, least: float) -> None:
        self.capacity, self.width, self._least = n, width, np.float32(least)
        self._budget, self._end = budget, 0
        # the system gives this memory when it is written
        self._values, self._columns = np.empty(budget, np.float32), np.empty(budget, np.uint32)
        self._start, self._stop = np.zeros(n, np.int64), np.zeros(n, np.int64)

    def can_widen(self, width: int) -> bool:
        return width == self.width

    def drop(self, slots: Any, keep: Any) -> None:
        """Forget the rows of some slots and close the gaps between those that stay."""
        self._start[slots] = self._stop[slots] = 0
        keep = keep[np.argsort(self._start[keep])]
        self._end = int(_close_up(self._values, self._columns, self._start, self._stop, keep))

    def write(self, slots: Any, first: int, tiles: Callable[[Use], None]) -> None:
        """As `DenseStore.write`."""
        pieces: dict[tuple[int, int], tuple[Any, Any, Any]] = {}

        def use(part: slice, columns: slice, block: Any) -> None:
            pieces[part.start, columns.start] = _packed(
                np.ascontiguousarray(block, np.float32), columns.start, self._least
            )

        tiles(use)
        lengths = np.zeros(len(slots), np.int64)
        for (row, _), (counts, _, _) in pieces.items():
            lengths[row : row + len(counts)] += counts
        if int(lengths.sum()) > self.free():
            raise MemoryError(
                f"cache_size has no room for {len(slots)} rows of {lengths.mean():.0f} values each: raise it"
            )
        ends = self._end + np.cumsum(lengths)
        self._start[slots], self._stop[slots] = ends - lengths, ends
        at, self._end = ends - lengths, int(ends[-1])
        for (row, _), (counts, columns, values) in sorted(pieces.items(), key=lambda piece: piece[0]):
            _place(counts, columns, values, at[row : row + len(counts)], self._columns, self._values)

    def free(self) -> int:
        """How many values there is room for."""
        return self._budget - self._end

    def mean(self) -> float:
        """The mean length of a row."""
        held = np.count_nonzero(self._stop)
        return float((self._stop - self._start).sum() / held) if held else 0.0

    def row(self, slot: int) -> Any:
        """As `DenseStore.row`."""
        mine, out = slice(self._start[slot], self._stop[slot]), np.zeros(self.width, np.float32)
        out[self._columns[mine]] = self._values[mine]
        return out

    def add(self, slots: Any, weights: Any, out: Any, low: Any, high: Any) -> None:
        """As `DenseStore.add`; all columns at once."""
        _add_lists(self._values, self._columns, self._start, self._stop, slots, weights, out, low, high)

    def square(self, slots: Any, columns: Any) -> Any:
        """As `DenseStore.square`."""
        out = np.zeros((len(slots), len(columns)), np.float32)
        order = np.argsort(columns, kind="stable")
        _pick_lists(self._values, self._columns, self._start, self._stop, slots, columns[order], order, self.width, out)
        return out


@kernel
def add_rows(table, slots, weights, out, low, high):
    for first in range(low, high, np.uint64(STRIP)):
        part = out[first : min(first + np.uint64(STRIP), high)]
        for k in range(np.uint64(len(slots))):
            row, weight = table[slots[k], first : first + np.uint64(len(part))], weights[k]
            for j in range(len(part)):
                part[j] += weight * row[j]


@kernel
def _pick(table, slots, columns, out):
    for k in range(np.uint64(len(slots))):
        row = table[slots[k]]
        for j in range(np.uint64(len(columns))):
            out[k, j] = row[columns[j]]


@kernel
def _packed(block, first, least):
    """The values of a tile that are not next to nothing: how many a row, their columns, themselves."""
    m, n = block.shape
    counts = np.zeros(m, np.int64)
    room = 4096
    columns, values = np.empty(room, np.uint32), np.empty(room, np.float32)
    at = 0
    for i in range(m):
        row, before = block[i], at
        if at + n > room:
            room = 2 * room + n
            more_columns, more_values = np.empty(room, np.uint32), np.empty(room, np.float32)
            more_columns[:at], more_values[:at] = columns[:at], values[:at]
            columns, values = more_columns, more_values
        for k in range(0, n, LANES):
            last = min(k + LANES, n)
            together = np.float32(0.0)  # unlike a maximum, a sum is vectorised
            for j in range(k, last):
                together += abs(row[j])
            if together > least:
                for j in range(k, last):
                    if abs(row[j]) > least:
                        columns[at], values[at] = first + j, row[j]
                        at += 1
        counts[i] = at - before
    return counts, columns[:at].copy(), values[:at].copy()


@kernel
def _place(counts, columns, values, at, all_columns, all_values):
    k = 0
    for i in range(len(counts)):
        for _ in range(counts[i]):
            all_columns[at[i]], all_values[at[i]] = columns[k], values[k]
            at[i] += 1
            k += 1


@kernel
def _close_up(values, columns, start, stop, order):
    end = 0
    for slot in order:
        first, length = start[slot], stop[slot] - start[slot]
        start[slot], stop[slot] = end, end + length
        for k in range(length):
            values[end + k], columns[end + k] = values[first + k], columns[first + k]
        end += length
    return end


@kernel
def _add_lists(values, columns, start, stop, slots, weights, out, low, high):
    for k in range(len(slots)):
        slot, weight = slots[k], weights[k]
        for at in range(np.uint64(start[slot]), np.uint64(stop[slot])):
            if low <= columns[at] < high:
                out[columns[at]] += weight * values[at]


@kernel
def _pick_lists(values, columns, start, stop, slots, wanted, order, width, out):
    place = np.full(width, -1, np.int32)
    for j in range(len(wanted)):
        place[wanted[j]] = j
    for k in range(len(slots)):
        for at in range(np.uint64(start[slots[k]]), np.uint64(stop[slots[k]])):
            j = place[columns[at]]
            while 0 <= j < len(wanted) and wanted[j] == columns[at]:
                out[k, order[j]] = values[at]
                j -= 1
