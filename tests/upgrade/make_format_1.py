"""Make format-1.tar.gz: two data folders as the last Waypost whose records have no checksums leaves them.

`python -m tests.upgrade.make_format_1 FILE`, with that version. `alone` is a queue manager by itself with claims,
stages and a prepared transaction, `connected` one that sends to others and gets from them. `records.json` has every
record of both. The file stays as it is: a version that cannot read it has lost what people had.
"""

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.node.bulk_rig import BulkRig
from tests.node.hosts import Net
from tests.node.rig import IN_TX, TX, letter
from tests.node.test_believed_acks import NAT, P, admit, come_from, delivered, journaled, of
from tests.store.engines import LmdbEngine
from waypost.core.message_values import DeliveryGuarantee
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Reader, Table, after

FAR: Final = r"DIRECT=OS:far\private$\t"
Records = dict[str, dict[str, str]]


def alone(folder: Path) -> Records:
    rig = BulkRig(LmdbEngine(folder))
    rig.ledger()
    rig.create("orders;later")
    rig.modify("orders", journaling=True, label="What others want", quota=1000)
    for priority in (1, 7, 3):
        rig.done(rig.send(letter(f"priority {priority}", priority=priority)))
    rig.done(rig.send(letter("not kept", delivery_guarantee=DeliveryGuarantee.EXPRESS)))
    assert rig.message(rig.receive()).label == "priority 7"
    rig.done(rig.send(letter("expires", time_to_be_received=0x7000_0000)))
    rig.done(rig.send("for later"))
    moved = next(each for each in rig.contents() if each.label == "for later")
    rig.done(rig.move(moved.lookup_identifier, "orders;later"))
    rig.create("claimed")
    rig.send_all(["one", "two", "three"], "claimed")
    rig.claim(name="claimed", claim="reader", max_messages=2)
    rig.stage("staged", to="ledger")
    rig.commit_stages(rig.stage("committed", to="ledger", query="done"), to="ledger", query="done")
    rig.done(rig.begin())
    rig.done(rig.send("far 1", FAR, tx=TX))
    rig.done(rig.send("far 2", FAR, tx=TX))
    rig.done(rig.commit())
    rig.enlist()
    rig.done(rig.receive("ledger", IN_TX))
    rig.done(rig.send("prepared", "ledger", tx=TX))
    rig.prepare()
    rig.settle()
    found = records(rig.store)
    rig.engine.stop()
    return found


def connected(folder: Path) -> Records:
    net = Net()
    host = net.add("a")
    host.create("t", transactional=True)
    host.create("plain")
    peer = net.add_peer()
    first, _ = delivered(host, peer, "one", "two")
    come_from(NAT, peer, host, of(first, peer.guid))
    admit(host, bytes(range(16)), NAT)
    other = net.add_peer("other")
    other.connect(host)
    for number in range(1, 4):
        other.send(other.message(r"DIRECT=OS:a\private$\t", f"came {number}", tx=(1, number, number - 1)))
    other.send(other.message(r"DIRECT=OS:a\private$\plain", "came without a transaction"))
    net.part(host, peer)
    host.send_all(P, journaled("waits"), "and waits")
    net.settle()
    found = records(host.engine.store)
    with LmdbStore(folder) as store:
        batch = Batch()
        for table, items in found.items():
            for key, value in items.items():
                batch.put(Table[table], bytes.fromhex(key), bytes.fromhex(value))
        store.commit(batch, 1)
    return found


def records(reader: Reader) -> Records:
    """Every record, as hexadecimal text."""
    found: Records = {}
    for table in Table:
        items = found[table.name] = {}
        start = b""
        while page := reader.scan(table, start):
            items.update((key.hex(), value.hex()) for key, value in page)
            start = after(page[-1][0])
    return found


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        told = {"alone": alone(folder / "alone"), "connected": connected(folder / "connected")}
        (folder / "records.json").write_text(json.dumps(told), encoding="ascii")
        with tarfile.open(path, "w:gz") as archive:
            for each in sorted(folder.iterdir()):
                archive.add(each, each.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
