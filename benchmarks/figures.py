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


def main() -> None:
    fill(DOCS / "performance.md", linear=linear_table(), other=other_table(), table1=table1_table())
    fill(HERE.parent / "README.md", headline=headline_table())
    chart()


if __name__ == "__main__":
    main()
