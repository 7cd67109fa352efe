"""Commands for child processes that end with their parent, however that ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["tied_to_parent"]

# Runs in between: asks Linux to kill this process when its parent dies, then becomes the program. (A
# `preexec_fn` would do as much, but is not safe in a process with threads.)
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """The command, wrapped so that its process is killed when this one ends; only Linux can do it.

    Linux counts the end of the thread that starts the process as the end of the parent.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
