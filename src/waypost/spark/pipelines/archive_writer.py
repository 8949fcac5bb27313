"""Write the files of a batch of an archive in the tasks that read its messages, in one pass.

A task writes files with hidden names and forces them to disk; its result is one entry for every file, and for every
queue and day in it. The driver gives the files of the tasks that count their names. So a task that failed, or that ran
twice, leaves only hidden files, which nobody reads and the driver removes. Files are on a disk that driver and workers
share; for other storage, Spark writes them (waypost.spark.pipelines.archive).

The messages of queues never leave the process that reads them: for the source ArchivingSource, the rows of a batch are
the entries. Messages of another DataFrame pass through Spark on their way to the files.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from datetime import date
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from waypost.arrow.packets import Packets
from waypost.spark.pipelines.manifest import ARCHIVED, ENTRIES, MESSAGE, SHA256, Batch, Entry
from waypost.spark.schema import Shape, shape_of
from waypost.spark.source import MsmqDataSource, register_format
from waypost.spark.tasks import query_task

# Columns in the names of the folders of a tree.
IN_FOLDERS: Final = ("queue", "date", "batch")
# Names that begin so are read by nobody.
_HIDDEN: Final = "."
# Bytes of rows to collect before they are written together.
_ROW_GROUP_BYTES: Final = 4 << 20
# Largest number of files that a task writes at the same time.
_OPEN: Final = 64
# Characters that Spark escapes in the name of a folder (ExternalCatalogUtils.escapePathName).
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 32)}
_MESSAGE: Final = from_arrow_schema(MESSAGE)
_NOTHING: Final = "__HIVE_DEFAULT_PARTITION__"

# Options of ArchivingSource: the folder of the archive, and "true" for a tree.
_ROOT: Final = "archiveRoot"
_TREE: Final = "archiveTree"

_Batches = Iterator[Any]
# The messages of a batch: a DataFrame, or the parts that this process reads, each as batches of Arrow. A part is the
# work of one task: it has its own files.
Messages: TypeAlias = DataFrame | Iterable[_Batches]


@dataclass(frozen=True, slots=True)
class Archiving:
    """The form of the messages of a task in an archive: files, and their entries as rows."""

    shape: Shape
    root: str
    is_tree: bool

    def batches(self, pages: Iterator[Packets]) -> Iterator[Any]:
        task = query_task()
        assert task is not None, "Spark must pass the query and the batch to the tasks of a stream"
        batch = str(Batch(task.query, task.batch))
        return _written(self.shape.batches(pages), self.root, batch, is_tree=self.is_tree)


class ArchivingSource(MsmqDataSource):
    """A stream of the entries of files, which its tasks write from the messages that format("msmq") reads."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        own = {name: options[name] for name in (_ROOT, _TREE)}
        super().__init__({name: value for name, value in options.items() if name.lower() not in _OWN})
        self._root, self._is_tree = own[_ROOT], own[_TREE] == "true"

    @classmethod
    def name(cls) -> str:
        return "msmq-archiving"

    def schema(self) -> StructType:
        return from_arrow_schema(ENTRIES)

    def reader(self, schema: StructType) -> DataSourceReader:
        raise NotImplementedError(
            "the format msmq-archiving is only for the archive pipeline; call archive_queues instead"
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802, the name is Spark's
        return self.stream(lambda columns: Archiving(shape_of(_MESSAGE, columns), self._root, self._is_tree))


_OWN: Final = {_ROOT.lower(), _TREE.lower()}


def written_by_tasks(spark: SparkSession, options: Mapping[str, str], root: Path, *, is_tree: bool) -> DataFrame:
    """A stream of the entries of files that its tasks write below `root`. `options` are those of format("msmq")."""
    register_format(spark, ArchivingSource)
    reader = spark.readStream.format(ArchivingSource.name()).options(**options)
    return reader.options(**{_ROOT: str(root), _TREE: str(is_tree).lower()}).load()


def write_files(messages: Messages, root: Path, batch: Batch, *, is_tree: bool) -> list[Entry]:
    """Write the messages of a batch below `root`, in place of files that an earlier run has left for it.

    A tree has a folder for every queue, day and batch; otherwise the batch has one folder, and files have all columns.
    """
    remove_files(root, batch)
    write = _writer(str(root), str(batch), is_tree=is_tree)
    if not isinstance(messages, DataFrame):
        found = [row for part in messages for rows in write(part) for row in rows.to_pylist()]
    else:
        written = messages
        if messages.schema.names != ENTRIES.names:
            written = messages.select(*MESSAGE.names).mapInArrow(write, from_arrow_schema(ENTRIES))
        found = [row.asDict() for row in written.collect()]
    entries = [Entry(**row) for row in found]
    shown = {entry.path: _shown(entry.path) for entry in entries}
    for hidden, name in shown.items():
        (root / hidden).rename(root / name)
    for folder in {(root / hidden).parent for hidden in shown}:
        for left in folder.glob(f"{_HIDDEN}part-*"):
            left.unlink(missing_ok=True)
    return [Entry(**asdict(entry) | {"path": shown[entry.path]}) for entry in entries]


def entries_on_disk(root: Path, batch: Batch) -> list[Entry]:
    """The entries for the files of a batch with all columns, made by reading the files."""
    return [
        entry
        for file in sorted((root / "data" / str(batch)).glob("part-*.parquet"))
        for entry in entries_in(file, f"data/{batch}/{file.name}")
    ]


def entries_in(file: Path, path: str) -> list[Entry]:
    """The entries for one file with all columns; `path` is its name in the archive."""
    rows = pq.ParquetFile(file).read(["queue", "date", "seq", "packet", "packet_error"])
    digest = digest_of_file(file)
    return entries_of_rows(rows, path, file.stat().st_size, lambda _: digest)


def entries_of_rows(rows: Any, path: str, size: int, digest: Callable[[Any], str]) -> list[Entry]:
    """The entries for rows of a file of `size` bytes, with the digest that a function makes of the rows of each."""
    return [_summed(some).entry(path, queue, day, (size, digest(some))) for queue, day, some in _divided(rows)]


def digest_of_file(file: Path) -> str:
    """The digest of a file in its entries. Raises OSError if the file is not readable."""
    with file.open("rb") as opened:
        return f"{SHA256}{file_digest(opened, 'sha256').hexdigest()}"


def remove_files(root: Path, batch: Batch) -> None:
    """Remove files of the batch."""
    for folder in (*root.glob(f"queue=*/date=*/batch={batch}"), root / "data" / str(batch)):
        shutil.rmtree(folder, ignore_errors=True)


def _shown(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.removeprefix(_HIDDEN)}"


def folder_of(queue: str | None, day: date | None, batch: str) -> str:
    """The folder of a tree for these values, with the name that Spark gives it."""
    values = {"queue": queue, "date": None if day is None else day.isoformat(), "batch": batch}
    return "/".join(f"{name}={_escaped(value)}" for name, value in values.items())


def _escaped(value: str | None) -> str:
    if not value:
        return _NOTHING
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in value)


