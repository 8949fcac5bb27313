"""Read an archive by its manifests: only whole batches, and each of them once."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from waypost.errors import InvalidParameter
from waypost.spark.pipelines.archive_writer import IN_FOLDERS, digest_of_file, entries_of_rows
from waypost.spark.pipelines.in_memory import grouped, ordered
from waypost.spark.pipelines.manifest import ARCHIVED, BATCHES, ENTRY, SHA256, digest_of, noted, summed
from waypost.spark.pipelines.notes import DiskNotes, Line
from waypost.spark.pipelines.storage import is_path_missing, local_path

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
                f"a file of the archive {path} is missing; to see the name of the file, verify the archive"
            ) from None
        raise


def entries(spark: SparkSession, path: str, *, batches: Collection[str] | None = None) -> DataFrame:
    """The entries of the manifests. Raises InvalidParameter if the path is not an archive."""
    found = noted(spark, path)
    if found.isEmpty():
        raise _not_an_archive(path)
    return found if batches is None else found.where(sf.col("batch").isin(list(batches)))


def _not_an_archive(path: str) -> InvalidParameter:
    return InvalidParameter(f"{path} is not an archive, or is empty: the folder {BATCHES} is missing")


def verify(spark: SparkSession, path: str) -> DataFrame:
    """Read every file and compare it with its manifest: a row with `path`, `queue`, `date` and `problem` for each
    difference. Raises InvalidParameter if the path is not an archive."""
    path = path.rstrip("/")
    wanted = entries(spark, path)
    hashed = wanted.where(sf.col("digest").startswith(SHA256))
    summed_up = wanted.where(~sf.col("digest").startswith(SHA256))
    found = _differing(path, hashed)
    found = found if summed_up.isEmpty() else found.unionByName(_unlike(spark, path, summed_up))
    return found.orderBy(*_NAMES)


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
        found = digest_of_file(root / entry["path"])
    except OSError:
        return _MISSING
    return "" if found == entry["digest"] else f"the field digest is {found}, but must be {entry['digest']}"


def _unlike(spark: SparkSession, path: str, wanted: DataFrame) -> DataFrame:
    """Problems of files with digests of their packets."""
    found = summed(_read_all(spark, path))
    found = found.select(*_NAMES, *(sf.col(name).alias(f"found_{name}") for name in _CHECKED))
    problems = [
        sf.when(
            ~sf.col(name).eqNullSafe(sf.col(f"found_{name}")),
            sf.format_string(f"the field {name} is %s, but must be %s", sf.col(f"found_{name}"), sf.col(name)),
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


# --- Without Spark ----------------------------------------------------------------------------------------------------


def entries_on_disk(path: str, *, batches: Collection[str] | None = None) -> list[Line]:
    """Like `entries`, for an archive on a disk of this computer."""
    found = DiskNotes(path).read(BATCHES, ENTRY)
    if not found:
        raise _not_an_archive(path)
    return found if batches is None else [entry for entry in found if entry["batch"] in batches]


def verify_on_disk(path: str, wanted: Sequence[Line]) -> list[Line]:
    """Like `verify`, for entries of an archive on a disk of this computer."""
    root, found = local_path(path), []
    for name, of_file in grouped(wanted, lambda entry: entry["path"]).items():
        sums: dict[Any, Line] | None = None
        for entry in of_file:
            if entry["digest"].startswith(SHA256):
                problem = _problem(root, entry)
            else:
                sums = _sums_of(root, name, of_file) if sums is None else sums
                problem = _differences(entry, sums.get((entry["queue"], entry["date"])))
            if problem:
                found.append({"path": name, "queue": entry["queue"], "date": entry["date"], "problem": problem})
    return ordered(found, *_NAMES)


def _sums_of(root: Path, name: str, wanted: Sequence[Line]) -> dict[Any, Line]:
    """The present content of a file, by queue and day; nothing if it is not readable."""
    try:
        rows = pq.ParquetFile(root / name).read()
    except (OSError, pa.ArrowException):
        return {}
    if name.startswith(f"{IN_FOLDERS[0]}="):
        (entry,) = wanted
        for column in ("queue", "date"):
            values = pa.array([entry[column]] * rows.num_rows, ARCHIVED.field(column).type)
            rows = rows.append_column(column, values)
    found = entries_of_rows(rows, name, (root / name).stat().st_size, _digest_of_rows)
    return {(entry.queue, entry.date): asdict(entry) for entry in found}


def _digest_of_rows(rows: Any) -> str:
    return digest_of(zip(*(rows[name].to_pylist() for name in ("queue", "seq", "packet")), strict=True))


def _differences(wanted: Line, found: Line | None) -> str:
    if found is None:
        return _MISSING
    problems = [
        f"the field {name} is {_word(found[name])}, but must be {_word(wanted[name])}"
        for name in _CHECKED
        if found[name] != wanted[name]
    ]
    return "; ".join(problems)


def _word(value: object) -> object:
    """A value as Spark writes it."""
    return "null" if value is None else value
