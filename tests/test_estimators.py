"""LinearSVC and LinearSVR as scikit-learn estimators: its own checks, its own models as judges, every kind of input."""

import io
import os
import pickle
import signal
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from helpers import deadline
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import DualDescent, LinearSVC, LinearSVR

X2, y2 = load_breast_cancer(return_X_y=True)
X2 = scale(X2)[:, :10]
X3, y3 = load_iris(return_X_y=True)
X3 = scale(X3)
XR, yR = load_diabetes(return_X_y=True)
XR, yR = scale(XR), (yR - yR.mean()) / yR.std()
TIGHT = 1e-9
BOTH = pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])


def target(kind):
    return (X2, y2) if kind is LinearSVC else (XR, yR)


# ---- scikit-learn's own checks ----

TO_TOL = "two fits agree to tol only; test_weights_are_repetitions has it with a tight one"


def expected_failures(estimator):
    return {f"check_sample_weight_equivalence_on_{data}_data": TO_TOL for data in ("dense", "sparse")}


@parametrize_with_checks([LinearSVC(), LinearSVR()], expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@BOTH
@pytest.mark.parametrize("sparse", [False, True])
def test_weights_are_repetitions(kind, sparse):
    X, y = target(kind)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    X = sp.csr_array(X) if sparse else X
    rows = np.repeat(np.arange(len(y)), times)
    weighted = kind(tol=1e-11, solver="newton").fit(X, y, sample_weight=times)
    repeated = kind(tol=1e-11, solver="newton").fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-6)
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-10)


# ---- against scikit-learn's models ----


def penalised(X, y, w, b, loss, C, rho=None):
    """The objective of scikit-learn's LinearSVC (the intercept penalised where rho is a number)."""
    slack = np.maximum(0, 1 - np.where(y, 1, -1) * (X @ w + b))
    slack = slack**2 if loss == "squared_hinge" else slack
    return 0.5 * (w @ w + (b * b / rho**2 if rho else 0)) + C * slack.sum()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("rho", [None, 1.0, 3.0])
def test_against_scikit_learns_linear_svc(loss, rho):
    options = {"C": 0.3, "loss": loss, "fit_intercept": rho is not None}
    scaling = {} if rho is None else {"intercept_scaling": rho}
    ours = LinearSVC(**options, **scaling, tol=TIGHT).fit(X2, y2)
    theirs = sklearn.svm.LinearSVC(**options, **scaling, tol=1e-9, max_iter=200_000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X2, y2)
    other = penalised(X2, y2, theirs.coef_[0], float(np.ravel(theirs.intercept_)[0]), loss, 0.3, rho)
    assert ours.certificate_.primal == pytest.approx(
        penalised(X2, y2, ours.coef_[0], ours.intercept_[0], loss, 0.3, rho)
    )
    assert ours.certificate_.dual <= other * (1 + 1e-12)
    assert ours.certificate_.primal == pytest.approx(other, rel=1e-5)
    assert ours.certificate_.primal <= other * (1 + 1e-8)


def test_against_svc_with_a_free_intercept():
    ours = LinearSVC(C=0.3, tol=TIGHT).fit(X2, y2)
    theirs = sklearn.svm.SVC(kernel="linear", C=0.3, tol=1e-8).fit(X2, y2)
    np.testing.assert_allclose(ours.decision_function(X2), theirs.decision_function(X2), atol=1e-3)
    assert ours.certificate_.primal == pytest.approx(
        penalised(X2, y2, theirs.coef_[0], theirs.intercept_[0], "hinge", 0.3), rel=1e-6
    )


