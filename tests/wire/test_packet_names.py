"""The queue names of a UserHeader as format names."""

import pytest

from waypost.wire.format_names import FormatName, PrivateFormatName, PublicFormatName
from waypost.wire.packet_names import admin_format_name, destination_format_name, response_format_name
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from waypost.wire.unknown_names import UnknownFormatName
from waypost.wire.user_header import UserHeader

SOURCE = b"\x01" * 16
DESTINATION = b"\x02" * 16
OTHER = b"\x03" * 16
NUMBER = PrivateQueueFormatNameId(7)
ANOTHER_HOST = PrivateQueueFormatName(OTHER, 7)
PUBLIC = PublicQueueFormatName(OTHER)
DIRECT = DirectQueueFormatName("OS:host\\private$\\q")
DIRECT_NAME = FormatName.parse("DIRECT=OS:host\\private$\\q")


def header(dq: int = 0, aq: int = 0, rq: int = 0, names: tuple[QueueName | None, ...] = ()) -> UserHeader:
    flags = dq << 10 | aq << 13 | rq << 16
    destination, admin, response = (*names, None, None, None)[:3]
    built = UserHeader(SOURCE, DESTINATION, 0, 0, 0, flags, destination, admin, response)
    assert UserHeader.decode(built.encode(), 0)[0] == built
    return built


@pytest.mark.spec("MQMQ-2.2.19.2-15")
def test_the_destination() -> None:
    assert destination_format_name(header()) is None
    assert destination_format_name(header(3, names=(NUMBER,))) == PrivateFormatName(DESTINATION, 7)
    assert destination_format_name(header(5, names=(PUBLIC,))) == PublicFormatName(OTHER)
    assert destination_format_name(header(7, names=(DIRECT,))) == DIRECT_NAME


@pytest.mark.spec("MQQB-3.1.7.15-04", "MQMQ-2.2.19.2-16")
@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [
        (0, None, None),
        (2, NUMBER, PrivateFormatName(SOURCE, 7)),
        (3, NUMBER, PrivateFormatName(DESTINATION, 7)),
        (5, PUBLIC, PublicFormatName(OTHER)),
        (6, ANOTHER_HOST, PrivateFormatName(OTHER, 7)),
        (7, DIRECT, DIRECT_NAME),
    ],
)
def test_the_administration_queue(code: int, name: QueueName | None, expected: FormatName | None) -> None:
    assert admin_format_name(header(aq=code, names=(None, name))) == expected


@pytest.mark.spec("MQMQ-2.2.19.2-19", "MQMQ-2.2.19.2-20")
@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [
        (0, None, None),
        (1, None, PrivateFormatName(OTHER, 9)),
        (2, NUMBER, PrivateFormatName(SOURCE, 7)),
        (3, NUMBER, PrivateFormatName(DESTINATION, 7)),
        (4, NUMBER, PrivateFormatName(OTHER, 7)),
        (5, PUBLIC, PublicFormatName(OTHER)),
        (6, PrivateQueueFormatName(SOURCE, 7), PrivateFormatName(SOURCE, 7)),
        (7, DIRECT, DIRECT_NAME),
    ],
)
def test_the_response_queue(code: int, name: QueueName | None, expected: FormatName | None) -> None:
    built = header(aq=6, rq=code, names=(None, PrivateQueueFormatName(OTHER, 9), name))
    assert response_format_name(built) == expected


@pytest.mark.parametrize(("code", "name"), [(0, None), (5, PUBLIC), (7, DIRECT)])
def test_a_response_queue_on_the_host_of_an_administration_queue_that_names_none_is_unknown(
    code: int, name: QueueName | None
) -> None:
    found = response_format_name(header(aq=code, rq=4, names=(None, name, NUMBER)))
    assert (found, str(found)) == (UnknownFormatName("", 7), "UNKNOWN=\\00000007")


@pytest.mark.parametrize("text", ["nonsense", "IPX:host\\q", "OS:", "", "OS:host\\q;a;b", "half \ud800 of a pair"])
def test_a_direct_name_that_is_not_understood_is_unknown(text: str) -> None:
    names = (DirectQueueFormatName(text),) * 3
    built = header(7, 7, 7, names=names)
    for name_of in (destination_format_name, admin_format_name, response_format_name):
        name = name_of(built)
        assert isinstance(name, UnknownFormatName)
        assert name.text == text
        assert str(name) == "UNKNOWN=" + text.replace("\ud800", "\ufffd")
