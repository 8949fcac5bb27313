"""`waypost message ...`."""

from pathlib import Path

import pytest

import waypost
from tests.cli import desk as _desk
from tests.cli.desk import Desk
from waypost.wire.message_class import MessageClass

desk = _desk.desk

DEAD = "system$;deadletter"


@pytest.fixture(autouse=True)
def orders(desk: Desk) -> waypost.Queue:
    return desk.manager.create_queue("orders")


def bodies(queue: waypost.Queue) -> list[str]:
    return [message.text for message in queue.browse()]


def test_a_message_is_moved_by_its_lookup_id_or_its_id(desk: Desk, orders: waypost.Queue) -> None:
    sent = orders.send("a")
    desk.do("message", "move", "orders", str(sent.lookup_id), "orders;retry")
    assert bodies(orders.subqueue("retry")) == ["a"]
    desk.do("message", "move", "orders;retry", sent.id, "orders")
    assert bodies(orders) == ["a"]


def test_messages_are_deleted(desk: Desk, orders: waypost.Queue) -> None:
    first, second, _ = (orders.send(text) for text in "abc")
    result = desk.run("message", "delete", "orders", first.id, str(second.lookup_id))
    assert (result.exit_code, result.stdout) == (0, "")
    assert bodies(orders) == ["c"]


@pytest.mark.parametrize("name", ["{00000000-0000-0000-0000-000000000001}\\1", "12", "nonsense"])
def test_a_message_that_is_not_there_is_refused(desk: Desk, name: str) -> None:
    result = desk.run("message", "delete", "orders", name)
    assert result.exit_code == 1
    assert "hint: " in result.stderr


def test_what_is_exported_can_be_decoded(desk: Desk, orders: waypost.Queue, tmp_path: Path) -> None:
    sent = [orders.send("a", label="first"), orders.send("b")]
    file = str(tmp_path / "packets")
    assert "2 messages written" in desk.run("message", "export", "orders", file).stderr
    decoded = desk.do("decode", file, "--brief")
    assert len(decoded.splitlines()) == 2
    assert orders.info().message_count == len(sent)


def test_chosen_messages_are_exported_to_standard_output(desk: Desk, orders: waypost.Queue) -> None:
    orders.send("a")
    chosen = orders.send("b")
    result = desk.run("message", "export", "orders", "-", chosen.id)
    assert result.stdout_bytes == orders.peek(lookup_id=chosen.lookup_id).packet


def test_what_was_exported_is_sent_again_with_all_that_belongs_to_it(
    desk: Desk, orders: waypost.Queue, tmp_path: Path
) -> None:
    properties = {"label": "first", "priority": 6, "app_tag": 7, "extension": b"e", "journal": True, "body_type": 0}
    orders.send(b"\x01\x02", acknowledge="neg-receive", admin_queue="acks", response_queue="answers", **properties)  # type: ignore[arg-type]
    file = str(tmp_path / "packets")
    desk.do("message", "export", "orders", file)
    desk.manager.create_queue("copies")
    (identifier,) = desk.do("message", "import", "copies", file).split()
    original, copy = orders.peek(0), desk.manager.queue("copies").peek(0)
    assert copy.id == identifier != original.id
    for name in ("body", "body_type", "label", "priority", "app_tag", "extension", "journal", "acknowledge"):
        assert getattr(copy, name) == getattr(original, name), name
    assert (copy.admin_queue, copy.response_queue) == (original.admin_queue, original.response_queue)
    assert copy.destination_queue == "DIRECT=OS:HOST\\PRIVATE$\\copies"


def test_an_import_into_a_transactional_queue_is_one_transaction(
    desk: Desk, orders: waypost.Queue, tmp_path: Path
) -> None:
    orders.send("a")
    orders.send("b")
    file = str(tmp_path / "packets")
    desk.do("message", "export", "orders", file)
    ledger = desk.manager.create_queue("ledger", transactional=True)
    desk.do("message", "import", "ledger", file)
    first, last = ledger.browse()
    assert first.first_in_transaction
    assert last.last_in_transaction


