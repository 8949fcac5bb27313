"""MS-MQMQ 2.2.20.6 SenderCert: the RSA public key inside an X.509 certificate.

Nothing here says that a certificate is to be trusted.
"""

from functools import lru_cache
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import InvalidVersion, load_der_x509_certificate

from waypost.errors import DecodeError
from waypost.limits import MAX_RSA_MODULUS
from waypost.wire.keys import KeyType, PublicKeyBlob

SECTION: Final = "MS-MQMQ 2.2.20.6"

# The library warns of certificates that it will refuse one day; where warnings are errors, that day is today.
REFUSALS: Final = (ValueError, UnsupportedAlgorithm, InvalidVersion, CryptographyDeprecationWarning)


@lru_cache(maxsize=64)
def subject_of(certificate: bytes) -> str | None:
    """The subject of a DER certificate, as RFC 4514 writes it, or None if it is unreadable."""
    try:
        return load_der_x509_certificate(certificate).subject.rfc4514_string()
    except REFUSALS:
        return None


def key_problem(key: RSAPublicKey) -> str | None:
    """The reason not to use a public key of a stranger, or None: an operation with it could take very long.

    2.2.20.6 has 32 bits for the exponent.
    """
    if key.public_numbers().e >> 32 or key.key_size > 8 * MAX_RSA_MODULUS:
        return "the modulus or the exponent of the RSA key is too large"
    return None


def public_key_of(certificate: bytes, key_type: KeyType) -> PublicKeyBlob:
    """The key of a DER certificate in the layout of 2.2.20.6, marked as one for signing or for encryption."""
    try:
        key = load_der_x509_certificate(certificate).public_key()
    except REFUSALS as error:
        raise DecodeError(SECTION, "SenderCert", 0, f"must be a certificate: {error}") from None
    if not isinstance(key, RSAPublicKey):
        raise DecodeError(SECTION, "SenderCert", 0, "must have an RSA key")
    if (problem := key_problem(key)) is not None:
        raise DecodeError(SECTION, "SenderCert", 0, problem)
    numbers = key.public_numbers()
    return PublicKeyBlob.from_numbers(key_type, numbers.e, numbers.n)
