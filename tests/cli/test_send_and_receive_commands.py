"""`waypost send`, `waypost receive` and `waypost peek`."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli import desk as _desk
from tests.cli.desk import Desk
from waypost.cli.send import piped

desk = _desk.desk

KEYS = [
    "id",
    "lookup_id",
    "label",
    "body_base64",
    "body_text",
    "body_type",
    "class",
    "class_name",
    "priority",
    "delivery",
    "transactional",
    "sent_time",
    "arrived_time",
    "source_machine",
    "sender_sid",
    "sender_verified",
    "authenticated",
    "signature",
    "certificate_subject",
    "encrypted",
    "correlation_id",
    "app_tag",
    "admin_queue",
    "response_queue",
    "destination_queue",
    "first_in_transaction",
    "last_in_transaction",
    "abort_count",
    "move_count",
    "size",
    "class_meaning",
    "acknowledge",
    "journal",
    "dead_letter",
    "time_to_reach_queue",
    "time_to_reach_queue_ends",
    "time_to_be_received",
    "time_to_be_received_ends",
    "trace",
    "connector_type",
    "extension_base64",
    "headers",
]


@pytest.fixture(autouse=True)
def queues(desk: Desk) -> None:
    desk.manager.create_queue("orders")
    desk.manager.create_queue("ledger", transactional=True)


def test_a_message_is_sent_and_its_id_printed(desk: Desk) -> None:
    sent = desk.do("send", "orders", "--body", "42 bolts", "--label", "order")
    message = desk.manager.queue("orders").receive(0)
    assert sent == f"{message.id}\n"
    assert (message.text, message.label, message.delivery) == ("42 bolts", "order", "recoverable")


def test_everything_that_can_be_said_of_a_message(desk: Desk, tmp_path: Path) -> None:
    extension = tmp_path / "extension"
    extension.write_bytes(b"\x01\x02")
    arguments = (
        "--express --priority 7 --ttrq 60 --ttbr 120 --ack full-receive --admin-queue acks --response-queue answers "
        f"--journal --dead-letter --app-tag 9 --correlation-id {'ab' * 20} --extension-file {extension} --body-type 0"
    )
    desk.do("send", "orders", "--body", "x", *arguments.split())
    message = desk.manager.queue("orders").receive(0)
    assert (message.delivery, message.priority, message.body, message.body_type) == ("express", 7, b"x", 0)
    assert (message.time_to_reach_queue, message.time_to_be_received) == (60, 120)
    assert (message.acknowledge, message.admin_queue) == ("full-receive", "DIRECT=OS:HOST\\PRIVATE$\\acks")
    assert message.response_queue == "DIRECT=OS:HOST\\PRIVATE$\\answers"
    assert (message.journal, message.dead_letter, message.app_tag, message.extension) == (True, True, 9, b"\x01\x02")
    assert message.correlation_id == "{abababab-abab-abab-abab-abababababab}\\2880154539"


def test_the_body_comes_from_a_file_or_from_standard_input(desk: Desk, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"\x00\xff")
    desk.do("send", "orders", "--body-file", str(body))
    desk.do("send", "orders", "--body-file", "-", given=b"piped")
    queue = desk.manager.queue("orders")
    assert [queue.receive(0).body, queue.receive(0).body] == [b"\x00\xff", b"piped"]


def test_many_messages_are_sent_at_once(desk: Desk) -> None:
    lines = desk.do("send", "orders", "--body", "x", "--count", "1100").splitlines()
    assert len(set(lines)) == 1100
    assert desk.manager.queue("orders").info().message_count == 1100


def test_messages_of_a_transaction_are_sent_together(desk: Desk) -> None:
    sent = desk.json("send", "ledger", "--transactional", "--body", "x", "--count", "3")
    assert len(sent) == 3
    marks = [(each.first_in_transaction, each.last_in_transaction) for each in desk.manager.queue("ledger").browse()]
    assert marks == [(True, False), (False, False), (False, True)]


def test_a_message_that_the_queue_does_not_take_is_refused(desk: Desk) -> None:
    result = desk.run("send", "ledger", "--body", "x")
    assert result.exit_code == 1
    assert "hint: use --transactional to send to a transactional queue, and omit this option" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["send", "DIRECT=HTTP://host/msmq/q", "--body", "x"], "messages over HTTP are not supported yet"),
        (["send", "DIRECT=HTTPS://host/msmq/q", "--body", "x"], "messages over HTTP are not supported yet"),
        (["send", "DIRECT=OS:HOST\\q,DIRECT=HTTP://host/msmq/q"], "messages over HTTP are not supported yet"),
        (["send", "DIRECT=IPX:12:34\\q", "--body", "x"], "Cannot open DIRECT=IPX:12:34\\q: IPX is not supported"),
        (["receive", "DIRECT=IPX:12:34\\q", "--timeout", "0"], "Cannot open DIRECT=IPX:12:34\\q: IPX is not supported"),
        (["send", "orders", "--trace", "PUBLIC=00000000-0000-0000-0000-000000000001"], "tracing requires a directory"),
        (["queue", "create", "group", "--multicast", "234.1.1.1:8001"], "multicast is not supported yet"),
        (["queue", "set", "orders", "--multicast", "234.1.1.1:8001"], "multicast is not supported yet"),
    ],
)
def test_what_would_never_arrive_is_refused_with_a_sentence(desk: Desk, arguments: list[str], sentence: str) -> None:
    result = desk.run(*arguments)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert [queue.info().path for queue in desk.manager.outgoing_queues()] == []
    assert desk.manager.queue("orders").info().message_count == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--express", "--transactional"],
        ["--body", "x", "--body-file", "-"],
        ["--priority", "8"],
        ["--count", "0"],
    ],
)
def test_wrong_usage_ends_with_2(desk: Desk, arguments: list[str]) -> None:
    result = desk.run("send", "orders", *arguments)
    assert result.exit_code == 2
    assert "hint: waypost send --help shows the usage." in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["orders", "--ack", "foo"],
        ["orders", "--correlation-id", "zz"],
        ["orders", "--label", "x" * 250],
        ["a\\b\\c\\d"],
        ["DIRECT=X:y"],
    ],
)
def test_what_the_client_finds_wrong_ends_with_2(desk: Desk, arguments: list[str]) -> None:
    result = desk.run("send", *arguments, "--body", "x")
    assert result.exit_code == 2
    assert "doctor" not in result.stderr


@pytest.mark.parametrize(
    "name",
    [
        "MULTICAST=234.1.1.1:8001",
        "DIRECT=OS:far\\private$\\q,MULTICAST=234.1.1.1:8001",
        "PUBLIC=00000000-0000-0000-0000-000000000001",
        "orders;journal",
        "system$;deadletter",
    ],
)
def test_what_cannot_be_sent_to_gets_a_hint_and_leaves_no_queue(desk: Desk, name: str) -> None:
    result = desk.run("send", name, "--body", "x")
    assert result.exit_code == 1
    assert (
        "hint: send to a local queue such as orders, or to a remote queue such as 'DIRECT=OS:host\\private$\\orders'."
        in result.stderr
    )
    assert desk.manager.outgoing_queues() == []


def test_a_file_that_is_not_there_is_told(desk: Desk) -> None:
    result = desk.run("send", "orders", "--body-file", "/nowhere/at/all")
    assert result.exit_code == 1
    assert "Cannot read /nowhere/at/all: No such file or directory." in result.stderr


def test_a_body_is_data_and_the_rest_is_talk(desk: Desk) -> None:
    sent = desk.manager.send("orders", "42 bolts", label="order")
    result = desk.run("receive", "orders", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (0, "42 bolts\n")
    assert f"{sent.id} 'order', 16 bytes" in result.stderr
    assert desk.manager.queue("orders").info().message_count == 0


def test_a_body_that_is_no_text_is_written_as_digits(desk: Desk) -> None:
    desk.manager.send("orders", b"\xff\xfe\xfd")
    assert desk.do("receive", "orders") == "fffefd\n"


def test_a_terminal_obeys_no_body(desk: Desk) -> None:
    desk.manager.send("orders", "a\x1b[31m\nb")
    assert desk.do("receive", "orders") == "a\\x1b[31m\nb\n"


def test_messages_as_json(desk: Desk) -> None:
    desk.manager.send("orders", "a")
    desk.manager.send("orders", "b")
    received = desk.json("receive", "orders", "--count", "2", "--timeout", "0")
    assert [message["body_text"] for message in received] == ["a", "b"]
    assert list(received[0]) == KEYS


def test_an_empty_queue_ends_with_4(desk: Desk) -> None:
    result = desk.run("receive", "orders", "--timeout", "0.01")
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr.splitlines()[0] == "No message arrived in orders within 0.01 seconds."
    assert json.loads(desk.run("receive", "orders", "--timeout", "0", "--json").stdout) == []
    assert "in orders within 1 second.\n" in desk.run("peek", "orders", "--timeout", "1").stderr


def test_fewer_messages_than_wanted_are_shown_and_end_with_4(desk: Desk) -> None:
    desk.manager.send("orders", "a")
    result = desk.run("receive", "orders", "--count", "2", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (4, "a\n")
    assert "Only 1 message arrived in orders" in result.stderr


def test_follow_goes_on_until_nothing_comes(desk: Desk) -> None:
    desk.manager.send("orders", "a")
    desk.manager.send("orders", "b")
    assert desk.do("receive", "orders", "--follow", "--timeout", "0.01") == "a\nb\n"
    desk.manager.send("orders", "c")
    line = desk.do("receive", "orders", "--follow", "--timeout", "0.01", "--json")
    assert json.loads(line)["body_text"] == "c"


def test_a_peek_leaves_the_message_where_it_is(desk: Desk) -> None:
    desk.manager.send("orders", "a")
    assert desk.do("peek", "orders") == "a\n"
    assert desk.json("peek", "orders")[0]["body_text"] == "a"
    assert desk.manager.queue("orders").info().message_count == 1


def test_all_messages_are_shown_in_a_table(desk: Desk) -> None:
    assert desk.do("peek", "orders", "--all") == ""
    desk.manager.send("orders", "a" * 50, label="long")
    desk.manager.send("orders", "b")
    heading, first, second = desk.do("peek", "orders", "--all").splitlines()
    assert heading.split() == ["LOOKUP_ID", "ID", "SENT", "PRIORITY", "SIZE", "CLASS", "AGE", "ABORTS", "LABEL", "BODY"]
    assert first.endswith(f"  -       long   {'a' * 50}")
    assert second.endswith("b")
    assert len(desk.json("peek", "orders", "--all")) == 2


def test_a_peek_at_nothing_ends_with_4(desk: Desk) -> None:
    result = desk.run("peek", "orders")
    assert result.exit_code == 4
    assert result.stderr.splitlines()[0] == "orders has no messages."


def test_what_waits_for_another_computer_can_be_seen_and_taken(desk: Desk) -> None:
    far = "DIRECT=OS:far\\private$\\orders"
    desk.do("send", far, "--body", "a")
    assert desk.do("peek", far, "--outgoing") == "a\n"
    assert desk.do("receive", far, "--timeout", "0", "--outgoing") == "a\n"


def test_a_send_to_several_queues_is_told_with_its_copies(desk: Desk) -> None:
    queues = [desk.manager.queue("orders"), desk.manager.create_queue("others")]
    both = ",".join(queue.format_name for queue in queues)
    (told,) = desk.json("send", both, "--body", "both")
    assert [copy["destination_queue"] for copy in told["copies"]] == both.split(",")
    for queue, copy in zip(queues, told["copies"], strict=True):
        assert queue.receive(lookup_id=int(copy["lookup_id"])).id == told["id"]
    (identifier,) = desk.do("send", both, "--body", "both").split()
    assert [queue.receive(0).id for queue in queues] == [identifier] * 2


def test_several_queues_for_answers_and_acknowledgments_are_given(desk: Desk) -> None:
    for name in ("acks", "more"):
        desk.manager.create_queue(name)
    options = "--response-queue a --response-queue b --ack pos-arrival --admin-queue acks --admin-queue more"
    (told,) = desk.json("send", "orders", "--body", "x", *options.split())
    assert [name.rpartition("\\")[2] for name in told["response_queues"]] == ["a", "b"]
    found = desk.manager.queue("orders").peek(0)
    assert found.response_queues == tuple(told["response_queues"])
    assert [desk.manager.queue(name).receive(0).correlation_id for name in ("acks", "more")] == [found.id] * 2
    desk.do("message", "resend", "orders")
    assert desk.manager.queue("orders").receive(0).response_queues == found.response_queues


def test_a_body_that_is_piped_is_sent(desk: Desk) -> None:
    desk.do("send", "orders", given=b"piped\n")
    assert desk.manager.queue("orders").receive(0).body == b"piped\n"
    desk.do("send", "orders", "--body", "given", given=b"piped")
    assert desk.manager.queue("orders").receive(0).text == "given"
    desk.do("send", "orders", given=b"")
    assert desk.manager.queue("orders").receive(0).text == ""


def test_a_pipe_without_bytes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert piped() == b""
        os.write(writer, b"here")
        os.close(writer)
        assert piped() == b"here"
        assert piped() == b""


def test_an_input_without_an_end_is_refused(desk: Desk) -> None:
    result = desk.run("send", "orders", "--body-file", "/dev/zero")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        1,
        "/dev/zero is longer than 4194304 bytes, which is the maximum size of a message.",
    )


@pytest.mark.parametrize(
    ("options", "sent", "sentence", "hint"),
    [
        (
            ("--authenticate",),
            (),
            "the queue requires a signature, and the message is not signed",
            "`waypost send --sign`",
        ),
        (
            ("--privacy", "body"),
            (),
            "the queue requires encryption, and the message is not encrypted",
            "`waypost send --encrypt`",
        ),
        (
            ("--privacy", "none"),
            ("--encrypt",),
            "the queue does not accept encrypted messages",
            "send without --encrypt",
        ),
    ],
)
def test_a_queue_that_demands_or_excludes_protection_says_so(
    desk: Desk, options: tuple[str, ...], sent: tuple[str, ...], sentence: str, hint: str
) -> None:
    desk.do("queue", "create", "strict", *options)
    result = desk.run("send", "strict", "--body", "m", *sent)
    assert result.exit_code != 0
    assert sentence in result.stderr
    assert hint in result.stderr.split("hint:")[1]
