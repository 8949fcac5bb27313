"""MS-MQQB 3.1.5.8.9 and 3.1.7.1.7: what report messages say."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.guid import parse_guid
from waypost.transfer import reports
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_properties import MessagePropertiesHeader

TRACED = MessageIdentifier(parse_guid("1234abcd-0001-0002-0a0b-0c0d0e0f1011"), 0x0000_BEEF)
TARGET = "DIRECT=OS:host.example.org\\private$\\orders"


def wall(*fields: int) -> float:
    year, month, day, hour, minute, second = fields
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


@pytest.mark.spec("MQQB-3.1.5.8.9-02")
def test_the_label_names_the_message_its_source_and_the_time() -> None:
    label = reports.label(TRACED, 0x1F, wall(2026, 3, 9, 14, 5, 7))
    assert label == ("1234:0000BEEF:1F received by 1234ABCD-0001-0002-0A0B-0C0D0E0F1011 at 02:05:07 PM Mon,Mar 09 26")
    packet = MessagePropertiesHeader(label=label).encode()
    assert (label + "\0").encode("utf-16-le") in packet


@pytest.mark.spec("MQQB-3.1.5.8.9-03")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ((2026, 1, 1, 0, 0, 0), "12:00:00 AM Thu,Jan 01 26"),
        ((2027, 2, 28, 11, 59, 59), "11:59:59 AM Sun,Feb 28 27"),
        ((2028, 2, 29, 12, 0, 1), "12:00:01 PM Tue,Feb 29 28"),
        ((2099, 12, 31, 23, 59, 59), "11:59:59 PM Thu,Dec 31 99"),
        ((2100, 8, 4, 1, 2, 3), "01:02:03 AM Wed,Aug 04 00"),
    ],
)
def test_the_time_is_of_twelve_hours_and_the_date_english(fields: tuple[int, ...], text: str) -> None:
    assert reports.label(TRACED, 0, wall(*fields)).endswith(f" at {text}")


@given(st.integers(0, 0xFFFF_FFFF), st.integers(0, 0xFFFF_FFFF), st.binary(min_size=16, max_size=16))
def test_every_label_has_the_form_of_the_grammar(time: int, ordinal: int, source: bytes) -> None:
    form = (
        "[0-9A-F]{4}:[0-9A-F]{8}:[0-9A-F]{2} received by [0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12} at "
        "(0[1-9]|1[0-2]):[0-5][0-9]:[0-5][0-9] (AM|PM) (Mon|Tue|Wed|Thu|Fri|Sat|Sun),"
        "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-3][0-9] [0-9]{2}"
    )
    assert re.fullmatch(form, reports.label(MessageIdentifier(source, ordinal), 31, time))


@pytest.mark.spec("MQQB-3.1.5.8.9-04")
def test_the_body_of_the_receiver_tells_the_message_and_its_queue() -> None:
    body = reports.received_body(TRACED, TARGET)
    assert body.decode("utf-16-le") == (
        "<MESSAGE ID>0000BEEF</MESSAGE ID>\r\n"
        "<TARGET QUEUE>DIRECT=OS:host.example.org\\private$\\orders</TARGET QUEUE>\r\n"
    )  # fmt: skip


@pytest.mark.spec("MQQB-3.1.7.1.7-02")
@pytest.mark.parametrize(
    ("next_hop", "shown"),
    [("192.0.2.7", "192.0.2.7"), ("2001:db8::7", "2001:db8::7"), ("fe80::1%eth0", "fe80::1")],
)
def test_the_body_of_the_sender_adds_the_next_hop_and_the_hop_count(next_hop: str, shown: str) -> None:
    body = reports.sent_body(TRACED, TARGET, next_hop, 0x0B)
    assert body == reports.received_body(TRACED, TARGET) + (
        f"<NEXT HOP>{shown}</NEXT HOP>\r\n<HOP COUNT>0B </HOP COUNT>\r\n".encode("utf-16-le")
    )


def test_a_name_with_a_lone_surrogate_does_no_harm() -> None:
    assert "\ud800".encode("utf-16-le", "surrogatepass") in reports.received_body(TRACED, "DIRECT=OS:\ud800\\q")
