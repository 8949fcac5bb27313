"""Remote readers with Kerberos: SID and groups come from the PAC of the ticket, and the rights on a queue from them.

The tickets are made here with the key of the service (tests/daemon/tickets.py). Everything else is the product and the
Kerberos library of the system: a daemon, its keytab, and a client with a credential cache.
"""

import os
from collections.abc import Iterator
from typing import Final

import pytest

import waypost
from tests.crash.daemons import SECONDS, Daemon, loopback, patience
from tests.daemon import tickets
from tests.daemon.tickets import DOMAIN, Service, logon_info
from tests.foreign.every_call import DENY_NONE, NOBODY, RECEIVE, queue_format
from tests.foreign.site import Faulted, OurClient
from waypost.daemon.rpc_acceptors import acceptors
from waypost.daemon.rpc_users import Logons
from waypost.drive.rpc_security import Credentials, initiator
from waypost.errors import AccessDenied, AuthenticationFailed
from waypost.hresult import HResult
from waypost.remote.interfaces import qmcomm
from waypost.remote.interfaces import remote_read as table
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.authentication import AuthLevel, AuthType, SecurityContext, SecurityContextFailed
from waypost.wire.logon_info import GroupMembership, SidAndAttributes
from waypost.wire.sid import ADMINISTRATORS, Sid

pytestmark = pytest.mark.needs("kerberos")

PACKAGES: Final = [AuthType.KERBEROS, AuthType.SPNEGO]
ALICE, STAFF, USERS = 1105, 1120, 513
PRINCIPAL: Final = f"alice@{tickets.REALM}"


def sid(number: int, domain: Sid = DOMAIN) -> str:
    return f"{domain}-{number}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("service"), loopback(95))
    with pytest.MonkeyPatch.context() as environment:
        made.install(environment)
        yield made


# The acceptor.


def accepted(service: Service, auth_type: AuthType) -> SecurityContext:
    """The acceptor after all tokens of a client that has the ticket."""
    client = initiator(auth_type, AuthLevel.PRIVACY, service.host, Credentials(PRINCIPAL))
    server = acceptors(Logons())(auth_type)
    assert server is not None
    token, legs = client.step(None), 0
    while token is not None:
        token = (server, client)[legs % 2].step(token)
        legs += 1
    assert server.is_complete
    assert server.principal == PRINCIPAL
    return server


@pytest.mark.parametrize("auth_type", PACKAGES)
def test_the_account_and_its_groups_come_from_the_pac(service: Service, auth_type: AuthType) -> None:
    info = logon_info(
        ALICE,
        STAFF,
        primary_group_id=USERS,
        extra_sids=[SidAndAttributes(Sid(5, (21, 7, 7, 7, 1300)))],
        resource_group_domain_sid=Sid(5, (21, 8, 8, 8)),
        resource_group_ids=[GroupMembership(1400)],
    )
    service.grant("alice", service.pac("alice", info))
    account = accepted(service, auth_type).account
    assert account is not None
    assert str(account.sid) == sid(ALICE)
    assert set(map(str, account.groups)) == {sid(STAFF), sid(USERS), "S-1-5-21-7-7-7-1300", "S-1-5-21-8-8-8-1400"}


@pytest.mark.parametrize("auth_type", PACKAGES)
def test_a_ticket_without_a_pac_names_only_the_principal(service: Service, auth_type: AuthType) -> None:
    service.grant("alice", None)
    assert accepted(service, auth_type).account is None


@pytest.mark.parametrize("auth_type", PACKAGES)
def test_a_pac_that_is_not_verified_counts_as_none(service: Service, auth_type: AuthType) -> None:
    info = logon_info(ALICE, STAFF)
    for worthless in (
        service.pac("alice", info, key=os.urandom(32)),
        service.pac("bob", info),
        service.pac("alice", info, logon_time=service.logon_time - 1),
        service.pac("alice", info).replace(info, logon_info(500, STAFF)),
    ):
        service.grant("alice", worthless)
        assert accepted(service, auth_type).account is None


@pytest.mark.parametrize("auth_type", PACKAGES)
def test_a_signed_pac_that_does_not_decode_ends_the_logon(service: Service, auth_type: AuthType) -> None:
    info = logon_info(ALICE, STAFF)
    for damaged in (info[:-8], b"\2" + info[1:]):
        service.grant("alice", service.pac("alice", damaged))
        with pytest.raises(SecurityContextFailed, match="invalid logon information in the PAC"):
            accepted(service, auth_type)


