"""The checks of the crash test find what they are there to find."""

import json
from typing import Any

import pytest

from tests.crash.bodies import compose, parse
from tests.crash.checks import Checks, Register
from tests.crash.history import History
from tests.crash.inventory import JOURNAL, SOURCE_JOURNAL
from tests.crash.order import Passage, passed_over

QUEUES = ("plain", "jobs", "scratch", "a", "b", "c", JOURNAL, SOURCE_JOURNAL)


class Story:
    """One process after the other, and what is found in the end."""

    def __init__(self) -> None:
        self.history = History()
        self.found: dict[str, list[list[Any]]] = {name: [] for name in QUEUES}
        self.round = 1

    def tell(self, **line: object) -> None:
        self.history.read(json.dumps(line), self.round)

    def send(self, operation: str, queue: str, *names: str, **what: Any) -> None:
        """An operation that is acknowledged unless the process is killed in it."""
        aborts, ends = what.get("aborts", False), what.get("ends", True)
        sends = [
            [queue, name, what.get("priority", 0), what.get("express", False), what.get("journal", False)]
            for name in names
        ]
        self.tell(begin=operation, sends=sends, aborts=aborts)
        if ends:
            self.tell(end=operation)

    def receive(self, operation: str, queue: str, *names: str, ends: bool = True) -> None:
        self.tell(begin=operation, reads=[queue, 1])
        if ends:
            self.tell(end=operation, took=[queue, *names])

    def take(self, operation: str, queue: str, *names: str, **what: Any) -> None:
        """In a transaction, which may send something to b."""
        self.tell(begin=operation)
        sends = [["b", name, 0, False, False] for name in what.get("sends", ())]
        self.tell(took=[queue, *names], operation=operation, aborts=what.get("aborts", False), sends=sends)
        if what.get("ends", True):
            self.tell(end=operation)

    def purge(self, operation: str, *, ends: bool = True) -> None:
        self.tell(begin=operation, purges="scratch")
        if ends:
            self.tell(end=operation)

    def kill(self) -> None:
        self.history.end_of_round(self.round)
        self.round += 1

    def find(self, queue: str, *names: str) -> None:
        self.found[queue] += [[name, "-", f"id of {name}", number, 0] for number, name in enumerate(names)]

    def problems(self) -> list[str]:
        self.kill()
        return list(Checks(self.history, self.found).problems())


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_story_without_a_fault_is_fine(story: Story) -> None:
    story.send("s1", "plain", "m1", "m2", journal=True)
    story.receive("r1", "plain", "m1")
    story.send("s2", "a", "m3", "m4")
    story.take("t1", "a", "m3", sends=["m5"])
    story.send("s3", "a", "m6", aborts=True)
    story.send("s4", "plain", "m7", express=True)
    story.find("plain", "m2")
    story.find("a", "m4")
    story.find("b", "m5")
    story.find(JOURNAL, "m1")
    story.find(SOURCE_JOURNAL, "m1", "m2")
    assert story.problems() == []


def test_a_lost_message_is_found(story: Story) -> None:
    story.send("s1", "jobs", "m1")
    assert story.problems() == ["jobs has lost messages: ['m1']"]


def test_a_receive_in_flight_may_have_taken_one_message(story: Story) -> None:
    story.send("s1", "jobs", "m1", "m2")
    story.receive("r1", "jobs", ends=False)
    story.find("jobs", "m2")
    assert story.problems() == []


def test_a_receive_in_flight_explains_no_second_message(story: Story) -> None:
    story.send("s1", "jobs", "m1", "m2")
    story.receive("r1", "jobs", ends=False)
    assert story.problems() == ["jobs has lost messages: ['m1', 'm2']"]


def test_what_a_receive_in_flight_took_from_a_journaled_queue_is_in_the_journal(story: Story) -> None:
    story.send("s1", "plain", "m1")
    story.receive("r1", "plain", ends=False)
    assert story.problems() == ["plain has lost messages: ['m1']"]


def test_a_message_that_is_received_twice_is_found(story: Story) -> None:
    story.send("s1", "jobs", "m1")
    story.receive("r1", "jobs", "m1")
    story.receive("r2", "jobs", "m1")
    assert story.problems() == ["m1 was received 2 times", "r1 happened, and what it had taken came back: ['m1']"]


def test_a_received_message_that_is_still_there_is_found(story: Story) -> None:
    story.send("s1", "c", "m1")
    story.take("t1", "c", "m1")
    story.find("c", "m1")
    assert "m1 was received 2 times" in story.problems()


def test_a_message_of_an_aborted_transaction_is_found(story: Story) -> None:
    story.send("s1", "a", "m1", aborts=True)
    story.find("a", "m1")
    assert story.problems() == ["s1 did not happen, and what it sent was seen: ['m1']"]


def test_half_a_transaction_in_flight_is_found(story: Story) -> None:
    story.send("s1", "a", "m1", "m2", ends=False)
    story.find("a", "m1")
    assert story.problems() == ["a has lost messages: ['m2']"]


@pytest.mark.parametrize("names", [(), ("m1", "m2")])
def test_a_transaction_in_flight_happened_whole_or_not_at_all(story: Story, names: tuple[str, ...]) -> None:
    story.send("s1", "a", "m1", "m2", ends=False)
    story.find("a", *names)
    assert story.problems() == []


