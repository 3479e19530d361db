"""Threads: shares of rows for compiled loops (they release the GIL), one thread for BLAS meanwhile, and Ctrl-C."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

TWICE = 2.0  # seconds within which two Ctrl-C mean that everything is to end


def share(task: Callable[[Any, Any, int], Any], n: int, n_jobs: int) -> None:
    """Call ``task(first, last, k)`` on `n_jobs` equal shares of n rows, in threads (Numba kernels release the GIL)."""
    edges = [np.uint64(n * k // n_jobs) for k in range(n_jobs + 1)]
    others = [pool().submit(task, edges[k], edges[k + 1], k) for k in range(1, n_jobs)]
    task(edges[0], edges[1], 0)
    for other in others:
        other.result()


def pool() -> ThreadPoolExecutor:
    """The process's worker threads (a forked child gets its own)."""
    return _pool(os.getpid())


@cache
def _pool(_pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="softmargin")


class _SingleBlas:
    """BLAS keeps to one thread as long as anybody in the process asks for it: on small matrices its own threads cost
    several times what they save, and they fight with ours for the processors."""

    def __init__(self) -> None:
        self._lock, self._users, self._limit = threading.Lock(), 0, contextlib.ExitStack()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._users == 0:
                self._limit.enter_context(_controller().limit(limits=1, user_api="blas"))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limit.close()


single_blas = _SingleBlas()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_active: list[threading.Event] = []
_pressed = -math.inf  # when Ctrl-C was pressed last


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; a second one raises KeyboardInterrupt at once.

    So does one within `TWICE` seconds of the last, in whatever run: that ends a loop of many runs. Worker threads share
    the event of the main thread, to which alone Python delivers signals.
    """
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield _active[-1] if _active else threading.Event()
        return
    event = threading.Event()

    def handler(number: int, frame: Any) -> None:
        global _pressed
        before, _pressed = _pressed, time.monotonic()
        again = event.is_set() or _pressed - before < TWICE
        event.set()  # worker threads end too
        if again:
            usual(number, frame)

    signal.signal(signal.SIGINT, handler)
    _active.append(event)
    try:
        yield event
    finally:
        _active.pop()
        signal.signal(signal.SIGINT, usual)