def test_against_logistic_regression():
    ours = LinearSVC(loss="logistic", C=0.3, tol=1e-11).fit(X2, y2)
    theirs = LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(X2, y2)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_against_svr():
    ours = LinearSVR(C=0.1, epsilon=0.2, tol=TIGHT).fit(XR, yR)
    theirs = sklearn.svm.SVR(kernel="linear", C=0.1, epsilon=0.2, tol=1e-8).fit(XR, yR)
    np.testing.assert_allclose(ours.predict(XR), theirs.predict(XR), atol=1e-3)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_one_against_the_rest(n_jobs):
    ours = LinearSVC(C=0.5, tol=TIGHT, n_jobs=n_jobs).fit(X3, y3)
    assert ours.coef_.shape == (3, 4)
    assert ours.intercept_.shape == (3,)
    assert ours.decision_function(X3).shape == (150, 3)
    assert len(ours.history_) == 3
    objectives = []
    for k in range(3):
        one = LinearSVC(C=0.5, tol=TIGHT).fit(X3, y3 == k)
        objectives.append(one.certificate_.primal)
        np.testing.assert_allclose(ours.decision_function(X3)[:, k], one.decision_function(X3), atol=1e-3)
    assert ours.certificate_.primal == pytest.approx(sum(objectives), rel=1e-8)
    np.testing.assert_array_equal(ours.predict(X3), ours.classes_[ours.decision_function(X3).argmax(axis=1)])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_seed_gives_the_same_bits(n_jobs):
    fits = [LinearSVC(random_state=5, n_jobs=n_jobs).fit(X3, y3) for _ in range(2)]
    assert fits[0].coef_.tobytes() == fits[1].coef_.tobytes()
    assert fits[0].certificate_ == fits[1].certificate_


# ---- weights of classes ----


def test_class_weight():
    names = np.array(["benign", "malign"])[y2]
    factor = {"benign": 3.0, "malign": 0.5}
    by_rows = LinearSVC(tol=TIGHT, random_state=0).fit(X2, names, sample_weight=[factor[name] for name in names])
    by_class = LinearSVC(tol=TIGHT, random_state=0, class_weight=factor).fit(X2, names)
    np.testing.assert_array_equal(by_rows.coef_, by_class.coef_)
    share = len(y2) / (2 * np.bincount(y2))
    balanced = LinearSVC(tol=TIGHT, class_weight="balanced").fit(X2, names)
    by_rows = LinearSVC(tol=TIGHT).fit(X2, names, sample_weight=share[y2])
    assert balanced.certificate_.primal == pytest.approx(by_rows.certificate_.primal, rel=2 * TIGHT)
    partly = LinearSVC(class_weight={"benign": 2.0}).fit(X2, names)
    assert partly.converged_


def test_balanced_counts_weights_as_repetitions():
    times = np.random.default_rng(1).integers(0, 3, len(y2))
    weighted = LinearSVC(class_weight="balanced", tol=TIGHT).fit(X2, y2, sample_weight=times)
    repeated = LinearSVC(class_weight="balanced", tol=TIGHT).fit(np.repeat(X2, times, 0), np.repeat(y2, times))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-7)


# ---- every kind of input ----

WHOLE = np.round(3 * X2).clip(0, 9)  # the same values in every type


def sparse(kind, index=np.int32, dtype=np.float64):
    X = kind(WHOLE.astype(dtype))
    if hasattr(X, "indptr"):
        X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def unsorted():
    X = sparse(sp.csr_array)
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[part], X.data[part] = X.indices[part][::-1].copy(), X.data[part][::-1].copy()
    X.has_sorted_indices = False
    return X


def duplicated():
    X = sparse(sp.csr_array)
    return sp.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)


def read_only():
    X = WHOLE.copy()
    X.flags.writeable = False
    return X


def read_only_sparse():
    X = sparse(sp.csr_array)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    return X


def stored_zeros():
    X = sparse(sp.csr_array)
    X.data[X.data == 9] = 0.0
    return X


