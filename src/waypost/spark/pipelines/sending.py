"""Prepare messages from archives and queues to be sent again, and the sink that sends them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from waypost.api.properties import MESSAGE_ROWS
from waypost.spark.source import with_token
from waypost.wire.message_properties import NA, NR, PA, PR

# Columns that a new message takes from the old one. The sink knows these columns.
SENT: Final = ("dest_queue", "body", *(row.stored_column for row in MESSAGE_ROWS if row.columns))

# All kinds of acknowledgments (MS-MQMQ 2.2.19.3).
_ASKS: Final = PA | PR | NA | NR

Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]


class Sink(Protocol):
    """A sink sends either all messages or none, and only once for each name of a transaction.

    The messages are a DataFrame, or an Arrow table in memory. With `at-least-once`, the sink sends each message
    separately, which nontransactional queues require.
    """

    def send(self, messages: Any, delivery: Delivery, transaction: str) -> None: ...


@dataclass(frozen=True, slots=True)
class MsmqSink:
    """The sink of format("msmq"). `options` name the daemon that sends.

    One sink is one run of a program. If another run has sent messages with the name of a transaction, this sink does
    not send messages with that name again.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    run: str = field(default_factory=lambda: str(uuid4()))

    def send(self, messages: DataFrame, delivery: Delivery, transaction: str) -> None:
        writer = _consistent(messages).select(*SENT).write.format("msmq").mode("append").options(**self.options)
        writer = writer.option("delivery", delivery)
        if delivery == "exactly-once":
            writer = writer.option("txnId", transaction).option("runId", self.run)
        writer.save()


@dataclass(frozen=True, slots=True)
class TableSink:
    """The same sink for Arrow tables: this process does the work of the driver and of the only task."""

    options: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    run: str = field(default_factory=lambda: str(uuid4()))

    def send(self, messages: Any, delivery: Delivery, transaction: str) -> None:
        rows = consistent_table(messages.select(SENT)).combine_chunks()
        given = {**self.options, "delivery": delivery}
        if delivery == "exactly-once":
            given |= {"txnId": transaction, "runId": self.run}
        writer = with_token(self.token)(given).writer(from_arrow_schema(rows.schema), overwrite=False)
        try:
            writer.commit([writer.write(iter(rows.to_batches()))])
        except BaseException:
            writer.abort([])
            raise


def _consistent(messages: DataFrame) -> DataFrame:
    """Drop a request for acknowledgments without an administration queue, and such a queue without a request."""
    is_asked = sf.col("admin_queue").isNotNull() & (sf.col("acknowledge").bitwiseAND(sf.lit(_ASKS)) != 0)
    return messages.withColumns({name: sf.when(is_asked, sf.col(name)) for name in ("admin_queue", "acknowledge")})


def consistent_table(messages: Any) -> Any:
    """Like `_consistent`, for an Arrow table with the columns SENT."""
    asks = pc.fill_null(pc.not_equal(pc.bit_wise_and(messages["acknowledge"], _ASKS), 0), fill_value=False)
    is_asked = pc.and_(pc.is_valid(messages["admin_queue"]), asks)
    for name in ("admin_queue", "acknowledge"):
        kept = pc.if_else(is_asked, messages[name], pa.scalar(None, messages[name].type))
        messages = messages.set_column(messages.schema.get_field_index(name), name, kept)
    return messages


def like(column: str, pattern: str) -> Column:
    """True if a text matches a pattern with * and ?, in upper or lower case. A missing text counts as empty."""
    escaped = "".join(f"\\{letter}" if letter in "\\%_" else letter for letter in pattern)
    return sf.ilike(sf.coalesce(column, sf.lit("")), sf.lit(escaped.replace("*", "%").replace("?", "_")))
