"""Verification of the store by another process, while the queue manager works.

Only one runs at a time, and it goes on without the client that started it.
"""

import asyncio
from pathlib import Path
from typing import Final

from waypost.api.status import VerificationInfo
from waypost.client.storage.process import Verification
from waypost.errors import StoreError


class Verifier:
    """The last verification, with its `state`."""

    __slots__ = ("_folder", "_task", "_under_way", "state")

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._under_way: Verification | None = None
        self._task: asyncio.Task[None] | None = None
        self.state = VerificationInfo(running=False)

    def start(self) -> None:
        """Start a verification, unless one is running."""
        if not self.state.running:
            self._under_way = verification = Verification(self._folder)
            self.state = VerificationInfo(running=True)
            self._task = asyncio.get_running_loop().create_task(self._wait(verification))

    async def _wait(self, verification: Verification) -> None:
        try:
            report = await asyncio.to_thread(verification.wait, self._progress)
            self.state = VerificationInfo(running=False, report=report)
        except StoreError as error:
            self.state = VerificationInfo(running=False, error=str(error))

    def _progress(self, done: int, total: int) -> None:
        """Note progress, in the thread that waits."""
        self.state = VerificationInfo(running=True, done=done, total=total)

    def stop(self) -> None:
        if self._under_way is not None and self.state.running:
            self._under_way.stop()
