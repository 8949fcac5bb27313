"""A cheap stand-in for RSA: the sizes and the byte forms of keys, certificates and signatures, without the arithmetic.

A simulation tests the decisions of the engine, which never has a private key. So a signature is an HMAC, an encrypted
key is the key XOR a stream, and a certificate is an opaque text with its serial number, its validity and its key.
Everything follows from the secrets, so a seed gives the same bytes everywhere.
"""

from hashlib import sha256, sha512
from hmac import digest as hmac_digest
from struct import Struct
from typing import Final

from waypost.security.work import CheckedSignature, CheckSignature, WrappedKey
from waypost.wire.keys import KeyType, PublicKeyBlob

_EXPONENT: Final = 65537
_MODULUS: Final = 128
# The name of the public key, a number, the size of the key, and a checksum of the key.
_WRAPPED: Final = Struct("<8s8sB8s")
_CERTIFICATE: Final = Struct(">2sHIQQ32s")
_DER: Final = b"\x30\x82"
_SIGNATURE: Final = 128


def public_key(secret: bytes) -> PublicKeyBlob:
    """The public part of an exchange key."""
    return PublicKeyBlob(KeyType.CALG_RSA_KEYX, _EXPONENT, sha512(secret).digest() * (_MODULUS // 64))


def key_name(modulus: bytes) -> bytes:
    """A short name of an exchange key."""
    return sha256(modulus).digest()[:8]


def wrap(key: PublicKeyBlob, clear: bytes, number: int) -> WrappedKey:
    """Encrypt a symmetric key. The same key with another number has another ciphertext."""
    nonce = number.to_bytes(8, "little")
    head = _WRAPPED.pack(key_name(key.modulus), nonce, len(clear), sha256(clear).digest()[:8])
    stream = sha512(key.modulus + nonce).digest()
    covered = bytes(one ^ other for one, other in zip(clear, stream, strict=False))
    return WrappedKey(clear, (head + covered).ljust(len(key.modulus), b"\xa5"))


def wrapped_for(ciphertext: bytes) -> bytes:
    """The name of the exchange key for which a symmetric key is encrypted."""
    return ciphertext[:8]


def unwrap(secret: bytes, ciphertext: bytes) -> bytes | None:
    """The symmetric key, or None if it is encrypted for another key."""
    key = public_key(secret)
    if len(ciphertext) != len(key.modulus):
        return None
    name, nonce, size, checksum = _WRAPPED.unpack_from(ciphertext)
    stream = sha512(key.modulus + nonce).digest()
    covered = ciphertext[_WRAPPED.size : _WRAPPED.size + size]
    clear = bytes(one ^ other for one, other in zip(covered, stream, strict=False))
    return clear if name == key_name(key.modulus) and sha256(clear).digest()[:8] == checksum else None


def certificate(secret: bytes, serial: int, not_before: int, not_after: int) -> bytes:
    """A certificate of a key, of some hundred bytes as real ones."""
    size = 300 + serial % 7 * 100
    fixed = _CERTIFICATE.pack(_DER, size, serial, not_before, not_after, sha256(secret).digest())
    return fixed.ljust(size, b"\x5a")


def sign(secret: bytes, algorithm: int, digest: bytes) -> bytes:
    return _signature(sha256(secret).digest(), algorithm, digest)


def check(asked: CheckSignature) -> CheckedSignature:
    """Find the digest that was signed."""
    _, _, _, not_before, not_after, public = _CERTIFICATE.unpack_from(asked.certificate)
    for place, digest in enumerate(asked.digests):
        if _signature(public, asked.algorithm, digest) == asked.signature:
            return CheckedSignature(place, "", not_before, not_after)
    return CheckedSignature(-1, "the signature does not match", not_before, not_after)


def _signature(public: bytes, algorithm: int, digest: bytes) -> bytes:
    found = hmac_digest(public, algorithm.to_bytes(4, "little") + digest, "sha512")
    return found * (_SIGNATURE // len(found))
