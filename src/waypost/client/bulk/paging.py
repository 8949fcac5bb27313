"""All of a range, frame after frame."""

from collections.abc import Callable, Iterator

import msgspec

from waypost.client.bulk.frame import Frame
from waypost.client.bulk.schema import ReadRange
from waypost.guid import guid_text


def frames(read: Callable[[ReadRange], Frame], wanted: ReadRange) -> Iterator[Frame]:
    """Frames that have one message at least. The queue has to stay the same one meanwhile."""
    while True:
        frame = read(wanted)
        if frame.count:
            yield frame
        if frame.is_last:
            return
        wanted = msgspec.structs.replace(wanted, after=frame.end, epoch=guid_text(frame.epoch))
