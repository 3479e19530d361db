"""LIBLINEAR's text format for models: loss, labels and weights, nothing else."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from softmargin import archive
from softmargin.estimators.linear import LinearSVC, LinearSVR

Path = str | os.PathLike[str]

LIBLINEAR_LOSSES = {
    "L2R_L1LOSS_SVC_DUAL": "hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_LR": "logistic",
    "L2R_LR_DUAL": "logistic",
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
}
LIBLINEAR_HEADER = ("solver_type", "nr_class", "label", "nr_feature", "bias")


def save_liblinear(model: Any, path: Path) -> None:
    """Write a fitted model as LIBLINEAR's text, for its ``predict`` and other programs.

    Parameters
    ----------
    model : LinearSVC or LinearSVR
        Class labels must be integers. Only labels, weights and the loss are kept, not C. The intercept is written as
        the weight of a feature of the size of `intercept_scaling`, or of size 1 where it is free (LIBLINEAR has no free
        intercept), which scores the same.
    path : path

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from softmargin import LinearSVC
    >>> from softmargin import save_liblinear
    >>> clf = LinearSVC(fit_intercept=False).fit([[-1.0], [1.0]], [-1, 1])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "example.model"
    >>> save_liblinear(clf, path)
    >>> path.read_text().split()[:2], clf.certificate_.relative_gap < 1e-3
    (['solver_type', 'L2R_L1LOSS_SVC_DUAL'], True)
    """
    check_fitted(model, (LinearSVC, LinearSVR))
    weights, intercept = np.atleast_2d(model.coef_), model.intercept_
    loss = getattr(model, "loss", "epsilon_insensitive")
    header = [f"solver_type {next(name for name, ours in LIBLINEAR_LOSSES.items() if ours == loss)}"]
    if isinstance(model, LinearSVR):
        header.append("nr_class 2")  # what LIBLINEAR writes there
    else:
        labels = integers(model.classes_, "LIBLINEAR")
        if len(labels) == 2:
            labels.reverse()  # the one column belongs to the label named first, and ours to the larger
        header += [f"nr_class {len(labels)}", f"label {' '.join(map(str, labels))}"]
    rows, size = weights.T, -1.0
    if model.fit_intercept:
        size = float(model.intercept_scaling or 1.0)
        rows = np.vstack([rows, intercept / size])
    header += [f"nr_feature {weights.shape[1]}", f"bias {size:.17g}", "w"]
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
    >>> from softmargin import load_liblinear, save_liblinear
    >>> path, X, y = os.path.join(tempfile.mkdtemp(), "example.model"), [[-1.0], [1.0]], [-1, 1]
    >>> save_liblinear(LinearSVC(fit_intercept=False).fit(X, y), path)
    >>> certify(Problem.of(X, y, bias="none"), Model(load_liblinear(path).coef_[0])).relative_gap < 1e-3
    True
    """
    with open(path, "rb") as stream:
        lines = Lines(stream.read().decode("latin-1"))
    try:
        header = _header(lines)
        labels, n_features, bias = header["label"], header["nr_feature"], header["bias"]
        columns = len(labels) if len(labels) > 2 else 1
        weights = _weights(lines, n_features + (bias >= 0), columns)
    except ValueError as error:
        raise ValueError(
            f"{os.fspath(path)}, line {lines.at}: {error}; it is not a LIBLINEAR model that can be used"
        ) from error
    if len(labels) == 2 and labels[0] < labels[1]:
        weights = -weights  # their column belongs to the label named first, and ours to the larger
    elif len(labels) > 2:
        weights = weights[:, np.argsort(labels)]
    options: dict[str, Any] = {"fit_intercept": bias > 0, "intercept_scaling": bias if bias > 0 else None}
    model = LinearSVC(loss=header["solver_type"], **options) if labels else LinearSVR(**options)
    coef = np.ascontiguousarray(weights[:n_features].T)
    model.coef_ = coef[0] if isinstance(model, LinearSVR) else coef
    model.intercept_ = weights[n_features] * bias if bias > 0 else np.zeros(columns)
    model.n_features_in_ = n_features
    if labels:
        model.classes_ = np.sort(np.array(labels))
    return model


def integers(classes: Any, program: str) -> list[int]:
    """Labels as the program's integers."""
    if classes.dtype.kind not in "iuf" or (classes % 1 != 0).any() or abs(classes.astype(np.float64)).max() >= 2**31:
        raise ValueError(
            f"{program}'s labels are integers of 32 bits, and these are {classes.tolist()[:3]}...: "
            "fit with integer labels, or use softmargin's own format"
        )
    return [int(label) for label in classes]


def _header(lines: Lines) -> dict[str, Any]:
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


def _weights(lines: Lines, n_rows: int, n_columns: int) -> Any:
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


class Lines:
    """Lines as words, counted for messages."""

    def __init__(self, text: str) -> None:
        self.lines, self.at = text.rstrip().split("\n"), 0

    def __iter__(self) -> Iterator[list[str]]:
        for line in self.lines[self.at :]:
            self.at += 1
            yield line.split()


def check_fitted(model: Any, classes: Collection[type[Any]]) -> None:
    """Refuse what is not a fitted estimator of one of these classes."""
    if type(model) not in classes:
        names = ", ".join(kind.__name__ for kind in classes)
        raise ValueError(f"model={type(model).__name__}(...) cannot be saved: pass one of {names}")
    check_is_fitted(model, "intercept_")
