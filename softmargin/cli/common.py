"""What the commands share: options, reading data, paths checked before the work, and ways to print."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

Loss = Literal["hinge", "squared_hinge", "logistic", "epsilon_insensitive"]


def above_zero(value: float | None) -> float | None:
    """An option's value, refused unless it is a number above zero."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value:g} is not a number above 0")
    return value


def finite_above_zero(value: float | None) -> float | None:
    """An option's value, refused unless it is a finite number above zero."""
    if value is not None and math.isinf(value):
        raise typer.BadParameter(f"{value:g} is not a finite number")
    return above_zero(value)


def threads(value: int | None) -> int | None:
    """A number of threads."""
    if value == 0:
        raise typer.BadParameter("0 is not a number of threads: give 1, 2, ..., or -1 for all processors")
    return value


Data = Annotated[
    str, typer.Argument(help="File in the LIBSVM format, also .gz, .bz2 or .xz; '-' for the standard input.")
]
Float64 = Annotated[bool, typer.Option("--float64", help="Read values in double precision (default: single).")]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="Number of the first feature (default: as the model was trained, else 0 if the file has a feature 0).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", callback=threads, help="Threads; -1 for all processors (default: 1, for kernel models all)."
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(help="Factors of C for classes: 'balanced', or for example '1=2,-1=0.5'.", show_default=False),
]


class Loaded(NamedTuple):
    """The contents of a file in the LIBSVM format."""

    X: Any
    y: Any
    first_index: int


OPTIONS = {  # what Python's messages call otherwise
    "for several labels, pass multilabel=True": "the commands take one label a row",
    "pass query_id=True": "the commands take none, remove it",
    "pass n_features=": "pass --n-features ",
}


def read_rows(
    source: str,
    *,
    float64: bool,
    zero_based: bool | None,
    model: Any = None,
    n_features: int | None = None,
    multilabel: bool = False,
) -> Loaded:
    """Rows and labels of a file; features are counted as in the file that `model` was trained on, if that is known."""
    import numpy as np

    from softmargin.svmlight import parsed

    if zero_based is None and model is not None and hasattr(model, "first_index_"):
        zero_based = model.first_index_ == 0
    base: Any = "auto" if zero_based is None else zero_based
    try:
        found = parsed(source, np.float64 if float64 else np.float32, base, multilabel)
        X, y = found.result(n_features)
    except ValueError as error:
        text = str(error)
        for theirs, ours in OPTIONS.items():
            text = text.replace(theirs, ours)
        raise ValueError(text) from error
    if not X.shape[1]:
        raise ValueError(f"{source} has rows without any feature: there is nothing to learn or to predict from")
    return Loaded(X, y, found.first_index)


def integers_if_whole(y: Any) -> Any:
    """Labels as integers where they are."""
    import numpy as np

    return y.astype(np.int64) if (y == np.round(y)).all() and abs(y).max() < 2**53 else y


def read_model(path: Path) -> Any:
    """The model in a file."""
    from softmargin import load

    return load(path)


def rows_for(model: Any, data: str, path: Path, *, float64: bool, zero_based: bool | None, **options: Any) -> Loaded:
    """The rows and labels of a file that a model is to be used with: as many columns as the model has.

    Files that end early get more columns; those that have more are an error, unless the model's file left it open how
    many there are, as LIBSVM's do. Of the rows of a precomputed kernel, the serial numbers are left out.
    """
    precomputed = serials_first(getattr(model, "kernel", None), zero_based)
    X, y, first = read_rows(data, float64=float64, zero_based=precomputed or zero_based, model=model, **options)
    X, n = X[:, 1:] if precomputed else X, model.n_features_in_
    if X.shape[1] > n and hasattr(model, "kernel") and not hasattr(model, "certificate_"):
        from softmargin.libsvm import widen

        widen(model, n := X.shape[1])
    if X.shape[1] > n:
        raise ValueError(
            f"{data} has {X.shape[1]} features and the model {path} has {n}: they do not belong together, "
            "unless --zero-based or --one-based was forgotten"
        )
    X.resize(X.shape[0], n)
    return Loaded(X, y, first)


def serials_first(kernel: Any, zero_based: bool | None) -> bool | None:
    """True for a precomputed kernel, whose rows begin with their serial number, 0:1, 0:2 and so on; else None."""
    if kernel != "precomputed":
        return None
    if zero_based is not None:
        raise typer.BadParameter("rows of a precomputed kernel begin with 0: as they are", param_hint="--zero-based")
    return True


def check_labels(y: Any, classes: Any) -> None:
    """Refuse labels that a model does not know."""
    import numpy as np

    unknown = y[~np.isin(y, classes)]
    if len(unknown):
        known = ", ".join(map(str, classes.tolist()))
        raise ValueError(f"the data have the label {unknown[0]:g}, which is not among the model's: {known}")


def class_weights(text: str | None) -> Any:
    """The class weights that an option means."""
    if text is None or text == "balanced":
        return text
    try:
        pairs = [(float(label), float(weight)) for label, weight in (pair.split("=") for pair in text.split(","))]
    except ValueError as error:
        message = f"{text!r} is neither 'balanced' nor pairs like '1=2,-1=0.5'"
        raise typer.BadParameter(message, param_hint="--class-weight") from error
    if len(dict(pairs)) < len(pairs) or not all(0 <= weight < math.inf for _, weight in pairs):
        message = f"{text!r} has a label twice, or a weight that is not a number from 0 up"
        raise typer.BadParameter(message, param_hint="--class-weight")
    return dict(pairs)


def check_writable(path: Path, hint: str, *, other_than: str = "-") -> None:
    """Refuse a path that cannot be written, before any work; leaves nothing behind."""
    from softmargin import archive

    if other_than != "-" and path.exists() and Path(other_than).exists() and path.samefile(other_than):
        raise typer.BadParameter(f"{path} is what is read: choose another path", param_hint=hint)
    try:
        archive.check_writable(path)
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


@contextlib.contextmanager
def output(path: Path | None) -> Iterator[Any]:
    """A binary stream to a file that appears when it is whole, or to the standard output, or to a device."""
    from softmargin.archive import replacing

    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif path.exists() and not path.is_file():
        with open(path, "wb") as stream:
            yield stream
    else:
        with replacing(path) as stream:
            yield stream


def print_json(facts: dict[str, Any]) -> None:
    """One JSON object, in which numbers that are not finite are null."""
    print(json.dumps({name: _finite(value) for name, value in facts.items()}))


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_facts(facts: dict[str, Any]) -> None:
    """Names and values in two columns."""
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}}  {value}")
