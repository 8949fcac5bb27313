"""Commands that delete messages or send them again say how many, and ask on a terminal."""

import pytest

from tests.cli import desk as _desk
from tests.cli.desk import Desk

desk = _desk.desk


@pytest.fixture(autouse=True)
def orders(desk: Desk) -> None:
    queue = desk.manager.create_queue("orders")
    for text in "abc":
        queue.send(text)


@pytest.fixture
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.cli.asking.is_asked", lambda: True)


def count(desk: Desk) -> int:
    return desk.manager.queue("orders").info().message_count


PURGE = ["queue", "purge", "orders"]
DELETE = ["queue", "delete", "orders"]
RESEND = ["message", "resend", "orders"]


def delete_one(desk: Desk) -> list[str]:
    return ["message", "delete", "orders", str(desk.manager.queue("orders").peek(0).lookup_id)]


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize(
    ("line", "question"),
    [
        (PURGE, "Delete 3 messages of orders? [y/N]: "),
        (DELETE, "Delete orders with 3 messages? [y/N]: "),
        (RESEND, "Send 3 messages of orders again? [y/N]: "),
        ([], "Delete 1 message of orders? [y/N]: "),
    ],
)
def test_a_terminal_is_asked_and_no_leaves_everything(desk: Desk, line: list[str], question: str) -> None:
    before = [message.id for message in desk.manager.queue("orders").browse()]
    for answer in (b"n\n", b"\n", b"", b"what\n"):
        result = desk.run(*(line or delete_one(desk)), given=answer)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"{question}Nothing was changed.\nhint: answer y to the prompt, or add --yes.\n"
    assert [message.id for message in desk.manager.queue("orders").browse()] == before


@pytest.mark.usefixtures("_terminal")
def test_yes_is_an_answer_and_an_option(desk: Desk) -> None:
    result = desk.run(*RESEND, given=b"y\n")
    assert (result.exit_code, count(desk)) == (0, 3)
    assert result.stderr.endswith("3 messages of orders sent again.\n")
    assert desk.run(*RESEND, "--yes").exit_code == 0
    assert desk.run(*delete_one(desk), "--yes").stderr == "1 message of orders deleted.\n"
    assert desk.run(*PURGE, given=b"yes\n").exit_code == 0
    assert count(desk) == 0
    assert desk.run(*DELETE, "-y").stderr == "orders was deleted with 0 messages.\n"


@pytest.mark.usefixtures("_terminal")
def test_messages_that_are_named_are_sent_again_without_a_question(desk: Desk) -> None:
    first = str(desk.manager.queue("orders").peek(0).lookup_id)
    assert desk.run(*RESEND, first).stderr == "1 message of orders sent again.\n"


@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_without_a_terminal_nothing_is_asked(desk: Desk, yes: list[str]) -> None:
    assert desk.run(*RESEND, *yes).stderr == "3 messages of orders sent again.\n"
    assert desk.run(*PURGE, *yes).stderr == "3 messages of orders deleted.\n"
    assert desk.run(*DELETE, *yes).stderr == "orders was deleted with 0 messages.\n"


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (PURGE, "3 messages of orders would be deleted.\n"),
        (DELETE, "orders with 3 messages would be deleted.\n"),
        (RESEND, "3 messages of orders would be sent again.\n"),
        (["queue", "move", "orders", "orders;later"], "3 messages would be moved to orders;later.\n"),
        ([], "1 message of orders would be deleted.\n"),
    ],
)
def test_a_dry_run_counts_and_changes_nothing(desk: Desk, line: list[str], sentence: str) -> None:
    result = desk.run(*(line or delete_one(desk)), "--dry-run")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", sentence)
    assert count(desk) == 3


def test_json_has_the_count(desk: Desk) -> None:
    name = "DIRECT=OS:HOST\\PRIVATE$\\orders"
    assert desk.json(*PURGE, "--dry-run") == {"format_name": name, "message_count": 3}
    assert desk.json(*RESEND, "--dry-run") == []
    assert desk.json(*PURGE) == {"format_name": name, "message_count": 3}
    assert desk.json(*DELETE) == {"format_name": name, "message_count": 0}


def test_a_queue_is_deleted_with_what_is_in_its_subqueues_and_its_journal(desk: Desk) -> None:
    queue = desk.manager.queue("orders")
    queue.set(journal=True)
    queue.receive(0)
    queue.move(queue.peek(0), "orders;later")
    assert desk.run(*DELETE).stderr == "orders was deleted with 3 messages.\n"