INPUTS = {
    "float32": lambda: WHOLE.astype(np.float32),
    "float16": lambda: WHOLE.astype(np.float16),
    "uint8": lambda: WHOLE.astype(np.uint8),
    "int64": lambda: WHOLE.astype(np.int64),
    "longdouble": lambda: WHOLE.astype(np.longdouble),
    "big-endian": lambda: WHOLE.astype(">f8"),
    "list": lambda: WHOLE.tolist(),
    "fortran": lambda: np.asfortranarray(WHOLE),
    "every second": lambda: np.repeat(np.repeat(WHOLE, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda: WHOLE[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "csr": lambda: sparse(sp.csr_array),
    "csr matrix": lambda: sparse(sp.csr_matrix),
    "csr int64": lambda: sparse(sp.csr_array, np.int64),
    "csr float32 int64": lambda: sparse(sp.csr_array, np.int64, np.float32),
    "csr uint8": lambda: sparse(sp.csr_array, dtype=np.uint8),
    "csc": lambda: sparse(sp.csc_array),
    "csc int64": lambda: sparse(sp.csc_array, np.int64),
    "coo": lambda: sparse(sp.coo_array),
    "lil": lambda: sparse(sp.lil_array),
    "csr unsorted": unsorted,
    "csr duplicated": duplicated,
    "csr read-only": read_only_sparse,
}


@pytest.fixture(scope="module")
def reference():
    return LinearSVC(tol=1e-6).fit(WHOLE, y2)


@pytest.mark.parametrize("name", INPUTS)
def test_every_kind_of_input_is_the_same_data(name, reference):
    X = INPUTS[name]()
    before = X.toarray() if sp.issparse(X) else np.array(X)
    clf = LinearSVC(tol=1e-6).fit(X, y2)
    assert clf.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=2e-6)
    np.testing.assert_allclose(clf.decision_function(X), clf.decision_function(WHOLE), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(clf.predict(X), clf.predict(WHOLE))
    assert clf.coef_.dtype == np.float64
    np.testing.assert_array_equal(X.toarray() if sp.issparse(X) else np.array(X), before)


def test_stored_zeros_and_bool():
    X = stored_zeros()
    one, other = LinearSVC().fit(X, y2), LinearSVC().fit(X.toarray(), y2)
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=2e-3)
    yes = LinearSVC(tol=1e-6).fit(X2 > 0, y2)
    assert yes.certificate_.primal == pytest.approx(
        LinearSVC(tol=1e-6).fit((X2 > 0) * 1.0, y2).certificate_.primal, rel=2e-6
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_mapped(dtype, tmp_path, reference):
    mapped = np.memmap(tmp_path / "X", dtype, "w+", shape=WHOLE.shape)
    mapped[:] = WHOLE
    mapped.flush()
    X = np.memmap(tmp_path / "X", dtype, "r", shape=WHOLE.shape)
    clf = LinearSVC(tol=1e-6).fit(X, y2)
    assert clf.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=2e-6)
    np.testing.assert_array_equal(clf.predict(X), clf.predict(WHOLE))
    assert type(clf.coef_) is np.ndarray


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library, reference):
    frames = pytest.importorskip(library)
    X = frames.DataFrame({f"column {k}": WHOLE[:, k] for k in range(WHOLE.shape[1])})
    clf = LinearSVC(tol=1e-6).fit(X, frames.Series(y2))
    assert clf.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=2e-6)
    assert list(clf.feature_names_in_) == list(X.columns)
    np.testing.assert_array_equal(clf.predict(X), reference.predict(WHOLE))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(X[X.columns[::-1]])


@pytest.mark.parametrize("labels", [["yes", "no"], [10, -3], [2.0, 1.0], [True, False]])
def test_labels_of_every_kind(labels, reference):
    low, high = sorted(labels)
    y = np.where(y2 == 1, high, low)
    clf = LinearSVC(tol=1e-6).fit(WHOLE, y)
    assert clf.classes_.tolist() == [low, high]
    np.testing.assert_array_equal(clf.predict(WHOLE), np.where(reference.predict(WHOLE) == 1, high, low))


def test_a_weight_of_zero_is_no_row():
    X, y = np.vstack([X2, [[1e6] * 10]]), np.append(y2, 0)
    weight = np.append(np.ones(len(y2)), 0.0)
    one, other = LinearSVC(random_state=0).fit(X, y, weight), LinearSVC(random_state=0).fit(X2, y2)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    one, other = LinearSVR(random_state=0).fit(X[:, :1], y, weight), LinearSVR(random_state=0).fit(X2[:, :1], y2)
    np.testing.assert_array_equal(one.coef_, other.coef_)


