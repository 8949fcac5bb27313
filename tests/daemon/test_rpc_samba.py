"""Remote readers with accounts of a Samba domain: its KDC makes the tickets and signs the PACs."""

import os
from collections.abc import Iterator

import pytest

import waypost
from tests.crash.daemons import Daemon, loopback
from tests.daemon.domain_controller import PASSWORD, REALM, Domain
from waypost.errors import AccessDenied
from waypost.rpc.authentication import Level

pytestmark = [
    pytest.mark.needs("kerberos"),
    pytest.mark.needs("samba"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can create a Samba domain"),
]

USER = f"alice@{REALM}"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    domain = Domain(tmp_path_factory.mktemp("domain"), loopback(96))
    domain.create()
    domain.change("user", "create", "alice", PASSWORD)
    for name, scope in (("staff", "Global"), ("clerks", "Domain")):
        domain.change("group", "add", name, f"--group-scope={scope}")
    with pytest.MonkeyPatch.context() as environment:
        domain.serve_as(loopback(97), environment)
        with domain.running():
            yield domain


@pytest.fixture(scope="module")
def daemon(domain: Domain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = ("rpc.kerberos=true", "rpc.min_auth_level=integrity")
    with Daemon(tmp_path_factory.mktemp("readers"), "HOST", loopback(97), *settings) as daemon:
        daemon.start()
        yield daemon


@pytest.fixture
def orders(daemon: Daemon) -> Iterator[waypost.Queue]:
    with daemon.connect() as manager:
        queue = manager.create_queue("orders")
        queue.set_acl(revoke=["everyone"], grant=["administrators:full"])
        queue.send("42 bolts")
        yield queue
        queue.delete()


def may_peek(daemon: Daemon, level: Level = "privacy") -> bool:
    with waypost.msmq(daemon.address, user=USER, password=PASSWORD, level=level, epm_port=None, timeout=60) as host:
        try:
            message = host.queue(r"private$\orders").peek(timeout=0)
        except AccessDenied:
            return False
    return message.text == "42 bolts"


def test_a_user_of_the_domain_is_allowed_by_its_sid(domain: Domain, daemon: Daemon, orders: waypost.Queue) -> None:
    assert not may_peek(daemon)
    orders.set_acl(grant=[f"{domain.sid_of('user', 'alice')}:peek"])
    assert may_peek(daemon)
    orders.set_acl(grant=["everyone:peek"], deny=[f"{domain.sid_of('user', 'alice')}:peek"])
    assert not may_peek(daemon)


# A global group of the domain, and a domain local one, which its controller may put elsewhere in the PAC.
@pytest.mark.parametrize("group", ["staff", "clerks"])
def test_members_of_a_group_of_the_domain_are_allowed(
    domain: Domain, daemon: Daemon, orders: waypost.Queue, group: str
) -> None:
    orders.set_acl(grant=[f"{domain.sid_of('group', group)}:peek"])
    assert not may_peek(daemon)
    domain.change("group", "addmembers", group, "alice")
    assert may_peek(daemon)
    domain.change("group", "removemembers", group, "alice")
    assert not may_peek(daemon)


def test_domain_users_are_a_group(domain: Domain, daemon: Daemon, orders: waypost.Queue) -> None:
    orders.set_acl(grant=[f"{domain.sid_of('group', 'Domain Users')}:peek"])
    assert may_peek(daemon)
    assert may_peek(daemon, "integrity")
