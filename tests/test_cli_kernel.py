"""Tests of `softmargin.cli` for kernel models."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from typer.testing import CliRunner

from softmargin import SVC, dump_svmlight, load, load_svmlight, save_libsvm
from softmargin.cli import app as cli


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty current folder with the training files that the tests name."""
    monkeypatch.chdir(tmp_path)
    X, y = make_classification(120, 6, random_state=0)
    dump_svmlight(X, 2 * y - 1, "two")
    write_values(X @ X.T, 2 * y - 1, "values")
    X, y = make_classification(120, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
    dump_svmlight(X, y + 3, "three")
    X, y = make_regression(120, 6, noise=5.0, random_state=0)
    dump_svmlight(X, y, "numbers")
    return tmp_path


def write_values(K, y, path, first=1):
    """A precomputed kernel as LIBSVM has it."""
    numbered = np.hstack([np.arange(first, first + len(K))[:, None], K])
    dump_svmlight(numbered, y, path, zero_based=True)


def run(*args, code=0):
    result = CliRunner().invoke(cli.app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result


def facts(*args, code=0):
    return json.loads(run(*args, "--json", code=code).stdout)


def said(result):
    return " ".join(result.stderr.replace("│", " ").split())


# train


@pytest.mark.parametrize(
    ("args", "kind", "expected"),
    [
        (["two", "--kernel", "rbf"], "SVC", {"kernel": "rbf", "gamma": "scale", "C": 1.0, "n_jobs": -1}),
        (
            ["two", "--kernel", "rbf", "--gamma", "0.2", "-C", "3", "-j", "1"],
            "SVC",
            {"gamma": 0.2, "C": 3.0, "n_jobs": 1},
        ),
        (["three", "--kernel", "laplacian", "--gamma", "auto"], "SVC", {"kernel": "laplacian", "gamma": "auto"}),
        (
            ["two", "--kernel", "poly", "--degree", "2", "--coef0", "1", "--cache-size", "50", "--solver", "smo"],
            "SVC",
            {"kernel": "poly", "degree": 2, "coef0": 1.0, "cache_size": 50.0, "solver": "smo"},
        ),
        (["two", "--kernel", "linear", "--no-bias"], "SVC", {"kernel": "linear", "fit_intercept": False}),
        (["two", "--kernel", "rbf", "--bias-scale", "2"], "SVC", {"intercept_scaling": 2.0}),
        (["two", "--kernel", "rbf", "--class-weight", "1=2,-1=0.5"], "SVC", {"class_weight": {1: 2.0, -1: 0.5}}),
        (["two", "--kernel", "rbf", "--loss", "hinge", "--machine", "svc"], "SVC", {}),
        (["two", "--kernel", "rbf", "--machine", "nu_svc", "--nu", "0.3"], "NuSVC", {"nu": 0.3}),
        (["two", "--kernel", "rbf", "--machine", "one_class", "--nu", "0.1"], "OneClassSVM", {"nu": 0.1}),
        (["numbers", "--kernel", "rbf", "--loss", "epsilon_insensitive"], "SVR", {"epsilon": 0.1}),
        (["numbers", "--kernel", "rbf", "--machine", "svr", "--epsilon", "0"], "SVR", {"epsilon": 0.0}),
        (["numbers", "--kernel", "rbf", "--machine", "nu_svr", "-C", "10"], "NuSVR", {"C": 10.0, "nu": 0.5}),
    ],
)
def test_options_have_an_effect(args, kind, expected):
    shown = facts("train", args[0], "m", *args[1:], "--gap", 1e-4)
    assert shown["relative_gap"] <= 1e-4
    model = load("m")
    assert type(model).__name__ == kind
    params = model.get_params()
    assert {name: params[name] for name in expected} == expected
    assert (params["tol"], params["random_state"]) == (1e-4, 0)


def test_trains_as_the_estimator_does():
    run("train", "two", "--kernel", "rbf", "--gamma", 0.3, "--float64", "--quiet")
    X, y = load_svmlight("two", dtype=np.float64)
    same = SVC(gamma=0.3, random_state=0).fit(X, y.astype(int))
    assert np.array_equal(load("two.model").dual_coef_, same.dual_coef_)
    assert load("two.model").first_index_ == 1


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--gamma", "1"], "--gamma: it is for kernel models: say --kernel too"),
        (["--degree", "1"], "--degree: it is for kernel models"),
        (["--coef0", "1"], "--coef0: it is for kernel models"),
        (["--nu", "0.1"], "--nu: it is for kernel models"),
        (["--machine", "svc"], "--machine: it is for kernel models"),
        (["--cache-size", "9"], "--cache-size: it is for kernel models"),
        (["--solver", "smo"], "--solver: smo is for kernel models"),
        (["--format", "libsvm"], "--format: LIBSVM's is for kernel models"),
        (["--kernel", "what"], "'what' is not one of"),
        (["--kernel", "rbf", "--loss", "logistic"], "--loss: kernel models are trained with hinge or"),
        (["--kernel", "rbf", "--loss", "squared_hinge", "--machine", "svc"], "--loss: kernel models"),
        (["--kernel", "rbf", "--loss", "hinge", "--machine", "svr"], "--loss: svr has a loss of its own"),
        (["--kernel", "rbf", "--loss", "hinge", "--machine", "nu_svc"], "--loss: nu_svc has a loss of its own"),
        (["--kernel", "rbf", "--nu", "0.1"], "--nu: it is for nu_svc, one_class, nu_svr, not --machine svc"),
        (["--kernel", "rbf", "--nu", "2", "--machine", "nu_svc"], "2 is not a share"),
        (["--kernel", "rbf", "--epsilon", "1"], "--epsilon: it is for svr"),
        (["--kernel", "rbf", "-C", "1", "--machine", "one_class"], "--C: it is for svc, svr, nu_svr"),
        (["--kernel", "rbf", "--class-weight", "balanced", "--machine", "svr"], "--class-weight: it is for svc"),
        (["--kernel", "rbf", "--no-bias", "--machine", "nu_svc"], "--no-bias: it is for svc, svr"),
        (["--kernel", "rbf", "--bias-scale", "1", "--machine", "nu_svr"], "--bias-scale: it is for svc, svr"),
        (
            ["--kernel", "linear", "--gamma", "1"],
            "--gamma: it is for poly, rbf, sigmoid, laplacian, not --kernel linear",
        ),
        (["--kernel", "rbf", "--degree", "2"], "--degree: it is for poly, not --kernel rbf"),
        (["--kernel", "rbf", "--coef0", "2"], "--coef0: it is for poly, sigmoid"),
        (["--kernel", "poly", "--coef0", "inf"], "inf is not a finite number"),
        (["--kernel", "rbf", "--gamma", "what"], "neither 'scale', nor 'auto', nor a number"),
        (["--kernel", "rbf", "--gamma", "-1"], "-1 is not a number above 0"),
        (["--kernel", "rbf", "--cache-size", "0"], "0 is not a number above 0"),
        (["--kernel", "rbf", "--solver", "newton"], "--solver: newton is for linear models"),
        (["--kernel", "rbf", "--format", "liblinear"], "--format: LIBLINEAR's is for linear models"),
        (["--kernel", "laplacian", "--format", "libsvm"], "--format: LIBSVM has no kernel laplacian"),
        (["--kernel", "poly", "--degree", "2.5", "--format", "libsvm"], "--degree: LIBSVM's are whole numbers"),
        (["--kernel", "precomputed", "--n-features", "9"], "--n-features: the values have no features"),
        (["--kernel", "precomputed", "--one-based"], "--zero-based: rows of a precomputed kernel begin with 0:"),
    ],
)
def test_bad_usage_of_train_leaves_nothing_behind(folder, args, why):
    assert why in said(run("train", "two", "m", *args, code=2))
    assert not (folder / "m").exists()


