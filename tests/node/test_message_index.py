"""A message is found by its identifier in whatever queue it is, before and after a start, however many there are."""

from unittest.mock import patch

import pytest

from tests.node.rig import EXPRESS, IN_TX, TX, Rig, direct, letter
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.positions import START
from waypost.errors import StoreDamaged
from waypost.limits import EXPLAIN_WAIT_SECONDS, INDEX_PART, INDEX_PARTS_AWAITED
from waypost.node import message_index
from waypost.node.explain import ExplanationDraft, explain_message
from waypost.node.node import Node
from waypost.store.port import Table
from waypost.wire.identifiers import MessageIdentifier

FAR = "DIRECT=OS:far\\private$\\orders"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def explained(rig: Rig, identifier: MessageIdentifier) -> ExplanationDraft:
    return explain_message(rig.node, identifier, rig.now)


def queues(rig: Rig, identifier: MessageIdentifier) -> list[str]:
    places = explained(rig, identifier).facts["places"]
    assert isinstance(places, list)
    return [place["queue"] for place in places]


def build(rig: Rig) -> int:
    """Let the index be built. Returns how many ticks it took."""
    ticks = 0
    while not rig.node.index.is_complete:
        deadline = rig.node.next_deadline(rig.now)
        assert deadline is not None
        rig.advance(max(deadline - rig.now.monotonic, 0))
        ticks += 1
    rig.settle()
    return ticks


def sent(rig: Rig, count: int, queue: str = "orders") -> list[MessageIdentifier]:
    rig.done(rig.send_many([str(number).encode() for number in range(count)], queue))
    positions = rig.node.manager.find_queue(direct(queue))
    assert positions is not None
    return [rig.node.messages.get(positions.number, each).identifier for each in positions.positions]


def test_while_somebody_waits_a_tick_does_several_parts(rig: Rig) -> None:
    """The turns of the loop around the parts would take longer than these do."""
    identifiers = sent(rig, 4 * INDEX_PARTS_AWAITED * INDEX_PART)
    rig.stop()
    found: list[str] = []
    rig.node.index.when_complete(lambda _: found.extend(queues(rig, identifiers[-1])), rig.now, EXPLAIN_WAIT_SECONDS)
    assert build(rig) <= 5
    assert found == ["host\\private$\\orders"]


def test_every_message_of_many_is_found_with_how_many_come_first(rig: Rig) -> None:
    identifiers = sent(rig, 2000)
    for number in (0, 1, 1000, 1999):
        places = explained(rig, identifiers[number]).facts["places"]
        assert isinstance(places, list)
        assert [place["before"] for place in places] == [number]


def test_a_start_reads_no_messages_and_the_index_follows_in_parts(rig: Rig) -> None:
    identifiers = sent(rig, 3 * INDEX_PART + 10)
    rig.stop()
    assert rig.node.index.unknown == len(identifiers)
    told = explained(rig, identifiers[-1])
    assert told.facts["found"] is False
    assert told.facts["not_searched"] == len(identifiers)
    assert f"{len(identifiers)} messages that were here when the queue manager started" in told.sentences[0]
    assert "but is no longer here" not in " ".join(told.sentences)
    assert build(rig) >= 4
    assert all(queues(rig, each) == ["host\\private$\\orders"] for each in identifiers)
    assert explained(rig, identifiers[0]).facts["not_searched"] == 0
    assert rig.node.next_deadline(rig.now) is None


def test_what_comes_and_goes_meanwhile_is_right_at_every_moment(rig: Rig) -> None:
    identifiers = sent(rig, 3 * INDEX_PART)
    rig.stop()
    rig.advance(0)
    taken = rig.message(rig.receive())
    assert taken.identifier == identifiers[0]
    fresh = rig.message(rig.send("fresh"))
    assert queues(rig, fresh.identifier) == ["host\\private$\\orders"]
    build(rig)
    assert queues(rig, identifiers[0]) == []
    assert [queues(rig, each) for each in identifiers[1:]] == [["host\\private$\\orders"]] * (len(identifiers) - 1)


def test_a_queue_that_is_purged_or_deleted_meanwhile_holds_nothing_up(rig: Rig) -> None:
    rig.create("other")
    sent(rig, 2 * INDEX_PART)
    (gone, *_) = sent(rig, 2 * INDEX_PART, "other")
    rig.stop()
    rig.done(rig.purge())
    rig.delete("other")
    build(rig)
    assert queues(rig, gone) == []


