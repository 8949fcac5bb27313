"""The options of format("msmq"), checked: docs/spark.md says what each of them means.

The driver reads all options, and credentials too. They travel to the executors inside the reader or the writer, so that
executors need no file or variable, and no secret appears in a plan.

To add an option: its name in _NAMES, its field in the record that it belongs to, and the line that reads it with
waypost.spark.option_values; then its row in docs/spark.md (tests/spark/test_docs_spark.py compares both).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias, cast
from uuid import uuid4

from waypost.api import defaults
from waypost.api.bulk import DEFAULT_LEASE_S, Locked
from waypost.api.claims import DEFAULT_CLAIM_LEASE_S, DEFAULT_MAX_ABORTS
from waypost.api.excerpt import excerpt
from waypost.api.properties import MessageProperties
from waypost.api.protection import protection_of
from waypost.arrow.choice import EVERY, Choice
from waypost.arrow.packets import OnMalformed
from waypost.client.bulk.client import DEFAULT_QUOTA_WAIT_S
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.errors import InvalidParameter
from waypost.spark import option_values as values
from waypost.spark.option_values import Given, Place

DEFAULT_DELAY_S: Final = 900.0

Mode: TypeAlias = Literal["peek", "drain", "claim"]
QueueType: TypeAlias = Literal["message", "journal", "deadletter", "xactdeadletter", "admin", "report", "outgoing"]
Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]
OnInvalid: TypeAlias = Literal["fail", "deadletter"]
# A place in all queues, or one in each queue.
Position: TypeAlias = Literal["earliest", "latest"] | datetime | Mapping[str, Place]

_PLACES: Final = ("server", "host", "msmqHost")
_QUEUES: Final = ("queue", "queues", "queuePattern")
_NAMES: Final = (
    *(*_PLACES, *_QUEUES, "tokenFile", "user", "passwordFile", "timeout"),
    *("queueType", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "classes", "labelPattern"),
    *("maxMessagesPerTrigger", "maxBytesPerTrigger", "minMessagesPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxMessagesPerPartition", "maxBytesPerPartition"),
    *("failOnDataLoss", "mode", "claimId", "claimLease", "claimMaxAborts"),
    *("columns", "includeBody", "includePacket", "includeSecurity", "includeHeaders"),
    *("decodeBody", "maxBodyBytes", "onMalformed", "lockedMessages"),
    *("delivery", "txnId", "txnAppId", "txnVersion", "runId", "stageLease", "onInvalid", "quotaWait"),
    *("sign", "certificate", "signature", "hash", "encrypt", "algorithm"),
)
# Options of Spark's Kafka source with the same meaning.
KAFKA: Final = {
    "subscribe": "queues",
    "maxOffsetsPerTrigger": "maxMessagesPerTrigger",
    "minOffsetsPerTrigger": "minMessagesPerTrigger",
    "maxRecordsPerPartition": "maxMessagesPerPartition",
}
_KAFKA: Final = {name.lower(): ours for name, ours in KAFKA.items()}
# Options that are refused, with the reason and the replacement.
_REFUSED: Final = {
    "token": "the option `token` would be visible in query plans: set the option `tokenFile`, the environment variable "
    "WAYPOST_TOKEN, or spark.msmq.token in the session before you call waypost.spark.register",
    "store": "the option `store` no longer exists, because a read of a folder took as long as a read through a "
    "daemon: run `waypost serve` on the folder, and set the option `server`; to read a folder "
    "without a daemon, use waypost.client.bulk.folder",
    "pushdown": "the option `pushdown` no longer exists, because Spark applies the filter of one query to the "
    "next query of the same DataFrame: select messages with `startingOffsets`, `startingTimestamp`, "
    "`endingTimestamp`, `classes` and `labelPattern`, and select columns with `columns`",
    "subscribepattern": "the option `subscribePattern` belongs to the Kafka source: use the option `queuePattern`, "
    "in which * stands for any characters and ? for one character",
    "assign": "the option `assign` selects Kafka partitions, which queues do not have: use the option `queue` or "
    "`queues`",
    "topic": "the option `topic` belongs to the Kafka sink: use the option `queue`",
    "includeheadersasmap": "the option `includeHeadersAsMap` is unknown: use the option `includeHeaders`, which adds "
    "an array of keys and values",
    "startingoffsetsbytimestampstrategy": "the option `startingOffsetsByTimestampStrategy` is unknown; remove it: if a "
    "queue contains no messages after the given time, the read starts at the end of the queue",
    "asyncprogresstrackingenabled": "the option `asyncProgressTrackingEnabled` is refused: with this option, Spark "
    "starts the next batch before it has recorded the previous batch as done, so a crash would lose or repeat messages",
    "groupidprefix": "the option `groupIdPrefix` belongs to Kafka: readers of a queue have no groups; the mode `claim` "
    "divides messages among readers",
    "kafkaconsumer.polltimeoutms": "the option `kafkaConsumer.pollTimeoutMs` belongs to Kafka; remove it: a task reads "
    "messages that are in the queue, and does not poll",
    "fetchoffset.numretries": "the option `fetchOffset.numRetries` belongs to Kafka; remove it: the source repeats "
    "requests by itself",
    "fetchoffset.retryintervalms": "the option `fetchOffset.retryIntervalMs` belongs to Kafka; remove it: the source "
    "repeats requests by itself",
}
_NONE: Final[tuple[str, ...]] = ()
_KNOWN: Final = {name.lower(): name for name in _NAMES}
# Options that Spark adds to those of the user, always and to the definition of a table.
_OF_SPARK: Final = frozenset({"path", "paths", "checkpointlocation", "queryname", "serialization.format"})
_OF_TABLE: Final = frozenset({"provider", "owner", "location", "external", "is_managed_location", "comment"})
_TABLE: Final = "provider"
_TABLE_OPTION: Final = "option."
_INCLUDES: Final = ("includeBody", "includePacket", "includeSecurity", "includeHeaders", "decodeBody")
_SYSTEM: Final[dict[str, str]] = {
    "journal": "system$;journal",
    "deadletter": "system$;deadletter",
    "xactdeadletter": "system$;deadxact",
}
_KEPT: Final = frozenset({"journal", "deadletter", "xactdeadletter", "admin", "report"})
_KEPT_NAMES: Final = (";journal", *_SYSTEM.values())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Source of the messages: the URL of a daemon, or the name of an MSMQ host."""

    kind: Literal["daemon", "host"]
    address: str
    user: str | None = None
    secret: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT
    locked: Locked = "wait"
    lease_s: float = DEFAULT_CLAIM_LEASE_S
    max_aborts: int = DEFAULT_MAX_ABORTS

    def __str__(self) -> str:
        return self.address


