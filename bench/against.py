"""Measure this checkout against another commit: `make bench AGAINST=COMMIT`, or `python bench/against.py COMMIT`.

An environment under build/against has what both commits depend on, and both sides run in it, each from its own source:
two environments that differ in anything else give other rates for the same code. Each side is
a process (bench/side.py) with separate daemons, and they take turns: A B B A in every round, so that a drift of the
machine favours neither. Every round has new processes: one that has its memory in an unlucky place stays slow. The
ratio of a round is what this checkout does to what the commit does; above 1 is faster.

First this checkout is measured against itself, which says how far apart two equal sides come out: the spread of a row
is the interquartile range of those ratios. A row fails if its median ratio is below 0.95 and below 1 minus twice its
spread. A row with a spread above 0.2 is not measured: the machine is too restless for it. The exit code is 1 if a row
fails. The table is printed, and build/bench.json has the same figures.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record, side

ROOT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 7
LEAST_RATIO: Final = 0.95
MOST_SPREAD: Final = 0.2
PLACE: Final = ROOT / "build/against"
ADDRESSES: Final = ("127.0.93.1", "127.0.94.1")


@dataclass(frozen=True, slots=True)
class Program:
    """An interpreter, and the folder in which it finds Waypost."""

    python: str
    source: str


@dataclass(slots=True)
class Figures:
    """Rates are medians of this checkout and of the commit, per second."""

    row: str
    ours: float
    theirs: float
    ratio: float
    spread: float

    @property
    def verdict(self) -> str:
        if self.spread > MOST_SPREAD:
            return "not measured"
        if self.ratio < min(LEAST_RATIO, 1 - 2 * self.spread):
            return "FAILED"
        return "as fast" if self.ratio < 1 + 2 * self.spread else "faster"


class Running:
    """One side while it runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process: Final = process
        self.read()

    def read(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a side ended with {self._process.wait()}")
        answer: dict[str, float] = json.loads(line)
        return answer

    def warm_up(self, row: str) -> None:
        self.rate(f"{side.WARM_UP} {row}")

    def rate(self, row: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(row + "\n")
        self._process.stdin.flush()
        return self.read()["rate"]


@contextmanager
def running(program: Program, address: str) -> Iterator[Running]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYPOST_")}
    environment["PYTHONPATH"] = program.source
    PLACE.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [program.python, str(ROOT / "bench/side.py"), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=PLACE,
        text=True,
    )
    try:
        yield Running(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def installed(commit: str) -> tuple[str, Program, Program]:
    """The commit's full name, this checkout and the commit, in one environment that has what both need."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run(
        [*git, "rev-parse", "--verify", f"{commit}^{{commit}}"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    folder = PLACE / name
    source = folder / "source"
    python = folder / "environment/bin/python"
    needs = folder / "installed"
    ours = (ROOT / "pyproject.toml").read_text()
    if not needs.exists() or needs.read_text() != ours:
        print(f"Installing what {name[:12]} and this checkout need into build/against (once) ...", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        source.mkdir(parents=True)
        archive = subprocess.run([*git, "archive", name], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
        venv.create(folder / "environment", with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, str(source)], check=True)
        subprocess.run([*pip, str(ROOT)], check=True)
        needs.write_text(ours)
    return name, Program(str(python), str(ROOT / "src")), Program(str(python), str(source / "src"))


def measure(
    ours: Program, theirs: Program, rows: Sequence[str], rounds: int, what: str
) -> dict[str, list[list[float]]]:
    """For each row the rates of all rounds: ours, and theirs."""
    rates: dict[str, list[list[float]]] = {row: [[], []] for row in rows}
    for number in range(rounds):
        print(f"\r{what}: round {number + 1} of {rounds} ", end="", file=sys.stderr, flush=True)
        with running(ours, ADDRESSES[0]) as a, running(theirs, ADDRESSES[1]) as b:
            for row in rows:
                # The first time finds cold caches and empty files, and does not count.
                a.warm_up(row)
                b.warm_up(row)
                first, one, other, last = a.rate(row), b.rate(row), b.rate(row), a.rate(row)
                rates[row][0].append((first + last) / 2)
                rates[row][1].append((one + other) / 2)
    print(file=sys.stderr)
    return rates


def ratios(rates: list[list[float]]) -> list[float]:
    return [our / their for our, their in zip(*rates, strict=True)]


def spread(values: list[float]) -> float:
    first, _, third = quantiles(values, n=4, method="inclusive")
    return third - first


def table(rows: Sequence[Figures], name: str) -> str:
    lines = [f"{'per second':34}{'checkout':>12}{name[:10]:>12}{'ratio':>8}{'spread':>8}  verdict"]
    lines += [
        f"{row.row:34}{row.ours:>12,.0f}{row.theirs:>12,.0f}{row.ratio:>8.2f}{row.spread:>8.2f}  {row.verdict}"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure this checkout against another commit.")
    parser.add_argument("commit", help="the other commit, as git names it")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each measurement (default: %(default)s)")
    parser.add_argument("--row", action="append", choices=list(side.ROWS), help="measure this row only; repeatable")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds must be at least 2")
    rows = arguments.row or list(side.ROWS)
    name, ours, theirs = installed(arguments.commit)
    same = measure(ours, ours, rows, arguments.rounds, "this checkout against itself")
    rates = measure(ours, theirs, rows, arguments.rounds, f"against {name[:12]}")
    figures = [
        Figures(
            row, median(rates[row][0]), median(rates[row][1]), median(ratios(rates[row])), spread(ratios(same[row]))
        )
        for row in rows
    ]
    print(table(figures, name))
    record.keep(
        {"against": {"commit": name, "setting": record.setting(), "rows": [asdict(row) for row in figures]}}
    )  # fmt: skip
    failed = [row.row for row in figures if row.verdict == "FAILED"]
    if failed:
        print(f"slower than {name[:12]}: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
