"""`waypost token` and `waypost open`: the token of the daemon for other programs, and a link for a browser."""

import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import Annotated

import typer

from waypost.cli.asking import say
from waypost.cli.daemon import Json, Unreachable, session
from waypost.cli.program import Output
from waypost.cli.program_options import target_of
from waypost.cli.tables import write_json
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address


def token(context: typer.Context, *, as_json: Json = False) -> None:
    """Print the token of the daemon, for use in curl and other programs.

    If the option --token or the environment variable WAYPOST_TOKEN is set, the command prints the token from there.
    Otherwise, the command prints the token of the daemon at the address in --url. The daemon must run under your
    account. Root can print the token of every daemon.

    \b
    curl -H "Authorization: Bearer $(waypost token)" http://127.0.0.1:8181/api/status
    """
    out = Output()
    target = target_of(context)
    found = target.token
    if not found:
        way = Address.parse(target.url, None, DEFAULT_TIMEOUT).local_way()
        if way is None:
            raise Unreachable(
                f"This account does not run a daemon at {target.url}.",
                "run the command on the computer of the daemon, under the account that runs the daemon.",
            )
        found = way.daemon.token
    if as_json:
        write_json(out, {"token": found})
    else:
        if not found:
            say("The daemon requires no token (http.access is open).")
        out.write(f"{found}\n")
    out.flush()


def open_(
    context: typer.Context,
    *,
    browser: Annotated[bool, typer.Option("--browser", help="Also open the link in the default browser.")] = False,
    as_json: Json = False,
) -> None:
    """Print a link that opens the status page in a browser, without a login.

    The link works only once, and expires after ten minutes.

    \b
    waypost open
    waypost open --browser
    """
    out = Output()
    with session(context) as manager:
        link = manager.browser_link()
    if as_json:
        write_json(out, {"url": link})
    else:
        out.write(f"{link}\n")
    out.flush()
    if browser:
        say(_opened(link))


def _opened(link: str) -> str:
    """Open a page that leads to the link: other accounts can read the command line of a browser, but not this file."""
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}"><title>Waypost</title>\n'
    try:
        number, name = tempfile.mkstemp(prefix="waypost-open-", suffix=".html")
        path = Path(name)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        return f"Cannot write a page for the browser: {error.strerror or error}. Open the link in a browser yourself."
    if webbrowser.open(path.as_uri()):
        return "If no page opens in the browser, open the link yourself."
    path.unlink(missing_ok=True)
    return "No browser was found. Open the link in a browser yourself."
