"""``softmargin train``."""

from __future__ import annotations

import math
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


def gamma_of(value: str | None) -> Any:
    """What is meant by a text: 'scale', 'auto', or a number."""
    if value is None or value in ("scale", "auto"):
        return value
    try:
        return common.finite_above_zero(float(value))
    except ValueError as error:
        raise typer.BadParameter(f"{value!r} is neither 'scale', nor 'auto', nor a number") from error


def finite(value: float | None) -> float | None:
    """An option's value, refused unless it is a finite number."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value:g} is not a finite number")
    return value


def share_of_one(value: float | None) -> float | None:
    """An option's value, refused unless it is a share."""
    if value is not None and not 0.0 < value <= 1.0:
        raise typer.BadParameter(f"{value:g} is not a share: above 0, at most 1")
    return value


KernelName = Literal["linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed"]
MachineName = Literal["svc", "nu_svc", "one_class", "svr", "nu_svr"]
CLASSES = {"svc": "SVC", "nu_svc": "NuSVC", "one_class": "OneClassSVM", "svr": "SVR", "nu_svr": "NuSVR"}
OF_LOSS = {"hinge": "svc", "epsilon_insensitive": "svr"}
TAKES = {  # which machines, and which kernels, an option is for
    "--C": ("svc", "svr", "nu_svr"),
    "--epsilon": ("svr",),
    "--nu": ("nu_svc", "one_class", "nu_svr"),
    "--class-weight": ("svc", "nu_svc"),
    "--no-bias": ("svc", "svr"),
    "--bias-scale": ("svc", "svr"),
    "--gamma": ("poly", "rbf", "sigmoid", "laplacian"),
    "--degree": ("poly",),
    "--coef0": ("poly", "sigmoid"),
}


Model = Annotated[Path | None, typer.Argument(help="File to write (default: DATA's name + '.model', here).")]
Weight = Annotated[
    float | None,
    typer.Option("--C", "-C", callback=common.finite_above_zero, help="Weight of the loss (default: 1)."),
]
Loss = Annotated[
    common.Loss | None, typer.Option(help="What to train with; epsilon_insensitive is regression (default: hinge).")
]
Epsilon = Annotated[
    float | None,
    typer.Option(min=0.0, help="Regression: errors up to this cost nothing (default: 0, with a kernel 0.1)."),
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
    Literal["softmargin", "liblinear", "libsvm"],
    typer.Option("--format", help="Of the model file; LIBLINEAR's and LIBSVM's (with --kernel) do not keep C."),
]
Kernel = Annotated[
    KernelName | None, typer.Option(help="Train a kernel model; rows of precomputed values are 0:row 1:value 2:value.")
]
Machine = Annotated[
    MachineName | None, typer.Option(help="With --kernel (default: as --loss means, svc or svr).", show_default=False)
]
Gamma = Annotated[
    str | None, typer.Option(callback=gamma_of, help="Of the kernel: 'scale', 'auto' or a number (default: scale).")
]
Degree = Annotated[float | None, typer.Option(min=0.0, help="Of the kernel poly (default: 3).")]
Coef0 = Annotated[float | None, typer.Option(callback=finite, help="Of the kernels poly and sigmoid (default: 0).")]
Nu = Annotated[
    float | None, typer.Option(callback=share_of_one, help="Of nu_svc, nu_svr and one_class (default: 0.5).")
]
CacheSize = Annotated[
    float | None,
    typer.Option(
        callback=common.finite_above_zero, help="Megabytes for kernel values (default: half of what is free)."
    ),
]


EARLY = {
    "passes": "the limit of passes was reached: raise --max-passes or --gap, or scale the features to similar sizes",
    "stationary": "at a stationary point: the kernel is no inner product, so that no gap can be proven",
    "seconds": "the time limit was reached: raise --time-limit or --gap, or save the run with --checkpoint and go on",
}


