"""``softmargin certify``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from softmargin.cli import common

if TYPE_CHECKING:
    from softmargin import Certificate, Problem

Bias = Literal["none", "free", "penalised"]


ModelFile = Annotated[Path, typer.Argument(help="Model of softmargin, LIBLINEAR or LIBSVM.")]
TrainingData = Annotated[str, typer.Argument(help="The file it was trained on; '-' for the standard input.")]
Weight = Annotated[
    float | None,
    typer.Option(
        "--C", "-C", callback=common.finite_above_zero, help="Default: the model's, 1 for LIBLINEAR's and LIBSVM's."
    ),
]
Loss = Annotated[common.Loss | None, typer.Option(help="Default: the model's.")]
Epsilon = Annotated[
    float | None, typer.Option(min=0.0, help="Default: the model's, 0 for LIBLINEAR's, 0.1 for LIBSVM's.")
]
BiasOption = Annotated[Bias | None, typer.Option(help="Default: the model's; LIBLINEAR's is penalised, LIBSVM's free.")]
BiasScale = Annotated[
    float | None,
    typer.Option(callback=common.finite_above_zero, help="Size of the penalised bias feature. Default: the model's."),
]
Gap = Annotated[float, typer.Option(callback=common.finite_above_zero, help="Accuracy of the bound.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the relative distance alone.")]


def command(
    model: ModelFile,
    data: TrainingData,
    C: Weight = None,
    loss: Loss = None,
    epsilon: Epsilon = None,
    class_weight: common.ClassWeight = None,
    bias: BiasOption = None,
    bias_scale: BiasScale = None,
    gap: Gap = 1e-4,
    zero_based: common.ZeroBased = None,
    float64: common.Float64 = False,
    jobs: common.Jobs = None,
    as_json: common.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say how far any model is from the optimum of its training problem: a proven bound.

    Several classes are one problem each, one against the rest, or for kernel models each pair of them; the sum is
    reported too. Every row counts once, times the weight of its class. Kernel models are those of C-SVC and ε-SVR.

    Example: `softmargin certify a9a.model a9a --C 0.1`
    """
    if bias_scale is not None and bias not in (None, "penalised"):
        raise typer.BadParameter(f"there is no bias to penalise with --bias {bias}", param_hint="--bias-scale")
    weights = common.class_weights(class_weight)
    estimator = common.read_model(model)
    classifies, kernel = hasattr(estimator, "classes_"), hasattr(estimator, "kernel")
    if kernel and type(estimator).__name__ not in ("SVC", "SVR"):
        raise ValueError(
            f"{model} is a model of {type(estimator).__name__}: only those of C-SVC and ε-SVR are certified"
        )
    if kernel and loss in ("squared_hinge", "logistic"):
        raise typer.BadParameter(f"{model} is a kernel model, which has another loss", param_hint="--loss")
    if loss is not None and classifies == (loss == "epsilon_insensitive"):
        raise typer.BadParameter(f"{model} is a {'classifier' if classifies else 'regression'}", param_hint="--loss")
    if epsilon is not None and classifies:
        raise typer.BadParameter(f"{model} is a classifier", param_hint="--epsilon")
    if weights is not None and not classifies:
        raise typer.BadParameter(f"{model} is a regression: it has no classes", param_hint="--class-weight")
    changed: dict[str, Any] = {"C": C, "loss": loss, "epsilon": epsilon, "class_weight": weights}
    known = estimator.get_params()
    estimator.set_params(**{name: value for name, value in changed.items() if value is not None and name in known})
    rows = common.rows_for(estimator, data, model, float64=float64, zero_based=zero_based)
    problem = _bias(estimator, bias, bias_scale)
    if kernel:
        from softmargin.cli import certify_kernel

        if rows.X.shape[0] != rows.X.shape[1] and estimator.kernel == "precomputed":
            raise ValueError(
                f"{data} has {rows.X.shape[0]} rows of {rows.X.shape[1]} kernel values: give training rows"
            )
        certificates = certify_kernel.certified(estimator, rows.X, rows.y, problem, gap, jobs)
    else:
        certificates = _certified(estimator, _problems(estimator, rows.X, rows.y, problem, jobs), gap)
    shape = {"rows": rows.X.shape[0], "features": rows.X.shape[1]}
    _report(shape, problem, certificates, model, estimator, as_json, quiet)


