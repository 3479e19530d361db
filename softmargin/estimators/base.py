"""What all estimators share: parameters checked, runs made, results read, warnings given."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from softmargin import validate

if TYPE_CHECKING:
    from softmargin.certificate import Certificate
    from softmargin.driver import AnyProblem, Solution
    from softmargin.history import Callback
    from softmargin.problem import Model
    from softmargin.progress import Watcher

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        return method

    HAS_CALLBACKS = False


ROWS_AT_ONCE = 4096  # in prediction: bounds the memory, whatever the size of X


class SVM(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """The parameters that stop, watch and reproduce a fit; the runs behind it."""

    _frames = 3  # from a warning in `_read` to the caller of fit

    def _check_run_parameters(self) -> None:
        validate.positive("tol", self.tol, "it is the relative duality gap to reach, for example 1e-3")
        if self.max_iter is not None:
            validate.positive(
                "max_iter", self.max_iter, "it limits the passes over the data; None sets no limit", allow_inf=True
            )
        if self.time_limit is not None:
            validate.positive("time_limit", self.time_limit, "it is in seconds; None sets no limit", allow_inf=True)
        if getattr(self, "intercept_scaling", None) is not None:
            validate.bias_scale(
                "intercept_scaling", self.intercept_scaling, "it penalises the intercept; None leaves it free"
            )
        validate.callables("callbacks", self.callbacks or ())
        if not isinstance(self.verbose, (int, np.integer)) or self.verbose < 0:
            raise ValueError(f"verbose={self.verbose!r} must be 0 (quiet), 1 (progress) or 2 (plain lines)")
        for name in ("fit_intercept", "warm_start", "break_ties", "early_stopping"):
            if not isinstance(getattr(self, name, True), (bool, np.bool_)):
                raise ValueError(f"{name}={getattr(self, name)!r} must be True or False")

    def _bias(self) -> dict[str, Any]:
        if not self.fit_intercept:
            return {"bias": "none"}
        return (
            {"bias": "free"}
            if self.intercept_scaling is None
            else {"bias": "penalised", "bias_scale": self.intercept_scaling}
        )

    def _run(self, posed: Callable[[int], AnyProblem], names: Sequence[str], X: Any, y: Any) -> list[Solution]:
        """Solve a problem for every name, in threads where there are several, and share the time limit fairly."""
        from softmargin.driver import FINISHED, Stop, solve
        from softmargin.progress import shown
        from softmargin.threads import interrupts, single_blas

        posed = _keeping_first(posed)
        count, first = len(names), posed(0)
        solver = self._solver(first)
        workers = self._workers(count)
        deadline = time.perf_counter() + (np.inf if self.time_limit is None else self.time_limit)
        starts = self._starts(first, count)
        paths = self._checkpoints(count)
        root = None
        if hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx"):
            root = self._init_callback_context(max_subtasks=count, sequential_subtasks=False)

        def one(k: int) -> Solution:
            seconds = max(deadline - time.perf_counter(), 0.0) * min(1.0, workers / (count - k))
            stop = Stop(self.tol, np.inf if self.max_iter is None else self.max_iter, seconds)
            with contextlib.ExitStack() as stack:
                watchers = list(stack.enter_context(show(names[k])))
                if root is not None:
                    watchers.append(stack.enter_context(_task(self, root, k)))
                problem = posed(k)
                watchers += self._watchers(problem, k)
                solution = solve(
                    problem,
                    solver,
                    stop,
                    start=starts[k],
                    callbacks=self._callbacks(),
                    watchers=watchers,
                    checkpoint=paths[k],
                    keep=count > 1,
                )
            return solution if self.warm_start else solution._replace(a=None)

        if root is not None:
            root.call_on_fit_task_begin(estimator=self, X=X, y=y)
        with single_blas(), interrupts(), shown(self.verbose, type(self).__name__, self.tol, count) as show:
            if workers == 1:
                solutions = [one(k) for k in range(count)]
            else:
                with ThreadPoolExecutor(workers) as pool:
                    solutions = list(pool.map(one, range(count)))
        if root is not None:
            root.call_on_fit_task_end(estimator=self, X=X, y=y)
        if count > 1 and all(s.status in FINISHED for s in solutions):
            for path in filter(None, paths):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        return solutions

    def _watchers(self, problem: AnyProblem, k: int) -> list[Watcher]:
        """Who else is told of every step of run k."""
        return []

    def _workers(self, count: int) -> int:
        """How many of the runs go on at a time."""
        return min(validate.jobs(self.n_jobs), count)

    def _solver(self, problem: AnyProblem) -> Any:
        """The solver that is meant; `random_state` replaces the seed of one that has its own."""
        from softmargin.solvers import resolve

        seed = 0  # a checkpoint without random_state must find the same seed again
        if self.random_state is not None or self.checkpoint is None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        solver: Any = resolve(self.solver, problem, gap=self.tol, seed=seed)
        return solver if self.random_state is None or not hasattr(solver, "seed") else replace(solver, seed=seed)

    def _callbacks(self) -> Sequence[Callback]:
        return self.callbacks or ()

    def _checkpoints(self, count: int) -> list[str | None]:
        """The file that saves each run: with the number of the class behind the name, where there are several."""
        if self.checkpoint is None:
            return [None] * count
        path = os.fspath(self.checkpoint)
        return [path] if count == 1 else [f"{path}.{k}" for k in range(count)]

    def _starts(self, problem: AnyProblem, count: int) -> list[Any]:
        """The models and duals of the fit before, where `warm_start` asks for them and they fit the data."""
        before = getattr(self, "_solved", None) if self.warm_start else None
        if before is None or len(before) != count:
            return [None] * count
        same = [len(b.a) == problem.n and len(b.model.w) == problem.n_weights for b in before]
        return [b if ok else None for b, ok in zip(before, same, strict=True)]

    def _read(self, solutions: list[Solution]) -> None:
        """Set the attributes that tell how the fit went; warn where it ended early."""
        from softmargin.certificate import Certificate
        from softmargin.driver import Status
        from softmargin.problem import Iterate, Work

        for name, value in self._weights([s.model for s in solutions]).items():
            setattr(self, name, value)
        certificates = [s.certificate for s in solutions]
        works = np.array([c.work for c in certificates])
        work = Work(float(works[:, 0].max()), *(int(total) for total in works[:, 1:].sum(axis=0)))
        primal, dual = sum(c.primal for c in certificates), sum(c.dual for c in certificates)
        floor = sum(c.floor for c in certificates)
        self.certificate_ = certificates[0] if len(certificates) == 1 else Certificate(primal, dual, work, floor)
        self.dual_gap_ = self.certificate_.gap
        self.converged_ = all(s.status is Status.CONVERGED for s in solutions)
        self.n_iter_: Any = int(np.ceil(work.passes))
        self.history_ = solutions[0].history if len(solutions) == 1 else [s.history for s in solutions]
        self._solved = [Iterate(s.model, s.a) for s in solutions] if self.warm_start else None
        worst = max(solutions, key=lambda s: (s.status is not Status.CONVERGED, s.certificate.relative_gap))
        self.status_ = worst.status.name.lower()
        meant = worst.status is Status.CALLBACK and getattr(self, "early_stopping", False)
        if not self.converged_ and not meant:
            early = f"{type(self).__name__} ended before tol={self.tol:g}: {worst.status.value}."
            warnings.warn(
                f"{early} {_found(worst.certificate)} {_REMEDIES[worst.status.name]}",
                ConvergenceWarning,
                stacklevel=self._frames
                + HAS_CALLBACKS,  # the caller of fit, which scikit-learn 1.9 and later wrap once
            )

    def _weights(self, models: Sequence[Model]) -> dict[str, Any]:
        """The attributes that predictions need."""
        return {"coef_": np.array([m.w for m in models]), "intercept_": np.array([m.b for m in models])}

    def _scores(self, X: Any) -> Any:
        """Scores of every row, in blocks: no copy of an array or of CSR, whatever its type."""
        check_is_fitted(self)
        X = validate.matrix(X, estimator=self, reset=False, order=None)
        coef = np.atleast_2d(self.coef_)
        out = np.empty((X.shape[0], len(coef)))
        for rows in gen_batches(X.shape[0], ROWS_AT_ONCE):
            out[rows] = X[rows] @ coef.T + self.intercept_
        return out[:, 0] if len(coef) == 1 else out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_solved"}


def _keeping_first(posed: Callable[[int], Any]) -> Callable[[int], Any]:
    """The same function; its answer to 0, the first to be asked for, is kept for the second time."""
    first = [posed(0)] * 2

    def kept(k: int) -> Any:
        return posed(k) if k else first.pop()

    return kept


def _found(certificate: Certificate) -> str:
    """What is known of a model whose fit ended early."""
    if not np.isfinite(certificate.relative_gap):
        return "How good the model is, is not known yet."
    return f"The model is usable: its objective is at most {certificate.relative_gap:.1e} (relative) above the optimum."


_REMEDIES = {
    "PASSES": "Raise max_iter or tol, or scale the features to similar sizes.",
    "SECONDS": "Raise time_limit or tol; with a checkpoint, fitting again goes on from here.",
    "CALLBACK": "Fit again without it for a better one.",
    "STATIONARY": "It may be a good one all the same: judge it on held-out data, or choose another kernel.",
    "INTERRUPTED": "Fit again to finish; with a checkpoint it goes on from here.",
}


@contextlib.contextmanager
def _task(estimator: SVM, root: Any, k: int) -> Iterator[Watcher]:
    """A task of scikit-learn's callbacks for one run, with a task below it for every step."""
    from softmargin.progress import Tasks

    def fitted(model: Any) -> dict[str, Any] | None:
        if root.max_subtasks > 1:
            return None  # one run of several makes no estimator
        names = ("classes_", "n_features_in_", "feature_names_in_")
        kept = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
        return kept | estimator._weights([model])

    context = root.subcontext(task_name="run", task_id=k, max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator)
    yield Tasks(estimator, context, fitted)
    context.call_on_fit_task_end(estimator=estimator)
