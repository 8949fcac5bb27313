"""MS-MQMQ 2.3. The numbers are compared with the sentences of the ledger, which name each property with its number."""

import csv
import re
from itertools import product
from pathlib import Path

import pytest

from waypost.errors import IllegalPropertyId, IllegalPropertyType, IllegalPropertyValue, InvalidParameter
from waypost.wire.addresses import AddressType
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.property_rules import Operation, Treatment, check_properties, check_value, rule_of, sam_account
from waypost.wire.property_values import DeletedObject, NameStyle, Scope
from waypost.wire.propid import PROPERTIES, ObjectKind, find_property
from waypost.wire.propvariant import PropVariant
from waypost.wire.variant_types import VT_VECTOR, VarType

LEDGER = Path(__file__).parent.parent / "ledger" / "MQMQ.csv"

FAMILIES = {
    ObjectKind.QUEUE: ("2.3.1", "PROPID_Q_", 27),
    ObjectKind.MACHINE: ("2.3.2", "PROPID_QM_", 39),
    ObjectKind.SITE: ("2.3.3", "PROPID_S_", 15),
    ObjectKind.CONNECTED_NETWORK: ("2.3.4", "PROPID_CN_", 6),
    ObjectKind.ENTERPRISE: ("2.3.5", "PROPID_E_", 18),
    ObjectKind.USER: ("2.3.6", "PROPID_U_", 6),
    ObjectKind.ROUTING_LINK: ("2.3.7", "PROPID_L_", 13),
    ObjectKind.SETTINGS: ("2.3.8", "PROPID_SET_", 11),
    ObjectKind.MQUSER: ("2.3.9", "PROPID_MQU_", 5),
    ObjectKind.COMPUTER: ("2.3.10", "PROPID_COM_", 8),
    ObjectKind.MANAGEMENT_MACHINE: ("2.3.11", "PROPID_MGMT_MSMQ_", 6),
    ObjectKind.MANAGEMENT_QUEUE: ("2.3.12", "PROPID_MGMT_QUEUE_", 27),
    ObjectKind.DELETION_NOTIFICATION: ("2.3.13", "PROPID_D_", 5),
}


