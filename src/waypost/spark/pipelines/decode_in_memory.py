"""Decode packets of files and archives on a disk in this process, without Spark: for small files, in seconds.

The columns are those of waypost.spark.pipelines.decode, and the files that are written have the content that Spark
writes. Rows are Arrow tables.
"""

import base64
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from waypost.errors import InvalidParameter
from waypost.spark.pipelines.archive_writer import IN_FOLDERS
from waypost.spark.pipelines.archived import entries_on_disk
from waypost.spark.pipelines.decode import (
    CAPTURED,
    DECODED,
    PACKET,
    check_output,
    check_packets,
    decoded_batch,
    is_identifier,
    kind_of,
    packets_of,
)
from waypost.spark.pipelines.in_memory import rows_of
from waypost.spark.pipelines.manifest import ARCHIVED
from waypost.spark.pipelines.reading import Size, metadata_of, read_archive_table, size_of_entries
from waypost.spark.pipelines.storage import OnlyWithSpark, has_pattern, is_hidden, local_path, require_disk

# The bytes of a small packet in a capture, to estimate the number of packets.
_SMALL_PACKET: Final = 256


# --- Packets ----------------------------------------------------------------------------------------------------------


def size_of(files: Sequence[str], kind: str) -> Size:
    """The size of the packets of files, all of one kind. Raises OnlyWithSpark if only Spark can read the files."""
    match kind:
        case "archive":
            for name in files:
                require_disk(name)
            return sum((size_of_entries(entries_on_disk(name)) for name in files), Size(0, 0))
        case "parquet":
            found = [(metadata_of(file), file.stat().st_size) for file in _parquet_files(files)]
            return sum((Size(metadata.num_rows, size) for metadata, size in found), Size(0, 0))
    # The packets of a file that is not there are none: the report says so.
    total = sum(Path(name).stat().st_size for name in files if Path(name).is_file())
    return Size(total // _SMALL_PACKET, total, files=len(files))


def read_packets(files: Sequence[str], kind: str) -> Any:
    """The packets of files, all of one kind."""
    match kind:
        case "archive":
            first, *others = map(_read_archive, files)
            return pa.concat_tables([first, *(each.select(first.schema.names) for each in others)])
        case "parquet":
            return pa.concat_tables([pq.ParquetFile(file).read() for file in _parquet_files(files)])
    known = kind_of(kind)
    batches = [batch for name in files for batch in packets_of(name, known)]
    return pa.Table.from_batches(batches, CAPTURED)


def decoded_table(packets: Any) -> Any:
    """Add the columns DECODED, in place of columns with their names. Raises InvalidParameter if `packet` is missing."""
    names = packets.schema.names
    has_packets = PACKET in names and pa.types.is_binary(packets.schema.field(PACKET).type)
    check_packets(names, has_packets=has_packets)
    given = packets.select([name for name in names if name not in DECODED])
    empty = decoded_batch(pa.RecordBatch.from_pylist([], given.schema), DECODED)
    batches = [decoded_batch(batch, DECODED) for batch in given.to_batches()]
    return pa.Table.from_batches([empty, *batches])


def _read_archive(path: str) -> Any:
    """The columns of an archive in the order of Spark: those in the names of folders come last."""
    is_tree = any(entry["path"].startswith(f"{IN_FOLDERS[0]}=") for entry in entries_on_disk(path))
    last = IN_FOLDERS if is_tree else ()
    return read_archive_table(path, [*(name for name in ARCHIVED.names if name not in last), *last])


def _parquet_files(names: Iterable[str]) -> list[Path]:
    """The files of the names. Raises OnlyWithSpark unless all files have the same columns, of plain types."""
    found = [file for name in names for file in _files_below(name)]
    schemas = [metadata_of(file).schema.to_arrow_schema().remove_metadata() for file in found]
    for file, schema in zip(found, schemas, strict=True):
        if schema != schemas[0]:
            raise OnlyWithSpark(f"{found[0]} and {file} have different columns")
    for field in schemas[0] if schemas else ():
        if not any(is_it(field.type) for is_it in _PLAIN):
            raise OnlyWithSpark(
                f"the column {field.name!r} of {found[0]} has the type {field.type}, which only Spark can read"
            )
    return found


def _files_below(name: str) -> list[Path]:
    require_disk(name)
    if has_pattern(name):
        raise OnlyWithSpark(f"{name} is a pattern of file names")
    place = local_path(name)
    if not place.is_dir():
        return [place]
    there = sorted(each for each in place.iterdir() if not is_hidden(each.name))
    if any(each.is_dir() for each in there):
        raise OnlyWithSpark(f"{name} contains folders")
    if not there:
        raise InvalidParameter(f"{name} contains no Parquet files")
    return there


# --- Files ------------------------------------------------------------------------------------------------------------


def write_table(rows: Any, path: str, form: str, columns: Sequence[str]) -> None:
    """See waypost.spark.pipelines.decode.write. Files of an earlier run stay until the new file is whole."""
    check_output(path, rows.schema.names, columns)
    chosen = rows.select(list(columns)) if columns else rows
    folder = local_path(path)
    folder.mkdir(parents=True, exist_ok=True)
    # The name that Spark gives the file of its first task.
    name = f"part-00000-{uuid4()}-c000.{'zstd.parquet' if form == 'parquet' else form}"
    hidden = folder / f".{name}"
    if form == "parquet":
        pq.write_table(chosen, hidden, compression="zstd")
    else:
        with hidden.open("w", encoding="utf-8", newline="") as file:
            file.writelines(_csv(chosen) if form == "csv" else _json(chosen))
    for other in folder.iterdir():
        if other.is_dir():
            shutil.rmtree(other)
        elif other != hidden:
            other.unlink()
    hidden.rename(folder / name)
    (folder / "_SUCCESS").touch()


def _is_time(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz == "UTC" and kind.unit in ("us", "ms")


# Types with the same text in both engines.
_PLAIN: Final[tuple[Callable[[Any], bool], ...]] = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_signed_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
    _is_time,
)


def _texts(rows: Any) -> Iterator[dict[str, Any]]:
    """The rows in pieces, with ids in hex, other bytes in base64, and times and days as Spark writes them."""
    for batch in rows.to_batches():
        for row in rows_of(pa.Table.from_batches([batch])):
            yield {name: _text(name, value) for name, value in row.items()}


def _text(name: str, value: Any) -> Any:
    match value:
        case bytes():
            return value.hex().upper() if is_identifier(name) else base64.b64encode(value).decode()
        case datetime():
            return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
        case date():
            return value.isoformat()
    return value


def _json(rows: Any) -> Iterator[str]:
    """A line for each row, without values that are null."""
    for row in _texts(rows):
        yield "{" + ",".join(
            f"{_quoted(name)}:{_json_value(value)}" for name, value in row.items() if value is not None
        )
        yield "}\n"


# Spark writes other control characters in hex, with capital letters.
_JSON_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(0x20)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)