@dataclass(frozen=True, slots=True)
class Columns:
    """Options on the columns of a read."""

    include_body: bool = True
    include_packet: bool = False
    include_security: bool = True
    include_headers: bool = False
    decode_body: bool = False
    max_body_bytes: int | None = None
    on_malformed: OnMalformed = OnMalformed.FAIL
    # Exactly these columns, if it is not empty.
    names: tuple[str, ...] = ()
    choice: Choice = EVERY


@dataclass(frozen=True, slots=True)
class Rate:
    """Limits of a batch of a stream; None means unlimited."""

    max_messages: int | None = None
    max_bytes: int | None = None
    min_messages: int = 1
    max_delay_s: float = DEFAULT_DELAY_S


@dataclass(frozen=True, slots=True)
class Split:
    """Options on the number of partitions."""

    min_partitions: int | None = None
    max_messages: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    endpoint: Endpoint
    queue_type: QueueType
    # Names of queues; empty with a pattern.
    queues: tuple[str, ...]
    pattern: str | None
    start: Position
    end: Position
    mode: Mode
    rate: Rate
    split: Split
    columns: Columns
    fail_on_data_loss: bool
    # The name of the claim; None for one that is made for each load.
    claim: str | None = None
    # The options that set `start` and `end`, for errors.
    start_option: str = "startingOffsets"
    end_option: str = "endingOffsets"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    endpoint: Endpoint
    # None if a column names the queue of each message.
    queue: str | None
    delivery: Delivery
    # The name of the transaction; empty if the user gave none.
    transaction: str = ""
    # Time for which staged messages wait for the end of their job.
    lease_s: float = DEFAULT_LEASE_S
    # The run of the program that a batch write belongs to, a GUID; empty if unknown.
    run: str = ""
    # The version of an application's writes; None without one. Then `transaction` is the name of the application.
    version: int | None = None
    # The name of a write without any other.
    anonymous: str = ""
    on_invalid: OnInvalid = "fail"
    # Time to wait for room in a full queue.
    quota_wait_s: float = DEFAULT_QUOTA_WAIT_S
    # True if each row names its queue.
    is_by_column: bool = False
    # The properties of all messages that ask to sign and to encrypt.
    protection: dict[str, Any] = field(default_factory=dict)

    @property
    def destination(self) -> str:
        """The queue to which a batch is committed, or an empty text if a column names the queues."""
        return "" if self.is_by_column else self.queue or ""


