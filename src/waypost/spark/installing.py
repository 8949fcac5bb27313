"""The command that installs an extra where this program runs, for hints."""

import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]


def command_for(extra: str, root: Path = _ROOT) -> str:
    """Return `make spark` in the virtual environment of a checkout, and a pip command in any other environment."""
    is_checkout = (root / "tools/setup.sh").is_file() and Path(sys.prefix).resolve() == (root / ".venv").resolve()
    return "make spark" if is_checkout else f"pip install 'waypost[{extra}]'"
