"""Dead letters: why messages were not delivered, and what becomes of them: sent again, parked or dropped.

    letters = spark.read.format("msmq").option("queues", "system$;deadletter,system$;deadxact").load()
    triage(letters).show()
    resend(chosen(letters, Choice(reasons=("reach-queue-timeout",))), Desk(manager, MsmqSink()))

Sending a letter again and taking it out of the dead-letter queue are two steps, and a program may end between them. So
the messages go out in one transaction with a receipt: a message to the queue RECEIPTS of the same queue manager that
names the letters. Whoever runs next reads the receipts first, takes the letters that they name out of their queue
without sending them, and then the receipts. The letters are where they were, or sent, and never both.

To a nontransactional queue MSMQ sends without a transaction, and no receipt can go along: letters for such queues are
sent first and taken out then, and if the program ends just there, they are sent again by the next run.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

from waypost.arrow import schema
from waypost.errors import InvalidParameter, MessageNotFound, QueueExists
from waypost.spark.pipelines.expressions import message_id_text
from waypost.spark.pipelines.reading import schema_of
from waypost.spark.pipelines.sending import SENT, Sink, like
from waypost.wire.message_class import NEGATIVE, MessageClass

if TYPE_CHECKING:
    from waypost import Manager, Message

# How many groups of letters a report lists.
GROUPS: Final = 1000
QUEUES: Final = (r"system$;deadletter", r"system$;deadxact")
RECEIPTS: Final = "waypost.deadletters"
PARKING: Final = "parked"

_PREFIX: Final = "MQMSG_CLASS_NACK_"
# The word for each reason, as people give it: reach-queue-timeout.
REASONS: Final = {
    each.name.removeprefix(_PREFIX).lower().replace("_", "-"): each for each in MessageClass if each & NEGATIVE
}
_CLASS: Final = re.compile(r"0x[0-9a-fA-F]{1,4}")
# The letter was of the wrong kind for its queue, so what is sent now is of the other.
_WRONG_KIND: Final = (
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q,
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG,
)
# What is asked for of letters.
COLUMNS: Final = (*schema.DEFAULT.names, "body_kind")
# What makes labels of one kind differ.
_GUID: Final = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NUMBER: Final = r"[0-9]+"
# What becomes of these when a letter is parked would be lost otherwise.
_CARD: Final = schema_of(
    ("dest_queue", "message_class", "transactional", "admin_queue", "acknowledge", "journal", "extension")
)
# So that a receipt is a small message.
_LETTERS_PER_RECEIPT: Final = 50_000
_LOOKUP_ID: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters: those that match one of each kind that is given. Destinations and labels may have * and ?."""

    reasons: Sequence[str] = ()
    destinations: Sequence[str] = ()
    labels: Sequence[str] = ()
    # They came before.
    before: datetime | None = None


def chosen(letters: DataFrame, choice: Choice) -> DataFrame:
    """Raises InvalidParameter for a reason that there is not."""
    found = letters
    if choice.reasons:
        found = found.where(sf.col("message_class").isin([class_of(reason) for reason in choice.reasons]))
    if choice.destinations:
        found = found.where(_any(like("dest_queue", pattern) for pattern in choice.destinations))
    if choice.labels:
        found = found.where(_any(like("label", pattern) for pattern in choice.labels))
    if choice.before is not None:
        found = found.where(sf.col("arrived_time") < sf.lit(choice.before))
    return found


def class_of(reason: str) -> int:
    """The class that a word, or its number as 0x8002, stands for."""
    if reason.lower() in REASONS:
        return REASONS[reason.lower()]
    if _CLASS.fullmatch(reason):
        return int(reason, 16)
    raise InvalidParameter(f"there is no reason {reason!r}; there are {', '.join(REASONS)}, and numbers like 0x8002")


def _any(conditions: Iterable[Column]) -> Column:
    found = sf.lit(False)
    for condition in conditions:
        found = found | condition
    return found


def reason() -> Column:
    """The word for the class of a letter."""
    known = sf.create_map(*(sf.lit(part) for word, number in REASONS.items() for part in (int(number), word)))
    number = sf.format_string("0x%04X", "message_class")
    word = sf.coalesce(sf.try_element_at(known, sf.col("message_class")), number)
    return sf.when(sf.col("message_class").isNull(), "malformed").otherwise(word)


