"""Rows against plain NumPy and SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import stored

from softmargin import rows as R

KINDS = [("dense", np.float64), ("dense", np.float32), ("csr", np.float64), ("csr64", np.float32)]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{np.dtype(kind[1]).name}")
def both(request):
    """Data as this package sees it, and as a float64 matrix; some rows and a column are empty."""
    storage, dtype = request.param
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(23, 7)) * (rng.random((23, 7)) < 0.5)).astype(dtype)
    X[[0, 4, 22]] = 0.0
    X[:, 3] = 0.0
    return R.as_rows(stored(X, storage)), X.astype(np.float64)


def test_products(both):
    rows, X = both
    rng = np.random.default_rng(1)
    w, a = rng.normal(size=7), rng.normal(size=23) * (rng.random(23) < 0.7)
    np.testing.assert_allclose(R.matvec(rows, w), X @ w, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(R.rmatvec(rows, a, 7), X.T @ a, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(R.squared_norms(rows), (X**2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(R.column_squares(rows, a, 7), a @ X**2, rtol=1e-12, atol=1e-14)
    assert R.matvec(rows, w).dtype == R.rmatvec(rows, a, 7).dtype == R.squared_norms(rows).dtype == np.float64


def test_rows_with_a_zero_are_not_touched():
    rows = R.as_rows(np.array([[np.nan, 1.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(R.rmatvec(rows, np.array([0.0, 1.0]), 2), [2.0, 3.0])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_gram_and_pairwise(both, n_jobs):
    rows, X = both
    h = np.random.default_rng(2).random(23)
    np.testing.assert_allclose(
        np.tril(R.gram(rows, h, 7, n_jobs)), np.tril(X.T @ (h[:, None] * X)), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(R.pairwise(rows, 7), X @ X.T, rtol=1e-12, atol=1e-14)
    assert R.gram_cost(rows, 7) > 0
    assert R.pairwise_cost(rows, 7) > 0


def test_gram_by_entries_of_very_sparse_rows():
    X = sp.csr_array(sp.random(50, 400, density=0.01, format="csr", random_state=0))
    rows, h = R.as_rows(X), np.random.default_rng(1).random(50)
    assert R._by_entries(rows, 400)
    np.testing.assert_allclose(np.tril(R.gram(rows, h, 400)), np.tril(X.T @ (h[:, None] * X.toarray())), atol=1e-14)


def test_gram_in_several_chunks(monkeypatch, both):
    rows, X = both
    monkeypatch.setattr(R, "CHUNK", 4)
    np.testing.assert_allclose(np.tril(R.gram(rows, np.ones(23), 7, 2)), np.tril(X.T @ X), rtol=1e-12, atol=1e-14)


def test_take_chooses_rows_without_moving_an_entry(both):
    rows, X = both
    for chosen in ([5, 0, 5, 22], slice(3, 9), np.arange(23) % 2 == 0, []):
        chosen = np.array(chosen, int) if isinstance(chosen, list) else chosen
        part = R.take(rows, chosen)
        assert part.data is rows.data
        np.testing.assert_allclose(R.matvec(part, np.ones(7)), X[chosen].sum(axis=1), atol=1e-12)
        assert R.entries(part) == (np.count_nonzero(X[chosen]) if isinstance(rows, R.Sparse) else X[chosen].size)
    twice = R.take(R.take(rows, np.arange(10)), [2, 1])
    np.testing.assert_allclose(R.pairwise(twice, 7), X[[2, 1]] @ X[[2, 1]].T, rtol=1e-12)


def test_threads_give_the_same_products():
    X = np.random.default_rng(0).normal(size=(700, 800))
    rows, w, a = R.as_rows(X), np.ones(800), np.random.default_rng(1).normal(size=700)
    assert R._useful(rows, 2) == 2
    np.testing.assert_array_equal(R.matvec(rows, w, 2), R.matvec(rows, w, 1))
    np.testing.assert_allclose(R.rmatvec(rows, a, 800, 2), a @ X, rtol=1e-10, atol=1e-11)
    np.testing.assert_array_equal(R.rmatvec(rows, a, 800, 2), R.rmatvec(rows, a, 800, 2))
    z, image = R.both_products(rows, w, a, 2)
    np.testing.assert_array_equal(z, R.matvec(rows, w, 2))
    np.testing.assert_array_equal(image, R.rmatvec(rows, a, 800, 2))


def test_repeated_entries():
    once = sp.csr_array((np.ones(4), [2, 0, 1, 0], [0, 2, 2, 4]), shape=(3, 3))
    twice = sp.csr_array((np.ones(4), [2, 0, 1, 1], [0, 2, 2, 4]), shape=(3, 3))
    assert not R.repeated_entries(R.as_rows(once), 3)
    assert R.repeated_entries(R.as_rows(twice), 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr", "csr64"])
def test_nothing_is_copied_and_nothing_can_be_written(storage, dtype):
    X = stored(np.eye(4, dtype=dtype), storage)
    rows = R.as_rows(X)
    assert np.shares_memory(rows.data, X if storage == "dense" else X.data)
    assert rows.data.dtype == dtype
    if storage != "dense":
        assert np.shares_memory(rows.indices, X.indices)
        assert rows.indices.dtype.kind == "u"
    assert not any(array.flags.writeable for array in rows)
    assert (X if storage == "dense" else X.data).flags.writeable, "the caller's array must stay as it was"


def test_read_only_and_memory_mapped(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 3))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    rows = R.as_rows(mapped)
    assert np.shares_memory(rows.data, mapped)
    np.testing.assert_allclose(R.matvec(rows, np.ones(3)), X.sum(axis=1), rtol=1e-12)
    compiled = len(R._matvec.signatures)
    X.flags.writeable = False
    R.matvec(R.as_rows(X), np.ones(3))
    R.matvec(R.as_rows(X.copy()), np.ones(3))
    assert len(R._matvec.signatures) == compiled, "read-only data must not compile again"


def test_no_rows_and_no_features():
    for X in (np.zeros((0, 3)), np.zeros((4, 0)), sp.csr_array((4, 0)), sp.csr_array((0, 3))):
        n, d = X.shape
        rows = R.as_rows(X)
        assert R.matvec(rows, np.ones(d)).tolist() == [0.0] * n
        assert R.rmatvec(rows, np.ones(n), d).tolist() == [0.0] * d
        assert R.entries(rows) == 0


def test_float32_products_are_summed_in_float64():
    X = np.full((1, 100_000), 0.1, np.float32)
    exact = 100_000 * float(np.float32(0.1))
    assert abs(R.matvec(R.as_rows(X), np.ones(100_000))[0] / exact - 1) < 1e-12
    assert abs(R.squared_norms(R.as_rows(X))[0] / (exact * float(np.float32(0.1))) - 1) < 1e-12
