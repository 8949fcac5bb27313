"""Replay: send messages of an archive to queues again, on this or another host, each once even after interruptions.

    plan = make_plan(spark, "/archive", wanted, size=1000)
    for sent in replay(plan, MsmqSink({"server": "other"}), rate=500):
        print(sent)

The plan divides the messages into chunks and is written into the archive before anything is sent: _replays/ID/plan. A
chunk is one transaction of the sink, named after the replay and its number, and noted in _replays/ID/sent when it is
done. If a run ends between the two, the next run sends the chunk again under the same name, and the queue manager
knows that it has the chunk. The id is made from the options, so that the same command continues the same replay, and
sends nothing once it is complete; another id is another replay. The options are kept in _replays/ID/options: a plan
continues only with the same options.
"""

import json
import re
import shlex
import textwrap
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from waypost.errors import InvalidParameter
from waypost.spark.pipelines.archived import read_archive
from waypost.spark.pipelines.manifest import digest
from waypost.spark.pipelines.notes import Form, Notes, SparkNotes
from waypost.spark.pipelines.sending import SENT, Delivery, Sink, like

REPLAYS: Final = "_replays"
MESSAGES_PER_CHUNK: Final = 10_000
# Columns of an archive that a replay reads.
COLUMNS: Final = tuple(dict.fromkeys(("batch", "queue", "seq", *SENT, "arrived_time", "packet_error")))
# Columns in the digest of messages that are sent.
DIGESTED: Final = ("dest_queue", "label", "body")
_CHUNK: Final = Form(
    pa.schema(
        [
            pa.field("number", pa.int64()),
            *(pa.field(name, pa.string()) for name in ("batch", "queue")),
            *(pa.field(name, pa.int64()) for name in ("first_seq", "last_seq", "messages")),
            pa.field("digest", pa.string()),
        ]
    ),
    key="number",
)
_OPTIONS: Final = Form(pa.schema([pa.field("options", pa.string())]), key="options")
_LONGEST: Final = 300
# The name of a queue without its computer and without ;journal, in lower case.
LAST_PART: Final = r"([^\\]*?)(;journal)?$"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The messages of an archive to send, and their changes. Names and labels are patterns with * and ?.

    `destinations` maps queues to the new destinations of their messages; all other messages keep their destinations. A
    key is the name of a queue in the archive or in the messages: the whole name, or only the last part without
    ;journal. `label` is the new label, in which {label} stands for the old label.
    """

    queue: str = "*"
    label_pattern: str = "*"
    since: datetime | None = None
    until: datetime | None = None
    destinations: Mapping[str, str] = field(default_factory=dict)
    label: str = "{label}"

    def of(self, archived: DataFrame) -> DataFrame:
        """The messages to send, with `batch`, `queue` and `seq`, without malformed packets."""
        found = archived.where(sf.col("packet_error").isNull())
        if self.queue != "*":
            found = found.where(like("queue", self.queue))
        if self.label_pattern != "*":
            found = found.where(like("label", self.label_pattern))
        if self.since is not None:
            found = found.where(sf.col("arrived_time") >= sf.lit(self.since))
        if self.until is not None:
            found = found.where(sf.col("arrived_time") < sf.lit(self.until))
        changed = found.withColumns({"dest_queue": self._destination(), "label": self._label()})
        return changed.select("batch", "queue", "seq", *SENT)

    def options(self, target: str) -> str:
        """The choice and the target as options of the command line, without defaults."""
        usual = Wanted()
        given = [
            ("--url", target, ""),
            ("--queue", self.queue, usual.queue),
            ("--label", self.label_pattern, usual.label_pattern),
            ("--since", self.since.isoformat() if self.since else "", ""),
            ("--until", self.until.isoformat() if self.until else "", ""),
            ("--relabel", self.label, usual.label),
            *(("--map", f"{name}={to}", "") for name, to in sorted(self._pairs().items())),
        ]
        return shlex.join(word for option, value, otherwise in given if value != otherwise for word in (option, value))

    def destination(self, queue: str | None, dest_queue: str | None) -> str | None:
        """The destination of a message of this queue in the archive that was sent to `dest_queue`."""
        pairs = self._pairs()
        for name in (queue, dest_queue):
            last = None if name is None else re.search(LAST_PART, name.lower())
            for known in (None if name is None else name.lower(), None if last is None else last[1]):
                if known in pairs:
                    return pairs[known]
        return dest_queue

    def new_label(self, label: str | None) -> str | None:
        before, found, after = self.label.partition("{label}")
        if not found:
            return self.label
        return None if label is None else f"{before}{label}{after}"

    def _pairs(self) -> dict[str, str]:
        """Each name once, in lower case."""
        return {name.lower(): to for name, to in self.destinations.items()}

    def _destination(self) -> Column:
        if not self.destinations:
            return sf.col("dest_queue")
        # A map of Spark has each key once.
        pairs = self._pairs()
        known = sf.create_map(*(sf.lit(part) for pair in pairs.items() for part in pair))
        names = [name for column in ("queue", "dest_queue") for name in (sf.lower(column), _last_part(column))]
        return sf.coalesce(*(sf.try_element_at(known, name) for name in names), "dest_queue")

    def _label(self) -> Column:
        before, found, after = self.label.partition("{label}")
        return sf.concat(sf.lit(before), "label", sf.lit(after)) if found else sf.lit(self.label)


def _last_part(column: str) -> Column:
    return sf.regexp_extract(sf.lower(column), LAST_PART, 1)


def replay_id(path: str, wanted: Wanted, target: str) -> str:
    """The default id of a replay: the same for the same messages and the same target."""
    text = json.dumps([path.rstrip("/"), asdict(wanted), target], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Messages of one queue in one batch of the archive, from one number to another; `digest` is of the sent values."""

    number: int
    batch: str
    queue: str
    first_seq: int
    last_seq: int
    messages: int
    digest: str