def test_every_kind_of_queue_is_searched(rig: Rig) -> None:
    rig.create("kept", journaling=True)
    rig.create("ledger", transactional=True)
    plain = rig.message(rig.send("plain"))
    express = rig.message(rig.send(letter("fast", delivery_guarantee=EXPRESS)))
    far = rig.message(rig.send("far", FAR))
    journaled = rig.message(rig.send("journaled", "kept"))
    rig.done(rig.receive("kept"))
    dead = rig.message(rig.send(letter("dead", time_to_be_received=1, negative_journaling_requested=True)))
    rig.advance(5)
    rig.settle()
    rig.begin()
    held = rig.message(rig.send("held", "ledger", TX))
    locked = rig.message(rig.receive(options=IN_TX))
    assert locked.identifier == plain.identifier
    expected = {
        plain.identifier: "host\\private$\\orders",
        express.identifier: "host\\private$\\orders",
        far.identifier: "DIRECT=OS:far\\PRIVATE$\\orders",
        journaled.identifier: "host\\private$\\kept",
        dead.identifier: "host\\system$;deadletter",
        held.identifier: "host\\private$\\ledger",
    }
    assert {each: queues(rig, each) for each in expected} == {each: [name] for each, name in expected.items()}
    assert "Its copy is in the journal of" in explained(rig, journaled.identifier).sentences[0]
    rig.stop()
    build(rig)
    lost = {express.identifier, held.identifier}
    after = {each: [] if each in lost else [name] for each, name in expected.items()}
    assert {each: queues(rig, each) for each in expected} == after


def test_a_message_that_cannot_be_read_hides_no_other(rig: Rig) -> None:
    identifiers = sent(rig, 20)
    rig.stop()
    victim = next(iter(rig.node.manager.find_queue(direct("orders")).positions))  # type: ignore[union-attr]
    get = rig.node.messages.get

    def damaged(queue: int, lookup_id: int) -> Message:
        if lookup_id == victim:
            raise StoreDamaged("a bit has flipped")
        return get(queue, lookup_id)

    with (
        patch.object(type(rig.node.messages), "records", side_effect=StoreDamaged("a bit has flipped")),
        patch.object(type(rig.node.messages), "get", side_effect=damaged),
    ):
        build(rig)
    assert rig.node.index.unreadable == 1
    assert "1 message in the store could not be read" in " ".join(explained(rig, identifiers[0]).sentences)
    assert [len(queues(rig, each)) for each in identifiers[1:]] == [1] * 19


def test_another_identifier_with_the_same_tag_is_not_the_message(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    foreign = MessageIdentifier(b"\x09" * 16, 1)
    with patch.object(message_index, "tag_of_identifier", lambda _: hash(message.identifier.encode())):
        assert explained(rig, foreign).facts["found"] is False


def test_very_many_messages_with_one_identifier_are_counted_and_not_all_shown(rig: Rig) -> None:
    message = rig.message(rig.send("a"))
    queue = rig.node.manager.find_queue(direct("orders"))
    assert queue is not None
    with rig.node.kernel.operation(rig.now):
        again = letter("b", identifier=message.identifier, sent_time=int(rig.now.wall))
        for _ in range(150):
            rig.node.manager.writing.enqueue_message(queue, again, None, rig.now)
    told = explained(rig, message.identifier)
    assert len(told.facts["places"]) == 100  # type: ignore[arg-type]
    assert "51 more messages with this identifier are not shown." in told.sentences


def test_whoever_waits_is_served_when_the_last_message_is_known_or_the_time_is_over(rig: Rig) -> None:
    sent(rig, (INDEX_PARTS_AWAITED + 2) * INDEX_PART)
    rig.stop()
    served: list[tuple[str, int]] = []
    index = rig.node.index

    def note(name: str) -> None:
        index.when_complete(lambda _: served.append((name, index.unknown)), rig.now, 0.5 if name == "short" else 10)

    note("short")
    rig.node.tick(Now(rig.now.monotonic + 0.6, rig.now.wall))
    assert [name for name, _ in served] == ["short"]
    assert served[0][1] > 0
    note("long")
    assert rig.node.next_deadline(rig.now) == rig.now.monotonic
    build(rig)
    assert served[1:] == [("long", 0)]
    note("late")
    assert served[2:] == [("late", 0)]


def test_a_node_without_messages_has_nothing_to_do(rig: Rig) -> None:
    rig.stop()
    assert rig.node.index.is_complete
    assert rig.node.next_deadline(rig.now) is None


def test_large_messages_are_read_in_small_parts(rig: Rig) -> None:
    rig.done(rig.send_many([bytes(400_000)] * 12))
    rig.stop()
    assert build(rig) >= 4
    assert rig.node.index.unreadable == 0


def test_positions_of_the_store_are_tagged_like_those_that_arrive(rig: Rig) -> None:
    sent(rig, 50)
    before = tags(rig.node)
    rig.stop()
    assert tags(rig.node) == [0] * 50
    build(rig)
    assert tags(rig.node) == before
    assert rig.store.keys(Table.MESSAGES, limit=1)


def tags(node: Node) -> list[int]:
    queue = node.manager.find_queue(direct("orders"))
    assert queue is not None
    untagged = set(queue.positions.untagged(START, 1_000_000))
    found = []
    for lookup_id in queue.positions:
        message = node.messages.get(queue.number, lookup_id)
        tag = hash(message.identifier.encode())
        found.append(0 if lookup_id in untagged else tag if lookup_id in queue.positions.tagged(tag) else -1)
    return found
