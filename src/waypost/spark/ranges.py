"""Which queues are read, which messages of them, and in how many partitions."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from math import ceil
from typing import Final

from waypost.api.bulk import BulkQueue, PlannedRange, PlanRange, ReadRange
from waypost.api.excerpt import excerpt
from waypost.api.names import short_name
from waypost.arrow.packets import Packets
from waypost.errors import InvalidParameter, MessageNotFound, QueueDeleted, QueueNotFound
from waypost.spark.offsets import UNKNOWN, Stretch
from waypost.spark.options import Endpoint, Position, ReadOptions, Split
from waypost.spark.origin import Origin
from waypost.spark.origins import open_origin
from waypost.wire.format_names import FormatName

_log: Final = logging.getLogger("waypost.spark")

# Fewer messages are not worth a task.
_WORTH_A_TASK: Final = 10_000
_TASKS_PER_CORE: Final = 2
# Which kinds a pattern may find; names may name any.
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {"journal": ("journal",), "outgoing": ("outgoing",)}
_MAIN: Final = ("private", "public")


def chosen(origin: Origin, options: ReadOptions) -> list[BulkQueue]:
    """The queues that the options mean. Raises QueueNotFound if there is none."""
    if options.pattern is None:
        queues = list(map(origin.queue, options.queues))
        for queue in queues:
            if options.queue_type == "outgoing" and queue.kind != "outgoing":
                raise QueueNotFound(f"{queue.path} is no outgoing queue: leave the option queueType out to read it")
        # Two names may mean one queue.
        return list({queue.format_name: queue for queue in queues}.values())
    kinds = _KINDS.get(options.queue_type, _MAIN)
    pattern = options.pattern
    if options.queue_type == "journal" and not pattern.lower().endswith(";journal"):
        pattern += ";journal"
    found = [queue for queue in origin.queues(pattern) if queue.kind in kinds]
    if not found:
        raise QueueNotFound(
            f"no queue of the type {options.queue_type} matches the queuePattern {excerpt(options.pattern)} "
            f"at {options.endpoint}"
        )
    return found


def place_of(origin: Origin, queue: BulkQueue, position: Position, option: str) -> int | None:
    """The number behind which a read begins, or up to which it goes; None for the end that is stable."""
    if position == "earliest":
        return 0
    if position == "latest":
        return None
    if isinstance(position, datetime):
        return origin.seq_at(queue.format_name, position)
    assert isinstance(position, Mapping)
    for name, seq in position.items():
        if _is_named(queue, name):
            return seq
    raise InvalidParameter(f"the option {option} has no place for the queue {queue.format_name}")


def stable(queue: BulkQueue, endpoint: Endpoint) -> int:
    return queue.committed if endpoint.locked == "skip" else queue.stable


def ends_short(name: str, plan: PlannedRange) -> str:
    """What a reader is told whose plan ends before messages that are there."""
    return (
        f"the read of {name} ends short, at {plan.bounds[-1]}: {plan.behind} messages behind it are held back by "
        f"{plan.held_by}, and are read when those are committed, dropped or given back"
    )


def warn_if_short(origin: Origin, queue: BulkQueue, end: int) -> None:
    """Say so if a read up to the end that is stable leaves out messages that are there."""
    if queue.held:
        plan = origin.plan(PlanRange(name=queue.format_name, after=end, max_messages=1, epoch=queue.epoch))
        if plan.held_by:
            _log.warning("%s", ends_short(queue.format_name, plan))


def divided(origin: Origin, stretch: Stretch, parts: int) -> list[Stretch]:
    """The stretch in parts, with the messages that it has now."""
    after, up_to = stretch.after, stretch.up_to
    wanted = PlanRange(name=stretch.queue, after=after, up_to=up_to, parts=max(parts, 1), epoch=stretch.epoch)
    plan = origin.plan(wanted)
    edges = zip(plan.bounds[:-1], plan.bounds[1:], plan.counts, strict=True)
    return [Stretch(stretch.queue, plan.epoch, after, up_to, count) for after, up_to, count in edges]


def parts_for(count: int, total: int, split: Split) -> int:
    """Into how many parts `count` messages go, out of `total` that are read together."""
    if count <= 0 or total <= 0:
        return 1
    wanted = ceil(count / _WORTH_A_TASK)
    wanted = min(wanted, ceil(_TASKS_PER_CORE * (os.cpu_count() or 1) * count / total))
    if split.min_partitions is not None:
        wanted = max(wanted, ceil(split.min_partitions * count / total))
    if split.max_messages is not None:
        wanted = max(wanted, ceil(count / split.max_messages))
    return min(wanted, count)


def packets(options: ReadOptions, stretch: Stretch) -> Iterator[Packets]:
    """What a task reads. Raises MessageNotFound if messages that were planned are gone and that matters."""
    wanted = ReadRange(name=stretch.queue, after=stretch.after, up_to=stretch.up_to, epoch=stretch.epoch)
    count = 0
    with closing(open_origin(options.endpoint)) as origin:
        for page in origin.read(wanted):
            count += len(page)
            yield page
    if options.fail_on_data_loss and count < stretch.count:
        raise gone(stretch, count)


def gone(stretch: Stretch, count: int) -> MessageNotFound:
    return MessageNotFound(
        f"{stretch.count - count} of {stretch.count} messages of {stretch.queue} behind {stretch.after} up to "
        f"{stretch.up_to} are gone: somebody else has received or purged them, or they expired; set the option "
        "failOnDataLoss to false to go on without them, or read in the mode claim"
    )


def recreated(queue: str) -> QueueDeleted:
    return QueueDeleted(
        f"the queue {queue} was deleted, or deleted and created again, after the query had read from it: what it had "
        "is gone; set the option failOnDataLoss to false to go on with what is there now"
    )


def _is_named(queue: BulkQueue, name: str) -> bool:
    """By its format name, its path, or the short name that people type."""
    computer = queue.path.partition("\\")[0]
    names = {queue.format_name.lower(), queue.path.lower()}
    names.add(short_name(FormatName.parse(queue.format_name), computer).lower())
    wanted = name.lower()
    return wanted in names or wanted.removeprefix("private$\\") in names


def known(count: int) -> int:
    """A count for adding up."""
    return 0 if count == UNKNOWN else count