# ---- within scikit-learn ----


def test_within_scikit_learn():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [0.01, 1.0]}, cv=3, n_jobs=2
    ).fit(X2, y2)
    assert search.best_score_ > 0.9
    calibrated = CalibratedClassifierCV(LinearSVC(), cv=3).fit(X2, y2)
    probability = calibrated.predict_proba(X2)
    assert probability.shape == (len(y2), 2)
    assert calibrated.score(X2, y2) > 0.9


@BOTH
def test_clone_and_pickle(kind):
    X, y = target(kind)
    fitted = kind(C=0.2, warm_start=True, random_state=1).fit(X, y)
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "coef_")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.certificate_ == fitted.certificate_
    again.fit(X, y)


def test_fitting_does_not_change_parameters():
    weight = np.ones(len(y2))
    factors = {0: 2.0, 1: 3.0}
    clf = LinearSVC(class_weight=factors)
    before = clf.get_params()
    clf.fit(X2, y2, sample_weight=weight)
    assert clf.get_params() == before
    assert (weight == 1).all()
    assert factors == {0: 2.0, 1: 3.0}


@BOTH
def test_warm_start(kind):
    X, y = target(kind)
    model = kind(warm_start=True, solver="newton", tol=1e-6).fit(X, y)
    first = model.certificate_
    assert model.fit(X, y).n_iter_ == 0
    assert model.certificate_.relative_gap <= 1e-6
    model.set_params(C=0.5).fit(X, y)
    assert model.converged_
    assert model.certificate_.primal < first.primal
    model.fit(X[:50], y[:50])  # another shape: from the beginning
    assert model.converged_
    model.set_params(warm_start=False).fit(X, y)
    assert model.n_iter_ > 0


def test_warm_start_after_other_labels_and_classes():
    clf = LinearSVC(warm_start=True, tol=1e-6).fit(X3, y3)
    assert clf.fit(X3, (y3 + 1) % 3).converged_
    assert clf.fit(X3, y3 > 0).converged_
    assert clf.set_params(loss="logistic").fit(X3, y3 > 0).converged_
    assert clf.set_params(fit_intercept=False).fit(X3, y3 > 0).intercept_.tolist() == [0.0]


# ---- how a fit ends, and what it says ----


def hard(kind=LinearSVC, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20)) * np.logspace(-2, 2, 20)
    return kind(C=1e4, solver="dual_descent", tol=1e-14, **options), X, rng.integers(0, 2, 400)


@BOTH
def test_what_an_early_end_says(kind):
    model, X, y = hard(kind, max_iter=10)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    text = str(caught[0].message)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert f"{model.certificate_.relative_gap:.1e}" in text
    assert kind.__name__ in text
    assert "max_iter" in text
    assert "tol=1e-14" in text
    assert not model.converged_
    assert 10 <= model.n_iter_ < 20
    assert model.dual_gap_ == model.certificate_.gap > 0
    assert np.isfinite(model.predict(X)).all()


def test_time_limit():
    model, X, y = hard(time_limit=0.1, max_iter=None)
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(X, y)
    assert time.perf_counter() - began < 2
    assert not model.converged_


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_time_limit_is_for_all_classes_together(n_jobs):
    model, X, _ = hard(time_limit=1.5, max_iter=None, n_jobs=n_jobs)
    for n_classes in (3, 5):
        began = time.perf_counter()
        with pytest.warns(ConvergenceWarning):
            model.fit(X, np.arange(400) % n_classes)
        assert 1.4 < time.perf_counter() - began < 1.9, "the last classes must not get more than is left"
        assert len(model.coef_) == n_classes
        assert all(len(history) > 0 for history in model.history_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_keeps_the_best_model(n_jobs):
    model, X, _ = hard(max_iter=None, time_limit=30, n_jobs=n_jobs)
    usual = signal.getsignal(signal.SIGINT)
    seen = []

    def press(record, iterate):
        if not seen:
            seen.append(1)
            os.kill(os.getpid(), signal.SIGINT)

    model.set_params(callbacks=[press])
    with deadline(20), pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, np.arange(400) % 3)
    assert signal.getsignal(signal.SIGINT) is usual
    assert np.isfinite(model.coef_).all()


