"""SVC, NuSVC, SVR, NuSVR and OneClassSVM: scikit-learn's checks, its models as judges, every kind of input."""

import pickle
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from helpers import deadline
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SlackSVC

X2, y2 = load_breast_cancer(return_X_y=True)
X2, y2 = scale(X2)[:120, :8], y2[:120]
X3, y3 = load_iris(return_X_y=True)
X3 = scale(X3) + np.random.default_rng(0).normal(size=X3.shape)  # so that classes overlap
XR, yR = load_diabetes(return_X_y=True)
XR, yR = scale(XR)[:120], ((yR - yR.mean()) / yR.std())[:120]
X4 = np.random.default_rng(1).normal(size=(120, 3))
y4 = np.array(["a", "b", "c", "d"])[2 * (X4[:, 0] > 0) + (X4[:, 1] + 0.5 * X4[:, 2] > 0)]
TIGHT = 1e-8
KINDS = (SVC, NuSVC, SVR, NuSVR, OneClassSVM)
EVERY = pytest.mark.parametrize("kind", KINDS)
CLASSIFIERS = pytest.mark.parametrize("kind", [SVC, NuSVC])
KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.3, "coef0": 1.0, "degree": 2},
    "rbf": {"gamma": 0.2},
}


def target(kind):
    return (X2, y2) if kind in (SVC, NuSVC) else (XR, yR)


def theirs(kind):
    return getattr(sklearn.svm, kind.__name__)


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def options(kind, **more):
    """A ν that every class can have, and of which ν n / 2 is no whole number: else ρ is not unique."""
    return ({"nu": 0.23} if "nu" in kind().get_params() else {}) | more


# ---- scikit-learn's own checks ----

TO_TOL = "two fits agree to tol only; test_weights_are_repetitions has it with a tight one"


def expected_failures(estimator):
    failures = {f"check_sample_weight_equivalence_on_{data}_data": TO_TOL for data in ("dense", "sparse")}
    if isinstance(estimator, NuSVC):
        failures["check_class_weight_classifiers"] = "its weights of classes leave no ν = 0.5, which is an error"
    return failures


@parametrize_with_checks([kind() for kind in KINDS], expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator, check):
    with deadline(20):
        check(estimator)


@EVERY
@pytest.mark.parametrize("sparse", [False, True])
def test_weights_are_repetitions(kind, sparse):
    """Those of weight zero are no rows at all."""
    X, y = target(kind)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    X = sp.csr_array(X) if sparse else X
    weighted = kind(**options(kind, gamma=0.2, tol=1e-9)).fit(X, y, sample_weight=times)
    repeated = kind(**options(kind, gamma=0.2, tol=1e-9)).fit(X[rows], y[rows])
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(scores(weighted, X), scores(repeated, X), atol=2e-4 * np.ptp(scores(repeated, X)))


# ---- against scikit-learn's models ----


