"""`waypost cert ...`: the certificates of users, with which messages are signed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waypost.api.keys import CERTIFICATE_DAYS, MAX_DAYS
from waypost.api.times import iso_8601
from waypost.cli.daemon import Json, session
from waypost.cli.key_files import PasswordFile, password_of, read_file, write_file
from waypost.cli.program import Output
from waypost.cli.program_options import not_empty
from waypost.cli.tables import write_json, write_table

if TYPE_CHECKING:
    from waypost.api.keys import CertificateInfo

app = typer.Typer(
    help="Create, register, import, list and remove the certificates of users.",
    add_completion=False,
    rich_markup_mode=None,
)

User = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of the user. Default: the caller.", show_default=False, callback=not_empty),
]


@app.command()
def create(
    context: typer.Context,
    *,
    user: User = None,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=MAX_DAYS, help="Number of days for which the certificate is valid.")
    ] = CERTIFICATE_DAYS,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File for the certificate, in PEM.")] = None,
    as_json: Json = False,
) -> None:
    """Create an internal certificate, store its key in the key folder, and register the certificate.

    \b
    waypost cert create --user alice --days 730 --out alice.pem
    """
    with session(context) as manager:
        found = manager.create_certificate(user or "", days=days)
    if out is not None:
        write_file(out, found.pem.encode())
    values = found.to_dict()
    del values["pem"]
    _write([found], values, as_json=as_json)


@app.command()
def register(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Certificate in PEM or DER.", show_default=False)],
    *,
    user: User = None,
    as_json: Json = False,
) -> None:
    """Register a certificate for the user who signs messages with this certificate.

    \b
    waypost cert register --user alice alice.pem
    """
    data = read_file(file)
    with session(context) as manager:
        found = manager.register_certificate(data, user or "")
    _write([found], found.to_dict(), as_json=as_json)


@app.command("import")
def import_certificate(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Certificate and private key, in PEM or PKCS#12.", show_default=False),
    ],
    *,
    user: User = None,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> None:
    """Import a certificate with its private key into the key folder, and register the certificate for a user.

    \b
    waypost cert import --user alice alice.p12 --password-file secret.txt
    """
    data, password = read_file(file), password_of(password_file)
    with session(context) as manager:
        found = manager.import_certificate(data, user or "", password=password)
    _write([found], found.to_dict(), as_json=as_json)


@app.command("list")
def list_certificates(
    context: typer.Context,
    *,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the user. Default: all users.", show_default=False, callback=not_empty
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the registered certificates.

    \b
    waypost cert list
    """
    with session(context) as manager:
        found = manager.certificates(user or "")
    _write(found, [each.to_dict() for each in found], as_json=as_json)


@app.command()
def remove(
    context: typer.Context,
    digest: Annotated[
        str, typer.Argument(metavar="DIGEST", help="Digest of the certificate.", show_default=False, callback=not_empty)
    ],
    *,
    as_json: Json = False,
) -> None:
    """Remove a certificate and its key. After the removal, the queue manager refuses messages that are signed with this
    certificate.

    \b
    waypost cert remove 0a4d55a8d778e5022fab701977c5d840bbc486d0
    """
    with session(context) as manager:
        manager.remove_certificate(digest)
    if as_json:
        out = Output()
        write_json(out, {"digest": digest})
        out.flush()


def _write(found: "list[CertificateInfo]", values: object, *, as_json: bool) -> None:
    out = Output()
    if as_json:
        write_json(out, values)
    else:
        rows = [
            (each.digest, each.user, each.subject, iso_8601(each.not_after), "yes" if each.internal else "no")
            for each in found
        ]
        write_table(out, ("DIGEST", "USER", "SUBJECT", "NOT AFTER", "INTERNAL"), rows)
    out.flush()
