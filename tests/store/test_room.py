"""The report of a store that has no room."""

from waypost.store.port import Room

MEGABYTE = 1 << 20


def test_a_send_that_is_too_large_for_the_room_is_told_what_it_needs_and_what_is_left() -> None:
    room = Room("the disk of /data", free=4 * MEGABYTE, extent=3 * MEGABYTE, reserve=8 * MEGABYTE)
    sizes = MEGABYTE // 2, 4 * MEGABYTE, 4 * MEGABYTE
    assert not room.takes(*sizes)
    assert str(room.refusal(*sizes)) == (
        "the disk of /data has no room for the message: the message needs 8.0 MB, but only 2.0 MB are free, not "
        "counting the 8.0 MB that are reserved for receiving messages (store.reserve_mb); nothing was stored"
    )


def test_a_disk_with_nothing_beside_its_reserve_is_nearly_full() -> None:
    for room in (
        Room("the disk of /data", free=4 * MEGABYTE, extent=0, reserve=8 * MEGABYTE, is_low=True),
        Room("the disk of /data", free=MEGABYTE // 100, extent=0, reserve=8 * MEGABYTE),
    ):
        assert not room.takes(0, 2 * MEGABYTE, 100)
        assert str(room.refusal(0, 2 * MEGABYTE, 100)).startswith("the disk of /data is nearly full: ")
