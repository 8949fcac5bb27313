"""`waypost store damaged`: messages that were damaged on disk and set aside."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waypost.api.times import iso_8601
from waypost.cli.daemon import Json, session
from waypost.cli.program import Failure, Output
from waypost.cli.tables import write_json, write_table

if TYPE_CHECKING:
    from waypost import DamagedInfo


def damaged(
    context: typer.Context,
    *,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Save the bytes of the damaged messages as files in this folder."),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete the damaged messages. With --save, the messages are saved first.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List messages that were damaged on disk and removed from their queues.

    The queue manager keeps the bytes of the damaged messages until you delete the messages with --forget.

    \b
    waypost store damaged
    waypost store damaged --save ./remains --forget
    """
    out = Output()
    with session(context) as manager:
        found = manager.damaged_messages(with_bytes=save is not None)
        if save is not None:
            _save(found, save)
        if as_json:
            write_json(out, {"messages": [_shown(each) for each in found], "forgotten": len(found) if forget else 0})
        else:
            write_table(
                out,
                ("QUEUE", "LOOKUP ID", "TIME", "MESSAGE", "REASON"),
                [(each.queue, each.lookup_id, iso_8601(each.time), each.message_id, each.reason) for each in found],
            )
        out.flush()
        if forget:
            manager.forget_damaged_messages()


def _shown(info: "DamagedInfo") -> dict[str, object]:
    return {name: value for name, value in info.to_dict().items() if name != "data_base64"}


def _save(found: "list[DamagedInfo]", folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, each in enumerate(found, 1):
            if each.data is not None:
                (folder / f"{number:04d}-{each.lookup_id}.bin").write_bytes(each.data)
    except OSError as error:
        raise Failure(f"Cannot write to {folder}: {error.strerror}.", "specify another folder with --save.") from None
