"""All of a range or of a part of a claim, frame after frame."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from waypost.client.bulk.frame import Frame
from waypost.client.bulk.schema import ReadClaim, ReadRange
from waypost.guid import guid_text

W = TypeVar("W", ReadRange, ReadClaim)


def frames(read: Callable[[W], Frame], wanted: W) -> Iterator[Frame]:
    """Frames that have one message at least. The queue has to stay the same one meanwhile."""
    start = "after" if isinstance(wanted, ReadRange) else "start"
    while True:
        frame = read(wanted)
        if frame.count:
            yield frame
        if frame.is_last:
            return
        wanted = msgspec.structs.replace(wanted, **{start: frame.end, "epoch": guid_text(frame.epoch)})
