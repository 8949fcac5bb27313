"""The connection of a command to its queue manager, and the errors of the queue manager at the command line."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeAlias

import typer

import waypost
from waypost.api.excerpt import excerpt
from waypost.api.names import format_name
from waypost.cli.program import Failure
from waypost.cli.program_options import Target, target_of
from waypost.drive.local_daemons import account_name, own_account
from waypost.errors import (
    AccessDenied,
    BackupError,
    BackupUnderWay,
    CannotConnect,
    CertificateNotFound,
    ClaimTaken,
    ConnectionLost,
    EncodeError,
    HostError,
    IllegalFormatName,
    IllegalPathName,
    IllegalSddl,
    IllegalSecurityDescriptor,
    InsufficientResources,
    InvalidParameter,
    LabelTooLong,
    LimitReached,
    MessageError,
    PinNotFound,
    QueueExists,
    QueueNotFound,
    ResetUnderWay,
    ServiceNotAvailable,
    SharingViolation,
    StoreError,
    StoreReadOnly,
    Timeout,
    TokenNotFound,
    TooManyLogins,
    TransactionUsage,
    UnsupportedFormatName,
    UserExists,
    UserNotFound,
    WaypostError,
)
from waypost.wire.format_names import DirectFormatName

if TYPE_CHECKING:
    from waypost import Manager, Queue

Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Outgoing = Annotated[
    bool,
    typer.Option("--outgoing", help="Use the local outgoing queue instead of the queue on the other computer."),
]


class Unreachable(Failure):
    """No daemon answers."""

    exit_code: ClassVar = 3


class WrongUsage(Failure):
    """Something on the command line is invalid."""

    exit_code: ClassVar = 2


class TimedOut(Failure):
    """The wait for a message or a state timed out."""

    exit_code: ClassVar = 4


_USAGE: Final = (
    InvalidParameter,
    EncodeError,
    LabelTooLong,
    IllegalFormatName,
    IllegalPathName,
    IllegalSddl,
    IllegalSecurityDescriptor,
)
_GIVEN: Final = "correct the value. --help describes the arguments and options of the command."
_NAMES: Final = "use a queue name such as orders, 'orders;retry' or 'DIRECT=OS:host\\private$\\orders'."
_SDDL: Final = (
    "write a security descriptor in SDDL that uses the access rights of queues, such as "
    "'D:(A;;0xf003f;;;BA)(A;;0x4;;;WD)'."
)

Hint: TypeAlias = tuple[type[WaypostError], str]
Hints: TypeAlias = tuple[Hint, ...]
NAME_A_FOLDER: Final = "specify the data folder of a queue manager."

# The first class that an error is of has the hint. The daemon gives hints too, in the words of HTTP.
_HINTS: Final[Hints] = (
    (CannotConnect, "start a daemon with `waypost serve`, or specify another address with --url or WAYPOST_URL."),
    (
        ConnectionLost,
        "`waypost status` shows whether the daemon is running. Before you repeat the command, check whether it has "
        "taken effect.",
    ),
    (ServiceNotAvailable, "wait until the queue manager has started, or restart it."),
    (QueueNotFound, "`waypost queue list` shows the queues. `waypost queue create` creates a queue."),
    (UserNotFound, "`waypost user list` shows the users. `waypost user add` adds a user."),
    (TokenNotFound, "`waypost user show` shows the ids of the tokens of a user."),
    (CertificateNotFound, "`waypost cert list` shows the certificates."),
    (PinNotFound, "`waypost key trust --list` shows the pinned keys."),
    (UserExists, "`waypost user set` changes an existing user."),
    (TooManyLogins, "wait some minutes, or use a token."),
    (QueueExists, "`waypost queue set` changes an existing queue."),
    (ClaimTaken, "only one running query can read a claim. `waypost claim list` shows the claims."),
    (SharingViolation, "wait until the other reader has closed the queue."),
    (
        AccessDenied,
        "pass the token of the daemon with the option --token or the environment variable WAYPOST_TOKEN. To access "
        "another host, set remote.user in the "
        "configuration of the daemon.",
    ),
    (
        HostError,
        "the host must be up and allow remote reading of its queues. See [remote] in docs/config.md.",
    ),
    (
        TransactionUsage,
        "use --transactional to send to a transactional queue, and omit this option for any other queue. Reading from "
        "another computer does not support transactions.",
    ),
    (LimitReached, "close or delete objects that you no longer need, or wait until they expire."),
    (InsufficientResources, "receive or purge messages, or raise the quota with `waypost queue set --quota-kb`."),
    (BackupUnderWay, "wait until the other backup is finished."),
    (ResetUnderWay, "wait until the other reset is finished. `waypost explain QUEUE` shows its progress."),
    (BackupError, "specify a new folder, or start the backup again."),
    (
        StoreReadOnly,
        "run the command as the user that runs the queue manager, or make the folder writable for this user.",
    ),
    (StoreError, "`waypost store verify --data FOLDER` checks a folder, and `waypost doctor` checks a daemon."),
    (Timeout, "wait longer with --timeout."),
    (LabelTooLong, _GIVEN),
    (MessageError, "`waypost peek NAME --all` shows the messages of a queue."),
    (IllegalFormatName, _NAMES),
    (IllegalPathName, _NAMES),
    (IllegalSddl, _SDDL),
    (IllegalSecurityDescriptor, _SDDL),
    (
        UnsupportedFormatName,
        "send to a local queue such as orders, or to a remote queue such as 'DIRECT=OS:host\\private$\\orders'.",
    ),
    (InvalidParameter, _GIVEN),
    (EncodeError, _GIVEN),
    (WaypostError, "`waypost doctor` checks the queue manager for problems."),
)

# Before the others where NAME is a queue of another computer. A token was right if that is known.
_HINTS_ELSEWHERE: Final[Hints] = (
    (
        QueueNotFound,
        "run this command on the computer that hosts the queue. `waypost peek` and `waypost receive` also read remote "
        "queues.",
    ),
    (
        AccessDenied,
        "the daemon reads remote queues as the user in remote.user. Give this user read permission on that computer.",
    ),
    *_HINTS,
)


def connect(target: Target) -> "Manager":
    """The one place where the command line meets the client."""
    if own_account() == 0:
        _name_account(target)
    return waypost.connect(target.url, token=target.token, cacert=target.cacert)


def _name_account(target: Target) -> None:
    """Say to root that another account runs the daemon: this account sees all that root sends."""
    with suppress(WaypostError):
        # Only commands that connect have to wait for these imports.
        addresses = import_module("waypost.client.transports.http.address")
        address = addresses.Address.parse(target.url, target.token, 1, target.cacert)
        account = None if address.search is None else address.search.account_for_root()
        if account is not None:
            name = account_name(account)
            typer.echo(f"note: the daemon at {target.url} runs as the account {name}, not as root.", err=True)


@contextmanager
def session(context: typer.Context) -> Iterator["Manager"]:
    """The queue manager to work with. Its errors become a Failure with the right exit code."""
    hints = _HINTS
    try:
        with connect(target_of(context)) as manager:
            if is_elsewhere(context, manager):
                hints = _HINTS_ELSEWHERE
            yield manager
    except WaypostError as error:
        raise failure(error, hints) from None
    except UnicodeEncodeError as error:
        raise WrongUsage(f"{excerpt(error.object)} is not UTF-8 text.", "use UTF-8 for names and other text.") from None


def is_elsewhere(context: typer.Context, manager: "Manager") -> bool:
    """Whether the NAME of the command means a queue of another computer."""
    name = context.params.get("name")
    if not isinstance(name, str) or context.params.get("outgoing"):
        return False
    with suppress(WaypostError):
        found = format_name(name, manager.name)
        if isinstance(found, DirectFormatName):
            return found.host.casefold() not in (manager.name.casefold(), "localhost", ".")
    return False


@contextmanager
def failures(*hints: Hint) -> Iterator[None]:
    """Turn errors of folders, without a daemon, into Failures with these hints; "" stands for the default hint."""
    try:
        yield
    except WaypostError as error:
        hint = next((hint for kind, hint in hints if isinstance(error, kind)), "")
        raise (Failure(sentence_of(error), hint) if hint else failure(error)) from None


_HAVE_HINTS: Final = (AccessDenied, IllegalSecurityDescriptor, InvalidParameter, UserExists)


def failure(error: WaypostError, hints: Hints = _HINTS) -> Failure:
    """The Failure for an error of the queue manager."""
    hint = next(hint for kind, hint in hints if isinstance(error, kind))
    if isinstance(error, _HAVE_HINTS) and (own := " ".join(getattr(error, "__notes__", ()))):
        # The queue manager knows what the caller lacks. Notes of other errors are hints in the words of HTTP.
        hint = f"{own.rstrip('.')}."
    if isinstance(error, ServiceNotAvailable):
        return Unreachable(sentence_of(error), hint)
    if isinstance(error, _USAGE):
        return WrongUsage(sentence_of(error), hint)
    if isinstance(error, Timeout):
        return TimedOut(sentence_of(error), hint)
    return Failure(sentence_of(error), hint)


def queue_of(manager: "Manager", name: str, *, outgoing: bool) -> "Queue":
    """The queue that NAME means, wherever it is, or the outgoing queue for it."""
    queue = manager.queue(name)
    if not outgoing:
        return queue
    wanted = queue.format_name.casefold()
    for each in manager.outgoing_queues():
        if each.format_name.casefold() == wanted:
            return each
    raise Failure(f"This computer has no outgoing queue for {name}.", "`waypost queue list` shows all outgoing queues.")


def sentence_of(error: WaypostError) -> str:
    text = str(error) or type(error).__doc__ or type(error).__name__
    if text.partition(" ")[0].isalpha():
        # Another first word is the name of something, and stays as it is.
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


@contextmanager
def own_hint() -> Iterator[None]:
    """Show the hint that the queue manager gives in place of the one for the class of the error."""
    try:
        yield
    except (InvalidParameter, SharingViolation, TransactionUsage) as error:
        notes = getattr(error, "__notes__", ())
        if not notes:
            raise
        raise Failure(sentence_of(error), f"{notes[0]}.") from None
