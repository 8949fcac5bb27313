"""The commands of `waypost`, each imported when it is asked for: none waits for the libraries of the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from waypost.cli.program import Program
from waypost.cli.program_options import accept, program_options


@dataclass(frozen=True, slots=True)
class Verb:
    """`home` is MODULE:NAME of its function, or of the Typer with the commands below it."""

    home: str
    help: str

    def load(self, name: str) -> Any:
        """The command itself."""
        module, _, attribute = self.home.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name)(found)
            found = alone
        command = get_command(found)
        command.name = name
        accept(command)
        return command


# In the order of the help.
VERBS: Final = {
    "queue": Verb("waypost.cli.queue:app", "Create, show, change, empty and delete queues."),
    "send": Verb("waypost.cli.send:send", "Send a message to a local or remote queue."),
    "receive": Verb("waypost.cli.receive:receive", "Receive messages from a queue."),
    "peek": Verb("waypost.cli.receive:peek", "Show messages without removing them from the queue."),
    "message": Verb("waypost.cli.message:app", "Move, export, import, resend and delete single messages."),
    "sequence": Verb("waypost.cli.sequence:app", "Show and reset transactional sequences."),
    "key": Verb("waypost.cli.key:app", "Show, export, rotate and trust the keys of queue managers."),
    "cert": Verb("waypost.cli.cert:app", "Create, register and remove the certificates of users."),
    "claim": Verb("waypost.cli.claim:app", "List and release claimed messages."),
    "user": Verb("waypost.cli.user:app", "Add, show, change and remove users, and create their tokens."),
    "audit": Verb("waypost.cli.audit:audit", "Show who changed what, and what was refused."),
    "store": Verb("waypost.cli.store:app", "Verify, back up, restore and salvage the store."),
    "status": Verb("waypost.cli.status:status", "Show the status of the queue manager."),
    "explain": Verb("waypost.cli.status:explain", "Explain why a message is not delivered or received."),
    "doctor": Verb("waypost.cli.status:doctor", "Check the queue manager for problems."),
    "open": Verb("waypost.cli.access:open_", "Print a link that opens the status page in a browser."),
    "token": Verb("waypost.cli.access:token", "Print the token of the daemon."),
    "demo": Verb("waypost.cli.demo:demo", "Run a demo with two queue managers, which takes about a minute."),
    "bench": Verb("waypost.cli.bench:bench", "Measure the throughput of the queue manager."),
    "serve": Verb("waypost.cli.serve:serve", "Run a queue manager in the foreground."),
    "decode": Verb("waypost.cli.decode:decode", "Show the MSMQ packets in captures and files, field by field."),
    "spark": Verb("waypost.cli.spark:app", "Audit, archive and search whole queues with Spark."),
    "sim": Verb("waypost.cli.sim:sim", "Simulate queue managers with crashes and check their guarantees."),
}


class Verbs(TyperGroup):
    """A group with commands that are loaded later. The entries of its help are placeholders for them."""

    verbs: ClassVar[Mapping[str, Verb]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, verb in self.verbs.items():
            self.add_command(TyperCommand(name, short_help=verb.help, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = cast("tuple[str, Any, list[str]]", super().resolve_command(ctx, args))
        if name in self.verbs:
            command = self.verbs[name].load(name)
        return name, command, rest


class Waypost(Verbs, Program):
    """The program with these commands."""

    verbs: ClassVar = VERBS

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.params += program_options()
