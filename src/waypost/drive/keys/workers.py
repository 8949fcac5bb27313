"""Workers: threads that do the work with RSA keys, each with a process of this program behind it, or without one.

The library keeps the interpreter's lock while it signs, so that a thread alone would stop the event loop for half a
millisecond a signature. A daemon therefore gives each worker a process, which starts with the first work, and which a
worker that has rested ends. These processes leave the processors to the event loop. A program that has opened a folder
for itself works in its threads.

Peers have their work done in turn, one piece at a time, so that the work of one delays the others by little.
"""

import os
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from threading import Condition, Lock, Thread
from typing import IO, Any, Final

import msgspec

from waypost.drive.keys.rsa_work import perform
from waypost.errors import ServiceNotAvailable, WaypostError
from waypost.security.work import CheckedSignature, CheckSignature, UnwrapKeys, Work, WrapKeys, WrappedKey

_LENGTH: Final = Struct("<I")
# Seconds after which a worker without work ends.
_REST: Final = 60.0
# Added to the nice value of the daemon: all callers wait for its event loop, and only some of them for keys. At 15 a
# process has a thirtieth of the time of an ordinary one beside it: at 10 it delays senders of plain messages more, and
# at 19 other programs on the computer nearly stop it.
NICENESS: Final = 15
# A process that has ended, or that writes nonsense.
_ENDED: Final = (OSError, EOFError, ValueError)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Work]).decode

Done = Callable[[list[Any] | WaypostError], None]


def worker_count() -> int:
    """The number of workers of a daemon on this computer."""
    return max(2, min(os.cpu_count() or 2, 8))


@dataclass(eq=False, slots=True)
class Piece:
    """Some work for a peer ("" is this computer), which one worker does at a time."""

    work: list[Work]
    done: Done
    peer: str = ""


class Workers:
    """A few workers, which start with the first work. `done` is called in the thread of a worker."""

    def __init__(self, count: int | None = None, *, processes: bool) -> None:
        self.count: Final = count or worker_count()
        self._has_processes: Final = processes
        self._started: Final[list[_Process]] = []
        # The pieces of each peer that wait, and the peers with some in the order of their turns.
        self._waiting: Final[OrderedDict[str, OrderedDict[Piece, None]]] = OrderedDict()
        self._count = 0
        self._changed: Final = Condition(Lock())
        self._threads = 0
        self._idle = 0
        self._is_closed = False

    def submit(self, piece: Piece) -> None:
        """Do some work, and call `done` with the answers, or with an error."""
        with self._changed:
            if self._is_closed:
                return
            self._waiting.setdefault(piece.peer, OrderedDict())[piece] = None
            self._count += 1
            if self._idle < self._count and self._threads < self.count:
                self._threads += 1
                Thread(target=self._run, name="waypost-keys", daemon=True).start()
            self._changed.notify()

    def drop(self, pieces: Iterable[Piece]) -> None:
        """Do nothing of this work that has not begun."""
        with self._changed:
            for piece in pieces:
                if piece in self._waiting.get(piece.peer, ()):
                    self._remove(piece)

    def call(self, work: Work) -> Any:
        """Do some work, and wait for its answer."""
        ready = Lock()
        ready.acquire()
        found: list[list[Any] | WaypostError] = []

        def done(answers: list[Any] | WaypostError) -> None:
            found.append(answers)
            ready.release()

        self.submit(Piece([work], done))
        with self._changed:
            if self._is_closed:
                raise ServiceNotAvailable("the queue manager is closed")
        ready.acquire()
        (answer,) = found
        if isinstance(answer, WaypostError):
            raise answer
        return answer[0]

    def close(self) -> None:
        """Give up the work that has not begun, and end the processes."""
        with self._changed:
            self._is_closed = True
            given_up = [piece for pieces in self._waiting.values() for piece in pieces]
            self._waiting.clear()
            self._count = 0
            self._changed.notify_all()
        for piece in given_up:
            piece.done(ServiceNotAvailable("the queue manager is closed"))

    def _take(self) -> Piece:
        """The first piece of the peer whose turn it is, which comes last then."""
        peer = next(iter(self._waiting))
        piece = next(iter(self._waiting[peer]))
        self._remove(piece)
        if peer in self._waiting:
            self._waiting.move_to_end(peer)
        return piece

    def _remove(self, piece: Piece) -> None:
        pieces = self._waiting[piece.peer]
        del pieces[piece]
        self._count -= 1
        if not pieces:
            del self._waiting[piece.peer]

    def _next(self) -> Piece | None:
        with self._changed:
            self._idle += 1
            try:
                while not self._waiting and not self._is_closed:
                    if not self._changed.wait(_REST) and not self._waiting:
                        break
                if self._waiting:
                    return self._take()
                self._threads -= 1
                return None
            finally:
                self._idle -= 1

    @property
    def processes(self) -> list[int]:
        """The process identifiers of the workers that have started one."""
        with self._changed:
            return [each.pid for each in self._started if each.pid is not None]

    def _run(self) -> None:
        process = _Process() if self._has_processes else None
        if process is not None:
            with self._changed:
                self._started.append(process)
        try:
            while (piece := self._next()) is not None:
                work = piece.work
                try:
                    answers: list[Any] | WaypostError = (
                        [perform(each) for each in work] if process is None else process.perform(work)
                    )
                except WaypostError as error:
                    answers = error
                except Exception as error:  # noqa: BLE001, whatever the library raises, the asker gets an answer
                    answers = ServiceNotAvailable(f"the operation with keys failed: {error}")
                piece.done(answers)
        finally:
            if process is not None:
                process.close()
                with self._changed:
                    self._started.remove(process)


