"""The options of format("msmq"), checked: docs/spark.md tells what each of them means.

Everything is read in the driver, credentials too, and travels to the executors inside the reader or the writer: they
need no file and no variable of their own, and nothing secret stands in a plan.

To add an option: its name in _NAMES, its field in the record that it belongs to, and the line that reads it with
waypost.spark.option_values; then its row in docs/spark.md, with which tests/spark/test_docs_spark.py compares it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, cast
from uuid import uuid4

from waypost.api import defaults
from waypost.api.bulk import DEFAULT_LEASE_S, DEFAULT_MAX_ABORTS, Locked
from waypost.api.excerpt import excerpt
from waypost.arrow.packets import OnMalformed
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.errors import InvalidParameter
from waypost.spark import option_values as values
from waypost.spark.option_values import Given

DEFAULT_DELAY_S: Final = 900.0

Mode: TypeAlias = Literal["peek", "drain", "claim"]
QueueType: TypeAlias = Literal["message", "journal", "deadletter", "xactdeadletter", "admin", "report", "outgoing"]
Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]
# A seq for each queue, or a time, or one of the ends.
Position: TypeAlias = Literal["earliest", "latest"] | Mapping[str, int] | datetime

_PLACES: Final = ("server", "host", "store", "msmqHost")
_QUEUES: Final = ("queue", "queues", "queuePattern")
_NAMES: Final = (
    *(*_PLACES, *_QUEUES, "tokenFile", "user", "passwordFile", "timeout"),
    *("queueType", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *("maxMessagesPerTrigger", "maxBytesPerTrigger", "minMessagesPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxMessagesPerPartition", "failOnDataLoss", "mode", "claimLease", "claimMaxAborts"),
    *("includeBody", "includePacket", "includeSecurity", "decodeBody", "maxBodyBytes", "onMalformed"),
    *("lockedMessages", "pushdown", "delivery", "txnId", "runId", "stageLease"),
)
_NONE: Final[tuple[str, ...]] = ()
_KNOWN: Final = {name.lower(): name for name in _NAMES}
# What Spark hands over beside what was given to it.
_OF_SPARK: Final = frozenset({"path", "paths", "checkpointlocation", "queryname", "serialization.format"})
_SYSTEM: Final[dict[str, str]] = {
    "journal": "system$;journal",
    "deadletter": "system$;deadletter",
    "xactdeadletter": "system$;deadxact",
}
_KEPT: Final = frozenset({"journal", "deadletter", "xactdeadletter", "admin", "report"})
_KEPT_NAMES: Final = (";journal", *_SYSTEM.values())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the messages are: the URL of a daemon, the name of an MSMQ host, or the folder of a store."""

    kind: Literal["daemon", "host", "store"]
    address: str
    user: str | None = None
    secret: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT
    locked: Locked = "wait"
    lease_s: float = DEFAULT_LEASE_S
    max_aborts: int = DEFAULT_MAX_ABORTS

    def __str__(self) -> str:
        return self.address


@dataclass(frozen=True, slots=True)
class Columns:
    """What of a message is wanted."""

    include_body: bool = True
    include_packet: bool = False
    include_security: bool = True
    decode_body: bool = False
    max_body_bytes: int | None = None
    on_malformed: OnMalformed = OnMalformed.FAIL


@dataclass(frozen=True, slots=True)
class Rate:
    """How much a trigger of a stream takes; None is everything."""

    max_messages: int | None = None
    max_bytes: int | None = None
    min_messages: int = 1
    max_delay_s: float = DEFAULT_DELAY_S


@dataclass(frozen=True, slots=True)
class Split:
    """Into how many partitions messages are divided."""

    min_partitions: int | None = None
    max_messages: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    endpoint: Endpoint
    queue_type: QueueType
    # Names, or else a pattern.
    queues: tuple[str, ...]
    pattern: str | None
    start: Position
    end: Position
    mode: Mode
    rate: Rate
    split: Split
    columns: Columns
    fail_on_data_loss: bool
    pushdown: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    endpoint: Endpoint
    # None if a column names the queue of each message.
    queue: str | None
    delivery: Delivery
    transaction: str
    # For how long what tasks have staged waits for the end of their job.
    lease_s: float = DEFAULT_LEASE_S
    # The run of the program that a batch write belongs to, a GUID; nothing if it is not known.
    run: str = ""
    # Whether each row says where it goes.
    is_by_column: bool = False

    @property
    def destination(self) -> str:
        """What a batch is committed to: the queue of all messages, or nothing if a column has them."""
        return "" if self.is_by_column else self.queue or ""


