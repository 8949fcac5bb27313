"""An archive as a table of Apache Iceberg: Spark writes the files, and pyiceberg puts them into the table.

The snapshot with the files of a batch has the name of the batch among its properties: it shows that the table has the
batch. The catalogue is a file of SQLite in the archive, unless the configuration of pyiceberg has a catalogue named
`waypost`. An older table gets new columns. Needs the extra `iceberg`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table as IcebergTable
from pyiceberg.utils.config import Config

from waypost.spark.pipelines.archive import FlatFiles, Table
from waypost.spark.pipelines.manifest import ARCHIVED, Batch, Entry

CATALOG: Final = "waypost"
NAMESPACE: Final = "waypost"
TABLE: Final = (NAMESPACE, "archive")
PROPERTY: Final = "waypost.batch"


def table(path: str) -> Table:
    return IcebergArchive(path)


@dataclass(frozen=True, slots=True)
class IcebergArchive(FlatFiles):
    def has(self, batch: Batch) -> bool:
        try:
            found = self._catalog().load_table(TABLE)
        except NoSuchTableError:
            return False
        summaries = (snapshot.summary for snapshot in found.snapshots())
        return any(summary is not None and summary.get(PROPERTY) == str(batch) for summary in summaries)

    def commit(self, batch: Batch, entries: list[Entry]) -> None:
        names = sorted({f"{self._uri()}/{entry.path}" for entry in entries})
        table = self.open()
        if not set(table.schema().column_names) >= set(ARCHIVED.names):
            with table.update_schema() as update:
                update.union_by_name(ARCHIVED)
        table.add_files(names, snapshot_properties={PROPERTY: str(batch)})

    def open(self) -> IcebergTable:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(NAMESPACE)
        return catalog.create_table_if_not_exists(TABLE, schema=ARCHIVED, location=f"{self._uri()}/iceberg")

    def _catalog(self) -> Catalog:
        if CATALOG in Config().get_known_catalogs():
            return load_catalog(CATALOG)
        folder = Path(self.path)
        folder.mkdir(parents=True, exist_ok=True)
        return load_catalog(CATALOG, type="sql", uri=f"sqlite:///{folder.absolute()}/iceberg.db", warehouse=self._uri())

    def _uri(self) -> str:
        return self.path if "://" in self.path else Path(self.path).absolute().as_uri()
