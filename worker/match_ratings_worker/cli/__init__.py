"""The command line, `match-ratings`."""

from match_ratings_worker.cli.app import app, call, main

__all__ = ["app", "call", "main"]
