"""The only driver loop: clock, stopping, certificates, callbacks, interrupts and checkpoints.

Solvers take steps and know nothing of all this. Certificates are made when the solver believes that the goal is
reached, and else at passes that grow by a factor of three, so that they cost a small part of a run and fall at the same
points of every run: the result does not depend on how fast the machine is.
"""

from __future__ import annotations

import enum
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from softmargin import checkpoint as checkpoints
from softmargin.certificate import Certificate, prove
from softmargin.history import Callback, History, Record
from softmargin.problem import Iterate, Model, Problem
from softmargin.progress import Watcher
from softmargin.solvers import Solver, resolve
from softmargin.threads import interrupts, single_blas


class Status(enum.Enum):
    """Why a run ended."""

    CONVERGED = "the relative duality gap was reached"
    PASSES = "the limit of passes was reached"
    SECONDS = "the time limit was reached"
    CALLBACK = "a callback stopped the run"
    INTERRUPTED = "the run was interrupted"


@dataclass(frozen=True)
class Stop:
    """When a run ends: at this relative duality gap, or after so many passes over the rows, or so many seconds."""

    gap: float = 1e-3
    passes: float = 1000.0
    seconds: float = np.inf


class Solution(NamedTuple):
    """The best model of a run, the dual point that certifies it, and how the run went."""

    model: Model
    a: Any
    certificate: Certificate
    history: History
    status: Status


@dataclass
class Run:
    """All that a run has to remember: what a checkpoint holds."""

    state: Any
    history: list[Record]
    model: Model | None = None
    a: Any = None
    certificate: Certificate | None = None
    seconds: float = 0.0
    next_passes: float = 10.0
    believed: float = 0.0  # the solver's own idea of the gap below which a certificate is worth its time


def solve(
    problem: Problem,
    solver: Solver | str = "auto",
    stop: Stop = Stop(),
    *,
    start: Iterate | None = None,
    callbacks: Sequence[Callback] = (),
    watchers: Sequence[Watcher] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 60.0,
) -> Solution:
    """Train until the duality gap is small enough, or something else ends the run.

    Parameters
    ----------
    problem : Problem
    solver : Solver or str
        A solver with its parameters, or the name of one of `SOLVERS`.
    stop : Stop
    start : Iterate, optional
        A model and a dual point to start from.
    callbacks : sequence of callables
        Called with a `Record` and an `Iterate` at every certified point; one that returns True ends the run.
    watchers : sequence of Watcher
        Told of every step, for displays.
    checkpoint : path, optional
        A file to which the run is saved, and from which it goes on if it exists. It is removed at the end of the run,
        except after an interrupt or a time limit.
    every : float
        Seconds between two saves.

    Returns
    -------
    Solution
        With the best model found, also when the run was interrupted (Ctrl-C).

    Examples
    --------
    >>> from softmargin import Problem, Stop, solve
    >>> problem = Problem.of([[0.0], [1.0], [3.0]], [-1, -1, 1], C=10.0)
    >>> solve(problem, "newton", Stop(gap=1e-9)).certificate.relative_gap <= 1e-9
    True
    """
    solver = resolve(solver, problem, gap=stop.gap)
    began = time.perf_counter()
    with single_blas(), interrupts() as interrupted, np.errstate(over="ignore", invalid="ignore"):
        mark = checkpoints.fingerprint(problem, solver) if checkpoint is not None else ""
        if checkpoint is not None and os.path.exists(checkpoint):
            run = checkpoints.load(checkpoint, mark)
        else:
            run = Run(None, [], believed=1.3 * stop.gap)
            if start is not None:
                start = start._replace(gap=_certify(problem, run, start, stop).relative_gap)
            before = time.perf_counter()
            run.state = solver.init(problem, start)
            run.seconds = time.perf_counter() - before
        saved = time.perf_counter()

        def save(now: bool) -> None:
            nonlocal saved
            if checkpoint is not None and (now or time.perf_counter() - saved >= every):
                checkpoints.save(checkpoint, run, mark)
                saved = time.perf_counter()

        status = _loop(problem, solver, stop, run, began, callbacks, watchers, save, interrupted)
    if checkpoint is not None and os.path.exists(checkpoint) and status not in (Status.INTERRUPTED, Status.SECONDS):
        os.unlink(checkpoint)
    assert run.model is not None
    assert run.certificate is not None
    return Solution(run.model, run.a, run.certificate, History(run.history), status)