def test_callbacks_can_stop():
    model, X, y = hard(max_iter=None, callbacks=[lambda record, iterate: record.certificate.work.passes > 20])
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(X, y)


def test_quiet_and_verbose():
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        LinearSVC().fit(X3, y3)
        LinearSVR().fit(XR, yR)
    assert out.getvalue() == err.getvalue() == ""
    for verbose in (1, 2):
        with redirect_stdout(out), redirect_stderr(err):
            LinearSVC(verbose=verbose).fit(X3, y3)
    assert out.getvalue() == ""
    lines = err.getvalue().splitlines()
    assert len(lines) == 6
    assert all("LinearSVC[" in line and "gap" in line for line in lines)


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    path = tmp_path / "fit"
    model, X, y = hard(max_iter=None, time_limit=0.1, checkpoint=path)
    with pytest.warns(ConvergenceWarning, match="checkpoint"):
        first = model.fit(X, y).n_iter_
    assert path.exists()
    with pytest.warns(ConvergenceWarning):
        assert model.fit(X, y).n_iter_ > first
    labels = np.array(["a/b", "../c", "d"])[np.arange(400) % 3]
    with pytest.warns(ConvergenceWarning):
        model.fit(X, labels)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fit", "fit.0", "fit.1", "fit.2"]
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.set_params(callbacks=[lambda *_: True], time_limit=None).fit(X, labels)
    assert [file.name for file in tmp_path.iterdir()] == ["fit"], "those of a fit that has ended are removed"


def test_the_classes_that_are_done_stay_done(tmp_path):
    """A fit that is killed in its last class trains the others no more."""

    class PowerCut(Exception):
        pass

    seen = []

    def fail(record, iterate):
        seen.append(record)
        if len(seen) == 3:
            raise PowerCut

    model = LinearSVC(C=0.1, random_state=0, checkpoint=tmp_path / "fit", callbacks=[fail])
    with pytest.raises(PowerCut):
        model.fit(X3, y3)
    again = []
    model.set_params(callbacks=[lambda record, iterate: again.append(record)]).fit(X3, y3)
    assert len(again) < len(seen) + 2
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(model.coef_, LinearSVC(C=0.1, random_state=0).fit(X3, y3).coef_)


def test_a_larger_tol_goes_on_from_the_checkpoint_too(tmp_path):
    model, X, y = hard(max_iter=None, time_limit=0.1, checkpoint=tmp_path / "fit")
    model.set_params(solver="auto")
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.set_params(tol=0.5, time_limit=None).fit(X, y).converged_


def test_random_state_is_for_every_solver():
    X, y = X2, y2
    bits = [
        LinearSVC(solver=solver, random_state=seed).fit(X, y).coef_.tobytes()
        for solver, seed in ((DualDescent(), 1), (DualDescent(), 2), (DualDescent(seed=5), 1), ("dual_descent", None))
    ]
    assert bits[0] != bits[1]
    assert LinearSVC(solver=DualDescent(seed=5)).fit(X, y).coef_.tobytes() not in bits[:2]


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e8])
def test_targets_far_from_zero(offset):
    reg = LinearSVR(C=1.0, random_state=0, tol=1e-6).fit(XR, yR + offset)
    assert reg.converged_
    near = LinearSVR(C=1.0, random_state=0, tol=1e-6).fit(XR, yR)
    np.testing.assert_allclose(reg.certificate_.primal, near.certificate_.primal, rtol=1e-5)
    np.testing.assert_allclose(reg.predict(XR) - offset, near.predict(XR), atol=1e-3 + 1e-7 * offset)
    seen = []
    reg.set_params(callbacks=[lambda record, iterate: seen.append(iterate.model.b) and None]).fit(XR, yR + offset)
    assert seen[-1] == pytest.approx(reg.intercept_[0], rel=1e-12, abs=1.0), "callbacks see the bias of intercept_"
    reg.set_params(callbacks=None)
    again = reg.set_params(warm_start=True).fit(XR, yR + offset).fit(XR, yR + offset)
    assert len(again.history_) == 1, "a warm start from the solution is the solution"


