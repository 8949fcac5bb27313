"""Consumers that read a daemon's queues from afar until they are killed, and report what they do.

    python -m tests.crash.remote_consumer ADDRESS FOLDER

One holds a message or several for a moment, receives most of them, gives some back, and forgets others, which its end
gives back. It reports that it has a message before it ends the receive, and that the receive has ended when the daemon
has said so; tests/crash/remote_history.py reads the lines. A line is one write: the kernel keeps what a process that is
killed has written.

The process forks one consumer for each name that it reads, and kills it when it reads the name again; it answers both
with an empty line. The file of a consumer is in the folder. At the end of standard input all are killed.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from itertools import count
from pathlib import Path
from typing import Final

from tests.crash.bodies import parse
from tests.crash.remote_reader import RemoteReader, body_of
from waypost.errors import ProtocolError
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import RemoteReadAck
from waypost.rpc.faults import RpcFault
from waypost.wire.ndr import ContextHandle

# By its name, whether it is transactional, and read with the methods for transactions: in none, as a daemon has it.
SHARED: Final = {"orders": False, "deeds": True}
# Only one reader at a time has this one.
ALONE: Final = "alone"

_REST_SECONDS: Final = 0.02
_TIMEOUTS_MS: Final = (0, 20, 1000)
_HOLD_SECONDS: Final = (0.0, 0.0, 0.002, 0.03)
_MOST_HELD: Final = 3
_MOST_READS: Final = 30


class Diary:
    """The lines of one consumer. Times are those of the monotonic clock, which all processes share."""

    def __init__(self, path: Path) -> None:
        self._file: Final = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(self, **line: object) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


class Consumer:
    """`name` is unique among all that ever ran."""

    def __init__(self, name: str, address: str, diary: Diary) -> None:
        self._name: Final = name
        self._address: Final = address
        self._diary: Final = diary
        self._dice: Final = random.Random(name)
        self._numbers: Final = count(1)

    def once(self) -> None:
        """One connection, from its beginning to one of its ends."""
        dice = self._dice
        reader = RemoteReader(self._address)
        try:
            if dice.randrange(4) == 0:
                self._read_alone(reader)
            handles = {queue: self._open(reader, queue) for queue in SHARED}
            for _ in range(dice.randrange(_MOST_READS)):
                queue = dice.choice(list(SHARED))
                self.read(reader, queue, handles[queue], dice.choice(_TIMEOUTS_MS))
            if dice.randrange(2):
                for handle in handles.values():
                    reader.close_queue(handle)
        finally:
            dice.choice((reader.close, reader.abort))()

    def drain(self, queue: str) -> None:
        """Receive all that is there and that nobody has."""
        with RemoteReader(self._address) as reader:
            handle = self._open(reader, queue)
            while self._take(reader, queue, handle, 1, 0, acks=1.0):
                pass

    def read(self, reader: RemoteReader, queue: str, handle: ContextHandle, timeout_ms: int) -> int:
        amount = self._dice.choice((1, 1, 1, _MOST_HELD))
        return self._take(reader, queue, handle, amount, timeout_ms, acks=0.8)

    def _take(
        self, reader: RemoteReader, queue: str, handle: ContextHandle, amount: int, timeout_ms: int, *, acks: float
    ) -> int:  # fmt: skip
        """Begin so many receives and end most of them, in any order. Returns how many messages came."""
        dice, diary = self._dice, self._diary
        is_transactional = SHARED.get(queue, False)
        started = time.monotonic_ns()
        begun = [reader.start(handle, timeout_ms, NULL_GUID if is_transactional else b"") for _ in range(amount)]
        held = []
        for request_id, call_id in begun:
            reply = reader.result(call_id)
            if reply.hresult == HResult.MQ_ERROR_IO_TIMEOUT:
                continue
            body = parse(body_of(reply).decode("utf-16-le"))
            read = f"{self._name}/{next(self._numbers)}"
            diary.tell(took=read, queue=queue, message=body.name, begun=started, at=time.monotonic_ns())
            held.append((request_id, read))
        time.sleep(dice.choice(_HOLD_SECONDS) if acks < 1 else 0)
        dice.shuffle(held)
        end = reader.end_transactional if is_transactional else reader.end
        for request_id, read in held:
            is_received = dice.random() < acks
            if not is_received and dice.randrange(3) == 0:
                # The end of the handle or of the connection gives it back.
                continue
            diary.tell(ending=read, received=is_received, at=time.monotonic_ns())
            status = end(handle, request_id, RemoteReadAck.RR_ACK if is_received else RemoteReadAck.RR_NACK)
            assert status == HResult.MQ_OK, f"{read} does not end: {status:#x}"
            diary.tell(ended=read)
        return len(held)

    def _open(self, reader: RemoteReader, queue: str) -> ContextHandle:
        return reader.open(rf"DIRECT=TCP:{self._address}\private$\{queue}", exclusive=queue == ALONE)

    def _read_alone(self, reader: RemoteReader) -> None:
        """If nobody else reads that queue."""
        try:
            handle = self._open(reader, ALONE)
        except RpcFault as fault:
            assert fault.status == HResult.MQ_ERROR_SHARING_VIOLATION
            return
        alone = f"{self._name}/alone{next(self._numbers)}"
        self._diary.tell(alone=alone, at=time.monotonic_ns())
        for _ in range(self._dice.randrange(8)):
            at = time.monotonic_ns()
            self.read(reader, ALONE, handle, 20)
            self._diary.tell(still=alone, at=at)
        at = time.monotonic_ns()
        reader.close_queue(handle)
        self._diary.tell(still=alone, at=at)


def consume(name: str, address: str, diary: Diary) -> None:
    """The main function of a process until it is killed. A daemon that is not there is looked for again."""
    try:
        consumer = Consumer(name, address, diary)
        while True:
            try:
                consumer.once()
            except RpcFault:
                raise
            except (OSError, ProtocolError):
                time.sleep(_REST_SECONDS)
    except BaseException:  # noqa: BLE001, whatever it is, the campaign has to hear of it
        diary.tell(error=traceback.format_exc()[-3000:])


def main() -> None:
    address, folder = sys.argv[1:]
    running: dict[str, int] = {}
    try:
        for line in sys.stdin:
            name = line.strip()
            if name in running:
                kill(running.pop(name))
            else:
                running[name] = os.fork()
                if not running[name]:
                    consume(name, address, Diary(Path(folder) / f"{name}.jsonl"))
                    os._exit(1)
            print(flush=True)
    finally:
        for process in running.values():
            kill(process)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


if __name__ == "__main__":
    main()
