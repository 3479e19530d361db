"""Hypothesis draws the same examples every time; helpers are found from every folder of tests."""

import math
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("same-every-time", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("same-every-time")


@pytest.fixture(autouse=True)
def _no_interrupt_yet(monkeypatch):
    """Ctrl-C of the test before does not count as the first of two."""
    monkeypatch.setattr("softmargin.threads._pressed", -math.inf)
