"""Read an archive by its manifests: only whole batches, and each of them once."""

from collections.abc import Collection, Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from waypost.errors import InvalidParameter
from waypost.spark.pipelines.manifest import ARCHIVED, BATCHES, SHA256, is_path_missing, local_path, noted, summed

SCHEMA: Final = from_arrow_schema(ARCHIVED)
_CHECKED: Final = ("messages", "malformed", "bytes", "file_bytes", "first_seq", "last_seq", "digest")
_NAMES: Final = ["path", "queue", "date"]
_MISSING: Final = "the file is missing or unreadable"


def read_archive(spark: SparkSession, path: str, *, batches: Collection[str] | None = None) -> DataFrame:
    """The messages of an archive, or of some of its batches, with the columns ARCHIVED of the manifest.

    Raises InvalidParameter if the path is not an archive, or one of its files is gone.
    """
    path = path.rstrip("/")
    files = sorted({row.path for row in entries(spark, path, batches=batches).select("path").collect()})
    if not files:
        return spark.createDataFrame([], SCHEMA)
    try:
        return spark.read.schema(SCHEMA).option("basePath", path).parquet(*(f"{path}/{name}" for name in files))
    except AnalysisException as error:
        if is_path_missing(error):
            raise InvalidParameter(
                f"a file of the archive {path} is missing; verify the archive to see its name"
            ) from None
        raise


def entries(spark: SparkSession, path: str, *, batches: Collection[str] | None = None) -> DataFrame:
    """The entries of the manifests. Raises InvalidParameter if the path is not an archive."""
    found = noted(spark, path)
    if found.isEmpty():
        raise InvalidParameter(f"{path} is not an archive, or is empty: it contains no {BATCHES}")
    return found if batches is None else found.where(sf.col("batch").isin(list(batches)))


def verify(spark: SparkSession, path: str) -> DataFrame:
    """Read every file and compare it with its manifest: a row with `path`, `queue`, `date` and `problem` for each
    difference. Raises InvalidParameter if the path is not an archive."""
    path = path.rstrip("/")
    wanted = entries(spark, path)
    hashed = wanted.where(sf.col("digest").startswith(SHA256))
    summed_up = wanted.where(~sf.col("digest").startswith(SHA256))
    found = _differing(path, hashed)
    return found if summed_up.isEmpty() else found.unionByName(_unlike(spark, path, summed_up))


def _differing(path: str, wanted: DataFrame) -> DataFrame:
    """Problems of files with a digest of all their bytes."""
    root = str(local_path(path))

    def check(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            problems = [_problem(Path(root), row) for row in batch.to_pylist()]
            yield batch.select(_NAMES).append_column("problem", pa.array(problems, pa.string()))

    columns = StructType([*wanted.select(*_NAMES).schema.fields, StructField("problem", StringType())])
    given = wanted.select(*_NAMES, "digest").repartition("path")
    return given.mapInArrow(check, columns).where("problem != ''")


def _problem(root: Path, entry: dict[str, Any]) -> str:
    try:
        with (root / entry["path"]).open("rb") as file:
            found = f"{SHA256}{file_digest(file, 'sha256').hexdigest()}"
    except OSError:
        return _MISSING
    return "" if found == entry["digest"] else f"digest is {found}, not {entry['digest']}"


def _unlike(spark: SparkSession, path: str, wanted: DataFrame) -> DataFrame:
    """Problems of files with digests of their packets."""
    found = summed(_read_all(spark, path))
    found = found.select(*_NAMES, *(sf.col(name).alias(f"found_{name}") for name in _CHECKED))
    problems = [
        sf.when(
            ~sf.col(name).eqNullSafe(sf.col(f"found_{name}")),
            sf.format_string(f"{name} is %s, not %s", sf.col(f"found_{name}"), sf.col(name)),
        )
        for name in _CHECKED
    ]
    gone = sf.col("found_messages").isNull()
    problem = sf.when(gone, sf.lit(_MISSING)).otherwise(sf.concat_ws("; ", *problems))
    keys = [wanted[name].eqNullSafe(found[name]) for name in _NAMES]
    joined = wanted.join(found, keys, "left")
    return joined.select(*(wanted[name] for name in _NAMES), problem.alias("problem")).where("problem != ''")


def _read_all(spark: SparkSession, path: str) -> DataFrame:
    """All files of the archive that exist and are readable."""
    reader = spark.read.schema(SCHEMA).option("basePath", path).option("ignoreCorruptFiles", "true")
    for files in (f"{path}/queue=*/date=*/batch=*", f"{path}/data/*"):
        try:
            return reader.parquet(files)
        except AnalysisException as error:
            if not is_path_missing(error):
                raise
    raise InvalidParameter(f"all files of the archive {path} are missing")
