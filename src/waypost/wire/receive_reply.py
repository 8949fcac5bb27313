"""The result of R_StartReceive and R_StartTransactionalReceive, the same for both: MS-MQRR 3.1.4.7 and 3.1.4.13."""

from dataclasses import dataclass, field

from waypost.hresult import HResult
from waypost.wire.ndr import NdrReader, NdrWriter
from waypost.wire.remote_packet import cut_sections, sequence_id
from waypost.wire.section_buffer import SectionBuffer, read_sections, write_sections


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Most bytes of a body that a reader wants: dwMaxBodySize, dwMaxCompoundMessageSize for a message over HTTP."""

    max_body_size: int
    max_compound_message_size: int


@dataclass(slots=True)
class ReceiveReply:
    """The out parameters and the result. A call that failed has no sections and zeros."""

    arrive_time: int = 0
    sequence_id: int = 0
    sections: list[SectionBuffer] = field(default_factory=list)
    hresult: int = HResult.MQ_OK

    @classmethod
    def of(cls, packet: bytes, lookup_id: int, arrive_time: int, limits: BodyLimits) -> "ReceiveReply":
        """The answer MQ_OK with a message; `packet` is the encoded RemotePacket."""
        sections = cut_sections(packet, limits.max_body_size, limits.max_compound_message_size)
        return cls(arrive_time, sequence_id(lookup_id), sections)

    def write(self, writer: NdrWriter) -> None:
        writer.u32(self.arrive_time, "pdwArriveTime")
        writer.u64(self.sequence_id, "pSequenceId")
        write_sections(writer, self.sections)
        writer.u32(self.hresult, "HRESULT")

    @classmethod
    def read(cls, reader: NdrReader) -> "ReceiveReply":
        return cls(reader.u32("pdwArriveTime"), reader.u64("pSequenceId"), read_sections(reader), reader.u32("HRESULT"))
