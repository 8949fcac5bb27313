"""The page of the configuration has every key. tests/test_reference.py compares the one in docs."""

from waypost.daemon.config import keys
from waypost.daemon.config_page import FLAGS, page


def test_every_key_is_on_it() -> None:
    text = page()
    assert [key.path for key in keys() if f"| `{key.name}` |" not in text] == []


def test_the_flags_belong_to_keys() -> None:
    assert set(FLAGS) <= {key.path for key in keys()}