def _json_value(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    return f'"{text.translate(_JSON_ESCAPES)}"'


# Spark takes these characters from both ends of a cell.
_BLANK: Final = "".join(map(chr, range(0x21)))
_CSV_SPECIAL: Final = re.compile(r'[,"\r\n]')
_CSV_ESCAPES: Final = str.maketrans({'"': '\\"', "\\": "\\\\"})


def _csv(rows: Any) -> Iterator[str]:
    yield _csv_line(rows.schema.names)
    for row in _texts(rows):
        yield _csv_line(row.values())


def _csv_line(values: Iterable[Any]) -> str:
    line = ",".join(map(_cell, values))
    if line.startswith("#"):
        # Spark would read a comment: the first cell gets quotes.
        first, comma, rest = line.partition(",")
        line = f"{_in_quotes(first)}{comma}{rest}"
    return f"{line}\n"


def _cell(value: Any) -> str:
    """A cell as Spark writes it: null is nothing, and an empty text has quotes."""
    if value is None:
        return ""
    text = (str(value).lower() if isinstance(value, bool) else str(value)).strip(_BLANK)
    return text if text and not _CSV_SPECIAL.search(text) else _in_quotes(text)


def _in_quotes(text: str) -> str:
    return f'"{text.translate(_CSV_ESCAPES)}"'
