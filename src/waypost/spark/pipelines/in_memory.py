"""The analyses of pipelines on a table in memory, without Spark: for small queues, in seconds.

Each function gives the same rows as the one of the same pipeline for a DataFrame, and everything after that is shared:
a test compares whole reports. Rows are dictionaries, and times are in UTC. Percentiles are exact; those of Spark are,
for up to some thousands of values.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final

import pyarrow as pa

from waypost.guid import GUID_PATTERN
from waypost.spark.pipelines import audit, deadletters, decode, inventory, trace
from waypost.spark.pipelines.expressions import LISTED, Listed, Row
from waypost.spark.pipelines.report_parts import id_text
from waypost.wire.message_class import NEGATIVE, MessageClass
from waypost.wire.message_properties import PA, PR

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GUID: Final = re.compile(GUID_PATTERN)
_NUMBER: Final = re.compile(r"[0-9]+")


# --- Rows -------------------------------------------------------------------------------------------------------------


def ordered(rows: Iterable[Row], *names: str) -> list[Row]:
    """The rows in the order of Spark: `-name` is descending; null comes first, and last if descending."""
    found = list(rows)
    for name in reversed(names):
        column = name.removeprefix("-")
        found.sort(key=lambda row: _key(row[column]), reverse=name.startswith("-"))
    return found


def _key(value: Any) -> tuple[bool, Any]:
    if value is None:
        return False, 0
    return True, value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def percentile(values: Sequence[Any], share: float) -> Any:
    """The value at this share of the values, which need not be in order; None without values."""
    known = sorted(value for value in values if value is not None)
    return known[max(ceil(share * len(known)), 1) - 1] if known else None


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """The rows with the same key, together."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _least(values: Iterable[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