def command(
    data: common.Data,
    model: Model = None,
    C: Weight = None,
    loss: Loss = None,
    epsilon: Epsilon = None,
    kernel: Kernel = None,
    machine: Machine = None,
    gamma: Gamma = None,
    degree: Degree = None,
    coef0: Coef0 = None,
    nu: Nu = None,
    cache_size: CacheSize = None,
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
    """Train a linear or kernel model and say how far from the best it can be.

    Ctrl-C ends the training and keeps the model so far. Exit codes: 0 the gap was reached, 1 bad data, 2 bad usage or a
    path that cannot be written, 3 ended early (time or passes) with a usable model, 130 Ctrl-C.

    Example: `softmargin train a9a a9a.model --C 0.1 --gap 1e-4`, or `softmargin train a9a --kernel rbf --gamma 0.05`
    """
    given: dict[str, Any] = {"--C": C, "--epsilon": epsilon, "--class-weight": class_weight, "--bias-scale": bias_scale}
    given |= {"--no-bias": no_bias or None, "--gamma": gamma, "--degree": degree, "--coef0": coef0, "--nu": nu}
    _refuse_if(bias_scale is not None and no_bias, "--bias-scale", "there is no intercept with --no-bias")
    options: dict[str, Any] = {"tol": gap, "solver": solver, "time_limit": time_limit, "max_iter": max_passes}
    options |= {"checkpoint": checkpoint, "random_state": seed, "verbose": 0 if quiet else 1}
    bias = {"fit_intercept": not no_bias, "intercept_scaling": bias_scale}
    weights = common.class_weights(class_weight)
    if kernel is None:
        name = "LinearSVR" if loss == "epsilon_insensitive" else "LinearSVC"
        _check_linear(given | {"--machine": machine, "--cache-size": cache_size}, loss or "hinge", solver, file_format)
        options |= {"C": 1.0 if C is None else C, "n_jobs": jobs, **bias}
        linear: dict[str, Any] = {"epsilon": epsilon or 0.0}
        options |= linear if name == "LinearSVR" else {"loss": loss or "hinge", "class_weight": weights}
    else:
        chosen = _machine(machine, loss)
        name = CLASSES[chosen]
        _check_kernel(given, kernel, chosen, solver, file_format)
        _refuse_if(kernel == "precomputed" and n_features is not None, "--n-features", "the values have no features")
        options |= {"kernel": kernel, "cache_size": cache_size, "n_jobs": -1 if jobs is None else jobs}
        told = {"C": C, "epsilon": epsilon, "gamma": gamma, "degree": degree, "coef0": coef0, "nu": nu}
        told["class_weight"] = weights
        options |= {option: value for option, value in told.items() if value is not None}
        options |= bias if chosen in TAKES["--no-bias"] else {}
    serials = common.serials_first(kernel, zero_based)
    _refuse_if(str(model) == "-", "MODEL", "a model cannot be written to the standard output: name a file")
    path = model or Path(("softmargin" if data == "-" else Path(data).name) + ".model")
    common.check_writable(path, "MODEL", other_than=data)
    if checkpoint is not None:
        common.check_writable(checkpoint, "--checkpoint", other_than=data)
    rows = common.read_rows(data, float64=float64, zero_based=serials or zero_based, n_features=n_features)
    rows = _kernel_values(rows, data) if serials else rows
    facts, code = _train_and_save(rows, name, options, path, file_format)
    if as_json:
        common.print_json(facts)
    elif not quiet:
        _summary(facts)
    raise typer.Exit(code)


def _refuse_if(wrong: bool, option: str, why: str) -> None:
    if wrong:
        raise typer.BadParameter(why, param_hint=option)


def _check_linear(given: dict[str, Any], loss: str, solver: str, file_format: str) -> None:
    """Refuse what is for other losses, or for kernel models only."""
    for option in ("--machine", "--gamma", "--degree", "--coef0", "--nu", "--cache-size"):
        _refuse_if(given[option] is not None, option, "it is for kernel models: say --kernel too")
    regression = loss == "epsilon_insensitive"
    hint = "it is for --loss epsilon_insensitive only"
    _refuse_if(given["--epsilon"] is not None and not regression, "--epsilon", hint)
    _refuse_if(given["--class-weight"] is not None and regression, "--class-weight", "regression has no classes")
    _refuse_if(file_format == "libsvm", "--format", "LIBSVM's is for kernel models: say --kernel linear, or liblinear")
    _refuse_if(not _solves(solver, "linear"), "--solver", f"{solver} is for kernel models: say --kernel too")


def _solves(solver: str, problem: str) -> bool:
    from softmargin import SOLVERS

    return solver == "auto" or problem in SOLVERS[solver].supports.problems


def _machine(machine: MachineName | None, loss: str | None) -> str:
    """The machine that is meant."""
    meant = OF_LOSS.get(loss or "hinge")
    _refuse_if(meant is None, "--loss", f"kernel models are trained with {' or '.join(OF_LOSS)}, not with {loss}")
    _refuse_if(machine not in (None, meant) and loss is not None, "--loss", f"{machine} has a loss of its own")
    return machine or meant or ""


def _check_kernel(given: dict[str, Any], kernel: str, machine: str, solver: str, file_format: str) -> None:
    """Refuse what the machine or the kernel has not."""
    for option, takers in TAKES.items():
        of_kernel = option in ("--gamma", "--degree", "--coef0")
        chosen = f"--kernel {kernel}" if of_kernel else f"--machine {machine}"
        known = (kernel if of_kernel else machine) in takers
        _refuse_if(given[option] is not None and not known, option, f"it is for {', '.join(takers)}, not {chosen}")
    _refuse_if(
        file_format == "liblinear", "--format", "LIBLINEAR's is for linear models: leave out --kernel, or libsvm"
    )
    theirs = file_format == "libsvm"
    _refuse_if(theirs and kernel == "laplacian", "--format", "LIBSVM has no kernel laplacian: leave out --format")
    _refuse_if(theirs and (given["--degree"] or 0) % 1 > 0, "--degree", "LIBSVM's are whole numbers")
    _refuse_if(not _solves(solver, "kernel"), "--solver", f"{solver} is for linear models, without --kernel")


def _kernel_values(rows: common.Loaded, data: str) -> common.Loaded:
    """The matrix of kernel values, without the serial numbers, which must be 1 to n."""
    import numpy as np

    serials, n = rows.X[:, [0]].toarray()[:, 0], rows.X.shape[0]
    wrong = np.flatnonzero(serials != np.arange(1, n + 1))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"{data}: row {row + 1} has the serial number {serials[row]:g}; rows of a precomputed kernel begin with "
            "0:1, 0:2, ..., and the values follow them (1: with the first row, 2: with the second, ...)"
        )
    X = rows.X[:, 1:]
    if X.shape[1] > n:
        raise ValueError(
            f"{data} has {n} rows of {X.shape[1]} kernel values: for training give each row's with all {n}"
        )
    X.resize(n, n)
    return common.Loaded(X.toarray() if 2 * X.nnz > n * n else X, rows.y, rows.first_index)


