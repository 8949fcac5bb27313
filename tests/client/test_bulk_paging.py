"""Frame after frame of a range, with and without reading ahead."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from threading import Event
from typing import TypeAlias

import pytest

from waypost.api.bulk import ReadRange
from waypost.api.claims import ReadClaim
from waypost.api.frames import Frame
from waypost.client.bulk.paging import frames, frames_ahead
from waypost.errors import QueueDeleted
from waypost.guid import guid_text

EPOCH = bytes(range(16))
NOTHING = memoryview(b"")

Paging: TypeAlias = Callable[[Callable[[ReadRange], Frame], ReadRange], Iterator[Frame]]


def frame(end: int, *, count: int = 1, is_last: bool = False) -> Frame:
    return Frame(NOTHING, count, end, EPOCH, is_last, NOTHING, NOTHING, NOTHING, NOTHING)


@pytest.fixture(params=[frames, frames_ahead])
def paging(request: pytest.FixtureRequest) -> Paging:
    found: Paging = request.param
    return found


def test_each_request_begins_where_the_last_frame_ended_in_the_same_queue(paging: Paging) -> None:
    asked = []

    def read(wanted: ReadRange) -> Frame:
        asked.append((wanted.after, wanted.up_to, wanted.epoch))
        return frame(wanted.after + 10, is_last=wanted.after == 20)

    found = list(paging(read, ReadRange(name="orders", after=0, up_to=99)))
    assert [each.end for each in found] == [10, 20, 30]
    assert asked == [(0, 99, ""), (10, 99, guid_text(EPOCH)), (20, 99, guid_text(EPOCH))]


def test_a_part_of_a_claim_is_counted_from_its_start() -> None:
    asked = []

    def read(wanted: ReadClaim) -> Frame:
        asked.append((wanted.start, wanted.stop))
        return frame(wanted.start + 2, is_last=wanted.start == 2)

    assert len(list(frames_ahead(read, ReadClaim(name="orders", claim="c", number=1, start=0, stop=4)))) == 2
    assert asked == [(0, 4), (2, 4)]


def test_frames_without_messages_are_passed_over(paging: Paging) -> None:
    answers = iter([frame(5, count=0), frame(9), frame(9, count=0, is_last=True)])
    assert [each.end for each in paging(lambda _: next(answers), ReadRange(name="orders", after=0, up_to=9))] == [9]


def test_an_error_comes_behind_the_frames_that_were_read_before_it(paging: Paging) -> None:
    def read(wanted: ReadRange) -> Frame:
        if wanted.after:
            raise QueueDeleted("the queue is another")
        return frame(1)

    found = paging(read, ReadRange(name="orders", after=0, up_to=9))
    assert next(found).end == 1
    with pytest.raises(QueueDeleted, match="the queue is another"):
        next(found)


def test_the_next_frame_is_read_while_the_caller_has_the_last_and_no_other() -> None:
    asked = []
    is_read = Event()

    def read(wanted: ReadRange) -> Frame:
        asked.append(wanted.after)
        if wanted.after == 1:
            is_read.set()
        return frame(wanted.after + 1)

    found = frames_ahead(read, ReadRange(name="orders", after=0, up_to=9))
    assert next(found).end == 1
    assert is_read.wait(60)
    found.close()
    assert asked == [0, 1]


def test_who_has_enough_does_not_wait_for_a_frame_that_does_not_come() -> None:
    comes = Event()

    def read(wanted: ReadRange) -> Frame:
        if wanted.after:
            comes.wait()
        return frame(wanted.after + 1)

    found = frames_ahead(read, ReadRange(name="orders", after=0, up_to=9))
    assert next(found).end == 1
    found.close()
    assert list(found) == []
    comes.set()


def test_a_thread_reads_on_when_the_main_thread_has_ended() -> None:
    script = """
import threading, time
from waypost.api.frames import Frame
from waypost.client.bulk.paging import frames_ahead
from waypost.api.bulk import ReadRange

def read(wanted):
    time.sleep(0.05)
    return Frame(b"", 1, wanted.after + 1, bytes(16), wanted.after == 9, b"", b"", b"", b"")

def work():
    print(sum(each.count for each in frames_ahead(read, ReadRange(name="orders", after=0, up_to=99))))

threading.Thread(target=work).start()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("10\n", "")
