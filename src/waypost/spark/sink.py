"""The sink: rows become messages, exactly once or at least once.

Exactly once: tasks stage their messages at the daemon, where nobody sees them, and the driver commits all stages of a
batch in one request, under the names of the query, of the batch and of its destination. Whatever is repeated after a
crash, a task, a batch or the commit, the daemon lets a batch of a query happen once for a destination. What tasks leave
behind that failed is dropped there, with the commit.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from waypost.api.bulk import BatchOfQuery, Stage, Staged, StagedMessages
from waypost.api.names import format_name
from waypost.api.properties import MessageProperties, NewMessage
from waypost.client.bulk.client import BulkClient
from waypost.client.connecting import connect
from waypost.client.manager import Manager
from waypost.errors import InvalidParameter, MessageNotFound, QueueNotFound, TransactionUsage, WaypostError
from waypost.spark.option_values import is_guid
from waypost.spark.options import Endpoint, WriteOptions
from waypost.spark.shipping import Shipped
from waypost.spark.sink_columns import Group, frames, groups
from waypost.wire.format_names import DirectFormatName

# Fewer bodies than these do not share their properties: they go as messages of their own, in one list.
_WORTH_SHARING: Final = 4


# What Spark tells tasks of the query that they work for, and of its run: the name of the run itself, or of the group of
# its jobs, which has the same GUID unless the user has named it otherwise.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "sql.streaming.runId"
_JOB_GROUP: Final = "spark.jobGroup.id"

_log: Final = logging.getLogger("waypost.spark")


@dataclass(frozen=True)
class Name:
    """Under which a batch is written: query, number and run."""

    query: str
    batch: int
    run: str = ""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has staged, or sent: the stages and how many messages they have.

    `is_committed` if another run has committed the batch, so that nothing is staged.
    """

    name: Name
    stages: tuple[str, ...] = ()
    count: int = 0
    is_committed: bool = False


class _Sink(Shipped):
    def __init__(self, options: WriteOptions) -> None:
        self._options: Final = options

    def arguments(self) -> tuple[Any, ...]:
        return (self._options,)


class BatchWriter(_Sink, DataSourceArrowWriter):
    """Of df.write. Under the same option txnId, it happens once."""

    def write(self, iterator: Iterator[Any]) -> Written:
        name = Name(self._options.transaction, 0, self._options.run or run_of(TaskContext.get()))
        return _write(self._options, iterator, name)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages, Name(self._options.transaction, 0, self._options.run))


class StreamWriter(_Sink, DataSourceStreamArrowWriter):
    """Of df.writeStream. The name of the query is the one in the checkpoint."""

    def write(self, iterator: Iterator[Any]) -> Written:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        batch = context.getLocalProperty(_BATCH) if context else None
        if not query or batch is None:
            raise InvalidParameter(
                "this Spark tells a task neither query nor batch; Waypost needs pyspark 4.2 or later"
            )
        return _write(self._options, iterator, Name(query, int(batch), run_of(context)))

    # Tasks know the batch, and the query and its run too, which the driver does not hear of.

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _abort(self._options, messages, None)


def run_of(context: TaskContext | None) -> str:
    """The run of the query that a task works for: a GUID, or nothing if it is not known.

    Outside of a query a group of jobs is the user's, whatever its name.
    """
    if context is None or not context.getLocalProperty(_QUERY):
        return ""
    for name in (_RUN, _JOB_GROUP):
        found = context.getLocalProperty(name)
        if found and is_guid(found):
            return found
    return ""


def check_destination(options: WriteOptions) -> None:
    """Raises WaypostError if the queue that all messages go to cannot take them."""
    if options.queue is None:
        return
    with _manager(options.endpoint) as manager, BulkClient(*_address(options.endpoint)) as client:
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


def _write(options: WriteOptions, batches: Iterator[Any], name: Name) -> Written:
    if options.delivery == "at-least-once":
        with _manager(options.endpoint) as manager:
            for frame in _frames(batches):
                _send(manager, groups(frame, options.queue))
        return Written(name)
    found: list[Staged] = []
    with BulkClient(*_address(options.endpoint)) as client:
        try:
            for frame in _frames(batches):
                messages = staged(groups(frame, options.queue))
                wish = Stage(
                    query=name.query,
                    batch=name.batch,
                    destination=options.destination,
                    run=name.run,
                    groups=messages,
                    lease_s=options.lease_s,
                )
                found.append(client.call(wish))
                if not found[-1].is_committed and found[-1].count < frame.num_rows:
                    raise _missing(found[-1].count, frame.num_rows, "staged")
        except BaseException:
            _drop(options, [each.stage for each in found if each.stage], None)
            raise
    stages = tuple(each.stage for each in found if each.stage)
    return Written(name, stages, sum(each.count for each in found), any(each.is_committed for each in found))


def _frames(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from frames(batch)


def _commit(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raises WaypostError unless all that was staged is seen now, or was before."""
    written = [message for message in messages if isinstance(message, Written)]
    stages = _stages(messages)
    if not stages and not any(each.is_committed for each in written):
        return
    name = written[0].name
    with BulkClient(*_address(options.endpoint)) as client:
        committed = client.commit(name.query, name.batch, stages, destination=options.destination, run=name.run)
    expected = sum(each.count for each in written)
    if committed.is_repeated:
        _log.warning(
            "batch %d of the query %s was committed before, by another run or by a request whose answer was lost: "
            "nothing is written again",
            name.batch,
            name.query,
        )
    elif committed.count != expected:
        raise _missing(committed.count, expected, "committed")


def _missing(count: int, expected: int, what: str) -> WaypostError:
    return MessageNotFound(f"{count} messages were {what}, and {expected} rows were to be: some are missing")


def _abort(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], name: Name | None) -> None:
    """Drop what tasks have staged, also those that died. Without a name, and if no task has ended, nobody knows it."""
    written = [message.name for message in messages if isinstance(message, Written)]
    _drop(options, _stages(messages), written[0] if written else name)


def _drop(options: WriteOptions, stages: list[str], name: Name | None) -> None:
    """As far as it can be: what is left goes with the next commit of the batch, or when its time is over."""
    if options.delivery == "at-least-once" or not (stages or name):
        return
    batch = None
    if name is not None:
        batch = BatchOfQuery(query=name.query, batch=name.batch, destination=options.destination, run=name.run)
    with suppress(WaypostError), BulkClient(*_address(options.endpoint)) as client:
        client.drop(stages, batch)


def _stages(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [stage for message in messages if isinstance(message, Written) for stage in message.stages]


def _send(manager: Manager, messages: Iterable[Group]) -> None:
    for group in messages:
        queue, properties = manager.queue(group.queue), _like(group)
        try:
            queue.send_records(group.bodies, properties)
        except TransactionUsage:
            # The queue is transactional.
            with manager.transaction() as transaction:
                queue.send_records(group.bodies, properties, transaction)


def _like(group: Group) -> MessageProperties:
    return MessageProperties(**group.properties)


def _manager(endpoint: Endpoint) -> Manager:
    return connect(endpoint.address, token=endpoint.secret, timeout=endpoint.timeout_s)


def _address(endpoint: Endpoint) -> tuple[str, str | None, float]:
    return endpoint.address, endpoint.secret, endpoint.timeout_s
