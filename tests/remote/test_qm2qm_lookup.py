"""MS-MQQP 3.1.4.11: what is read by its lookup identifier."""

import pytest

from tests.remote.qm2qm_reader import (
    ACK,
    INVALID_PARAMETER,
    LOOKUP_PEEKS,
    LOOKUP_RECEIVES,
    NACK,
    NULL,
    OK,
    PEEK,
    Reader,
    ReadHost,
    has_failed,
    label,
)
from waypost.core.positions import PositionState
from waypost.hresult import HResult
from waypost.remote.interfaces import qm2qm
from waypost.remote.lookups import LAST

AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
ALREADY_RECEIVED = HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED


@pytest.fixture
def host() -> ReadHost:
    return ReadHost()


@pytest.fixture
def reader(host: ReadHost) -> Reader:
    return Reader(host)


@pytest.mark.spec("MQQP-3.1.4.11-02", "MQQP-3.1.4.11-03", "MQQP-3.1.4.11-04", "MQQP-2.2.2.1-04")
def test_peeks_by_lookup_identifier(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    a, b, c = (host.put(name) for name in ("a", "b", "c"))
    current, following, preceding = 0x4000_0010, 0x4000_0011, 0x4000_0012
    assert label(reader.look_up(handle, current, b)) == "b"
    assert label(reader.look_up(handle, following, 0)) == "a"
    assert label(reader.look_up(handle, following, a)) == "b"
    assert label(reader.look_up(handle, preceding, LAST)) == "c"
    assert label(reader.look_up(handle, preceding, c)) == "b"
    assert has_failed(reader.look_up(handle, current, 0), INVALID_PARAMETER)
    assert has_failed(reader.look_up(handle, preceding, 0), INVALID_PARAMETER)
    assert has_failed(reader.look_up(handle, following, c), NOT_FOUND)
    assert has_failed(reader.look_up(handle, preceding, a), NOT_FOUND)
    assert [state for _, state in host.contents(host.orders)] == [AVAILABLE] * 3


@pytest.mark.spec("MQQP-3.1.4.11-05", "MQQP-3.1.4.11-06", "MQQP-3.1.4.11-07", "MQQP-2.2.2.1-04")
def test_receives_by_lookup_identifier(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    current, following, preceding = 0x4000_0020, 0x4000_0021, 0x4000_0022
    for case, name in enumerate(("b", "a", "b", "c", "b")):
        a, b, c = (host.put(message) for message in ("a", "b", "c"))
        steps = [(current, b), (following, 0), (following, a), (preceding, LAST), (preceding, c)]
        read = reader.look_up(handle, *steps[case])
        assert label(read) == name
        assert (name, LOCKED) in host.contents(host.orders)
        assert reader.end(read).hresult == OK
        assert [left for left, _ in host.contents(host.orders)] == [left for left in "abc" if left != name]
        reader.purge(handle)
    for action in (current, preceding):
        assert has_failed(reader.look_up(handle, action, 0), INVALID_PARAMETER)


@pytest.mark.spec("MQQP-3.1.4.11-14", "MQQP-3.1.4.11-16", "MQQP-3.1.4.11-13")
@pytest.mark.parametrize("action", LOOKUP_RECEIVES)
def test_a_receive_by_lookup_identifier_has_two_phases(host: ReadHost, reader: Reader, action: int) -> None:
    """readings MQQP 3.2. After a NACK the message is at its place, under its number."""
    handle = reader.open()
    ids = [host.put(name) for name in ("a", "b", "c")]
    at = {0x20: ids[1], 0x21: ids[0], 0x22: ids[2]}[action & 0xFF]
    for ack, left in ((NACK, ["a", "b", "c"]), (ACK, ["a", "c"])):
        read = reader.look_up(handle, action, at)
        assert label(read) == "b"
        assert not read.record.context.is_null
        assert host.contents(host.orders)[1] == ("b", LOCKED)
        assert reader.end(read, ack) == qm2qm.EndReceiveReply(NULL, OK)
        assert host.contents(host.orders) == [(name, AVAILABLE) for name in left]
        if ack == NACK:
            assert host.messages.get(host.orders.number, ids[1]).abort_count == 1
            assert label(reader.look_up(handle, LOOKUP_PEEKS[0], ids[1])) == "b"


@pytest.mark.spec("MQQP-3.1.4.11-13", "MQQP-3.1.4.11-16", "MQQP-3.1.4.11-01")
@pytest.mark.parametrize("action", LOOKUP_PEEKS)
def test_a_look_up_that_peeks_or_fails_has_no_handle(host: ReadHost, reader: Reader, action: int) -> None:
    """readings MQQP 3.5: what the queue says is the answer."""
    handle = reader.open()
    cursor = reader.cursor(handle)
    gone, _ = host.put("gone"), host.put("b")
    number = {0x10: gone, 0x11: 0, 0x12: LAST}[action & 0xFF]
    read = reader.look_up(handle, action, number)
    assert read.record.context == NULL
    assert host.contents(host.orders)[0] == ("gone", AVAILABLE)
    reader.read(handle, PEEK, cursor=cursor)
    reader.end(reader.read(handle))
    for lost in (action, action + 0x10):
        read = reader.look_up(handle, lost, gone)
        is_current = lost & 0xF == 0
        assert has_failed(read, ALREADY_RECEIVED if is_current else NOT_FOUND)
