"""The site builds without a warning, loads nothing from elsewhere, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

DOCS = Path(__file__).parents[1] / "docs"
# Files that a browser fetches without being asked.
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"|<link\b[^>]*\bhref=\"([^\"]*)\"")
LINK = re.compile(r"<a\b[^>]*\bhref=\"([^\"]*)\"")
IDENTIFIER = re.compile(r"\bid=\"([^\"]*)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(folder / "cache")]
    done = subprocess.run([*command, str(DOCS), str(folder / "html")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def pages(site: Path) -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_every_document_is_a_page(site: Path) -> None:
    names = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert names <= {path.relative_to(site) for path in pages(site)}


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = [(path.name, a or b) for path, text in pages(site).items() for a, b in LOADED.findall(text)]
    assert found
    assert [(name, url) for name, url in found if urlsplit(url).scheme or urlsplit(url).netloc] == []
    styles = [path for path in site.rglob("*.css") if re.search(r"url\(['\"]?https?:|@import", path.read_text("utf-8"))]
    assert styles == []


def test_every_link_within_the_site_leads_to_a_page_and_a_place_on_it(site: Path) -> None:
    texts = pages(site)
    identifiers = {path: set(IDENTIFIER.findall(text)) for path, text in texts.items()}
    broken = []
    for path, text in texts.items():
        for url in LINK.findall(text):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_there = target.exists() and (target.suffix != ".html" or target in identifiers)
            if not is_there or (parts.fragment and parts.fragment not in identifiers.get(target, {parts.fragment})):
                broken.append((path.name, url))
    assert broken == []
