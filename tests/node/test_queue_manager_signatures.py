"""Messages that a queue manager has signed itself (ST = 2), and senders that a message merely names."""

from typing import Any

import pytest

from tests.node.directory_rig import DirectoryRig
from tests.node.hosts import Host, Net, Peer, letter
from tests.node.test_protected_arrivals import (
    ADMIN,
    ALICE,
    BAD_ENCRYPTION,
    BAD_SIGNATURE,
    Q,
    add,
    certificate,
    connected,
    encrypt,
    key,
    sign,
)
from waypost.core.message_values import AuthenticationLevel, SenderIdentifierType
from waypost.directory.objects import QueueManager
from waypost.directory.queries import Query, by_identifier
from waypost.node.directory import DirectoryMode
from waypost.security.protection_facts import ProtectionFacts
from waypost.wire.keys import KeyType, MqDsPublicKey, MqDsPublicKeys, ProviderType, PublicKeyBlob
from waypost.wire.message_class import MessageClass
from waypost.wire.property_values import QueuePrivacy
from waypost.wire.sddl import parse_sddl
from waypost.wire.security_header import SENDER_QUEUE_MANAGER, SENDER_SID, SecurityHeader
from waypost.wire.user_message import UserMessage

DENIED = MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED
GUID = bytes(range(1, 17))


@pytest.fixture
def net() -> Net:
    return Net()


def blob(number: int = 1) -> PublicKeyBlob:
    numbers = key(number).public_key().public_numbers()
    return PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, numbers.e, numbers.n)


def listed(number: int = 1) -> MqDsPublicKeys:
    return MqDsPublicKeys((MqDsPublicKey(ProviderType.PROV_RSA_FULL, "any", blob(number)),))


def by_queue_manager(packet: UserMessage, guid: bytes, **signer: Any) -> UserMessage:
    sign(packet, sid=None, **signer)
    assert packet.security is not None
    packet.security.flags |= SENDER_QUEUE_MANAGER
    packet.security.security_id = guid
    return packet


def delivered(host: Host, peer: Peer, guid: bytes, **signer: Any) -> bool:
    """Whether a message that a queue manager has signed is delivered; else it is refused with 0x8006."""
    count = len(host.messages("q"))
    peer.send(by_queue_manager(peer.message(Q, "signed", **ADMIN), guid, **signer))
    if len(host.messages("q")) == count:
        assert host.classes("admin")[-1] == BAD_SIGNATURE
        return False
    message = host.messages("q")[-1]
    assert message.authentication_level is AuthenticationLevel.SIG20
    assert message.sender_identifier == guid
    return True


@pytest.mark.spec("MQQB-3.1.5.8.3-05")
def test_a_pinned_signing_key_verifies_the_messages_of_its_queue_manager_alone(net: Net) -> None:
    a = add(net)
    peer = connected(net, a)
    assert not delivered(a, peer, GUID)
    a.node.protection.facts_changed(ProtectionFacts(signing_pins={GUID: (blob(2), blob())}))
    assert delivered(a, peer, GUID)
    assert not delivered(a, peer, GUID[::-1])
    assert not delivered(a, peer, GUID, signer=3)
    assert not delivered(a, peer, GUID, signer=3, cert=certificate(1))
    assert not delivered(a, peer, GUID, cert=certificate(1, -9, -1))
    a.node.protection.facts_changed(ProtectionFacts(pins={GUID: {}}))
    assert not delivered(a, peer, GUID)


@pytest.mark.spec("MQMQ-2.2.20.6-11")
def test_a_queue_manager_that_signs_is_named_by_its_guid_and_encrypts_for_the_receiver(net: Net) -> None:
    a = add(net)
    a.node.protection.facts_changed(ProtectionFacts(signing_pins={GUID: (blob(),)}))
    peer = connected(net, a)

    def arrives(guid: bytes, number: int) -> bool:
        count = len(a.messages("q"))
        packet = peer.message(Q, "secret", body=b"of the queue manager", **ADMIN)
        peer.send(encrypt(by_queue_manager(packet, guid), number=number))
        return len(a.messages("q")) > count

    assert arrives(GUID, 9)
    (message,) = a.messages("q")
    assert (message.body, message.sender_identifier) == (b"of the queue manager", GUID)
    assert message.sender_identifier_type is SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER
    assert message.authentication_level is AuthenticationLevel.SIG20
    assert not arrives(GUID[::-1], 9)
    assert a.classes("admin")[-1] == BAD_SIGNATURE
    # EncryptionKey is not for this queue manager.
    assert not arrives(GUID, 8)
    assert a.classes("admin")[-1] == BAD_ENCRYPTION