def _train_and_save(
    rows: common.Loaded, name: str, options: dict[str, Any], path: Path, file_format: str
) -> tuple[dict[str, Any], int]:
    """Train, write the model, and tell what came of it, with the exit code."""
    from sklearn.exceptions import ConvergenceWarning

    import softmargin
    from softmargin.threads import interrupts

    X, y, first_index = rows
    estimator = getattr(softmargin, name)(**options)
    if name.endswith("SVC"):
        y = common.integers_if_whole(y)
        if y.dtype.kind == "f":
            raise ValueError("DATA has labels that are not integers: for regression, say --loss epsilon_insensitive")
    began = time.perf_counter()
    with interrupts() as interrupted, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below, in this program's words
        estimator.fit(X, y)
    seconds = time.perf_counter() - began
    estimator.first_index_ = first_index
    writers = {"liblinear": "save_liblinear", "libsvm": "save_libsvm", "softmargin": "save"}
    getattr(softmargin, writers[file_format])(estimator, path)
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
    bound = f"at least {facts['dual']:.7g}, so the model is at most {facts['relative_gap']:.1e} (relative) above it"
    shown["optimum"] = bound if math.isfinite(facts["dual"]) else "not known"
    shown["passes"] = f"{facts['passes']:.1f}"
    shown["seconds"] = f"{facts['seconds']:.2f}"
    shown["model"] = facts["model"]
    common.print_facts(shown)
