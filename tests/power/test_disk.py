"""Contents that a disk may have after a power failure: the model that the power test draws its states from."""

import random

import pytest

from tests.power.disk import PAGE, SECTOR, Disk, Lie, everything
from tests.power.log import ROOT, Before, Entry, Finished, Flush, Log, Mapped, Named, Resize, Told, Write
from tests.power.states import State, draw, states

FILE = 1
PLACE = (ROOT, "file")


def log(*entries: Entry, old: bytes | None = None) -> Log:
    """On an empty folder, or on one with a file."""
    before = Before() if old is None else Before({PLACE: FILE}, {FILE: old})
    return Log(before, list(entries))


def write(at: int, data: bytes, *, offset: int = 0, synchronous: bool = False) -> list[Entry]:
    """A write at this position of the log, and its return."""
    return [Write(FILE, offset, data, synchronous), Finished(at)]


def drawn(recorded: Log, position: int, lie: Lie = Lie.NONE) -> list[State]:
    """Many states of one moment."""
    disk, dice = Disk(recorded, lie), random.Random(1)
    disk.advance(position)
    return [draw(disk, 0, dice) for _ in range(400)]


def contents(recorded: Log, position: int, lie: Lie = Lie.NONE) -> set[bytes | None]:
    """The contents that the file may have if power fails then; None if it is not there."""
    return {state.files.get("file") for state in drawn(recorded, position, lie)}


def test_what_was_flushed_is_there() -> None:
    recorded = log(*write(0, b"new"), Flush(FILE, 2), old=b"old")
    assert contents(recorded, 2) == {b"old", b"new"}
    assert contents(recorded, 3) == {b"new"}


def test_a_flush_keeps_what_had_returned_before_it_began() -> None:
    recorded = log(Write(FILE, 0, b"new", is_synchronous=False), Flush(FILE, 1), Finished(0), old=b"old")
    assert contents(recorded, 3) == {b"old", b"new"}
    recorded = log(*write(0, b"new"), Flush(FILE, 1), old=b"old")
    assert contents(recorded, 3) == {b"old", b"new"}


def test_a_flush_of_another_file_keeps_nothing() -> None:
    recorded = log(*write(0, b"new"), Flush(2, 2), old=b"old")
    assert contents(recorded, 3) == {b"old", b"new"}


def test_a_synchronous_write_keeps_its_own_sectors_when_it_returns() -> None:
    old = bytes(2 * PAGE)
    recorded = log(*write(0, b"a" * 10), *write(2, b"b" * 10, offset=PAGE, synchronous=True), old=old)
    assert {content[PAGE : PAGE + 10] for content in contents(recorded, 3) if content} == {bytes(10), b"b" * 10}
    found = contents(recorded, 4)
    assert {content[PAGE : PAGE + 10] for content in found if content} == {b"b" * 10}
    assert {content[:10] for content in found if content} == {bytes(10), b"a" * 10}
    # Earlier writes to the same sector go along.
    recorded = log(*write(0, b"a" * 10), *write(2, b"b" * 10, offset=10, synchronous=True), old=old)
    assert {content[:20] for content in contents(recorded, 4) if content} == {b"a" * 10 + b"b" * 10}


