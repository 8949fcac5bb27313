"""`waypost queue acl`: exact forms, the order of changes, and refusals that change nothing."""

import pytest

from tests.cli import desk as _desk
from tests.cli.desk import Desk

desk = _desk.desk

FULL = ["full"]


@pytest.fixture
def orders(desk: Desk) -> Desk:
    desk.do("queue", "create", "orders")
    return desk


def test_a_new_queue_belongs_to_its_creator_and_is_open_without_users(orders: Desk) -> None:
    found = orders.json("queue", "acl", "orders")
    assert list(found) == ["owner", "sddl", "entries"]
    assert found["owner"] == "administrator"
    assert found["sddl"].endswith("-500D:(A;;0xf003f;;;WD)")
    assert found["entries"] == [{"who": "everyone", "sid": "S-1-1-0", "allow": True, "rights": FULL}]
    assert orders.json("queue", "show", "orders")["owner"] == "administrator"


def test_options_repeat_and_combine_in_one_order(orders: Desk) -> None:
    orders.manager.users.add("alice", groups=["sales"])
    bob = orders.manager.users.add("bob")
    found = orders.json(
        *("queue", "acl", "orders", "--grant", "alice:send,receive", "--grant", "sales:peek"),
        *("--deny", "anonymous:send", "--revoke", "everyone", "--owner", "alice", "--grant", f"{bob.sid}:full"),
    )
    assert found["owner"] == "alice"
    assert [(each["who"], each["allow"], each["rights"]) for each in found["entries"]] == [
        ("anonymous", False, ["send"]),
        ("administrators", True, FULL),
        ("alice", True, ["receive", "send"]),
        ("sales", True, ["peek"]),
        ("bob", True, FULL),
    ]
    shown = orders.do("queue", "acl", "orders")
    assert "alice" in shown
    assert "receive, send" in shown
    added = orders.json("queue", "acl", "orders", "--grant", "alice:peek,get-properties", "--revoke", "bob")
    assert [(each["who"], each["rights"]) for each in added["entries"]][2:] == [
        ("alice", ["receive", "send", "get-properties"]),
        ("sales", ["peek"]),
    ]


def test_the_entry_of_a_removed_user_stays_as_a_sid(orders: Desk) -> None:
    sid = orders.manager.users.add("alice").sid
    orders.json("queue", "acl", "orders", "--grant", "alice:send")
    orders.manager.users.remove("alice")
    assert orders.json("queue", "acl", "orders")["entries"][-1]["who"] == sid


def test_sddl_replaces_the_entries_and_keeps_the_owner(orders: Desk) -> None:
    found = orders.json("queue", "acl", "orders", "--sddl", "D:(D;;0x4;;;AN)(A;;GA;;;BA)(A;;0x24;;;WD)")
    assert found["owner"] == "administrator"
    assert found["sddl"].endswith("-500D:(D;;0x4;;;AN)(A;;0xf003f;;;BA)(A;;0x24;;;WD)")
    assert [(each["who"], each["allow"], each["rights"]) for each in found["entries"]] == [
        ("anonymous", False, ["send"]),
        ("administrators", True, FULL),
        ("everyone", True, ["send", "get-properties"]),
    ]
    again = orders.json("queue", "acl", "orders", "--sddl", found["sddl"])
    assert again == found


def test_an_entry_of_sddl_that_denies_wins_wherever_it_is_written(orders: Desk) -> None:
    found = orders.json("queue", "acl", "orders", "--sddl", "D:P(A;;GA;;;BA)(A;;0x4;;;WD)(D;;0x4;;;WD)(D;;0x2;;;AN)")
    assert found["sddl"].endswith("D:P(D;;0x4;;;WD)(D;;0x2;;;AN)(A;;0xf003f;;;BA)(A;;0x4;;;WD)")
    assert [each["allow"] for each in found["entries"]] == [False, False, True, True]
    assert "the right send is missing" in orders.run("send", "orders", "--body", "m").stderr
    orders.manager.users.add("dd")
    after = orders.json("queue", "acl", "orders", "--grant", "dd:peek")
    assert after["entries"][:4] == found["entries"]


@pytest.mark.parametrize("sid", ["S-1-5-80-1-2-3-4-5", "S-1-12-1-1-2-3-4", "S-1-5-21-1-2-3-1104"])
def test_an_owner_that_is_accepted_is_the_owner(orders: Desk, sid: str) -> None:
    assert orders.json("queue", "acl", "orders", "--owner", sid)["owner"] == sid
    orders.manager.users.add("far", sid=sid)
    found = orders.json("queue", "acl", "orders", "--revoke", "everyone", "--grant", "administrators:full")
    assert found["owner"] == "far"


def test_a_change_that_locks_everybody_out_needs_force(orders: Desk) -> None:
    lock: tuple[str, ...] = ("--revoke", "everyone", "--grant", "S-1-5-21-1-2-3-1104:full")
    # The owner can always change the rights.
    assert [each["who"] for each in orders.json("queue", "acl", "orders", *lock)["entries"]] == ["S-1-5-21-1-2-3-1104"]
    orders.json("queue", "acl", "orders", "--revoke", "S-1-5-21-1-2-3-1104", "--grant", "everyone:full")
    # Nobody is known to have these SIDs.
    lock = ("--owner", "S-1-5-21-1-2-3-1105", *lock)
    refused = orders.run("queue", "acl", "orders", *lock)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Nothing was changed, because after this change, no known account could")
    assert "--force" in refused.stderr
    assert orders.json("queue", "acl", "orders")["entries"][0]["rights"] == FULL
    assert len(orders.json("queue", "acl", "orders", *lock, "--force")["entries"]) == 1


