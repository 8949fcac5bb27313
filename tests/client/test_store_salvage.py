"""Salvage: what is whole comes into a new folder that opens and serves, and what was gone stays gone."""

import json
import subprocess
import tarfile
from pathlib import Path
from random import Random
from struct import pack

import pytest

import waypost
from tests.damage.cases import Pristine
from tests.damage.folders import anatomy, inventory, make_folder, stored_keys
from tests.forks import run
from tests.store.disks import small_disk
from tests.upgrade.test_upgrade import FOLDERS
from waypost.client.storage import salvage_moment
from waypost.errors import InvalidParameter, NotAStore, StoreInUse
from waypost.store.keys import message_key
from waypost.store.page_file import PageFile
from waypost.store.pages import LEAF, loose_nodes, page_list
from waypost.store.port import Table
from waypost.store.sealed_tables import seal


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    return Pristine.make(tmp_path_factory.mktemp("pristine"), 150)


@pytest.fixture
def folder(pristine: Pristine, tmp_path: Path) -> Path:
    copy = tmp_path / "old"
    copy.mkdir()
    (copy / "data.mdb").write_bytes(pristine.content)
    return copy


def destroy(folder: Path, *pages: int) -> None:
    with (folder / "data.mdb").open("r+b") as data:
        for page in pages:
            data.seek(page * 4096)
            data.write(b"\xa5" * 4096)


def test_a_folder_that_is_whole_comes_back_as_it_was(pristine: Pristine, folder: Path, tmp_path: Path) -> None:
    before = (folder / "data.mdb").read_bytes()
    report = waypost.salvage(folder, tmp_path / "new")
    assert inventory(tmp_path / "new") == pristine.labels
    assert (folder / "data.mdb").read_bytes() == before
    assert (report.missing, report.damage_count, report.lost_count) == (0, 0, 0)
    assert report.brought_back == len(pristine.keys)
    assert report.same_identity
    assert {each.queue: each.brought_back for each in report.queues if each.queue.endswith("orders")}
    assert all(each.counted == each.brought_back and not each.uncertain for each in report.queues)


def test_the_new_folder_is_the_same_queue_manager(folder: Path, tmp_path: Path) -> None:
    waypost.salvage(folder, tmp_path / "new")
    with waypost.open(tmp_path / "new") as new:
        guid = new.guid
    with waypost.open(folder) as old:
        assert old.guid == guid


def test_without_meta_pages_and_the_root_of_the_messages_everything_else_is_there(
    pristine: Pristine, folder: Path, tmp_path: Path
) -> None:
    destroy(folder, 0, 1, pristine.anatomy.roots["messages"])
    report = waypost.salvage(folder, tmp_path / "new")
    assert stored_keys(tmp_path / "new") == pristine.keys - pristine.anatomy.messages.get(
        pristine.anatomy.roots["messages"], set()
    )
    assert inventory(tmp_path / "new") == pristine.labels
    assert report.missing == 0
    assert report.knows_free_pages


def test_every_page_but_the_leaves_may_be_destroyed(pristine: Pristine, folder: Path, tmp_path: Path) -> None:
    """Without the list of free pages, what was received already may be back, and the report says so."""
    with PageFile(folder / "data.mdb") as file:
        leaves = {number for number, _ in salvage_moment.leaves(file, lambda done, total: None)}
        lists = {number for number in leaves if _is_list(file, number)}
    runs = {page for page in pristine.anatomy.messages if page not in leaves}
    destroy(folder, *(set(range(pristine.anatomy.count)) - leaves - runs - set(pristine.anatomy.free)), *lists)
    report = waypost.salvage(folder, tmp_path / "new")
    assert stored_keys(tmp_path / "new") >= pristine.keys
    assert not report.knows_free_pages
    uncertain = sum(each.uncertain for each in report.queues)
    assert uncertain == report.brought_back >= len(pristine.keys)
    inventory(tmp_path / "new")


