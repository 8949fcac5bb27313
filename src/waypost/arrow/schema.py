"""The columns of a message: names, types and their order. docs/spark.md says what each of them means.

Archives keep the columns of the version that wrote them. New columns come after the others, are found by name, and are
null in older archives.
"""

from typing import Final

import pyarrow as pa

from waypost.api.properties import MESSAGE_ROWS
from waypost.api.rows import Kind

TIMESTAMP: Final = pa.timestamp("us", "UTC")

# Columns that the queue manager reports beside the packet. They are null if packets come from another source.
PLACE: Final = (
    pa.field("queue", pa.string()),
    pa.field("seq", pa.int64()),
    # An unsigned 64-bit number, stored in a signed one.
    pa.field("lookup_id", pa.int64()),
    pa.field("arrived_time", TIMESTAMP),
    pa.field("abort_count", pa.int64()),
    pa.field("move_count", pa.int64()),
    pa.field("authenticated", pa.bool_()),
)

# Columns from the packet. Unsigned 32-bit numbers are int64. Queues are format names, GUIDs printable text.
_FIRST: Final = (
    pa.field("message_id", pa.binary()),
    pa.field("correlation_id", pa.binary()),
    pa.field("message_class", pa.int32()),
    pa.field("priority", pa.int32()),
    # 0 express, 1 recoverable.
    pa.field("delivery", pa.int32()),
    pa.field("acknowledge", pa.int32()),
    pa.field("journal", pa.int32()),
    pa.field("label", pa.string()),
    pa.field("body", pa.binary()),
    pa.field("body_type", pa.int64()),
    pa.field("body_size", pa.int64()),
    pa.field("app_specific", pa.int64()),
    pa.field("sent_time", TIMESTAMP),
    # Seconds; null for no limit.
    pa.field("time_to_reach_queue", pa.int64()),
    pa.field("time_to_be_received", pa.int64()),
    pa.field("source_qm", pa.string()),
    pa.field("dest_queue", pa.string()),
    pa.field("admin_queue", pa.string()),
    pa.field("response_queue", pa.string()),
    pa.field("transactional", pa.bool_()),
    pa.field("xact_id", pa.binary()),
    pa.field("xact_first", pa.bool_()),
    pa.field("xact_last", pa.bool_()),
    pa.field("trace", pa.bool_()),
    pa.field("hop_count", pa.int32()),
    pa.field("sender_id", pa.binary()),
    pa.field("extension", pa.binary()),
)
_TYPES: Final = {Kind.NUMBER: pa.int64(), Kind.SECONDS: pa.int64()}
_NAMES: Final = {field.name for field in _FIRST}
_LATER: Final = [row for row in MESSAGE_ROWS if row.columns and row.stored_column not in _NAMES]
MESSAGE: Final = (*_FIRST, *(pa.field(row.stored_column, _TYPES[row.kind]) for row in _LATER))

PACKET: Final = pa.field("packet", pa.binary())
# Reason why the packet is malformed; then all columns of MESSAGE are null.
PACKET_ERROR: Final = pa.field("packet_error", pa.string())
BODY_TEXT: Final = (
    pa.field("body_text", pa.string()),
    pa.field("body_kind", pa.string()),
    pa.field("body_error", pa.string()),
)

# Headers of NServiceBus and Rebus, in the extension, or of MassTransit, in the body; null without them.
HEADERS: Final = pa.field(
    "headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())]))
)

DEFAULT: Final = pa.schema([*PLACE, *MESSAGE])

# Columns with an old name in archives, by the name that the property has everywhere else.
OLD_NAMES: Final = {row.columns[0]: row.stored_column for row in MESSAGE_ROWS if row.facts.old_columns}
RENAMED: Final = tuple(pa.field(name, DEFAULT.field(old).type) for name, old in OLD_NAMES.items())

ALL: Final = pa.schema([*PLACE, *MESSAGE, PACKET, PACKET_ERROR, *BODY_TEXT, *RENAMED, HEADERS])
