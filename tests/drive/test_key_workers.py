"""Workers for RSA keys: a process that ends is replaced, and bytes of strangers always get an answer."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from waypost.drive.keys import rsa_work
from waypost.drive.keys.workers import NICENESS, Workers
from waypost.errors import ServiceNotAvailable
from waypost.security.work import CheckedSignature, CheckSignature, Generate, SignDigests, UnwrapKeys
from waypost.wire.algorithms import HashAlgorithm


class Panic(BaseException):
    """As a panic of a library in Rust."""


@pytest.fixture
def workers() -> Iterator[Workers]:
    found = Workers(1, processes=True)
    yield found
    found.close()


def process_of(workers: Workers) -> int:
    """The process behind the only worker."""
    (process,) = workers.processes
    return process


def test_a_process_that_was_killed_is_replaced(workers: Workers) -> None:
    key = workers.call(Generate(1024))
    first = process_of(workers)
    os.kill(first, signal.SIGKILL)
    (signature,) = workers.call(SignDigests(key, HashAlgorithm.SHA_256, (bytes(32),)))
    assert len(signature) == 128
    assert process_of(workers) != first


def test_ctrl_c_on_a_terminal_leaves_the_process_alone(workers: Workers) -> None:
    key = workers.call(Generate(1024))
    first = process_of(workers)
    os.kill(first, signal.SIGINT)
    workers.call(SignDigests(key, HashAlgorithm.SHA_256, (bytes(32),)))
    assert process_of(workers) == first


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="the platform has no nice values")
def test_a_process_leaves_the_processors_to_the_program_that_started_it(workers: Workers) -> None:
    workers.call(Generate(1024))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, process_of(workers)) == min(own + NICENESS, 19)


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch, workers: Workers) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(ServiceNotAvailable, match="the process for key operations failed"):
        workers.call(Generate(1024))


@pytest.mark.parametrize("error", [RuntimeError("odd"), Panic("odd")])
def test_bytes_of_strangers_always_get_an_answer(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(_work: Any) -> Any:
        raise error

    for kind in (CheckSignature, UnwrapKeys, Generate):
        monkeypatch.setitem(rsa_work._WORK, kind, fail)
    checked = rsa_work.perform(CheckSignature(b"certificate", b"signature", 0x800E, (bytes(64),)))
    assert checked == CheckedSignature(-1, "the signature could not be checked: odd")
    assert rsa_work.perform(UnwrapKeys((b"key",), (b"1", b"2"), (16,))) == [[], []]
    with pytest.raises(type(error)):
        rsa_work.perform(Generate(1024))
