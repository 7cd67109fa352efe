"""FIDE's chess rating."""
