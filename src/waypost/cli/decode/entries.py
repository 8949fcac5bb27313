"""Entries of the output: a finding with its description, in the shape that text and JSON share."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from waypost.captures.containers import LAST_TIME, NANOSECONDS
from waypost.captures.frames import Remark
from waypost.captures.packets import Finding, FoundPacket, FoundPing, Gap, Stray
from waypost.wire import base_header
from waypost.wire.describe import HeaderText, describe, describe_ping


class Problem(StrEnum):
    """The sender is to blame for MALFORMED alone."""

    MALFORMED = "malformed"
    INCOMPLETE = "incomplete"
    GAP = "gap"
    STRAY = "stray"
    REMARK = "remark"


@dataclass(slots=True, frozen=True)
class Trouble:
    """Why something was not decoded. Only a malformed packet has a section, a field and an offset."""

    problem: Problem
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
    problems: Counter[Problem] = field(default_factory=Counter)
    refused: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.problems or self.refused)

    def __str__(self) -> str:
        parts = [_count(self.packets, "packet", "packets"), f"{self.problems[Problem.MALFORMED]} malformed"]
        for number, one, many in (
            (self.problems[Problem.INCOMPLETE], "incomplete", "incomplete"),
            (self.problems[Problem.GAP], "gap", "gaps"),
            (self.problems[Problem.STRAY], "run of stray bytes", "runs of stray bytes"),
            (self.problems[Problem.REMARK], "frame not used", "frames not used"),
            (self.refused, "input refused", "inputs refused"),
        ):
            if number:
                parts.append(_count(number, one, many))
        return ", ".join(parts)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def make_entry(finding: Finding | Remark, tally: Tally) -> Entry:
    """The entry of a finding, counted."""
    if isinstance(finding, FoundPacket | FoundPing):
        tally.packets += 1
        entry = _packet_entry(finding, tally.packets)
    else:
        entry = _other_entry(finding)
    if entry.trouble is not None:
        tally.problems[entry.trouble.problem] += 1
    return entry


def _packet_entry(found: FoundPacket | FoundPing, number: int) -> Entry:
    description = (describe_ping if isinstance(found, FoundPing) else describe)(found.data)
    have, error = len(found.data), description.error
    trouble = None
    if have != found.size:
        whole = f"at least {base_header.SIZE}" if found.size is None else found.size
        trouble = Trouble(Problem.INCOMPLETE, f"only {have} of {whole} bytes are present")
    elif error is not None:
        trouble = Trouble(Problem.MALFORMED, error.reason, error.section, error.field, error.offset)
    return Entry(
        number,
        found.origin.source,
        found.origin.destination,
        time_text(found.time),
        description.kind,
        have,
        found.data,
        description.headers,
        trouble,
    )


def _other_entry(finding: Gap | Stray | Remark) -> Entry:
    time = time_text(finding.time)
    match finding:
        case Gap(origin, _, size, reason):
            trouble = Trouble(Problem.GAP, f"this part of the stream {reason}")
            return Entry(None, origin.source, origin.destination, time, "gap", size, b"", (), trouble)
        case Stray(origin, _, size, reason, sample):
            trouble = Trouble(Problem.STRAY, reason)
            return Entry(None, origin.source, origin.destination, time, "stray bytes", size, sample, (), trouble)
        case Remark(_, text):
            return Entry(None, None, None, time, "remark", 0, b"", (), Trouble(Problem.REMARK, text))


def time_text(time: int | None) -> str | None:
    """Nanoseconds since 1970 as ISO 8601; None without a time, or for a time outside the calendar."""
    if time is None or not 0 <= time <= LAST_TIME:
        return None
    seconds, nanoseconds = divmod(time, NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1000:06d}Z"
