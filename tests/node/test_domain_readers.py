"""Remote readers with an account of a domain: the SID and the groups of a Kerberos ticket decide, not the name."""

import pytest

from tests.node.remote_rig import RemoteRig
from waypost.api.local import StoreUser
from waypost.api.operations import SetAcl
from waypost.core.queues import AccessType
from waypost.rpc.authentication import AuthLevel, Caller, DomainAccount
from waypost.security.callers import Role, account_sid
from waypost.wire.sid import ADMINISTRATORS, AUTHENTICATED_USERS, EVERYONE, NETWORK, Sid

ALICE = Sid(5, (21, 1, 2, 3, 1105))
BOB = Sid(5, (21, 1, 2, 3, 1106))
STAFF = Sid(5, (21, 1, 2, 3, 1120))
NAME = "alice@CORP.EXAMPLE"


def reader(sid: Sid = ALICE, *groups: Sid) -> Caller:
    return Caller(AuthLevel.PRIVACY, NAME, "10.0.0.9", DomainAccount(sid, frozenset(groups)))


@pytest.fixture
def rig() -> RemoteRig:
    found = RemoteRig()
    change(found, revoke=["everyone"], grant=["administrators:full"])
    return found


def change(rig: RemoteRig, **acl: list[str]) -> None:
    rig.done(rig.do(SetAcl(name="orders", **acl)))  # type: ignore[arg-type]


def may(rig: RemoteRig, caller: Caller, access: AccessType = AccessType.RECEIVE) -> bool:
    return rig.remote.may(caller, rig.queue("orders"), access)


def test_an_entry_for_the_account_allows_it(rig: RemoteRig) -> None:
    assert not may(rig, reader())
    change(rig, grant=[f"{ALICE}:peek"])
    assert may(rig, reader(), AccessType.PEEK)
    assert not may(rig, reader())
    assert not may(rig, reader(BOB), AccessType.PEEK)


def test_an_entry_for_a_group_allows_and_denies_its_members(rig: RemoteRig) -> None:
    change(rig, grant=[f"{STAFF}:receive"])
    assert may(rig, reader(ALICE, STAFF))
    assert not may(rig, reader())
    change(rig, revoke=[str(STAFF)], grant=["everyone:receive"], deny=[f"{STAFF}:receive"])
    assert not may(rig, reader(ALICE, STAFF))
    assert may(rig, reader())


def test_the_token_has_the_groups_of_every_logon_over_the_network(rig: RemoteRig) -> None:
    known = rig.node.users.domain_caller(DomainAccount(ALICE, frozenset({STAFF})), NAME, "rpc 10.0.0.9")
    assert known is not None
    assert known.sids == {ALICE, STAFF, EVERYONE, AUTHENTICATED_USERS, NETWORK}
    assert (known.name, known.role, known.origin) == (NAME, Role.NONE, "rpc 10.0.0.9")


def test_a_user_with_the_sid_adds_its_groups_and_its_role(rig: RemoteRig) -> None:
    rig.done(rig.do(StoreUser(name="ada", is_new=True, sid=str(ALICE), groups=("sales",), role="admin")))
    users = rig.node.users
    known = users.domain_caller(DomainAccount(ALICE, frozenset({STAFF})), NAME, "rpc 10.0.0.9")
    assert known is not None
    assert (known.name, known.role) == ("ada", Role.ADMIN)
    assert {ALICE, STAFF, users.sid_of("sales"), ADMINISTRATORS, NETWORK} <= known.sids
    other = users.domain_caller(DomainAccount(BOB, frozenset({STAFF})), "ada", "rpc 10.0.0.9")
    assert other is not None
    assert (other.role, other.is_administrator, users.sid_of("sales") in other.sids) == (Role.NONE, False, False)


def test_what_this_computer_decides_about_does_not_come_from_a_domain(rig: RemoteRig) -> None:
    own = rig.node.administrator.sid
    machine = Sid(own.identifier_authority, own.sub_authority[:-1])
    local = account_sid(machine, 1001)
    change(rig, grant=[f"{local}:receive"])
    assert not may(rig, reader(local))
    assert not may(rig, reader(own))
    assert not may(rig, reader(ADMINISTRATORS))
    assert not may(rig, reader(ALICE, local, ADMINISTRATORS))
    known = rig.node.users.domain_caller(DomainAccount(ALICE, frozenset({ADMINISTRATORS, local})), NAME, "rpc")
    assert known is not None
    assert known.sids == {ALICE, EVERYONE, AUTHENTICATED_USERS, NETWORK}
