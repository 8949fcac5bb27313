"""Decode packets by the thousand to the columns of waypost.arrow.schema, and only the requested columns.

The columns have the values of waypost.client.Message, as numbers where it has words: `priority` is 0 in a transactional
message, `journal` is 1 for the dead-letter queue and 2 for the journal of the sender. `label` and `extension` are empty
in a message without them; `correlation_id`, `sender_id` and the queues are null. `xact_id` is the identifier of the
sending queue manager with the 20 bits that distinguish its transactions, and null outside of a transaction. The `body`
of an encrypted message is ciphertext, its `body_kind` is `encrypted`, and `body_size` is the size of the ciphertext.
`trace` says whether the message asks for reports, to any queue. `headers` contains the headers of NServiceBus and
Rebus, from the extension, or of MassTransit, from the body.

A packet is malformed if waypost.wire.user_message refuses it, for any choice of columns. The decoder does not open
packets for `packet` and for the columns that the queue manager reports beside them.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waypost.api.properties import MESSAGE_ROWS
from waypost.api.rows import Kind
from waypost.arrow import names, schema
from waypost.arrow.bodies import decode_bodies, header_lists
from waypost.arrow.gather import OBJECT_ID, Mask, fixed, pieces
from waypost.arrow.headers import Headers, Run, locate, why_refused
from waypost.arrow.packets import OnMalformed, Packets
from waypost.arrow.queue_columns import QUEUE_COLUMNS
from waypost.arrow.texts import to_strings
from waypost.errors import DecodeError, InvalidParameter
from waypost.wire import base_header, transaction_header, user_header
from waypost.wire.codec import INFINITE, attribute_name


def decode(packets: Packets, columns: Sequence[str], *, on_malformed: OnMalformed) -> pa.RecordBatch:
    """Decode packets to a RecordBatch with these columns, the types of schema.ALL, and a row for each packet."""
    if not columns:
        raise InvalidParameter(
            f"the list of columns is empty; choose columns from this list: {', '.join(schema.ALL.names)}"
        )
    wanted = pa.schema([_field(name) for name in columns])
    packets.check()
    if not len(packets):
        return pa.RecordBatch.from_pylist([], wanted)
    made = {name: QUEUE_COLUMNS[name](packets) for name in columns if name in QUEUE_COLUMNS}
    if len(made) < len(set(columns)):
        headers = locate(packets)
        malformed = np.flatnonzero(~headers.ok).tolist()
        if malformed and on_malformed is OnMalformed.FAIL:
            raise _failure(packets, malformed[0])
        made |= _message_columns(headers, wanted)
        if schema.PACKET_ERROR in wanted:
            told = malformed if on_malformed is OnMalformed.QUARANTINE else []
            made[schema.PACKET_ERROR.name] = _packet_errors(packets, told)
    return pa.RecordBatch.from_arrays([made[name] for name in columns], schema=wanted)


def _field(name: str) -> pa.Field:
    index = schema.ALL.get_field_index(name)
    if index < 0:
        raise InvalidParameter(f"unknown column {name!r}; the columns are {', '.join(schema.ALL.names)}")
    return schema.ALL.field(index)


def _failure(packets: Packets, row: int) -> DecodeError:
    error = _why_malformed(packets, row)
    return DecodeError(error.section, f"{error.field} of {packets.describe(row)}", error.offset, error.reason)


def _packet_errors(packets: Packets, malformed: list[int]) -> pa.StringArray:
    reasons = pa.array([str(_why_malformed(packets, row)) for row in malformed], pa.string())
    index = np.zeros(len(packets), np.int32)
    index[malformed] = np.arange(len(malformed))
    is_told = np.zeros(len(packets), np.bool_)
    is_told[malformed] = True
    return reasons.take(pa.array(index, mask=~is_told))


def _why_malformed(packets: Packets, row: int) -> DecodeError:
    error = why_refused(packets.packet(row))
    assert error is not None, "waypost.arrow.headers and waypost.wire disagree on a packet"
    return error


def _message_columns(headers: Headers, wanted: pa.Schema) -> dict[str, pa.Array]:
    malformed = None if headers.ok.all() else ~headers.ok
    made = {}
    for field in wanted:
        name = schema.OLD_NAMES.get(field.name, field.name)
        if name in _VALUES:
            values = _VALUES[name](headers)
            made[field.name] = pa.array(values, field.type, mask=malformed)
        elif field.name in _SPANS:
            values = _SPANS[field.name](headers)
            made[field.name] = pa.array(values, field.type, mask=_either(malformed, values == INFINITE))
        elif field.name in _OTHERS:
            made[field.name] = _OTHERS[field.name](headers, malformed)
    if any(field in wanted for field in schema.BODY_TEXT):
        made |= _body_text_columns(headers, malformed)
    return made


def _body_text_columns(headers: Headers, malformed: Mask | None) -> dict[str, pa.Array]:
    body = _run(headers, headers.body, _either(malformed, headers.is_encrypted))
    extension = _run(headers, headers.extension, malformed)
    text, kind, error = decode_bodies(body, headers.properties["body_type"], extension)
    is_encrypted = headers.ok & headers.is_encrypted
    if is_encrypted.any():
        kind = pc.if_else(pa.array(is_encrypted), "encrypted", kind)
    return dict(zip((field.name for field in schema.BODY_TEXT), (text, kind, error), strict=True))


def _framework_headers(headers: Headers, malformed: Mask | None) -> pa.Array:
    body = _run(headers, headers.body, _either(malformed, headers.is_encrypted))
    return header_lists(_run(headers, headers.extension, malformed), body)


def _either(malformed: Mask | None, absent: Mask) -> Mask:
    return absent if malformed is None else malformed | absent


def _run(headers: Headers, run: Run, missing: Mask | None) -> pa.BinaryArray:
    if missing is None:
        return pieces(headers.data, run.at, run.size)
    # The offsets found in a malformed packet may lie outside of it.
    return pieces(headers.data, np.where(headers.ok, run.at, headers.starts), np.where(missing, 0, run.size), missing)


def _message_id(headers: Headers, malformed: Mask | None) -> pa.BinaryArray:
    return fixed(_object_ids(headers, headers.head["message_id"]), malformed)


def _xact_id(headers: Headers, malformed: Mask | None) -> pa.BinaryArray:
    numbers = (headers.transaction["flags"] & transaction_header.ID) >> transaction_header.ID_SHIFT
    return fixed(_object_ids(headers, numbers), _either(malformed, ~headers.is_transactional))


def _object_ids(headers: Headers, numbers: npt.NDArray[Any]) -> npt.NDArray[np.void]:
    identifiers = np.empty(len(numbers), OBJECT_ID)
    identifiers["lineage"] = headers.head["source_queue_manager"]
    identifiers["uniquifier"] = numbers
    return identifiers


def _correlation_id(headers: Headers, malformed: Mask | None) -> pa.BinaryArray:
    identifiers = np.ascontiguousarray(headers.properties["correlation_id"])
    has_one = np.asarray(identifiers.view("<u4").reshape(-1, 5).any(axis=1))
    return fixed(identifiers, _either(malformed, ~has_one))


def _seconds(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    return values.astype(np.int64) * 1_000_000


def _carried(kind: Kind) -> dict[str, Callable[[Headers], npt.NDArray[Any]]]:
    """The columns of properties that are a field of a header as it is."""
    places = {row.stored_column: row.facts.wire.split(".") for row in MESSAGE_ROWS if row.kind is kind and row.columns}
    return {name: _field_of(*place) for name, place in places.items() if len(place) == 2}


def _field_of(header: str, field: str) -> Callable[[Headers], npt.NDArray[Any]]:
    part = attrgetter("properties" if header == "MessagePropertiesHeader" else "head")
    name = attribute_name(field)
    return lambda of: part(of)[name]


# Values that every message has.
_VALUES: Final[dict[str, Callable[[Headers], npt.NDArray[Any]]]] = {
    "message_class": lambda of: of.properties["message_class"],
    # MS-MQMQ 2.2.19.1: PR means nothing in a transactional message.
    "priority": lambda of: np.where(of.is_transactional, 0, of.head["base_flags"] & base_header.PR),
    "delivery": lambda of: (of.head["flags"] & user_header.DM) >> user_header.DM_SHIFT,
    "acknowledge": lambda of: of.properties["flags"],
    # MQMSG_DEADLETTER is 1 and MQMSG_JOURNAL is 2, in the order of JN and JP.
    "journal": lambda of: (of.head["flags"] & (user_header.JN | user_header.JP)) >> 8,
    "body_size": lambda of: of.body.size,
    "sent_time": lambda of: _seconds(of.head["sent_time"]),
    "transactional": lambda of: of.is_transactional,
    "xact_first": lambda of: of.transaction["flags"] & transaction_header.FM != 0,
    "xact_last": lambda of: of.transaction["flags"] & transaction_header.LM != 0,
    "trace": lambda of: of.head["base_flags"] & base_header.TR != 0,
    "hop_count": lambda of: of.head["flags"] & user_header.RC,
    **_carried(Kind.NUMBER),
}

# Seconds, or no limit.
_SPANS: Final = _carried(Kind.SECONDS)

_OTHERS: Final[dict[str, Callable[[Headers, Mask | None], pa.Array]]] = {
    "message_id": _message_id,
    "correlation_id": _correlation_id,
    "label": lambda of, malformed: to_strings(of.label, malformed),
    "body": lambda of, malformed: _run(of, of.body, malformed),
    "source_qm": lambda of, malformed: names.guids(of.head["source_queue_manager"], malformed),
    "dest_queue": lambda of, malformed: names.destination_names(of).strings(malformed),
    "admin_queue": lambda of, malformed: names.admin_names(of).strings(malformed),
    "response_queue": lambda of, malformed: names.response_names(of).strings(malformed),
    "xact_id": _xact_id,
    "sender_id": lambda of, malformed: _run(of, of.sender, _either(malformed, of.sender.size == 0)),
    "extension": lambda of, malformed: _run(of, of.extension, malformed),
    schema.HEADERS.name: _framework_headers,
}