def _is_list(file: PageFile, number: int) -> bool:
    page = file.page(number)
    return any(len(node.key) == 8 and page_list(page[node.at : node.at + node.size]) for node in loose_nodes(page))


def test_a_leaf_of_messages_is_missing_and_counted(pristine: Pristine, folder: Path, tmp_path: Path) -> None:
    page = next(page for page in pristine.anatomy.tables["messages"] if len(pristine.anatomy.messages[page]) > 1)
    lost = pristine.anatomy.messages[page]
    destroy(folder, page)
    report = waypost.salvage(folder, tmp_path / "new")
    assert stored_keys(tmp_path / "new") == pristine.keys - lost
    assert report.missing == len(lost)
    assert any(f"page {page} of the table messages" in line for line in report.damage)
    with waypost.open(tmp_path / "new", name="here") as manager:
        manager.queue("orders").send(b"after")
        assert b"after" in {message.body for message in manager.queue("orders").browse()}


def test_a_value_that_is_not_whole_is_named(pristine: Pristine, folder: Path, tmp_path: Path) -> None:
    leaves = set(pristine.anatomy.tables["messages"])
    page = next(
        page for page in pristine.anatomy.messages if page not in leaves and page + 1 in pristine.anatomy.messages
    )
    destroy(folder, page + 1)
    report = waypost.salvage(folder, tmp_path / "new")
    assert report.missing == report.lost_count == 1
    assert "private$\\large" in report.lost[0]


@pytest.mark.parametrize("table", ["queues", "counters", "positions"])
def test_a_table_that_is_lost_is_made_again_as_far_as_it_can_be(
    table: str, pristine: Pristine, folder: Path, tmp_path: Path
) -> None:
    destroy(folder, *pristine.anatomy.tables[table])
    report = waypost.salvage(folder, tmp_path / "new")
    assert stored_keys(tmp_path / "new") == pristine.keys
    found = inventory(tmp_path / "new")
    assert sum(map(len, found.values())) == len(pristine.keys)
    assert report.brought_back == len(pristine.keys)
    assert waypost.verify(tmp_path / "new").is_whole


def test_messages_whose_queue_is_lost_for_good_get_one(pristine: Pristine, folder: Path, tmp_path: Path) -> None:
    """No older record of it is left either."""
    content = (folder / "data.mdb").read_bytes()
    (folder / "data.mdb").write_bytes(content.replace(b"private$\\invoices", b"private$\\inv\0ices"))
    report = waypost.salvage(folder, tmp_path / "new")
    (made,) = (each for each in report.queues if each.is_made)
    assert "salvaged-" in made.queue
    with waypost.open(tmp_path / "new", name="here") as manager:
        labels = {message.label for message in manager.queue(made.queue.partition("\\")[2]).browse()}
    assert "invoice 0" in labels


def test_nobody_can_send_records_in_the_body_of_a_message(tmp_path: Path) -> None:
    """A body that looks like a leaf, and lies where a leaf could lie, is a body."""
    forged = bytearray()
    with waypost.open(tmp_path / "old", name="here") as manager:
        queue = manager.create_queue("orders")
        for number in range(40):
            queue.send(b"honest", label=f"honest {number}")
        for number in range(200):
            forged += _forged_leaf(number + 1)
        # In every place that it can have in its page.
        for shift in range(0, 64, 2):
            queue.send(bytes(shift) + bytes(forged), label="forger")
    shape = anatomy(tmp_path / "old")
    destroy(tmp_path / "old", 0, 1, shape.roots["messages"])
    report = waypost.salvage(tmp_path / "old", tmp_path / "new")
    assert {key[:8] for key in stored_keys(tmp_path / "new")} == {
        key[:8] for keys in shape.messages.values() for key in keys
    }
    assert report.brought_back <= len({key for keys in shape.messages.values() for key in keys})


