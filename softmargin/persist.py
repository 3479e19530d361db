"""Models in files, without pickle: softmargin's own format, and LIBLINEAR's text.

Softmargin's own holds all that a fitted estimator knows (parameters, weights, labels, certificate, history) as plain
arrays and JSON, see `archive`: nothing in it can run code. LIBLINEAR's holds the loss, labels and weights alone.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from softmargin import __version__, archive
from softmargin.estimators.linear import LinearSVC, LinearSVR

__all__ = ["load", "load_liblinear", "save", "save_liblinear"]

Path = str | os.PathLike[str]

SCHEMA = 1
CLASSES: dict[str, type[Any]] = {"LinearSVC": LinearSVC, "LinearSVR": LinearSVR}
RUN_ONLY = ("callbacks", "checkpoint")  # parameters that belong to a run on one machine, not to a model

FIT_FACTS = ("certificate_", "converged_", "n_iter_", "history_")

LIBLINEAR_LOSSES = {
    "L2R_L1LOSS_SVC_DUAL": "hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_LR": "logistic",
    "L2R_LR_DUAL": "logistic",
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
}
LIBLINEAR_HEADER = ("solver_type", "nr_class", "label", "nr_feature", "bias")


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
    _check(model)
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


def _check(model: Any) -> None:
    if type(model) not in CLASSES.values():
        raise ValueError(f"model={type(model).__name__}(...) cannot be saved: pass one of {', '.join(CLASSES)}")
    check_is_fitted(model, "coef_")


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
    if about["fit"]:  # models from LIBLINEAR have none
        _tell_fit(model, about["fit"])
    return model


def _tell_fit(model: Any, fit: dict[str, Any]) -> None:
    """Set the attributes that tell how the fit went."""
    from softmargin.certificate import Certificate
    from softmargin.history import History, Record
    from softmargin.problem import Work

    def certificate(primal: float, dual: float, work: list[Any]) -> Certificate:
        return Certificate(primal, dual, Work(*work))

    model.certificate_ = certificate(*fit["certificate_"])
    model.dual_gap_ = model.certificate_.gap
    model.converged_, model.n_iter_ = fit["converged_"], fit["n_iter_"]
    runs = [fit["history_"]] if len(model.intercept_) == 1 else fit["history_"]
    histories = [History(Record(seconds, certificate(*numbers)) for seconds, numbers in run) for run in runs]
    model.history_ = histories[0] if len(runs) == 1 else histories


# ---- LIBLINEAR's format ----


def save_liblinear(model: Any, path: Path) -> None:
    """Write a fitted model as LIBLINEAR's text, for its ``predict`` and other programs.

    Parameters
    ----------
    model : LinearSVC or LinearSVR
        Class labels must be integers. Only labels, weights and the loss are kept. LIBLINEAR has no free intercept: any
        intercept is written as the weight of a feature of size 1, which scores the same.
    path : path

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from softmargin import LinearSVC
    >>> from softmargin.persist import save_liblinear
    >>> clf = LinearSVC(fit_intercept=False).fit([[-1.0], [1.0]], [-1, 1])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "example.model"
    >>> save_liblinear(clf, path)
    >>> path.read_text().split()[:2], clf.certificate_.relative_gap < 1e-3
    (['solver_type', 'L2R_L1LOSS_SVC_DUAL'], True)
    """
    _check(model)
    weights, intercept = np.atleast_2d(model.coef_), model.intercept_
    loss = getattr(model, "loss", "epsilon_insensitive")
    header = [f"solver_type {next(name for name, ours in LIBLINEAR_LOSSES.items() if ours == loss)}"]
    if isinstance(model, LinearSVR):
        header.append("nr_class 2")  # what LIBLINEAR writes there
    else:
        labels = _integers(model.classes_)
        if len(labels) == 2:
            labels.reverse()  # the one column belongs to the label named first, and ours to the larger
        header += [f"nr_class {len(labels)}", f"label {' '.join(map(str, labels))}"]
    rows = weights.T
    if model.fit_intercept:
        rows = np.vstack([rows, intercept])
    header += [f"nr_feature {weights.shape[1]}", f"bias {1 if model.fit_intercept else -1}", "w"]
    with archive.replacing(path) as stream:
        stream.write("".join(f"{line}\n" for line in header).encode())
        for row in rows:
            stream.write(f"{' '.join(map(repr, row.tolist()))} \n".encode())


def load_liblinear(path: Path) -> Any:
    """The model in a file that LIBLINEAR's ``train`` wrote, for the losses that softmargin has.

    Parameters
    ----------
    path : path

    Returns
    -------
    LinearSVC or LinearSVR
        Fitted, with classes in ascending order. The file does not tell C, ε or class weights, so these have
        softmargin's defaults, and how the fit went: there is no ``certificate_``, ``converged_``, ``n_iter_`` or
        ``history_`` (`softmargin.certify` finds out). A bias feature becomes a penalised intercept of that size.

    Raises
    ------
    ValueError
        If the file is not in the format; the message has the number of the line.

    Examples
    --------
    >>> import os, tempfile
    >>> from softmargin import LinearSVC, Model, Problem, certify
    >>> from softmargin.persist import load_liblinear, save_liblinear
    >>> path, X, y = os.path.join(tempfile.mkdtemp(), "example.model"), [[-1.0], [1.0]], [-1, 1]
    >>> save_liblinear(LinearSVC(fit_intercept=False).fit(X, y), path)
    >>> certify(Problem.of(X, y, bias="none"), Model(load_liblinear(path).coef_[0])).relative_gap < 1e-3
    True
    """
    with open(path, "rb") as stream:
        lines = _Lines(stream.read().decode("latin-1"))
    try:
        header = _header(lines)
        labels, n_features, bias = header["label"], header["nr_feature"], header["bias"]
        columns = len(labels) if len(labels) > 2 else 1
        weights = _weights(lines, n_features + (bias >= 0), columns)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}, line {lines.at}: {error}; it is not a whole LIBLINEAR model") from error
    if len(labels) == 2 and labels[0] < labels[1]:
        weights = -weights  # their column belongs to the label named first, and ours to the larger
    elif len(labels) > 2:
        weights = weights[:, np.argsort(labels)]
    options: dict[str, Any] = {"fit_intercept": bias > 0, "intercept_scaling": bias if bias > 0 else None}
    model = LinearSVC(loss=header["solver_type"], **options) if labels else LinearSVR(**options)
    model.coef_ = np.ascontiguousarray(weights[:n_features].T)
    model.intercept_ = weights[n_features] * bias if bias > 0 else np.zeros(columns)
    model.n_features_in_ = n_features
    if labels:
        model.classes_ = np.sort(np.array(labels))
    return model


def _integers(classes: Any) -> list[int]:
    """Labels as LIBLINEAR's integers."""
    if classes.dtype.kind not in "iuf" or (classes % 1 != 0).any() or abs(classes.astype(np.float64)).max() >= 2**31:
        raise ValueError(
            f"LIBLINEAR's labels are integers of 32 bits, and these are {classes.tolist()[:3]}...: "
            "fit with integer labels, or use softmargin's own format"
        )
    return [int(label) for label in classes]


