"""What packaging/ holds goes with the program."""

import re
import socket
from configparser import RawConfigParser
from pathlib import Path

import pytest

from waypost.daemon import systemd
from waypost.daemon.config import keys
from waypost.daemon.loading import load

PACKAGING = Path(__file__).parents[2] / "packaging"


def test_the_example_configuration_is_right() -> None:
    config = load(PACKAGING / "waypost.toml", {}, {}, [])
    assert config.quotas.machine_kb == 8388608


def test_every_line_that_the_example_leaves_out_is_right_too(tmp_path: Path) -> None:
    text = re.sub(r"^# (?=\w+ = )", "", (PACKAGING / "waypost.toml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    (tmp_path / "token").write_text("secret", encoding="utf-8")
    (tmp_path / "waypost.toml").write_text(text.replace("/etc/waypost/token", f"{tmp_path}/token"), encoding="utf-8")
    config = load(tmp_path / "waypost.toml", {}, {}, [])
    assert config.names.aliases == ("orders-cluster",)
    assert config.http.token == "secret"


def test_the_unit_waits_for_the_word_that_it_is_ready() -> None:
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(PACKAGING / "waypost.service", encoding="utf-8")
    assert unit["Service"]["Type"] == "notify"
    assert "waypost serve --data %S/waypost " in unit["Service"]["ExecStart"]
    assert unit["Service"]["StateDirectory"] == "waypost"
    assert {"AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX"} == set(unit["Service"]["RestrictAddressFamilies"].split())


def test_the_variables_of_the_image_are_keys() -> None:
    text = (PACKAGING / "Dockerfile").read_text(encoding="utf-8")
    found = set(re.findall(r"WAYPOST_[A-Z_]+", text))
    # The token that the command line shows is not a key of the daemon.
    assert found - {"WAYPOST_TOKEN"} <= {key.variable for key in keys()}
    assert "WAYPOST_STORE_PATH" in found


@pytest.mark.parametrize("name", ["\0waypost-test", "socket"])
def test_systemd_hears_that_the_service_is_ready(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = name if name.startswith("\0") else str(tmp_path / name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
        systemd.notify("READY=1")
        assert manager.recv(100) == b"READY=1"


def test_nobody_need_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    systemd.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/socket")
    systemd.notify("READY=1")
