"""The message of `waypost serve` when it is ready: a line of JSON for programs; an address and commands for people."""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from waypost.api import defaults
from waypost.client.transports.http.local import addresses_of
from waypost.daemon.config import Http

_PROGRAM: Final = "waypost"


def ready_line(facts: Mapping[str, str]) -> str:
    return json.dumps(facts, separators=(",", ":")) + "\n"


def ready_text(facts: Mapping[str, str], http: Http, program: str, link: str = "") -> str:
    """`program` starts the command line in another terminal. `link` is the path that logs a browser on, or ""."""
    ready = f"Queue manager {facts['name']} is ready.\n"
    if "http" not in facts:
        return f"{ready}It accepts messages on {facts['transfer']}. The HTTP API is disabled. Press Ctrl-C to stop.\n"
    url = local_url(facts["http"], http)
    waypost = program if url == defaults.URL else f"{program} --url {url}"
    words = ("queue create orders", "send orders --body '42 bolts'", "receive orders")
    place = "in another terminal, in this folder" if _is_relative(program) else "in another terminal"
    if not addresses_of(urlsplit(url).hostname or ""):
        # Programs look for a token only at loopback addresses.
        place += ", with the token in WAYPOST_TOKEN"
    if link:
        page = f"Open this link in a browser, once and within ten minutes:\n\n  {url}{link}\n\nTry {place}:\n\n"
    elif http.access == "open" and not http.token:
        page = f"Open {url} in a browser, and try {place}:\n\n"
    else:
        page = f"Run `{waypost} open` to get a link to the status page, and try {place}:\n\n"
    return (
        f"{ready}{page}"
        f"  {'; '.join(f'{waypost} {each}' for each in words)}\n"
        f"  {program} demo\n\n"
        "Press Ctrl-C to stop.\n"
    )


def program_name(typed: str) -> str:
    """The command that starts this program in another terminal: `typed` is sys.argv[0], a Python file with -m."""
    file = Path(typed)
    if file.stem != _PROGRAM or not file.exists():
        return f"{shlex.quote(sys.executable)} -m waypost.cli"
    found = shutil.which(_PROGRAM)
    return _PROGRAM if found is not None and Path(found).samefile(file) else shlex.quote(typed)


def _is_relative(program: str) -> bool:
    return "/" in program and not program.lstrip("'").startswith("/")


def local_url(endpoint: str, http: Http) -> str:
    """The URL for programs on this computer, which cannot open the address that means all addresses."""
    address, _, port = endpoint.rpartition(":")
    if ip_address(address.strip("[]")).is_unspecified:
        address = "[::1]" if ":" in address else "127.0.0.1"
    return f"{'https' if http.tls_cert else 'http'}://{address}:{port}"
