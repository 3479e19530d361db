"""One pass of coordinate descent: nanoseconds per stored entry, beside the same loop in plain C and the memory's floor.

The C loop reads the same arrays in the same order, one thread, ``gcc -O3 -march=native``. The floor is the time that
reading every entry (value and column number) once takes.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from softmargin import DualDescent, Problem
from softmargin.solvers.linear.dual_descent import NEIGHBOURS, Rest, by_blocks, sweep

SOURCE = r"""
#include <stdint.h>
void sweep(int64_t n, const uint64_t *visits, const float *data, const uint32_t *indices, const uint64_t *start,
           const uint64_t *stop, const double *y, const double *c, const double *q, double *a, double *w) {
  for (int64_t k = 0; k < n; k++) {
    uint64_t i = visits[k];
    if (k + 2 < n) {
      uint64_t j = visits[k + 2];
      for (uint64_t t = start[j]; t < stop[j]; t += 16) {
        __builtin_prefetch(data + t);
        __builtin_prefetch(indices + t);
      }
    }
    double z = 0.0;
    for (uint64_t t = start[i]; t < stop[i]; t++) z += data[t] * w[indices[t]];
    double alpha = a[i] * y[i] + (1.0 - y[i] * z) / q[i];
    double new_ = y[i] * (alpha < 0.0 ? 0.0 : alpha > c[i] ? c[i] : alpha), move = new_ - a[i];
    if (move != 0.0) {
      a[i] = new_;
      for (uint64_t t = start[i]; t < stop[i]; t++) w[indices[t]] += move * data[t];
    }
  }
}
"""


def measure(X: Any, y: Any, passes: int = 12) -> dict[str, float]:
    """Medians over some passes from zero, each loop on its own copy of the state, taking turns."""
    problem = Problem.of(X, y, bias="none")
    solver = DualDescent()
    ours, theirs = solver.init(problem), solver.init(problem)
    loop = _compiled()
    rows, n = problem.rows, problem.n
    times: dict[str, list[float]] = {"ours": [], "C": [], "memory": []}
    rng = np.random.default_rng(0)
    for number in range(passes + 1):
        ours.rest = Rest.none(n)  # every row in every pass
        blocks = rng.permutation(-(-n // int(NEIGHBOURS)))
        visits = np.empty(n + 1, np.uint64)
        visits = visits[: by_blocks(blocks, np.ones(n, np.bool_), visits)]
        began = time.perf_counter()
        sweep(
            problem.loss,
            rows,
            problem.y,
            problem.c,
            ours.q,
            visits,
            0,
            0.0,
            ours.a,
            ours.rest,
            ours.gaps,
            ours.w,
            ours.bias,
            0.0,
            np.uint64(2),
        )
        middle = time.perf_counter()
        arrays = (
            visits,
            rows.data,
            rows.indices,
            rows.start,
            rows.stop,
            problem.y,
            problem.c,
            theirs.q,
            theirs.a,
            theirs.w,
        )
        loop(n, *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays))
        then = time.perf_counter()
        rows.data.view(np.uint32).max()
        rows.indices.max()
        end = time.perf_counter()
        if number:  # the first pass compiles and warms up
            for name, seconds in zip(times, (middle - began, then - middle, end - then), strict=True):
                times[name].append(seconds / len(rows.data) * 1e9)
    if not np.allclose(ours.w, theirs.w, atol=1e-6):
        raise AssertionError("the two loops disagree")
    result = {name: statistics.median(values) for name, values in times.items()}
    print({name: round(value, 3) for name, value in result.items()}, "ns per entry and pass")
    return result


def _compiled() -> Any:
    folder = Path(tempfile.mkdtemp())
    (folder / "sweep.c").write_text(SOURCE)
    command = [
        "gcc",
        "-O3",
        "-march=native",
        "-shared",
        "-fPIC",
        str(folder / "sweep.c"),
        "-o",
        str(folder / "sweep.so"),
    ]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(folder / "sweep.so")).sweep
    function.argtypes = [ctypes.c_int64] + [ctypes.c_void_p] * 10
    function.restype = None
    return function


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1]))
    import tasks

    measure(*tasks.binary(sys.argv[1] if len(sys.argv) > 1 else "imdb"))