def read_options(given: Mapping[str, str], token: str | None = None) -> ReadOptions:
    """Raises InvalidParameter with a sentence for the first option that cannot be. `token` is that of the session."""
    options = _given(given)
    queue_type, queues, pattern = _selection(options)
    mode = cast("Mode", options.word("mode", ("peek", "drain", "claim"), "peek"))
    start = _position(options, "startingOffsets", "startingTimestamp", "earliest")
    endpoint = _endpoint(options, token)
    if mode != "peek":
        _check_consumes(mode, start, endpoint)
    return ReadOptions(
        endpoint=endpoint,
        queue_type=queue_type,
        queues=queues,
        pattern=pattern,
        start=start,
        end=_position(options, "endingOffsets", "endingTimestamp", "latest"),
        mode=mode,
        rate=_rate(options),
        split=Split(
            options.read("minPartitions", _count_or_nothing, None),
            options.read("maxMessagesPerPartition", _count_or_nothing, None),
        ),
        columns=_columns(options),
        fail_on_data_loss=options.read(
            "failOnDataLoss", values.boolean, mode == "claim" or _is_kept(queue_type, queues)
        ),
        pushdown=options.read("pushdown", values.boolean, False),
    )


def write_options(given: Mapping[str, str], token: str | None = None) -> WriteOptions:
    """The same for writing."""
    options = _given(given)
    endpoint = _endpoint(options, token)
    if endpoint.kind != "daemon":
        raise InvalidParameter(
            f"messages are written through a daemon, which carries them on to any host: give the option server "
            f"instead of {'store' if endpoint.kind == 'store' else 'msmqHost'}"
        )
    for name in ("queues", "queuePattern"):
        if options.text(name) is not None:
            raise InvalidParameter(f"the option {name} is for reading; to write, give queue or the column dest_queue")
    words = ("exactly-once", "at-least-once")
    return WriteOptions(
        endpoint=endpoint,
        queue=options.text("queue"),
        delivery=cast("Delivery", options.word("delivery", words, "exactly-once")),
        transaction=options.text("txnId") or str(uuid4()),
        lease_s=options.read("stageLease", values.seconds, DEFAULT_LEASE_S),
        run=options.read("runId", values.guid, ""),
    )


def _given(given: Mapping[str, str]) -> Given:
    options = {name.lower(): value for name, value in given.items()}
    for name in given:
        if name.lower() == "token":
            raise InvalidParameter(
                "the option token would show in plans: give tokenFile, the variable WAYPOST_TOKEN, or spark.msmq.token "
                "of the session before waypost.spark.register"
            )
        if name.lower() not in _KNOWN and name.lower() not in _OF_SPARK:
            near = get_close_matches(name.lower(), list(_KNOWN), 1)
            hint = f"did you mean {_KNOWN[near[0]]}?" if near else f"there are {', '.join(_NAMES)}"
            raise InvalidParameter(f"there is no option {excerpt(name)}; {hint}")
    return Given({name: value for name, value in options.items() if name not in _OF_SPARK})


def _endpoint(options: Given, token: str | None) -> Endpoint:
    named = [name for name in _PLACES if options.text(name) is not None]
    if len(named) > 1:
        raise InvalidParameter(f"the options {named[0]} and {named[1]} both say where the messages are; give one")
    timeout_s = options.read("timeout", values.seconds, DEFAULT_TIMEOUT)
    locked = cast("Locked", options.word("lockedMessages", ("wait", "skip"), "wait"))
    store, host = options.text("store"), options.text("msmqHost")
    if store is not None:
        return Endpoint("store", store, timeout_s=timeout_s, locked=locked)
    if host is not None:
        password = options.secret("passwordFile", os.environ.get("WAYPOST_PASSWORD"))
        return Endpoint("host", host, options.text("user"), password, timeout_s, locked)
    url = _url(options)
    secret = options.secret("tokenFile", token or os.environ.get("WAYPOST_TOKEN"))
    Address.parse(url, secret, timeout_s)
    return Endpoint(
        kind="daemon",
        address=url,
        secret=secret,
        timeout_s=timeout_s,
        locked=locked,
        lease_s=options.read("claimLease", values.seconds, DEFAULT_LEASE_S),
        max_aborts=options.read("claimMaxAborts", values.count_or_none, DEFAULT_MAX_ABORTS),
    )


def _url(options: Given) -> str:
    found = options.text("server") or options.text("host")
    if found is None:
        return os.environ.get("WAYPOST_URL") or defaults.URL
    if "://" in found:
        return found
    has_port = found.rpartition("]")[2].count(":") == 1 or found.count(":") == 1
    return f"http://{found}" if has_port else f"http://{found}:{defaults.HTTP_PORT}"