def read_options(given: Mapping[str, str], token: str | None = None) -> ReadOptions:
    """Check the options of a read. Raises InvalidParameter for the first wrong option. `token` is from the session."""
    options = _given(given)
    queue_type, queues, pattern = _selection(options)
    mode = cast("Mode", options.word("mode", ("peek", "drain", "claim"), "peek"))
    start = _position(options, _STARTS, "earliest")
    endpoint = _endpoint(options, token)
    columns = _columns(options)
    if mode != "peek":
        _check_consumes(mode, start, _option_of(options, _STARTS), endpoint)
        if columns.choice != EVERY:
            raise InvalidParameter(
                f"the mode `{mode}` removes every message from the queue, even messages that the options `classes` "
                "and `labelPattern` exclude: with these options, `mode` must be `peek`"
            )
    return ReadOptions(
        endpoint=endpoint,
        queue_type=queue_type,
        queues=queues,
        pattern=pattern,
        start=start,
        end=_position(options, _ENDS, "latest"),
        mode=mode,
        rate=_rate(options),
        split=Split(
            options.read("minPartitions", _count_or_nothing, None),
            options.read("maxMessagesPerPartition", _count_or_nothing, None),
            options.read("maxBytesPerPartition", _size_or_nothing, None),
        ),
        columns=columns,
        fail_on_data_loss=options.read(
            "failOnDataLoss", values.boolean, mode != "peek" or _is_kept(queue_type, queues)
        ),
        claim=options.text("claimId"),
        start_option=_option_of(options, _STARTS),
        end_option=_option_of(options, _ENDS),
    )


def schema_options(given: Mapping[str, str], token: str | None = None) -> Columns:
    """Check the options of a read, and return those on columns.

    A table names no queue: Spark drops the options of CREATE TABLE, and passes only the options of a query.
    """
    if any(name.lower() == _TABLE for name in given):
        return _columns(_given(given))
    return read_options(given, token).columns


def write_options(given: Mapping[str, str], token: str | None = None) -> WriteOptions:
    """Check the options of a write. Raises InvalidParameter for the first wrong option. `token` is from the session."""
    options = _given(given)
    endpoint = _endpoint(options, token)
    if endpoint.kind != "daemon":
        raise InvalidParameter(
            "a write requires a Waypost daemon, which forwards messages to any host: use the option `server` instead "
            "of `msmqHost`"
        )
    for name in ("queues", "queuePattern"):
        if options.text(name) is not None:
            raise InvalidParameter(
                f"the option `{name}` is only for reads; to write, set the option `queue` or add a column `dest_queue`"
            )
    words = ("exactly-once", "at-least-once")
    delivery = cast("Delivery", options.word("delivery", words, "exactly-once"))
    transaction, version = _transaction(options)
    if transaction and delivery == "at-least-once":
        raise InvalidParameter(
            f"the option `{_named_by(version)}` requires exactly-once delivery, but the option `delivery` is "
            "`at-least-once`; remove one of the two options"
        )
    return WriteOptions(
        endpoint=endpoint,
        queue=options.text("queue"),
        delivery=delivery,
        transaction=transaction,
        version=version,
        anonymous=str(uuid4()),
        on_invalid=cast("OnInvalid", options.word("onInvalid", ("fail", "deadletter"), "fail")),
        quota_wait_s=options.read("quotaWait", values.seconds, DEFAULT_QUOTA_WAIT_S),
        lease_s=options.read("stageLease", values.seconds, DEFAULT_LEASE_S),
        run=options.read("runId", values.guid, ""),
        protection=_protection(options),
    )


def check_stream_write(options: WriteOptions) -> None:
    """Raises InvalidParameter for options that a stream would ignore."""
    if options.transaction:
        raise InvalidParameter(
            f"the option `{_named_by(options.version)}` is only for batch writes: a stream writes each batch exactly "
            "once without this option, because the checkpoint identifies the query and the batch; remove the option, "
            "or use it in foreachBatch"
        )


def _named_by(version: int | None) -> str:
    """The option that names a write with this version."""
    return "txnId" if version is None else "txnAppId"


def _protection(options: Given) -> dict[str, Any]:
    """The properties of all messages of a write that ask to sign and to encrypt."""
    given: dict[str, Any] = {
        name: True for name in ("sign", "encrypt") if options.read(name, values.boolean, default=False)
    }
    for name in ("certificate", "hash", "algorithm"):
        text = options.text(name)
        if text is not None:
            given[name] = text
    version = options.read("signature", _version_or_nothing, None)
    if version is not None:
        given["signature"] = version
    # It refuses combinations that cannot work.
    protection_of(MessageProperties(**given), has_several=False)
    return given


