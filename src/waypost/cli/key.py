"""`waypost key ...`: the keys of this queue manager, and the pinned keys of others."""

import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from waypost.api.keys import GRACE_DAYS, MAX_DAYS
from waypost.api.times import iso_8601
from waypost.cli.asking import say
from waypost.cli.daemon import Json, session
from waypost.cli.key_files import PasswordFile, password_of, read_file, write_file
from waypost.cli.program import Failure, Output
from waypost.cli.program_options import not_empty
from waypost.cli.tables import write_json, write_table

if TYPE_CHECKING:
    from waypost.api.keys import Keys, TrustedKey

app = typer.Typer(
    help="Show, export, import and rotate the keys of this queue manager, and trust the keys of other queue managers.",
    add_completion=False,
    rich_markup_mode=None,
)

Kind = Annotated[
    Literal["exchange", "signing"],
    typer.Option(
        help="Kind of the key. Other queue managers use the exchange key to encrypt messages for this queue manager. "
        "The queue manager uses the signing key to sign its own packets (sender type 2). Both public keys are "
        "published in the directory. Users sign messages with certificates."
    ),
]
Grace = Annotated[
    int,
    typer.Option(
        metavar="DAYS",
        min=0,
        max=MAX_DAYS,
        help="Number of days during which the queue manager still accepts messages that are encrypted with the old "
        "exchange key. With the value 0, all earlier exchange keys become invalid at once.",
    ),
]
Who = Annotated[
    str,
    typer.Argument(
        metavar="HOST|GUID", help="Name or address of the host, or GUID of the queue manager.", callback=not_empty
    ),
]


@app.command()
def show(context: typer.Context, *, as_json: Json = False) -> None:
    """Show the keys of this queue manager. If the queue manager has no keys yet, the command creates them.

    \b
    waypost key show
    """
    with session(context) as manager:
        keys = manager.keys()
    _write(keys, as_json=as_json)


def _write(keys: "Keys", *, as_json: bool) -> None:
    out = Output()
    if as_json:
        write_json(out, keys.to_dict())
    else:
        found = [("exchange", each) for each in keys.exchange] + [("signing", each) for each in keys.signing]
        rows = [
            (kind, each.provider, each.bits, each.digest[:16], iso_8601(each.created), _time(each.retired))
            for kind, each in found
        ]
        write_table(out, ("KIND", "PROVIDER", "BITS", "DIGEST", "CREATED", "RETIRED"), rows)
    out.flush()


def _time(value: object) -> str:
    return "" if value is None else iso_8601(value)  # type: ignore[arg-type]  # a time


@app.command()
def export(
    context: typer.Context,
    *,
    kind: Kind = "exchange",
    format: Annotated[  # noqa: A002, the name of the option
        Literal["pem", "mqdspublickeys"],
        typer.Option(
            help="Format of the key, either PEM or MQDSPUBLICKEYS. A directory uses MQDSPUBLICKEYS (see MS-MQMQ 2.2.2)."
        ),
    ] = "mqdspublickeys",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write. Default: standard output.")] = None,
    as_json: Json = False,
) -> None:
    """Export the public key, for `waypost key trust` on other computers.

    \b
    waypost key export --out here.keys
    waypost key export --format pem
    """
    with session(context) as manager:
        data = manager.export_keys(kind, format)
    if as_json:
        if out is not None:
            write_file(out, data)
        written = Output()
        write_json(written, {"kind": kind, "format": format, "data": b64encode(data).decode()})
        written.flush()
    elif out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_file(out, data)


@app.command("import")
def import_key(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Private RSA key in PEM.", show_default=False)],
    *,
    kind: Kind = "exchange",
    password_file: PasswordFile = None,
    grace: Grace = GRACE_DAYS,
    as_json: Json = False,
) -> None:
    """Import a private key as the current key. The import retires the previous key.

    \b
    waypost key import exchange.pem --password-file secret.txt
    """
    data, password = read_file(file), password_of(password_file)
    with session(context) as manager:
        keys = manager.import_key(data, kind, password=password, grace=grace)
    _write(keys, as_json=as_json)
    if keys.warning:
        say(f"warning: {keys.warning}.")
    _tell_end(kind, grace)


@app.command()
def rotate(
    context: typer.Context,
    *,
    kind: Annotated[Literal["exchange", "signing"] | None, typer.Option(help="Kind of the key. Default: both.")] = None,
    grace: Grace = GRACE_DAYS,
    as_json: Json = False,
) -> None:
    """Create new keys. For --grace days, the queue manager still accepts messages that are encrypted with the old key.

    \b
    waypost key rotate
    waypost key rotate --kind exchange --grace 0
    """
    with session(context) as manager:
        keys = manager.rotate_keys(kind, grace=grace)
    _write(keys, as_json=as_json)
    _tell_end(kind, grace)


def _tell_end(kind: str | None, grace: int) -> None:
    """Without a grace, nothing that was encrypted before can be decrypted: say so beside the table."""
    if not grace and kind != "signing":
        say("All earlier exchange keys are now invalid. Messages that are encrypted with these keys are refused.")


@app.command()
def trust(
    context: typer.Context,
    who: Annotated[
        str | None,
        typer.Argument(
            metavar="[HOST|GUID]",
            help="Name or address of the host, or GUID of the queue manager.",
            show_default=False,
            callback=not_empty,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="File that `waypost key export` has written on that host.", show_default=False
        ),
    ] = None,
    *,
    kind: Annotated[
        Literal["exchange", "signing"],
        typer.Option(
            help="Kind of the keys in the file. Exchange keys are used to encrypt messages for that host. Signing keys "
            "are used to verify packets that the queue manager of that host has signed (sender type 2)."
        ),
    ] = "exchange",
    listed: Annotated[bool, typer.Option("--list", help="List the pinned keys.")] = False,
    as_json: Json = False,
) -> None:
    """Pin the keys of another queue manager. This queue manager needs the exchange keys to encrypt messages for that
    queue manager.

    \b
    waypost key trust accounting accounting.keys
    waypost key trust accounting accounting.signing --kind signing
    waypost key trust --list
    """
    out = Output()
    if listed:
        with session(context) as manager:
            _list(out, manager.trusted_keys(), as_json=as_json)
        return
    if who is None or file is None:
        raise Failure(
            "A host (or its GUID) and a file are required.",
            "run `waypost key trust HOST FILE`, or `waypost key trust --list`.",
        )
    data = read_file(file)
    with session(context) as manager:
        found = manager.trust_keys(who, data, kind)
    if as_json:
        write_json(out, found.to_dict())
    else:
        out.write(f"The {found.kind} keys of {found.who} are trusted: {', '.join(found.digests)}\n")
    out.flush()


def _list(out: Output, found: "list[TrustedKey]", *, as_json: bool) -> None:
    if as_json:
        write_json(out, [each.to_dict() for each in found])
    else:
        rows = [(each.who, each.kind, each.bits, each.digests[0][:16], iso_8601(each.added)) for each in found]
        write_table(out, ("WHO", "KIND", "BITS", "DIGEST", "ADDED"), rows)
    out.flush()


@app.command()
def untrust(
    context: typer.Context,
    who: Who,
    *,
    kind: Annotated[Literal["exchange", "signing"] | None, typer.Option(help="Kind of the key. Default: both.")] = None,
    as_json: Json = False,
) -> None:
    """Remove the pinned keys of another queue manager.

    \b
    waypost key untrust accounting
    """
    with session(context) as manager:
        manager.untrust_keys(who, kind)
    if as_json:
        out = Output()
        write_json(out, {"who": who})
        out.flush()