class Library(Protocol):
    """An archive in the hands of an engine: its messages, and the notes of replays. Messages are a DataFrame, or an
    Arrow table in memory (waypost.spark.pipelines.replay_in_memory)."""

    @property
    def path(self) -> str: ...

    @property
    def notes(self) -> Notes: ...

    def messages(self, wanted: Wanted, *, batches: Collection[str] | None = None) -> Any:
        """The messages to send, of all batches or of some, with `batch`, `queue`, `seq` and the columns SENT.

        Raises InvalidParameter if the path is not an archive, or one of its files is gone.
        """

    def divided(self, messages: Any, size: int) -> list[Chunk]:
        """Chunks of at most `size` messages, in the order of sending."""

    def of_chunk(self, messages: Any, chunk: Chunk) -> Any:
        """The messages of a chunk, in the order of their arrival."""


@dataclass(frozen=True, slots=True)
class SparkLibrary:
    spark: SparkSession
    path: str

    @property
    def notes(self) -> Notes:
        return SparkNotes(self.spark, self.path)

    def messages(self, wanted: Wanted, *, batches: Collection[str] | None = None) -> DataFrame:
        return wanted.of(read_archive(self.spark, self.path, batches=batches))

    def divided(self, messages: DataFrame, size: int) -> list[Chunk]:
        return divided(messages, size)

    def of_chunk(self, messages: DataFrame, chunk: Chunk) -> DataFrame:
        is_in_it = (sf.col("queue") == chunk.queue) & sf.col("seq").between(chunk.first_seq, chunk.last_seq)
        return messages.where(is_in_it).coalesce(1).sortWithinPartitions("seq")


@dataclass(frozen=True, slots=True)
class Plan:
    """The chunks of a replay; `sent` has the numbers of those done. A new plan is saved before anything is sent."""

    library: Library
    name: str
    wanted: Wanted
    options: str
    chunks: list[Chunk]
    sent: set[int]
    is_saved: bool

    @property
    def path(self) -> str:
        return self.library.path

    @property
    def messages(self) -> int:
        return sum(chunk.messages for chunk in self.chunks)

    @property
    def messages_sent(self) -> int:
        return sum(chunk.messages for chunk in self.chunks if chunk.number in self.sent)

    def save(self) -> None:
        """Write the plan, options first, so that no plan exists without them."""
        notes, place = self.library.notes, f"{REPLAYS}/{self.name}"
        notes.write(f"{place}/options", _OPTIONS, [{"options": self.options}])
        notes.write(f"{place}/plan", _CHUNK, [asdict(chunk) for chunk in self.chunks])

    def outgoing(self, chunk: Chunk) -> Any:
        """The messages of a chunk, in the order of their arrival."""
        return self.library.of_chunk(self.library.messages(self.wanted, batches=[chunk.batch]), chunk)

    def note(self, chunk: Chunk) -> None:
        self.library.notes.write(f"{REPLAYS}/{self.name}/sent/{chunk.number}", _CHUNK, [asdict(chunk)])
        self.sent.add(chunk.number)


def make_plan(
    spark: SparkSession,
    path: str,
    wanted: Wanted,
    *,
    name: str,
    target: str = "",
    size: int = MESSAGES_PER_CHUNK,
) -> Plan:
    """Like `plan_of`, for an archive that Spark reads."""
    return plan_of(SparkLibrary(spark, path.rstrip("/")), wanted, name=name, target=target, size=size)


