"""Tests of `softmargin.persist`."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from softmargin import DualDescent, LinearSVC, LinearSVR, archive, load, save
from softmargin.liblinear import load_liblinear, save_liblinear

FACTS = ("certificate_", "dual_gap_", "converged_", "n_iter_", "history_", "n_features_in_")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.model"


def two(labels=(-1, 1), n=120):
    X, y = make_classification(n, 8, random_state=0)
    return X, np.array(labels)[y]


def three():
    X, y = make_classification(150, 8, n_informative=5, n_classes=3, random_state=0)
    return X, np.array([7, -2, 3])[y]


def numbers():
    return make_regression(100, 5, noise=3.0, random_state=0)


# softmargin's own format


@pytest.mark.parametrize(
    "labels",
    [(-1, 1), (0.0, 2.0), (False, True), ("no", "yes"), np.array(["é", "z"], object), (np.uint8(1), np.uint8(200))],
)
def test_loads_what_was_saved(path, labels):
    X, y = two(labels)
    clf = LinearSVC(C=0.5).fit(X, y)
    save(clf, path)
    loaded = load(path)
    assert np.array_equal(loaded.decision_function(X), clf.decision_function(X))
    assert np.array_equal(loaded.predict(X), clf.predict(X))
    assert loaded.classes_.tolist() == clf.classes_.tolist()
    assert loaded.get_params() == clf.get_params()
    for name in FACTS:
        assert getattr(loaded, name) == getattr(clf, name)
    assert loaded.history_.time_to(1e-3) == clf.history_.time_to(1e-3)


def test_keeps_several_classes_and_float32_rows(path):
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    clf = LinearSVC(C=0.01).fit(X, y)
    save(clf, path)
    loaded = load(str(path))
    assert np.array_equal(loaded.decision_function(X), clf.decision_function(X))
    assert loaded.certificate_ == clf.certificate_
    assert loaded.history_ == clf.history_
    assert [type(history) for history in loaded.history_] == [type(history) for history in clf.history_]


def test_keeps_a_regression_and_the_names_of_its_features(path):
    pd = pytest.importorskip("pandas")
    X, y = numbers()
    frame = pd.DataFrame(X, columns=list("abcde"))
    reg = LinearSVR(epsilon=0.1, intercept_scaling=2.0).fit(frame, y)
    save(reg, path)
    loaded = load(path)
    assert np.array_equal(loaded.predict(frame), reg.predict(frame))
    assert loaded.feature_names_in_.tolist() == list("abcde")
    assert loaded.coef_.shape == reg.coef_.shape
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


def test_keeps_parameters_of_all_kinds(path):
    X, y = two()
    params = {
        "C": np.float64(0.3),
        "solver": DualDescent(seed=5),
        "class_weight": {np.int64(1): np.float32(2.0), -1: 1},
        "random_state": np.int64(4),
        "time_limit": np.inf,
    }
    save(LinearSVC(**params).fit(X, y), path)
    assert load(path).get_params() == LinearSVC(**params).get_params()
    assert load(path).fit(X, y).converged_


def test_drops_what_belongs_to_one_run(path, tmp_path):
    X, y = two()
    params = {
        "callbacks": [lambda record, iterate: None],
        "checkpoint": tmp_path / "c",
        "random_state": np.random.RandomState(0),
    }
    save(LinearSVC(**params).fit(X, y), path)
    assert [load(path).get_params()[name] for name in params] == [None, None, None]


def test_refuses_what_it_cannot_keep(path):
    X, y = two()
    with pytest.raises(NotFittedError):
        save(LinearSVC(), path)
    with pytest.raises(ValueError, match=r"LogisticRegression.*pass one of LinearSVC"):
        save(LogisticRegression().fit(X, y), path)
    odd = LinearSVC().fit(X, y)
    odd.classes_ = np.array([None, 1], object)
    with pytest.raises(ValueError, match="only numbers, booleans and texts"):
        save(odd, path)
    with pytest.raises(ValueError, match=r"solver=.*cannot be saved"):
        save(LinearSVC().fit(X, y).set_params(solver=object()), path)
    with pytest.raises(OSError, match="cannot be written"):
        save(LinearSVC().fit(X, y), path / "nowhere" / "a.model")
    assert not path.exists()


class Attack:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("the pickle was loaded",)


def object_array():
    stream = io.BytesIO()
    np.save(stream, np.array([Attack()], object), allow_pickle=True)
    return stream.getvalue()


def with_member(path, name, content):
    """The model file with one of its arrays replaced."""
    with zipfile.ZipFile(path) as old:
        members = {member: old.read(member) for member in old.namelist()}
    members[name] = content
    with zipfile.ZipFile(path, "w") as new:
        for member, data in members.items():
            new.writestr(member, data)


@pytest.mark.parametrize("name", ["coef.npy", "about.npy", "classes.npy", "extra.npy"])
def test_pickles_inside_are_never_loaded(path, name):
    X, y = two()
    save(LinearSVC().fit(X, y), path)
    with_member(path, name, object_array())
    with pytest.raises(ValueError, match="is not a softmargin model, or it is damaged"):
        load(path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # NumPy leaves broken files open
@pytest.mark.parametrize(
    "content", [b"", b"PK", b"hello", pickle.dumps(Attack()), object_array(), b"PK\x03\x04" + bytes(99)]
)
def test_refuses_foreign_files(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a softmargin model"):
        load(path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # NumPy leaves broken files open
def test_refuses_truncated_and_flipped_files(path):
    X, y = two()
    save(LinearSVC().fit(X, y), path)
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1, len(whole) // 40):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="softmargin model"):
            load(path)
    at = whole.index(b"parameters".decode().encode("utf-32-le"))
    path.write_bytes(whole[:at] + b"P" + whole[at + 1 :])
    with pytest.raises(ValueError, match="damaged"):
        load(path)


def test_refuses_parts_that_do_not_fit(path):
    X, y = two()
    clf = LinearSVC().fit(X, y)
    save(clf, path)
    about, arrays = archive.read(path, "model", 1)
    wrong = [
        (about, arrays | {"coef": arrays["coef"][:, 1:]}),
        (about, arrays | {"coef": arrays["coef"] * np.nan}),
        (about, arrays | {"classes": np.arange(3)}),
        (about, {name: array for name, array in arrays.items() if name != "intercept"}),
        (about | {"class": "Popen"}, arrays),
        (about | {"parameters": {"what": 1}}, arrays),
        (about | {"parameters": {"solver": {"solver": "what", "fields": {}}}}, arrays),
        (about | {"fit": {"certificate_": 1}}, arrays),
    ]
    for changed, with_arrays in wrong:
        archive.write(path, "model", 1, changed, with_arrays)
        with pytest.raises(ValueError, match="do not fit together"):
            load(path)
    archive.write(path, "checkpoint", 1, about, arrays)
    with pytest.raises(ValueError, match="is a softmargin checkpoint"):
        load(path)
    archive.write(path, "model", 2, about, arrays)
    with pytest.raises(ValueError, match="version 2"):
        load(path)


def test_a_missing_file_is_said_to_be_missing(path):
    with pytest.raises(FileNotFoundError):
        load(path)


# LIBLINEAR's format


@pytest.mark.parametrize("labels", [(-1, 1), (3, 7), (-5, -4), (0.0, 1.0)])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False, "loss": "squared_hinge"}, {"loss": "logistic"}])
def test_liblinear_predicts_the_same_two_classes(path, labels, options):
    X, y = two(labels)
    clf = LinearSVC(**options).fit(X, y)
    save_liblinear(clf, path)
    assert liblinear_predictions(path, X) == clf.predict(X).tolist()
    same_model(load(path), clf, X)


def test_liblinear_predicts_the_same_three_classes(path):
    X, y = three()
    clf = LinearSVC().fit(X, y)
    save_liblinear(clf, path)
    assert liblinear_predictions(path, X) == clf.predict(X).tolist()
    same_model(load(path), clf, X)


def test_liblinear_predicts_the_same_numbers(path):
    X, y = numbers()
    reg = LinearSVR(epsilon=0.5).fit(X, y)
    save_liblinear(reg, path)
    assert liblinear_predictions(path, X) == pytest.approx(reg.predict(X), rel=1e-12)
    loaded = load(path)
    assert isinstance(loaded, LinearSVR)
    assert np.array_equal(loaded.predict(X), reg.predict(X))


def liblinear_predictions(path, X):
    """What LIBLINEAR's own `predict` says."""
    util = pytest.importorskip("liblinear.liblinearutil")
    labels, _, _ = util.predict([], X, util.load_model(str(path)), "-q")
    return labels


