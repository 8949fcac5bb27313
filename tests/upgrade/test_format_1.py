"""Folders whose records have no checksums: all of them are there after the upgrade, and queue managers start."""

import json
import tarfile
from pathlib import Path
from typing import Final

import lmdb
import pytest

import waypost
from tests.node.bulk_rig import BulkRig
from tests.node.rig import SETTINGS, START, TX, guids
from tests.store.engines import LmdbEngine
from tests.upgrade.make_format_1 import FAR, Records, records
from waypost.client.bulk.folder import FolderReader
from waypost.errors import StoreTooNew, StoreTooOld
from waypost.node.node import Node
from waypost.node.recovery import Settings
from waypost.store.lmdb import LmdbStore
from waypost.store.lmdb_reading import FORMAT_VERSION, StoreSnapshot, format_of
from waypost.store.port import Table
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName

FOLDERS: Final = Path(__file__).parent / "format-1.tar.gz"


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    with tarfile.open(FOLDERS) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def told(folders: Path, name: str) -> Records:
    found: Records = json.loads((folders / "records.json").read_text(encoding="ascii"))[name]
    return found


@pytest.mark.parametrize("name", ["alone", "connected"])
def test_every_record_is_there_after_the_upgrade(folders: Path, name: str) -> None:
    before = told(folders, name)
    with LmdbStore(folders / name) as store:
        after = records(store)
    later: dict[str, dict[str, str]] = {table.name: {} for table in (Table.DAMAGED, Table.USERS, Table.AUDIT)}
    assert after == before | later
    with StoreSnapshot(folders / name) as snapshot:
        assert records(snapshot) == before | later


def test_messages_claims_stages_and_transactions_are_as_they_were(folders: Path) -> None:
    rig = BulkRig(LmdbEngine(folders / "alone"))
    assert rig.labels() == ["priority 3", "expires", "priority 1"]
    assert rig.labels(rig.queue().subqueues["later"]) == ["for later"]
    journal = rig.queue().journal
    assert journal is not None
    assert rig.labels(journal) == ["priority 7"]
    attributes = rig.queue().attributes
    assert (attributes.journaling, attributes.label, attributes.quota) == (True, "What others want", 1000)
    assert rig.claimed(1, name="claimed", claim="reader") == ["one", "two"]
    assert rig.seen("claimed") == ["three"]
    assert rig.batches("done") == [0]
    outgoing = rig.node.manager.collection.outgoing[FormatName.parse(FAR)]
    assert rig.labels(outgoing) == ["far 1", "far 2"]
    assert rig.node.sequences.outgoing_of(outgoing).next_number == 3
    assert list(rig.node.manager.transactions.collection) == [TX]
    assert sorted(rig.labels(rig.queue("ledger"))) == ["committed", "prepared", "staged"]
    with rig.node.kernel.operation(rig.now):
        rig.node.manager.transactions.transaction_commit(TX, rig.now.wall)
    rig.settle()
    assert rig.seen("ledger") == ["prepared"]
    assert not len(rig.node.damaged)
    rig.engine.stop()


def test_sequences_and_acknowledgments_are_as_they_were(folders: Path) -> None:
    new_guid = guids()
    with LmdbStore(folders / "connected") as store:
        node = Node(store, Settings("a", transfer=TransferSettings()), lambda: next(new_guid), START)
        found, _ = node.sequences.incoming.page(b"")
        ((_, sequences),) = found
        assert [line.number for line in sequences.lines.values()] == [3]
        assert len(list(node.kept_acks)) == 1
        (outgoing,) = [queue for queue in node.manager.collection.outgoing.values() if len(queue.positions) == 2]
        assert node.sequences.outgoing_of(outgoing).next_number == 3
        assert len(node.manager.awaiting_final_ack.positions) == 2


def test_a_program_opens_the_folder_and_a_reader_of_it_waits_for_that(folders: Path) -> None:
    with pytest.raises(StoreTooOld, match="start its queue manager once with this version"):
        FolderReader(folders / "alone")
    with waypost.open(folders / "alone", name=SETTINGS.computer_name) as manager:
        assert manager.queue("orders").receive(timeout=0).label == "priority 3"
    with FolderReader(folders / "alone") as reader:
        assert [queue.count for queue in reader.queues("orders")] == [2]


def test_an_older_waypost_refuses_the_folder_by_its_number(folders: Path) -> None:
    """It knows formats up to 1, reads four bytes, and says what it finds if they are more."""
    LmdbStore(folders / "alone").close()
    with lmdb.open(str(folders / "alone"), max_dbs=len(Table) + 1) as env:
        mark = env.open_db(b"store", create=False)
        with env.begin(db=mark) as transaction:
            assert transaction.get(b"format") == (2).to_bytes(4, "little")
    assert FORMAT_VERSION == 2
    with pytest.raises(StoreTooNew, match="has format 3, but this version of Waypost supports only formats up to 2"):
        format_of((3).to_bytes(4, "little"), folders)
