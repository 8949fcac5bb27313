"""The hosts in names that mean this queue manager."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.engine import ME, Rig
from waypost.core.queues import AccessType, OutgoingQueue, ShareMode
from waypost.core.system import Identity
from waypost.errors import QueueNotFound
from waypost.wire.format_names import FormatName

ADDRESSES = frozenset({"127.0.0.2", "10.0.0.1", "2001:db8::7", "fe80::1%eth0"})


def identity(*addresses: str, aliases: frozenset[str] = frozenset()) -> Identity:
    return Identity(ME, "Host", "host.example.org", frozenset(addresses), aliases)


@pytest.mark.parametrize("host", ["Host", "HOST", "host.EXAMPLE.org", ".", "orders.example.net", "ORDERS"])
def test_its_own_names_and_aliases_mean_it_in_any_case(host: str) -> None:
    assert identity(aliases=frozenset({"Orders", "orders.example.NET"})).is_local(host)


@pytest.mark.parametrize("host", ["other", "host.example.com", "hos", "..", "host.example.org.example.org", ""])
def test_other_names_mean_others(host: str) -> None:
    assert not identity(*ADDRESSES, aliases=frozenset({"orders"})).is_local(host)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.2",
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "2001:db8::7",
        "2001:0DB8:0:0:0:0:0:7",
        "fe80::1",
        "fe80::1%eth0",
    ],
)
def test_addresses_are_compared_as_addresses(host: str) -> None:
    assert identity(*ADDRESSES).is_local(host)


@pytest.mark.parametrize("host", ["127.0.0.3", "127.0.0.1", "::1", "localhost", "10.0.0.2", "10.1", "2001:db8::8"])
def test_another_address_of_the_same_computer_is_another_queue_manager(host: str) -> None:
    assert not identity(*ADDRESSES).is_local(host)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_localhost_means_who_is_reached_there(address: str) -> None:
    assert identity(address).is_local("LocalHost")
    assert not identity("127.0.0.2").is_local("localhost")


def test_what_is_no_address_among_the_addresses_means_nobody() -> None:
    assert not identity("not an address").is_local("not an address")


@settings(deadline=None)
@given(st.ip_addresses())
def test_every_spelling_of_an_address_is_the_same(address: IPv4Address | IPv6Address) -> None:
    own = identity(str(address))
    assert own.is_local(address.exploded)
    assert own.is_local(address.compressed.upper())


def test_names_are_part_of_the_identity_and_what_is_made_of_them_is_not() -> None:
    assert identity("10.0.0.1") == identity("10.0.0.1")
    assert identity("10.0.0.1") != identity("10.0.0.2")
    assert "_names" not in repr(identity())


def test_new_addresses_hold_at_once_and_old_ones_no_longer() -> None:
    rig = Rig()
    path = rig.manager.identity.computer_name
    queue = rig.manager.find_queue(FormatName.parse(f"DIRECT=OS:{path}\\system$;journal"))
    assert queue is not None
    old, new = (FormatName.parse(f"DIRECT=TCP:{host}\\system$;journal") for host in ("10.0.0.1", "fe80:0::2"))
    assert (rig.manager.find_queue(old), rig.manager.find_queue(new)) == (queue, None)
    rig.manager.set_addresses(frozenset({"fe80::2"}))
    assert (rig.manager.find_queue(old), rig.manager.find_queue(new)) == (None, queue)


def test_an_address_that_became_ours_has_no_outgoing_queue() -> None:
    rig = Rig()
    before, after = (FormatName.parse(f"DIRECT=TCP:{host}\\private$\\nothing") for host in ("10.0.0.8", "10.0.0.9"))
    opened = rig.manager.open_queue(before, AccessType.SEND, ShareMode.DENY_NONE, rig.now)
    assert isinstance(opened.queue, OutgoingQueue)
    rig.manager.set_addresses(frozenset({"10.0.0.9"}))
    with pytest.raises(QueueNotFound):
        rig.manager.open_queue(after, AccessType.SEND, ShareMode.DENY_NONE, rig.now)
