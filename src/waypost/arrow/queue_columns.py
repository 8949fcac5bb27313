"""The columns for which no packet is opened: what the queue manager tells beside it, and its bytes."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from waypost.arrow import schema
from waypost.arrow.packets import Packets
from waypost.core.positions import SEQUENCE_MASK

# readings MQDMPR 3.A: the low 56 bits of a LookupIdentifier count arrivals.
_SEQ: Final = np.uint64(SEQUENCE_MASK)


def _queue(packets: Packets) -> pa.Array:
    return pa.repeat(pa.scalar(packets.queue, pa.string()), len(packets))


def _seq(packets: Packets) -> pa.Array:
    if packets.lookup_ids is None:
        return pa.nulls(len(packets), pa.int64())
    return pa.array((packets.lookup_ids & _SEQ).view(np.int64))


def _lookup_id(packets: Packets) -> pa.Array:
    if packets.lookup_ids is None:
        return pa.nulls(len(packets), pa.int64())
    return pa.array(packets.lookup_ids.astype("<u8").view(np.int64))


def _attribute(name: str) -> Callable[[Packets], pa.Array]:
    def column(packets: Packets) -> pa.Array:
        if packets.attributes is None:
            return pa.nulls(len(packets), pa.int64())
        return pa.array(packets.attributes[name].astype(np.int64))

    return column


def _arrived_time(packets: Packets) -> pa.Array:
    if packets.attributes is None:
        return pa.nulls(len(packets), schema.TIMESTAMP)
    return pa.array(packets.attributes["arrival_time"].astype(np.int64) * 1_000_000, schema.TIMESTAMP)


def _authenticated(packets: Packets) -> pa.Array:
    if packets.attributes is None:
        return pa.nulls(len(packets), pa.bool_())
    return pa.array(packets.attributes["authentication_level"] != 0)


def _packet(packets: Packets) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(packets.offsets)), pa.py_buffer(packets.data)]
    return pa.Array.from_buffers(pa.binary(), len(packets), buffers)


QUEUE_COLUMNS: Final[dict[str, Callable[[Packets], pa.Array]]] = {
    "queue": _queue,
    "seq": _seq,
    "lookup_id": _lookup_id,
    "arrived_time": _arrived_time,
    "abort_count": _attribute("abort_count"),
    "move_count": _attribute("move_count"),
    "authenticated": _authenticated,
    "packet": _packet,
}