@EVERY
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_scores_of_scikit_learn(kind, kernel, sparse):
    X, y = target(kind)
    if kind is OneClassSVM and kernel == "linear":
        X = X + 5.0  # around the origin the optimum is zero, and scores mean nothing
    X = sp.csr_array(X) if sparse else X
    shared = options(kind, kernel=kernel, **KERNELS[kernel])
    with deadline(10):
        ours = kind(**shared, tol=TIGHT).fit(X, y)
    assert ours.converged_
    other = theirs(kind)(**shared, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(scores(ours, X), scores(other, X), atol=1e-4 * max(1.0, np.abs(scores(other, X)).max()))
    assert ours.intercept_.shape == other.intercept_.shape
    assert ours.dual_coef_.shape[0] == other.dual_coef_.shape[0]
    if kind in (SVC, NuSVC):
        np.testing.assert_array_equal(ours.classes_, other.classes_)


@CLASSIFIERS
@pytest.mark.parametrize("data", ["three", "four"])
@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_several_classes(kind, data, shape, break_ties):
    """One against one: scores, labels, shapes and the order of the support vectors."""
    if break_ties and shape == "ovo":
        pytest.skip("refused")
    X, y = (X3, y3) if data == "three" else (X4, y4)
    shared = options(kind, kernel="rbf", gamma=0.3, decision_function_shape=shape, break_ties=break_ties)
    with deadline(10):
        ours = kind(**shared, tol=TIGHT).fit(X, y)
    other = theirs(kind)(**shared, tol=1e-8).fit(X, y)
    one, two = ours.decision_function(X), other.decision_function(X)
    assert one.shape == two.shape
    np.testing.assert_allclose(one, two, atol=1e-4 * max(1.0, np.abs(two).max()))
    pairs = theirs(kind)(**shared | {"decision_function_shape": "ovo", "break_ties": False}, tol=1e-8).fit(X, y)
    sure = np.abs(pairs.decision_function(X)).min(axis=1) > 1e-3
    assert sure.mean() > 0.8
    if break_ties:
        np.testing.assert_array_equal(ours.predict(X), ours.classes_[one.argmax(axis=1)])
    np.testing.assert_array_equal(ours.predict(X)[sure], other.predict(X)[sure])
    assert ours.n_support_.sum() == len(ours.support_) == ours.dual_coef_.shape[1]
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    np.testing.assert_array_equal(np.sort(y[ours.support_]), y[ours.support_])


def test_weights_of_classes_and_rows():
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, len(y4)) * rng.random(len(y4))
    for factors in ("balanced", {"a": 3.0, "c": 0.5}):
        shared = {"kernel": "rbf", "gamma": 0.3, "class_weight": factors}
        ours = SVC(**shared, tol=TIGHT).fit(X4, y4)
        other = sklearn.svm.SVC(**shared, tol=1e-8).fit(X4, y4)
        np.testing.assert_allclose(ours.decision_function(X4), other.decision_function(X4), atol=1e-3)
        np.testing.assert_allclose(ours.class_weight_, other.class_weight_)
    ours = SVC(gamma=0.3, tol=TIGHT, decision_function_shape="ovo").fit(X4, y4, weight)
    other = sklearn.svm.SVC(gamma=0.3, tol=1e-8, decision_function_shape="ovo").fit(X4, y4, weight)
    np.testing.assert_allclose(ours.decision_function(X4), other.decision_function(X4), atol=1e-3)
    assert (weight[ours.support_] > 0).all()


@EVERY
def test_a_precomputed_kernel_and_a_callable_one(kind):
    X, y = target(kind)
    shared = options(kind, tol=TIGHT)
    plain = kind(kernel="rbf", gamma=0.2, **shared).fit(X, y)
    K = rbf_kernel(X, gamma=0.2)
    known = kind(kernel="precomputed", **shared).fit(K, y)
    own = kind(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.2), **shared).fit(X, y)
    scale_ = max(1.0, np.abs(scores(plain, X)).max())
    np.testing.assert_allclose(scores(known, K[:30]), scores(plain, X[:30]), atol=1e-4 * scale_)
    np.testing.assert_allclose(scores(own, X[:30]), scores(plain, X[:30]), atol=1e-4 * scale_)
    assert known.support_vectors_.size == 0
    with pytest.raises(ValueError, match=str(len(y))):
        scores(known, K[:5, :7])


@pytest.mark.parametrize("gamma", ["scale", "auto"])
@pytest.mark.parametrize("sparse", [False, True])
def test_gamma_from_the_data(gamma, sparse):
    X = sp.csr_array(X2 + 3.0) if sparse else X2 + 3.0
    ours, other = SVC(gamma=gamma, tol=TIGHT).fit(X, y2), sklearn.svm.SVC(gamma=gamma, tol=1e-8).fit(X, y2)
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), atol=1e-3)


def test_coef_of_the_linear_kernel():
    for X, y in ((X2, y2), (X3, y3)):
        ours, other = SVC(kernel="linear", tol=TIGHT).fit(X, y), sklearn.svm.SVC(kernel="linear", tol=1e-8).fit(X, y)
        np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-3)
        sparse = SVC(kernel="linear", tol=TIGHT).fit(sp.csr_array(X), y)
        np.testing.assert_allclose(sparse.coef_.toarray(), other.coef_, atol=1e-3)
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = SVC().fit(X2, y2).coef_


@pytest.mark.parametrize("kind", [SVC, SVR])
def test_an_intercept_that_is_penalised_or_absent(kind):
    """A penalised one is the weight of a constant feature."""
    X, y = target(kind)
    both = np.column_stack([X, np.full(len(X), 2.0)])
    ours = kind(kernel="linear", intercept_scaling=2.0, tol=TIGHT).fit(X, y)
    other = kind(kernel="linear", fit_intercept=False, tol=TIGHT).fit(both, y)
    assert other.intercept_ == 0.0
    assert ours.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(scores(ours, X), scores(other, both), atol=1e-3)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5, 1e7])
