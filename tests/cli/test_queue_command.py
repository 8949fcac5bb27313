"""`waypost queue ...` as an operator uses it."""

import pytest

from tests.cli import desk as _desk
from tests.cli.desk import Desk

desk = _desk.desk

FAR = "DIRECT=OS:far\\PRIVATE$\\orders"


def test_a_queue_is_made_and_its_format_name_is_printed(desk: Desk) -> None:
    assert desk.do("queue", "create", "orders") == "DIRECT=OS:HOST\\PRIVATE$\\orders\n"
    assert desk.manager.queue("orders").info().message_count == 0


def test_a_queue_is_made_with_everything_that_can_be_said_of_it(desk: Desk) -> None:
    arguments = ["--transactional", "--journal", "--quota-kb", "10", "--journal-quota-kb", "20", "--authenticate"]
    made = desk.json(*["queue", "create", "ledger"], *arguments, "--privacy", "body", "--label", "The ledger")
    assert (made["transactional"], made["journal"], made["authenticate"], made["privacy"]) == (True, True, True, "body")
    assert (made["quota_kb"], made["journal_quota_kb"], made["label"]) == (10, 20, "The ledger")
    assert made["private_format_name"].startswith("PRIVATE=")


def test_what_changes_nothing_is_noted(desk: Desk) -> None:
    result = desk.run("queue", "create", "orders", "--base-priority", "5")
    assert result.exit_code == 0
    assert result.stderr == (
        "note: `base_priority` has no effect, because it is always 0 for a private queue (MS-MQMQ 2.3.1.6).\n"
    )


def test_properties_of_a_queue_are_changed_and_the_others_stay(desk: Desk) -> None:
    desk.do("queue", "create", "orders", "--journal", "--quota-kb", "10", "--label", "old")
    changed = desk.json("queue", "set", "orders", "--no-journal", "--quota-kb", "none")
    assert (changed["journal"], changed["quota_kb"], changed["label"]) == (False, None, "old")


def test_queues_are_listed_with_what_waits_for_other_computers(desk: Desk) -> None:
    desk.do("queue", "create", "orders", "--label", "of the shop")
    desk.manager.send("orders", "a")
    desk.manager.send(FAR, "b")
    heading, local, outgoing = desk.do("queue", "list").splitlines()
    assert heading.split() == ["NAME", "KIND", "MESSAGES", "BYTES", "JOURNAL", "TX", "STATE", "AGE", "QUOTA", "LABEL"]
    assert local.split()[:3] == ["orders", "private", "1"]
    assert local.endswith("of the shop")
    assert outgoing.split()[:3] == [FAR, "outgoing", "1"]
    assert [queue["kind"] for queue in desk.json("queue", "list")] == ["private", "outgoing"]


def test_a_list_without_queues_is_empty(desk: Desk) -> None:
    assert desk.do("queue", "list") == ""
    assert desk.json("queue", "list") == []


def test_the_system_queues_are_listed_when_asked_for(desk: Desk) -> None:
    kinds = [(queue["path"], queue["kind"]) for queue in desk.json("queue", "list", "--system")]
    assert ("HOST\\system$;deadletter", "system") in kinds
    assert len(kinds) == 3


def test_everything_about_a_queue_is_shown(desk: Desk) -> None:
    desk.do("queue", "create", "orders")
    lines = dict(line.split(maxsplit=1) for line in desk.do("queue", "show", "orders").splitlines() if " " in line)
    assert lines["path"] == "HOST\\private$\\orders"
    assert lines["transactional"] == "no"
    assert desk.json("queue", "show", "orders")["path"] == "HOST\\private$\\orders"


def test_an_outgoing_queue_is_shown_emptied_and_deleted_by_its_format_name(desk: Desk) -> None:
    desk.manager.send(FAR, "a")
    assert desk.json("queue", "show", FAR.lower().replace("direct", "DIRECT"))["state"] == "inactive"
    desk.do("queue", "purge", FAR, "--outgoing")
    assert desk.json("queue", "show", FAR)["message_count"] == 0


def test_a_queue_is_emptied_and_deleted(desk: Desk) -> None:
    desk.do("queue", "create", "orders")
    desk.manager.send("orders", "a")
    assert desk.do("queue", "purge", "orders") == ""
    assert desk.json("queue", "show", "orders")["message_count"] == 0
    assert "orders was deleted" in desk.run("queue", "delete", "orders").stderr
    assert desk.json("queue", "list") == []


def test_an_outgoing_queue_is_paused_and_resumed(desk: Desk) -> None:
    desk.manager.send(FAR, "a")
    desk.do("queue", "pause", FAR)
    assert desk.json("queue", "show", FAR)["state"] == "on_hold"
    desk.do("queue", "resume", FAR)
    assert desk.json("queue", "show", FAR)["state"] == "inactive"


def test_a_queue_of_this_computer_cannot_be_paused(desk: Desk) -> None:
    desk.do("queue", "create", "orders")
    result = desk.run("queue", "pause", "orders")
    assert result.exit_code == 2
    assert "hint: " in result.stderr


def test_what_is_refused_is_one_sentence_and_a_hint(desk: Desk) -> None:
    desk.do("queue", "create", "orders")
    result = desk.run("queue", "create", "orders")
    assert (result.exit_code, result.stdout) == (1, "")
    sentence, hint = result.stderr.splitlines()
    assert sentence.endswith(".")
    assert hint == "hint: `waypost queue set` changes an existing queue."


def test_a_queue_that_is_not_there_is_refused(desk: Desk) -> None:
    for verb in ("show", "purge", "delete"):
        result = desk.run("queue", verb, "nothing")
        assert result.exit_code == 1
        assert "hint: `waypost queue list` shows the queues" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["queue"],
        ["queue", "create"],
        ["queue", "set", "orders"],
        ["queue", "set", "orders", "--quota-kb", "many"],
        ["queue", "create", "orders", "--privacy", "secret"],
    ],
)
def test_wrong_usage_ends_with_2(desk: Desk, arguments: list[str]) -> None:
    result = desk.run(*arguments)
    assert result.exit_code == 2
    assert "hint: waypost queue" in result.stderr


def test_all_messages_of_a_queue_are_moved_and_counted(desk: Desk) -> None:
    desk.do("queue", "create", "orders")
    for number in range(3):
        desk.manager.send("orders", str(number))
    result = desk.run("queue", "move", "orders", "orders;retry")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "3 messages moved to orders;retry.\n")
    assert [message.text for message in desk.manager.queue("orders;retry").browse()] == ["0", "1", "2"]
    assert desk.json("queue", "move", "orders;retry", "orders") == {"moved": 3}
    assert desk.manager.queue("orders").info().message_count == 3


def test_messages_are_moved_only_between_a_queue_and_its_subqueues(desk: Desk) -> None:
    desk.do("queue", "create", "orders")
    desk.do("queue", "create", "other")
    desk.manager.send("orders", "a")
    result = desk.run("queue", "move", "orders", "other;retry")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "hint: " in result.stderr
    assert desk.manager.queue("orders").info().message_count == 1
