"""`waypost user ...`: users, their roles, passwords and tokens."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from waypost.cli.asking import Yes, ask, is_asked, say
from waypost.cli.daemon import Json, WrongUsage, session
from waypost.cli.program import Failure, Output
from waypost.cli.program_options import not_empty
from waypost.cli.tables import write_json, write_pairs, write_table

if TYPE_CHECKING:
    from waypost import UserInfo
    from waypost.api.users import RoleName

app = typer.Typer(
    help="Add, show, change and remove users, and create their tokens.",
    add_completion=False,
    rich_markup_mode=None,
)

_ROLES = ("none", "read", "operate", "admin")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.", show_default=False, callback=not_empty)]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Names or SIDs of the groups of the user, separated by commas. This option can be repeated.",
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with the password, or - for standard input.", show_default=False),
]


@app.command()
def add(
    context: typer.Context,
    name: Name,
    *,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Role of the user, which is none, read, operate or admin.")
    ] = "none",
    sid: Annotated[
        str | None,
        typer.Option(metavar="SID", help="SID of an existing account, such as a domain account (default: a new SID)."),
    ] = None,
    groups: Groups = None,
    ntlm: Annotated[bool, typer.Option("--ntlm", help="Allow the user to log on over RPC with NTLM.")] = False,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> None:
    """Add a user. A user without a password cannot log in, but can use tokens.

    \b
    waypost user add ada --role operate --password-file ada.txt
    waypost user add report --role read --groups sales,finance --json
    """
    password = None if password_file is None else _read(password_file)
    if ntlm and password is None:
        password = _typed(name)
    with session(context) as manager:
        found = manager.users.add(
            name, role=_role(role), sid=sid, groups=_split(groups), ntlm=ntlm, password=password
        )  # fmt: skip
    _show(found, as_json=as_json)


@app.command()
def whoami(
    context: typer.Context,
    *,
    only_sid: Annotated[bool, typer.Option("--sid", help="Print only the SID.")] = False,
    as_json: Json = False,
) -> None:
    """Show the name, SID and role of your user at the daemon.

    \b
    waypost user whoami
    waypost user whoami --sid
    """
    out = Output()
    with session(context) as manager:
        found = manager.identity()
    if as_json:
        write_json(out, found.to_dict())
    elif only_sid:
        out.write(f"{found.sid}\n")
    else:
        write_pairs(out, [("who", found.who), ("sid", found.sid), ("role", found.role)])
    out.flush()


@app.command("list")
def list_users(context: typer.Context, *, as_json: Json = False) -> None:
    """List the users."""
    out = Output()
    with session(context) as manager:
        found = manager.users.list()
    if as_json:
        write_json(out, [user.to_dict() for user in found])
    else:
        columns = ("NAME", "ROLE", "GROUPS", "SID", "PASSWORD", "NTLM", "TOKENS")
        write_table(out, columns, [_row(user) for user in found])
    out.flush()


def _row(user: "UserInfo") -> tuple[object, ...]:
    return user.name, user.role, user.groups, user.sid, user.has_password, user.ntlm, len(user.tokens)


@app.command()
def show(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Show a user and the ids of the user's tokens."""
    with session(context) as manager:
        found = manager.users.show(name)
    _show(found, as_json=as_json)


@app.command("set")
def set_user(
    context: typer.Context,
    name: Name,
    *,
    role: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE", help="Role of the user, which is none, read, operate or admin.", show_default=False
        ),
    ] = None,
    groups: Groups = None,
    ntlm: Annotated[
        bool | None, typer.Option("--ntlm/--no-ntlm", help="Allow or forbid the user to log on over RPC with NTLM.")
    ] = None,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> None:
    """Change a user. A new role takes effect at once, even for existing tokens.

    The option --ntlm requires the password of the user.

    \b
    waypost user set ada --role admin
    waypost user set ada --groups sales,finance
    """
    groups = groups or None
    if all(each is None for each in (role, groups, ntlm, password_file)):
        raise WrongUsage("Nothing to change.", "add --role, --groups, --ntlm, --no-ntlm or --password-file.")
    password = None if password_file is None else _read(password_file)
    with session(context) as manager:
        found = manager.users.set(
            name,
            role=None if role is None else _role(role),
            groups=None if groups is None else _split(groups),
            ntlm=ntlm,
            password=password,
        )
    _show(found, as_json=as_json)


