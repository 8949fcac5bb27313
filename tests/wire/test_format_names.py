"""MS-MQMQ 2.1.3 to 2.1.7, 2.2.11, 2.4 and MS-MQQB 3.1.7.4; what all kinds of format names share."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import IllegalFormatName, IllegalPathName, UnsupportedFormatName
from waypost.limits import MAX_FORMAT_NAME_TEXT
from waypost.wire.format_names import (
    ConnectorFormatName,
    Destination,
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    MultipleElementFormatName,
    PrivateFormatName,
    Protocol,
    PublicFormatName,
    Suffix,
)
from waypost.wire.path_names import PathName, QueueKind

TEXT = "729ca439-5d92-41f5-9b31-e4d7dcf1fc8a"
GUID = bytes.fromhex("39a49c72 925d f541 9b31 e4d7dcf1fc8a")
BAD_GUIDS = ["", f"{{{TEXT}}}", TEXT.replace("-", ""), TEXT[:-1], TEXT + "0", TEXT[:-1] + "g", " " + TEXT, TEXT + "\n"]


def refused(text: str) -> IllegalFormatName:
    with pytest.raises(IllegalFormatName) as caught:
        FormatName.parse(text)
    assert 0 <= caught.value.offset <= len(text)
    return caught.value


@pytest.mark.spec("MQMQ-2.1.3-01")
def test_a_public_name_is_a_guid_without_braces() -> None:
    for text in (f"PUBLIC={TEXT}", f"public={TEXT.upper()}", f"Public={TEXT}"):
        name = FormatName.parse(text)
        assert isinstance(name, PublicFormatName)
        assert (name.guid, name.suffix) == (GUID, Suffix.NONE)
        assert str(name) == f"PUBLIC={TEXT}"
    for guid in BAD_GUIDS:
        error = refused(f"PUBLIC={guid}")
        assert (error.section, error.field, error.offset) == ("MS-MQMQ 2.1.3", "QueueGuid", 7)


@pytest.mark.spec("MQMQ-2.1.4-01")
def test_a_private_name_has_one_to_eight_hexadecimal_digits_and_an_optional_journal() -> None:
    for digits, number in [("0", 0), ("a", 10), ("10", 16), ("0000001F", 31), ("DeadBeef", 0xDEADBEEF)]:
        for ending, suffix in [("", Suffix.NONE), (";JOURNAL", Suffix.JOURNAL), (";journal", Suffix.JOURNAL)]:
            name = FormatName.parse(f"private={TEXT}\\{digits}{ending}")
            assert isinstance(name, PrivateFormatName)
            assert (name.computer_guid, name.number, name.suffix) == (GUID, number, suffix)
            assert str(name) == f"PRIVATE={TEXT}\\{number:08x}{ending.upper()}"
    for digits in ("", "123456789", "000000001", "g", "0x1", "-1", "+1", " 1", "1 ", "1_0", "\u0661", "1\n", "1\\2"):
        error = refused(f"PRIVATE={TEXT}\\{digits}")
        assert (error.section, error.offset) == ("MS-MQMQ 2.1.4", len(f"PRIVATE={TEXT}\\"))
    for guid in BAD_GUIDS:
        assert refused(f"PRIVATE={guid}\\1").field == "ComputerGuid"
    assert refused(f"PRIVATE={TEXT}").section == "MS-MQMQ 2.1.4"
    assert refused(f"PRIVATE={TEXT}\\1;DEADLETTER").field == "suffix"


@pytest.mark.spec("MQMQ-2.1.5-01")
def test_a_distribution_list_has_an_optional_domain_of_255_visible_characters() -> None:
    alone = FormatName.parse(f"DL={TEXT.upper()}")
    assert isinstance(alone, DistributionListFormatName)
    assert (alone.guid, alone.domain, str(alone)) == (GUID, "", f"DL={TEXT}")
    for domain in ("Corp.example", "a", "d" * 255, *map(chr, range(0x21, 0x7F)), "DC=corp,DC=example"):
        name = FormatName.parse(f"dl={TEXT}@{domain}")
        assert isinstance(name, DistributionListFormatName)
        assert (name.guid, name.domain) == (GUID, domain)
        assert str(name) == f"DL={TEXT}@{domain}"
    for domain in ("", "d" * 256, "two words", "\x7f", "\x00", "\u00e9", "a\n"):
        error = refused(f"DL={TEXT}@{domain}")
        assert (error.section, error.field, error.offset) == ("MS-MQMQ 2.1.5", "DomainName", len(f"DL={TEXT}@"))
    for guid in BAD_GUIDS:
        assert refused(f"DL={guid}@corp").field == "DistributionListGuid"
    assert refused(f"DL={TEXT};JOURNAL").section == "MS-MQMQ 2.1.5"


@pytest.mark.spec("MQMQ-2.1.6-01")
def test_a_machine_name_tells_its_queue_by_a_suffix() -> None:
    for ending, suffix in [
        ("", Suffix.NONE),
        (";JOURNAL", Suffix.JOURNAL),
        (";DEADLETTER", Suffix.DEADLETTER),
        (";DEADXACT", Suffix.DEADXACT),
    ]:
        name = FormatName.parse(f"machine={TEXT.upper()}{ending.lower()}")
        assert isinstance(name, MachineFormatName)
        assert (name.guid, name.suffix, name.is_read_only) == (GUID, suffix, True)
        assert str(name) == f"MACHINE={TEXT}{ending}"
    for ending in (";", ";XACTONLY", ";NONE", ";SUBQUEUE", ";orders", ";JOURNAL;JOURNAL"):
        assert refused(f"MACHINE={TEXT}{ending}").field == "suffix"
    for guid in BAD_GUIDS:
        assert refused(f"MACHINE={guid}").section == "MS-MQMQ 2.1.6"


@pytest.mark.spec("MQMQ-2.1.6-02")
def test_a_connector_name_is_a_guid() -> None:
    for ending, suffix in [("", Suffix.NONE), (";XACTONLY", Suffix.XACTONLY)]:
        name = FormatName.parse(f"connector={TEXT.upper()}{ending.lower()}")
        assert isinstance(name, ConnectorFormatName)
        assert (name.guid, name.suffix, name.is_read_only) == (GUID, suffix, False)
        assert str(name) == f"CONNECTOR={TEXT}{ending}"
    for ending in (";JOURNAL", ";DEADXACT", ";"):
        assert refused(f"CONNECTOR={TEXT}{ending}").field == "suffix"
    for guid in BAD_GUIDS:
        assert refused(f"CONNECTOR={guid}").section == "MS-MQMQ 2.1.6"


@pytest.mark.spec("MQMQ-2.1.6-03")
def test_a_multicast_name_is_an_address_from_224_to_239_and_a_port() -> None:
    octets = [str(octet) for octet in range(256)]
    addresses = [f"{first}.0.0.1" for first in range(224, 240)]
    addresses += [f"224.{octet}.0.1" for octet in octets] + [f"224.0.{octet}.1" for octet in octets]
    addresses += [f"239.255.255.{octet}" for octet in octets]
    for address in addresses:
        name = FormatName.parse(f"multicast={address}:1801")
        assert isinstance(name, MulticastFormatName)
        assert (name.address, name.port, str(name)) == (address, 1801, f"MULTICAST={address}:1801")
    for port in (0, 9, 10, 99, 100, 999, 1000, 9999, 10000, 59999, 60000, 65000, 65499, 65500, 65530, 65535):
        assert FormatName.parse(f"MULTICAST=224.0.0.1:{port}") == MulticastFormatName("224.0.0.1", port)
    for first in (*range(224), *range(240, 256)):
        error = refused(f"MULTICAST={first}.0.0.1:1801")
        assert (error.section, error.field, error.offset) == ("MS-MQMQ 2.1.6", "Address", 10)
    for address in ("224.0.0.01", "224.00.0.1", "0224.0.0.1", "224.0.0.256", "224.0.0", "224.0.0.1.1", "", "ff02::1"):
        assert refused(f"MULTICAST={address}:1801").section == "MS-MQMQ 2.1.6"
    for digits in ("65536", "99999", "100000", "080", "00", "", "-1", "1a", "0x50", " 80", "80 ", "80\n", "\u0668"):
        error = refused(f"MULTICAST=224.0.0.1:{digits}")
        assert (error.field, error.offset) == ("Port", len("MULTICAST=224.0.0.1:"))
    assert refused("MULTICAST=224.0.0.1").field == "Port"


ELEMENTS = [
    DirectFormatName(Protocol.OS, "host", QueueKind.PRIVATE, "q", "late"),
    PublicFormatName(GUID),
    PrivateFormatName(GUID, 7),
    DistributionListFormatName(GUID, "corp.example"),
    ConnectorFormatName(GUID, Suffix.XACTONLY),
    MulticastFormatName("224.0.0.1", 8001),
]


@pytest.mark.spec("MQMQ-2.1.7-01")
def test_a_multiple_element_name_joins_names_of_six_kinds_and_one_bad_one_makes_it_illegal() -> None:
    texts = [str(element) for element in ELEMENTS]
    name = FormatName.parse(",".join(texts))
    assert isinstance(name, MultipleElementFormatName)
    assert name.elements == tuple(ELEMENTS)
    assert [type(element) for element in name.elements] == [type(element) for element in ELEMENTS]
    assert str(name) == ",".join(texts)
    for first in ELEMENTS:
        assert FormatName.parse(str(first)) == first
        for second in ELEMENTS:
            assert FormatName.parse(f"{first},{second}") == MultipleElementFormatName((first, second))
    bad = [
        "DIRECT=OS:host",
        "DIRECT=TCP:host\\q",
        "PUBLIC=1",
        f"PRIVATE={TEXT}\\123456789",
        f"DL={TEXT}@",
        "CONNECTOR=",
        "MULTICAST=223.0.0.1:1",
    ]
    for place in range(len(texts) + 1):
        for element in bad:
            error = refused(",".join([*texts[:place], element, *texts[place:]]))
            start = sum(len(text) + 1 for text in texts[:place])
            assert start < error.offset <= start + len(element)


@pytest.mark.parametrize("text", ["PUBLIC={0},", ",PUBLIC={0}", "PUBLIC={0},,PUBLIC={0}", "PUBLIC={0}, PUBLIC={0}"])
def test_empty_elements_and_a_space_behind_the_comma_are_refused(text: str) -> None:
    refused(text.format(TEXT))


def test_an_unknown_kind_behind_a_comma_is_refused() -> None:
    for element in ELEMENTS:
        if not isinstance(element, DistributionListFormatName):
            refused(f"{element},QUEUE={TEXT}")
    refused(f"QUEUE={TEXT},{ELEMENTS[0]}")


@pytest.mark.spec("MQMQ-2.1.7-02")
@pytest.mark.parametrize(
    "read_only",
    [
        r"DIRECT=OS:host\q;JOURNAL",
        r"DIRECT=OS:host\PRIVATE$\q;JOURNAL",
        r"DIRECT=OS:host\SYSTEM$;JOURNAL",
        r"DIRECT=OS:host\SYSTEM$;DEADLETTER",
        r"DIRECT=TCP:10.0.0.1\SYSTEM$;DEADXACT",
        f"PUBLIC={TEXT};JOURNAL",
        f"PRIVATE={TEXT}\\1;JOURNAL",
        f"MACHINE={TEXT}",
        f"MACHINE={TEXT};JOURNAL",
        f"MACHINE={TEXT};DEADLETTER",
        f"MACHINE={TEXT};DEADXACT",
    ],
)
def test_a_read_only_queue_cannot_be_an_element(read_only: str) -> None:
    assert FormatName.parse(read_only).is_read_only
    for text, offset in [(f"{read_only},PUBLIC={TEXT}", 0), (f"PUBLIC={TEXT},{read_only}", len(f"PUBLIC={TEXT},"))]:
        error = refused(text)
        assert (error.section, error.offset) == ("MS-MQMQ 2.1.7", offset)
        assert "read-only" in error.reason
    assert not FormatName.parse(f"PUBLIC={TEXT},PUBLIC={TEXT}").is_read_only


@pytest.mark.spec("MQMQ-2.2.11-01")
def test_the_suffix_types_have_their_values_and_match_the_text_suffixes() -> None:
    names = ["NONE", "JOURNAL", "DEADLETTER", "DEADXACT", "XACTONLY", "SUBQUEUE"]
    assert [(suffix.name, suffix.value) for suffix in Suffix] == [(name, value) for value, name in enumerate(names)]
    for text, suffix in [
        (f"PUBLIC={TEXT}", 0),
        (f"DL={TEXT}", 0),
        (f"PUBLIC={TEXT};JOURNAL", 1),
        (f"MACHINE={TEXT};DEADLETTER", 2),
        (f"MACHINE={TEXT};DEADXACT", 3),
        (f"CONNECTOR={TEXT};XACTONLY", 4),
        (r"DIRECT=OS:host\q;subqueue", 5),
    ]:
        name = FormatName.parse(text)
        assert name.suffix == suffix
        assert str(name) == text


@pytest.mark.spec("MQMQ-2.4-03")
def test_each_kind_of_bad_name_has_its_error_code() -> None:
    with pytest.raises(IllegalPathName) as path:
        PathName.parse("no queue")
    assert path.value.hresult == 0xC00E0014
    assert refused("no format name").hresult == 0xC00E001E
    with pytest.raises(UnsupportedFormatName) as operation:
        FormatName.parse("MULTICAST=224.0.0.1:8001").destination()
    assert operation.value.hresult == 0xC00E0020


@pytest.mark.spec("MQQB-3.1.7.4-01")
def test_the_destination_of_a_direct_name_is_its_address_and_an_unknown_queue_manager() -> None:
    for text, address in [
        (r"DIRECT=OS:Host.example\private$\q", "Host.example"),
        (r"DIRECT=TCP:2001:db8::7\q", "2001:db8::7"),
        (r"DIRECT=TCP:10.0.0.1\SYSTEM$;DEADLETTER", "10.0.0.1"),
        ("DIRECT=HTTP://host:8080/msmq/q", "//host:8080/msmq"),
    ]:
        assert FormatName.parse(text).destination() == Destination(address, bytes(16))


@pytest.mark.spec("MQQB-3.1.7.4-03")
def test_the_destination_of_a_private_name_is_its_queue_manager_and_no_host() -> None:
    assert FormatName.parse(f"PRIVATE={TEXT}\\4").destination() == Destination("", GUID)
    assert FormatName.parse(f"PRIVATE={TEXT}\\4;JOURNAL").destination() == Destination("", GUID)


def test_the_other_kinds_do_not_tell_their_destination() -> None:
    for kind in ("PUBLIC", "DL", "MACHINE", "CONNECTOR"):
        with pytest.raises(UnsupportedFormatName, match=kind):
            FormatName.parse(f"{kind}={TEXT}").destination()
    with pytest.raises(UnsupportedFormatName):
        FormatName.parse(f"PUBLIC={TEXT},PUBLIC={TEXT}").destination()


def test_format_names_are_equal_without_regard_to_case() -> None:
    name = FormatName.parse(r"DIRECT=OS:Host\Private$\Orders;Late")
    other = FormatName.parse(r"direct=os:HOST\PRIVATE$\orders;LATE")
    assert name == other
    assert {name: 1}[other] == 1
    assert str(name) == r"DIRECT=OS:Host\PRIVATE$\Orders;Late"
    assert name != FormatName.parse(r"DIRECT=OS:Host\Orders;Late")
    assert PublicFormatName(GUID) != ConnectorFormatName(GUID)
    assert PublicFormatName(GUID) != PublicFormatName(GUID, Suffix.JOURNAL)
    assert name != str(name)


@pytest.mark.parametrize(
    "text", ["", "=", "DIRECT", "DIRECT=", TEXT, f"PUBL\u0131C={TEXT}", f" PUBLIC={TEXT}", f"PUBLIC ={TEXT}", r"HOST\q"]
)
def test_text_of_no_kind_is_refused(text: str) -> None:
    refused(text)


def test_text_beyond_the_limit_is_refused_before_it_is_read() -> None:
    element = "PUBLIC=" + TEXT
    count = MAX_FORMAT_NAME_TEXT // (len(element) + 1)
    longest = ",".join([element] * count)
    name = FormatName.parse(longest)
    assert isinstance(name, MultipleElementFormatName)
    assert len(name.elements) == count
    assert refused("x" * (MAX_FORMAT_NAME_TEXT + 1)).offset == MAX_FORMAT_NAME_TEXT
    with pytest.raises(IllegalFormatName, match=f"at most {MAX_FORMAT_NAME_TEXT}"):
        DirectFormatName.parse_direct("OS:h\\" + "q" * MAX_FORMAT_NAME_TEXT)


HOST_CHARACTERS = [chr(code) for code in range(0x21, 0x7F) if chr(code) not in "\\,"]
NAME_CHARACTERS = [chr(code) for code in range(0x21, 0x80) if chr(code) not in '"+,;\\']

guids = st.binary(min_size=16, max_size=16)
journal = st.sampled_from([Suffix.NONE, Suffix.JOURNAL])
read_only = st.sampled_from([Suffix.JOURNAL, Suffix.DEADLETTER, Suffix.DEADXACT])
# "/" is left out only because "private$/..." is not a name for a public queue of an HTTP name.
queues = st.text([c for c in NAME_CHARACTERS if c != "/"], min_size=1, max_size=124).filter(
    lambda name: name.lower() not in ("private$", "system$")
)
subqueues = st.text(NAME_CHARACTERS, max_size=32).filter(lambda name: name.lower() != "journal")
http_hosts = st.from_regex(r"[A-Za-z0-9.-]{1,60}", fullmatch=True)
addresses = st.one_of(
    st.tuples(st.just(Protocol.OS), st.text(HOST_CHARACTERS, min_size=1, max_size=256)),
    st.tuples(st.just(Protocol.TCP), st.integers(0, 2**32 - 1).map(lambda value: str(IPv4Address(value)))),
    st.tuples(st.just(Protocol.TCP), st.integers(0, 2**128 - 1).map(lambda value: str(IPv6Address(value)))),
    st.tuples(
        st.sampled_from([Protocol.HTTP, Protocol.HTTPS]),
        st.builds(lambda host, port: f"//{host}{port}/msmq", http_hosts, st.sampled_from(["", ":", ":8080"])),
    ),
)
multicasts = st.builds(
    MulticastFormatName,
    st.integers(0xE0000000, 0xEFFFFFFF).map(lambda value: str(IPv4Address(value))),
    st.integers(0, 0xFFFF),
)
queue_paths = st.one_of(
    st.tuples(st.sampled_from([QueueKind.PUBLIC, QueueKind.PRIVATE]), queues, subqueues, journal),
    st.tuples(st.just(QueueKind.SYSTEM), st.just(""), st.just(""), read_only),
)
direct_names = st.builds(lambda address, path: DirectFormatName(*address, *path), addresses, queue_paths)
# A comma in a domain would be read as a separator where the name of an element follows it.
domains = st.text([chr(code) for code in range(0x21, 0x7F) if chr(code) != ","], max_size=255)
single_names: st.SearchStrategy[FormatName] = st.one_of(
    direct_names,
    st.builds(PublicFormatName, guids, journal),
    st.builds(PrivateFormatName, guids, st.integers(0, 2**32 - 1), journal),
    st.builds(DistributionListFormatName, guids, domains),
    st.builds(MachineFormatName, guids, st.just(Suffix.NONE) | read_only),
    st.builds(ConnectorFormatName, guids, st.sampled_from([Suffix.NONE, Suffix.XACTONLY])),
    multicasts,
)
multiple_element_names = st.builds(
    MultipleElementFormatName,
    st.lists(single_names.filter(lambda name: not name.is_read_only), min_size=2, max_size=5).map(tuple),
)


@given(single_names | multiple_element_names)
def test_a_printed_format_name_parses_to_itself(name: FormatName) -> None:
    parsed = FormatName.parse(str(name))
    assert parsed == name
    assert hash(parsed) == hash(name)
    assert repr(parsed) == repr(name)
    assert FormatName.parse(str(name).lower()) == name
    assert FormatName.parse(str(name).upper()) == name


@given(direct_names)
def test_a_printed_direct_name_parses_to_itself_without_its_prefix(name: DirectFormatName) -> None:
    parsed = DirectFormatName.parse_direct(name.direct_text)
    assert parsed == name
    assert repr(parsed) == repr(name)
    assert parsed.host in parsed.address


PIECES = [
    *("DIRECT=", "public=", "PRIVATE=", "DL=", "MACHINE=", "CONNECTOR=", "MULTICAST=", TEXT, "OS:", "TCP:", "HTTP:"),
    *("//", "/msmq", "[", "]", "::1", "10.0.0.1", "224.0.0.1", "\\", "/", "private$", "SYSTEM$", ";", ";JOURNAL", "%"),
    *("DEADLETTER", "host", ":", "80", "@", ",", " ", "\0", "\ud800", "\u0130", "9" * 5000),
]


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_a_format_name_or_illegal(text: str) -> None:
    for parse in (FormatName.parse, DirectFormatName.parse_direct):
        try:
            name = parse(text)
        except IllegalFormatName as error:
            offset = error.offset
        else:
            offset = 0
            assert FormatName.parse(str(name)) == name
            if isinstance(name, DirectFormatName):
                assert name.host
                assert name.port is None or 0 < name.port <= 0xFFFF
        assert 0 <= offset <= len(text)
