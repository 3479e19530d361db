"""Filling basins with water: the objective of the slack-constrained problem, in O(n) and without sorting.

The level γ of responses r under a volume V of water is where ``Σ max(0, γ − rᵢ) = V``. With a free bias there are two
basins, one a class: a bias b lowers the level of the positives to γ − b and raises that of the negatives to γ + b, so
that γ is the mean of the two. Water goes where it raises the level most, to the basin with the smaller surface: in the
end the surfaces are equal, k examples under water in each. (A. Cotter, S. Shalev-Shwartz, N. Srebro, "The Kernelized
Stochastic Batch Perceptron", ICML 2012, sections 3.2 and 3.6.)

Both are the search for one number, k: the smallest for which the water does not reach the next example. It is found by
divide and conquer: each look partitions the examples still in doubt and drops half of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Surface(NamedTuple):
    """The water level, the bias that belongs to it, and who is under water."""

    level: float
    bias: float
    under: Any  # true for k examples of every basin: p* is uniform on them


def fill(responses: Any, y: Any, volume: float, free_bias: bool) -> Surface:
    """Pour a volume of water over responses ``y ⟨w, x⟩``: into one basin, or into one for each class."""
    if not free_bias:
        k, totals, highest, _ = _under((responses,), volume)
        return Surface((volume + totals[0]) / k, 0.0, _lowest(responses, k, highest[0]))
    positive = y > 0
    basins = responses[positive], responses[~positive]
    k, totals, highest, nexts = _under(basins, volume)
    twice = (volume + sum(totals)) / k  # γ₊ + γ₋; the two levels may move against each other between examples
    low = max(highest[0], twice - nexts[1])
    high = min(nexts[0], twice - highest[1])
    plus = 0.5 * (low + high) if np.isfinite(low + high) else low if np.isfinite(low) else high
    under = np.empty(len(y), bool)
    under[positive], under[~positive] = (_lowest(b, k, h) for b, h in zip(basins, highest, strict=True))
    return Surface(0.5 * twice, 0.5 * twice - plus, under)


def _under(basins: tuple[Any, ...], volume: float) -> tuple[int, list[float], list[float], list[float]]:
    """k with the sum of the k lowest responses of every basin, the highest of them, and the one after."""
    most = min(map(len, basins))
    low, high = 1, most  # k is at least low, at most high
    parts, settled, sums = [np.array(basin, np.float64) for basin in basins], 0, [0.0] * len(basins)
    while low < high:
        k = (low + high) // 2
        at = k - settled
        for part in parts:
            part.partition(at)
        below = [s + float(part[:at].sum()) for s, part in zip(sums, parts, strict=True)]
        if k * sum(float(part[at]) for part in parts) - sum(below) >= volume:
            high, parts = k, [part[: at + 1] for part in parts]
        else:
            low, settled, sums, parts = k + 1, k, below, [part[at:] for part in parts]
    at = low - settled
    totals, highest, nexts = [], [], []
    for s, part in zip(sums, parts, strict=True):
        part.partition(at - 1)
        totals.append(s + float(part[:at].sum()))
        highest.append(float(part[at - 1]))
        nexts.append(float(part[at:].min(initial=np.inf)))
    return low, totals, highest, nexts


def _lowest(responses: Any, k: int, highest: float) -> Any:
    """Marks the k lowest responses, of which `highest` is the highest; of equal ones, the first."""
    under = responses < highest
    equal = np.flatnonzero(responses == highest)
    under[equal[: k - np.count_nonzero(under)]] = True
    return under
