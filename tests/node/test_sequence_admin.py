"""Transactional sequences for an administrator, and their resets."""

from dataclasses import replace

import pytest

from tests.node.hosts import START, TRANSFER, Host, Net, Peer
from tests.node.test_incoming_sequences import at_another_address, numbered, refused, told
from waypost.clock import Now
from waypost.core.stored_message import sequence_of
from waypost.errors import ResetUnderWay
from waypost.node.explain import explain_queue
from waypost.node.sequence_admin import Line, Reset, SequenceAdmin, Wanted
from waypost.transfer.settings import ResendTimeouts
from waypost.wire.format_names import FormatName

T = r"DIRECT=OS:b\private$\t"
SECOND = int(START.wall)
DAY = 86_400
ALL = Wanted()


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def b(net: Net) -> Host:
    host = net.add("b")
    host.create("t", transactional=True)
    return host


@pytest.fixture
def peer(net: Net, b: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(b)
    return peer


def reset(host: Host, wanted: Wanted, *, is_trial: bool = False) -> int:
    """Number of sources, over all pages."""
    admin, count, start = SequenceAdmin(host.node), 0, b""
    while True:
        with host.node.kernel.operation(host.net.now):
            done = admin.reset_incoming(wanted, start, host.net.now, is_trial=is_trial)
        host.net.settle()
        count, start = count + done.sequences, done.next
        if not start:
            return count


def reset_outgoing(host: Host, name: str, *, is_trial: bool = False) -> Reset:
    """The result when its last part was done."""
    done = begin_reset(host, name, is_trial=is_trial)
    go_on(host)
    (reset,) = done
    return reset


def begin_reset(host: Host, name: str, *, is_trial: bool = False) -> list[Reset]:
    """The result is there when the last part is done."""
    done: list[Reset] = []
    admin, queue = SequenceAdmin(host.node), host.outgoing(name)
    with host.node.kernel.operation(host.net.now):
        if is_trial:
            admin.try_outgoing(queue, done.append)
        else:
            admin.reset_outgoing(queue, host.net.now, done.append)
    host.net.settle()
    return done


def go_on(host: Host, parts: int = 1000) -> None:
    """Do parts of the work that is under way."""
    for _ in range(parts):
        if not host.node.kernel.timers.works:
            return
        host.tick()
        host.net.settle()


def incoming(host: Host, wanted: Wanted = ALL) -> list[Line]:
    lines: list[Line] = []
    start = b""
    while True:
        with host.node.kernel.operation(host.net.now):
            page = SequenceAdmin(host.node).incoming(wanted, start, host.net.now)
        lines += page.lines
        start = page.next
        if not start:
            return lines


def test_incoming_sequences_are_told_page_by_page(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.sequence_admin.MAX_SEQUENCE_PAGE", 3)
    b.create("u", transactional=True)
    for number in range(1, 9):
        peer.guid = bytes([number]) * 16
        peer.send(numbered(peer, "m", SECOND))
    lines = incoming(b)
    assert [line.source[0] for line in lines] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {(line.queue, line.number, line.addresses) for line in lines} == {(b.queue("t"), 1, (peer.address,))}
    assert [line.source[0] for line in incoming(b, Wanted(source=bytes([5]) * 16))] == [5]
    assert len(incoming(b, Wanted(address=peer.address))) == 8
    assert incoming(b, Wanted(address="10.9.9.9")) == []
    assert len(incoming(b, Wanted(FormatName.parse(T)))) == 8
    assert incoming(b, Wanted(FormatName.parse(r"DIRECT=OS:b\private$\u"))) == []


def test_the_next_message_of_a_source_that_was_reset_is_taken_whatever_comes_before_it(
    net: Net, b: Host, peer: Peer
) -> None:  # fmt: skip
    peer.send(numbered(peer, "1", SECOND))
    # A forged one has shut the source out, at its own address.
    peer.send(numbered(peer, "forged", SECOND + DAY))
    peer.send(numbered(peer, "8", SECOND + 10, 8))
    assert b.bodies("t") == ["1", "forged"]
    wanted = Wanted(source=peer.guid)
    assert (reset(b, wanted, is_trial=True), b.sources) == (1, [peer.guid])
    assert reset(b, wanted) == 1
    assert (incoming(b), refused(b)) == ([], [])
    b.crash_and_start()
    peer.connect(b)
    peer.send(numbered(peer, "8", SECOND + 10, 8), numbered(peer, "9", SECOND + 10, 9))
    net.advance(1)
    assert (b.bodies("t"), told(peer)[-1]) == (["1", "forged", "8", "9"], (SECOND + 10, 9))
    peer.send(numbered(peer, "12", SECOND + 10, 12))
    assert b.bodies("t")[-1] == "9"


def test_a_source_of_which_nothing_was_taken_can_be_reset(net: Net, b: Host, peer: Peer) -> None:
    peer.send(numbered(peer, "8", SECOND, 8))
    assert b.sources == []
    assert reset(b, Wanted(source=peer.guid)) == 1
    peer.send(numbered(peer, "8", SECOND, 8))
    assert b.bodies("t") == ["8"]


def test_what_came_from_a_stranger_is_forgotten_and_the_source_stays(net: Net, b: Host, peer: Peer) -> None:
    stranger, moved = at_another_address(net, peer), at_another_address(net, peer)
    peer.send(numbered(peer, "1", SECOND))
    stranger.connect(b)
    for number in range(1, 5):
        stranger.guid = peer.guid if number == 1 else bytes([number + 80]) * 16
        stranger.send(numbered(stranger, "forged", SECOND + DAY))
    moved.connect(b)
    moved.send(numbered(moved, "2", SECOND + 5))
    assert reset(b, Wanted(address=stranger.address)) == 4
    assert (b.sources, set(b.node.sequences.incoming.addresses(9)[0])) == ([peer.guid], {peer.address})
    moved.send(numbered(moved, "2", SECOND + 5))
    peer.send(numbered(peer, "1", SECOND), numbered(peer, "3", SECOND, 2))
    assert b.bodies("t") == ["1", *["forged"] * 4, "2", "3"]


def test_sequences_that_were_silent_for_long_are_forgotten_in_parts(
    net: Net, b: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.sequence_admin.MAX_SEQUENCES_LOOKED_AT", 4)
    for number in range(1, 11):
        peer.guid = bytes([number]) * 16
        peer.send(numbered(peer, "m", SECOND))
    net.now = Now(net.now.monotonic, net.now.wall + 10 * DAY)
    peer.guid = b"\x03" * 16
    peer.send(numbered(peer, "m", SECOND, 2))
    assert reset(b, Wanted(older_than=20 * DAY)) == 0
    assert reset(b, Wanted(older_than=9 * DAY)) == 9
    assert b.sources == [b"\x03" * 16]
    b.crash_and_start()
    assert b.sources == [b"\x03" * 16]
    assert b.node.sequences.incoming.addresses(9)[0][peer.address].sources == 1


def outgoing_numbers(host: Host) -> list[tuple[int, int, int]]:
    """TimeStamp, number and the number before of what is in the outgoing queue."""
    places = [sequence_of(message.packet) for message in host.messages(T)]
    return [(sequence.time_stamp, number, previous) for sequence, number, previous in places]


def test_a_sender_begins_a_new_sequence_with_what_is_not_acknowledged(net: Net, b: Host) -> None:
    a = net.add("a")
    # A clock that was far ahead when the queue was made.
    net.now = Now(net.now.monotonic, net.now.wall + 30 * DAY)
    a.send_all(T, "0")
    net.advance(5)
    assert b.bodies("t") == ["0"]
    net.now = Now(net.now.monotonic, START.wall + 60)
    b.delete("t")
    b.create("t", transactional=True)
    b.node.sequences._latest = 0
    a.send_all(T, "1", "2")
    a.send_all(T, "3")
    assert a.node.sequences.ahead_of_clock(net.now)[0][0] is a.outgoing(T)
    assert b.bodies("t") == []
    (told_of,) = refused(b)
    assert told_of.verdict.value == "ahead of the clock"
    sentences = explain_queue(b.node, FormatName.parse(T), net.now).sentences
    assert any("transfer.max_sequence_ahead_s allows 172800 s" in sentence for sentence in sentences)
    trial = reset_outgoing(a, T, is_trial=True)
    assert (trial.renumbered, trial.may_come_twice, len(trial.identifiers)) == (3, 3, 3)
    before = outgoing_numbers(a)
    assert [number for _, number, _ in before] == [1, 2, 3]
    done = reset_outgoing(a, T)
    assert done == trial
    net.advance(20)
    assert (b.bodies("t"), outgoing_numbers(a)) == (["1", "2", "3"], [])
    assert a.node.sequences.ahead_of_clock(net.now) == []


def test_the_new_numbers_of_a_sender_are_there_after_a_crash(net: Net, b: Host) -> None:
    a = net.add("a", replace(TRANSFER, resend_timeouts=ResendTimeouts(1, 1, 1, 1)))
    net.part(a, b)
    a.send_all(T, "1", "2")
    a.send_all(T, "3")
    net.now = Now(net.now.monotonic, net.now.wall + 100)
    reset_outgoing(a, T)
    a.crash_and_start()
    assert outgoing_numbers(a) == [(SECOND + 100, 1, 0), (SECOND + 100, 2, 1), (SECOND + 100, 3, 2)]
    a.send_all(T, "4")
    net.join()
    net.advance(30)
    assert (b.bodies("t"), outgoing_numbers(a)) == (["1", "2", "3", "4"], [])


def test_what_the_destination_has_acknowledged_is_not_sent_again(net: Net, b: Host) -> None:
    a, peer = net.add("a"), net.add_peer("far")
    name = r"DIRECT=OS:far\private$\t"
    a.send_all(name, "1", "2", "3")
    peer.order_ack(2)
    assert peer.bodies == ["1", "2", "3"]
    trial = reset_outgoing(a, name, is_trial=True)
    assert (trial.renumbered, trial.may_come_twice) == (1, 1)
    reset_outgoing(a, name)
    net.advance(20)
    assert peer.bodies == ["1", "2", "3", "3"]
    assert (peer.headers[-1].tx_sequence_number, peer.headers[-1].previous_tx_sequence_number) == (1, 0)
    assert peer.headers[-1].tx_sequence_id > peer.headers[0].tx_sequence_id


def test_uncommitted_messages_of_an_outgoing_queue_get_their_numbers_when_they_commit(net: Net, b: Host) -> None:
    a = net.add("a")
    net.part(a, b)
    tx = a.begin()
    a.send(T, "late", tx)
    a.send_all(T, "1")
    assert reset_outgoing(a, T).renumbered == 1
    a.commit(tx)
    net.join()
    net.advance(30)
    assert b.bodies("t") == ["1", "late"]


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.renumbering.RENUMBERED_PART", 2)


def test_a_crash_between_any_two_parts_of_a_reset_loses_nothing_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    small_parts(monkeypatch)
    bodies = [str(number) for number in range(7)]
    for parts in range(5):
        for written in (0, 1):
            net = Net()
            a, b = net.add("a"), net.add("b")
            b.create("t", transactional=True)
            net.part(a, b)
            a.send_all(T, *bodies)
            net.now = Now(net.now.monotonic, net.now.wall + 100)
            done = begin_reset(a, T)
            go_on(a, parts)
            a.hold_disk()
            a.tick()
            a.turn()
            assert bool(done) == (parts + 1 >= 4)
            a.crash(written=min(written, a.engine.pending))
            a.start()
            go_on(a)
            # Those of the parts that are durable are not done again.
            parts_before = parts + written
            told = [notice.facts["renumbered"] for notice in a.notices if notice.event == "sequence reset"]
            assert told[-1] == (7 - 2 * parts_before if parts_before < 4 else 7)
            places = outgoing_numbers(a)
            assert [time_stamp for time_stamp, _, _ in places] == [SECOND + 100] * 7
            assert [number for _, number, _ in places] == [1, 2, 3, 4, 5, 6, 7]
            assert not a.node.renumberings
            a.send_all(T, "new")
            net.join()
            net.advance(60)
            assert (b.bodies("t"), outgoing_numbers(a)) == ([*bodies, "new"], [])


def test_what_commits_during_a_reset_comes_behind_what_waits(
    net: Net, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    small_parts(monkeypatch)
    a = net.add("a")
    net.part(a, b)
    early = a.begin()
    a.send(T, "uncommitted", early)
    a.send_all(T, "1", "2", "3", "4", "5")
    begin_reset(a, T)
    net.join()
    a.send_all(T, "6")
    a.tick()
    a.commit(early)
    net.advance(5)
    a.send_all(T, "7")
    go_on(a)
    net.advance(60)
    assert (b.bodies("t"), outgoing_numbers(a)) == (["1", "2", "3", "4", "5", "6", "uncommitted", "7"], [])


def test_nothing_leaves_before_the_reset_is_done_and_it_says_how_far_it_is(
    net: Net, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    small_parts(monkeypatch)
    a = net.add("a")
    net.part(a, b)
    a.send_all(T, "1", "2", "3", "4", "5")
    net.join()
    done = begin_reset(a, T)
    # The next attempt to connect is due with the first part.
    net.now = Now(net.now.monotonic + 1000, net.now.wall + 1000)
    a.tick()
    a.net.settle()
    assert (done, b.bodies("t"), a.node.long_work) == ([], [], "a reset of a sequence")
    sentences = explain_queue(a.node, FormatName.parse(T), net.now).sentences
    assert any("is being reset: 2 of its messages have new numbers" in sentence for sentence in sentences)
    for is_trial in (True, False):
        with pytest.raises(ResetUnderWay, match=r"is being reset: 2 of its messages"):
            begin_reset(a, T, is_trial=is_trial)
    go_on(a)
    net.advance(60)
    assert (len(done), b.bodies("t"), a.node.long_work) == (1, ["1", "2", "3", "4", "5"], "")
    assert [(notice.event, notice.facts["renumbered"]) for notice in a.notices if "reset" in notice.event] == [
        ("sequence reset", 5)
    ]


def test_what_is_purged_during_a_reset_leaves_a_gap_and_the_rest_arrives(
    net: Net, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    small_parts(monkeypatch)
    a = net.add("a")
    net.part(a, b)
    a.send_all(T, "1", "2", "3", "4", "5")
    begin_reset(a, T)
    a.tick()
    a.purge(T)
    a.send_all(T, "6")
    go_on(a)
    net.join()
    net.advance(60)
    assert (b.bodies("t"), outgoing_numbers(a)) == (["6"], [])


def test_a_second_reset_in_the_same_second_begins_above_the_first_also_after_a_crash(net: Net, b: Host) -> None:
    a = net.add("a")
    net.part(a, b)
    a.send_all(T, "1")
    stamps = [outgoing_numbers(a)[0][0]]
    for crashes in (False, True, True):
        reset_outgoing(a, T)
        stamps.append(outgoing_numbers(a)[0][0])
        if crashes:
            a.crash_and_start()
    assert stamps == sorted(set(stamps))
