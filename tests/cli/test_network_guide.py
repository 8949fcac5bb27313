"""The commands of docs/security.md that open the HTTP API to a network, in their order, on a loopback address."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.daemons import daemon, shell

GUIDE = Path(__file__).parents[2] / "docs" / "security.md"


def commands() -> list[str]:
    section = GUIDE.read_text(encoding="utf-8").split("## Open the HTTP API to a network", 1)[1]
    block = section.split("```console\n", 1)[1].split("```", 1)[0]
    return re.findall(r"^\$ (.*)$", block, re.MULTILINE)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_commands_that_open_the_http_api_work_in_the_given_order(tmp_path: Path) -> None:
    found = commands()
    (at,) = [place for place, line in enumerate(found) if line.startswith("waypost serve ")]
    for line in found[:at]:
        assert shell(line, {"PATH": "/usr/bin:/bin"}, tmp_path).returncode == 0, line
    words = shlex.split(found[at])
    settings = [word for word in words if "=" in word and not word.startswith("http.bind=")]
    assert "http.bind=0.0.0.0" in words
    options = [f"--set={key}={tmp_path / value}" for key, value in (each.split("=") for each in settings)]
    with daemon(tmp_path / "data", *options) as environment:
        for line in found[at + 1 :]:
            result = shell(line, environment, tmp_path)
            assert result.returncode == 0, f"{line}: {result.stderr}"
    assert [line.split()[1] for line in found[at:]] == ["serve", "user", "user", "doctor"]
