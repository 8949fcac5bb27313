"""MS-MQMQ 2.1.2."""

import pytest

from waypost.errors import IllegalFormatName, UnsupportedFormatName
from waypost.wire.format_names import DirectFormatName, FormatName, Protocol, Suffix
from waypost.wire.path_names import QueueKind

STARTS = ["TCP:10.0.0.1\\", "OS:host\\", "HTTP://host/msmq/", "HTTPS://host:8443/msmq/"]


def parse(text: str) -> DirectFormatName:
    name = FormatName.parse("DIRECT=" + text)
    assert isinstance(name, DirectFormatName)
    assert name == DirectFormatName.parse_direct(text)
    assert str(name) == "DIRECT=" + name.direct_text
    return name


def refused(text: str) -> IllegalFormatName:
    """Both entries refuse the text, at the same place of it; the offset counts from the text without DIRECT=."""
    with pytest.raises(IllegalFormatName) as whole:
        FormatName.parse("DIRECT=" + text)
    with pytest.raises(IllegalFormatName) as direct:
        DirectFormatName.parse_direct(text)
    assert whole.value.offset == direct.value.offset + len("DIRECT=")
    return direct.value


@pytest.mark.spec("MQMQ-2.1.2-01")
@pytest.mark.parametrize("start", STARTS)
def test_a_direct_private_name_has_an_optional_journal_ending(start: str) -> None:
    separator = start[-1]
    name = parse(f"{start}private${separator}orders")
    assert (name.kind, name.queue, name.subqueue, name.suffix) == (QueueKind.PRIVATE, "orders", "", Suffix.NONE)
    assert name.direct_text == f"{start}PRIVATE${separator}orders"
    assert not name.is_read_only
    journal = parse(f"{start}PRIVATE${separator}orders;journal")
    assert (journal.kind, journal.queue, journal.subqueue, journal.suffix) == (
        QueueKind.PRIVATE,
        "orders",
        "",
        Suffix.JOURNAL,
    )
    assert journal.direct_text == f"{start}PRIVATE${separator}orders;JOURNAL"
    assert journal.is_read_only
    assert refused(f"{start}PRIVATE${separator}").field == "QueueName"
    assert refused(f"{start}PRIVATE${separator};JOURNAL").field == "QueueName"
    assert refused(f"{start}PRIVATE$").field == "QueueName"


@pytest.mark.spec("MQMQ-2.1.2-02")
@pytest.mark.parametrize("start", STARTS)
def test_a_direct_public_name_has_an_optional_journal_ending(start: str) -> None:
    name = parse(f"{start}Orders")
    assert (name.kind, name.queue, name.subqueue, name.suffix) == (QueueKind.PUBLIC, "Orders", "", Suffix.NONE)
    assert name.direct_text == f"{start}Orders"
    assert not name.is_read_only
    journal = parse(f"{start}Orders;Journal")
    assert (journal.kind, journal.queue, journal.subqueue, journal.suffix) == (
        QueueKind.PUBLIC,
        "Orders",
        "",
        Suffix.JOURNAL,
    )
    assert journal.direct_text == f"{start}Orders;JOURNAL"
    assert journal.is_read_only
    assert refused(start).field == "QueueName"
    assert refused(start + ";JOURNAL").field == "QueueName"


@pytest.mark.spec("MQMQ-2.1.2-03")
@pytest.mark.parametrize("start", STARTS)
def test_a_direct_machine_name_ends_in_one_of_three_words(start: str) -> None:
    for suffix in (Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT):
        for text in (f"SYSTEM$;{suffix.name}", f"system$;{suffix.name.lower()}"):
            name = parse(start + text)
            assert (name.kind, name.queue, name.subqueue, name.suffix) == (QueueKind.SYSTEM, "", "", suffix)
            assert name.direct_text == f"{start}SYSTEM$;{suffix.name}"
            assert name.is_read_only
    for word in ("XACTONLY", "orders", "", "JOURNAL;JOURNAL", "DEADLETTER;sub", "DEADLETTERS", " JOURNAL"):
        error = refused(f"{start}SYSTEM$;{word}")
        assert (error.section, error.offset) == ("MS-MQMQ 2.1.2", len(start) + len("SYSTEM$;"))


