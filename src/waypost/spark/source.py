"""The data source that Spark loads for format("msmq")."""

from collections.abc import Callable, MutableMapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from waypost.errors import InvalidParameter
from waypost.spark.batch import BatchReader, check_for_batch
from waypost.spark.functions import register_functions
from waypost.spark.options import (
    Columns,
    ReadOptions,
    WriteOptions,
    check_stream_write,
    read_options,
    schema_options,
    write_options,
)
from waypost.spark.schema import Form, default_schema, shape_of
from waypost.spark.session import TOKEN_SETTING
from waypost.spark.sink import BatchWriter, StreamWriter, check_destination
from waypost.spark.sink_columns import DESTINATION, check_columns
from waypost.spark.stream import check_for_stream
from waypost.spark.stream_claims import ClaimStream
from waypost.spark.stream_ranges import RangeStream


class MsmqDataSource(DataSource):
    """Messages of queues as rows, and rows as messages. docs/spark.md lists the options and the columns."""

    # Token of the session, if it has one: `register` sets it.
    token: ClassVar[str | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Spark makes one object for a load(), and gives copies of it to all readers of the stream.
        self._load = str(uuid4())

    @classmethod
    def name(cls) -> str:
        return "msmq"

    def schema(self) -> StructType:
        return default_schema(schema_options(self.options, self.token))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options()
        check_for_batch(options)
        return BatchReader(options, shape_of(schema, options.columns))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, the name is Spark's
        return self.stream(partial(shape_of, schema))

    def stream(self, shape_for: Callable[[Columns], Form]) -> DataSourceStreamReader:
        """The reader of a stream whose messages get this form."""
        options = self._read_options()
        check_for_stream(options)
        shape = shape_for(options.columns)
        if options.mode == "claim":
            return ClaimStream(options, shape, self._load)
        return RangeStream(options, shape)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001, Spark's
        return BatchWriter(self._write_options(schema, overwrite=overwrite))

    def streamWriter(  # noqa: N802, the name is Spark's
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001, Spark's
    ) -> DataSourceStreamArrowWriter:
        options = self._write_options(schema, overwrite=overwrite)
        check_stream_write(options)
        return StreamWriter(options)

    def _read_options(self) -> ReadOptions:
        return read_options(self.options, self.token)

    def _write_options(self, schema: StructType, *, overwrite: bool) -> WriteOptions:
        options = write_options(self.options, self.token)
        if overwrite:
            raise InvalidParameter(
                "a write can only append messages to a queue: use the mode `append`, or INSERT INTO instead of INSERT "
                "OVERWRITE"
            )
        check_columns(schema, options)
        check_destination(options)
        return replace(options, is_by_column=DESTINATION in schema.names)


def register(spark: SparkSession) -> None:
    """Add the format `msmq` and the SQL functions of waypost.spark.functions to a session.

    If the setting spark.msmq.token of the session is set before this call, its value is the token for daemons. Query
    plans do not show the token.
    """
    register_format(spark)
    register_functions(spark)


def register_format(spark: SparkSession, source: type[MsmqDataSource] = MsmqDataSource) -> None:
    """Add only the format, without the functions, because adding the functions takes a second or two."""
    spark.dataSource.register(with_token(spark.conf.get(TOKEN_SETTING, None), source))


def with_token(token: str | None, source: type[MsmqDataSource] = MsmqDataSource) -> type[MsmqDataSource]:
    """The data source with a token for daemons. A new class travels by value, with the token."""
    members: dict[str, Any] = {"__doc__": source.__doc__, "token": token}
    return type(source.__name__, (source,), members)
