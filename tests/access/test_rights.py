"""A user without the right is refused, and with it allowed, for every operation of the record table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import waypost
from tests.access.cases import (
    CASES,
    LIKE,
    OF_EVERY_USER,
    OWNED,
    QUEUES,
    Door,
    begun,
    decided,
    opened_cursor,
    put,
    removing,
)
from tests.client.managers import opened
from waypost.api.claims import Claim, ListAllClaims, ListClaims, ReturnClaim
from waypost.api.local import CancelReads, Follow, StoreUser
from waypost.api.operations import (
    Browse,
    CreateQueue,
    CursorPeek,
    DeleteQueue,
    Explain,
    Operation,
    PurgeQueue,
    Receive,
    Send,
    SetAcl,
    SetQueue,
    ShowAcl,
    ShowQueue,
)
from waypost.client.transports.embedded import Embedded
from waypost.errors import AccessDenied, InvalidHandle, TransactionSequence, WaypostError
from waypost.security.callers import Caller, Role, anonymous, verified

R = TypeVar("R")


class Inside(Door):
    """A queue manager in this process."""

    def __init__(self, manager: waypost.Manager) -> None:
        transport = manager._transport
        assert isinstance(transport, Embedded)
        self.shell = transport.shell
        self.node = self.shell.driver.node
        self.callers: dict[str, Caller] = {
            "administrator": self.node.administrator,
            "nobody": anonymous("http 127.0.0.1"),
        }
        for name in ("alice", "bob"):
            self.call("administrator", StoreUser(name=name, is_new=True))
            self.callers[name] = self.node.users.caller(self.node.users.get(name), "http 127.0.0.1")
        self._queue = "orders"
        for name, transactional in (("orders", False), ("ledger", True)):
            self.call("administrator", CreateQueue(name=name, transactional=transactional))
            self.rights(name, "administrators:full", "alice:full", "bob:full")

    def call(self, who: str, operation: Operation[R]) -> R:
        return self.shell.call(operation, self.callers[who])

    def queue(self) -> str:
        return self._queue

    def rights(self, name: str, *grants: str) -> None:
        revoke = ["everyone", "bob", "alice"]
        self.call("administrator", SetAcl(name=name, revoke=revoke, grant=list(grants)))


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Inside]:
    with opened(tmp_path / "data") as manager:
        yield Inside(manager)


def test_every_operation_that_no_role_decides_has_a_case() -> None:
    assert set(CASES) | set(OWNED) | OF_EVERY_USER == decided()


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_the_case_asks_for_the_right_that_the_row_declares(kind: type[Operation[Any]]) -> None:
    declared = kind.row.queue_right
    assert declared is not None
    assert declared.value in CASES[kind].right.split(",")


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_an_operation_is_refused_without_the_right_and_works_with_it_alone(
    door: Inside, kind: type[Operation[Any]]
) -> None:
    case, name = CASES[kind], QUEUES.get(kind, "orders")
    operation = case.make(door)
    assert type(operation) is kind
    others = [word for word in _RIGHTS if word not in _INCLUDING[case.right]]
    door.rights(name, "administrators:full", f"bob:{','.join(others)}")
    with pytest.raises(AccessDenied) as refused:
        door.call("bob", operation)
    assert refused.value.hresult == 0xC00E0025
    assert "bob may not" in str(refused.value)
    door.rights(name, "administrators:full", f"bob:{case.right}")
    door.call("bob", operation)


_RIGHTS = (
    "receive",
    "peek",
    "send",
    "receive-journal",
    "set-properties",
    "get-properties",
    "delete",
    "get-permissions",
    "set-permissions",
    "take-ownership",
)
# The rights that a right includes, or that include it.
_INCLUDING = {
    **{word: {word} for word in _RIGHTS},
    "peek": {"peek", "receive", "receive-journal"},
    "receive,send": {"receive", "send"},
}


@pytest.mark.parametrize("kind", OWNED, ids=lambda kind: kind.__name__)
def test_an_object_exists_only_for_its_owner_and_administrators(door: Inside, kind: type[Operation[Any]]) -> None:
    case = OWNED[kind]
    operation = case.make(door)
    assert type(operation) is kind
    if case.is_silent:
        door.call("bob", operation)
    else:
        with pytest.raises((InvalidHandle, TransactionSequence)):
            door.call("bob", operation)
    door.call("alice", operation)


@pytest.mark.parametrize("kind", [kind for kind in OWNED if not OWNED[kind].is_silent], ids=lambda kind: kind.__name__)
def test_an_administrator_can_end_the_objects_of_others(door: Inside, kind: type[Operation[Any]]) -> None:
    operation = OWNED[kind].make(door)
    if kind.__name__ == "CommitStages":
        # The names of queries are kept with the SID of their owner, and administrators give them whole.
        with pytest.raises(TransactionSequence):
            door.call("administrator", operation)
        return
    door.call("administrator", operation)


def test_a_commit_removes_messages_only_with_the_right_to_receive(door: Inside) -> None:
    operation = removing(door)
    door.rights("orders", "administrators:full", "bob:send,peek")
    with pytest.raises(AccessDenied, match="bob may not receive from orders"):
        door.call("bob", operation)
    door.rights("orders", "administrators:full", "bob:receive")
    assert door.call("bob", operation).count == 0


def test_claims_of_others_are_not_listed_and_names_do_not_clash(door: Inside) -> None:
    put(door)
    put(door)
    for who in ("alice", "bob"):
        assert door.call(who, Claim(name="orders", claim="mine", max_messages=1, lease_s=600)).count == 1
    for who in ("alice", "bob"):
        assert [each.claim for each in door.call(who, ListClaims(name="orders")).claims] == ["mine"]
    shown = [each.claim for each in door.call("administrator", ListAllClaims()).claims]
    assert shown == [f"{door.callers[who].sid}/mine" for who in ("alice", "bob")]
    assert door.call("administrator", ReturnClaim(name="orders", claim=shown[0])).count == 1
    assert door.call("alice", ListClaims(name="orders")).claims == []
    assert len(door.call("bob", ListClaims(name="orders")).claims) == 1


def test_a_transaction_of_another_user_cannot_be_joined(door: Inside) -> None:

    transaction = begun(door)
    operation = Send(name="ledger", like=LIKE, bodies=[b"a"], transaction=transaction)
    with pytest.raises(TransactionSequence):
        door.call("bob", operation)
    door.call("alice", operation)


def test_the_journal_of_a_queue_takes_another_right_than_the_queue(door: Inside) -> None:
    door.rights("orders", "administrators:full", "bob:receive")
    with pytest.raises(AccessDenied, match="receive-journal is missing"):
        door.call("bob", PurgeQueue(name="DIRECT=OS:.\\private$\\orders;journal"))
    door.rights("orders", "administrators:full", "bob:receive-journal")
    door.call("bob", PurgeQueue(name="DIRECT=OS:.\\private$\\orders;journal"))
    with pytest.raises(AccessDenied):
        door.call("bob", PurgeQueue(name="orders"))


@pytest.mark.parametrize("name", ["system$;deadletter", "system$;deadxact", "system$;journal"])
def test_the_queues_of_the_computer_are_for_administrators(door: Inside, name: str) -> None:
    with pytest.raises(AccessDenied):
        door.call("bob", PurgeQueue(name=name))
    with pytest.raises(AccessDenied):
        door.call("bob", Receive(name=name))
    door.call("administrator", PurgeQueue(name=name))
    door.call("bob", ShowQueue(name=name))


def test_an_outgoing_queue_is_filled_by_users_and_read_by_administrators(door: Inside) -> None:

    far = "DIRECT=TCP:192.0.2.7\\private$\\far"
    with pytest.raises(AccessDenied, match="anonymous may not send"):
        door.call("nobody", Send(name=far, like=LIKE, bodies=[b"a"]))
    assert far.lower() not in {str(name).lower() for name in door.node.manager.collection.outgoing}
    door.call("bob", Send(name=far, like=LIKE, bodies=[b"a"]))
    with pytest.raises(AccessDenied):
        door.call("bob", PurgeQueue(name=far, outgoing=True))
    door.call("administrator", PurgeQueue(name=far, outgoing=True))


def test_a_list_of_queues_takes_the_right_to_each(door: Inside) -> None:

    door.rights("orders", "administrators:full")
    both = "DIRECT=OS:.\\private$\\ledger,DIRECT=OS:.\\private$\\orders"
    with pytest.raises(AccessDenied, match="bob may not send to orders"):
        door.call("bob", Send(name=both, like=LIKE, bodies=[b"a"]))


def test_queues_are_created_by_users_and_owned_by_their_creator(door: Inside) -> None:
    with pytest.raises(AccessDenied, match="the role"):
        door.call("bob", CreateQueue(name="new"))
    door.callers["bob"] = verified(door.callers["bob"].sid, frozenset(), Role.OPERATE, "bob", "http 127.0.0.1")
    assert door.call("bob", CreateQueue(name="new")).owner == "bob"
    door.node.access.check_create(door.callers["alice"], "x")
    with pytest.raises(AccessDenied, match="does not have the right to create queues"):
        door.node.access.check_create(door.callers["nobody"], "x")


def test_following_and_cancelling_take_the_right_to_peek(door: Inside) -> None:
    for operation in (Follow(name="orders", since=0, limit=1), CancelReads(name="orders")):
        door.rights("orders", "administrators:full", "bob:send")
        with pytest.raises(AccessDenied):
            door.call("bob", operation)
        door.rights("orders", "administrators:full", "bob:peek")
        door.call("bob", operation)


def test_a_new_owner_takes_another_right_than_new_entries(door: Inside) -> None:
    door.rights("orders", "administrators:full", "bob:set-permissions")
    with pytest.raises(AccessDenied, match="take-ownership"):
        door.call("bob", SetAcl(name="orders", owner="bob"))
    with pytest.raises(AccessDenied, match="take-ownership"):
        door.call("bob", SetAcl(name="orders", sddl=f"O:{door.callers['bob'].sid}D:(A;;0xf003f;;;BA)"))
    door.rights("orders", "administrators:full", "bob:take-ownership")
    assert door.call("bob", SetAcl(name="orders", owner="bob")).owner == "bob"
    # The owner may change the rights without an entry.
    door.rights("orders", "administrators:full")
    assert door.call("bob", SetAcl(name="orders", grant=["bob:send"])).owner == "bob"


_JOURNAL = "DIRECT=OS:.\\private$\\orders;journal"
# MS-MQMQ 2.2.24: the bits that an operation needs, from the text alone.
_BITS: dict[str, tuple[int, Callable[[], Operation[Any]]]] = {
    "receive": (0x1 | 0x2, lambda: PurgeQueue(name="orders")),
    "peek": (0x2, lambda: Browse(name="orders", form="packet")),
    "send": (0x4, lambda: Send(name="orders", like=LIKE, bodies=[b"a"], answer="ids")),
    "receive-journal": (0x8 | 0x2, lambda: PurgeQueue(name=_JOURNAL)),
    "set-properties": (0x10, lambda: SetQueue(name="orders", label="new")),
    "get-properties": (0x20, lambda: ShowQueue(name="orders")),
    "get-permissions": (0x20000, lambda: ShowAcl(name="orders")),
    "set-permissions": (0x40000, lambda: SetAcl(name="orders", grant=["everyone:get-properties"])),
    "take-ownership": (0x80000, lambda: SetAcl(name="orders", owner="bob")),
    "delete": (0x10000, lambda: DeleteQueue(name="orders")),
}


def _may(door: Inside, operation: Operation[Any]) -> bool:
    try:
        door.call("bob", operation)
    except AccessDenied:
        return False
    return True


@pytest.mark.spec("MQMQ-2.2.24-01", "MQMQ-2.2.24-02")
@pytest.mark.parametrize(
    ("entry", "mask"),
    [
        *((hex(1 << bit), 1 << bit) for bit in (0, 1, 2, 3, 4, 5, 16, 17, 18, 19)),
        ("0x3", 0x3),
        ("0xa", 0xA),
        ("GR", 0x2002B),
        ("GW", 0x20024),
        ("GA", 0xF003F),
    ],
)
def test_a_bit_of_a_descriptor_is_the_right_of_that_bit(door: Inside, entry: str, mask: int) -> None:
    administrators = "(A;;GA;;;BA)"
    bob = door.callers["bob"].sid
    for needed, make in _BITS.values():
        owner = door.callers["administrator"].sid
        sddl = f"O:{owner}D:{administrators}(A;;{entry};;;{bob})"
        acl = door.call("administrator", SetAcl(name="orders", sddl=sddl))
        assert f"(A;;{mask:#x};;;{bob})" in acl.sddl
        assert _may(door, make()) is (mask & needed == needed), hex(needed)


@pytest.mark.spec("MQDMPR-3.1.1.2-12", "MQMQ-2.2.24-02")
def test_a_queue_has_only_rights_of_queues(door: Inside) -> None:
    bob = door.callers["bob"].sid
    for word, (mask, _) in _BITS.items():
        acl = door.call("administrator", SetAcl(name="orders", revoke=["bob"], grant=[f"bob:{word}"]))
        assert f"(A;;{mask:#x};;;{bob})" in acl.sddl
    acl = door.call("administrator", SetAcl(name="orders", revoke=["bob"], grant=["bob:full"]))
    assert f"(A;;0xf003f;;;{bob})" in acl.sddl
    for mask in (0x40, 0x80, 0x100, 0x8000, 0x100000, 0x200000):
        with pytest.raises(WaypostError, match=f"{mask:#x}|{mask:#010x}"):
            door.call("administrator", SetAcl(name="orders", sddl=f"D:(A;;GA;;;BA)(A;;{mask:#x};;;{bob})"))
    assert door.call("administrator", ShowAcl(name="orders")) == acl


def test_revoked_rights_end_the_use_of_open_cursors(door: Inside) -> None:
    put(door)
    cursor = opened_cursor(door)
    door.call("bob", CursorPeek(identifier=cursor))
    door.rights("orders", "administrators:full")
    with pytest.raises(AccessDenied):
        door.call("bob", CursorPeek(identifier=cursor))


def test_a_refusal_is_counted_and_explained(door: Inside) -> None:
    door.rights("orders", "administrators:full")
    for _ in range(2):
        with pytest.raises(WaypostError):
            door.call("bob", Receive(name="orders"))
    assert door.node.access.refused["receive"] == 2
    sentences = door.call("administrator", Explain(queue="orders")).sentences
    assert any("2 requests were refused" in each and "from bob" in each for each in sentences)


def test_a_check_that_is_remembered_ends_with_the_rights_it_saw(door: Inside) -> None:
    """The handle of a queue is shared, and the last check of each is remembered."""
    send = Send(name="orders", like=LIKE, bodies=[b"a"])
    for _ in range(3):
        door.call("bob", send)
    door.rights("orders", "administrators:full", "alice:send")
    with pytest.raises(AccessDenied):
        door.call("bob", send)
    door.call("alice", send)
    with pytest.raises(AccessDenied):
        door.call("bob", send)
    door.rights("orders", "administrators:full", "bob:send")
    door.call("bob", send)
    with pytest.raises(AccessDenied):
        door.call("alice", send)
