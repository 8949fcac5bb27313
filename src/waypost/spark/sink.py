"""The sink: rows become messages, exactly once or at least once.

Exactly once: tasks stage their messages at the daemon, where nobody sees them, and the driver commits all stages of a
batch in one request, under the names of the query and of the batch. Whatever is repeated after a crash, a task, a batch
or the commit, the daemon lets a batch of a query happen once. What tasks leave behind that failed is dropped there.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from waypost.client.bulk.client import BulkClient
from waypost.client.bulk.schema import StagedMessages
from waypost.client.names import format_name
from waypost.client.remote.manager import Manager, connect
from waypost.client.remote.schema import MessageProperties, NewMessage
from waypost.errors import InvalidParameter, QueueNotFound, TransactionUsage, WaypostError
from waypost.spark.options import Place, WriteOptions
from waypost.spark.shipping import Shipped
from waypost.spark.sink_columns import Group, frames, groups
from waypost.wire.format_names import DirectFormatName

# Fewer bodies than these do not share their properties: they go as messages of their own, in one list.
_WORTH_SHARING: Final = 4


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has staged, or sent, under the name of its query and batch."""

    query: str
    batch: int
    stages: tuple[str, ...]


class _Sink(Shipped):
    def __init__(self, options: WriteOptions) -> None:
        self._options: Final = options

    def arguments(self) -> tuple[Any, ...]:
        return (self._options,)


class BatchWriter(_Sink, DataSourceArrowWriter):
    """Of df.write. Under the same option txnId, it happens once."""

    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self._options, iterator, self._options.transaction, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options.place, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _drop(self._options.place, _stages(messages))


class StreamWriter(_Sink, DataSourceStreamArrowWriter):
    """Of df.writeStream. The name of the query is the one in the checkpoint."""

    def write(self, iterator: Iterator[Any]) -> Written:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if not query or batch is None:
            raise InvalidParameter(
                "this Spark tells a task neither query nor batch; Waypost needs pyspark 4.2 or later"
            )
        return _write(self._options, iterator, query, int(batch))

    # Tasks know the batch, and the query too, which the driver does not hear of.

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _commit(self._options.place, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _drop(self._options.place, _stages(messages))


def check_destination(options: WriteOptions) -> None:
    """Raises WaypostError if the queue that all messages go to cannot take them."""
    if options.queue is None:
        return
    with _manager(options.place) as manager, BulkClient(*_address(options.place)) as client:
        name = format_name(options.queue, manager.name)
        try:
            queue = client.queue(options.queue)
        except QueueNotFound:
            if isinstance(name, DirectFormatName) and name.host.lower() != manager.name.lower():
                # Another host is asked when the messages get there.
                return
            raise
    if options.delivery == "exactly-once" and not queue.transactional and queue.kind != "outgoing":
        raise TransactionUsage(
            f"{queue.path} is not transactional, so nothing can be written to it exactly once: create it with "
            "--transactional, or set the option delivery to at-least-once"
        )


def staged(messages: Iterable[Group]) -> list[StagedMessages]:
    """Groups as the daemon takes them, in their order."""
    found: list[StagedMessages] = []
    for group in messages:
        if len(group.bodies) >= _WORTH_SHARING:
            found.append(StagedMessages(queue=group.queue, like=_like(group), bodies=group.bodies))
            continue
        if not found or found[-1].queue != group.queue or found[-1].bodies:
            found.append(StagedMessages(queue=group.queue, messages=[]))
        found[-1].messages.extend(NewMessage(**group.properties, body=body) for body in group.bodies)
    return found


def _write(options: WriteOptions, batches: Iterator[Any], query: str, batch: int) -> Written:
    if options.delivery == "at-least-once":
        with _manager(options.place) as manager:
            for frame in _frames(batches):
                _send(manager, groups(frame, options.queue))
        return Written(query, batch, ())
    stages: list[str] = []
    with BulkClient(*_address(options.place)) as client:
        try:
            for frame in _frames(batches):
                messages = staged(groups(frame, options.queue))
                stages.append(client.stage(query, batch, messages, lease_s=options.lease_s))
        except BaseException:
            _drop(options.place, stages)
            raise
    return Written(query, batch, tuple(stages))


def _frames(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from frames(batch)


def _commit(place: Place, messages: Sequence[WriterCommitMessage | None]) -> None:
    written = [message for message in messages if isinstance(message, Written)]
    stages = _stages(messages)
    if stages:
        with BulkClient(*_address(place)) as client:
            client.commit(written[0].query, written[0].batch, stages)


def _drop(place: Place, stages: list[str]) -> None:
    """As far as it can be: what is left is dropped when its time is over."""
    with suppress(WaypostError):
        if stages:
            with BulkClient(*_address(place)) as client:
                client.drop(stages)


def _stages(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [stage for message in messages if isinstance(message, Written) for stage in message.stages]


def _send(manager: Manager, messages: Iterable[Group]) -> None:
    for group in messages:
        queue = manager.queue(group.queue)
        try:
            queue.send_many(group.bodies, **group.properties)
        except TransactionUsage:
            # The queue is transactional.
            with manager.transaction() as transaction:
                queue.send_many(group.bodies, transaction=transaction, **group.properties)


def _like(group: Group) -> MessageProperties:
    return MessageProperties(**group.properties)


def _manager(place: Place) -> Manager:
    return connect(place.address, token=place.secret, timeout=place.timeout_s)


def _address(place: Place) -> tuple[str, str | None, float]:
    return place.address, place.secret, place.timeout_s
