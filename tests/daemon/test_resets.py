"""A reset of an outgoing queue with many messages, in a daemon that is killed between two parts of it."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import waypost
from tests.crash.daemons import SECONDS, SHORT_TIMERS, Daemon, loopback, patience
from tests.daemon.test_full_disk import until
from waypost.errors import ResetUnderWay, WaypostError
from waypost.limits import RENUMBERED_PART

MESSAGES = 40 * RENUMBERED_PART


def kill_during_a_reset(daemon: Daemon, queue: str) -> tuple[str, object]:
    """The refusal of a second reset meanwhile, and when the sequence before it began.

    A reset that was over before anybody saw it is begun again.
    """
    with ThreadPoolExecutor(1) as pool, daemon.connect() as first, daemon.connect() as second:
        # Beside busy processes, a daemon may do all parts of a reset before this one has its turn.
        with patience(10 * SECONDS, "a reset is seen under way") as turns:
            for _ in turns:
                before = began(second, queue)
                asked: Future[object] = pool.submit(first.reset_sequences, queue=queue)
                while not asked.done():
                    try:
                        second.reset_sequences(queue=queue, trial=True)
                    except ResetUnderWay as error:
                        daemon.kill()
                        with pytest.raises(WaypostError):
                            asked.result(SECONDS)
                        return str(error), before
                asked.result()
        raise AssertionError


def began(manager: waypost.Manager, queue: str) -> object:
    (sequence,) = manager.sequences(direction="out", queue=queue)
    return sequence.time_stamp


def is_begun_again(daemon: Daemon, queue: str, before: object) -> bool:
    """When no reset is under way: whether the sequence is another one."""
    with daemon.connect() as manager:

        def is_over() -> bool:
            try:
                manager.reset_sequences(queue=queue, trial=True)
            except ResetUnderWay:
                return False
            return True

        until("no reset is under way", is_over)
        return began(manager, queue) != before


def test_a_reset_that_a_kill_interrupts_is_done_after_the_start_and_every_message_arrives_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        settings = *SHORT_TIMERS, "rpc.enabled=false"
        alpha = stack.enter_context(Daemon(tmp_path, "alpha", loopback(1), *settings))
        beta = stack.enter_context(Daemon(tmp_path, "beta", loopback(2), *settings))
        queue = beta.direct("orders")
        beta.start()
        with beta.connect() as there:
            there.create_queue("orders", transactional=True)
        beta.kill()
        alpha.start()
        with alpha.connect() as here:
            for at in range(0, MESSAGES, 1000):
                with here.transaction() as transaction:
                    bodies = [b"%d" % number for number in range(at, at + 1000)]
                    here.queue(queue).send_many(bodies, transaction=transaction)
            before = began(here, queue)
        with patience(20 * SECONDS, "a kill comes when the store has the reset") as turns:
            for _ in turns:
                told, latest = kill_during_a_reset(alpha, queue)
                assert "is being reset: " in told
                assert told.endswith("of its messages have new numbers")
                done = alpha.log.count("sequence reset")
                alpha.start()
                if is_begun_again(alpha, queue, latest):
                    break
        until("the log has the reset", lambda: alpha.log.count("sequence reset") == done + 1)
        with alpha.connect() as here:
            assert began(here, queue) > before  # type: ignore[operator]
            with here.transaction() as transaction:
                here.queue(queue).send("last", transaction=transaction)
        beta.start()
        with beta.connect() as there:
            orders = there.queue("orders")
            until("all arrive", lambda: orders.info().message_count == MESSAGES + 1)
            found: list[bytes] = []
            while len(found) <= MESSAGES:
                with there.transaction() as transaction:
                    found += [each.body for each in orders.receive_many(1000, 0, transaction=transaction)]
        assert found == [*(b"%d" % number for number in range(MESSAGES)), "last".encode("utf-16-le")]
