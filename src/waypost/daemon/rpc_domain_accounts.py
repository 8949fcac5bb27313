"""The accounts of callers with Kerberos: SID and groups from the PAC of the ticket (MS-PAC 2.5, readings MQRR 7.5).

The Kerberos library verifies the PAC: the signature that the key of this service makes, the name of the client, and
the time of its logon (MS-PAC 2.8.4, 2.7). A PAC that it has not verified counts as none, and then only the name of the
principal is known. A verified PAC that does not decode ends the logon: the groups that it names may be denied a queue.
"""

from importlib import import_module
from typing import Any, Final

from waypost.errors import DecodeError
from waypost.rpc.authentication import DomainAccount, SecurityContextFailed
from waypost.wire.logon_info import KerbValidationInfo

# RFC 6680 7.1; the name that MIT Kerberos gives the buffer of type 1.
LOGON_INFO: Final = b"urn:mspac:logon-info"


def domain_account(context: Any) -> DomainAccount | None:
    """The account of the initiator of a complete gssapi.SecurityContext; None without a verified PAC."""
    data = _logon_info(context.initiator_name)
    if data is None:
        return None
    try:
        info = KerbValidationInfo.decode(data)
    except DecodeError as error:
        raise SecurityContextFailed(f"invalid logon information in the PAC of the ticket: {error}") from None
    return DomainAccount(info.user_sid, info.group_sids)


def _logon_info(name: Any) -> bytes | None:
    gssapi = import_module("gssapi.raw")
    # An extension (RFC 6680), which not every library has.
    get_attribute = getattr(gssapi, "get_name_attribute", None)
    if get_attribute is None:
        return None
    try:
        found = get_attribute(name, LOGON_INFO)
    except gssapi.OperationUnavailableError:
        return None
    return found.values[0] if found.authenticated and found.values else None
