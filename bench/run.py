"""Measure the codec: `python bench/run.py [--rounds N] [--quick]`.

Work that bench/baseline.py also does is measured side by side: in each round the two run one after the other for two
milliseconds, each first in turn, and the ratio is the median of the ratios of the rounds, which a busy machine disturbs
least. The other figures are medians too. Time is processor time, and the garbage collector is on, as it is in
operation. The table is printed, and build/bench.json has the same figures.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import process_time
from timeit import Timer
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import baseline, record
from tests.wire.vectors import frame
from waypost.wire import FormatName, Splitter, UserMessage, decode_packet
from waypost.wire.base_header import BaseHeader

ROUNDS: Final = 301
QUICK_ROUNDS: Final = 31
SECONDS_OF_ONE_TIMING: Final = 0.002

MOST_DECODE: Final = 1.3
MOST_ENCODE: Final = 1.5
LEAST_PACKETS: Final = 150_000

PACKETS_IN_STREAM: Final = 500
FORMAT_NAMES: Final = (
    r"DIRECT=OS:server.example.com\PRIVATE$\orders",
    r"DIRECT=TCP:192.0.2.17\invoices;retry",
    "PUBLIC=9f3c1a52-7d4e-4b60-8a11-2c5d6e7f8091",
    r"PRIVATE=9f3c1a52-7d4e-4b60-8a11-2c5d6e7f8091\0000001f;JOURNAL",
)

# Any: each row has its own kind of argument.
Call = Callable[[Any], object]


@dataclass(slots=True)
class Row:
    """`ours(argument)`, and `theirs(argument)` of the baseline, which handles `amount` of `unit`.

    The target is a ratio that is not to be exceeded if there is a baseline, else a rate to be exceeded.
    """

    what: str
    ours: Call
    theirs: Call | None
    argument: object
    amount: float = 1
    unit: str = "packets"
    target: float | None = None
    our_seconds: list[float] = field(default_factory=list)
    their_seconds: list[float] = field(default_factory=list)

    def figures(self) -> "Figures":
        ours = median(self.our_seconds) / self.amount
        theirs = ratio = None
        if self.their_seconds:
            theirs = median(self.their_seconds) / self.amount
            ratio = median(our / their for our, their in zip(self.our_seconds, self.their_seconds, strict=True))
        return Figures(
            self.what, ours * 1e6, theirs and theirs * 1e6, ratio, 1 / ours, self.unit, self.target
        )  # fmt: skip


@dataclass(slots=True)
class Figures:
    """Microseconds for one of `unit`, and how many of them a second holds."""

    what: str
    ours_us: float
    baseline_us: float | None
    ratio: float | None
    per_second: float
    unit: str
    target: float | None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        if self.ratio is None:
            return f"at least {self.target:,.0f}/s: {'met' if self.per_second >= self.target else 'MISSED'}"
        return f"at most {self.target:.2f}: {'met' if self.ratio <= self.target else 'MISSED'}"


def rows() -> list[Row]:
    big, small, long = frame(7), with_body(b"twenty bytes of body"), with_body(bytes(0x0010_0000))
    result = [
        Row(f"decode {len(data):,} bytes", decode_packet, baseline.decode, data, target=MOST_DECODE)
        for data in (big, small)
    ]
    result += [
        Row(f"encode {len(data):,} bytes", UserMessage.encode, baseline.encode, same_message(data), target=MOST_ENCODE)
        for data in (big, small)
    ]
    stream = small * PACKETS_IN_STREAM
    result += [
        Row("split", split, None, stream, PACKETS_IN_STREAM),
        Row("split, BaseHeader.decode", split_to_headers, None, stream, PACKETS_IN_STREAM, target=LEAST_PACKETS),
        Row("split, decode_packet", split_to_packets, None, stream, PACKETS_IN_STREAM, target=LEAST_PACKETS),
        Row("decode a body of 1 MiB", decode_packet, baseline.decode, long, len(long) / 1e6, "MB"),
        Row("encode a body of 1 MiB", UserMessage.encode, baseline.encode, same_message(long), len(long) / 1e6, "MB"),
    ]
    names = [FormatName.parse(text) for text in FORMAT_NAMES]
    result += [
        Row("parse format names", parse_names, None, FORMAT_NAMES, len(names), "names"),
        Row("print format names", print_names, None, names, len(names), "names"),
    ]
    return result


def with_body(body: bytes) -> bytes:
    """Frame 7 of MS-MQQB 4.1 with another body and without its SecurityHeader."""
    message = UserMessage.decode(frame(7))
    message.security = None
    message.properties.message_body = body
    return message.encode()


def same_message(data: bytes) -> UserMessage:
    """The message that `data` is to both sides, which both make `data` again."""
    message = baseline.decode(data)
    if message != decode_packet(data) or not data == baseline.encode(message) == message.encode():
        raise SystemExit("the baseline does not do what the package does")
    return message


def split(stream: bytes) -> None:
    Splitter().feed(stream)


def split_to_headers(stream: bytes) -> None:
    for packet in Splitter().feed(stream):
        BaseHeader.decode(packet, 0)


def split_to_packets(stream: bytes) -> None:
    for packet in Splitter().feed(stream):
        decode_packet(packet)


def parse_names(texts: Iterable[str]) -> None:
    for text in texts:
        FormatName.parse(text)


def print_names(names: Iterable[FormatName]) -> None:
    for name in names:
        str(name)


def measure(all_rows: list[Row], rounds: int) -> None:
    plans = []
    for row in all_rows:
        ours = _timer(row.ours, row.argument)
        theirs = _timer(row.theirs, row.argument) if row.theirs else None
        calls, seconds = ours.autorange()
        plans.append((row, ours, theirs, max(1, int(calls * SECONDS_OF_ONE_TIMING / seconds))))
    for number in range(rounds):
        for row, ours, theirs, calls in plans:
            timings = [(ours, row.our_seconds)]
            if theirs is not None:
                timings.insert(number % 2, (theirs, row.their_seconds))
            for timer, seconds_of in timings:
                seconds_of.append(timer.timeit(calls) / calls)


def _timer(call: Call, argument: object) -> Timer:
    # Timer switches the garbage collector off before it runs the set-up.
    return Timer("call(argument)", gc.enable, process_time, {"call": call, "argument": argument})


def table(figures: list[Figures]) -> str:
    lines = [f"{'':26}{'ours µs':>10}{'baseline µs':>13}{'ratio':>8}{'per second':>20}  target"]
    for row in figures:
        theirs = "" if row.baseline_us is None else f"{row.baseline_us:,.2f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        rate = f"{row.per_second:,.0f} {row.unit:7}"
        lines.append(f"{row.what:26}{row.ours_us:10,.2f}{theirs:>13}{ratio:>8}{rate:>20}  {row.verdict}".rstrip())
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the codec against a hand-written baseline.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"number of measurements of each row ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, for a first look")
    arguments = parser.parse_args()
    rounds = QUICK_ROUNDS if arguments.quick else max(1, arguments.rounds)
    all_rows = rows()
    measure(all_rows, rounds)
    figures = [row.figures() for row in all_rows]
    setting = {**record.setting(), "rounds": rounds, "gc": "on"}
    record.keep({**setting, "rows": [asdict(row) for row in figures]})
    print(table(figures))
    print(f"Medians of {rounds} rounds, Python {setting['python']} on one {setting['machine']} core, gc on.")


if __name__ == "__main__":
    main()