def test_rows_far_from_zero_are_scored_as_they_were_trained(offset):
    """A Gaussian depends on differences only: a shift of all rows changes no score."""
    near, far = np.round(X2, 3), np.round(X2, 3) + offset
    ours, other = SVC(gamma=0.2, tol=1e-6).fit(far, y2), sklearn.svm.SVC(gamma=0.2, tol=1e-6).fit(near, y2)
    assert ours.converged_
    np.testing.assert_allclose(ours.decision_function(far), other.decision_function(near), atol=5e-3)


# ---- within scikit-learn ----


@EVERY
def test_clone_and_pickle(kind):
    X, y = target(kind)
    fitted = kind(**options(kind, kernel="poly", gamma=0.3, coef0=1.0)).fit(X, y)
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "dual_coef_")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.certificate_ == fitted.certificate_
    assert again.certificate_.relative_gap <= fitted.tol


@EVERY
def test_data_frames(kind):
    pandas = pytest.importorskip("pandas")
    X, y = target(kind)
    frame = pandas.DataFrame(X, columns=[f"column {k}" for k in range(X.shape[1])])
    one = kind(**options(kind, random_state=0)).fit(frame, pandas.Series(y))
    assert list(one.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(one.predict(frame), kind(**options(kind, random_state=0)).fit(X, y).predict(X))


def test_within_scikit_learn():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0], "svc__kernel": ["rbf", "linear"]}
    )
    assert search.fit(X2, y2).best_score_ > 0.85
    known = GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0]}, cv=3).fit(linear_kernel(X2), y2)
    assert known.best_score_ > 0.85
    calibrated = CalibratedClassifierCV(SVC(), cv=3).fit(X3, y3)
    np.testing.assert_allclose(calibrated.predict_proba(X3).sum(axis=1), 1.0)


@EVERY
def test_warm_start(kind):
    X, y = target(kind)
    model = kind(**options(kind, warm_start=True, tol=1e-4)).fit(X, y)
    assert model.fit(X, y).n_iter_.max() == 0 if kind in (SVC, NuSVC) else model.fit(X, y).n_iter_ == 0
    assert model.converged_
    assert model.fit(X[:50], y[:50]).converged_


@EVERY
def test_a_small_cache_changes_nothing(kind):
    X, y = target(kind)
    shared = options(kind, tol=1e-6)
    with deadline(10):
        small = kind(cache_size=20 * len(y) * 4 / 2**20, **shared).fit(X, y)
    assert small.converged_
    np.testing.assert_allclose(small.certificate_.primal, kind(**shared).fit(X, y).certificate_.primal, rtol=2e-6)


# ---- how a fit ends, and what it says ----


def hard(kind, **more):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    given = {"C": 1e6} if "C" in kind().get_params() else {}
    return kind(**options(kind, gamma=5.0, tol=1e-12, solver="smo", **given, **more)), X, rng.integers(0, 2, 1200)


@EVERY
@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"time_limit": 0.05, "max_iter": None}])
def test_an_early_end_leaves_a_usable_model_and_names_the_gap(kind, limit):
    model, X, y = hard(kind, **limit)
    began = time.perf_counter()
    with deadline(20), pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert time.perf_counter() - began < 10
    assert len(caught) == 1
    text = str(caught[0].message)
    gap = model.certificate_.relative_gap
    assert (f"{gap:.1e}" if np.isfinite(gap) else "not known yet") in text
    assert next(iter(limit)) in text
    assert kind.__name__ in text
    assert caught[0].filename == __file__
    assert not model.converged_
    assert np.isfinite(scores(model, X)).all()
    assert model.status_ == ("passes" if "time_limit" not in limit else "seconds")


def test_a_kernel_that_is_no_inner_product_ends_stationary():
    """No pair of rows is left that could improve it, and the warning says that nothing is proven."""
    shared = {"kernel": "sigmoid", "gamma": 0.1, "coef0": 0.2}
    with pytest.warns(ConvergenceWarning, match="stationary"), deadline(20):
        ours = SVC(**shared, tol=1e-6).fit(X2, y2)
    assert ours.status_ == "stationary"
    assert ours.certificate_.dual == -np.inf
    assert not ours.converged_
    a, y = np.zeros(len(y2)), np.where(y2 == 1, 1.0, -1.0)
    a[ours.support_] = ours.dual_coef_[0]
    d = y - np.tanh(0.1 * X2 @ X2.T + 0.2) @ a
    up, down = a < np.maximum(y, 0), a > np.minimum(y, 0)
    assert d[up].max() - d[down].min() < 1e-2
    with pytest.warns(ConvergenceWarning, match="stationary"), deadline(20):
        assert SVR(**shared).fit(XR, yR).status_ == "stationary"


