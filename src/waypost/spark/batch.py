"""A batch read: the messages that a range of each queue holds when the read is planned. Nothing is removed."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace as changed
from pyspark.sql.datasource import DataSourceReader, InputPartition

from waypost.api.bulk import PlannedRange, RangeOfQueue
from waypost.errors import InvalidParameter
from waypost.spark.offsets import Stretch
from waypost.spark.option_values import Place
from waypost.spark.options import Position, ReadOptions
from waypost.spark.origins import Origin, open_origin
from waypost.spark.ranges import (
    check_kind,
    check_named,
    chosen,
    ends_short,
    identity,
    limits_of,
    packets,
    parts_of,
    position_in,
    recreated,
)
from waypost.spark.schema import Shape
from waypost.spark.tasks import Shipped

_log: Final = logging.getLogger("waypost.spark")


class BatchReader(Shipped, DataSourceReader):
    def __init__(self, options: ReadOptions, shape: Shape) -> None:
        self._options: Final = options
        self._shape: Final = shape

    def arguments(self) -> tuple[Any, ...]:
        return self._options, self._shape

    def partitions(self) -> list[InputPartition]:
        with closing(open_origin(self._options.endpoint)) as origin:
            return list(self._plan(origin))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Stretch):
            # Spark adds an empty partition if the plan has none.
            return iter(())
        return self._shape.batches(packets(self._options, partition))

    def _plan(self, origin: Origin) -> Iterator[Stretch]:
        """The partitions, by one request for all queues that the options name."""
        found: dict[str, tuple[str, PlannedRange]] = {}
        wanted = changed(limits_of(self._options.split), ranges=list(self._ranges(origin)))
        for each, plan in zip(wanted.ranges, origin.plan(wanted), strict=True):
            if plan.is_gone:
                # Raises QueueNotFound, unless the queue was created again.
                origin.queue(each.name)
                raise recreated(each.name)
            check_kind(self._options, each.name, plan.kind)
            # Two names may mean one queue. An older daemon does not report the name.
            name = plan.name or each.name
            found.setdefault(identity(name, plan.epoch), (name, plan))
        for name, plan in found.values():
            if plan.held_by:
                _log.warning("%s", ends_short(name, plan.bounds[-1], plan))
            yield from parts_of(Stretch(name, plan.epoch, plan.bounds[0], plan.bounds[-1], sum(plan.counts)), plan)

    def _ranges(self, origin: Origin) -> Iterator[RangeOfQueue]:
        """The ranges that the options choose, empty if they contradict each other.

        The queues of a pattern, and positions by the names of queues, take a request for the queues.
        """
        options, start, end = self._options, self._options.start, self._options.end
        if options.pattern is None and not isinstance(start, Mapping) and not isinstance(end, Mapping):
            for name in options.queues:
                yield RangeOfQueue(name=name, **_beginning(start), **_ending(end))
            return
        queues = chosen(origin, options)
        check_named(queues, start, options.start_option)
        check_named(queues, end, options.end_option)
        for queue in queues:
            places = (
                _beginning(position_in(queue, start, options.start_option)),
                _ending(position_in(queue, end, options.end_option)),
            )
            yield RangeOfQueue(name=queue.format_name, epoch=queue.epoch, **places[0], **places[1])


def _beginning(place: Place) -> dict[str, Any]:
    """The fields of RangeOfQueue for the start of a batch read, which is not the end of the queue."""
    if isinstance(place, datetime):
        return {"since": place.timestamp()}
    return {"after": place} if isinstance(place, int) else {}


def _ending(place: Place) -> dict[str, Any]:
    """The fields of RangeOfQueue for the end of a batch read, which is not the beginning of the queue."""
    if isinstance(place, datetime):
        return {"before": place.timestamp()}
    return {"up_to": place} if isinstance(place, int) else {}


def check_for_batch(options: ReadOptions) -> None:
    if options.mode != "peek":
        raise InvalidParameter(
            f"the mode `{options.mode}` is only for streams: a batch read does not remove messages from a queue; "
            "store the messages elsewhere, then remove them with waypost.spark.purge"
        )
    if _has(options.start, "latest"):
        raise InvalidParameter(
            f"the option `{options.start_option}` of a batch read must not be `latest` or contain -1: a batch read "
            "cannot begin at the end of a queue"
            if options.start_option == "startingOffsets"
            else f"the option `{options.start_option}` of a batch read must not contain -1: a batch read cannot "
            "begin at the end of a queue"
        )
    if _has(options.end, "earliest"):
        raise InvalidParameter(
            f"the option `{options.end_option}` must not be `earliest` or contain -2: a batch read cannot end at the "
            "beginning of a queue"
            if options.end_option == "endingOffsets"
            else f"the option `{options.end_option}` must not contain -2: a batch read cannot end at the beginning of "
            "a queue"
        )


def _has(position: Position, word: str) -> bool:
    return word in position.values() if isinstance(position, Mapping) else position == word