def test_an_indefinite_kernel_is_not_certified():
    shown = run("train", "two", "m", "--kernel", "sigmoid", "--gamma", 0.05, code=3)
    assert "no gap can be proven" in shown.stderr
    assert "optimum    not known" in shown.stdout
    assert load("m").status_ == "stationary"
    assert "nothing can be proven" in run("certify", "m", "two", code=1).stderr


# precomputed kernels


def test_precomputed_values(folder):
    X, y = load_svmlight("two", dtype=np.float64)
    X = X.toarray()
    run("train", "values", "--kernel", "precomputed", "--float64")
    run("train", "two", "--kernel", "linear", "--float64")
    ours, linear = load("values.model"), load("two.model")
    assert ours.n_features_in_ == 120
    assert ours.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-3)
    write_values((X @ X.T)[:7], y[:7], "some", first=900)  # what the serial numbers are does not matter any more
    run("predict", "some", "values.model", "out", "--scores", "--float64")
    assert np.loadtxt("out") == pytest.approx(ours.decision_function((X @ X.T)[:7]), rel=1e-6)
    found = facts("certify", "values.model", "values")
    assert found["relative_gap"] < 2e-3
    assert found["primal"] == pytest.approx(ours.certificate_.primal, rel=1e-3)
    assert "give training rows" in run("certify", "values.model", "some", code=1).stderr
    result = run("predict", "some", "values.model", "--zero-based", code=2)
    assert "rows of a precomputed kernel begin with 0:" in said(result)


