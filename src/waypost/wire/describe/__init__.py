"""A packet in words: each header with its section, each field with its offset, value and meaning.

`describe` is for people and tools that look at packets; nothing that moves messages depends on it. It never raises: a
packet that is malformed is described as far as it can be read, and the description carries the error. Whether a packet
is sound is decided by `decode_packet` alone.
"""

from contextlib import suppress
from dataclasses import replace

from waypost.errors import DecodeError
from waypost.wire import base_header, internal_packets, user_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.describe import headers, tables
from waypost.wire.describe.bodies import TEXT_MARK
from waypost.wire.describe.headers import Header
from waypost.wire.describe.model import Description, FieldText, HeaderText, Run, Walk
from waypost.wire.describe.values import FROM_SENT_TIME, utc_text
from waypost.wire.internal_packets import InternalHeader
from waypost.wire.packets import Packet, decode_packet
from waypost.wire.ping import Ping
from waypost.wire.remote_trailers import ExtensionHeader
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_header import UserHeader

__all__ = ["TEXT_MARK", "Description", "FieldText", "HeaderText", "describe", "describe_ping"]


def describe(data: bytes) -> Description:
    """One packet, as `Splitter` gives it, or the datagram of a Ping."""
    try:
        packet: Packet | None = decode_packet(data)
        error = None
    except DecodeError as found:
        packet, error = None, found
    if isinstance(packet, Ping):
        return describe_ping(data)
    chain = _Chain(data)
    try:
        chain.follow(packet)
    except DecodeError as found:
        error = error or found
    return Description(type(packet).__name__ if packet else chain.kind, tuple(chain.headers), error)


def describe_ping(data: bytes) -> Description:
    """A datagram of the ping port, which can be nothing else."""
    chain = _Chain(data)
    try:
        chain.add(headers.PING)
    except DecodeError as error:
        return Description("Ping", tuple(chain.headers), error)
    return Description("Ping", tuple(chain.headers), None)


class _Chain:
    """The headers of one packet, from the first on. `kind` is the best guess for a packet that is malformed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.kind = "packet"
        self.headers: list[HeaderText] = []

    def add(self, header: Header) -> object:
        """Describe the next header and return its record. A malformed one leaves what can be read, then DecodeError."""
        walk = Walk(self.data, self.at)
        walk.run(header.run)
        try:
            record, self.at = header.decode(self.data, self.at)
            if header.rest is not None:
                header.rest(record, walk)
        except DecodeError:
            if header.salvage is not None:
                header.salvage(walk)
            raise
        finally:
            if walk.fields:
                self.headers.append(HeaderText(header.name, header.section, walk.start, tuple(walk.fields)))
        return record

    def follow(self, packet: Packet | None) -> None:
        base = self.add(headers.BASE)
        assert isinstance(base, BaseHeader)
        if base.is_internal:
            self._internal()
        else:
            self._user_message(base, packet)

    def _internal(self) -> None:
        self.kind = "internal packet"
        internal = self.add(headers.INTERNAL)
        assert isinstance(internal, InternalHeader)
        self.kind = tables.PACKET_TYPES.get(internal.packet_type, self.kind)
        match internal.packet_type:
            case internal_packets.SESSION_ACK:
                self.add(headers.SESSION)
            case internal_packets.ESTABLISH_CONNECTION:
                self.add(headers.ESTABLISH_CONNECTION)
            case internal_packets.CONNECTION_PARAMETERS:
                self.add(headers.CONNECTION_PARAMETERS)

    def _user_message(self, base: BaseHeader, packet: Packet | None) -> None:
        self.kind = "UserMessage"
        user = self.add(headers.USER)
        assert isinstance(user, UserHeader)
        self.headers = [_with_expiry(header, user.sent_time) for header in self.headers]
        # MS-MQMQ 2.2.20: the order is fixed, the bits tell what is there.
        for word, mask, parts in (
            (user.flags, user_header.TH, (headers.TRANSACTION,)),
            (user.flags, user_header.SH, (headers.SECURITY,)),
            (user.flags, user_header.MP, (headers.PROPERTIES,)),
            (base.flags, base_header.DH, (headers.DEBUG,)),
            (user.flags, user_header.AH, (headers.SRMP_ENVELOPE, headers.COMPOUND_MESSAGE)),
            (user.flags, user_header.HH, (headers.SOAP,)),
            (user.flags, user_header.MQ, headers.MULTI_QUEUE),
        ):
            if word & mask:
                for part in parts:
                    self.add(part)
        self._ack_body(packet)
        if self.at < base.packet_size:
            self._extension(base.packet_size)
        if base.flags & base_header.SH:
            self.add(headers.SESSION)

    def _extension(self, end: int) -> None:
        """MS-MQRR 2.2.5: decode_packet does not look into the headers that Flags announce, so they are never wrong."""
        extension = self.add(headers.EXTENSION)
        assert isinstance(extension, ExtensionHeader)
        chain = _Chain(self.data[:end])
        chain.at = self.at
        with suppress(DecodeError):
            for flag, header in headers.TRAILERS.items():
                if extension.flags & flag:
                    chain.add(header)
        self.headers += chain.headers
        unknown = self.data[chain.at : end]
        if unknown:
            field = FieldText("Data", chain.at, len(unknown), unknown)
            self.headers.append(HeaderText("Bytes after it", "MS-MQRR 2.2.5", chain.at, (field,)))
        self.at = end

    def _ack_body(self, packet: Packet | None) -> None:
        """The body of a transactional acknowledgment has fields, which are inside MessageBody."""
        if isinstance(packet, OrderAck):
            self._body("OrderAck Body", "MS-MQQB 2.2.4.1", tables.ORDER_ACK_BODY)
        elif isinstance(packet, FinalAck):
            self._body("FinalAck Body", "MS-MQQB 2.2.5.1", tables.FINAL_ACK_BODY)

    def _body(self, name: str, section: str, run: Run) -> None:
        offset = next(field.offset for header in self.headers for field in header.fields if field.name == "MessageBody")
        self.headers.append(HeaderText(name, section, offset, tuple(run.describe(self.data, offset))))


def _with_expiry(header: HeaderText, sent_time: int) -> HeaderText:
    """The header with the moment at which a lifetime in it ends."""
    fields = tuple(
        replace(field, meaning=f"{FROM_SENT_TIME}, until {utc_text(sent_time + field.value)}")
        if field.meaning == FROM_SENT_TIME and isinstance(field.value, int)
        else field
        for field in header.fields
    )
    return replace(header, fields=fields)