def _writer(root: str, batch: str, *, is_tree: bool) -> Callable[[_Batches], _Batches]:
    return lambda batches: _written(batches, root, batch, is_tree=is_tree)


def _written(batches: _Batches, root: str, batch: str, *, is_tree: bool) -> _Batches:
    """Write the rows of a task. Yields the entries of its files."""
    files = _Files(Path(root), batch, is_tree=is_tree)
    try:
        for each in batches:
            files.add(pa.Table.from_batches([each]).select(MESSAGE.names).cast(MESSAGE))
        entries = files.finish()
    finally:
        files.close()
    yield pa.RecordBatch.from_pylist([asdict(entry) for entry in entries], schema=ENTRIES)


# The folder of a file.
_Key = str


class _Files:
    """The files of one task."""

    def __init__(self, root: Path, batch: str, *, is_tree: bool) -> None:
        self._root: Final = root
        self._batch: Final = batch
        self._is_tree: Final = is_tree
        self._open: Final[dict[_Key, _File]] = {}
        self._entries: Final[list[Entry]] = []

    def add(self, rows: Any) -> None:
        days = pc.cast(pc.coalesce(rows["arrived_time"], rows["sent_time"]), pa.date32())
        rows = rows.append_column(ARCHIVED.field("date"), days)
        if self._is_tree:
            for queue, day, some in _divided(rows):
                self._file(folder_of(queue, day, self._batch)).add(some, [(queue, day, some)])
        else:
            names = pa.repeat(self._batch, rows.num_rows)
            whole = rows.append_column(ARCHIVED.field("batch"), names)
            self._file(f"data/{self._batch}").add(whole, _divided(rows))

    def finish(self) -> list[Entry]:
        """Write the rest and force it to disk. Returns the entries of all files."""
        while self._open:
            _, file = self._open.popitem()
            self._entries.extend(file.finish())
        return self._entries

    def close(self) -> None:
        for file in self._open.values():
            file.close()

    def _file(self, folder: str) -> "_File":
        if folder not in self._open:
            if len(self._open) >= _OPEN:
                self.finish()
            left_out = IN_FOLDERS if self._is_tree else ()
            columns = pa.schema([each for each in ARCHIVED if each.name not in left_out])
            self._open[folder] = _File(self._root, folder, columns)
        return self._open[folder]


