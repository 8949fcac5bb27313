"""Send dead-letter messages again, park them or drop them.

    resend(chosen(dead, Choice(reasons=("reach-queue-timeout",))), Desk(manager, MsmqSink()))

Sending a dead-letter message again and removing it from the dead-letter queue are two steps, and a program may end
between them. So the messages are sent in a transaction with a receipt: a message to the queue RECEIPTS of the same
queue manager that names them. The next run reads the receipts first, removes the messages that they name from the
dead-letter queue without sending them, and then removes the receipts. A message is sent again or stays, never both.

MSMQ sends to a nontransactional queue without a transaction, so that no receipt is possible: messages for such queues
are sent first and removed then, and if the program ends in between, the next run sends them again.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from waypost.api.bulk import RemoveRange
from waypost.errors import (
    InvalidParameter,
    MessageNotFound,
    QueueDeleted,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    TransactionUsage,
)
from waypost.spark.pipelines.reading import schema_of
from waypost.spark.pipelines.sending import SENT, Sink
from waypost.wire.message_class import MessageClass
from waypost.wire.remote_packet import SEQUENCE_ID_MASK

if TYPE_CHECKING:
    from waypost import Manager, Message
    from waypost.client.bulk.client import BulkClient

R = TypeVar("R")

RECEIPTS: Final = "waypost.deadletters"
PARKING: Final = "parked"
# Largest number of dead-letter messages in one step: a receipt with their ids is a message of 1 MB.
SLICE: Final = 50_000

# The message was of the wrong kind for its queue, so it is sent again as the other kind.
_WRONG_KIND: Final = (
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q,
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG,
)
# Columns that parking overwrites, kept in the extension.
_CARD: Final = schema_of(
    ("dest_queue", "message_class", "transactional", "admin_queue", "acknowledge", "journal", "extension")
)
# Each removal waits for the disk; several threads share one wait.
_REMOVERS: Final = 8
_LOOKUP_ID: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Desk:
    """The queue manager that has the dead-letter messages, and the sink that sends through it.

    With `bulk`, a client of the same queue manager, messages with successive arrival numbers are removed together.
    """

    manager: "Manager"
    sink: Sink
    bulk: "BulkClient | None" = None


@dataclass(frozen=True, slots=True)
class Done:
    """Numbers of messages by action. `settled` were sent by an earlier run, and removed by this one."""

    sent_once: int = 0
    sent_at_least_once: int = 0
    removed: int = 0
    settled: int = 0


def resend(letters: DataFrame, desk: Desk, *, to: str = "") -> Done:
    """Send dead-letter messages again to their destination or to `to`, and remove them from the dead-letter queue."""
    is_transactional = sf.col("transactional") != sf.col("message_class").isin([int(each) for each in _WRONG_KIND])
    if to:
        queue = desk.manager.queue(to)
        with suppress(InvalidParameter):
            is_transactional = sf.lit(queue.info().transactional)
        letters = letters.withColumn("dest_queue", sf.lit(to))
    return _send_and_remove(letters, desk, is_transactional)


def park(letters: DataFrame, desk: Desk, *, to: str = PARKING) -> Done:
    """Move dead-letter messages to a queue of this queue manager, to wait for an operator. Creates a missing queue.

    The extension of the parked message keeps the overwritten properties, and `unparked` restores them.
    """
    _make(desk.manager, to)
    if not desk.manager.queue(to).info().transactional:
        raise InvalidParameter(f"cannot park in {to}: the queue is not transactional; name another")
    nothing = {"admin_queue": sf.lit(None).cast("string"), "acknowledge": sf.lit(0), "journal": sf.lit(0)}
    card = sf.to_json(sf.struct(*_CARD.names)).cast("binary")
    waiting = letters.withColumns({"extension": card, "dest_queue": sf.lit(to), **nothing})
    return _send_and_remove(waiting, desk, sf.lit(True))


def unparked(parked: DataFrame) -> DataFrame:
    """The dead-letter messages that were parked, with their properties restored. Other messages are left out."""
    card = sf.from_json(sf.col("extension").cast("string"), _CARD)
    found = parked.withColumn("card", card).where("card.dest_queue is not null")
    return found.withColumns({name: sf.col(f"card.{name}") for name in _CARD.names}).drop("card")


def drop(letters: DataFrame, desk: Desk) -> Done:
    """Remove dead-letter messages from their queue for good."""
    settled = settle(desk)
    slices = _slices(letters.select("queue", "seq", "lookup_id"), sf.lit(False), settled)
    return Done(removed=sum(_remove(desk, each.often) for each in slices), settled=len(settled))


def _send_and_remove(letters: DataFrame, desk: Desk, is_transactional: Column) -> Done:
    settled = settle(desk)
    once = often = removed = 0
    # A malformed packet has no class, and nothing to send.
    for each in _slices(letters.where("message_class is not null"), is_transactional, settled):
        removed += _send_slice(each, desk)
        once += len(each.once)
        often += len(each.often)
    return Done(once, often, removed, len(settled))


# Name of a dead-letter message: its queue and its lookup id.
Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Slice:
    """Messages of one queue, in the order of arrival: `once` to send in a transaction, `often` to send without one."""

    letters: DataFrame
    once: list[Name]
    often: list[Name]


def _slices(letters: DataFrame, is_transactional: Column, settled: set[Name]) -> Iterator[_Slice]:
    """The messages in slices, without those that were sent before: a DataFrame may still have them.

    They are read once and kept. A second read, to send them, might find fewer messages than the receipt names: messages
    after one that another reader holds are not read.
    """
    letters = letters.withColumn("is_transactional", sf.coalesce(is_transactional, sf.lit(False))).localCheckpoint()
    for part in _ranges(letters):
        some = letters.where((sf.col("queue") == part.queue) & sf.col("seq").between(part.first, part.last))
        names: dict[bool, list[Name]] = {True: [], False: []}
        for row in some.select("seq", "lookup_id", "is_transactional").orderBy("seq").collect():
            if (part.queue, row.lookup_id) not in settled:
                names[row.is_transactional].append((part.queue, row.lookup_id))
        yield _Slice(some, names[True], names[False])


@dataclass(slots=True)
class _Range:
    queue: str
    first: int
    last: int
    count: int


def _ranges(letters: DataFrame) -> list[_Range]:
    """Ranges of arrival numbers with at most SLICE messages each."""
    counts = (sf.min("seq").alias("first"), sf.max("seq").alias("last"), sf.count("*").alias("count"))
    buckets = letters.groupBy("queue", sf.expr(f"seq div {SLICE}").alias("bucket")).agg(*counts)
    ranges: list[_Range] = []
    for row in buckets.orderBy("queue", "bucket").drop("bucket").collect():
        found = _Range(**row.asDict())
        before = ranges[-1] if ranges else found
        if before is not found and before.queue == found.queue and before.count + found.count <= SLICE:
            before.last = found.last
            before.count += found.count
        else:
            ranges.append(found)
    return ranges


def _send_slice(part: _Slice, desk: Desk) -> int:
    """Send and remove the messages of a slice. Returns the number of removed messages."""
    if part.once:
        _make(desk.manager, RECEIPTS)
        messages = _sendable(part.letters, part.once).unionByName(_receipt(part.letters, desk.manager, part.once))
        desk.sink.send(messages, "exactly-once", _transaction(part.once))
    removed = 0
    if part.often:
        desk.sink.send(_sendable(part.letters, part.often), "at-least-once", _transaction(part.often))
        removed = _remove(desk, part.often)
    if part.once:
        removed += len(settle(desk))
    return removed


def _sendable(letters: DataFrame, names: list[Name]) -> DataFrame:
    """These messages, in the order of their arrival."""
    these = letters.sparkSession.createDataFrame(names, "queue string, lookup_id long")
    found = letters.join(sf.broadcast(these), ["queue", "lookup_id"], "left_semi")
    return found.coalesce(1).sortWithinPartitions("seq").select(*SENT)


def _receipt(letters: DataFrame, manager: "Manager", names: list[Name]) -> DataFrame:
    body = json.dumps({"queue": names[0][0], "lookup_ids": [lookup_id for _, lookup_id in names]})
    row = manager.queue(RECEIPTS).format_name, bytearray(body.encode())
    found = letters.sparkSession.createDataFrame([row], "dest_queue string, body binary")
    types = dict(letters.select(*SENT).dtypes)
    others = [name for name in SENT if name not in found.columns]
    return found.select("*", *(sf.lit(None).cast(types[name]).alias(name) for name in others))


def _transaction(names: list[Name]) -> str:
    return f"deadletters-{sha256(json.dumps(names).encode()).hexdigest()}"


def settle(desk: Desk) -> set[Name]:
    """Remove messages named by receipts from the dead-letter queue, and then the receipts."""
    receipts = desk.manager.queue(RECEIPTS)
    try:
        found = list(receipts.browse())
    except QueueNotFound:
        return set()
    settled: set[Name] = set()
    for receipt in found:
        names = _named(receipt)
        _remove(desk, names)
        receipts.receive(0, lookup_id=receipt.lookup_id)
        settled.update(names)
    return settled


def _named(receipt: "Message") -> list[Name]:
    try:
        found = json.loads(receipt.body)
        return [(str(found["queue"]), int(lookup_id)) for lookup_id in found["lookup_ids"]]
    except (ValueError, TypeError, KeyError):
        raise InvalidParameter(f"{receipt.id} in the queue {RECEIPTS} is not a receipt; remove it") from None


def _remove(desk: Desk, names: list[Name]) -> int:
    """Remove messages, and return how many existed. Raises SharingViolation if another reader holds some of them."""
    try:
        if desk.bulk is None:
            return _sum(partial(_remove_letter, desk.manager), names)
        return _sum(partial(_remove_run, desk.bulk), _runs(names))
    except (QueueNotFound, QueueDeleted):
        # A queue of parked messages was deleted, and the messages with it.
        return 0


def _sum(remove: Callable[[R], int], what: Iterable[R]) -> int:
    with ThreadPoolExecutor(_REMOVERS) as pool:
        return sum(pool.map(remove, what))


def _remove_letter(manager: "Manager", letter: Name) -> int:
    name, lookup_id = letter
    queue = manager.queue(name)
    try:
        queue.receive(0, lookup_id=lookup_id & _LOOKUP_ID)
    except MessageNotFound:
        # The message is gone, or a transaction holds it.
        with suppress(TransactionUsage):
            try:
                queue.peek(0, lookup_id=lookup_id & _LOOKUP_ID)
            except MessageNotFound:
                return 0
        raise _held(name) from None
    return 1


def _runs(names: list[Name]) -> Iterator[tuple[str, int, int]]:
    """Runs of successive arrival numbers: the queue, the first and the last number."""
    numbered = ((queue, lookup_id & SEQUENCE_ID_MASK) for queue, lookup_id in names)
    for _, run in groupby(enumerate(numbered), lambda each: (each[1][0], each[1][1] - each[0])):
        found = [letter for _, letter in run]
        yield *found[0], found[-1][1]


def _remove_run(bulk: "BulkClient", run: tuple[str, int, int]) -> int:
    queue, first, last = run
    removed = 0
    while True:
        found = bulk.remove(RemoveRange(name=queue, after=first - 1, up_to=last))
        removed += found.count
        if not found.left:
            return removed
        if not found.count:
            raise _held(queue)


def _held(queue: str) -> SharingViolation:
    return SharingViolation(
        f"another reader holds dead-letter messages of {queue}; run the command again when that reader has finished"
    )


def _make(manager: "Manager", name: str) -> None:
    with suppress(QueueExists):
        manager.create_queue(name, transactional=True)
