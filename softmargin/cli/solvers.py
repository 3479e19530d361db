"""``softmargin solvers``."""

from __future__ import annotations

from typing import Any

from softmargin.cli import common


def command(as_json: common.AsJson = False) -> None:
    """List the solvers, what each can train, and where it comes from.

    Example: `softmargin solvers`
    """
    from softmargin import SOLVERS
    from softmargin.solvers import AUTO

    others = "; ".join(f"{problem}: as {name}" for problem, name in AUTO.items() if name != "auto")
    table: list[dict[str, Any]] = [
        {
            "name": name,
            "problems": list(AUTO if name == "auto" else solver.supports.problems),
            "losses": [loss.__name__ for loss in solver.supports.losses],
            "biases": list(solver.supports.biases),
            "step": solver.supports.step + (f"; {others}" if name == "auto" else ""),
            "source": solver.supports.source,
        }
        for name, solver in SOLVERS.items()
    ]
    if as_json:
        common.print_json({"solvers": table})
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table()
    for title in ("solver", "problems", "losses", "biases"):
        shown.add_column(title, no_wrap=True)
    for title in ("cost of a step", "source"):
        shown.add_column(title, overflow="fold")
    for row in table:
        shown.add_row(*("\n".join(cell) if isinstance(cell, list) else cell for cell in row.values()))
    Console().print(shown)
