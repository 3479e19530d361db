"""What a run leaves behind: the certified points on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from softmargin.certificate import Certificate
from softmargin.problem import Iterate


class Record(NamedTuple):
    """One certified point of a run."""

    seconds: float  # spent in the solver so far, certificates not counted
    certificate: Certificate


Callback = Callable[[Record, Iterate], bool | None]  # called at every certified point; True stops the run


class History(list[Record]):
    """The certified points of a run, in order.

    >>> from softmargin import LinearSVC
    >>> clf = LinearSVC().fit([[0.0], [1.0], [3.0]], [0, 0, 1])
    >>> clf.history_.time_to(0.5) < 1.0
    True
    """

    def time_to(self, gap: float) -> float:
        """The solver's seconds until a relative gap of at most `gap` was certified; inf if it never was."""
        return next((r.seconds for r in self if r.certificate.relative_gap <= gap), float("inf"))

    def columns(self) -> dict[str, list[float]]:
        """The history as columns."""
        return {
            "seconds": [r.seconds for r in self],
            "passes": [r.certificate.work.passes for r in self],
            "feature_accesses": [r.certificate.work.feature_accesses for r in self],
            "primal": [r.certificate.primal for r in self],
            "dual": [r.certificate.dual for r in self],
            "relative_gap": [r.certificate.relative_gap for r in self],
        }

    def to_frame(self) -> Any:
        """The history as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas, or use columns()") from error
        return pd.DataFrame(self.columns())
