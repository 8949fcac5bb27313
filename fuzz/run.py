"""Fuzz the decoders: `python fuzz/run.py [--seconds N] [--target NAME ...] [--keep]`.

The seconds are shared by the targets, as many at a time as there are processors. New inputs stay in
build/fuzz, where the next campaign continues. Input that breaks a promise is printed, shortened and kept in
fuzz/findings; the exit code is 1 then.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz import corpus
from fuzz.targets import TARGETS

FINDINGS: Final = corpus.ROOT / "fuzz/findings"

PROGRESS_SECONDS: Final = 10
MAX_INPUT: Final = 4096
MAX_SECONDS_OF_ONE_INPUT: Final = 10
MAX_MEGABYTES: Final = 1024

# Output of libFuzzer: its state after a number of executions, their number at the end, and the place of a finding.
STATE: Final = re.compile(r"#(\d+)\s.* cov: (\d+) .* corp: (\d+)/")
EXECUTIONS: Final = re.compile(r"stat::number_of_executed_units: (\d+)")
FINDING: Final = re.compile(r"Test unit written to (.+)")


@dataclass(slots=True)
class Outcome:
    """One target after its time. A worker that dies without a finding is broken, which is a failure too."""

    target: str
    executions: int = 0
    coverage: int = 0
    corpus_size: int = 0
    seconds: float = 0.0
    findings: list[Path] = field(default_factory=list)
    is_broken: bool = False
    log: list[str] = field(default_factory=list)

    @property
    def progress(self) -> str:
        return f"{self.executions:>9} runs  coverage {self.coverage:>4}  corpus {self.corpus_size:>4}"

    def read(self, line: str) -> None:
        if state := STATE.match(line):
            self.executions, self.coverage, self.corpus_size = map(int, state.groups())
        elif executions := EXECUTIONS.match(line):
            self.executions = int(executions[1])
        elif finding := FINDING.search(line):
            self.findings.append(Path(finding[1]))
        else:
            self.log.append(line)


def fuzz(seconds: int, name: str) -> Outcome:
    """Run one target in a separate process and report its progress."""
    found, findings = corpus.FOUND / name, FINDINGS / name
    corpus.write(found, corpus.known(name))
    findings.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "fuzz.worker", name, str(found)),
        f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT}",
        f"-timeout={MAX_SECONDS_OF_ONE_INPUT}",
        f"-rss_limit_mb={MAX_MEGABYTES}",
        f"-artifact_prefix={findings}/",
        "-print_final_stats=1",
    ]
    outcome = Outcome(name)
    started = told = time.monotonic()
    with subprocess.Popen(
        command, cwd=corpus.ROOT, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            outcome.read(line.rstrip())
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{name:<20} {outcome.progress}", flush=True)
    outcome.seconds = time.monotonic() - started
    outcome.is_broken = worker.returncode != 0 and not outcome.findings
    print(f"{name:<20} {outcome.progress}  done in {outcome.seconds:.0f} s", flush=True)
    return outcome


def explain(outcome: Outcome) -> None:
    """Prints what is wrong with the target, and the input that shows it, as short as it can be made."""
    print(f"\n{outcome.target}: " + ("the worker failed" if outcome.is_broken else "a promise is broken"))
    if outcome.is_broken:
        print("\n".join(outcome.log[-20:]))
    target = TARGETS[outcome.target]
    for path in outcome.findings:
        data = path.read_bytes()
        # An input that takes too long or too much memory is not run again.
        if path.name.startswith("crash-"):
            data = shortened(target, data)
            path.write_bytes(data)
            traceback.print_exception(failure(target, data), file=sys.stdout)
        print(f"{path.relative_to(corpus.ROOT)}, {len(data)} bytes:\n{data.hex()}")


def shortened(target: Callable[[bytes], None], data: bytes) -> bytes:
    """The input without all runs of bytes that it does not need to fail at the same place."""
    places = places_of(failure(target, data))
    size = len(data) // 2 if places else 0
    while size:
        at = 0
        while at < len(data):
            without = data[:at] + data[at + size :]
            if places_of(failure(target, without)) == places:
                data = without
            else:
                at += size
        size //= 2
    return data


def failure(target: Callable[[bytes], None], data: bytes) -> Exception | None:
    try:
        target(data)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return error
    return None


def places_of(error: BaseException | None) -> list[tuple[type, int]]:
    """The error and those that it followed, each with the line that raised it."""
    places = []
    while error is not None:
        places.append((type(error), traceback.extract_tb(error.__traceback__)[-1].lineno or 0))
        error = error.__context__
    return places


def print_table(outcomes: list[Outcome]) -> None:
    print(f"\n{'target':<20} {'executions':>11} {'seconds':>8} {'coverage':>9} {'corpus':>7} {'findings':>9}")
    for item in outcomes:
        findings = "broken" if item.is_broken else str(len(item.findings))
        numbers = f"{item.executions:>11} {item.seconds:>8.1f} {item.coverage:>9} {item.corpus_size:>7}"
        print(f"{item.target:<20} {numbers} {findings:>9}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the decoders.")
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "300")), help="in all")
    parser.add_argument("--target", action="append", choices=TARGETS, help="this one only; may be repeated")
    parser.add_argument("--keep", action="store_true", help="add the best new inputs to fuzz/corpus")
    options = parser.parse_args()
    names: list[str] = options.target or list(TARGETS)
    at_once = min(os.cpu_count() or 1, len(names))
    with ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(partial(fuzz, max(options.seconds * at_once // len(names), 1)), names))
    failed = [outcome for outcome in outcomes if outcome.findings or outcome.is_broken]
    for outcome in failed:
        explain(outcome)
    print_table(outcomes)
    for outcome in outcomes if options.keep else ():
        if outcome not in failed:
            print(f"{outcome.target:<20} {corpus.keep(outcome.target, TARGETS[outcome.target])} inputs kept")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
