"""`waypost status`, `waypost explain`, `waypost doctor` and `waypost bench`; and what all commands have in common."""

import socket
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.cli import daemons
from tests.cli import desk as _desk
from tests.cli.desk import Desk
from waypost.api.status import ListenerInfo, StatusInfo
from waypost.cli import app, daemon
from waypost.cli.daemon import failure
from waypost.cli.program_options import Target
from waypost.cli.status_page import status_page
from waypost.cli.tables import write_table
from waypost.cli.verbs import VERBS
from waypost.errors import (
    ConnectionLost,
    DecodeError,
    IllegalFormatName,
    InsufficientResources,
    InvalidParameter,
    LabelTooLong,
    LimitReached,
    QueueNotFound,
    ServiceNotAvailable,
    Timeout,
    UnsupportedFormatName,
    WaypostError,
)

desk = _desk.desk

MESSAGE = "{00000000-0000-0000-0000-000000000001}\\7"
ASKED = "/api/explain?message=%7B00000000-0000-0000-0000-000000000001%7D%5C7"


def test_the_status_is_a_page_for_people(desk: Desk) -> None:
    desk.manager.create_queue("orders")
    lines = desk.do("status").splitlines()
    assert lines[0].startswith("HOST, Waypost ")
    assert f"  data      {desk.manager.path}" in lines
    assert "  queues    1, and 0 outgoing queues" in lines
    assert "  messages  0 bytes, 0% of the machine quota of 1.0 GiB" in lines
    assert lines[-1] == "The queue manager accepts messages. `waypost doctor` runs more checks."
    found = desk.json("status")
    assert (found["queues"], found["bytes"], found["quota_bytes"]) == (1, 0, 1 << 30)


def test_the_page_shows_listeners_and_troubles() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    info = StatusInfo(
        name="HOST", guid="g", version="1", path="p", started=start, time=start + timedelta(days=2, hours=5), queues=1,
        outgoing_queues=1, bytes=3 << 20, trouble="the disk is gone", shortage="", room_bytes=0,
        listeners=(ListenerInfo("http", "::1", 8181),),
    )  # fmt: skip
    page = list(status_page(info))
    assert "  started   2026-01-01 00:00:00 UTC, 2 days 5 h ago" in page
    assert "  messages  3.0 MiB, no machine quota" in page
    assert "  http      [::1]:8181" in page
    assert page[-2:] == ["TROUBLE: the disk is gone.", "`waypost doctor` shows details."]


def test_sentences_explain_a_message(desk: Desk) -> None:
    desk.answers["GET", ASKED] = {"sentences": ["It waits.", "Nobody reads."], "facts": {"found": True}}
    assert desk.do("explain", MESSAGE) == "It waits.\nNobody reads.\n"
    assert desk.json("explain", MESSAGE)["facts"] == {"found": True}


def test_a_terminal_obeys_no_sentence(desk: Desk) -> None:
    desk.answers["GET", ASKED] = {"sentences": ["It \x1b[31mwaits\n."], "facts": {"found": True}}
    assert desk.do("explain", MESSAGE) == "It \\x1b[31mwaits\\n.\n"


def test_what_is_not_there_is_explained_and_ends_with_1(desk: Desk) -> None:
    desk.answers["GET", "/api/explain?queue=orders"] = {"sentences": ["No queue."], "facts": {"found": False}}
    result = desk.run("explain", "orders")
    assert (result.exit_code, result.stdout) == (1, "No queue.\n")


def test_the_doctor_ends_with_1_if_something_is_wrong(desk: Desk) -> None:
    good = {"check": "store", "ok": True, "message": "it can be written", "hint": ""}
    bad = {"check": "port transfer", "ok": False, "message": "1801 is taken", "hint": "stop the other program"}
    desk.answers["GET", "/api/doctor"] = {"checks": [good]}
    assert desk.do("doctor").splitlines()[1].split(maxsplit=2) == ["store", "ok", "it can be written"]
    desk.answers["GET", "/api/doctor"] = {"checks": [good, bad]}
    result = desk.run("doctor")
    assert result.exit_code == 1
    assert "1801 is taken" in result.stdout
    assert "hint: port transfer: stop the other program" in result.stderr
    assert desk.run("doctor", "--json").exit_code == 1


def test_a_daemon_for_this_computer_alone_is_well(tmp_path: Path) -> None:
    with daemons.daemon(tmp_path, "--name", "nobody-knows") as environment:
        result = daemons.shell("waypost doctor", environment, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "only this computer can reach this queue manager; --bind ADDRESS opens it to a network" in result.stdout
    assert "so other computers do not need the name nobody-knows" in result.stdout


def test_a_measurement_leaves_nothing_behind(desk: Desk) -> None:
    found = desk.json("bench", "--count", "20", "--size", "10")
    assert [each["messages"] for each in found] == [20, 20, 20, 20]
    assert all(each["per_second"] > 0 for each in found)
    assert desk.manager.queues() == []
    assert desk.do("bench", "--count", "5", "--express").splitlines()[0].split() == [
        "WORK",
        "MESSAGES",
        "SECONDS",
        "PER",
        "SECOND",
    ]


def test_the_daemon_is_named_by_options_or_by_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def connect(target: Target) -> object:
        asked.append((target.url, target.token))
        return desk.borrowed

    monkeypatch.setattr(daemon, "connect", connect)
    desk.do("queue", "list")
    desk.do("--url", "http://a:1", "--token", "t", "queue", "list")
    monkeypatch.setenv("WAYPOST_URL", "http://b:2")
    monkeypatch.setenv("WAYPOST_TOKEN", "u")
    desk.do("queue", "list")
    assert asked == [(Target().url, None), ("http://a:1", "t"), ("http://b:2", "u")]


def test_a_daemon_that_cannot_be_reached_ends_with_3() -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(app, ["--url", url, "queue", "list"])
    assert (result.exit_code, result.stdout) == (3, "")
    sentence, hint = result.stderr.splitlines()
    assert sentence.startswith(f"Cannot reach the daemon at {url}: ")
    assert hint == "hint: start a daemon with `waypost serve`, or specify another address with --url or WAYPOST_URL."


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WaypostError("x"), 1),
        (QueueNotFound("x"), 1),
        (ServiceNotAvailable("x"), 3),
        (ConnectionLost("x"), 3),
        (Timeout("x"), 4),
        (InvalidParameter("x"), 2),
        (LabelTooLong("x"), 2),
        (IllegalFormatName("MS-MQMQ 2.1", "FormatName", 0, "x"), 2),
        (DecodeError("MS-MQMQ 2.2", "field", 0, "x"), 1),
    ],
)
def test_every_error_has_its_exit_code(error: WaypostError, code: int) -> None:
    assert failure(error).exit_code == code


