"""The sink: rows become messages, exactly once or at least once.

Exactly once: tasks stage their messages at the daemon, where no receiver sees them, and the driver commits all stages
of a batch in one request, under the names of the query, of the batch and of its destination. A task, a batch or the
commit may be repeated after a crash: the daemon commits a batch of a query only once for a destination. The commit also
drops the stages that failed tasks left at the daemon, and puts messages in the order of partitions and rows.

A write inside foreachBatch belongs to the query and the batch of its stream. If one batch has several writes, each
write is identified by its execution in Spark. The executions differ in every run, so the daemon counts the writes.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Any, Final, TypeVar
from uuid import uuid4

from msgspec import UNSET
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from waypost.api.bulk import BatchOfQuery, BatchRead, CommitStages, RejectedRow, Stage, Staged, StagedMessages
from waypost.api.names import format_name
from waypost.api.properties import MessageProperties, NewMessage
from waypost.client.bulk.client import BulkClient
from waypost.client.connecting import connect
from waypost.client.manager import Manager
from waypost.errors import (
    InsufficientResources,
    InvalidParameter,
    LimitReached,
    MessageNotFound,
    QueueNotFound,
    TransactionUsage,
    WaypostError,
)
from waypost.spark.options import Endpoint, WriteOptions
from waypost.spark.sink_columns import (
    REFUSED_QUEUE,
    REFUSED_ROW,
    Group,
    Invalid,
    frames,
    groups,
    invalid_rows,
    refused_queue,
    refused_rows,
    rejected,
    without,
    writable,
)
from waypost.spark.tasks import QueryTask, Shipped, query_task, run_of, task_of
from waypost.wire.format_names import DirectFormatName

# Fewer bodies than these do not share their properties: they are separate messages in one list.
_WORTH_SHARING: Final = 4

# So that the names of applications and of transactions are different ones.
_APPLICATION: Final = "txnAppId "
# The state after an invalid row, by the option `delivery`.
_SENT: Final = {
    "exactly-once": "nothing was sent",
    "at-least-once": "messages of other rows may have been sent",
}
# Times to wait for room before the next attempt.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

_log: Final = logging.getLogger("waypost.spark")
R = TypeVar("R")


@dataclass(frozen=True)
class Name:
    """The name under which a batch is written: query, number, run, and the write of the run if it has several.

    `is_version`: a number at or below the last one is done. `is_anonymous`: nothing repeats the write. `within` is the
    task of the query that the write belongs to, if the name is another one.
    """

    query: str
    batch: int
    run: str = ""
    write: str = ""
    is_version: bool = False
    is_anonymous: bool = False
    within: QueryTask | None = None

    def of(self, options: WriteOptions) -> dict[str, Any]:
        """The fields of BatchOfQuery."""
        return {
            "query": self.query,
            "batch": self.batch,
            "destination": options.destination,
            "run": self.run,
            "write": self.write,
            "is_version": self.is_version,
            "is_anonymous": self.is_anonymous,
            "within": UNSET if self.within is None else _read(self.within),
        }


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
    """The writer of df.write. Writes with the same option txnId, or of the same batch of a stream, happen once."""

    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self._options, iterator, name_of(self._options, TaskContext.get()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages, name_of(self._options, None))


class StreamWriter(_Sink, DataSourceStreamArrowWriter):
    """The writer of df.writeStream. The checkpoint contains the name of the query."""

    def write(self, iterator: Iterator[Any]) -> Written:
        task = query_task()
        if task is None:
            raise InvalidParameter(
                "this version of Spark does not pass the query and the batch to tasks; install pyspark 4.2 or later"
            )
        return _write(self._options, iterator, Name(task.query, task.batch, task.run))

    # The batch, the query and its run come from the tasks: Spark does not name query and run to the driver.

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _commit(self._options, messages, is_whole=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        _abort(self._options, messages, None)


def name_of(options: WriteOptions, context: TaskContext | None) -> Name:
    """The name of a batch write: the name from the user, the batch of a stream, or a random name."""
    task = task_of(context)
    run = options.run or run_of(context)
    if options.version is not None:
        return Name(_APPLICATION + options.transaction, options.version, is_version=True, within=task)
    if options.transaction:
        return Name(options.transaction, 0, run, within=task)
    if task is not None and task.execution and run:
        return Name(task.query, task.batch, run, write=task.execution)
    return Name(options.anonymous, 0, run, is_anonymous=True, within=task)


def _read(task: QueryTask) -> BatchRead:
    return BatchRead(query=task.query, batch=task.batch, run=task.run)


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
            "--transactional, or set the option `delivery` to at-least-once"
        )


def staged(messages: Iterable[Group]) -> list[StagedMessages]:
    """Groups in the form for the daemon, in their order."""
    found: list[StagedMessages] = []
    for group in messages:
        if len(group.bodies) >= _WORTH_SHARING or group.varied:
            found.append(StagedMessages(queue=group.queue, like=_like(group), bodies=group.bodies, varied=group.varied))
            continue
        if not found or found[-1].queue != group.queue or found[-1].bodies:
            found.append(StagedMessages(queue=group.queue, messages=[]))
        found[-1].messages.extend(NewMessage(**group.properties, body=body) for body in group.bodies)
    return found


def _protected(options: WriteOptions, found: Iterable[Group]) -> Iterator[Group]:
    """Groups with the properties of all messages of the write."""
    for group in found:
        group.properties.update(options.protection)
        yield group


def _write(options: WriteOptions, batches: Iterator[Any], name: Name) -> Written:
    context = TaskContext.get()
    task = _Task(options, name, context.partitionId() if context else 0)
    if options.delivery == "at-least-once":
        with _manager(options.endpoint) as manager:
            for frame in _frames(batches):
                task.send(manager, frame)
        return Written(name)
    found: list[Staged] = []
    with BulkClient(*_address(options.endpoint)) as client:
        try:
            for serial, frame in enumerate(_frames(batches)):
                found.append(task.stage(client, frame, serial))
                if not found[-1].is_committed and found[-1].count < frame.num_rows:
                    raise _missing(found[-1].count, frame.num_rows, "staged")
        except BaseException:
            _drop(options, [each.stage for each in found if each.stage], None)
            raise
    stages = tuple(each.stage for each in found if each.stage)
    return Written(name, stages, sum(each.count for each in found), any(each.is_committed for each in found))


class _Task:
    """The rows of a partition: valid ones become messages, and the others end the job or are set aside.

    The columns show most faults. The daemon decides on destinations and on messages that almost have the largest size:
    if it refuses rows, they are found one by one. A destination that was refused once is refused for the whole task.
    """

    def __init__(self, options: WriteOptions, name: Name, partition: int) -> None:
        self._options: Final = options
        self._name: Final = name
        self._partition: Final = partition
        self._refused: Final[dict[str, str]] = {}
        # The number of rows in the frames before the present one.
        self._before = 0

    def stage(self, client: BulkClient, frame: Any, serial: int) -> Staged:
        valid, rejected_rows = self._sorted_out(frame)
        while True:
            try:
                staged = self._staged(client, valid, rejected_rows, serial)
            except (*REFUSED_QUEUE, *REFUSED_ROW):
                refused = self._refused_rows(client, valid, serial)
                if not refused:
                    raise
                rejected_rows = rejected_rows + self._set_aside(valid, refused)
                valid = without(valid, refused)
            else:
                self._before += frame.num_rows
                return staged

    def send(self, manager: Manager, frame: Any) -> None:
        valid, rejected_rows = self._sorted_out(frame)
        for group in _protected(self._options, groups(valid, self._options.queue)):
            refused = _send_all(self._options, manager, group)
            if refused:
                self._refused.update({each.queue: each.reason for each in refused if each.queue})
                rejected_rows = rejected_rows + self._set_aside(valid, refused)
        if rejected_rows:
            _send_rejected(self._options, rejected_rows)
        self._before += frame.num_rows

    def _sorted_out(self, frame: Any) -> tuple[Any, list[RejectedRow]]:
        """The valid rows, and the others."""
        invalid = invalid_rows(frame, self._options.queue, self._refused)
        return (without(frame, invalid), self._set_aside(frame, invalid)) if invalid else (frame, [])

    def _set_aside(self, frame: Any, invalid: Sequence[Invalid]) -> list[RejectedRow]:
        """Invalid rows in the form for the daemon. Raises InvalidParameter for the first of them if it ends the job."""
        if self._options.on_invalid == "fail":
            raise InvalidParameter(
                f"a row of partition {self._partition} is not valid (row {self._before + invalid[0].row}, counted from "
                f"0): {invalid[0].reason}; {_SENT[self._options.delivery]}; correct the row, or set the option "
                "`onInvalid` to deadletter"
            )
        return rejected(frame, invalid, self._options.queue, self._partition)

    def _staged(self, client: BulkClient, valid: Any, rejected_rows: list[RejectedRow], serial: int) -> Staged:
        options = self._options
        wish = Stage(
            **self._name.of(options),
            groups=staged(_protected(options, groups(valid, options.queue, varies=True))),
            rejected=rejected_rows,
            lease_s=options.lease_s,
            partition=self._partition,
            serial=serial,
        )
        return _patiently(options, partial(client.call, wish))

    def _refused_rows(self, client: BulkClient, valid: Any, serial: int) -> list[Invalid]:
        """The rows that the daemon refuses. Raises its error if it refuses the write whatever the rows are."""

        def probe(rows: Any) -> None:
            found = self._staged(client, rows, [], serial)
            if found.stage:
                client.drop([found.stage])

        probe(valid.slice(0, 0))
        refused = refused_rows(valid, self._options.queue, probe)
        self._refused.update({each.queue: each.reason for each in refused if each.queue})
        return refused


def _patiently(options: WriteOptions, write: Callable[[], R]) -> R:
    """Write, and wait for room as long as the option `quotaWait` allows. Raises InsufficientResources then."""
    end, pause = monotonic() + options.quota_wait_s, _FIRST_PAUSE_S
    while True:
        try:
            return write()
        except LimitReached:
            # No reader makes room for it.
            raise
        except InsufficientResources as error:
            if monotonic() + pause >= end:
                error.add_note(
                    f"the write has waited {options.quota_wait_s:g} seconds for room in the queue (option `quotaWait`)"
                )
                raise
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _frames(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from frames(writable(batch))


def _commit(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], *, is_whole: bool = False) -> None:
    """Commit all stages. Raises WaypostError unless all staged messages are committed, now or before.

    A stream commits the whole batch, and one without messages too: the daemon remembers that the batch is done.
    """
    written = [message for message in messages if isinstance(message, Written)]
    stages = _stages(messages)
    if not written or options.delivery == "at-least-once":
        return
    if not stages and not is_whole and not any(each.is_committed for each in written):
        return
    name = written[0].name
    with BulkClient(*_address(options.endpoint)) as client:
        wish = CommitStages(**name.of(options), stages=stages, is_whole=is_whole)
        committed = client.commit_all(wish, options.quota_wait_s)
    expected = sum(each.count for each in written)
    if committed.is_repeated:
        _log.warning(
            "batch %d of the query %s was committed before, by another run or by a request whose response was lost: "
            "the batch is not written again",
            name.batch,
            name.query,
        )
    elif committed.count != expected:
        raise _missing(committed.count, expected, "committed")
    if name.is_anonymous:
        _log.warning(
            "this write is not exactly once: it has no name, so a repeated write sends its messages again; set the "
            "options txnAppId and txnVersion, or txnId"
        )


def _missing(count: int, expected: int, what: str) -> WaypostError:
    return MessageNotFound(f"{count} messages were {what} instead of {expected}")


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
        batch = BatchOfQuery(**name.of(options))
    with suppress(WaypostError), BulkClient(*_address(options.endpoint)) as client:
        client.drop(stages, batch)


def _stages(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [stage for message in messages if isinstance(message, Written) for stage in message.stages]


def _send_all(options: WriteOptions, manager: Manager, group: Group) -> list[Invalid]:
    """Send messages in their order, as many together as the queue has room for. Returns the refused rows."""
    at, count = 0, len(group.bodies)
    refused: list[Invalid] = []
    while at < len(group.bodies):
        some = Group(group.queue, group.properties, group.bodies[at : at + count])
        try:
            if count == 1:
                _patiently(options, partial(_send, manager, some))
            else:
                _send(manager, some)
        except (InsufficientResources, *REFUSED_ROW) as error:
            if count > 1:
                count //= 2
                continue
            if isinstance(error, InsufficientResources):
                raise
            refused.append(Invalid(group.rows[at], str(error)))
        except REFUSED_QUEUE as error:
            if not group.is_by_column:
                raise
            return [*refused, *refused_queue(group.rows[at:], group.queue, error)]
        at += count
        count *= 2
    return refused


def _send(manager: Manager, group: Group) -> None:
    queue, properties = manager.queue(group.queue), _like(group)
    try:
        queue.send_records(group.bodies, properties)
    except TransactionUsage:
        # The queue is transactional.
        with manager.transaction() as transaction:
            queue.send_records(group.bodies, properties, transaction)


def _send_rejected(options: WriteOptions, rows: list[RejectedRow]) -> None:
    """Make dead-letter messages of rows, at least once."""
    name = Name(str(uuid4()), 0, is_anonymous=True)
    with BulkClient(*_address(options.endpoint)) as client:
        stage = _patiently(options, partial(client.call, Stage(**name.of(options), groups=[], rejected=rows)))
        client.commit_all(CommitStages(**name.of(options), stages=[stage.stage]), options.quota_wait_s)


def _like(group: Group) -> MessageProperties:
    return MessageProperties(**group.properties)


def _manager(endpoint: Endpoint) -> Manager:
    return connect(endpoint.address, token=endpoint.secret, timeout=endpoint.timeout_s)


def _address(endpoint: Endpoint) -> tuple[str, str | None, float]:
    return endpoint.address, endpoint.secret, endpoint.timeout_s
