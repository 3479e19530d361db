"""``python -m softmargin``."""

from softmargin.cli import main

main()
