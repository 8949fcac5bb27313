"""Signed and encrypted messages between two daemons: every signature, hash and algorithm, end to end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from math import gcd
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

import waypost
import waypost.aio
from tests.client.msmq_reading import without_remote_read
from tests.daemon.recording import until
from tests.daemon.running import Running, loopback, running
from tests.security import second
from waypost import errors
from waypost.api.bulk import CommitStages, Stage, StagedMessages
from waypost.api.keys import KeyKind
from waypost.api.properties import Algorithm, MessageProperties
from waypost.client.transports.embedded import AioEmbedded
from waypost.core.message_values import AuthenticationLevel
from waypost.wire.security_header import SENDER_SID, SecurityHeader
from waypost.wire.sid import Sid

# Short keys are made sooner.
BITS = ("security.key_bits=1024",)
ALICE = Sid(5, (21, 1, 2, 3, 1104))
HASHES = ("sha512", "sha256", "sha1", "md5")
KINDS: tuple[KeyKind, ...] = ("exchange", "signing")
ALGORITHMS: tuple[Algorithm, ...] = ("aes256", "aes192", "aes128", "rc2", "rc4")


@asynccontextmanager
async def pair(tmp_path: Path, *settings: str) -> AsyncIterator[tuple[Running, Running, str]]:
    """Two daemons that know the keys and certificates of each other, and the name of a queue of the second."""
    async with (
        running(tmp_path / "here", loopback(1), *BITS) as here,
        running(tmp_path / "there", loopback(2), *BITS, *settings) as there,
    ):
        await introduce(here, there)
        yield here, there, rf"DIRECT=TCP:{loopback(2)}\private$\orders"


async def introduce(here: Running, there: Running, who: str = "") -> None:
    created = await here.manager.create_certificate()
    await there.manager.register_certificate(created.pem.encode(), created.sid)
    await here.manager.trust_keys(who or loopback(2), await there.manager.export_keys())


@pytest.mark.spec("MQQB-3.1.7.1.4-02")
def test_every_algorithm_arrives_in_the_clear_and_every_signature_is_verified(tmp_path: Path) -> None:
    async def run() -> None:
        async with pair(tmp_path) as (here, there, name):
            private = await there.manager.create_queue("orders", privacy="body")
            for algorithm in ALGORITHMS:
                await here.manager.send_many(name, ["secret", ""], encrypt=True, algorithm=algorithm)
                for text in ("secret", ""):
                    message = await private.receive(timeout=60)
                    assert (message.text, message.encrypted, message.authenticated) == (text, algorithm, False)
            signed = await there.manager.create_queue("signed", authenticate=True)
            (certificate,) = await here.manager.certificates()
            for signature, hashed in product((1, 2), HASHES):
                properties: Any = {"signature": signature, "hash": hashed, "label": "a label", "extension": b"more"}
                await here.manager.send(name.replace("orders", "signed"), "mine", sign=True, **properties)
                message = await signed.receive(timeout=60)
                assert (message.text, message.authenticated, message.sender_verified) == ("mine", True, True)
                assert (message.signature, message.encrypted) == (f"msmq{signature}0", None)
                assert message.sender_sid == certificate.sid
                assert message.certificate_subject == certificate.subject

    asyncio.run(run())


@pytest.mark.spec("MQQB-3.1.7.1.4-01")
def test_a_message_to_several_queues_has_one_signature_of_version_3(tmp_path: Path) -> None:
    async def run() -> None:
        async with pair(tmp_path) as (here, there, name):
            queues = [await there.manager.create_queue(each, authenticate=True) for each in ("orders", "others")]
            mine = await here.manager.create_queue("mine", authenticate=True, privacy="body")
            names = f"{name},{name.replace('orders', 'others')},{mine.format_name}"
            await here.manager.send(names, "all", sign=True, encrypt=True)
            for queue in (*queues, mine):
                message = await queue.receive(timeout=60)
                assert (message.text, message.signature, message.encrypted) == ("all", "msmq30", "aes256")
                assert message.sender_verified

    asyncio.run(run())


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_list_that_names_one_queue_twice_is_signed_as_for_one_queue(tmp_path: Path, *, is_staged: bool) -> None:
    async def run() -> None:
        async with pair(tmp_path) as (here, there, name):
            strict = await there.manager.create_queue("orders", authenticate=True, transactional=is_staged)
            for each in (f"{name},{name}", f"{name},{name.upper()}"):
                if is_staged:
                    call = here.manager._transport.call
                    group = StagedMessages(queue=each, like=MessageProperties(sign=True), bodies=[b"mine"])
                    staged = await call(Stage(query=each[-9:], batch=0, groups=[group]))
                    await call(CommitStages(query=each[-9:], batch=0, stages=[staged.stage]))
                else:
                    await here.manager.send(each, "mine", sign=True)
                message = await strict.receive(timeout=60)
                assert (message.text, message.signature, message.sender_verified) == ("mine", "msmq20", True)
            with pytest.raises(errors.InvalidParameter, match="only for a message to several queues"):
                await here.manager.send(f"{name},{name}", "mine", sign=True, signature=3)

    asyncio.run(run())


@pytest.mark.spec("MQQB-6-01")
def test_the_hashes_that_are_accepted_are_configured(tmp_path: Path) -> None:
    async def run() -> None:
        async with pair(tmp_path, "security.hashes=sha512,sha256") as (here, there, name):
            queue = await there.manager.create_queue("orders")
            for hashed in (*reversed(HASHES), None):
                properties: Any = {} if hashed is None else {"hash": hashed}
                await here.manager.send(name, hashed or "default", sign=True, **properties)
            for expected in ("sha256", "sha512", "default"):
                assert (await queue.receive(timeout=60)).text == expected
            lines = there.stream.getvalue()
            assert (
                "the signature uses the hash MD5, which the configuration key security.hashes does not allow" in lines
            )

    asyncio.run(run())


@pytest.mark.spec("MQDMPR-5.1-01", "MQDMPR-3.1.3-07", "MQQB-3.1.7.1.5-03", "MQMQ-2.2.1-03")
def test_keys_are_strong_and_stand_for_all_providers(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            running(tmp_path / "here", loopback(1)) as here,
            running(tmp_path / "there", loopback(2)) as there,
        ):
            moduli: set[int] = set()
            for kind, daemon in product(KINDS, (here, there)):
                pem = load_pem_public_key(await daemon.manager.export_keys(kind, "pem"))
                assert isinstance(pem, RSAPublicKey)
                numbers = pem.public_numbers()
                # RFC 8017 3.1: an odd modulus of two primes, and an odd exponent. No two keys share anything.
                assert (pem.key_size, numbers.e, numbers.n % 2) == (2048, 65537, 1)
                assert all(gcd(numbers.n, other) == 1 for other in moduli)
                moduli.add(numbers.n)
                # The bytes of MS-MQMQ 2.2.2, from the text alone.
                exported = await daemon.manager.export_keys(kind, "mqdspublickeys")
                assert exported == second.public_keys_blob(numbers.e, numbers.n)
            await introduce(here, there)
            queue = await there.manager.create_queue("orders", authenticate=True, privacy="body")
            name = rf"DIRECT=TCP:{loopback(2)}\private$\orders"
            await here.manager.send(name, "strong", sign=True, encrypt=True, hash="sha512", algorithm="aes256")
            message = await queue.receive(timeout=60)
            assert (message.text, message.signature, message.encrypted) == ("strong", "msmq20", "aes256")

    asyncio.run(run())


@pytest.mark.spec("MQMQ-2.2.1-02")
def test_keys_of_an_undefined_provider_type_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "here", loopback(1), *BITS) as here:
            keys = await here.manager.export_keys("exchange", "mqdspublickeys")
            await here.manager.trust_keys("good", keys)
            for kind in (0, 2, 25):
                # ulProviderType of the first key, behind the size, the count and two lengths.
                with pytest.raises(errors.InvalidParameter, match="MQDSPUBLICKEYS"):
                    await here.manager.trust_keys("bad", keys[:16] + kind.to_bytes(4, "little") + keys[20:])
            assert [each.who for each in await here.manager.trusted_keys()] == ["good"]

    asyncio.run(run())


@pytest.mark.spec("MQDMPR-3.1.1.19-01")
def test_an_internal_certificate_belongs_to_one_user(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "here", loopback(1), *BITS) as here:
            for name in ("alice", "bob"):
                await here.manager.users.add(name)
            created = await here.manager.create_certificate("alice")
            found = load_pem_x509_certificate(created.pem.encode())
            assert found.subject == found.issuer
            assert [(each.user, each.internal) for each in await here.manager.certificates()] == [("alice", True)]
            with pytest.raises(errors.WaypostError, match="alice"):
                await here.manager.register_certificate(created.pem.encode(), "bob")

    asyncio.run(run())


def test_a_message_to_a_queue_of_this_computer_is_verified_and_private(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "here", loopback(1), *BITS) as here:
            queue = await here.manager.create_queue("mine", authenticate=True, privacy="body")
            for options in ({}, {"sign": True}, {"encrypt": True}):
                with pytest.raises(errors.WaypostError):
                    await queue.send("refused", **options)  # type: ignore[arg-type]
            await queue.send_many(["1", "2"], sign=True, encrypt=True)
            for _ in range(2):
                message = await queue.receive(timeout=60)
                assert (message.signature, message.sender_verified, message.encrypted) == ("msmq20", True, "aes256")

    asyncio.run(run())


def test_many_signed_and_encrypted_messages_keep_their_order_among_plain_ones(tmp_path: Path) -> None:
    async def run() -> None:
        async with pair(tmp_path) as (here, there, name):
            queue = await there.manager.create_queue("orders", transactional=True)
            async with here.manager.transaction() as transaction:
                for at in range(20):
                    await here.manager.send(name, f"{at} plain", transaction=transaction)
                    bodies = [f"{at} {number}" for number in range(4)]
                    await here.manager.send_many(name, bodies, sign=True, encrypt=True, transaction=transaction)
            found = [(await queue.receive(timeout=60)) for _ in range(100)]
            assert [each.text for each in found] == [
                text for at in range(20) for text in (f"{at} plain", *(f"{at} {number}" for number in range(4)))
            ]
            assert [each.authenticated for each in found] == [False, True, True, True, True] * 20

    asyncio.run(run())


def test_keys_that_are_not_known_make_dead_letters_and_known_ones_do_not(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            running(tmp_path / "there", loopback(2), *BITS) as there,
            running(
                tmp_path / "here", loopback(1), *BITS, f"routing.routes={there.manager.guid}={loopback(2)}"
            ) as here,
        ):
            queue = await there.manager.create_queue("orders", privacy="body")
            info = await queue.info()
            assert info.private_format_name is not None
            await here.manager.send(info.private_format_name, "unknown", encrypt=True, dead_letter=True)
            dead = await here.manager.queue("system$;deadletter").receive(timeout=60)
            assert (dead.text, dead.class_name) == ("unknown", "MQMSG_CLASS_NACK_BAD_ENCRYPTION")
            # It never travelled.
            assert (dead.encrypted, dead.class_meaning) == (None, "the sender could not encrypt the message")
            direct = rf"DIRECT=TCP:{loopback(2)}\private$\orders"
            with pytest.raises(errors.PublicKeyUnknown, match=f"waypost key trust {loopback(2)} FILE"):
                await here.manager.send(direct, "unknown", encrypt=True)
            await here.manager.trust_keys(there.manager.guid, await there.manager.export_keys("exchange", "pem"))
            await here.manager.send(info.private_format_name, "known", encrypt=True)
            assert (await queue.receive(timeout=60)).text == "known"
            # The GUID counts for a direct name when a session has shown that it is there.
            clear = await there.manager.create_queue("clear")
            await here.manager.send(direct.replace("orders", "clear"), "hello")
            await clear.receive(timeout=60)
            await here.manager.send(direct, "by address", encrypt=True)
            assert (await queue.receive(timeout=60)).text == "by address"

    asyncio.run(run())


def test_explain_says_that_keys_are_not_known_with_the_command_to_type(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "there", loopback(2), *BITS) as there:
            guid = there.manager.guid
            queue = await there.manager.create_queue("orders", privacy="body")
            name = (await queue.info()).private_format_name
            assert name is not None
            async with running(tmp_path / "here", loopback(1), *BITS, f"routing.routes={guid}={loopback(2)}") as here:
                command = f"`waypost key trust {guid} FILE` here"
                outgoing = here.manager.queue(name)
                await outgoing.send("hello")
                await outgoing.pause()
                sent = await outgoing.send("unknown", encrypt=True, dead_letter=True)
                waiting = await here.manager.explain(sent.id)
                assert f"can be sent only encrypted, but the exchange keys of {guid} are not known" in str(waiting)
                await outgoing.resume()
                dead = await here.manager.queue("system$;deadletter").peek(timeout=60)
                assert dead.id == sent.id
                for subject in (dead.id, name):
                    told = str(await here.manager.explain(subject))
                    assert f"the exchange keys of {guid} are not known" in told
                    assert command in told
                    assert "could not decrypt" not in told
                    assert "certificate" not in told
                await here.manager.trust_keys(guid, await there.manager.export_keys())
                for subject in (dead.id, name):
                    told = str(await here.manager.explain(subject))
                    assert "not known" not in told
                assert "could not encrypt the message" in str(await here.manager.explain(dead.id))
                await here.manager.queue("system$;deadletter").resend(dead)
                message = await queue.receive(timeout=60)
                assert (message.text, message.encrypted) == ("unknown", "aes256")

    asyncio.run(run())


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_guid_that_was_seen_before_the_first_pin_and_a_restart_counts(tmp_path: Path, *, is_torn: bool) -> None:
    async def run() -> None:
        direct = rf"DIRECT=TCP:{loopback(2)}\private$\orders"
        async with running(tmp_path / "there", loopback(2), *BITS) as there:
            queue = await there.manager.create_queue("orders")
            seen = tmp_path / "here" / "keys" / "answered.txt"
            async with running(tmp_path / "here", loopback(1), *BITS) as here:
                await here.manager.send(direct, "hello")
                assert (await queue.receive(timeout=60)).text == "hello"
                await until(lambda: seen.exists() and seen.read_text())
            assert seen.read_text() == f"{loopback(2)} {there.manager.guid}\n"
            if is_torn:
                seen.write_text(f"{seen.read_text()}{loopback(3)} {there.manager.guid[:9]}")
            async with running(tmp_path / "here", loopback(1), *BITS) as here:
                await here.manager.trust_keys(there.manager.guid, await there.manager.export_keys())
                await here.manager.send(direct, "secret", encrypt=True)
                message = await queue.receive(timeout=60)
                assert (message.text, message.encrypted) == ("secret", "aes256")

    asyncio.run(run())


def test_messages_for_a_rotated_key_are_decrypted_within_its_grace(tmp_path: Path) -> None:
    async def run() -> None:
        async with pair(tmp_path) as (here, there, name):
            queue = await there.manager.create_queue("orders", privacy="body")
            await there.manager.rotate_keys("exchange")
            await here.manager.send(name, "old key", encrypt=True)
            message = await queue.receive(timeout=60)
            assert message.text == "old key"
            await there.manager.rotate_keys("exchange", grace=0)
            await here.manager.trust_keys(loopback(2), await there.manager.export_keys())
            await here.manager.send(name, "new key", encrypt=True)
            assert (await queue.receive(timeout=60)).text == "new key"

    asyncio.run(run())


def test_the_certificates_of_a_removed_user_do_not_verify_and_their_keys_are_gone(tmp_path: Path) -> None:
    async def run() -> None:
        async with pair(tmp_path) as (here, there, name):
            (certificate,) = await here.manager.certificates()
            await there.manager.users.add("shop", sid=certificate.sid)
            await there.manager.users.add("other")
            await there.manager.create_certificate("other")
            await there.manager.create_certificate("shop")
            queue = await there.manager.create_queue("orders", transactional=True)
            async with here.manager.transaction() as transaction:
                await here.manager.send(name, "known", sign=True, transaction=transaction)
            assert (await queue.receive(timeout=60)).sender_verified
            assert len(list((tmp_path / "there" / "keys").glob("*.pem"))) == 3
            await there.manager.users.remove("shop")
            assert [each.user for each in await there.manager.certificates()] == ["other"]
            # The exchange key, and the key of the other user.
            assert len(list((tmp_path / "there" / "keys").glob("*.pem"))) == 2
            async with here.manager.transaction() as transaction:
                await here.manager.send(name, "removed", sign=True, dead_letter=True, transaction=transaction)
            dead = await here.manager.queue("system$;deadxact").receive(timeout=60)
            assert (dead.text, dead.class_name) == ("removed", "MQMSG_CLASS_NACK_BAD_SIGNATURE")
            last = (await there.manager.audit())[-1]
            assert (last.what, last.object, last.result) == ("remove user", "shop", "ok")

    asyncio.run(run())


def test_the_public_keys_are_in_the_object_of_the_queue_manager(tmp_path: Path) -> None:
    async def run() -> None:
        rotated = b""
        for _ in range(2):
            async with running(tmp_path / "here", loopback(1), *BITS) as here:
                transport = here.manager._transport
                assert isinstance(transport, AioEmbedded)
                local = transport.driver.node.directory.events.local
                assert rotated in (b"", local.queue_manager.public_signing_key_list.encode())
                await here.manager.rotate_keys()
                exported = [await here.manager.export_keys(kind) for kind in ("exchange", "signing")]
                own = local.queue_manager
                assert own.public_encryption_key_list.encode() == exported[0]
                assert own.public_signing_key_list.encode() == (rotated := exported[1])
                kinds = [(int(each.ul_provider_type), each.s_provider_name) for each in
                         own.public_signing_key_list.a_public_keys]  # fmt: skip
                assert kinds == [(kind, name) for name, kind in second.PROVIDERS.items()]
                assert [kind for kind, _ in kinds] == [1, 1, 24]

    asyncio.run(run())


def test_an_unsigned_sid_counts_with_the_setting(tmp_path: Path) -> None:
    async def run() -> None:
        settings = ("security.trust_unsigned_sender=true",)
        async with running(tmp_path / "here", loopback(1), *BITS, *settings) as here:
            transport = here.manager._transport
            assert isinstance(transport, AioEmbedded)
            header = SecurityHeader(SENDER_SID, ALICE.encode())
            found = transport.driver.node.protection.known_sender(header, b"", AuthenticationLevel.NONE)
            assert found is not None
            assert ALICE in found.sids

    asyncio.run(run())


@pytest.mark.parametrize("protocol", ["RemoteRead", "qm2qm"])
def test_a_remote_reader_sees_that_a_message_is_authenticated_and_was_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    if protocol == "qm2qm":
        without_remote_read(monkeypatch)

    async def run() -> None:
        async with pair(tmp_path) as (here, there, name):
            queue = await there.manager.create_queue("orders", authenticate=True, privacy="body")
            await here.manager.send(name, "secret", sign=True, encrypt=True)
            await queue.peek(timeout=60)
            (certificate,) = await here.manager.certificates()
            async with waypost.aio.msmq(loopback(2), epm_port=None, level="none") as host:
                for read in (host.queue("orders").peek, host.queue("orders").receive):
                    message = await read(timeout=60)
                    assert (message.text, message.authenticated, message.signature) == ("secret", True, "msmq20")
                    assert (message.sender_verified, message.encrypted) == (True, "aes256")
                    assert (message.sender_sid, message.certificate_subject) == (certificate.sid, certificate.subject)

    asyncio.run(run())


@pytest.mark.spec("MQQB-3.1.5.8.3-01")
def test_a_relay_passes_on_what_only_the_destination_can_read(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "there", loopback(2), *BITS) as there:
            guid = there.manager.guid
            routing = (f"routing.routes={guid}={loopback(2)}", "transfer.is_routing_server=true")
            async with running(tmp_path / "relay", loopback(3), *BITS, *routing) as relay:
                routes = f"routing.routes={guid}=via {relay.manager.guid},{relay.manager.guid}={loopback(3)}"
                async with running(tmp_path / "here", loopback(1), *BITS, routes) as here:
                    await introduce(here, there, guid)
                    queue = await there.manager.create_queue("orders", authenticate=True, privacy="body")
                    name = (await queue.info()).private_format_name
                    assert name is not None
                    await here.manager.send(name, "far", sign=True, encrypt=True)
                    message = await queue.receive(timeout=60)
                    assert (message.text, message.signature, message.encrypted) == ("far", "msmq20", "aes256")
                    assert message.sender_verified

    asyncio.run(run())


def test_signed_messages_that_are_sent_together_keep_their_bodies_and_extension(tmp_path: Path) -> None:
    """Also if the first body and the extension are one object in the sender."""
    shared = b"A" * 20
    bodies = [shared, b"B" * 20, b"C", shared]
    with waypost.open(tmp_path / "alone", name="alpha") as manager:
        manager.create_certificate()
        queue = manager.create_queue("orders", authenticate=True)
        queue.send_many(bodies, extension=shared, sign=True)
        received = queue.receive_many(len(bodies))
    assert [message.body for message in received] == bodies
    assert [message.extension for message in received] == [shared] * len(bodies)
    assert all(message.authenticated for message in received)