def _forged_leaf(number: int) -> bytes:
    """A page with this number that has a record of a queue which there is not."""
    key = message_key(4711, number)
    value = seal(Table.MESSAGES, key, b"\1" + bytes(60))
    node = pack("<HHHH", len(value), 0, 0, len(key)) + key + value
    node += bytes(len(node) & 1)
    upper = 4096 - len(node)
    return pack("<QHHHHH", number, 0, LEAF, 18, upper, upper).ljust(upper, b"\0") + node


def test_only_a_folder_that_nobody_uses_is_salvaged(tmp_path: Path) -> None:
    with waypost.open(tmp_path / "old"), pytest.raises(StoreInUse):
        waypost.salvage(tmp_path / "old", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/file").touch()
    with pytest.raises(InvalidParameter, match="is not empty; specify a new folder"):
        waypost.salvage(folder, tmp_path / "new")
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["file"]
    with pytest.raises(NotAStore):
        waypost.salvage(tmp_path / "new", tmp_path / "other")


def test_a_folder_on_a_disk_that_nobody_can_write_to_is_salvaged(tmp_path: Path) -> None:
    with small_disk(8 << 20, tmp_path / "disk") as disk:
        with waypost.open(disk / "old") as manager:
            manager.create_queue("orders").send("42 bolts")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert waypost.salvage(disk / "old", tmp_path / "new").brought_back == 1
    with waypost.open(tmp_path / "new") as manager:
        assert manager.queue("orders").receive(0).text == "42 bolts"


def test_a_salvage_that_breaks_off_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("waypost.client.storage.salvage_mending.Recovered.mend", interrupt)
    with pytest.raises(KeyboardInterrupt):
        waypost.salvage(folder, tmp_path / "new")
    assert [each.name for each in tmp_path.iterdir()] == ["old"]


def test_the_command_reports_by_queue(pristine: Pristine, folder: Path, tmp_path: Path) -> None:
    destroy(folder, 0, 1)
    command = ("waypost.cli", "store", "salvage", str(folder), str(tmp_path / "new"), "--json")
    done = run(*command, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["brought_back"] == len(pristine.keys)
    assert report["missing"] == 0
    assert f"waypost serve --data {tmp_path / 'new'}" in done.stderr
    again = run(*command, timeout=120)
    assert again.returncode == 1
    assert "is not empty; specify a new folder" in again.stderr
    assert "hint:" in again.stderr


def test_what_comes_back_does_not_hang_on_chance(tmp_path: Path) -> None:
    """Many folders, each with other free pages and other roots."""
    for seed in range(4):
        place = tmp_path / str(seed)
        make_folder(place / "old", 60, seed)
        shape = anatomy(place / "old")
        chosen = Random(seed).sample(sorted(set(shape.roots.values()) - set(shape.messages)), 3)
        destroy(place / "old", 0, 1, *(page for page in chosen if page < shape.count))
        waypost.salvage(place / "old", place / "new")
        assert stored_keys(place / "new") == {key for keys in shape.messages.values() for key in keys}


@pytest.mark.parametrize("destroyed", [(), (0, 1)], ids=["whole", "without meta pages"])
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_folder_without_checksums_is_salvaged_by_what_makes_sense(
    name: str, destroyed: tuple[int, ...], tmp_path: Path
) -> None:
    with tarfile.open(FOLDERS) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / name
    expected = stored_keys(folder)
    records = waypost.verify(folder).records
    destroy(folder, *destroyed)
    report = waypost.salvage(folder, tmp_path / "new")
    assert report.format == 1
    assert stored_keys(tmp_path / "new") == expected
    assert {table: report.records[table] for table in records if table != "counters"} == {
        table: count for table, count in records.items() if table != "counters"
    }
    assert report.same_identity
    with waypost.open(tmp_path / "new", name=name) as manager:
        found = {queue.name: [message.label for message in queue.browse()] for queue in manager.queues()}
    with tarfile.open(FOLDERS) as archive:
        archive.extractall(tmp_path / "again", filter="data")
    with waypost.open(tmp_path / "again" / name, name=name) as manager:
        assert found == {queue.name: [message.label for message in queue.browse()] for queue in manager.queues()}
