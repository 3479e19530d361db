"""Tables and figures from ``results/``: into `docs/performance.md` and README, between markers, and `docs/figures/`."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tasks

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
GAPS = ("0.001", "1e-05")
MOST = 100.0


def results(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text())["results"]


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def ratio(row: dict[str, Any], rival: str, gap: str) -> float:
    """The rival's time over ours, 100 at most; where it never got there, the time after which it was given up."""
    run = row["rivals"][rival]
    theirs = run["limit"] if run[gap] is None else run[gap]
    return float(min(MOST, theirs / row[f"ours 2 {gap}"]))


def shown(row: dict[str, Any], rival: str, gap: str) -> str:
    theirs = row["rivals"][rival][gap]
    return f"> {ratio(row, rival, gap):.0f}" if theirs is None else f"{theirs / row[f'ours 2 {gap}']:.1f}"


def linear_table() -> str:
    rows = results("linear")
    rivals = list(rows[0]["rivals"])
    lines = []
    for gap in GAPS:
        lines += [
            f"**Relative accuracy {float(gap):g}**: ours in milliseconds, rivals as multiples of it.",
            "",
        ]
        lines += [
            "| data | C | ours, 2 threads | ours, 1 | " + " | ".join(rivals) + " |",
            "| --- " * (4 + len(rivals)) + "|",
        ]
        for row in rows:
            ours = [f"{1000 * row[f'ours {jobs} {gap}']:.1f}" for jobs in (2, 1)]
            lines.append(
                "| " + " | ".join([row["data"], f"{row['C']:g}", *ours, *(shown(row, r, gap) for r in rivals)]) + " |"
            )
        for label, chosen in (("all", tasks.BINARY), ("tall", tasks.TALL), ("text", tasks.TEXT)):
            means = [f"{mean(ratio(row, r, gap) for row in rows if row['data'] in chosen):.1f}" for r in rivals]
            lines.append("| " + " | ".join([f"*geometric mean, {label}*", "", "", "", *means]) + " |")
        worst = [f"{min(ratio(row, r, gap) for row in rows):.1f}" for r in rivals]
        lines += ["| " + " | ".join(["*worst*", "", "", "", *worst]) + " |", ""]
    return "\n".join(lines)


def other_table() -> str:
    lines = ["| figure | measured |", "| --- | --- |"]
    free = [row[f"free {g}"] / row[f"none {g}"] for row in results("bias") for g in GAPS]
    spread = f"{mean(free):.2f}, {statistics.median(free):.2f}, {max(free):.2f}"
    lines.append(f"| free bias / none, our times: geometric mean, median, worst | {spread} |")
    shares = [row[f"{kind} {g}"] for row in results("certifying") for kind in ("none", "free") for g in GAPS]
    spread = f"{statistics.median(shares):.0%}, {max(shares):.0%}"
    lines.append(f"| certificates' share of a run: median, most (of the shortest runs) | {spread} |")
    for row in results("ovr"):
        reached = [run["seconds"] for run in row["theirs"] if run["off"] <= 1e-3]
        theirs = (
            f"{min(reached) / row['ours']:.1f}"
            if reached
            else f"more than {max(r['seconds'] for r in row['theirs']) / row['ours']:.1f}"
        )
        lines.append(
            f"| one against the rest, {row['data']}: scikit-learn's time / ours ({row['ours']:.2f} s) | {theirs} |"
        )
    loop = results("loop")
    lines.append(
        f"| coordinate descent on imdb, ns per entry and pass: ours, the same loop in C, reading the memory once "
        f"| {loop['ours']:.2f}, {loop['C']:.2f}, {loop['memory']:.2f} |"
    )
    speed = results("svmlight")
    ratios = ", ".join(f"{row['ours'] / row['scikit-learn']:.0f}" for row in speed)
    lines.append(
        f"| `load_svmlight`, {min(row['ours'] for row in speed):.0f} MB/s and more: scikit-learn's time / ours, "
        f"four files | {ratios} |"
    )
    for name, seconds in results("startup").items():
        lines.append(f"| {name}, s | {seconds:.2f} |")
    return "\n".join(lines)


def table1_table() -> str:
    lines = ["| data | paper's [𝓛, 𝒥] | ours at 1e-5 | the optimum | overlap |", "| --- | --- | --- | --- | --- |"]
    for row in results("table1"):
        cells = [f"{row[key][0]:.9g} – {row[key][1]:.9g}" for key in ("paper", "ours", "optimum")]
        lines.append("| " + " | ".join([row["data"], *cells, "yes" if row["overlap"] else "no"]) + " |")
    return "\n".join(lines)


