"""Measure packets to Arrow columns: `python bench/arrow_decode.py [--rounds N] [--quick]`.

Batches have 10,000 messages with a body of 1 KiB, in equal parts express, recoverable with a sender, transactional, and
with queues for acknowledgments and answers. Time is processor time of one core, and a rate is that of the best round.
The table is printed, and build/bench.json has the same figures.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from waypost.arrow import schema
from waypost.arrow.decoder import decode
from waypost.arrow.packets import OnMalformed, Packets
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from waypost.wire.security_header import SecurityHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import DM_SHIFT, UserHeader
from waypost.wire.user_message import UserMessage

ROUNDS: Final = 31
QUICK_ROUNDS: Final = 5
ROWS: Final = 10_000
LEAST: Final = 500_000

BODY: Final = b'<?xml version="1.0"?><order>' + b"<line>12</line>" * 64 + b"</order>".ljust(36)
SID: Final = bytes.fromhex("010500000000000515000000") + bytes(range(16))
MESSAGE: Final = [field.name for field in schema.MESSAGE]


@dataclass(slots=True)
class Figures:
    what: str
    rows_per_second: float
    least: float | None = None

    @property
    def verdict(self) -> str:
        if self.least is None:
            return ""
        return f"at least {self.least:,.0f}/s: {'met' if self.rows_per_second >= self.least else 'MISSED'}"


def message(number: int) -> UserMessage:
    user = UserHeader(b"source queue man", message_id=number, sent_time=1_700_000_000 + number // 100)
    user.destination_queue = DirectQueueFormatName(f"OS:server.example.com\\PRIVATE$\\orders{number % 10}")
    made = UserMessage(user=user, properties=MessagePropertiesHeader(label=f"order {number}", message_body=BODY))
    kind = number % 4
    if kind:
        user.flags |= 1 << DM_SHIFT
    if kind == 1:
        made.security = SecurityHeader(1, SID)
    elif kind == 2:
        made.transaction = TransactionHeader(number << 4, 1 << 40, number, number - 1)
    elif kind == 3:
        user.admin_queue = PrivateQueueFormatNameId(9)
        user.response_queue = DirectQueueFormatName("OS:client.example.com\\PRIVATE$\\answers")
        made.properties.correlation_id = number.to_bytes(20, "little")
    return made


def best(call: Callable[[], object], rounds: int) -> float:
    """Rows per second."""
    seconds = []
    for _ in range(rounds):
        start = process_time()
        call()
        seconds.append(process_time() - start)
    return ROWS / min(seconds)


def measure(rounds: int) -> list[Figures]:
    each = [message(number).encode() for number in range(ROWS)]
    packets = Packets.of(each)

    def columns(*names: str) -> Callable[[], object]:
        return lambda: decode(packets, names, on_malformed=OnMalformed.FAIL)

    return [
        Figures("all columns of a message", best(columns(*MESSAGE), rounds), LEAST),
        Figures("and the text of the body", best(columns(*schema.ALL.names), rounds)),
        Figures("body", best(columns("body"), rounds)),
        Figures("label and time", best(columns("label", "sent_time"), rounds)),
        Figures("packet", best(columns("packet"), rounds)),
        Figures("the codec of waypost.wire", best(lambda: [UserMessage.decode(packet) for packet in each], rounds)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    options = parser.parse_args()
    figures = measure(QUICK_ROUNDS if options.quick else options.rounds)
    for each in figures:
        print(f"{each.what:30}{each.rows_per_second:15,.0f} rows/s   {each.verdict}".rstrip())
    record.keep({"arrow_decode": {**record.setting(), "figures": [asdict(each) for each in figures]}})


if __name__ == "__main__":
    main()
