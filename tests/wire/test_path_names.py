"""MS-MQMQ 2.1.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import IllegalPathName
from waypost.wire.path_names import (
    MsmqVersion,
    PathName,
    QueueKind,
    check_computer_name,
    check_queue_name,
    check_subqueue_name,
)

MODERN = [MsmqVersion.V4, MsmqVersion.V5, MsmqVersion.V6]
WITHOUT_SUBQUEUES = [MsmqVersion.V1, MsmqVersion.V2, MsmqVersion.V3]

ALL_CHARACTERS = [*map(chr, range(0x180)), "\u0660", "\u212a", "\uff41", "\ud800", "\U0001f4ec"]
COMPUTER_CHARACTERS = [chr(code) for code in range(0x21, 0x7F) if code != 0x5C]
QUEUE_CHARACTERS = [
    chr(code) for code in (0x21, *range(0x23, 0x2B), *range(0x2D, 0x3B), *range(0x3C, 0x5C), *range(0x5D, 0x80))
]

computers = st.text(COMPUTER_CHARACTERS, min_size=1, max_size=256)
queues = st.text(QUEUE_CHARACTERS, min_size=1, max_size=124).filter(
    lambda name: name.lower() not in ("private$", "system$")
)
subqueues = st.text(QUEUE_CHARACTERS, max_size=32)
path_names = st.builds(PathName, computers, st.sampled_from(QueueKind), queues, subqueues)


def refused(text: str, version: MsmqVersion = MsmqVersion.V6) -> IllegalPathName:
    with pytest.raises(IllegalPathName) as caught:
        PathName.parse(text, version)
    assert caught.value.section == "MS-MQMQ 2.1.1"
    return caught.value


@pytest.mark.spec("MQMQ-2.1.1-01")
def test_a_public_path_name_is_a_computer_one_backslash_and_a_queue_name() -> None:
    name = PathName.parse(r"HOST\orders")
    assert (name.computer, name.kind, name.queue, name.subqueue) == ("HOST", QueueKind.PUBLIC, "orders", "")
    assert str(name) == r"HOST\orders"
    assert PathName.parse(r".\orders").computer == "."
    for text, offset in [
        ("HOST", 4),
        ("HOST\\", 5),
        (r"HOST\\orders", 5),
        (r"HOST\other\orders", 10),
        ("HOST/orders", 11),
    ]:
        assert refused(text).offset == offset


@pytest.mark.spec("MQMQ-2.1.1-02")
@pytest.mark.parametrize("marker", ["private$", "PRIVATE$", "Private$"])
def test_private_is_a_marker_in_any_case_and_not_part_of_the_queue_name(marker: str) -> None:
    name = PathName.parse(rf"HOST\{marker}\orders")
    assert (name.computer, name.kind, name.queue) == ("HOST", QueueKind.PRIVATE, "orders")
    assert str(name) == r"HOST\private$\orders"
    assert PathName.parse(rf"HOST\{marker}orders").kind is QueueKind.PUBLIC
    for text in (rf"HOST\{marker}", rf"HOST\{marker};sub", f"HOST\\{marker}\\"):
        assert refused(text).field == "QueueName"


@pytest.mark.spec("MQMQ-2.1.1-03")
@pytest.mark.parametrize("marker", ["system$", "SYSTEM$"])
def test_a_system_path_name_has_a_semicolon_behind_its_marker(marker: str) -> None:
    name = PathName.parse(rf"HOST\{marker};journal")
    assert (name.computer, name.kind, name.queue, name.subqueue) == ("HOST", QueueKind.SYSTEM, "journal", "")
    assert str(name) == r"HOST\system$;journal"
    for text in (rf"HOST\{marker}\journal", rf"HOST\{marker}", rf"HOST\{marker};"):
        assert refused(text).field == "QueueName"


@pytest.mark.spec("MQMQ-2.1.1-04")
def test_a_computer_has_1_to_256_characters_from_0x21_to_0x7e() -> None:
    for character in ALL_CHARACTERS:
        if character in COMPUTER_CHARACTERS:
            assert PathName.parse(f"a{character}\\q").computer == f"a{character}"
        elif character != "\\":
            error = refused(f"a{character}\\q")
            assert (error.field, error.offset) == ("Computer", 1)
    assert PathName.parse("c" * 256 + "\\q").computer == "c" * 256
    assert refused("c" * 257 + "\\q").field == "Computer"
    assert refused("\\q").field == "Computer"
    assert refused("").field == "Computer"


@pytest.mark.spec("MQMQ-2.1.1-05")
@pytest.mark.parametrize("prefix", ["HOST\\", "HOST\\private$\\", "HOST\\system$;"])
def test_a_queue_name_has_1_to_124_characters_of_its_set(prefix: str) -> None:
    for character in ALL_CHARACTERS:
        if character in QUEUE_CHARACTERS:
            assert PathName.parse(f"{prefix}a{character}").queue == f"a{character}"
        elif character != ";":
            error = refused(f"{prefix}a{character}b")
            assert (error.field, error.offset) == ("QueueName", len(prefix) + 1)
    for character in ' "+,;\\':
        with pytest.raises(IllegalPathName, match="must not contain"):
            check_queue_name(f"a{character}b", 0)
    assert PathName.parse(prefix + "q" * 124).queue == "q" * 124
    assert refused(prefix + "q" * 125).field == "QueueName"
    assert refused(prefix).field == "QueueName"


@pytest.mark.spec("MQMQ-2.1.1-06")
@pytest.mark.parametrize("version", MODERN)
@pytest.mark.parametrize("prefix", ["HOST\\q;", "HOST\\private$\\q;", "HOST\\system$;q;"])
def test_a_subqueue_has_1_to_32_characters_of_the_same_set(prefix: str, version: MsmqVersion) -> None:
    for character in ALL_CHARACTERS:
        if character in QUEUE_CHARACTERS:
            assert PathName.parse(f"{prefix}a{character}", version).subqueue == f"a{character}"
        else:
            error = refused(f"{prefix}a{character}b", version)
            assert (error.field, error.offset) == ("Subqueue", len(prefix) + 1)
    name = PathName.parse(prefix + "s" * 32, version)
    assert (name.queue, name.subqueue) == ("q", "s" * 32)
    assert refused(prefix + "s" * 33, version).field == "Subqueue"
    assert refused(prefix, version).field == "Subqueue"


@pytest.mark.spec("MQMQ-2.1.1-07")
def test_older_versions_have_no_subqueues_and_msmq_1_allows_three_more_characters() -> None:
    for version in WITHOUT_SUBQUEUES:
        error = refused(r"HOST\q;sub", version)
        assert (error.field, error.offset) == ("QueueName", 6)
        assert PathName.parse(r"HOST\private$\q", version).kind is QueueKind.PRIVATE
        assert PathName.parse(r"HOST\system$;q", version).kind is QueueKind.SYSTEM
    for character in ALL_CHARACTERS:
        legal_in_msmq_1 = character in QUEUE_CHARACTERS or character in '"+,'
        for version in WITHOUT_SUBQUEUES:
            if legal_in_msmq_1 if version is MsmqVersion.V1 else character in QUEUE_CHARACTERS:
                assert PathName.parse(f"HOST\\a{character}b", version).queue == f"a{character}b"
            else:
                assert refused(f"HOST\\a{character}b", version).offset == 6


def test_the_checks_of_the_parts_add_the_offset_of_the_part() -> None:
    for check in (check_computer_name, check_queue_name, check_subqueue_name):
        check("name", 10)
        with pytest.raises(IllegalPathName) as caught:
            check("na me", 10)
        assert caught.value.offset == 12


def test_path_names_are_equal_without_regard_to_case_and_keep_their_letters() -> None:
    name, other = PathName.parse(r"Host\Private$\Orders;Late"), PathName.parse(r"HOST\PRIVATE$\orders;LATE")
    assert name == other
    assert {name: 1}[other] == 1
    assert (str(name), str(other)) == (r"Host\private$\Orders;Late", r"HOST\private$\orders;LATE")
    assert name != PathName.parse(r"Host\Orders;Late")
    assert name != PathName.parse(r"Host\private$\Orders")
    assert name != str(name)


@given(path_names)
def test_a_printed_path_name_parses_to_itself(name: PathName) -> None:
    parsed = PathName.parse(str(name))
    assert parsed == name
    assert (parsed.computer, parsed.kind, parsed.queue, parsed.subqueue) == (
        name.computer,
        name.kind,
        name.queue,
        name.subqueue,
    )


@given(st.text() | st.text("ab.\\;$,privatesystem PRIVATESYSTEM"), st.sampled_from(MsmqVersion))
def test_any_text_is_a_path_name_or_illegal(text: str, version: MsmqVersion) -> None:
    try:
        name = PathName.parse(text, version)
    except IllegalPathName as error:
        offset = error.offset
    else:
        offset = 0
        assert str(name).lower() == text.lower()
    assert 0 <= offset <= len(text)
