"""Frames of a whole range, or of a part of a claim, one after the other."""

from collections.abc import Callable, Generator
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

import msgspec

from waypost.api.bulk import ReadRange
from waypost.api.claims import ReadClaim
from waypost.api.frames import Frame
from waypost.guid import guid_text

W = TypeVar("W", ReadRange, ReadClaim)


def frames(read: Callable[[W], Frame], wanted: W) -> Generator[Frame, None, None]:
    """Frames of at least one message. The read fails if the queue is deleted and created again meanwhile."""
    while True:
        frame = read(wanted)
        if frame.count:
            yield frame
        if frame.is_last:
            return
        wanted = _behind(frame, wanted)


def frames_ahead(read: Callable[[W], Frame], wanted: W) -> Generator[Frame, None, None]:
    """The frames of `frames`, but another thread reads the next one while the caller is busy with one.

    The caller never waits for that thread to end: it may stop at any frame, and the program may end.
    """
    requests: SimpleQueue[W | None] = SimpleQueue()
    answers: SimpleQueue[Frame | BaseException] = SimpleQueue()
    Thread(target=_answer, args=(read, requests, answers), name="waypost-frames", daemon=True).start()
    try:
        requests.put(wanted)
        while True:
            frame = answers.get()
            if isinstance(frame, BaseException):
                raise frame
            if not frame.is_last:
                wanted = _behind(frame, wanted)
                requests.put(wanted)
            if frame.count:
                yield frame
            if frame.is_last:
                return
    finally:
        requests.put(None)


def _answer(
    read: Callable[[W], Frame], requests: "SimpleQueue[W | None]", answers: "SimpleQueue[Frame | BaseException]"
) -> None:
    while (wanted := requests.get()) is not None:
        try:
            answers.put(read(wanted))
        except BaseException as error:  # noqa: BLE001, it is raised where the frame is waited for
            answers.put(error)


def _behind(frame: Frame, wanted: W) -> W:
    """The request for the rest, after this frame."""
    start = "after" if isinstance(wanted, ReadRange) else "start"
    return msgspec.structs.replace(wanted, **{start: frame.end, "epoch": guid_text(frame.epoch)})
