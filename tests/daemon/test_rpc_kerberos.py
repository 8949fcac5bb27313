"""Kerberos behind the port of waypost.rpc.authentication, with a realm of MIT Kerberos on this computer.

It needs the extra `kerberos` and krb5kdc, kdb5_util and kadmin.local (Debian: krb5-kdc, krb5-admin-server), and is
skipped without them (tools/needs.py).
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.daemon.logons import logons_of
from waypost.daemon.rpc_acceptors import acceptors
from waypost.daemon.rpc_users import Logons
from waypost.drive.rpc_security import Credentials, initiator
from waypost.rpc.authentication import AuthLevel, AuthType, Parts, SecurityContext, SecurityContextFailed
from waypost.rpc.calls import Request, Response, cut
from waypost.rpc.pdu import Fragment
from waypost.rpc.protection import Protection

pytestmark = pytest.mark.needs("kerberos")

HOST = "queue.test.local"
ALICE = Credentials("alice@TEST.LOCAL", "s3cret")
PACKAGES = [AuthType.KERBEROS, AuthType.SPNEGO]
PROTECTING = [AuthLevel.PACKET, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]
PARTS = Parts(b"header of 24 bytes......", b"the body with padding..." * 2, b"trailer.", sign_header=True)

CLIENT_CONFIGURATION = """
[libdefaults]
 default_realm = TEST.LOCAL
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 TEST.LOCAL = {{
  kdc = 127.0.0.1:{port}
 }}
"""
SERVER_CONFIGURATION = """
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 TEST.LOCAL = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
 }}
"""


@pytest.fixture(scope="module", autouse=True)
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("realm")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "krb5.conf").write_text(CLIENT_CONFIGURATION.format(port=port))
    (folder / "kdc.conf").write_text(SERVER_CONFIGURATION.format(port=port, folder=folder))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KRB5_CONFIG", str(folder / "krb5.conf"))
        environment.setenv("KRB5_KDC_PROFILE", str(folder / "kdc.conf"))
        environment.setenv("KRB5_KTNAME", str(folder / "keytab"))
        run("kdb5_util", "create", "-s", "-r", "TEST.LOCAL", "-P", "master")
        run("kadmin.local", "-q", "addprinc -pw s3cret alice")
        run("kadmin.local", "-q", f"addprinc -randkey host/{HOST}")
        run("kadmin.local", "-q", f"ktadd -k {folder / 'keytab'} host/{HOST}")
        with subprocess.Popen(["krb5kdc", "-n"], stdout=subprocess.DEVNULL) as server:
            try:
                wait_for(port)
                yield
            finally:
                server.terminate()


def wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("krb5kdc does not start")


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def agreed(auth_type: AuthType, level: AuthLevel) -> tuple[SecurityContext, SecurityContext, int]:
    """Both sides after the tokens, and how many there were."""
    client, server = initiator(auth_type, level, HOST, ALICE), acceptors(Logons())(auth_type)
    assert server is not None
    token, legs = client.step(None), 0
    while token is not None:
        token = (server, client)[legs % 2].step(token)
        legs += 1
    assert client.is_complete
    assert server.is_complete
    return client, server, legs


@pytest.mark.parametrize("level", list(AuthLevel)[1:])
def test_a_caller_has_the_name_of_a_principal(level: AuthLevel) -> None:
    _, server, legs = agreed(AuthType.KERBEROS, level)
    assert (server.principal, legs) == ("alice@TEST.LOCAL", 3)
    _, server, legs = agreed(AuthType.SPNEGO, level)
    assert (server.principal, legs) == ("alice@TEST.LOCAL", 4)


@pytest.mark.parametrize("auth_type", PACKAGES)
def test_a_realm_that_is_not_a_domain_names_no_account(auth_type: AuthType) -> None:
    # Its PACs have signatures, but no logon information.
    _, server, _ = agreed(auth_type, AuthLevel.PRIVACY)
    assert (server.principal, server.account) == ("alice@TEST.LOCAL", None)


@pytest.mark.parametrize("auth_type", PACKAGES)
@pytest.mark.parametrize("level", PROTECTING)
@pytest.mark.parametrize("sign_header", [True, False])
def test_calls_are_protected_both_ways(auth_type: AuthType, level: AuthLevel, sign_header: bool) -> None:  # noqa: FBT001
    client, server = (Protection(side, level, 1, sign_header) for side in agreed(auth_type, level)[:2])
    for size in (0, 5, 16, 4000):
        for sender, receiver, call in (
            (client, server, Request(size, 0, 7, b"x" * size)),
            (server, client, Response(size, 0, b"y" * size)),
        ):
            (fragment,) = cut(call, 5, 0x2000)
            data = sender.protect(fragment)
            assert size < 16 or (call.stub_data in data) == (level is not AuthLevel.PRIVACY)
            assert type(call).decode(receiver.unprotect(Fragment.decode(data))) == call


@pytest.mark.parametrize("auth_type", PACKAGES)
@pytest.mark.parametrize("level", PROTECTING)
def test_what_was_changed_on_the_way_is_refused(auth_type: AuthType, level: AuthLevel) -> None:
    for field in ("header", "body", "trailer"):
        client, server, _ = agreed(auth_type, level)
        body, token = client.protect(PARTS, level)
        sent = replace(PARTS, body=body)
        changed = bytes([getattr(sent, field)[0] ^ 1]) + getattr(sent, field)[1:]
        with pytest.raises(SecurityContextFailed):
            server.unprotect(replace(sent, **{field: changed}), token, level)


def test_a_wrong_password_is_refused() -> None:
    with pytest.raises(SecurityContextFailed, match="kerberos"):
        initiator(AuthType.KERBEROS, AuthLevel.PRIVACY, HOST, Credentials("alice@TEST.LOCAL", "other"))


def test_spnego_falls_back_to_ntlm_where_kerberos_does_not_know_the_host() -> None:
    client = initiator(AuthType.SPNEGO, AuthLevel.PRIVACY, "unknown.test.local", Credentials("PLANT\\bob", "pw"))
    server = acceptors(logons_of(PLANT__bob="pw"))(AuthType.SPNEGO)
    assert server is not None
    token = client.step(None)
    while token is not None:
        answer = server.step(token)
        token = client.step(answer) if answer is not None else None
    assert server.principal == "PLANT\\bob"
