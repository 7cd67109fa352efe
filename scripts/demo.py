"""The demo: a server of its own, real workers, and this program as match server, lobby and spectator.

All else is imported once signals are seen to, so that Ctrl-C is taken well from the start.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

_BROKEN_PIPE = 141


def main() -> int:
    """Runs the demo with this process's arguments and returns the exit code."""
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        signal.raise_signal(signal.SIGINT)  # which asyncio knows how to take

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        from demonstration.options import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + (stopped or [signal.SIGINT])[0]
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of this process
        return _BROKEN_PIPE
    return code


if __name__ == "__main__":
    sys.exit(main())
