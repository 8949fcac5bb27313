"""`waypost store backup` and `waypost store restore`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import waypost
from tests.cli import desk as _desk
from tests.cli.desk import Desk
from waypost.cli import progress as reports
from waypost.client.backups import making
from waypost.client.backups.source import BackupLimits, BackupSource

desk = _desk.desk


def test_a_backup_and_what_is_made_of_it(desk: Desk, tmp_path: Path) -> None:
    desk.manager.create_queue("orders").send("42 bolts")
    made = desk.run("store", "backup", str(tmp_path / "backup"))
    assert (made.exit_code, made.stdout) == (0, "")
    assert f"{tmp_path}/backup contains a backup of HOST from 2" in made.stderr
    info = desk.json("store", "restore", str(tmp_path / "backup"), str(tmp_path / "copy"), "--new-identity")
    assert info["backup_guid"] == desk.manager.guid
    assert info["guid"] != info["backup_guid"]
    with waypost.open(tmp_path / "copy") as manager:
        assert manager.guid == info["guid"]
        assert manager.queue("orders").receive(0).text == "42 bolts"


def test_json_says_what_the_backup_is(desk: Desk, tmp_path: Path) -> None:
    info = desk.json("store", "backup", str(tmp_path / "backup"))
    assert info.keys() == {"name", "guid", "time", "about_bytes", "waypost", "format", "bytes"}
    assert (info["name"], info["guid"]) == ("HOST", desk.manager.guid)
    header = (tmp_path / "backup/waypost.backup").read_bytes()[:4096].decode().splitlines()
    assert header[0] == "Waypost backup"
    assert json.loads(header[1])["guid"] == desk.manager.guid


def test_somebody_who_watches_sees_how_far_it_is(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.manager.create_queue("orders").send_many([b"x" * 4000] * 1000)
    drawn: list[tuple[str, int, int]] = []

    @contextmanager
    def progress(verb: str, total: int) -> Iterator[Callable[[int], None]]:
        advanced: list[int] = []
        yield advanced.append
        drawn.append((verb, total, sum(advanced)))

    monkeypatch.setattr(reports, "progress", progress)
    desk.do("store", "backup", str(tmp_path / "backup"))
    desk.do("store", "restore", str(tmp_path / "backup"), str(tmp_path / "copy"), "--same-identity")
    assert [verb for verb, _, _ in drawn] == ["backing up (MB)", "restoring (MB)"]
    for _, total, advanced in drawn:
        assert total >= 4
        assert abs(advanced - total) <= 1


def test_a_backup_of_a_folder_keeps_the_reserve_of_the_configuration(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    kept: list[BackupLimits | None] = []

    def source(folder: Path, limits: BackupLimits | None = None) -> BackupSource:
        kept.append(limits)
        return BackupSource(folder, limits)

    monkeypatch.setattr(making, "BackupSource", source)
    with waypost.open(tmp_path / "folder") as manager:
        manager.create_queue("orders")
    config = tmp_path / "waypost.toml"
    config.write_text("[store]\nreserve_mb = 3\nmax_size_gb = 2\n", encoding="utf-8")
    command = "store", "backup", "--data", str(tmp_path / "folder")
    desk.do(*command, str(tmp_path / "first"), "--config", str(config))
    monkeypatch.setenv("WAYPOST_STORE_RESERVE_MB", "5")
    desk.do(*command, str(tmp_path / "second"))
    assert [(each.reserve, each.max_size) for each in kept if each is not None] == [
        (3 << 20, 2 << 30),
        (5 << 20, BackupLimits().max_size),
    ]
    config.write_text("[store]\nreserve_mbs = 3\n", encoding="utf-8")
    refused = desk.run(*command, str(tmp_path / "third"), "--config", str(config))
    assert (refused.exit_code, "reserve_mb" in refused.stderr) == (1, True)


def test_wrong_usage_is_said(desk: Desk, tmp_path: Path) -> None:
    result = desk.run("store", "backup", "-", "--json")
    assert result.exit_code == 2
    assert "--json is not possible when the backup goes to standard output; specify a folder." in result.stderr
    result = desk.run("store", "restore", str(tmp_path / "backup"), str(tmp_path / "copy"))
    assert result.exit_code == 2
    assert (
        "--same-identity if the original queue manager will never start again, otherwise --new-identity"
        in result.stderr
    )


def test_what_is_wrong_with_folders_is_said_with_a_hint(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    for arguments, sentence in (
        (("backup", str(tmp_path / "full")), "full is not empty; specify a new folder."),
        (("backup", str(tmp_path / "new"), "--data", str(tmp_path / "full")), "full does not contain a store."),
        (("restore", str(tmp_path / "full"), str(tmp_path / "new"), "--same-identity"), "the file"),
        (("restore", str(tmp_path / "full/file"), str(tmp_path / "new"), "--same-identity"), "its end is missing."),
    ):
        result = desk.run("store", *arguments)
        assert result.exit_code == 1, arguments
        assert sentence in result.stderr
        assert "\nhint: " in result.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "full"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("verify", "--data", "missing"), "/missing does not contain a store."),
        (("verify", "--data", "x" * 300), "xxx: File name too long."),
        (("verify", "--data", "file/data"), "/file/data does not contain a store."),
        (("salvage", "missing", "new"), "/missing does not contain a store."),
        (("salvage", "x" * 300, "new"), "xxx: File name too long."),
        (("salvage", "empty", "new"), "/empty contains nothing to salvage: no record of a store is intact."),
        (("salvage", "garbage", "new"), "/garbage contains nothing to salvage: no record of a store is intact."),
        (("salvage", "garbage", "x" * 300), "xxx: File name too long."),
        (("salvage", "garbage", "full"), "/full is not empty; specify a new folder."),
        (
            ("salvage", "garbage", "/"),
            "/ is a mount point, which a new folder cannot replace; specify a folder inside it.",
        ),
        (("backup", "new", "--data", "x" * 300), "xxx: File name too long."),
        (("backup", "new", "--data", "empty"), "/empty does not contain a store: its file data.mdb is empty."),
        (("backup", "x" * 300), f"Cannot use {{}}/{'x' * 300}: File name too long."),
        (("backup", "file"), "Cannot use {}/file: Not a directory."),
        (("restore", "missing", "new"), "Cannot read {}/missing: No such file or directory."),
        (("restore", "x" * 300, "new"), f"Cannot read {{}}/{'x' * 300}: File name too long."),
        (("restore", "file", "x" * 300), f"Cannot create {{}}/{'x' * 300}: File name too long."),
        (("restore", "file", "file"), "Cannot create {}/file: Not a directory."),
        (("restore", "file", "missing/new"), "Cannot create {}/missing/new: No such file or directory."),
        (("restore", "file", "full"), "/full is not empty; specify a new folder."),
        (
            ("restore", "file", "/"),
            "/ is a mount point, which a new folder cannot replace; specify a folder inside it.",
        ),
    ],
)
def test_wrong_folders_are_a_sentence_and_leave_nothing(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    for name, content in (("empty", b""), ("garbage", b"waypost" * 5000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.mdb").write_bytes(content)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    # As a person types it, in the folder where it is.
    monkeypatch.chdir(tmp_path)
    result = desk.run("store", *arguments, *(("--same-identity",) if arguments[0] == "restore" else ()))
    assert result.exit_code == 1, result
    assert isinstance(result.exception, SystemExit), result.exception
    told, hint = result.stderr.splitlines()
    assert sentence.format(tmp_path) in told
    assert told.startswith(("/", "Cannot use /", "Cannot read /", "Cannot create /"))
    assert hint.startswith("hint: ")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_restore_follows_a_link_to_an_empty_folder(desk: Desk, tmp_path: Path) -> None:
    desk.manager.create_queue("orders").send("42 bolts")
    desk.do("store", "backup", str(tmp_path / "backup"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    desk.do("store", "restore", str(tmp_path / "backup"), str(tmp_path / "link"), "--new-identity")
    assert (tmp_path / "link").is_symlink()
    with waypost.open(tmp_path / "empty") as manager:
        assert manager.queue("orders").receive(0).text == "42 bolts"