def test_features_that_are_too_large():
    """An error that says so; no warning on the way."""
    X = np.finfo(np.float64).max * np.random.default_rng(0).uniform(size=(10, 2))
    for kernel in ("rbf", "linear", "poly"):
        with pytest.raises(ValueError, match=r"scale|large"):
            SVC(kernel=kernel).fit(X, np.arange(10) % 2)


@EVERY
@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_few_rows(kind, n):
    X, y = np.arange(n, dtype=float)[:, None], np.arange(n) % 2
    with deadline(5):
        model = kind(**options(kind)).fit(X, y)
    assert model.converged_
    assert np.isfinite(scores(model, X)).all()


@pytest.mark.parametrize("kind", [NuSVC, OneClassSVM])
@pytest.mark.parametrize("nu", [0.1, 0.5, 0.9])
def test_the_machines_of_nu_converge_on_blobs(kind, nu):
    """Few rows, well apart or not, linear or not."""
    rng = np.random.default_rng(0)
    for apart in (0.0, 10.0):
        y = np.arange(60) % 2
        X = rng.normal(size=(60, 2)) + apart * y[:, None]
        for kernel in ("linear", "rbf"):
            with deadline(5):
                model = kind(nu=nu, kernel=kernel).fit(X, y)
            assert model.converged_


# ---- what is refused ----

REFUSED = [
    (KINDS, {"gamma": 0.0}, "gamma=0.0"),
    (KINDS, {"gamma": -1.0}, "gamma=-1.0"),
    (KINDS, {"gamma": np.nan}, "gamma=nan"),
    (KINDS, {"gamma": "big"}, "gamma='big'.*scale, auto"),
    (KINDS, {"kernel": "gauss"}, "kernel='gauss'.*rbf"),
    (KINDS, {"kernel": 3}, "kernel=3.*rbf"),
    (KINDS, {"degree": "a", "kernel": "poly"}, "degree='a'"),
    (KINDS, {"degree": -1, "kernel": "poly"}, "degree=-1"),
    (KINDS, {"coef0": np.inf, "kernel": "poly"}, "coef0=inf"),
    (KINDS, {"cache_size": 1e-5}, r"cache_size=.* two rows .*at least"),
    (KINDS, {"cache_size": 0}, "cache_size=0.*None"),
    (KINDS, {"cache_size": -1}, "cache_size=-1"),
    (KINDS, {"solver": "newton"}, "Newton cannot solve a kernel problem.*active_set"),
    (KINDS, {"solver": "fast"}, "solver='fast'.*active_set"),
    (KINDS, {"tol": 0}, "tol=0"),
    (KINDS, {"max_iter": 0}, "max_iter=0"),
    (KINDS, {"time_limit": -1}, "time_limit=-1"),
    (KINDS, {"verbose": -1}, "verbose=-1"),
    (KINDS, {"warm_start": 1}, "warm_start=1"),
    (KINDS, {"n_jobs": 0}, "n_jobs"),
    ((SVC, SVR, NuSVR), {"C": 0}, "C=0"),
    ((SVC, SVR, NuSVR), {"C": np.inf}, "C=inf"),
    ((SVC, SVR, NuSVR), {"C": "a"}, "C='a'"),
    ((SVR,), {"epsilon": -0.1}, "epsilon=-0.1"),
    ((NuSVC, NuSVR, OneClassSVM), {"nu": 0.0}, "nu=0.0.*share"),
    ((NuSVC, NuSVR, OneClassSVM), {"nu": 1.5}, "nu=1.5.*share"),
    ((NuSVC, NuSVR, OneClassSVM), {"nu": np.nan}, "nu=nan"),
    ((SVC, SVR), {"intercept_scaling": 0.0}, "intercept_scaling=0.0"),
    ((SVC, SVR), {"fit_intercept": 1}, "fit_intercept=1"),
    ((SVC, NuSVC), {"decision_function_shape": "one"}, "decision_function_shape='one'.*ovr"),
    ((SVC, NuSVC), {"break_ties": 1}, "break_ties=1"),
    ((SVC, NuSVC), {"break_ties": True, "decision_function_shape": "ovo"}, "break_ties must be False"),
    ((SVC, NuSVC), {"class_weight": "even"}, "class_weight='even'"),
    ((SVC, NuSVC), {"class_weight": {7: 1.0}}, "class_weight names 7"),
    ((NuSVR, OneClassSVM, SVR, NuSVC), {"solver": "sbp"}, "choose another solver"),
]


