"""MS-MQMQ 2.2.21 MQUSERSIGNCERTS and 2.2.22 MQUSERSIGNCERT: the signing certificates that a user has registered.

The certificates are opaque here; waypost.security.certificates looks into them.
"""

from dataclasses import dataclass
from hashlib import md5
from struct import Struct
from typing import Final

from waypost.errors import DecodeError
from waypost.wire.codec import cut_short

LIST_SECTION: Final = "MS-MQMQ 2.2.21"
SECTION: Final = "MS-MQMQ 2.2.22"

COUNT: Final = Struct("<I")
FIXED: Final = Struct("<16s16sI")


def digest_of(certificate: bytes) -> bytes:
    """MS-MQMQ 2.2.22 Digest. It finds a certificate in the directory; it protects nothing."""
    return md5(certificate, usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class MqUserSignCert:
    """A certificate, its digest, and the GUID that whoever registered it gave it."""

    digest: bytes
    identifier: bytes
    certificate: bytes

    @classmethod
    def of(cls, identifier: bytes, certificate: bytes) -> "MqUserSignCert":
        return cls(digest_of(certificate), identifier, certificate)

    @property
    def digest_is_right(self) -> bool:
        """A decoded digest is only a claim."""
        return self.digest == digest_of(self.certificate)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MqUserSignCert, int]":
        start = at + FIXED.size
        if len(buf) < start:
            raise cut_short(SECTION, "MQUSERSIGNCERT", at, len(buf))
        digest, identifier, length = FIXED.unpack_from(buf, at)
        end = start + length
        if len(buf) < end:
            raise cut_short(SECTION, "Certificate", start, len(buf))
        return cls(digest, identifier, buf[start:end]), end

    def encode(self) -> bytes:
        return FIXED.pack(self.digest, self.identifier, len(self.certificate)) + self.certificate


@dataclass(frozen=True, slots=True)
class MqUserSignCerts:
    """The list of a user's certificates."""

    certificates: tuple[MqUserSignCert, ...]

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MqUserSignCerts, int]":
        if len(buf) - at < COUNT.size:
            raise cut_short(LIST_SECTION, "CertificateCount", at, len(buf))
        (count,) = COUNT.unpack_from(buf, at)
        at += COUNT.size
        if count * FIXED.size > len(buf) - at:
            raise DecodeError(
                LIST_SECTION, "CertificateCount", at - COUNT.size, f"{count} certificates do not fit into the data"
            )
        certificates = []
        for _ in range(count):
            certificate, at = MqUserSignCert.decode(buf, at)
            certificates.append(certificate)
        return cls(tuple(certificates)), at

    def encode(self) -> bytes:
        return COUNT.pack(len(self.certificates)) + b"".join(item.encode() for item in self.certificates)
