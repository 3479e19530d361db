"""What a run shows while it goes on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import softmargin

FIT = """
import numpy as np
from softmargin import LinearSVC
rng = np.random.default_rng(0)
X, y = rng.normal(size=(3000, 20)), rng.integers(0, {classes}, 3000)
LinearSVC(C=10.0, tol=1e-4, verbose={verbose}, n_jobs={n_jobs}).fit(X, y)
"""


def in_a_terminal(**options):
    """What a fit shows where the standard error stream is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(Path(softmargin.__file__).parents[1]), "COLUMNS": "100"}
    environment |= {"TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    done = subprocess.Popen([sys.executable, "-c", FIT.format(**options)], stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 4096):
            shown += block
    except OSError:  # Linux says so when the other side has closed
        pass
    os.close(ours)
    assert done.wait(60) == 0, shown
    return shown.decode()


def test_a_bar_for_one_run():
    shown = in_a_terminal(classes=2, verbose=1, n_jobs=1)
    assert "LinearSVC" in shown
    assert "━" in shown
    assert "gap" in shown


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_bars_of_several_classes_share_a_display(n_jobs):
    shown = in_a_terminal(classes=4, verbose=1, n_jobs=n_jobs)
    assert "4 classes" in shown
    assert "LinearSVC[0]" in shown or "LinearSVC[3]" in shown
    last = shown.split("\x1b[2K")[-1]
    assert "LinearSVC[" not in last, "at the end only the count remains"


def test_lines_where_they_are_asked_for():
    shown = in_a_terminal(classes=2, verbose=2, n_jobs=1)
    assert "━" not in shown
    assert "LinearSVC: " in shown


def test_nothing_when_quiet():
    assert in_a_terminal(classes=2, verbose=0, n_jobs=1) == ""
