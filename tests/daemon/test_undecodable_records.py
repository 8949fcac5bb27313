"""Records that are whole and do not decode, as a bug or another version may write them (ADR 30).

A message is set aside like a damaged one, and the rest goes on. Anything else that a start reads is named with its
table and key, and the start ends with the exit code that says that another one will not help.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import waypost
from tests.crash.daemons import SECONDS, Daemon, loopback
from tests.damage.folders import ELSEWHERE
from tests.forks import run
from waypost.cli.program import DAMAGED
from waypost.errors import StoreDamaged, StoreTooNew
from waypost.store import keys
from waypost.store.descriptions import describe
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Table
from waypost.store.records import MessageRecord

# Whole by their checksums: half a record, a format that is not known, a packet that is none, and half a packet.
VALUES: dict[str, Callable[[bytes], bytes]] = {
    "half a record": lambda value: value[:7],
    "an unknown format": lambda value: b"\x63" + value[1:],
    "no packet": lambda _: MessageRecord(b"no packet").encode(),
    "half a packet": lambda value: value[: len(value) * 2 // 3],
    "a wrong label": lambda value: value.replace("<3>".encode("utf-16-le"), b"<\0\0\0>\0"),
}


def rewrite(folder: Path, table: Table, key: bytes, change: Callable[[bytes], bytes]) -> None:
    """Write another value under a key, with the checksum that fits."""
    store = LmdbStore(folder)
    value = store.get(table, key)
    assert value is not None
    changed = change(value)
    assert changed != value
    batch = Batch()
    batch.put(table, key, changed)
    store.commit(batch, 1)
    store.close()


def command(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    return run("waypost.cli", "--url", daemon.url, *words, timeout=SECONDS)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """With five messages in `orders`, and five that wait for a host that does not exist."""
    with Daemon(tmp_path, "alpha", loopback(31)) as daemon:
        with waypost.open(daemon.folder, name="alpha") as manager:
            orders = manager.create_queue("orders", label="new orders")
            for number in range(5):
                orders.send("body", label=f"order <{number}>")
                manager.send(ELSEWHERE, "body", label=f"part <{number}>", recoverable=True)
        yield daemon


def message_keys(folder: Path) -> list[list[bytes]]:
    """Of the messages of each queue that has five, in their order."""
    store = LmdbStore(folder)
    found: dict[int, list[bytes]] = {}
    for key in store.keys(Table.MESSAGES):
        found.setdefault(keys.queue_id_of(key), []).append(key)
    store.close()
    return [each for each in found.values() if len(each) == 5]


@pytest.mark.parametrize("kind", VALUES)
def test_a_message_that_cannot_be_decoded_is_set_aside_and_named(daemon: Daemon, kind: str) -> None:
    victims = [each[3] for each in message_keys(daemon.folder)]
    assert len(victims) == 2
    for key in victims:
        rewrite(daemon.folder, Table.MESSAGES, key, VALUES[kind])
    daemon.start()
    with daemon.connect() as manager:
        orders = manager.queue("orders")
        others = [f"order <{number}>" for number in (0, 1, 2, 4)]
        assert [message.label for message in orders.browse()] == others
        assert (orders.info().message_count, orders.info().damaged_count) == (4, 1)
        assert [orders.receive(timeout=0).label for _ in others] == others
        (parts,) = manager.outgoing_queues()
        assert [message.label for message in parts.browse()] == [f"part <{number}>" for number in (0, 1, 2, 4)]
        orders.send("goes on")
        assert orders.receive(timeout=0).text == "goes on"
        damaged = manager.damaged_messages()
        assert {each.lookup_id for each in damaged} == {keys.lookup_id_of(key) for key in victims}
        assert all("cannot decode" in each.reason for each in damaged)
    lines = [json.loads(each) for each in daemon.log.splitlines() if '"message damaged"' in each]
    assert len(lines) == 2
    assert "Traceback" not in daemon.log
    assert "1 of alpha\\private$\\orders" in command(daemon, "doctor").stdout
    shown = json.loads(command(daemon, "store", "damaged", "--json").stdout)["messages"]
    assert {each["queue"] for each in shown} == {line["queue"] for line in lines}
    assert daemon.stop() == 0


GUID = bytes(range(16))
QUEUE = 1
# A key of each kind of record that a start reads.
RECORDS: dict[str, tuple[Table, bytes]] = {
    "queue": (Table.QUEUES, keys.queue_key(QUEUE)),
    "outgoing sequence": (Table.SEQUENCES, keys.outgoing_sequence_key(QUEUE)),
    "transaction": (Table.TRANSACTIONS, GUID),
    "duplicates": (Table.DUPLICATES, keys.duplicates_key(7)),
    "queue manager": (Table.COUNTERS, keys.QUEUE_MANAGER_KEY),
    "restored": (Table.COUNTERS, keys.RESTORED_KEY),
    "counter": (Table.COUNTERS, keys.Counter.SEQUENTIAL_ID.value),
    "totals": (Table.COUNTERS, keys.totals_key(QUEUE)),
    "met host": (Table.COUNTERS, keys.met_host_key("beta")),
    "destination": (Table.COUNTERS, keys.destination_range()[0] + GUID),
    "kept acknowledgment": (Table.COUNTERS, keys.kept_ack_range()[0] + GUID),
    "admitted address": (Table.COUNTERS, keys.admitted_range()[0] + GUID + b"127.0.0.1"),
    "position": (Table.POSITIONS, keys.message_key(QUEUE, 1)),
    "claim": (Table.BULK, keys.claim_key(QUEUE, "batch")),
}


DAMAGE = b"\x01\x02"
OF_ANOTHER_VERSION = b"\x63" + bytes(40)


def spoil(folder: Path, kind: str, value: bytes) -> str:
    """Write such a record. Returns the words for it."""
    table, key = RECORDS[kind]
    store = LmdbStore(folder)
    batch = Batch()
    batch.put(table, key, value)
    store.commit(batch, 1)
    store.close()
    return f"cannot decode {describe(table, key)} (table {table.name.lower()}, key {key.hex()}): "


@pytest.mark.parametrize("kind", [kind for kind in RECORDS if kind != "duplicates"])
@pytest.mark.parametrize("value", [DAMAGE, OF_ANOTHER_VERSION], ids=["damaged", "another version"])
def test_a_folder_with_a_record_that_cannot_be_decoded_is_refused_by_its_name(
    tmp_path: Path, kind: str, value: bytes
) -> None:
    with waypost.open(tmp_path / "data", name="alpha") as manager:
        manager.create_queue("orders").send("body")
    words = spoil(tmp_path / "data", kind, value)
    for _ in range(2):
        with pytest.raises(StoreTooNew if value is OF_ANOTHER_VERSION else StoreDamaged) as caught:
            waypost.open(tmp_path / "data", name="alpha")
        assert words in str(caught.value)


@pytest.mark.parametrize(("kind", "value"), [("queue", DAMAGE), ("duplicates", OF_ANOTHER_VERSION)])
def test_a_daemon_ends_with_the_code_for_damage_and_the_command_to_type(
    tmp_path: Path, kind: str, value: bytes
) -> None:
    with Daemon(tmp_path, "alpha", loopback(31)) as daemon:
        daemon.prepare()
        words = spoil(daemon.folder, kind, value)
        daemon.launch()
        assert daemon.await_end() == DAMAGED
        assert words in daemon.log
        assert "`waypost store salvage FOLDER NEW`" in daemon.log
        assert "Traceback" not in daemon.log
