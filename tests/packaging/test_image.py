"""The Dockerfile, the commands in its head and the systemd unit work as typed. Nothing is downloaded."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from configparser import RawConfigParser
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from tests.packaging.docker import end_all
from tests.packaging.image import (
    DOCKERFILE,
    ROOT,
    Image,
    build,
    examples,
    has_namespaces,
    ignore_patterns,
    is_ignored,
    offline,
    rooted,
    try_examples,
)

UNIT = ROOT / "packaging/waypost.service"

needs_namespaces = pytest.mark.skipif(not has_namespaces(), reason="no process can have a network to itself here")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    if find_spec("ensurepip") is None:
        pytest.skip("this Python cannot make virtual environments")
    place = tmp_path_factory.mktemp("image")
    environment = offline(place / "libraries")
    root = place / "root"
    root.mkdir()
    return build(root, environment, {"PYTHONPATH": environment["PYTHONPATH"]})


def test_the_image_has_the_package_and_not_its_source(image: Image) -> None:
    root = Path(image.root)
    assert not (root / "source").exists()
    assert (root / "var/lib/waypost").stat().st_mode & 0o777 == 0o700
    (package,) = root.glob("opt/waypost/lib/python*/site-packages/waypost")
    modules = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    source = ROOT / "src/waypost"
    assert modules == {str(path.relative_to(source)) for path in source.rglob("*.py")}
    assert (package / "py.typed").exists()
    installed = {path.name for path in package.parent.iterdir()}
    assert {"pyspark_msmq", "waypost"} <= installed
    assert installed.isdisjoint({"tests", "tools", "bench", "examples"})


@needs_namespaces
def test_the_commands_in_the_head_of_the_dockerfile_work_as_typed(image: Image, tmp_path: Path) -> None:
    received = []
    try:
        for command, done in try_examples(image, tmp_path):
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            if " receive " in command:
                received.append(done.stdout.splitlines()[0])
            if command.endswith(" status"):
                assert "orders" in done.stdout
    finally:
        end_all(image)
    assert received == ["42 bolts", "43 bolts"]


def test_the_head_of_the_dockerfile_begins_with_the_build_and_a_run() -> None:
    build_it, run_it, *others = examples(DOCKERFILE.read_text(encoding="utf-8"))
    assert build_it == "docker build -f packaging/Dockerfile -t waypost ."
    assert run_it.startswith("docker run ")
    assert not any("..." in command for command in others)


def test_the_context_of_the_image_is_the_package_and_what_builds_it() -> None:
    top = {path.name for path in ROOT.iterdir() if not is_ignored(Path(path.name), ignore_patterns())}
    assert top == {"LICENSE", "README.md", "pyproject.toml", "src"}


def test_the_last_pattern_that_matches_counts() -> None:
    paths = ["Makefile", "src/a.py", "src/__pycache__/a.pyc", ".venv/bin/python", "README.md"]
    patterns = ["*", "!README.md", "!src", "**/__pycache__"]
    assert [path for path in paths if not is_ignored(Path(path), patterns)] == ["src/a.py", "README.md"]


def unit() -> RawConfigParser:
    found = RawConfigParser(strict=False)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read(UNIT, encoding="utf-8")
    return found


def installed_unit(image: Image) -> str:
    """ExecStart as systemd expands it, for the folder that stands for the root."""
    (Path(image.root) / "etc/waypost").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "packaging/waypost.toml", Path(image.root) / "etc/waypost")
    return rooted(unit()["Service"]["ExecStart"].replace("%S", "/var/lib"), Path(image.root))


@needs_namespaces
def test_the_command_of_the_unit_starts_says_so_to_systemd_and_stops(image: Image, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        command = [
            "unshare",
            "--map-root-user",
            "--net",
            "--uts",
            sys.executable,
            "-m",
            "tests.packaging.docker",
            "init",
        ]
        environment = {**image.environment, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        with subprocess.Popen(
            [*command, "unithost", *installed_unit(image).split()],
            cwd=ROOT,
            env={**os.environ, "CONTAINER": msgspec.json.encode(environment).decode()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                heard = b""
                while b"READY=1" not in heard:
                    heard = manager.recv(1000)
                process.send_signal(signal.SIGTERM)
                out, log = process.communicate(timeout=60)
            finally:
                process.kill()
    assert process.returncode == 0, log
    assert '"name":"unithost"' in out


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(image: Image, tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    changed = re.sub(r"^ExecStart=.*$", f"ExecStart={installed_unit(image)}", text, flags=re.MULTILINE)
    (tmp_path / "waypost.service").write_text(changed, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "waypost.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    # Other units of the computer are not ours.
    assert [line for line in done.stderr.splitlines() if "waypost.service" in line] == []
    assert done.returncode == 0, done.stderr
