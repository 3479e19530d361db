"""Kernel rows on demand: right, counted, never more of them than the memory that was allowed."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_helpers import gaussian

from softmargin.gram import MANY, MEGABYTE, Gram
from softmargin.kernels import RBF, Linear, Precomputed
from softmargin.store import SparseStore

N = 50
X = np.random.default_rng(0).normal(size=(N, 4))
K = gaussian(X, gamma=0.3)
EVERY = np.arange(N)


def gram(rows=None, X=X, **options):
    """Room for so many kernel rows, or for all."""
    if rows is not None:
        options["cache_size"] = (rows + 0.5) * X.shape[0] * 4 / MEGABYTE
    return Gram(X, RBF(0.3), **options)


def fetched(g, index):
    """The kept values of some rows at the columns in focus, all of them."""
    slots = g.fetch(index)
    return g.store.square(slots, np.arange(len(g.columns)))


@pytest.mark.parametrize("storage", ["dense", "csr", "precomputed", "precomputed csr"])
@pytest.mark.parametrize("constant", [0.0, 2.5])
def test_fetched_rows_are_the_kernels(storage, constant):
    kind = Precomputed() if "precomputed" in storage else RBF(0.3)
    data = K if "precomputed" in storage else X
    g = Gram(sp.csr_array(data) if "csr" in storage else data, kind, constant=constant)
    index = np.array([3, 49, 0, 3, 17])
    np.testing.assert_allclose(fetched(g, index), K[index] + constant, rtol=1e-5)
    np.testing.assert_allclose(g.diagonal, 1.0 + constant)
    np.testing.assert_allclose(g.store.row(g.slot[17]), K[17] + constant, rtol=1e-5)


def test_the_store_never_holds_more_than_was_allowed():
    rng = np.random.default_rng(1)
    for rows in (2, 3, 7, 20):
        g = gram(rows)
        allowed = g.allowed * 4
        assert allowed <= (rows + 0.5) * N * 4
        for _ in range(30):
            width = int(rng.integers(1, N + 1))
            g.focus(np.sort(rng.permutation(N)[:width]))
            index = rng.choice(N, min(g.capacity, 5), replace=False)
            np.testing.assert_allclose(fetched(g, index), K[index][:, g.columns], rtol=1e-5)
            assert g.capacity * width * 4 <= allowed
            assert g._memory.nbytes <= allowed


def test_the_rows_that_were_not_used_for_longest_leave():
    g = gram(3)
    for row in (0, 1, 2, 0, 3):  # 1 is the oldest when 3 comes
        g.fetch(np.array([row]))
    assert [row for row in range(N) if g.slot[row] >= 0] == [0, 2, 3]
    g.fetch(np.array([1]))
    assert [row for row in range(N) if g.slot[row] >= 0] == [0, 1, 3]
    for row in (0, 1, 2, 3):
        np.testing.assert_allclose(fetched(g, np.array([row]))[0], K[row], rtol=1e-5)


def test_rows_asked_for_together_stay_together():
    """Those that are kept already are not driven out by the new ones."""
    g = gram(4)
    g.fetch(np.array([0, 1, 2, 3]))
    index = np.array([2, 9, 0, 8])
    np.testing.assert_allclose(fetched(g, index), K[index], rtol=1e-5)


def test_asked_and_computed_are_counted():
    g = gram(10)
    g.fetch(np.array([1, 2, 3]))
    assert (g.asked, g.computed) == (3 * N, 3 * N)
    g.fetch(np.array([2, 3, 4, 4]))
    assert (g.asked, g.computed) == (7 * N, 4 * N)
    g.focus(np.arange(20))
    g.fetch(np.array([4]))
    assert (g.asked, g.computed) == (7 * N + 20, 4 * N + 20)
    g.scores(np.where(EVERY < 5, 1.0, 0.0))
    assert (g.asked, g.computed) == (12 * N + 20, 9 * N + 20)


def test_focus_and_its_extension():
    """Rows of some columns, in their order; more columns are added to the rows that are kept."""
    g = gram(20)
    columns = np.array([7, 3, 30, 31, 2, 11, 40, 5])
    g.focus(columns)
    index = np.array([1, 30, 8])
    np.testing.assert_allclose(fetched(g, index), K[np.ix_(index, columns)], rtol=1e-5)
    before = g.computed
    more = np.append(columns, 20)
    g.focus(more)
    assert g.computed == before + 3, "three rows, one column more"
    np.testing.assert_allclose(fetched(g, index), K[np.ix_(index, more)], rtol=1e-5)
    assert g.computed == before + 3
    g.focus(columns[::-1].copy())
    assert (g.slot == -1).all()
    np.testing.assert_allclose(fetched(g, index), K[np.ix_(index, columns[::-1])], rtol=1e-5)


def test_scores_are_right_and_remembered_for_the_same_coefficients_only():
    g, rng = gram(5), np.random.default_rng(2)
    coef = rng.normal(size=N) * (rng.random(N) < 0.5)
    z = g.scores(coef)
    np.testing.assert_allclose(z, K @ coef, atol=1e-5)
    before = g.computed
    assert g.scores(coef.copy()) is z
    assert g.computed == before
    coef[3] += 1.0
    np.testing.assert_allclose(g.scores(coef), K @ coef, atol=1e-5)
    assert g.computed > before
    some = np.array([4, 9, 33])
    np.testing.assert_allclose(g.scores_of(coef, some), (K @ coef)[some], atol=1e-5)
    assert (g.scores(np.zeros(N)) == 0).all()
    assert g.in_double_precision()
    np.testing.assert_allclose(g.scores(coef), K @ coef, atol=1e-13)
    assert not g.in_double_precision()


def test_rounding_is_measured():
    """Of the size of the true error of the scores; nothing in double precision."""
    g, rng = gram(), np.random.default_rng(3)
    coef = rng.normal(size=N) * 1e4
    z = g.scores_of(coef, EVERY)
    error = np.sqrt(np.mean((z - K @ coef) ** 2))
    assert 0.3 * error < g.rounding(coef, z) < 3 * error
    assert not g.fine
    assert Gram(K, Precomputed()).rounding(coef, z) == 0.0
    g.in_double_precision()
    assert g.rounding(coef, z) == 0.0


def test_update_adds_rows_up():
    g = gram(8)
    index, weights = np.array([4, 2, 40]), np.array([1.0, -2.0, 0.5])
    out = np.ones(N)
    g.update(out, g.fetch(index), weights)
    np.testing.assert_allclose(out, 1.0 + weights @ K[index], atol=1e-6)


def test_part_and_whole():
    g = gram(20)
    rows = np.array([30, 2, 4, 5, 19, 44])
    part = g.part(rows, share=0.5)
    assert part.n == 6
    assert part.allowed == g.allowed // 2
    np.testing.assert_allclose(fetched(part, np.arange(6)), K[np.ix_(rows, rows)], rtol=1e-5)
    again = part.part(np.array([3, 0]))
    np.testing.assert_allclose(fetched(again, np.arange(2)), K[np.ix_([5, 30], [5, 30])], rtol=1e-5)
    np.testing.assert_allclose(g.whole(), K, rtol=1e-5)
    known = g.part(rows, values=np.ascontiguousarray(g.whole()[np.ix_(rows, rows)]))
    np.testing.assert_allclose(fetched(known, np.arange(6)), K[np.ix_(rows, rows)], rtol=1e-5)
    assert known.computed == 0
    np.testing.assert_allclose(known.scores(np.ones(6)), K[np.ix_(rows, rows)].sum(axis=0), rtol=1e-5)


def test_a_cache_that_is_too_small():
    with pytest.raises(ValueError, match=r"cache_size=.* do not hold two rows of 50 .*at least"):
        Gram(X, RBF(0.3), cache_size=(2 * N - 1) * 4 / MEGABYTE)
    assert Gram(X, RBF(0.3), cache_size=(2 * N + 1) * 4 / MEGABYTE).capacity == 2


def test_values_that_single_precision_cannot_hold():
    """Rows far from zero: differences are taken in double precision."""
    far = gram(X=X + 1e6)
    np.testing.assert_allclose(fetched(far, EVERY), gaussian(X + 1e6, gamma=0.3), rtol=1e-5)


def test_a_diagonal_that_is_not_finite():
    with pytest.raises(ValueError, match="scale"), np.errstate(over="ignore"):
        Gram(1e200 * X, Linear())


# ---- rows as lists ----


@pytest.fixture(scope="module")
def wide():
    """So many rows, so far apart, that most kernel values are next to nothing."""
    rng = np.random.default_rng(4)
    places = rng.normal(size=(300, 3)) * 50
    return places[rng.integers(0, 300, MANY + 37)] + 0.3 * rng.normal(size=(MANY + 37, 3))


def sparse_gram(wide, **options):
    g = Gram(wide, RBF(0.5), **options)
    assert isinstance(g.store, SparseStore)
    return g


def test_lists_have_the_kernels_rows(wide):
    g = sparse_gram(wide)
    index = np.random.default_rng(5).choice(len(wide), 60, replace=False)
    expected = gaussian(wide[index], wide, gamma=0.5)
    slots = g.fetch(index)
    columns = np.random.default_rng(6).choice(len(wide), 500)  # some of them twice
    columns[:60] = index
    np.testing.assert_allclose(g.store.square(slots, columns), expected[:, columns], rtol=2e-5, atol=2e-7)
    for slot, row in zip(slots[:5], expected, strict=False):
        np.testing.assert_allclose(g.store.row(slot), row, rtol=2e-5, atol=2e-7)
    weights, out = np.random.default_rng(7).normal(size=60), np.zeros(len(wide))
    g.update(out, slots, weights)
    np.testing.assert_allclose(out, weights @ expected, atol=1e-4)
    assert (expected > 1e-7).mean() < 0.05


def test_lists_leave_when_there_is_no_room(wide):
    """And come back right; never more of them than was allowed."""
    g = sparse_gram(wide, cache_size=2 * len(wide) * 4 / MEGABYTE + 0.001)
    budget, rng, gone = g.budget // 2, np.random.default_rng(8), 0
    held = set()
    for _ in range(60):
        index = rng.choice(len(wide), 40, replace=False)
        slots = g.fetch(index)
        assert g.store._end <= budget
        assert g.store._values.nbytes + g.store._columns.nbytes <= g.allowed * 4
        now = set(np.flatnonzero(g.slot >= 0).tolist())
        gone += len(held - now)
        held = now
        columns = np.append(index, rng.choice(len(wide), 50))
        np.testing.assert_allclose(
            g.store.square(slots, columns), gaussian(wide[index], wide[columns], gamma=0.5), rtol=2e-5, atol=2e-7
        )
    assert gone > 0
    old = np.array(sorted(held))[:20]
    expected = gaussian(wide[old], wide, gamma=0.5)
    out = np.zeros(len(wide))
    g.store.add(g.slot[old], np.ones(20), out, np.uint64(0), np.uint64(len(wide)))
    np.testing.assert_allclose(out, expected.sum(axis=0), atol=1e-4)
