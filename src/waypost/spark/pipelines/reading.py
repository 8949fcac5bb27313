"""Sources of a pipeline: queues of a daemon, archives and Parquet files, by the names that an operator gives."""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from waypost.arrow.schema import ALL
from waypost.errors import InvalidParameter
from waypost.spark.pipelines.archived import read_archive
from waypost.spark.pipelines.decode import DECODED, PACKET, decoded

# .\private$\orders is a queue, ./orders a folder.
_PATH: Final = re.compile(r"/|~/|\.{1,2}(?:/|$)|\w+:/")
_URL: Final = re.compile(r"\w+:/")


def is_path(source: str) -> bool:
    """True if a source names files, and not a queue."""
    return _PATH.match(source) is not None


def read_messages(
    spark: SparkSession, sources: Sequence[str], columns: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """These columns of all sources together: folders are archives, *.parquet are plain files, other names are queues.
    Columns that files lack are decoded from their column `packet`.

    `options` are those of format("msmq"). Without sources, they must name queues. Raises InvalidParameter for files
    that have neither a column nor the packets to decode it from.
    """
    paths = [source for source in sources if is_path(source)]
    queues = [source for source in sources if not is_path(source)]
    found = [_chosen(_read_path(spark, path), path, columns) for path in paths]
    if queues or not paths:
        # A queue is read with the requested columns only: the bytes of others are not decoded.
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


def _chosen(rows: DataFrame, path: str, columns: Sequence[str]) -> DataFrame:
    # Spark ignores the case of names.
    there = {name.lower() for name in rows.columns}
    missing = [name for name in columns if name not in there]
    if not missing:
        return rows.select(*columns)
    made = DECODED if dict(rows.dtypes).get(PACKET) == "binary" else ()
    lost = [name for name in missing if name not in made]
    if lost:
        raise InvalidParameter(
            f"{path} has no column {lost[0]!r}, and no column packet to decode it from; name files that have it"
        )
    given = [name for name in columns if name in there and name != PACKET]
    return decoded(rows.select(*given, PACKET), missing).select(*columns)
