"""Settings of RPC with which nobody could log on, or whose effect would surprise, are told at the start."""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.daemon.recording import loops, run
from tests.daemon.running import loopback, running
from waypost.cli import app
from waypost.daemon.config import Rpc
from waypost.daemon.loading import ConfigError, load
from waypost.daemon.rpc import RpcSockets, stepped
from waypost.daemon.rpc_acceptors import has_kerberos_key
from waypost.http.doctor import examine
from waypost.http.remote_queues import anonymous
from waypost.http.service import Service
from waypost.http.settings import HttpSettings, RpcAccess

EXTRA = ("gssapi", "krb5")


@pytest.fixture
def with_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EXTRA:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))


@pytest.fixture
def sockets() -> Iterator[RpcSockets]:
    """On ports that are free."""
    with ExitStack() as stack:
        yield RpcSockets(*([stack.enter_context(socket.create_server(("127.0.0.1", 0)))] for _ in range(2)))


def complaint(*settings: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(None, {}, {}, settings)
    return caught.value


@pytest.mark.parametrize("missing", EXTRA)
@pytest.mark.usefixtures("with_extra")
def test_kerberos_without_its_extra_is_refused(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(None, {}, {}, ["rpc.kerberos=true", "rpc.min_auth_level=privacy"]).rpc.kerberos
    monkeypatch.setitem(sys.modules, missing, None)
    error = complaint("rpc.kerberos=true")
    assert error.sentence == "rpc.kerberos is true, but the extra kerberos is not installed."
    assert error.hint == "run pip install 'waypost[kerberos]'."
    assert not load(None, {}, {}, ["rpc.kerberos=true", "rpc.enabled=false"]).rpc.enabled


@pytest.mark.parametrize("level", ["", "none"])
def test_without_a_level_nobody_has_to_log_on(level: str) -> None:
    assert load(None, {}, {}, [f"rpc.min_auth_level={level}"]).rpc.min_auth_level == level


def test_a_wrong_level_is_told_the_right_ones() -> None:
    error = complaint("rpc.min_auth_level=Privacy")
    assert error.hint.startswith("use one of none, connect, integrity, privacy; the default is ''")
    assert complaint("log.level=loud").hint.startswith("use one of debug, info, warning, error; ")
    assert complaint("transfer.port=many").hint.startswith("the default is 1801")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "Cannot read the users file {}: No such file or directory."),
        ("# nobody\nalice", "Line 2 of the users file {} is not DOMAIN:user:password."),
    ],
)
def test_a_wrong_users_file_is_refused_with_a_hint_at_its_key(
    text: str | None, sentence: str, tmp_path: Path
) -> None:  # fmt: skip
    users = tmp_path / "users"
    if text is not None:
        users.write_text(text, encoding="utf-8")
    ports = [f"--{name}-port=0" for name in ("transfer", "ping", "rpc", "qm2qm", "http")]
    arguments = ["--data", str(tmp_path / "data"), "--bind", loopback(61), *ports, "--set", f"rpc.users_file={users}"]
    result = CliRunner(env={"WAYPOST_CONFIG": ""}).invoke(app, ["serve", *arguments])
    assert result.exit_code == 1
    assert result.stderr == f"{sentence.format(users)}\nhint: check rpc.users_file.\n"


def test_a_port_that_gave_way_to_another_is_told(sockets: RpcSockets) -> None:
    rpc, qm2qm = (each for each, _ in sockets.by_port)
    assert list(stepped(Rpc(port=rpc, qm2qm_port=0), sockets)) == []
    assert list(stepped(Rpc(enabled=False), RpcSockets())) == []
    assert list(stepped(Rpc(port=1, qm2qm_port=2), sockets)) == [
        f"TCP port 1 is in use; remote readers are served on port {rpc} instead (rpc.port).",
        f"TCP port 2 is in use; remote readers are served on port {qm2qm} instead (rpc.qm2qm_port).",
    ]


@pytest.mark.usefixtures("with_extra")
def test_doctor_misses_the_key_for_kerberos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_KTNAME", str(tmp_path / "no.keytab"))
    checks: dict[str, Any] = {}

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(62), "rpc.kerberos=true") as found:
            access = RpcAccess(is_default=False, kerberos=True, has_kerberos_key=has_kerberos_key)
            service = Service(found.manager, HttpSettings(rpc=access), anonymous)
            checks.update({each.check: each for each in await examine(service)})

    run(loops()[-1], work)
    assert "users file" not in checks
    assert not checks["rpc"].ok
    assert "neither users nor a Kerberos key" in checks["rpc"].message
    assert not checks["kerberos"].ok
    assert "KRB5_KTNAME" in checks["kerberos"].hint