def test_a_ticket_with_another_key_is_refused(service: Service) -> None:
    stranger = Service(service.folder, service.host)
    stranger.grant("alice", stranger.pac("alice", logon_info(ALICE)))
    with pytest.raises(SecurityContextFailed, match="kerberos"):
        accepted(service, AuthType.KERBEROS)


# The daemon.


@pytest.fixture(scope="module")
def daemon(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("readers")
    with Daemon(place, "HOST", service.host, "rpc.kerberos=true") as daemon:
        daemon.start()
        yield daemon


@pytest.fixture
def manager(daemon: Daemon) -> Iterator[waypost.Manager]:
    with daemon.connect() as manager:
        yield manager


@pytest.fixture
def orders(manager: waypost.Manager) -> Iterator[waypost.Queue]:
    """A queue that nobody but administrators may read, with a message."""
    queue = manager.create_queue("orders")
    queue.set_acl(revoke=["everyone"], grant=["administrators:full"])
    queue.send("42 bolts")
    try:
        yield queue
    finally:
        queue.delete()
        for user in manager.users.list():
            manager.users.remove(user.name)


def log_on(service: Service, user_id: int = ALICE, *groups: int, domain: Sid = DOMAIN, name: str = "alice") -> None:
    service.grant(name, service.pac(name, logon_info(user_id, *groups, domain=domain)))


def may_receive(service: Service, name: str = "alice") -> bool:
    """Whether a reader gets the message of the queue, which is put back."""
    with waypost.msmq(service.host, user=f"{name}@{tickets.REALM}", epm_port=None, timeout=60) as host:
        try:
            message = host.queue(r"private$\orders").receive(timeout=0)
        except AccessDenied:
            return False
    assert message.text == "42 bolts"
    with waypost.connect(f"http://{service.host}:8181") as manager:
        manager.queue("orders").send(message.text)
    return True


@pytest.mark.spec("MQRR-2.1-05")
def test_a_reader_is_allowed_by_its_sid(service: Service, orders: waypost.Queue) -> None:
    log_on(service, ALICE, USERS)
    assert not may_receive(service)
    orders.set_acl(grant=[f"{sid(ALICE)}:receive"])
    assert may_receive(service)
    log_on(service, 1106, USERS)
    assert not may_receive(service)
    orders.set_acl(revoke=[sid(ALICE)])
    log_on(service, ALICE, USERS)
    assert not may_receive(service)


@pytest.mark.spec("MQRR-2.1-05")
def test_a_reader_is_allowed_by_its_group(service: Service, orders: waypost.Queue) -> None:
    orders.set_acl(grant=[f"{sid(STAFF)}:receive"])
    log_on(service, ALICE, USERS)
    assert not may_receive(service)
    log_on(service, ALICE, USERS, STAFF)
    assert may_receive(service)
    log_on(service, 1106, STAFF)
    assert may_receive(service)
    log_on(service, ALICE, STAFF, domain=Sid(5, (21, 4, 4, 4)))
    assert not may_receive(service)


def test_a_reader_is_refused_by_its_group(service: Service, orders: waypost.Queue) -> None:
    orders.set_acl(grant=["everyone:receive"], deny=[f"{sid(STAFF)}:receive"])
    log_on(service, ALICE, USERS)
    assert may_receive(service)
    log_on(service, ALICE, USERS, STAFF)
    assert not may_receive(service)
    orders.set_acl(revoke=[sid(STAFF)], deny=[f"{sid(ALICE)}:receive"])
    assert not may_receive(service)


def test_a_ticket_without_a_pac_has_the_rights_of_everyone_and_every_denial(
    service: Service, orders: waypost.Queue
) -> None:
    service.grant("alice", None)
    orders.set_acl(grant=[f"{sid(ALICE)}:receive", f"{sid(STAFF)}:receive"])
    assert not may_receive(service)
    # Authenticated users, to which every logon belongs.
    orders.set_acl(grant=["S-1-5-11:receive"])
    assert may_receive(service)
    # It may be the account of a domain that the entry denies.
    orders.set_acl(deny=[f"{sid(STAFF)}:receive"])
    assert not may_receive(service)


def test_a_forged_pac_gives_no_rights(service: Service, orders: waypost.Queue) -> None:
    orders.set_acl(grant=[f"{sid(ALICE)}:receive"])
    service.grant("alice", service.pac("alice", logon_info(ALICE), key=os.urandom(32)))
    assert not may_receive(service)
    service.grant("alice", service.pac("alice", logon_info(ALICE)))
    assert may_receive(service)


def test_a_pac_that_does_not_decode_is_refused_by_the_daemon(service: Service, orders: waypost.Queue) -> None:
    orders.set_acl(grant=["everyone:receive"])
    service.grant("alice", service.pac("alice", logon_info(ALICE)[:-8]))
    with pytest.raises(AuthenticationFailed):
        may_receive(service)


def test_a_registered_user_is_known_by_its_sid_and_not_by_its_name(
    service: Service, manager: waypost.Manager, orders: waypost.Queue
) -> None:
    manager.users.add("ada", sid=sid(ALICE), groups=["sales"])
    manager.users.add(PRINCIPAL, groups=["sales"])
    orders.set_acl(grant=["sales:receive"])
    log_on(service, ALICE)
    assert may_receive(service)
    log_on(service, 1106)
    assert not may_receive(service)
    # The name of the principal counts only for a ticket without a PAC.
    orders.set_acl(revoke=["sales"], grant=[f"{PRINCIPAL}:receive"])
    assert not may_receive(service)
    service.grant("alice", None)
    assert may_receive(service)


def test_the_role_of_a_registered_user_makes_an_administrator(
    service: Service, manager: waypost.Manager, orders: waypost.Queue
) -> None:
    manager.users.add("ada", sid=sid(ALICE), role="operate")
    log_on(service, ALICE)
    assert not may_receive(service)
    manager.users.set("ada", role="admin")
    assert may_receive(service)
    log_on(service, 1106)
    assert not may_receive(service)


def test_a_domain_cannot_make_administrators_or_accounts_of_this_computer(
    service: Service, manager: waypost.Manager, orders: waypost.Queue
) -> None:
    manager.users.add("ada")
    own = Sid.parse(manager.users.show("ada").sid)
    orders.set_acl(grant=["ada:receive"])
    computer = Sid(5, own.sub_authority[:-1])
    for account in (own.sub_authority[-1], 500):
        log_on(service, account, USERS, domain=computer)
        assert not may_receive(service)
    info = logon_info(ALICE, extra_sids=[SidAndAttributes(ADMINISTRATORS), SidAndAttributes(own)])
    service.grant("alice", service.pac("alice", info))
    assert not may_receive(service)


def opened(
    service: Service, auth_type: AuthType, user: str = PRINCIPAL, password: str | None = None
) -> tuple[int, int]:
    """The answers of R_OpenQueue and of the open of qmcomm."""
    found = []
    for interface, opnum, request in (
        (REMOTE_READ, 2, table.OpenQueueRequest(queue_format("orders"), RECEIVE, DENY_NONE)),
        (QMCOMM, 2, qmcomm.OpenRemoteQueueRequest(queue_format("orders"), 7, RECEIVE, DENY_NONE, NOBODY, 0)),
    ):
        endpoint = (service.host, 2103)
        with OurClient(endpoint, [interface], AuthLevel.PRIVACY, auth_type, user=user, password=password) as client:
            found.append(client.ask(interface, opnum, request))
    by_fault, by_result = found
    return by_fault.status if isinstance(by_fault, Faulted) else HResult.MQ_OK, by_result.hresult


@pytest.mark.parametrize("auth_type", PACKAGES)
def test_both_protocols_know_the_account_with_both_packages(
    service: Service, orders: waypost.Queue, auth_type: AuthType
) -> None:
    log_on(service, ALICE, STAFF)
    refused = HResult.MQ_ERROR_ACCESS_DENIED
    assert opened(service, auth_type) == (refused, refused)
    orders.set_acl(grant=[f"{sid(STAFF)}:receive"])
    assert opened(service, auth_type) == (HResult.MQ_OK, HResult.MQ_OK)


@pytest.mark.spec("MQRR-1.7-02")
def test_a_server_accepts_ntlm_and_kerberos(service: Service, manager: waypost.Manager, orders: waypost.Queue) -> None:
    manager.users.add("bob", ntlm=True, password="s3cret")
    orders.set_acl(grant=["bob:receive", f"{sid(ALICE)}:receive"])
    log_on(service, ALICE)
    for auth_type, user, password in (
        (AuthType.NTLM, "bob", "s3cret"),
        (AuthType.SPNEGO, "bob", "s3cret"),
        (AuthType.KERBEROS, PRINCIPAL, None),
        (AuthType.SPNEGO, PRINCIPAL, None),
    ):
        assert opened(service, auth_type, user, password) == (HResult.MQ_OK, HResult.MQ_OK)


def test_the_log_names_the_account_that_was_refused(service: Service, daemon: Daemon, orders: waypost.Queue) -> None:
    log_on(service, 1199, name="mallory")
    assert not may_receive(service, "mallory")
    with patience(SECONDS, "the refusal is not in the log") as turns:
        for _ in turns:
            if sid(1199) in daemon.log:
                return
