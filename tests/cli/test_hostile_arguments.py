"""Every verb, with wrong, missing and hostile arguments: a sentence and an exit code, never a traceback."""

import socket
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import waypost
from tests.cli.desk import Borrowed
from tests.cli.test_json_everywhere import ALL
from waypost.cli import app, daemon

LONG = "x" * 100_000
TEXTS = {
    "nothing": "",
    "a space": " ",
    "a long one": LONG,
    "a NUL": "a\0b",
    "a new line": "a\nb",
    "an escape": "\x1b[31m\x07red",
    "bytes": "a\udcff\udc80b",
    "a surrogate": "\ud800",
    "a negative number": "-7",
    "a huge number": "9" * 400,
    "a fraction": "1e999",
    "not a number": "NaN",
    "infinity": "inf",
    "other digits": "٣²",
    "a path": "../../../../etc/passwd",
    "a folder": "/",
    "a format": "%s%n{0}{x!r}",
    "wide": "\u202e文字🎉",
    "a strange name": "DIRECT=OS:\\\\;;$",
    "an id": "{00000000-0000-0000-0000-000000000000}\\99999999999999999999",
}
# They start daemons, Java or thousands of simulations if their arguments are right; `serve` also waits for SIGTERM.
STARTS = {"serve", "demo", "bench", "sim", *(name for name in ALL if name.startswith("spark "))}
# They start a process for each folder that they look at.
SLOW = {"store backup", "store restore", "store salvage", "store verify"}
FEW = ("nothing", "a NUL", "bytes", "a folder")
CODES = (0, 1, 2, 3, 4)
CONNECT = daemon.connect


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[waypost.Manager]:
    with waypost.open(tmp_path_factory.mktemp("hostile") / "data", name="HOST") as found:
        found.create_queue("orders").send("a", label="\x1b[31mred\n")
        yield found


