"""The security packages that the RPC server offers; waypost.drive.rpc_security has the contexts."""

from functools import partial
from typing import Final

import spnego
from spnego.exceptions import SpnegoError

from waypost.daemon.rpc_acceptor import NtlmAcceptor, SpnegoAcceptor, gss_context
from waypost.daemon.rpc_domain_accounts import domain_account
from waypost.daemon.rpc_users import Logons
from waypost.drive.rpc_security import REQUIREMENTS, Context
from waypost.rpc.authentication import Acceptors, AuthType, DomainAccount, SecurityContext

_ACCEPTED: Final = REQUIREMENTS | spnego.ContextReq.confidentiality


def acceptors(logons: Logons) -> Acceptors:
    """The packages of a server: NTLM for users with NT hashes, Kerberos where the system has it, SPNEGO over both."""
    return partial(_accept, logons)


def has_kerberos_key() -> bool:
    """Whether clients can authenticate with Kerberos: the extra is installed, and this computer has a usable key."""
    return _kerberos_acceptor() is not None


def _accept(logons: Logons, auth_type: AuthType) -> SecurityContext | None:
    kerberos = _kerberos_acceptor() if auth_type in (AuthType.KERBEROS, AuthType.SPNEGO) else None
    ntlm = NtlmAcceptor(logons) if logons.has_any and auth_type in (AuthType.NTLM, AuthType.SPNEGO) else None
    proxy = kerberos or ntlm
    if proxy is None:
        return None
    if auth_type is AuthType.SPNEGO:
        proxy = SpnegoAcceptor(kerberos, ntlm, _ACCEPTED)
    return Context(auth_type, proxy, _account_of)


def _account_of(proxy: spnego.ContextProxy) -> DomainAccount | None:
    context = gss_context(proxy)
    return None if context is None else domain_account(context)


def _kerberos_acceptor() -> spnego.ContextProxy | None:
    """A Kerberos acceptor; None without the extra, or without a key of this computer."""
    try:
        return spnego.server(context_req=_ACCEPTED, protocol="kerberos")
    except (ImportError, SpnegoError):
        return None
