"""The message of `waypost serve` when it is ready, and the commands that it proposes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.cli.daemons import ANY_PORTS, shell
from waypost.cli.ready import program_name, ready_text
from waypost.daemon.config import Http

FACTS = {"event": "ready", "name": "SHOP", "transfer": "127.0.0.1:1801", "http": "127.0.0.1:8181"}
PROGRAM = str(Path(sys.executable).with_name("waypost"))


@contextmanager
def started(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [PROGRAM, "serve", "--data", str(folder), "--bind", "127.0.0.1", *ANY_PORTS, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # A daemon with another message ends, so that the test fails instead of reading without end.
        bound = Timer(120, process.kill)
        bound.start()
        try:
            yield process
        finally:
            bound.cancel()
            process.kill()


def paragraph(process: "subprocess.Popen[str]") -> list[str]:
    """The hints, up to their last line."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        if lines or line.startswith("Queue manager "):
            lines.append(line.rstrip("\n"))
        if line.startswith("Press Ctrl-C"):
            break
    return lines


def test_the_commands_that_it_proposes_work_as_typed(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--hints", "--name", "SHOP") as process:
        lines = paragraph(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith('{"event":"ready","name":"SHOP",')
        assert lines[0] == "Queue manager SHOP is ready."
        # A pipe may end in a log: it gets no code.
        assert not any("code=" in line for line in lines)
        address = re.search(r"Run `.* --url (http://127\.0\.0\.1:\d+) open` to get a link", lines[1])
        assert address is not None
        first, second = (line.strip() for line in lines if line.startswith("  "))
        assert address[1] in first
        assert second == f"{program_name(PROGRAM)} demo"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYPOST_")}
        for _ in range(2):
            done = shell(first, environment, tmp_path)
            assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "42 bolts"), done.stderr
        page = shell(
            f"{sys.executable} -c 'import urllib.request as r; r.urlopen(\"{address[1]}\")'", environment, tmp_path
        )
        assert page.returncode == 0, page.stderr


def test_a_pipe_gets_one_line_of_json(tmp_path: Path) -> None:
    with started(tmp_path / "data") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith('{"event":"ready","name":')


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_a_terminal_gets_the_text_with_a_link_that_works_once(tmp_path: Path) -> None:
    terminal, end = os.openpty()
    command = [PROGRAM, "serve", "--data", str(tmp_path), "--bind", "127.0.0.1", *ANY_PORTS]
    with (
        subprocess.Popen(command, stdout=end, stderr=end) as process,
        os.fdopen(terminal, "rb") as stream,
    ):
        try:
            assert any(line.startswith(b"Queue manager ") and b" is ready." in line for line in stream)
            link = next(line for line in stream if b"/open?code=" in line).strip().decode()
            with urlopen(link, timeout=60) as page:
                assert page.headers["set-cookie"].startswith("waypost_")
            with pytest.raises(HTTPError) as used:
                urlopen(link, timeout=60)
            used.value.close()
            assert used.value.code == 403
        finally:
            process.kill()
            os.close(end)


def test_the_standard_address_needs_no_option() -> None:
    text = ready_text(FACTS, Http(), "waypost")
    assert "Run `waypost open` to get a link to the status page, and try in another terminal:" in text
    assert "  waypost queue create orders; waypost send orders --body '42 bolts'; waypost receive orders\n" in text
    assert "--url" not in text


def test_a_terminal_gets_a_link_with_a_code() -> None:
    text = ready_text(FACTS, Http(), "waypost", "/open?code=abc")
    assert "\n  http://127.0.0.1:8181/open?code=abc\n" in text


def test_without_a_token_the_address_is_the_link() -> None:
    assert "Open http://127.0.0.1:8181 in a browser, and try" in ready_text(FACTS, Http(access="open"), "waypost")


def test_a_program_in_a_folder_is_tried_in_that_folder() -> None:
    assert "try in another terminal, in this folder:" in ready_text(FACTS, Http(), ".venv/bin/waypost")
    assert "try in another terminal:" in ready_text(FACTS, Http(), "/opt/waypost/bin/waypost")


@pytest.mark.parametrize(
    ("endpoint", "http", "url"),
    [
        ("0.0.0.0:8181", Http(token="secret", tls_cert="cert.pem"), "https://127.0.0.1:8181"),
        ("[::]:80", Http(token="secret", allow_insecure=True), "http://[::1]:80"),
        ("192.0.2.10:8181", Http(token="secret", tls_cert="cert.pem"), "https://192.0.2.10:8181"),
    ],
)
def test_the_address_is_one_that_can_be_opened_and_the_token_is_not_shown(endpoint: str, http: Http, url: str) -> None:
    text = ready_text(FACTS | {"http": endpoint}, http, "waypost")
    # Programs find the token only where they connect to a loopback address.
    token = ", with the token in WAYPOST_TOKEN" if "192.0.2.10" in url else ""
    assert (
        f"Run `waypost --url {url} open` to get a link to the status page, and try in another terminal{token}:" in text
    )
    assert f"waypost --url {url} queue create orders;" in text
    assert "secret" not in text


def test_without_http_nothing_is_proposed() -> None:
    facts = {name: value for name, value in FACTS.items() if name != "http"}
    assert ready_text(facts, Http(enabled=False), "waypost").splitlines() == [
        "Queue manager SHOP is ready.",
        "It accepts messages on 127.0.0.1:1801. The HTTP API is disabled. Press Ctrl-C to stop.",
    ]


def test_the_program_is_named_so_that_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "my programs/waypost"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_name(str(program)) == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert program_name(str(program)) == "waypost"
    assert program_name(str(tmp_path / "__main__.py")) == f"{sys.executable} -m waypost.cli"
