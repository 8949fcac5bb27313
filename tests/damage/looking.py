"""`python -m tests.damage.looking FOLDER`: open a folder that may be damaged and print what there is, as JSON."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.damage.folders import Look, inventory
from waypost.errors import WaypostError

if __name__ == "__main__":
    try:
        seen = Look(inventory(Path(sys.argv[1])))
    except WaypostError as error:
        seen = Look(error=f"{type(error).__name__}: {error}")
    print(json.dumps(asdict(seen)))
