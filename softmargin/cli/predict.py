"""``softmargin predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from softmargin.cli import common

LINES = 65536  # written at once


def command(
    data: common.Data,
    model: Annotated[Path, typer.Argument(help="Model of softmargin, LIBLINEAR or LIBSVM.")],
    output: Annotated[Path | None, typer.Argument(help="File to write; '-' or none for the standard output.")] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Write scores, not labels: one, positive for the larger label, or one per label in order."
        ),
    ] = False,
    zero_based: common.ZeroBased = None,
    float64: common.Float64 = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the accuracy as JSON on stdout; needs OUTPUT.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show the accuracy.")] = False,
) -> None:
    """Predict the labels of rows, one a line; say how many are right where DATA has labels.

    Example: `softmargin predict a9a.t a9a.model a9a.labels`
    """
    target = None if output is None or str(output) == "-" else output
    if as_json and target is None:
        raise typer.BadParameter(
            "the labels go to the standard output already: name an OUTPUT file", param_hint="--json"
        )
    if target is not None and (target.is_file() or not target.exists()):
        common.check_writable(target, "OUTPUT", other_than=data)
        if target.exists() and model.exists() and target.samefile(model):
            raise typer.BadParameter(f"{target} is the model: choose another path", param_hint="OUTPUT")
    estimator = common.read_model(model)
    classifies = hasattr(estimator, "decision_function")  # outliers from others, too
    if scores and not classifies:
        raise typer.BadParameter(f"{model} is a regression, whose predictions are its scores", param_hint="--scores")
    X, labels, _ = common.rows_for(estimator, data, model, float64=float64, zero_based=zero_based, multilabel=True)
    y = _single(labels, data)
    predicted = estimator.predict(X)
    _write(estimator.decision_function(X) if scores else predicted, target)
    facts = {"rows": X.shape[0]} | _measured(y, predicted, classifies)
    if as_json:
        common.print_json(facts)
    elif not quiet and "accuracy" in facts:
        print(f"accuracy {facts['accuracy']:.4%} ({facts['correct']} of {facts['rows']})", file=sys.stderr)
    elif not quiet and "mean_squared_error" in facts:
        print(f"mean squared error {facts['mean_squared_error']:.7g}", file=sys.stderr)


def _single(labels: list[tuple[float, ...]], data: str) -> Any:
    """The label of every row, None where rows have none, or several."""
    import numpy as np

    counts = {len(several) for several in labels}
    if 0 in counts and len(counts) > 1:
        row = next(row for row, several in enumerate(labels) if not several)
        raise ValueError(f"{data} has labels, but none in row {row + 1}: give every row one, or none")
    return np.array(labels)[:, 0] if counts == {1} else None


def _measured(y: Any, predicted: Any, classifies: bool) -> dict[str, Any]:
    """How right the predictions are, where that can be known."""
    if y is None or predicted.dtype.kind not in "biuf":
        return {}
    if classifies:
        correct = int((predicted == y).sum())
        return {"correct": correct, "accuracy": correct / len(y)}
    return {"mean_squared_error": float(((predicted - y) ** 2).mean())}


def _write(values: Any, target: Path | None) -> None:
    """Write values, one row a line; numbers with the fewest digits that give them back."""
    with common.output(target) as stream:
        for start in range(0, len(values), LINES):
            rows = values[start : start + LINES].tolist()
            lines = [" ".join(map(_text, row)) if isinstance(row, list) else _text(row) for row in rows]
            stream.write(("\n".join(lines) + "\n").encode())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value).removesuffix(".0")