def same_model(loaded, clf, X):
    assert np.array_equal(loaded.decision_function(X), clf.decision_function(X))
    assert loaded.classes_.tolist() == clf.classes_.tolist()
    assert loaded.loss == clf.loss
    assert not hasattr(loaded, "certificate_")


@pytest.mark.parametrize("bias", [-1, 1, 2.5])
@pytest.mark.parametrize("solver", [0, 1, 2, 3, 7, 13])
@pytest.mark.parametrize("rows", [two, three])
def test_loads_what_liblinear_trained(path, rows, solver, bias):
    util = pytest.importorskip("liblinear.liblinearutil")
    X, y = rows()
    trained = util.train(y, X, f"-s {solver} -B {bias} -q")
    util.save_model(str(path), trained)
    expected, _, _ = util.predict([], X, trained, "-q")
    model = load(path)
    assert model.predict(X).tolist() == pytest.approx(expected, rel=1e-9)
    assert model.intercept_scaling == (bias if bias > 0 else None)


def test_a_model_from_liblinear_can_be_saved(path):
    X, y = two()
    save_liblinear(LinearSVC().fit(X, y), path)
    model = load(path)
    save(model, path)
    assert np.array_equal(load(path).decision_function(X), model.decision_function(X))
    assert not hasattr(load(path), "certificate_")


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (0, 2**40)])
def test_refuses_labels_that_liblinear_has_not(path, labels):
    X, y = two(labels)
    with pytest.raises(ValueError, match="integers"):
        save_liblinear(LinearSVC().fit(X, y), path)
    assert not path.exists()


