"""Hypothesis draws the same examples every time; helpers are found from every folder of tests."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("same-every-time", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("same-every-time")
