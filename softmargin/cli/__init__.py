"""The command line: ``softmargin train``, ``predict``, ``certify``, ``solvers`` and ``demo``."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    """Run the command that the program's arguments name."""
    if any(importlib.util.find_spec(name) is None for name in ("typer", "rich")):
        print("the command line needs typer and rich: pip install 'softmargin[cli]'", file=sys.stderr)
        sys.exit(2)
    from softmargin.cli.app import app

    app(prog_name="softmargin")
