"""Notes in an archive: lines of JSON in the files of a folder, such as a manifest or the plan of a replay.

Spark writes and reads them on any storage. This process does the same on a disk, without Spark, and each reads the
notes of the other. Files and folders with hidden names are not part of the notes: a run that was killed has left them.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from waypost.spark.pipelines.storage import flush, is_hidden, is_path_missing, local_folder, local_path

Line = dict[str, Any]
_UNFINISHED: Final = "."


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a line, and the field without which a line does not count: a crash has cut it short."""

    fields: Any
    key: str


class Notes(Protocol):
    """The notes of one archive."""

    def write(self, folder: str, form: Form, lines: Sequence[Mapping[str, Any]]) -> None:
        """Replace the notes of a folder, and force them to disk."""

    def read(self, folder: str, form: Form) -> list[Line]:
        """All lines of a folder and of the folders in it; none if it does not exist."""

    def has_any(self, folder: str, form: Form) -> bool:
        """True if the folder has a line."""

    def first(self, folder: str, form: Form) -> Line | None:
        """Any line of the folder, or None."""


@dataclass(frozen=True, slots=True)
class SparkNotes:
    spark: SparkSession
    path: str

    def write(self, folder: str, form: Form, lines: Sequence[Mapping[str, Any]]) -> None:
        rows = self.spark.createDataFrame([dict(line) for line in lines], from_arrow_schema(form.fields))
        rows.coalesce(1).write.mode("overwrite").json(f"{self.path}/{folder}")
        place = local_folder(f"{self.path}/{folder}")
        if place is not None:
            flush(self.path, (f"{folder}/{file.name}" for file in place.iterdir()))

    def read(self, folder: str, form: Form) -> list[Line]:
        return [row.asDict() for row in self.rows(folder, form).collect()]

    def has_any(self, folder: str, form: Form) -> bool:
        return not self.rows(folder, form).isEmpty()

    def first(self, folder: str, form: Form) -> Line | None:
        found = self.rows(folder, form).head()
        return None if found is None else found.asDict()

    def rows(self, folder: str, form: Form) -> DataFrame:
        """The lines as a DataFrame."""
        schema = from_arrow_schema(form.fields)
        reader = self.spark.read.schema(schema).option("recursiveFileLookup", "true")
        try:
            found = reader.json(f"{self.path}/{folder}")
        except AnalysisException as error:
            if is_path_missing(error):
                return self.spark.createDataFrame([], schema)
            raise
        return found.where(sf.col(form.key).isNotNull())


@dataclass(frozen=True, slots=True)
class DiskNotes:
    """Notes on a disk of this computer, without Spark."""

    path: str

    def write(self, folder: str, form: Form, lines: Sequence[Mapping[str, Any]]) -> None:
        place = local_path(self.path) / folder
        place.mkdir(parents=True, exist_ok=True)
        # The name that Spark gives the only file of a folder.
        name = f"part-00000-{uuid4()}-c000.json"
        hidden = place / f"{_UNFINISHED}{name}"
        hidden.write_text("".join(f"{_line(line, form)}\n" for line in lines), "utf-8")
        flush(self.path, [f"{folder}/{hidden.name}"])
        hidden.rename(place / name)
        for other in place.iterdir():
            if other.is_dir():
                shutil.rmtree(other)
            elif other.name != name:
                other.unlink()
        flush(self.path, [f"{folder}/{name}"])

    def read(self, folder: str, form: Form) -> list[Line]:
        return list(self._lines(folder, form))

    def has_any(self, folder: str, form: Form) -> bool:
        return self.first(folder, form) is not None

    def first(self, folder: str, form: Form) -> Line | None:
        return next(self._lines(folder, form), None)

    def _lines(self, folder: str, form: Form) -> Iterator[Line]:
        for file in _files(local_path(self.path) / folder):
            for text in file.read_bytes().splitlines():
                line = _parsed(text, form)
                if line is not None:
                    yield line


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not is_hidden(each))
        yield from (Path(place, name) for name in sorted(names) if not is_hidden(name))


def _line(values: Mapping[str, Any], form: Form) -> str:
    """A line as Spark writes it, without fields that are null."""
    given = {name: values[name] for name in form.fields.names if values.get(name) is not None}
    return json.dumps(given, separators=(",", ":"), ensure_ascii=False, default=_text)


def _text(value: object) -> str:
    assert isinstance(value, date), "a value must be a text, a number, a date or a time"
    return value.isoformat()


def _parsed(text: bytes, form: Form) -> Line | None:
    try:
        found = json.loads(text)
        line = {field.name: _value(found.get(field.name), field.type) for field in form.fields}
    except (ValueError, TypeError, AttributeError):
        return None
    return None if line[form.key] is None else line


def _value(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    return datetime.fromisoformat(value) if pa.types.is_timestamp(kind) else value
