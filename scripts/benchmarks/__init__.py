"""What `scripts/bench` measures; it says how to read the figures with `--help`."""
