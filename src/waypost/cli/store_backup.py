"""`waypost store backup` and `waypost store restore`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from waypost.cli.daemon import NAME_A_FOLDER, Hint, Json, failures, session
from waypost.cli.program import Failure, Output, printable
from waypost.cli.progress import reporting
from waypost.cli.tables import write_json
from waypost.errors import BackupDamaged, BackupError, BackupUnderWay, NotAStore

if TYPE_CHECKING:
    from waypost import BackupInfo, RestoreInfo

_MEGABYTE: Final = 1_000_000
_STANDARD: Final = "-"


def backup(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Folder for the backup, which must be new or empty, or - for standard output.",
            show_default=False,
        ),
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Back up this data folder instead of the store of a daemon. A daemon can use the folder at the same "
            "time.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="WAYPOST_CONFIG",
            help="Configuration file for --data. The backup uses the keys store.max_size_gb and store.reserve_mb of "
            "this file.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Back up a queue manager to a folder or a stream. The queue manager keeps running.

    The backup is a snapshot, which contains all changes that were acknowledged before the backup began. The backup does
    not contain express messages, because these messages are only in memory. If a backup is interrupted, the command
    removes its incomplete files. `restore` refuses an incomplete stream. Only one backup can run at a time.

    \b
    waypost store backup /backups/monday
    waypost store backup - | gzip > monday.backup.gz
    waypost store backup /backups/monday --data /var/lib/waypost --config /etc/waypost/waypost.toml
    """
    if target == _STANDARD and as_json:
        raise typer.BadParameter(
            "--json is not possible when the backup goes to standard output; specify a folder", param_hint="--json"
        )
    out = Output()
    info: BackupInfo
    if target != _STANDARD:
        target = _absolute(target)
    with reporting("backing up (MB)", _MEGABYTE) as report, _standard_output(target) as place:
        if data is None:
            with session(context) as manager:
                info = manager.backup(place, progress=report)
        else:
            with failures(*_hints("specify a new folder, or start the backup again.")):
                making = import_module("waypost.client.backups.making")
                limits = import_module("waypost.cli.backup_limits").backup_limits_of(config)
                info = making.backup_of_folder(data.absolute(), place, report, limits)
    if as_json:
        write_json(out, info.to_dict())
        out.flush()
    where = "Standard output" if target == _STANDARD else target
    typer.echo(printable(f"{where} contains a backup of {info.name} from {info.time}, {info.bytes} bytes."), err=True)


def restore(
    source: Annotated[
        str,
        typer.Argument(metavar="BACKUP", help="Backup folder or file, or - for standard input.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Data folder to create. The folder must be new or empty.", show_default=False
        ),
    ],
    *,
    same_identity: Annotated[
        bool,
        typer.Option(
            "--same-identity",
            help="Restore the queue manager with its original GUID. The original queue manager must never start again.",
        ),
    ] = False,
    new_identity: Annotated[
        bool,
        typer.Option(
            "--new-identity",
            help="Create another queue manager with a new GUID. The original queue manager can keep running.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a data folder from a backup. The folder must be new or empty.

    You must choose the identity of the restored queue manager. If two queue managers run with the same identity, they
    lose and duplicate each other's messages. With the same identity, the queue manager begins new outgoing sequences at
    its first start, and sends the messages in its outgoing queues. New messages get ids far above the ids in the
    backup. The backup does not show which messages were received or sent after the backup was made. Therefore, such
    messages might be received or sent again. With a new identity, the messages in outgoing queues are not sent. These
    messages go to the dead-letter queues of the new queue manager.

    Before the command restores anything, it checks the whole backup.

    \b
    waypost store restore /backups/monday /var/lib/waypost --same-identity
    waypost store restore /backups/monday ./copy --new-identity
    gunzip < monday.backup.gz | waypost store restore - ./copy --new-identity
    """
    if same_identity is new_identity:
        raise typer.BadParameter(
            "exactly one of two options is required: --same-identity if the original queue manager will never start "
            "again, otherwise --new-identity",
            param_hint="OPTIONS",
        )
    out = Output()
    info: RestoreInfo
    data = data.absolute()
    with reporting("restoring (MB)", _MEGABYTE) as report, failures(*_hints("specify a new folder for DATA.")):
        info = import_module("waypost.client.backups.restoring").restore(
            _standard_input() if source == _STANDARD else _absolute(source),
            data,
            same_identity=same_identity,
            new_identity=new_identity,
            progress=report,
        )
    if as_json:
        write_json(out, info.to_dict())
        out.flush()
    typer.echo(printable(f"{data} contains the queue manager {info.guid}, as of {info.time}."), err=True)
    if info.set_aside or info.dropped:
        sentence = (
            f"Messages moved from outgoing queues to the dead-letter queues: {info.set_aside}. Delivered messages and "
            f"acknowledgments discarded: {info.dropped}."
        )
        typer.echo(sentence, err=True)
    if info.damaged:
        sentence = f"warning: {info.damaged} records were damaged in the store before it was backed up."
        typer.echo(sentence, err=True)
    typer.echo(printable(f"hint: start the queue manager with `waypost serve --data {data}`."), err=True)


@contextmanager
def _standard_output(target: str) -> Iterator["str | BinaryIO"]:
    """The place of the backup."""
    if target != _STANDARD:
        yield target
        return
    if sys.stdout.isatty():
        raise Failure(
            "A backup is binary data, and standard output is a terminal.",
            "specify a folder, or redirect standard output to a file or a pipe.",
        )
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _standard_input() -> BinaryIO:
    return sys.stdin.buffer


def _absolute(path: str) -> str:
    """The whole path, so that a sentence does not begin with a name that looks like a word of it."""
    return str(Path(path).absolute())


def _hints(hint: str) -> tuple[Hint, ...]:
    """For errors of folders here, without a daemon. The hint is for the folder that is to be made."""
    return (
        (BackupDamaged, "specify another backup. Nothing was restored from this backup."),
        (BackupUnderWay, ""),
        (NotAStore, NAME_A_FOLDER),
        (BackupError, hint),
    )
