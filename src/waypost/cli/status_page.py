"""The status of a queue manager as a page for people, in lines of fewer than 60 characters where names allow it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from waypost.cli.asking import counted

if TYPE_CHECKING:
    from datetime import datetime

    from waypost.api.status import StatusInfo

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
_DAY: Final = 86_400


def status_page(info: "StatusInfo") -> Iterator[str]:
    yield f"{info.name}, Waypost {info.version}"
    yield _fact("guid", info.guid)
    yield _fact("data", info.path)
    yield _fact("started", f"{_time(info.started)}, {_span((info.time - info.started).total_seconds())} ago")
    yield ""
    yield _fact("queues", f"{info.queues}, and {counted(info.outgoing_queues, 'outgoing queue')}")
    yield _fact("messages", _quota(info))
    yield _fact("disk", f"{size_text(info.room_bytes)} for new messages")
    yield _fact("sessions", f"{info.sessions} with other queue managers")
    yield _fact("readers", f"{info.rpc_connections} over RPC, {counted(info.rpc_open_calls, 'call')} waiting")
    if info.listeners:
        yield ""
        for listener in info.listeners:
            address = f"[{listener.address}]" if ":" in listener.address else listener.address
            yield _fact(listener.name, f"{address}:{listener.port}")
    yield ""
    if info.longest_turn is not None:
        turn = info.longest_turn
        yield f"Longest turn of the event loop: {turn.seconds:.2f} s at {_time(turn.at)}, {turn.what}."
    troubles = [each for each in (info.trouble, info.shortage) if each]
    for each in troubles:
        yield f"TROUBLE: {each}."
    yield (
        "`waypost doctor` shows details."
        if troubles
        else "The queue manager accepts messages. `waypost doctor` runs more checks."
    )


def size_text(count: int) -> str:
    """Bytes in the largest unit that fits."""
    if count < 1024:
        return counted(count, "byte")
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_UNITS[unit]}"


def _fact(name: str, value: str) -> str:
    return f"  {name:<10}{value}"


def _quota(info: "StatusInfo") -> str:
    held = size_text(info.bytes)
    if info.quota_bytes is None:
        return f"{held}, no machine quota"
    part = info.bytes / info.quota_bytes if info.quota_bytes else 1.0
    return f"{held}, {part:.0%} of the machine quota of {size_text(info.quota_bytes)}"


def _time(time: "datetime") -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _span(seconds: float) -> str:
    days, rest = divmod(max(int(seconds), 0), _DAY)
    hours, minutes = rest // 3600, rest % 3600 // 60
    if days:
        return f"{counted(days, 'day')} {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