@pytest.mark.parametrize(
    ("kind", "given", "words"), [(kind, given, words) for kinds, given, words in REFUSED for kind in kinds]
)
def test_wrong_parameters(kind, given, words):
    """The message names the parameter, the value, and what would be right."""
    X, y = target(kind)
    with deadline(5), pytest.raises((ValueError, TypeError), match=words):
        kind(**given).fit(X, y)


def test_nu_that_no_model_can_have():
    y = (np.arange(len(X2)) < 6).astype(int)
    with pytest.raises(ValueError, match=r"nu=0.5 .*0\.1.*lower nu"):
        NuSVC(nu=0.5).fit(X2, y)
    assert NuSVC(nu=0.1).fit(X2, y).converged_


@CLASSIFIERS
def test_one_class_only(kind):
    with pytest.raises(ValueError, match=r"one class, .*7"):
        kind().fit(X2, np.full(len(X2), 7))
    with pytest.raises(ValueError, match="rows of weight zero were left out, y has one class"):
        kind().fit(X2, y2, sample_weight=y2)


@EVERY
def test_wrong_rows(kind):
    X, y = target(kind)
    for bad, words in ((np.where(X > 1, np.nan, X), "NaN"), (X[0], "2D array"), (X[:0], "0 sample")):
        with pytest.raises(ValueError, match=words):
            kind().fit(bad, y[: len(bad)])
    model = kind(**options(kind)).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="not square"):
        kind(kernel="precomputed").fit(X, y)


def test_nothing_is_said_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in KINDS:
            X, y = target(kind)
            assert kind(**options(kind)).fit(X, y).converged_


# ---- by slack ----


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_slack_reaches_its_gap_and_brackets_the_margin(fit_intercept):
    """The best margin is that of the penalised optimum whose slack this is: it lies in the certified interval."""
    X, y = X2, y2
    C, gamma = 1.0, 0.1
    u = SVC(C=C, gamma=gamma, fit_intercept=fit_intercept, tol=1e-7).fit(X, y)
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    coef = np.zeros(len(y))
    coef[u.support_] = u.dual_coef_[0]
    length = np.sqrt(coef @ K @ coef)
    slack = np.maximum(0.0, 1.0 - np.where(y == u.classes_[1], 1, -1) * u.decision_function(X)).mean() / length
    clf = SlackSVC(slack=slack, gamma=gamma, fit_intercept=fit_intercept, tol=0.02, max_iter=500, random_state=0)
    clf.fit(X, y)
    assert clf.converged_
    assert clf.certificate_.relative_gap <= 0.02
    assert -clf.certificate_.primal <= (1.0 / length) * (1 + 1e-6)
    assert -clf.certificate_.dual >= (1.0 / length) * (1 - 1e-6)
    assert (clf.predict(X) == u.predict(X)).mean() > 0.97


def test_slack_with_a_holdout():
    """It ends when the held-out error stops falling, without a warning, and keeps the errors of every pair."""
    X, y = X3, y3
    clf = SlackSVC(slack=0.01, early_stopping=True, n_iter_no_change=1, tol=1e-9, random_state=0).fit(X, y)
    assert clf.status_ == "callback"
    assert len(clf.validation_errors_) == 3
    assert all(2 <= len(errors) < 200 for errors in clf.validation_errors_)
    assert clf.score(X, y) > 0.75  # as good as SVC: the classes overlap


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slack": -1.0}, "slack=-1.0"),
        ({"block": 0}, "block=0 is not a whole number"),
        ({"early_stopping": True, "validation_fraction": 2.0}, "validation_fraction=2.0"),
        ({"early_stopping": True, "kernel": "precomputed"}, "rows to hold out"),
    ],
)
def test_slack_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        SlackSVC(**options).fit(X2, y2)
