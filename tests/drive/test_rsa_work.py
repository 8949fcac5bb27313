"""Work with keys of strangers: what could take very long is not begun."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPublicKey,
    RSAPublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import CertificateBuilder, Name, random_serial_number

from waypost.drive.keys.rsa_work import perform
from waypost.limits import MAX_RSA_MODULUS
from waypost.security.work import CheckSignature
from waypost.wire.algorithms import HashAlgorithm

TOO_LARGE = "the modulus or the exponent of the RSA key is too large"
# RFC 8017 9.2, note 1.
SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
DIGEST = sha256(b"message").digest()
SIGNER = generate_private_key(65537, 1024)


def certificate_of(public: RSAPublicKey) -> bytes:
    now = datetime.now(UTC)
    builder = CertificateBuilder(
        issuer_name=Name([]),
        subject_name=Name([]),
        public_key=public,
        serial_number=random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=1),
    )
    return builder.sign(SIGNER, SHA256()).public_bytes(Encoding.DER)


def check_of(exponent: int) -> CheckSignature:
    """The check of a right signature by a key with this public exponent."""
    numbers = SIGNER.private_numbers()
    modulus = numbers.public_numbers.n
    private = pow(exponent, -1, (numbers.p - 1) * (numbers.q - 1))
    end = b"\0" + SHA256_INFO + DIGEST
    block = b"\0\1".ljust(modulus.bit_length() // 8 - len(end), b"\xff") + end
    signature = pow(int.from_bytes(block), private, modulus).to_bytes(len(block), "little")
    certificate = certificate_of(RSAPublicNumbers(exponent, modulus).public_key())
    return CheckSignature(certificate, signature, HashAlgorithm.SHA_256, (DIGEST,))


def coprime_exponent(start: int) -> int:
    """The next public exponent that the key of the signer can have."""
    numbers = SIGNER.private_numbers()
    totient, exponent = (numbers.p - 1) * (numbers.q - 1), start | 1
    while True:
        try:
            pow(exponent, -1, totient)
        except ValueError:
            exponent += 2
        else:
            return exponent


def test_a_signature_is_checked_with_an_exponent_of_32_bits_and_with_no_larger_one() -> None:
    exponent = coprime_exponent((1 << 32) - 1000)
    assert exponent.bit_length() == 32
    assert perform(check_of(exponent)).found == 0
    refused = perform(check_of(coprime_exponent(1 << 32)))
    assert (refused.found, refused.problem) == (-1, TOO_LARGE)


@pytest.mark.parametrize(("extra", "is_refused"), [(0, False), (8, True)])
def test_a_signature_is_not_checked_with_a_modulus_over_the_limit(extra: int, *, is_refused: bool) -> None:
    bits = 8 * MAX_RSA_MODULUS + extra
    modulus = 1 << bits - 1 | 1
    certificate = certificate_of(RSAPublicNumbers(65537, modulus).public_key())
    check = CheckSignature(certificate, bytes(bits // 8), HashAlgorithm.SHA_256, (DIGEST,))
    assert perform(check).problem == (TOO_LARGE if is_refused else "the signature does not match")