# The "Variant type" in each section.
LISTED_TYPES: dict[ObjectKind, dict[int, list[int]]] = {
    ObjectKind.QUEUE: {
        VarType.VT_CLSID: [101, 102, 115, 116],
        VarType.VT_LPWSTR: [103, 108, 121, 123, 124, 125, 126],
        VarType.VT_UI1: [104, 111, 113, 114],
        VarType.VT_UI4: [105, 107, 112, 118, 119, 1103],
        VarType.VT_I2: [106],
        VarType.VT_I4: [109, 110],
        VarType.VT_BLOB: [117, 1101, 1102],
    },
    ObjectKind.MACHINE: {
        VarType.VT_CLSID: [201, 202, 211],
        VarType.VT_LPWSTR: [203, 216, 221, 233],
        VT_VECTOR | VarType.VT_UI1: [205, 231, 232],
        VarType.VT_BLOB: [206, 213, 234, 238, 239, 241, 1201, 1202, 1203, 1205],
        VT_VECTOR | VarType.VT_CLSID: [207, 208, 209, 222],
        VarType.VT_UI4: [210, 212, 214, 215, 220, 237],
        VarType.VT_I4: [217, 218],
        VarType.VT_UI1: [219, 227, 228, 229, 242],
        VT_VECTOR | VarType.VT_LPWSTR: [223, 224],
    },
    ObjectKind.SITE: {
        VarType.VT_LPWSTR: [301, 304, 309],
        VarType.VT_CLSID: [302, 307],
        VT_VECTOR | VarType.VT_CLSID: [303],
        VarType.VT_UI2: [305, 306, 310],
        VarType.VT_BLOB: [308, 1301, 1302],
        VarType.VT_UI1: [311, 312],
        VarType.VT_UI4: [1303],
    },
    ObjectKind.CONNECTED_NETWORK: {
        VarType.VT_UI1: [501],
        VarType.VT_LPWSTR: [502],
        VarType.VT_CLSID: [503, 504],
        VarType.VT_BLOB: [505, 1501],
    },
    ObjectKind.ENTERPRISE: {
        VarType.VT_LPWSTR: [601, 603, 604],
        VarType.VT_UI1: [602],
        VarType.VT_UI2: [605, 606, 617],
        VarType.VT_CLSID: [607, 609],
        VarType.VT_BLOB: [608, 610, 1601],
        VarType.VT_UI4: [611, 612, 613, 614, 615, 616],
    },
    ObjectKind.USER: {
        VarType.VT_BLOB: [701, 702, 704],
        VarType.VT_CLSID: [703, 706],
        VT_VECTOR | VarType.VT_CLSID: [705],
    },
    ObjectKind.ROUTING_LINK: {
        VarType.VT_CLSID: [801, 802, 804, 806],
        VarType.VT_UI4: [803, 812],
        VarType.VT_BLOB: [805],
        VT_VECTOR | VarType.VT_LPWSTR: [807],
        VarType.VT_LPWSTR: [808, 809, 810, 811],
        VT_VECTOR | VarType.VT_CLSID: [813],
    },
    ObjectKind.SETTINGS: {
        VarType.VT_LPWSTR: [5101, 5105, 5108],
        VarType.VT_UI4: [5102, 5112],
        VarType.VT_CLSID: [5103, 5107],
        VarType.VT_UI1: [5106, 5109, 5110, 5111],
    },
    ObjectKind.MQUSER: {
        VarType.VT_BLOB: [5401, 5402, 5407],
        VT_VECTOR | VarType.VT_CLSID: [5405],
        VarType.VT_CLSID: [5406],
    },
    ObjectKind.COMPUTER: {
        VarType.VT_LPWSTR: [5201, 5202, 5205],
        VarType.VT_UI4: [5204],
        VarType.VT_BLOB: [5206, 5207],
        VT_VECTOR | VarType.VT_CLSID: [5208],
        VarType.VT_CLSID: [5209],
    },
    ObjectKind.MANAGEMENT_MACHINE: {
        VT_VECTOR | VarType.VT_LPWSTR: [1, 2],
        VarType.VT_LPWSTR: [3, 4, 5],
        VarType.VT_I8: [6],
    },
    ObjectKind.MANAGEMENT_QUEUE: {
        VarType.VT_LPWSTR: [1, 2, 3, 4, 5, 6, 11],
        VarType.VT_UI4: [7, 8, 9, 10, 15, 19, 20, 22, 23, 26],
        VT_VECTOR | VarType.VT_LPWSTR: [12, 27],
        VarType.VT_BLOB: [13, 16, 17, 18],
        VarType.VT_I4: [14, 21],
        VT_VECTOR | VarType.VT_VARIANT: [24, 25],
    },
    ObjectKind.DELETION_NOTIFICATION: {
        VarType.VT_BLOB: [1401],
        VarType.VT_CLSID: [1402, 1405],
        VarType.VT_UI1: [1403, 1404],
    },
}
ALL_TYPES = [*VarType, *(vt | VT_VECTOR for vt in VarType)]


def assert_numbers_of_the_ledger(kind: ObjectKind) -> None:
    """The row -01 of the kind's section lists exactly our names and numbers."""
    section, prefix, count = FAMILIES[kind]
    with LEDGER.open(newline="") as file:
        sentence = next(row["requirement"] for row in csv.DictReader(file) if row["id"] == f"MQMQ-{section}-01")
    listed = {prefix + name.upper(): int(number) for name, number in re.findall(r"\b([A-Z]\w+) (\d+)\b", sentence)}
    assert {prop.name: prop.value for prop in PROPERTIES[kind]} == listed
    assert len(listed) == count


def types(kind: ObjectKind) -> dict[int, int]:
    return {prop.value: prop.vt for prop in PROPERTIES[kind]}


def assert_legal_values(kind: ObjectKind, propid: int, legal: list[int]) -> None:
    """Of the values 0 to 32, those and no others are accepted."""
    vt = find_property(kind, propid).vt
    for value in range(33):
        if value in legal:
            assert check_value(kind, propid, PropVariant(vt, value)) is Treatment.STORE
        else:
            with pytest.raises(IllegalPropertyValue):
                check_value(kind, propid, PropVariant(vt, value))


def default(kind: ObjectKind, propid: int) -> object:
    return rule_of(kind, find_property(kind, propid)).default


def test_every_property_names_its_family_and_section() -> None:
    for kind, (section, prefix, count) in FAMILIES.items():
        family = list(PROPERTIES[kind])
        assert all(prop.name.startswith(prefix) for prop in family)
        assert {prop.section for prop in family} == {f"{section}.{number}" for number in range(1, count + 1)}


def test_a_number_means_something_only_with_its_kind() -> None:
    machine, queue = (find_property(kind, 1) for kind in (ObjectKind.MANAGEMENT_MACHINE, ObjectKind.MANAGEMENT_QUEUE))
    assert machine.name == "PROPID_MGMT_MSMQ_ACTIVEQUEUES"
    assert queue.name == "PROPID_MGMT_QUEUE_PATHNAME"
    assert machine.vt != queue.vt


