"""A daemon on a damaged folder: a sentence and a special exit code, and never a loop of crashes."""

import subprocess
from configparser import RawConfigParser
from pathlib import Path

import waypost
from tests.crash.daemons import Daemon, loopback
from tests.damage.folders import anatomy, make_folder
from tests.forks import run
from waypost.cli.program import DAMAGED
from waypost.store.page_file import PageFile

PACKAGING = Path(__file__).parents[2] / "packaging"


def destroy(folder: Path, page: int) -> None:
    with (folder / "data.mdb").open("r+b") as data:
        data.seek(page * 4096)
        data.write(b"\xff" * 4096)


def serve(folder: Path) -> subprocess.CompletedProcess[str]:
    """A start that is expected to come to an end."""
    return run(
        *("waypost.cli", "serve", "--data", str(folder), "--bind", loopback(7)),
        *("--transfer-port", "0", "--ping-port", "0", "--rpc-port", "0", "--qm2qm-port", "0", "--http-port", "0"),
    )


def test_after_kill_9_damage_is_a_sentence_with_the_command_to_type(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(6)) as daemon:
        make_folder(daemon.folder, 60)
        daemon.start()
        daemon.kill()
        page = anatomy(daemon.folder).roots["messages"]
        destroy(daemon.folder, page)
        for _ in range(2):
            done = serve(daemon.folder)
            assert done.returncode == DAMAGED
            assert f"page {page} of the table messages" in done.stderr
            assert f"`waypost store salvage {daemon.folder} NEW`" in done.stderr
            assert "Traceback" not in done.stderr
        salvaged = waypost.salvage(daemon.folder, tmp_path / "alpha-new")
        assert salvaged.missing == 0
        daemon.folder = tmp_path / "alpha-new"
        daemon.start()
        with daemon.connect() as manager:
            assert manager.queue("orders").receive(timeout=60).label.startswith("order")
        assert daemon.stop() == 0


def test_damage_that_came_while_it_was_down_ends_at_most_one_start_by_a_signal(tmp_path: Path) -> None:
    make_folder(tmp_path / "data", 60)
    destroy(tmp_path / "data", anatomy(tmp_path / "data").roots["messages"])
    codes = [serve(tmp_path / "data").returncode for _ in range(3)]
    assert codes[1:] == [DAMAGED, DAMAGED]


def test_the_log_says_that_the_store_is_looked_at(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(6)) as daemon:
        daemon.start()
        daemon.kill()
        daemon.start()
        assert daemon.stop() == 0
        assert daemon.log.count("looking at the store") == 1


def test_systemd_does_not_start_it_again() -> None:
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(PACKAGING / "waypost.service", encoding="utf-8")
    assert unit["Service"]["RestartPreventExitStatus"] == str(DAMAGED)


def test_a_start_that_cannot_write_because_of_damage_comes_to_an_end(tmp_path: Path) -> None:
    """The list of free pages is only read by the first write, after the store was opened."""
    make_folder(tmp_path / "data", 60)
    with PageFile(tmp_path / "data" / "data.mdb") as file:
        assert file.newest is not None
        root = file.newest.free.root
    destroy(tmp_path / "data", root)
    codes = [serve(tmp_path / "data").returncode for _ in range(3)]
    assert codes[1:] == [DAMAGED, DAMAGED]
