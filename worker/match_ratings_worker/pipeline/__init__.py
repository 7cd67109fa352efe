"""The way of a match: claim, validate, read, decide, commit."""