def test_a_hint_fits_its_error() -> None:
    assert "purge messages" in failure(InsufficientResources("x")).hint
    assert (
        failure(LimitReached("x")).hint == "close or delete objects that you no longer need, or wait until they expire."
    )
    assert "DIRECT=OS:host" in failure(UnsupportedFormatName("x")).hint


@pytest.mark.parametrize("url", ["foo", "ftp://host", "http://host:99999"])
def test_what_is_no_address_is_wrong_usage(url: str) -> None:
    result = CliRunner().invoke(app, ["--url", url, "status"])
    assert result.exit_code == 2
    assert result.stderr.startswith("The address of a daemon must have the form http://127.0.0.1:8181, not ")


def test_what_is_no_daemon_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9\r\n\r\n")
                connection.recv(1000)

        Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        result = CliRunner().invoke(app, ["--url", url, "status"])
    assert result.exit_code == 3
    assert result.stderr.splitlines()[0] == f"{url} is not a Waypost daemon."


@pytest.mark.parametrize(
    "words",
    [
        "--url http://a:1 --token t --cacert c --json queue list",
        "queue --url http://a:1 --token t --cacert c --json list",
        "queue list --url http://a:1 --token t --cacert c --json",
        "--url http://b:2 queue --token t list --cacert c --json --url http://a:1",
    ],
)
def test_the_options_of_the_program_stand_before_the_verb_or_behind_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    asked: list[Target] = []

    def connect(target: Target) -> object:
        asked.append(target)
        return desk.borrowed

    monkeypatch.setattr(daemon, "connect", connect)
    assert desk.do(*words.split()) == "[]\n"
    (target,) = asked
    assert (target.url, target.token, target.cacert) == ("http://a:1", "t", Path("c"))


def test_a_verb_that_talks_to_no_daemon_takes_no_address() -> None:
    result = CliRunner().invoke(app, ["decode", "--url", "http://a:1", "file"], prog_name="waypost")
    assert (result.exit_code, result.stderr) == (
        2,
        "No such option: --url.\nhint: waypost decode --help shows the usage.\n",
    )


def test_a_token_on_the_command_line_is_warned_of_and_one_of_the_environment_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    warning = "warning: the value of --token is visible in the process list; use WAYPOST_TOKEN instead.\n"
    assert desk.run("status", "--token", "t").stderr == warning
    assert desk.run("--token", "t", "status").stderr == warning
    monkeypatch.setenv("WAYPOST_TOKEN", "t")
    assert desk.run("status").stderr == ""


def test_an_error_is_a_sentence() -> None:
    assert failure(WaypostError("the queue is full")).sentence == "The queue is full."
    assert failure(Timeout()).sentence == "No message arrived in time."


@pytest.mark.parametrize(
    "command",
    [
        *(["queue", verb] for verb in ("create", "list", "show", "set", "pause", "resume", "purge", "delete")),
        *(["message", verb] for verb in ("move", "export", "import", "resend", "delete")),
        *([verb] for verb in ("send", "receive", "peek", "status", "explain", "doctor", "bench", "demo")),
    ],
    ids=" ".join,
)
def test_the_help_of_every_command_has_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"  waypost {' '.join(command)}" in result.stdout or "  waypost --url" in result.stdout


def test_a_terminal_gets_a_drawn_table_and_no_colour_if_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    out = SimpleNamespace(write=written.append)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    write_table(out, ("NAME", "LABEL"), [("orders", "[red]a\x1b[31m")])  # type: ignore[arg-type]
    (drawn,) = written
    assert "───" in drawn
    assert "[red]a\\x1b[31m" in drawn
    assert "\x1b[3" not in drawn


def test_no_command_waits_for_the_libraries_of_another() -> None:
    check = "import sys; import waypost.cli; print([name for name in sys.modules if name.startswith({heavy})])"
    heavy = ("rich.", "litestar", "uvicorn", "waypost.node", "waypost.sim", "waypost.cli.decode")
    result = subprocess.run(
        [sys.executable, "-c", check.format(heavy=heavy)], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == "[]\n"


def test_the_help_has_every_command_and_each_has_a_home() -> None:
    told = CliRunner().invoke(app, ["--help"]).stdout
    for name, verb in VERBS.items():
        assert f"\n  {name} " in told
        assert verb.load(name).name == name
