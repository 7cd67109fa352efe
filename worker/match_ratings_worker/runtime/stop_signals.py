"""The ways in which a worker process is asked to stop: signals, and the end of its supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Final

#: Seconds that a stopping worker gets to finish its batches before it is killed.
STOP_SECONDS: Final = 15.0


def stop_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT and SIGHUP, but not SIGHUP where it is ignored (nohup) or unknown (Windows)."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        numbers.append(hangup)
    return numbers


def stop_with_supervisor() -> None:
    """Send this process SIGTERM when its standard input ends, and kill it when that does not help.

    The supervisor holds the other end of the pipe, which the operating system closes however it ends.
    """

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="supervisor watch", daemon=True).start()