def _bias(estimator: Any, kind: Bias | None, scale: float | None) -> dict[str, Any]:
    """How the problem has its bias: as the options say, else as the model was trained."""
    trained = estimator.intercept_scaling
    if kind is None and scale is None:
        kind = "none" if not estimator.fit_intercept else "free" if trained is None else "penalised"
    kind = kind or "penalised"
    return {"bias": kind, "bias_scale": scale or trained or 1.0} if kind == "penalised" else {"bias": kind}


def _problems(estimator: Any, X: Any, y: Any, bias: dict[str, Any], jobs: int | None) -> dict[str, Problem]:
    """The training problems behind a model, by the label that is against the rest (or by nothing, if it is one)."""
    import numpy as np

    from softmargin import EpsilonInsensitive, Problem, validate
    from softmargin.losses import CLASSIFICATION

    options = {"C": estimator.C, "n_jobs": jobs, **bias}
    if not hasattr(estimator, "classes_"):
        return {"": Problem.of(X, y, loss=EpsilonInsensitive(estimator.epsilon), **options)}
    classes = estimator.classes_
    common.check_labels(y, classes)
    index = np.searchsorted(classes, y)
    weight = validate.class_weights(estimator.class_weight, classes, index, np.ones(len(y)))[index]
    kept = weight > 0.0
    X, index = (X, index) if kept.all() else (X[kept], index[kept])
    ones = np.ones(len(index))
    shared = Problem.of(X, ones, loss=CLASSIFICATION[estimator.loss], sample_weight=weight[kept], **options)
    positives = {"": 1} if len(classes) == 2 else {str(label): k for k, label in enumerate(classes.tolist())}
    return {name: replace(shared, y=np.where(index == k, 1.0, -1.0)) for name, k in positives.items()}


def _certified(estimator: Any, problems: dict[str, Problem], gap: float) -> dict[str, Certificate]:
    """The certificate of each problem."""
    import numpy as np

    from softmargin import Model, certify
    from softmargin.threads import interrupts

    models = [Model(w, float(b)) for w, b in zip(np.atleast_2d(estimator.coef_), estimator.intercept_, strict=True)]
    with interrupts():  # one Ctrl-C ends them all
        pairs = zip(problems.items(), models, strict=True)
        return {name: certify(problem, model, gap=gap) for (name, problem), model in pairs}


def _report(
    shape: dict[str, int],
    problem: dict[str, Any],
    found: dict[str, Certificate],
    model: Path,
    estimator: Any,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print what is proven."""
    from softmargin import Certificate

    total = Certificate(sum(c.primal for c in found.values()), sum(c.dual for c in found.values()))
    facts = {
        "model": str(model),
        **shape,
        "loss": getattr(estimator, "loss", "hinge" if hasattr(estimator, "classes_") else "epsilon_insensitive"),
        "C": estimator.C,
        "bias": problem["bias"],
        "primal": total.primal,
        "dual": total.dual,
        "relative_gap": total.relative_gap,
    }
    if "bias_scale" in problem:
        facts["bias_scale"] = problem["bias_scale"]
    kernel = hasattr(estimator, "kernel")
    if kernel:
        facts["kernel"] = estimator.kernel if isinstance(estimator.kernel, str) else repr(estimator.kernel)
    if len(found) > 1:
        facts["pairs" if kernel else "classes"] = [
            {"labels" if kernel else "label": label, "primal": c.primal, "dual": c.dual, "relative_gap": c.relative_gap}
            for label, c in found.items()
        ]
    if as_json:
        common.print_json(facts)
    elif quiet:
        print(f"{total.relative_gap:.2e}")
    else:
        size = f"{shape['rows']} rows, {shape['features']} features"
        kind = f"{facts['kernel']} kernel, " if kernel else ""
        biases = {"none": "no bias", "free": "free bias"}
        bias = biases.get(problem["bias"]) or f"bias penalised at scale {problem['bias_scale']:g}"
        shown = {"problem": f"{size}, {kind}{facts['loss']} loss, C={facts['C']:g}, {bias}"}
        shown |= {
            f"{'classes' if kernel else 'class'} {label}": _line(certificate)
            for label, certificate in found.items()
            if label
        }
        common.print_facts(shown | {"total" if len(found) > 1 else "model": _line(total)})


def _line(certificate: Certificate) -> str:
    return (
        f"objective {certificate.primal:.7g}, optimum at least {certificate.dual:.7g}: "
        f"at most {certificate.relative_gap:.1e} (relative) above it"
    )
