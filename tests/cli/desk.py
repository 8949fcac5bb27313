"""The command line on a queue manager in the process of the test.

It has the interface of the one that `waypost.connect` gives; what only a daemon answers is put into `answers` by the
test. A module that uses the fixture binds it to its own name.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from typer.testing import CliRunner, Result

import waypost
from waypost.api.operations import Explain
from waypost.api.records import record_of
from waypost.api.status import Check, Checks, Doctor
from waypost.cli import app, daemon
from waypost.client.transports.http.exchanges import exchange_of


class Borrowed:
    """A manager that stays open when a command is done with it."""

    def __init__(self, manager: waypost.Manager, answers: dict[tuple[str, str], Any]) -> None:
        self._manager = manager
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def explain(self, subject: str) -> waypost.Explanation:
        found = self._answers.get(("GET", exchange_of(Explain.of(subject)).target))
        return self._manager.explain(subject) if found is None else record_of(found, waypost.Explanation)

    def doctor(self) -> list[Check]:
        found = self._answers.get(("GET", exchange_of(Doctor()).target))
        return self._manager.doctor() if found is None else list(record_of(found, Checks).checks)


class Desk:
    """Runs commands, and knows the queue manager behind them."""

    def __init__(self, manager: waypost.Manager) -> None:
        self.manager = manager
        self.answers: dict[tuple[str, str], Any] = {}
        self.borrowed = Borrowed(manager, self.answers)

    def run(self, *arguments: str, given: bytes | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=given)

    def do(self, *arguments: str, given: bytes | None = None) -> str:
        """The standard output of a command that works."""
        result = self.run(*arguments, given=given)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.do(*arguments, "--json"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with waypost.open(tmp_path / "data", name="HOST") as manager:
        desk = Desk(manager)
        monkeypatch.setattr(daemon, "connect", lambda *_: desk.borrowed)
        yield desk
