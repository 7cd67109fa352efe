"""arq's worker class, with a clean end."""

from __future__ import annotations

import asyncio
import signal

from arq.constants import in_progress_key_prefix
from arq.worker import Worker

from .stop_signals import stop_signals


class GracefulWorker(Worker):
    """An arq worker that also ends cleanly when it is stopped while it takes up jobs, and on SIGHUP."""

    async def main(self) -> None:
        """Work until stopped. (Not in __init__: arq reads its options from the signature.)"""
        if self._handle_signals:
            for number in stop_signals():
                self._add_signal_handler(number, self.handle_sig)
        await super().main()

    async def close(self) -> None:
        """Wait for cancelled jobs, then close as arq does; in arq the first cancelled job ends the close."""
        if not self._handle_signals:
            self.handle_sig(signal.SIGUSR1)
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        # arq does not put back a job that was cancelled before it began; without its lock others can run it.
        unbegun = [in_progress_key_prefix + name for name, task in self.tasks.items() if task.cancelled()]
        self.tasks.clear()
        if unbegun:
            await self.pool.delete(*unbegun)
        await super().close()
