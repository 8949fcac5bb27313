"""Rights on a queue in words: MS-MQMQ 2.2.24."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import InvalidParameter
from waypost.security.access import Sender, allows
from waypost.security.permissions import (
    FULL,
    WORDS,
    Changes,
    Entry,
    changed,
    entries,
    is_changeable,
    mask_of,
    with_queue_rights,
    words_of,
)
from waypost.wire.access_masks import QueueAccess
from waypost.wire.sddl import parse_sddl, sddl
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, Sid

ALICE = Sid(5, (21, 1, 2, 3, 1001))
BOB = Sid(5, (21, 1, 2, 3, 1002))
RIGHTS = {
    "receive": 0x3,
    "peek": 0x2,
    "send": 0x4,
    "receive-journal": 0xA,
    "set-properties": 0x10,
    "get-properties": 0x20,
    "delete": 0x10000,
    "get-permissions": 0x20000,
    "set-permissions": 0x40000,
    "take-ownership": 0x80000,
    "full": 0xF003F,
}


def test_every_word_has_the_mask_of_the_specification() -> None:
    assert {word: int(mask) for word, mask in WORDS.items()} == RIGHTS


@pytest.mark.parametrize("word", RIGHTS)
def test_a_word_is_shown_as_it_was_given(word: str) -> None:
    assert words_of(mask_of([word])) == [word]


def test_words_are_shown_in_one_order_and_receive_includes_peek() -> None:
    assert words_of(mask_of(["get-properties", "send", "peek", "receive"])) == ["receive", "send", "get-properties"]
    assert words_of(mask_of(["receive", "receive-journal"])) == ["receive", "receive-journal"]
    assert words_of(mask_of(RIGHTS)) == ["full"]


def test_a_bit_without_a_word_is_a_number() -> None:
    assert words_of(0x5) == ["send", "0x1"]
    assert mask_of(["send", "0x1"]) == 0x5


@given(st.integers(0, 0xFFFF_FFFF))
def test_words_lose_no_bit(mask: int) -> None:
    words = words_of(mask)
    if mask and not mask & ~int(FULL):
        assert mask_of(words) == mask
    else:
        assert (words[-1:] or [""])[0].startswith("0x") == bool(mask)


@pytest.mark.parametrize("words", [["sned"], [""], ["send", "0x100"], ["0x0"], []])
def test_an_unknown_right_is_refused_with_the_words_that_there_are(words: list[str]) -> None:
    with pytest.raises(InvalidParameter, match=r"(use|at least one right:) receive, peek, send"):
        mask_of(words)


def test_denied_rights_come_first_and_win() -> None:
    before = parse_sddl("O:BAD:(A;;0x7;;;WD)")
    after = changed(before, Changes(deny=((ANONYMOUS, 0x4),), grant=((ALICE, 0x4),)))
    assert sddl(after) == f"O:BAD:(D;;0x4;;;AN)(A;;0x7;;;WD)(A;;0x4;;;{ALICE})"
    anonymous = Sender(frozenset({ANONYMOUS, EVERYONE}))
    assert not allows(after.encode(), anonymous, QueueAccess.MQSEC_WRITE_MESSAGE)
    assert allows(after.encode(), Sender(frozenset({ALICE, EVERYONE})), QueueAccess.MQSEC_WRITE_MESSAGE)


def test_grant_and_deny_add_and_revoke_removes_everything() -> None:
    descriptor = parse_sddl(f"D:(D;;0x1;;;{BOB})(A;;0x4;;;{ALICE})(A;;0x2;;;{BOB})")
    added = changed(descriptor, Changes(deny=((BOB, 0x4),), grant=((ALICE, 0x3),)))
    assert entries(added) == [Entry(BOB, 0x5, allow=False), Entry(ALICE, 0x7), Entry(BOB, 0x2)]
    assert entries(changed(added, Changes(revoke=(BOB,)))) == [Entry(ALICE, 0x7)]


def test_changes_are_made_in_the_order_revoke_deny_grant() -> None:
    descriptor = parse_sddl(f"O:AND:(A;;0xf003f;;;{ALICE})")
    after = changed(descriptor, Changes(revoke=(ALICE,), owner=BOB, deny=((ALICE, 0x4),), grant=((ALICE, 0x2),)))
    assert sddl(after) == f"O:{BOB}D:(D;;0x4;;;{ALICE})(A;;0x2;;;{ALICE})"


def test_a_queue_without_a_list_has_one_after_a_change() -> None:
    after = changed(parse_sddl("D:NO_ACCESS_CONTROL"), Changes(deny=((ANONYMOUS, 0x4),)))
    assert entries(after) == [Entry(ANONYMOUS, 0x4, allow=False), Entry(EVERYONE, FULL)]
    assert entries(parse_sddl("O:BA")) == [Entry(EVERYONE, FULL)]


def test_entries_that_grant_nothing_are_not_shown_as_if_they_did() -> None:
    part = "bf967aba-0de6-11d0-a285-00aa003049e2"
    found = parse_sddl(f"D:(A;IO;0x4;;;WD)(D;IO;0x4;;;WD)(AU;;0x4;;;WD)(OA;;0x4;{part};;WD)(OD;;0x4;{part};;WD)")
    assert entries(found) == [Entry(EVERYONE, 0x4, allow=False)]
    assert entries(parse_sddl("D:(OA;;0x4;;;WD)")) == [Entry(EVERYONE, 0x4)]


def test_generic_rights_mean_those_of_a_queue() -> None:
    found = with_queue_rights(parse_sddl("D:(A;;GA;;;BA)(A;;GR;;;WD)(A;;GW;;;AU)"))
    assert [entry.mask for entry in entries(found)] == [0xF003F, 0x2002B, 0x20024]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D:(A;;0xf003f;;;BA)", True),
        ("D:(A;;0x40000;;;WD)", True),
        ("D:NO_ACCESS_CONTROL", True),
        ("D:", False),
        (f"O:{ALICE}D:(A;;0x7;;;{ALICE})", True),
        (f"O:{BOB}D:(A;;0x7;;;{ALICE})", False),
        (f"D:(A;;0xf003f;;;{BOB})", False),
        (f"O:{ALICE}D:(D;;0x40000;;;WD)", True),
        ("D:(A;;0xf003f;;;AN)", False),
        ("D:(D;;0x40000;;;WD)(A;;0xf003f;;;BA)", False),
        ("D:(A;IO;0xf003f;;;BA)", False),
    ],
)
def test_a_queue_that_nobody_could_change_is_seen(text: str, *, expected: bool) -> None:
    assert is_changeable(parse_sddl(text), lambda sid: sid != BOB) is expected


def test_the_owner_may_read_and_change_the_rights_and_nothing_else() -> None:
    descriptor = parse_sddl(f"O:{ALICE}D:(D;;0xf003f;;;{ALICE})").encode()
    alice, bob = Sender(frozenset({ALICE, EVERYONE})), Sender(frozenset({BOB, EVERYONE}))
    change = QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS
    assert allows(descriptor, alice, change | QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS)
    assert not allows(descriptor, alice, QueueAccess.MQSEC_WRITE_MESSAGE)
    assert not allows(descriptor, bob, change)
    limited = parse_sddl(f"O:{ALICE}D:(A;;0x20000;;;OW)").encode()
    assert not allows(limited, alice, change)


def test_nobody_owns_a_queue_of_the_anonymous_user() -> None:
    descriptor = parse_sddl("O:AND:(A;;0xf003f;;;BA)").encode()
    anonymous = Sender(frozenset({ANONYMOUS, EVERYONE}))
    assert not allows(descriptor, anonymous, QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS)
    assert allows(descriptor, Sender(frozenset({ADMINISTRATORS})), QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS)
