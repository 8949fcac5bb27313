"""Messages that have to come in frames, from the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from waypost.api.frames import ATTRIBUTES_SIZE, Frame
from waypost.sim.model.records import ModelMessage
from waypost.sim.violation import Violation
from waypost.store.records import MessageRecord


@dataclass(frozen=True, slots=True)
class Row:
    """A message at one moment. `mark` is in its packet; without a mark the packet is not compared."""

    lookup_id: int
    mark: bytes
    counts: tuple[int, int]
    size: int


def row_of(message: ModelMessage) -> Row:
    mark = b"" if message.is_acknowledgment else message.draft.mark
    return Row(message.lookup_id, mark, (message.abort_count, message.move_count), message.size)


def records(frame: Frame) -> list[tuple[int, MessageRecord]]:
    """The messages of a frame, with their LookupIdentifiers."""
    places = range(0, len(frame.attributes), ATTRIBUTES_SIZE)
    heads = [bytes(frame.attributes[at : at + ATTRIBUTES_SIZE]) for at in places]
    return [
        (lookup_id, MessageRecord.decode(head + packet))
        for lookup_id, head, packet in zip(frame.numbers(), heads, frame.each_packet(), strict=True)
    ]


def check_rows(what: str, found: Frame, due: Sequence[Row], max_bytes: int) -> int:
    """Check that a frame has the first rows due, at least one, up to the limit. Returns their number."""
    got = records(found)
    if due and not got:
        raise Violation(f"{what}: expected {len(due)} messages, but found none")
    if len(got) > len(due):
        raise Violation(f"{what}: expected {len(due)} messages, but found {len(got)}")
    for row, (lookup_id, record) in zip(due, got, strict=False):
        if lookup_id != row.lookup_id:
            raise Violation(f"{what}: expected the message {row.lookup_id:#x}, but found {lookup_id:#x}")
        if row.mark not in record.packet:
            raise Violation(
                f"{what}: expected the message {lookup_id:#x}, but found another message with that LookupIdentifier"
            )
        counts = record.abort_count, record.move_count
        if counts != row.counts:
            raise Violation(f"{what}: expected the abort and move counts {row.counts}, but found {counts}")
    if len(got) > 1 and len(found.packets) > max_bytes:
        raise Violation(f"{what}: expected at most {max_bytes} bytes, but found {len(found.packets)}")
    return len(got)
