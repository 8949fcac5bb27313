"""`waypost user` and `waypost audit`: exact forms, refusals with hints, and a daemon that asks who you are."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli import desk as _desk
from tests.cli.daemons import daemon, shell
from tests.cli.desk import Desk

desk = _desk.desk


def test_a_user_is_added_shown_changed_and_removed(desk: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    added = desk.json("user", "add", "ada", "--role", "operate", "--groups", "sales, S-1-5-21-1-2-3-512")
    assert (added["name"], added["role"]) == ("ada", "operate")
    assert added["groups"] == ["sales", "S-1-5-21-1-2-3-512"]
    assert added["sid"].startswith("S-1-5-21-")
    assert desk.json("user", "add", "bob", "--sid", "S-1-5-21-7-7-7-1103")["sid"] == "S-1-5-21-7-7-7-1103"
    assert [user["name"] for user in desk.json("user", "list")] == ["ada", "bob"]
    changed = desk.json("user", "set", "ada", "--role", "admin", "--ntlm", "--password-file", str(secret))
    assert (changed["role"], changed["ntlm"], changed["has_password"]) == ("admin", True, True)
    assert desk.json("user", "set", "ada", "--no-ntlm")["ntlm"] is False
    assert desk.run("user", "passwd", "ada", "--password-file", "-", given=b"next\n").exit_code == 0
    assert desk.run("user", "remove", "bob", "--yes").exit_code == 0
    assert desk.json("user", "show", "ADA")["name"] == "ada"
    assert [user["name"] for user in desk.json("user", "list")] == ["ada"]
    twice = desk.json("user", "set", "ada", "--groups", "sales", "--groups", "finance,staff")
    assert twice["groups"] == ["sales", "finance", "staff"]
    assert desk.json("user", "add", "eve", "--groups", "sales", "--groups", "staff")["groups"] == ["sales", "staff"]
    assert desk.json("user", "set", "ada", "--groups", "")["groups"] == []
    assert "NAME" in desk.do("user", "list")


def test_a_token_is_shown_once(desk: Desk) -> None:
    desk.json("user", "add", "ada", "--role", "operate")
    found = desk.json("user", "token", "ada", "--role", "read", "--expires", "30")
    assert len(found["token"]) >= 43
    assert (found["role"], found["expires"] is None) == ("read", False)
    shown = desk.do("user", "show", "ada")
    assert found["token"] not in shown
    assert f"token {found['id']}" in shown
    assert desk.do("user", "token", "ada").strip() not in shown
    assert desk.run("user", "token", "ada", "--remove", found["id"]).exit_code == 0
    assert desk.run("user", "token", "ada", "--remove", "all").exit_code == 0
    assert desk.json("user", "show", "ada")["tokens"] == []


def test_only_the_word_all_removes_all_tokens(desk: Desk) -> None:
    desk.json("user", "add", "ada")
    desk.do("user", "token", "ada")
    for wrong, code, hint in (
        ("", 2, "specify the id of one token, or `all` to remove all tokens of the user."),
        ("00", 1, "`waypost user show` shows the ids of the tokens of a user."),
    ):
        refused = desk.run("user", "token", "ada", "--remove", wrong)
        assert (refused.exit_code, refused.stderr.splitlines()[1]) == (code, f"hint: {hint}")
        assert len(desk.json("user", "show", "ada")["tokens"]) == 1
    assert desk.run("user", "token", "ada", "--remove", "all").stderr == "Removed from ada: all tokens.\n"
    assert desk.json("user", "show", "ada")["tokens"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("add", "everyone"), 2, "The name 'everyone' is reserved"),
        (("add", "ada", "--role", "king"), 2, "Unknown role 'king'."),
        (("add", "ada", "--ntlm"), 2, "The password is missing."),
        (("add", "ada", "--password-file", "/nowhere"), 1, "Cannot read /nowhere"),
        (("show", "nobody"), 1, "Unknown user 'nobody'."),
        (("set", "carl"), 2, "Nothing to change."),
        (("set", "carl", "--ntlm"), 2, "`ntlm` also requires `password`"),
        (("add", "carl"), 1, "The user carl already exists."),
        (("token", "carl", "--role", "admin"), 2, "The role of a token must not exceed the role of its user"),
        (("token", "carl", "--expires", "0"), 2, "The number of days until a token expires must be more than 0"),
        (("token", "carl", "--remove", "00"), 1, "The user carl does not have a token with the id '00'."),
        (("passwd", "carl"), 2, "The password is missing."),
    ],
)
def test_a_wrong_command_is_refused_with_a_hint(
    desk: Desk, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    desk.manager.users.add("carl")
    result = desk.run("user", *arguments)
    assert result.exit_code == code
    assert result.stderr.startswith(sentence)
    assert "\nhint: " in result.stderr
    assert [user.name for user in desk.manager.users.list()] == ["carl"]


def test_the_sid_of_the_administrator_is_refused_without_a_hint_that_does_not_help(desk: Desk) -> None:
    result = desk.run("user", "add", "ada", "--sid", desk.manager.identity().sid)
    assert result.exit_code == 2
    assert "is the SID of the local administrator; choose another SID." in result.stderr
    assert "lists the valid values" not in result.stderr


def test_the_audit_trail_has_the_exact_keys(desk: Desk) -> None:
    desk.json("user", "add", "ada")
    desk.do("queue", "create", "orders")
    first, second = desk.json("audit")
    assert {"time", "who", "from", "what", "object", "count", "result"} <= set(first)
    assert (second["who"], second["from"], second["what"]) == ("administrator", "embedded", "create queue")
    assert (second["object"], second["count"], second["result"]) == ("orders", 1, "ok")
    assert desk.json("audit", "--limit", "1") == [second]
    assert "create queue" in desk.do("audit")


@pytest.mark.parametrize(
    "command",
    [
        *("user show ''", "user remove ''", "user set '' --role read", "user passwd '' --password-file secret"),
        *("user add ''", "user token ''", "user token '' --remove all"),
        *("cert remove ''", "cert create --user ''", "cert register --user '' secret", "cert list --user ''"),
        *("key untrust ''", "key trust '' secret", "queue acl orders --owner ''"),
    ],
)
def test_an_empty_name_is_refused(desk: Desk, command: str) -> None:
    result = desk.run(*shlex.split(command))
    assert result.exit_code == 2
    assert result.stderr.startswith("Invalid value for '")
    assert "': must not be empty.\nhint: " in result.stderr
    assert not desk.manager.certificates()


def test_a_daemon_with_users_asks_who_you_are(tmp_path: Path) -> None:
    with daemon(tmp_path / "data", "--set", "http.token=root") as environment:
        admin = {**environment, "WAYPOST_TOKEN": "root"}
        for command in (
            "waypost user add reader --role read --json",
            "waypost queue create orders",
        ):
            assert shell(command, admin, tmp_path).returncode == 0
        token = json.loads(shell("waypost user token reader --json", admin, tmp_path).stdout)["token"]
        reader = {**environment, "WAYPOST_TOKEN": token}
        assert shell("waypost status", reader, tmp_path).returncode == 0
        refused = shell("waypost queue create other", reader, tmp_path)
        assert refused.returncode == 1
        assert refused.stderr == (
            "The user reader has the role read, but the role operate is required for the operation 'create queue'.\n"
            "hint: an administrator can change the role: `waypost user set reader --role operate`.\n"
        )
        refused = shell("waypost peek 'system$;deadletter'", reader, tmp_path)
        assert "hint: access to this queue requires rights on the computer" in refused.stderr
        assert "security.machine" in refused.stderr
        assert "queue acl" not in refused.stderr
        refused = shell("waypost user token reader --expires -1", admin, tmp_path)
        assert refused.returncode == 2
        assert refused.stderr.startswith("The number of days until a token expires must be more than 0, not -1.\n")
        wrong = {**environment, "WAYPOST_TOKEN": "wrong"}
        assert shell("waypost status", wrong, tmp_path).returncode == 1
        # The account of the daemon is the local administrator with users too: nobody is locked out.
        assert shell("waypost user list", environment, tmp_path).returncode == 0
        entries = json.loads(shell("waypost audit --json", admin, tmp_path).stdout)
        assert [entry["who"] for entry in entries] == ["administrator", "administrator", "administrator", "reader"]
    with daemon(tmp_path / "data", "--set", "http.token=root") as environment:
        reader = {**environment, "WAYPOST_TOKEN": token}
        assert shell("waypost status", reader, tmp_path).returncode == 0
        admin = {**environment, "WAYPOST_TOKEN": "root"}
        assert len(json.loads(shell("waypost audit --json", admin, tmp_path).stdout)) == 4


def test_purge_move_and_delete_need_no_right_to_see_properties(tmp_path: Path) -> None:
    with daemon(tmp_path / "data", "--set", "http.token=root") as environment:
        admin = {**environment, "WAYPOST_TOKEN": "root"}
        for command in (
            "waypost user add ada",
            "waypost queue create orders",
            "waypost queue acl orders --revoke everyone --grant ada:receive,delete",
            "waypost send orders --body one",
            "waypost send orders --body two",
        ):
            done = shell(command, admin, tmp_path)
            assert done.returncode == 0, done.stderr
        refused = shell("waypost queue acl orders --grant nobody:send", admin, tmp_path)
        assert "hint: `waypost user list` shows the users" in refused.stderr
        token = json.loads(shell("waypost user token ada --json", admin, tmp_path).stdout)["token"]
        ada = {**environment, "WAYPOST_TOKEN": token}
        for command in ("purge orders --dry-run", "delete orders --dry-run", "show orders"):
            refused = shell(f"waypost queue {command}", ada, tmp_path)
            assert refused.returncode == 1
            assert "the right get-properties is missing" in refused.stderr
        for command, said in (
            ("move orders 'orders;retry'", "2 messages moved to orders;retry.\n"),
            ("purge 'orders;retry' --yes", "All messages of orders;retry deleted.\n"),
            ("delete orders --yes", "orders was deleted with all its messages.\n"),
        ):
            done = shell(f"waypost queue {command}", ada, tmp_path)
            assert (done.returncode, done.stderr) == (0, said)
