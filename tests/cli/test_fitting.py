"""`queue list` and `peek --all` fit their terminal, and what is piped is whole."""

import pytest
from rich.cells import cell_len

from tests.cli import desk as _desk
from tests.cli.desk import Desk
from waypost.cli.drawing import fitting_table
from waypost.cli.tables import Column

desk = _desk.desk

FAR = "DIRECT=OS:a-very-long-name.of.another.department.example.com\\PRIVATE$\\orders-of-tomorrow"
LABEL = "a label that is far longer than anybody has room for, 文字 included, " * 2
WIDTHS = (200, 120, 80, 60, 40, 20)


@pytest.fixture(autouse=True)
def queues(desk: Desk) -> None:
    orders = desk.manager.create_queue("orders-with-a-long-name-" * 3, label=LABEL[:100], quota_kb=100, journal=True)
    orders.send("b" * 3000, label=LABEL)
    orders.send("文字" * 500, label="文字" * 60, priority=7)
    desk.manager.create_queue("ledger", transactional=True)
    desk.manager.send(FAR, "x")


def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_list_of_queues_is_wider_than_the_terminal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal(monkeypatch, width)
    lines = desk.do("queue", "list", "--system").splitlines()
    assert len(lines) == 2 + 6
    assert max(map(cell_len, lines)) <= width
    assert "NAME" in lines[0]
    assert "MESS" in lines[0]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_a_table_of_messages_is_wider_than_the_terminal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal(monkeypatch, width)
    lines = desk.do("peek", "orders-with-a-long-name-" * 3, "--all").splitlines()
    assert len(lines) == 2 + 2
    assert max(map(cell_len, lines)) <= width
    assert lines[0].startswith("LOOKUP_ID")


def test_the_important_columns_stay(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 80)
    assert desk.do("queue", "list").split()[:5] == ["NAME", "KIND", "MESSAGES", "BYTES", "TX"]
    terminal(monkeypatch, 60)
    assert desk.do("queue", "list").split()[:4] == ["NAME", "MESSAGES", "BYTES", "STATE"]
    messages = desk.do("peek", "orders-with-a-long-name-" * 3, "--all").splitlines()
    assert messages[0].split() == ["LOOKUP_ID", "SIZE", "AGE", "LABEL", "BODY"]


def test_the_end_of_a_name_is_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 60)
    assert "orders-of-tomorrow"[-10:] in desk.do("queue", "list")


def test_what_is_piped_is_whole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    listed = desk.do("queue", "list")
    assert FAR.removeprefix("DIRECT=OS:") in listed
    assert LABEL[:100].strip() in listed
    shown = desk.do("peek", "orders-with-a-long-name-" * 3, "--all")
    assert "b" * 3000 in shown
    assert "文字" * 500 in shown
    assert LABEL.strip() in shown


def test_a_short_id_means_its_message(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = desk.manager.create_queue("orders")
    first, _ = orders.send("a"), orders.send("b")
    with monkeypatch.context() as context:
        terminal(context, 200)
        short = desk.do("peek", "orders", "--all").splitlines()[2].split()[1]
    assert short == f"{first.id[1:9]}\\{first.id.partition(chr(92))[2]}"
    desk.do("message", "delete", "orders", short)
    assert [message.text for message in orders.browse()] == ["b"]
    assert desk.run("message", "delete", "orders", short).exit_code == 1


def test_values_without_room_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 80)
    columns = (Column("NAME", least=4, middle=True), Column("LABEL", drop=1, least=5), Column("COUNT", right=True))
    lines = fitting_table(columns, [["0123456789" * 10, "x" * 90, "7"]]).splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "…" in lines[-1]
    assert lines[-1].endswith("7")


def test_a_column_without_a_value_is_not_drawn(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 200)
    desk.manager.queue(FAR).delete()
    assert "STATE" not in desk.do("queue", "list")


def test_queues_are_sorted_and_limited(desk: Desk) -> None:
    desk.manager.queue("ledger").delete()
    desk.manager.create_queue("many")
    for _ in range(3):
        desk.manager.send("many", "x")
    result = desk.run("queue", "list", "--sort", "messages", "--limit", "1")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["NAME", "many"]
    assert result.stderr == "2 more queues not shown.\n"
    assert [info["path"] for info in desk.json("queue", "list", "--sort", "bytes", "--limit", "1")] == [
        f"HOST\\private$\\{'orders-with-a-long-name-' * 3}"
    ]
    oldest = desk.json("queue", "list", "--sort", "age")[0]
    assert oldest["oldest_time"] is not None


def test_messages_are_sorted_filtered_and_limited(desk: Desk) -> None:
    orders = desk.manager.create_queue("orders")
    orders.send("small")
    orders.send("large" * 100)
    for _ in range(2):
        transaction = desk.manager.transaction()
        orders.receive(0, transaction=transaction)
        transaction.abort()
    texts = [each["body_text"] for each in desk.json("peek", "orders", "--all", "--sort", "size")]
    assert texts == ["large" * 100, "small"]
    (aborted,) = desk.json("peek", "orders", "--all", "--min-aborts", "2")
    assert (aborted["body_text"], aborted["abort_count"]) == ("small", 2)
    assert desk.json("peek", "orders", "--all", "--older-than", "30d") == []
    limited = desk.run("peek", "orders", "--all", "--limit", "1")
    assert len(limited.stdout.splitlines()) == 2
    assert limited.stderr == "Only 1 message shown. The queue contains more messages.\n"


@pytest.mark.parametrize("option", [["--sort", "age"], ["--limit", "1"], ["--min-aborts", "1"], ["--older-than", "1d"]])
def test_what_is_for_all_messages_needs_all(desk: Desk, option: list[str]) -> None:
    result = desk.run("peek", "ledger", *option)
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        f"Invalid value for {option[0]}: {option[0]} is only valid with --all.",
    )
