"""The losses, each with what the primal, the dual and the solvers need of it.

Notation, the same in every file (a row has features x, target y, weight c, score z = ⟨w, x⟩ + b and dual variable a):

==========  ==================================================================================================
primal      ``½‖w‖² + Σ c ℓ(y, z)``
dual        ``Σ gain(y, a, c) − ½‖w(a)‖²``  with  ``w(a) = Σ a x``,  and ``Σ a = 0`` when the bias is free
row gap     ``c ℓ(y, z) − gain(y, a, c) + a z ≥ 0``: summed over the rows it is primal minus dual
step        the best new a for one row:  ``argmax gain(y, new, c) − (new − a) z − ½ q (new − a)²``
bend        how fast that answer falls as z grows:  ``−d step / d z``
slack       where step answers a itself: how far z may move before it does not
==========  ==================================================================================================

``step`` with q = ‖x‖² is a step of coordinate descent; with q = 1/σ it is the multiplier of the augmented Lagrangian,
and with q = 0 (smooth losses only) minus the derivative of the loss. In classification a·y is LIBSVM's α ≥ 0.

``slope`` is the derivative of ℓ by z. ``value`` and ``gain`` take arrays or, inside
compiled loops, numbers; ``slope``, ``nearest`` and ``middle`` arrays; ``step``, ``bend`` and ``slack`` numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import overload, register_jitable
from scipy.special import expit


class Hinge(NamedTuple):
    """``max(0, 1 − y z)``; dual ``0 ≤ a y ≤ c``."""

    margin: float = 1.0

    def value(loss, y, z):
        return np.maximum(0.0, loss.margin - y * z)

    def slope(loss, y, z):
        return np.where(y * z < loss.margin, -y, 0.0)

    def gain(loss, y, a, c):
        return loss.margin * (a * y)

    def step(loss, y, z, a, q, c):
        return y * min(max(a * y + (loss.margin - y * z) * (1.0 / q), 0.0), c)

    def bend(loss, y, a, q, c):
        return 1.0 / q if 0.0 < a * y < c else 0.0

    def slack(loss, y, z):
        return abs(loss.margin - y * z)

    def nearest(loss, y, a, c):
        return y * np.clip(a * y, 0.0, c)

    def middle(loss, y, c):
        return 0.5 * c * y


class SquaredHinge(NamedTuple):
    """``max(0, 1 − y z)²``; dual ``a y ≥ 0``."""

    margin: float = 1.0

    def value(loss, y, z):
        return np.maximum(0.0, loss.margin - y * z) ** 2

    def slope(loss, y, z):
        return -2.0 * y * np.maximum(0.0, loss.margin - y * z)

    def gain(loss, y, a, c):
        return loss.margin * (a * y) - a * a / (4.0 * c)

    def step(loss, y, z, a, q, c):
        half = 0.5 / c
        return y * max(a * y + (loss.margin - y * z - a * y * half) * (1.0 / (q + half)), 0.0)

    def bend(loss, y, a, q, c):
        return 1.0 / (q + 1.0 / (2.0 * c)) if a * y > 0.0 else 0.0

    def slack(loss, y, z):
        return max(y * z - loss.margin, 0.0)

    def nearest(loss, y, a, c):
        return y * np.maximum(a * y, 0.0)

    def middle(loss, y, c):
        return 0.5 * c * y


class EpsilonInsensitive(NamedTuple):
    """``max(0, |y − z| − ε)``; dual ``|a| ≤ c``."""

    epsilon: float = 0.1

    def value(loss, y, z):
        return np.maximum(0.0, np.abs(y - z) - loss.epsilon)

    def slope(loss, y, z):
        return np.where(np.abs(y - z) > loss.epsilon, np.sign(z - y), 0.0)

    def gain(loss, y, a, c):
        return a * y - loss.epsilon * np.abs(a)

    def step(loss, y, z, a, q, c):
        v = a + (y - z) * (1.0 / q)
        shrunk = v - min(max(v, -loss.epsilon / q), loss.epsilon / q)
        return min(max(shrunk, -c), c)

    def bend(loss, y, a, q, c):
        return 1.0 / q if a != 0.0 and abs(a) < c else 0.0

    def slack(loss, y, z):
        return abs(abs(y - z) - loss.epsilon)

    def nearest(loss, y, a, c):
        return np.clip(a, -c, c)

    def middle(loss, y, c):
        return np.zeros_like(c)


class Logistic(NamedTuple):
    """``log(1 + exp(−y z))``; dual ``0 < a y < c``, with the entropy of a y / c as gain."""

    steps: int = 20  # Newton steps at most on one row: the first two or three converge, the rest guard the ends

    def value(loss, y, z):
        return np.logaddexp(0.0, -y * z)

    def slope(loss, y, z):
        return -y * expit(-y * z)

    def gain(loss, y, a, c):
        u = np.minimum(np.maximum(a * y / c, 1e-300), 1.0)
        rest = np.maximum(1.0 - u, 1e-300)
        return -c * (u * np.log(u) + rest * np.log(rest))

    def step(loss, y, z, a, q, c):
        # root in u = a y / c of  log(u / (1 − u)) + m + q c (u − u₀):  increasing, solved in t = log(u / (1 − u))
        u0, k, m = a * y / c, q * c, y * z
        t = -m if k < 1.0 else np.log(max(u0, 1e-12) / max(1.0 - u0, 1e-12))
        for _ in range(loss.steps):
            u = 1.0 / (1.0 + np.exp(-t))
            move = (t + m + k * (u - u0)) / (1.0 + k * u * (1.0 - u))
            t -= min(max(move, -4.0), 4.0) if k > 0.0 else move
            if abs(move) < 1e-10:
                break
        return y * c / (1.0 + np.exp(-t))

    def bend(loss, y, a, q, c):
        u = a * y / c
        return 1.0 / (q + 1.0 / max(c * u * (1.0 - u), 1e-300))

    def slack(loss, y, z):
        return 0.0

    def nearest(loss, y, a, c):
        return y * np.clip(a * y, 0.0, c)

    def middle(loss, y, c):
        return 0.5 * c * y


Loss = Hinge | SquaredHinge | EpsilonInsensitive | Logistic
CLASSIFICATION: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "logistic": Logistic()}
SMOOTH = (SquaredHinge, Logistic)


# ---- the same functions inside compiled loops, where methods are not to be had ----


def row_gap(loss, y, z, a, c):
    """``c ℓ(y, z) − gain(y, a, c) + a z``."""


def gain(loss, y, a, c):
    """`loss.gain`."""


def step(loss, y, z, a, q, c):
    """`loss.step`."""


def bend(loss, y, a, q, c):
    """`loss.bend`."""


def slack(loss, y, z):
    """`loss.slack`."""


@overload(row_gap)
def _(loss, y, z, a, c):
    value, gain = (register_jitable(getattr(loss.instance_class, name)) for name in ("value", "gain"))
    return lambda loss, y, z, a, c: c * value(loss, y, z) - gain(loss, y, a, c) + a * z


@overload(gain)
def _(loss, y, a, c):
    return loss.instance_class.gain


@overload(step)
def _(loss, y, z, a, q, c):
    return loss.instance_class.step


@overload(bend)
def _(loss, y, a, q, c):
    return loss.instance_class.bend


@overload(slack)
def _(loss, y, z):
    return loss.instance_class.slack