def test_sparse_precomputed_values():
    (K, y) = np.eye(40), np.where(np.arange(40) % 2, 1, -1)
    write_values(K, y, "sparse")
    assert facts("train", "sparse", "--kernel", "precomputed", "-C", 9)["primal"] == pytest.approx(20.0, rel=1e-3)
    assert facts("predict", "sparse", "sparse.model", "out")["accuracy"] == 1.0


def test_refuses_rows_without_serial_numbers(folder):
    write_values(np.eye(5), [1, -1, 1, -1, 1], "late", first=2)
    (folder / "wide").write_text("1 0:1 1:1 2:0 3:1\n-1 0:2 1:0 2:1\n")
    cases = {
        "two": "row 1 has the serial number 0",
        "late": "row 1 has the serial number 2",
        "wide": "2 rows of 3 kernel",
    }
    for data, why in cases.items():
        assert why in run("train", data, "m", "--kernel", "precomputed", code=1).stderr
    assert not (folder / "m").exists()


# predict


@pytest.mark.parametrize("data", ["two", "three"])
def test_predicts_labels_and_scores(folder, data):
    run("train", data, "m", "--kernel", "rbf")
    X, y = load_svmlight(data)
    clf = load("m")
    measured = facts("predict", data, "m", "out")
    assert (folder / "out").read_text().split() == [str(label) for label in clf.predict(X)]
    assert measured["accuracy"] == clf.score(X, y) > 0.7
    run("predict", data, "m", "out", "--scores")
    assert np.array_equal(np.loadtxt("out"), clf.decision_function(X))


def test_predicts_outliers_and_numbers():
    run("train", "two", "m", "--kernel", "rbf", "--machine", "one_class", "--nu", 0.2)
    X, y = load_svmlight("two")
    assert facts("predict", "two", "m", "out")["accuracy"] == np.mean(load("m").predict(X) == y)
    assert set(np.loadtxt("out")) == {-1.0, 1.0}
    run("predict", "two", "m", "out", "--scores")
    assert np.array_equal(np.loadtxt("out"), load("m").decision_function(X))
    run("train", "numbers", "m", "--kernel", "rbf", "--machine", "svr")
    X, y = load_svmlight("numbers")
    measured = facts("predict", "numbers", "m", "out")["mean_squared_error"]
    assert measured == pytest.approx(np.mean((load("m").predict(X) - y) ** 2))
    assert "is a regression" in said(run("predict", "numbers", "m", "--scores", code=2))


def test_libsvm_format(folder):
    run("train", "three", "m", "--kernel", "rbf", "--gamma", 0.2, "--format", "libsvm")
    assert (folder / "m").read_text().startswith("svm_type c_svc\nkernel_type rbf\ngamma 0.2\nnr_class 3\n")
    run("train", "three", "n", "--kernel", "rbf", "--gamma", 0.2)
    run("predict", "three", "m", "a")
    run("predict", "three", "n", "b")
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    (folder / "long").write_text("3 1:0.5 12:3\n")
    run("predict", "long", "m")  # LIBSVM's models do not tell how many features there are
    assert "12 features" in run("predict", "long", "n", code=1).stderr


# certify