def test_a_user_who_alone_can_change_a_queue_is_removed_only_with_force(orders: Desk) -> None:
    orders.manager.users.add("ann")
    orders.json("queue", "acl", "orders", "--owner", "ann", "--deny", "everyone:full")
    refused = orders.run("user", "remove", "ann", "--yes")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "The user ann was not removed, because without this user, no known account could change the rights on orders.\n"
        "hint: as ann, run `waypost queue acl orders --revoke everyone --grant administrators:full` (`waypost user "
        "token ann` creates a token of the user), or use --force.\n"
    )
    assert [user.name for user in orders.manager.users.list()] == ["ann"]
    assert orders.run("user", "remove", "ann", "--yes", "--force").exit_code == 0
    assert orders.manager.users.list() == []
    orders.manager.create_queue("other")
    orders.manager.users.add("bob")
    orders.json("queue", "acl", "other", "--owner", "bob")
    orders.manager.users.remove("bob")


def test_the_hint_of_a_refusal_removes_what_denies(orders: Desk) -> None:
    orders.json("queue", "acl", "orders", "--deny", "everyone:send")
    refused = orders.run("send", "orders", "--body", "m")
    command = "waypost queue acl orders --revoke everyone"
    assert refused.stderr.endswith(
        f"an administrator can remove the entries of everyone, which deny the right: {command}.\n"
    )
    orders.do(*command.split()[1:], "--grant", "administrator:send")
    orders.do("send", "orders", "--body", "m")


@pytest.mark.parametrize("who", ["everyone", "anonymous", "S-1-1-0", "S-1-5-11", "S-1-5-7", "S-1-3-4", "S-1-5-32-545"])
def test_only_an_account_can_own_a_queue(orders: Desk, who: str) -> None:
    before = orders.json("queue", "acl", "orders")
    sid = {"everyone": "WD", "anonymous": "AN"}.get(who, who)
    for words in (("--owner", who), ("--sddl", f"O:{sid}D:(A;;GA;;;WD)"), ("--owner", who, "--force")):
        result = orders.run("queue", "acl", "orders", *words)
        assert result.exit_code == 2
        assert "is not an account, so " in result.stderr
        assert "hint: the owner must be a user, a group, `administrators` or the SID of an account" in result.stderr
    assert orders.json("queue", "acl", "orders") == before
    for who_may in ("administrators", "administrator", "S-1-5-21-1-2-3-1104"):
        assert orders.json("queue", "acl", "orders", "--owner", who_may)["owner"] == who_may


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ("--grant", "nobody:send"),
            2,
            "'nobody' is not a user, a group or a SID.\nhint: `waypost user list` shows the users",
        ),
        (("--grant", "everyone:sned"), 2, "'sned' is not a right; use receive, peek, send"),
        (("--grant", "everyone"), 2, "Rights must be given as `WHO:RIGHT,RIGHT`"),
        (("--grant", "everyone:"), 2, "'' is not a right"),
        (("--revoke", "S-1-nonsense"), 2, "'S-1-nonsense' is not a SID"),
        (("--owner", "nobody"), 2, "'nobody' is not a user, a group or a SID"),
        (("--sddl", "D:(A;;0x4;;;WD", "--force"), 2, "Ace at offset 14: the ACE must end with `)`"),
        (("--sddl", "D:(A;;0x4;;;ZZ)"), 2, "sid-string at offset 12: 'ZZ' is not an alias of a SID"),
        (("--sddl", "D:(A;;0x100;;;BA)"), 2, "0x00000100 is not a right on an object of this type"),
        (("--sddl", "D:(A;;GA;;;BA)", "--grant", "everyone:send"), 2, "`sddl` is not allowed together with `grant`"),
        (("--sddl", ""), 2, "The SDDL must contain an access list (D:) or an owner (O:)"),
        (
            ("--sddl", "G:BAD:(A;;GA;;;BA)"),
            2,
            "The SDDL contains a primary group (G:), which a queue does not have.\nhint: remove G: and its SID",
        ),
        (("--sddl", "D:(A;;GA;;;BA)S:(AU;SA;GA;;;WD)"), 2, "The SDDL contains audit rules (S:)"),
        (("--sddl", "D:(A;;GA;;;BA)(A;IO;0x4;;;WD)"), 2, "The SDDL contains an entry that neither grants nor denies"),
        (("--sddl", "D:(A;;GA;;;BA)(AU;;0x4;;;WD)"), 2, "The SDDL contains an entry that neither grants nor denies"),
        (
            ("--sddl", "D:(A;;GA;;;BA)(OA;;0x4;bf967aba-0de6-11d0-a285-00aa003049e2;;WD)"),
            2,
            "The SDDL contains an entry for a part of an object (OA or OD)",
        ),
        (("--owner", "S-1-5-18"), 2, "S-1-5-18 is not an account, so S-1-5-18 cannot own a queue"),
        (("--sddl", "O:SYD:(A;;GA;;;WD)"), 2, "S-1-5-18 is not an account, so S-1-5-18 cannot own a queue"),
    ],
)
def test_bad_input_is_a_sentence_with_a_hint_and_changes_nothing(
    orders: Desk, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    before = orders.json("queue", "acl", "orders")
    result = orders.run("queue", "acl", "orders", *arguments)
    assert result.stderr.startswith(sentence), result.stderr
    assert "\nhint: " in result.stderr
    assert result.exit_code == code
    assert orders.json("queue", "acl", "orders") == before


@pytest.mark.parametrize("name", ["orders;journal", "system$;deadletter", "nowhere"])
def test_queues_without_rights_of_this_kind_say_so(orders: Desk, name: str) -> None:
    result = orders.run("queue", "acl", name)
    assert result.exit_code != 0
    assert "\nhint: " in result.stderr