def _selection(options: Given) -> tuple[QueueType, tuple[str, ...], str | None]:
    named = [name for name in _QUEUES if options.text(name) is not None]
    if len(named) > 1:
        raise InvalidParameter(f"the options {named[0]} and {named[1]} both choose queues; give one of them")
    pattern = options.text("queuePattern")
    queue = options.text("queue")
    queues: tuple[str, ...] = (queue.strip(),) if queue else options.read("queues", values.names, _NONE)
    implied = _implied(queues) if queues else "message"
    words = ("message", "journal", "deadletter", "xactdeadletter", "admin", "report", "outgoing")
    found = cast("QueueType", options.word("queueType", words, implied))
    if found in _SYSTEM and not named:
        return found, (_SYSTEM[found],), None
    if not named:
        raise InvalidParameter(f"which queue is to be read? Give one of the options {', '.join(_QUEUES)}")
    if found == "journal":
        queues = tuple(name if name.lower().endswith(";journal") else f"{name};journal" for name in queues)
    elif found in _SYSTEM and tuple(map(str.lower, queues)) != (_SYSTEM[found],):
        raise InvalidParameter(f"a host has one queue of the type {found}: leave out {named[0]}, or the queueType")
    return found, queues, pattern


def _implied(queues: tuple[str, ...]) -> str:
    """What names say by themselves."""
    for kind, name in _SYSTEM.items():
        if all(queue.lower().endswith(name) for queue in queues):
            return kind
    return "journal" if all(queue.lower().endswith(";journal") for queue in queues) else "message"


def _is_kept(queue_type: str, queues: tuple[str, ...]) -> bool:
    """Whether nobody but an operator takes messages out of them, so that one that is missing is worth an error."""
    names = tuple(map(str.lower, queues))
    return queue_type in _KEPT or (bool(names) and all(name.endswith(_KEPT_NAMES) for name in names))


def _position(options: Given, name: str, time_name: str, default: Literal["earliest", "latest"]) -> Position:
    found, time = options.text(name), options.text(time_name)
    if found is not None and time is not None:
        raise InvalidParameter(f"the options {name} and {time_name} say the same; give one of them")
    if time is not None:
        return values.time(time_name, time)
    if found is None:
        return default
    word = found.strip().lower()
    if word in ("earliest", "latest"):
        return cast("Position", word)
    return values.positions(name, found)


def _check_consumes(mode: str, start: Position, endpoint: Endpoint) -> None:
    """What a stream takes out of a queue it has to have read."""
    if start != "earliest":
        raise InvalidParameter(f"the mode {mode} reads all there is: it goes with startingOffsets earliest only")
    if endpoint.locked == "skip" and mode == "drain":
        raise InvalidParameter("the mode drain would lose locked messages that come back: leave lockedMessages at wait")
    if endpoint.kind == "store":
        raise InvalidParameter(f"a store is only read, so the mode is peek, not {mode}; give the option server instead")


def _rate(options: Given) -> Rate:
    rate = Rate(
        max_messages=options.read("maxMessagesPerTrigger", _count_or_nothing, None),
        max_bytes=options.read("maxBytesPerTrigger", _size_or_nothing, None),
        min_messages=options.read("minMessagesPerTrigger", values.count, 1),
        max_delay_s=options.read("maxTriggerDelay", values.seconds, DEFAULT_DELAY_S),
    )
    if rate.max_messages is not None and rate.min_messages > rate.max_messages:
        raise InvalidParameter(
            f"the option minMessagesPerTrigger is {rate.min_messages}, "
            f"which is more than maxMessagesPerTrigger {rate.max_messages}"
        )
    return rate


def _columns(options: Given) -> Columns:
    default = Columns()
    return Columns(
        include_body=options.read("includeBody", values.boolean, default.include_body),
        include_packet=options.read("includePacket", values.boolean, default.include_packet),
        include_security=options.read("includeSecurity", values.boolean, default.include_security),
        decode_body=options.read("decodeBody", values.boolean, default.decode_body),
        max_body_bytes=options.read("maxBodyBytes", _size_or_nothing, None),
        on_malformed=OnMalformed(options.word("onMalformed", ("fail", "null", "quarantine"), "fail")),
    )


def _count_or_nothing(name: str, text: str) -> int | None:
    return values.count(name, text)


def _size_or_nothing(name: str, text: str) -> int | None:
    return values.size(name, text)
