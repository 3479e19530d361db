"""Models in files, without pickle.

A file holds all that a fitted estimator knows (parameters, weights, labels, certificate, history) as plain arrays and
JSON, see `archive`. Nothing in it can run code.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from softmargin import __version__, archive
from softmargin.estimators.kernel import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SlackSVC
from softmargin.estimators.linear import LinearSVC, LinearSVR
from softmargin.liblinear import LIBLINEAR_HEADER, check_fitted, load_liblinear
from softmargin.libsvm import load_libsvm

Path = str | os.PathLike[str]

SCHEMA = 1
CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (LinearSVC, LinearSVR, SVC, SlackSVC, NuSVC, SVR, NuSVR, OneClassSVM)
}
RUN_ONLY = ("callbacks", "checkpoint")  # parameters that belong to a run on one machine, not to a model

FIT_FACTS = ("certificate_", "converged_", "status_", "n_iter_", "history_")
KERNEL_ARRAYS = ("dual_coef_", "n_support_", "support_", "class_weight_")
KERNEL_NUMBERS = ("_gamma", "_constant", "shape_fit_", "fit_status_", "epsilon_", "validation_errors_")
KERNEL_NEEDS = ("_gamma", "_constant", "dual_coef_", "n_support_")  # models from LIBSVM have no others


def save(model: Any, path: Path) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    model : estimator
        Its labels must be numbers, booleans or texts, and its kernel a name or one of `softmargin.kernels`: functions
        cannot be saved. All parameters are kept but ``callbacks``, ``checkpoint`` and a ``random_state`` that is not a
        number: those become None.
    path : path
        Used as it is, without a suffix added. The file appears once it is complete, in place of any before it.

    Examples
    --------
    >>> import os, tempfile
    >>> from softmargin import LinearSVC, load, save
    >>> X, y = [[0.0], [1.0], [3.0]], ["no", "no", "yes"]
    >>> path = os.path.join(tempfile.mkdtemp(), "example.model")
    >>> save(LinearSVC(C=10.0).fit(X, y), path)
    >>> model = load(path)
    >>> model.predict([[5.0]]).tolist(), model.certificate_.relative_gap < 1e-3
    (['yes'], True)
    """
    check_fitted(model, CLASSES.values())
    arrays = {"intercept": model.intercept_, **(_kernel_arrays(model) if _has_kernel(model) else {"coef": model.coef_})}
    if hasattr(model, "classes_"):
        arrays["classes"] = _plain_labels(model.classes_)
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = np.asarray(model.feature_names_in_, np.str_)
    about = {
        "softmargin": __version__,
        "class": type(model).__name__,
        "parameters": {name: _encoded(name, value) for name, value in model.get_params(deep=False).items()},
        "n_features": int(model.n_features_in_),
        "first_index": getattr(model, "first_index_", None),
        "fit": {name: _encoded(name, getattr(model, name)) for name in FIT_FACTS if hasattr(model, name)},
    }
    if _has_kernel(model):
        about["kernel"] = {name: getattr(model, name) for name in KERNEL_NUMBERS if hasattr(model, name)}
    archive.write(path, "model", SCHEMA, about, arrays)


