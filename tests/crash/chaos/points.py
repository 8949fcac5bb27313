"""Fail points of the chaos campaign, and the plan of a round: which process dies where.

The campaign writes the plan into a folder. The processes of Spark look there at every fail point (`Plot.reach`): one
process takes a step of the plan, kills the victim, and writes down the hit. A step whose victim is dead already is not
a hit, and can be taken again.
"""

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

# Names the folder of the plan to the processes of Spark.
VARIABLE: Final = "WAYPOST_CHAOS"
_EXECUTOR: Final = b"CoarseGrainedExecutorBackend"


class Point(StrEnum):
    """Moments in the life of a batch, in their order."""

    # The source has chosen the messages; the offset log does not have them.
    OFFSET = "before the offset log"
    OFFSET_LOG = "after the offset log"
    READ = "in a read"
    STAGE = "before a stage"
    # The daemon has the stage, and the task does not know it.
    STAGE_ANSWER = "after a stage"
    # All messages of a task are staged, and the driver does not know it.
    PREPARE = "after prepare"
    SINK_COMMIT = "before the sink commit"
    # The daemon has committed the batch, and the sink does not know it.
    COMMIT_ANSWER = "in the sink commit"
    # The sink has committed; neither the commit log of a stream nor the program of a batch knows it.
    COMMIT_LOG = "before the commit log"
    # The batch is in the commit log, and its messages are still in the source.
    SETTLE = "after the commit log"
    # Between the two writes of a foreachBatch.
    BETWEEN = "between two writes"
    # Between the write of a batch and the removal of its messages from the source.
    PURGE = "before the purge"
    # No place in a program: the campaign kills at some moment.
    ANYTIME = "at any time"


class Victim(StrEnum):
    """The process that is killed. JVM: that of the driver, while the driver itself lives on for a moment."""

    WORKER = "worker"
    DRIVER = "driver"
    DAEMON = "daemon"
    JVM = "JVM"
    # The JVM of an executor of a cluster: that of the task, or another one if this process is none.
    EXECUTOR = "executor"
    # The process of a cluster that starts executors.
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Step:
    point: Point
    victim: Victim

    def __str__(self) -> str:
        return f"{self.victim} {self.point}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A step whose victim was killed, at a `time` in seconds since 1970."""

    round: int
    step: int
    point: Point
    victim: Victim
    time: float


class Plot:
    """The folder of the plan, of the hits, and of the numbers of the processes that may be victims."""

    def __init__(self, place: Path) -> None:
        self.place: Final = place

    # --- The campaign

    def arm(self, number: int, steps: Sequence[Step]) -> None:
        """From now on the steps are taken, each once."""
        whole = {"round": number, "steps": [asdict(step) for step in steps]}
        draft = self.place / "plan.draft"
        draft.write_text(json.dumps(whole), encoding="utf-8")
        draft.rename(self._plan)

    def disarm(self) -> None:
        self._plan.unlink(missing_ok=True)

    def name(self, victim: Victim, process: int) -> None:
        """Name the process that is the victim."""
        draft = self.place / f"{victim}.draft"
        draft.write_text(str(process), encoding="ascii")
        draft.rename(self.place / f"{victim}.pid")

    def hits(self) -> list[Hit]:
        if not self._hits.exists():
            return []
        found = (json.loads(line) for line in self._hits.read_text(encoding="utf-8").splitlines())
        return [Hit(**each | {"point": Point(each["point"]), "victim": Victim(each["victim"])}) for each in found]

    # --- The victims

    def reach(self, point: Point) -> Victim | None:
        """This process is at a fail point. Returns the victim if another process was killed here, otherwise None."""
        try:
            plan = json.loads(self._plan.read_bytes())
        except FileNotFoundError:
            return None
        for number, each in enumerate(plan["steps"]):
            step = Step(Point(each["point"]), Victim(each["victim"]))
            if step.point is not point:
                continue
            # A worker does not outlive its executor, and goes no step further than its driver.
            is_doomed = step.victim in (Victim.DRIVER, Victim.JVM) or (
                step.victim is Victim.EXECUTOR and _jvm_of(os.getpid()) in self.executors()
            )
            if self.strike(plan["round"], number, step):
                if is_doomed:
                    os.kill(os.getpid(), signal.SIGKILL)
                return step.victim
        return None

    def strike(self, number: int, index: int, step: Step) -> bool:
        """Kill the victim of a step of a round. False if the step is taken, or if the process is missing now."""
        taken = self.place / f"taken-{number}-{index}-{step.victim}"
        try:
            os.close(os.open(taken, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        process = self._target(step.victim)
        if process is None or not _is_alive(process):
            taken.unlink()
            return False
        hit = Hit(number, index, step.point, step.victim, time.time())
        if process == os.getpid():
            # It certainly dies, and writes nothing afterwards.
            self._write(hit)
            if step.victim is Victim.DRIVER:
                os.killpg(process, signal.SIGKILL)
            os.kill(process, signal.SIGKILL)
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            taken.unlink()
            return False
        self._write(hit)
        if step.victim is Victim.DRIVER:
            # Its group has its JVM too, and perhaps this process.
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        return True

    def taken(self, *victims: Victim) -> int:
        """The number of steps with such a victim that were taken. The hit of the last one may not be written yet."""
        return sum(1 for victim in victims for _ in self.place.glob(f"taken-*-{victim}"))

    def _write(self, hit: Hit) -> None:
        with self._hits.open("ab", buffering=0) as file:
            file.write(json.dumps(asdict(hit)).encode() + b"\n")

    def _target(self, victim: Victim) -> int | None:
        """The process that is the victim."""
        if victim is Victim.WORKER:
            return os.getpid()
        if victim is not Victim.EXECUTOR:
            return int((self.place / f"{victim}.pid").read_text(encoding="ascii"))
        executors, own = self.executors(), _jvm_of(os.getpid())
        return own if own in executors else next(iter(executors), None)

    def executors(self) -> list[int]:
        """The executors of the cluster that takes part in this plot."""
        return [process for process in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_executor(process)]

    def _is_executor(self, process: int) -> bool:
        place = Path(f"/proc/{process}")
        try:
            return _EXECUTOR in (place / "cmdline").read_bytes() and f"{VARIABLE}={self.place}".encode() in (
                place / "environ"
            ).read_bytes().split(b"\0")
        except OSError:
            # It has ended, or belongs to another user.
            return False

    @property
    def _plan(self) -> Path:
        return self.place / "plan.json"

    @property
    def _hits(self) -> Path:
        return self.place / "hits.jsonl"


def plot_here() -> Plot | None:
    """The plot that this process takes part in."""
    place = os.environ.get(VARIABLE)
    return None if place is None else Plot(Path(place))


def _is_alive(process: int) -> bool:
    """False for a process that has ended, even if its parent has not waited for it: signals still reach that one."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _jvm_of(process: int) -> int | None:
    """The nearest Java above a process."""
    while process > 1:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        if status.partition("Name:")[2].split()[0] == "java":
            return process
        process = int(status.partition("PPid:")[2].split()[0])
    return None