@app.command()
def passwd(
    context: typer.Context,
    name: Name,
    *,
    password_file: PasswordFile = None,
    current_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the current password. Administrators do not need this file.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Change the password of a user. All sessions of the user end.

    Users who are not administrators must specify the current password.

    \b
    waypost user passwd ada
    """
    password = _typed(name) if password_file is None else _read(password_file)
    current = None if current_file is None else _read(current_file)
    with session(context) as manager:
        manager.users.set_password(name, password, current=current)
    _done({"name": name}, f"The password of {name} is changed.", as_json=as_json)


@app.command()
def remove(
    context: typer.Context,
    name: Name,
    *,
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove the user even if nobody can change the rights on a queue afterwards."),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove a user, the certificates of the user, and the keys of these certificates.

    The tokens and sessions of the user become invalid at once. The SID of the user remains in access lists.
    """
    with session(context) as manager:
        ask(f"Remove the user {name}, with all its tokens and certificates?", yes=yes)
        found = manager.users.show(name)
        manager.users.remove(name, force=force)
    _done(found.to_dict(), f"The user {name} is removed.", as_json=as_json)


def _done(facts: dict[str, object], sentence: str, *, as_json: bool) -> None:
    if not as_json:
        say(sentence)
        return
    out = Output()
    write_json(out, facts)
    out.flush()


@app.command()
def token(
    context: typer.Context,
    name: Name,
    *,
    role: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="Role of the token, at most the role of the user (default: the role of the user).",
            show_default=False,
        ),
    ] = None,
    expires: Annotated[
        float | None, typer.Option(metavar="DAYS", help="Number of days until the token expires (default: no limit).")
    ] = None,
    revoke: Annotated[
        str | None,
        typer.Option(
            "--remove",
            metavar="ID",
            help="Remove the token with this id. The value `all` removes all tokens of the user.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create and print a token for a user. Programs send TOKEN as a bearer token in the HTTP header Authorization.

    \b
    waypost user token report --role read --expires 90
    waypost user token report --remove all
    """
    if revoke is not None and (role is not None or expires is not None):
        raise WrongUsage("--remove is mutually exclusive with --role and --expires.", "use --remove alone.")
    if expires is not None and not expires > 0:
        raise WrongUsage(
            f"The number of days until a token expires must be more than 0, not {expires:g}.",
            "use a number such as --expires 30, or omit the option for a token that never expires.",
        )
    out = Output()
    with session(context) as manager:
        if revoke is not None:
            manager.users.remove_token(name, revoke)
            say(f"Removed from {name}: {'all tokens' if revoke == 'all' else f'the token {revoke}'}.")
            return
        found = manager.users.token(name, role=None if role is None else _role(role), expires_days=expires)
    if as_json:
        write_json(out, found.to_dict())
    else:
        out.write(f"{found.token}\n")
    out.flush()
    if not as_json:
        say(f"This token of the user {name} has the role {found.role}. The token is shown only once.")


def _show(user: "UserInfo", *, as_json: bool) -> None:
    out = Output()
    if as_json:
        write_json(out, user.to_dict())
    else:
        facts = user.to_dict()
        tokens = cast("list[dict[str, object]]", facts.pop("tokens"))
        write_pairs(out, [*facts.items(), *((f"token {each['id']}", each["role"]) for each in tokens)])
    out.flush()


def _role(text: str) -> "RoleName":
    if text not in _ROLES:
        raise WrongUsage(f"Unknown role {text!r}.", "the role must be none, read, operate or admin.")
    return cast("RoleName", text)


def _split(groups: list[str] | None) -> list[str]:
    return [group.strip() for each in groups or () for group in each.split(",") if group.strip()]


def _read(file: Path) -> str:
    """The first line of a file. A password on a command line would be in the list of processes."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Failure(f"Cannot read {file}: {reason}.", "check --password-file.") from None
    password = text.split("\n")[0].removesuffix("\r")
    if not password:
        raise Failure(f"The first line of {file} is empty.", "write the password into the first line of the file.")
    return password


def _typed(name: str) -> str:
    """The password that a person types twice."""
    if not is_asked():
        raise WrongUsage(
            "The password is missing.", "add --password-file FILE, or --password-file - to read standard input."
        )
    found: str = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    return found
