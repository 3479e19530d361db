"""Steps on two variables at a time, chosen by second-order information: what every exact kernel solver is built on.

R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information for training support vector
machines", JMLR 6, 2005 (WSS 2). For ``max t·a − ½ aᵀKa`` in a box, ``d = t − Ka`` is the gradient. Inside a group of
fixed sum one variable rises by what another falls: i is the one with the largest d among those that may rise, j the one
that may fall with the largest gain ``(dᵢ − dⱼ)² / 2(Kᵢᵢ + Kⱼⱼ − 2Kᵢⱼ)``. Without groups (no bias) both move freely:
I. Steinwart, D. Hush, C. Scovel, "Training SVMs without offset", JMLR 12, 2011.
A step costs three passes over the variables.
"""

from __future__ import annotations

import numpy as np

from softmargin.rows import kernel

FLAT = 2.4e-7  # the least curvature of a step, in diagonals: what single-precision differences can tell from zero


@kernel
def curvature(i, k, between, diagonal):
    """``Kᵢᵢ + Kₖₖ − 2Kᵢₖ``, but no less than what rounding, or an indefinite kernel, leaves of it."""
    return max(diagonal[i] + diagonal[k] - 2.0 * between, FLAT * max(abs(diagonal[i]), abs(diagonal[k])), 1e-300)


@kernel
def rising(d, a, hi, group, g):
    """The variable of group g that has most to gain by rising."""
    top, best = -np.inf, -1
    for k in range(len(d)):
        if d[k] > top and a[k] < hi[k] and group[k] == g:
            top, best = d[k], k
    return best, top


@kernel
def lowest(d, a, lo, group, g):
    """The smallest gradient among the variables of group g that may fall."""
    bottom = np.inf
    for k in range(len(d)):
        if d[k] < bottom and a[k] > lo[k] and group[k] == g:
            bottom = d[k]
    return bottom


@kernel
def partner(i, row, diagonal, d, a, lo, group):
    """The variable that may fall with the largest gain when i rises; `row` has its kernel values with i."""
    best, gain = -1, 0.0
    for k in range(len(d)):
        if group[k] == group[i] and a[k] > lo[k] and d[k] < d[i]:
            curve = curvature(i, k, row[k], diagonal)
            if (d[i] - d[k]) ** 2 > gain * curve:
                best, gain = k, (d[i] - d[k]) ** 2 / curve
    return best


@kernel
def exchange(i, j, between, diagonal, d, a, lo, hi):
    """How far i rises and j falls: to the best point, or to the end of the box."""
    curve = curvature(i, j, between, diagonal)
    up, down, best = hi[i] - a[i], a[j] - lo[j], (d[i] - d[j]) / curve
    move = min(best, up, down)
    a[i] = hi[i] if move == up else a[i] + move
    a[j] = lo[j] if move == down else a[j] - move
    return move


@kernel
def alone(d, diagonal, a, lo, hi):
    """The variable that has most to gain by moving alone, and its violation of the optimality conditions."""
    best, gain, worst = -1, 0.0, 0.0
    for k in range(len(d)):
        room = hi[k] - a[k] if d[k] > 0.0 else a[k] - lo[k]
        if room > 0.0 and d[k] != 0.0:
            worst = max(worst, abs(d[k]))
            move = min(abs(d[k]) / max(diagonal[k], 1e-300), room)
            made = move * (abs(d[k]) - 0.5 * move * diagonal[k])
            if made > gain:
                best, gain = k, made
    return best, worst


@kernel
def companion(i, row, diagonal, d, a, lo, hi):
    """The variable that gains most together with i where nothing is fixed; i itself if none adds to it."""
    best, gain = i, d[i] ** 2 / max(diagonal[i], 1e-300) * (1.0 + 1e-9)
    for k in range(len(d)):
        room = hi[k] - a[k] if d[k] > 0.0 else a[k] - lo[k]
        det = diagonal[i] * diagonal[k] - row[k] * row[k]
        if k != i and room > 0.0 and det > FLAT * diagonal[i] * diagonal[k]:
            made = (d[i] ** 2 * diagonal[k] - 2.0 * d[i] * d[k] * row[k] + d[k] ** 2 * diagonal[i]) / det
            if made > gain:
                best, gain = k, made
    return best


@kernel
def clip(value, low, high):
    return min(max(value, low), high)


@kernel
def move_both(i, j, between, diagonal, d, a, lo, hi):
    """The best point for i and j in their box; returns how far each moved."""
    old_i, old_j = a[i], a[j]
    if i == j:
        a[i] = clip(old_i + d[i] / max(diagonal[i], 1e-300), lo[i], hi[i])
        return a[i] - old_i, 0.0
    qi, qj = max(diagonal[i], 1e-300), max(diagonal[j], 1e-300)
    det = qi * qj - between * between
    si, sj = (d[i] * qj - d[j] * between) / det, (d[j] * qi - d[i] * between) / det
    if lo[i] <= old_i + si <= hi[i] and lo[j] <= old_j + sj <= hi[j]:
        a[i], a[j] = old_i + si, old_j + sj
        return si, sj
    gain = -np.inf  # the best point is on an edge: one at its end, the other at its best
    for edge in range(4):
        if edge < 2:
            mi = (lo[i] if edge == 0 else hi[i]) - old_i
            mj = clip(old_j + (d[j] - between * mi) / qj, lo[j], hi[j]) - old_j
        else:
            mj = (lo[j] if edge == 2 else hi[j]) - old_j
            mi = clip(old_i + (d[i] - between * mj) / qi, lo[i], hi[i]) - old_i
        made = d[i] * mi + d[j] * mj - 0.5 * (qi * mi * mi + 2.0 * between * mi * mj + qj * mj * mj)
        if made > gain:
            gain, si, sj = made, mi, mj
    a[i], a[j] = clip(old_i + si, lo[i], hi[i]), clip(old_j + sj, lo[j], hi[j])
    return si, sj


@kernel
def solve_block(K, diagonal, t_minus_f, lo, hi, group, n_groups, a, goal, most):
    """Steps inside a block whose kernel values are K, until no violation exceeds `goal`; returns their number."""
    d, steps = t_minus_f, 0
    while steps < most:
        if n_groups == 0:
            i, worst = alone(d, diagonal, a, lo, hi)
            if i < 0 or worst <= goal:
                break
            j = companion(i, K[i], diagonal, d, a, lo, hi)
            by_i, by_j = move_both(i, j, K[i, j], diagonal, d, a, lo, hi)
        else:
            i, worst = -1, goal
            for g in range(n_groups):
                k, top = rising(d, a, hi, group, g)
                violation = top - lowest(d, a, lo, group, g)
                if violation > worst:
                    i, worst = k, violation
            if i < 0:
                break
            j = partner(i, K[i], diagonal, d, a, lo, group)
            by_i = exchange(i, j, K[i, j], diagonal, d, a, lo, hi)
            by_j = -by_i
        Ki, Kj = K[i], K[j]
        for k in range(len(d)):
            d[k] -= by_i * np.float64(Ki[k]) + by_j * np.float64(Kj[k])
        steps += 1
    return steps
