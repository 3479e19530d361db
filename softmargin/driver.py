"""The only driver loop: clock, stopping, certificates, callbacks, interrupts and checkpoints.

Solvers take steps and know nothing of all this. Certificates are made when the solver believes that the goal is
reached, and else at passes that grow by a factor, so that they cost a small part of a run and fall at the same points
of every run: the result does not depend on how fast the machine is.
"""

from __future__ import annotations

import contextlib
import enum
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from softmargin import archive, validate
from softmargin import checkpoint as checkpoints
from softmargin.certificate import Certificate
from softmargin.history import Callback, History, Record
from softmargin.kernel_certificate import prove
from softmargin.kernel_problem import KernelProblem, SlackProblem
from softmargin.problem import Iterate, Model, Problem
from softmargin.progress import Watcher
from softmargin.solvers import Solver, resolve
from softmargin.threads import interrupts, single_blas

DOUBT = (0.3, 0.8)  # how far that falls after a certificate that did not prove enough: at most and at least
APART = 2.0  # the factor of passes from one scheduled certificate to the next


AnyProblem = Problem | KernelProblem | SlackProblem


class Status(enum.Enum):
    """Why a run ended."""

    CONVERGED = "the relative duality gap was reached"
    PASSES = "the limit of passes was reached"
    SECONDS = "the time limit was reached"
    CALLBACK = "a callback stopped the run"
    INTERRUPTED = "the run was interrupted"
    STATIONARY = "a stationary point was reached; the kernel is no inner product, so that no gap can be proven"


FINISHED = (Status.CONVERGED, Status.CALLBACK, Status.STATIONARY)  # nothing is left to go on with


@dataclass(frozen=True)
class Stop:
    """When a run ends: at this relative duality gap, or after so many passes over the rows, or so many seconds."""

    gap: float = 1e-3
    passes: float = 1000.0
    seconds: float = np.inf

    def __post_init__(self) -> None:
        validate.not_negative("gap", self.gap, "it is the relative duality gap to reach, for example 1e-3")
        validate.positive("passes", self.passes, "it limits the passes over the rows", allow_inf=True)
        validate.not_negative("seconds", self.seconds, "it limits the time", allow_inf=True)


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

    history: list[Record]
    goal: float  # the gap to reach
    believed: float  # the solver's own idea of the gap below which a certificate is worth its time
    state: Any = None
    model: Model | None = None
    a: Any = None
    certificate: Certificate | None = None
    seconds: float = 0.0
    next_passes: float = 0.0

    def aim(self, gap: float, hope: float) -> None:
        """Go for this gap."""
        if gap != self.goal:
            self.goal, self.believed = gap, hope * gap

    def reached(self) -> bool:
        """Whether the goal is proven."""
        return self.certificate is not None and self.certificate.relative_gap <= self.goal


class Audience(NamedTuple):
    """Who is told of a run, and may ask for its end."""

    watchers: tuple[Watcher, ...]
    callbacks: tuple[Callback, ...]

    def watch(self, iterate: Iterate, made: Certificate | None) -> bool:
        """Tell of a step."""
        asked = [watcher.watch(iterate, made) for watcher in self.watchers]
        return any(asked)

    def hear(self, record: Record, iterate: Iterate) -> bool:
        """Tell of a certified point."""
        asked = [callback(record, iterate) for callback in self.callbacks]
        return any(asked)