@pytest.fixture(autouse=True)
def _here(manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands talk to the queue manager of this process, and files are written where it does no harm."""
    monkeypatch.setattr(daemon, "connect", lambda _: Borrowed(manager, {}))
    monkeypatch.chdir(tmp_path)


def run(line: list[str]) -> Result:
    return CliRunner().invoke(app, line, prog_name="waypost", input=b"")


def check(result: Result, line: list[str]) -> None:
    shown = [word[:60] for word in line]
    assert result.exception is None or isinstance(result.exception, SystemExit), (shown, result.exception)
    assert result.exit_code in CODES, (shown, result.exit_code, result.stderr[:500])
    assert "Internal error" not in result.stderr, (shown, result.stderr[:500])
    assert "Traceback" not in result.stderr, (shown, result.stderr[:500])
    assert len(result.stderr) < 10_000, (shown, len(result.stderr))
    for text in (result.stdout, result.stderr):
        assert not {letter for letter in text if not letter.isprintable()} - {"\n", "\t"}, (shown, text[:500])
    if result.exit_code in (2, 3, 4) and not result.stderr.startswith("Usage: "):
        assert "\nhint: " in result.stderr, (shown, result.stderr[:500])


def texts_for(verb: str) -> list[str]:
    return [TEXTS[name] for name in FEW] if verb in SLOW else list(TEXTS.values())


def arguments_of(verb: str) -> list[Any]:
    return [each for each in ALL[verb].params if each.param_type_name == "argument" and each.required]


def options_of(verb: str) -> list[Any]:
    given = [each for each in ALL[verb].params if each.param_type_name == "option" and not each.is_flag]
    return [each for each in given if each.name not in ("url", "token", "cacert")]


def usual(verb: str) -> list[str]:
    """Words for the arguments that a verb wants, which do no harm."""
    words = {"file": "nothing-here", "to": "orders;later", "guid": "g", "address": "a", "target": "made"}
    return [words.get(each.name, "orders") for each in arguments_of(verb)]


@pytest.mark.parametrize("verb", [verb for verb in ALL if arguments_of(verb)])
def test_a_verb_without_its_arguments_says_which_it_wants(verb: str) -> None:
    line = verb.split()
    result = run(line)
    check(result, line)
    assert result.exit_code == 2


@pytest.mark.parametrize("verb", ALL)
def test_an_option_that_there_is_not_is_wrong_usage(verb: str) -> None:
    for option in ("--no-such-option", "-Z", "--=", f"--{LONG}", "--\x1b[31m", "---"):
        line = [*verb.split(), *usual(verb), option]
        result = run(line)
        check(result, line)
        assert result.exit_code == 2


@pytest.mark.parametrize("verb", ALL)
def test_an_option_without_its_value_is_wrong_usage(verb: str) -> None:
    for option in options_of(verb):
        line = [*verb.split(), *usual(verb), option.opts[0]]
        result = run(line)
        check(result, line)
        assert result.exit_code == 2


@pytest.mark.parametrize("verb", [verb for verb in ALL if verb not in STARTS])
def test_an_argument_can_be_anything(verb: str) -> None:
    for at, text in product(range(len(arguments_of(verb))), texts_for(verb)):
        words = usual(verb)
        words[at] = text
        line = [*verb.split(), "--", *words] if text.startswith("-") else [*verb.split(), *words]
        if "receive" in verb:
            line[1:1] = ["--timeout", "0"]
        check(run(line), line)


@pytest.mark.parametrize("verb", [verb for verb in ALL if verb not in STARTS])
def test_the_value_of_an_option_can_be_anything(verb: str) -> None:
    for option, text in product(options_of(verb), texts_for(verb)):
        line = [*verb.split(), *usual(verb), f"{option.opts[0]}={text}"]
        if verb == "receive" and option.name != "timeout":
            line.append("--timeout=0")
        if verb in ("receive", "peek") and option.name == "timeout" and text not in ("-7", "NaN"):
            # Somebody would wait.
            line = [*verb.split(), "nothing", f"--timeout={text}"]
        check(run(line), line)


@pytest.mark.parametrize("verb", sorted(STARTS))
def test_a_value_of_a_verb_that_starts_something_is_looked_at_first(verb: str) -> None:
    numbers = [each for each in options_of(verb) if each.type_descriptor.annotation in (int, float)]
    for option, text in product(numbers, ["a\0b", "\udcff", "\x1b[31m", "NaN", "", "9" * 5000]):
        line = [*verb.split(), *usual(verb), f"{option.opts[0]}={text}"]
        result = run(line)
        check(result, line)
        assert result.exit_code == 2


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_options_of_the_program_can_be_anything(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "connect", CONNECT)
    for option in ("--url", "--token", "--cacert"):
        line = ["--url=http://127.0.0.1:1", f"{option}={text}", "status"]
        result = run(line)
        check(result, line)
        assert result.exit_code in (2, 3)
    line = ["--url=https://127.0.0.1:1", f"--cacert={text}", "status"]
    check(run(line), line)


@pytest.mark.parametrize("verb", [verb for verb in ALL if verb not in STARTS])
def test_a_daemon_that_cannot_be_reached_is_said(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "connect", CONNECT)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        line = [f"--url=http://127.0.0.1:{taken.getsockname()[1]}", *verb.split(), *usual(verb)]
        result = run(line)
    check(result, line)
    if "context" in ALL[verb].callback.__code__.co_varnames and "url" in {each.name for each in ALL[verb].params}:
        assert result.exit_code in (2, 3)


@pytest.mark.parametrize("word", ["", "nonsense", LONG, "\x1b[31m", "a\0b", "\udcff", "-", "--", "queue\n"])
def test_a_verb_that_there_is_not_is_wrong_usage(word: str) -> None:
    for line in ([word], ["queue", word], ["spark", word]):
        result = run(line)
        check(result, line)
        assert result.exit_code == 2
