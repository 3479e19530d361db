"""Tests of `softmargin.persist` for kernel models."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification, make_regression

from softmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SlackSVC, archive, kernels, load, save

FACTS = (
    "certificate_",
    "dual_gap_",
    "converged_",
    "status_",
    "history_",
    "fit_status_",
    "shape_fit_",
    "n_features_in_",
)
ARRAYS = ("support_", "dual_coef_", "n_support_", "intercept_")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.model"


def labelled(labels=(0, 1), n=120):
    X, y = make_classification(n, 6, n_informative=5, n_redundant=0, n_classes=len(labels), random_state=0)
    return X, np.array(labels)[y]


def numbers():
    X, y = make_regression(80, 5, noise=3.0, random_state=0)
    return X, y / 50.0


def exactly_the_same(loaded, model, X):
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.predict(X), model.predict(X))
    if hasattr(model, "decision_function"):
        assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    for name in FACTS:
        assert getattr(loaded, name) == getattr(model, name), name
    for name in (*ARRAYS, "n_iter_", "class_weight_", "classes_", "epsilon_", "offset_", "validation_errors_"):
        if hasattr(model, name):
            assert np.array_equal(getattr(loaded, name), getattr(model, name)), name
            assert np.asarray(getattr(loaded, name)).dtype == np.asarray(getattr(model, name)).dtype, name
    assert loaded.support_vectors_.dtype == model.support_vectors_.dtype
    assert sp.issparse(loaded.support_vectors_) == sp.issparse(model.support_vectors_)
    assert abs(loaded.support_vectors_ - model.support_vectors_).sum() == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # sigmoid: nothing can be proven
@pytest.mark.parametrize(
    "model",
    [
        SVC(C=np.float64(2.0), class_weight={0: 2.0, 1: 1.0}),
        SVC(kernel="linear", gamma="auto", intercept_scaling=2.0),
        SVC(kernel="poly", degree=2, coef0=np.float64(0.3), break_ties=False),
        SVC(kernel="sigmoid", gamma=0.01, coef0=np.float32(0.1)),
        SVC(kernel="laplacian", gamma=0.1, fit_intercept=False),
        SVC(kernel=kernels.Polynomial(np.float64(0.3), 2, 1.0)),
        SVC(kernel=kernels.RBF(0.2), solver="smo"),
        NuSVC(nu=0.3, class_weight="balanced"),
        SlackSVC(slack=0.1, random_state=0, early_stopping=True),
    ],
)
@pytest.mark.parametrize("labels", [(0, 1), (0, 1, 2)])
def test_keeps_classifiers(path, model, labels):
    X, y = labelled(labels)
    if isinstance(model.get_params().get("class_weight"), dict):
        model.set_params(class_weight={label: label + 1.0 for label in labels})
    clf = model.fit(X, y)
    save(clf, path)
    exactly_the_same(load(path), clf, X)


@pytest.mark.parametrize(
    "model",
    [SVR(C=3.0, epsilon=0.2), SVR(kernel="linear", intercept_scaling=1.0), NuSVR(nu=0.3), OneClassSVM(nu=0.2)],
)
def test_keeps_regressions_and_outlier_detectors(path, model):
    X, y = numbers()
    reg = model.fit(X, y)
    save(reg, path)
    exactly_the_same(load(path), reg, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keeps_sparse_support_vectors(path, dtype):
    X, y = labelled((0, 1, 2))
    X = sp.csr_array(np.where(abs(X) > 0.5, X, 0.0).astype(dtype))
    for kernel in ("rbf", "linear"):
        clf = SVC(kernel=kernel).fit(X, y)
        save(clf, path)
        exactly_the_same(load(path), clf, X)
        assert load(path).support_vectors_.dtype == dtype
    assert (load(path).coef_ != clf.coef_).nnz == 0


def test_keeps_text_labels_and_the_names_of_features(path):
    pd = pytest.importorskip("pandas")
    X, y = labelled(("no", "yes"))
    frame = pd.DataFrame(X, columns=list("abcdef"))
    clf = SVC().fit(frame, y)
    save(clf, path)
    assert load(path).predict(frame).tolist() == clf.predict(frame).tolist()
    with pytest.raises(ValueError, match="feature names"):
        load(path).predict(frame.rename(columns={"a": "z"}))


def test_keeps_precomputed_kernels(path):
    X, y = labelled()
    K = X @ X.T
    clf = SVC(kernel="precomputed").fit(K, y)
    save(clf, path)
    exactly_the_same(load(path), clf, K)


def test_weighted_rows_and_training_again(path):
    X, y = labelled()
    weight = np.arange(len(y)) % 3.0
    clf = SVC().fit(X, y, sample_weight=weight)
    save(clf, path)
    exactly_the_same(load(path), clf, X)
    assert np.array_equal(load(path).fit(X, y, sample_weight=weight).dual_coef_, clf.dual_coef_)


class Mine(kernels.RBF):
    """A kernel of a user."""


@pytest.mark.parametrize("kernel", [lambda X, Z: X @ Z.T, kernels.Callable(lambda X, Z: X @ Z.T), Mine(0.1)])
def test_refuses_code(path, kernel):
    clf = SVC(kernel=kernel).fit(*labelled())
    with pytest.raises(ValueError, match=r"cannot be saved, for a file holds no code: fit with .*RBF"):
        save(clf, path)
    assert not path.exists()


def without(name, things):
    return {other: thing for other, thing in things.items() if other != name}


WRONG = {
    "no coefficients": lambda about, arrays: (about, without("dual_coef_", arrays)),
    "not finite": lambda about, arrays: (about, arrays | {"dual_coef_": arrays["dual_coef_"] * np.nan}),
    "vectors not finite": lambda about, arrays: (about, arrays | {"vectors": arrays["vectors"] * np.nan}),
    "fewer vectors": lambda about, arrays: (about, arrays | {"vectors": arrays["vectors"][1:]}),
    "narrower vectors": lambda about, arrays: (about, arrays | {"vectors": arrays["vectors"][:, 1:]}),
    "fewer labels": lambda about, arrays: (about, arrays | {"classes": arrays["classes"][1:]}),
    "counts": lambda about, arrays: (about, arrays | {"n_support_": arrays["n_support_"] + 1}),
    "fewer intercepts": lambda about, arrays: (about, arrays | {"intercept": arrays["intercept"][1:]}),
    "more coefficients": lambda about, arrays: (about, arrays | {"dual_coef_": np.tile(arrays["dual_coef_"], (2, 1))}),
    "kernel": lambda about, arrays: (
        about | {"parameters": about["parameters"] | {"kernel": {"kernel": "what", "fields": {}}}},
        arrays,
    ),
    "gamma": lambda about, arrays: (about | {"kernel": about["kernel"] | {"_gamma": "x"}}, arrays),
    "no gamma": lambda about, arrays: (about | {"kernel": {}}, arrays),
    "no kernel": lambda about, arrays: (without("kernel", about), arrays),
    "class": lambda about, arrays: (about | {"class": "LinearSVC"}, arrays),
}


@pytest.mark.parametrize("name", WRONG)
def test_refuses_parts_that_do_not_fit(path, name):
    save(SVC().fit(*labelled((0, 1, 2))), path)
    archive.write(path, "model", 1, *WRONG[name](*archive.read(path, "model", 1)))
    with pytest.raises(ValueError, match="do not fit together"):
        load(path)


def test_refuses_sparse_and_precomputed_parts_that_do_not_fit(path):
    X, y = labelled()
    save(SVC().fit(sp.csr_array(X), y), path)
    about, arrays = archive.read(path, "model", 1)
    for wrong in ({"columns": arrays["columns"] + 6}, {"starts": arrays["starts"][1:]}, {"entries": np.zeros(3)}):
        archive.write(path, "model", 1, about, arrays | wrong)
        with pytest.raises(ValueError, match="do not fit together"):
            load(path)
    save(SVC(kernel="precomputed").fit(X @ X.T, y), path)
    about, arrays = archive.read(path, "model", 1)
    for wrong in ({"support_": arrays["support_"] + 120}, {"support_": arrays["support_"][1:]}):
        archive.write(path, "model", 1, about, arrays | wrong)
        with pytest.raises(ValueError, match="do not fit together"):
            load(path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # NumPy leaves broken files open
def test_refuses_truncated_files(path):
    save(SVC().fit(*labelled()), path)
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1, len(whole) // 20):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="softmargin model"):
            load(path)