def _greatest(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return (end - start) // timedelta(microseconds=1) / 1_000_000.0


def rows_of(table: Any) -> list[Row]:
    """The rows of a table, with times in UTC."""
    found: list[Row] = table.to_pylist()
    times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    for row in found:
        for name in times:
            if row[name] is not None:
                row[name] = row[name].astimezone(UTC)
    return found


# --- Inventory --------------------------------------------------------------------------------------------------------


def take_stock(messages: Any, now: datetime) -> inventory.Stock:
    """See waypost.spark.pipelines.inventory.take_stock."""
    left_out = ("body", "packet", "extension", "body_text")
    rows = rows_of(messages.select([name for name in messages.schema.names if name not in left_out]))
    for row in rows:
        row["time"] = row["arrived_time"] if row["arrived_time"] is not None else row["sent_time"]
        row["kind"] = row["body_kind"] if "body_kind" in row else inventory.body_type_word(row["body_type"])
    groups = grouped(rows, lambda row: row["queue"])
    queues = ordered((_queue(name, group, now) for name, group in groups.items()), "-messages", "queue")
    bucket = inventory.bucket_of(queues)
    by_kind = Counter(row["kind"] for row in rows)
    most = ordered(({"kind": kind, "messages": count} for kind, count in by_kind.items()), "-messages", "kind")
    return inventory.Stock(
        queues=queues,
        streams=_streams(rows) if any(queue["transactional"] for queue in queues) else [],
        bucket_s=bucket,
        arrivals=_arrivals(rows, bucket) if bucket else [],
        by_kind=most[: inventory.DRAWN],
        kinds=_shares(rows, "queue", "kind"),
        talkers=_shares(rows, "source_qm", "queue"),
        priorities=_shares(rows, "queue", "priority"),
    )


def _queue(name: str | None, rows: Sequence[Row], now: datetime) -> Row:
    sizes, times = [row["body_size"] for row in rows], [row["time"] for row in rows]
    ages = [_seconds(time, now) for time in times]
    oldest, newest = _least(times), _greatest(times)
    span = _seconds(oldest, newest)
    return {
        "queue": name,
        "messages": len(rows),
        "bytes": _sum(sizes),
        "size_p50": percentile(sizes, 0.5),
        "size_max": _greatest(sizes),
        "oldest": oldest,
        "newest": newest,
        "age_p50": percentile(ages, 0.5),
        "age_p95": percentile(ages, 0.95),
        "age_max": _greatest(ages),
        "per_hour": len(rows) * 3_600 / span if span else None,
        "senders": len({row["source_qm"] for row in rows} - {None}),
        "transactional": sum(bool(row["transactional"]) for row in rows),
        "express": sum(row["delivery"] == 0 for row in rows),
        "malformed": sum(row["message_id"] is None for row in rows),
    }


def _sum(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)


def _shares(rows: Sequence[Row], *by: str) -> Listed:
    groups = grouped(rows, lambda row: tuple(row[name] for name in by))
    found = (
        dict(zip(by, key, strict=True)) | {"messages": len(each), "bytes": _sum(row["body_size"] for row in each)}
        for key, each in groups.items()
    )
    return Listed.of(ordered(found, "-messages", *by))


def _arrivals(rows: Sequence[Row], bucket_s: int) -> list[Row]:
    span = timedelta(seconds=bucket_s)
    known = (row for row in rows if row["time"] is not None)
    groups = grouped(known, lambda row: _EPOCH + (row["time"] - _EPOCH) // span * span)
    found = (
        {
            "start": start,
            "messages": len(each),
            "bytes": None if all(row["body_size"] is None for row in each) else _sum(row["body_size"] for row in each),
        }
        for start, each in groups.items()
    )
    return ordered(found, "start")


def _streams(rows: Sequence[Row]) -> list[Row]:
    checked = [row for row in rows if row["transactional"] and row["message_id"] is not None]
    groups = grouped(checked, lambda row: (row["queue"], row["source_qm"]))
    found = [_stream(queue, source, ordered(each, "seq")) for (queue, source), each in groups.items()]
    for row in found:
        row["wrong"] = row["duplicates"] + row["out_of_order"]
    return ordered(found, "-wrong", "-messages", "queue", "source_qm")


def _stream(queue: str, source: str, rows: Sequence[Row]) -> Row:
    copies: Counter[bytes] = Counter()
    last: dict[Any, int] = {}
    duplicates = late = 0
    for row in rows:
        identifier = row["message_id"]
        copies[identifier] += 1
        number = int.from_bytes(identifier[16:20], "little")
        latest = last.get(row["xact_id"], -1)
        duplicates += copies[identifier] > 1
        late += copies[identifier] == 1 and number < latest
        last[row["xact_id"]] = max(latest, number)
    transactions = grouped(rows, lambda row: row["xact_id"]).values()
    return {
        "queue": queue,
        "source_qm": source,
        "transactions": len(transactions),
        "messages": len(rows),
        "duplicates": duplicates,
        "out_of_order": late,
        "cut_at_start": sum(not any(row["xact_first"] for row in each) for each in transactions),
        "cut_at_end": sum(not any(row["xact_last"] for row in each) for each in transactions),
    }


# --- Dead-letter messages ---------------------------------------------------------------------------------------------


def chosen(messages: Any, choice: deadletters.Choice) -> Any:
    """See waypost.spark.pipelines.deadletters.chosen."""
    classes = {deadletters.class_of(reason) for reason in choice.reasons}
    destinations, labels = ([like(each) for each in given] for given in (choice.destinations, choice.labels))

    def is_chosen(row: Row) -> bool:
        return (
            (not classes or row["message_class"] in classes)
            and (not destinations or any(matches(row["dest_queue"]) for matches in destinations))
            and (not labels or any(matches(row["label"]) for matches in labels))
            and (choice.before is None or (row["arrived_time"] is not None and row["arrived_time"] < choice.before))
        )

    looked_at = rows_of(messages.select(["message_class", "dest_queue", "label", "arrived_time"]))
    return messages.filter(pa.array([is_chosen(row) for row in looked_at], pa.bool_()))


def like(pattern: str) -> Callable[[str | None], bool]:
    """See waypost.spark.pipelines.sending.like."""
    parts = {"*": ".*", "?": "."}
    expression = re.compile("".join(parts.get(each, re.escape(each)) for each in pattern.lower()), re.DOTALL)
    return lambda text: expression.fullmatch((text or "").lower()) is not None


def tally(messages: Any) -> deadletters.Tally:
    """See waypost.spark.pipelines.deadletters.tally."""
    columns = ("message_class", "dest_queue", "label", "body_kind", "body_size", "transactional", "arrived_time", "seq")
    rows = rows_of(messages.select([*columns, "message_id"]))
    words = {int(number): word for word, number in deadletters.REASONS.items()}
    for row in rows:
        number = row["message_class"]
        row["reason"] = "malformed" if number is None else words.get(number, f"0x{number:04X}")
        label = row["label"]
        row["label_form"] = None if label is None else _NUMBER.sub("#", _GUID.sub("#", label))
    by = ("reason", "message_class", "dest_queue", "label_form", "body_kind")
    groups = grouped(rows, lambda row: tuple(row[name] for name in by))
    found = (dict(zip(by, key, strict=True)) | _dead(each) for key, each in groups.items())
    listed = ordered(found, "-messages", "reason", "dest_queue", "label_form", "body_kind")
    reasons = (
        {
            "reason": reason,
            "message_class": number,
            "messages": sum(row["messages"] for row in each),
            "groups": len(each),
            "oldest": _least(row["oldest"] for row in each),
        }
        for (reason, number), each in grouped(listed, lambda row: (row["reason"], row["message_class"])).items()
    )
    return deadletters.Tally(listed[: deadletters.GROUPS], ordered(reasons, "-messages", "reason"))


def _dead(rows: Sequence[Row]) -> Row:
    times = [row["arrived_time"] for row in rows]
    first = min(rows, key=lambda row: row["seq"])
    return {
        "messages": len(rows),
        "bytes": _sum(row["body_size"] for row in rows),
        "transactional": sum(bool(row["transactional"]) for row in rows),
        "oldest": _least(times),
        "newest": _greatest(times),
        "sample": first["label"],
        "sample_id": None if first["message_id"] is None else id_text(first["message_id"]),
    }


# --- Decoded packets --------------------------------------------------------------------------------------------------


def count(decoded: Any) -> decode.Counts:
    """See waypost.spark.pipelines.decode.count."""
    there = set(decoded.schema.names)
    columns = ("message_class", "dest_queue", "body_size", "source_qm", "sent_time", "packet_error")
    optional = [name for name in ("body_kind", "file", "file_error") if name in there]
    rows = rows_of(decoded.select([*columns, *optional]))
    packets = [row for row in rows if row.get("file_error") is None]
    sound = [row for row in packets if row["packet_error"] is None]
    malformed = [row for row in packets if row["packet_error"] is not None]
    failed = [
        {"file": row["file"], "file_error": row["file_error"]} for row in rows if row.get("file_error") is not None
    ]
    queues = grouped(sound, lambda row: row["dest_queue"])
    return decode.Counts(
        good=len(sound),
        bad=len(malformed),
        classes=_counted(sound, "message_class"),
        queues=Listed.of(
            ordered((_destination(name, each) for name, each in queues.items()), "-packets", "dest_queue")
        ),
        kinds=_counted(sound, "body_kind") if "body_kind" in there else None,
        errors=_counted(malformed, "packet_error"),
        failed=Listed.of(ordered(failed, "file")),
    )


def _counted(rows: Sequence[Row], name: str) -> Listed:
    found = ({name: value, "packets": packets} for value, packets in Counter(row[name] for row in rows).items())
    return Listed.of(ordered(found, "-packets", name))


def _destination(name: str | None, rows: Sequence[Row]) -> Row:
    times = [row["sent_time"] for row in rows]
    return {
        "dest_queue": name,
        "packets": len(rows),
        "bytes": _sum(row["body_size"] for row in rows),
        "senders": len({row["source_qm"] for row in rows} - {None}),
        "first": _least(times),
        "last": _greatest(times),
    }


# --- Audit ------------------------------------------------------------------------------------------------------------


def examine(sent: Any, acknowledgments: Any, rules: audit.Rules) -> audit.Findings:
    """See waypost.spark.pipelines.audit.examine."""
    words = {
        identifier: _word(identifier, rows)
        for identifier, rows in grouped(
            (row for row in rows_of(acknowledgments) if _is_word(row)), lambda row: row["correlation_id"]
        ).items()
    }
    messages = [row for row in rows_of(sent) if row["message_id"] is not None]
    audited = [_outcome(row, words.get(row["message_id"], _NO_WORD), rules) for row in messages]
    known = {row["message_id"] for row in messages}
    unknown = ordered((word for identifier, word in words.items() if identifier not in known), "message_id")
    routes = grouped(audited, lambda row: tuple(row[name] for name in audit.ROUTE))
    refused = [row for row in audited if row["outcome"] == audit.REFUSED]
    refusals = Counter((row["dest_queue"], row["refusal"]) for row in refused)
    reaches = [row["reach_seconds"] for row in audited]

    def listed(rows: Iterable[Row]) -> list[Row]:
        return ordered(rows, "sent_time", "message_id")[:LISTED]

    return audit.Findings(
        routes=ordered((_route(key, rows) for key, rows in routes.items()), "-sent", *audit.ROUTE),
        latency={
            "p50": percentile(reaches, 0.5),
            "p99": percentile(reaches, 0.99),
            **{title: sum(_is_in(value, *ends) for value in reaches) for title, *ends in audit.latency_classes()},
        },
        lost=listed(row for row in audited if row["outcome"] == audit.LOST),
        refused=listed(refused),
        refusals=ordered(
            ({"dest_queue": to, "refusal": why, "messages": count} for (to, why), count in refusals.items()),
            *("-messages", "dest_queue", "refusal"),
        ),
        duplicated=listed(row for row in audited if row["duplicated"]),
        unmatched=unknown[:LISTED],
        unmatched_count=len(unknown),
    )


_TIMES: Final = ("reached_time", "received_time", "refused_time", "refusal")
_NO_WORD: Final[Row] = dict.fromkeys(_TIMES) | {"reach_count": 0, "receive_count": 0}


def _is_word(row: Row) -> bool:
    number = row["message_class"]
    positive = (MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE, MessageClass.MQMSG_CLASS_ACK_RECEIVE)
    return row["correlation_id"] is not None and number is not None and (number in positive or number & NEGATIVE != 0)


def _word(identifier: bytes, rows: Sequence[Row]) -> Row:
    reached = [row for row in rows if row["message_class"] == MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE]
    received = [row for row in rows if row["message_class"] == MessageClass.MQMSG_CLASS_ACK_RECEIVE]
    refused = [row for row in rows if row["message_class"] & NEGATIVE]
    return {
        "message_id": identifier,
        "reached_time": _least(row["sent_time"] for row in reached),
        "received_time": _least(row["sent_time"] for row in received),
        "refused_time": _least(row["sent_time"] for row in refused),
        "refusal": _least(row["message_class"] for row in refused),
        "reach_count": len(reached),
        "receive_count": len(received),
    }


def _outcome(message: Row, word: Row, rules: audit.Rules) -> Row:
    reach, receive = (_seconds(message["sent_time"], word[name]) for name in ("reached_time", "received_time"))
    first = _least((reach, receive))
    asked = PA if message["acknowledge"] is None else message["acknowledge"]
    if word["received_time"] is not None:
        outcome = audit.RECEIVED
    elif word["refused_time"] is not None:
        outcome = audit.REFUSED
    elif word["reached_time"] is not None:
        outcome = audit.REACHED
    elif not asked & (PA | PR):
        outcome = audit.UNASKED
    elif message["sent_time"] is not None and message["sent_time"] > rules.now - rules.lost_after:
        outcome = audit.WAITING
    else:
        outcome = audit.LOST
    return {
        **message,
        **word,
        "message_id": message["message_id"],
        "outcome": outcome,
        "late": first is not None and first > rules.late_after.total_seconds(),
        "duplicated": max(word["reach_count"], word["receive_count"]) > 1,
        "reach_seconds": reach,
        "receive_seconds": receive,
    }


def _route(key: Sequence[str | None], rows: Sequence[Row]) -> Row:
    outcomes = Counter(row["outcome"] for row in rows)
    found: Row = dict(zip(audit.ROUTE, key, strict=True)) | {"sent": len(rows)}
    found |= {name: outcomes[name] for name in audit.OUTCOMES}
    found |= {name: sum(row[name] for row in rows) for name in ("late", "duplicated")}
    for name in ("reach", "receive"):
        values = [row[f"{name}_seconds"] for row in rows]
        found |= {f"{name}_p{share * 100:.0f}": percentile(values, share) for share in audit.SHARES}
        found[f"{name}_max"] = _greatest(values)
    return found


def _is_in(value: float | None, above: float | None, up_to: float | None) -> bool:
    return value is not None and (above is None or value > above) and (up_to is None or value <= up_to)


# --- Trace ------------------------------------------------------------------------------------------------------------


def find_routes(reports: Any) -> trace.Routes:
    """See waypost.spark.pipelines.trace.find_routes."""
    steps = [step for row in rows_of(reports) if (step := _step(row)) is not None]
    hops = [hop for of_message in grouped(steps, lambda row: row["message_id"]).values() for hop in _hops(of_message)]
    travelled = [_journey(each) for each in grouped(hops, lambda row: row["message_id"]).values()]
    timed = [row for row in travelled if row["seconds"] is not None]
    unfinished, loops = [row for row in travelled if not row["arrived"]], [row for row in travelled if row["loop"]]
    seconds = [row["seconds"] for row in timed]
    ways = grouped(hops, lambda row: (row["from_qm"], row["to_qm"]))
    return trace.Routes(
        reports=reports.num_rows,
        totals={
            "messages": len(travelled),
            "unfinished": len(unfinished),
            "loops": len(loops),
            "timed": len(timed),
            "hops": _greatest(row["hops"] for row in travelled),
            "p50": percentile(seconds, 0.5),
            "p99": percentile(seconds, 0.99),
        },
        edges=ordered(
            (_edge(start, end, each) for (start, end), each in ways.items()), "-messages", "from_qm", "to_qm"
        ),
        unfinished=ordered(unfinished, "sent_time", "message_id")[:LISTED],
        loops=ordered(loops, "sent_time", "message_id")[:LISTED],
        slowest=ordered(timed, "-seconds", "message_id")[:LISTED],
    )


_LABEL: Final = re.compile(trace.LABEL)
_NEXT_HOP: Final = re.compile(trace.NEXT_HOP)
_TARGET: Final = re.compile(trace.TARGET)
# Bytes of a GUID in the order of its text.
_GUID_BYTES: Final = (3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15)


def _step(row: Row) -> Row | None:
    """The step that a report is about; None if it is not a valid report."""
    label, text = _LABEL.search(row["label"] or ""), _text(row["body"])
    if row["message_class"] != MessageClass.MQMSG_CLASS_REPORT or label is None or "<MESSAGE ID>" not in text:
        return None
    number, hops, source = label.groups()
    next_hop, target = _NEXT_HOP.search(text), _TARGET.search(text)
    address = next_hop[1] if next_hop else ""
    reporter = row["source_qm"]
    return {
        "message_id": _message_id(source, number),
        "source_qm": source.lower(),
        "dest_queue": target[1] if target else "",
        "reporter": None if reporter is None else re.sub("[{}]", "", reporter.lower()),
        "hops": int(hops, 16),
        "next_hop": address or None,
        "is_sent": address != "",
        "time": row["sent_time"],
    }


def _message_id(guid: str, number: str) -> bytes:
    digits = guid.replace("-", "")
    pairs = [digits[2 * _GUID_BYTES.index(byte) :][:2] for byte in range(16)]
    text = "".join(pairs) + "".join(number[at : at + 2] for at in (6, 4, 2, 0))
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def _text(body: bytes | None) -> str:
    """UTF-16 as text; the low bytes of a body that has surrogates or is cut."""
    cut = (body or b"")[: trace.BODY_BYTES]
    if len(cut) % 2 or any(0xD8 <= byte <= 0xDF for byte in cut[1::2]):
        return cut.decode("latin-1").replace("\0", "")
    return cut.decode("utf-16-le")


def _hops(steps: Sequence[Row]) -> list[Row]:
    """The hops of one message, in their order."""
    sent = [step for step in steps if step["is_sent"]]
    own: dict[str | None, set[int]] = defaultdict(set)
    for step in sent:
        own[step["reporter"]].add(step["hops"])
    last = _greatest(step["hops"] for step in sent)
    for step in steps:
        step["hop"] = step["hops"]
        if not step["is_sent"]:
            later = [hop for hop in own[step["reporter"]] if hop >= max(step["hops"], 1)]
            step["hop"] = min(later) - 1 if later else min(step["hops"], step["hops"] if last is None else last)
    found: list[Row] = []
    for hop, each in sorted(grouped(steps, lambda step: step["hop"]).items()):
        departures = [step for step in each if step["is_sent"]]
        arrivals = [step for step in each if not step["is_sent"]]
        source = _least(step["source_qm"] for step in each)
        start = _first(departures, "reporter")
        if start is None:
            start = source if hop == 0 else found[-1]["to_qm"] if found else None
        sent_time, received_time = (_least(step["time"] for step in some) for some in (departures, arrivals))
        found.append(
            {
                "message_id": steps[0]["message_id"],
                "hop": hop,
                "source_qm": source,
                "dest_queue": _greatest(step["dest_queue"] for step in each),
                "from_qm": start,
                "to_qm": _first(arrivals, "reporter"),
                "next_hop": _last(departures, "next_hop"),
                "sent_time": sent_time,
                "received_time": received_time,
                "sent_count": len(departures),
                "received_count": len(arrivals),
                "seconds": _seconds(sent_time, received_time),
            }
        )
    return found


def _first(steps: Sequence[Row], name: str) -> Any:
    """The value at the earliest time."""
    known = [step for step in steps if step["time"] is not None]
    return min(reversed(known), key=lambda step: step["time"])[name] if known else None


def _last(steps: Sequence[Row], name: str) -> Any:
    """The value at the latest time."""
    known = [step for step in steps if step["time"] is not None]
    return max(reversed(known), key=lambda step: step["time"])[name] if known else None


def _journey(hops: Sequence[Row]) -> Row:
    places = [hops[0]["from_qm"], *(hop["to_qm"] if hop["to_qm"] is not None else hop["next_hop"] for hop in hops)]
    path = [place for place in places if place is not None]
    sent_time, received_time = _least(hop["sent_time"] for hop in hops), _greatest(hop["received_time"] for hop in hops)
    arrived = hops[-1]["received_time"] is not None
    return {
        "message_id": hops[0]["message_id"],
        "dest_queue": _greatest(hop["dest_queue"] for hop in hops),
        "hops": len(hops),
        "sent_time": sent_time,
        "received_time": received_time,
        "path": path,
        "loop": len(path) != len(set(path)),
        "arrived": arrived,
        "seconds": _seconds(sent_time, received_time) if arrived else None,
    }


def _edge(start: str | None, end: str | None, hops: Sequence[Row]) -> Row:
    addresses = Counter(hop["next_hop"] for hop in hops if hop["next_hop"] is not None)
    seconds = [hop["seconds"] for hop in hops]
    return {
        "from_qm": start,
        "to_qm": end,
        # The most frequent address, the first in order if there are several.
        "address": min(addresses, key=lambda each: (-addresses[each], each.encode())) if addresses else None,
        "messages": len(hops),
        "unfinished": sum(hop["received_time"] is None for hop in hops),
        "repeated": sum(hop["sent_count"] > 1 for hop in hops),
        "p50": percentile(seconds, 0.5),
        "p99": percentile(seconds, 0.99),
        "max": _greatest(seconds),
    }
