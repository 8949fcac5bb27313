"""MS-MQRR 2.2.6, 2.2.7: the one or two sections in which a remote read returns a packet, in NDR and NDR64.

A packet is one section, or two if a part of its body was left out: the first ends where the body was cut, the second
holds what follows the body. `section_size_alloc` says how long a section is in the packet, `section_size` how many of
its bytes are in `data`. Sections that break these rules are neither read nor written nor joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_REMOTE_PACKET_SIZE
from waypost.wire.ndr import NdrReader, NdrWriter

SECTION: Final = "MS-MQRR 2.2.6"
MAX_SECTIONS: Final = 2
# The enum with its gap, two DWORDs and a referent.
MIN_SIZE: Final = 16


class SectionType(IntEnum):
    """MS-MQRR 2.2.7."""

    ST_FULL_PACKET = 0
    ST_BINARY_FIRST_SECTION = 1
    ST_BINARY_SECOND_SECTION = 2
    ST_SRMP_FIRST_SECTION = 3
    ST_SRMP_SECOND_SECTION = 4


TYPES: Final = frozenset(SectionType)
FIRST_SECTIONS: Final = (SectionType.ST_BINARY_FIRST_SECTION, SectionType.ST_SRMP_FIRST_SECTION)
# The types of all sections of a packet, in their order.
SEQUENCES: Final = frozenset(
    {
        (SectionType.ST_FULL_PACKET,),
        (SectionType.ST_BINARY_FIRST_SECTION,),
        (SectionType.ST_BINARY_FIRST_SECTION, SectionType.ST_BINARY_SECOND_SECTION),
        (SectionType.ST_SRMP_FIRST_SECTION,),
        (SectionType.ST_SRMP_FIRST_SECTION, SectionType.ST_SRMP_SECOND_SECTION),
    }
)


@dataclass(slots=True)
class SectionBuffer:
    """A run of a packet's bytes."""

    section_buffer_type: SectionType
    section_size_alloc: int
    section_size: int
    data: bytes

    @property
    def left_out(self) -> int:
        """Number of bytes of the body that were not transferred."""
        return self.section_size_alloc - self.section_size

    @classmethod
    def read(cls, reader: NdrReader) -> "SectionBuffer":
        """The data is there after the reader's flush."""
        with reader.structure(reader.syntax):
            number = reader.enum("SectionBufferType")
            if number not in TYPES:
                at = reader.offset - reader.syntax.enum.size
                raise DecodeError("MS-MQRR 2.2.7", "SectionBufferType", at, f"{number} is not a SectionType")
            record = cls(SectionType(number), reader.u32("SectionSizeAlloc"), reader.u32("SectionSize"), b"")
            if not reader.pointer("pSectionBuffer", partial(record._read_data, reader)):
                raise DecodeError(SECTION, "pSectionBuffer", reader.offset - reader.syntax, "must not be NULL")
        return record

    def write(self, writer: NdrWriter) -> None:
        with writer.structure(writer.syntax):
            writer.enum(self.section_buffer_type, "SectionBufferType")
            writer.u32(self.section_size_alloc, "SectionSizeAlloc")
            writer.u32(self.section_size, "SectionSize")
            writer.pointer(partial(self._write_data, writer))

    def _read_data(self, reader: NdrReader) -> None:
        reader.max_count(self.section_size, 1, "pSectionBuffer")
        self.data = reader.octets(self.section_size, "pSectionBuffer")

    def _write_data(self, writer: NdrWriter) -> None:
        writer.max_count(self.section_size, "pSectionBuffer")
        writer.octets(self.data)


def write_sections(writer: NdrWriter, sections: Sequence[SectionBuffer]) -> None:
    """MS-MQRR 3.1.4.7 pdwNumberOfSections and ppPacketSections; no section at all stands for a failed call."""
    if sections and (fault := _fault_of(sections)):
        raise EncodeError(SECTION, "ppPacketSections", fault)
    writer.u32(len(sections), "pdwNumberOfSections")
    writer.pointer(partial(_write_array, writer, sections) if sections else None)
    writer.flush()


def read_sections(reader: NdrReader) -> list[SectionBuffer]:
    """The reverse of write_sections."""
    count = reader.u32("pdwNumberOfSections")
    if count > MAX_SECTIONS:
        reason = f"must be at most {MAX_SECTIONS}, not {count}"
        raise DecodeError(SECTION, "pdwNumberOfSections", reader.offset - 4, reason)
    sections: list[SectionBuffer] = []
    at = reader.offset
    if not reader.pointer("ppPacketSections", partial(_read_array, reader, count, sections)) and count:
        raise DecodeError(SECTION, "ppPacketSections", at, f"must not be NULL if the count is {count}")
    reader.flush()
    if sections and (fault := _fault_of(sections)):
        raise DecodeError(SECTION, "ppPacketSections", at, fault)
    return sections


def join_sections(sections: Sequence[SectionBuffer]) -> bytes:
    """The packet, with zeros for the part of the body that was left out (readings MQRR 3.23)."""
    if fault := _fault_of(sections):
        raise DecodeError(SECTION, "ppPacketSections", 0, fault)
    return b"".join(section.data + bytes(section.left_out) for section in sections)


def _read_array(reader: NdrReader, count: int, sections: list[SectionBuffer]) -> None:
    reader.max_count(count, MIN_SIZE, "ppPacketSections")
    sections.extend(SectionBuffer.read(reader) for _ in range(count))


def _write_array(writer: NdrWriter, sections: Sequence[SectionBuffer]) -> None:
    writer.max_count(len(sections), "ppPacketSections")
    for section in sections:
        section.write(writer)


def _fault_of(sections: Sequence[SectionBuffer]) -> str:
    """The fault in the sections of a packet; empty without one."""
    types = tuple(section.section_buffer_type for section in sections)
    if types not in SEQUENCES:
        return f"a packet must not consist of the sections {[section_type.name for section_type in types]}"
    for section in sections:
        if section.section_size != len(section.data):
            return f"SectionSize is {section.section_size}, but the section has {len(section.data)} bytes"
        is_cut = section.section_buffer_type in FIRST_SECTIONS
        if section.left_out < 0 or (section.left_out and not is_cut):
            return f"SectionSizeAlloc {section.section_size_alloc} does not fit SectionSize {section.section_size}"
    if len(sections) > 1 and not sections[0].left_out:
        return "two sections are present, although the body is complete"
    if sum(section.section_size_alloc for section in sections) > MAX_REMOTE_PACKET_SIZE:
        return f"the packet is longer than {MAX_REMOTE_PACKET_SIZE} bytes"
    return ""