GOOD = ["solver_type L2R_LR", "nr_class 2", "label 1 -1", "nr_feature 2", "bias 1", "w", "0.5 ", "-2 ", "1e-3 "]


@pytest.mark.parametrize(
    ("line", "text", "at", "problem"),
    [
        (1, "solver_type MCSVM_CS", 1, "MCSVM_CS is not one of"),
        (2, "nr_class 3", 6, "nr_class is 3"),
        (2, "nr_class two", 2, "invalid literal"),
        (2, None, 5, "has no nr_class"),
        (3, "label 1 1", 6, "labels are"),
        (3, "label", 6, "labels are"),
        (3, f"label {2**31} 1", 3, "more than 32 bits"),
        (4, "nr_feature 2 3", 4, "2 values where 1"),
        (4, "nr_feature 0", 6, "nr_feature is 0"),
        (4, "nr_feature 3", 9, "3 lines of weights where 4"),
        (4, "nr_feature 1", 9, "3 lines of weights where 2"),
        (5, "bias nan", 6, "bias nan"),
        (5, "rho 1", 5, "'rho' is not expected"),
        (5, "bias", 5, "0 values where 1"),
        (6, None, 6, "'0.5' is not expected"),
        (7, "0.5 0.5", 7, "not 1 finite weights"),
        (7, "nan", 7, "not 1 finite weights"),
        (8, "two", 8, "could not convert"),
        (8, "", 8, "not 1 finite weights"),
        (9, None, 8, "2 lines of weights where 3"),
        (9, "1e999", 9, "not 1 finite weights"),
    ],
)
def test_names_the_line_that_is_wrong(path, line, text, at, problem):
    lines = list(GOOD)
    lines[line - 1 : line] = [] if text is None else [text]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=rf"a\.model, line {at}: .*{problem}"):
        load(path)


def test_the_good_file_is_good(path):
    path.write_text("\n".join(GOOD) + "\n")
    model = load_liblinear(path)
    assert model.coef_.tolist() == [[0.5, -2.0]]
    assert model.intercept_.tolist() == [1e-3]
    path.write_bytes(b"\xff\x00solver_type" * 9)
    with pytest.raises(ValueError, match="line 1"):
        load_liblinear(path)
