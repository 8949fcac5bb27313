"""Acknowledged data survives a power failure, and a disk or a store that lies is found. `make power` does more."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.power import ptrace
from tests.power.campaign import ENDS, Campaign, quick_place
from tests.power.disk import Lie
from tests.power.embedded import Daemon, Embedded
from tests.power.log import Log, Mapped, Named, Told
from tests.power.restore import Restore
from tests.power.subject import Subject
from tests.power.transfer import Transfer
from tests.power.upgrade import Upgrade

pytestmark = pytest.mark.skipif(bool(ptrace.why_not()), reason=ptrace.why_not())

SEED = 1
# The most states of a disk that lies that are opened until one is broken; a few dozen are enough as a rule.
MANY = 400


@pytest.fixture(scope="module")
def quick() -> Iterator[Path]:
    with quick_place() as place:
        yield place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("power")


@pytest.fixture(scope="module")
def embedded(place: Path, quick: Path) -> Log:
    return recorded(Embedded(), place / "embedded", quick)


@pytest.fixture(scope="module")
def transfer(place: Path, quick: Path) -> Log:
    return recorded(Transfer(), place / "transfer", quick)


@pytest.fixture(scope="module")
def restores(quick: Path) -> Log:
    return recorded(Restore(), quick / "restores", quick, ["stop"])


def recorded(subject: Subject, place: Path, quick: Path, ends: Sequence[str] = ENDS) -> Log:
    campaign = Campaign(subject, place, quick, SEED)
    log = campaign.record(ends=ends)
    assert campaign.report.failures == []
    return log


def wrong(subject: Subject, log: Log, place: Path, quick: Path, lie: Lie = Lie.NONE, states: int = MANY) -> list[str]:
    campaign = Campaign(subject, place, quick, SEED)
    campaign.check(log, states, lie)
    assert campaign.report.broken or campaign.report.states == states
    return campaign.report.sentences()


def test_20_power_failures_while_a_folder_is_made_are_no_obstacle(embedded: Log, tmp_path: Path, quick: Path) -> None:
    first = next(at for at, entry in enumerate(embedded.entries) if isinstance(entry, Told))
    start = Log(embedded.before, embedded.entries[:first], embedded.folders)
    assert wrong(Embedded(), start, tmp_path, quick, states=20) == []


def test_50_power_failures_lose_nothing_and_repeat_nothing(embedded: Log, tmp_path: Path, quick: Path) -> None:
    assert wrong(Embedded(), embedded, tmp_path, quick, states=50) == []


def test_60_power_failures_lose_nothing_between_two_machines(transfer: Log, tmp_path: Path, quick: Path) -> None:
    assert wrong(Transfer(), transfer, tmp_path, quick, states=60) == []


def test_20_power_failures_of_a_daemon_lose_nothing_and_repeat_nothing(tmp_path: Path, quick: Path) -> None:
    log = recorded(Daemon(operations=3), quick / "daemon", quick, ["kill"])
    assert wrong(Daemon(), log, tmp_path, quick, states=20) == []


def test_20_power_failures_in_an_upgrade_leave_the_old_folder_or_the_new_one(tmp_path: Path, quick: Path) -> None:
    log = recorded(Upgrade(), quick / "upgrade", quick, ["kill"])
    assert wrong(Upgrade(), log, tmp_path, quick, states=20) == []


def test_30_power_failures_in_backups_and_restores_leave_whole_copies_or_none(
    restores: Log, tmp_path: Path, quick: Path
) -> None:
    assert wrong(Restore(), restores, tmp_path, quick, states=30) == []


def test_only_the_table_of_readers_changes_without_a_system_call(embedded: Log) -> None:
    """It is not state: LMDB makes a new one when nobody has the store open."""
    mapped = {entry.file for entry in embedded.entries if isinstance(entry, Mapped)}
    names = {
        name
        for entry in embedded.entries
        if isinstance(entry, Named)
        for (_, name), number in entry.names.items()
        if number in mapped
    }
    assert names == {"lock.mdb"}


def test_the_load_does_something(embedded: Log, transfer: Log) -> None:
    for log in (embedded, transfer):
        ended = [entry for entry in log.entries if isinstance(entry, Told) and '"end"' in entry.line]
        assert len(ended) > 50


@pytest.mark.parametrize("lie", [lie for lie in Lie if lie is not Lie.NONE])
def test_a_disk_that_lies_is_found(embedded: Log, tmp_path: Path, quick: Path, lie: Lie) -> None:
    assert wrong(Embedded(), embedded, tmp_path, quick, lie)


@pytest.mark.parametrize("lie", [Lie.FILE, Lie.SYNCHRONOUS])
def test_a_disk_that_lies_is_found_between_two_machines(transfer: Log, tmp_path: Path, quick: Path, lie: Lie) -> None:
    assert wrong(Transfer(), transfer, tmp_path, quick, lie)


@pytest.mark.parametrize("lie", [Lie.FILE, Lie.FOLDER])
def test_a_disk_that_lies_is_found_in_backups(restores: Log, tmp_path: Path, quick: Path, lie: Lie) -> None:
    assert wrong(Restore(), restores, tmp_path, quick, lie)


@pytest.mark.parametrize("mutant", ["sync", "metasync", "folder"])
def test_a_store_that_does_not_flush_is_found(tmp_path: Path, quick: Path, mutant: str) -> None:
    subject = Embedded(operations=4, mutant=mutant)
    log = recorded(subject, quick / mutant, quick, ["stop"])
    assert wrong(subject, log, tmp_path, quick)
