"""Blocks of inner products and distances: SciPy's values, whatever the storage, the precision and the sizes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from softmargin.products import DENSE, decay, packed, product, squared_lengths

REFERENCES = {
    "inner": lambda X, Z: X @ Z.T,
    "squared": lambda X, Z: cdist(X, Z, "sqeuclidean"),
    "absolute": lambda X, Z: cdist(X, Z, "cityblock"),
}
OPERATIONS = pytest.mark.parametrize("operation", REFERENCES)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def stored(X, storage):
    """Dense, CSR that is filled up with zeros, or CSR so sparse that it stays (the values must have few entries)."""
    return np.ascontiguousarray(X) if storage == "dense" else sp.csr_array(X)


def rows(n, d, seed, share=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) * (rng.random((n, d)) < share)).astype(dtype)


def compare(operation, X, Z, storages, dtype, kinds=(np.float64, np.float64)):
    left, right = (
        packed(stored(A.astype(kind), storage), side, dtype)
        for A, storage, side, kind in zip((X, Z), storages, ("left", "right"), kinds, strict=True)
    )
    out = product(operation, left, right)
    expected = REFERENCES[operation](X, Z)
    assert out.shape == expected.shape
    # sums of d terms, each rounded: in units of the terms, not of their sum
    terms = REFERENCES["absolute" if operation == "absolute" else "inner"](np.abs(X), -np.abs(Z))
    size = np.abs(terms) if operation != "squared" else 2 * (squared(X)[:, None] + squared(Z)[None, :])
    eps = np.finfo(dtype).eps
    assert (np.abs(out - expected) <= 8 * eps * (1 + X.shape[1] ** 0.5) * size + 1e-300).all()
    return out


def squared(X):
    return (X**2).sum(axis=1)


@OPERATIONS
@DTYPES
@pytest.mark.parametrize("kinds", [(np.float32, np.float32), (np.float64, np.float64), (np.float32, np.float64)])
@pytest.mark.parametrize("storages", [(a, b) for a in ("dense", "csr") for b in ("dense", "csr")])
def test_every_storage_and_precision(operation, dtype, kinds, storages):
    """The rows' own type does not matter, nor that one side is sparse and the other not."""
    X, Z = rows(37, 21, 0, 0.5, np.float32), rows(70, 21, 1, 0.5, np.float32)  # the same numbers in both types
    out = compare(operation, X.astype(np.float64), Z.astype(np.float64), storages, dtype, kinds)
    assert out.dtype == dtype


@OPERATIONS
@DTYPES
@pytest.mark.parametrize("storages", [("csr", "csr"), ("csr", "dense"), ("dense", "csr")])
def test_very_sparse_rows(operation, dtype, storages):
    """Rows with fewer entries than are worth filling up."""
    X, Z = rows(30, 3000, 0, DENSE / 4), rows(41, 3000, 1, DENSE / 4)
    assert packed(stored(X, "csr"), "left", dtype).panels is None
    compare(operation, X, Z, storages, dtype)


@OPERATIONS
@DTYPES
@pytest.mark.parametrize("sizes", [(1, 1), (1, 100), (100, 1), (12, 32), (13, 33), (11, 31), (25, 17), (6, 16), (5, 8)])
@pytest.mark.parametrize("d", [1, 7, 255, 256, 257, 600])
def test_odd_sizes(operation, dtype, sizes, d):
    """Sizes that fill panels, and those that do not."""
    compare(operation, rows(sizes[0], d, 2), rows(sizes[1], d, 3), ("dense", "csr"), dtype)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(REFERENCES)),
    st.sampled_from([np.float32, np.float64]),
    st.tuples(st.sampled_from(["dense", "csr"]), st.sampled_from(["dense", "csr"])),
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 40),
    st.floats(1e-3, 1e3),
    st.integers(0, 1000),
)
def test_any_sizes(operation, dtype, storages, m, n, d, size, seed):
    compare(operation, size * rows(m, d, seed, 0.7), size * rows(n, d, seed + 1, 0.7), storages, dtype)