@pytest.mark.parametrize(
    "options",
    [[], ["--no-bias"], ["--bias-scale", "2"], ["--class-weight", "balanced"], ["--class-weight", "3=2,4=0.5,5=1"]],
)
@pytest.mark.parametrize("data", ["two", "three"])
def test_certifies_what_was_trained(data, options):
    if data == "two":
        options = [option.replace("3=2,4=0.5,5=1", "1=2,-1=0.5") for option in options]
    trained = facts("train", data, "m", "--kernel", "rbf", "-C", 0.7, *options, "--gap", 1e-4)
    found = facts("certify", "m", data)
    assert found["primal"] == pytest.approx(trained["primal"], rel=2e-5)
    assert found["dual"] == pytest.approx(trained["dual"], rel=3e-4)
    assert found["relative_gap"] <= 2.5e-4
    assert (found["C"], found["loss"], found["kernel"], found["rows"]) == (0.7, "hinge", "rbf", 120)
    n_classes = len(load("m").classes_)
    assert len(found.get("pairs", [])) == (n_classes * (n_classes - 1) // 2 if n_classes > 2 else 0)


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian"])
def test_certifies_every_kernel_and_regression(kernel):
    trained = facts("train", "two", "m", "--kernel", kernel)
    assert facts("certify", "m", "two")["primal"] == pytest.approx(trained["primal"], rel=1e-3)
    trained = facts("train", "numbers", "m", "--kernel", kernel, "--machine", "svr", "--epsilon", 2)
    found = facts("certify", "m", "numbers")
    assert (found["loss"], found["relative_gap"] < 2e-3) == ("epsilon_insensitive", True)
    assert found["primal"] == pytest.approx(trained["primal"], rel=1e-3)
    assert facts("certify", "m", "numbers", "--epsilon", 50)["relative_gap"] > 0.01


def test_other_problems_give_other_distances():
    run("train", "two", "m", "--kernel", "rbf")
    assert facts("certify", "m", "two")["relative_gap"] < 1.2e-3
    assert facts("certify", "m", "two", "--C", 100)["relative_gap"] > 0.01
    assert facts("certify", "m", "two", "--class-weight", "1=9")["relative_gap"] > 0.01
    assert facts("certify", "m", "two", "--bias-scale", 0.01)["relative_gap"] > 0.01
    assert "say --bias free or penalised" in run("certify", "m", "two", "--bias", "none", code=1).stderr


def test_certifies_models_of_libsvm():
    util = pytest.importorskip("libsvm.svmutil")
    for data, options in (("two", "-c 2"), ("three", "-c 2 -t 1 -r 1"), ("numbers", "-s 3 -c 2 -p 0.1")):
        X, y = load_svmlight(data, dtype=np.float64)
        rows = [dict(enumerate(row, 1)) for row in X.toarray().tolist()]
        order = range(len(y) - 1, -1, -1)  # the order of rows is nothing that a model knows
        trained = util.svm_train([y[k] for k in order], [rows[k] for k in order], f"{options} -g 0.1 -e 1e-5 -q")
        util.svm_save_model("l", trained)
        found = facts("certify", "l", data, "--C", 2)
        assert found["relative_gap"] < 2e-4
        assert found["bias"] == "free"
        assert facts("certify", "l", data)["C"] == 1.0
        same = load("l").set_params(C=2.0, tol=1e-5).fit(X, y)
        assert found["primal"] == pytest.approx(same.certificate_.primal, rel=1e-4)


def test_certifies_a_model_that_was_written_for_libsvm():
    X, y = load_svmlight("two")
    clf = SVC(C=3.0, gamma=0.2).fit(X[:, :5], y)  # fewer features than the file has
    save_libsvm(clf, "l")
    assert facts("certify", "l", "two", "--C", 3)["relative_gap"] > 0.01
    run("train", "two", "m", "--kernel", "rbf", "-C", 3, "--gamma", 0.2, "--format", "libsvm", "--gap", 1e-5)
    assert facts("certify", "m", "two", "--C", 3)["relative_gap"] < 2e-4


def test_certify_shows_and_refuses():
    run("train", "three", "m", "--kernel", "rbf")
    shown = run("certify", "m", "three").stdout
    assert "classes 3, 4" in shown
    assert "classes 4, 5" in shown
    assert "rbf kernel, hinge loss, C=1, free bias" in shown
    assert "total" in shown
    assert float(run("certify", "m", "three", "--quiet").stdout) < 2e-3
    assert "label -1" in run("certify", "m", "two", code=1).stderr
    assert "kernel model" in said(run("certify", "m", "three", "--loss", "logistic", code=2))
    assert "is a classifier" in said(run("certify", "m", "three", "--epsilon", 1, code=2))
    for machine, kind in (("nu_svc", "NuSVC"), ("one_class", "OneClassSVM"), ("nu_svr", "NuSVR")):
        run("train", "three", "m", "--kernel", "rbf", "--machine", machine)
        assert f"is a model of {kind}: only those of C-SVC" in run("certify", "m", "three", code=1).stderr


# solvers


def test_solvers_say_which_problems_they_solve():
    table = {row["name"]: row for row in json.loads(run("solvers", "--json").stdout)["solvers"]}
    assert table["smo"]["problems"] == ["kernel"]
    assert table["newton"]["problems"] == ["linear"]
    assert {"linear", "kernel"} <= set(table["auto"]["problems"])
    assert "kernel: as active_set" in table["auto"]["step"]
    shown = run("solvers").stdout
    assert "problems" in shown
    assert "kernel" in shown
