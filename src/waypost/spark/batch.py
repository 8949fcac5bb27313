"""A batch read: the messages that a range of each queue holds when the read is planned. Nothing is removed."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from waypost.api.bulk import BulkQueue
from waypost.errors import InvalidParameter
from waypost.spark.offsets import Stretch
from waypost.spark.option_values import MAX_NUMBER
from waypost.spark.options import Position, ReadOptions
from waypost.spark.origin import Origin
from waypost.spark.origins import open_origin
from waypost.spark.ranges import (
    check_named,
    chosen,
    ends_short,
    limits_of,
    packets,
    parts_of,
    place_of,
    planned,
    recreated,
    stable,
)
from waypost.spark.schema import Shape
from waypost.spark.shipping import Shipped

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
        options, queues = self._options, chosen(origin, self._options)
        check_named(queues, options.start, options.start_option)
        check_named(queues, options.end, options.end_option)
        wanted = [self._range(origin, queue) for queue in queues]
        for stretch, plan in planned(origin, wanted, limits_of(self._options.split)):
            if plan.is_gone:
                raise recreated(stretch.queue)
            if plan.held_by:
                _log.warning("%s", ends_short(stretch.queue, plan.bounds[-1], plan))
            yield from parts_of(stretch, plan)

    def _range(self, origin: Origin, queue: BulkQueue) -> Stretch:
        """The range that the options choose, empty if they contradict each other."""
        options = self._options
        start = place_of(origin, queue, options.start, options.start_option)
        end = place_of(origin, queue, options.end, options.end_option)
        after = stable(queue, options.endpoint) if start is None else start
        return Stretch(queue.format_name, queue.epoch, after, MAX_NUMBER if end is None else max(end, after), 0)


def check_for_batch(options: ReadOptions) -> None:
    if options.mode != "peek":
        raise InvalidParameter(
            f"the mode `{options.mode}` is for streams: a batch read removes nothing from a queue; call "
            "waypost.spark.purge when the messages are safe elsewhere"
        )
    if _has(options.start, "latest"):
        raise InvalidParameter(
            f"the option `{options.start_option}` of a batch read must be earliest or JSON, not 'latest' or -1"
            if options.start_option == "startingOffsets"
            else f"the option `{options.start_option}` of a batch read must be times or -2, not -1"
        )
    if _has(options.end, "earliest"):
        raise InvalidParameter(
            f"the option `{options.end_option}` must be latest or JSON, not 'earliest' or -2"
            if options.end_option == "endingOffsets"
            else f"the option `{options.end_option}` must be times or -1, not -2"
        )


def _has(position: Position, word: str) -> bool:
    return word in position.values() if isinstance(position, Mapping) else position == word