def headline_table() -> str:
    """The geometric means of `linear_table`, for the README."""
    rows = results("linear")
    lines = [
        "| time / softmargin's time, geometric mean over 18 problems | to 0.1 % of the optimum | to 0.001 % |",
        "| --- | --- | --- |",
    ]
    for rival in rows[0]["rivals"]:
        means = [mean(ratio(row, rival, gap) for row in rows) for gap in GAPS]
        some = [any(row["rivals"][rival][gap] is None for row in rows) for gap in GAPS]
        cells = [f"{'> ' * more}{value:.1f}" for value, more in zip(means, some, strict=True)]
        lines.append(f"| {rival} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def times(run: dict[str, Any], ours: float) -> str:
    """A rival's time over ours, or that it was stopped, or that it was not run."""
    if "not run" in run:
        return "not run"
    return f"> {run['limit'] / ours:.0f}" if run["seconds"] is None else f"{run['seconds'] / ours:.1f}"


def kernel_table() -> str:
    """Ours to a gap of 1e-3, and to a dual objective as good as every rival's; rivals as multiples of that."""
    rows = results("kernels")
    rivals = list(rows[0]["rivals"])
    lines = [
        "| data | ours, s | proven gap | ours, s, matched | its gap | "
        + " | ".join(rivals)
        + " | test errors, %: ours, theirs |",
        "| --- " * (6 + len(rivals)) + "|",
    ]
    for row in rows:
        theirs = [times(run, row["matched"]) for run in row["rivals"].values()]
        known = [row["error"], *(run.get("error") for run in row["rivals"].values())]
        errors = ", ".join("–" if e is None else f"{100 * e:.2f}" for e in known)
        cells = [f"{row['ours']:.2f}", f"{row['gap']:.1e}", f"{row['matched']:.2f}", f"{row['matched gap']:.1e}"]
        lines.append("| " + " | ".join([row["data"], *cells, *theirs, errors]) + " |")
    for key, label in (("matched", "matched"), ("ours", "ours to a gap of 1e-3")):
        means = []
        for rival in rivals:
            runs = [(row["rivals"][rival], row[key]) for row in rows if "not run" not in row["rivals"][rival]]
            value = mean((run["limit"] if run["seconds"] is None else run["seconds"]) / ours for run, ours in runs)
            means.append(f"{'> ' * any(run['seconds'] is None for run, _ in runs)}{value:.1f}")
        lines.append("| " + " | ".join([f"*geometric mean, {label}*", "", "", "", "", *means, ""]) + " |")
    return "\n".join(lines)


def kernel_headline() -> str:
    """The geometric means of `kernel_table`, for the README."""
    rows = results("kernels")
    lines = [
        f"| time / softmargin's time, geometric mean over {len(rows)} problems | to a proven gap of 0.1 % "
        "| to their dual objective or better |",
        "| --- | --- | --- |",
    ]
    for rival in rows[0]["rivals"]:
        runs = [row for row in rows if "not run" not in row["rivals"][rival]]
        some = "> " * any(row["rivals"][rival]["seconds"] is None for row in runs)
        cells = []
        for key in ("ours", "matched"):
            found = [(row["rivals"][rival], row[key]) for row in runs]
            value = mean((run["limit"] if run["seconds"] is None else run["seconds"]) / ours for run, ours in found)
            cells.append(f"{some}{value:.1f}")
        lines.append(f"| {rival} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def kernel_figures_table() -> str:
    lines = ["| figure | measured |", "| --- | --- |"]
    found = results("prediction")
    lines.append(
        f"| prediction, MNIST test set: scikit-learn-intelex's time / ours ({found['ours']:.2f} s) "
        f"| {found['scikit-learn-intelex'] / found['ours']:.1f} |"
    )
    found = results("anatomy")
    lines.append(
        f"| a whole MNIST fit (C = 1) over the floor: {found['vectors']} support vectors × rows × features at "
        f"{found['rate'] / 1e9:.0f} GFLOP/s (OpenBLAS), {found['floor']:.2f} s "
        f"| {found['seconds'] / found['floor']:.1f} |"
    )
    spent = ", ".join(f"{label} {seconds:.2f}" for label, seconds in found["spent"].items())
    lines.append(f"| the same fit with one thread, {found['one thread']:.1f} s, of which | {spent} |")
    for row in results("forest")["runs"]:
        lines.append(
            f"| Forest whole, to a gap of {row['gap']:.1e} | {row['seconds'] / 60:.1f} min, "
            f"{100 * row['error']:.2f} % errors, {row['support']} support vectors, {row['peak']:.1f} GiB at most |"
        )
    for row in results("growth"):
        lines.append(
            f"| MNIST, C = 1, {row['n']} rows | {row['seconds']:.2f} s, {row['support']} support vectors, "
            f"{row['computed'] / row['n'] ** 2:.2f} n² kernel values, {row['peak']:.1f} GiB so far |"
        )
    return "\n".join(lines)


def sbp_table() -> str:
    lines = ["| data | k | reached | after, s | passes |", "| --- | --- | --- | --- | --- |"]
    for row in results("sbp"):
        passes, _, error = row["errors"][-1]
        reached = f"{row['seconds']:.2f}" if row["seconds"] else "not reached"
        lines.append(f"| {row['data']} | {row['block']} | {100 * error:.2f} % | {reached} | {passes:.2f} |")
    lines += ["", "| k | gap | kernel evaluations / n² | computed / n² | seconds |", "| --- | --- | --- | --- | --- |"]
    for row in results("blocks"):
        cells = ["not reached", "", ""]
        if row["asked"] is not None:
            cells = [f"{row['asked'] / 8000**2:.1f}", f"{row['computed'] / 8000**2:.2f}", f"{row['seconds']:.2f}"]
        lines.append(f"| {row['block']} | {row['gap']:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fill(page: Path, **tables: str) -> None:
    """Put tables between their markers in a page."""
    text = page.read_text()
    for name, table in tables.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(pattern, lambda m, t=table: f"{m[1]}\n{t}\n\n{m[2]}", text, flags=re.S)
        if found != 1:
            raise ValueError(f"{page} has {found} places for the table {name!r}")
    page.write_text(text)


def chart() -> None:
    """How many times longer every rival takes, problem by problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = results("linear")
    figure, axes = plt.subplots(1, 2, figsize=(11, 6), sharey=True, layout="constrained")
    names = [f"{row['data']}  C={row['C']:g}" for row in rows]
    for axis, gap in zip(axes, GAPS, strict=True):
        for rival, marker in zip(rows[0]["rivals"], "os^v", strict=True):
            axis.plot([ratio(row, rival, gap) for row in rows], names, marker, label=rival, alpha=0.8)
        axis.axvline(1.0, color="black", linewidth=1)
        axis.set(
            xscale="log",
            xlabel="time / softmargin's time (100: gave up)",
            title=f"to a relative accuracy of {float(gap):g}",
        )
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    axes[1].legend(loc="lower right")
    (DOCS / "figures").mkdir(exist_ok=True)
    figure.savefig(DOCS / "figures" / "linear.png", dpi=110)


def growth_chart() -> None:
    """Time and kernel values against the number of rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = results("growth")
    n = [row["n"] for row in rows]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    axes[0].plot(n, [row["seconds"] for row in rows], "o-", label="a whole fit")
    first = rows[0]
    axes[0].plot(n, [first["seconds"] * (k / n[0]) ** 2 for k in n], ":", color="gray", label="n²")
    axes[0].plot(n, [first["seconds"] * k / n[0] for k in n], "--", color="gray", label="n")
    axes[0].set(xscale="log", yscale="log", xlabel="rows of MNIST", ylabel="seconds")
    axes[1].plot(n, [row["computed"] / 1e6 for row in rows], "o-", label="kernel values computed, millions")
    axes[1].plot(n, [row["support"] * row["n"] / 1e6 for row in rows], "s-", label="support vectors × rows, millions")
    axes[1].set(xscale="log", yscale="log", xlabel="rows of MNIST")
    for axis in axes:
        axis.legend()
        axis.grid(alpha=0.3)
    figure.savefig(DOCS / "figures" / "growth.png", dpi=110)


def main() -> None:
    tables = {"linear": linear_table(), "other": other_table(), "table1": table1_table()}
    tables |= {"kernels": kernel_table(), "kernel figures": kernel_figures_table(), "sbp": sbp_table()}
    fill(DOCS / "performance.md", **tables)
    growth_chart()
    fill(HERE.parent / "README.md", **{"headline": headline_table(), "kernel headline": kernel_headline()})
    chart()


if __name__ == "__main__":
    main()