@pytest.mark.parametrize("number", [0, 100, 120, 122, 127, 201, 1104])
def test_a_number_without_a_property_is_an_illegal_propid(number: int) -> None:
    with pytest.raises(IllegalPropertyId, match=str(number)):
        find_property(ObjectKind.QUEUE, number)


@pytest.mark.spec("MQMQ-2.3-01")
def test_identifiers_and_values_are_parallel_arrays_and_each_property_takes_the_listed_type_only() -> None:
    for kind, family in PROPERTIES.items():
        assert all(0 <= prop <= 0xFFFF_FFFF for prop in family)
        assert types(kind) == {number: vt for vt, numbers in LISTED_TYPES[kind].items() for number in numbers}
        for prop, vt in product(family, ALL_TYPES):
            if vt != prop.vt:
                with pytest.raises(IllegalPropertyType, match=prop.name):
                    check_value(kind, prop, PropVariant(vt))

    label, quota = PropVariant(VarType.VT_LPWSTR, "orders"), PropVariant(VarType.VT_UI4, 100)
    check_properties(ObjectKind.QUEUE, [108, 105], [label, quota], Operation.SET)
    with pytest.raises(IllegalPropertyType, match="PROPID_Q_LABEL must have the variant type VT_LPWSTR, not VT_UI4"):
        check_properties(ObjectKind.QUEUE, [108, 105], [quota, label], Operation.SET)
    for values in ([label], [label, quota, quota]):
        with pytest.raises(InvalidParameter):
            check_properties(ObjectKind.QUEUE, [108, 105], values, Operation.SET)
    for number in (-1, 2**32 + 108):
        with pytest.raises(IllegalPropertyId):
            check_properties(ObjectKind.QUEUE, [number], [label], Operation.SET)


@pytest.mark.spec("MQMQ-2.3.1-01")
def test_queue_properties_have_their_numbers() -> None:
    assert_numbers_of_the_ledger(ObjectKind.QUEUE)


@pytest.mark.spec("MQMQ-2.3.1-02")
def test_queue_properties_have_their_types() -> None:
    expected = LISTED_TYPES[ObjectKind.QUEUE]
    assert types(ObjectKind.QUEUE) == {number: vt for vt, numbers in expected.items() for number in numbers}


@pytest.mark.spec("MQMQ-2.3.2-01")
def test_machine_properties_have_their_numbers() -> None:
    assert_numbers_of_the_ledger(ObjectKind.MACHINE)


@pytest.mark.spec("MQMQ-2.3.3-01")
def test_site_properties_have_their_numbers_and_default_intervals() -> None:
    assert_numbers_of_the_ledger(ObjectKind.SITE)
    assert (default(ObjectKind.SITE, 305), default(ObjectKind.SITE, 306)) == (2, 10)


@pytest.mark.spec("MQMQ-2.3.4-01")
def test_connected_network_properties_have_their_numbers_and_three_protocols() -> None:
    assert_numbers_of_the_ledger(ObjectKind.CONNECTED_NETWORK)
    assert find_property(ObjectKind.CONNECTED_NETWORK, 501).vt == VarType.VT_UI1
    protocols = {"IP": 1, "IPX": 3, "FOREIGN": 5}
    assert {name: AddressType[name].value for name in protocols} == protocols
    assert_legal_values(ObjectKind.CONNECTED_NETWORK, 501, list(protocols.values()))


@pytest.mark.spec("MQMQ-2.3.5-01")
def test_enterprise_properties_have_their_numbers_and_eight_are_not_interpreted() -> None:
    kind = ObjectKind.ENTERPRISE
    assert_numbers_of_the_ledger(kind)
    assert_legal_values(kind, 602, [0, 1, 2])
    assert [style for style in NameStyle if style.is_security_weakened] == [1]
    ignored = [prop for prop in PROPERTIES[kind] if rule_of(kind, prop).treatment is Treatment.IGNORE]
    assert ignored == [605, 606, 610, 611, 612, 613, 614, 615]