def _header(lines: _Lines) -> dict[str, Any]:
    """What is said before the weights."""
    found: dict[str, Any] = {}
    for name, *values in filter(None, lines):
        if name == "w":
            break
        if name not in LIBLINEAR_HEADER or name in found:
            raise ValueError(f"{name[:40]!r} is not expected in the header")
        if name == "label":
            found[name] = [int(value) for value in values]
            if any(abs(label) >= 2**31 for label in found[name]):
                raise ValueError("a label has more than 32 bits")
            continue
        if len(values) != 1:
            raise ValueError(f"{name} has {len(values)} values where 1 is expected")
        value = values[0]
        if name == "solver_type" and value not in LIBLINEAR_LOSSES:
            raise ValueError(
                f"solver_type {value} is not one of {', '.join(LIBLINEAR_LOSSES)}, the ones that softmargin has"
            )
        found[name] = (
            LIBLINEAR_LOSSES[value] if name == "solver_type" else float(value) if name == "bias" else int(value)
        )
    regression = found.get("solver_type") == "epsilon_insensitive"
    if regression:
        found["label"] = []
    missing = [name for name in LIBLINEAR_HEADER if name not in found]
    if missing:
        raise ValueError(f"the header has no {missing[0]}")
    n_classes, labels = found["nr_class"], found["label"]
    if not regression and (n_classes < 2 or len(labels) != n_classes or len(set(labels)) != n_classes):
        raise ValueError(f"nr_class is {n_classes} and the labels are {labels[:10]}")
    if found["nr_feature"] < 1 or not math.isfinite(found["bias"]):
        raise ValueError(f"nr_feature is {found['nr_feature']} and bias {found['bias']}")
    return found


def _weights(lines: _Lines, n_rows: int, n_columns: int) -> Any:
    """The weights, one line for each feature."""
    rows = []
    for words in lines:
        row = [float(word) for word in words]
        if len(row) != n_columns or not all(map(math.isfinite, row)):
            raise ValueError(f"{' '.join(words)[:60]!r} are not {n_columns} finite weights")
        rows.append(row)
    if len(rows) != n_rows:
        raise ValueError(f"there are {len(rows)} lines of weights where {n_rows} are expected")
    return np.array(rows)


class _Lines:
    """Lines as words, counted for messages."""

    def __init__(self, text: str) -> None:
        self.lines, self.at = text.rstrip().split("\n"), 0

    def __iter__(self) -> Iterator[list[str]]:
        for line in self.lines[self.at :]:
            self.at += 1
            yield line.split()
