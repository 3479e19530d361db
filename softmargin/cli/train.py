"""``softmargin train``."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from softmargin.cli import common


def known_solver(name: str) -> str:
    """A name, refused unless it is in the table of solvers."""
    from softmargin import SOLVERS

    if name not in SOLVERS:
        raise typer.BadParameter(f"{name!r} is not known: choose one of {', '.join(SOLVERS)}")
    return name


Model = Annotated[Path | None, typer.Argument(help="File to write (default: DATA's name + '.model', here).")]
Weight = Annotated[float, typer.Option("--C", "-C", callback=common.finite_above_zero, help="Weight of the loss.")]
Loss = Annotated[common.Loss, typer.Option(help="What to train with; epsilon_insensitive is regression.")]
Epsilon = Annotated[
    float | None, typer.Option(min=0.0, help="Regression: errors up to this cost nothing (default: 0).")
]
Gap = Annotated[float, typer.Option(callback=common.finite_above_zero, help="Relative duality gap to reach.")]
SolverName = Annotated[str, typer.Option(callback=known_solver, help="One that 'softmargin solvers' lists.")]
Seconds = Annotated[float | None, typer.Option(callback=common.above_zero, help="In seconds.")]
Passes = Annotated[float, typer.Option(callback=common.above_zero, help="Passes over the data; 'inf' for any.")]
NoBias = Annotated[bool, typer.Option("--no-bias", help="Train without an intercept.")]
BiasScale = Annotated[
    float | None,
    typer.Option(
        callback=common.finite_above_zero, help="Penalise the intercept, as weight of a feature of this size."
    ),
]
Columns = Annotated[int | None, typer.Option(min=1, help="Number of features (default: the largest in DATA).")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the order in which rows are visited.")]
Checkpoint = Annotated[Path | None, typer.Option(help="File to save the run to, and to go on from if it exists.")]
Format = Annotated[
    Literal["softmargin", "liblinear"], typer.Option("--format", help="Of the model file; LIBLINEAR's does not keep C.")
]


EARLY = {
    "passes": "the limit of passes was reached: raise --max-passes or --gap, or scale the features to similar sizes",
    "seconds": "the time limit was reached: raise --time-limit or --gap, or save the run with --checkpoint and go on",
}


def command(
    data: common.Data,
    model: Model = None,
    C: Weight = 1.0,
    loss: Loss = "hinge",
    epsilon: Epsilon = None,
    gap: Gap = 1e-3,
    solver: SolverName = "auto",
    time_limit: Seconds = None,
    max_passes: Passes = 1000.0,
    no_bias: NoBias = False,
    bias_scale: BiasScale = None,
    class_weight: common.ClassWeight = None,
    n_features: Columns = None,
    zero_based: common.ZeroBased = None,
    float64: common.Float64 = False,
    jobs: common.Jobs = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = None,
    file_format: Format = "softmargin",
    as_json: common.AsJson = False,
    quiet: common.Quiet = False,
) -> None:
    """Train a linear model and say how far from the best it can be.

    Ctrl-C ends the training and keeps the model so far. Exit codes: 0 the gap was reached, 1 bad data, 2 bad usage or a
    path that cannot be written, 3 ended early (time or passes) with a usable model, 130 Ctrl-C.

    Example: `softmargin train a9a a9a.model --C 0.1 --gap 1e-4`
    """
    regression = loss == "epsilon_insensitive"
    _refuse_if(epsilon is not None and not regression, "--epsilon", "it is for --loss epsilon_insensitive only")
    _refuse_if(class_weight is not None and regression, "--class-weight", "regression has no classes")
    _refuse_if(bias_scale is not None and no_bias, "--bias-scale", "there is no intercept with --no-bias")
    options: dict[str, Any] = {"C": C, "tol": gap, "solver": solver, "time_limit": time_limit, "max_iter": max_passes}
    options |= {"fit_intercept": not no_bias, "intercept_scaling": bias_scale, "checkpoint": checkpoint}
    options |= {"n_jobs": jobs, "random_state": seed, "verbose": 0 if quiet else 1}
    weights = common.class_weights(class_weight)
    options |= {"epsilon": epsilon or 0.0} if regression else {"loss": loss, "class_weight": weights}
    _refuse_if(str(model) == "-", "MODEL", "a model cannot be written to the standard output: name a file")
    path = model or Path(("softmargin" if data == "-" else Path(data).name) + ".model")
    common.check_writable(path, "MODEL", other_than=data)
    if checkpoint is not None:
        common.check_writable(checkpoint, "--checkpoint", other_than=data)
    rows = common.read_rows(data, float64=float64, zero_based=zero_based, n_features=n_features)
    facts, code = _train_and_save(rows, options, path, file_format)
    if as_json:
        common.print_json(facts)
    elif not quiet:
        _summary(facts)
    raise typer.Exit(code)


def _refuse_if(wrong: bool, option: str, why: str) -> None:
    if wrong:
        raise typer.BadParameter(why, param_hint=option)


def _train_and_save(
    rows: common.Loaded, options: dict[str, Any], path: Path, file_format: str
) -> tuple[dict[str, Any], int]:
    """Train, write the model, and tell what came of it, with the exit code."""
    from sklearn.exceptions import ConvergenceWarning

    from softmargin import LinearSVC, LinearSVR
    from softmargin.liblinear import save_liblinear
    from softmargin.persist import save
    from softmargin.threads import interrupts

    X, y, first_index = rows
    estimator: Any
    if "epsilon" in options:
        estimator = LinearSVR(**options)
    else:
        estimator, y = LinearSVC(**options), common.integers_if_whole(y)
        if y.dtype.kind == "f":
            raise ValueError("DATA has labels that are not integers: for regression, say --loss epsilon_insensitive")
    began = time.perf_counter()
    with interrupts() as interrupted, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below, in this program's words
        estimator.fit(X, y)
    seconds = time.perf_counter() - began
    estimator.first_index_ = first_index
    (save_liblinear if file_format == "liblinear" else save)(estimator, path)
    stopped = interrupted.is_set() and not estimator.converged_
    certificate = estimator.certificate_
    if stopped:
        print(f"interrupted: the model so far is in {path}", file=sys.stderr)
    elif not estimator.converged_:
        print(f"warning: ended early, {EARLY[estimator.status_]}", file=sys.stderr)
    facts = {
        "rows": X.shape[0],
        "features": X.shape[1],
        "classes": len(estimator.classes_) if hasattr(estimator, "classes_") else None,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "relative_gap": certificate.relative_gap,
        "converged": estimator.converged_,
        "status": estimator.status_,
        "passes": float(certificate.work.passes),
        "seconds": seconds,
        "model": str(path),
    }
    return facts, 130 if stopped else 0 if estimator.converged_ else 3


def _summary(facts: dict[str, Any]) -> None:
    """Print what came of a training."""
    shown = {name: facts[name] for name in ("rows", "features", "classes") if facts[name] is not None}
    shown["objective"] = f"{facts['primal']:.7g}"
    shown["optimum"] = (
        f"at least {facts['dual']:.7g}, so the model is at most {facts['relative_gap']:.1e} (relative) above it"
    )
    shown["passes"] = f"{facts['passes']:.1f}"
    shown["seconds"] = f"{facts['seconds']:.2f}"
    shown["model"] = facts["model"]
    common.print_facts(shown)
