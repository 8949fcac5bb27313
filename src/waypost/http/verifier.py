"""The verification of the store beside the work of the queue manager, by another process.

One is under way at a time, and goes on without whoever asked for it.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from waypost.client.storage.process import Verification
from waypost.errors import StoreError


class VerificationObject(Struct):
    """How far it is, in pages. When it is over, `report` has the result, or `error` why there is none."""

    running: bool
    done: int = 0
    total: int = 0
    report: dict[str, Any] | None = None
    error: str = ""


class Verifier:
    """The last verification."""

    __slots__ = ("_folder", "_task", "_under_way", "state")

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._under_way: Verification | None = None
        self._task: asyncio.Task[None] | None = None
        self.state = VerificationObject(running=False)

    def start(self) -> None:
        """Begin one, unless one is under way."""
        if not self.state.running:
            self._under_way = verification = Verification(self._folder)
            self.state = VerificationObject(running=True)
            self._task = asyncio.get_running_loop().create_task(self._wait(verification))

    async def _wait(self, verification: Verification) -> None:
        try:
            report = await asyncio.to_thread(verification.wait, self._progress)
            self.state = VerificationObject(running=False, report=report.to_dict())
        except StoreError as error:
            self.state = VerificationObject(running=False, error=str(error))

    def _progress(self, done: int, total: int) -> None:
        """In the thread that waits: the next who asks sees it."""
        self.state = VerificationObject(running=True, done=done, total=total)

    def stop(self) -> None:
        if self._under_way is not None and self.state.running:
            self._under_way.stop()
