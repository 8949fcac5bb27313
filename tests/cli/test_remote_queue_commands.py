"""Commands on queues of another computer, of which a daemon is asked that reads them over RPC."""

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import waypost
from tests.cli import desk as _desk
from tests.cli.desk import Desk
from tests.crash.daemons import Daemon, loopback, start_all
from tests.test_docs import BLOCK, ROOT
from waypost.cli import app
from waypost.errors import AccessDenied

desk = _desk.desk

PAGE = ROOT / "docs" / "cli.md"


class Place:
    """Commands for the daemon NEAR; the queues are those of FAR."""

    def __init__(self, near: Daemon, far: waypost.Manager, address: str) -> None:
        self._environment = {"WAYPOST_URL": near.url}
        self.address = address
        self.far = far
        self._numbers = iter(range(1, 1000))

    def queue(self, *bodies: str) -> tuple[str, waypost.Queue]:
        """The name of a new queue, and the queue."""
        name = f"queue{next(self._numbers)}"
        queue = self.far.create_queue(name)
        queue.send_many(bodies)
        return self.name(name), queue

    def name(self, queue: str) -> str:
        return f"DIRECT=TCP:{self.address}\\private$\\{queue}"

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments), env=self._environment)

    def do(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("commands")
    with ExitStack() as stack:
        near, far = (
            stack.enter_context(Daemon(folder, name, loopback(60 + at), "remote.epm_port=0"))
            for at, name in enumerate(("NEAR", "FAR"))
        )
        start_all([near, far])
        yield Place(near, stack.enter_context(far.connect()), far.address)


def bodies(queue: waypost.Queue) -> list[str]:
    return [message.text for message in queue.browse()]


def test_messages_are_received_from_another_computer(place: Place) -> None:
    name, queue = place.queue("1", "2", "3", "4")
    assert place.do("receive", name) == "1\n"
    assert place.do("receive", name, "--count", "2", "--timeout", "5") == "2\n3\n"
    assert place.do("receive", name, "--follow", "--timeout", "0") == "4\n"
    result = place.run("receive", name, "--timeout", "0")
    assert result.exit_code == 4
    assert "has no messages." in result.stderr
    assert bodies(queue) == []


def test_messages_there_are_shown(place: Place) -> None:
    name, queue = place.queue("1", "2")
    assert place.do("peek", name) == "1\n"
    assert [message["body_text"] for message in json.loads(place.do("peek", name, "--all", "--json"))] == ["1", "2"]
    assert bodies(queue) == ["1", "2"]


def test_a_message_there_is_looked_up(place: Place) -> None:
    name, queue = place.queue("1", "2", "3")
    second = str(list(queue.browse())[1].lookup_id)
    assert place.do("peek", name, "--lookup", second) == "2\n"
    assert place.do("receive", name, "--lookup", second) == "2\n"
    result = place.run("receive", name, "--lookup", second)
    assert (result.exit_code, result.stdout) == (1, "")
    assert bodies(queue) == ["1", "3"]


def test_single_messages_there_are_moved_exported_and_deleted(place: Place, tmp_path: Path) -> None:
    name, queue = place.queue("1", "2")
    first, second = queue.browse()
    place.do("message", "export", name, str(tmp_path / "packets"))
    assert len(place.do("decode", str(tmp_path / "packets"), "--brief").splitlines()) == 2
    place.do("message", "move", name, first.id, f"{name};retry")
    assert bodies(queue.subqueue("retry")) == ["1"]
    place.do("message", "delete", name, str(second.lookup_id))
    assert bodies(queue) == []


def test_a_queue_there_is_emptied(place: Place) -> None:
    name, queue = place.queue("1", "2")
    assert place.run("queue", "purge", name).stderr == f"All messages of {name} deleted.\n"
    assert bodies(queue) == []


def test_what_only_the_other_computer_knows_is_a_sentence(place: Place) -> None:
    name, _ = place.queue()
    shown = place.run("queue", "show", name)
    assert shown.exit_code == 1
    assert "is a queue of another computer: the daemon can only read its messages" in shown.stderr
    explained = place.run("explain", name)
    assert explained.exit_code == 1
    assert "this computer has no outgoing queue" in explained.stdout
    assert "only that host can explain it" in explained.stdout


def test_what_is_wrong_there_is_a_sentence(place: Place) -> None:
    missing = place.run("receive", place.name("nothing"), "--timeout", "0")
    assert missing.exit_code == 1
    assert "does not exist on the host; check the name" in missing.stderr
    unreachable = place.run("peek", f"DIRECT=TCP:{loopback(69)}\\private$\\orders")
    assert unreachable.exit_code == 1
    assert "is unreachable" in unreachable.stderr
    assert "hint: the host must be up" in unreachable.stderr


def test_hints_for_a_queue_there_do_not_speak_of_queues_here(place: Place) -> None:
    name, _ = place.queue()
    missing = place.name("nothing")
    for arguments in (
        ("receive", missing, "--timeout", "0"),
        ("receive", name, "--timeout", "0"),
        ("queue", "show", name),
    ):
        told = place.run(*arguments).stderr
        assert "hint: " in told
        for wrong in ("`waypost queue list`", "`waypost queue create`", "`waypost explain`", "--token"):
            assert wrong not in told
    nobody = "{00000000-0000-0000-0000-000000000001}\\1"
    assert "hint: `waypost peek NAME --all`" in place.run("message", "delete", name, nobody).stderr
    here = place.run("receive", "nothing", "--timeout", "0").stderr
    assert "hint: `waypost queue list` shows the queues" in here
    assert "`waypost queue list`" in place.run("receive", "DIRECT=OS:near\\private$\\nothing", "--timeout", "0").stderr


@pytest.mark.parametrize(("name", "tokens"), [("DIRECT=OS:far\\private$\\orders", 0), ("orders", 1)])
def test_whoever_is_denied_a_queue_there_is_not_sent_for_a_token(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str, tokens: int
) -> None:  # fmt: skip
    def denied(*_: object) -> None:
        raise AccessDenied("it is not for the user")

    monkeypatch.setattr("waypost.cli.receive._first", denied)
    told = desk.run("peek", name).stderr
    assert told.count("--token") == tokens
    assert "remote.user" in told


def test_a_destination_of_this_computer_is_told_with_its_name_there(place: Place) -> None:
    name, queue = place.queue("1")
    (message,) = queue.browse()
    short = name.rpartition("\\")[2]
    refused = place.run("message", "move", name, str(message.lookup_id), f"{short};retry")
    assert refused.exit_code == 2
    assert f"{short};retry is a queue of NEAR, but the message is on {place.address}, and" in refused.stderr
    assert f"use the name {name};retry" in refused.stderr.replace("PRIVATE$", "private$")
    assert bodies(queue) == ["1"]


def test_the_commands_of_the_page_work_as_written(place: Place) -> None:
    (block,) = (text for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if language == "console")
    queue = place.far.create_queue("orders")
    queue.send_many(["1", "2"])
    _, second = queue.browse()
    for host in ("winserver01", "192.0.2.1"):
        block = block.replace(host, place.address)
    for line in block.replace("72057594037927937", str(second.lookup_id)).splitlines():
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "waypost")
        place.do(*arguments)
    assert bodies(queue) == bodies(queue.subqueue("retry")) == []


def test_only_with_outgoing_a_command_means_the_outgoing_queue(desk: Desk) -> None:
    far = "DIRECT=OS:far\\private$\\orders"
    result = desk.run("peek", far, "--outgoing")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == f"This computer has no outgoing queue for {far}."
    sent = desk.manager.send(far, "a")
    assert desk.run("queue", "purge", far).exit_code == 1
    assert desk.do("peek", far, "--all", "--outgoing").endswith("a\n")
    assert desk.run("message", "delete", far, sent.id).exit_code == 1
    desk.do("message", "delete", far, sent.id, "--outgoing")
    assert desk.run("peek", far, "--outgoing").exit_code == 4


@pytest.mark.parametrize("verb", ["receive", "peek"])
def test_a_message_that_is_looked_up_is_not_waited_for(desk: Desk, verb: str) -> None:
    queue = desk.manager.create_queue("orders")
    sent = [queue.send(text) for text in "ab"]
    assert desk.run(verb, "orders", "--lookup", str(sent[1].lookup_id), "--timeout", "5").exit_code == 2
    assert desk.do(verb, "orders", "--lookup", str(sent[1].lookup_id)) == "b\n"
