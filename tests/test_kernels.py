"""Kernels: scikit-learn's values in blocks and on the diagonal, and what is no kernel is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

from softmargin.gram import Gram
from softmargin.kernels import RBF, Callable, Laplacian, Linear, Polynomial, Precomputed, Sigmoid, between, named

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 7)) * (RNG.random((30, 7)) < 0.6)
Z = RNG.normal(size=(45, 7)) * (RNG.random((45, 7)) < 0.6)
KERNELS = {
    "linear": (Linear(), lambda A, B: pairwise.linear_kernel(A, B)),
    "rbf": (RBF(0.3), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.3)),
    "cubic": (Polynomial(0.2, 3, 1.5), lambda A, B: pairwise.polynomial_kernel(A, B, 3, 0.2, 1.5)),
    "constant": (Polynomial(0.2, 0, 1.0), lambda A, B: np.ones((len(A), len(B)))),
    "power of 20": (Polynomial(0.1, 20, 1.0), lambda A, B: pairwise.polynomial_kernel(A, B, 20, 0.1, 1.0)),
    "sigmoid": (Sigmoid(0.2, 0.5), lambda A, B: pairwise.sigmoid_kernel(A, B, 0.2, 0.5)),
    "laplacian": (Laplacian(0.3), lambda A, B: pairwise.laplacian_kernel(A, B, 0.3)),
    "callable": (Callable(pairwise.cosine_similarity), pairwise.cosine_similarity),
}
EVERY = pytest.mark.parametrize("name", KERNELS)


@EVERY
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_have_scikit_learns_values(name, storage, dtype):
    kernel, reference = KERNELS[name]
    expected = reference(X, Z)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    out = between(kernel, storage(X), storage(Z), dtype)
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@EVERY
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_the_diagonal(name, storage):
    kernel, reference = KERNELS[name]
    np.testing.assert_allclose(kernel.diagonal(storage(X)), reference(X, X).diagonal(), rtol=1e-12)


def test_a_function_of_two_rows_is_one_of_two_blocks():
    """Dense, and sparse where it can take rows of such a matrix."""
    one = Callable(lambda x, z: float(np.exp(-((x - z) ** 2).sum())))
    whole = Callable(lambda A, B: pairwise.rbf_kernel(A, B, gamma=1.0))
    np.testing.assert_allclose(between(one, X, Z), between(whole, X, Z), rtol=1e-12)
    rows = Callable(lambda x, z: (x @ z.T).toarray()[0, 0] if x.shape[0] == 1 else None)
    np.testing.assert_allclose(between(rows, sp.csr_array(X), sp.csr_array(Z)), X @ Z.T, atol=1e-12)
    np.testing.assert_allclose(one.diagonal(X), 1.0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_function_that_returns_no_number(value):
    def odd(A, B):
        return np.full((len(A), len(B)), value)

    with pytest.raises(ValueError, match=r"kernel=odd returned (nan|inf).*finite"):
        Gram(X, Callable(odd))


def test_a_function_that_returns_the_wrong_shape():
    with pytest.raises(ValueError, match=r"returned shape \(30, 1\).*return shape \(30, 45\)"):
        between(Callable(lambda A, B: np.ones((len(A), 1))), X, Z)
    with pytest.raises(ValueError, match="return a number"):
        between(Callable(lambda x, z: np.ones(3)), X, Z)


def test_a_function_that_is_not_symmetric():
    with pytest.raises(ValueError, match=r"not symmetric: .* for rows \d+ and \d+"):
        Gram(X, Callable(lambda A, B: A[:, :1] - B[:, 0]))


def test_an_error_of_the_users_function_is_not_hidden():
    def broken(A, B):
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        between(Callable(broken), X, Z)


@pytest.mark.parametrize("kind", [RBF, Laplacian, Polynomial, Sigmoid])
@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan, np.inf, "a", None])
def test_wrong_gamma(kind, gamma):
    with pytest.raises(ValueError, match="gamma="):
        kind(gamma)


def test_wrong_parameters():
    with pytest.raises(ValueError, match="degree=-1"):
        Polynomial(1.0, -1)
    for kind in (lambda r: Polynomial(1.0, 3, r), lambda r: Sigmoid(1.0, r)):
        with pytest.raises(ValueError, match="coef0=nan"):
            kind(np.nan)
    with pytest.raises(ValueError, match=r"kernel='gauss'.*rbf"):
        named("gauss", gamma=1.0, degree=3, coef0=0.0)
    with pytest.raises(TypeError, match=r"kernel=7.*rbf"):
        named(7, gamma=1.0, degree=3, coef0=0.0)


def test_a_precomputed_kernel_must_be_square():
    with pytest.raises(ValueError, match=r"\(30, 7\) is not square"):
        Gram(X, Precomputed())


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_what_is_no_inner_product_is_noticed(storage):
    """By its values, or by its name."""
    assert Gram(storage(X @ X.T), Precomputed()).definite
    assert not Gram(storage(-X @ X.T), Precomputed()).definite
    assert not Gram(X, Sigmoid(1.0, -1.0)).definite
    assert not Gram(X, Polynomial(1.0, 3, -2.0)).definite
    assert not Gram(X, Callable(lambda A, B: -pairwise.euclidean_distances(A, B))).definite
    assert Gram(X, Polynomial(1.0, 3, 2.0)).definite


def test_kernels_are_values():
    """Equal parameters are equal kernels, and none can be changed."""
    assert RBF(0.5) == RBF(0.5) != RBF(0.6)
    with pytest.raises(AttributeError):
        RBF(0.5).gamma = 1.0
