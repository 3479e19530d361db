"""Wrong input is refused with one clear error; extreme but legal data are fitted, or the warning tells the truth."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import deadline, solve
from sklearn.exceptions import ConvergenceWarning

from softmargin import Hinge, LinearSVC, LinearSVR, Problem, Stop

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), np.arange(12) % 2
BOTH = pytest.mark.parametrize("kind", [LinearSVC, LinearSVR])


def changed(value, where=(3, 1)):
    Z = X.copy()
    Z[where] = value
    return Z


def weight(value, where=2):
    w = np.ones(12)
    w[where] = value
    return w


# ---- data ----


@BOTH
@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "X contains NaN"), (np.inf, "X contains infinity"), (-np.inf, "X contains infinity")]
)
def test_values_that_are_not_finite(kind, wrap, value, words):
    with pytest.raises(ValueError, match=words):
        kind().fit(wrap(changed(value)), Y)
    fitted = kind().fit(X, Y)
    with pytest.raises(ValueError, match=words):
        fitted.predict(wrap(changed(value)))


@BOTH
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (X[:0], "0 sample"),
        (X[:, :0], r"0 feature"),
        (X[None], "dim"),
        (X[0], "2D array"),
        (X + 1j, "Complex|complex"),
        (np.full((12, 3), "a"), "could not convert|dtype|string"),
        (np.array([[object()] * 3] * 12), "argument must be|float"),
        (X[:7], "inconsistent|12|7"),
        (sp.csr_array(X[:7]), "inconsistent|12|7"),
        (sp.csr_array((12, 0)), "0 feature"),
    ],
)
def test_data_of_the_wrong_kind(kind, data, words):
    y = Y if data.shape[0] else Y[:0]
    with pytest.raises((ValueError, TypeError), match=words):
        kind().fit(data, y)


@BOTH
def test_objects_that_are_numbers_are_taken(kind):
    fitted = kind().fit(X.astype(object), Y)
    assert fitted.converged_


@BOTH
@pytest.mark.parametrize("y", [Y[:5], np.where(Y, 1.0, np.nan), None])
def test_wrong_targets(kind, y):
    with pytest.raises(ValueError, match=r"y|inconsistent"):
        kind().fit(X, y)


def test_targets_that_are_not_classes():
    with pytest.raises(ValueError, match=r"label|continuous|target"):
        LinearSVC().fit(X, RNG.normal(size=12))
    with pytest.raises(ValueError, match=r"one class, .*7"):
        LinearSVC().fit(X, np.full(12, 7))
    with pytest.raises(ValueError, match="-1 and \\+1"):
        Problem.of(X, Y)
    with pytest.raises(ValueError, match="-1 and \\+1"):
        Problem.of(X, Y + 1, loss=Hinge())


def corrupt(**parts):
    Z = sp.csr_array(X)
    for name, (place, value) in parts.items():
        getattr(Z, name)[place] = value
    return Z


@BOTH
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (corrupt(indices=(4, 3)), "column numbers outside 0 to 2"),
        (corrupt(indices=(4, -1)), "column numbers outside 0 to 2"),
        (corrupt(indices=(4, 2**31 - 1)), "column numbers outside 0 to 2"),
        (corrupt(indptr=(5, 2)), "row pointers"),
        (corrupt(indptr=(5, 10**6)), "row pointers"),
        (corrupt(indptr=(5, -10)), "row pointers"),
        (corrupt(indptr=(0, 1)), "row pointers"),
    ],
)
def test_corrupt_sparse_matrices(kind, data, words):
    with pytest.raises(ValueError, match=words):
        kind().fit(data, Y)
    with pytest.raises(ValueError, match=words):
        Problem.of(data, 2 * Y - 1)


def test_corrupt_sparse_matrices_in_prediction():
    fitted = LinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="column numbers"):
        fitted.predict(corrupt(indices=(4, 77)))


def test_prediction_needs_the_same_features_and_a_fit():
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        LinearSVC().fit(X, Y).predict(X[:, :2])
    with pytest.raises(Exception, match="not fitted yet"):
        LinearSVC().predict(X)


# ---- weights ----


@BOTH
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (weight(-1.0), r"sample_weight\[2\]=-1.0 is negative"),
        (np.zeros(12), "sample_weight is zero for every row|Sample weights must contain at least one non-zero"),
        (weight(np.nan), "sample_weight|NaN"),
        (weight(np.inf), "sample_weight|infinity"),
        (np.ones(5), "sample_weight"),
        (np.ones((12, 2)), "[Ss]ample.weight"),
        ("abc", "could not convert|sample_weight"),
    ],
)
def test_wrong_weights(kind, weights, words):
    with pytest.raises(ValueError, match=words):
        kind().fit(X, Y, sample_weight=weights)


def test_weights_that_leave_one_class():
    with pytest.raises(ValueError, match=r"rows of weight zero were left out, y has one class, .*1"):
        LinearSVC().fit(X, Y, sample_weight=Y)
    with pytest.raises(ValueError, match=r"one class, .*1"):
        LinearSVC(class_weight={0: 0.0}).fit(X, Y)


def test_zero_weights_in_a_problem():
    whole = Problem.of(X[3:], 2 * Y[3:] - 1)
    part = Problem.of(X, 2 * Y - 1, sample_weight=weight(0.0, slice(0, 3)))
    assert part.n == len(part.c) == 9
    assert solve(part, stop=Stop(1e-6)).certificate.primal == pytest.approx(
        solve(whole, stop=Stop(1e-6)).certificate.primal, rel=2e-6
    )
    odd = Problem.of(X, 2 * Y - 1, sample_weight=np.where(np.arange(12) < 2, 0.0, np.arange(12)))
    assert odd.c.tolist() == list(range(2, 12))


def test_a_class_whose_rows_all_weigh_nothing():
    """It is absent, as its rows are."""
    y = np.arange(12) % 4
    clf = LinearSVC(random_state=0).fit(X, y, sample_weight=np.where(y == 2, 0.0, 1.0))
    absent = LinearSVC(random_state=0).fit(X[y != 2], y[y != 2])
    assert clf.classes_.tolist() == absent.classes_.tolist() == [0, 1, 3]
    np.testing.assert_array_equal(clf.coef_, absent.coef_)


# ---- parameters ----


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [("C", value) for value in (0, -1.0, np.nan, np.inf, "a", None, True, [1.0])]
    + [("tol", value) for value in (0, -1e-3, np.nan, "a", None)]
    + [("max_iter", value) for value in (0, -5, "a", np.nan)]
    + [("time_limit", value) for value in (0, -1.0, "a", np.nan)]
    + [("intercept_scaling", value) for value in (0, -1.0, "a", np.inf, 1e-200, 1e160)]
    + [
        ("fit_intercept", "yes"),
        ("fit_intercept", 1),
        ("warm_start", "no"),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
        ("n_jobs", "two"),
    ]
    + [("random_state", "a"), ("solver", "fast"), ("solver", None)],
)
def test_wrong_parameters(kind, name, value):
    with pytest.raises((ValueError, TypeError), match="seed" if name == "random_state" else name):
        kind(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("verbose", ["loud", -1])
def test_wrong_verbose(verbose):
    """Nothing is accepted and ignored."""
    with pytest.raises(ValueError, match="verbose"):
        LinearSVC(verbose=verbose).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "huber"}, "loss='huber'.*hinge"),
        ({"loss": None}, "loss=None"),
        ({"loss": ["hinge"]}, "loss="),
        ({"class_weight": "even"}, "class_weight='even'"),
        ({"class_weight": {7: 1.0}}, "class_weight names 7"),
        ({"class_weight": {0: -1.0}}, "class_weight"),
        ({"class_weight": {0: np.nan}}, "class_weight"),
        ({"class_weight": [1.0, 2.0]}, "class_weight"),
    ],
)
def test_wrong_parameters_of_the_classifier(options, words):
    with pytest.raises(ValueError, match=words):
        LinearSVC(**options).fit(X, Y)


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, np.inf, "a", None])
def test_wrong_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        LinearSVR(epsilon=epsilon).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"C": 0.0}, "C="),
        ({"bias": "loose"}, "bias"),
        ({"bias_scale": 0.0}, "bias_scale"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_wrong_problems(options, words):
    with pytest.raises(ValueError, match=words):
        solve(Problem.of(X, 2 * Y - 1, **options))


@pytest.mark.parametrize("lam", [0.0, -1.0, np.nan])
def test_wrong_lambda(lam):
    with pytest.raises(ValueError, match=r"lam|C="):
        Problem.from_lambda(X, 2 * Y - 1, lam=lam)


def test_lambda():
    p = Problem.from_lambda(X, 2 * Y - 1, lam=0.1)
    np.testing.assert_allclose(p.c, 1 / (0.1 * 12))


# ---- extreme but legal data: converged, or a warning that tells the truth ----


def truthful(model, X, y, **fit):
    """Fit within a time limit; converged, or a ConvergenceWarning that names the gap. No other warning."""
    model.set_params(random_state=0)
    with deadline(3), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **fit)
    assert [w.category for w in caught if w.category is not ConvergenceWarning] == []
    assert len(caught) == (0 if model.converged_ else 1)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert len(model.history_) <= 15 + 3 * np.log(1 + model.n_iter_), "certificates must stay rare"
    if not model.converged_:
        gap = model.certificate_.relative_gap
        assert (f"{gap:.1e}" if np.isfinite(gap) else "not known yet") in str(caught[0].message)
    else:
        assert model.certificate_.relative_gap <= model.tol
    assert np.isfinite(model.predict(X)).all()
    return model


def value_of(model, X, y):
    """The objective of a binary hinge classifier, by its definition."""
    slack = np.maximum(0, 1 - np.where(y == model.classes_[1], 1, -1) * model.decision_function(X))
    return 0.5 * model.coef_.ravel() @ model.coef_.ravel() + model.C * slack.sum()


def big(n=40, d=4, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


Xb, yb = big()
EXTREMES = {
    "all zero": (np.zeros((6, 2)), np.arange(6) % 2),
    "all zero, unbalanced": (np.zeros((6, 2)), np.array([0, 0, 0, 0, 1, 1])),
    "all zero, sparse": (sp.csr_array((6, 2)), np.arange(6) % 2),
    "empty rows": (np.where(np.arange(40)[:, None] % 3 == 0, 0.0, Xb), yb),
    "duplicates that disagree": (np.repeat(Xb, 2, 0), np.arange(80) % 2),
    "constant features": (np.column_stack([Xb, np.full(40, 7.0)]), yb),
    "only a constant": (np.full((10, 1), 3.0), np.arange(10) % 2),
    "one of each": (np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0, 1])),
    "two alike": (np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([0, 1])),
    "separable": (np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 1, 1])),
    "one feature": (Xb[:, :1], yb),
    "one against many": (Xb, (np.arange(40) == 3).astype(int)),
}


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_descent"])
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_data(name, solver):
    X, y = EXTREMES[name]
    model = truthful(LinearSVC(solver=solver), X, y)
    assert model.converged_
    assert model.certificate_.primal == pytest.approx(value_of(model, X, y), rel=1e-9)
    for loss in ("squared_hinge", "logistic"):
        slow = solver == "dual_descent" and name == "constant features"  # its bias has to follow the feature
        assert truthful(LinearSVC(solver=solver, loss=loss), X, y).converged_ or slow


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_descent"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("C", [1e8, 1e-8])
def test_extreme_C(C, loss, solver):
    model = truthful(LinearSVC(C=C, loss=loss, solver=solver, max_iter=300), Xb, yb)
    assert C > 1 or solver == "dual_descent" or model.converged_  # whose free bias moves in steps that C makes small
    if loss == "hinge":
        assert model.certificate_.primal == pytest.approx(value_of(model, Xb, yb), rel=1e-9)


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_descent"])
@pytest.mark.parametrize("size", [1e30, 1e12, 1e-12, 1e-30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extreme_sizes(size, dtype, solver):
    X = (size * Xb).astype(dtype)
    model = truthful(LinearSVC(solver=solver, max_iter=200), X, yb)
    assert size > 1 or model.converged_, "tiny features: the best weights are near zero, which is easy"
    truthful(LinearSVC(solver=solver, max_iter=200, loss="logistic", fit_intercept=False), X, yb)


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_descent"])
def test_features_of_very_different_sizes(solver):
    truthful(LinearSVC(solver=solver, max_iter=200), Xb * [1e-30, 1.0, 1e10, 1e-10], yb)


@pytest.mark.parametrize("weights", [1e-12, 1e12])
def test_extreme_weights(weights):
    truthful(LinearSVC(max_iter=300), Xb, yb, sample_weight=np.where(np.arange(40) < 5, weights, 1.0))


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_descent"])
@pytest.mark.parametrize(
    ("y", "epsilon"),
    [
        (np.full(40, 5.0), 0.0),
        (np.full(40, 5.0), 0.1),
        (np.zeros(40), 0.0),
        (Xb @ np.ones(4), 0.0),
        (Xb @ np.ones(4), 100.0),
        (1e9 * (1 + yb), 0.0),
        (1e12 * yb, 0.1),
        (1e-12 * yb, 0.0),
        (1e30 * yb, 0.0),
    ],
    ids=["constant", "constant in the tube", "zero", "linear", "all in the tube", "1e9", "1e12", "1e-12", "1e30"],
)
def test_extreme_targets(y, epsilon, solver):
    model = truthful(LinearSVR(epsilon=epsilon, solver=solver, max_iter=300), Xb, y)
    if np.ptp(y) == 0 or epsilon == 100:
        assert model.converged_, "the best objective is zero, and a constant has it"
        assert model.certificate_.primal <= 1e-6 * max(1.0, np.abs(y).max())


def test_one_row_of_regression():
    assert truthful(LinearSVR(), np.array([[1.0, 2.0]]), np.array([3.0])).predict([[1.0, 2.0]]) == pytest.approx(
        3.0, abs=1e-6
    )


@pytest.mark.parametrize("solver", ["auto", "newton", "dual_descent"])
def test_numbers_near_the_end_of_float64(solver):
    """Their squares are infinite: an error that says so, or a truthful end."""
    try:
        truthful(LinearSVC(solver=solver, max_iter=50), 1e200 * Xb, yb)
    except (ValueError, ArithmeticError) as error:
        assert "scale" in str(error)
