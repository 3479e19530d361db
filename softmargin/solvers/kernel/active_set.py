"""The exact kernel solver: three sets, one inside the other, and a check against all rows.

    max t·a − ½ aᵀKa  in a box, with fixed sums (`kernel_problem`)

- **Active rows** are those that may matter. They are found by solving for a sample first, then looking at the scores
  of everybody: rows within `MARGIN` of their target, and the support vectors. Kernel rows have active columns only.
- **The working set** are the active rows whose kernel rows were computed. It grows by the worst violators, many at a
  time, so that their rows come from one matrix product, when its own violation is a fraction `WORTH` of the worst.
- **A block** of `BLOCK` variables of the working set, half of them kept from the block before, is solved by pairs
  (`pairs`) to a tenth of the violation; then one product updates the responses of all active rows.

When the active rows are solved, the scores of all rows are computed anew: that shows which rows were left out wrongly,
corrects what rounding has done to the responses, and is what the certificate needs as well (`Gram.scores` remembers).
Cost: the kernel rows of about the support vectors over the active columns, and their product with all rows.

The scheme of working sets and blocks is decomposition (T. Joachims, "Making large-scale SVM learning practical", 1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softmargin.gram import Gram
from softmargin.kernel_problem import Box, KernelProblem
from softmargin.losses import Hinge
from softmargin.problem import Iterate, Model, Work
from softmargin.solvers.kernel.pairs import lowest, partner, rising, solve_block
from softmargin.solvers.support import Support

BLOCK, LISTS = 512, 2048  # variables; where kernel rows are lists, or few
WORTH = 0.2  # the working set is left alone when its violation is less than this share of the worst
INNER, DEEP = 0.1, 1e-3  # a block is solved until its violation falls to this share; where it is the whole problem
STEPS = 20  # steps in a block, at most, for each of its variables
GROW = 0.35  # the working set grows by this share of itself, at least by a block
ROUNDS = 32  # blocks in one step of the solver
SAMPLE, SMALLEST = 8, 2000  # the start solves for one row in so many, if so many remain
SAMPLE_GAP = 1e-2  # to this gap
MARGIN, SURE = 0.5, 0.1  # rows so near to their target are active: after a sample, after a solution; in typical targets
CROWD = 4  # but no more than so many for each that is on the wrong side
DOUBTFUL = 1.0  # rows so near after a sample are looked at before all others
ALL = 0.7  # when more than this share would be active, all are
LEFT, STRICTER = 0.4, 0.5  # the share of the goal to which the active rows are solved first; after every check
TIGHT = 8  # a memory of fewer kernel rows is used for one pair at a time
LOOK = 8  # blocks between two looks at all active rows
NEAR_SOLVED = 1.0  # the gap is not computed while a violation is larger, in typical targets


@dataclass
class State:
    """What a run knows between two steps."""

    a: Any
    level: int  # the sample at hand is one row in SAMPLE**level
    order: Any  # a random order of the rows: samples are its beginnings
    active: Any  # rows
    doubtful: Any  # rows to look at next
    f: Any  # their responses ⟨w, φ(x)⟩
    block: Any  # the variables of the last block
    model: Model
    left: float  # the share of the goal to which the active rows are solved
    idle: bool  # whether they were from the beginning of the last step on
    gap: float  # at the last check of all rows
    work: Work


@dataclass(frozen=True)
class ActiveSet:
    """Active rows, a working set, blocks of pairs; see the module's docstring.

    Parameters
    ----------
    gap : float
        The relative gap that the run is going for.
    seed : int
        Of the sample that it starts with.
    """

    supports: ClassVar[Support] = Support(
        losses=(Hinge,),
        problems=("kernel",),
        step=f"up to {ROUNDS} blocks of {BLOCK} rows, or the scores of all rows",
        source="softmargin: docs/performance.md",
    )
    gap: float = 1e-3
    seed: int = 0

    def init(self, problem: KernelProblem, start: Iterate | None = None) -> State:
        """At zero on a sample, or at the dual point of `start`."""
        n = problem.gram.n
        order = np.random.default_rng(self.seed).permutation(n)
        a, level = np.zeros(problem.n), 0
        if start is not None and start.a is not None:
            a = problem.box.nearest(start.a)
        else:
            while not problem.gram.complete and n // SAMPLE ** (level + 1) >= SMALLEST:
                level += 1
        none = np.arange(0), np.arange(0)
        model = Model(np.zeros(n), problem.as_bias(np.zeros(len(problem.box.totals))))
        s = State(a, level, order, *none, np.zeros(0), np.arange(0), model, LEFT, False, np.inf, Work())
        if start is not None and start.a is not None:
            self._widen(problem, s)
            return s
        s.active = np.sort(order[: n // SAMPLE**level])
        s.f = np.zeros(len(s.active))
        if problem.box.totals.any():
            box, variables = _universe(problem, s.active)
            s.a[variables] = _filled(box, s.a[variables], np.zeros(len(variables)))
            s.f = problem.gram.scores_of(problem.coefficients(s.a), s.active)
        return s

    def step(self, problem: KernelProblem, s: State) -> State:
        """Blocks among the active rows; when these are solved, a look at others: ever more, in the end at all."""
        gram = problem.gram
        asked, computed = gram.asked, gram.computed
        if self._solve_active(problem, s):
            if len(s.doubtful):
                self._admit(problem, s)
            elif s.level:
                self._widen(problem, s)
            else:
                self._check(problem, s)
        asked, computed = gram.asked - asked, gram.computed - computed
        passes = asked / gram.n**2
        s.work = s.work.plus(Work(max(passes, 1.0) if s.idle else passes, 0, asked, computed))  # or limits do not help
        return s

    def view(self, problem: KernelProblem, s: State) -> Iterate:
        """The dual point and the model that it stands for."""
        return Iterate(s.model, s.a, s.work, s.gap)

    def _solve_active(self, problem: KernelProblem, s: State) -> bool:
        """Some rounds of growth and blocks; returns whether the active rows are solved."""
        gram = problem.gram
        gram.focus(s.active)
        box, variables, place = _among(problem, s.active)
        goal = s.left * self.gap if s.level == 0 else SAMPLE_GAP
        a = s.a[variables]
        s.idle = True
        for _ in range(ROUNDS // LOOK):
            d, up, down = box.t - s.f[place], a < box.hi, a > box.lo
            worst = _violation(box, d, up, down)
            near = worst < NEAR_SOLVED * _typical(box, box.best_offsets(s.f[place]))
            if near and box.gap(s.f[place], a, problem.floor, goal) <= goal:
                break
            kept = gram.slot[box.row] >= 0
            if _violation(box, d, up & kept, down & kept) <= WORTH * worst:
                few = gram.capacity < TIGHT
                new = _pair(gram, box, d, a, place) if few else _newcomers(box, d, up, down, kept, a, gram.capacity)
                gram.fetch(box.row[new[new >= 0]])
                kept = gram.slot[box.row] >= 0
            if not self._blocks(gram, s, box, a, place, np.flatnonzero(kept), variables, WORTH * worst):
                break  # nothing to gain that rounding would not hide
            s.idle = False
        else:
            s.a[variables] = a
            return False
        s.a[variables] = a
        return True

    def _blocks(
        self, gram: Gram, s: State, box: Box, a: Any, place: Any, working: Any, variables: Any, goal: float
    ) -> bool:
        """Some blocks of the working set, fewer if its violation falls to `goal`; returns whether anything moved."""
        inside, diagonal = box.only(working), gram.diagonal[box.row[working]]
        whole = gram.complete and len(a) <= LISTS
        size = max(min(LISTS if gram.sparse or gram.n <= LISTS else BLOCK, gram.capacity), 4 * len(box.totals))
        block = np.searchsorted(variables[working], s.block[np.isin(s.block, variables[working])])
        moved_at_all = False
        for _ in range(1 if whole else LOOK):
            mine = a[working]
            d, up, down = inside.t - s.f[place[working]], mine < inside.hi, mine > inside.lo
            own = _violation(inside, d, up, down)
            if own <= goal and moved_at_all:
                break
            block = np.arange(len(working)) if whole else _chosen(inside, d, up, down, mine, block, size)
            part, after, slots = inside.only(block), mine[block], gram.fetch(inside.row[block])
            solve_block(
                gram.store.square(slots, place[working[block]]),
                diagonal[block],
                d[block],
                part.lo,
                part.hi,
                part.group,
                len(box.totals),
                after,
                (DEEP if whole else INNER) * own,
                STEPS * size,
            )
            moved = after != mine[block]
            if not moved.any():
                break
            moved_at_all = True
            a[working[block]] = after
            gram.update(s.f, slots[moved], (after - mine[block])[moved])
        s.block = variables[working[block]]
        return moved_at_all

    def _widen(self, problem: KernelProblem, s: State) -> None:
        """From a sample to the next larger one, in the end to all rows: find those that may matter."""
        s.level = max(s.level - 1, 0)
        gram, n = problem.gram, problem.gram.n
        rows = np.arange(n) if s.level == 0 else np.sort(s.order[: n // SAMPLE**s.level])
        box, variables = _universe(problem, rows)
        place = np.searchsorted(rows, box.row)
        z = gram.scores_of(problem.coefficients(s.a), rows)
        if box.totals.any():
            s.a[variables] = _filled(box, s.a[variables], z[place])
            z = gram.scores_of(problem.coefficients(s.a), rows)
        short = _shortfall(box, z[place])
        most, margin = CROWD * int((short > 0.0).sum()), MARGIN
        if 0 < most < len(short):
            margin = min(margin, -float(np.partition(short, -most)[-most]))
        s.active = np.unique(box.row[(short > -margin) | (s.a[variables] != 0.0)])
        s.doubtful = np.setdiff1d(box.row[short > -DOUBTFUL], s.active)
        if gram.sparse or gram.complete or len(s.active) > ALL * len(rows):
            s.active, s.doubtful = rows, np.arange(0)
        s.f = z[np.searchsorted(rows, s.active)]

    def _admit(self, problem: KernelProblem, s: State) -> None:
        """Look at the rows that were not quite near enough: some may be, now that more is known."""
        box, _, place = _among(problem, s.active)
        beta = box.best_offsets(s.f[place])
        z = problem.gram.scores_of(problem.coefficients(s.a), s.doubtful)
        others, _, place = _among(problem, s.doubtful)
        self._add(s, others.row[_shortfall(others, z[place], beta) > -SURE], s.doubtful, z)
        s.doubtful = np.arange(0)

    def _check(self, problem: KernelProblem, s: State) -> None:
        """Look at all rows, exactly."""
        found = problem.evaluate(s.a)
        hidden = found.gap > self.gap and (s.idle or found.exact_gap(problem.box) <= self.gap)
        if hidden and problem.gram.in_double_precision():
            found = problem.evaluate(s.a)
        z, s.gap = found.seen.z, found.gap
        s.model = Model(found.scale * found.seen.coef, problem.as_bias(found.beta))
        s.left *= STRICTER
        s.f = z[s.active]
        short = _shortfall(problem.box, z[problem.box.row])
        self._add(s, problem.box.row[short > -SURE], np.arange(problem.gram.n), z)

    def _add(self, s: State, wanted: Any, rows: Any, z: Any) -> None:
        """Make more rows active, of those whose scores are z; those that are active already stay in their places."""
        new = np.setdiff1d(wanted, s.active)
        s.active = np.concatenate([s.active, new])
        s.f = np.concatenate([s.f, z[np.searchsorted(rows, new)]])


def _shortfall(box: Box, z: Any, beta: Any = None) -> Any:
    """How far scores are on the wrong side of their targets, in typical targets."""
    beta = box.best_offsets(z) if beta is None else beta
    return box.shortfall(z, beta) / _typical(box, beta)


def _typical(box: Box, beta: Any) -> float:
    """The size of a typical target, seen from β: about one, in classification."""
    return max(float(np.abs(box.t - box.offset(beta)).mean()), 1e-300)


def _universe(problem: KernelProblem, rows: Any) -> tuple[Box, Any]:
    """The program of some rows as if they were all, and its variables: totals are shared out by the width of boxes."""
    box, variables, _ = _among(problem, rows)
    if box.totals.any():
        every = problem.box
        share = [box.u[box.group == g].sum() / every.u[every.group == g].sum() for g in range(len(box.totals))]
        box = box._replace(totals=box.totals * np.array(share))
    return box, variables


def _among(problem: KernelProblem, rows: Any) -> tuple[Box, Any, Any]:
    """The program of the variables of some rows, all others being zero; these variables; the place of their rows."""
    places = np.full(problem.gram.n, -1)
    places[rows] = np.arange(len(rows))
    place = places[problem.box.row]
    variables = np.flatnonzero(place >= 0)
    return problem.box.only(variables), variables, place[variables]


def _violation(box: Box, d: Any, up: Any, down: Any) -> float:
    """The largest violation of the optimality conditions among the variables that may rise, and those that may fall."""
    if not len(box.totals):
        return max(float(d[up].max(initial=0.0)), -float(d[down].min(initial=0.0)))
    one = len(box.totals) == 1
    pairs = [(up, down) if one else (up & (box.group == g), down & (box.group == g)) for g in range(len(box.totals))]
    return max(float(d[u].max(initial=-np.inf)) - float(d[v].min(initial=np.inf)) for u, v in pairs)


def _newcomers(box: Box, d: Any, up: Any, down: Any, kept: Any, a: Any, capacity: int) -> Any:
    """Who joins the working set: the worst violators outside it, seen from where its own conditions meet.

    A new set begins with the variables that are not zero, and as many that may rise as may fall.
    """
    most = max(capacity // 2, 1)
    if not kept.any():
        each = max(min(BLOCK, most) // 2, 1)
        sides = [_largest(key, np.flatnonzero(side), each) for side, key in ((up, d), (down, -d))]
        return np.union1d(np.flatnonzero(a)[:most], np.concatenate(sides))[: 2 * most]
    middle: Any = 0.0
    for g in range(len(box.totals)):
        mine = kept & (box.group == g)
        top, bottom = d[up & mine].max(initial=-np.inf), d[down & mine].min(initial=np.inf)
        known = [end for end in (top, bottom) if np.isfinite(end)]
        middle = np.where(box.group == g, np.mean(known) if known else float(np.median(d[box.group == g])), middle)
    wrong = np.maximum(np.where(up, d - middle, -np.inf), np.where(down, middle - d, -np.inf))
    return _largest(wrong, np.flatnonzero((wrong > 0.0) & ~kept), min(max(BLOCK, int(GROW * kept.sum())), most))


def _pair(gram: Gram, box: Box, d: Any, a: Any, place: Any) -> Any:
    """The pair that gains most (`pairs`), for a memory of a few rows; without groups, the two that gain most alone."""
    if not len(box.totals):
        free = ((d > 0.0) & (a < box.hi)) | ((d < 0.0) & (a > box.lo))
        return _largest(np.where(free, np.abs(d), -np.inf), np.arange(len(d)), 2)
    tops = [rising(d, a, box.hi, box.group, g) for g in range(len(box.totals))]
    spans = [top - lowest(d, a, box.lo, box.group, g) for g, (_, top) in enumerate(tops)]
    i = tops[int(np.argmax(spans))][0]
    row = gram.store.row(gram.fetch(box.row[i : i + 1])[0])
    return np.array([i, partner(i, row[place], gram.diagonal[box.row], d, a, box.lo, box.group)])


def _largest(key: Any, some: Any, count: int) -> Any:
    """Those of some variables whose key is largest."""
    return some if len(some) <= count else some[np.argpartition(-key[some], count - 1)[:count]]


def _chosen(box: Box, d: Any, up: Any, down: Any, a: Any, before: Any, size: int) -> Any:
    """A block: the worst on both sides, in every group; then those of the block before, free ones first."""
    groups = max(len(box.totals), 1)
    each = max((size // 2 if len(before) else size) // (2 * groups), 1)
    picks = []
    for g in range(groups):
        mine = True if groups == 1 else box.group == g
        for side, key in ((up & mine, d), (down & mine, -d)):
            picks.append(_largest(key, np.flatnonzero(side), each))
    new = np.unique(np.concatenate(picks))
    old = before[~np.isin(before, new)]
    free = (a[old] > box.lo[old]) & (a[old] < box.hi[old])
    return np.concatenate([new, old[free], old[~free]])[:size]


def _filled(box: Box, a: Any, z: Any) -> Any:
    """The point with more of the boxes filled, from the worst scores on, until the sums are their totals."""
    a = np.where(box.hi > 0.0, np.maximum(a, 0.0), np.minimum(a, 0.0))
    for g, total in enumerate(box.totals):
        mine = np.flatnonzero(box.group == g)
        missing = abs(float(total)) - float(np.abs(a[mine]).sum())
        order = mine[np.argsort(-box.shortfall(z, np.zeros(len(box.totals)))[mine], kind="stable")]
        room = box.u[order] - np.abs(a[order])
        take = np.clip(missing - (np.cumsum(room) - room), 0.0, room)
        a[order] += np.sign(total) * take
    return a
