"""MS-MQQB 3.1.1.3, 3.1.2.8, 3.1.5.8.1 and 3.1.6.7: the history of message identifiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.limits import MAX_REMEMBERED, MAX_REMEMBERED_PEERS
from waypost.transfer.duplicates import IDENTIFIER_SIZE, RELAY_SHARES, Block, MessageHistory
from waypost.transfer.settings import TransferSettings
from waypost.wire.identifiers import MessageIdentifier

PERIOD = 1800.0
PEER = "10.0.0.1"


def identifier(ordinal: int, source: bytes = b"\x05" * 16, destination: bytes = bytes(8)) -> bytes:
    return MessageIdentifier(source, ordinal).encode() + destination


def history(size: int = 10_000) -> MessageHistory:
    return MessageHistory(size, PERIOD)


def knows(table: MessageHistory, ordinal: int) -> bool:
    return table.is_known(identifier(ordinal))


@pytest.mark.spec("MQQB-3.1.1.3-05")
def test_a_message_is_known_by_its_source_and_its_ordinal() -> None:
    table = history()
    table.add(identifier(1), PEER, 10.0)
    assert table.is_duplicate(identifier(1), PEER, 11.0)
    assert not table.is_duplicate(identifier(2), PEER, 11.0)
    assert not table.is_duplicate(identifier(1, source=b"\x06" * 16), PEER, 11.0)
    assert not table.is_duplicate(identifier(1, destination=b"\x07" * 8), PEER, 11.0), (
        "a copy for another queue is another"
    )


def test_a_message_is_added_once_whoever_brings_it() -> None:
    table = history()
    assert table.add_new(identifier(1), PEER, 10.0, recoverable=True)
    assert table.add_new(identifier(2), PEER, 10.0, recoverable=False)
    assert not table.add_new(identifier(1), PEER, 11.0, recoverable=True)
    assert not table.add_new(identifier(2), "10.0.0.2", 11.0, recoverable=True)
    (block,) = table.take_blocks(11.0)
    assert (block.identifiers, block.peer) == (identifier(1), PEER), "only what is recoverable goes to disk, once"


@pytest.mark.spec("MQQB-3.1.1.3-05", "MQQB-3.1.6.7-01")
def test_the_clean_up_removes_what_is_older_than_the_period() -> None:
    table = history()
    for ordinal, time in ((1, 0.0), (2, 1.0), (3, 1800.0), (4, 1801.0)):
        table.add(identifier(ordinal), PEER, time)
    table.clean_up(1800.0)
    assert len(table) == 4, "an entry as old as the period is not older"
    table.clean_up(3600.0)
    assert [knows(table, ordinal) for ordinal in (1, 2, 3, 4)] == [False, False, True, True]
    assert table.deadline() == 3600.0 + PERIOD
    table.clean_up(3600.0 + PERIOD)
    assert (len(table), table.deadline()) == (0, None)


@pytest.mark.spec("MQQB-3.1.2.8-01")
def test_the_clean_up_timer_runs_while_there_are_entries() -> None:
    table = MessageHistory(10, 60.0)
    assert table.deadline() is None
    table.add(identifier(1), PEER, 5.0)
    assert table.deadline() == 65.0
    table.add(identifier(2), PEER, 20.0)
    assert table.deadline() == 65.0, "only the first insertion starts it"
    table.clean_up(64.0)
    assert (len(table), table.deadline()) == (2, 65.0)
    table.clean_up(70.0)
    assert (len(table), table.deadline()) == (1, 130.0)
    table.clean_up(130.0)
    assert table.deadline() is None
    table.add(identifier(3), PEER, 200.0)
    assert table.deadline() == 260.0


@pytest.mark.spec("MQQB-3.1.2.8-01")
def test_the_clean_up_timer_runs_from_the_start_if_entries_came_back() -> None:
    table = history()
    table.restore(Block(3, identifier(1) + identifier(2), 100.0))
    assert table.deadline() == 100.0 + PERIOD


def test_a_duplicate_makes_its_entry_fresh() -> None:
    table = history()
    table.add(identifier(1), PEER, 0.0)
    table.add(identifier(2), PEER, 0.0)
    assert table.is_duplicate(identifier(1), PEER, 1000.0)
    table.clean_up(1801.0)
    assert (knows(table, 1), knows(table, 2)) == (True, False)


@pytest.mark.spec("MQQB-3.1.1.3-03")
def test_a_full_table_gives_up_the_entry_with_the_earliest_time() -> None:
    table = history(3)
    assert len(table) == 0
    for ordinal in (1, 2, 3):
        table.add(identifier(ordinal), PEER, float(ordinal))
    table.is_duplicate(identifier(1), PEER, 4.0)
    table.add(identifier(4), PEER, 5.0)
    assert len(table) == 3
    assert [knows(table, ordinal) for ordinal in (1, 2, 3, 4)] == [True, False, True, True]


@pytest.mark.spec("MQQB-3.1.1.3-03")
def test_no_table_is_longer_than_two_to_the_thirty_second() -> None:
    assert MessageHistory(1 << 40, PERIOD).size == 4_294_967_296
    assert history().size == 10_000


def test_a_table_of_size_0_knows_nothing() -> None:
    table = history(0)
    table.add_recoverable(identifier(1), PEER, 0.0)
    assert not table.is_duplicate(identifier(1), PEER, 0.0)
    assert table.take_blocks(0.0)
    assert table.take_obsolete() == [0]
    table.restore(Block(1, identifier(1), 0.0))
    assert len(table) == 0


@pytest.mark.spec("MQQB-6-08")
def test_the_defaults_are_ten_thousand_entries_and_thirty_minutes() -> None:
    settings = TransferSettings()
    assert (settings.duplicate_history_size, settings.duplicate_history_s) == (10_000, 1800)


def test_a_block_has_the_recoverable_messages_since_the_last_one() -> None:
    table = history()
    assert table.take_blocks(0.0) == []
    table.add_recoverable(identifier(1), PEER, 1.0)
    table.add(identifier(2), PEER, 1.0)
    table.add_recoverable(identifier(3), PEER, 1.0)
    assert table.take_blocks(2.0) == [Block(0, identifier(1) + identifier(3), 2.0, PEER)]
    assert table.take_blocks(2.0) == []
    assert table.is_duplicate(identifier(3), PEER, PERIOD, recoverable=True)
    assert table.take_blocks(PERIOD) == [Block(1, identifier(3), PERIOD, PEER)], "it has a later time now"


def test_a_duplicate_that_comes_again_and_again_pushes_no_other_off_the_disk() -> None:
    table, disk = history(10), list[Block]()
    for ordinal in range(5):
        table.add_recoverable(identifier(ordinal), PEER, 0.0)
    for second in range(20):
        disk += table.take_blocks(float(second))
        assert table.is_duplicate(identifier(0), PEER, float(second), recoverable=True)
    assert not table.take_obsolete()
    again = history(10)
    for block in disk:
        again.restore(block)
    assert [knows(again, ordinal) for ordinal in range(5)] == [True] * 5


def test_a_block_is_obsolete_when_those_behind_it_fill_the_table() -> None:
    table = history(4)
    for number in range(4):
        table.add_recoverable(identifier(2 * number), PEER, 0.0)
        table.add_recoverable(identifier(2 * number + 1), PEER, 0.0)
        assert [block.number for block in table.take_blocks(0.0)] == [number]
        assert table.take_obsolete() == list(range(max(number - 2, 0), max(number - 1, 0)))
    assert not table.take_obsolete()


def test_a_block_that_is_older_than_the_period_is_obsolete() -> None:
    table = history()
    for ordinal, time in ((1, 0.0), (2, 1.0), (3, 2000.0)):
        table.add_recoverable(identifier(ordinal), PEER, time)
        table.take_blocks(time)
    table.clean_up(2001.0)
    assert table.take_obsolete() == [0, 1]
    table.clean_up(2001.0 + 2 * PERIOD)
    assert table.take_obsolete() == [2]


def test_what_blocks_say_is_known_again() -> None:
    table = history()
    table.restore(Block(7, identifier(1) + identifier(2), 100.0, PEER))
    table.restore(Block(8, identifier(1), 900.0, PEER))
    assert (len(table), table.take_blocks(0.0), table.take_obsolete()) == (2, [], [])
    table.clean_up(100.0 + PERIOD + 1)
    assert (knows(table, 1), knows(table, 2)) == (True, False)
    assert table.take_obsolete() == [7]
    table.add_recoverable(identifier(3), PEER, 2000.0)
    assert [block.number for block in table.take_blocks(2000.0)] == [9]


OTHER = "10.0.0.2"
RELAY = "10.0.0.9"


def flood(table: MessageHistory, peer: str, count: int, time: float = 0.0, first: int = 1000) -> None:
    for ordinal in range(first, first + count):
        table.add_recoverable(identifier(ordinal, source=peer.encode().ljust(16)), peer, time)


def test_a_flood_of_one_address_makes_only_its_own_messages_unknown() -> None:
    table = history(10)
    for ordinal in range(5):
        table.add(identifier(ordinal), PEER, 0.0)
    flood(table, OTHER, 1000, 1.0)
    assert [knows(table, ordinal) for ordinal in range(5)] == [True] * 5
    assert (len(table), table.largest_share) == (15, 10)


def test_a_message_is_known_whatever_address_brings_it_again() -> None:
    table = history()
    table.add(identifier(1), PEER, 0.0)
    assert table.is_duplicate(identifier(1), OTHER, 1.0)


def test_another_address_does_not_decide_what_is_the_oldest_of_a_share() -> None:
    table = history(3)
    for ordinal in (1, 2, 3):
        table.add(identifier(ordinal), PEER, float(ordinal))
    assert table.is_duplicate(identifier(1), OTHER, 4.0)
    table.add(identifier(4), PEER, 5.0)
    assert [knows(table, ordinal) for ordinal in (1, 2, 3, 4)] == [False, True, True, True]


def test_a_flood_of_one_address_leaves_the_blocks_of_others_on_disk() -> None:
    table, disk = history(4), dict[int, Block]()
    for turn in range(20):
        if turn < 4:
            table.add_recoverable(identifier(turn), PEER, 0.0)
        flood(table, OTHER, 3, first=1000 + 3 * turn)
        disk |= {block.number: block for block in table.take_blocks(0.0)}
        for number in table.take_obsolete():
            del disk[number]
    assert sorted(block.peer for block in disk.values()) == [PEER] * 4 + [OTHER] * 2
    again = history(4)
    for _, block in sorted(disk.items()):
        again.restore(block)
    assert [knows(again, ordinal) for ordinal in range(4)] == [True] * 4
    assert again.largest_share == 4


def test_with_many_addresses_each_has_an_equal_part_and_at_least_a_window() -> None:
    table = history()
    flood(table, PEER, 10_000)
    for number in range(MAX_REMEMBERED_PEERS - 1):
        assert table.has_place_for(f"peer {number}", 1.0)
        table.add(identifier(number), f"peer {number}", 1.0)
    assert table.largest_share == MAX_REMEMBERED // MAX_REMEMBERED_PEERS == 64
    assert len(table) == 64 + MAX_REMEMBERED_PEERS - 1
    newest = [identifier(ordinal, source=PEER.encode().ljust(16)) for ordinal in range(1000 + 9_936, 11_000)]
    assert all(map(table.is_known, newest)), "messages that may come again after a session are still known"


def test_one_address_more_has_no_place_until_another_is_silent_for_the_period() -> None:
    table = history()
    for number in range(MAX_REMEMBERED_PEERS):
        table.add(identifier(number), f"peer {number}", float(number > 0))
    assert not table.has_place_for(OTHER, 2.0)
    assert table.has_place_for("peer 7", 2.0), "one that has a share keeps it"
    assert not table.has_place_for(OTHER, PERIOD)
    assert table.has_place_for(OTHER, PERIOD + 1.0), "peer 0 was silent for more than the period"
    table.add(identifier(1, source=b"o" * 16), OTHER, PERIOD + 1.0)
    assert not table.has_place_for("one more", PERIOD + 1.0)


def test_a_relay_has_a_larger_share_that_no_number_of_others_takes() -> None:
    table = MessageHistory(10, PERIOD, [RELAY])
    flood(table, RELAY, 1000)
    assert len(table) == 10 * RELAY_SHARES
    assert table.largest_share == 0
    for number in range(MAX_REMEMBERED_PEERS):
        table.add(identifier(number), f"peer {number}", 1.0)
    assert len(table) == 10 * RELAY_SHARES + MAX_REMEMBERED_PEERS
    assert not table.has_place_for(OTHER, 1.0)
    assert table.has_place_for(RELAY, 1.0)


def test_a_relay_that_is_new_has_a_place_though_no_other_has() -> None:
    table = MessageHistory(10, PERIOD, [RELAY])
    for number in range(MAX_REMEMBERED_PEERS):
        table.add(identifier(number), f"peer {number}", 1.0)
    assert table.has_place_for(RELAY, 1.0)


def test_the_guid_of_a_relay_gives_one_address_at_a_time_the_larger_share() -> None:
    table, guid = history(10), b"r" * 16
    flood(table, PEER, 10)
    table.note_relay(guid, PEER)
    flood(table, PEER, 50, first=2000)
    assert len(table) == 60
    table.note_relay(guid, OTHER)
    flood(table, OTHER, 50)
    assert len(table) == 70, "a stranger that says so too has the share of a stranger"
    table.take_blocks(0.0)
    table.clean_up(2 * PERIOD)
    table.note_relay(guid, OTHER)
    flood(table, OTHER, 50)
    assert len(table) == 50


def test_blocks_without_an_address_are_known_and_have_a_share_of_their_own() -> None:
    table = history(4)
    table.restore(Block(0, b"".join(map(identifier, range(4))), 0.0))
    flood(table, PEER, 100)
    assert [knows(table, ordinal) for ordinal in range(4)] == [True] * 4
    assert table.is_duplicate(identifier(1), PEER, 1.0)


STEPS = st.lists(
    st.tuples(st.sampled_from(["express", "recoverable", "write", "clean up"]), st.integers(0, 9), st.integers(0, 900)),
    max_size=60,
)


@given(STEPS, st.integers(1, 6))
def test_the_blocks_that_are_left_give_back_every_recoverable_entry(
    steps: list[tuple[str, int, int]], size: int
) -> None:
    """Unless duplicates came: each has a place in a block again. Even and odd ones are of two addresses."""
    table, disk, express = history(size), dict[int, Block](), set[bytes]()
    time, duplicates = 0.0, 0
    for step, ordinal, seconds in [*steps, ("write", 0, 0)]:
        time += seconds
        key, peer = identifier(ordinal), (PEER, OTHER)[ordinal % 2]
        match step:
            case "write":
                disk |= {block.number: block for block in table.take_blocks(time)}
                for number in table.take_obsolete():
                    del disk[number]
            case "clean up":
                table.clean_up(time)
            case _ if table.is_duplicate(key, peer, time, recoverable=step == "recoverable"):
                duplicates += 1
            case "recoverable":
                table.add_recoverable(key, peer, time)
                express.discard(key)
            case _:
                table.add(key, peer, time)
                express.add(key)
        assert table.largest_share <= size
        assert len(table) == sum(len(share.entries) for share in table._shares.values())
        for share in table._shares.values():
            assert list(share.entries.values()) == sorted(share.entries.values())
    for peer in (PEER, OTHER):
        blocks = [block for block in disk.values() if block.peer == peer]
        assert sum(len(block.identifiers) // IDENTIFIER_SIZE for block in blocks[1:]) < size
    again = history(100)
    for _, block in sorted(disk.items()):
        again.restore(block)
    lost = set(table._known) - set(again._known) - express
    assert not lost or duplicates


def test_it_has_changed_until_blocks_and_what_is_obsolete_are_taken() -> None:
    table = history(1)
    table.add(identifier(1), PEER, 10.0)
    seen = [bool(table.changed or table.obsolete)]
    table.add_recoverable(identifier(2), PEER, 10.0)
    seen.append(bool(table.changed or table.obsolete))
    table.take_blocks(10.0)
    seen.append(bool(table.changed or table.obsolete))
    table.add_recoverable(identifier(3), PEER, 10.0)
    table.take_blocks(10.0)
    seen.append(bool(table.changed or table.obsolete))
    assert table.take_obsolete() == [0]
    seen.append(bool(table.changed or table.obsolete))
    assert seen == [False, True, False, True, False]
