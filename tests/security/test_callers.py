"""Callers: their SIDs, groups and roles, and how they reach the kernel with their operations."""

from pathlib import Path

import pytest

from tests.node.rig import Rig
from waypost.api.operations import CreateQueue
from waypost.drive.driver import Driver
from waypost.drive.settings import settings
from waypost.errors import QueueExists
from waypost.node.kernel import Call, Kernel
from waypost.node.operation_handlers import Handlers
from waypost.security.callers import (
    QUEUE_MANAGER,
    Caller,
    Role,
    account_sid,
    anonymous,
    local_administrator,
    machine_sid,
    may_enter,
    verified,
)
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

MACHINE = machine_sid(bytes(range(16)))


def test_the_sid_of_a_machine_comes_from_its_guid() -> None:
    assert str(MACHINE) == "S-1-5-21-1364079374-703021867-3731109106"
    assert machine_sid(bytes(range(16))) == MACHINE
    assert machine_sid(bytes(16)) != MACHINE


def test_roles_are_ordered() -> None:
    assert Role.NONE < Role.READ < Role.OPERATE < Role.ADMIN
    assert [role.word for role in Role] == ["none", "read", "operate", "admin"]


def test_an_anonymous_caller_is_anonymous_and_everyone() -> None:
    caller = anonymous("http 127.0.0.1")
    assert caller.sids == {ANONYMOUS, EVERYONE}
    assert caller.role is Role.NONE
    assert caller.is_anonymous
    assert not caller.is_administrator


def test_a_verified_user_has_its_groups_and_those_of_its_logon() -> None:
    sid, group = account_sid(MACHINE, 1001), account_sid(MACHINE, 1002)
    caller = verified(sid, frozenset({group}), Role.OPERATE, "ada", "http 127.0.0.1")
    assert caller.sids == {sid, group, EVERYONE, AUTHENTICATED_USERS}
    assert not caller.is_administrator
    assert not caller.is_anonymous


def test_the_role_admin_is_membership_in_administrators() -> None:
    caller = verified(account_sid(MACHINE, 1001), frozenset(), Role.ADMIN, "ada", "http 127.0.0.1")
    assert ADMINISTRATORS in caller.groups
    assert caller.is_administrator


def test_the_local_administrator_is_account_500_of_the_machine() -> None:
    caller = local_administrator(MACHINE, "unix uid 1000")
    assert caller.sid == Sid(5, (*MACHINE.sub_authority, 500))
    assert caller.role is Role.ADMIN
    assert caller.is_administrator
    assert caller.origin == "unix uid 1000"


def test_the_kernel_has_the_caller_during_its_operation_only() -> None:
    rig = Rig()
    handlers = Handlers(rig.node)
    ada = verified(account_sid(MACHINE, 1001), frozenset(), Role.OPERATE, "ada", "http 127.0.0.1")
    seen: list[Caller] = []
    reply = Kernel.reply

    def look(kernel: Kernel, request: int, value: object = None) -> None:
        seen.append(kernel.caller)
        reply(kernel, request, value)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(Kernel, "reply", look)
        handlers.start(Call(1, rig.now, ada), CreateQueue(name="invoices"))
    assert seen == [ada]
    assert rig.node.kernel.caller is QUEUE_MANAGER
    with pytest.raises(QueueExists):
        handlers.start(Call(2, rig.now, ada), CreateQueue(name="invoices"))
    assert rig.node.kernel.caller is QUEUE_MANAGER


def test_a_program_with_the_folder_is_the_local_administrator(tmp_path: Path) -> None:
    driver = Driver.open(tmp_path, settings("HOST", None), lambda: None, max_size=None)
    node = driver.node
    assert node.machine == machine_sid(node.manager.identity.identifier)
    assert node.administrator.sid == account_sid(node.machine, 500)
    assert node.administrator.origin == "embedded"
    driver.stop()
    driver.finish(driver.close_store())


# MS-PAC 4.1.2.2, the boundary Member.
ENTERING = (
    "S-1-4-7",
    "S-1-5-9",
    "S-1-5-15",
    "S-1-5-21-1-2-3-500",
    "S-1-5-21-1-2-3-513",
    "S-1-5-21-1-2-3-1105",
    "S-1-5-21-0-0-0-497",
    "S-1-5-1000-7",
    "S-1-5-1001-7",
    "S-1-10-7",
    "S-1-18-1",
)
FILTERED = (
    "S-1-0-0",
    "S-1-1-0",
    "S-1-2-0",
    "S-1-3-0",
    "S-1-5",
    "S-1-5-2",
    "S-1-5-5-1-2",
    "S-1-5-7",
    "S-1-5-11",
    "S-1-5-18",
    "S-1-5-21",
    "S-1-5-21-1-2",
    "S-1-5-21-1-2-3",
    "S-1-5-21-1-2-3-1105-7",
    "S-1-5-32",
    "S-1-5-32-544",
    "S-1-5-64-10",
    "S-1-5-80-1",
    "S-1-6-1",
    "S-1-9-1",
    f"{MACHINE}-500",
    f"{MACHINE}-1001",
)


@pytest.mark.parametrize("text", ENTERING)
def test_a_domain_may_name_this_account(text: str) -> None:
    assert may_enter(Sid.parse(text), MACHINE)


@pytest.mark.parametrize("text", FILTERED)
def test_a_domain_may_not_name_this_account(text: str) -> None:
    assert not may_enter(Sid.parse(text), MACHINE)
