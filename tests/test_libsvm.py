"""Tests of `softmargin.libsvm`."""

import ctypes

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification, make_regression

from softmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SlackSVC, kernels, load, load_libsvm, save, save_libsvm
from softmargin.liblinear import save_liblinear

KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.2, "degree": 2, "coef0": 1.0},
    "rbf": {"gamma": 0.1},
    "sigmoid": {"gamma": 0.02, "coef0": -0.5},
}
OPTIONS = {"linear": "-t 0", "poly": "-t 1 -g 0.2 -d 2 -r 1", "rbf": "-t 2 -g 0.1", "sigmoid": "-t 3 -g 0.02 -r -0.5"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.model"


@pytest.fixture
def libsvm():
    return pytest.importorskip("libsvm.svmutil")


def labelled(labels, n=120):
    X, y = make_classification(n, 6, n_informative=5, n_redundant=0, n_classes=len(labels), random_state=0)
    return X, np.array(labels)[y]


def numbers():
    X, y = make_regression(80, 5, noise=3.0, random_state=0)
    return X, y / 50.0


def theirs(libsvm, model, rows):
    """The labels and values of LIBSVM's own prediction.

    Its Python function `svm_predict` has room for one value only with nu_svc, and writes beyond it with three classes.
    """
    values = (ctypes.c_double * (model.get_nr_class() * (model.get_nr_class() - 1) // 2))()
    labels, scores = [], []
    for row in rows if isinstance(rows, list) else rows_of(rows):
        nodes, _ = libsvm.gen_svm_nodearray(row, isKernel=0 in row)
        labels.append(libsvm.libsvm.svm_predict_values(model, nodes, values))
        scores.append(list(values))
    return np.array(labels), np.array(scores)


def rows_of(X):
    return [dict(enumerate(row, 1)) for row in X.tolist()]


def serials(X):
    return [{0: k} | row for k, row in enumerate(rows_of(X), 1)]


def same(loaded, model, X):
    score = getattr(model, "decision_function", model.predict)
    assert np.array_equal(getattr(loaded, score.__name__)(X), score(X))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.dual_coef_, model.dual_coef_)
    assert np.array_equal(loaded.intercept_, model.intercept_)
    assert np.array_equal(loaded.n_support_, model.n_support_)
    assert not hasattr(loaded, "certificate_")


# what we wrote


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # sigmoid: nothing can be proven
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("labels", [(-1, 1), (7, 3), (7, -2, 3), (4, 1, 3, 2)])
def test_libsvm_predicts_the_same_labels(path, libsvm, kernel, labels):
    X, y = labelled(labels)
    clf = SVC(kernel=kernel, decision_function_shape="ovo", **KERNELS[kernel]).fit(X, y)
    save_libsvm(clf, path)
    predicted, values = theirs(libsvm, libsvm.svm_load_model(str(path)), X)
    assert np.array_equal(predicted, clf.predict(X))
    scores = clf.decision_function(X)
    assert values == pytest.approx(scores.reshape(len(X), -1), abs=1e-4)  # single precision
    loaded = load(path)
    assert loaded.set_params(decision_function_shape="ovo").kernel == kernel
    same(loaded, clf, X)
    assert loaded.classes_.tolist() == sorted(labels)


@pytest.mark.parametrize(
    "model", [SVC(gamma=0.1), NuSVC(gamma=0.1, nu=0.4), SlackSVC(gamma=0.1, slack=0.1, random_state=0)]
)
@pytest.mark.parametrize("labels", [(0, 1), (2, 0, 1)])
def test_libsvm_gives_the_same_values_for_classifiers(path, libsvm, model, labels):
    X, y = labelled(labels)
    clf = model.set_params(decision_function_shape="ovo").fit(X, y)
    save_libsvm(clf, path)
    predicted, values = theirs(libsvm, libsvm.svm_load_model(str(path)), X)
    assert np.array_equal(predicted, clf.predict(X))
    assert values == pytest.approx(clf.decision_function(X).reshape(len(X), -1), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("model", [SVR(gamma=0.1), NuSVR(gamma=0.1), SVR(kernel="linear", intercept_scaling=2.0)])
def test_libsvm_gives_the_same_values_for_regressions(path, libsvm, model):
    X, y = numbers()
    reg = model.fit(X, y)
    save_libsvm(reg, path)
    assert theirs(libsvm, libsvm.svm_load_model(str(path)), X)[0] == pytest.approx(reg.predict(X), rel=1e-6, abs=1e-6)
    same(load(path), reg, X)


def test_libsvm_finds_the_same_outliers(path, libsvm):
    X, _ = numbers()
    clf = OneClassSVM(nu=0.2, gamma=0.1).fit(X)
    save_libsvm(clf, path)
    predicted, values = theirs(libsvm, libsvm.svm_load_model(str(path)), X)
    assert np.array_equal(predicted, clf.predict(X))
    assert values[:, 0] == pytest.approx(clf.decision_function(X), rel=1e-6, abs=1e-6)
    loaded = load(path)
    same(loaded, clf, X)
    assert loaded.offset_ == clf.offset_


@pytest.mark.parametrize("labels", [(-1, 1), (2, 0, 1)])
def test_libsvm_predicts_the_same_from_precomputed_values(path, libsvm, labels):
    X, y = labelled(labels)
    K = X @ X.T
    clf = SVC(kernel="precomputed", decision_function_shape="ovo").fit(K[:90, :90], y[:90])
    save_libsvm(clf, path)
    predicted, values = theirs(libsvm, libsvm.svm_load_model(str(path)), serials(K[:, :90]))
    assert np.array_equal(predicted, clf.predict(K[:, :90]))
    assert values == pytest.approx(clf.decision_function(K[:, :90]).reshape(120, -1), rel=1e-6, abs=1e-6)
    loaded = load_libsvm(path, n_features=90).set_params(decision_function_shape="ovo")
    same(loaded, clf, K[:, :90])
    assert np.array_equal(loaded.support_, clf.support_)
    assert load(path).n_features_in_ == clf.support_.max() + 1


def test_float32_and_sparse_rows_are_kept_to_the_last_digit(path):
    X, y = labelled((0, 1, 2))
    X = sp.csr_array(np.where(abs(X) > 0.5, X, 0.0).astype(np.float32))
    clf = SVC(gamma=0.1).fit(X, y)
    save_libsvm(clf, path)
    loaded = load(path)
    same(loaded, clf, X)
    assert (loaded.support_vectors_ != clf.support_vectors_).nnz == 0


def test_kernel_objects_are_written_by_what_they_are(path):
    X, y = labelled((0, 1))
    clf = SVC(kernel=kernels.Polynomial(0.5, 2, 1.0)).fit(X, y)
    save_libsvm(clf, path)
    assert "kernel_type polynomial\ndegree 2\ngamma 0.5\ncoef0 1.0\n" in path.read_text()
    same(load(path), clf, X)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"kernel": "laplacian"}, "kernel='laplacian' is not one that LIBSVM has: fit with one of linear"),
        ({"kernel": lambda X, Z: X @ Z.T}, "is not one that LIBSVM has"),
        ({"kernel": "poly", "degree": 2.5, "coef0": 20.0, "gamma": 0.1}, "degree=2.5: LIBSVM's are whole numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # nothing is proven with degree 2.5
def test_refuses_kernels_that_libsvm_has_not(path, params, said):
    clf = SVC(**params).fit(*labelled((0, 1)))
    with pytest.raises(ValueError, match=said):
        save_libsvm(clf, path)
    assert not path.exists()


def test_refuses_labels_and_models_that_libsvm_has_not(path):
    for labels in (("no", "yes"), (False, True), (0, 2**40)):
        X, y = labelled(labels)
        with pytest.raises(ValueError, match="LIBSVM's labels are integers of 32 bits"):
            save_libsvm(SVC().fit(X, y), path)
    from softmargin import LinearSVC

    with pytest.raises(ValueError, match=r"model=LinearSVC.*pass one of SVC, NuSVC"):
        save_libsvm(LinearSVC().fit(X, y), path)
    with pytest.raises(ValueError, match=r"model=SVC.*pass one of LinearSVC"):
        save_liblinear(SVC().fit(X, y), path)
    assert not path.exists()


# what LIBSVM wrote


@pytest.mark.parametrize(
    ("machine", "kernel"), [(0, "linear"), (0, "poly"), (0, "rbf"), (0, "sigmoid"), (1, "poly"), (1, "rbf")]
)
@pytest.mark.parametrize("labels", [(-1, 1), (1, -1), (5, 3, 9), (9, 1, 5, 3)])
def test_loads_what_libsvm_trained(path, libsvm, kernel, machine, labels):
    X, y = labelled(labels)
    order = np.argsort(y == labels[-1], kind="stable")[::-1]  # LIBSVM numbers classes as they come
    X, y = X[order], y[order]
    trained = libsvm.svm_train(y, rows_of(X), f"-s {machine} -n 0.3 {OPTIONS[kernel]} -q")
    libsvm.svm_save_model(str(path), trained)
    predicted, values = theirs(libsvm, libsvm.svm_load_model(str(path)), X)
    model = load(path)
    assert type(model) is (SVC, NuSVC)[machine]
    assert np.array_equal(model.predict(X), predicted)
    scores = model.set_params(decision_function_shape="ovo").decision_function(X).reshape(len(X), -1)
    sign = -1 if len(labels) == 2 and model.classes_.tolist() == trained.get_labels() else 1
    assert scores == pytest.approx(sign * values, abs=1e-4)
    assert np.array_equal(np.sort(model.classes_), np.unique(y))


@pytest.mark.parametrize(("machine", "kind"), [(2, OneClassSVM), (3, SVR), (4, NuSVR)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_loads_the_other_machines_of_libsvm(path, libsvm, machine, kind, kernel):
    X, y = numbers()
    trained = libsvm.svm_train(y, rows_of(X), f"-s {machine} -n 0.3 {OPTIONS[kernel]} -q")
    libsvm.svm_save_model(str(path), trained)
    predicted, values = theirs(libsvm, libsvm.svm_load_model(str(path)), X)
    model = load(path)
    assert type(model) is kind
    assert model.predict(X) == pytest.approx(predicted, rel=1e-5, abs=1e-5)
    if kind is OneClassSVM:
        assert model.decision_function(X) == pytest.approx(values[:, 0], rel=1e-5, abs=1e-5)


def test_loads_precomputed_and_reads_over_probabilities(path, libsvm):
    X, y = labelled((3, 1, 2))
    K = X @ X.T
    problem = libsvm.svm_problem(y, serials(K), isKernel=True)
    trained = libsvm.svm_train(problem, libsvm.svm_parameter("-t 4 -b 1 -q"))
    libsvm.svm_save_model(str(path), trained)
    assert "probA" in path.read_text()
    predicted, _ = theirs(libsvm, trained, serials(K))
    model = load_libsvm(path, n_features=len(y))
    assert np.array_equal(model.predict(K), predicted)
    with pytest.raises(ValueError, match=r"n_features=3, but .*a\.model needs \d+: pass n_features="):
        load_libsvm(path, n_features=3)


def test_rows_may_have_more_features_than_the_support_vectors(path):
    path.write_text("\n".join(GOOD) + "\n")
    with pytest.raises(ValueError, match="5 features"):
        load(path).predict(np.ones((1, 5)))
    scores = load_libsvm(path, n_features=5).decision_function(np.ones((1, 5)))
    assert scores == pytest.approx([0.25 - np.exp(-2.25 / 2) + 2 * np.exp(-5 / 2) - np.exp(-11 / 2)], rel=1e-6)


def test_a_model_from_libsvm_can_be_saved(path):
    path.write_text("\n".join(GOOD) + "\n")
    model = load(path)
    save(model, path)
    X = np.arange(6.0).reshape(2, 3)
    same(load(path), model, X)


GOOD = [
    "svm_type c_svc",
    "kernel_type rbf",
    "gamma 0.5",
    "nr_class 2",
    "total_sv 3",
    "rho 0.25",
    "label 1 2",
    "nr_sv 2 1",
    "SV",
    "1 1:1 2:0.5 3:1 ",
    "-2 ",
    "1 1:-1 3:3 ",
]


@pytest.mark.parametrize(
    ("line", "text", "at", "problem"),
    [
        (1, "svm_type what", 1, "svm_type what is not one of c_svc"),
        (2, "kernel_type what", 2, "kernel_type what is not one of linear"),
        (2, "kernel_type polynomial", 9, "has no degree"),
        (3, None, 8, "has no gamma"),
        (3, "gamma -1", 9, r"gamma=-1\.0 is not"),
        (3, "gamma x", 3, "could not convert"),
        (3, "gamma 1 2", 3, "2 values where 1"),
        (4, "nr_class 3", 9, "rho has not the 3 finite values"),
        (4, "nr_class 1", 9, "nr_class is 1"),
        (4, "nr_class two", 4, "invalid literal"),
        (5, "total_sv 4", 9, "nr_sv is"),
        (6, "rho nan", 9, "rho has not the 1 finite"),
        (6, "rho", 9, "rho has not the 1 finite"),
        (6, "gamma 1", 6, "'gamma' is not expected"),
        (6, "what 1", 6, "'what' is not expected"),
        (7, "label 1 1", 9, "the labels are"),
        (7, f"label 1 {2**31}", 9, "not so many of 32 bits"),
        (7, None, 8, "has no label"),
        (8, "nr_sv 4 -1", 9, "nr_sv is"),
        (8, "nr_sv 3", 9, "nr_sv is"),
        (8, None, 8, "has no nr_sv"),
        (9, None, 9, "'1' is not expected"),
        (10, "nan 1:1", 10, "does not begin with 1 finite"),
        (10, "1:1", 10, "does not begin with 1 finite"),
        (10, "x 1:1", 10, "could not convert"),
        (10, "1 2 1:1", 10, "'2' is not a feature: expected index:value"),
        (10, "1 1:1 # 2:1", 10, "'#' is not expected"),
        (11, "-2 0:1", 11, "index"),
        (11, "-2 1:x", 11, "x"),
        (12, None, 11, "there are 2 support vectors where total_sv is 3"),
    ],
)
def test_names_the_line_that_is_wrong(path, line, text, at, problem):
    lines = list(GOOD)
    lines[line - 1 : line] = [] if text is None else [text]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=rf"a\.model, line {at}: .*{problem}"):
        load(path)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("svm_type c_svc", "svm_type epsilon_svr", "epsilon_svr has neither label nor nr_sv"),
        ("kernel_type rbf", "kernel_type precomputed", "serial numbers"),
        ("SV\n", "", "line 8|not expected"),
    ],
)
def test_refuses_parts_that_do_not_fit(path, old, new, said):
    path.write_text(("\n".join(GOOD) + "\n").replace(old, new))
    with pytest.raises(ValueError, match=said):
        load(path)


def test_refuses_a_header_alone_and_binary_text(path):
    path.write_text("svm_type c_svc\nkernel_type rbf\n")
    with pytest.raises(ValueError, match="there is no line SV"):
        load(path)
    path.write_bytes(b"svm_type \xff\x00\n" * 9)
    with pytest.raises(ValueError, match="line 1"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load_libsvm(path.with_name("nowhere"))


def test_a_model_without_support_vectors(path):
    X, y = numbers()
    reg = SVR(epsilon=100.0).fit(X, y)
    assert reg.dual_coef_.shape == (1, 0)
    save_libsvm(reg, path)
    loaded = load_libsvm(path, n_features=5)
    same(loaded, reg, X)
