"""Shares of rows, one thread for BLAS."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from softmargin.threads import share, single_blas


@pytest.mark.parametrize(("n", "n_jobs"), [(10, 1), (10, 3), (2, 4), (0, 2)])
def test_shares_cover_all_rows_once(n, n_jobs):
    seen, lock = np.zeros(n), threading.Lock()

    def task(lo, hi, k):
        with lock:
            seen[int(lo) : int(hi)] += 1

    share(task, n, n_jobs)
    assert (seen == 1).all()


def test_an_error_in_a_share_is_raised():
    def task(lo, hi, k):
        if k == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share(task, 10, 2)


def blas():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_keeps_to_one_thread_until_the_last_one_leaves():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas()
    with single_blas():
        with single_blas():
            assert set(blas()) <= {1}
        assert set(blas()) <= {1}
    assert blas() == before
