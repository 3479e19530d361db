"""Scores of new rows: kernel values with the support vectors, in tiles that stay in the cache, in threads.

The memory is a few tiles, whatever the number of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from softmargin.kernels import Kernel
from softmargin.products import packed
from softmargin.store import add_rows
from softmargin.threads import share

VECTORS, ROWS = 512, 1024  # of a tile
FEW = 4_000_000  # kernel values for which double precision costs nothing to speak of
PROBES, COARSE = 16, 1e-5  # single precision is used where scores of some rows are not more wrong than this


def weighted_kernels(kernel: Kernel, vectors: Any, X: Any, coef: Any, n_jobs: int = 1) -> Any:
    """``Σ coef[r, s] k(x, vectorₛ)`` of every row x of X, a column for every row of `coef`."""
    if sp.issparse(X) != sp.issparse(vectors):
        vectors = sp.csr_array(vectors) if sp.issparse(X) else vectors.toarray()
    if X.shape[0] * vectors.shape[0] <= FEW:
        return _scores(kernel, vectors, X, coef, 1, np.float64)
    some = slice(0, X.shape[0], max(X.shape[0] // PROBES, 1))
    exact, coarse = (_scores(kernel, vectors, X[some], coef, 1, kind) for kind in (np.float64, np.float32))
    good = np.abs(exact - coarse).max(initial=0.0) <= COARSE * max(np.abs(exact).max(initial=0.0), 1.0)
    return _scores(kernel, vectors, X, coef, n_jobs, np.float32 if good else np.float64)


def _scores(kernel: Kernel, vectors: Any, X: Any, coef: Any, n_jobs: int, precision: Any) -> Any:
    out = np.zeros((len(coef), X.shape[0]))
    parts = [slice(first, first + VECTORS) for first in range(0, vectors.shape[0], VECTORS)]
    left = [packed(vectors[part], "left", precision) for part in parts]

    def task(first: int, last: int, _: int) -> None:
        for tile in range(int(first), int(last)):
            rows = slice(tile * ROWS, min((tile + 1) * ROWS, X.shape[0]))
            right = packed(X[rows], "right", precision)
            for part, block in zip(parts, left, strict=True):
                _add(kernel.block(block, right), coef[:, part], out[:, rows])

    n_tiles = -(-X.shape[0] // ROWS)
    share(task, n_tiles, max(min(n_jobs if kernel.threads else 1, n_tiles), 1))
    return out.T


def _add(block: Any, coef: Any, out: Any) -> None:
    """``out += coef @ block`` in float64."""
    if len(coef) > 1:
        out += coef @ block
    else:
        add_rows(block, np.arange(len(block)), coef[0], out[0], np.uint64(0), np.uint64(block.shape[1]))