def plan_of(library: Library, wanted: Wanted, *, name: str, target: str = "", size: int = MESSAGES_PER_CHUNK) -> Plan:
    """The plan of the replay with this name: an existing plan, with chunks of any size, or a new one.

    `target` names the daemon that sends. Raises InvalidParameter if the existing plan was made for other messages,
    or for another target.
    """
    place, options = f"{REPLAYS}/{name}", wanted.options(target)
    chunks = _read_chunks(library.notes, f"{place}/plan")
    if not chunks:
        # A run that was killed while it saved a plan also leaves an empty one.
        chunks = library.divided(library.messages(wanted), size)
        return Plan(library, name, wanted, options, chunks, set(), is_saved=False)
    _check_options(library.notes, place, name, options)
    sent = {chunk.number for chunk in _read_chunks(library.notes, f"{place}/sent")}
    return Plan(library, name, wanted, options, chunks, sent, is_saved=True)


def _check_options(notes: Notes, place: str, name: str, options: str) -> None:
    """Refuse other options: they would change the chunks of the plan. Plans of earlier versions have no options."""
    for line in notes.read(f"{place}/options", _OPTIONS):
        if line["options"] != options:
            begun = textwrap.shorten(line["options"], _LONGEST, placeholder=" ...") or "none"
            raise InvalidParameter(
                f"the replay {name} was started with other options ({begun}); use the same options, or another --id"
            )


def divided(messages: DataFrame, size: int) -> list[Chunk]:
    """Chunks of at most `size` messages, in the order of sending."""
    order = Window.partitionBy("batch", "queue").orderBy("seq")
    part = sf.floor((sf.row_number().over(order) - 1) / size)
    found = (
        messages.withColumn("part", part)
        .groupBy("batch", "queue", "part")
        .agg(
            sf.min("seq").alias("first_seq"),
            sf.max("seq").alias("last_seq"),
            sf.count("*").alias("messages"),
            digest(*DIGESTED).alias("digest"),
        )
        .orderBy("first_seq", "queue", "batch")
        .drop("part")
    )
    return [Chunk(number, **row.asDict()) for number, row in enumerate(found.collect())]


def replay(
    plan: Plan,
    sink: Sink,
    *,
    rate: float | None = None,
    delivery: Delivery = "exactly-once",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Chunk]:
    """Send the remaining chunks of a plan, and yield each when it is done; at most `rate` messages a second."""
    if not plan.is_saved:
        plan.save()
    began, sent = clock(), 0
    for chunk in plan.chunks:
        if chunk.number in plan.sent:
            continue
        if rate is not None:
            sleep(max(began + sent / rate - clock(), 0))
        sink.send(plan.outgoing(chunk), delivery, f"replay-{plan.name}-{chunk.number}")
        plan.note(chunk)
        sent += chunk.messages
        yield chunk


def chunk_size(rate: float | None) -> int:
    """Number of messages for about one second, because a chunk arrives at once."""
    return MESSAGES_PER_CHUNK if rate is None else max(min(int(rate), MESSAGES_PER_CHUNK), 1)


def found_there(plan: Plan, read: Callable[[str], DataFrame | None]) -> DataFrame:
    """Count the sent messages in their destination queues: `dest_queue`, `sent`, `digest`, `found`.

    `read` returns the messages of a queue, or None if the queue is not readable; then `found` is null. Messages are
    the same if their labels and bodies are equal. Messages that were received since are not found.
    """
    outgoing: DataFrame = plan.library.messages(plan.wanted, batches={chunk.batch for chunk in plan.chunks})
    sent = _contents(outgoing, "dest_queue")
    names = [row.dest_queue for row in sent.select("dest_queue").distinct().collect()]
    there = {name: read(name) for name in names}
    contents = [
        _contents(messages.withColumn("dest_queue", sf.lit(name)), "dest_queue").withColumnRenamed("copies", "there")
        for name, messages in there.items()
        if messages is not None
    ]
    totals = outgoing.groupBy("dest_queue").agg(sf.count("*").alias("messages"), digest(*DIGESTED).alias("digest"))
    if not contents:
        return totals.withColumn("found", sf.lit(None).cast("long")).orderBy("dest_queue")
    everything = contents[0]
    for each in contents[1:]:
        everything = everything.unionByName(each)
    copies = sf.least("copies", sf.coalesce("there", sf.lit(0)))
    matched = (
        sent.join(everything, ["dest_queue", "content"], "left").groupBy("dest_queue").agg(sf.sum(copies).alias("n"))
    )
    is_readable = sf.col("dest_queue").isin([name for name, messages in there.items() if messages is not None])
    joined = totals.join(matched, "dest_queue")
    return joined.withColumn("found", sf.when(is_readable, sf.col("n"))).drop("n").orderBy("dest_queue")


def _contents(messages: DataFrame, name: str) -> DataFrame:
    content = sf.sha2(sf.concat(sf.sha2("label", 256).cast("binary"), "body"), 256)
    return messages.groupBy(name, content.alias("content")).agg(sf.count("*").alias("copies"))


def _read_chunks(notes: Notes, place: str) -> list[Chunk]:
    found = (Chunk(**line) for line in notes.read(place, _CHUNK))
    return sorted(found, key=lambda chunk: chunk.number)
