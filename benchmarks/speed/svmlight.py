"""How much faster than scikit-learn `softmargin.load_svmlight` reads text, file by file, on one core.

Run ``python benchmarks/speed/svmlight.py [MEGABYTES]``: each file as it is, or repeated up to that size. The time of a
reader is its median over 5 runs, with the file in the system's cache and the kernel compiled.
"""

from __future__ import annotations

import lzma
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from softmargin.datasets import folder
from softmargin.svmlight import load_svmlight

FILES = ("a9a/a9a.xz", "w8a/w8a.xz", "phishing/phishing.xz", "svmlight_example1/small_train.dat.xz")
RUNS = 5


def seconds(load: Callable[[Path], Any], path: Path) -> float:
    """Return the median time of a reader."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        load(path)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(megabytes: float = 0.0) -> list[dict[str, Any]]:
    """Megabytes a second of both readers, file by file."""
    out = []
    print(f"{'file':36} {'MB':>6} {'MB/s':>6} {'sklearn':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "rows.txt"
        for name in FILES:
            with lzma.open(folder() / name) as stream:
                text = stream.read().rstrip(b"\n") + b"\n"
            path.write_bytes(text * max(1, int(megabytes * 1e6 / len(text))))
            load_svmlight(path)  # compiles the kernel
            size = path.stat().st_size / 1e6
            ours = seconds(load_svmlight, path)
            theirs = seconds(lambda path: load_svmlight_file(path, dtype=np.float32), path)
            print(f"{name:36} {size:6.1f} {size / ours:6.0f} {size / theirs:8.0f} {theirs / ours:6.1f}", flush=True)
            out.append({"file": name, "MB": size, "ours": size / ours, "scikit-learn": size / theirs})
    return out


if __name__ == "__main__":
    measure(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