def test_a_signing_key_that_is_pinned_for_a_host_counts_for_the_guid_that_answered_there(net: Net) -> None:
    a = add(net)
    b = net.add("b")
    b.create("inbox")
    facts = ProtectionFacts(signing_pins={b.address: (blob(),)})
    a.node.protection.facts_changed(facts)
    peer = connected(net, a)
    guid = b.node.manager.identity.identifier
    assert not delivered(a, peer, guid)
    a.send(rf"DIRECT=TCP:{b.address}\private$\inbox", letter("hello"))
    assert b.bodies("inbox") == ["hello"]
    assert delivered(a, peer, guid)


def test_the_lists_of_the_own_object_and_of_the_directory_count(net: Net) -> None:
    a = add(net, directory=DirectoryMode.EMBEDDED)
    own = a.node.manager.identity.identifier
    peer = connected(net, a)
    assert not delivered(a, peer, own)
    a.node.protection.facts_changed(ProtectionFacts(encryption_list=listed(9), signing_list=listed()))
    assert delivered(a, peer, own)
    assert not delivered(a, peer, GUID)
    directory = a.node.directory
    with a.node.kernel.operation(net.now):
        item = QueueManager(identifier=GUID, computer_name="far", public_signing_key_list=listed())
        directory.events.create_directory_object(item, net.now)
    assert delivered(a, peer, GUID)


@pytest.mark.spec("MQDMPR-3.1.1.1-14")
def test_the_lists_of_keys_are_empty_at_first_and_published_when_they_change() -> None:
    rig = DirectoryRig()
    new = rig.read(QueueManager, rig.node.manager.identity.identifier)
    assert new is not None
    # MS-MQMQ 2.2.2: the size of the structure and the number of keys.
    for keys in (new.public_encryption_key_list, new.public_signing_key_list):
        assert keys.encode() == b"\x08\0\0\0" + bytes(4)
    for number in (1, 2):
        facts = ProtectionFacts(encryption_list=listed(9), signing_list=listed(number))
        rig.node.protection.facts_changed(facts)
        own = Query(QueueManager, by_identifier(rig.node.manager.identity.identifier))
        found = rig.node.directory.events.read_directory(own, rig.now).value
        assert found is not None
        assert (found.public_encryption_key_list, found.public_signing_key_list) == (listed(9), listed(number))
        rig.stop()
    found = rig.node.directory.events.read_directory(own, rig.now).value
    assert found is not None
    assert found.public_signing_key_list == listed(2)


def secured(host: Host, sddl: str) -> None:
    host.create("strict", security=parse_sddl(sddl).encode(), privacy_level=QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL)


@pytest.mark.parametrize(
    ("sddl", "is_delivered"),
    [("D:(A;;0x4;;;WD)", True), ("D:(D;;0x4;;;AN)(A;;0x4;;;WD)", True), (f"D:(A;;0x4;;;{ALICE})", False)],
)
def test_a_queue_manager_that_signs_has_the_rights_of_everyone(net: Net, sddl: str, *, is_delivered: bool) -> None:
    a = add(net)
    secured(a, sddl)
    a.node.protection.facts_changed(ProtectionFacts(signing_pins={GUID: (blob(),)}))
    peer = connected(net, a)
    peer.send(by_queue_manager(peer.message(r"DIRECT=OS:a\private$\strict", "m", **ADMIN), GUID))
    assert a.bodies("strict") == (["m"] if is_delivered else [])
    assert (DENIED in a.classes("admin")) is not is_delivered


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_sid_that_the_sender_merely_wrote_counts_only_if_the_setting_says_so(net: Net, *, is_trusted: bool) -> None:
    a = add(net, trusts_unsigned_sender=is_trusted)
    secured(a, f"D:(A;;0x4;;;{ALICE})")
    peer = connected(net, a)
    packet = peer.message(r"DIRECT=OS:a\private$\strict", "m", **ADMIN)
    packet.security = SecurityHeader(SENDER_SID, ALICE.encode())
    peer.send(packet, peer.message(r"DIRECT=OS:a\private$\strict", "nobody", **ADMIN))
    assert a.bodies("strict") == (["m"] if is_trusted else [])
    assert a.classes("admin").count(DENIED) == (1 if is_trusted else 2)
