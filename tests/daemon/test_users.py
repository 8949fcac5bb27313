"""Users and a daemon: one import of the users file, NTLM logons from the user store, and a store that is closed."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import waypost
from tests.crash.daemons import Daemon
from tests.daemon.running import loopback
from waypost.errors import AccessDenied, AuthenticationFailed, QueueNotFound, WaypostError
from waypost.store.folder import DATA


def lines(daemon: Daemon) -> list[dict[str, str]]:
    return [json.loads(line) for line in daemon.log.splitlines()]


def test_a_users_file_is_imported_once(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("CORP:alice:s3cret-1\n:bob:s3cret-2\n", encoding="utf-8")
    users.chmod(0o600)
    with Daemon(tmp_path, "alpha", loopback(66), f"rpc.users_file={users}") as daemon:
        daemon.start()
        with daemon.connect() as manager:
            found = manager.users.list()
            assert [(user.name, user.role, user.ntlm) for user in found] == [
                ("bob", "none", True),
                ("CORP\\alice", "none", True),
            ]
            manager.users.remove("bob")
            assert manager.audit()[0].what == "import users"
        assert daemon.stop() == 0
        users.write_text("CORP:alice:s3cret-1\n:carol:s3cret-3\n", encoding="utf-8")
        daemon.start()
        with daemon.connect() as manager:
            assert [user.name for user in manager.users.list()] == ["CORP\\alice"]
        assert daemon.stop() == 0
        events = [line["event"] for line in lines(daemon)]
        assert events.count("users imported") == 1
        assert events.count("users file ignored") == 1
        assert "s3cret" not in daemon.log


def test_a_users_file_may_be_deleted_after_its_import_but_not_before(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("CORP:alice:s3cret-1\n", encoding="utf-8")
    users.chmod(0o600)
    with Daemon(tmp_path, "alpha", loopback(66), f"rpc.users_file={users}") as daemon:
        daemon.start()
        assert daemon.stop() == 0
        users.unlink()
        daemon.start()
        with (
            waypost.msmq(daemon.address, epm_port=None, user=r"CORP\alice", password="s3cret-1") as host,
            pytest.raises(QueueNotFound),
        ):
            host.queue("missing").receive(0)
        assert daemon.stop() == 0
        (warning,) = [line for line in lines(daemon) if line["event"] == "users file missing"]
        assert str(users) in warning["message"]


def test_a_user_of_the_store_logs_on_with_ntlm_and_has_its_own_rights(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(67), "rpc.min_auth_level=privacy") as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.users.add("alice", ntlm=True, password="one")
            manager.users.add("bob", ntlm=True, password="two")
            manager.users.add("carol", password="three")
            orders = manager.create_queue("orders")
            orders.send("for alice")
            orders.set_acl(grant="alice:receive")
        for user, password, error in (
            ("bob", "two", AccessDenied),
            ("alice", "two", AuthenticationFailed),
            ("carol", "three", AuthenticationFailed),
        ):
            with (
                waypost.msmq(daemon.address, epm_port=None, user=user, password=password) as host,
                pytest.raises((AccessDenied, AuthenticationFailed)) as caught,
            ):
                host.queue("orders").receive(0)
            assert isinstance(caught.value, error), caught.value
        with waypost.msmq(daemon.address, epm_port=None, user="alice", password="one") as host:
            assert host.queue("orders").receive(0).text == "for alice"
        assert daemon.stop() == 0


def test_the_first_user_makes_rpc_ask_who_you_are_without_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(69)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            orders = manager.create_queue("orders")
            orders.send("one")
            orders.send("two")
            checks = {check.check: check.message for check in manager.doctor()}
            assert "only programs on this computer that run as the account of the daemon" in checks["rpc"]
        with waypost.msmq(daemon.address, epm_port=None) as own:
            assert own.queue("orders").receive(0).text == "one"
        with daemon.connect() as manager:
            manager.users.add("carol", password="three")
            checks = {check.check: check.message for check in manager.doctor()}
            assert "no user may log on with NTLM" in checks["rpc"]
        for _ in range(2):
            with (
                waypost.msmq(daemon.address, epm_port=None) as own,
                pytest.raises((AccessDenied, AuthenticationFailed)),
            ):
                own.queue("orders").receive(0)
            assert daemon.stop() == 0
            daemon.start()
        with daemon.connect() as manager:
            manager.users.add("alice", ntlm=True, password="one")
            manager.queue("orders").set_acl(grant="alice:receive")
            checks = {check.check: check.message for check in manager.doctor()}
            assert "must authenticate, with the protection level privacy" in checks["rpc"]
        with waypost.msmq(daemon.address, epm_port=None, user="alice", password="one") as host:
            assert host.queue("orders").receive(0).text == "two"
        with daemon.connect() as manager:
            manager.users.remove("alice")
            manager.users.remove("carol")
        with waypost.msmq(daemon.address, epm_port=None) as own, pytest.raises((AccessDenied, AuthenticationFailed)):
            own.queue("orders").receive(0)
        assert daemon.stop() == 0


def test_a_store_with_users_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(68)) as daemon:
        daemon.start()
        path = daemon.folder / DATA
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert daemon.stop() == 0
        path.chmod(0o644)
        daemon.start()
        with daemon.connect() as manager:
            manager.users.add("ada")
        assert daemon.stop() == 0
    ports = (word for name in ("transfer", "ping", "rpc", "qm2qm", "http") for word in (f"--{name}-port", "0"))
    words = ("serve", "--data", str(daemon.folder), "--name", "alpha", "--bind", daemon.address, *ports)
    result = subprocess.run(
        [sys.executable, "-m", "waypost.cli", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert f"{path} contains the users of the queue manager, but has the mode 0644" in result.stderr
    assert f"hint: run chmod 600 {path}" in result.stderr


def test_a_damaged_user_stops_the_start_and_names_the_folder(tmp_path: Path) -> None:
    with waypost.open(tmp_path / "data") as manager:
        manager.users.add("ada-lovelace")
    path = tmp_path / "data" / DATA
    data = path.read_bytes()
    assert data.count(b'"name":"ada-lovelace"') == 1
    path.write_bytes(data.replace(b'"name":"ada-lovelace"', b'"name":"eve-lovelace"'))
    with pytest.raises(WaypostError, match="ada-lovelace") as caught:
        waypost.open(tmp_path / "data").close()
    assert str(tmp_path / "data") in str(caught.value)


def serve(folder: Path) -> subprocess.CompletedProcess[str]:
    """A daemon that does not start."""
    ports = (word for name in ("transfer", "ping", "rpc", "qm2qm", "http") for word in (f"--{name}-port", "0"))
    words = ("serve", "--data", str(folder), "--bind", loopback(70), *ports)
    return cli(*words)


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "waypost.cli", *words], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_salvaged_store_never_starts_as_if_there_were_no_users(tmp_path: Path) -> None:
    old, new = tmp_path / "alpha.old", tmp_path / "alpha"
    with waypost.open(old) as manager:
        lost = manager.users.add("ada-lovelace")
        manager.create_queue("orders").send("kept")
    (old / "keys").mkdir(mode=0o700)
    data = (old / DATA).read_bytes()
    (old / DATA).write_bytes(data.replace(b'"name":"ada-lovelace"', b'"name":"eve-lovelace"'))
    refused = serve(old)
    assert refused.returncode == 65
    assert str(old / DATA) in refused.stderr
    salvaged = cli("store", "salvage", str(old), str(new))
    assert salvaged.returncode == 0, salvaged.stderr
    assert f"cp -a {old / 'keys'} {new}" in salvaged.stderr
    assert f"waypost store forget-users {new}" in salvaged.stderr
    refused = serve(new)
    assert refused.returncode == 1
    assert f"{new / DATA} is the result of a salvage that might have lost users (ada-lovelace)" in refused.stderr
    assert f"hint: to continue without the lost users, run `waypost store forget-users {new}`" in refused.stderr
    assert waypost.verify(new).is_whole
    forgotten = cli("store", "forget-users", str(new), "--json")
    assert json.loads(forgotten.stdout) == {"forgotten": ["ada-lovelace"]}
    assert cli("store", "forget-users", str(new)).returncode == 1
    with Daemon(tmp_path, "alpha", loopback(70)) as daemon:
        assert daemon.folder == new
        daemon.start()
        with daemon.connect() as manager:
            assert manager.users.list() == []
            assert manager.queue("orders").receive(0).text == "kept"
            assert manager.users.add("bob").sid != lost.sid
        assert daemon.stop() == 0


def test_a_salvage_that_lost_no_user_starts_at_once(tmp_path: Path) -> None:
    old, new = tmp_path / "alpha.old", tmp_path / "alpha"
    with waypost.open(old) as manager:
        manager.users.add("ada", groups=["sales"])
    assert not waypost.salvage(old, new).has_lost_users
    with Daemon(tmp_path, "alpha", loopback(71)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            assert [user.name for user in manager.users.list()] == ["ada"]
        assert daemon.stop() == 0


def test_users_are_in_a_backup(tmp_path: Path) -> None:
    with waypost.open(tmp_path / "data") as manager:
        added = manager.users.add("ada", role="read", groups=["sales"])
        token = manager.users.token("ada")
        manager.backup(tmp_path / "backup")
    waypost.restore(tmp_path / "backup", tmp_path / "restored", same_identity=True)
    with waypost.open(tmp_path / "restored") as manager:
        (found,) = manager.users.list()
        assert (found.sid, found.groups) == (added.sid, ("sales",))
        assert [each.id for each in found.tokens] == [token.id]
        assert [entry.what for entry in manager.audit()] == ["add user", "create token"]
