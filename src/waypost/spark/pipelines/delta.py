"""An archive as a table of Delta Lake: Spark writes the files, and deltalake puts them into the table.

The transaction of a batch has the name of the query and the number of the batch, in the same commit as its files: it
shows that the table has the batch. An older table gets new columns. Needs the extra `delta`.
"""

import json
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions

from waypost.spark.pipelines.archive import FlatFiles, Table
from waypost.spark.pipelines.manifest import ARCHIVED, Batch, Entry

SCHEMA: Final = Schema.from_arrow(ARCHIVED)


def table(path: str) -> Table:
    return DeltaArchive(path)


@dataclass(frozen=True, slots=True)
class DeltaArchive(FlatFiles):
    def has(self, batch: Batch) -> bool:
        found = self._table()
        last = None if found is None else found.transaction_version(batch.query)
        return last is not None and last >= batch.number

    def commit(self, batch: Batch, entries: list[Entry]) -> None:
        properties = CommitProperties(app_transactions=[Transaction(batch.query, batch.number)])
        actions = _actions(entries)
        found = self._table()
        if found is None:
            create_table_with_add_actions(
                self.path, SCHEMA, actions, name="waypost", commit_properties=properties, mode="error"
            )
        else:
            known = {field.name for field in found.schema().fields}
            later = [field for field in SCHEMA.fields if field.name not in known]
            if later:
                found.alter.add_columns(later)
            found.create_write_transaction([*actions], "append", SCHEMA, commit_properties=properties)

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError:
            return None


def _actions(entries: list[Entry]) -> list[AddAction]:
    """One action for each file, also if it holds several queues and days."""
    by_file = groupby(sorted(entries, key=attrgetter("path")), attrgetter("path"))
    return [_action(path, list(parts)) for path, parts in by_file]


def _action(path: str, parts: list[Entry]) -> AddAction:
    statistics = {
        "numRecords": sum(part.messages for part in parts),
        "minValues": _known(queue=min(part.queue for part in parts), seq=_least(parts)),
        "maxValues": _known(queue=max(part.queue for part in parts), seq=_greatest(parts)),
    }
    return AddAction(path, parts[0].file_bytes, {}, 0, data_change=True, stats=json.dumps(statistics))


def _known(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _least(parts: list[Entry]) -> int | None:
    return min((part.first_seq for part in parts if part.first_seq is not None), default=None)


def _greatest(parts: list[Entry]) -> int | None:
    return max((part.last_seq for part in parts if part.last_seq is not None), default=None)
