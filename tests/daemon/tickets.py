"""Kerberos service tickets with a PAC, made with the key of the service and without a KDC (RFC 4120, MS-PAC).

The client and the server are those of the system: the client finds the ticket in a credential cache, and the server
finds its key in a keytab. Only the encryption comes from impacket.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack
from typing import Any, Final

import pytest

from tests.late import late
from waypost.wire.logon_info import GroupMembership, KerbValidationInfo, UnicodeString
from waypost.wire.sid import Sid

crypto: Any = late("impacket.krb5.crypto")

REALM: Final = "TEST.LOCAL"
AES256: Final = 18
HMAC_SHA1_96_AES256: Final = 16
LIFETIME: Final = 3600

# RFC 4120 7.5.1, and MS-PAC 2.8.4 for the signatures.
TICKET_USAGE: Final = 2
SIGNATURE_USAGE: Final = 17

# RFC 4120 7.5.4 and MS-KILE 2.2.
AD_IF_RELEVANT: Final = 1
AD_WIN2K_PAC: Final = 128

# MS-PAC 2.4.
LOGON_INFO, SERVER_SIGNATURE, KDC_SIGNATURE, CLIENT_INFO = 1, 6, 7, 10

# RFC 4120 6.2.
NT_PRINCIPAL, NT_SRV_HST = 1, 3

CONFIGURATION: Final = f"""
[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
"""

DOMAIN: Final = Sid(5, (21, 1000, 2000, 3000))


def logon_info(user_id: int, *groups: int, domain: Sid = DOMAIN, **fields: Any) -> bytes:
    """The logon information of an account and its groups."""
    memberships = [GroupMembership(each) for each in groups]
    name = UnicodeString.of("alice")
    return KerbValidationInfo(
        user_id=user_id, group_ids=memberships, logon_domain_id=domain, effective_name=name, **fields
    ).encode()


@dataclass
class Service:
    """A service with a key, in a realm without a KDC. `ticket` puts a ticket for it into the cache of the client."""

    folder: Path
    host: str
    key: bytes = field(default_factory=lambda: os.urandom(32))

    def install(self, environment: pytest.MonkeyPatch) -> None:
        """Write the configuration and the keytab, and name them in the environment."""
        for variable, name, content in (
            ("KRB5_CONFIG", "krb5.conf", CONFIGURATION.encode()),
            ("KRB5_KTNAME", "keytab", self._keytab()),
        ):
            (self.folder / name).write_bytes(content)
            environment.setenv(variable, str(self.folder / name))
        environment.setenv("KRB5CCNAME", f"FILE:{self._cache}")

    def grant(self, user: str, pac: bytes | None) -> None:
        """Give the client a ticket for the user; `pac` is a PAC that `pac` has made."""
        session_key, now = os.urandom(32), int(time.time())
        data = () if pac is None else (context(10, _authorization_data(pac)),)
        part = application(
            3,
            sequence(
                context(0, der(0x03, bytes(5))),
                context(1, sequence(context(0, integer(AES256)), context(1, der(0x04, session_key)))),
                context(2, general_string(REALM)),
                context(3, principal_name(NT_PRINCIPAL, user)),
                context(4, sequence(context(0, integer(1)), context(1, der(0x04, b"")))),
                context(5, generalized_time(self.logon_time)),
                context(6, generalized_time(self.logon_time)),
                context(7, generalized_time(now + LIFETIME)),
                *data,
            ),
        )
        cipher = crypto.encrypt(self._key, TICKET_USAGE, part, os.urandom(16))
        ticket = application(
            1,
            sequence(
                context(0, integer(5)),
                context(1, general_string(REALM)),
                context(2, principal_name(NT_SRV_HST, "host", self.host)),
                context(
                    3, sequence(context(0, integer(AES256)), context(1, integer(1)), context(2, der(0x04, cipher)))
                ),
            ),
        )
        self._cache.write_bytes(self._credential(user, session_key, ticket, now))

    def pac(self, user: str, info: bytes, *, key: bytes | None = None, logon_time: int | None = None) -> bytes:
        """A PAC with two signatures. Another `key`, user or time than those of the ticket make it worthless."""
        name = user.encode("utf-16-le")
        at = self.logon_time if logon_time is None else logon_time
        client = pack("<QH", at * 10_000_000 + 116_444_736_000_000_000, len(name)) + name
        empty = pack("<I", HMAC_SHA1_96_AES256) + bytes(12)
        kinds = (LOGON_INFO, CLIENT_INFO, SERVER_SIGNATURE, KDC_SIGNATURE)
        signed = _pac(kinds, (info, client, empty, empty))
        signature = _signature(self._key if key is None else crypto.Key(AES256, key), signed)
        counter = _signature(crypto.Key(AES256, os.urandom(32)), signature)
        return _pac(kinds, (info, client, empty[:4] + signature, empty[:4] + counter))

    @property
    def logon_time(self) -> int:
        """When all its users have logged on: full seconds, as a ticket has them."""
        return int((self.folder / "krb5.conf").stat().st_mtime) - 60

    @property
    def _cache(self) -> Path:
        return self.folder / "cache"

    @property
    def _key(self) -> Any:
        return crypto.Key(AES256, self.key)

    def _keytab(self) -> bytes:
        names = b"".join(pack(">H", len(each)) + each for each in (REALM.encode(), b"host", self.host.encode()))
        entry = pack(">H", 2) + names + pack(">IIBHH", NT_SRV_HST, 0, 1, AES256, len(self.key)) + self.key
        return pack(">Hi", 0x0502, len(entry)) + entry

    def _credential(self, user: str, session_key: bytes, ticket: bytes, now: int) -> bytes:
        """A credential cache with one ticket (format 4)."""
        client = _cached_principal(NT_PRINCIPAL, user)
        server = _cached_principal(NT_SRV_HST, "host", self.host)
        key = pack(">H", AES256) + _counted(session_key)
        times = pack(">IIII", self.logon_time, self.logon_time, now + LIFETIME, 0)
        rest = pack(">BIII", 0, 0, 0, 0) + _counted(ticket) + _counted(b"")
        return pack(">HH", 0x0504, 0) + client + client + server + key + times + rest


def _pac(kinds: Sequence[int], buffers: Sequence[bytes]) -> bytes:
    """MS-PAC 2.3 PACTYPE."""
    at = 8 + 16 * len(buffers)
    head, body = pack("<II", len(buffers), 0), b""
    for kind, data in zip(kinds, buffers, strict=True):
        head += pack("<IIQ", kind, len(data), at + len(body))
        body += data + bytes(-len(data) % 8)
    return head + body


def _signature(key: Any, data: bytes) -> bytes:
    made: bytes = crypto.make_checksum(HMAC_SHA1_96_AES256, key, SIGNATURE_USAGE, data)
    return made


def _authorization_data(pac: bytes) -> bytes:
    inner = sequence(sequence(context(0, integer(AD_WIN2K_PAC)), context(1, der(0x04, pac))))
    return sequence(sequence(context(0, integer(AD_IF_RELEVANT)), context(1, der(0x04, inner))))


def _counted(data: bytes) -> bytes:
    return pack(">I", len(data)) + data


def _cached_principal(kind: int, *names: str) -> bytes:
    parts = (REALM, *names)
    return pack(">II", kind, len(names)) + b"".join(_counted(part.encode()) for part in parts)


# DER.


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def application(number: int, content: bytes) -> bytes:
    return der(0x60 | number, content)


def context(number: int, content: bytes) -> bytes:
    return der(0xA0 | number, content)


def sequence(*items: bytes) -> bytes:
    return der(0x30, b"".join(items))


def integer(value: int) -> bytes:
    return der(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def general_string(text: str) -> bytes:
    return der(0x1B, text.encode())


def generalized_time(at: int) -> bytes:
    return der(0x18, time.strftime("%Y%m%d%H%M%SZ", time.gmtime(at)).encode())


def principal_name(kind: int, *names: str) -> bytes:
    return sequence(context(0, integer(kind)), context(1, sequence(*map(general_string, names))))
