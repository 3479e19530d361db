"""What a run shows while it goes on: a rich bar, plain lines, or the tasks of scikit-learn's callbacks."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
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


class Bar:
    """How much of the way from the first gap to the goal is done, on a logarithmic scale, as a bar among others."""

    def __init__(self, bars: Any, label: str, goal: float) -> None:
        self._bars, self._task = bars, bars.add_task(label, total=1.0, shown="")
        self._goal, self._first = math.log(max(goal, 1e-15)), -math.inf

    def watch(self, iterate: Iterate, certificate: Certificate | None) -> None:
        gap = certificate.relative_gap if certificate else iterate.gap
        if not math.isfinite(gap):
            return
        here = math.log(max(gap, 1e-15))
        self._first = max(self._first, here)
        done = (self._first - here) / max(self._first - self._goal, 1e-9)
        shown = f"{iterate.work.passes:.0f} passes, gap {'' if certificate else 'about '}{gap:.1e}"
        self._bars.update(self._task, completed=min(max(done, 0.0), 1.0), shown=shown)

    def close(self) -> None:
        """Make room for others."""
        self._bars.remove_task(self._task)


Show = Callable[[str], contextlib.AbstractContextManager[list[Watcher]]]  # from the label of a run to its watchers


@contextlib.contextmanager
def shown(verbose: int, title: str, goal: float, n_runs: int = 1) -> Iterator[Show]:
    """The display that `verbose` asks for: none, or bars where rich is installed and errors go to a terminal, or lines.

    Of several runs, each has its bar while it goes on, below one that counts them.
    """
    bars = _bars() if verbose == 1 and sys.stderr.isatty() else None

    @contextlib.contextmanager
    def show(label: str) -> Iterator[list[Watcher]]:
        if not verbose:
            yield []
        elif bars is None:
            yield [Lines(f"{title}{label}", goal)]
        else:
            bar = Bar(bars, f"{title}{label}", goal)
            yield [bar]
            if total is not None:
                bar.close()
                bars.update(total, advance=1)

    with bars or contextlib.nullcontext():
        total = bars.add_task(title, total=n_runs, shown=f"{n_runs} classes") if bars and n_runs > 1 else None
        yield show


def _bars() -> Any:
    """A group of bars on the standard error stream; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    shown = TextColumn("{task.fields[shown]}")
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), shown, TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), refresh_per_second=8)


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
