"""`waypost demo`: the product in about a minute, with two real queue managers on this computer."""

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec.structs import replace

from waypost.api.properties import MessageProperties
from waypost.cli.daemon import Json, connect
from waypost.cli.demo_spark import Stage, missing_part, spark_act
from waypost.cli.program import Failure, Output
from waypost.cli.program_options import Target
from waypost.cli.tables import write_json
from waypost.errors import WaypostError

if TYPE_CHECKING:
    from waypost import Manager

START_TIMEOUT: Final = 20.0
WAIT: Final = 20.0

# Nobody is at the last of these addresses.
HERE, THERE, NOWHERE = "127.0.0.2", "127.0.0.3", "127.0.0.4"


def demo(
    context: typer.Context,
    *,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save the Spark report in this folder (default: do not save it).",
            show_default=False,
        ),
    ] = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not create the Spark report.")] = False,
    as_json: Json = False,
) -> None:
    """Run two queue managers on this computer, and show how they exchange messages.

    The demo shows a transaction, an acknowledgment, a dead-letter message, and a message that waits until a stopped
    queue manager starts again. If Spark is installed, a Spark report then shows the outcome of all sent messages.
    Otherwise, the last line of the output shows the command that installs Spark. At the end, the demo deletes all its
    files, except the report that --report saves.

    \b
    waypost demo
    waypost demo --report demo-report
    waypost demo --no-spark
    """
    if no_spark and report is not None:
        raise typer.BadParameter("--report and --no-spark are mutually exclusive", param_hint="--report")
    missing = None if no_spark else missing_part()
    if missing is not None and report is not None:
        raise Failure(f"The report requires Spark: {missing.reason}.", f"`{missing.command}` installs it.")
    out, sentences = Output(), list[str]()
    tell = sentences.append if as_json else _narrator(out)
    folder = Path(tempfile.mkdtemp(prefix="waypost-demo-"))
    try:
        ports = _Ports(_free_port(), _free_port(socket.SOCK_DGRAM))
        alpha = _Site("ALPHA", HERE, folder / "alpha", ports)
        beta = _Site("BETA", THERE, folder / "beta", ports)
        with ExitStack() as stack:
            stage = _show(tell, stack, alpha, beta)
            if not no_spark and missing is None:
                spark_act(context, tell, stage, report)
                tell("")
            tell("The demo is complete. `waypost serve` starts a queue manager that keeps its messages.")
            if missing is not None:
                tell(f"The demo has a fourth part, a Spark report, but {missing.reason}. This command installs Spark:")
                tell(f"  {missing.command}")
        if as_json:
            write_json(out, {"sentences": [sentence.strip() for sentence in sentences if sentence]})
            out.flush()
    except WaypostError as error:
        raise Failure(
            f"The demo failed: {error}.",
            "run `waypost serve` to check whether a queue manager can start on this computer.",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Ports:
    """Where both listen, each on its own address. Not the standard ports: they may have a queue manager already."""

    transfer: int
    ping: int


@dataclass(frozen=True, slots=True)
class _Site:
    """One queue manager."""

    name: str
    address: str
    folder: Path
    ports: _Ports

    def queue(self, name: str) -> str:
        """The name of a queue of this queue manager for the other one."""
        return f"DIRECT=TCP:{self.address}\\private$\\{name}"

    @contextmanager
    def running(self) -> Iterator["Manager"]:
        # Settings of another queue manager of this computer are not for this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYPOST_")}
        process = subprocess.Popen(
            self._command(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            with connect(Target(f"http://{self._ready(process)}")) as manager:
                yield manager
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(START_TIMEOUT)
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _command(self) -> list[str]:
        settings = {
            "store.path": self.folder,
            "names.computer": self.name,
            "transfer.bind": self.address,
            "transfer.port": self.ports.transfer,
            "transfer.peer_port": self.ports.transfer,
            "transfer.ping_port": self.ports.ping,
            "transfer.peer_ping_port": self.ports.ping,
            "transfer.retry_connect_s": 0.5,
            "http.port": 0,
        }
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        # -P: what lies in the working directory is not to be imported.
        return [sys.executable, "-P", "-m", "waypost.cli", "serve", *options]

    def _ready(self, process: "subprocess.Popen[str]") -> str:
        """The address of its HTTP API, once it says that it is ready."""
        assert process.stdout is not None
        is_there, _, _ = select.select([process.stdout], [], [], START_TIMEOUT)
        line = process.stdout.readline() if is_there else ""
        if not line:
            raise Failure(
                f"The queue manager {self.name} did not start on {self.address}.",
                f"`waypost serve --bind {self.address} --data /tmp/waypost-try` shows the reason.",
            )
        return str(json.loads(line)["http"])


def _show(tell: Callable[[str], None], stack: ExitStack, alpha: _Site, beta: _Site) -> Stage:
    """The acts without Spark. Both are up in the end, and go down with the stack."""
    tell(f"Two queue managers: {alpha.name} on {alpha.address} and {beta.name} on {beta.address}.")
    with beta.running() as there:
        there.create_queue("orders")
        there.create_queue("ledger", transactional=True)
        tell(
            f"{beta.name} is up and has two queues: orders, and the transactional queue ledger. Now {beta.name} stops."
        )
    here = stack.enter_context(alpha.running())
    acks = here.create_queue("acks")
    asked = MessageProperties(acknowledge="full-receive", admin_queue=alpha.queue("acks"), journal=True)
    tell("")
    tell(f"1. {alpha.name} sends an order to {beta.name}, which is stopped, and requests acknowledgments.")
    order = here.queue(beta.queue("orders")).send_record("42 bolts", replace(asked, label="order"))
    tell(f"   Message {order.id} is stored on the disk of {alpha.name}. Why is it not delivered?")
    time.sleep(1)
    for sentence in _explain(here, order.id):
        tell(f"     {sentence}")
    there = stack.enter_context(beta.running())
    received = there.queue("orders").receive(WAIT)
    tell(f"   {beta.name} starts and receives {received.text!r} with the label {received.label!r}.")
    answer = acks.peek(WAIT)
    tell(f"   {alpha.name} gets an acknowledgment: {answer.class_meaning}.")
    tell("")
    tell("2. Two transactions: the first sends two messages and commits, the second sends one message and aborts.")
    ledger = here.queue(beta.queue("ledger"))
    with here.transaction() as transaction:
        ledger.send_record("debit 100", asked, transaction)
        ledger.send_record("credit 100", asked, transaction)
    regretted = here.transaction()
    ledger.send_record("debit 1000000", asked, regretted)
    regretted.abort()
    arrived = there.queue("ledger")
    texts = [arrived.receive(WAIT).text for _ in range(2)]
    assert arrived.info().message_count == 0
    tell(f"   {beta.name} receives {texts[0]!r} and {texts[1]!r}, exactly once and in order, and nothing else.")
    tell("")
    tell(f"3. A message for {NOWHERE}, where no queue manager runs. The message must arrive within two seconds.")
    nowhere = f"DIRECT=TCP:{NOWHERE}\\private$\\orders"
    doomed = replace(asked, time_to_reach_queue=2, dead_letter=True)
    lost = here.queue(nowhere).send_record("anybody there?", doomed)
    dead = here.queue("system$;deadletter").peek(WAIT)
    assert dead.id == lost.id
    tell(f"   The message is now a dead-letter message in system$;deadletter of {alpha.name}: {dead.class_meaning}.")
    tell("")
    # Three messages were delivered, and one was not.
    return Stage(here, there, alpha.queue, beta.queue, delivered=3, answered=4)


def _explain(manager: "Manager", identifier: str) -> list[str]:
    return list(manager.explain(identifier).sentences)


def _narrator(out: Output) -> Callable[[str], None]:
    def tell(line: str) -> None:
        out.write(f"{line}\n")
        out.flush()

    return tell


def _free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """One that is free on every address of this computer."""
    with closing(socket.socket(socket.AF_INET, kind)) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
