"""Simulations with keys: a fixed budget of seeds, and the parts of which they are made."""

from random import Random
from typing import Any

import pytest

from waypost.api.properties import MessageProperties
from waypost.security.work import CheckSignature
from waypost.sim.marks import Marks
from waypost.sim.net import rsa_stand_in as rsa
from waypost.sim.net import secrecy
from waypost.sim.plans import Plan, PlannedMessage, label_of, uid_of
from waypost.sim.run import run_seed

NODES = 3
MARKS = (
    "a message that waited for an encryption key",
    "a message for a destination with unknown keys",
    "a message decrypted with a retired key",
    "a message refused after the grace period of its key",
    "a session closed because a key desk failed",
    "a message that arrived before its certificate was registered",
    "a message refused because it is unsigned",
    "a message refused because its certificate has expired",
    "a message refused because its certificate was removed",
)


def has_keys(seed: int) -> bool:
    return secrecy.draw(Random(f"keys of {seed}")).is_on


# In the last one a message is decrypted with a retired key, which is rare.
SEEDS = [*(seed for seed in range(1000, 1060) if has_keys(seed)), 1176]


def test_seeds_with_keys_hold_what_was_promised_and_reach_what_is_rare() -> None:
    marks = Marks(NODES)
    outcomes = [run_seed(seed, marks, nodes=NODES) for seed in SEEDS]
    assert {each.seed: each.violation for each in outcomes if each.violation is not None} == {}
    assert [mark for mark in MARKS if not marks.counts[mark]] == []


def test_many_seeds_have_keys_and_many_have_none() -> None:
    assert 300 < sum(map(has_keys, range(1000))) < 500


def test_a_key_is_decrypted_only_with_the_secret_for_which_it_is_encrypted() -> None:
    key = rsa.public_key(b"one")
    wrapped = rsa.wrap(key, b"symmetric key...", 1)
    assert len(wrapped.ciphertext) == len(key.modulus)
    assert rsa.unwrap(b"one", wrapped.ciphertext) == b"symmetric key..."
    assert rsa.unwrap(b"other", wrapped.ciphertext) is None
    assert rsa.unwrap(b"one", wrapped.ciphertext[1:]) is None
    assert rsa.wrapped_for(wrapped.ciphertext) == rsa.key_name(key.modulus)
    assert rsa.wrap(key, b"symmetric key...", 2).ciphertext != wrapped.ciphertext
    assert b"symmetric" not in wrapped.ciphertext


def test_a_signature_is_that_of_one_certificate_one_hash_and_one_digest() -> None:
    certificate = rsa.certificate(b"one", 1, 10, 20)
    signature = rsa.sign(b"one", 5, b"digest")
    found = rsa.check(CheckSignature(certificate, signature, 5, (b"other", b"digest")))
    assert (found.found, found.not_before, found.not_after) == (1, 10, 20)
    for wrong in (
        CheckSignature(certificate, signature, 6, (b"digest",)),
        CheckSignature(certificate, signature, 5, (b"other",)),
        CheckSignature(rsa.certificate(b"two", 1, 10, 20), signature, 5, (b"digest",)),
    ):
        assert rsa.check(wrong).found == -1


@pytest.mark.parametrize(
    ("plan", "given", "fits"),
    [
        (Plan("n"), {}, True),
        (Plan("n"), {"sign": True, "encrypt": True}, True),
        (Plan("n", authenticates=True), {}, False),
        (Plan("n", authenticates=True), {"sign": True}, True),
        (Plan("n", privacy="body"), {"sign": True}, False),
        (Plan("n", privacy="body"), {"encrypt": True}, True),
        (Plan("n", privacy="none"), {"encrypt": True}, False),
        (Plan("n", privacy="none"), {}, True),
    ],
)
def test_a_message_fits_a_queue_with_the_protection_that_it_demands(
    plan: Plan, given: dict[str, Any], *, fits: bool
) -> None:
    assert secrecy.fits(PlannedMessage(1, MessageProperties(**given)), plan) is fits


def test_an_encrypted_message_is_recognized_by_its_label() -> None:
    assert uid_of(b"..." + label_of(42).encode("utf-16-le") + b"\0\0") == 42
    assert uid_of(b"<uid 000007>" + label_of(42).encode("utf-16-le")) == 7
    assert uid_of(b"nothing") is None
