"""MS-MQQB 3.1.1.3, 3.1.2.8, 3.1.5.8.1 and 3.1.6.7: the history of message identifiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.transfer.duplicates import IDENTIFIER_SIZE, Block, MessageHistory
from waypost.transfer.settings import TransferSettings
from waypost.wire.identifiers import MessageIdentifier

PERIOD = 1800.0


def identifier(ordinal: int, source: bytes = b"\x05" * 16, destination: bytes = bytes(8)) -> bytes:
    return MessageIdentifier(source, ordinal).encode() + destination


def history(size: int = 10_000) -> MessageHistory:
    return MessageHistory(size, PERIOD)


def knows(table: MessageHistory, ordinal: int) -> bool:
    return identifier(ordinal) in table._entries


@pytest.mark.spec("MQQB-3.1.1.3-05")
def test_a_message_is_known_by_its_source_and_its_ordinal() -> None:
    table = history()
    table.add(identifier(1), 10.0)
    assert table.is_duplicate(identifier(1), 11.0)
    assert not table.is_duplicate(identifier(2), 11.0)
    assert not table.is_duplicate(identifier(1, source=b"\x06" * 16), 11.0)
    assert not table.is_duplicate(identifier(1, destination=b"\x07" * 8), 11.0), "a copy for another queue is another"


@pytest.mark.spec("MQQB-3.1.1.3-05", "MQQB-3.1.6.7-01")
def test_the_clean_up_removes_what_is_older_than_the_period() -> None:
    table = history()
    for ordinal, time in ((1, 0.0), (2, 1.0), (3, 1800.0), (4, 1801.0)):
        table.add(identifier(ordinal), time)
    table.clean_up(1800.0)
    assert len(table) == 4, "an entry as old as the period is not older"
    table.clean_up(3600.0)
    assert [knows(table, ordinal) for ordinal in (1, 2, 3, 4)] == [False, False, True, True]
    assert table.next_deadline() == 3600.0 + PERIOD
    table.clean_up(3600.0 + PERIOD)
    assert (len(table), table.next_deadline()) == (0, None)


@pytest.mark.spec("MQQB-3.1.2.8-01")
def test_the_clean_up_timer_runs_while_there_are_entries() -> None:
    table = MessageHistory(10, 60.0)
    assert table.next_deadline() is None
    table.add(identifier(1), 5.0)
    assert table.next_deadline() == 65.0
    table.add(identifier(2), 20.0)
    assert table.next_deadline() == 65.0, "only the first insertion starts it"
    table.clean_up(64.0)
    assert (len(table), table.next_deadline()) == (2, 65.0)
    table.clean_up(70.0)
    assert (len(table), table.next_deadline()) == (1, 130.0)
    table.clean_up(130.0)
    assert table.next_deadline() is None
    table.add(identifier(3), 200.0)
    assert table.next_deadline() == 260.0


@pytest.mark.spec("MQQB-3.1.2.8-01")
def test_the_clean_up_timer_runs_from_the_start_if_entries_came_back() -> None:
    table = history()
    table.restore(Block(3, identifier(1) + identifier(2), 100.0))
    assert table.next_deadline() == 100.0 + PERIOD


def test_a_duplicate_makes_its_entry_fresh() -> None:
    table = history()
    table.add(identifier(1), 0.0)
    table.add(identifier(2), 0.0)
    assert table.is_duplicate(identifier(1), 1000.0)
    table.clean_up(1801.0)
    assert (knows(table, 1), knows(table, 2)) == (True, False)


@pytest.mark.spec("MQQB-3.1.1.3-03")
def test_a_full_table_gives_up_the_entry_with_the_earliest_time() -> None:
    table = history(3)
    assert len(table) == 0
    for ordinal in (1, 2, 3):
        table.add(identifier(ordinal), float(ordinal))
    table.is_duplicate(identifier(1), 4.0)
    table.add(identifier(4), 5.0)
    assert len(table) == 3
    assert [knows(table, ordinal) for ordinal in (1, 2, 3, 4)] == [True, False, True, True]


@pytest.mark.spec("MQQB-3.1.1.3-03")
def test_no_table_is_longer_than_two_to_the_thirty_second() -> None:
    assert MessageHistory(1 << 40, PERIOD).size == 4_294_967_296
    assert history().size == 10_000


def test_a_table_of_size_0_knows_nothing() -> None:
    table = history(0)
    table.add_recoverable(identifier(1), 0.0)
    assert not table.is_duplicate(identifier(1), 0.0)
    assert table.take_block(0.0) is not None
    assert table.take_obsolete() == range(1)
    table.restore(Block(1, identifier(1), 0.0))
    assert len(table) == 0


@pytest.mark.spec("MQQB-6-08")
def test_the_defaults_are_ten_thousand_entries_and_thirty_minutes() -> None:
    settings = TransferSettings()
    assert (settings.duplicate_history_size, settings.duplicate_history_s) == (10_000, 1800)


def test_a_block_has_the_recoverable_messages_since_the_last_one() -> None:
    table = history()
    assert table.take_block(0.0) is None
    table.add_recoverable(identifier(1), 1.0)
    table.add(identifier(2), 1.0)
    table.add_recoverable(identifier(3), 1.0)
    assert table.take_block(2.0) == Block(0, identifier(1) + identifier(3), 2.0)
    assert table.take_block(2.0) is None
    assert table.is_duplicate(identifier(3), PERIOD)
    assert table.take_block(PERIOD) == Block(1, identifier(3), PERIOD), "it has a later time now"


def test_a_duplicate_that_comes_again_and_again_pushes_no_other_off_the_disk() -> None:
    table, disk = history(10), list[Block]()
    for ordinal in range(5):
        table.add_recoverable(identifier(ordinal), 0.0)
    for second in range(20):
        block = table.take_block(float(second))
        disk += [] if block is None else [block]
        assert table.is_duplicate(identifier(0), float(second))
    assert not table.take_obsolete()
    again = history(10)
    for block in disk:
        again.restore(block)
    assert [knows(again, ordinal) for ordinal in range(5)] == [True] * 5


def test_a_block_is_obsolete_when_those_behind_it_fill_the_table() -> None:
    table = history(4)
    for number in range(4):
        table.add_recoverable(identifier(2 * number), 0.0)
        table.add_recoverable(identifier(2 * number + 1), 0.0)
        block = table.take_block(0.0)
        assert block is not None
        assert block.number == number
        assert table.take_obsolete() == range(max(number - 2, 0), max(number - 1, 0))
    assert not table.take_obsolete()


def test_a_block_that_is_older_than_the_period_is_obsolete() -> None:
    table = history()
    for ordinal, time in ((1, 0.0), (2, 1.0), (3, 2000.0)):
        table.add_recoverable(identifier(ordinal), time)
        table.take_block(time)
    table.clean_up(2001.0)
    assert table.take_obsolete() == range(2)
    table.clean_up(2001.0 + 2 * PERIOD)
    assert table.take_obsolete() == range(2, 3)


def test_what_blocks_say_is_known_again() -> None:
    table = history()
    table.restore(Block(7, identifier(1) + identifier(2), 100.0))
    table.restore(Block(8, identifier(1), 900.0))
    assert (len(table), table.take_block(0.0), table.take_obsolete()) == (2, None, range(7, 7))
    table.clean_up(100.0 + PERIOD + 1)
    assert (knows(table, 1), knows(table, 2)) == (True, False)
    assert table.take_obsolete() == range(7, 8)
    table.add_recoverable(identifier(3), 2000.0)
    block = table.take_block(2000.0)
    assert block is not None
    assert block.number == 9


STEPS = st.lists(
    st.tuples(st.sampled_from(["express", "recoverable", "write", "clean up"]), st.integers(0, 9), st.integers(0, 900)),
    max_size=60,
)


@given(STEPS, st.integers(1, 6))
def test_the_blocks_that_are_left_give_back_every_recoverable_entry(
    steps: list[tuple[str, int, int]], size: int
) -> None:
    """Unless duplicates came: each has a place in a block again."""
    table, disk, express = history(size), dict[int, Block](), set[bytes]()
    time, duplicates = 0.0, 0
    for step, ordinal, seconds in [*steps, ("write", 0, 0)]:
        time += seconds
        key = identifier(ordinal)
        match step:
            case "write":
                if (block := table.take_block(time)) is not None:
                    disk[block.number] = block
                for number in table.take_obsolete():
                    del disk[number]
            case "clean up":
                table.clean_up(time)
            case _ if table.is_duplicate(key, time):
                duplicates += 1
            case "recoverable":
                table.add_recoverable(key, time)
                express.discard(key)
            case _:
                table.add(key, time)
                express.add(key)
        assert len(table) <= size
        assert list(table._entries.values()) == sorted(table._entries.values())
    assert sum(len(block.identifiers) // IDENTIFIER_SIZE for block in list(disk.values())[1:]) < size
    again = history(100)
    for _, block in sorted(disk.items()):
        again.restore(block)
    lost = set(table._entries) - set(again._entries) - express
    assert not lost or duplicates