def test_a_move_in_flight_that_took_and_did_not_send_is_found(story: Story) -> None:
    story.send("s1", "a", "m1")
    story.take("t1", "a", "m1", sends=["m2"], ends=False)
    assert "t1 did not happen, and what it had taken is gone: ['m1']" in story.problems()


def test_a_move_in_flight_that_sent_and_did_not_take_is_found(story: Story) -> None:
    story.send("s1", "a", "m1")
    story.take("t1", "a", "m1", sends=["m2"], ends=False)
    story.find("a", "m1")
    story.find("b", "m2")
    assert story.problems() == ["t1 happened, and what it had taken came back: ['m1']"]


def test_what_an_aborted_transaction_took_must_come_back(story: Story) -> None:
    story.send("s1", "c", "m1")
    story.take("t1", "c", "m1", aborts=True)
    assert story.problems() == ["c has lost messages: ['m1']"]


def test_half_of_what_a_transaction_in_flight_took_is_found(story: Story) -> None:
    story.send("s1", "c", "m1", "m2")
    story.take("t1", "c", "m1", "m2", ends=False)
    story.find("c", "m2")
    assert story.problems() == ["t1 happened, and what it had taken came back: ['m2']"]


def test_an_express_message_that_survives_is_found(story: Story) -> None:
    story.send("s1", "jobs", "m1", express=True)
    story.kill()
    story.receive("r1", "jobs", "m1")
    assert story.problems() == ["m1 is an express message and survived its process"]


def test_a_missing_journal_copy_is_found(story: Story) -> None:
    story.send("s1", "plain", "m1")
    story.receive("r1", "plain", "m1")
    assert story.problems() == ["m1 was received, and the journal has no copy"]


def test_a_journal_copy_of_what_was_not_received_is_found(story: Story) -> None:
    story.send("s1", "plain", "m1")
    story.find("plain", "m1")
    story.find(JOURNAL, "m1")
    assert story.problems() == ["m1 is in its queue, and yet in the journal"]


def test_a_missing_copy_of_the_sender_is_found(story: Story) -> None:
    story.send("s1", "jobs", "m1", journal=True)
    story.find("jobs", "m1")
    assert story.problems() == ["system$;journal has 0 copies of m1 instead of 1"]


def test_a_message_that_survives_a_purge_is_found(story: Story) -> None:
    story.send("s1", "scratch", "m1")
    story.purge("p1")
    story.find("scratch", "m1")
    assert story.problems() == ["m1 was sent before p1 purged its queue, and is still there"]


def test_a_purge_takes_nothing_that_was_sent_after_it(story: Story) -> None:
    story.purge("p1")
    story.send("s1", "scratch", "m1")
    assert story.problems() == ["scratch has lost messages: ['m1']"]


def test_a_purge_in_flight_may_have_done_a_part(story: Story) -> None:
    story.send("s1", "scratch", "m1", "m2")
    story.purge("p1", ends=False)
    story.find("scratch", "m2")
    assert story.problems() == []


def test_a_message_in_the_wrong_place_is_found(story: Story) -> None:
    story.send("s1", "jobs", "m1")
    story.send("s2", "jobs", "m2")
    story.find("jobs", "m2", "m1")
    assert story.problems() == ["jobs: m2 was received before m1, which is ahead of it"]


def test_messages_of_one_transaction_in_the_wrong_order_are_found(story: Story) -> None:
    story.send("s1", "a", "m1", "m2")
    story.find("a", "m2", "m1")
    assert story.problems() == ["a: the messages of s1 are not in the order in which they were sent"]


def test_a_message_from_before_the_last_inventory_is_found(story: Story) -> None:
    story.find("a", "m1")
    assert story.problems() == ["messages that were received long ago: ['m1']"]


def test_an_error_in_a_thread_is_found(story: Story) -> None:
    story.tell(error="it broke")
    assert story.problems() == ["a thread failed:\nit broke"]


def test_identifiers_that_are_given_twice_are_found(story: Story) -> None:
    story.send("s1", "jobs", "m1")
    story.tell(end="s1", ids=[["m1", "id", 1 << 56 | 7]])
    story.send("s2", "jobs", "m2")
    story.tell(end="s2", ids=[["m2", "id", 2 << 56 | 7]])
    assert len(list(Register().problems(story.history, story.found))) == 2


def test_an_identifier_stays_with_its_message(story: Story) -> None:
    story.send("s1", "jobs", "m1")
    story.tell(end="s1", ids=[["m1", "id of m1", 0]])
    story.find("jobs", "m1")
    assert list(Register().problems(story.history, story.found)) == []


def test_a_message_of_higher_priority_is_not_passed_over() -> None:
    low = Passage("low", 1, send_begun=1, send_ended=2, take_begun=5, take_ended=6)
    high = Passage("high", 2, send_begun=3, send_ended=4, take_begun=7, take_ended=8)
    assert passed_over([low, high]) == [("high", "low")]


def test_sends_and_receives_that_overlap_are_in_no_order() -> None:
    first = Passage("first", 1, send_begun=1, send_ended=3, take_begun=5, take_ended=7)
    second = Passage("second", 1, send_begun=2, send_ended=4, take_begun=6, take_ended=8)
    assert passed_over([first, second]) == []
    assert passed_over([second, first]) == []


def test_a_damaged_body_is_found() -> None:
    body = compose("1.2.3/4", "-", 200)
    assert parse(body) == ("1.2.3/4", "-", 200)
    with pytest.raises(ValueError, match="damaged"):
        parse(body[:-1])