def triage(letters: DataFrame) -> DataFrame:
    """How many letters there are for each reason, destination, form of label and kind of body; the most first.

    The form of a label has # for numbers and GUIDs. `oldest`, `newest` and `sample_id` are of the group; `sample` is a
    label as it is.
    """
    kind = sf.col("body_kind") if "body_kind" in letters.columns else sf.format_string("0x%04X", "body_type")
    form = sf.regexp_replace(sf.regexp_replace("label", _GUID, "#"), _NUMBER, "#")
    return (
        letters.groupBy(
            reason().alias("reason"), "message_class", "dest_queue", form.alias("label_form"), kind.alias("body_kind")
        )
        .agg(
            sf.count("*").alias("letters"),
            sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"),
            sf.count_if("transactional").alias("transactional"),
            sf.min("arrived_time").alias("oldest"),
            sf.max("arrived_time").alias("newest"),
            sf.min_by("label", "seq").alias("sample"),
            message_id_text(sf.min_by("message_id", "seq")).alias("sample_id"),
        )
        .orderBy(sf.desc("letters"), "reason", "dest_queue", "label_form", "body_kind")
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """Letters as a report needs them: the greatest groups of `triage`, and all letters by reason, the most first.

    A row of `reasons` has the `letters`, the `oldest` and the number of `groups` of a reason.
    """

    groups: Sequence[Row]
    reasons: Sequence[Row]


def tally(letters: DataFrame) -> Tally:
    """Reads the letters once, so that groups and reasons are of the same letters."""
    groups = triage(letters).persist()
    try:
        counts = (sf.sum("letters").alias("letters"), sf.count("*").alias("groups"), sf.min("oldest").alias("oldest"))
        reasons = groups.groupBy("reason", "message_class").agg(*counts).orderBy(sf.desc("letters"), "reason")
        return Tally(groups.limit(GROUPS).collect(), reasons.collect())
    finally:
        groups.unpersist()


@dataclass(frozen=True, slots=True)
class Desk:
    """Where letters are dealt with: the queue manager that has them, and the sink that sends through it."""

    manager: "Manager"
    sink: Sink


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
    settled = settle(desk.manager)
    names = _names(letters, settled)
    return Done(removed=_remove(desk.manager, names), settled=len(settled))


def _send_and_remove(letters: DataFrame, desk: Desk, is_transactional: Column) -> Done:
    settled = settle(desk.manager)
    # A malformed packet has no class, and nothing to send.
    letters = letters.where("message_class is not null")
    letters = letters.withColumn("is_transactional", sf.coalesce(is_transactional, sf.lit(False)))
    once = _names(letters.where("is_transactional"), settled)
    often = _names(letters.where("not is_transactional"), settled)
    if once:
        _make(desk.manager, RECEIPTS)
        messages = _sendable(letters, once).unionByName(_receipts(letters, desk.manager, once))
        desk.sink.send(messages, "exactly-once", _transaction(once))
    # All letters are still there: a read that was planned before misses none of them.
    removed = 0
    if often:
        desk.sink.send(_sendable(letters, often), "at-least-once", _transaction(often))
        removed = _remove(desk.manager, often)
    if once:
        removed += len(settle(desk.manager))
    return Done(len(once), len(often), removed, len(settled))


# A letter: its queue and its lookup id.
Name = tuple[str, int]


def _names(letters: DataFrame, settled: set[Name]) -> list[Name]:
    """Without those that were sent before; a DataFrame may still have them."""
    rows = letters.select("queue", "lookup_id", "seq").orderBy("queue", "seq").collect()
    return [(row.queue, row.lookup_id) for row in rows if (row.queue, row.lookup_id) not in settled]


def _sendable(letters: DataFrame, names: list[Name]) -> DataFrame:
    """Exactly these letters, in the order of their arrival: others may have come into the queue or gone meanwhile."""
    these = letters.sparkSession.createDataFrame(names, "queue string, lookup_id long")
    found = letters.join(sf.broadcast(these), ["queue", "lookup_id"], "left_semi")
    return found.coalesce(1).sortWithinPartitions("queue", "seq").select(*SENT)


def _receipts(letters: DataFrame, manager: "Manager", names: list[Name]) -> DataFrame:
    spark = letters.sparkSession
    to = manager.queue(RECEIPTS).format_name
    remaining = iter(names)
    bodies = []
    while part := list(islice(remaining, _LETTERS_PER_RECEIPT)):
        bodies.append((to, bytearray(json.dumps(part).encode())))
    found = spark.createDataFrame(bodies, "dest_queue string, body binary")
    types = dict(letters.select(*SENT).dtypes)
    others = [name for name in SENT if name not in found.columns]
    return found.select("*", *(sf.lit(None).cast(types[name]).alias(name) for name in others))


def _transaction(names: list[Name]) -> str:
    return f"deadletters-{sha256(json.dumps(names).encode()).hexdigest()}"


def settle(manager: "Manager") -> set[Name]:
    """Take letters that were sent, but may still be there, out of their queue, and then the receipts."""
    if RECEIPTS not in {queue.name for queue in manager.queues()}:
        return set()
    receipts = manager.queue(RECEIPTS)
    settled: set[Name] = set()
    for receipt in list(receipts.browse()):
        names = _named(receipt)
        _remove(manager, names)
        receipts.receive(0, lookup_id=receipt.lookup_id)
        settled.update(names)
    return settled


def _named(receipt: "Message") -> list[Name]:
    try:
        return [(str(queue), int(lookup_id)) for queue, lookup_id in json.loads(receipt.body)]
    except (ValueError, TypeError):
        raise InvalidParameter(f"{receipt.id} in the queue {RECEIPTS} is no receipt; take it out of there") from None


def _remove(manager: "Manager", names: list[Name]) -> int:
    """How many of the letters were still there."""
    queues = {name: manager.queue(name) for name, _ in names}
    removed = 0
    for name, lookup_id in names:
        with suppress(MessageNotFound):
            queues[name].receive(0, lookup_id=lookup_id & _LOOKUP_ID)
            removed += 1
    return removed


def _make(manager: "Manager", name: str) -> None:
    with suppress(QueueExists):
        manager.create_queue(name, transactional=True)
