"""docs/config.md describes every key, as the code has it."""

from pathlib import Path

from waypost.daemon.config import keys
from waypost.daemon.config_page import FLAGS, page

PAGE = Path(__file__).parents[2] / "docs/config.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "generate it again: .venv/bin/python -m waypost.daemon.config_page docs/config.md"
    )


def test_every_key_is_on_it() -> None:
    text = page()
    assert [key.path for key in keys() if f"| `{key.name}` |" not in text] == []


def test_the_flags_belong_to_keys() -> None:
    assert set(FLAGS) <= {key.path for key in keys()}
