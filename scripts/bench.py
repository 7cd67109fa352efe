"""Runs the benchmark; `scripts/bench` calls this."""

import sys

from benchmarks.main import main

if __name__ == "__main__":
    sys.exit(main())
