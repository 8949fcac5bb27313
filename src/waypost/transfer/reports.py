"""The texts of report messages about the progress of a traced message: MS-MQQB 3.1.5.8.9 and 3.1.7.1.7.

Programs read them: names of days and months are English everywhere, and times are in UTC.
"""

from datetime import UTC, datetime
from typing import Final

from waypost.guid import guid_text
from waypost.wire.identifiers import MessageIdentifier

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def label(identifier: MessageIdentifier, hops: int, wall: float) -> str:
    """The Label of both reports, for a traced message with this UserHeader.Flags.RC. The packet adds its null."""
    source = guid_text(identifier.queue_manager_guid).upper()
    return f"{source[:4]}:{identifier.ordinal:08X}:{hops:02X} received by {source} at {_time_date(wall)}"


def received_body(identifier: MessageIdentifier, target_queue: str) -> bytes:
    """MS-MQQB 3.1.5.8.9, with the format name of the queue that the message is for."""
    return _unicode(_message_lines(identifier, target_queue))


def sent_body(identifier: MessageIdentifier, target_queue: str, next_hop: str, hops: int) -> bytes:
    """MS-MQQB 3.1.7.1.7. The next hop is an IP address; RFC 3986 has no zone in one."""
    address = next_hop.partition("%")[0]
    return _unicode(
        _message_lines(identifier, target_queue)
        + f"<NEXT HOP>{address}</NEXT HOP>\r\n"
        + f"<HOP COUNT>{hops:02X} </HOP COUNT>\r\n"
    )  # fmt: skip


def _message_lines(identifier: MessageIdentifier, target_queue: str) -> str:
    return (
        f"<MESSAGE ID>{identifier.ordinal:08X}</MESSAGE ID>\r\n"
        f"<TARGET QUEUE>{target_queue}</TARGET QUEUE>\r\n"
    )  # fmt: skip


def _time_date(wall: float) -> str:
    time = datetime.fromtimestamp(wall, UTC)
    half = "AM" if time.hour < 12 else "PM"
    hour = f"{(time.hour + 11) % 12 + 1:02}:{time.minute:02}:{time.second:02}"
    return f"{hour} {half} {_DAYS[time.weekday()]},{_MONTHS[time.month - 1]} {time.day:02} {time.year % 100:02}"


def _unicode(text: str) -> bytes:
    """Names come from packets, which can hold lone surrogates."""
    return text.encode("utf-16-le", "surrogatepass")
