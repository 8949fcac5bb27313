"""Remote readers in metrics, status and doctor, on a daemon in a separate process."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.crash.daemons import Daemon, loopback
from tests.crash.remote_reader import QM2QM_PORT, RPC_PORT, RemoteReader
from waypost.rpc.statistics import RpcStatistics

ROOT = Path(__file__).parents[2]

Numbers = dict[tuple[str, ...], float]

# Its mode and text, and whether it can be left so.


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("alpha"), "alpha", loopback(47)) as daemon:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0


def get(daemon: Daemon, path: str) -> str:
    return daemon.get(path)


def numbers(daemon: Daemon) -> Numbers:
    """Those of RPC, by their names and labels."""
    families = text_string_to_metric_families(get(daemon, "/metrics"))
    samples = [each for family in families for each in family.samples if each.name.startswith("waypost_rpc_")]
    return {(each.name, *each.labels.values()): each.value for each in samples}


def checks(daemon: Daemon) -> dict[str, Any]:
    return {each["check"]: each for each in json.loads(get(daemon, "/api/doctor"))["checks"]}


def test_metrics_and_status_tell_of_readers(daemon: Daemon) -> None:
    with daemon.connect() as manager, RemoteReader(daemon.address) as reader:
        manager.create_queue("orders").send(b"hello")
        assert reader.receive(reader.open(daemon.direct("orders"))) == b"hello"
        found = numbers(daemon)
        assert found["waypost_rpc_connections",] == 1
        assert found["waypost_rpc_messages_given_out_total",] == 1
        assert found["waypost_rpc_messages_locked",] == found["waypost_rpc_open_calls",] == 0
        assert found["waypost_rpc_calls_total", "RemoteRead", "R_StartReceive", "ok"] == 1
        assert found["waypost_rpc_calls_total", "RemoteRead", "R_EndReceive", "ok"] == 1
        status = json.loads(get(daemon, "/api/status"))
        assert (status["rpc_connections"], status["rpc_open_calls"]) == (1, 0)
        assert {"rpc", "qm2qm"} <= {each["name"] for each in status["listeners"]}


def test_every_number_is_documented(daemon: Daemon) -> None:
    document = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    names = {name.removesuffix("_total") for name, *_ in numbers(daemon)}
    names |= {f"waypost_rpc_{each}" for each in RpcStatistics.__slots__}
    assert [name for name in sorted(names) if f"`{name}`" not in document] == []


def test_doctor_says_that_only_this_computer_may_read(daemon: Daemon) -> None:
    found = checks(daemon)
    assert found["rpc"]["ok"]
    assert (
        "only programs on this computer that run as the account of the daemon or as root may read"
        in found["rpc"]["message"]
    )
    assert found["users"]["message"].startswith("single-user mode")
    for name in ("port rpc", "port qm2qm"):
        assert found[name]["ok"]


def test_doctor_looks_at_the_users_file(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("CORP:alice:secret\n", encoding="utf-8")
    users.chmod(0o600)
    with Daemon(tmp_path, "alpha", loopback(48), f"rpc.users_file={users}") as daemon:
        daemon.start()
        found = checks(daemon)
        assert "privacy" in found["rpc"]["message"]
        assert found["users"]["message"] == "1 user: 0 with the role admin, 1 may log on with NTLM"
        assert found["users file"]["ok"]
        users.chmod(0o644)
        found = checks(daemon)
        assert (found["users file"]["ok"], found["users file"]["hint"]) == (False, f"chmod o-rwx {users}")
        users.unlink()
        assert checks(daemon)["users file"]["ok"]
        assert "secret" not in json.dumps(found)
        assert daemon.stop() == 0


def test_doctor_says_that_nobody_can_log_on(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(48), "rpc.min_auth_level=privacy") as daemon:
        daemon.start()
        found = checks(daemon)
        assert not found["rpc"]["ok"]
        assert "must authenticate, but RPC has neither users nor a Kerberos key" in found["rpc"]["message"]
        assert found["users"]["message"].startswith("single-user mode")
        with daemon.connect() as manager:
            manager.users.add("alice", ntlm=True, password="secret")
        assert checks(daemon)["rpc"]["ok"]
        assert daemon.stop() == 0


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_the_log_warns_of_passwords_that_everybody_can_read(tmp_path: Path, mode: int) -> None:
    users = tmp_path / "users"
    users.write_text("CORP:alice:secret\n", encoding="utf-8")
    users.chmod(mode)
    with Daemon(tmp_path, "alpha", loopback(48), f"rpc.users_file={users}") as daemon:
        daemon.start()
        assert daemon.stop() == 0
        lines = [json.loads(line) for line in daemon.log.splitlines()]
    warnings = [(line["event"], line["hint"]) for line in lines if line["level"] == "warning"]
    assert warnings == ([("users file", f"chmod o-rwx {users}")] if mode & 0o007 else [])
    assert "secret" not in daemon.log


def test_doctor_tells_of_a_port_that_was_taken(tmp_path: Path) -> None:
    address = loopback(48)
    with socket.create_server((address, RPC_PORT)), Daemon(tmp_path, "alpha", address) as daemon:
        daemon.start()
        found = checks(daemon)
        assert found["port rpc"]["message"] == f"{address}:2114 answers (2103 was in use)"
        assert found["port qm2qm"]["message"] == f"{address}:{QM2QM_PORT} answers"
        assert daemon.stop() == 0


def test_doctor_says_that_everybody_may_read(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(48), "rpc.min_auth_level=none") as daemon:
        daemon.start()
        assert "without authentication" in checks(daemon)["rpc"]["message"]
        assert daemon.stop() == 0
