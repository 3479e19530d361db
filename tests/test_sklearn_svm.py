"""scikit-learn's own tests of its kernel machines, run on ours: whatever they promise there holds here.

`DEVIATIONS` are those that do not hold, each with its reason; they must really fail. Tests that name none of our
classes (liblinear's) are left out.
"""

import importlib.util
import inspect
import itertools
import re
import sys
import types
import warnings

import pytest
import sklearn.svm
from helpers import deadline

import softmargin

OURS = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
FIXTURES = {"global_random_seed": 42}
PROBABILITY = "there is no probability=, which scikit-learn itself gives up: CalibratedClassifierCV has it"
TO_TOL = "digits that its default tol happens to give: ours is a relative gap, and both are as good as they say"
WEIGHTS = "negative weights are refused, not masked"
DEVIATIONS = {
    "test_precomputed": TO_TOL,
    "test_svc_clone_with_callable_kernel": TO_TOL,
    "test_svm_classifier_sided_sample_weight[0]": TO_TOL,
    "test_svm_regressor_sided_sample_weight[0]": TO_TOL,
    "test_probability": PROBABILITY,
    "test_hasattr_predict_proba": PROBABILITY,
    "test_probability_raises_futurewarning": PROBABILITY,
    "test_svc_nusvc_probA_probB_deprecated": PROBABILITY,
    "test_negative_sample_weights_mask_all_samples": WEIGHTS,
    "test_negative_weights_svc_leave_just_one_label": WEIGHTS,
    **{f"test_negative_weights_svc_leave_two_labels[{k}]": WEIGHTS for k in range(2)},
    **{f"test_negative_weight_equal_coeffs[{k}]": WEIGHTS for k in range(3)},
    "test_tweak_params": "changes LIBSVM's private _dual_coef_",
    "test_svc_raises_error_internal_representation": "changes LIBSVM's private _n_support",
    "test_libsvm_convergence_warnings": "max_iter counts passes, of which two are enough here",
    "test_consistent_decision_function": "max_iter=1 ends the fit early, with a warning, and those are errors here",
    "test_svr_errors": "a kernel of the wrong shape is refused when fitting already",
    "test_svc_invalid_break_ties_param": "break_ties with 'ovo' is refused when fitting already",
    "test_decision_function_shape": "break_ties with 'ovo' is refused when fitting already",
    "test_bad_input": "sparse rows are scored by a model of dense ones",
    "test_sparse_precomputed": "a sparse precomputed kernel is accepted",
    "test_sparse_fit_support_vectors_empty": "dual_coef_ is an array for sparse rows as well",
    "test_svc_nonfinite_params": "features that are too large are refused in other words",
    "test_custom_kernel_not_array_input": "rows must be numbers, for callable kernels as well",
    "test_svm_with_infinite_C": "C must be finite",
    "test_svc_ovr_tie_breaking[1]": "of NuSVC: far from all rows scores are intercepts alone, and ours make no ties",
}


def replaced():
    """scikit-learn's test module with our classes in the place of its own; None where it is not installed."""
    try:
        found = importlib.util.find_spec("sklearn.svm.tests.test_svm")
    except ModuleNotFoundError:
        return None
    if found is None or found.origin is None:
        return None
    stand_in = types.ModuleType("softmargin_for_sklearn_svm")
    stand_in.__getattr__ = lambda name: getattr(sklearn.svm, name)
    for name in OURS:
        setattr(stand_in, name, getattr(softmargin, name))
    stand_in.svm = stand_in
    sys.modules[stand_in.__name__] = stand_in
    with open(found.origin, encoding="utf-8") as file:
        source = file.read()
    source, count = re.subn(r"(from sklearn import .*), svm\n", rf"\1; from {stand_in.__name__} import svm\n", source)
    assert count == 1
    source, count = re.subn(r"from sklearn\.svm import", f"from {stand_in.__name__} import", source)
    assert count >= 1
    source = source.replace("@pytest.mark.thread_unsafe\n", "\n")  # a mark of its own
    module = types.ModuleType("sklearn_svm_tests")
    module.__file__ = found.origin
    exec(compile(source, found.origin, "exec"), module.__dict__)
    return module


def combinations(function):
    """The arguments of every run of a test: its parametrize marks multiplied out, and the fixtures it asks for."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    choices = []
    for mark in marks:
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else list(mark.args[0])
        names = [name.strip() for name in names]
        rows = [getattr(values, "values", values) for values in mark.args[1]]
        choices.append([dict(zip(names, row if len(names) > 1 else [row], strict=True)) for row in rows])
    asked = {name: FIXTURES[name] for name in inspect.signature(function).parameters if name in FIXTURES}
    for chosen in itertools.product(*choices):
        yield asked | {name: value for part in chosen for name, value in part.items()}


def collected():
    module = replaced()
    if module is None:
        return
    for name, function in vars(module).items():
        if not name.startswith("test_") or not re.search(rf"\b({'|'.join(OURS)})\b", inspect.getsource(function)):
            continue
        for k, arguments in enumerate(combinations(function)):
            yield pytest.param(function, arguments, id=f"{name}[{k}]")


RUNS = list(collected())


def test_there_is_something_to_run():
    if not RUNS:
        pytest.skip("scikit-learn was installed without its tests")
    assert len({run.values[0] for run in RUNS}) > 30
    for name in DEVIATIONS:
        assert any(name in (run.id, run.id.split("[")[0]) for run in RUNS), f"{name} is no test of scikit-learn's"


@pytest.mark.parametrize(("function", "arguments"), RUNS)
def test_scikit_learns_test(function, arguments, request):
    name = request.node.callspec.id
    reason = DEVIATIONS.get(name) or DEVIATIONS.get(name.split("[")[0])
    with deadline(5), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Liblinear failed to converge")  # its own
        for mark in getattr(function, "pytestmark", []):
            if mark.name == "filterwarnings":
                action, message, category = (*mark.args[0].split(":"), "", "")[:3]
                warnings.filterwarnings(action, message, getattr(__import__("builtins"), category or "Warning"))
        if reason is None:
            function(**arguments)
            return
        with pytest.raises((Exception, pytest.fail.Exception)):
            function(**arguments)
