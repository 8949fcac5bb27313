"""All of a range or of a part of a claim, frame after frame."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from waypost.client.bulk.frame import Frame
from waypost.client.bulk.schema import ReadClaim, ReadRange
from waypost.guid import guid_text

W = TypeVar("W", ReadRange, ReadClaim)


def frames(read: Callable[[W], Frame], wanted: W) -> Generator[Frame, None, None]:
    """Frames that have one message at least. The queue has to stay the same one meanwhile."""
    while True:
        frame = read(wanted)
        if frame.count:
            yield frame
        if frame.is_last:
            return
        wanted = _behind(frame, wanted)


def frames_ahead(read: Callable[[W], Frame], wanted: W) -> Generator[Frame, None, None]:
    """The same, but while the caller is busy with one frame, the next is read in another thread."""
    with ThreadPoolExecutor(1, "waypost-frames") as ahead:
        coming = ahead.submit(read, wanted)
        while True:
            frame = coming.result()
            if not frame.is_last:
                wanted = _behind(frame, wanted)
                coming = ahead.submit(read, wanted)
            if frame.count:
                yield frame
            if frame.is_last:
                return


def _behind(frame: Frame, wanted: W) -> W:
    """What to ask for when this much has come."""
    start = "after" if isinstance(wanted, ReadRange) else "start"
    return msgspec.structs.replace(wanted, **{start: frame.end, "epoch": guid_text(frame.epoch)})