def _loop(
    problem: Problem,
    solver: Solver,
    stop: Stop,
    run: Run,
    began: float,
    callbacks: Sequence[Callback],
    watchers: Sequence[Watcher],
    save: Any,
    interrupted: threading.Event,
) -> Status:
    """Step until something ends the run; leaves the best model in `run`."""
    while not _reached(run, stop):
        before = time.perf_counter()
        run.state = solver.step(problem, run.state)
        run.seconds += time.perf_counter() - before
        iterate = solver.view(problem, run.state)
        made = None
        if iterate.gap <= run.believed or iterate.work.passes >= run.next_passes:
            made = _certify(problem, run, iterate, stop)
        asked = [watcher.watch(iterate, made) for watcher in watchers]
        if made is not None:
            asked += [callback(run.history[-1], iterate) for callback in callbacks]
        status = _ends(run, stop, iterate, made, began, any(asked), interrupted)
        if status is Status.CONVERGED:
            return status
        save(status in (Status.INTERRUPTED, Status.SECONDS))
        if status is not None:
            if made is None:
                _certify(problem, run, iterate, stop)
            return Status.CONVERGED if _reached(run, stop) else status
    return Status.CONVERGED


def _ends(
    run: Run,
    stop: Stop,
    iterate: Iterate,
    made: Certificate | None,
    began: float,
    asked: bool,
    interrupted: threading.Event,
) -> Status | None:
    if made is not None and _reached(run, stop):
        return Status.CONVERGED
    if interrupted.is_set():
        return Status.INTERRUPTED
    if asked:
        return Status.CALLBACK
    if time.perf_counter() - began >= stop.seconds:
        return Status.SECONDS
    return Status.PASSES if iterate.work.passes >= stop.passes else None


def _reached(run: Run, stop: Stop) -> bool:
    return run.certificate is not None and run.certificate.relative_gap <= stop.gap


def _certify(problem: Problem, run: Run, iterate: Iterate, stop: Stop) -> Certificate:
    """Certify an iterate, keep what is better than the best so far, and settle when to certify next."""
    proven = prove(problem, iterate)
    new, old = proven.certificate, run.certificate
    if old is None or new.primal < old.primal:
        run.model = Model(proven.model.w.copy(), proven.model.b)
    if old is None or new.dual > old.dual:
        run.a = proven.a.copy()
    best = new if old is None else new._replace(primal=min(new.primal, old.primal), dual=max(new.dual, old.dual))
    run.certificate = best
    run.history.append(Record(run.seconds, run.certificate))
    if iterate.gap <= run.believed:
        right = stop.gap * iterate.gap / max(new.relative_gap, 1e-300)  # what the solver would say at the goal
        run.believed = min(max(right, 0.3 * iterate.gap), 0.8 * iterate.gap) or -1.0  # never again, if it says zero
    run.next_passes = 3.0 * max(iterate.work.passes, run.next_passes)
    return best


def certify(problem: Problem, model: Model, a: Any = None, *, gap: float = 1e-4) -> Certificate:
    """How far any model is from the optimum of a problem: a proven bound.

    Parameters
    ----------
    problem : Problem
    model : Model
        From here or from anywhere else.
    a : array, optional
        A dual point known with the model. Without one, the problem is solved to the relative gap `gap` for one, which
        is then the accuracy of the bound.

    Examples
    --------
    >>> from softmargin import Model, Problem, certify
    >>> problem = Problem.of([[0.0], [1.0], [3.0]], [-1, -1, 1], C=10.0)
    >>> certify(problem, Model([1.0], -2.0)).relative_gap < 1e-3
    True
    >>> round(certify(problem, Model([0.5], -1.0)).primal, 3)
    10.125
    """
    w = np.asarray(model.w, np.float64).reshape(-1)
    if len(w) != problem.n_features:
        raise ValueError(
            f"the model has {len(w)} weights and the data {problem.n_features} features: they do not belong together"
        )
    if not (np.isfinite(w).all() and np.isfinite(model.b)):
        raise ValueError("the model has weights that are not finite: it cannot be certified")
    if problem.bias == "none" and model.b:
        raise ValueError(
            f"the model has bias {model.b!r} but the problem has none: make the problem with bias='free' or 'penalised'"
        )
    if a is None:
        a = solve(problem, "auto", Stop(gap=gap)).a
    dual = prove(problem, Iterate(Model(w, float(model.b)), a)).certificate.dual
    return Certificate(problem.primal(Model(w, float(model.b))), dual)
