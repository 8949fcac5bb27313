"""Messages for the tests of pipelines: rows as the source gives them, without a queue manager."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.late import late

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from waypost.spark.pipelines import manifest
else:
    manifest = late("waypost.spark.pipelines.manifest")


BEGAN: Final = datetime(2026, 3, 1, 22, tzinfo=UTC)
ORDERS: Final = r"DIRECT=OS:alpha\private$\orders;JOURNAL"
INVOICES: Final = r"DIRECT=OS:alpha\private$\invoices;JOURNAL"


def message(seq: int, queue: str = ORDERS, **values: Any) -> dict[str, Any]:
    """The message that came `seq` hours after the beginning."""
    came = BEGAN + timedelta(hours=seq)
    return {
        "queue": queue,
        "seq": seq,
        "lookup_id": seq,
        "arrived_time": came,
        "sent_time": came,
        "message_id": seq.to_bytes(20, "big"),
        "message_class": 0,
        "priority": 3,
        "label": f"label {seq}",
        "body": b"body %d" % seq,
        "body_type": 8,
        "body_size": len(b"body %d" % seq),
        "dest_queue": r"DIRECT=OS:beta\private$\orders",
        "transactional": True,
        "packet": b"packet %d" % seq,
    } | values


def write_messages(path: Path, messages: Sequence[dict[str, Any]]) -> None:
    """One file, which a stream of files takes as one batch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(messages), schema=manifest.MESSAGE), path)
