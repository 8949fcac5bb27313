"""Internal certificates (MS-MQDMPR 3.1.1.19): what the queue manager issues so that a user can sign messages."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import CertificateBuilder, Name, NameAttribute
from cryptography.x509.oid import NameOID

from waypost.clock import Now
from waypost.directory.topology import User
from waypost.errors import InvalidParameter
from waypost.security.certificates import public_key_of
from waypost.wire.keys import KeyType
from waypost.wire.sid import Sid

# Nothing says how long an internal certificate is valid.
_VALIDITY: Final = timedelta(days=8 * 365)


@dataclass(frozen=True, slots=True)
class InternalCertificate:
    """An X.509 certificate in DER and its user. Raises DecodeError for other bytes, InvalidParameter for no user."""

    certificate: bytes
    user: User

    def __post_init__(self) -> None:
        public_key_of(self.certificate, KeyType.CALG_RSA_SIGN)
        if self.user.security_identifier is None:
            raise InvalidParameter("the user of an internal certificate must have a security identifier")

    @property
    def security_identifier(self) -> Sid:
        assert self.user.security_identifier is not None
        return self.user.security_identifier


def issue_internal_certificate(user: User, key: RSAPrivateKey, serial_number: int, now: Now) -> InternalCertificate:
    """A certificate for the user, signed with the key that it certifies. Key and number come from the generator."""
    name = Name([NameAttribute(NameOID.COMMON_NAME, str(user.security_identifier))])
    start = datetime.fromtimestamp(int(now.wall), UTC)
    builder = (
        CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial_number)
        .not_valid_before(start)
        .not_valid_after(start + _VALIDITY)
    )
    return InternalCertificate(builder.sign(key, SHA256()).public_bytes(Encoding.DER), user)
