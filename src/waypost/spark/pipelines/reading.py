"""What a pipeline reads: queues of a daemon, archives and Parquet files, by the names that an operator gives."""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from waypost.arrow.schema import ALL
from waypost.spark.pipelines.archived import read_archive

# .\private$\orders is a queue, ./orders a folder.
_PATH: Final = re.compile(r"/|~/|\.{1,2}(?:/|$)|\w+:/")
_URL: Final = re.compile(r"\w+:/")


def is_path(source: str) -> bool:
    """Whether it names files rather than a queue."""
    return _PATH.match(source) is not None


def read_messages(
    spark: SparkSession, sources: Sequence[str], columns: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """These columns of all sources together: folders are archives, *.parquet is read as it is, the rest are queues.

    `options` are those of format("msmq"). Without sources they have to say which queues.
    """
    paths = [source for source in sources if is_path(source)]
    queues = [source for source in sources if not is_path(source)]
    found = [_read_path(spark, path).select(*columns) for path in paths]
    if queues or not paths:
        # A queue has no columns that were not asked for: their bytes need not be looked at.
        reader = spark.read.format("msmq").options(**options).schema(schema_of(columns))
        found.append((reader.option("queues", ",".join(queues)) if queues else reader).load())
    return reduce(DataFrame.unionByName, found)


def schema_of(columns: Sequence[str]) -> StructType:
    return StructType([StructField(name, from_arrow_type(ALL.field(name).type)) for name in columns])


def _read_path(spark: SparkSession, path: str) -> DataFrame:
    if not _URL.match(path):
        # Java may have started in another folder.
        path = str(Path(path).expanduser().absolute())
    return spark.read.parquet(path) if path.endswith(".parquet") else read_archive(spark, path)
