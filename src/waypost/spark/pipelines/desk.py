"""What becomes of dead letters: they are sent again, parked or dropped.

    resend(chosen(letters, Choice(reasons=("reach-queue-timeout",))), Desk(manager, MsmqSink()))

Sending a letter again and taking it out of the dead-letter queue are two steps, and a program may end between them. So
the messages go out in a transaction with a receipt: a message to the queue RECEIPTS of the same queue manager that
names the letters. Whoever runs next reads the receipts first, takes the letters that they name out of their queue
without sending them, and then the receipts. The letters are where they were, or sent, and never both.

To a nontransactional queue MSMQ sends without a transaction, and no receipt can go along: letters for such queues are
sent first and taken out then, and if the program ends just there, they are sent again by the next run.
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
# Letters that are dealt with at a time: a receipt with the ids of so many is a message of 1 MB.
SLICE: Final = 50_000

# The letter was of the wrong kind for its queue, so what is sent now is of the other.
_WRONG_KIND: Final = (
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q,
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG,
)
# What becomes of these when a letter is parked would be lost otherwise.
_CARD: Final = schema_of(
    ("dest_queue", "message_class", "transactional", "admin_queue", "acknowledge", "journal", "extension")
)
# Who removes letters waits for the disk each time, and several share that.
_REMOVERS: Final = 8
_LOOKUP_ID: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Desk:
    """Where letters are dealt with: the queue manager that has them, and the sink that sends through it.

    With `bulk`, a client of the same queue manager, letters that came one after the other are removed together.
    """

    manager: "Manager"
    sink: Sink
    bulk: "BulkClient | None" = None


@dataclass(frozen=True, slots=True)
class Done:
    """What was done with letters. `settled` are those that an earlier run had sent and could not take out any more."""

    sent_once: int = 0
    sent_at_least_once: int = 0
    removed: int = 0
    settled: int = 0


def resend(letters: DataFrame, desk: Desk, *, to: str = "") -> Done:
    """Send letters to where they were sent to, or to the queue `to`, and take them out of the dead-letter queue."""
    is_transactional = sf.col("transactional") != sf.col("message_class").isin([int(each) for each in _WRONG_KIND])
    if to:
        queue = desk.manager.queue(to)
        with suppress(InvalidParameter):
            is_transactional = sf.lit(queue.info().transactional)
        letters = letters.withColumn("dest_queue", sf.lit(to))
    return _send_and_remove(letters, desk, is_transactional)


def park(letters: DataFrame, desk: Desk, *, to: str = PARKING) -> Done:
    """Send letters to a queue of this queue manager where they wait for somebody; it is made if it is not there.

    What a letter was is in the extension of the parked message, and `unparked` makes the letter of it again.
    """
    _make(desk.manager, to)
    if not desk.manager.queue(to).info().transactional:
        raise InvalidParameter(f"letters are parked in a transactional queue, which {to} is not; name another")
    nothing = {"admin_queue": sf.lit(None).cast("string"), "acknowledge": sf.lit(0), "journal": sf.lit(0)}
    card = sf.to_json(sf.struct(*_CARD.names)).cast("binary")
    waiting = letters.withColumns({"extension": card, "dest_queue": sf.lit(to), **nothing})
    return _send_and_remove(waiting, desk, sf.lit(True))


def unparked(parked: DataFrame) -> DataFrame:
    """The letters that parked messages were, to be looked at and sent again. Other messages are left out."""
    card = sf.from_json(sf.col("extension").cast("string"), _CARD)
    found = parked.withColumn("card", card).where("card.dest_queue is not null")
    return found.withColumns({name: sf.col(f"card.{name}") for name in _CARD.names}).drop("card")


def drop(letters: DataFrame, desk: Desk) -> Done:
    """Take letters out of the dead-letter queue, for good."""
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


# A letter: its queue and its lookup id.
Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Slice:
    """Letters of one queue. Those that are to be sent in a transaction, and the others, are in the order of arrival."""

    letters: DataFrame
    once: list[Name]
    often: list[Name]


def _slices(letters: DataFrame, is_transactional: Column, settled: set[Name]) -> Iterator[_Slice]:
    """The letters without those that were sent before: a DataFrame may still have them.

    They are read once and kept. Whoever read them again, to send them, might find less than was named: messages behind
    one that another reader holds are not read.
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
    """Of arrival numbers, with SLICE letters each at most."""
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
    """How many letters were taken out."""
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
    """These letters, in the order of their arrival."""
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
    """Take letters that were sent, but may still be there, out of their queue, and then the receipts."""
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
        raise InvalidParameter(f"{receipt.id} in the queue {RECEIPTS} is no receipt; take it out of there") from None


def _remove(desk: Desk, names: list[Name]) -> int:
    """How many of the letters were still there. SharingViolation says that others hold some of them."""
    try:
        if desk.bulk is None:
            return _sum(partial(_remove_letter, desk.manager), names)
        return _sum(partial(_remove_run, desk.bulk), _runs(names))
    except (QueueNotFound, QueueDeleted):
        # A queue where letters were parked, and its letters with it.
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
        # It is gone, or a transaction holds it.
        with suppress(TransactionUsage):
            try:
                queue.peek(0, lookup_id=lookup_id & _LOOKUP_ID)
            except MessageNotFound:
                return 0
        raise _held(name) from None
    return 1


def _runs(names: list[Name]) -> Iterator[tuple[str, int, int]]:
    """Queue, first and last of letters whose arrival numbers follow each other: there is no other between them."""
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
    return SharingViolation(f"another reader holds letters of {queue}; when it is done, run this again")


def _make(manager: "Manager", name: str) -> None:
    with suppress(QueueExists):
        manager.create_queue(name, transactional=True)
