"""Checks of a queue manager and its folder, for the daemon and for a queue manager inside a program."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from waypost.api.status import Check
from waypost.clock import Now
from waypost.node.node import Node
from waypost.node.shortages import disk_shortage, quota_shortage
from waypost.store.port import LOW_HINT

_LITTLE_ROOM: Final = 0x1000_0000
_SHOWN: Final = 3
# Permissions of others than owner and group. On Windows these bits mean nothing.
OTHERS: Final = 0 if sys.platform == "win32" else 0o007
# 2024-01-01: a clock before that was never set.
_EARLIEST: Final = 1_704_067_200


def examine_node(node: Node, path: Path, now: Now) -> Iterator[Check]:
    """`path` is the data folder."""
    yield from _store(node, path)
    yield _damaged(node)
    yield _permissions(path)
    yield _clock(node, now)
    if node.network is None:
        yield Check("network", True, "this queue manager is by itself, without a network")


def _store(node: Node, path: Path) -> Iterator[Check]:
    trouble = node.kernel.failure or node.kernel.trouble
    if trouble is None:
        yield Check("store", True, f"the store in {path} can be written")
    else:
        yield Check("store", False, str(trouble), "mend the disk, or make room; what waits is written when it can be")
    free = shutil.disk_usage(path).free
    room = f"{free >> 20} MiB are free, and the store has {node.kernel.room.reserve >> 20} MiB in reserve"
    if shortage := disk_shortage(node):
        yield Check("disk", False, f"{shortage}; receives go on", LOW_HINT)
    elif free >= _LITTLE_ROOM:
        yield Check("disk", True, room)
    else:
        yield Check("disk", False, f"only {room}", "make room on the disk of the store")
    if shortage := quota_shortage(node):
        yield Check("quota", False, shortage, "receive or purge messages, or raise quotas.machine_kb")
    else:
        yield Check("quota", True, "all queues together have room for new messages")


def _damaged(node: Node) -> Check:
    """Messages that are lost to their readers because the disk did not keep them."""
    damaged = node.damaged
    if not len(damaged):
        return Check("damage", True, "no record of a message was found damaged")
    queues = damaged.by_queue
    shown = ", ".join(f"{count} of {name}" for name, count in queues[:_SHOWN])
    more = f" and {len(queues) - _SHOWN} more queues" if len(queues) > _SHOWN else ""
    sentence = f"damaged messages were set aside: {shown}{more}"
    hint = (
        "look at the disk; `waypost store verify` finds all that is damaged, `waypost store damaged` shows what is "
        "known of these messages, and with --forget lets them go"
    )
    return Check("damage", False, sentence, hint)


def _permissions(path: Path) -> Check:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & OTHERS:
        return Check(
            "permissions", False, f"everybody on this computer can open {path} (mode {mode:04o})", f"chmod o-rwx {path}"
        )
    return Check("permissions", True, f"only its owner and group can open {path}")


def _clock(node: Node, now: Now) -> Check:
    youngest = max((queue.create_time for queue in node.manager.collection.by_number.values()), default=0)
    if now.wall < max(_EARLIEST, youngest):
        sentence = "the clock is behind the time at which queues were created"
        return Check("clock", False, sentence, "set the clock: messages expire by it")
    return Check("clock", True, "the clock goes forward")