@pytest.mark.spec("MQMQ-2.1.2-04")
def test_a_protocol_outside_the_list_makes_the_name_illegal() -> None:
    for word, protocol, address in [
        ("TCP", Protocol.TCP, "10.0.0.1\\"),
        ("os", Protocol.OS, "host\\"),
        ("Http", Protocol.HTTP, "//host/msmq/"),
        ("https", Protocol.HTTPS, "//host/msmq/"),
        ("ipx", Protocol.IPX, "00000012:00a0234f7500\\"),
    ]:
        name = parse(f"{word}:{address}q")
        assert name.protocol is protocol
        assert name.direct_text == f"{protocol.value}:{address}q"
    assert [protocol.name for protocol in Protocol] == ["TCP", "OS", "HTTP", "HTTPS", "IPX"]
    for word in ("SPX", "UDP", "FTP", "TCPS", "O", "", " OS", "\u017fos", "o\u017f"):
        error = refused(f"{word}:host\\q")
        assert (error.field, error.offset) == ("Protocol", 0)
    assert refused("OS").field == "Protocol"
    assert refused("host\\q").field == "Protocol"


@pytest.mark.spec("MQMQ-2.1.2-05")
def test_a_tcp_address_is_an_ip_address_and_not_a_host_name() -> None:
    for address in ("10.0.0.1", "255.255.255.255", "::1", "2001:DB8::7", "fe80::1%3", "::ffff:10.0.0.1"):
        name = parse(f"TCP:{address}\\PRIVATE$\\order_queue$")
        assert (name.protocol, name.address, name.host, name.port) == (Protocol.TCP, address, address, None)
        assert name.direct_text == f"TCP:{address}\\PRIVATE$\\order_queue$"
    for address in (
        "host",
        "host.example",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.01",
        "167772161",
        "0x0a.0.0.1",
        "[::1]",
        "1::2::3",
        "10.0.0.1:1801",
        "",
        "10.0.0.1 ",
        "\u0661\u0660.0.0.1",
        "fe80::1%a,b",
    ):
        error = refused(f"TCP:{address}\\q")
        assert error.field in ("ProtocolAddressSpecification", "Computer")


@pytest.mark.spec("MQMQ-2.1.2-06")
def test_an_os_address_is_any_computer_name_and_is_not_resolved() -> None:
    for address in ("host.example", ".", "localhost", "HOST_1", "10.0.0.1", "no-such-host.invalid", "h" * 256):
        name = parse(f"OS:{address}\\private$\\q")
        assert (name.protocol, name.address, name.host, name.port) == (Protocol.OS, address, address, None)
        assert name.direct_text == f"OS:{address}\\PRIVATE$\\q"
    for address in ("", "h" * 257, "two words", "a,b", "h\u00f6st"):
        assert refused(f"OS:{address}\\q").field in ("ProtocolAddressSpecification", "Computer")
    assert refused("OS:host").field == "ProtocolAddressSpecification"
    assert refused("OS:host/q").field == "ProtocolAddressSpecification"


@pytest.mark.spec("MQMQ-2.1.2-07")
@pytest.mark.parametrize(("protocol", "default"), [(Protocol.HTTP, 80), (Protocol.HTTPS, 443)])
def test_an_http_address_has_a_host_and_an_optional_port(protocol: Protocol, default: int) -> None:
    for authority, host, port in [
        ("Host.example", "Host.example", default),
        ("host:8080", "host", 8080),
        ("host:1", "host", 1),
        ("host:65535", "host", 65535),
        ("host:", "host", default),
        ("10.0.0.1", "10.0.0.1", default),
        ("10.0.0.1:81", "10.0.0.1", 81),
        ("[::1]", "::1", default),
        ("[2001:db8::7]:81", "2001:db8::7", 81),
    ]:
        for path in ("/msmq", "/MSMQ"):
            name = parse(f"{protocol.value}://{authority}{path}/q")
            assert (name.protocol, name.address) == (protocol, f"//{authority}{path}")
            assert (name.host, name.port, name.kind, name.queue) == (host, port, QueueKind.PUBLIC, "q")
    for address in (
        "//host",
        "/host/msmq",
        "host/msmq",
        "///msmq",
        "//host/msm",
        "//host/queues",
        "//host/msmqs",
        "//:80/msmq",
        "//host:0/msmq",
        "//host:65536/msmq",
        "//host:999999999/msmq",
        "//host:8o/msmq",
        "//host:-1/msmq",
        "//::1/msmq",
        "//[::1/msmq",
        "//[10.0.0.1]/msmq",
        "//[]/msmq",
        "//user@host/msmq",
        "//a,b/msmq",
        "//two words/msmq",
        "//" + "h" * 257 + "/msmq",
    ):
        assert refused(f"{protocol.value}:{address}/q").field in ("ProtocolAddressSpecification", "Computer", "Port")
    assert refused(f"{protocol.value}://host/msmq").field == "ProtocolAddressSpecification"


