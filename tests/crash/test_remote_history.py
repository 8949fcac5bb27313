"""The checks of the remote campaign find what they are for."""

from typing import Any

from tests.crash.remote_history import RemoteHistory


def history(*consumers: list[dict[str, Any]]) -> RemoteHistory:
    """One message, m, was sent to the queue orders."""
    found = RemoteHistory()
    found.sent["orders"].add("m")
    for lines in consumers:
        found.read(repr(line).replace("'", '"').replace("True", "true").replace("False", "false") for line in lines)
    return found


def read(name: str, begun: int, at: int, end: int | None = None, **ending: bool) -> list[dict[str, Any]]:
    """`ending` has received=True or False, and ended=True if the daemon has confirmed it."""
    lines: list[dict[str, Any]] = [{"took": name, "queue": "orders", "message": "m", "begun": begun, "at": at}]
    if end is not None:
        lines.append({"ending": name, "received": ending["received"], "at": end})
    if ending.get("ended"):
        lines.append({"ended": name})
    return lines


def problems(*consumers: list[dict[str, Any]]) -> list[str]:
    return list(history(*consumers).problems())


def test_a_message_that_was_read_given_back_cut_off_and_received_is_in_order() -> None:
    found = history(
        read("a", 0, 10, 20, received=False, ended=True),
        read("b", 15, 30),
        read("c", 40, 50, 60, received=True, ended=True),
    )
    assert list(found.problems()) == []
    assert (found.counts["received"], found.counts["given back"], found.counts["cut off"]) == (1, 1, 1)


def test_a_message_that_nobody_received_is_lost() -> None:
    assert problems() == ["orders: m is lost; it was read by []"]
    assert problems(read("a", 0, 10)) == ["orders: m is lost; it was read by ['a']"]
    assert problems(read("a", 0, 10, 20, received=False, ended=True))


def test_a_message_whose_reader_was_killed_before_the_answer_may_be_gone_or_come_again() -> None:
    doubtful = read("a", 0, 10, 20, received=True)
    assert problems(doubtful) == []
    assert problems(doubtful, read("b", 30, 40, 50, received=True, ended=True)) == []


def test_a_message_that_comes_again_after_it_was_received_is_found() -> None:
    received = read("a", 0, 10, 20, received=True, ended=True)
    assert problems(received, read("b", 30, 40)) == ["orders: m was received by a and came again to b"]
    # One that had it before, and told so late.
    assert problems(received, read("b", 5, 40)) == []
    again = problems(received, read("b", 5, 40, 50, received=True, ended=True))
    assert again == ["orders: m was received by ['a', 'b']"]


def test_a_message_that_two_have_at_the_same_time_is_found() -> None:
    holder = read("a", 0, 10, 100, received=False, ended=True)
    receiver = read("c", 110, 120, 130, received=True, ended=True)
    assert problems(holder, read("b", 20, 30), receiver) == ["orders: m was with a and with b at the same time"]
    assert problems(holder, read("b", 20, 105), receiver) == []


def test_two_exclusive_readers_at_the_same_time_are_found() -> None:
    received = read("a", 0, 10, 20, received=True, ended=True)
    first = [{"alone": "x", "at": 0}, {"still": "x", "at": 50}]
    second = [{"alone": "y", "at": 40}]
    assert problems(received, first, second) == ["x and y had a queue for themselves at the same time"]
    assert problems(received, first, [{"alone": "y", "at": 60}]) == []


def test_what_was_never_sent_and_a_consumer_that_failed_are_told() -> None:
    received = read("a", 0, 10, 20, received=True, ended=True)
    stranger = [{"took": "b", "queue": "orders", "message": "n", "begun": 0, "at": 1}]
    assert problems(received, stranger, [{"error": "oh"}]) == [
        "a consumer failed:\noh", "orders: n was never sent there",
    ]  # fmt: skip
