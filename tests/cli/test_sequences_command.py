"""`waypost sequence`."""

import pytest

from tests.cli import desk as _desk
from tests.cli.desk import Desk

desk = _desk.desk

FAR = r"DIRECT=TCP:192.0.2.1\PRIVATE$\far"


def send(desk: Desk, *bodies: str) -> list[str]:
    with desk.manager.transaction() as transaction:
        return [desk.manager.send(FAR, body, transaction=transaction).id for body in bodies]


def test_sequences_are_listed_in_a_table(desk: Desk) -> None:
    assert desk.do("sequence", "list") == ""
    assert desk.json("sequence", "list") == []
    send(desk, "1", "2")
    header, row = desk.do("sequence", "list").splitlines()
    assert header.split()[:3] == ["DIRECTION", "QUEUE", "SOURCE"]
    assert row.split()[:3] == ["out", FAR, desk.manager.guid]
    (info,) = desk.json("sequence", "list", "--queue", FAR)
    assert (info["direction"], info["number"]) == ("out", 2)


def test_more_than_the_limit_are_said_to_be_there(desk: Desk) -> None:
    send(desk, "1")
    with desk.manager.transaction() as transaction:
        desk.manager.send(r"DIRECT=TCP:192.0.2.2\private$\far", "1", transaction=transaction)
    result = desk.run("sequence", "list", "--limit", "1")
    assert len(result.stdout.splitlines()) == 2
    assert "more than 1" in result.stderr


def test_one_is_shown_with_all_that_is_known(desk: Desk) -> None:
    send(desk, "1")
    pairs = dict(line.split(maxsplit=1) for line in desk.do("sequence", "show", FAR).splitlines() if " " in line)
    assert (pairs["direction"], pairs["number"]) == ("out", "1")
    assert desk.json("sequence", "show", desk.manager.guid)[0]["queue"] == FAR
    assert desk.run("sequence", "show", "00000000-0000-0000-0000-000000000001").exit_code == 1


def test_a_reset_says_which_messages_may_come_twice_and_asks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = send(desk, "1", "2")
    before = desk.json("sequence", "list")
    refused = desk.run("sequence", "reset", FAR)
    assert refused.exit_code == 1
    assert f"arrive twice if the destination has already accepted them: {', '.join(sent)}" in refused.stderr
    assert "hint: add --yes" in refused.stderr
    assert desk.json("sequence", "list") == before
    for module in ("sequence", "asking"):
        monkeypatch.setattr(f"waypost.cli.{module}.is_asked", lambda: True)
    assert desk.run("sequence", "reset", FAR, given=b"n\n").exit_code != 0
    assert desk.json("sequence", "list") == before
    done = desk.run("sequence", "reset", FAR, given=b"y\n")
    assert (done.exit_code, "2 messages got new numbers." in done.stderr) == (0, True)
    assert desk.json("sequence", "list")[0]["time_stamp"] > before[0]["time_stamp"]


def test_with_yes_nobody_is_asked(desk: Desk) -> None:
    send(desk, "1")
    done = desk.run("sequence", "reset", FAR, "--yes", "--json")
    assert (done.exit_code, "warning:" in done.stderr) == (0, True)
    nothing = desk.run("sequence", "reset", "--older-than", "30d")
    assert (nothing.exit_code, nothing.stderr) == (0, "0 sequences reset.\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no sequence is selected: specify QUEUE, --source, --address or --older-than"),
        (("--older-than", "soon"), "'soon' is not an age such as 90s, 15m, 12h or 30d"),
        (("--source", "me", "--yes"), "must be the GUID of a queue manager, not 'me'"),
        (("--address", "here", "--yes"), "'here' is not an IP address"),
    ],
)
def test_wrong_usage_is_said(desk: Desk, words: tuple[str, ...], sentence: str) -> None:
    result = desk.run("sequence", "reset", *words)
    assert (result.exit_code, sentence in result.stderr) == (2, True)
