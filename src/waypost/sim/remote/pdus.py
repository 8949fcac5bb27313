"""The PDUs between a remote reader and the node, decoded for the model: only the necessary parts of C706 12.6."""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

_HEADER: Final = Struct("<BBBBIHHI")
_WORD: Final = Struct("<I")
_LAST_FRAGMENT: Final = 0x02


class Kind(IntEnum):
    REQUEST = 0
    RESPONSE = 2
    FAULT = 3
    BIND = 11
    BIND_ACK = 12
    BIND_NAK = 13
    CO_CANCEL = 18
    ORPHANED = 19


class Pdu(NamedTuple):
    """One fragment, without security."""

    kind: Kind
    call_id: int
    is_last: bool
    data: bytes

    @property
    def stub(self) -> bytes:
        """The body of a response."""
        return self.data[24:]

    @property
    def status(self) -> int:
        """The status of a fault."""
        return self._word(24)

    @property
    def group_id(self) -> int:
        """The association in a bind or its acknowledgment."""
        return self._word(20)

    def _word(self, at: int) -> int:
        word: int = _WORD.unpack_from(self.data, at)[0]
        return word


def take_pdus(buffer: bytearray) -> Iterator[Pdu]:
    """The complete PDUs; an incomplete one stays in the buffer."""
    while len(buffer) >= _HEADER.size:
        _, _, kind, flags, _, length, _, call_id = _HEADER.unpack_from(buffer)
        if len(buffer) < length:
            return
        yield Pdu(Kind(kind), call_id, flags & _LAST_FRAGMENT != 0, bytes(buffer[:length]))
        del buffer[:length]