def solve(
    problem: AnyProblem,
    solver: Solver | str = "auto",
    stop: Stop = Stop(),
    *,
    start: Iterate | None = None,
    callbacks: Sequence[Callback] = (),
    watchers: Sequence[Watcher] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 60.0,
    keep: bool = False,
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
        A file to which the run is saved, and from which it goes on if it exists. It is removed when the gap is reached
        or a callback ends the run. A save that fails is a warning, not the end of the run.
    every : float
        Seconds between two saves.
    keep : bool
        Save the run at its end too, and leave the file: a later call goes on from there, for example to a smaller gap.

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
    if not isinstance(stop, Stop):
        raise TypeError(f"stop={stop!r} is not a Stop: pass for example Stop(gap=1e-4)")
    solver = resolve(solver, problem, gap=stop.gap)
    callbacks = validate.callables("callbacks", callbacks)
    validate.not_negative("every", every, "it is the time in seconds between two saves", allow_inf=True)
    if start is not None:
        a = None if start.a is None else validate.dual_point(start.a, problem.n)
        start = Iterate(Model(*validate.linear_model(*start.model, problem.n_weights)), a)
    began = time.perf_counter()
    with single_blas(), interrupts() as interrupted, np.errstate(over="ignore", invalid="ignore"):
        mark = ""
        if checkpoint is not None:
            archive.check_writable(checkpoint)
            mark = checkpoints.fingerprint(problem, solver)
        hope, first = problem.schedule
        run = Run([], stop.gap, hope * stop.gap, next_passes=first)
        if checkpoint is not None and os.path.exists(checkpoint):
            run = checkpoints.load(checkpoint, mark, Run)
            run.aim(stop.gap, hope)
        saved = time.perf_counter()

        def save(now: bool) -> None:
            nonlocal saved
            if checkpoint is not None and (now or time.perf_counter() - saved >= every):
                try:
                    checkpoints.save(checkpoint, run, mark)
                except OSError as error:
                    warnings.warn(f"the checkpoint could not be saved, and the run goes on: {error}", stacklevel=3)
                saved = time.perf_counter()

        audience, status = Audience(tuple(watchers), callbacks), None
        if run.state is None:
            if start is not None:
                start = start._replace(gap=_certify(problem, run, start).relative_gap)
                status = Status.CALLBACK if audience.hear(run.history[-1], start) else None
            before = time.perf_counter()
            run.state = solver.init(problem, start)
            run.seconds = time.perf_counter() - before
        if status is None or run.reached():
            status = _loop(problem, solver, stop, run, began, audience, save, interrupted)
        if keep:
            save(True)
    if checkpoint is not None and not keep and status in FINISHED:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(checkpoint)
    assert run.model is not None
    assert run.certificate is not None
    return Solution(run.model, run.a, run.certificate, History(run.history), status)


def _loop(
    problem: AnyProblem,
    solver: Solver,
    stop: Stop,
    run: Run,
    began: float,
    audience: Audience,
    save: Callable[[bool], None],
    interrupted: threading.Event,
) -> Status:
    """Step until something ends the run; leaves the best model in `run`."""
    while not run.reached():
        before = time.perf_counter()
        run.state = solver.step(problem, run.state)
        run.seconds += time.perf_counter() - before
        iterate = solver.view(problem, run.state)
        status, made = _limit(stop, iterate, began, interrupted), None
        if status is not None or iterate.gap <= run.believed or iterate.work.passes >= run.next_passes:
            made = _certify(problem, run, iterate)
        asked = audience.watch(iterate, made)
        if asked and made is None:
            made = _certify(problem, run, iterate)
        if made is not None:
            asked |= audience.hear(run.history[-1], iterate)
        if asked and status is None:
            status = Status.CALLBACK
        if run.reached():
            return Status.CONVERGED
        if made is not None and np.isneginf(made.dual) and iterate.gap <= run.goal and status is None:
            return Status.STATIONARY
        save(status not in (None, *FINISHED))
        if status is not None:
            return status
    return Status.CONVERGED


def _limit(stop: Stop, iterate: Iterate, began: float, interrupted: threading.Event) -> Status | None:
    """What ends the run here, if anything does."""
    if interrupted.is_set():
        return Status.INTERRUPTED
    if time.perf_counter() - began >= stop.seconds:
        return Status.SECONDS
    return Status.PASSES if iterate.work.passes >= stop.passes else None


def _certify(problem: AnyProblem, run: Run, iterate: Iterate) -> Certificate:
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
        right = run.goal * iterate.gap / max(new.relative_gap, 1e-300)  # what the solver would say at the goal
        least, most = DOUBT
        run.believed = min(max(right, least * iterate.gap), most * iterate.gap) or -1.0  # never again, if it says zero
    run.next_passes = APART * max(iterate.work.passes, run.next_passes)
    return best


def certify(problem: AnyProblem, model: Model, a: Any = None, *, gap: float = 1e-4) -> Certificate:
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
    model = Model(*validate.linear_model(*model, problem.n_weights))
    if isinstance(problem, SlackProblem):
        raise TypeError("certify takes penalised problems: make one with KernelProblem.of, or solve the problem itself")
    if isinstance(problem, KernelProblem):
        problem.gram.in_double_precision()
    if problem.bias == "none" and model.b:
        raise ValueError(
            f"the model has bias {model.b!r} but the problem has none: make the problem with bias='free' or 'penalised'"
        )
    if a is None:
        solution = solve(problem, "auto", Stop(gap=gap))
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if solution.status is not Status.CONVERGED:
            warnings.warn(
                f"the bound is {solution.certificate.relative_gap:.1e} wide, not gap={gap:g}: {solution.status.value}",
                ConvergenceWarning,
                stacklevel=2,
            )
        a = solution.a
    dual = prove(problem, Iterate(model, validate.dual_point(a, problem.n))).certificate.dual
    return Certificate(problem.primal(model), dual)