@OPERATIONS
def test_rows_without_entries(operation):
    X, Z = np.zeros((3, 40)), rows(5, 40, 0)
    for storages in (("dense", "dense"), ("csr", "csr"), ("csr", "dense")):
        compare(operation, X, Z, storages, np.float64)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("operation", ["squared", "absolute"])
def test_near_rows_far_from_zero_keep_their_distance(operation, storage):
    """Where ``‖x‖² + ‖z‖² − 2⟨x, z⟩`` has no digit left."""
    rng = np.random.default_rng(0)
    X = 1e8 + rng.normal(size=(20, 30))
    Z = X + 1e-4 * rng.normal(size=X.shape)
    out = product(
        operation, packed(stored(X, storage), "left", np.float64), packed(stored(Z, storage), "right", np.float64)
    )
    np.testing.assert_allclose(out, REFERENCES[operation](X, Z), rtol=1e-12)
    assert out.diagonal().max() < 1e-2 * out[~np.eye(20, dtype=bool)].min()


@pytest.mark.parametrize("storage", ["dense", "csr"])
@DTYPES
@pytest.mark.parametrize("share", [1.0, DENSE / 4])
def test_a_row_has_no_distance_from_itself(storage, dtype, share):
    X = stored(rows(40, 1000, 0, share), storage)
    for operation in ("squared", "absolute"):
        out = product(operation, packed(X, "left", dtype), packed(X, "right", dtype))
        assert (out >= 0).all()
        np.testing.assert_allclose(out.diagonal(), 0.0, atol=2e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_squared_lengths_are_added_up_in_float64(storage, kind):
    X = rows(50, 300, 0, 0.5, np.float32) + 1e3
    out = squared_lengths(stored(X.astype(kind), storage))
    assert out.dtype == np.float64
    np.testing.assert_allclose(out, squared(X.astype(np.float64)), rtol=1e-13)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 1e4), st.floats(0.0, 100.0), st.integers(0, 100))
def test_decay(gamma, reach, seed):
    """Never outside [0, 1], and the exponential to nearly all digits of float32 until it is next to nothing."""
    D = np.random.default_rng(seed).random((3, 40)) * (reach / gamma)
    D[0, 0] = 0.0
    single = D.astype(np.float32)
    expected = np.exp(-gamma * single.astype(np.float64))
    out = decay(single.copy(), gamma)
    assert out.dtype == np.float32
    assert (out >= 0.0).all()
    assert (out <= 1.0).all()
    assert out[0, 0] == 1.0
    large = expected > 1e-36
    np.testing.assert_allclose(out[large], expected[large], rtol=1e-5)
    assert (out[~large] <= 1e-35).all()
    np.testing.assert_allclose(decay(D.copy(), gamma), np.exp(-gamma * D), rtol=1e-14)


def test_decay_of_huge_distances_is_nothing():
    D = np.array([[0.0, 1e-30, 1e10, 1e30, 3e38]], np.float32)
    out = decay(D.copy(), 1.0)
    assert out[0, :2].tolist() == [1.0, 1.0]
    assert (out[0, 2:] <= 1e-37).all()
    assert decay(D.astype(np.float64), 1.0).tolist() == [[1.0, 1.0, 0.0, 0.0, 0.0]]


def test_decay_is_monotone_where_it_is_stitched():
    """Between the whole powers of two there is no step up."""
    D = np.linspace(0.0, 3.0, 20_001).astype(np.float32)[None]
    out = decay(D.copy(), 1.0)[0]
    assert (np.diff(out) <= 1e-7).all()


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_rows_are_not_written(storage):
    X = stored(rows(20, 10, 0), storage)
    before = X.toarray() if sp.issparse(X) else X.copy()
    for array in (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,):
        array.flags.writeable = False
    for operation in REFERENCES:
        out = product(operation, packed(X, "left", np.float64), packed(X, "right", np.float64))
        out[:] = 7.0  # the result is the caller's
    np.testing.assert_array_equal(X.toarray() if sp.issparse(X) else X, before)
