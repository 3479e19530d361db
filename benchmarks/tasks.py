"""The training problems of the benchmarks: data set, labels, scaling."""

from __future__ import annotations

from typing import Any

import numpy as np

from softmargin import datasets

BINARY = ("a9a", "w8a", "covtype", "mnist", "20news", "imdb")
TALL = ("a9a", "w8a", "covtype", "mnist")
TEXT = ("20news", "imdb")
MULTICLASS = ("mnist", "20news")


def binary(name: str) -> tuple[Any, Any]:
    """Rows, and labels −1 and +1."""
    X, y = datasets.load(name)[:2]
    if name == "covtype":
        return X * np.float32(0.001), np.where(y == 1, 1.0, -1.0)
    if name == "mnist":
        return X, np.where(y == 8, 1.0, -1.0)
    if name == "20news":
        return X, np.where([group.split(".")[0] in ("comp", "sci") for group in y], 1.0, -1.0)
    return X, np.where(y > 0, 1.0, -1.0)


def multiclass(name: str) -> tuple[Any, Any]:
    """Rows and labels as they are."""
    return datasets.load(name)[:2]
