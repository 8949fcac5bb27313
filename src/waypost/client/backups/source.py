"""A backup of the store in a folder as a stream of bytes, made by another process (waypost.client.backups.copying)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, Self

import waypost
from waypost import errors
from waypost.api.defaults import BACKUP_SECONDS
from waypost.errors import BackupError, StoreError
from waypost.limits import BACKUP_STALL_SECONDS, MAX_STORE_SIZE

_PART: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class BackupLimits:
    """The seconds that a backup may take, and the bytes of it that are made in a second; 0 for as many as possible.

    `max_size` and `reserve` are those of the store, in bytes: a backup ends before they make it refuse senders.
    """

    seconds: float = BACKUP_SECONDS
    bytes_per_second: int = 0
    max_size: int = MAX_STORE_SIZE
    reserve: int | None = None


class BackupSource:
    """Read it until there is nothing more. Close it, in any thread, or use it in a `with` statement."""

    __slots__ = ("_is_over", "_process", "_reading")

    def __init__(self, folder: Path, limits: BackupLimits | None = None) -> None:
        limits = limits or BackupLimits()
        home = str(Path(waypost.__file__).parents[1])
        others = os.environ.get("PYTHONPATH")
        reserve = -1 if limits.reserve is None else limits.reserve
        numbers = BACKUP_STALL_SECONDS, limits.seconds, limits.bytes_per_second, limits.max_size, reserve
        try:
            # -P keeps the working folder out of the path that modules are looked for in.
            self._process: Final = subprocess.Popen(
                [sys.executable, "-P", "-m", "waypost.client.backups.copying", str(folder), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([home, *([others] if others else [])])},
            )
        except OSError as error:
            raise BackupError(f"the process that makes a backup does not start: {error.strerror or error}") from None
        self._is_over = False
        self._reading: Final = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        while part := self.read():
            yield part

    def read(self) -> bytes:
        """The next bytes, or b"" at the end of a whole backup. Raises a StoreError if the backup broke off."""
        with self._reading:
            if self._is_over:
                return b""
            assert self._process.stdout is not None
            assert self._process.stderr is not None
            part: bytes = self._process.stdout.read(_PART)
            if part:
                return part
            self._is_over = True
            told = self._process.stderr.read()
            if self._process.wait():
                raise _error(told)
            return b""

    def close(self) -> None:
        """Nothing more is wanted."""
        if self._process.poll() is None:
            # A read in another thread comes to its end with that.
            self._process.kill()
        self._process.wait()
        with self._reading:
            self._is_over = True
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()

    def __del__(self) -> None:
        # Somebody who was asked for a backup and is gone has not closed it.
        process = getattr(self, "_process", None)
        if process is not None and process.poll() is None:
            process.kill()


def _error(told: bytes) -> StoreError:
    try:
        found = json.loads(told)
        kind = getattr(errors, found["error"])
        assert issubclass(kind, StoreError)
        error: StoreError = kind(found["message"])
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
        last = told.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return BackupError("the process that makes the backup has ended" + (f": {last}" if last else ""))
    return error
