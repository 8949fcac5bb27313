"""The checks of the campaign with several daemons find what they are there to find."""

import json
from itertools import count

import pytest

from tests.crash.transfer_history import TransferHistory

ORDERS = "transactional beta orders"
PLAIN = "recoverable beta plain"
QUICK = "express beta quick"


class Story:
    """Reports of the applications. A place in a queue is a number that its message keeps."""

    def __init__(self) -> None:
        self.history = TransferHistory()
        self._numbers = count(1)
        self._places: dict[str, int] = {}

    def send(self, outcome: str, *names: str, to: str = ORDERS) -> None:
        operation = f"send{next(self._numbers)}"
        self._tell(begin=operation, sends=[[to, name] for name in names])
        self._tell(end=operation, outcome=outcome)

    def receive(self, outcome: str, *names: str, at: str = ORDERS) -> None:
        operation = f"read{next(self._numbers)}"
        took = [[name, self._places.setdefault(name, next(self._numbers))] for name in names]
        self._tell(begin=operation, reads=at, took=took)
        self._tell(end=operation, outcome=outcome)

    def comes_anew(self, name: str) -> None:
        """The same message is put into its queue a second time."""
        del self._places[name]

    def _tell(self, **line: object) -> None:
        self.history.read([json.dumps(line)])

    @property
    def problems(self) -> str:
        return "\n".join(self.history.problems())


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_good_story_has_no_problems(story: Story) -> None:
    story.send("done", "a/1", "a/2")
    story.send("undone", "a/3")
    story.send("open", "a/4", "a/5")
    story.send("open", "a/6")
    story.receive("undone", "a/1")
    story.receive("open", "a/1", "a/2")
    story.receive("done", "a/1", "a/2")
    story.receive("open", "a/4", "a/5")
    assert story.problems == ""
    assert story.history.counts["transactional arrived"] == 4


def test_a_message_that_is_lost_is_found(story: Story) -> None:
    story.send("done", "a/1")
    story.send("done", "b/1", to=PLAIN)
    assert "a/1 of send1 is lost" in story.problems
    assert "b/1 of send2 is lost" in story.problems


def test_a_transactional_message_that_comes_twice_is_found_and_a_recoverable_one_is_counted(story: Story) -> None:
    story.send("done", "a/1")
    story.send("done", "b/1", to=PLAIN)
    for name, queue in (("a/1", ORDERS), ("b/1", PLAIN)):
        story.receive("done", name, at=queue)
        story.comes_anew(name)
        story.receive("done", name, at=queue)
    assert story.problems == f"{ORDERS}: a/1 came 2 times"
    assert story.history.counts["recoverable again"] == 1


def test_a_receive_that_is_undone_by_a_kill_is_found(story: Story) -> None:
    story.send("done", "b/1", to=PLAIN)
    story.receive("done", "b/1", at=PLAIN)
    story.receive("done", "b/1", at=PLAIN)
    assert "messages that it took came again: ['b/1']" in story.problems


def test_a_message_that_an_aborted_receive_swallows_is_found(story: Story) -> None:
    story.send("done", "a/1")
    story.receive("undone", "a/1")
    assert "read2 was aborted, and only [] of" in story.problems
    assert "a/1 of send1 is lost" in story.problems


def test_a_message_of_an_aborted_transaction_is_found(story: Story) -> None:
    story.send("undone", "a/1")
    story.receive("done", "a/1")
    assert "a/1 came, but send1 was aborted" in story.problems


def test_half_of_a_transaction_is_found(story: Story) -> None:
    story.send("open", "a/1", "a/2")
    story.receive("done", "a/2")
    assert "only a part of it came" in story.problems


def test_the_wrong_order_is_found(story: Story) -> None:
    story.send("done", "a/1", "a/2")
    story.receive("done", "a/2", "a/1")
    assert story.problems == f"{ORDERS}: a/1 came after a/2"


def test_a_message_from_nowhere_is_found(story: Story) -> None:
    story.receive("done", "a/1")
    assert "messages that nobody sent there: ['a/1']" in story.problems


def test_an_express_message_may_be_lost(story: Story) -> None:
    story.send("done", "c/1", to=QUICK)
    assert story.problems == ""
    assert story.history.counts["express lost"] == 1
