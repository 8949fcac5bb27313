"""The sink: rows become messages, exactly once or at least once.

Exactly once: tasks stage their messages at the daemon, where no receiver sees them, and the driver commits all stages
of a batch in one request, under the names of the query, of the batch and of its destination. A task, a batch or the
commit may be repeated after a crash: the daemon commits a batch of a query only once for a destination. The commit also
drops the stages that failed tasks left at the daemon.
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

# Fewer bodies than these do not share their properties: they are separate messages in one list.
_WORTH_SHARING: Final = 4


# Properties of tasks that name their query and its run: the run itself, or the group of its jobs, which has the same
# GUID unless the user has named it otherwise.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "sql.streaming.runId"
_JOB_GROUP: Final = "spark.jobGroup.id"

_log: Final = logging.getLogger("waypost.spark")


@dataclass(frozen=True)
class Name:
    """The name under which a batch is written: query, number and run."""

    query: str
    batch: int
    run: str = ""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of a task: the stages of its messages (none if it sent them), and the number of messages.

    With `is_committed`, another run has committed the batch, and nothing is staged.
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
    """The writer of df.write. Writes with the same option txnId happen once."""

    def write(self, iterator: Iterator[Any]) -> Written:
        name = Name(self._options.transaction, 0, self._options.run or run_of(TaskContext.get()))
        return _write(self._options, iterator, name)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages, Name(self._options.transaction, 0, self._options.run))


class StreamWriter(_Sink, DataSourceStreamArrowWriter):
    """The writer of df.writeStream. The name of the query is the one in the checkpoint."""

    def write(self, iterator: Iterator[Any]) -> Written:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY) if context else None
        batch = context.getLocalProperty(_BATCH) if context else None
        if not query or batch is None:
            raise InvalidParameter(
                "this version of Spark does not name the query and the batch to a task; install pyspark 4.2 or later"
            )
        return _write(self._options, iterator, Name(query, int(batch), run_of(context)))

    # The batch, the query and its run come from the tasks: Spark does not name query and run to the driver.

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _abort(self._options, messages, None)


def run_of(context: TaskContext | None) -> str:
    """The run of the query that a task works for: a GUID, or an empty text if it is unknown.

    Outside of a query, a group of jobs belongs to the user, even if its name is a GUID.
    """
    if context is None or not context.getLocalProperty(_QUERY):
        return ""
    for name in (_RUN, _JOB_GROUP):
        found = context.getLocalProperty(name)
        if found and is_guid(found):
            return found
    return ""


def check_destination(options: WriteOptions) -> None:
    """Raises WaypostError if the queue for all messages does not exist or does not fit the delivery."""
    if options.queue is None:
        return
    with _manager(options.endpoint) as manager, BulkClient(*_address(options.endpoint)) as client:
        name = format_name(options.queue, manager.name)
        try:
            queue = client.queue(options.queue)
        except QueueNotFound:
            if isinstance(name, DirectFormatName) and name.host.lower() != manager.name.lower():
                # The other host checks its queue when the messages arrive.
                return
            raise
    if options.delivery == "exactly-once" and not queue.transactional and queue.kind != "outgoing":
        raise TransactionUsage(
            f"{queue.path} is not transactional, so exactly-once writes are not possible: create the queue with "
            "--transactional, or set the option delivery to at-least-once"
        )


def staged(messages: Iterable[Group]) -> list[StagedMessages]:
    """Groups in the form for the daemon, in their order."""
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
    """Commit all stages. Raises WaypostError unless all staged messages are committed, now or before."""
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
            "batch %d of the query %s was committed before, by another run or by a request with a lost response: "
            "nothing is written again",
            name.batch,
            name.query,
        )
    elif committed.count != expected:
        raise _missing(committed.count, expected, "committed")


def _missing(count: int, expected: int, what: str) -> WaypostError:
    return MessageNotFound(f"{count} messages were {what} for {expected} rows; some are missing")


def _abort(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], name: Name | None) -> None:
    """Drop all stages of the batch, also those of failed tasks. Needs a name, or a task that has ended."""
    written = [message.name for message in messages if isinstance(message, Written)]
    _drop(options, _stages(messages), written[0] if written else name)


def _drop(options: WriteOptions, stages: list[str], name: Name | None) -> None:
    """Drop stages, and ignore errors: the next commit of the batch, or the end of the lease, drops the rest."""
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