def _transaction(options: Given) -> tuple[str, int | None]:
    """The name of the transaction or application, and the version."""
    name, application = options.text("txnId"), options.text("txnAppId")
    version = options.read("txnVersion", _version_or_nothing, None)
    if name is not None and application is not None:
        raise InvalidParameter("the options `txnId` and `txnAppId` are mutually exclusive; use only one")
    if (application is None) != (version is None):
        raise InvalidParameter("the options `txnAppId` and `txnVersion` must be set together; set both, or neither")
    return name or application or "", version


def _given(given: Mapping[str, str]) -> Given:
    options = {name.lower(): value for name, value in given.items()}
    if not options:
        raise InvalidParameter(
            "no options were passed: Spark does not pass the OPTIONS of CREATE TABLE, with or without AS SELECT, to a "
            "Python data source; set the options in the query, as in SELECT * FROM t WITH (queue = 'orders') or "
            "INSERT INTO t WITH (queue = 'orders') ..., or use CREATE TEMPORARY VIEW v USING msmq OPTIONS (queue "
            "'orders')"
        )
    found: dict[str, str] = {}
    for name, value in options.items():
        if not _is_of_spark(name, is_table=_TABLE in options):
            known = _KAFKA.get(name, name)
            _check_known(name, known.lower())
            if known.lower() in found or (known != name and known.lower() in options):
                raise InvalidParameter(
                    f"the options `{known}` and `{_alias(name)}` have the same meaning; use only one"
                )
            found[known.lower()] = value
    if _TABLE not in options:
        _add_path(options, found)
    return Given(found)


def _is_of_spark(name: str, *, is_table: bool) -> bool:
    return name in _OF_SPARK or (is_table and (name in _OF_TABLE or name.startswith(_TABLE_OPTION)))


def _check_known(name: str, known: str) -> None:
    if name in _REFUSED:
        raise InvalidParameter(_REFUSED[name])
    if known in _KNOWN:
        return
    if name.startswith("kafka."):
        raise InvalidParameter(
            f"unknown option {excerpt(name)}: this is a setting of Kafka; use `server` for the address of the daemon, "
            "and `tokenFile` for its token"
        )
    near = get_close_matches(name, list(_KNOWN), 1)
    hint = f"did you mean `{_KNOWN[near[0]]}`?" if near else f"the options are {', '.join(_NAMES)}"
    raise InvalidParameter(f"unknown option {excerpt(name)}; {hint}")


def _alias(name: str) -> str:
    return next((alias for alias in KAFKA if alias.lower() == name), name)


def _add_path(options: Mapping[str, str], found: dict[str, str]) -> None:
    """Take the argument of load() or save() as the queue."""
    path, paths = options.get("path"), options.get("paths")
    named = [name for name in _QUEUES if name.lower() in found]
    if named and (path or paths):
        raise InvalidParameter(
            f"the queue is named twice: by the option `{named[0]}` and by the path {excerpt(path or paths)}, the "
            "argument of load() or save(); use only one"
        )
    if path:
        found["queue"] = path
    elif paths:
        found["queues"] = ",".join(values.texts("paths", paths))


def _endpoint(options: Given, token: str | None) -> Endpoint:
    named = [name for name in _PLACES if options.text(name) is not None]
    if len(named) > 1:
        raise InvalidParameter(f"the options `{named[0]}` and `{named[1]}` are mutually exclusive; use only one")
    timeout_s = options.read("timeout", values.seconds, DEFAULT_TIMEOUT)
    locked = cast("Locked", options.word("lockedMessages", ("wait", "skip"), "wait"))
    host = options.text("msmqHost")
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
        lease_s=options.read("claimLease", values.seconds, DEFAULT_CLAIM_LEASE_S),
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
        raise InvalidParameter(
            f"the options `{named[0]}` and `{named[1]}` are mutually exclusive: both options select queues"
        )
    pattern = options.text("queuePattern")
    queue = options.text("queue")
    queues: tuple[str, ...] = (queue.strip(),) if queue else options.read("queues", values.names, _NONE)
    implied = _implied(queues) if queues else "message"
    words = ("message", "journal", "deadletter", "xactdeadletter", "admin", "report", "outgoing")
    found = cast("QueueType", options.word("queueType", words, implied))
    if found in _SYSTEM and not named:
        return found, (_SYSTEM[found],), None
    if not named:
        raise InvalidParameter(f"no queue to read is specified; set one of the options {', '.join(_QUEUES)}")
    if found == "journal":
        queues = tuple(name if name.lower().endswith(";journal") else f"{name};journal" for name in queues)
    elif found in _SYSTEM and tuple(map(str.lower, queues)) != (_SYSTEM[found],):
        raise InvalidParameter(
            f"a host has only one queue of the type {found}: remove the option `queueType` or the option `{named[0]}`"
        )
    return found, queues, pattern


