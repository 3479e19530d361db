"""``softmargin demo``: what this package does, in half a minute."""

from __future__ import annotations

import importlib.util
import math
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from softmargin.cli import common

if TYPE_CHECKING:
    from softmargin import Problem

C = 0.1
TOLERANCES = (
    1.0,
    1e-1,
    1e-2,
    1e-3,
    1e-4,
)  # scikit-learn's tol is not a gap, so the one that compares has to be searched
RIVAL_PASSES = 20_000
CURVE_GAP, CURVE_SECONDS = 1e-6, 5.0  # where the curve of the plot ends


class Point(NamedTuple):
    """A model's proven distance from the optimum, and what it cost."""

    label: str
    seconds: float
    passes: float
    gap: float


Output = Annotated[Path, typer.Option("--output", "-o", help="The plot, if matplotlib is installed (extra 'plot').")]


def command(
    output: Output = Path("demo.png"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Train on generated data, compare with scikit-learn at equal proven accuracy, and plot the convergence.

    Example: `softmargin demo --output demo.png`
    """
    can_plot = importlib.util.find_spec("matplotlib") is not None
    if can_plot:
        common.check_writable(output, "--output")
    X, y, problem = _generated()
    print(f"{problem.n} rows, {problem.n_features} features, two classes; hinge loss, C={C}, no bias")
    exact = _dual_point(problem)
    ours = _train(X, y, problem, exact, verbose=0 if quiet else 1)
    print("scikit-learn's LinearSVC on the same problem, both distances proven by softmargin.certify:")
    rivals = _rivals(X, y, problem, exact, ours.gap)
    if rivals[-1].gap <= ours.gap:
        print(f"  as near as ours: softmargin took {rivals[-1].seconds / ours.seconds:.1f} times less time")
    else:
        print(f"  none is as near as ours within {RIVAL_PASSES} passes")
    _digits(verbose=0 if quiet else 1)
    if can_plot:
        _plot(_curve(problem), rivals, output)
        print(f"the convergence is drawn in {output}")
    else:
        print("no plot: it needs matplotlib, pip install 'softmargin[plot]'")


def _generated() -> tuple[Any, Any, Problem]:
    """Rows, labels and the problem that both packages solve; without a bias the two mean exactly the same one."""
    from sklearn.datasets import make_classification

    from softmargin import Problem

    X, y = make_classification(20_000, 100, n_informative=20, n_redundant=20, flip_y=0.05, random_state=0)
    y = 2 * y - 1
    return X, y, Problem.of(X, y, C=C, bias="none")


def _dual_point(problem: Problem) -> Any:
    """A dual point so near the optimum that it proves the distance of any model; making it compiles the solvers."""
    from softmargin import Stop, solve

    began = time.perf_counter()
    a = solve(problem, stop=Stop(gap=1e-7)).a
    print(
        f"  compiled and solved once to a gap of 1e-7 in {time.perf_counter() - began:.2f} s; from here on all is warm"
    )
    return a


def _train(X: Any, y: Any, problem: Problem, exact: Any, verbose: int) -> Point:
    """Our own fit: its certificate, and its distance as `exact` proves it."""
    from softmargin import LinearSVC, Model, certify

    clf = LinearSVC(C=C, fit_intercept=False, random_state=0, verbose=verbose)
    began = time.perf_counter()
    clf.fit(X, y)
    seconds = time.perf_counter() - began
    gap = certify(problem, Model(clf.coef_[0]), exact).relative_gap
    print(f"  softmargin: {seconds:.3f} s; certificate of the fit: {clf.certificate_}; in hindsight {gap:.1e}")
    return Point("softmargin", seconds, clf.certificate_.work.passes, gap)


def _rivals(X: Any, y: Any, problem: Problem, exact: Any, goal: float) -> list[Point]:
    """scikit-learn's fits at falling tolerances, up to the first that is as near the optimum as `goal`."""
    from sklearn import svm

    from softmargin import Model, certify

    points: list[Point] = []
    for tol in TOLERANCES:
        clf = svm.LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=tol, max_iter=RIVAL_PASSES, random_state=0)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge is what the distance says better
            clf.fit(X, y)
        seconds = time.perf_counter() - began
        gap = certify(problem, Model(clf.coef_[0]), exact).relative_gap
        print(f"  tol={tol:g}: {seconds:.3f} s, at most {gap:.1e} above the optimum")
        points.append(Point(f"tol={tol:g}", seconds, float(clf.n_iter_), gap))
        if gap <= goal or clf.n_iter_ >= RIVAL_PASSES:
            break
    return points


def _digits(verbose: int) -> None:
    """Ten classes, one against the rest."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from softmargin import LinearSVC

    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    print(f"{len(X)} handwritten digits, ten classes")
    clf = LinearSVC(C=0.01, random_state=0, verbose=verbose).fit(X / 16.0, y)
    print(
        f"  all ten together: {clf.certificate_}; {clf.score(X_test / 16.0, y_test):.1%} right on {len(X_test)} others"
    )


def _curve(problem: Problem) -> list[Point]:
    """The proven gap after every step of the solver; only its steps are timed."""
    from softmargin import SOLVERS
    from softmargin.certificate import prove
    from softmargin.threads import single_blas

    solver = SOLVERS["auto"]()
    points: list[Point] = []
    with single_blas():  # as in `solve`
        began = time.perf_counter()
        state = solver.init(problem)
        seconds = time.perf_counter() - began
        while not points or (points[-1].gap > CURVE_GAP and seconds < CURVE_SECONDS):
            began = time.perf_counter()
            state = solver.step(problem, state)
            seconds += time.perf_counter() - began
            iterate = solver.view(problem, state)
            gap = prove(problem, iterate).certificate.relative_gap
            points.append(Point("", seconds, iterate.work.passes, gap))
    return [point for point in points if math.isfinite(point.gap)]


def _plot(curve: list[Point], rivals: list[Point], output: Path) -> None:
    """Draw relative gaps against seconds and against passes."""
    from matplotlib.figure import Figure

    from softmargin.archive import replacing

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, cost in ((left, "seconds"), (right, "passes")):
        axes.plot(
            [getattr(p, cost) for p in curve], [p.gap for p in curve], marker=".", label="softmargin, after each step"
        )
        axes.set(xscale="log", yscale="log", xlabel=cost)
        axes.grid(alpha=0.3)
    # against seconds only: scikit-learn's iterations visit fewer and fewer rows and are no passes
    left.plot([p.seconds for p in rivals], [p.gap for p in rivals], "s", label="scikit-learn, a fit for each tol")
    for point in rivals:
        left.annotate(point.label, (point.seconds, point.gap), textcoords="offset points", xytext=(-45, -12))
    left.set_ylabel("proven relative gap")
    left.legend()
    figure.suptitle(f"hinge loss, C={C}, no bias: how far from the optimum, at most")
    with replacing(output) as stream:
        figure.savefig(stream, format=output.suffix[1:] or "png", dpi=120)
