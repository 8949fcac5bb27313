"""Send dead-letter messages again, park them or drop them.

    resend(slices(chosen(dead, Choice(reasons=("reach-queue-timeout",)))), manager)

The messages come in slices, which are Arrow tables: of a DataFrame (`slices`) or of a table in memory. The messages of
a slice are staged, and the commit removes them from the dead-letter queue in the same transaction of the queue manager
(waypost.api.bulk, CommitStages.removes). So a message is sent again or stays, wherever the program ends, and of two
runs at once only one sends it: the commit of the other is refused, and that run goes on without the messages that are
gone.

MSMQ sends to a nontransactional queue without a transaction: messages for such queues are sent first and removed then,
and if the program ends in between, the next run sends them again.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from waypost.api.bulk import CommitStages, DropStages, MessagesToRemove, ReadRange, Stage
from waypost.api.properties import MessageProperties
from waypost.arrow.schema import ALL
from waypost.errors import (
    InvalidParameter,
    MessageNotFound,
    QueueDeleted,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    TransactionUsage,
)
from waypost.limits import MAX_BULK_REMOVED
from waypost.spark.offsets import Stretch
from waypost.spark.pipelines.expressions import records
from waypost.spark.pipelines.reading import schema_of
from waypost.spark.pipelines.sending import SENT, consistent_table
from waypost.spark.sink import staged
from waypost.spark.sink_columns import frames, groups
from waypost.wire.message_class import MessageClass
from waypost.wire.remote_packet import SEQUENCE_ID_MASK

if TYPE_CHECKING:
    from waypost import Manager, Message

PARKING: Final = "parked"
# Largest number of messages in one transaction, and of bytes of their bodies, in about.
SLICE: Final = MAX_BULK_REMOVED
SLICE_BYTES: Final = 64 << 20
# Arrival numbers in one entry of the list from which slices are made.
_BUCKET: Final = 100
# The queue in which earlier versions noted the messages that they had sent and not removed yet.
RECEIPTS: Final = "waypost.deadletters"

# The message was of the wrong kind for its queue, so it is sent again as the other kind.
_WRONG_KIND: Final = (
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q,
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG,
)
# Columns that parking overwrites, kept in the extension.
_OVERWRITTEN: Final = (
    *("dest_queue", "message_class", "transactional", "admin_queue", "acknowledge", "journal"),
    "extension",
)


@dataclass(frozen=True, slots=True)
class Done:
    """Numbers of messages by action.

    `gone` counts messages that another program removed meanwhile. `settled` counts messages that an interrupted run of
    an earlier version sent, and that this run removed.
    """

    sent_once: int = 0
    sent_at_least_once: int = 0
    removed: int = 0
    gone: int = 0
    settled: int = 0


def resend(tables: Iterable[Any], manager: "Manager", *, to: str = "") -> Done:
    """Send dead-letter messages to their original destination or to the queue `to`, and remove the originals."""
    is_transactional: bool | None = None
    if to:
        queue = manager.queue(to)
        with suppress(InvalidParameter):
            is_transactional = queue.info().transactional
    run = _Run(manager)
    for table in tables:
        # A malformed packet has no class, and nothing to send.
        sound = table.filter(pc.is_valid(table["message_class"]))
        if is_transactional is None:
            is_wrong = pc.is_in(sound["message_class"], pa.array([int(each) for each in _WRONG_KIND], pa.int32()))
            flags = pc.xor(pc.fill_null(sound["transactional"], fill_value=False), is_wrong)
        else:
            flags = pa.array([is_transactional] * sound.num_rows, pa.bool_())
        if to:
            sound = _with(sound, dest_queue=[to] * sound.num_rows)
        run.move(sound.filter(flags))
        run.send_and_remove(sound.filter(pc.invert(flags)))
    return run.done


def park(tables: Iterable[Any], manager: "Manager", *, to: str = PARKING) -> Done:
    """Move dead-letter messages to a queue of this queue manager, to wait for an operator. Creates a missing queue.

    The extension of the parked message keeps the overwritten properties, and `unparked` restores them.
    """
    with suppress(QueueExists):
        manager.create_queue(to, transactional=True)
    if not manager.queue(to).info().transactional:
        raise InvalidParameter(f"cannot park messages in {to}: the queue is not transactional; specify another queue")
    run = _Run(manager)
    for table in tables:
        sound = table.filter(pc.is_valid(table["message_class"]))
        kept = [_card(row) for row in sound.select(_OVERWRITTEN).to_pylist()]
        count = sound.num_rows
        cleared: dict[str, list[Any]] = {"admin_queue": [None] * count, "acknowledge": [0] * count}
        run.move(_with(sound, extension=kept, dest_queue=[to] * count, journal=[0] * count, **cleared))
    return run.done


def drop(tables: Iterable[Any], manager: "Manager") -> Done:
    """Remove dead-letter messages from their queue permanently."""
    run = _Run(manager)
    for table in tables:
        run.remove(table)
    return run.done


def unparked(parked: DataFrame) -> DataFrame:
    """The dead-letter messages that were parked, with their properties restored. Other messages are left out."""
    kept = schema_of(_OVERWRITTEN)
    card = sf.from_json(sf.col("extension").cast("string"), kept)
    found = parked.withColumn("card", card).where("card.dest_queue is not null")
    return found.withColumns({name: sf.col(f"card.{name}") for name in kept.names}).drop("card")


def unparked_table(parked: Any) -> Any:
    """Like `unparked`, for a table in memory."""
    cards = [_card_of(extension) for extension in parked["extension"].to_pylist()]
    found = parked.filter(pa.array([card is not None for card in cards], pa.bool_()))
    kept = [card for card in cards if card is not None]
    return _with(found, **{name: [card.get(name) for card in kept] for name in _OVERWRITTEN})


def _card(row: dict[str, Any]) -> bytes:
    values = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value for name, value in row.items()
    }
    return json.dumps({name: value for name, value in values.items() if value is not None}).encode()


def _card_of(extension: bytes | None) -> dict[str, Any] | None:
    """The properties of a message before it was parked; None if it was not parked."""
    try:
        found = json.loads(extension or b"")
        if not isinstance(found["dest_queue"], str):
            return None
        if found.get("extension") is not None:
            found["extension"] = base64.b64decode(found["extension"])
    except (ValueError, TypeError, KeyError):
        return None
    return dict(found)


def _with(table: Any, **columns: list[Any]) -> Any:
    """The table with these columns replaced."""
    for name, values in columns.items():
        kind = ALL.field(name).type
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, kind))
    return table


# --- Slices -----------------------------------------------------------------------------------------------------------


def slices(messages: DataFrame) -> Iterator[Any]:
    """The messages of a DataFrame in tables of one queue each, in the order of arrival.

    They are read once and kept: a second read might find other messages.
    """
    kept = messages.localCheckpoint()
    for part in _ranges(kept):
        is_in_it = (sf.col("seq") > part.after) & (sf.col("seq") <= part.up_to)
        some = kept.where((sf.col("queue") == part.queue) & is_in_it)
        yield some.orderBy("seq").toArrow()


def table_slices(messages: Any) -> Iterator[Any]:
    """The messages of a table in memory in tables of one queue each, in the order of arrival."""
    ordered = messages.sort_by([("queue", "ascending"), ("seq", "ascending")])
    for name in pc.unique(ordered["queue"]).to_pylist():
        of_queue = ordered.filter(pc.equal(ordered["queue"], name))
        for start in range(0, of_queue.num_rows, SLICE):
            yield of_queue.slice(start, SLICE)


def _ranges(messages: DataFrame) -> list[Stretch]:
    """Ranges of arrival numbers with at most SLICE messages each, and about SLICE_BYTES of bodies."""
    counts = (
        sf.min("seq").alias("first"),
        sf.max("seq").alias("last"),
        sf.count("*").alias("count"),
        sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("size"),
    )
    bucket = min(_BUCKET, SLICE)
    buckets = messages.groupBy("queue", sf.expr(f"seq div {bucket}").alias("bucket")).agg(*counts)
    ranges: list[Stretch] = []
    size = 0
    for row in records(buckets.orderBy("queue", "bucket")):
        before = ranges[-1] if ranges else None
        if (
            before is not None
            and before.queue == row["queue"]
            and before.count + row["count"] <= SLICE
            and size + row["size"] <= SLICE_BYTES
        ):
            ranges[-1] = replace(before, up_to=row["last"], count=before.count + row["count"])
            size += row["size"]
        else:
            ranges.append(Stretch(row["queue"], "", row["first"] - 1, row["last"], row["count"]))
            size = row["size"]
    return ranges


# --- One run ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """One run: its name at the queue manager, the number of its next transaction, and what is done so far."""

    manager: "Manager"
    name: str = field(default_factory=lambda: str(uuid4()))
    number: int = 0
    done: Done = field(default_factory=Done)

    def move(self, table: Any) -> None:
        """Send the messages of a slice and remove them, in one transaction."""
        while table.num_rows:
            left = self._commit(table, self._stage(table))
            if left is None:
                self._count(sent_once=table.num_rows, removed=table.num_rows)
                return
            table = left

    def send_and_remove(self, table: Any) -> None:
        """Send the messages of a slice without a transaction, and then remove them."""
        for frame in _frames(table):
            for group in groups(frame, None):
                queue, like = self.manager.queue(group.queue), MessageProperties(**group.properties)
                try:
                    queue.send_records(group.bodies, like)
                except TransactionUsage:
                    # The queue is transactional.
                    with self.manager.transaction() as transaction:
                        queue.send_records(group.bodies, like, transaction)
        self._count(sent_at_least_once=table.num_rows)
        self.remove(table)

    def remove(self, table: Any) -> None:
        """Remove the messages of a slice."""
        while table.num_rows:
            left = self._commit(table, [])
            if left is None:
                self._count(removed=table.num_rows)
                return
            table = left

    def _stage(self, table: Any) -> list[str]:
        return [self._stage_frame(frame) for frame in _frames(table)]

    def _stage_frame(self, frame: Any) -> str:
        messages = staged(groups(frame, None))
        wish = Stage(query=self._query, batch=self.number, destination="", run=self.name, groups=messages)
        return self.manager.call(wish).stage

    def _commit(self, table: Any, stages: list[str]) -> Any:
        """Commit the stages and remove the messages.

        Returns None, or the messages that are left if others have removed some of them: then nothing is done.
        """
        (queue,) = pc.unique(table["queue"]).to_pylist()
        lookup_ids = table["lookup_id"].to_pylist()
        removes = [MessagesToRemove(queue=queue, lookup_ids=lookup_ids)]
        wish = CommitStages(
            query=self._query, batch=self.number, destination="", run=self.name, stages=stages, removes=removes
        )
        self.number += 1
        try:
            self.manager.call(wish)
        except SharingViolation:
            self.manager.call(DropStages(stages=stages))
            raise SharingViolation(
                f"another reader has locked dead-letter messages in {queue}; run the command again when that reader "
                "has finished"
            ) from None
        except (MessageNotFound, QueueNotFound, QueueDeleted):
            self.manager.call(DropStages(stages=stages))
            there = _there(self.manager, queue, lookup_ids)
            left = table.filter(pa.array([each in there for each in lookup_ids], pa.bool_()))
            if left.num_rows == table.num_rows:
                raise
            self._count(gone=table.num_rows - left.num_rows)
            return left
        return None

    @property
    def _query(self) -> str:
        return f"deadletters-{self.name}"

    def _count(self, **more: int) -> None:
        now = {name: getattr(self.done, name) + count for name, count in more.items()}
        kept = {name: getattr(self.done, name) for name in Done.__slots__}
        self.done = Done(**kept | now)


def _frames(table: Any) -> Iterator[Any]:
    for batch in consistent_table(table.select(SENT)).combine_chunks().to_batches():
        yield from frames(batch)


def _there(manager: "Manager", queue: str, lookup_ids: Sequence[int]) -> set[int]:
    """Those of the messages that are still in the queue."""
    numbers = [lookup_id & SEQUENCE_ID_MASK for lookup_id in lookup_ids]
    found: set[int] = set()
    after, last, is_last = min(numbers) - 1, max(numbers), False
    while not is_last:
        try:
            frame = manager.call(ReadRange(name=queue, after=after, up_to=last))
        except (QueueNotFound, QueueDeleted):
            # A queue of parked messages was deleted, and the messages with it.
            return set()
        found.update(frame.numbers())
        after, is_last = frame.end, frame.is_last
    return found.intersection(lookup_ids)


# --- Runs of earlier versions -----------------------------------------------------------------------------------------


def settle(manager: "Manager") -> int:
    """Finish an interrupted run of a version that sent and removed in two steps. Returns the number of its messages.

    Such a run has sent the messages that the queue RECEIPTS names, so they are only removed. The queue is deleted then.
    """
    receipts = manager.queue(RECEIPTS)
    try:
        found = list(receipts.browse())
    except QueueNotFound:
        return 0
    settled = 0
    run = _Run(manager)
    for receipt in found:
        queue, lookup_ids = _named(receipt)
        for start in range(0, len(lookup_ids), SLICE):
            some = lookup_ids[start : start + SLICE]
            there = _there(manager, queue, some)
            left = [each for each in some if each in there]
            run.remove(pa.table({"queue": [queue] * len(left), "lookup_id": pa.array(left, pa.int64())}))
        with suppress(MessageNotFound):
            receipts.receive(0, lookup_id=receipt.lookup_id)
        settled += len(lookup_ids)
    with suppress(QueueNotFound):
        receipts.delete()
    return settled


def _named(receipt: "Message") -> tuple[str, list[int]]:
    try:
        found = json.loads(receipt.body)
        return str(found["queue"]), [int(lookup_id) for lookup_id in found["lookup_ids"]]
    except (ValueError, TypeError, KeyError):
        raise InvalidParameter(
            f"the message {receipt.id} in the queue {RECEIPTS} was not written by an earlier version of Waypost; "
            "move this message to another queue, and run the command again"
        ) from None