@pytest.mark.parametrize("column", ["id", "time", "constant", "shift", "bias"])
def test_plain_data_that_nobody_scaled(column):
    """One feature of another size must not cost the fit."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((2000, 5))
    y = Z[:, 0] + 0.5 * rng.standard_normal(2000) > 0
    t = np.arange(2000)
    more = {"id": 1000.0 * t, "time": 1.7e9 + 60.0 * t, "constant": np.full(2000, 1e6)}
    X = np.c_[Z, more[column]] if column in more else Z + 1e4 if column == "shift" else Z
    for seed in range(3):
        clf = LinearSVC(random_state=seed, intercept_scaling=1e6 if column == "bias" else None).fit(X, y)
        assert clf.converged_
        assert clf.certificate_.primal == pytest.approx(698.2, rel=2e-3)
        assert clf.n_iter_ < 200


def test_certificate_and_history():
    clf = LinearSVC().fit(X2, y2)
    assert clf.converged_
    assert clf.certificate_.relative_gap <= clf.tol
    assert clf.certificate_.primal - clf.certificate_.dual == clf.dual_gap_
    assert clf.history_[-1].certificate == clf.certificate_
    assert clf.history_.time_to(clf.tol) < 10
    assert clf.n_iter_ == np.ceil(clf.certificate_.work.passes)


# ---- scikit-learn's callbacks (1.9) ----


class Recorder:
    """A callback that writes down what it is told, and may stop the fit."""

    def __init__(self, stop_at=np.inf):
        self.begun, self.ended, self.models, self.stop_at = [], [], [], stop_at

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.ended.append((context.task_name, metadata))
        self.models.append(fitted_estimator)
        return sum(name == "pass" for name, _ in self.ended) >= self.stop_at


def test_scikit_learns_callbacks():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    clf = LinearSVC(tol=1e-6).set_callbacks(recorder).fit(X2, y2)
    names = [name for name, _ in recorder.ended]
    assert sorted(names) == sorted(recorder.begun)
    assert {"pass", "run", "fit"} >= set(names)
    metadata = [metadata for name, metadata in recorder.ended if name == "pass"]
    passes = [m["passes"] for m in metadata]
    assert passes == sorted(passes)
    assert passes[-1] == clf.certificate_.work.passes
    assert metadata[-1]["certified"]
    assert metadata[-1]["relative_gap"] <= 1e-6
    multi = Recorder()
    assert LinearSVC(n_jobs=2).set_callbacks(multi).fit(X3, y3).converged_
    assert [name for name, _ in multi.ended].count("run") == 3


def test_a_scikit_learn_callback_can_stop():
    pytest.importorskip("sklearn.callback")
    model, X, y = hard(max_iter=None)
    recorder = Recorder(stop_at=5)
    with deadline(20), pytest.warns(ConvergenceWarning, match="callback"):
        model.set_callbacks(recorder).fit(X, y)
    assert [name for name, _ in recorder.ended].count("pass") == 5


def test_scikit_learns_progress_bar(capsys):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    clf = LinearSVC().set_callbacks(callback.ProgressBar()).fit(X2, y2)
    assert clf.converged_
    assert "LinearSVC" in capsys.readouterr().out
    search = GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(callback.ProgressBar()).fit(X2, y2)


@pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])
def test_monitoring_within_a_fit(kind):
    callback = pytest.importorskip("sklearn.callback")
    X, y = target(kind)
    log = callback.ScoringMonitor(scoring="accuracy" if kind is LinearSVC else "r2")
    kind(tol=1e-4).set_callbacks(log).fit(X, y)