def _implied(queues: tuple[str, ...]) -> str:
    """The queue type that the names of queues imply."""
    for kind, name in _SYSTEM.items():
        if all(queue.lower().endswith(name) for queue in queues):
            return kind
    return "journal" if all(queue.lower().endswith(";journal") for queue in queues) else "message"


def _is_kept(queue_type: str, queues: tuple[str, ...]) -> bool:
    """True for queues from which only operators remove messages: there, a missing message is an error."""
    names = tuple(map(str.lower, queues))
    return queue_type in _KEPT or (bool(names) and all(name.endswith(_KEPT_NAMES) for name in names))


# Options for the start or the end: places, a time, and times by queue.
_STARTS: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


def _position(options: Given, names: tuple[str, str, str], default: Literal["earliest", "latest"]) -> Position:
    given = [name for name in names if options.text(name) is not None]
    if not given:
        return default
    if len(given) > 1:
        raise InvalidParameter(f"the options `{given[0]}` and `{given[1]}` are mutually exclusive")
    name, text = given[0], options.text(given[0]) or ""
    if name == names[1]:
        return values.time(name, text)
    if name == names[2]:
        return values.times(name, text)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return cast("Position", word)
    return values.positions(name, text)


def _option_of(options: Given, names: tuple[str, str, str]) -> str:
    """The option that sets a position."""
    return next((name for name in names if options.text(name) is not None), names[0])


def _check_consumes(mode: str, start: Position, option: str, endpoint: Endpoint) -> None:
    """Check that a stream reads all messages that it removes."""
    if start != "earliest":
        wish = "`startingOffsets` must be `earliest`" if option == _STARTS[0] else f"remove the option `{option}`"
        raise InvalidParameter(f"the mode `{mode}` reads the whole queue: {wish}")
    if endpoint.locked == "skip" and mode == "drain":
        raise InvalidParameter(
            "in the mode `drain`, the option `lockedMessages` must be `wait`: if a read skipped a locked message, and "
            "the message returned to the queue later, the message would be lost"
        )


def _rate(options: Given) -> Rate:
    rate = Rate(
        max_messages=options.read("maxMessagesPerTrigger", _count_or_nothing, None),
        max_bytes=options.read("maxBytesPerTrigger", _size_or_nothing, None),
        min_messages=options.read("minMessagesPerTrigger", values.count, 1),
        max_delay_s=options.read("maxTriggerDelay", values.seconds, DEFAULT_DELAY_S),
    )
    if rate.max_messages is not None and rate.min_messages > rate.max_messages:
        raise InvalidParameter(
            f"the option `minMessagesPerTrigger` is {rate.min_messages}, but must be at most {rate.max_messages}, the "
            "value of `maxMessagesPerTrigger`"
        )
    return rate


def _columns(options: Given) -> Columns:
    default = Columns()
    given = [name for name in _INCLUDES if options.text(name) is not None]
    if given and options.text("columns") is not None:
        raise InvalidParameter(
            f"the options `columns` and `{given[0]}` are mutually exclusive, because `columns` lists all columns"
        )
    return Columns(
        include_body=options.read("includeBody", values.boolean, default.include_body),
        include_packet=options.read("includePacket", values.boolean, default.include_packet),
        include_security=options.read("includeSecurity", values.boolean, default.include_security),
        include_headers=options.read("includeHeaders", values.boolean, default.include_headers),
        decode_body=options.read("decodeBody", values.boolean, default.decode_body),
        max_body_bytes=options.read("maxBodyBytes", _size_or_nothing, None),
        on_malformed=OnMalformed(options.word("onMalformed", ("fail", "null", "quarantine"), "fail")),
        names=options.read("columns", values.names, _NONE),
        choice=Choice(options.read("classes", values.classes, frozenset()), options.text("labelPattern") or ""),
    )


def _version_or_nothing(name: str, text: str) -> int | None:
    return values.count_or_none(name, text)


def _count_or_nothing(name: str, text: str) -> int | None:
    return values.count(name, text)


def _size_or_nothing(name: str, text: str) -> int | None:
    return values.size(name, text)