class _Process:
    """A process of this program that does work. It ends when its input ends, so also with this process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def perform(self, work: list[Work]) -> list[Any]:
        """Do some work, a second time if the process ends during the first: somebody else may have killed it."""
        try:
            return self._perform(work)
        except _ENDED:
            self.close()
        try:
            return self._perform(work)
        except _ENDED as error:
            self.close()
            raise ServiceNotAvailable(f"the process for key operations failed: {error}") from error

    def _perform(self, work: list[Work]) -> list[Any]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            command = [sys.executable, "-m", "waypost.drive.keys.workers"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _write(self._process.stdin, _encode(work))
        answers = msgspec.msgpack.decode(_read(self._process.stdout), type=list[tuple[bool, msgspec.Raw]])
        found = []
        for each, (is_answer, data) in zip(work, answers, strict=True):
            if not is_answer:
                raise ServiceNotAvailable(msgspec.msgpack.decode(data, type=str))
            found.append(msgspec.msgpack.decode(data, type=_ANSWERS.get(type(each), Any)))
        return found

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            # Bytes that a dead process did not take are still in the buffer.
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()


_ANSWERS: Final[dict[type[Work], Any]] = {
    CheckSignature: CheckedSignature,
    WrapKeys: list[WrappedKey],
    UnwrapKeys: list[list[bytes]],
}


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def _read(file: IO[bytes]) -> bytes:
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError("the process has ended")
    (length,) = _LENGTH.unpack(head)
    data = file.read(length)
    if len(data) < length:
        raise EOFError("the process has ended")
    return data


def serve(asked: IO[bytes], answered: IO[bytes]) -> None:
    """Answer work until its input ends."""
    while True:
        try:
            data = _read(asked)
        except EOFError:
            return
        _write(answered, _encode([_answer(each) for each in _decode(data)]))


def _answer(work: Work) -> Sequence[object]:
    try:
        return (True, perform(work))
    except Exception as error:  # noqa: BLE001, the asker gets it
        return (False, str(error))


if __name__ == "__main__":
    # Ctrl-C on a terminal stops the daemon, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        os.nice(NICENESS)
    serve(sys.stdin.buffer, sys.stdout.buffer)
