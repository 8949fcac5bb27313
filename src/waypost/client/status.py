"""The state of a queue manager at one moment, for the daemon and for a queue manager inside a program."""

from datetime import UTC, datetime
from pathlib import Path

import waypost
from waypost.api.status import IdentityInfo, StatusInfo
from waypost.core.position_events import KILOBYTE
from waypost.guid import guid_text
from waypost.node.node import Node
from waypost.node.shortages import shortages
from waypost.security.callers import Caller
from waypost.wire.property_values import UNLIMITED


def status_of(node: Node, path: Path, started: float, now: float) -> StatusInfo:
    """The status of a queue manager. `path` is the data folder; both times are in seconds since 1970."""
    core, network, remote = node.manager, node.network, node.remote
    return StatusInfo(
        name=core.identity.computer_name,
        guid=guid_text(core.identity.identifier),
        version=waypost.__version__,
        path=str(path),
        started=second_of(started),
        time=second_of(now),
        queues=core.collection.count,
        outgoing_queues=len(core.collection.outgoing),
        bytes=core.total_bytes,
        quota_bytes=None if core.positions.quota == UNLIMITED else core.positions.quota * KILOBYTE,
        sessions=0 if network is None else network.statistics.sessions_open,
        rpc_connections=0 if remote is None else remote.statistics.connections,
        rpc_open_calls=0 if remote is None else remote.statistics.open_calls,
        trouble=str(node.kernel.trouble or ""),
        shortage="; ".join(shortages(node)),
        room_bytes=max(node.kernel.room.free, 0),
    )


def identity_of(node: Node, caller: Caller) -> IdentityInfo:
    """The identity of a queue manager and of a caller."""
    identity = node.manager.identity
    return IdentityInfo(
        name=identity.computer_name,
        guid=guid_text(identity.identifier),
        version=waypost.__version__,
        who=caller.name,
        sid=str(caller.sid),
        role=caller.role.word,
    )


def second_of(time: float) -> datetime:
    """A time in seconds since 1970, rounded down to a whole second."""
    return datetime.fromtimestamp(int(time), UTC)
