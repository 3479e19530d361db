"""Linear support vector machines with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from softmargin import validate
from softmargin.estimators.base import SVM, with_callbacks

if TYPE_CHECKING:
    from softmargin.history import Callback, Record
    from softmargin.problem import Iterate, Model, Problem


class LinearSVC(ClassifierMixin, SVM):  # type: ignore[misc]
    """Linear support vector classifier, certified.

    Minimises ``½‖w‖² + C Σ weight · loss`` with an intercept that is not penalised. More than two classes are trained
    one against the rest, on one shared view of the data.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss; larger fits the training rows more closely.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        The hinge is the standard support vector machine. (scikit-learn's LinearSVC squares it by default.)
    tol : float, default=1e-3
        The relative duality gap at which the fit ends: the objective is proven to be within this fraction of the best.
    solver : str or solver, default="auto"
        One of ``softmargin.SOLVERS``, by name or with its own parameters.
    max_iter : float, default=1000
        Limit on the passes over the data; None for no limit.
    time_limit : float, default=None
        Limit in seconds.
    fit_intercept : bool, default=True
        Whether the scores have an intercept.
    intercept_scaling : float, default=None
        None leaves the intercept free. A number makes it the weight of a constant feature of that size, penalised
        with the others, as scikit-learn's LinearSVC does.
    class_weight : dict or "balanced", default=None
        Factors of C for the rows of each class.
    n_jobs : int, default=None
        Threads, -1 for all processors; several classes are trained side by side.
    random_state : int, RandomState or None, default=None
        Seed of the order in which rows are visited, also for a `solver` that has a seed of its own. The same seed, data
        and n_jobs give the same bits.
    verbose : int, default=0
        1 shows progress (a bar in a terminal where rich is installed), 2 plain lines.
    warm_start : bool, default=False
        Start from the solution of the fit before, where the data have the same shape.
    callbacks : sequence of callables, default=None
        Called with a Record and an Iterate at every certified point; one that returns True ends the fit.
        (Those of ``sklearn.callback`` are set with ``set_callbacks``.)
    checkpoint : path, default=None
        File that saves the fit once a minute and from which it goes on after an interruption. Of more than two classes
        each has its own, with ``.0``, ``.1`` … behind the name. The files are removed when the fit has reached
        `tol` or a callback has ended it.

    Attributes
    ----------
    coef_ : array of shape (1 or n_classes, n_features)
    intercept_ : array of shape (1 or n_classes,)
    classes_ : array of shape (n_classes,)
    certificate_ : Certificate
        The proven interval of the objective (summed over the classes), and the work done.
    dual_gap_ : float
        ``certificate_.gap``.
    converged_ : bool
        Whether `tol` was reached.
    status_ : str
        Why the fit ended: "converged", "passes", "seconds", "callback" or "interrupted".
    n_iter_ : int
        Passes over the data, rounded up.
    history_ : History, or a list of one per class

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from softmargin import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = LinearSVC(C=0.1).fit(scale(X), y)
    >>> clf.certificate_.relative_gap < 1e-3
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        tol: float = 1e-3,
        solver: Any = "auto",
        max_iter: float | None = 1000,
        time_limit: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Train on rows X with labels y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)
            Used in place as float32 or float64, dense or CSR with 32- or 64-bit indices; other kinds are converted.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A row with weight 2 counts as two, one with weight 0 as none.

        Returns
        -------
        self
        """
        from softmargin.losses import CLASSIFICATION
        from softmargin.problem import Problem
        from softmargin.rows import as_rows, take

        self._check_run_parameters()
        validate.choice("loss", self.loss, CLASSIFICATION)
        X, y = validate.matrix(X, y, estimator=self)
        check_classification_targets(y)
        classes, index = np.unique(y, return_inverse=True)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, copy=True)
        weight *= validate.class_weights(self.class_weight, classes, index, weight)[index]
        c, kept = validate.weights(self.C, weight, X)
        present, index = np.unique(index if kept is None else index[kept], return_inverse=True)
        classes = classes[present]  # a class whose rows all have weight zero is absent
        if len(classes) < 2:
            only = "after rows of weight zero were left out, " if kept is not None else ""
            label = classes.tolist()[0]
            raise ValueError(f"{only}y has one class, {label!r}: LinearSVC needs two or more; check labels and weights")
        self.classes_ = classes

        rows = as_rows(X) if kept is None else take(as_rows(X), kept)
        two = len(classes) == 2
        n_jobs = validate.jobs(self.n_jobs) if two else 1

        def posed(k: int) -> Problem:
            signs = np.where(index == (1 if two else k), 1.0, -1.0)
            return Problem(rows, signs, c, X.shape[1], CLASSIFICATION[self.loss], n_jobs=n_jobs, **self._bias())

        names = [""] if two else [f"[{label}]" for label in classes.tolist()]
        self._read(self._run(posed, names, X, y))
        return self

    def decision_function(self, X: Any) -> Any:
        """The scores of rows: positive for the second class, or one column per class.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,) or (n, n_classes)
        """
        return self._scores(X)

    def predict(self, X: Any) -> Any:
        """The labels of rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,)
        """
        scores = self._scores(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


class LinearSVR(RegressorMixin, SVM):  # type: ignore[misc]
    """Linear support vector regression, certified.

    Minimises ``½‖w‖² + C Σ weight · max(0, |y − z| − ε)`` with an intercept that is not penalised.

    Parameters
    ----------
    epsilon : float, default=0.0
        Errors up to this size cost nothing. It is in the units of y.
    C, tol, solver, max_iter, time_limit, fit_intercept, intercept_scaling, n_jobs, random_state, verbose, warm_start, \
