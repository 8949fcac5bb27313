"""MS-MQMQ 2.3: the values of properties, and when they may be given."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import (
    DecodeError,
    IllegalPathName,
    IllegalPropertyValue,
    IllegalSecurityDescriptor,
    LabelTooLong,
    PropertyError,
    PropertyNotAllowed,
    TooManyProperties,
)
from waypost.wire.addresses import AddressType, TaAddress, encode_addresses
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.path_names import PathName
from waypost.wire.property_rules import (
    Operation,
    Treatment,
    check_message_label,
    check_properties,
    check_property,
    check_value,
    quota_bytes,
    rule_of,
)
from waypost.wire.property_values import Authenticate, OperatingSystem, QueuePrivacy, Scope, Service
from waypost.wire.propid import PROPERTIES, MachineProperty, ObjectKind, find_property
from waypost.wire.propvariant import PropVariant
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import Sid
from waypost.wire.variant_types import VT_VECTOR, VarType

QUEUE = ObjectKind.QUEUE
MACHINE = ObjectKind.MACHINE
EVERYONE = Sid.decode(bytes.fromhex("0101 000000000001 00000000"), 0)[0]


def variant(kind: ObjectKind, propid: int, value: int | str | bytes) -> PropVariant:
    return PropVariant(find_property(kind, propid).vt, value)


def accepts(kind: ObjectKind, propid: int, value: int | str | bytes) -> bool:
    try:
        check_value(kind, propid, variant(kind, propid, value))
    except (IllegalPropertyValue, IllegalPathName, IllegalSecurityDescriptor):
        return False
    return True


def default(kind: ObjectKind, propid: int) -> object:
    return rule_of(kind, find_property(kind, propid)).default


def operations(kind: ObjectKind, propid: int, value: int | str | bytes) -> set[Operation]:
    """Those in which the property may be given."""
    allowed = set()
    for operation in Operation:
        try:
            check_property(kind, propid, variant(kind, propid, value), operation)
        except PropertyNotAllowed:
            continue
        allowed.add(operation)
    return allowed


@pytest.mark.spec("MQMQ-2.4-04")
def test_a_long_message_label_and_129_properties_are_refused_with_their_codes() -> None:
    check_message_label("x" * 249)
    check_message_label("\U0001f4e8" * 124)
    for label in ("x" * 250, "\U0001f4e8" * 125):
        with pytest.raises(LabelTooLong) as label_error:
            check_message_label(label)
        assert label_error.value.hresult == int("C00E005D", 16)
    quota = PropVariant(VarType.VT_UI4, 1)
    assert len(check_properties(QUEUE, [105] * 128, [quota] * 128, Operation.SET)) == 128
    with pytest.raises(TooManyProperties) as count_error:
        check_properties(QUEUE, [105] * 129, [quota] * 129, Operation.SET)
    assert count_error.value.hresult == int("C00E009A", 16)


@pytest.mark.spec("MQMQ-2.3.1.3-01")
def test_a_path_name_follows_the_grammar_and_is_given_at_creation_only() -> None:
    name = PropVariant(VarType.VT_LPWSTR, "HOST\\private$\\orders")
    assert check_property(QUEUE, 103, name, Operation.CREATE) is Treatment.STORE
    with pytest.raises(PropertyNotAllowed):
        check_property(QUEUE, 103, name, Operation.SET)
    for text in ("", "orders", "HOST\\", "HOST\\" + "q" * 125, "HOST\\a,b"):
        with pytest.raises(IllegalPathName):
            check_property(QUEUE, 103, PropVariant(VarType.VT_LPWSTR, text), Operation.CREATE)


def test_journal_is_0_or_1_and_0_if_not_set() -> None:
    assert [value for value in range(256) if accepts(QUEUE, 104, value)] == [0, 1]
    assert default(QUEUE, 104) == 0


@pytest.mark.spec("MQMQ-2.3.1.5-01")
def test_a_quota_counts_kilobytes_and_one_that_is_not_set_limits_nothing() -> None:
    assert quota_bytes(3) == 3 * 1024
    assert quota_bytes(0xFFFF_FFFE) == 0xFFFF_FFFE * 1024
    unset = default(QUEUE, 105)
    assert isinstance(unset, int)
    assert quota_bytes(unset) is None
    values = (-1, 0, 1, 0xFFFF_FFFF, 0x1_0000_0000)
    assert [value for value in values if accepts(QUEUE, 105, value)] == [0, 1, 0xFFFF_FFFF]


@pytest.mark.spec("MQMQ-2.3.1.6-01")
def test_base_priority_is_16_bits_and_a_private_queue_ignores_it_without_an_error() -> None:
    assert default(QUEUE, 106) == 0
    assert [value for value in (-32769, -32768, 0, 32767, 32768) if accepts(QUEUE, 106, value)] == [-32768, 0, 32767]
    for operation in Operation:
        treatment = check_property(QUEUE, 106, PropVariant(VarType.VT_I2, 5), operation)
        assert treatment.applies_to(PathName.parse("HOST\\orders"))
        assert not treatment.applies_to(PathName.parse("HOST\\private$\\orders"))


def test_a_property_to_store_applies_to_every_queue_and_an_ignored_one_to_none() -> None:
    for text in ("HOST\\orders", "HOST\\private$\\orders"):
        assert Treatment.STORE.applies_to(PathName.parse(text))
        assert not Treatment.IGNORE.applies_to(PathName.parse(text))


@pytest.mark.spec("MQMQ-2.3.1.7-01")
def test_a_journal_quota_is_any_unsigned_32_bit_number_of_kilobytes() -> None:
    values = (-1, 0, 1, 0xFFFF_FFFF, 0x1_0000_0000)
    assert [value for value in values if accepts(QUEUE, 107, value)] == [0, 1, 0xFFFF_FFFF]
    assert quota_bytes(2) == 2048


@pytest.mark.spec("MQMQ-2.3.1.8-01")
def test_a_queue_label_of_125_characters_is_refused() -> None:
    assert accepts(QUEUE, 108, "")
    assert accepts(QUEUE, 108, "x" * 124)
    assert not accepts(QUEUE, 108, "x" * 125)
    assert not accepts(QUEUE, 108, "\U0001f4e8" * 63)


def test_times_and_identifiers_are_never_given() -> None:
    for propid, value in ((101, bytes(16)), (109, 0), (110, 0), (124, "host.example\\q"), (126, "LDAP://s/CN=q")):
        assert operations(QUEUE, propid, value) == set()


@pytest.mark.spec("MQMQ-2.3.1.11-01")
def test_authentication_is_0_or_1_and_1_accepts_only_authenticated_messages() -> None:
    assert [value for value in range(256) if accepts(QUEUE, 111, value)] == [0, 1]
    assert [Authenticate(value).accepts(authenticated=False) for value in (0, 1)] == [True, False]
    assert [Authenticate(value).accepts(authenticated=True) for value in (0, 1)] == [True, True]


@pytest.mark.spec("MQMQ-2.3.1.12-01")
def test_privacy_is_0_to_2_and_optional_if_not_set() -> None:
    assert [QueuePrivacy(value).accepts(encrypted=False) for value in (0, 1, 2)] == [True, True, False]
    assert [QueuePrivacy(value).accepts(encrypted=True) for value in (0, 1, 2)] == [False, True, True]
    assert [value for value in range(256) if accepts(QUEUE, 112, value)] == [0, 1, 2]
    assert default(QUEUE, 112) is QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL


@pytest.mark.spec("MQMQ-2.3.1.13-01")
def test_a_queue_is_nontransactional_0_or_transactional_1() -> None:
    assert [value for value in range(256) if accepts(QUEUE, 113, value)] == [0, 1]
    assert default(QUEUE, 113) == 0
    assert operations(QUEUE, 113, 1) == {Operation.CREATE}


@pytest.mark.spec("MQMQ-2.3.1.14-01")
def test_a_scope_is_site_0_or_enterprise_1() -> None:
    assert [value for value in range(256) if accepts(QUEUE, 114, value)] == [0, 1]
    assert {scope.name: scope.value for scope in Scope} == {"MQDS_SITESCOPE": 0, "MQDS_ENTERPRISESCOPE": 1}


@pytest.mark.spec("MQMQ-2.3.1.18-01")
@pytest.mark.parametrize("propid", [118, 119])
def test_hash_keys_are_taken_with_any_value_and_ignored(propid: int) -> None:
    for value in (0, 1, 0xFFFF_FFFF):
        for operation in Operation:
            assert check_property(QUEUE, propid, PropVariant(VarType.VT_UI4, value), operation) is Treatment.IGNORE
    assert default(QUEUE, propid) is None


@pytest.mark.spec("MQMQ-2.3.1.23-01")
def test_a_multicast_address_is_class_d_with_any_port() -> None:
    for text in ("224.0.0.0:0", "224.1.2.3:8001", "239.255.255.255:65535"):
        assert accepts(QUEUE, 125, text)
    for text in ("223.255.255.255:1", "240.0.0.0:1", "224.0.0.1", "224.0.0.1:", "224.0.0.1:65536", "[ff02::1]:1", ""):
        assert not accepts(QUEUE, 125, text)
    with pytest.raises(IllegalPropertyValue):
        check_value(QUEUE, 125, PropVariant(VarType.VT_LPWSTR, "10.0.0.1:1801"))
    assert not accepts(QUEUE, 125, "224.0.0.1:1,DIRECT=OS:host\\q")


@pytest.mark.spec("MQMQ-2.3.1.24-01")
def test_directory_paths_are_an_ldap_url_a_distinguished_name_and_a_path_with_a_domain() -> None:
    name = "CN=MyQueue,CN=msmq,CN=MyComp,CN=Computers,DC=MyDomain,DC=MyCompany,DC=COM"
    assert accepts(QUEUE, 126, f"LDAP://MyLDAPServer/{name}")
    assert accepts(QUEUE, 126, "ldap://server:389/CN=My%20Queue,DC=COM?cn?base")
    for text in (name, "http://server/CN=q", "LDAP://server", "LDAP://server/queue", ""):
        assert not accepts(QUEUE, 126, text)
    assert accepts(QUEUE, 121, name)
    assert accepts(QUEUE, 121, r"CN=a\,b\20c,DC=COM")
    for text in ("", "MyQueue", "CN=a,b", "CN=a,", "CN=a;DC=b", "LDAP://server/CN=q"):
        assert not accepts(QUEUE, 121, text)
    assert accepts(QUEUE, 124, "host.example.com\\private$\\orders")
    for text in ("host\\orders.new", "host.example.com", ""):
        assert not accepts(QUEUE, 124, text)


@pytest.mark.spec("MQMQ-2.3.1.25-01")
def test_security_properties_are_self_relative_descriptors_and_a_choice_of_their_parts() -> None:
    descriptor = SecurityDescriptor(owner=EVERYONE, group=EVERYONE)
    data = descriptor.encode()
    absolute = data[:2] + bytes([data[2], data[3] & 0x7F]) + data[4:]
    for propid in (1101, 1102):
        assert accepts(QUEUE, propid, data)
        for wrong in (b"", data[:19], b"\x02" + data[1:], absolute):
            with pytest.raises(IllegalSecurityDescriptor):
                check_value(QUEUE, propid, PropVariant(VarType.VT_BLOB, wrong))
    assert [value for value in range(33) if accepts(QUEUE, 1103, value)] == list(range(16))
    assert (descriptor.select(1).owner, descriptor.select(1).group) == (EVERYONE, None)
    assert (descriptor.select(2).owner, descriptor.select(2).group) == (None, EVERYONE)


@pytest.mark.spec("MQMQ-2.3.2-02")
def test_machine_values_are_addresses_quotas_booleans_and_service_flags() -> None:
    address = TaAddress(AddressType.IP, IPv4Address("10.0.0.1").packed)
    addresses = encode_addresses([address, address])
    assert accepts(MACHINE, 206, addresses)
    assert accepts(MACHINE, 206, b"")
    assert not accepts(MACHINE, 206, addresses[:-1])
    for quota in (214, 215):
        values = (-1, 0, 0xFFFF_FFFF, 0x1_0000_0000)
        assert [value for value in values if accepts(MACHINE, quota, value)] == [0, 0xFFFF_FFFF]
    for boolean in (219, 227, 242):
        assert [value for value in range(256) if accepts(MACHINE, boolean, value)] == [0, 1]
    assert {service.name: service.value for service in Service} == {
        "ROUTING_SERVER": 1,
        "BACKUP_SITE_CONTROLLER": 2,
        "PRIMARY_SITE_CONTROLLER": 4,
        "PRIMARY_ENTERPRISE_CONTROLLER": 8,
        "RAS_SERVER": 0x10,
    }
    assert [value for value in range(256) if accepts(MACHINE, 210, value)] == list(range(0x20))


@pytest.mark.spec("MQMQ-2.3.2.19-01")
def test_an_operating_system_is_one_of_six_and_ours_is_foreign() -> None:
    legal = {
        "MSMQ_OS_NONE": 0x000,
        "MSMQ_OS_FOREIGN": 0x100,
        "MSMQ_OS_95": 0x200,
        "MSMQ_OS_NTW": 0x300,
        "MSMQ_OS_NTS": 0x400,
        "MSMQ_OS_NTE": 0x500,
    }
    assert {system.name: system.value for system in OperatingSystem} == legal
    assert [value for value in range(0x700) if accepts(MACHINE, 220, value)] == list(legal.values())
    assert default(MACHINE, 220) is OperatingSystem(0x100)


@pytest.mark.spec("MQMQ-2.3.2.15-01")
def test_a_machine_type_may_be_empty_or_any_text() -> None:
    for text in ("", "Waypost", "Windows NTS 5.1 (Build 2600, x86) - MSMQ 3.0 (Build 1)"):
        assert accepts(MACHINE, 216, text)
    assert default(MACHINE, 216) == ""


@pytest.mark.spec("MQMQ-2.3.2.38-01")
def test_key_properties_are_mqdspublickeys_and_two_are_given_at_creation_only() -> None:
    keys = MqDsPublicKeys(()).encode()
    for propid in (1202, 1203, 238, 239):
        assert accepts(MACHINE, propid, keys)
        for wrong in (b"", keys[:-1], keys + b"\0"):
            assert not accepts(MACHINE, propid, wrong)
    assert operations(MACHINE, 1202, keys) == operations(MACHINE, 1203, keys) == {Operation.CREATE}
    assert operations(MACHINE, 238, keys) == operations(MACHINE, 239, keys) == set(Operation)


@pytest.mark.spec("MQMQ-2.3.2.39-01")
def test_upgrade_dacl_is_only_set_and_its_value_is_ignored() -> None:
    propid = MachineProperty.PROPID_QM_UPGRADE_DACL
    assert propid.value == 1205
    for value in (b"", b"anything"):
        blob = PropVariant(VarType.VT_BLOB, value)
        assert check_property(MACHINE, propid, blob, Operation.SET) is Treatment.IGNORE
        with pytest.raises(PropertyNotAllowed):
            check_property(MACHINE, propid, blob, Operation.CREATE)


def test_management_properties_are_never_given() -> None:
    for kind in (ObjectKind.MANAGEMENT_MACHINE, ObjectKind.MANAGEMENT_QUEUE):
        for prop in PROPERTIES[kind]:
            for operation in Operation:
                with pytest.raises(PropertyNotAllowed, match=prop.name):
                    check_property(kind, prop, PropVariant(prop.vt), operation)


def test_a_null_value_is_illegal() -> None:
    texts = VarType.VT_LPWSTR | VT_VECTOR
    for kind, propid, value in (
        (QUEUE, 108, PropVariant(VarType.VT_LPWSTR)),
        (QUEUE, 102, PropVariant(VarType.VT_CLSID)),
        (MACHINE, 223, PropVariant(texts, ["CN=a", None])),
    ):
        with pytest.raises(IllegalPropertyValue):
            check_value(kind, propid, value)


def test_every_default_is_legal() -> None:
    for kind, family in PROPERTIES.items():
        for prop in family:
            value = rule_of(kind, prop).default
            if value is not None:
                check_value(kind, prop, PropVariant(prop.vt, value))


ANY_VALUE = st.one_of(
    st.none(), st.integers(-(2**65), 2**65), st.text(max_size=40), st.binary(max_size=40), st.lists(st.text(max_size=9))
)
ALL = [(kind, prop) for kind, family in PROPERTIES.items() for prop in family]


@given(st.sampled_from(ALL), ANY_VALUE, st.sampled_from(Operation))
def test_any_value_is_treated_or_raises_a_property_error(
    where: tuple[ObjectKind, int], value: int | str | bytes | list[str] | None, operation: Operation
) -> None:
    kind, propid = where
    try:
        check_property(kind, propid, PropVariant(find_property(kind, propid).vt, value), operation)
    except (PropertyError, DecodeError):
        return


@given(st.text(max_size=300))
def test_directory_names_are_judged_whatever_the_text(text: str) -> None:
    for propid in (121, 126):
        assert accepts(QUEUE, propid, text) in (True, False)


@pytest.mark.parametrize(
    ("propid", "value", "sentence"),
    [
        (106, PropVariant(VarType.VT_I2, 40000), "invalid PROPID_Q_BASEPRIORITY 40000; must be -32768 to 32767"),
        (105, PropVariant(VarType.VT_UI4, -1), "invalid PROPID_Q_QUOTA -1; must be 0 to 4294967295"),
        (105, PropVariant(VarType.VT_LPWSTR, "1"), "PROPID_Q_QUOTA must have the variant type VT_UI4, not VT_LPWSTR$"),
        (105, PropVariant(VT_VECTOR | VarType.VT_UI4, [1]), r"VT_UI4, not VT_VECTOR\|VT_UI4$"),
        (105, PropVariant(8, 1), "VT_UI4, not 0x0008$"),
        (103, PropVariant(VarType.VT_LPWSTR, "HOST\\q"), "PROPID_Q_PATHNAME is not allowed when a queue is set$"),
    ],
)
def test_an_error_says_what_is_legal(propid: int, value: PropVariant, sentence: str) -> None:
    with pytest.raises(PropertyError, match=sentence):
        check_property(QUEUE, propid, value, Operation.SET)
