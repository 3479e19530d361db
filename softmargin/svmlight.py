"""Reading and writing the text format of LIBSVM and SVMlight.

One row a line: its label, then ``index:value`` for each feature that is stored, then perhaps a comment::

    +1 3:0.5 17:-2e-3  # rows may be empty, and lines may be blank

Several labels are written ``1,4,7``; a query id is written ``qid:3``, after the label. Values and labels are finite
numbers. Indices start at 1, or at 0, have at most 18 digits, and come once in a row.

Text is read a block at a time, through gzip, bzip2 or xz where its first bytes say so, by a compiled kernel: 300 to 800
megabytes a second on one core. Memory peaks below twice the size of the result plus some blocks. The kernel is compiled
by the first call on a machine, which takes a second or two, and then kept in Numba's cache.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, BinaryIO, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike

from softmargin import archive

_BLOCK = 1 << 18  # bytes parsed at once: with what is made of them, they stay in the processor's cache
_ENTRIES = 1 << 16  # written at once
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_LONGEST_MAGIC = 6
_INFINITE = {np.dtype(np.float32): 2.0**128 - 2.0**103, np.dtype(np.float64): float("inf")}  # what rounds to it
_ROW_START = re.compile(rb"^[^\S\n]*(?=[^\s#])", re.MULTILINE)


def load_svmlight(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    n_features: int | None = None,
    dtype: DTypeLike = np.float32,
    zero_based: bool | Literal["auto"] = "auto",
    multilabel: bool = False,
    query_id: bool = False,
) -> tuple[Any, ...]:
    r"""Load rows and labels from a file in the LIBSVM or SVMlight format.

    Parameters
    ----------
    source : path, "-" or binary file object
        Where the text is, plain or compressed by gzip, bzip2 or xz. "-" is the standard input. A file object is read to
        its end and left open.
    n_features : int, optional
        The number of columns; by default, as many as the largest index needs.
    dtype : numpy.float32 or numpy.float64, default=numpy.float32
        The type of the values, which are ``dtype(float(text))`` to the last bit.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has index 0 rather than 1. "auto": if the file has index 0. Pass True for a zero-based
        file that may lack it.
    multilabel : bool, default=False
        Whether rows have several labels, or none.
    query_id : bool, default=False
        Whether rows have a query id, to be returned too.

    Returns
    -------
    X : scipy.sparse.csr_array
        The rows, with sorted and unique indices. Zeros that the file has are stored.
    y : numpy.ndarray of float64, or list of tuples of float if multilabel
        The labels; those of one row are sorted.
    qid : numpy.ndarray of int64
        The query ids, only if asked for.

    Raises
    ------
    ValueError
        If a line is not in the format (the message has its number), there are no rows, ``n_features`` is too small, or
        a compressed file is truncated or corrupt.

    Examples
    --------
    >>> import io
    >>> X, y = load_svmlight(io.BytesIO(b"+1 1:0.5 3:2\n-1 2:1  # a comment"))
    >>> X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]], dtype=float32)
    >>> y
    array([ 1., -1.])
    """
    return parsed(source, dtype, zero_based, multilabel, query_id).result(n_features)


def parsed(
    source: str | os.PathLike[str] | BinaryIO,
    dtype: DTypeLike,
    zero_based: bool | Literal["auto"],
    multilabel: bool = False,
    query_id: bool = False,
) -> Parser:
    """All that a file holds, before it is put together."""
    if np.dtype(dtype) not in _INFINITE:
        raise ValueError(f"dtype={np.dtype(dtype)} is not offered: choose float32 or float64")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based={zero_based!r} is not one of True, False and 'auto'")
    from softmargin import _svmlight_kernel as kernel  # here, for it imports Numba, which takes a while

    base = zero_based if zero_based == "auto" else bool(zero_based)
    with _opened(source) as (name, stream):
        parser = Parser(kernel, name, np.dtype(dtype), base, bool(multilabel), bool(query_id))
        for text in _blocks(name, stream):
            parser.add(text)
    return parser


def dump_svmlight(
    X: ArrayLike,
    y: ArrayLike | Sequence[tuple[float, ...]],
    target: str | os.PathLike[str] | BinaryIO,
    *,
    zero_based: bool = False,
) -> None:
    """Write rows and labels in the LIBSVM or SVMlight format.

    Values are written with the fewest digits that give them back in the type they have; labels, in float64.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
        The rows. What is stored is written of a sparse matrix, what is not zero of an array.
    y : array-like of shape (n_rows,), or sequence of tuples
        The label of each row, or its labels.
    target : path or binary file object
        Where to write. A file appears under its name once it is complete, in place of any before it.
    zero_based : bool, default=False
        Whether the first feature gets index 0 rather than 1.

    Raises
    ------
    ValueError
        If a number is not finite, X and y do not fit, or a row has neither label nor entry.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> dump_svmlight([[0.5, 0.0, 2.0], [0.0, 0.1, 0.0]], [1, -1], stream)
    >>> print(stream.getvalue().decode().rstrip())
    1 1:0.5 3:2
    -1 2:0.1
    """
    rows, labels = _rows(X), _label_texts(y)
    if rows.shape[0] != len(labels):
        raise ValueError(f"X has {rows.shape[0]} rows, but y has {len(labels)}")
    for row in np.flatnonzero(np.diff(rows.indptr) == 0).tolist():
        if not labels[row]:
            raise ValueError(f"row {row} has neither label nor entry: its line would be blank, and lost")
    if hasattr(target, "write"):
        _write(rows, labels, target, zero_based)
        return
    with archive.replacing(target) as stream:
        _write(rows, labels, stream, zero_based)


@dataclass
class Parser:
    """Takes blocks of whole lines, and makes arrays of their rows."""

    kernel: Any
    name: str
    dtype: np.dtype[Any]
    zero_based: bool | str
    multilabel: bool
    query_id: bool
    scratch: Any = None
    room: int = 0
    n_lines: int = 0
    lowest: int = sys.maxsize  # feature index in the file
    highest: int = -1
    label_tuples: list[tuple[float, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values, self.indices = _Growing(self.dtype), _Growing(np.int32)
        self.counts, self.labels, self.queries = _Growing(np.int32), _Growing(np.float64), _Growing(np.int64)

    def add(self, text: bytes) -> None:
        if len(text) > self.room:
            self.room, self.scratch = len(text), self.kernel.Scratch.of(len(text))
        scratch, codes = self.scratch, np.frombuffer(text, np.uint8)
        n_rows, n_labels, n_entries, n_hard, ascending, wrong_at = self.kernel.parse(
            codes, int(self.zero_based is False), self.multilabel, self.query_id, scratch
        )
        self.read_hard(text, scratch.hard[:n_hard].tolist())
        counts, indices, values = scratch.counts[:n_rows], scratch.indices[:n_entries], scratch.values[:n_entries]
        if not ascending:
            indices, values = self.in_order(text, counts, indices, values)
        if wrong_at >= 0:
            problem = self.kernel.explain(text, wrong_at, self.zero_based, self.multilabel, self.query_id)
            raise self.error(text, wrong_at, problem)
        self.lowest = int(indices.min(initial=self.lowest))
        self.highest = int(indices.max(initial=self.highest))
        if self.highest >= 2**31:
            self.indices.array = self.indices.array.astype(np.int64, copy=False)
        self.counts.append(counts)
        self.indices.append(indices)
        self.values.append(values)
        labels = scratch.labels[:n_labels]
        if self.multilabel:
            ends = np.cumsum(scratch.label_counts[:n_rows]).tolist()
            numbers = labels.tolist()
            self.label_tuples += [tuple(sorted(numbers[start:end])) for start, end in pairwise([0, *ends])]
        else:
            self.labels.append(labels)
        if self.query_id:
            self.queries.append(scratch.queries[:n_rows])
        self.n_lines += int(np.count_nonzero(codes == ord("\n")))  # bytes.count takes several times as long

    def read_hard(self, text: bytes, numbers: list[list[int]]) -> None:
        """Read the numbers that the kernel was not certain of."""
        for place, start, end in numbers:
            number = float(text[start:end])
            dtype = self.dtype if place >= 0 else np.dtype(np.float64)
            if abs(number) >= _INFINITE[dtype]:
                raise self.error(text, start, f"{self.kernel.shown(text[start:end])} is too large for {dtype}")
            if place >= 0:
                self.scratch.values[place] = number
            else:
                self.scratch.labels[~place] = number

    def in_order(self, text: bytes, counts: Any, indices: Any, values: Any) -> tuple[Any, Any]:
        """Return the indices and values, those of each row in ascending order."""
        row_of = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((indices, row_of))
        indices, values = indices[order], values[order]
        twice = np.flatnonzero((np.diff(indices) == 0) & (np.diff(row_of) == 0))
        if len(twice):
            starts = [found.end() for found in _ROW_START.finditer(text)]
            raise self.error(text, starts[row_of[twice[0]]], f"feature index {indices[twice[0]]} comes twice")
        return indices, values

    def error(self, text: bytes, at: int, problem: str) -> ValueError:
        line = self.n_lines + text.count(b"\n", 0, at) + 1
        return ValueError(f"{self.name}, line {line}: {problem}")

    @property
    def first_index(self) -> int:
        """The index of the first feature."""
        return int(self.lowest > 0 if self.zero_based == "auto" else not self.zero_based)

    def result(self, n_features: int | None) -> tuple[Any, ...]:
        if not self.counts.size:
            raise ValueError(f"{self.name} has no rows")
        first = self.first_index
        needed = max(self.highest + 1 - first, 0)
        if n_features is None:
            n_features = needed
        elif n_features < needed:
            raise ValueError(
                f"{self.name}: n_features={n_features}, but the largest feature index is {self.highest}, where the "
                f"first is {first}: pass n_features={needed} or more"
            )
        indices, values, counts = self.indices.finished(), self.values.finished(), self.counts.finished()
        indices -= first
        indptr = np.zeros(len(counts) + 1, np.int32 if len(values) < 2**31 else np.int64)
        np.cumsum(counts, dtype=indptr.dtype, out=indptr[1:])
        X = sp.csr_array((values, indices, indptr), shape=(len(counts), n_features))
        X.has_canonical_format = True  # sorted and unique: SciPy need not find out again
        y = self.label_tuples if self.multilabel else self.labels.finished()
        return (X, y, self.queries.finished()) if self.query_id else (X, y)


class _Growing:
    """An array to append to. It grows by reallocation, which moves large arrays without a copy."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.array, self.size = np.empty(0, dtype), 0

    def append(self, more: Any) -> None:
        start, self.size = self.size, self.size + len(more)
        if self.size > len(self.array):
            self.array.resize(self.size + self.size // 4, refcheck=False)
        self.array[start : self.size] = more

    def finished(self) -> Any:
        self.array.resize(self.size, refcheck=False)
        return self.array


@contextmanager
def _opened(source: str | os.PathLike[str] | BinaryIO) -> Iterator[tuple[str, Any]]:
    """Give the name of a source, for messages, and a stream of its text."""
    if hasattr(source, "read"):
        yield str(getattr(source, "name", "stream")), _decompressed(source)
    elif source == "-":
        yield "standard input", _decompressed(sys.stdin.buffer)
    else:
        with open(os.fsdecode(source), "rb") as stream:
            yield os.fsdecode(source), _decompressed(stream)


def _decompressed(stream: Any) -> Any:
    peeked = _Peeked(stream)
    return next((opener(peeked) for magic, opener in _OPENERS.items() if peeked.head.startswith(magic)), peeked)


class _Peeked:
    """A stream whose first bytes are known before it is read; not every stream can seek."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.head = stream, b""
        while len(self.head) < _LONGEST_MAGIC and (more := stream.read(_LONGEST_MAGIC - len(self.head))):
            if isinstance(more, str):
                raise TypeError("the source is open as text: open it in binary mode, 'rb'")
            self.head += more

    def read(self, size: int) -> Any:
        if not self.head:
            return self.stream.read(size)
        start, self.head = self.head[:size], self.head[size:]
        return start


def _blocks(name: str, stream: Any) -> Iterator[bytes]:
    """Cut a text into blocks of whole lines, each line with its newline."""
    begun: list[bytes] = []  # pieces of a line
    while block := _read(name, stream):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join((*begun, memoryview(block)[:end]))
            begun = []
        begun.append(block[end:])
    if any(begun):
        yield b"".join((*begun, b"\n"))


def _read(name: str, stream: Any) -> bytes:
    try:
        return bytes(stream.read(_BLOCK))
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None) is not None:  # it is the system's, not a decompressor's
            raise
        raise ValueError(f"{name}: the compressed file is truncated or corrupt ({error})") from error


def _rows(X: Any) -> Any:
    """Return X as a finite CSR array with sorted and unique indices."""
    X = X if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2 or not X.shape[0]:
        raise ValueError(f"X has shape {X.shape}: expected rows and columns, and at least one row")
    rows = sp.csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the arrays may be the caller's
        rows.sum_duplicates()
    _check_finite("X", rows.data)
    return rows


def _label_texts(y: Any) -> list[str]:
    """Return what stands for each row's label or labels."""
    several = all(isinstance(labels, tuple) for labels in y)
    labels = np.asarray([label for labels in y for label in labels] if several else y, np.float64)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}: expected a label, or a tuple of labels, for each row")
    _check_finite("y", labels)
    texts = iter(_texts(labels))
    return [",".join(islice(texts, len(labels))) for labels in y] if several else list(texts)


