"""Symmetric keys are decrypted with the private key that they are for, also while an earlier one is still in use."""

import secrets
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from waypost.drive.keys.formats import pkcs8
from waypost.drive.keys.rsa_work import perform
from waypost.security.work import UnwrapKeys

SIZES = (5, 16, 24, 32)
NEW, OLD, LONG = "new", "old", "long"


@cache
def key(name: str) -> RSAPrivateKey:
    return generate_private_key(65537, 2048 if name == LONG else 1024)


def unwrapped(ciphertext: bytes, *names: str) -> list[bytes]:
    (found,) = perform(UnwrapKeys(tuple(pkcs8(key(each)) for each in names), (ciphertext,), SIZES))
    assert isinstance(found, list)
    return found


def raised(message: bytes, name: str) -> bytes:
    """A message, encrypted without any padding (RFC 8017 5.1.1)."""
    numbers = key(name).public_key().public_numbers()
    return pow(int.from_bytes(message, "big"), numbers.e, numbers.n).to_bytes(len(message), "big")


def taken_for_another() -> tuple[bytes, bytes]:
    """A symmetric key and its ciphertext for the old key, for which the library has an answer with the new one."""
    while True:
        symmetric = secrets.token_bytes(16)
        ciphertext = key(OLD).public_key().encrypt(symmetric, PKCS1v15())
        if unwrapped(ciphertext, NEW):
            return symmetric, ciphertext


def test_of_several_private_keys_only_the_right_one_gives_a_symmetric_key() -> None:
    symmetric, ciphertext = taken_for_another()
    assert unwrapped(ciphertext, NEW, OLD) == unwrapped(ciphertext, OLD, NEW) == [symmetric]
    assert unwrapped(ciphertext, NEW, LONG, OLD) == [symmetric]


@pytest.mark.parametrize("name", [NEW, OLD])
@pytest.mark.parametrize("size", SIZES)
def test_symmetric_keys_of_all_sizes_are_found_among_several_private_keys(name: str, size: int) -> None:
    for first in (b"", b"\0", b"\0" * size):
        symmetric = (first + secrets.token_bytes(size))[:size]
        assert unwrapped(key(name).public_key().encrypt(symmetric, PKCS1v15()), NEW, OLD) == [symmetric]


def test_only_private_keys_of_the_length_of_the_ciphertext_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    symmetric = secrets.token_bytes(16)
    ciphertext = key(LONG).public_key().encrypt(symmetric, PKCS1v15())
    monkeypatch.setattr("waypost.drive.keys.rsa_work._raw", None)
    assert unwrapped(ciphertext, NEW, LONG, OLD) == [symmetric]


PADDING = b"\7" * 109
MESSAGES = {
    "good": b"\0\2" + PADDING + b"\0" + b"k" * 16,
    "another first byte": b"\1\2" + PADDING + b"\0" + b"k" * 16,
    "signature": b"\0\1" + b"\xff" * 109 + b"\0" + b"k" * 16,
    "no end": b"\0\2" + PADDING + b"\7" + b"k" * 16,
    "short padding": b"\0\2" + b"\7" * 7 + b"\0" + b"k" * 118,
    "another size": b"\0\2" + PADDING[1:] + b"\0" + b"k" * 17,
    "longer than it seems": b"\0\2" + PADDING[:50] + b"\0" + PADDING[51:] + b"\0" + b"k" * 16,
    "zero": bytes(128),
}


@pytest.mark.parametrize("what", MESSAGES)
def test_another_padding_gives_no_key_with_several_private_keys(what: str) -> None:
    message = MESSAGES[what]
    assert len(message) == 128
    assert unwrapped(raised(message, OLD), NEW, OLD) == ([b"k" * 16] if what == "good" else [])


def test_a_key_behind_less_than_8_bytes_of_padding_does_not_count() -> None:
    message = b"\0\2" + b"\7" * 7 + b"\0" + b"k" * 118
    work = UnwrapKeys((pkcs8(key(NEW)), pkcs8(key(OLD))), (raised(message, OLD),), (118,))
    assert perform(work) == [[]]


def test_a_ciphertext_that_is_out_of_range_gives_no_key() -> None:
    for ciphertext in (b"\xff" * 128, b"", b"\1", b"\1" * 127, b"\1" * 129):
        assert unwrapped(ciphertext, NEW, OLD) == []
