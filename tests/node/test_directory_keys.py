"""Keys and certificates that the directory has: those of users, of other queue managers and of this one."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.node.hosts import Host, Net
from tests.node.test_protected_arrivals import (
    ADMIN,
    ALICE,
    BAD_ENCRYPTION,
    BAD_SIGNATURE,
    BOB,
    Q,
    add,
    certificate,
    connected,
    key,
    pkcs8,
    sign,
)
from tests.node.test_protected_departures import secret
from waypost.core.message_values import AuthenticationLevel
from waypost.directory.objects import QueueManager
from waypost.directory.queries import Query, by_identifier
from waypost.directory.results import DirectoryOperationResult
from waypost.directory.topology import User
from waypost.drive.driver import Driver
from waypost.drive.keys.formats import public_key_list
from waypost.drive.keys.key_folder import KeyFolder
from waypost.drive.keys.rsa_work import perform
from waypost.drive.keys.settings import KeySettings
from waypost.drive.keys.workers import Workers
from waypost.errors import InvalidParameter
from waypost.node.directory import DirectoryMode
from waypost.node.effects import MakeKeys
from waypost.node.recovery import Settings
from waypost.security.ciphers import PROVIDER_TYPES
from waypost.security.protection_facts import ProtectionFacts, keys_by_provider
from waypost.security.work import WrapKeys
from waypost.transfer.settings import TransferSettings
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.keys import KeyType, MqDsPublicKey, MqDsPublicKeys, ProviderType, PublicKeyBlob
from waypost.wire.management import ConnectionStatus
from waypost.wire.sid import Sid
from waypost.wire.user_message import UserMessage

EMBEDDED = DirectoryMode.EMBEDDED


@pytest.fixture
def net() -> Net:
    return Net()


def user(sid: Sid, *numbers: int) -> User:
    found = tuple(MqUserSignCert.of(bytes([number]) * 16, certificate(number)) for number in numbers)
    return User.with_certificates(sid, MqUserSignCerts(found))


def put(host: Host, item: User | QueueManager) -> None:
    with host.node.kernel.operation(host.net.now):
        host.node.directory.events.create_directory_object(item, host.net.now)
    host.net.settle()


@pytest.mark.spec("MQQB-3.1.5.8.3-07")
def test_a_certificate_that_the_directory_has_for_the_sender_verifies_its_messages(net: Net) -> None:
    a = add(net, certificates={}, directory=EMBEDDED)
    peer = connected(net, a)

    def arrives(sid: Sid, number: int) -> bool:
        count = len(a.messages("q"))
        peer.send(sign(peer.message(Q, "m", **ADMIN), signer=number, sid=sid))
        if len(a.messages("q")) == count:
            assert a.classes("admin")[-1] == BAD_SIGNATURE
            return False
        message = a.messages("q")[-1]
        assert message.authentication_level is AuthenticationLevel.SIG20
        assert message.sender_identifier == sid.encode()
        return True

    assert not arrives(ALICE, 1)
    put(a, user(ALICE, 2, 1))
    put(a, user(BOB, 3))
    assert arrives(ALICE, 1)
    assert arrives(ALICE, 2)
    assert arrives(BOB, 3)
    # Each certificate counts for its own user only, and one that the directory does not have counts for nobody.
    assert not arrives(BOB, 1)
    assert not arrives(ALICE, 3)
    assert not arrives(ALICE, 4)
    # A certificate that is removed from the directory counts no more at once.
    write(a, user(ALICE, 2))
    assert not arrives(ALICE, 1)
    assert arrives(ALICE, 2)


def test_without_a_directory_no_certificate_comes_from_it(net: Net) -> None:
    a = add(net, certificates={})
    assert list(a.node.directory.certificates_of(ALICE.encode())) == []
    assert list(add(Net(), directory=EMBEDDED).node.directory.certificates_of(b"\x01")) == []


def write(host: Host, item: User | QueueManager) -> None:
    with host.node.kernel.operation(host.net.now):
        assert host.node.directory.events.write_directory(item, host.net.now) is DirectoryOperationResult.SUCCESS
    host.net.settle()


def queue_manager(host: Host, number: int | None = None) -> QueueManager:
    keys = MqDsPublicKeys(()) if number is None else exchange(number)
    return QueueManager(
        identifier=host.guid,
        computer_name=host.name,
        qualified_computer_name=f"{host.name}.example.org",
        public_encryption_key_list=keys,
    )


def exchange(number: int) -> MqDsPublicKeys:
    return public_key_list(key(number).public_key())


@pytest.mark.spec("MQQB-3.1.7.1.5-02", "MQMQ-2.2.20.6-14")
def test_the_body_is_encrypted_with_the_key_that_the_directory_has_for_the_destination(net: Net) -> None:
    a = net.add("a", directory=EMBEDDED)
    b = net.add("b", TransferSettings(send_insecure_nacks=True))
    b.create("q")
    b.key_desk.exchange = (pkcs8(key(9)),)
    name = b.name_of("q")
    put(a, queue_manager(b))
    # The directory has no key of b: the message is given up, and never sent.
    a.send(name, secret(b"too early", negative_journaling_requested=True))
    assert b.bodies("q") == []
    assert a.classes(";deadletter") == [BAD_ENCRYPTION]
    assert a.outgoing(name).connection_history[-1].status is ConnectionStatus.SERVER_CERTIFICATE_FAILURE
    write(a, queue_manager(b, 9))
    a.send(name, secret(b"a secret"))
    assert [each.body for each in b.messages("q")] == [b"a secret"]
    # A key that is pinned here has precedence over the one of the directory, which is wrong now.
    write(a, queue_manager(b, 8))
    a.node.protection.facts_changed(ProtectionFacts(pins={b.guid: keys_by_provider(exchange(9))}))
    a.send(name, secret(b"pinned"))
    assert [each.body for each in b.messages("q")] == [b"a secret", b"pinned"]
    assert a.classes(";deadletter") == [BAD_ENCRYPTION]


@pytest.mark.spec("MQDMPR-3.1.3-06", "MQMQ-2.2.20.6-14")
def test_the_first_start_with_a_directory_publishes_the_keys_of_the_queue_manager(tmp_path: Path) -> None:
    lists = []
    for _ in range(2):
        driver = Driver.open(tmp_path, Settings("HOST", directory=EMBEDDED), lambda: None, max_size=None)
        node = driver.node
        own = Query(QueueManager, by_identifier(node.manager.identity.identifier))
        item = node.directory.events.read_directory(own, node.kernel.now).value
        assert item is not None
        lists.append((item.public_encryption_key_list, item.public_signing_key_list))
        driver.stop()
        driver.finish(driver.close_store())
    # Later starts leave them as they are.
    assert lists[0] == lists[1]
    exchange_keys, signing_keys = lists[0]
    for found in lists[0]:
        assert [(each.ul_provider_type, each.s_provider_name) for each in found.a_public_keys] == [
            (ProviderType.PROV_RSA_FULL, "Microsoft Base Cryptographic Provider v1.0"),
            (ProviderType.PROV_RSA_FULL, "Microsoft Enhanced Cryptographic Provider v1.0"),
            (ProviderType.PROV_RSA_AES, "Microsoft Enhanced RSA and AES Cryptographic Provider"),
        ]
        for each in found.a_public_keys:
            assert each.s_provider_name.encode("utf-16-le") + b"\0\0" in found.encode()
            # RFC 8017 3.1: n is a product of odd primes, and e is from 3 to n - 1 and odd too.
            modulus, exponent = each.a_buf.modulus_number, each.a_buf.pub_exp
            assert modulus.bit_length() == 2048
            assert modulus & exponent & 1
            assert 3 <= exponent < modulus
    # Keys for encryption and for signatures are different ones, and the key folder has their private halves.
    folder = KeyFolder(tmp_path, KeySettings(), Workers(processes=False), "HOST")
    assert public_key_list(folder.current("exchange").public_key()) == exchange_keys
    assert public_key_list(folder.current("signing").public_key()) == signing_keys
    assert exchange_keys != signing_keys


def listed(blob: PublicKeyBlob) -> MqDsPublicKeys:
    return MqDsPublicKeys(tuple(MqDsPublicKey(kind, each.value, blob) for each, kind in PROVIDER_TYPES.items()))


def pair(net: Net, keys: MqDsPublicKeys) -> tuple[Host, Host]:
    """A host with a directory, and another one that the directory knows with these keys."""
    a = net.add("a", directory=EMBEDDED)
    b = net.add("b", TransferSettings(send_insecure_nacks=True))
    b.create("q")
    b.key_desk.exchange = (pkcs8(key(9)),)
    put(a, replace(queue_manager(b), public_encryption_key_list=keys))
    return a, b


def test_no_body_is_encrypted_with_a_weak_key_of_the_directory(net: Net) -> None:
    a, b = pair(net, listed(PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, 65537, (1 << 511) + 1)))
    a.send(b.name_of("q"), secret(b"a secret", negative_journaling_requested=True))
    assert net.packets(UserMessage, "a", "b") == []
    assert a.classes(";deadletter") == [BAD_ENCRYPTION]


def test_a_failure_with_an_earlier_key_does_not_count_for_the_key_of_now(net: Net) -> None:
    a, b = pair(net, exchange(8))
    a.key_desk.is_held = True
    a.send(b.name_of("q"), secret(b"a secret", negative_journaling_requested=True))
    write(a, queue_manager(b, 9))
    a.key_desk.is_held = False
    (work,) = a.key_desk.held
    a.node.kernel.job_done(work.job, InvalidParameter("cannot encrypt with the public key"), net.now)
    net.settle()
    assert [each.body for each in b.messages("q")] == [b"a secret"]
    assert a.classes(";deadletter") == []


def test_other_changes_of_the_directory_do_not_hold_up_a_message_that_waits_for_its_key(net: Net) -> None:
    a, b = pair(net, exchange(9))
    a.key_desk.is_held = True
    a.send(b.name_of("q"), secret(b"a secret"))
    (work,) = a.key_desk.held
    assert isinstance(work.request, MakeKeys)
    put(a, user(ALICE, 1))
    made = perform(WrapKeys(work.request.key.pub_exp, work.request.key.modulus, work.request.size, 1))
    a.node.kernel.job_done(work.job, made, net.now)
    net.settle()
    assert len(a.key_desk.held) == 1
    assert [each.body for each in b.messages("q")] == [b"a secret"]
