"""`waypost serve`: a queue manager in the foreground."""

import gc
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from waypost.api.defaults import HTTP_PORT


def serve(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="WAYPOST_CONFIG",
            help="TOML file with the configuration. The page docs/config.md lists the keys.",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Data folder (default: ~/.local/state/waypost).")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Computer name of the queue manager (default: the host name).")
    ] = None,
    bind: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="IP address on which to listen for messages (default: all addresses). If this address is a loopback "
            "address and http.bind is not set, the HTTP API also listens on this address.",
        ),
    ] = None,
    transfer_port: Annotated[int | None, typer.Option(metavar="1801", help="TCP port for messages.")] = None,
    ping_port: Annotated[int | None, typer.Option(metavar="3527", help="UDP port for MSMQ pings.")] = None,
    rpc_port: Annotated[int | None, typer.Option(metavar="2103", help="TCP port for remote readers.")] = None,
    qm2qm_port: Annotated[
        int | None, typer.Option(metavar="2105", help="TCP port for remote readers that use the older interface qm2qm.")
    ] = None,
    http_port: Annotated[int | None, typer.Option(metavar=str(HTTP_PORT), help="TCP port for HTTP.")] = None,
    epm: Annotated[
        bool | None,
        typer.Option("--epm/--no-epm", help="Run an RPC endpoint mapper on port 135."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SECTION.KEY=VALUE", help="Set a configuration key. This option can be repeated."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write the ready message as JSON, even to a terminal."),
    ] = False,
    with_hints: Annotated[
        bool,
        typer.Option(
            "--hints",
            help="Write the address of the status page and example commands to stderr, even without a terminal.",
        ),
    ] = False,
) -> None:
    """Run a queue manager in the foreground. To stop the queue manager, press Ctrl-C or send SIGTERM.

    When the queue manager is ready, the command writes its addresses to stdout, as one line of JSON. On a terminal, the
    command writes the address of the status page and example commands instead. With port 0, the queue manager uses any
    free port. The log goes to stderr. Every configuration key has a default value. The page docs/config.md lists the
    keys.
    """
    given = {
        "store.path": data,
        "names.computer": name,
        "transfer.bind": bind,
        "transfer.port": transfer_port,
        "transfer.ping_port": ping_port,
        "rpc.port": rpc_port,
        "rpc.qm2qm_port": qm2qm_port,
        "http.port": http_port,
        "rpc.epm": epm,
    }
    flags = {path: value for path, value in given.items() if value is not None}
    # Commands other than servers do not load the libraries of one.
    gc.disable()
    serving = import_module("waypost.cli.serving")
    # The modules stay, so a search for cycles among them finds nothing and takes a tenth of the start.
    gc.enable()
    raise typer.Exit(serving.serve(config, flags, settings or [], as_json=as_json, with_hints=with_hints))
