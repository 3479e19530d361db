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

from softmargin import __version__, archive
from softmargin.estimators.linear import LinearSVC, LinearSVR
from softmargin.liblinear import LIBLINEAR_HEADER, check_fitted, load_liblinear

Path = str | os.PathLike[str]

SCHEMA = 1
CLASSES: dict[str, type[Any]] = {"LinearSVC": LinearSVC, "LinearSVR": LinearSVR}
RUN_ONLY = ("callbacks", "checkpoint")  # parameters that belong to a run on one machine, not to a model

FIT_FACTS = ("certificate_", "converged_", "status_", "n_iter_", "history_")


def save(model: Any, path: Path) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    model : LinearSVC or LinearSVR
        Its labels must be numbers, booleans or texts. All parameters are kept but ``callbacks``, ``checkpoint`` and a
        ``random_state`` that is not a number: those become None.
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
    check_fitted(model)
    arrays = {"coef": model.coef_, "intercept": model.intercept_}
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
    archive.write(path, "model", SCHEMA, about, arrays)


def load(path: Path) -> Any:
    """The model in a file that `save`, `save_liblinear` or LIBLINEAR wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    LinearSVC or LinearSVR
        Fitted. From softmargin's format, it predicts as the saved one did, to the last bit; see `load_liblinear` for
        what LIBLINEAR's lacks.

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
    if not first.startswith(b"PK"):
        raise ValueError(f"{os.fspath(path)} is neither a softmargin model nor one of LIBLINEAR's")
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


def _encoded(name: str, value: Any) -> Any:
    """A parameter, or what a fit has told, as JSON has it."""
    if name in RUN_ONLY or (name == "random_state" and not isinstance(value, (int, np.integer))):
        return None
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
    from softmargin.solvers import SOLVERS

    return SOLVERS[value["solver"]](**value["fields"])


def _restored(about: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """The estimator that `save` was given."""
    model = CLASSES[about["class"]](**{name: _decoded(value) for name, value in about["parameters"].items()})
    model.coef_, model.intercept_, model.n_features_in_ = arrays["coef"], arrays["intercept"], int(about["n_features"])
    shape = np.atleast_2d(model.coef_).shape
    if shape != (len(model.intercept_), model.n_features_in_):
        raise ValueError(
            f"weights of shape {shape} for {len(model.intercept_)} scores of {model.n_features_in_} features"
        )
    if not (np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()):
        raise ValueError("weights that are not finite")
    if isinstance(model, LinearSVC):
        model.classes_ = arrays["classes"]
        if len(model.classes_) != (2 if shape[0] == 1 else shape[0]):
            raise ValueError(f"{len(model.classes_)} labels for {shape[0]} scores")
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)
    if about["first_index"] is not None:
        model.first_index_ = int(about["first_index"])
    if about["fit"]:  # models from LIBLINEAR have none
        _tell_fit(model, about["fit"])
    return model


def _tell_fit(model: Any, fit: dict[str, Any]) -> None:
    """Set the attributes that tell how the fit went."""
    from softmargin.certificate import Certificate
    from softmargin.history import History, Record
    from softmargin.problem import Work

    def certificate(primal: float, dual: float, work: list[Any], floor: float) -> Certificate:
        return Certificate(primal, dual, Work(*work), floor)

    model.certificate_ = certificate(*fit["certificate_"])
    model.dual_gap_ = model.certificate_.gap
    model.converged_, model.status_, model.n_iter_ = fit["converged_"], fit["status_"], fit["n_iter_"]
    runs = [fit["history_"]] if len(model.intercept_) == 1 else fit["history_"]
    histories = [History(Record(seconds, certificate(*numbers)) for seconds, numbers in run) for run in runs]
    model.history_ = histories[0] if len(runs) == 1 else histories
