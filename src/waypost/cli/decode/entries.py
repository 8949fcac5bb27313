"""What is shown: a finding with its description, in the shape that text and JSON share."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from waypost.cli.decode.captures import NANOSECONDS
from waypost.cli.decode.frames import Remark
from waypost.cli.decode.packets import Finding, FoundPacket, FoundPing, Gap, Stray
from waypost.errors import DecodeError
from waypost.wire.describe import HeaderText, describe, describe_ping

# The last second that a calendar date can have, 9999-12-31.
_LAST_SECOND: Final = 253_402_300_799


@dataclass(slots=True, frozen=True)
class Trouble:
    """Why something was not decoded. Only a malformed packet has a section, a field and an offset."""

    reason: str
    section: str | None = None
    field: str | None = None
    offset: int | None = None


@dataclass(slots=True, frozen=True)
class Entry:
    """One block. `number` counts packets and is None for the rest; `data` is what a dump can be made of."""

    number: int | None
    source: str | None
    destination: str | None
    time: str | None
    kind: str
    size: int
    data: bytes
    headers: tuple[HeaderText, ...]
    trouble: Trouble | None


@dataclass(slots=True)
class Tally:
    """The counts of a run."""

    packets: int = 0
    malformed: int = 0
    gaps: int = 0
    strays: int = 0
    remarks: int = 0
    refused: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.malformed or self.gaps or self.strays or self.remarks or self.refused)

    def __str__(self) -> str:
        parts = [_count(self.packets, "packet", "packets"), f"{self.malformed} malformed"]
        if self.gaps:
            parts.append(_count(self.gaps, "gap", "gaps"))
        if self.strays:
            parts.append(_count(self.strays, "run of stray bytes", "runs of stray bytes"))
        if self.remarks:
            parts.append(_count(self.remarks, "frame not used", "frames not used"))
        if self.refused:
            parts.append(_count(self.refused, "input refused", "inputs refused"))
        return ", ".join(parts)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def make_entry(finding: Finding | Remark, tally: Tally) -> Entry:
    """The entry of a finding, counted."""
    time = time_text(finding.time)
    match finding:
        case FoundPacket(origin, _, data) | FoundPing(origin, _, data):
            description = (describe_ping if isinstance(finding, FoundPing) else describe)(data)
            tally.packets += 1
            error = description.error
            tally.malformed += error is not None
            trouble = None if error is None else _malformed(error)
            kind, size = description.kind, len(data)
            return Entry(
                tally.packets, origin.source, origin.destination, time, kind, size, data, description.headers, trouble
            )
        case Gap(origin, _, size, reason):
            tally.gaps += 1
            return Entry(
                None,
                origin.source,
                origin.destination,
                time,
                "gap",
                size,
                b"",
                (),
                Trouble(f"this part of the stream {reason}"),
            )
        case Stray(origin, _, size, reason, sample):
            tally.strays += 1
            return Entry(
                None, origin.source, origin.destination, time, "stray bytes", size, sample, (), Trouble(reason)
            )
        case Remark():
            tally.remarks += 1
            return Entry(None, None, None, time, "remark", 0, b"", (), Trouble(finding.text))


def _malformed(error: DecodeError) -> Trouble:
    return Trouble(error.reason, error.section, error.field, error.offset)


def time_text(time: int | None) -> str | None:
    """Nanoseconds since 1970 as ISO 8601; None where there is no time or none that a calendar has."""
    if time is None or not 0 <= time <= _LAST_SECOND * NANOSECONDS:
        return None
    seconds, nanoseconds = divmod(time, NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1000:06d}Z"
