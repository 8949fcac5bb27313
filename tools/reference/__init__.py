"""The reference pages of the site, made of the code: `python -m tools.reference` writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.reference import cli_page, errors_page, http_page, metrics_page, python_page
from waypost.daemon import config_page

DOCS: Final = Path(__file__).parents[2] / "docs"

# From the path below docs to the page as the code gives it.
PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/cli.md": cli_page.page,
    "config.md": config_page.page,
    "reference/http.md": http_page.page,
    "reference/python.md": python_page.page,
    "reference/aio.md": python_page.aio_page,
    "metrics.md": metrics_page.page,
    "reference/errors.md": errors_page.page,
}
COMMAND: Final = ".venv/bin/python -m tools.reference"


def write() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(page(), encoding="utf-8")