def load(path: Path) -> Any:
    """The model in a file that `save`, `save_liblinear`, `save_libsvm`, LIBLINEAR or LIBSVM wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        Fitted. From softmargin's format, it predicts as the saved one did, to the last bit; see `load_liblinear` and
        `load_libsvm` for what the others lack.

    Raises
    ------
    ValueError
        If the file is damaged or something else.

    Examples
    --------
    >>> import os, tempfile
    >>> from softmargin import LinearSVR, load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "example.model")
    >>> save(LinearSVR().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]), path)
    >>> load(path).certificate_.relative_gap < 1e-3
    True
    """
    with open(path, "rb") as stream:
        first = stream.read(64)
    if first.startswith(tuple(name.encode() for name in LIBLINEAR_HEADER)):
        return load_liblinear(path)
    if first.startswith((b"svm_type", b"kernel_type")):
        return load_libsvm(path)
    if not first.startswith(b"PK"):
        raise ValueError(f"{os.fspath(path)} is neither a softmargin model nor one of LIBLINEAR's or LIBSVM's")
    about, arrays = archive.read(path, "model", SCHEMA)
    try:
        return _restored(about, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is a softmargin model whose parts do not fit together ({error!r})") from error


def _plain_labels(classes: Any) -> Any:
    """Labels as an array that needs no pickle."""
    if classes.dtype.kind in ("O", "T") and all(isinstance(label, str) for label in classes):
        return classes.astype(np.str_)
    if classes.dtype.kind not in "biufU":
        raise ValueError(
            f"the labels are {classes.dtype} ({classes[0]!r}, ...): only numbers, booleans and texts can be saved"
        )
    return classes


def _has_kernel(model: Any) -> bool:
    return not isinstance(model, (LinearSVC, LinearSVR))


def _kernel_arrays(model: Any) -> dict[str, Any]:
    """The arrays of a kernel model: support vectors as they are, dense or sparse."""
    arrays = {name: getattr(model, name) for name in KERNEL_ARRAYS if hasattr(model, name)}
    vectors = model.support_vectors_
    if not sp.issparse(vectors):
        return arrays | {"vectors": vectors}
    return arrays | {"entries": vectors.data, "columns": vectors.indices, "starts": vectors.indptr}


def _kernels() -> dict[str, Any]:
    """The kernels that a file can tell of."""
    from softmargin import kernels

    known = (kernels.Linear, kernels.RBF, kernels.Polynomial, kernels.Sigmoid, kernels.Laplacian, kernels.Precomputed)
    return {kind.__name__: kind for kind in known}


def _encoded(name: str, value: Any) -> Any:
    """A parameter, or what a fit has told, as JSON has it."""
    if name in RUN_ONLY or (name == "random_state" and not isinstance(value, (int, np.integer))):
        return None
    if name == "kernel" and not isinstance(value, str):
        if type(value) not in _kernels().values():
            raise ValueError(
                f"kernel={value!r} cannot be saved, for a file holds no code: fit with a kernel's name, with one of "
                f"softmargin.kernels ({', '.join(_kernels())}), or with its values (kernel='precomputed')"
            )
        fields = {field: _encoded(field, number) for field, number in asdict(value).items()}
        return {"kernel": type(value).__name__, "fields": fields}
    if isinstance(value, np.number):  # kept as it is, for arithmetic depends on its type
        return {"number": value.dtype.name, "value": value.item()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        value = {"pairs": list(value.items())}
    try:
        if is_dataclass(value) and not isinstance(value, type):
            from softmargin.solvers import SOLVERS

            names: dict[Any, str] = {kind: solver for solver, kind in SOLVERS.items()}
            value = {"solver": names[type(value)], "fields": asdict(value)}
        return json.loads(json.dumps(value, default=np.generic.item))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{name}={value!r} cannot be saved: set it to a number, a name or None first") from error


def _decoded(value: Any) -> Any:
    """A parameter as `_encoded` was given it."""
    if not isinstance(value, dict):
        return value
    if "pairs" in value:
        return dict(value["pairs"])
    if "number" in value:
        return np.dtype(value["number"]).type(value["value"])
    if "kernel" in value:
        return _kernels()[value["kernel"]](**{name: _decoded(number) for name, number in value["fields"].items()})
    from softmargin.solvers import SOLVERS

    return SOLVERS[value["solver"]](**value["fields"])


def _restored(about: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """The estimator that `save` was given."""
    model = CLASSES[about["class"]](**{name: _decoded(value) for name, value in about["parameters"].items()})
    model.intercept_, model.n_features_in_ = arrays["intercept"], int(about["n_features"])
    if "classes" in arrays:
        model.classes_ = arrays["classes"]
    (_set_kernel_model if _has_kernel(model) else _set_linear_model)(model, about, arrays)
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)
    if about["first_index"] is not None:
        model.first_index_ = int(about["first_index"])
    if about["fit"]:  # models from LIBLINEAR and LIBSVM have none
        _tell_fit(model, about["fit"])
    return model


def _set_linear_model(model: Any, about: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Set the weights."""
    model.coef_ = arrays["coef"]
    shape = np.atleast_2d(model.coef_).shape
    if shape != (len(model.intercept_), model.n_features_in_):
        raise ValueError(
            f"weights of shape {shape} for {len(model.intercept_)} scores of {model.n_features_in_} features"
        )
    _check_finite(model.coef_, model.intercept_)
    if isinstance(model, LinearSVC) and len(model.classes_) != (2 if shape[0] == 1 else shape[0]):
        raise ValueError(f"{len(model.classes_)} labels for {shape[0]} scores")


def _set_kernel_model(model: Any, about: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Set the support vectors and their coefficients."""
    found = about["kernel"] | arrays
    for name in KERNEL_NEEDS + tuple(name for name in KERNEL_ARRAYS + KERNEL_NUMBERS if name in found):
        setattr(model, name, found[name])
    if "shape_fit_" in found:
        model.shape_fit_ = tuple(found["shape_fit_"])
    if isinstance(model, OneClassSVM):
        model.offset_ = -model.intercept_
    n, count = model.dual_coef_.shape[1], len(model.classes_) if isinstance(model, (SVC, SlackSVC, NuSVC)) else 2
    if "vectors" in arrays:
        model.support_vectors_ = arrays["vectors"]
    else:
        parts = arrays["entries"], arrays["columns"], arrays["starts"]
        model.support_vectors_ = sp.csr_array(parts, shape=(n, model.n_features_in_))
        model.support_vectors_.check_format(full_check=True)
    _check_kernel_model(model, n, count)
    _check_finite(model.dual_coef_, model.intercept_, arrays["vectors" if "vectors" in arrays else "entries"])


def _check_kernel_model(model: Any, n: int, count: int) -> None:
    """Refuse a model with n support vectors and `count` classes whose parts do not fit together."""
    precomputed = isinstance(model.kernel, str) and model.kernel == "precomputed"
    if precomputed:
        known = model.support_.min(initial=0) >= 0 and model.support_.max(initial=-1) < model.shape_fit_[0]
        fits = known and model.support_.shape == (n,)
    else:
        fits = model.support_vectors_.shape == (n, model.n_features_in_)
    sizes = model.n_support_
    if not fits or sizes.min() < 0 or sizes.sum() != n or len(sizes) != (count if hasattr(model, "classes_") else 1):
        raise ValueError(f"{n} coefficients for other support vectors")
    if model.dual_coef_.shape[0] != count - 1 or model.intercept_.shape != (count * (count - 1) // 2,):
        raise ValueError(f"{model.dual_coef_.shape[0]} coefficients a vector for {count} classes")
    float(model._gamma)


def _check_finite(*arrays: Any) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("weights that are not finite")


def _tell_fit(model: Any, fit: dict[str, Any]) -> None:
    """Set the attributes that tell how the fit went."""
    from softmargin.certificate import Certificate
    from softmargin.history import History, Record
    from softmargin.problem import Work

    def certificate(primal: float, dual: float, work: list[Any], floor: float) -> Certificate:
        return Certificate(primal, dual, Work(*work), floor)

    model.certificate_ = certificate(*fit["certificate_"])
    model.dual_gap_ = model.certificate_.gap
    model.converged_, model.status_, model.n_iter_ = fit["converged_"], fit["status_"], _decoded(fit["n_iter_"])
    if isinstance(model.n_iter_, list):  # one number for each pair of classes
        model.n_iter_ = np.array(model.n_iter_, np.int32)
    runs = [fit["history_"]] if len(model.intercept_) == 1 else fit["history_"]
    histories = [History(Record(seconds, certificate(*numbers)) for seconds, numbers in run) for run in runs]
    model.history_ = histories[0] if len(runs) == 1 else histories
