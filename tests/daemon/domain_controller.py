"""A domain controller of Samba on this computer, reduced to its KDC: real tickets with real PACs.

It listens at one address of loopback, at a port that needs no privilege. Only root can set up its folder.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.crash.daemons import SECONDS, patience

REALM: Final = "WAYPOST.TEST"
KDC_PORT: Final = 8888
PASSWORD: Final = "Passw0rd!1"

CONFIGURATION: Final = """
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 {realm} = {{
  kdc = {address}:{port}
 }}
"""


@dataclass
class Domain:
    """A new domain in a folder."""

    folder: Path
    address: str

    def create(self) -> None:
        run(
            *("samba-tool", "domain", "provision", f"--targetdir={self.folder}", f"--realm={REALM}"),
            *("--domain=WAYPOST", "--server-role=dc", "--dns-backend=NONE", f"--adminpass={PASSWORD}"),
            *("--host-name=dc1", f"--host-ip={self.address}", f"--option=interfaces={self.address}/8"),
            *("--option=bind interfaces only=yes", "--option=server services=kdc", f"--option=krb5 port={KDC_PORT}"),
            *("--option=kpasswd port=8464", f"--option=pid directory={self.folder}/run"),
            *(f"--option=ncalrpc dir={self.folder}/run/ncalrpc", f"--option=log file={self.folder}/log"),
        )
        (self.folder / "run").mkdir(exist_ok=True)

    def change(self, *words: str) -> str:
        """`samba-tool WORDS` on the database of the domain; the output."""
        return run("samba-tool", *words, "-H", f"{self.folder}/private/sam.ldb", "-s", self._settings)

    def sid_of(self, kind: str, name: str) -> str:
        """The SID of a user or a group."""
        shown = self.change(kind, "show", name, "--attributes=objectSid")
        return next(line.split()[1] for line in shown.splitlines() if line.startswith("objectSid:"))

    def serve_as(self, host: str, environment: pytest.MonkeyPatch) -> None:
        """Make an account of the service on a host, with its keytab, and name the files in the environment."""
        self.change("user", "create", "queue", "--random-password")
        self.change("spn", "add", f"host/{host}", "queue")
        keytab, configuration = self.folder / "keytab", self.folder / "krb5.conf"
        run("samba-tool", "domain", "exportkeytab", str(keytab), f"--principal=host/{host}", "-s", self._settings)
        configuration.write_text(CONFIGURATION.format(realm=REALM, address=self.address, port=KDC_PORT))
        environment.setenv("KRB5_CONFIG", str(configuration))
        environment.setenv("KRB5_KTNAME", str(keytab))

    @contextmanager
    def running(self) -> Iterator[None]:
        """With its KDC, in one process."""
        command = ["samba", "-s", self._settings, "--foreground", "--no-process-group", "--model=single"]
        with (self.folder / "output").open("wb") as output, subprocess.Popen(command, stdout=output) as server:
            try:
                self._await_answer(server)
                yield
            finally:
                server.terminate()

    def _await_answer(self, server: "subprocess.Popen[bytes]") -> None:
        with patience(SECONDS, "the KDC of Samba does not answer") as turns:
            for _ in turns:
                assert server.poll() is None, (self.folder / "output").read_text()
                with socket.socket() as client:
                    client.settimeout(SECONDS)
                    if client.connect_ex((self.address, KDC_PORT)) == 0:
                        return

    @property
    def _settings(self) -> str:
        return f"{self.folder}/etc/smb.conf"


def run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
