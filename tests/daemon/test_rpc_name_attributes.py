"""The logon information of a caller as a Kerberos library gives it (RFC 6680), with a twin of the library.

The real one is in tests/daemon/test_rpc_domain_accounts.py. It does not give what it has not verified, which the
interface allows.
"""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.daemon.tickets import DOMAIN, logon_info
from waypost.daemon.rpc_acceptor import NtlmAcceptor, SpnegoAcceptor, gss_context
from waypost.daemon.rpc_domain_accounts import LOGON_INFO, domain_account
from waypost.daemon.rpc_users import Logons
from waypost.rpc.authentication import SecurityContextFailed


class OperationUnavailableError(Exception):
    """The name does not have the attribute."""


class NameAttributes(SimpleNamespace):
    """The module gssapi.raw. The name of an initiator is what it returns, or an error."""

    OperationUnavailableError = OperationUnavailableError

    def get_name_attribute(self, name: Any, attribute: bytes) -> Any:
        assert attribute == LOGON_INFO
        if isinstance(name, Exception):
            raise name
        return name


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi.raw", NameAttributes())


def initiated(name: object) -> Any:
    return SimpleNamespace(initiator_name=name)


def attribute(*values: bytes, authenticated: object = True) -> Any:
    return SimpleNamespace(values=list(values), authenticated=authenticated)


def test_the_account_is_in_the_attribute_of_the_initiator() -> None:
    account = domain_account(initiated(attribute(logon_info(1105, 1120))))
    assert account is not None
    assert (str(account.sid), set(map(str, account.groups))) == (f"{DOMAIN}-1105", {f"{DOMAIN}-1120"})


@pytest.mark.parametrize(
    "name",
    [OperationUnavailableError("no such attribute"), attribute(), attribute(logon_info(1105), authenticated=False)],
)
def test_without_a_verified_attribute_there_is_no_account(name: object) -> None:
    assert domain_account(initiated(name)) is None


def test_a_library_without_attributes_knows_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi.raw", SimpleNamespace())
    assert domain_account(initiated(attribute(logon_info(1105)))) is None


def test_an_attribute_that_does_not_decode_ends_the_logon() -> None:
    with pytest.raises(SecurityContextFailed, match="invalid logon information in the PAC"):
        domain_account(initiated(attribute(b"something else")))


def test_another_error_of_the_library_ends_the_logon() -> None:
    with pytest.raises(RuntimeError):
        domain_account(initiated(RuntimeError("out of memory")))


def test_ntlm_has_no_context_of_the_library() -> None:
    ntlm = NtlmAcceptor(Logons())
    assert gss_context(ntlm) is None
    assert gss_context(SpnegoAcceptor(None, ntlm, ntlm.context_req)) is None
