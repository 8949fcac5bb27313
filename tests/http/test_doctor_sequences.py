"""Checks of the doctor on transactional sequences."""

import pytest

from tests.node.hosts import START, Host, Net
from tests.node.test_incoming_sequences import at_another_address, numbered
from waypost.api.status import Check
from waypost.clock import Now
from waypost.guid import guid_text
from waypost.http.doctor_sequences import examine_sequences
from waypost.limits import MAX_ENDED_SEQUENCES
from waypost.node.sequence_admin import SequenceAdmin, Wanted

T = r"DIRECT=OS:b\private$\t"
SECOND = int(START.wall)
DAY = 86_400


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def b(net: Net) -> Host:
    host = net.add("b")
    host.create("t", transactional=True)
    return host


def wrong(host: Host) -> list[Check]:
    return [found for found in examine_sequences(host.node, host.net.now) if not found.ok]


def test_all_is_well(b: Host) -> None:
    assert list(examine_sequences(b.node, b.net.now)) == [
        Check("sequences", True, "no transactional sequence was refused recently")
    ]


def test_an_address_with_many_sources_of_one_message_is_named(
    net: Net, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.http.doctor_sequences._MANY_SINGLE", 3)
    peer, honest = net.add_peer(), net.add_peer("honest")
    for sender in (peer, honest):
        sender.connect(b)
        for number in range(1, 5):
            sender.guid = bytes([number, len(sender.name)]) * 8
            sender.send(numbered(sender, "m", SECOND))
            if sender is honest:
                sender.send(numbered(sender, "m", SECOND, 2))
    (found,) = wrong(b)
    check, sentence, hint = found.check, found.message, found.hint
    assert check == "sources"
    assert sentence == (
        f"{peer.address} has sent messages from 4 sources, but only one message from each of these sources; the store "
        "contains a record of each source"
    )
    assert f"waypost sequence reset --address {peer.address}" in hint
    b.crash_and_start()
    assert [found.check for found in wrong(b)] == ["sources"]


def test_a_sequence_that_is_refused_is_named_with_its_source_address_time_stamp_and_setting(net: Net, b: Host) -> None:
    peer = net.add_peer()
    peer.connect(b)
    peer.send(numbered(peer, "1", SECOND + 3 * DAY), numbered(peer, "2", SECOND + 3 * DAY, 2))
    (found,) = wrong(b)
    sentence, hint = found.message, found.hint
    assert f"2 transactional messages of {guid_text(peer.guid)} from {peer.address}" in sentence
    assert (
        "the TimeStamp of its sequence is 2023-11-17T22:13:20Z, which is 3 days ahead of the clock of this computer"
        in sentence
    )
    assert sentence.endswith("transfer.max_sequence_ahead_s allows 172800 s")
    assert "waypost sequence reset" in hint


def test_the_address_that_shuts_out_another_one_is_named(net: Net, b: Host) -> None:
    source = net.add_peer()
    stranger, moved = at_another_address(net, source), at_another_address(net, source)
    for peer, time_stamp in ((source, SECOND), (stranger, SECOND + 60), (moved, SECOND + 5)):
        peer.connect(b)
        peer.send(numbered(peer, "m", time_stamp))
    (found,) = wrong(b)
    sentence, hint = found.message, found.hint
    assert f"from {moved.address}" in sentence
    assert f"source, 2023-11-14T22:14:20Z, from {stranger.address}" in sentence
    assert f"waypost sequence reset --address {stranger.address}" in hint


def test_an_end_that_was_forgotten_is_named_until_the_address_behind_it_is_reset(net: Net, b: Host) -> None:
    source = net.add_peer()
    away = at_another_address(net, source)
    away.connect(b)
    away.send(numbered(away, "m", SECOND - 9999))
    source.connect(b)
    for number in range(MAX_ENDED_SEQUENCES + 3):
        source.send(numbered(source, "m", SECOND - 5000 + number))
    (found,) = wrong(b)
    check, sentence, hint = found.check, found.message, found.hint
    assert check == "ended sequences"
    assert sentence.startswith(
        f"the records of 2 ended sequences were deleted (source {guid_text(source.guid)}, queue "
    )
    assert sentence.endswith(f"duplicates of their messages would be accepted from {away.address}")
    assert f"waypost sequence reset --address {away.address}" in hint
    assert b.network.statistics.sequence_ends_forgotten == 2
    assert len([notice for notice in b.notices if notice.event == "sequence end forgotten"]) == 2
    with b.node.kernel.operation(net.now):
        SequenceAdmin(b.node).reset_incoming(Wanted(address=away.address), b"", net.now, is_trial=False)
    assert wrong(b) == []
    away.send(numbered(away, "copy", SECOND - 5000))
    assert "copy" not in b.bodies("t")


def test_what_was_refused_goes_with_its_queue(net: Net, b: Host) -> None:
    """The doctor answers although the queue is gone."""
    peer = net.add_peer()
    peer.connect(b)
    peer.send(numbered(peer, "1", SECOND + 3 * DAY))
    assert len(wrong(b)) == 1
    b.delete("t")
    assert wrong(b) == []


def test_a_sender_whose_time_stamps_are_ahead_of_its_clock_is_told(net: Net, b: Host) -> None:
    a = net.add("a")
    net.part(a, b)
    net.now = Now(net.now.monotonic, net.now.wall + 10 * DAY)
    a.send_all(T, "1")
    assert wrong(a) == []
    net.now = Now(net.now.monotonic, START.wall)
    found = wrong(a)[-1]
    check, sentence, hint = found.check, found.message, found.hint
    assert (check, "10 days ahead of the clock" in sentence) == ("sequence clock", True)
    assert "transfer.max_sequence_ahead_s" in hint


def test_a_clock_that_is_behind_the_store_is_told(net: Net, b: Host) -> None:
    peer = net.add_peer()
    peer.connect(b)
    peer.send(numbered(peer, "1", SECOND))
    net.now = Now(net.now.monotonic, net.now.wall - 30)
    assert wrong(b) == []
    net.now = Now(net.now.monotonic, net.now.wall - 3 * DAY)
    (found,) = wrong(b)
    check, sentence = found.check, found.message
    assert (check, "transfer.max_sequence_ahead_s is not applied" in sentence) == ("sequence clock", True)
    b.crash_and_start()
    assert [found.check for found in wrong(b)] == ["sequence clock"]
