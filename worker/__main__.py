"""`python -m worker` is the command `match-ratings`."""

from worker.cli import main

main()
