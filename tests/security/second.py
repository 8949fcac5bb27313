"""A second implementation of signatures, ciphertexts and key blobs, from the text alone.

MS-MQMQ 2.2.1, 2.2.2, 2.2.18, 2.2.19, 2.2.20 and 2.5, MS-MQQB 2.4 and 3.1.7.1, RFC 8017. It takes packets apart by their
bytes and shares no code with src. RSA is `pow`; only the ciphers are those of the library.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, RC2
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

PROVIDERS = {
    "Microsoft Base Cryptographic Provider v1.0": 1,
    "Microsoft Enhanced Cryptographic Provider v1.0": 1,
    "Microsoft Enhanced RSA and AES Cryptographic Provider": 24,
}
# RFC 8017 9.2, note 1.
DIGEST_INFO = {
    0x8003: ("md5", "3020300c06082a864886f70d020505000410"),
    0x8004: ("sha1", "3021300906052b0e03021a05000414"),
    0x800C: ("sha256", "3031300d060960864801650304020105000420"),
    0x800E: ("sha512", "3051300d060960864801650304020305000440"),
}


def public_keys_blob(exponent: int, modulus: int) -> bytes:
    """MS-MQMQ 2.2.2 with one key under the names of the three providers."""
    size = (modulus.bit_length() + 7) // 8
    blob = bytes.fromhex("0602000000a4000052534131") + struct.pack("<II", 8 * size, exponent)
    blob += modulus.to_bytes(size, "little")
    keys = b""
    for name, kind in PROVIDERS.items():
        text = (name + "\0").encode("utf-16-le")
        keys += struct.pack("<III", len(blob), len(text), kind) + text + blob
    return struct.pack("<II", 8 + len(keys), 3) + keys


@dataclass
class Parts:
    """The parts that a signature covers, out of the bytes of a packet."""

    source: bytes
    delivery: int
    priority: int
    journal: int
    destination: bytes
    admin: bytes
    response: bytes
    connector: bytes
    acks: int
    message_class: int
    correlation: bytes
    body_type: int
    tag: int
    hash: int
    label: bytes
    extension: bytes
    body: bytes
    elements: bytes
    security_flags: int
    signature: bytes
    key: bytes


def take_apart(data: bytes) -> Parts:
    """The headers in their order: Base, User, Transaction, Security, MessageProperties, Debug, MultiQueueFormat."""
    (base_flags,) = struct.unpack_from("<H", data, 2)
    (flags,) = struct.unpack_from("<I", data, 60)
    at, names = 64, []
    for shift in (10, 13, 16):
        size = _name_size(data, at, flags >> shift & 7)
        names.append(data[at : at + size])
        at = at + size + 3 & ~3
    connector = b""
    if flags & 1 << 22:
        connector, at = data[at : at + 16], at + 16
    if flags & 1 << 20:
        (marks,) = struct.unpack_from("<I", data, at)
        at += 36 if marks & 1 else 20
    items, security_flags = [b""] * 5, 0
    if flags & 1 << 19:
        security_flags, *sizes = struct.unpack_from("<HHHHII", data, at)
        at += 16
        for place, size in enumerate(sizes):
            items[place] = data[at : at + size]
            at = at + size + 3 & ~3
    acks, label_length, message_class = struct.unpack_from("<BBH", data, at)
    correlation = data[at + 4 : at + 24]
    body_type, tag, size, allocated, _, hashed, _, extended = struct.unpack_from("<8I", data, at + 24)
    at += 56
    label, at = data[at : at + 2 * label_length], at + 2 * label_length
    extension, at = data[at : at + extended], at + extended
    body = data[at : at + size]
    at = at + max(size, allocated) + 3 & ~3
    if base_flags & 0x20:
        at += 20 if struct.unpack_from("<H", data, at)[0] & 3 else 4
    elements = _elements(data, at) if flags & 1 << 23 else b""
    return Parts(
        data[16:32], flags >> 5 & 3, base_flags & 7, (flags >> 9 & 1) << 1 | flags >> 8 & 1,
        names[0], names[1], names[2], connector,
        acks & 15, message_class, correlation, body_type, tag, hashed, label, extension, body, elements,
        security_flags, items[2], items[1],
    )  # fmt: skip


def _name_size(data: bytes, at: int, kind: int) -> int:
    if kind == 7:
        return 2 + int(struct.unpack_from("<H", data, at)[0])
    return {0: 0, 1: 0, 2: 4, 3: 4, 4: 4, 5: 16, 6: 20}[kind]


def _elements(data: bytes, at: int) -> bytes:
    """2.2.20.1: three lists; an element is FormatType and a name, which is aligned unless it is direct."""
    found = b""
    for _ in range(3):
        start = at
        size, _, _, count = struct.unpack_from("<IHHI", data, at)
        where = at + 12
        for _ in range(count):
            kind = data[where : where + 2]
            where += 2
            if kind == b"\3\0":
                end = where
                while data[end : end + 2] != b"\0\0":
                    end += 2
                end += 2
            else:
                where = start + (where - start + 3 & ~3)
                end = where + {b"\1\0": 16, b"\2\0": 20, b"\6\0": 16}[kind]
            found += kind + data[where:end]
            where = start + (end - start + 3 & ~3) if kind != b"\3\0" else start + (end - start + 1 & ~1)
        at = start + size
    return found


def hash_input(data: bytes, version: int) -> bytes:
    """MS-MQMQ 2.5.1 to 2.5.3, with readings MQMQ 3.8."""
    p = take_apart(data)
    found = p.correlation + struct.pack("<I", p.tag) + p.body + p.label + p.response + p.admin
    if version == 3:
        found += p.extension + p.elements
    if version > 1:
        found += p.source + struct.pack(
            "<BBBBHI", p.delivery, p.priority, p.journal, p.acks, p.message_class, p.body_type
        )
        found += p.connector
    return found + p.destination if version == 2 else found


def _power(base: int, exponent: int, modulus: int) -> int:
    return pow(base, exponent, modulus)


def sign(data: bytes, version: int, numbers: Any) -> bytes:
    """RFC 8017 8.2, least significant byte first. `numbers` are RSAPrivateNumbers."""
    name, info = DIGEST_INFO[take_apart(data).hash]
    digest = bytes.fromhex(info) + hashlib.new(name, hash_input(data, version)).digest()
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    padded = b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest
    return _power(int.from_bytes(padded, "big"), numbers.d, modulus).to_bytes(size, "little")


def verifies(data: bytes, version: int, signature: bytes, numbers: Any) -> bool:
    """Whether the signature opens to the hash of the packet. `numbers` are RSAPublicNumbers."""
    name, info = DIGEST_INFO[take_apart(data).hash]
    digest = bytes.fromhex(info) + hashlib.new(name, hash_input(data, version)).digest()
    size = (numbers.n.bit_length() + 7) // 8
    opened = _power(int.from_bytes(signature, "little"), numbers.e, numbers.n).to_bytes(size, "big")
    return bool(opened == b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest)


def simple_blob(algorithm: int, key: bytes, numbers: Any) -> bytes:
    """MS-MQQB 2.4.2 and RFC 8017 7.2.1. `numbers` are RSAPublicNumbers."""
    size = (numbers.n.bit_length() + 7) // 8
    noise = bytes(byte % 255 + 1 for byte in os.urandom(size - len(key) - 3))
    padded = b"\0\2" + noise + b"\0" + key
    encrypted = _power(int.from_bytes(padded, "big"), numbers.e, numbers.n).to_bytes(size, "little")
    return bytes.fromhex("01020000") + struct.pack("<II", algorithm, 0xA400) + encrypted


def opened_blob(blob: bytes, numbers: Any) -> tuple[int, bytes]:
    """The algorithm and the key. `numbers` are RSAPrivateNumbers."""
    algorithm, exchange = struct.unpack_from("<II", blob, 4)
    assert (blob[:4], exchange) == (bytes.fromhex("01020000"), 0xA400)
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    clear = _power(int.from_bytes(blob[12:], "little"), numbers.d, modulus).to_bytes(size, "big")
    assert clear[:2] == b"\0\2"
    return algorithm, clear[clear.index(0, 2) + 1 :]


def _cipher(algorithm: int, key: bytes) -> tuple[Any, int]:
    if algorithm == 0x6801:
        return Cipher(ARC4(key), None), 0
    if algorithm == 0x6602:
        return Cipher(RC2(key), CBC(bytes(8))), 8
    return Cipher(AES(key), CBC(bytes(16))), 16


def encrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
    """MS-MQMQ 2.2.19.3: zero IV, and PKCS #5 padding for a block cipher."""
    cipher, block = _cipher(algorithm, key)
    if block:
        missing = block - len(body) % block
        body += bytes([missing]) * missing
    return bytes(cipher.encryptor().update(body))


def decrypt(algorithm: int, key: bytes, body: bytes) -> bytes:
    cipher, block = _cipher(algorithm, key)
    clear = bytes(cipher.decryptor().update(body))
    if not block:
        return clear
    assert clear[-clear[-1] :] == bytes([clear[-1]]) * clear[-1]
    return clear[: -clear[-1]]
