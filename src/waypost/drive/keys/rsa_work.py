"""The work with RSA keys (waypost.security.work): every kind by one function, in this process or in another."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    RSAPublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import MD5, SHA1, SHA256, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.x509 import (
    CertificateBuilder,
    Name,
    NameAttribute,
    load_der_x509_certificate,
    random_serial_number,
)
from cryptography.x509.oid import NameOID

from waypost.errors import InvalidParameter
from waypost.security.certificates import REFUSALS, key_problem
from waypost.security.work import (
    CheckedSignature,
    CheckSignature,
    Generate,
    SelfSign,
    SignDigests,
    UnwrapKeys,
    Work,
    WrapKeys,
    WrappedKey,
)
from waypost.wire import algorithms

_PADDING: Final = PKCS1v15()
_PUBLIC_EXPONENT: Final = 65537
# The first bytes of a message with padding of type 2, and the fewest bytes of padding.
_TYPE_2: Final = b"\0\2"
_MIN_PADDING: Final = 8
# Few signers and few keys are in use at a time, and to load one takes longer than to verify a signature.
_CACHED: Final = 64

# The hashes that the library signs. It has neither MD2 nor MD4.
_HASHES: Final[dict[int, HashAlgorithm]] = {
    algorithms.HashAlgorithm.MD5: MD5(),
    algorithms.HashAlgorithm.SHA_1: SHA1(),
    algorithms.HashAlgorithm.SHA_256: SHA256(),
    algorithms.HashAlgorithm.SHA_512: SHA512(),
}


def perform(work: Work) -> Any:
    """Do some work. The answer is of the type that the record of the work names.

    Signatures and encrypted keys come from strangers: whatever the library does with them, they get an answer.
    """
    try:
        return _WORK[type(work)](work)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        match work:
            case CheckSignature():
                return CheckedSignature(-1, f"the signature could not be checked: {error}")
            case UnwrapKeys(ciphertexts=ciphertexts):
                return [[] for _ in ciphertexts]
        raise


def _generate(work: Generate) -> bytes:
    key = generate_private_key(_PUBLIC_EXPONENT, work.bits)
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _self_sign(work: SelfSign) -> bytes:
    key = _private_key(work.key)
    name = Name(
        [
            NameAttribute(NameOID.COMMON_NAME, work.name[:64]),
            NameAttribute(NameOID.ORGANIZATION_NAME, work.organization[:64]),
        ]
    )
    builder = CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=random_serial_number(),
        not_valid_before=datetime.fromtimestamp(work.not_before, UTC),
        not_valid_after=datetime.fromtimestamp(work.not_after, UTC),
    )
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def _sign(work: SignDigests) -> list[bytes]:
    key, algorithm = _private_key(work.key), Prehashed(_HASHES[work.algorithm])
    # CryptoAPI has the least significant byte first.
    return [key.sign(digest, _PADDING, algorithm)[::-1] for digest in work.digests]


def _check(work: CheckSignature) -> CheckedSignature:
    found = _certificate(work.certificate)
    if isinstance(found, str):
        return CheckedSignature(-1, found)
    key, not_before, not_after = found
    algorithm = _HASHES.get(work.algorithm)
    if algorithm is None:
        return CheckedSignature(-1, f"the hash 0x{work.algorithm:04X} is not supported")
    hashed = Prehashed(algorithm)
    for place, digest in enumerate(work.digests):
        # Both byte orders: other implementations may have the other one.
        for signature in (work.signature[::-1], work.signature):
            with suppress(InvalidSignature, ValueError, UnsupportedAlgorithm):
                key.verify(signature, digest, _PADDING, hashed)
                return CheckedSignature(place, "", not_before, not_after)
    return CheckedSignature(-1, "the signature does not match", not_before, not_after)


def _wrap(work: WrapKeys) -> list[WrappedKey]:
    try:
        public = RSAPublicNumbers(work.exponent, int.from_bytes(work.modulus, "little")).public_key()
        keys = [secrets.token_bytes(work.size) for _ in range(work.count)]
        return [WrappedKey(key, public.encrypt(key, _PADDING)) for key in keys]
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidParameter(f"cannot encrypt with the public key: {error}") from error


def _unwrap(work: UnwrapKeys) -> list[list[bytes]]:
    return [_unwrapped(work.keys, ciphertext, work.sizes) for ciphertext in work.ciphertexts]


def _unwrapped(keys: tuple[bytes, ...], ciphertext: bytes, sizes: tuple[int, ...]) -> list[bytes]:
    candidates = [key for key in map(_private_key, keys) if len(ciphertext) == key.key_size // 8]
    if len(candidates) > 1:
        return [found for key in candidates for found in _padded_keys(_raw(key, ciphertext), sizes)]
    for key in candidates:
        with suppress(ValueError):
            clear = key.decrypt(ciphertext, _PADDING)
            return [clear] if len(clear) in sizes else []
    return []


def _raw(key: RSAPrivateKey, ciphertext: bytes) -> bytes:
    """RFC 8017 5.1.2 with the second form of the key; empty for a ciphertext that is out of range.

    With a wrong key the library gives other bytes instead of an error (implicit rejection), and it does not say which
    key is the right one. The number is multiplied by a random one, so that times say nothing about the key.
    """
    numbers = key.private_numbers()
    public, p, q = numbers.public_numbers, numbers.p, numbers.q
    n, number = public.n, int.from_bytes(ciphertext, "big")
    if number >= n:
        return b""
    factor = secrets.randbelow(n - 2) + 2
    blinded = number * pow(factor, public.e, n) % n
    first, second = pow(blinded, numbers.dmp1, p), pow(blinded, numbers.dmq1, q)
    found = second + q * ((first - second) * numbers.iqmp % p)
    return (found * pow(factor, -1, n) % n).to_bytes(len(ciphertext), "big")


def _padded_keys(message: bytes, sizes: tuple[int, ...]) -> list[bytes]:
    """RFC 8017 7.2.2: the key of one of these sizes behind padding of type 2, at least 8 bytes that are not zero."""
    found = []
    for size in sizes:
        head, padding, end = message[:2], message[2 : -size - 1], message[-size - 1 : -size]
        if (head == _TYPE_2) & (len(padding) >= _MIN_PADDING) & (0 not in padding) & (end == b"\0"):
            found.append(message[-size:])
    return found


@lru_cache(maxsize=_CACHED)
def _private_key(data: bytes) -> RSAPrivateKey:
    # It was checked when it came into the key folder.
    key = load_der_private_key(data, None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return key


@lru_cache(maxsize=_CACHED)
def _certificate(data: bytes) -> tuple[RSAPublicKey, int, int] | str:
    """The key of a certificate and its validity, or the reason why it has none."""
    try:
        certificate = load_der_x509_certificate(data)
        key = certificate.public_key()
        validity = int(certificate.not_valid_before_utc.timestamp()), int(certificate.not_valid_after_utc.timestamp())
    except (*REFUSALS, OverflowError) as error:
        return f"the certificate is invalid: {error}"
    if not isinstance(key, RSAPublicKey):
        return "the key of the certificate is not an RSA key"
    return key_problem(key) or (key, *validity)


_WORK: Final[dict[type[Work], Callable[[Any], Any]]] = {
    Generate: _generate,
    SelfSign: _self_sign,
    SignDigests: _sign,
    CheckSignature: _check,
    WrapKeys: _wrap,
    UnwrapKeys: _unwrap,
}
