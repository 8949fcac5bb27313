"""A real data folder to damage, and what is in it."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import waypost
from tests.forks import run
from waypost.store import keys
from waypost.store.page_file import PageFile
from waypost.store.pages import BIG, Node, run_length
from waypost.store.walk import FREE, Walker

QUEUES = ("orders", "invoices", "large", "expiring")
ELSEWHERE = "DIRECT=OS:elsewhere\\private$\\parts"

# The label of every message, by the name of its queue.
Inventory = dict[str, list[str]]


def make_folder(folder: Path, messages: int = 300, seed: int = 1) -> None:
    """Queues of several kinds, some messages of each, and free pages with messages that were received."""
    chance = Random(seed)
    with waypost.open(folder, name="here") as manager:
        for name in QUEUES:
            manager.create_queue(name, transactional=name == "invoices", journal=name == "orders")
        orders, invoices, large, expiring = map(manager.queue, QUEUES)
        for number in range(messages):
            orders.send(chance.randbytes(chance.randrange(1500)), label=f"order {number}", priority=number % 8)
        with manager.transaction() as transaction:
            for number in range(messages // 3):
                invoices.send(b"i" * 300, label=f"invoice {number}", transaction=transaction)
        for number in range(messages // 10):
            large.send(chance.randbytes(chance.randrange(3000, 90_000)), label=f"large {number}")
        for number in range(messages // 5):
            expiring.send(b"e", label=f"expiring {number}", time_to_be_received=1_000_000)
            manager.send(ELSEWHERE, b"p" * 700, label=f"part {number}")
        for number in range(messages // 4):
            orders.receive(timeout=0)
            if number % 3 == 0:
                large.receive(timeout=0) if number < messages // 20 else expiring.receive(timeout=0)


def inventory(folder: Path) -> Inventory:
    """Open the folder in this process, and look at everything."""
    found: Inventory = {}
    with waypost.open(folder, name="here") as manager:
        for queue in [*manager.queues(), *manager.outgoing_queues()]:
            names = [queue, manager.queue(f"{queue.name};journal")] if queue.name == "orders" else [queue]
            for each in names:
                labels = sorted(message.label for message in each.browse())
                if labels:
                    found[each.name] = labels
    return found


@dataclass(slots=True)
class Look:
    """The result of another process: the inventory, or the sentence of the error, or the signal that ended it."""

    labels: Inventory = field(default_factory=dict)
    error: str = ""
    signal: int = 0


def look(folder: Path) -> Look:
    """The same in another process, which LMDB may end."""
    done = run("tests.damage.looking", str(folder), timeout=120)
    if done.returncode < 0:
        return Look(signal=-done.returncode)
    return Look(**json.loads(done.stdout.splitlines()[-1])) if done.stdout else Look(error=done.stderr, signal=999)


@dataclass(slots=True)
class Anatomy:
    """The content of each page of an intact file."""

    page_size: int
    count: int
    # Pages that are in use, and for each that holds messages, the keys of these.
    used: list[int]
    messages: dict[int, set[bytes]]
    free: list[int]
    tables: dict[str, list[int]]
    roots: dict[str, int]


def anatomy(folder: Path) -> Anatomy:
    with PageFile(folder / "data.mdb") as file:
        messages: dict[int, set[bytes]] = defaultdict(set)
        tables: dict[str, list[int]] = defaultdict(list)

        def visit(name: str, number: int, page: bytes, nodes: list[Node]) -> None:
            tables[name].append(number)
            for node in nodes if name == "messages" else ():
                messages[number].add(node.key)
                if node.flags & BIG:
                    for part in range(node.at, node.at + run_length(node.size, file.page_size)):
                        messages[part].add(node.key)

        meta = file.newest
        assert meta is not None
        walked = Walker(file, meta, visit=visit).walk()
        assert not walked.damage
        assert not walked.unused
        free = [number for number, kind in enumerate(walked.pages) if kind == FREE]
        used = [number for number, kind in enumerate(walked.pages) if kind != FREE]
        roots = {name: database.root for name, database in walked.tables.items()}
        return Anatomy(file.page_size, file.count, used, dict(messages), free, dict(tables), roots)


def stored_keys(folder: Path) -> set[bytes]:
    """The keys of all messages in a folder that is whole."""
    return {key for found in anatomy(folder).messages.values() for key in found}


def lookup_ids(found: set[bytes]) -> Iterator[tuple[int, int]]:
    for key in found:
        yield keys.queue_id_of(key), keys.lookup_id_of(key)