@pytest.mark.spec("MQMQ-2.3.6-01")
def test_user_properties_have_their_numbers_and_their_certificates_and_digests() -> None:
    kind = ObjectKind.USER
    assert_numbers_of_the_ledger(kind)
    certificates = MqUserSignCerts((MqUserSignCert.of(bytes(16), b"certificate"),)).encode()
    assert check_value(kind, 702, PropVariant(VarType.VT_BLOB, certificates)) is Treatment.STORE
    with pytest.raises(IllegalPropertyValue):
        check_value(kind, 702, PropVariant(VarType.VT_BLOB, certificates[:-1]))
    digests = VT_VECTOR | VarType.VT_CLSID
    assert find_property(kind, 705).vt == digests
    assert check_value(kind, 705, PropVariant(digests, [bytes(16), bytes(range(16))])) is Treatment.STORE
    with pytest.raises(IllegalPropertyValue):
        check_value(kind, 705, PropVariant(digests, [bytes(15)]))


@pytest.mark.spec("MQMQ-2.3.7-01")
def test_routing_link_properties_have_their_numbers_and_costs_from_1_to_999999() -> None:
    kind = ObjectKind.ROUTING_LINK
    assert_numbers_of_the_ledger(kind)
    assert default(kind, 803) == 1
    for propid in (803, 812):
        for cost in (1, 999_999):
            assert check_value(kind, propid, PropVariant(VarType.VT_UI4, cost)) is Treatment.STORE
        for cost in (0, 1_000_000):
            with pytest.raises(IllegalPropertyValue):
                check_value(kind, propid, PropVariant(VarType.VT_UI4, cost))


@pytest.mark.spec("MQMQ-2.3.8-01")
def test_settings_properties_have_their_numbers_one_name_booleans_and_one_service() -> None:
    kind = ObjectKind.SETTINGS
    assert_numbers_of_the_ledger(kind)
    assert default(kind, 5101) == "MSMQ Settings"
    assert check_value(kind, 5101, PropVariant(VarType.VT_LPWSTR, "MSMQ Settings")) is Treatment.STORE
    with pytest.raises(IllegalPropertyValue):
        check_value(kind, 5101, PropVariant(VarType.VT_LPWSTR, "msmq settings"))
    for boolean in (5106, 5109, 5110, 5111):
        assert_legal_values(kind, boolean, [0, 1])
    for service in (5102, 5112):
        assert_legal_values(kind, service, [0, 1, 2, 4, 8])


@pytest.mark.spec("MQMQ-2.3.9-01")
def test_mquser_properties_have_their_numbers() -> None:
    assert_numbers_of_the_ledger(ObjectKind.MQUSER)


@pytest.mark.spec("MQMQ-2.3.10-01")
def test_computer_properties_have_their_numbers_and_the_account_is_cut_to_19_characters() -> None:
    assert_numbers_of_the_ledger(ObjectKind.COMPUTER)
    assert sam_account("MyComputer") == "MyComputer$"
    assert sam_account("n" * 19) == "n" * 19 + "$"
    assert sam_account("n" * 20) == "n" * 19 + "$"


@pytest.mark.spec("MQMQ-2.3.11-01")
def test_management_machine_properties_have_their_numbers_and_types() -> None:
    kind = ObjectKind.MANAGEMENT_MACHINE
    assert_numbers_of_the_ledger(kind)
    text, texts = VarType.VT_LPWSTR, VarType.VT_LPWSTR | VT_VECTOR
    assert types(kind) == {1: texts, 2: texts, 3: text, 4: text, 5: text, 6: VarType.VT_I8}


@pytest.mark.spec("MQMQ-2.3.12-01")
def test_management_queue_properties_have_their_numbers() -> None:
    assert_numbers_of_the_ledger(ObjectKind.MANAGEMENT_QUEUE)
    assert [prop.value for prop in PROPERTIES[ObjectKind.MANAGEMENT_QUEUE]] == list(range(1, 28))


@pytest.mark.spec("MQMQ-2.3.13-01")
def test_deletion_notification_properties_have_their_numbers_scopes_and_object_types() -> None:
    kind = ObjectKind.DELETION_NOTIFICATION
    assert_numbers_of_the_ledger(kind)
    assert {scope.name: scope.value for scope in Scope} == {"MQDS_SITESCOPE": 0, "MQDS_ENTERPRISESCOPE": 1}
    assert_legal_values(kind, 1403, [0, 1])
    objects = {
        "MQDS_QUEUE": 1,
        "MQDS_MACHINE": 2,
        "MQDS_SITE": 3,
        "MQDS_DELETEDOBJECT": 4,
        "MQDS_CN": 5,
        "MQDS_ENTERPRISE": 6,
        "MQDS_USER": 7,
        "MQDS_ROUTINGLINK": 8,
    }
    assert {deleted.name: deleted.value for deleted in DeletedObject} == objects
    assert_legal_values(kind, 1404, list(objects.values()))
