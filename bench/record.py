"""build/bench.json: the figures of the last run of each measurement, side by side."""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

RECORD: Final = Path(__file__).resolve().parents[1] / "build/bench.json"


def keep(figures: Mapping[str, Any]) -> None:
    """Write these figures, and leave those of the other measurements as they are."""
    RECORD.parent.mkdir(exist_ok=True)
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    RECORD.write_text(json.dumps({**kept, **figures}, indent=2) + "\n")


def setting() -> dict[str, str]:
    return {"python": platform.python_version(), "machine": platform.machine()}
