"""`waypost store verify`, `waypost store salvage` and `waypost store forget-users`."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from waypost.cli.daemon import NAME_A_FOLDER, Json, failures, session
from waypost.cli.program import Failure, Output, printable
from waypost.cli.progress import reporting
from waypost.cli.tables import write_json, write_pairs, write_table
from waypost.errors import InvalidParameter, NotAStore, StoreInUse

if TYPE_CHECKING:
    from waypost import SalvageReport, StoreReport

_SHOWN: Final = 20
_HINTS: Final = (
    (StoreInUse, "stop the queue manager that uses the folder."),
    (NotAStore, NAME_A_FOLDER),
    (InvalidParameter, "specify a new folder for NEW."),
)


def verify(
    context: typer.Context,
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Verify this data folder instead of the store of a daemon. A daemon can use the folder at the same "
            "time.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify the store: the pages of the file, the checksum of every record, and the counts of records.

    The queue manager keeps running, and the command changes nothing. The exit code is 1 if the store is damaged. The
    report shows the table, queue and message of each damaged record.

    \b
    waypost store verify
    waypost store verify --data /var/lib/waypost --json
    """
    out = Output()
    report: StoreReport
    with reporting("verifying (pages)") as tell:
        if data is None:
            with session(context) as manager:
                report = manager.verify_store(progress=tell)
        else:
            with failures(*_HINTS):
                report = import_module("waypost.client.storage.verifying").verify(data.absolute(), progress=tell)
    if as_json:
        write_json(out, report.to_dict())
    else:
        _show(out, report)
    out.flush()
    if not report.is_whole:
        raise Failure(
            f"{report.path} is damaged: {report.damage[0].reason}.",
            f"stop the queue manager. Then `waypost store salvage {report.path} NEW` recovers the intact records "
            "into the new folder NEW.",
        )


def _show(out: Output, report: "StoreReport") -> None:
    write_pairs(
        out,
        [
            ("folder", report.path),
            ("format", report.format),
            ("bytes", report.size),
            ("pages", report.pages),
            ("free pages", report.free_pages),
        ],
    )
    out.write("\n")
    write_table(out, ("TABLE", "RECORDS"), sorted(report.records.items()))
    out.write("\n")
    for damage in report.damage:
        out.write(printable(damage.reason) + "\n")
    if report.damage_count > len(report.damage):
        out.write(f"and {report.damage_count - len(report.damage)} more\n")
    out.write("No damage found.\n" if report.is_whole else f"Damage: {report.damage_count}.\n")


def salvage(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Damaged data folder. The command does not change this folder.", show_default=False
        ),
    ],
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW", help="Data folder to create. The folder must be new or empty.", show_default=False
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Recover all intact records of a damaged data folder into a new folder, and report the damaged records.

    Before you run this command, stop the daemon that uses the damaged folder. The command reads the store file page by
    page. The command skips damaged pages, and pages that refer to damaged pages. The new folder contains the same queue
    manager, with the same GUID. After the salvage, use only one of the two folders. At its first start, the queue
    manager begins new outgoing transactional sequences, as after a restore. If the list of free pages is lost, messages
    that were already received might return to their queues. For each queue, the report shows the number of such
    messages.

    \b
    waypost store salvage /var/lib/waypost /var/lib/waypost-new
    """
    out = Output()
    report: SalvageReport
    data, new = data.absolute(), new.absolute()
    with reporting("salvaging (pages)") as tell, failures(*_HINTS):
        report = import_module("waypost.client.storage.salvaging").salvage(data, new, progress=tell)
    if as_json:
        write_json(out, report.to_dict())
    else:
        _show_salvage(out, report)
    out.flush()
    if report.has_keys:
        _say(
            f"note: the key folder {data / 'keys'} is not copied. Without it, the new queue manager cannot decrypt "
            f"messages that are encrypted with the old keys. Copy the key folder with `cp -a {data / 'keys'} {new}`."
        )
    if report.has_lost_users:
        _say(
            "note: users may be lost, so the daemon does not start in the new folder until you run `waypost store "
            f"forget-users {new}`."
        )
    _say(
        f"hint: start the new folder with `waypost serve --data {new}`, and keep {data} until you have checked the "
        "result."
    )


def forget_users(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Salvaged data folder.", show_default=False)],
    *,
    as_json: Json = False,
) -> None:
    """Allow the daemon to start in a salvaged data folder, even if users were lost.

    If a salvage might have lost users, the daemon does not start in the new folder until you run this command. If no
    user is left, the queue manager then starts in single-user mode. After the start, add the lost users again.

    \b
    waypost store forget-users /var/lib/waypost-new
    """
    out = Output()
    with failures((StoreInUse, _HINTS[0][1]), (NotAStore, NAME_A_FOLDER), (InvalidParameter, "start the daemon.")):
        names = import_module("waypost.client.storage.salvaging").forget_lost_users(data.absolute())
    if as_json:
        write_json(out, {"forgotten": names})
    else:
        known = f": {printable(', '.join(names))}" if names else ""
        out.write(f"The daemon can start without the lost users{known}.\n")
    out.flush()


def _say(line: str) -> None:
    typer.echo(printable(line), err=True)


def _show_salvage(out: Output, report: "SalvageReport") -> None:
    columns = ("QUEUE", "BROUGHT BACK", "COUNTED", "MISSING", "UNCERTAIN")
    rows = [(each.queue, each.brought_back, each.counted, each.missing, each.uncertain) for each in report.queues]
    write_table(out, columns, rows)
    for words, count, lines in (
        ("damaged pages", report.damage_count, report.damage),
        ("damaged records", report.lost_count, report.lost),
    ):
        if count:
            out.write(f"\n{words}: {count}\n")
            for line in lines[:_SHOWN]:
                out.write(f"  {printable(line)}\n")
            if count > _SHOWN:
                out.write(f"  and {count - _SHOWN} more\n")
    out.write("\n")
    if report.format == 1:
        out.write("The folder has format 1, which has no checksums: every record that can be decoded was recovered.\n")
    if not report.knows_free_pages:
        out.write(
            "The list of free pages is lost, so messages that were already received may return to their queues.\n"
        )
    if not report.same_identity:
        out.write("The record of the queue manager is lost: the new folder gets a new GUID at its first start.\n")
    out.write(f"Messages recovered: {report.brought_back}. Missing: {report.missing}.\n")
