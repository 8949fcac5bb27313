"""MS-MQMQ 2.2.3 and 2.2.23 to 2.2.27."""

from enum import IntFlag

import pytest

from waypost.wire.access_masks import (
    ConnectedNetworkAccess,
    EnterpriseAccess,
    MachineAccess,
    QueueAccess,
    SecurityInformation,
    SiteAccess,
)


def rights(flags: type[IntFlag]) -> dict[str, int]:
    """The single bits."""
    return {flag.name or "": flag.value for flag in flags}


def composites(flags: type[IntFlag]) -> dict[str, int]:
    """The names for several bits together, which an iteration leaves out."""
    return {name: flag.value for name, flag in flags.__members__.items() if flag.value.bit_count() > 1}


@pytest.mark.spec("MQMQ-2.2.3-01")
def test_security_information_selects_four_parts_of_a_descriptor() -> None:
    assert rights(SecurityInformation) == {
        "OWNER_SECURITY_INFORMATION": 0x1,
        "GROUP_SECURITY_INFORMATION": 0x2,
        "DACL_SECURITY_INFORMATION": 0x4,
        "SACL_SECURITY_INFORMATION": 0x8,
    }
    assert composites(SecurityInformation) == {}


@pytest.mark.spec("MQMQ-2.2.23-01")
def test_queue_manager_rights() -> None:
    assert rights(MachineAccess) == {
        "MQSEC_DELETE_DEADLETTER_MESSAGE": 0x1,
        "MQSEC_PEEK_DEADLETTER_MESSAGE": 0x2,
        "MQSEC_CREATE_QUEUE": 0x4,
        "MQSEC_SET_MACHINE_PROPERTIES": 0x10,
        "MQSEC_GET_MACHINE_PROPERTIES": 0x20,
        "MQSEC_DELETE_JOURNAL_QUEUE_MESSAGE": 0x40,
        "MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE": 0x80,
        "MQSEC_DELETE_MACHINE": 0x10000,
        "MQSEC_GET_MACHINE_PERMISSIONS": 0x20000,
        "MQSEC_CHANGE_MACHINE_PERMISSIONS": 0x40000,
        "MQSEC_TAKE_MACHINE_OWNERSHIP": 0x80000,
    }


@pytest.mark.spec("MQMQ-2.2.23-02")
def test_composite_queue_manager_rights() -> None:
    assert composites(MachineAccess) == {
        "MQSEC_RECEIVE_DEADLETTER_MESSAGE": 0x3,
        "MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE": 0xC0,
        "MQSEC_MACHINE_GENERIC_READ": 0x200E3,
        "MQSEC_MACHINE_GENERIC_WRITE": 0x20024,
        "MQSEC_MACHINE_GENERIC_ALL": 0xF00F7,
        "MQSEC_MACHINE_WORLD_RIGHTS": 0x20020,
    }


@pytest.mark.spec("MQMQ-2.2.24-01")
def test_queue_rights() -> None:
    assert rights(QueueAccess) == {
        "MQSEC_DELETE_MESSAGE": 0x1,
        "MQSEC_PEEK_MESSAGE": 0x2,
        "MQSEC_WRITE_MESSAGE": 0x4,
        "MQSEC_DELETE_JOURNAL_MESSAGE": 0x8,
        "MQSEC_SET_QUEUE_PROPERTIES": 0x10,
        "MQSEC_GET_QUEUE_PROPERTIES": 0x20,
        "MQSEC_DELETE_QUEUE": 0x10000,
        "MQSEC_GET_QUEUE_PERMISSIONS": 0x20000,
        "MQSEC_CHANGE_QUEUE_PERMISSIONS": 0x40000,
        "MQSEC_TAKE_QUEUE_OWNERSHIP": 0x80000,
    }


@pytest.mark.spec("MQMQ-2.2.24-02")
def test_composite_queue_rights() -> None:
    assert composites(QueueAccess) == {
        "MQSEC_RECEIVE_MESSAGE": 0x3,
        "MQSEC_RECEIVE_JOURNAL_MESSAGE": 0xA,
        "MQSEC_QUEUE_GENERIC_READ": 0x2002B,
        "MQSEC_QUEUE_GENERIC_WRITE": 0x20024,
        "MQSEC_QUEUE_GENERIC_ALL": 0xF003F,
    }


@pytest.mark.spec("MQMQ-2.2.25-01")
def test_site_rights() -> None:
    assert rights(SiteAccess) == {
        "MQSEC_CREATE_FRS": 0x1,
        "MQSEC_CREATE_BSC": 0x2,
        "MQSEC_CREATE_MACHINE": 0x4,
        "MQSEC_SET_SITE_PROPERTIES": 0x10,
        "MQSEC_GET_SITE_PROPERTIES": 0x20,
        "MQSEC_DELETE_SITE": 0x10000,
        "MQSEC_GET_SITE_PERMISSIONS": 0x20000,
        "MQSEC_CHANGE_SITE_PERMISSIONS": 0x40000,
        "MQSEC_TAKE_SITE_OWNERSHIP": 0x80000,
    }
    assert composites(SiteAccess) == {
        "MQSEC_SITE_GENERIC_READ": 0x20020,
        "MQSEC_SITE_GENERIC_WRITE": 0x20024,
        "MQSEC_SITE_GENERIC_ALL": 0xF0037,
    }


@pytest.mark.spec("MQMQ-2.2.26-01")
def test_enterprise_rights() -> None:
    assert rights(EnterpriseAccess) == {
        "MQSEC_CREATE_USER": 0x1,
        "MQSEC_CREATE_SITE": 0x2,
        "MQSEC_CREATE_CN": 0x4,
        "MQSEC_SET_ENTERPRISE_PROPERTIES": 0x10,
        "MQSEC_GET_ENTERPRISE_PROPERTIES": 0x20,
        "MQSEC_DELETE_ENTERPRISE": 0x10000,
        "MQSEC_GET_ENTERPRISE_PERMISSIONS": 0x20000,
        "MQSEC_CHANGE_ENTERPRISE_PERMISSIONS": 0x40000,
        "MQSEC_TAKE_ENTERPRISE_OWNERSHIP": 0x80000,
    }
    assert composites(EnterpriseAccess) == {
        "MQSEC_ENTERPRISE_GENERIC_READ": 0x20021,
        "MQSEC_ENTERPRISE_GENERIC_WRITE": 0x20027,
        "MQSEC_ENTERPRISE_GENERIC_ALL": 0xF0037,
    }


@pytest.mark.spec("MQMQ-2.2.27-01")
def test_connected_network_rights() -> None:
    assert rights(ConnectedNetworkAccess) == {
        "MQSEC_CN_OPEN_CONNECTOR": 0x1,
        "MQSEC_SET_CN_PROPERTIES": 0x10,
        "MQSEC_GET_CN_PROPERTIES": 0x20,
        "MQSEC_DELETE_CN": 0x10000,
        "MQSEC_GET_CN_PERMISSIONS": 0x20000,
        "MQSEC_CHANGE_CN_PERMISSIONS": 0x40000,
        "MQSEC_TAKE_CN_OWNERSHIP": 0x80000,
    }
    assert composites(ConnectedNetworkAccess) == {
        "MQSEC_CN_GENERIC_READ": 0x20020,
        "SEC_CN_GENERIC_ALL": 0xF0031,
    }
