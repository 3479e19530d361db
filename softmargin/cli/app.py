"""The commands together, and what becomes of their errors: one line on stderr and an exit code, no traceback.

0 done; 1 bad data or file; 2 bad usage, or a path that cannot be written; 3 training ended early; 130 Ctrl-C.
"""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from softmargin import __version__
from softmargin.cli import certify, demo, predict, solvers, train


class Commands(TyperGroup):
    """A group whose errors and warnings are single lines."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *_, **__: say("warning", message)
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()  # so that a reader who left is noticed here, not at the interpreter's end
                return result
            except KeyboardInterrupt:
                say("error", "interrupted")
                raise typer.Exit(130) from None
            except BrokenPipeError:
                raise  # ends quietly
            except (ValueError, OSError, ArithmeticError, MemoryError) as error:
                say("error", error)
                raise typer.Exit(1) from error


def say(kind: str, message: object) -> None:
    """A line about something wrong."""
    if isinstance(message, OSError) and message.filename and message.strerror:
        message = f"{message.filename}: {message.strerror}"
    text = " ".join(str(message).split()) or type(message).__name__
    print(f"{kind}: {text}", file=sys.stderr, flush=True)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, module in (
    ("train", train),
    ("predict", predict),
    ("certify", certify),
    ("solvers", solvers),
    ("demo", demo),
):
    app.command(name)(module.command)


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        print(f"softmargin {__version__}")
        raise typer.Exit()


@app.callback()
def softmargin(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Support vector machines, trained with a proven bound on their distance from the optimum.

    `softmargin train a9a` writes the model `a9a.model`; `softmargin predict a9a.t a9a.model` uses it.
    """
