"""Tests of `softmargin.cli`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from typer.testing import CliRunner

import softmargin
from softmargin import LinearSVC, LinearSVR, __version__, dump_svmlight, load, load_svmlight, save
from softmargin.cli import app as cli
from softmargin.liblinear import save_liblinear

COMMAND = [sys.executable, "-m", "softmargin"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty current folder with the training files that the tests name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(softmargin.__file__).parents[1]))
    X, y = make_classification(200, 6, random_state=0)
    dump_svmlight(X, 2 * y - 1, "two")
    X, y = make_classification(200, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
    dump_svmlight(X, y + 3, "three")
    X, y = make_regression(200, 6, noise=5.0, random_state=0)
    dump_svmlight(X, y, "numbers")
    return tmp_path


def run(*args, code=0):
    result = CliRunner().invoke(cli.app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result


def facts(*args, code=0):
    return json.loads(run(*args, "--json", code=code).stdout)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# all commands


def test_version_and_help():
    assert run("--version").stdout.split() == ["softmargin", __version__]
    assert run("-h").stdout == run("--help").stdout
    for command in ("train", "predict", "certify", "solvers", "demo"):
        assert f"softmargin {command}" in run(command, "-h").stdout.split("Example:")[1]


def test_help_imports_nothing_slow():
    code = "import sys, softmargin.cli.app; print(sorted({'numba', 'sklearn', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_says_what_is_missing():
    code = "from softmargin import cli; cli.importlib.util.find_spec = lambda name: None; cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "the command line needs typer and rich: pip install 'softmargin[cli]'\n",
    )


# train


def test_trains_and_says_what_is_proven(folder):
    shown = facts("train", "two", "--C", 0.5, "--gap", 1e-5)
    assert (shown["rows"], shown["features"], shown["classes"], shown["model"]) == (200, 6, 2, "two.model")
    assert shown["relative_gap"] <= 1e-5
    clf = load("two.model")
    assert clf.certificate_[:2] == (shown["primal"], shown["dual"])
    X, y = load_svmlight("two")
    same = LinearSVC(C=0.5, tol=1e-5, random_state=0).fit(X, y)
    assert np.array_equal(same.coef_, clf.coef_)
    assert clf.classes_.dtype.kind == "i"
    assert names(folder) == ["numbers", "three", "two", "two.model"]


def test_every_option_of_train_has_an_effect():
    some = "--loss squared_hinge --solver newton --bias-scale 2 --class-weight 1=2,-1=0.5 --n-features 9 --float64"
    more = "--jobs 2 --seed 3 --max-passes 500 --time-limit 60 --quiet"
    facts("train", "two", "m", *some.split(), *more.split())
    clf = load("m")
    expected = {
        "loss": "squared_hinge",
        "solver": "newton",
        "intercept_scaling": 2.0,
        "class_weight": {1: 2.0, -1: 0.5},
        "n_jobs": 2,
        "random_state": 3,
        "max_iter": 500.0,
        "time_limit": 60.0,
        "verbose": 0,
    }
    assert {name: clf.get_params()[name] for name in expected} == expected
    assert clf.n_features_in_ == 9
    run("train", "two", "m", "--no-bias")
    assert load("m").intercept_ == [0.0]


def test_summary_progress_and_quiet():
    shown = run("train", "three", "m")
    assert "relative" in shown.stdout
    assert "classes    3" in shown.stdout
    assert "LinearSVC[3]" in shown.stderr
    assert run("train", "three", "m", "--quiet").output == ""


def test_regression():
    assert facts("train", "numbers", "--loss", "epsilon_insensitive", "--epsilon", 2)["classes"] is None
    reg = load("numbers.model")
    assert isinstance(reg, LinearSVR)
    assert reg.epsilon == 2.0
    measured = facts("predict", "numbers", "numbers.model", "out")
    X, y = load_svmlight("numbers")
    assert measured["mean_squared_error"] == pytest.approx(np.mean((reg.predict(X) - y) ** 2))
    assert np.array_equal(np.loadtxt("out"), reg.predict(X))


def test_ends_early_with_a_usable_model():
    result = run("train", "two", "--gap", 1e-12, "--max-passes", 1, "--solver", "dual_descent", code=3)
    assert "warning: ended early, the limit of passes" in result.stderr
    assert result.stderr.count("warning") == 1
    assert not load("two.model").converged_


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["two", "nowhere/m"], "cannot be written"),
        (["two", "."], "is not a file"),
        (["two", "two"], "is what is read"),
        (["two", "m", "--checkpoint", "nowhere/c"], "cannot be written"),
        (["two", "m", "--C", "-1"], "not a number above 0"),
        (["two", "m", "--C", "nan"], "not a number above 0"),
        (["two", "m", "--C", "inf"], "not a finite number"),
        (["two", "m", "--gap", "0"], "not a number above 0"),
        (["two", "m", "--jobs", "0"], "not a number of threads"),
        (["two", "m", "--solver", "what"], "choose one of"),
        (["two", "m", "--loss", "what"], "hinge"),
        (["two", "m", "--epsilon", "1"], "epsilon_insensitive"),
        (["two", "m", "--class-weight", "1:2"], "neither 'balanced' nor"),
        (["two", "m", "--bias-scale", "1", "--no-bias"], "no intercept"),
        (["numbers", "m", "--loss", "epsilon_insensitive", "--class-weight", "balanced"], "no classes"),
        ([], "Missing argument"),
    ],
)
def test_bad_usage_of_train_leaves_nothing_behind(folder, args, said):
    assert said in " ".join(run("train", *args, code=2).stderr.replace("│", " ").split())
    assert names(folder) == ["numbers", "three", "two"]


def test_bad_data_is_one_line(folder):
    (folder / "bad").write_text("1 1:1\n-1 2:x\n")
    (folder / "one").write_text("1 1:1\n1 2:1\n")
    cases = {
        "bad": "bad, line 2: ",
        "one": "y has one class",
        "nowhere": "nowhere: No such file",
        "numbers": "say --loss epsilon_insensitive",
    }
    for data, said in cases.items():
        result = run("train", data, "m", code=1)
        assert result.stderr.startswith("error: ")
        assert said in result.stderr
        assert result.stderr.count("\n") == 1
    run("train", "two", "m", "--n-features", 2, code=1)
    run("train", "two", "m", "--class-weight", "5=1", code=1)
    assert not (folder / "m").exists()


def test_liblinear_format(folder):
    run("train", "three", "m", "--format", "liblinear")
    assert (folder / "m").read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL\nnr_class 3\nlabel 3 4 5\n")
    run("predict", "three", "m", "a")
    run("train", "three", "n")
    run("predict", "three", "n", "b")
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    (folder / "halves").write_text("1.5 1:1\n0 1:-1\n")
    assert "not integers" in run("train", "halves", "--format", "liblinear", code=1).stderr


# predict


def test_predicts_labels_and_scores(folder):
    run("train", "three")
    X, y = load_svmlight("three")
    clf = load("three.model")
    measured = facts("predict", "three", "three.model", "out")
    assert (folder / "out").read_text().split() == [str(label) for label in clf.predict(X)]
    assert measured["accuracy"] == measured["correct"] / 200 == clf.score(X, y)
    shown = run("predict", "three", "three.model")
    assert shown.stdout == (folder / "out").read_text()
    assert "accuracy" in shown.stderr
    assert run("predict", "three", "three.model", "-", "--quiet").stderr == ""
    run("predict", "three", "three.model", "out", "--scores")
    assert np.array_equal(np.loadtxt("out"), clf.decision_function(X))
    run("train", "two")
    run("predict", "two", "two.model", "out", "--scores")
    assert np.array_equal(np.loadtxt("out"), load("two.model").decision_function(load_svmlight("two")[0]))


def test_text_labels_and_rows_without_labels(folder):
    X, y = load_svmlight("two")
    save(LinearSVC().fit(X, np.where(y > 0, "yes", "no")), "m")
    assert set(run("predict", "two", "m").stdout.split()) == {"yes", "no"}
    (folder / "bare").write_text("1:0.5 2:3\n6:2\n")
    shown = run("predict", "bare", "m")
    assert shown.stderr == ""
    assert len(shown.stdout.split()) == 2
    (folder / "mixed").write_text("1 1:0.5 2:3\n6:2\n")
    assert "none in row 2" in run("predict", "mixed", "m", code=1).stderr


def test_feature_counts(folder):
    run("train", "two")
    (folder / "short").write_text("1 1:0.5\n")
    (folder / "long").write_text("1 1:0.5 12:3\n")
    run("predict", "short", "two.model")
    result = run("predict", "long", "two.model", "out", code=1)
    assert "12 features" in result.stderr
    assert "has 6" in result.stderr
    assert "12 features" in run("certify", "two.model", "long", code=1).stderr
    assert not (folder / "out").exists()


def test_bad_usage_of_predict():
    run("train", "two")
    run("predict", "two", "two.model", "--json", code=2)
    run("predict", "two", "two.model", "two", code=2)
    run("predict", "two", "two.model", "two.model", code=2)
    run("predict", "two", "two.model", "nowhere/out", code=2)
    run("predict", "two", "two", code=1)
    run("train", "numbers", "--loss", "epsilon_insensitive")
    run("predict", "numbers", "numbers.model", "--scores", code=2)


def test_writes_to_a_device_without_replacing_it():
    run("train", "two")
    assert facts("predict", "two", "two.model", os.devnull)["accuracy"] > 0.5
    assert not os.path.isfile(os.devnull)


# certify


@pytest.mark.parametrize(
    "options", [[], ["--no-bias"], ["--bias-scale", "2"], ["--class-weight", "balanced"], ["--loss", "logistic"]]
)
@pytest.mark.parametrize("data", ["two", "three"])
def test_certifies_what_was_trained(data, options):
    trained = facts("train", data, "m", "--C", 0.3, *options)
    found = facts("certify", "m", data)
    assert found["primal"] == pytest.approx(trained["primal"], rel=1e-6)
    assert found["dual"] == pytest.approx(trained["dual"], rel=2e-3)
    assert found["relative_gap"] <= 1.3e-3
    assert len(found.get("classes", [])) == (3 if data == "three" else 0)


def test_certifies_a_regression_and_a_liblinear_model():
    trained = facts("train", "numbers", "m", "--loss", "epsilon_insensitive", "--epsilon", 1)
    assert facts("certify", "m", "numbers")["primal"] == pytest.approx(trained["primal"], rel=1e-6)
    X, y = load_svmlight("two")
    save_liblinear(LinearSVC(C=0.1, intercept_scaling=1.0).fit(X, y), "l")
    found = facts("certify", "l", "two", "--C", 0.1)
    assert (found["bias"], found["bias_scale"]) == ("penalised", 1.0)
    assert found["relative_gap"] < 1e-3
    assert facts("certify", "l", "two", "--C", 10)["relative_gap"] > 1e-3
    assert facts("certify", "l", "two", "--bias", "free")["bias"] == "free"


def test_certify_shows_and_refuses(folder):
    run("train", "three")
    shown = run("certify", "three.model", "three").stdout
    assert "class 4" in shown
    assert "total" in shown
    assert float(run("certify", "three.model", "three", "--quiet").stdout) < 2e-3
    assert "label -1" in run("certify", "three.model", "two", code=1).stderr
    run("certify", "three.model", "three", "--epsilon", 1, code=2)
    run("certify", "three.model", "three", "--loss", "epsilon_insensitive", code=2)
    run("certify", "three.model", "three", "--bias", "free", "--bias-scale", 1, code=2)
    run("train", "three", "m", "--no-bias")
    run("certify", "three.model", "three", "--bias", "none", code=1)


# solvers and demo


def test_solvers_come_from_the_table():
    from softmargin import SOLVERS

    assert [row["name"] for row in json.loads(run("solvers", "--json").stdout)["solvers"]] == list(SOLVERS)
    assert all(name in run("solvers").stdout for name in SOLVERS)


def test_demo(folder, monkeypatch):
    pytest.importorskip("matplotlib")
    import sklearn.datasets

    generate = sklearn.datasets.make_classification
    monkeypatch.setattr(
        sklearn.datasets, "make_classification", lambda n, *args, **options: generate(n // 20, *args, **options)
    )
    shown = run("demo", "--output", "plot.png", "--quiet").stdout
    assert "scikit-learn" in shown
    assert "ten classes" in shown
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    run("demo", "--output", "nowhere/plot.png", code=2)


# real processes


def test_standard_input_and_output(folder):
    done = subprocess.run(
        [*COMMAND, "train", "-", "--json"], input=(folder / "two").read_bytes(), capture_output=True, check=True
    )
    assert json.loads(done.stdout)["model"] == "softmargin.model"
    done = subprocess.run(
        [*COMMAND, "predict", "-", "softmargin.model"], input=(folder / "two").read_bytes(), capture_output=True
    )
    assert done.returncode == 0
    assert len(done.stdout.split()) == 200


def test_a_reader_that_leaves_is_no_error(folder):
    run("train", "two")
    (folder / "many").write_bytes((folder / "two").read_bytes() * 500)
    with subprocess.Popen(
        [*COMMAND, "predict", "many", "two.model", "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_ctrl_c_keeps_the_model(folder):
    X, y = make_classification(3000, 300, flip_y=0.3, random_state=0)
    dump_svmlight(X, y, "hard")
    options = ["--C", "1000", "--gap", "1e-15", "--max-passes", "inf", "--solver", "dual_descent"]
    with subprocess.Popen(
        [*COMMAND, "train", "hard", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline().startswith("LinearSVC")  # it is training
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "the model so far is in hard.model" in said
    assert "Traceback" not in said
    assert "hard.model" in shown
    assert not load("hard.model").converged_
