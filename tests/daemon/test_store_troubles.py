"""Every error of the disk is in the log, with the words of the operating system, also if the next attempt succeeds."""

import asyncio
import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import pytest

from tests.daemon.recording import until
from tests.daemon.running import Running, loopback, running
from waypost.errors import StoreError
from waypost.store.lmdb import LmdbStore

INPUT_OUTPUT = os.strerror(errno.EIO)


def told(daemon: Running) -> list[tuple[str, str]]:
    lines = map(json.loads, daemon.stream.getvalue().splitlines())
    return [(line["event"], line.get("reason", "")) for line in lines if line["event"].startswith("store ")]


@pytest.mark.parametrize("failures", [1, 3])
@pytest.mark.parametrize("is_quick", [False, True], ids=["submitted", "in the loop"])
def test_an_error_that_is_over_at_once_is_in_the_log_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, *, is_quick: bool
) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(41)) as alpha:
            orders = await alpha.manager.create_queue("orders")
            apply, left = LmdbStore._apply, [failures]

            def applied(store: LmdbStore, operations: Any, size: int) -> None:
                if left[0]:
                    left[0] -= 1
                    error = lmdb.Error(f"mdb_txn_commit: {INPUT_OUTPUT}")
                    setattr(error, "code", errno.EIO)  # noqa: B010, as LMDB does
                    raise error
                apply(store, operations, size)

            monkeypatch.setattr("waypost.store.lmdb._QUICK_SECONDS", 60.0 if is_quick else 0.0)
            monkeypatch.setattr(LmdbStore, "_apply", applied)
            # Its sender may hear that the disk fails, too.
            with suppress(StoreError):
                await orders.send("42 bolts")
            await until(lambda: ("store writes again", "") in told(alpha))
            first, second = told(alpha)
            assert first[0] == "store cannot write"
            assert INPUT_OUTPUT in first[1]
            assert second == ("store writes again", "")

    asyncio.run(work())
