"""Work with RSA keys and certificates that runs outside of the engine, because it takes long or needs random numbers.

A kind of work is a record with plain values, so that it can go to another process; waypost.drive.rsa_work does it. The
engine asks for it with effects (waypost.node.effects), and never sees a private key.
"""

from typing import TypeAlias

from msgspec import Struct


class Generate(Struct, frozen=True, tag=True):
    """Make a private RSA key of so many bits. The answer is its PKCS#8 form."""

    bits: int


class SelfSign(Struct, frozen=True, tag=True):
    """Make a certificate of a name for this key (PKCS#8), valid from a time to another. The answer is its DER form."""

    key: bytes
    name: str
    organization: str
    not_before: int
    not_after: int


class SignDigests(Struct, frozen=True, tag=True):
    """Sign digests of messages (RFC 8017 8.2). The answer has a signature for each, in the byte order of packets."""

    key: bytes
    algorithm: int
    digests: tuple[bytes, ...]


class CheckSignature(Struct, frozen=True, tag=True):
    """Find the digest that the key of the certificate has signed. The answer is a CheckedSignature."""

    certificate: bytes
    signature: bytes
    algorithm: int
    digests: tuple[bytes, ...]


class WrapKeys(Struct, frozen=True, tag=True):
    """Make symmetric keys of so many bytes, and encrypt each for an RSA key. The answer has a WrappedKey for each."""

    exponent: int
    modulus: bytes
    size: int
    count: int


class UnwrapKeys(Struct, frozen=True, tag=True):
    """Decrypt symmetric keys of these sizes with these private keys. The answer has a list for each of them.

    The list has all keys of a right size. Of several private keys, those with a wrong padding give none. A single one
    seldom gives a key that is not meant for it: a few in a thousand (implicit rejection).
    """

    keys: tuple[bytes, ...]
    ciphertexts: tuple[bytes, ...]
    sizes: tuple[int, ...]


class CheckedSignature(Struct, frozen=True):
    """The place of the digest that was signed, -1 for none, with the reason; and the validity of the certificate."""

    found: int
    problem: str = ""
    not_before: int = 0
    not_after: int = 0


class WrappedKey(Struct, frozen=True):
    """A symmetric key, and its ciphertext as RFC 8017 7.2.1 has it."""

    key: bytes
    ciphertext: bytes


Work: TypeAlias = Generate | SelfSign | SignDigests | CheckSignature | WrapKeys | UnwrapKeys
