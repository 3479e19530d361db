"""Kernel support vector machines with scikit-learn's interface, names and shapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from softmargin import validate
from softmargin.estimators.base import SVM, with_callbacks

if TYPE_CHECKING:
    from softmargin.driver import Solution
    from softmargin.gram import Gram
    from softmargin.kernel_problem import KernelProblem
    from softmargin.problem import Model

WHOLE = 20_000  # up to so many rows, several classes share one matrix of all kernel values
TOGETHER = 3000  # rows of a pair of classes from which pairs are trained side by side


class KernelSVM(SVM):
    """Kernels, support vectors and scores: what all kernel machines share."""

    def _kernel(self, X: Any) -> Any:
        """The kernel that the parameters mean for these rows."""
        from softmargin.kernels import named

        for name in ("degree", "coef0"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
                raise ValueError(f"{name}={value!r} is not a finite number")
        return named(self.kernel, gamma=self._gamma_of(X), degree=self.degree, coef0=self.coef0)

    def _gamma_of(self, X: Any) -> float:
        gamma = self.gamma
        if isinstance(gamma, str):
            validate.choice("gamma", gamma, ("scale", "auto"))
            if _is_precomputed(self.kernel):
                return 1.0
            if gamma == "auto":
                return 1.0 / int(X.shape[1])
            with np.errstate(over="ignore", invalid="ignore"):
                if sp.issparse(X):
                    variance = float(X.astype(np.float64).power(2).mean()) - float(X.mean()) ** 2
                else:
                    variance = float(X.var(dtype=np.float64))
            if not np.isfinite(variance):
                raise ValueError("the features are too large for gamma='scale': scale them")
            return 1.0 / float(X.shape[1] * variance) if variance > 0.0 else 1.0
        return validate.positive("gamma", gamma, "it scales the rows; 'scale' or 'auto' choose it from the data")

    def _gram(self, X: Any) -> Gram:
        """The matrix of kernel values between training rows; sets what predictions need to compute others."""
        from softmargin.gram import Gram

        kernel = self._kernel(X)
        self._gamma = getattr(kernel, "gamma", 0.0)
        scaling = getattr(self, "intercept_scaling", None) if getattr(self, "fit_intercept", True) else None
        self._constant = 0.0 if scaling is None else float(scaling) ** 2
        jobs = validate.jobs(self.n_jobs)
        return Gram(X, kernel, cache_size=self.cache_size, n_jobs=jobs, constant=self._constant)

    def _keep_vectors(self, X: Any, support: Any) -> None:
        """Set the support vectors; for a precomputed kernel there are none to keep."""
        self.support_ = support.astype(np.int32)
        self.shape_fit_ = X.shape
        precomputed = _is_precomputed(self.kernel)
        self.support_vectors_ = np.empty((0, 0)) if precomputed else X[support]
        self.fit_status_ = 0 if self.converged_ else 1

    def _products(self, X: Any, coef: Any, groups: Sequence[slice] = (slice(None),)) -> Any:
        """``Σ coef k(x, support vector)`` of all rows, a column for every row of coef; for each group of vectors."""
        from softmargin.prediction import weighted_kernels

        check_is_fitted(self)
        X = validate.matrix(X, estimator=self, reset=False)
        if _is_precomputed(self.kernel):
            if X.shape[1] != self.shape_fit_[0]:
                raise ValueError(
                    f"X.shape[1]={X.shape[1]} should be {self.shape_fit_[0]}, the number of training rows: "
                    "a row holds its kernel values with all of them"
                )
            known = X[:, self.support_]
            return [np.asarray(known[:, g] @ coef[:, g].T) for g in groups]
        from softmargin.kernels import named

        kernel = named(self.kernel, gamma=self._gamma or 1.0, degree=self.degree, coef0=self.coef0)
        jobs = validate.jobs(self.n_jobs)
        return [weighted_kernels(kernel, self.support_vectors_[g], X, coef[:, g], jobs) for g in groups]

    @property
    def coef_(self) -> Any:
        """The weights of the features, for the linear kernel."""
        if not (isinstance(self.kernel, str) and self.kernel == "linear"):
            raise AttributeError("coef_ is only available when using a linear kernel")
        coef = self._linear_weights()
        (coef.data if sp.issparse(coef) else coef).flags.writeable = False  # it is computed anew each time
        return coef

    def _linear_weights(self) -> Any:
        coef = self.dual_coef_ @ self.support_vectors_
        return sp.csr_array(coef) if sp.issparse(self.support_vectors_) else coef

    def _weights(self, models: Sequence[Model]) -> dict[str, Any]:
        """Set later, when the support vectors are known."""
        return {}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = _is_precomputed(self.kernel)
        tags.input_tags.sparse = not callable(self.kernel)
        return tags


class _Classifier(ClassifierMixin, KernelSVM):  # type: ignore[misc]
    """One against one, as LIBSVM has it."""

    _frames = 4
    _side_by_side = 1

    def _problem(self, gram: Gram, signs: Any, c: Any) -> KernelProblem:
        raise NotImplementedError

    def _scaled(self, solution: Solution) -> tuple[Any, float]:
        """The coefficients and the bias of a pair's model."""
        return solution.model.w, float(np.ravel(solution.model.b)[0])

    def _fit(self, X: Any, y: Any, sample_weight: Any, C: float) -> None:
        self._check_run_parameters()
        validate.choice("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        X, y = validate.matrix(X, y, estimator=self)
        check_classification_targets(y)
        classes, index = np.unique(y, return_inverse=True)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, copy=True)
        factors = validate.class_weights(self.class_weight, classes, index, weight)
        c, kept = validate.weights(C, weight * factors[index], X)
        kept = np.arange(X.shape[0]) if kept is None else kept
        present = np.unique(index[kept])
        if len(present) < 2:
            only = "after rows of weight zero were left out, " if len(kept) < X.shape[0] else ""
            name = type(self).__name__
            raise ValueError(
                f"{only}y has one class, {classes[present[0]]!r}: {name} needs two or more; check labels and weights"
            )
        self.classes_, self.class_weight_ = classes[present], factors[present]
        index = np.searchsorted(present, index[kept])
        pairs = list(itertools.combinations(range(len(present)), 2))
        gram = self._gram(X)
        if len(pairs) > 1 or len(kept) < X.shape[0]:
            order = np.argsort(index, kind="stable") if len(pairs) > 1 else np.arange(len(kept))
            kept, index = kept[order], index[order]  # the rows of a class are neighbours
            gram = gram.part(kept)
        c = c[np.searchsorted(np.sort(kept), kept)]
        ends = np.searchsorted(index, np.arange(len(present) + 1)) if len(pairs) > 1 else np.array([0, 0, len(kept)])
        spans = [(slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])) for i, j in pairs]
        rows = [np.r_[one, other] for one, other in spans]
        part = (lambda k: gram) if len(pairs) == 1 else self._parts(gram, spans)

        def posed(k: int) -> KernelProblem:
            i, j = pairs[k]
            first = j if len(pairs) == 1 else i  # of two classes, scores above zero mean the second
            signs = np.where(index[rows[k]] == first, 1.0, -1.0)
            return self._problem(part(k), signs, c[rows[k]])

        labels = self.classes_.tolist()
        names = [""] if len(pairs) == 1 else [f"[{labels[i]}, {labels[j]}]" for i, j in pairs]
        solutions = self._run(posed, names, X, y)
        self._read(solutions)
        self._assemble(X, kept, index, pairs, rows, solutions)

    def _workers(self, count: int) -> int:
        return self._side_by_side if count > 1 else 1

    def _parts(self, gram: Gram, spans: Sequence[tuple[slice, slice]]) -> Callable[[int], Gram]:
        """The matrix of each pair of classes: cut from one of all values where that is small, else of its own."""
        jobs = validate.jobs(self.n_jobs)
        sizes = [sum(span.stop - span.start for span in pair) for pair in spans]
        self._side_by_side = jobs
        if gram.n <= WHOLE and 2 * gram.n**2 <= gram.allowed and gram.kernel.threads and 2 * max(sizes) <= gram.n:
            values = gram.whole()
            return lambda k: gram.part(np.r_[spans[k]], n_jobs=1, values=_cut(values, *spans[k]))
        self._side_by_side = jobs if max(sizes) >= TOGETHER else 1
        together = self._side_by_side
        return lambda k: gram.part(np.r_[spans[k]], share=1.0 / together, n_jobs=max(jobs // together, 1))

    def _assemble(
        self, X: Any, kept: Any, index: Any, pairs: Sequence[tuple[int, int]], rows: Sequence[Any], solutions: Any
    ) -> None:
        """The attributes that LIBSVM's order of support vectors gives: by class, then by row."""
        count = len(self.classes_)
        models = [self._scaled(solution) for solution in solutions]
        full = np.zeros((count - 1, len(kept)))
        for (i, j), mine, (coef, _) in zip(pairs, rows, models, strict=True):
            of_i = index[mine] == i
            full[j - 1, mine[of_i]] = coef[of_i]
            full[i, mine[~of_i]] = coef[~of_i]
        order = np.argsort(index, kind="stable")
        order = order[(full[:, order] != 0.0).any(axis=0)]
        self.n_support_ = np.bincount(index[order], minlength=count).astype(np.int32)
        self._keep_vectors(X, kept[order])
        self.dual_coef_ = full[:, order]
        self.intercept_ = np.array([b for _, b in models]) + (
            [self._constant * float(coef.sum()) for coef, _ in models] if self._constant else 0.0
        )
        self.n_iter_ = np.array([int(np.ceil(s.certificate.work.passes)) for s in solutions], np.int32)

    def _linear_weights(self) -> Any:
        if len(self.classes_) == 2:
            return super()._linear_weights()
        ends = np.cumsum(self.n_support_)
        parts = [
            self.dual_coef_[j - 1, ends[i] - self.n_support_[i] : ends[i]]
            @ self.support_vectors_[ends[i] - self.n_support_[i] : ends[i]]
            + self.dual_coef_[i, ends[j] - self.n_support_[j] : ends[j]]
            @ self.support_vectors_[ends[j] - self.n_support_[j] : ends[j]]
            for i, j in itertools.combinations(range(len(self.classes_)), 2)
        ]
        return sp.csr_array(np.array(parts)) if sp.issparse(self.support_vectors_) else np.array(parts)

    def _pairwise(self, X: Any) -> Any:
        """The score of every pair of classes: positive for the first (of two classes, for the second)."""
        check_is_fitted(self)
        count = len(self.classes_)
        if count == 2:
            return self._products(X, self.dual_coef_)[0] + self.intercept_
        ends = np.cumsum(self.n_support_)
        mine = [slice(end - size, end) for end, size in zip(ends, self.n_support_, strict=True)]
        sums = self._products(X, self.dual_coef_, mine)
        pairs = itertools.combinations(range(count), 2)
        return np.stack([sums[i][:, j - 1] + sums[j][:, i] for i, j in pairs], axis=1) + self.intercept_

    def decision_function(self, X: Any) -> Any:
        """The scores of rows: positive for the second of two classes, else one column a class ("ovr") or a pair.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,), (n, n_classes) or (n, n_classes * (n_classes - 1) / 2)
        """
        scores = self._pairwise(X)
        if len(self.classes_) == 2:
            return scores[:, 0]
        if self.decision_function_shape == "ovr":
            return _ovr_decision_function(scores < 0, -scores, len(self.classes_))
        return scores

    def predict(self, X: Any) -> Any:
        """The labels of rows: of two classes by the score, of more by the votes of the pairs.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,)
        """
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        if len(self.classes_) == 2:
            return self.classes_[(self._pairwise(X)[:, 0] > 0).astype(int)]
        if self.break_ties:
            return self.classes_[self.decision_function(X).argmax(axis=1)]
        first = self._pairwise(X) > 0
        votes = np.zeros((len(first), len(self.classes_)), np.int64)
        for k, (i, j) in enumerate(itertools.combinations(range(len(self.classes_)), 2)):
            votes[:, i] += first[:, k]
            votes[:, j] += ~first[:, k]
        return self.classes_[votes.argmax(axis=1)]


class SVC(_Classifier):
    """Kernel support vector classifier, certified.

    Minimises ``½‖w‖² + C Σ weight · hinge`` with an intercept that is not penalised; more than two classes are trained
    one against one, as in scikit-learn's SVC.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss; larger fits the training rows more closely.
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed"}, kernel or callable, default="rbf"
        A callable gets two blocks of rows and returns the matrix of kernel values, or two rows and returns a number.
    degree : float, default=3
        Of the polynomial.
    gamma : {"scale", "auto"} or float, default="scale"
        "scale" is 1 / (n_features · variance of X), "auto" 1 / n_features.
    coef0 : float, default=0.0
        The constant in "poly" and "sigmoid".
    tol : float, default=1e-3
        The relative duality gap at which the fit ends: the objective is proven to be within this fraction of the best.
        (scikit-learn's tol is a violation of the optimality conditions, which says little about that.)
    solver : str or solver, default="auto"
        "auto" is "active_set"; also "smo" and "sbp", or a solver with its own parameters.
    cache_size : float, default=None
        Megabytes of kernel rows that are kept at most; None takes half of the memory that is free.
    class_weight : dict or "balanced", default=None
        Factors of C for the rows of each class.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether `decision_function` has a column for each class or for each pair, where there are more than two.
    break_ties : bool, default=False
        Whether `predict` goes by `decision_function`, instead of by the votes of the pairs.
    fit_intercept : bool, default=True
        Whether the scores have an intercept.
    intercept_scaling : float, default=None
        None leaves the intercept free. A number penalises it, as the weight of a constant feature of that size.
    max_iter : float, default=1000
        Limit on the passes (kernel evaluations over n²); None for no limit.
    time_limit : float, default=None
        Limit in seconds.
    n_jobs : int, default=-1
        Threads, -1 for all processors.
    random_state : int, RandomState or None, default=None
        Seed of the sample that the solver starts with.
    verbose : int, default=0
        1 shows progress (a bar in a terminal where rich is installed), 2 plain lines.
    warm_start : bool, default=False
        Start from the solution of the fit before, where the data have the same shape.
    callbacks : sequence of callables, default=None
        Called with a Record and an Iterate at every certified point; one that returns True ends the fit.
    checkpoint : path, default=None
        File that saves the fit once a minute and from which it goes on after an interruption. Of more than two classes
        each pair has its own, with ``.0``, ``.1`` … behind the name.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, class_weight_, coef_ (linear kernel)
        As in scikit-learn's SVC.
    certificate_ : Certificate
        The proven interval of the objective (summed over the pairs), and the work done.
    dual_gap_, converged_, status_, history_
        As in `LinearSVC`. With a kernel that is no inner product (sigmoid), status_ is "stationary" at best.
    n_iter_ : array of int
        Passes of each pair, rounded up.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from softmargin import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SVC(C=10.0).fit(X, y)
    >>> clf.certificate_.relative_gap < 1e-3, clf.score(X, y) > 0.95
    (True, True)
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        solver: Any = "auto",
        cache_size: float | None = None,
        class_weight: Any = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        max_iter: float | None = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.solver = solver
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVC:
        """Train on rows X with labels y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)
            Used in place as float32 or float64, dense or CSR. For a precomputed kernel, the n × n kernel values.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            A row with weight 2 counts as two, one with weight 0 as none.

        Returns
        -------
        self
        """
        validate.positive("C", self.C, "pass for example C=1.0; larger fits the training rows more closely")
        self._fit(X, y, sample_weight, self.C)
        return self

    def _problem(self, gram: Gram, signs: Any, c: Any) -> KernelProblem:
        from softmargin.kernel_problem import classification

        return classification(gram, signs, c, self._bias()["bias"])


class NuSVC(_Classifier):
    """Kernel support vector classifier with ν in place of C, certified.

    ν is at least the share of support vectors, and at most the share of margin errors, as in scikit-learn's NuSVC.

    Parameters
    ----------
    nu : float, default=0.5
        Above 0, at most 1, and at most twice the share of the smaller class.
    kernel, degree, gamma, coef0, tol, solver, cache_size, class_weight, decision_function_shape, break_ties, \
max_iter, time_limit, n_jobs, random_state, verbose, warm_start, callbacks, checkpoint
        As in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, certificate_, converged_, status_, \
history_
        As in `SVC`. The certificate is about the ν-problem, whose objective may be negative.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from softmargin import NuSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> NuSVC(nu=0.2).fit(X, y).certificate_.relative_gap < 1e-3
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        solver: Any = "auto",
        cache_size: float | None = None,
        class_weight: Any = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        max_iter: float | None = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.solver = solver
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuSVC:
        """As `SVC.fit`."""
        _share_of_one("nu", self.nu)
        self._fit(X, y, sample_weight, 1.0)
        return self

    def _problem(self, gram: Gram, signs: Any, c: Any) -> KernelProblem:
        from softmargin.kernel_problem import nu_classification

        smaller = min(c[signs > 0].sum(), c[signs < 0].sum())
        if self.nu * c.sum() > 2 * smaller * (1 + 1e-12):
            raise ValueError(
                f"specified nu is infeasible: nu={self.nu:g} is above {2 * smaller / c.sum():.3g}, twice the share of "
                "the smaller class; lower nu or weigh that class more"
            )
        return nu_classification(gram, signs, c, self.nu)

    def _scaled(self, solution: Solution) -> tuple[Any, float]:
        """Divided by ρ, so that margins are at ±1."""
        below, above = np.asarray(solution.model.b, np.float64)
        rho = max(0.5 * (above - below), 1e-300)
        return solution.model.w / rho, 0.5 * float(above + below) / rho


class SlackSVC(_Classifier):
    """Kernel classifier by its slack, trained with the Stochastic Batch Perceptron, certified.

    Finds the best margin that a total slack of n ν allows: maximises the level γ with
    ``Σ max(0, γ − y (⟨w, φ(x)⟩ + b)) = n ν`` over ``‖w‖ ≤ 1``; scores are divided by γ. The optimum is that of `SVC`
    with some C. More than two classes are trained one against one.

    Parameters
    ----------
    slack : float, default=0.01
        ν, the mean slack of a model of length one; smaller fits the training rows more closely. A model u of `SVC` has
        ν = mean hinge loss / ‖u‖.
    tol : float, default=0.05
        The relative gap between the margin and its proven upper bound at which the fit ends. The method is meant for
        rough solutions: a tenth of the gap takes a hundred times as long.
    block : int, default=16
        Rows drawn at a time; 1 is the paper's algorithm, more are faster.
    early_stopping : bool, default=False
        End when the error on rows held out no longer falls, as the paper recommends.
    validation_fraction : float, default=0.1
        The share of the rows that is held out with `early_stopping`.
    n_iter_no_change : int, default=3
        The passes without a new best on the rows held out that end the fit.
    kernel, degree, gamma, coef0, cache_size, decision_function_shape, break_ties, fit_intercept, max_iter, \
time_limit, n_jobs, random_state, verbose, callbacks, checkpoint
        As in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, converged_, status_, history_, n_iter_
        As in `SVC`.
    certificate_ : Certificate
        Of a minimisation: ``-certificate_.primal`` is the margin γ, ``-certificate_.dual`` a proven bound on the best.
    validation_errors_ : list of list of float
        With `early_stopping`, the errors after each pass, for each pair of classes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from softmargin import SlackSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SlackSVC(slack=0.02, random_state=0).fit(scale(X), y)
    >>> clf.certificate_.relative_gap < 0.05, clf.score(scale(X), y) > 0.95
    (True, True)
    """

    def __init__(
        self,
        *,
        slack: float = 0.01,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 0.05,
        block: int = 16,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        cache_size: float | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        fit_intercept: bool = True,
        max_iter: float | None = 200,
        time_limit: float | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.slack = slack
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.block = block
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.cache_size = cache_size
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    class_weight = None  # every row has the same slack
    warm_start = False
    _held_out: Any = None

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any) -> SlackSVC:
        """Train on rows X with labels y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)
            For a precomputed kernel, the n × n kernel values.
        y : array of shape (n,)

        Returns
        -------
        self
        """
        validate.not_negative("slack", self.slack, "it is the mean slack of a model of length one, for example 0.01")
        for name in ("block", "n_iter_no_change"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name}={value!r} is not a whole number from 1 up")
        weight = None
        if self.early_stopping:
            if not 0.0 < validate.positive("validation_fraction", self.validation_fraction, "it is a share") < 1.0:
                raise ValueError(f"validation_fraction={self.validation_fraction!r} is not a share between 0 and 1")
            if _is_precomputed(self.kernel):
                raise ValueError("early_stopping=True needs rows to hold out, which a precomputed kernel does not have")
            weight = self._hold_out(X, y)
        self.validation_errors_: list[list[float]] = []
        self._fit(X, y, weight, 1.0)
        self._held_out = None
        return self

    def _hold_out(self, X: Any, y: Any) -> Any:
        """Keep some rows for validation; returns weights that leave them out of the training."""
        X, y = validate.matrix(X, y, estimator=self)
        rng = check_random_state(self.random_state)
        held = rng.permutation(len(y))[: max(int(self.validation_fraction * len(y)), 1)]
        weight = np.ones(len(y))
        weight[held] = 0.0
        self._held_out = (X[held], y[held])
        return weight

    def _watchers(self, problem: Any, k: int) -> list[Any]:
        """The errors on the rows held out, after every pass."""
        if not self.early_stopping:
            return []
        held: tuple[Any, Any] = self._held_out
        X, y = held
        pair = list(itertools.combinations(self.classes_, 2))[k]
        mine = np.isin(y, pair)
        first = pair[1] if len(self.classes_) == 2 else pair[0]
        errors: list[float] = []
        self.validation_errors_.append(errors)
        return [_Holdout(problem.gram, X[mine], np.where(y[mine] == first, 1.0, -1.0), self.n_iter_no_change, errors)]

    def _solver(self, problem: Any) -> Any:
        from softmargin.solvers.kernel.batch_perceptron import BatchPerceptron

        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return BatchPerceptron(int(self.block), seed)

    def _problem(self, gram: Gram, signs: Any, c: Any) -> Any:
        from softmargin.kernel_problem import SlackProblem

        return SlackProblem(gram, signs, float(self.slack), "free" if self.fit_intercept else "none")


class _Holdout:
    """Ends a run when the error on rows held out has not fallen for some passes."""

    def __init__(self, gram: Gram, X: Any, y: Any, patience: int, errors: list[float]) -> None:
        self._gram, self._X, self._y, self._patience, self._errors = gram, X, y, patience, errors

    def watch(self, iterate: Any, certificate: Any) -> bool:
        from softmargin.prediction import weighted_kernels

        if iterate.work.passes < len(self._errors) + 1 or not len(self._y):
            return False
        used = np.flatnonzero(iterate.model.w)
        coef, gram = iterate.model.w[used][None], self._gram
        scores = weighted_kernels(gram.kernel, gram.take(used), self._X, coef, gram.n_jobs)[:, 0] + iterate.model.b
        self._errors.append(float(np.mean(scores * self._y <= 0.0)))
        best = int(np.argmin(self._errors))
        return len(self._errors) - 1 - best >= self._patience


class _Regression(RegressorMixin, KernelSVM):  # type: ignore[misc]
    """One problem, one score."""

    _frames = 4

    def _finish(self, X: Any, kept: Any, solutions: list[Solution], coef: Any, b: float) -> None:
        """Set the attributes of a model with one score."""
        self._read(solutions)
        support = np.flatnonzero(coef)
        self._keep_vectors(X, support if kept is None else kept[support])
        self.dual_coef_ = coef[None, support]
        self.n_support_ = np.array([len(support)], np.int32)
        self.intercept_ = np.array([b + self._constant * float(coef.sum())])

    def _prepared(self, X: Any, y: Any, sample_weight: Any, C: float) -> tuple[Any, Any, Any, Any, Gram]:
        """Rows, targets, weights, the rows that have any, and their matrix."""
        self._check_run_parameters()
        X, y = validate.matrix(X, y, estimator=self, y_numeric=True)
        c, kept = validate.weights(C, sample_weight, X)
        gram, y = self._gram(X), np.asarray(y, np.float64)
        if kept is not None:
            gram, y = gram.part(kept), y[kept]
        return X, y, c, kept, gram

    def predict(self, X: Any) -> Any:
        """The predicted targets of rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,)
        """
        check_is_fitted(self)
        return self._products(X, self.dual_coef_)[0][:, 0] + self.intercept_


class SVR(_Regression):
    """Kernel support vector regression, certified.

    Minimises ``½‖w‖² + C Σ weight · max(0, |y − z| − ε)`` with an intercept that is not penalised.

    Parameters
    ----------
    C : float, default=1.0
    epsilon : float, default=0.1
        Errors up to this size cost nothing. It is in the units of y.
    kernel, degree, gamma, coef0, tol, solver, cache_size, fit_intercept, intercept_scaling, max_iter, time_limit, \
n_jobs, random_state, verbose, warm_start, callbacks, checkpoint
        As in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_ (linear kernel)
        As in scikit-learn's SVR.
    certificate_, dual_gap_, converged_, status_, n_iter_, history_
        As in `LinearSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from softmargin import SVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> SVR(C=100.0).fit(X, y).certificate_.relative_gap < 1e-3
    True
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        solver: Any = "auto",
        cache_size: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        max_iter: float | None = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.solver = solver
        self.cache_size = cache_size
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Train on rows X with targets y, as `SVC.fit`."""
        from softmargin.kernel_problem import regression

        validate.not_negative("epsilon", self.epsilon, "errors up to this size cost nothing")
        X, y, c, kept, gram = self._prepared(X, y, sample_weight, self.C)
        problem = regression(gram, y, c, float(self.epsilon), self._bias()["bias"])
        (solution,) = solutions = self._run(lambda _: problem, [""], X, y)
        self._finish(X, kept, solutions, solution.model.w, float(solution.model.b))
        return self


class NuSVR(_Regression):
    """Kernel support vector regression with ν in place of ε, certified.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the rows are errors, at least this share support vectors. Above 0, at most 1.
    C : float, default=1.0
    kernel, degree, gamma, coef0, tol, solver, cache_size, max_iter, time_limit, n_jobs, random_state, verbose, \
warm_start, callbacks, checkpoint
        As in `SVC`.

    Attributes
    ----------
    epsilon_ : float
        The width of the tube that was found.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, certificate_, converged_, status_, history_
        As in `SVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from softmargin import NuSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> NuSVR(C=100.0).fit(X, y).certificate_.relative_gap < 1e-3
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        solver: Any = "auto",
        cache_size: float | None = None,
        max_iter: float | None = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.solver = solver
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuSVR:
        """Train on rows X with targets y, as `SVC.fit`."""
        from softmargin.kernel_problem import nu_regression

        _share_of_one("nu", self.nu)
        X, y, c, kept, gram = self._prepared(X, y, sample_weight, self.C)
        problem = nu_regression(gram, y, c, self.nu)
        (solution,) = solutions = self._run(lambda _: problem, [""], X, y)
        upper, lower = np.asarray(solution.model.b, np.float64)
        self.epsilon_ = 0.5 * float(upper - lower)
        self._finish(X, kept, solutions, solution.model.w, 0.5 * float(upper + lower))
        return self


class OneClassSVM(OutlierMixin, _Regression):  # type: ignore[misc]
    """The support of a distribution, certified: rows far from the others score below zero.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the training rows are outliers, at least this share support vectors. Above 0, at most 1.
    kernel, degree, gamma, coef0, tol, solver, cache_size, max_iter, time_limit, n_jobs, random_state, verbose, \
warm_start, callbacks, checkpoint
        As in `SVC`.

    Attributes
    ----------
    offset_ : float
        ``-intercept_``: scores are the decision function plus this.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, certificate_, converged_, status_, history_
        As in `SVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from softmargin import OneClassSVM
    >>> X, _ = load_iris(return_X_y=True)
    >>> clf = OneClassSVM(nu=0.1).fit(X)
    >>> clf.certificate_.relative_gap < 1e-3, int((clf.predict(X) < 0).sum()) <= 16
    (True, True)
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        solver: Any = "auto",
        cache_size: float | None = None,
        max_iter: float | None = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Any = None,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.solver = solver
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OneClassSVM:
        """Train on rows X; y is ignored, it is there for pipelines."""
        from softmargin.kernel_problem import one_class

        _share_of_one("nu", self.nu)
        self._check_run_parameters()
        X = validate.matrix(X, estimator=self)
        c, kept = validate.weights(1.0, sample_weight, X)
        gram = self._gram(X)
        problem = one_class(gram if kept is None else gram.part(kept), c, self.nu)
        (solution,) = solutions = self._run(lambda _: problem, [""], X, None)
        self._finish(X, kept, solutions, solution.model.w, float(solution.model.b))
        self.offset_ = -self.intercept_
        return self

    def decision_function(self, X: Any) -> Any:
        """How far inside the support rows are: below zero for outliers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,)
        """
        return super().predict(X)

    def score_samples(self, X: Any) -> Any:
        """`decision_function` before the offset is taken off."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Any:
        """1 for rows inside the support, -1 for outliers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, n_features)

        Returns
        -------
        array of shape (n,)
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)


def _is_precomputed(kernel: Any) -> bool:
    from softmargin.kernels import Precomputed

    return isinstance(kernel, Precomputed) or (isinstance(kernel, str) and kernel == "precomputed")


def _cut(values: Any, one: slice, other: slice) -> Any:
    """The values between the rows of two spans."""
    n = one.stop - one.start
    out = np.empty((n + other.stop - other.start,) * 2, values.dtype)
    out[:n, :n], out[:n, n:] = values[one, one], values[one, other]
    out[n:, :n], out[n:, n:] = values[other, one], values[other, other]
    return out


def _share_of_one(name: str, value: Any) -> None:
    if validate.positive(name, value, "it is a share: above 0, at most 1") > 1.0:
        raise ValueError(f"{name}={value!r} is above 1: it is a share of the training rows")
