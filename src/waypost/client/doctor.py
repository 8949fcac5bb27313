"""Checks of a queue manager and its folder, for the daemon and for a queue manager inside a program."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from waypost.api.status import Check
from waypost.client.doctor_queues import NEARLY
from waypost.client.doctor_rights import rights_checks
from waypost.clock import Now
from waypost.core.position_events import KILOBYTE
from waypost.node.node import Node
from waypost.node.shortages import disk_shortage, quota_shortage
from waypost.store.port import LOW_HINT
from waypost.wire.property_values import UNLIMITED

_LITTLE_ROOM: Final = 0x1000_0000
_SHOWN: Final = 3
_DAY: Final = 86_400
# A certificate that ends within this time has to be renewed.
_SOON: Final = 30 * _DAY
# Permissions of others than owner and group. On Windows these bits mean nothing.
OTHERS: Final = 0 if sys.platform == "win32" else 0o007
# 2024-01-01: an earlier clock was never set.
_EARLIEST: Final = 1_704_067_200


def examine_node(node: Node, path: Path, now: Now) -> Iterator[Check]:
    """The checks of a queue manager. `path` is the data folder."""
    yield from _store(node, path)
    yield _damaged(node)
    yield _permissions(path)
    yield _clock(node, now)
    yield _claims(node, now)
    yield from rights_checks(node)
    yield _certificates(node, now)
    if node.network is not None:
        yield _keys(node.network.statistics.messages_not_encrypted)
    if node.network is None:
        yield Check("network", True, "this queue manager does not use the network")


def _certificates(node: Node, now: Now) -> Check:
    """Check for certificates that have expired, or will soon."""
    registered = node.protection.facts.registered
    ending = {digest: each.not_after for digest, each in registered.items() if each.not_after - now.wall < _SOON}
    if not ending:
        count = f"{len(registered)} {'certificate is' if len(registered) == 1 else 'certificates are'} registered"
        return Check("certificates", True, f"{count}; none expires within 30 days")
    shown = [f"{digest.hex()} ({max(0, int(end - now.wall) // _DAY)} days left)" for digest, end in ending.items()]
    sentence = (
        f"{len(ending)} registered certificates have expired or expire within 30 days: {', '.join(shown[:_SHOWN])}"
    )
    hint = (
        "create a new certificate with `waypost cert create`, register the new certificate on each computer that needs "
        "it, and remove the old certificate"
    )
    return Check("certificates", False, sentence, hint)


def _keys(not_encrypted: int) -> Check:
    """Check for messages that were not sent because the keys of their destinations are missing."""
    if not not_encrypted:
        return Check("keys", True, "since the start, no message was held back because of missing keys")
    sentence = f"since the start, {not_encrypted} messages could not be encrypted and were not sent"
    hint = "the log shows the destinations; pin the keys of these hosts with `waypost key trust HOST FILE`"
    return Check("keys", False, sentence, hint)


def _store(node: Node, path: Path) -> Iterator[Check]:
    trouble = node.kernel.failure or node.kernel.trouble
    if trouble is None:
        yield Check("store", True, f"the store in {path} is writable")
    else:
        yield Check(
            "store", False, str(trouble), "repair the disk or free space, so that pending changes can be written"
        )
    free = shutil.disk_usage(path).free
    room = f"{free >> 20} MiB are free, of which the store keeps {node.kernel.room.reserve >> 20} MiB in reserve"
    if shortage := disk_shortage(node):
        yield Check("disk", False, f"{shortage}; receives continue", LOW_HINT)
    elif free >= _LITTLE_ROOM:
        yield Check("disk", True, room)
    else:
        yield Check("disk", False, f"only {room}", "free space on the disk of the store")
    if shortage := quota_shortage(node):
        yield Check("quota", False, shortage, "receive or purge messages, or raise quotas.machine_kb")
    else:
        yield machine_quota(node)


def machine_quota(node: Node) -> Check:
    positions = node.manager.positions
    used = positions.total_bytes
    if positions.quota == UNLIMITED:
        return Check("quota", True, f"all queues together hold {used} bytes; no machine quota is set")
    quota = positions.quota * KILOBYTE
    sentence = f"all queues together hold {used} bytes, {used / quota:.0%} of the machine quota of {quota} bytes"
    if used <= quota * NEARLY:
        return Check("quota", True, sentence)
    return Check("quota", False, sentence, "receive or purge messages, or raise quotas.machine_kb")


def _damaged(node: Node) -> Check:
    """The check for messages that are damaged on disk."""
    damaged, frames = node.damaged, list(node.stages.delivery.damaged.frames.values())
    sentences = []
    if len(damaged):
        queues = damaged.by_queue
        shown = ", ".join(f"{count} of {name}" for name, count in queues[:_SHOWN])
        more = f" and {len(queues) - _SHOWN} more queues" if len(queues) > _SHOWN else ""
        sentences.append(f"damaged messages were removed from their queues: {shown}{more}")
    if frames:
        more = f" and {len(frames) - _SHOWN} more" if len(frames) > _SHOWN else ""
        sentences.append(
            "committed messages have not entered their queues, because their frames are damaged: "
            f"{'; '.join(frames[:_SHOWN])}{more}"
        )
    if not sentences:
        return Check("damage", True, "no damaged messages were found")
    hint = (
        "check the disk; `waypost store verify` finds all damage, `waypost store damaged` shows damaged messages, and "
        "`waypost store damaged --forget` deletes the records of damaged messages and the damaged frames"
    )
    return Check("damage", False, "; ".join(sentences), hint)


def _permissions(path: Path) -> Check:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & OTHERS:
        return Check(
            "permissions", False, f"all users on this computer can open {path} (mode {mode:04o})", f"chmod o-rwx {path}"
        )
    return Check("permissions", True, f"only the owner and group can open {path}")


def _clock(node: Node, now: Now) -> Check:
    youngest = max((queue.create_time for queue in node.manager.collection.by_number.values()), default=0)
    if now.wall < max(_EARLIEST, youngest):
        sentence = "the clock shows a time before the creation of some queues"
        return Check("clock", False, sentence, "set the clock, which determines when messages expire")
    return Check("clock", True, "the clock is plausible")


def _claims(node: Node, now: Now) -> Check:
    """Messages that wait for a query which has committed only some of them."""
    found = list(node.claims.overdue(now))
    if not found:
        return Check("claims", True, "all claims are within their lease")
    shown = ", ".join(f"{each.count} messages of {each.queue} by {each.claim}" for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return Check(
        "claims",
        False,
        "messages stay claimed after the end of their lease, because queries committed only a part of a batch: "
        f"{shown}{more}",
        "start the query again with its checkpoint (`waypost claim list` shows the query), or release the messages "
        "with `waypost claim release QUEUE CLAIM`; if you release the messages, some of them are processed twice",
    )
