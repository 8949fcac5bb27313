"""Memory and the time of a start with very many incoming transactional sequences.

    python -m bench.sequences --count 1000000

The records are written as the queue manager writes them, and a separate process opens the folder: once with none of
them, once with all. Then one source in a thousand goes on, which reads its record.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import waypost
from waypost.node.incoming_store import address_bytes, write_incoming
from waypost.store import keys
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Table
from waypost.store.sequence_records import AddressRecord
from waypost.transfer.incoming import IncomingSequences
from waypost.wire.transaction_header import TransactionHeader

_BATCH: Final = 10_000
_ADDRESSES: Final = 1000

_OPEN: Final = """
import json, sys, time
from pathlib import Path
import waypost
import waypost.client.opening
from waypost.wire.transaction_header import TransactionHeader

def memory():
    text = Path("/proc/self/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) * 1024

folder, count, now = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
before, began = memory(), time.perf_counter()
manager = waypost.open(folder, name="HOST")
started, opened = time.perf_counter() - began, memory()
node = manager._transport.driver.node
queue = manager.queue("t")
number = next(each.number for each in node.manager.queues.values() if each.pathname.queue == "t")
incoming, step, began = node.sequences.incoming, max(count // 100_000, 1), time.perf_counter()
found = 0
for each in range(0, count, step):
    key = each.to_bytes(24, "big"), number
    sequences = incoming.find(key)
    assert sequences is not None
    header = TransactionHeader(0, now << 32 | 1, 2, 1)
    assert sequences.judge(next(iter(sequences.places)), header, float(now)).is_taken
    found += 1
looked = time.perf_counter() - began
print(json.dumps({"start_s": started, "start_mb": (opened - before) / 1e6, "looked_at": found,
                  "look_us": looked / max(found, 1) * 1e6, "after_mb": (memory() - before) / 1e6}))
manager.close()
"""


def fill(folder: Path, count: int, now: int) -> float:
    """One message each, from a thousand addresses. Returns the seconds that it takes."""
    with waypost.open(folder, name="HOST") as manager:
        manager.create_queue("t", transactional=True)
        node = manager._transport.driver.node  # type: ignore[attr-defined]  # noqa: SLF001, the only way to the number of a queue
        number = next(each.number for each in node.manager.queues.values() if each.pathname.queue == "t")
    began = time.perf_counter()
    store = LmdbStore(folder)
    header = TransactionHeader(0, now << 32 | 1, 1, 0)
    for start in range(0, count, _BATCH):
        batch = Batch()
        for each in range(start, min(start + _BATCH, count)):
            sequences = IncomingSequences()
            sequences.take(f"10.0.{each % _ADDRESSES >> 8}.{each % _ADDRESSES & 255}", header, float(now))
            write_incoming(batch, (each.to_bytes(24, "big"), number), sequences)
        store.commit(batch, start + 1)
    batch = Batch()
    for each in range(min(_ADDRESSES, count)):
        address = address_bytes(f"10.0.{each >> 8}.{each & 255}")
        record = AddressRecord(count // _ADDRESSES, count // _ADDRESSES)
        batch.put(Table.SEQUENCES, keys.sequence_address_key(number, address), record.encode())
    store.commit(batch, count + 1)
    store.close()
    return time.perf_counter() - began


def measure(folder: Path, count: int, now: int) -> dict[str, float]:
    command = [sys.executable, "-c", _OPEN, str(folder), str(count), str(now)]
    result: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="sequences (default: 1000000)")
    parser.add_argument("--rounds", type=int, default=3, help="starts that are measured (default: 3)")
    options = parser.parse_args()
    now = int(time.time())
    with tempfile.TemporaryDirectory() as place:
        empty, full = Path(place) / "empty", Path(place) / "full"
        fill(empty, 0, now)
        seconds = fill(full, options.count, now)
        size = (full / "data.mdb").stat().st_size
        print(f"{options.count} sequences: written in {seconds:.1f} s, {size / max(options.count, 1):.0f} bytes each")
        for name, folder, count in (("none", empty, 0), ("all", full, options.count)):
            rounds = [measure(folder, count, now) for _ in range(options.rounds)]
            median = {key: sorted(each[key] for each in rounds)[len(rounds) // 2] for key in rounds[0]}
            print(
                f"{name}: start {median['start_s'] * 1000:.0f} ms, {median['start_mb']:.1f} MB anonymous; "
                f"then {median['looked_at']:.0f} read, {median['look_us']:.1f} us each, {median['after_mb']:.1f} MB"
            )


if __name__ == "__main__":
    main()
