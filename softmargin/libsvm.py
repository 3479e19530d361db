"""LIBSVM's text format for models: machine, kernel, support vectors and their coefficients, nothing else."""

from __future__ import annotations

import io
import itertools
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from softmargin import archive
from softmargin.estimators.kernel import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SlackSVC
from softmargin.liblinear import Lines, check_fitted, integers

Path = str | os.PathLike[str]

MACHINES: dict[str, type[Any]] = {
    "c_svc": SVC,
    "nu_svc": NuSVC,
    "one_class": OneClassSVM,
    "epsilon_svr": SVR,
    "nu_svr": NuSVR,
}
CLASSIFIERS = ("c_svc", "nu_svc")
KERNELS = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid", "precomputed": "precomputed"}
PARAMETERS = {"polynomial": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
SINGLE: dict[str, Any] = {
    "svm_type": str,
    "kernel_type": str,
    "degree": int,
    "gamma": float,
    "coef0": float,
    "nr_class": int,
    "total_sv": int,
}
SEVERAL: dict[str, Any] = {"rho": float, "label": int, "nr_sv": int}
READ_OVER = ("probA", "probB", "prob_density_marks")  # of probabilities, which softmargin has not


def save_libsvm(model: Any, path: Path) -> None:
    """Write a fitted kernel model as LIBSVM's text, for its ``svm-predict`` and other programs.

    Parameters
    ----------
    model : SVC, SlackSVC (which becomes a c_svc), NuSVC, SVR, NuSVR or OneClassSVM
        Class labels must be integers, and the kernel one that LIBSVM has: not "laplacian", and no callable. Only what
        predictions need is kept, not C, ν or ε. Numbers are written with all their digits.
    path : path

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from softmargin import SVC, save_libsvm
    >>> clf = SVC(gamma=0.5).fit(*load_iris(return_X_y=True))
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "example.model"
    >>> save_libsvm(clf, path)
    >>> path.read_text().split()[:6], clf.certificate_.relative_gap < 1e-3
    (['svm_type', 'c_svc', 'kernel_type', 'rbf', 'gamma', '0.5'], True)
    """
    check_fitted(model, (*MACHINES.values(), SlackSVC))
    machine = next((name for name, kind in MACHINES.items() if kind is type(model)), "c_svc")
    kernel, parameters = _kernel(model)
    header = [f"svm_type {machine}", f"kernel_type {kernel}"]
    header += [f"{name} {value!r}" for name, value in parameters.items()]
    order = np.arange(model.dual_coef_.shape[1])
    sizes = {"nr_class": [2], "total_sv": [len(order)], "rho": (-model.intercept_).tolist()}
    if hasattr(model, "classes_"):
        labels, counts = integers(model.classes_, "LIBSVM"), model.n_support_.tolist()
        if len(labels) == 2:  # its scores are positive for the label named first, and ours for the larger
            order = np.roll(order, -counts[0])
            labels.reverse()
            counts.reverse()
        sizes |= {"nr_class": [len(labels)], "label": labels, "nr_sv": counts}
    header += [f"{name} {' '.join(map(repr, values))}" for name, values in sizes.items()]
    with archive.replacing(path) as stream:
        stream.write("".join(f"{line}\n" for line in [*header, "SV"]).encode())
        vectors = _serial_texts(model, order) if kernel == "precomputed" else _vector_texts(model, order)
        for coef, vector in zip(model.dual_coef_[:, order].T, vectors, strict=True):
            stream.write(f"{' '.join(map(repr, coef.tolist()))} {vector} \n".encode())


def load_libsvm(path: Path, *, n_features: int | None = None) -> Any:
    """The model in a file that LIBSVM's ``svm-train`` wrote.

    Parameters
    ----------
    path : path
    n_features : int, optional
        The number of columns of the rows to be scored (for a precomputed kernel, the number of training rows). The file
        does not tell; by default, as many as its support vectors need.

    Returns
    -------
    SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Fitted, with two classes in ascending order and more in the file's, which decides between equal votes. The file
        does not tell C, ν, ε or class weights, so these have softmargin's defaults, nor which training rows the support
        vectors are, so that there is no ``support_`` but for a precomputed kernel, nor how the fit went: there is no
        ``certificate_``, ``converged_``, ``n_iter_`` or ``history_`` (``softmargin certify`` finds out). What the file
        says of probabilities is read over.

    Raises
    ------
    ValueError
        If the file is not in the format; the message has the number of the line.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from softmargin import OneClassSVM, load_libsvm, save_libsvm
    >>> path, (X, _) = os.path.join(tempfile.mkdtemp(), "example.model"), load_iris(return_X_y=True)
    >>> clf = OneClassSVM(nu=0.1).fit(X)
    >>> save_libsvm(clf, path)
    >>> bool((load_libsvm(path).predict(X) == clf.predict(X)).all()), clf.certificate_.relative_gap < 1e-3
    (True, True)
    """
    from softmargin.kernels import named

    with open(path, "rb") as stream:
        lines = Lines(stream.read().decode("latin-1"))
    try:
        header = _header(lines)
        kernel = KERNELS[header["kernel_type"]]
        parameters = {name: header[name] for name in ("degree", "gamma", "coef0") if name in header}
        model = MACHINES[header["svm_type"]](kernel=kernel, **parameters)
        model._gamma, model._constant = header.get("gamma", 0.0), 0.0
        named(kernel, gamma=model._gamma or 1.0, degree=model.degree, coef0=model.coef0)  # refuses what is out of range
        before = lines.at
        coef, texts = _coefficients(lines, header["total_sv"], header["nr_class"] - 1)
        lines.at = before  # for messages about all of the vectors
        order = _set_scores(model, header, coef)
    except ValueError as error:
        raise ValueError(
            f"{os.fspath(path)}, line {lines.at}: {error}; it is not a LIBSVM model that can be used"
        ) from error
    vectors = _vectors(texts, before, os.fspath(path), kernel == "precomputed")
    if kernel == "precomputed":
        model.support_, model.support_vectors_ = _serials(vectors, os.fspath(path))[order], np.empty((0, 0))
        n = int(model.support_.max(initial=0)) + 1
    else:
        model.support_vectors_, n = vectors[order], vectors.shape[1]
    if n_features is not None and n_features < n:
        raise ValueError(f"n_features={n_features}, but {os.fspath(path)} needs {n}: pass n_features={n} or more")
    widen(model, n_features or n)
    return model


def widen(model: Any, n_features: int) -> None:
    """Let a model from LIBSVM, whose file does not tell how many features there are, take rows of so many."""
    if model.kernel == "precomputed":
        model.shape_fit_ = (n_features, n_features)
    else:
        model.support_vectors_.resize(model.support_vectors_.shape[0], n_features)
    model.n_features_in_ = n_features


def _kernel(model: Any) -> tuple[str, dict[str, Any]]:
    """LIBSVM's name of the kernel, and its parameters."""
    from softmargin.kernels import RBF, Linear, Polynomial, Precomputed, Sigmoid, named

    kernel = named(model.kernel, gamma=model._gamma or 1.0, degree=model.degree, coef0=model.coef0)
    kinds = (Linear, Polynomial, RBF, Sigmoid, Precomputed)
    if type(kernel) not in kinds:
        raise ValueError(f"kernel={model.kernel!r} is not one that LIBSVM has: fit with one of {', '.join(KERNELS)}")
    name = list(KERNELS)[kinds.index(type(kernel))]
    values = {parameter: getattr(kernel, parameter) for parameter in PARAMETERS.get(name, ())}
    if values.get("degree", 0) % 1:
        raise ValueError(f"degree={values['degree']!r}: LIBSVM's are whole numbers; use softmargin's own format")
    return name, {parameter: SINGLE[parameter](value) for parameter, value in values.items()}


def _serial_texts(model: Any, order: Any) -> Iterator[str]:
    """The support vectors of a precomputed kernel: their numbers, from 1."""
    return (f"0:{index + 1}" for index in model.support_[order].tolist())


def _vector_texts(model: Any, order: Any) -> Iterator[str]:
    """The support vectors of any other."""
    rows = sp.csr_array(model.support_vectors_)[order]
    for start, end in itertools.pairwise(rows.indptr.tolist()):
        entries = zip(rows.indices[start:end].tolist(), rows.data[start:end].tolist(), strict=True)
        yield " ".join(f"{index + 1}:{value!r}" for index, value in entries)


def _header(lines: Lines) -> dict[str, Any]:
    """What is said before the support vectors."""
    found: dict[str, Any] = {}
    for name, *values in filter(None, lines):
        if name == "SV":
            break
        if name in READ_OVER:
            continue
        if name not in SINGLE | SEVERAL or name in found:
            raise ValueError(f"{name[:40]!r} is not expected in the header")
        if name in SEVERAL:
            found[name] = [SEVERAL[name](value) for value in values]
            continue
        if len(values) != 1:
            raise ValueError(f"{name} has {len(values)} values where 1 is expected")
        known: Any = {"svm_type": MACHINES, "kernel_type": KERNELS}.get(name)
        if known is not None and values[0] not in known:
            raise ValueError(f"{name} {values[0][:40]} is not one of {', '.join(known)}, the ones that softmargin has")
        found[name] = SINGLE[name](values[0])
    else:
        raise ValueError("there is no line SV")
    _check(found)
    return found


def _check(found: dict[str, Any]) -> None:
    """Refuse a header whose parts do not fit together."""
    classifies = found.get("svm_type") in CLASSIFIERS
    needed = ["svm_type", "kernel_type", *PARAMETERS.get(found.get("kernel_type", ""), ()), "nr_class", "total_sv"]
    needed += ["rho", "label", "nr_sv"] if classifies else ["rho"]
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(f"the header has no {missing[0]}")
    n_classes, rho, labels = found["nr_class"], found["rho"], found.get("label", [])
    if n_classes < 2 or (n_classes != 2 and not classifies):
        raise ValueError(f"nr_class is {n_classes}")
    if len(rho) != n_classes * (n_classes - 1) // 2 or not all(map(math.isfinite, rho)):
        raise ValueError(f"rho has not the {n_classes * (n_classes - 1) // 2} finite values of {n_classes} classes")
    if not classifies:
        if "label" in found or "nr_sv" in found:
            raise ValueError(f"{found['svm_type']} has neither label nor nr_sv")
        return
    if len(set(labels)) != n_classes or len(labels) != n_classes or any(abs(label) >= 2**31 for label in labels):
        raise ValueError(f"nr_class is {n_classes} and the labels are {labels[:10]}, not so many of 32 bits")
    counts = found["nr_sv"]
    if len(counts) != n_classes or min(counts) < 0 or sum(counts) != found["total_sv"]:
        raise ValueError(f"nr_sv is {counts[:10]} where {n_classes} add up to total_sv, {found['total_sv']}")


def _coefficients(lines: Lines, n: int, width: int) -> tuple[Any, list[str]]:
    """The coefficients of the support vectors, and what their lines say behind them."""
    coef, texts = [], []
    for words in lines:
        row = [float(word) for word in words[:width] if ":" not in word]
        if len(row) != width or not all(map(math.isfinite, row)):
            raise ValueError(f"{' '.join(words)[:60]!r} does not begin with {width} finite coefficients")
        if any("#" in word for word in words):  # a comment, in data files
            raise ValueError("'#' is not expected among index:value")
        coef.append(row)
        texts.append(" ".join(words[width:]))
    if len(coef) != n:
        raise ValueError(f"there are {len(coef)} support vectors where total_sv is {n}")
    return np.array(coef, np.float64).reshape(n, width).T, texts


def _set_scores(model: Any, header: dict[str, Any], coef: Any) -> Any:
    """Set coefficients, intercepts and classes; returns the order of the support vectors that belongs to them."""
    intercept, order, counts = -np.array(header["rho"]), np.arange(coef.shape[1]), header.get("nr_sv", [coef.shape[1]])
    if "label" in header:
        labels = header["label"]
        if len(labels) == 2 and labels[0] < labels[1]:  # scores are for the label named first, and ours for the larger
            coef, intercept = -coef, -intercept
        elif len(labels) == 2:
            order, labels, counts = np.roll(order, -counts[0]), labels[::-1], counts[::-1]
        model.classes_ = np.array(labels)
    model.dual_coef_, model.intercept_ = np.ascontiguousarray(coef[:, order]), intercept
    model.n_support_ = np.array(counts, np.int32)
    if isinstance(model, OneClassSVM):
        model.offset_ = -intercept
    return order


def _vectors(texts: list[str], before: int, name: str, precomputed: bool) -> Any:
    """The support vectors as CSR, read by the parser of data files, whose messages have the line's number."""
    from softmargin.svmlight import parsed

    if not texts:
        return sp.csr_array((0, 1))
    stream = io.BytesIO(("\n" * before + "".join(f"0 {text}\n" for text in texts)).encode("latin-1"))
    stream.name = name
    X, _ = parsed(stream, np.float64, precomputed).result(None)
    X.resize(X.shape[0], max(X.shape[1], 1))
    return X


def _serials(vectors: Any, name: str) -> Any:
    """The numbers of the training rows that are support vectors, counted from 0."""
    numbers = vectors[:, [0]].toarray()[:, 0] - 1.0
    whole = (numbers >= 0) & (numbers == np.round(numbers)) & (numbers < 2**31 - 1)
    if vectors.shape[1] > 1 or not whole.all() or len(set(numbers)) != len(numbers):
        raise ValueError(
            f"{name}: its support vectors are not the serial numbers (0:1, 0:2, ...) of a precomputed kernel's; "
            "it is not a LIBSVM model that can be used"
        )
    return numbers.astype(np.int32)
