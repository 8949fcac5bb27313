"""The choice of queues to read, the ranges of their messages, and the division into partitions."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.bulk import WORTH_A_PART, BulkQueue, PlannedRange, PlanRanges, RangeOfQueue, ReadRange, Rest
from waypost.api.excerpt import excerpt
from waypost.api.names import format_name, short_name
from waypost.arrow.packets import Packets
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import InvalidParameter, MessageNotFound, QueueDeleted, QueueNotFound, WaypostError
from waypost.spark.offsets import Stretch
from waypost.spark.option_values import MAX_NUMBER, Place
from waypost.spark.options import Endpoint, Position, ReadOptions, Split
from waypost.spark.origins import Origin, open_origin
from waypost.wire.format_names import DirectFormatName, FormatName

_log: Final = logging.getLogger("waypost.spark")

_TASKS_PER_CORE: Final = 2
# Kinds of queues that a pattern finds; a name may be of any kind.
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {"journal": ("journal",), "outgoing": ("outgoing",)}
_MAIN: Final = ("private", "public")


def chosen(origin: Origin, options: ReadOptions) -> list[BulkQueue]:
    """The queues that the options choose. Raises QueueNotFound if one does not exist or none matches."""
    if options.pattern is None:
        queues = list(map(origin.queue, options.queues))
        for queue in queues:
            check_kind(options, queue.path, queue.kind)
        return each_once(queues)
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


def each_once(queues: Iterable[BulkQueue]) -> list[BulkQueue]:
    """The queues without repetitions: two names may mean one queue."""
    found: dict[str, BulkQueue] = {}
    for queue in queues:
        found.setdefault(identity(queue.format_name, queue.epoch), queue)
    return list(found.values())


def identity(name: str, epoch: str) -> str:
    """Text that is the same for all names of a queue. An MSMQ host reports no epochs."""
    return epoch or name.lower()


def check_kind(options: ReadOptions, name: str, kind: str) -> None:
    """Raises QueueNotFound if the options want an outgoing queue, and a named queue is not one."""
    if options.queue_type == "outgoing" and kind != "outgoing":
        raise QueueNotFound(f"{name} is not an outgoing queue; to read this queue, remove the option `queueType`")


def position_in(queue: BulkQueue, position: Position, option: str) -> Place:
    """The position in one queue. Raises InvalidParameter if each queue has its own, and this one has none."""
    if not isinstance(position, Mapping):
        return position
    places = [place for name, place in position.items() if _is_named(queue, name)]
    if not places:
        raise InvalidParameter(f"the option `{option}` has no position for the queue {queue.format_name}")
    return places[0]


def place_of(origin: Origin, queue: BulkQueue, position: Position, option: str) -> int | None:
    """The number after which a read begins, or up to which it goes; None for the stable end of the queue."""
    place = position_in(queue, position, option)
    if place == "earliest":
        return 0
    if place == "latest":
        return None
    return origin.seq_at(queue.format_name, place) if isinstance(place, datetime) else place


def check_named(queues: Sequence[BulkQueue], position: Position, option: str) -> None:
    """Raise InvalidParameter if a position is that of a queue that is not read."""
    if isinstance(position, Mapping):
        for name in position:
            if not any(_is_named(queue, name) for queue in queues):
                names = ", ".join(short_name(FormatName.parse(each.format_name), _computer(each)) for each in queues)
                raise InvalidParameter(
                    f"the option `{option}` has a position for {excerpt(name)}, but this read does not include that "
                    f"queue: it includes only {names}"
                )


def stable(queue: BulkQueue, endpoint: Endpoint) -> int:
    return queue.committed if endpoint.locked == "skip" else queue.stable


def ends_short(name: str, end: int, found: BulkQueue | PlannedRange) -> str:
    """The warning for a read that ends before messages of the queue that are held back."""
    return (
        f"the read of {name} ends early, at the arrival number {end}: {found.behind} later messages are held back by "
        f"{found.held_by}; a later read returns these messages when they are no longer held back"
    )


def planned(origin: Origin, stretches: Sequence[Stretch], wanted: PlanRanges) -> Iterator[tuple[Stretch, PlannedRange]]:
    """The plan of each stretch, all in one request. A stretch up to MAX_NUMBER ends at the stable end of its queue."""
    if stretches:
        ranges = [
            RangeOfQueue(
                name=each.queue,
                after=each.after,
                up_to=UNSET if each.up_to == MAX_NUMBER else each.up_to,
                epoch=each.epoch,
            )
            for each in stretches
        ]
        yield from zip(stretches, origin.plan(replace(wanted, ranges=ranges)), strict=True)


def waiting(plan: PlannedRange) -> Rest:
    """The messages of a plan, and those after it."""
    rest = plan.rest
    return replace(
        rest,
        count=sum(plan.counts) + rest.count,
        bytes=sum(plan.sizes) + rest.bytes,
        last=rest.last or plan.bounds[-1],
        oldest=plan.oldest or rest.oldest,
    )


def parts_of(stretch: Stretch, plan: PlannedRange) -> list[Stretch]:
    """The parts of a plan, with the current number of messages in each."""
    edges = zip(plan.bounds[:-1], plan.bounds[1:], plan.counts, strict=True)
    as_of, fresh = (stretch.as_of, stretch.fresh) if stretch.as_of else (plan.as_of, plan.fresh)
    return [
        Stretch(stretch.queue, plan.epoch, after, up_to, count, as_of, tuple(n for n in fresh if after < n <= up_to))
        for after, up_to, count in edges
    ]


def limits_of(split: Split, max_messages: int | UnsetType = UNSET, max_bytes: int | UnsetType = UNSET) -> PlanRanges:
    """The limits of a plan: those of a batch, and those of its tasks."""
    return PlanRanges(
        ranges=[],
        max_messages=max_messages,
        max_bytes=max_bytes,
        parts=split.min_partitions or 1,
        spread=_TASKS_PER_CORE * (os.cpu_count() or 1),
        part_messages=split.max_messages or UNSET,
        part_bytes=split.max_bytes or UNSET,
    )


def edges(count: int, total: int, split: Split, places: Sequence[int]) -> list[int]:
    """The places that divide `count` messages, out of `total`, into tasks. `places`, if not empty, divides by bytes."""
    parts = parts_for(count, total, split)
    even = [count * number // parts for number in range(parts + 1)]
    most = max((stop - start for start, stop in pairwise(places)), default=0)
    is_enough = len(places) > parts and most <= (split.max_messages or count)
    return list(places) if is_enough else sorted({*even, *places})


def parts_for(count: int, total: int, split: Split) -> int:
    """Number of parts for `count` messages, out of `total` that are read together."""
    if count <= 0 or total <= 0:
        return 1
    wanted = ceil(count / WORTH_A_PART)
    wanted = min(wanted, ceil(_TASKS_PER_CORE * (os.cpu_count() or 1) * count / total))
    if split.min_partitions is not None:
        wanted = max(wanted, ceil(split.min_partitions * count / total))
    if split.max_messages is not None:
        wanted = max(wanted, ceil(count / split.max_messages))
    return min(wanted, count)


def packets(options: ReadOptions, stretch: Stretch) -> Iterator[Packets]:
    """The messages of a task. Raises MessageNotFound if planned messages are gone and failOnDataLoss is set."""
    wanted = ReadRange(name=stretch.queue, after=stretch.after, up_to=stretch.up_to, epoch=stretch.epoch)
    count = 0
    with closing(open_origin(options.endpoint)) as origin:
        for page in origin.read(wanted):
            batch = _without_moved(page, stretch)
            count += len(batch)
            yield batch
    if options.fail_on_data_loss and count < stretch.count:
        raise gone(stretch, count)


def _without_moved(page: Packets, stretch: Stretch) -> Packets:
    """The messages without those that were moved to the queue after the plan of drain: a later batch reads these."""
    if not stretch.as_of or page.attributes is None or page.lookup_ids is None:
        return page
    moved = page.attributes["last_move_time"]
    late = moved >= stretch.as_of
    if not late.any():
        return page
    numbers = page.lookup_ids & np.uint64(SEQUENCE_MASK)
    late &= (moved > stretch.as_of) | ~np.isin(numbers, np.array(stretch.fresh, np.uint64))
    return page.chosen(~late)


def gone(stretch: Stretch, count: int) -> MessageNotFound:
    return MessageNotFound(
        f"{stretch.count - count} of {stretch.count} messages of {stretch.queue} with arrival numbers from "
        f"{stretch.after + 1} to {stretch.up_to} are gone: another reader has received or purged these messages, or "
        "they have expired; set the option `failOnDataLoss` to false to continue without these messages, or read in "
        "the mode `claim`"
    )


def recreated(queue: str) -> QueueDeleted:
    return QueueDeleted(
        f"the queue {queue} was deleted, or deleted and created again, after the query had read from it: its old "
        "messages are gone; set the option `failOnDataLoss` to false to continue with the messages of the new queue"
    )


def is_name_of(name: str, place: str) -> bool:
    """True if a name means the queue whose format name is the key of a position in an offset."""
    try:
        key = FormatName.parse(place)
        computer = key.address if isinstance(key, DirectFormatName) else ""
        return str(format_name(name, computer)).lower() == place.lower()
    except WaypostError:
        return name.lower() == place.lower()


def _is_named(queue: BulkQueue, name: str) -> bool:
    """True if the name is the format name, the path or the short name of the queue."""
    names = {queue.format_name.lower(), queue.path.lower()}
    names.add(short_name(FormatName.parse(queue.format_name), _computer(queue)).lower())
    wanted = name.lower()
    return wanted in names or wanted.removeprefix("private$\\") in names


def _computer(queue: BulkQueue) -> str:
    return queue.path.partition("\\")[0]