def test_http_names_take_slashes_and_backslashes_and_print_slashes() -> None:
    for text in (r"HTTP://host/msmq\private$\q", r"HTTP://host/msmq\private$/q", r"http://host/msmq/PRIVATE$\q"):
        name = parse(text)
        assert (name.address, name.kind, name.queue) == ("//host/msmq", QueueKind.PRIVATE, "q")
        assert name.direct_text == "HTTP://host/msmq/PRIVATE$/q"
    assert parse(r"HTTPS://host/msmq\q") == parse("HTTPS://host/msmq/q")
    assert parse("HTTP://host/msmq/a/b").queue == "a/b"
    assert parse(r"OS:host\private$/q").kind is QueueKind.PUBLIC


def test_an_ipx_address_is_a_network_number_and_a_host_number() -> None:
    for address in ("00000012:00a0234f7500", "1:2", "FFFFFFFF:ffffffffffff"):
        name = parse(f"IPX:{address}\\private$\\q;s")
        assert (name.protocol, name.address, name.host, name.port) == (Protocol.IPX, address, address, None)
        assert (name.kind, name.queue, name.subqueue) == (QueueKind.PRIVATE, "q", "s")
        assert name.direct_text == f"IPX:{address}\\PRIVATE$\\q;s"
        with pytest.raises(UnsupportedFormatName, match="contains an IPX address, which Waypost does not support"):
            name.destination()
    for address in (
        "host",
        "00000012",
        ":00a0234f7500",
        "00000012:",
        "000000012:00a0234f7500",
        "00000012:000a0234f7500",
        "12:34:56",
        "0x12:34",
        "12: 34",
        "12:3g",
        "\u0661:1",
        "",
    ):
        assert refused(f"IPX:{address}\\q").field == "ProtocolAddressSpecification"
    assert refused("IPX:00000012:00a0234f7500").field == "ProtocolAddressSpecification"
    assert refused("IPX:00000012:00a0234f7500/q").field == "ProtocolAddressSpecification"


@pytest.mark.spec("MQMQ-2.1.2-09")
@pytest.mark.parametrize("start", [*STARTS, "OS:host\\PRIVATE$\\", "HTTP://host/msmq/PRIVATE$/"])
def test_the_queue_name_of_a_direct_name_follows_the_path_name_rules(start: str) -> None:
    name = parse(start + "q" * 124 + ";" + "s" * 32)
    assert (name.queue, name.subqueue, name.suffix) == ("q" * 124, "s" * 32, Suffix.SUBQUEUE)
    assert not name.is_read_only
    both = parse(start + "q;late;JOURNAL")
    assert (both.queue, both.subqueue, both.suffix) == ("q", "late", Suffix.JOURNAL)
    for text, field, offset in [
        ("q" * 125, "QueueName", 0),
        ("q;" + "s" * 33, "Subqueue", 2),
        ("q;", "Subqueue", 2),
        ("q;;JOURNAL", "Subqueue", 2),
        ("q;a;b", "Subqueue", 3),
        *[(f"ab{character}c", "QueueName", 2) for character in ' "+,\\\0\u00e9'],
        *[(f"q;s{character}c", "Subqueue", 3) for character in ' "+,\\\0\u00e9'],
    ]:
        error = refused(start + text)
        assert (error.field, error.offset) == (field, len(start) + offset)


def test_a_direct_name_built_with_a_subqueue_has_the_subqueue_suffix() -> None:
    name = DirectFormatName(Protocol.OS, "host", QueueKind.PRIVATE, "q", "late")
    assert name.suffix is Suffix.SUBQUEUE
    assert name == parse(r"OS:host\private$\q;late")


def test_the_name_of_a_packet_prints_as_it_came() -> None:
    # MS-MQQB 4.1.7 carries the first one.
    for text in (r"OS:a04bm02\q", r"TCP:192.0.2.1\PRIVATE$\order_queue$"):
        assert DirectFormatName.parse_direct(text).direct_text == text