@pytest.mark.parametrize("data", [b"no packet at all", bytes(40), b""])
def test_a_file_without_packets_is_refused(desk: Desk, tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "packets"
    file.write_bytes(data)
    result = desk.run("message", "import", "orders", str(file))
    assert result.exit_code == (1 if data else 0)
    if data:
        assert f"{file} contains data that is not a message" in result.stderr
        assert f"hint: `waypost decode {file}` shows its content." in result.stderr


def test_a_packet_that_is_cut_short_is_refused(desk: Desk, orders: waypost.Queue, tmp_path: Path) -> None:
    packet = orders.send("a").packet
    file = tmp_path / "packets"
    file.write_bytes(packet + packet[:-4])
    result = desk.run("message", "import", "orders", str(file))
    assert result.exit_code == 1
    assert "the last packet is incomplete" in result.stderr
    assert orders.info().message_count == 1


def expired(desk: Desk, orders: waypost.Queue) -> waypost.Message:
    """A dead-letter message, because nobody received it in time."""
    orders.send("late", label="letter", app_tag=5, dead_letter=True, time_to_be_received=0)
    return desk.manager.queue(DEAD).peek(10)


def test_a_dead_letter_is_sent_again_and_gone(desk: Desk, orders: waypost.Queue) -> None:
    letter = expired(desk, orders)
    assert letter.message_class == MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT
    (identifier,) = desk.do("message", "resend", DEAD).split()
    again = orders.peek(0)
    assert again.id == identifier != letter.id
    assert (again.text, again.label, again.app_tag, again.message_class) == ("late", "letter", 5, 0)
    assert again.time_to_be_received is None
    assert bodies(desk.manager.queue(DEAD)) == []


def test_a_dead_letter_that_cannot_be_sent_stays(desk: Desk, orders: waypost.Queue) -> None:
    letter = expired(desk, orders)
    result = desk.run("message", "resend", DEAD, str(letter.lookup_id), "--to", "nothing")
    assert result.exit_code == 1
    assert bodies(desk.manager.queue(DEAD)) == ["late"]


def test_a_dead_letter_goes_somewhere_else(desk: Desk, orders: waypost.Queue) -> None:
    letter = expired(desk, orders)
    others = desk.manager.create_queue("others")
    (identifier,) = desk.do("message", "resend", DEAD, letter.id, "--to", "others").split()
    assert bodies(others) == ["late"]
    assert others.peek(0).id == identifier
    assert bodies(desk.manager.queue(DEAD)) == []


def test_a_message_is_not_sent_again_to_a_queue_of_the_other_kind(desk: Desk, orders: waypost.Queue) -> None:
    orders.send("plain")
    ledger = desk.manager.create_queue("ledger", transactional=True)
    with desk.manager.transaction() as transaction:
        ledger.send("booked", transaction=transaction)
    for source, target, sentence in (
        ("orders", "ledger", "ledger is transactional, but the message was not sent in a transaction."),
        ("ledger", "orders", "orders is not transactional, but the message was sent in a transaction."),
    ):
        result = desk.run("message", "resend", source, "--to", target)
        assert result.exit_code == 1
        assert sentence in result.stderr
        assert "hint: receive the message and send it" in result.stderr
    assert (bodies(orders), bodies(ledger)) == (["plain"], ["booked"])


def test_a_message_is_not_moved_to_a_queue_that_is_not_related(desk: Desk, orders: waypost.Queue) -> None:
    """MS-MQRR 3.1.4.10."""
    desk.manager.create_queue("others")
    desk.manager.create_queue("ledger", transactional=True)
    sent = orders.send("a")
    for target in ("others", "others;retry", "ledger", "orders"):
        result = desk.run("message", "move", "orders", sent.id, target)
        assert result.exit_code == 1, target
        assert "are neither a queue and its subqueue" in result.stderr
        assert "hint: `waypost message resend NAME MESSAGE --to QUEUE` receives a message" in result.stderr
    assert bodies(orders) == ["a"]
    desk.do("message", "resend", "orders", sent.id, "--to", "others")
    assert (bodies(orders), bodies(desk.manager.queue("others"))) == ([], ["a"])


def test_a_transactional_dead_letter_is_sent_in_a_transaction(desk: Desk) -> None:
    ledger = desk.manager.create_queue("ledger", transactional=True)
    with desk.manager.transaction() as transaction:
        ledger.send("late", dead_letter=True, time_to_be_received=0, transaction=transaction)
    dead = desk.manager.queue("system$;deadxact")
    dead.peek(10)
    desk.do("message", "resend", "system$;deadxact")
    (again,) = ledger.browse()
    assert again.transactional
    assert bodies(dead) == []