def _check_finite(name: str, numbers: Any) -> None:
    if numbers.dtype.kind not in "fiub" or not np.isfinite(numbers).all():
        raise ValueError(f"{name} has entries that are not finite real numbers")


def _texts(numbers: Any) -> list[str]:
    """Return numbers with the fewest digits that give them back."""
    numbers = numbers.astype(np.uint8) if numbers.dtype.kind == "b" else numbers
    return [text.removesuffix(".0") for text in numbers.astype(np.str_).tolist()]


def _write(rows: Any, labels: list[str], stream: Any, zero_based: bool) -> None:
    cuts = np.searchsorted(rows.indptr, np.arange(0, rows.nnz, _ENTRIES))
    for first, last in pairwise(np.unique([0, *cuts, len(labels)]).tolist()):
        bounds = rows.indptr[first : last + 1]
        block = slice(bounds[0], bounds[-1])
        indices = (rows.indices[block] + (not zero_based)).tolist()
        entries = [f"{index}:{value}" for index, value in zip(indices, _texts(rows.data[block]), strict=True)]
        spans = pairwise((bounds - bounds[0]).tolist())
        lines = [" ".join([label, *entries[a:b]]) for label, (a, b) in zip(labels[first:last], spans, strict=True)]
        stream.write(("\n".join(lines) + "\n").encode())
