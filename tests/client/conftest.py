from collections.abc import Iterator
from pathlib import Path

import pytest

import waypost
from tests.client.managers import opened


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[waypost.Manager]:
    with opened(tmp_path / "data") as manager:
        yield manager


@pytest.fixture
def orders(manager: waypost.Manager) -> waypost.Queue:
    return manager.create_queue("orders")


@pytest.fixture
def ledger(manager: waypost.Manager) -> waypost.Queue:
    """A transactional queue."""
    return manager.create_queue("ledger", transactional=True)
