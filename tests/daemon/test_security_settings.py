"""The settings of rights and of hardened mode, from the configuration to the queue manager."""

import asyncio
from pathlib import Path

import pytest

from tests.daemon.recording import until
from tests.daemon.running import loopback, running
from waypost.client.transports.embedded import AioEmbedded
from waypost.daemon.loading import ConfigError, load, machine_security
from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT
from waypost.rpc.authentication import AuthLevel
from waypost.wire.sddl import sddl
from waypost.wire.security_descriptor import SecurityDescriptor


@pytest.mark.spec("MQDMPR-3.1.1.1-15")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("D:(A;;0x100;;;BA)", "0x00000100 is not a right"),
        ("D:(A;;0x4;;;BA", "must end with"),
        ("nonsense", "`O:`, `G:`, `D:` or `S:` is expected"),
    ],
)
def test_the_rights_on_the_computer_are_those_of_a_computer(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"security\.machine is not a security descriptor") as refused:
        load(None, {}, {}, [f"security.machine={text}"])
    assert sentence in str(refused.value)


def test_generic_rights_mean_those_of_a_computer() -> None:
    found = SecurityDescriptor.decode(machine_security("D:(A;;GA;;;BA)(A;;GW;;;AU)"))
    assert sddl(found) == "D:(A;;0xf00f7;;;BA)(A;;0x20024;;;AU)"
    assert machine_security("") == b""


def test_the_switches_of_the_product_notes_reach_the_servers(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("CORP:alice:s3cret\n", encoding="utf-8")
    settings = (
        "security.machine=D:(A;;GA;;;BA)",
        "rpc.allow_nonauthenticated=true",
        "rpc.deny_workgroup_clients=true",
        "rpc.allow_none_security_clients=true",
        "rpc.min_auth_level=integrity",
        f"rpc.users_file={users}",
    )

    async def main() -> None:
        async with running(tmp_path / "host", loopback(91), *settings) as daemon:
            transport = daemon.manager._transport
            assert isinstance(transport, AioEmbedded)
            node = transport.driver.node
            assert node.remote is not None
            found = node.remote.settings
            assert found.allows_nonauthenticated_rpc
            assert found.denies_workgroup_client
            assert found.allows_none_security_client
            assert found.min_auth_level is AuthLevel.INTEGRITY
            assert sddl(SecurityDescriptor.decode(node.access.machine_descriptor)) == "D:(A;;0xf00f7;;;BA)"

    asyncio.run(main())


async def listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


@pytest.mark.spec("MQDMPR-3.1.1.1-21")
def test_a_hardened_daemon_answers_no_rpc_and_moves_no_message(tmp_path: Path) -> None:
    hardened, other = loopback(92), loopback(93)
    rpc = [REMOTE_READ_PORT, QM2QM_PORT]

    async def main() -> None:
        async with running(tmp_path / "other", other) as far:
            arrived = await far.manager.create_queue("q")
            async with running(tmp_path / "host", hardened, "security.hardened=true") as near:
                here = await near.manager.create_queue("q")
                assert [await listens(other, port) for port in rpc] == [True, True]
                assert [await listens(hardened, port) for port in rpc] == [False, False]
                assert "rpc" not in near.ready
                await near.manager.send(rf"DIRECT=TCP:{other}\private$\q", "out")
                (waiting,) = await near.manager.outgoing_queues()
                assert (await waiting.info()).state == "locked"
                await far.manager.send(rf"DIRECT=TCP:{hardened}\private$\q", "in")
                await until(lambda: "no messages are accepted now" in near.stream.getvalue())
                assert (await here.info()).message_count == 0
                assert (await arrived.info()).message_count == 0
            # The mode is off by default, and everything that waited arrives.
            async with running(tmp_path / "host", hardened) as near:
                assert [await listens(hardened, port) for port in rpc] == [True, True]
                assert (await arrived.receive(timeout=60)).text == "out"
                assert (await near.manager.queue("q").receive(timeout=60)).text == "in"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("security.hashes=sha512,sha3", "invalid enum value 'sha3'"),
        ("security.hashes=", "length >= 1"),
    ],
)
def test_hashes_are_those_that_a_signature_can_have(setting: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"invalid value of security\.hashes") as refused:
        load(None, {}, {}, [setting])
    assert sentence in str(refused.value)
    assert "use one of sha512, sha256, sha1, md5" in str(refused.value.hint)
