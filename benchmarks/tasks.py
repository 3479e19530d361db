"""The training problems of the benchmarks: data set, labels, scaling."""

from __future__ import annotations

from typing import Any, NamedTuple

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


class KernelTask(NamedTuple):
    """A problem for the Gaussian kernel, with rows to test on."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    gamma: float
    C: float


KERNEL = {  # data set, γ, C
    "Adult, C=1": ("a9a", 0.05, 1.0),
    "Adult, C=100": ("a9a", 0.005, 100.0),
    "MNIST 8, C=1": ("mnist", 0.02, 1.0),
    "MNIST 8, C=1000": ("mnist", 0.02, 1000.0),
    "w8a": ("w8a", 0.05, 1.0),
    "letter": ("letter", 1 / 16, 10.0),
    "Covertype 100 000": ("covtype", 1e-4, 1e4),
}


def kernel(name: str) -> KernelTask:
    """Dense float32 rows; those of Covertype as they are, those of letter standardised."""
    data, gamma, C = KERNEL[name]
    X, y, X_test, y_test = datasets.load(data)
    if data in ("a9a", "w8a"):
        X = X.toarray()
        X_test = None if X_test is None else X_test.toarray()
    if data == "mnist":
        y, y_test = (np.where(digits == 8, 1, -1) for digits in (y, y_test))
    if data == "covtype":
        X, y, X_test, y_test = (part[:100_000] for part in forest())
    if data == "letter":
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        X, X_test = ((part - mean) / deviation for part in (X, X_test))
    return KernelTask(X, y, X_test, y_test, gamma, C)


def forest() -> tuple[Any, Any, Any, Any]:
    """Covertype's class 2 against the rest, 522 910 rows for training and 58 102 for testing, in random order."""
    X, y = datasets.load("covtype")[:2]
    y = np.where(y == 2, 1, -1)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:522_910], order[522_910:]
    return X[train], y[train], X[test], y[test]
