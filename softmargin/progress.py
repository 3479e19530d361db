"""What a run shows while it goes on: a rich bar, plain lines, or the tasks of scikit-learn's callbacks."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

from softmargin.certificate import Certificate
from softmargin.problem import Iterate


class Watcher(Protocol):
    """Told of every step of a run; returns True to stop it."""

    def watch(self, iterate: Iterate, certificate: Certificate | None) -> bool | None: ...


class Lines:
    """A line whenever twice as much time has passed as at the last one, at most one a second."""

    def __init__(self, label: str, goal: float, stream: Any = None) -> None:
        self.label, self.goal, self.stream = label, goal, stream or sys.stderr
        self._start = time.perf_counter()
        self._next = 1.0

    def watch(self, iterate: Iterate, certificate: Certificate | None) -> None:
        seconds = time.perf_counter() - self._start
        if seconds >= self._next or (certificate is not None and certificate.relative_gap <= self.goal):
            self._next = max(2.0 * seconds, seconds + 1.0)
            shown = f"gap {certificate.relative_gap:.1e}" if certificate else f"gap about {iterate.gap:.1e}"
            print(
                f"{self.label}: {seconds:.1f} s, {iterate.work.passes:.0f} passes, {shown}",
                file=self.stream,
                flush=True,
            )

    def close(self) -> None:
        """Nothing is left open."""


class Bar:
    """A rich progress bar: how much of the way from the first gap to the goal is done, on a logarithmic scale."""

    def __init__(self, label: str, goal: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[shown]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), refresh_per_second=8)
        self._progress.start()
        self._task = self._progress.add_task(label, total=1.0, shown="")
        self._goal, self._first = math.log(max(goal, 1e-15)), 0.0

    def watch(self, iterate: Iterate, certificate: Certificate | None) -> None:
        gap = certificate.relative_gap if certificate else iterate.gap
        if not math.isfinite(gap):
            return
        here = math.log(max(gap, 1e-15))
        self._first = max(self._first, here)
        done = (self._first - here) / max(self._first - self._goal, 1e-9)
        shown = f"{iterate.work.passes:.0f} passes, gap {'' if certificate else 'about '}{gap:.1e}"
        self._progress.update(self._task, completed=min(max(done, 0.0), 1.0), shown=shown)

    def close(self) -> None:
        self._progress.stop()


@contextlib.contextmanager
def shown(verbose: int, label: str, goal: float) -> Iterator[list[Watcher]]:
    """The display that `verbose` asks for: none, or a bar where rich is installed and errors go to a terminal."""
    if not verbose:
        yield []
        return
    display: Bar | Lines
    try:
        display = Bar(label, goal) if sys.stderr.isatty() and verbose == 1 else Lines(label, goal)
    except ImportError:
        display = Lines(label, goal)
    try:
        yield [display]
    finally:
        display.close()


class Tasks:
    """Every step as a task of scikit-learn's callbacks (``sklearn.callback``, 1.9 and later); see `estimators`."""

    def __init__(self, estimator: Any, context: Any, fitted: Any) -> None:
        self._estimator, self._context, self._fitted = estimator, context, fitted

    def watch(self, iterate: Iterate, certificate: Certificate | None) -> bool:
        task = self._context.subcontext(task_name="pass")
        task.call_on_fit_task_begin(estimator=self._estimator)
        gap = certificate.relative_gap if certificate else iterate.gap
        metadata = {"passes": iterate.work.passes, "relative_gap": gap, "certified": certificate is not None}
        return bool(
            task.call_on_fit_task_end(
                estimator=self._estimator,
                metadata=metadata,
                reconstruction_attributes=lambda: self._fitted(iterate.model),
            )
        )
