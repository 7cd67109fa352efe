"""The command line, `match-ratings`."""

from .app import app, call, main

__all__ = ["app", "call", "main"]