def test_any_subset_of_pages_is_there_and_pages_are_torn_by_sectors() -> None:
    old, new = bytes(3 * PAGE), b"n" * 3 * PAGE
    found = contents(log(*write(0, new), old=old), 2)
    assert {old, new, b"n" * PAGE + bytes(2 * PAGE), bytes(PAGE) + b"n" * 2 * PAGE} <= found
    assert bytes(PAGE) + b"n" * PAGE + bytes(PAGE) in found
    sectors = {content[at : at + SECTOR] for content in found if content for at in range(0, 3 * PAGE, SECTOR)}
    assert sectors == {bytes(SECTOR), b"n" * SECTOR}
    first_pages = [content[:PAGE] for content in found if content]
    assert any(page.startswith(b"n" * (PAGE // 2)) and page != new[:PAGE] for page in first_pages)


def test_a_page_that_was_written_twice_has_one_of_three_contents() -> None:
    assert contents(log(*write(0, b"1"), *write(2, b"2"), old=b"0"), 4) == {b"0", b"1", b"2"}


def test_a_file_that_grew_has_any_of_its_sizes() -> None:
    found = contents(log(*write(0, b"n" * PAGE, offset=PAGE), old=bytes(PAGE)), 2)
    assert {len(content) for content in found if content} == {PAGE, 2 * PAGE}
    assert {bytes(2 * PAGE), bytes(PAGE) + b"n" * PAGE, bytes(PAGE)} <= found


def test_a_file_that_was_cut_has_either_size_until_it_is_flushed() -> None:
    recorded = log(Resize(FILE, 2), Flush(FILE, 1), Resize(FILE, 4), old=b"1234")
    assert {len(content) for content in contents(recorded, 1) if content} == {2, 4}
    assert contents(recorded, 2) == {b"12"}
    assert contents(recorded, 3) == {b"12", b"12\0\0"}


def test_a_name_is_there_when_its_folder_was_flushed() -> None:
    recorded = log(Named({PLACE: FILE}), *write(1, b"new"), Flush(FILE, 3), Flush(ROOT, 4))
    assert contents(recorded, 1) == {None, b""}
    assert contents(recorded, 4) == {None, b"new"}
    assert contents(recorded, 5) == {b"new"}


def test_a_rename_is_one_change() -> None:
    temporary = (ROOT, "temporary")
    recorded = log(Named({temporary: 2}), Flush(ROOT, 1), Named({temporary: None, PLACE: 2}), old=b"old")
    found = {tuple(sorted(state.files)) for state in drawn(recorded, 3)}
    assert found == {("file",), ("file", "temporary")}
    assert contents(recorded, 3) == {b"old", b""}


def test_what_is_below_a_name_that_is_not_durable_is_not_there() -> None:
    recorded = log(Named({(ROOT, "folder"): 2}), Named({(2, "below"): 3}), Flush(2, 2))
    recorded.folders.add(2)
    assert {tuple(sorted(state.files)) for state in drawn(recorded, 3)} == {
        (),
        ("folder", "folder/below"),
    }


def test_a_file_that_is_mapped_for_writing_has_anything_in_it() -> None:
    found = contents(log(Mapped(FILE), Told(1, ""), old=bytes(64)), 2)
    assert len(found) > 2


@pytest.mark.parametrize(
    ("lie", "recorded", "position"),
    [
        (Lie.FILE, log(*write(0, b"new"), Flush(FILE, 2), old=b"old"), 3),
        (Lie.SYNCHRONOUS, log(*write(0, b"new", synchronous=True), old=b"old"), 2),
        (Lie.FOLDER, log(Named({PLACE: FILE}), *write(1, b"new"), Flush(FILE, 3), Flush(ROOT, 4)), 5),
    ],
)
def test_a_disk_that_lies_forgets_what_it_has_promised(lie: Lie, recorded: Log, position: int) -> None:
    assert contents(recorded, position) == {b"new"}
    assert len(contents(recorded, position, lie)) == 2


def test_states_are_different_and_come_again_with_the_seed() -> None:
    recorded = log(*write(0, b"n" * 8 * PAGE), old=bytes(8 * PAGE))
    found = list(states(recorded, 50, random.Random(1)))
    assert len(found) == len({state.digest for state in found}) == 50
    assert [state.files for state in states(recorded, 50, random.Random(1))] == [state.files for state in found]


def test_everything_is_the_log_to_its_end() -> None:
    recorded = log(Named({PLACE: FILE}), *write(1, b"12345"), Resize(FILE, 3), Named({(ROOT, "other"): 2}))
    assert everything(recorded) == {"file": b"123", "other": b""}
    disk = Disk(recorded)
    disk.advance(3)
    assert disk.tree(names for _, names in disk.changes_of_names) == {"file": FILE}
