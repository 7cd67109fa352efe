"""`python -m match_ratings_worker` is the command `match-ratings`."""

from match_ratings_worker.cli.app import main

main()