callbacks, checkpoint
        As in `LinearSVC`.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : array of shape (1,)
    certificate_, dual_gap_, converged_, status_, n_iter_, history_
        As in `LinearSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from softmargin import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = LinearSVR(C=10.0, epsilon=5.0).fit(X, y)
    >>> reg.certificate_.relative_gap < 1e-3
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-3,
        solver: Any = "auto",
        max_iter: float | None = 1000,
        time_limit: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.solver = solver
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVR:
        """Train on rows X with targets y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_run_parameters()
        validate.not_negative("epsilon", self.epsilon, "errors up to this size cost nothing")
        X, y = validate.matrix(X, y, estimator=self, y_numeric=True)
        c, kept = validate.weights(self.C, sample_weight, X)

        from softmargin.losses import EpsilonInsensitive
        from softmargin.problem import Problem
        from softmargin.rows import as_rows, take

        y = np.asarray(y, np.float64)
        jobs = validate.jobs(self.n_jobs)
        loss = EpsilonInsensitive(float(self.epsilon))
        rows = as_rows(X)
        if kept is not None:
            rows, y = take(rows, kept), y[kept]
        bias = self._bias()
        # a free intercept absorbs where the targets lie: far from zero they would only cost digits
        self._centre = float(np.median(y)) if bias["bias"] == "free" else 0.0
        problem = Problem(rows, y - self._centre, c, X.shape[1], loss, n_jobs=jobs, **bias)
        self._read(self._run(lambda _: problem, [""], X, y))
        return self

    def _weights(self, models: Sequence[Model]) -> dict[str, Any]:
        """The attributes that predictions need."""
        return {"coef_": models[0].w, "intercept_": np.array([models[0].b + self._centre])}

    def _callbacks(self) -> Sequence[Callback]:
        """Those of the user, who sees the bias of `intercept_`."""

        def shifted(callback: Callback) -> Callback:
            def called(record: Record, iterate: Iterate) -> bool | None:
                model = iterate.model._replace(b=iterate.model.b + self._centre)
                return callback(record, iterate._replace(model=model))

            return called

        return [shifted(callback) for callback in super()._callbacks()]

    def _starts(self, problem: Any, count: int) -> list[Any]:
        """As in `LinearSVC`; the bias is measured from another centre now."""
        (start,) = super()._starts(problem, count)
        if start is None:
            return [None]
        b = float(self.intercept_[0]) - self._centre
        return [start._replace(model=start.model._replace(b=b))]

    def predict(self, X: Any) -> Any:
        """The predicted targets of rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,)
        """
        return self._scores(X)
