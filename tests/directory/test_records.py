"""Directory objects as the store keeps them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.directory.rig import guid
from tests.directory.strategies import entries
from waypost.directory.objects import Queue
from waypost.directory.records import OBJECT_TYPES, Entry, ObjectType
from waypost.errors import StoreDamaged, StoreTooNew

QUEUE = Entry(Queue(identifier=guid(1), label="l", journaling=True), frozenset({"identifier", "label", "journaling"}))


@settings(max_examples=200)
@given(entries())
def test_an_object_comes_back_as_it_was_with_what_is_set(entry: Entry) -> None:
    data = entry.encode()
    again = Entry.decode(entry.object_type, entry.item.identifier, data)
    assert again == entry
    assert again.encode() == data


def test_the_layout_is_version_names_and_values() -> None:
    flag = b"\x0ajournaling" + b"\x01\x00\x00\x00" + b"\x01"
    assert QUEUE.encode() == b"\x01" + b"\x05label" + b"\x01\x00\x00\x00" + b"l" + flag


def test_a_newer_format_is_told_apart_from_damage() -> None:
    with pytest.raises(StoreTooNew, match="format 2"):
        Entry.decode(ObjectType.QUEUE, guid(1), b"\x02" + QUEUE.encode()[1:])


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x00",
        QUEUE.encode()[:-1],
        QUEUE.encode() + b"\x00",
        b"\x01\x05label\xff\xff\xff\xff" + b"l",
        b"\x01\x06colour\x00\x00\x00\x00",
        b"\x01\x0ajournaling\x01\x00\x00\x00\x02",
        b"\x01\x05label\x01\x00\x00\x00\xff",
        b"\x01\x05quota\x01\x00\x00\x00\x00",
        b"\x01\x0aidentifier\x10\x00\x00\x00" + guid(1),
        b"\x01\x0aqueue_type\x00\x00\x00\x00",
        b"\x01" + 2 * (b"\x05label" + b"\x00\x00\x00\x00"),
    ],
)
def test_bytes_that_nobody_has_written_are_damage(value: bytes) -> None:
    with pytest.raises(StoreDamaged):
        Entry.decode(ObjectType.QUEUE, guid(1), value)


def test_an_identifier_of_another_length_is_damage() -> None:
    with pytest.raises(StoreDamaged):
        Entry.decode(ObjectType.QUEUE, b"\x01", QUEUE.encode())


def test_an_object_that_breaks_its_rules_is_damage() -> None:
    with pytest.raises(StoreDamaged):
        Entry.decode(ObjectType.ROUTING_LINK, guid(1), b"\x01\x0bactual_cost\x08\x00\x00\x00" + bytes(8))


@given(st.sampled_from(ObjectType), st.data())
def test_any_bytes_give_an_entry_or_damage(object_type: ObjectType, data: st.DataObject) -> None:
    value = bytearray(data.draw(entries(OBJECT_TYPES[object_type])).encode())
    for _ in range(data.draw(st.integers(0, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value[: data.draw(st.integers(0, len(value)))]) if data.draw(st.booleans()) else bytes(value)
    try:
        entry = Entry.decode(object_type, guid(1), cut)
    except (StoreDamaged, StoreTooNew):
        return
    assert entry.encode() == cut