def _divided(rows: Any) -> Iterable[tuple[str | None, date | None, Any]]:
    """The rows of each queue and day."""
    keys = rows.select(["queue", "date"]).group_by(["queue", "date"], use_threads=False).aggregate([]).to_pylist()
    for key in keys:
        if len(keys) == 1:
            yield key["queue"], key["date"], rows
            continue
        is_it = pc.and_(_is(rows["queue"], key["queue"]), _is(rows["date"], key["date"]))
        yield key["queue"], key["date"], rows.filter(is_it)


def _is(column: Any, value: object) -> Any:
    if value is None:
        return pc.is_null(column)
    return pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), fill_value=False)


def _summed(rows: Any) -> "_Sums":
    found = _Sums()
    found.add(rows)
    return found


@dataclass(slots=True)
class _Sums:
    """The messages of one queue and day in a file."""

    messages: int = 0
    malformed: int = 0
    bytes: int = 0
    seqs: list[int] = field(default_factory=list)

    def add(self, rows: Any) -> None:
        self.messages += rows.num_rows
        self.malformed += rows.num_rows - rows["packet_error"].null_count
        self.bytes += pc.sum(pc.binary_length(rows["packet"])).as_py() or 0
        ends = pc.min_max(rows["seq"]).as_py()
        self.seqs += [end for end in ends.values() if end is not None]

    def entry(self, path: str, queue: str | None, day: date | None, file: tuple[int, str]) -> Entry:
        """The entry; `file` has the size of the file and its digest."""
        return Entry(
            path=path,
            queue=queue or "",
            date=day,
            messages=self.messages,
            malformed=self.malformed,
            bytes=self.bytes,
            file_bytes=file[0],
            first_seq=min(self.seqs, default=None),
            last_seq=max(self.seqs, default=None),
            digest=file[1],
        )


class _File:
    """A file that is being written. Rows are collected to row groups."""

    def __init__(self, root: Path, folder: str, columns: Any) -> None:
        (root / folder).mkdir(parents=True, exist_ok=True)
        self.path: Final = f"{folder}/{_HIDDEN}part-{uuid4()}.zstd.parquet"
        self._columns: Final = columns
        self._raw: Final = _Hashed(root / self.path)
        # Statistics of bodies and packets are of no use, and values differ: a dictionary would be made and thrown away.
        plain = [each.name for each in columns if not pa.types.is_binary(each.type)]
        self._writer: Final = pq.ParquetWriter(
            pa.PythonFile(self._raw, "w"), columns, compression="zstd", use_dictionary=plain, write_statistics=plain
        )
        self._rows: list[Any] = []
        self._size = 0
        self._sums: Final[dict[tuple[str | None, date | None], _Sums]] = {}

    def add(self, rows: Any, parts: Iterable[tuple[str | None, date | None, Any]]) -> None:
        for queue, day, some in parts:
            self._sums.setdefault((queue, day), _Sums()).add(some)
        self._rows.append(rows.select(self._columns.names))
        self._size += rows.nbytes
        if self._size >= _ROW_GROUP_BYTES:
            self._flush()

    def finish(self) -> list[Entry]:
        self._flush()
        self._writer.close()
        self._raw.force()
        size, digest = self._raw.size, self._raw.digest
        return [sums.entry(self.path, queue, day, (size, digest)) for (queue, day), sums in self._sums.items()]

    def close(self) -> None:
        self._raw.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.concat_tables(self._rows))
            self._rows.clear()
            self._size = 0


class _Hashed:
    """A file that knows the digest of the bytes that were written to it."""

    def __init__(self, path: Path) -> None:
        self._file: Final = path.open("wb")
        self._hash: Final = sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def force(self) -> None:
        """Write it to the disk, and close it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()

    def close(self) -> None:
        """Close the file. The writer of Parquet closes it earlier, which does not count."""
        self._file.close()

    @property
    def digest(self) -> str:
        return f"{SHA256}{self._hash.hexdigest()}"
