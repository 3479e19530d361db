"""``python -m softmargin.cli``."""

from softmargin.cli import main

main()
