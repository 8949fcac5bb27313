"""`waypost serve` as a separate process."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from typer.testing import CliRunner, Result

import waypost
from tests.cli.daemons import ANY_PORTS
from tests.daemon.running import loopback
from waypost.cli import app

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("WAYPOST_")}
WITHOUT_HTTP = ("--set", "http.enabled=false")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from waypost.cli import main; main()", "serve", *arguments]


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """A daemon that has said that it is ready. It is gone afterwards."""
    with subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT | variables,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                _, talk = process.communicate(timeout=60)
                pytest.fail(talk)
            yield process, json.loads(line)
        finally:
            process.kill()


def stopped(process: "subprocess.Popen[str]", number: int) -> tuple[int, str, list[dict[str, Any]]]:
    """The exit code, what else stood on stdout, and the log."""
    process.send_signal(number)
    rest, talk = process.communicate(timeout=60)
    return process.returncode, rest, [json.loads(line) for line in talk.splitlines()]


def refused(*arguments: str) -> Result:
    return CliRunner(env={"WAYPOST_CONFIG": ""}).invoke(app, ["serve", *arguments])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_tells_in_one_line_where_it_is_and_a_signal_ends_it_with_0(number: int, tmp_path: Path) -> None:
    here = loopback(4)
    arguments = ("--bind", here, "--data", str(tmp_path / "data"), "--name", "ALPHA", *WITHOUT_HTTP)
    with serving(*arguments) as (process, ready):
        assert list(ready) == ["event", "name", "guid", "transfer", "rpc", "qm2qm"]
        assert (ready["event"], ready["name"], ready["transfer"]) == ("ready", "ALPHA", f"{here}:1801")
        code, rest, log = stopped(process, number)
        assert (code, rest) == (0, "")
        assert (
            log[0]["message"] == f"Queue manager ALPHA accepts messages on {here}:1801, remote readers on {here}:2103."
        )
        assert [line["event"] for line in log] == ["ready", "stopping", "stopped"]
    with waypost.open(tmp_path / "data", name="ALPHA") as manager:
        assert manager.guid == ready["guid"]


def test_the_whole_of_it_with_free_ports_serves_http_and_keeps_its_identity(tmp_path: Path) -> None:
    arguments = ("--bind", loopback(4), "--data", str(tmp_path), "--transfer-port", "0", "--http-port", "0")
    with serving(*arguments) as (process, first):
        assert list(first) == ["event", "name", "guid", "transfer", "rpc", "qm2qm", "http", "socket"]
        assert int(first["transfer"].rpartition(":")[2]) > 0
        with waypost.connect(f"http://{first['http']}") as manager:
            manager.create_queue("orders").send("42 bolts")
        assert stopped(process, signal.SIGTERM)[0] == 0
    with serving(*arguments) as (process, second):
        assert second["guid"] == first["guid"]
        with waypost.connect(f"http://{second['http']}") as manager:
            assert manager.queue("orders").receive(timeout=60).text == "42 bolts"
        assert stopped(process, signal.SIGTERM)[0] == 0


def test_without_an_address_it_listens_on_all_and_http_on_loopback(tmp_path: Path) -> None:
    # On any address of this computer others may listen at the usual ports.
    with serving("--data", str(tmp_path), *ANY_PORTS) as (process, ready):
        assert ready["transfer"].startswith("0.0.0.0:")
        assert ready["http"].startswith("127.0.0.1:")
        assert stopped(process, signal.SIGTERM)[0] == 0


def test_file_environment_and_flags_are_read(tmp_path: Path) -> None:
    file = tmp_path / "waypost.toml"
    file.write_text(f'[transfer]\nbind = "{loopback(4)}"\nport = 0\n[names]\ncomputer = "FILE"\n', encoding="utf-8")
    variables = {"WAYPOST_CONFIG": str(file), "WAYPOST_NAMES_COMPUTER": "VARIABLE", "WAYPOST_HTTP_ENABLED": "false"}
    with serving("--data", str(tmp_path / "data"), **variables) as (process, ready):
        assert ready["name"] == "VARIABLE"
        assert ready["transfer"].startswith(f"{loopback(4)}:")
        assert stopped(process, signal.SIGTERM)[0] == 0


def test_the_log_may_be_text(tmp_path: Path) -> None:
    arguments = ("--bind", loopback(4), "--data", str(tmp_path), "--transfer-port", "0", *WITHOUT_HTTP)
    with serving(*arguments, "--set", "log.format=text") as (process, _):
        process.terminate()
        _, talk = process.communicate(timeout=60)
        assert " info    ready Queue manager " in talk.splitlines()[0]


def test_it_serves_though_nobody_reads_what_it_says(tmp_path: Path) -> None:
    here = loopback(5)
    arguments = ("--bind", here, "--data", str(tmp_path), *WITHOUT_HTTP)
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(command(*arguments), stdout=writing, stderr=writing, cwd=ROOT, env=ENVIRONMENT) as process:
        os.close(writing)
        try:
            for _ in range(200):
                try:
                    socket.create_connection((here, 1801), timeout=60).close()
                    break
                except ConnectionRefusedError:
                    signal.sigtimedwait([], 0.05)
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_folder_that_is_in_use_is_refused_with_a_sentence_and_a_hint(tmp_path: Path) -> None:
    with waypost.open(tmp_path / "data"):
        result = refused("--data", str(tmp_path / "data"), "--bind", loopback(4), *WITHOUT_HTTP)
    assert result.exit_code == 1
    assert "in use by process" in result.stderr
    assert "hint: stop that process, or specify another folder with --data." in result.stderr


def test_a_key_folder_that_is_not_usable_is_refused_with_the_command_or_the_setting(tmp_path: Path) -> None:
    data, passphrase = tmp_path / "data", tmp_path / "passphrase"
    with waypost.open(data) as manager:
        digest = manager.keys().exchange[0].digest
    words = ("--data", str(data), "--bind", loopback(4), *WITHOUT_HTTP)
    folder, file = data / "keys", data / "keys" / f"{digest}.pem"
    folder.chmod(0o755)
    result = refused(*words)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, f"hint: run: chmod 700 {folder}.")
    assert f"other accounts can read {folder}.\n" in result.stderr
    folder.chmod(0o700)
    key = load_pem_private_key(file.read_bytes(), None)
    sealed = BestAvailableEncryption(b"secret")
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
    passphrase.write_text("wrong\n")
    passphrase.chmod(0o600)
    result = refused(*words, "--set", f"security.key_passphrase_file={passphrase}")
    assert (result.exit_code, "the password is wrong" in result.stderr) == (1, True)
    assert "hint: set security.key_passphrase_file to the file with the right passphrase" in result.stderr


def test_a_port_that_is_taken_is_refused_with_a_sentence_and_a_hint(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((loopback(4), 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = refused("--data", str(tmp_path), "--bind", loopback(4), "--transfer-port", str(port), *WITHOUT_HTTP)
    assert result.exit_code == 1
    assert result.stderr == (
        f"TCP port {port} of {loopback(4)} is in use by another program.\n"
        "hint: choose another --bind or port. Port 0 means any free port.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (
            ["--set", "transfer.windowsize=5"],
            "unknown key transfer.windowsize.",
            "did you mean transfer.window_size?",
        ),
        (
            ["--bind", "localhost"],
            "transfer.bind is localhost, which is not an IP address.",
            "use an address such as 127.0.0.1 or ::1.",
        ),
        (["--config", "/nowhere.toml"], "Cannot read /nowhere.toml: No such file or directory.", "--config"),
        (["--transfer-port", "99999"], "--transfer-port: invalid value of transfer.port", "the default is 1801"),
        (
            ["--set", "http.bind=0.0.0.0", "--set", "http.access=open"],
            "and therefore requires a token.",
            "set http.token",
        ),
        (
            ["--name", "a b\\c", "--data", "/nowhere"],
            "names.computer is a b\\c, which is not a computer name",
            "--name",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_with_a_sentence_and_a_hint(
    arguments: list[str], sentence: str, hint: str
) -> None:
    result = refused(*arguments)
    assert result.exit_code == 1
    said, hinted = result.stderr.splitlines()
    assert sentence in said
    assert hinted.startswith("hint: ")
    assert hint in hinted


def test_wrong_usage_ends_with_2() -> None:
    assert refused("--transfer-port", "many").exit_code == 2


def test_the_flags_of_rpc_choose_ports_and_the_endpoint_mapper(tmp_path: Path) -> None:
    text = " ".join(CliRunner().invoke(app, ["serve", "--help"], terminal_width=200).stdout.split())
    assert "Run an RPC endpoint mapper on port 135." in text
    arguments = ("--bind", loopback(4), "--data", str(tmp_path), "--transfer-port", "0", *WITHOUT_HTTP)
    rpc = ("--rpc-port", "0", "--qm2qm-port", "0", "--epm", "--set", "rpc.epm_port=0")
    with serving(*arguments, *rpc) as (process, ready):
        ports = {int(ready[name].rpartition(":")[2]) for name in ("rpc", "qm2qm", "epm")}
        assert len(ports) == 3
        assert not ports & {0, 135, 2103, 2105}
        assert stopped(process, signal.SIGTERM)[0] == 0
    with serving(*arguments, "--set", "rpc.enabled=false") as (process, ready):
        assert "rpc" not in ready
        assert stopped(process, signal.SIGTERM)[0] == 0
